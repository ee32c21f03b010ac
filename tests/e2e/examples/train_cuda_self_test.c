/* The comparison. See train_cuda_self_test.h.
 *
 * Both sides get the same inputs: multiples of 1/64 between -2 and 2, which float16 holds exactly
 * and many of which are equal, so that ties occur too. */
#include "train_cuda_self_test.h"

#include "client/examples/train_cuda/net.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIDES = 2 };

struct test {
	struct ops *ops[SIDES]; /* the device, the host */
	FILE *out;
	uint64_t state; /* of draw */
	unsigned failures, compared;
};

/* One tensor on both sides. */
struct two {
	void *at[SIDES];
	size_t count;
};

/* A convolution or normalization on both sides. */
struct two_conv {
	struct conv *at[SIDES];
};

struct two_norm {
	struct norm *at[SIDES];
};

static void *host_new(size_t bytes)
{
	void *memory = calloc(1, bytes ? bytes : 1);

	if (!memory) {
		fprintf(stderr, "train_cuda: no memory on the host\n");
		exit(1);
	}
	return memory;
}

/* SplitMix64, as in net.c. */
static uint64_t draw(struct test *test)
{
	uint64_t x = test->state += 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static float *draw_many(struct test *test, size_t count)
{
	float *values = host_new(count * sizeof(float));

	for (size_t i = 0; i < count; i++)
		values[i] = (float)((int)(draw(test) % 257) - 128) / 64;
	return values;
}

/* ---- tensors ---- */

static struct two float_empty(struct test *test, size_t count)
{
	struct two two = {.count = count};

	for (int side = 0; side < SIDES; side++)
		two.at[side] = test->ops[side]->allocate(test->ops[side], count * sizeof(float));
	return two;
}

static struct two half_empty(struct test *test, size_t count)
{
	struct two two = {.count = count};

	for (int side = 0; side < SIDES; side++)
		two.at[side] = test->ops[side]->allocate(
			test->ops[side], count * test->ops[side]->half_bytes);
	return two;
}

static struct two bytes_empty(struct test *test, size_t count)
{
	struct two two = {.count = count};

	for (int side = 0; side < SIDES; side++)
		two.at[side] = test->ops[side]->allocate(test->ops[side], count);
	return two;
}

static void two_put(struct test *test, struct two two, const void *from, size_t bytes)
{
	for (int side = 0; side < SIDES; side++)
		test->ops[side]->put(test->ops[side], two.at[side], from, bytes);
}

static void two_free(struct test *test, struct two two)
{
	for (int side = 0; side < SIDES; side++)
		test->ops[side]->release(test->ops[side], two.at[side]);
}

static struct two float_of(struct test *test, const float *values, size_t count)
{
	struct two two = float_empty(test, count);

	two_put(test, two, values, count * sizeof(float));
	return two;
}

static struct two half_of(struct test *test, const float *values, size_t count)
{
	struct two floats = float_of(test, values, count), halves = half_empty(test, count);

	for (int side = 0; side < SIDES; side++)
		test->ops[side]->to_half(test->ops[side], halves.at[side], floats.at[side], count);
	two_free(test, floats);
	return halves;
}

static struct two float_random(struct test *test, size_t count)
{
	float *values = draw_many(test, count);
	struct two two = float_of(test, values, count);

	free(values);
	return two;
}

static struct two half_random(struct test *test, size_t count)
{
	float *values = draw_many(test, count);
	struct two two = half_of(test, values, count);

	free(values);
	return two;
}

/* ---- comparing ---- */

static void verdict(
	struct test *test, const char *what, double difference, double greatest, double allowed)
{
	/* Written so that NaN fails. */
	bool good = difference <= allowed * greatest;

	test->compared++;
	test->failures += !good;
	fprintf(test->out, "%-6s %-42s differs by %.3g, greatest %.3g, allowed %.3g\n",
		good ? "ok" : "FAILED", what, difference, greatest, allowed * greatest);
}

static void compare_hosts(struct test *test, const char *what, float *const values[SIDES],
	size_t count, double allowed)
{
	double difference = 0, greatest = 0;

	for (size_t i = 0; i < count; i++) {
		double here = fabs((double)values[0][i] - (double)values[1][i]);
		greatest = fmax(greatest, fabs((double)values[1][i]));
		/* fmax ignores NaN. */
		difference = here <= difference ? difference : here;
		if (isnan(here))
			break;
	}
	verdict(test, what, difference, greatest, allowed);
}

static void compare_float(struct test *test, const char *what, struct two two, double allowed)
{
	float *values[SIDES];

	for (int side = 0; side < SIDES; side++) {
		values[side] = host_new(two.count * sizeof(float));
		test->ops[side]->get(
			test->ops[side], values[side], two.at[side], two.count * sizeof(float));
	}
	compare_hosts(test, what, values, two.count, allowed);
	for (int side = 0; side < SIDES; side++)
		free(values[side]);
}

static void compare_half(struct test *test, const char *what, struct two two, double allowed)
{
	struct two floats = float_empty(test, two.count);

	for (int side = 0; side < SIDES; side++)
		test->ops[side]->to_float(
			test->ops[side], floats.at[side], two.at[side], two.count);
	compare_float(test, what, floats, allowed);
	two_free(test, floats);
}

static void compare_bytes(struct test *test, const char *what, struct two two)
{
	unsigned char *bytes[SIDES];
	size_t differ = 0;

	for (int side = 0; side < SIDES; side++) {
		bytes[side] = host_new(two.count);
		test->ops[side]->get(test->ops[side], bytes[side], two.at[side], two.count);
	}
	for (size_t i = 0; i < two.count; i++)
		differ += bytes[0][i] != bytes[1][i];
	verdict(test, what, (double)differ, (double)two.count, 0);
	for (int side = 0; side < SIDES; side++)
		free(bytes[side]);
}

/* ---- memory and casts ---- */

static void test_memory(struct test *test)
{
	float rough[64];
	struct two all = float_empty(test, 64), halves;

	compare_float(test, "memory: zeroed at first", all, 0);
	for (int i = 0; i < 64; i++)
		rough[i] = ((float)i - 30.5f) * 0.1234567f;
	two_put(test, all, rough, sizeof(rough));
	compare_float(test, "memory: there and back", all, 0);
	halves = half_of(test, rough, 64);
	compare_half(test, "casts: float to half", halves, SELF_TEST_HALF / 4);
	for (int side = 0; side < SIDES; side++)
		test->ops[side]->zero(test->ops[side], all.at[side], 32 * sizeof(float));
	compare_float(test, "memory: the first half zeroed", all, 0);
	for (int side = 0; side < SIDES; side++)
		test->ops[side]->copy(test->ops[side], all.at[side], (float *)all.at[side] + 32,
			32 * sizeof(float));
	compare_float(test, "memory: the second half copied", all, 0);
	two_free(test, all);
	two_free(test, halves);
}

/* ---- convolutions ---- */

struct conv_case {
	const char *name[3];
	struct ops_conv shape;
};

static void test_conv(struct test *test, const struct conv_case *one)
{
	const struct ops_conv *shape = &one->shape;
	size_t outputs = (size_t)shape->n * ops_conv_out(shape, shape->h) *
			 ops_conv_out(shape, shape->w) * shape->k;
	struct two x = half_random(test, (size_t)shape->n * shape->h * shape->w * shape->c);
	struct two w =
		half_random(test, (size_t)shape->k * shape->kernel * shape->kernel * shape->c);
	struct two dy = half_random(test, outputs), y = half_empty(test, outputs);
	struct two dx = half_empty(test, x.count), dw = half_empty(test, w.count);
	struct two_conv conv;

	for (int side = 0; side < SIDES; side++) {
		struct ops *ops = test->ops[side];
		conv.at[side] = ops->conv_new(ops, shape);
		ops->conv_forward(ops, conv.at[side], x.at[side], w.at[side], y.at[side]);
		ops->conv_backward_data(ops, conv.at[side], w.at[side], dy.at[side], dx.at[side]);
		ops->conv_backward_filter(ops, conv.at[side], x.at[side], dy.at[side], dw.at[side]);
	}
	compare_half(test, one->name[0], y, SELF_TEST_CONV);
	compare_half(test, one->name[1], dx, SELF_TEST_CONV);
	compare_half(test, one->name[2], dw, SELF_TEST_CONV);
	for (int side = 0; side < SIDES; side++)
		test->ops[side]->conv_free(test->ops[side], conv.at[side]);
	struct two all[] = {x, w, dy, y, dx, dw};
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		two_free(test, all[i]);
}

#define CONV_NAMES(what)                                                       \
	{                                                                      \
		"convolution " what ": forward", "convolution " what ": data", \
			"convolution " what ": filter"                         \
	}

static void test_convs(struct test *test)
{
	static const struct conv_case cases[] = {
		{CONV_NAMES("3x3"), {.n = 3,
					    .h = 12,
					    .w = 12,
					    .c = 16,
					    .k = 24,
					    .kernel = 3,
					    .stride = 1,
					    .pad = 1}},
		{CONV_NAMES("3x3 by 2, odd"), {.n = 2,
						      .h = 13,
						      .w = 11,
						      .c = 8,
						      .k = 16,
						      .kernel = 3,
						      .stride = 2,
						      .pad = 1}},
		{CONV_NAMES("1x1 by 2"),
			{.n = 2, .h = 14, .w = 14, .c = 32, .k = 64, .kernel = 1, .stride = 2}},
		{CONV_NAMES("7x7 by 2"), {.n = 2,
						 .h = 16,
						 .w = 16,
						 .c = 8,
						 .k = 64,
						 .kernel = 7,
						 .stride = 2,
						 .pad = 3}},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		test_conv(test, &cases[i]);
}

/* ---- normalization ---- */

static void test_norm(struct test *test)
{
	struct ops_map map = {.n = 6, .h = 7, .w = 5, .c = 24};
	size_t count = (size_t)map.n * map.h * map.w * map.c;
	struct two x = half_random(test, count), dy = half_random(test, count);
	struct two y = half_empty(test, count), inferred = half_empty(test, count);
	struct two dx = half_empty(test, count), scale = float_random(test, map.c);
	struct two shift = float_random(test, map.c), mean = float_random(test, map.c);
	struct two variance = float_empty(test, map.c);
	struct two d_scale = float_empty(test, map.c), d_shift = float_empty(test, map.c);
	struct two_norm norm;

	for (int side = 0; side < SIDES; side++) {
		struct ops *ops = test->ops[side];
		struct ops_norm_values values = {
			scale.at[side], shift.at[side], mean.at[side], variance.at[side]};
		norm.at[side] = ops->norm_new(ops, &map);
		ops->norm_forward(ops, norm.at[side], &values, x.at[side], y.at[side]);
		ops->norm_backward(ops, norm.at[side], scale.at[side], x.at[side], dy.at[side],
			dx.at[side], d_scale.at[side], d_shift.at[side]);
		ops->norm_infer(ops, norm.at[side], &values, x.at[side], inferred.at[side]);
	}
	compare_half(test, "normalization: forward", y, SELF_TEST_HALF);
	compare_float(test, "normalization: running mean", mean, SELF_TEST_FLOAT);
	compare_float(test, "normalization: running variance", variance, SELF_TEST_FLOAT);
	compare_half(test, "normalization: inference", inferred, SELF_TEST_HALF);
	compare_half(test, "normalization: backward", dx, SELF_TEST_HALF);
	compare_float(test, "normalization: gradient of the scale", d_scale, SELF_TEST_FLOAT);
	compare_float(test, "normalization: gradient of the shift", d_shift, SELF_TEST_FLOAT);
	for (int side = 0; side < SIDES; side++)
		test->ops[side]->norm_free(test->ops[side], norm.at[side]);
	struct two all[] = {x, dy, y, inferred, dx, scale, shift, mean, variance, d_scale, d_shift};
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		two_free(test, all[i]);
}

/* ---- elementwise ---- */

typedef void two_fn(struct ops *ops, void *y, const void *x, size_t count);

static void test_pair(struct test *test, const char *what, size_t which, size_t count)
{
	struct two y = half_random(test, count), x = half_random(test, count);

	for (int side = 0; side < SIDES; side++) {
		struct ops *ops = test->ops[side];
		two_fn *function;
		memcpy(&function, (char *)ops + which, sizeof(function));
		function(ops, y.at[side], x.at[side], count);
	}
	compare_half(test, what, y, SELF_TEST_HALF);
	two_free(test, y);
	two_free(test, x);
}

static void test_elementwise(struct test *test)
{
	size_t count = 8 * 5003;
	struct two y = half_random(test, count), from = half_random(test, (size_t)3 * 1001);
	struct two wide = half_random(test, (size_t)OPS_PACK * 1001);

	test_pair(test, "add", offsetof(struct ops, add), count);
	test_pair(test, "add_relu", offsetof(struct ops, add_relu), count);
	test_pair(test, "relu_backward", offsetof(struct ops, relu_backward), count);
	for (int side = 0; side < SIDES; side++) {
		struct ops *ops = test->ops[side];
		ops->relu(ops, y.at[side], count);
		ops->widen(ops, wide.at[side], from.at[side], 1001);
	}
	compare_half(test, "relu", y, 0);
	compare_half(test, "widen", wide, 0);
	two_free(test, y);
	two_free(test, from);
	two_free(test, wide);
}

/* ---- pooling ---- */

static void test_pool(struct test *test, unsigned h, unsigned w)
{
	struct ops_map map = {.n = 3, .h = h, .w = w, .c = 16};
	size_t outputs = (size_t)map.n * ((h + 1) / 2) * ((w + 1) / 2) * map.c;
	struct two x = half_random(test, (size_t)map.n * h * w * map.c);
	struct two y = half_empty(test, outputs), dy = half_random(test, outputs);
	struct two dx = half_random(test, x.count), taken = bytes_empty(test, outputs);

	for (int side = 0; side < SIDES; side++) {
		struct ops *ops = test->ops[side];
		ops->pool_forward(ops, &map, x.at[side], y.at[side], taken.at[side]);
		ops->pool_backward(ops, &map, dy.at[side], taken.at[side], dx.at[side]);
	}
	compare_half(test, "pooling: forward", y, 0);
	compare_bytes(test, "pooling: which was taken", taken);
	compare_half(test, "pooling: backward", dx, SELF_TEST_HALF);
	struct two all[] = {x, y, dy, dx, taken};
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		two_free(test, all[i]);
}

static void test_mean(struct test *test)
{
	struct ops_map map = {.n = 5, .h = 7, .w = 6, .c = 40};
	struct two x = half_random(test, (size_t)map.n * map.h * map.w * map.c);
	struct two y = half_empty(test, (size_t)map.n * map.c), dx = half_empty(test, x.count);

	for (int side = 0; side < SIDES; side++) {
		struct ops *ops = test->ops[side];
		ops->mean_forward(ops, &map, x.at[side], y.at[side]);
		ops->mean_backward(ops, &map, x.at[side], dx.at[side]);
	}
	compare_half(test, "mean: forward", y, SELF_TEST_HALF);
	compare_half(test, "mean: backward", dx, SELF_TEST_HALF);
	two_free(test, x);
	two_free(test, y);
	two_free(test, dx);
}

/* ---- matrices, bias, loss ---- */

static void test_gemm(struct test *test, const char *what, const struct ops_gemm *shape, bool wide)
{
	size_t count = (size_t)shape->m * shape->n;
	struct two a = half_random(test, (size_t)shape->m * shape->k);
	struct two b = half_random(test, (size_t)shape->k * shape->n);
	struct two c = wide ? float_empty(test, count) : half_empty(test, count);

	for (int side = 0; side < SIDES; side++)
		test->ops[side]->gemm(
			test->ops[side], shape, a.at[side], b.at[side], c.at[side], wide);
	if (wide)
		compare_float(test, what, c, SELF_TEST_FLOAT);
	else
		compare_half(test, what, c, SELF_TEST_HALF);
	two_free(test, a);
	two_free(test, b);
	two_free(test, c);
}

static void test_gemms(struct test *test)
{
	test_gemm(test, "matrices: A B', wide",
		&(struct ops_gemm){.m = 24, .n = 10, .k = 64, .b_transposed = true}, true);
	test_gemm(test, "matrices: A' B",
		&(struct ops_gemm){.m = 10, .n = 64, .k = 24, .a_transposed = true}, false);
	test_gemm(test, "matrices: A B", &(struct ops_gemm){.m = 24, .n = 64, .k = 10}, false);
	test_gemm(test, "matrices: A B', wide, odd",
		&(struct ops_gemm){.m = 13, .n = 7, .k = 40, .b_transposed = true}, true);
}

static void test_bias(struct test *test)
{
	unsigned rows = 19, columns = 333;
	struct two y = float_random(test, (size_t)rows * columns);
	struct two bias = float_random(test, columns), d_bias = float_empty(test, columns);
	struct two dy = half_random(test, (size_t)rows * columns);

	for (int side = 0; side < SIDES; side++) {
		struct ops *ops = test->ops[side];
		ops->bias(ops, y.at[side], bias.at[side], rows, columns);
		ops->bias_backward(ops, d_bias.at[side], dy.at[side], rows, columns);
	}
	compare_float(test, "bias", y, SELF_TEST_FLOAT);
	compare_float(test, "bias: backward", d_bias, SELF_TEST_FLOAT);
	struct two all[] = {y, bias, d_bias, dy};
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		two_free(test, all[i]);
}

/* Targets as MixUp leaves them: two classes share each row; the third row has none. */
static struct two draw_targets(struct test *test, unsigned rows, unsigned classes)
{
	float *targets = host_new((size_t)rows * classes * sizeof(float));
	struct two two;

	for (unsigned row = 0; row < rows; row++) {
		if (row == 2)
			continue;
		targets[row * classes + draw(test) % classes] += 0.75f;
		targets[row * classes + draw(test) % classes] += 0.25f;
	}
	two = float_of(test, targets, (size_t)rows * classes);
	free(targets);
	return two;
}

static void compare_metrics(struct test *test, const char *what, struct two metrics)
{
	struct ops_metrics sums[SIDES];
	bool counted;

	for (int side = 0; side < SIDES; side++)
		test->ops[side]->get(
			test->ops[side], &sums[side], metrics.at[side], sizeof(sums[side]));
	counted = sums[0].right == sums[1].right && sums[0].rows == sums[1].rows;
	verdict(test, what, counted ? fabs(sums[0].loss - sums[1].loss) : NAN, sums[1].loss,
		SELF_TEST_FLOAT);
}

static struct two scaler_of(struct test *test, const struct ops_scaler *value)
{
	struct two two = bytes_empty(test, sizeof(*value));

	two_put(test, two, value, sizeof(*value));
	return two;
}

static void test_loss(struct test *test, unsigned rows, unsigned classes)
{
	size_t count = (size_t)rows * classes;
	struct ops_scaler scale = {.scale = 128};
	struct two logits = float_random(test, count), targets = draw_targets(test, rows, classes);
	struct two scratch = float_empty(test, (size_t)2 * rows);
	struct two gradients = half_random(test, count), scaler = scaler_of(test, &scale);
	struct two metrics = bytes_empty(test, sizeof(struct ops_metrics));

	for (int side = 0; side < SIDES; side++) {
		struct ops_loss loss = {.rows = rows,
			.classes = classes,
			.count = rows - 1,
			.logits = logits.at[side],
			.targets = targets.at[side],
			.scratch = scratch.at[side],
			.gradients = gradients.at[side],
			.scaler = scaler.at[side],
			.metrics = metrics.at[side]};
		test->ops[side]->loss(test->ops[side], &loss);
		loss.gradients = NULL;
		test->ops[side]->loss(test->ops[side], &loss); /* adds to the metrics */
	}
	compare_half(test, "loss: gradients", gradients, SELF_TEST_HALF);
	compare_metrics(test, "loss: sums", metrics);
	struct two all[] = {logits, targets, scratch, gradients, scaler, metrics};
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		two_free(test, all[i]);
}

/* ---- the step ---- */

static void test_check(struct test *test, const char *what, float odd, size_t at)
{
	enum { COUNT = 8 * 4099 };
	struct ops_scaler none = {.scale = 1};
	float *values = draw_many(test, COUNT);
	struct two scaler = scaler_of(test, &none), other = scaler_of(test, &none);
	struct two floats, halves;

	values[at] = odd;
	floats = float_of(test, values, COUNT);
	halves = half_of(test, values, COUNT);
	for (int side = 0; side < SIDES; side++) {
		struct ops *ops = test->ops[side];
		ops->check_half(ops, halves.at[side], COUNT, scaler.at[side]);
		ops->check_float(ops, floats.at[side], COUNT, other.at[side]);
	}
	compare_bytes(test, what, scaler);
	compare_bytes(test, what, other);
	struct two all[] = {scaler, other, floats, halves};
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		two_free(test, all[i]);
	free(values);
}

static void test_sgd(struct test *test, uint32_t overflow)
{
	enum { COUNT = 8 * 1031 };
	struct ops_sgd how = {.rate = 0.125f, .momentum = 0.875f, .decay = 0.0625f};
	struct ops_scaler scale = {.scale = 16, .overflow = overflow};
	struct two weights = float_random(test, COUNT), momentum = float_random(test, COUNT);
	struct two gradients = half_random(test, COUNT), copy = half_empty(test, COUNT);
	struct two plain = float_random(test, COUNT), scaler = scaler_of(test, &scale);

	for (int side = 0; side < SIDES; side++) {
		struct ops *ops = test->ops[side];
		ops->sgd_half(ops, &how, weights.at[side], momentum.at[side], gradients.at[side],
			copy.at[side], COUNT, scaler.at[side]);
	}
	compare_float(test, "sgd: half gradients, weights", weights, SELF_TEST_FLOAT);
	compare_float(test, "sgd: half gradients, momentum", momentum, SELF_TEST_FLOAT);
	compare_half(test, "sgd: half gradients, copy", copy, SELF_TEST_HALF);
	for (int side = 0; side < SIDES; side++) {
		struct ops *ops = test->ops[side];
		ops->sgd_float(ops, &how, weights.at[side], momentum.at[side], plain.at[side],
			COUNT, scaler.at[side]);
	}
	compare_float(test, "sgd: float gradients, weights", weights, SELF_TEST_FLOAT);
	compare_float(test, "sgd: float gradients, momentum", momentum, SELF_TEST_FLOAT);
	struct two all[] = {weights, momentum, gradients, copy, plain, scaler};
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		two_free(test, all[i]);
}

static void test_rescale(struct test *test, const char *what, const struct ops_scaler *before)
{
	struct two scaler = scaler_of(test, before);

	for (int side = 0; side < SIDES; side++)
		test->ops[side]->rescale(test->ops[side], scaler.at[side]);
	compare_bytes(test, what, scaler);
	two_free(test, scaler);
}

static void test_step(struct test *test)
{
	test_check(test, "check: all finite", 1, 5);
	test_check(test, "check: infinite", -INFINITY, 0);
	test_check(test, "check: NaN", NAN, (size_t)8 * 4099 - 1);
	test_sgd(test, 0);
	test_sgd(test, 1);
	test_rescale(test, "rescale: a good step", &(struct ops_scaler){.scale = 1024, .good = 5});
	test_rescale(test, "rescale: many good steps",
		&(struct ops_scaler){.scale = 1024, .good = OPS_SCALE_AFTER - 1});
	test_rescale(test, "rescale: the greatest scale",
		&(struct ops_scaler){.scale = OPS_SCALE_MOST, .good = OPS_SCALE_AFTER - 1});
	test_rescale(test, "rescale: overflow",
		&(struct ops_scaler){.scale = 1024, .good = 5, .overflow = 1, .skipped = 2});
	test_rescale(test, "rescale: the least scale",
		&(struct ops_scaler){.scale = 1, .good = 5, .overflow = 1});
}

/* ---- all together ---- */

/* A step of a small network. Returns its loss and leaves its gradients in the momentum, to which
 * the first step sets it. */
static double net_once(struct test *test, int side, const struct net_shape *shape,
	const float *pixels, const float *targets, float **ret_gradients, size_t *ret_count)
{
	struct ops *ops = test->ops[side];
	struct net *net = net_new(ops, shape, 1);
	size_t count = (size_t)shape->batch * shape->side * shape->side * 3;
	float *images = ops->allocate(ops, count * sizeof(float));
	struct net_part parts[NET_PARTS];
	struct ops_metrics metrics;

	ops->begin(ops, 0.001);
	ops->put(ops, images, pixels, count * sizeof(float));
	ops->to_half(ops, net_images(net), images, count);
	ops->put(ops, net_targets(net), targets,
		(size_t)shape->batch * shape->classes * sizeof(float));
	net_learn(net, shape->batch);
	net_step(net, &(struct ops_sgd){.rate = 0.1f, .momentum = 0.9f});
	ops->end(ops);
	net_take_metrics(net, &metrics);
	net_parts(net, parts);
	*ret_gradients = host_new(parts[1].bytes);
	*ret_count = parts[1].bytes / sizeof(float);
	ops->get(ops, *ret_gradients, parts[1].memory, parts[1].bytes);
	ops->release(ops, images);
	net_free(net);
	return metrics.loss / (double)metrics.rows;
}

static double cosine(float *const vectors[SIDES], size_t count)
{
	double product = 0, squares[SIDES] = {0, 0};

	for (size_t i = 0; i < count; i++) {
		product += (double)vectors[0][i] * vectors[1][i];
		for (int side = 0; side < SIDES; side++)
			squares[side] += (double)vectors[side][i] * vectors[side][i];
	}
	return product / sqrt(squares[0] * squares[1]);
}

static void test_net(struct test *test, unsigned batch, unsigned side_pixels)
{
	struct net_shape shape = {
		.batch = batch, .side = side_pixels, .width = 8, .blocks = 1, .classes = 5};
	float *pixels = draw_many(test, (size_t)shape.batch * shape.side * shape.side * 3);
	float *targets = host_new((size_t)shape.batch * shape.classes * sizeof(float));
	float *gradients[SIDES];
	double loss[SIDES];
	size_t count = 0;

	for (unsigned row = 0; row < shape.batch; row++)
		targets[row * shape.classes + draw(test) % shape.classes] = 1;
	for (int side = 0; side < SIDES; side++)
		loss[side] =
			net_once(test, side, &shape, pixels, targets, &gradients[side], &count);
	verdict(test, "a network: loss", fabs(loss[0] - loss[1]), loss[1], SELF_TEST_NET);
	verdict(test, "a network: direction of the gradients", 1 - cosine(gradients, count), 1,
		SELF_TEST_NET);
	for (int side = 0; side < SIDES; side++)
		free(gradients[side]);
	free(pixels);
	free(targets);
}

static void test_clock(struct test *test)
{
	struct ops *device = test->ops[0];
	double before = device->idle_s(device), after;

	for (int i = 0; i < 200; i++) {
		device->begin(device, 1e-9);
		device->end(device);
	}
	after = device->idle_s(device);
	verdict(test, "clock: idle no longer than the host waited",
		after >= before ? after - before : NAN, 200e-9, 1 + 1e-6);
}

static void test_functions(struct test *test)
{
	test_memory(test);
	test_convs(test);
	test_norm(test);
	test_elementwise(test);
	test_pool(test, 8, 10);
	test_pool(test, 9, 7);
	test_mean(test);
	test_gemms(test);
	test_bias(test);
	test_loss(test, 6, 5);
	test_loss(test, 5, 1000);
	test_step(test);
	test_clock(test);
}

unsigned self_test_functions(struct ops *device, struct ops *host, FILE *out)
{
	struct test test = {.ops = {device, host}, .out = out};

	test_functions(&test);
	return test.failures;
}

unsigned self_test(struct ops *device, struct ops *host, FILE *out)
{
	struct test test = {.ops = {device, host}, .out = out};

	test_functions(&test);
	test_net(&test, 16, 16);
	test_net(&test, 2, NET_LARGE);
	fprintf(out, "%u comparisons of the %s with the %s, %u failed\n", test.compared,
		device->name, host->name, test.failures);
	return test.failures;
}

/* train_cuda without a GPU: its network, step, schedule and self-test on the host's twin of the
 * GPU (train_cuda_host.c). train_cuda_self_test compares what the GPU computes with that twin. */
#include "client/examples/train_cuda/net.h"
#include "client/examples/train_cuda/schedule.h"
#include "train_cuda_host.h"
#include "train_cuda_self_test.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- a task: pictures whose class is told by which channel is bright ---- */

static uint64_t mix64(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static float noise(uint64_t at)
{
	return (float)(mix64(at) % 2001) / 1000 - 1;
}

static void fill(struct ops *ops, struct net *net, const struct net_shape *shape, uint64_t seed)
{
	size_t row = (size_t)shape->side * shape->side * 3;
	float *pixels = malloc(shape->batch * row * sizeof(float));
	float *targets = calloc((size_t)shape->batch * shape->classes, sizeof(float));

	assert_non_null(pixels);
	assert_non_null(targets);
	for (size_t i = 0; i < shape->batch; i++) {
		unsigned class = (unsigned)(mix64(seed * 1000 + i) % shape->classes);
		targets[i * shape->classes + class] = 1;
		for (size_t j = 0; j < row; j++)
			pixels[i * row + j] =
				noise(seed << 32 | (i * row + j)) + (j % 3 == class % 3 ? 1.0f : 0);
	}
	ops->to_half(ops, net_images(net), pixels, shape->batch * row);
	ops->put(ops, net_targets(net), targets,
		(size_t)shape->batch * shape->classes * sizeof(float));
	free(pixels);
	free(targets);
}

static double loss_of(struct net *net)
{
	struct ops_metrics metrics;

	net_take_metrics(net, &metrics);
	return metrics.loss / (double)metrics.rows;
}

static void set_scale(struct ops *ops, struct net *net, float scale)
{
	struct net_part parts[NET_PARTS];
	struct ops_scaler scaler = {.scale = scale};

	net_parts(net, parts);
	ops->put(ops, parts[3].memory, &scaler, sizeof(scaler));
}

/* ---- gradients ---- */

struct gradients {
	struct ops *ops;
	struct net *net;
	struct net_shape shape;
	struct net_part parts[NET_PARTS];
	size_t count;
	float *weights, *gradient;
};

static double loss_at(struct gradients *all, const float *direction, double step)
{
	float *moved = all->parts[0].memory;

	for (size_t i = 0; i < all->count; i++)
		moved[i] = (float)((double)all->weights[i] + step * direction[i]);
	net_refresh(all->net);
	net_learn(all->net, all->shape.batch);
	return loss_of(all->net);
}

/* The loss's slope along a direction, by differences, against what the gradient says. The
 * direction is the gradient itself within [from, to), where the slope is steepest. */
static void check_slope(struct gradients *all, size_t from, size_t to)
{
	float *direction;
	double square = 0, step, slope;

	direction = calloc(all->count + 1, sizeof(float));
	assert_non_null(direction);
	for (size_t i = from; i < to; i++)
		square += (double)all->gradient[i] * all->gradient[i];
	if (square == 0) {
		free(direction);
		return;
	}
	for (size_t i = from; i < to; i++)
		direction[i] = (float)(all->gradient[i] / sqrt(square));
	/* Small enough that few units change sides of their kink. */
	step = 2e-4;
	slope = (loss_at(all, direction, step) - loss_at(all, direction, -step)) / (2 * step);
	if (fabs(slope - sqrt(square)) > 0.02 * sqrt(square) + 1e-4)
		fail_msg(
			"weights %zu to %zu: slope %g, gradient %g", from, to, slope, sqrt(square));
	free(direction);
}

/* The first step's momentum is the gradient, unscaled: the step itself is under test here too. */
static void take_gradient(struct gradients *all)
{
	struct ops_sgd how = {.rate = 0};

	net_learn(all->net, all->shape.batch);
	(void)loss_of(all->net);
	net_step(all->net, &how);
	memcpy(all->gradient, all->parts[1].memory, all->count * sizeof(float));
	memcpy(all->weights, all->parts[0].memory, all->count * sizeof(float));
}

static void no_conv(struct ops *ops, struct conv *conv, const void *a, const void *b, void *c)
{
	(void)ops;
	(void)conv;
	(void)a;
	(void)b;
	(void)c;
}

static void check_gradients(const struct net_shape *shape, unsigned pieces)
{
	struct gradients all = {.shape = *shape, .ops = ops_cpu_open()};
	size_t known = 0;

	all.net = net_new(all.ops, shape, 7);
	net_parts(all.net, all.parts);
	all.count = all.parts[0].bytes / sizeof(float);
	all.weights = malloc(all.parts[0].bytes);
	all.gradient = malloc(all.parts[0].bytes);
	assert_non_null(all.weights);
	assert_non_null(all.gradient);
	set_scale(all.ops, all.net, 64); /* overflow is another test */
	fill(all.ops, all.net, shape, 3);
	take_gradient(&all);
	/* From here on only the loss is compared. */
	all.ops->conv_backward_data = all.ops->conv_backward_filter = no_conv;
	for (size_t i = 0; i < all.count; i++)
		known += all.gradient[i] != 0;
	if (known < net_parameters(all.net) * 9 / 10)
		fail_msg("%zu of %zu weights have a gradient", known, net_parameters(all.net));
	check_slope(&all, 0, all.count);
	for (size_t i = 0; i < pieces; i++)
		check_slope(&all, all.count * i / pieces, all.count * (i + 1) / pieces);
	free(all.weights);
	free(all.gradient);
	net_free(all.net);
	all.ops->close(all.ops);
}

static void test_gradients_small(void **state)
{
	(void)state;
	check_gradients(
		&(struct net_shape){.batch = 4, .side = 16, .width = 8, .blocks = 1, .classes = 5},
		60);
}

/* Two blocks per stage, an odd side, a number of classes that is no multiple of anything. */
static void test_gradients_deep(void **state)
{
	(void)state;
	check_gradients(
		&(struct net_shape){.batch = 3, .side = 13, .width = 8, .blocks = 2, .classes = 11},
		12);
}

/* The stem for large pictures, with its pooling. */
static void test_gradients_large(void **state)
{
	(void)state;
	check_gradients(
		&(struct net_shape){
			.batch = 2, .side = NET_LARGE, .width = 8, .blocks = 1, .classes = 3},
		6);
}

/* ---- learning ---- */

static void learn(
	struct ops *ops, struct net *net, const struct net_shape *shape, unsigned from, unsigned to)
{
	struct schedule schedule = {.steps = 40, .warmup = 4, .rate = 0.1};

	for (unsigned step = from; step < to; step++) {
		struct ops_sgd how = {.rate = (float)schedule_rate(&schedule, step),
			.momentum = 0.9f,
			.decay = 1e-4f};
		fill(ops, net, shape, step + 100);
		net_learn(net, shape->batch);
		net_step(net, &how);
	}
}

static const struct net_shape toy = {.batch = 8, .side = 8, .width = 8, .blocks = 1, .classes = 3};

static void test_loss_falls(void **state)
{
	struct ops *ops = ops_cpu_open();
	struct net *net = net_new(ops, &toy, 1);
	struct ops_metrics metrics;
	double first, last;

	(void)state;
	learn(ops, net, &toy, 0, 4);
	first = loss_of(net);
	learn(ops, net, &toy, 4, 36);
	(void)loss_of(net);
	learn(ops, net, &toy, 36, 40);
	last = loss_of(net);
	if (!(last < first / 4))
		fail_msg("loss %g at first, %g at last", first, last);
	/* With the running means, on pictures that it has not seen. */
	fill(ops, net, &toy, 5);
	net_score(net, toy.batch);
	net_take_metrics(net, &metrics);
	assert_int_equal(metrics.rows, toy.batch);
	assert_int_equal(metrics.right, toy.batch);
	net_free(net);
	ops->close(ops);
}

/* Rows after `count` are in the pass, but neither in the loss nor in the accuracy. */
static void test_short_batch(void **state)
{
	struct ops *ops = ops_cpu_open();
	struct net *net = net_new(ops, &toy, 1);
	struct ops_metrics metrics;

	(void)state;
	fill(ops, net, &toy, 1);
	net_score(net, 3);
	net_take_metrics(net, &metrics);
	assert_int_equal(metrics.rows, 3);
	/* Nor is a row without a target. */
	ops->zero(ops, net_targets(net) + toy.classes, toy.classes * sizeof(float));
	net_score(net, 3);
	net_take_metrics(net, &metrics);
	assert_int_equal(metrics.rows, 2);
	net_free(net);
	ops->close(ops);
}

/* The previous contents of the rows after `count` do not matter. */
static void test_short_batch_learns(void **state)
{
	struct ops *ops = ops_cpu_open();
	struct net *net = net_new(ops, &toy, 1), *other = net_new(ops, &toy, 1);
	struct ops_sgd how = {.rate = 0.1f, .momentum = 0.9f};
	size_t row = (size_t)toy.side * toy.side * 3 * ops->half_bytes;
	uint64_t before = net_hash(net);

	(void)state;
	set_scale(ops, net, 64);
	set_scale(ops, other, 64);
	fill(ops, net, &toy, 1);
	fill(ops, other, &toy, 2);
	memcpy(net_images(other), net_images(net), 3 * row);
	memcpy(net_targets(other), net_targets(net), 3 * toy.classes * sizeof(float));
	net_learn(net, 3);
	net_learn(other, 3);
	for (unsigned i = 3; i < toy.batch; i++)
		assert_memory_equal((char *)net_images(net) + i * row,
			(char *)net_images(net) + i % 3 * row, row);
	net_step(net, &how);
	net_step(other, &how);
	assert_true(net_hash(net) == net_hash(other));
	assert_true(net_hash(net) != before);
	net_free(net);
	net_free(other);
	ops->close(ops);
}

static void test_seed_makes_the_weights(void **state)
{
	struct ops *ops = ops_cpu_open();
	struct net *one = net_new(ops, &toy, 1), *same = net_new(ops, &toy, 1);
	struct net *other = net_new(ops, &toy, 2);

	(void)state;
	assert_true(net_hash(one) == net_hash(same));
	assert_true(net_hash(one) != net_hash(other));
	learn(ops, one, &toy, 0, 2);
	assert_true(net_hash(one) != net_hash(same));
	learn(ops, same, &toy, 0, 2);
	assert_true(net_hash(one) == net_hash(same));
	net_free(one);
	net_free(same);
	net_free(other);
	ops->close(ops);
}

/* ---- overflow ---- */

static void test_overflow_is_skipped(void **state)
{
	struct ops *ops = ops_cpu_open();
	struct net *net = net_new(ops, &toy, 1), *plain = net_new(ops, &toy, 1);
	struct ops_sgd how = {.rate = 0.1f, .momentum = 0.9f, .decay = 1e-4f};
	struct ops_scaler scaler;
	uint64_t before = net_hash(net);
	unsigned skipped = 0;

	(void)state;
	set_scale(ops, net, 1 << 24);
	fill(ops, net, &toy, 1);
	net_learn(net, toy.batch);
	net_step(net, &how);
	net_scaler(net, &scaler);
	assert_int_equal(scaler.skipped, 1);
	assert_int_equal(scaler.overflow, 0);
	assert_true(scaler.scale == 1 << 23);
	assert_true(net_hash(net) == before);
	/* Until the scale fits; then the step is the one that a fitting scale makes at once. */
	for (; net_hash(net) == before && skipped < 30; skipped++) {
		net_learn(net, toy.batch);
		net_step(net, &how);
	}
	net_scaler(net, &scaler);
	assert_int_equal(scaler.skipped, skipped);
	assert_int_equal(scaler.good, 1);
	set_scale(ops, plain, 256);
	fill(ops, plain, &toy, 1);
	net_learn(plain, toy.batch);
	net_step(plain, &how);
	assert_true(net_hash(plain) == net_hash(net));
	net_free(net);
	net_free(plain);
	ops->close(ops);
}

/* ---- numbers ---- */

static size_t parameters(unsigned side, unsigned width, unsigned blocks, unsigned classes)
{
	struct net_shape shape = {
		.batch = 2, .side = side, .width = width, .blocks = blocks, .classes = classes};
	struct ops *ops = ops_cpu_open();
	struct net *net = net_new(ops, &shape, 1);
	size_t count = net_parameters(net);

	net_free(net);
	ops->close(ops);
	return count;
}

/* ResNet-18's as torchvision counts them: 11,689,512 with 1000 classes. The stem for small pictures
 * has 3 x 3 in place of 7 x 7 taps. */
static void test_parameter_counts(void **state)
{
	size_t count = parameters(32, 8, 2, 10);

	(void)state;
	assert_int_equal(parameters(224, 64, 2, 1000), 11689512);
	assert_int_equal(parameters(NET_LARGE, 8, 2, 10), count + (49 - 9) * 3 * 8);
	assert_int_equal(parameters(32, 8, 2, 1000), count + 990 * (8 * 8 + 1));
}

static void test_schedule(void **state)
{
	struct schedule schedule = {.steps = 110, .warmup = 10, .rate = 0.5};
	struct schedule bare = {.steps = 4, .rate = 1}, all = {.steps = 3, .warmup = 3, .rate = 3};

	(void)state;
	assert_float_equal(schedule_rate(&schedule, 0), 0.05, 1e-12);
	assert_float_equal(schedule_rate(&schedule, 9), 0.5, 1e-12);
	assert_float_equal(schedule_rate(&schedule, 10), 0.5, 1e-12);
	assert_float_equal(schedule_rate(&schedule, 60), 0.25, 1e-12);
	assert_float_equal(schedule_rate(&schedule, 35), 0.25 * (1 + sqrt(0.5)), 1e-12);
	assert_true(schedule_rate(&schedule, 109) > 0 && schedule_rate(&schedule, 109) < 2e-4);
	assert_float_equal(schedule_rate(&schedule, 110), 0, 0);
	assert_float_equal(schedule_rate(&schedule, UINT64_MAX), 0, 0);
	assert_float_equal(schedule_rate(&bare, 0), 1, 0);
	assert_float_equal(schedule_rate(&all, 2), 3, 1e-12);
	assert_float_equal(schedule_rate(&all, 3), 0, 0);
}

/* ---- the self-test itself: it must find what is wrong ---- */

typedef unsigned self_test_fn(struct ops *device, struct ops *host, FILE *out);

static unsigned failures_of(self_test_fn *test, struct ops *device)
{
	struct ops *host = ops_cpu_open();
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	unsigned failures;

	assert_non_null(out);
	failures = test(device, host, out);
	(void)fclose(out);
	assert_int_equal(strstr(text, "FAILED") != NULL, failures != 0);
	free(text);
	host->close(host);
	return failures;
}

static void wrong_pair(struct ops *ops, void *y, const void *x, size_t count)
{
	(void)ops;
	memmove(y, x, count * sizeof(double));
}

static void wrong_one(struct ops *ops, void *y, size_t count)
{
	(void)ops;
	((double *)y)[count - 1] -= 1;
}

static void wrong_bytes(struct ops *ops, void *to, const void *from, size_t bytes)
{
	(void)ops;
	memcpy(to, from, bytes - sizeof(float));
}

static void wrong_conv(struct ops *ops, struct conv *conv, const void *a, const void *b, void *c)
{
	(void)ops;
	(void)conv;
	(void)a;
	(void)b;
	*(double *)c = NAN;
}

static void wrong_widen(struct ops *ops, void *to, const void *from, size_t pixels)
{
	(void)ops;
	memcpy(to, from, pixels * 3 * sizeof(double));
}

static void wrong_infer(struct ops *ops, struct norm *norm, const struct ops_norm_values *values,
	const void *x, void *y)
{
	(void)ops;
	(void)norm;
	(void)x;
	*(double *)y = values->mean[0];
}

static void wrong_norm_backward(struct ops *ops, struct norm *norm, const float *scale,
	const void *x, const void *dy, void *dx, float *d_scale, float *d_shift)
{
	(void)ops;
	(void)norm;
	(void)scale;
	(void)x;
	(void)dy;
	(void)dx;
	*d_scale = *d_shift = 1;
}

static void wrong_pool_backward(
	struct ops *ops, const struct ops_map *in, const void *dy, const uint8_t *taken, void *dx)
{
	(void)ops;
	(void)in;
	(void)taken;
	*(double *)dx = *(const double *)dy;
}

static void wrong_map(struct ops *ops, const struct ops_map *in, const void *x, void *y)
{
	(void)ops;
	(void)in;
	*(double *)y = *(const double *)x;
}

static void wrong_bias(
	struct ops *ops, float *y, const float *bias, unsigned rows, unsigned columns)
{
	(void)ops;
	(void)rows;
	(void)columns;
	*y += *bias;
}

static void wrong_bias_backward(
	struct ops *ops, float *d_bias, const void *dy, unsigned rows, unsigned columns)
{
	(void)ops;
	(void)dy;
	(void)rows;
	(void)columns;
	*d_bias = 1;
}

static void wrong_loss(struct ops *ops, const struct ops_loss *loss)
{
	(void)ops;
	loss->metrics->loss += 1;
	loss->metrics->rows += loss->rows; /* not `count` */
}

static void wrong_check_half(
	struct ops *ops, const void *gradients, size_t count, struct ops_scaler *scaler)
{
	(void)ops;
	(void)gradients;
	(void)count;
	(void)scaler;
}

static void wrong_check_float(
	struct ops *ops, const float *gradients, size_t count, struct ops_scaler *scaler)
{
	wrong_check_half(ops, gradients, count, scaler);
}

static void wrong_rescale(struct ops *ops, struct ops_scaler *scaler)
{
	(void)ops;
	scaler->overflow = 0;
}

static void wrong_zero(struct ops *ops, void *memory, size_t bytes)
{
	(void)ops;
	memset(memory, 0, bytes - sizeof(float));
}

static void wrong_cast(struct ops *ops, void *to, const void *from, size_t count)
{
	(void)ops;
	(void)from;
	memset(to, 0, count * sizeof(float));
}

static void wrong_pool_forward(
	struct ops *ops, const struct ops_map *in, const void *x, void *y, uint8_t *taken)
{
	(void)ops;
	(void)in;
	(void)x;
	(void)y;
	taken[0] ^= 1;
}

static void wrong_sgd_half(struct ops *ops, const struct ops_sgd *how, float *weights,
	float *momentum, const void *gradients, void *copy, size_t count,
	const struct ops_scaler *scaler)
{
	(void)ops;
	(void)gradients;
	(void)copy;
	(void)count;
	(void)scaler;
	weights[0] -= how->rate * momentum[0];
}

static void wrong_sgd_float(struct ops *ops, const struct ops_sgd *how, float *weights,
	float *momentum, const float *gradients, size_t count, const struct ops_scaler *scaler)
{
	wrong_sgd_half(ops, how, weights, momentum, gradients, NULL, count, scaler);
}

static double wrong_idle_s(struct ops *ops)
{
	static double idle_s;

	(void)ops;
	return idle_s += 1;
}

static void wrong_gemm(struct ops *ops, const struct ops_gemm *shape, const void *a, const void *b,
	void *c, bool wide)
{
	float *floats = c;

	(void)ops;
	(void)a;
	(void)b;
	if (wide)
		floats[(size_t)shape->m * shape->n - 1] = 99;
	else
		((double *)c)[0] = 99;
}

static void test_self_test_passes_on_itself(void **state)
{
	struct ops *device = ops_cpu_open();

	(void)state;
	assert_int_equal(failures_of(self_test, device), 0);
	device->close(device);
}

typedef void any_fn(void);

#define WRONG(op, function)                                         \
	{                                                           \
#op, offsetof(struct ops, op), (any_fn *)(function) \
	}

/* Each function of the table, replaced by one that is wrong: the test of that function finds it. */
static void test_self_test_finds_each_fault(void **state)
{
	static const struct {
		const char *name;
		size_t at;
		any_fn *function;
	} wrong[] = {
		WRONG(put, wrong_bytes),
		WRONG(get, wrong_bytes),
		WRONG(zero, wrong_zero),
		WRONG(copy, wrong_bytes),
		WRONG(to_half, wrong_cast),
		WRONG(to_float, wrong_cast),
		WRONG(conv_forward, wrong_conv),
		WRONG(conv_backward_data, wrong_conv),
		WRONG(conv_backward_filter, wrong_conv),
		WRONG(norm_forward, wrong_infer),
		WRONG(norm_infer, wrong_infer),
		WRONG(norm_backward, wrong_norm_backward),
		WRONG(relu, wrong_one),
		WRONG(add_relu, wrong_pair),
		WRONG(relu_backward, wrong_pair),
		WRONG(add, wrong_pair),
		WRONG(widen, wrong_widen),
		WRONG(pool_forward, wrong_pool_forward),
		WRONG(pool_backward, wrong_pool_backward),
		WRONG(mean_forward, wrong_map),
		WRONG(mean_backward, wrong_map),
		WRONG(gemm, wrong_gemm),
		WRONG(bias, wrong_bias),
		WRONG(bias_backward, wrong_bias_backward),
		WRONG(loss, wrong_loss),
		WRONG(check_half, wrong_check_half),
		WRONG(check_float, wrong_check_float),
		WRONG(sgd_half, wrong_sgd_half),
		WRONG(sgd_float, wrong_sgd_float),
		WRONG(rescale, wrong_rescale),
		WRONG(idle_s, wrong_idle_s),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct ops *device = ops_cpu_open();
		memcpy((char *)device + wrong[i].at, &wrong[i].function, sizeof(any_fn *));
		if (failures_of(self_test_functions, device) == 0)
			fail_msg("a wrong %s is not found", wrong[i].name);
		device->close(device);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gradients_small),
		cmocka_unit_test(test_gradients_deep),
		cmocka_unit_test(test_gradients_large),
		cmocka_unit_test(test_loss_falls),
		cmocka_unit_test(test_short_batch),
		cmocka_unit_test(test_short_batch_learns),
		cmocka_unit_test(test_seed_makes_the_weights),
		cmocka_unit_test(test_overflow_is_skipped),
		cmocka_unit_test(test_parameter_counts),
		cmocka_unit_test(test_schedule),
		cmocka_unit_test(test_self_test_passes_on_itself),
		cmocka_unit_test(test_self_test_finds_each_fault),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

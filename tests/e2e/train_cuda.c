/* train_cuda without a GPU: its network, step, schedule and self-test on the host's twin of the
 * GPU (ops_cpu.c). What the GPU computes is compared with that twin by `train_cuda --self-test`. */
#include "client/examples/train_cuda/net.h"
#include "client/examples/train_cuda/schedule.h"
#include "client/examples/train_cuda/self_test.h"

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
	float *direction = calloc(all->count, sizeof(float));
	double square = 0, step, slope;

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

/* Rows behind `count` are in the pass, but neither in the loss nor in the accuracy. */
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

/* ResNet-18's as torchvision counts them: 11,689,512 with 1000 classes. Its stem for 32 pixels
 * has 3 x 3 in place of 7 x 7 taps. */
static void test_parameter_counts(void **state)
{
	(void)state;
	assert_int_equal(parameters(224, 64, 2, 1000), 11689512);
	assert_int_equal(parameters(32, 64, 2, 1000), 11689512 - (49 - 9) * 3 * 64);
	assert_int_equal(parameters(32, 64, 2, 10), 11689512 - (49 - 9) * 3 * 64 - 990 * 513);
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

static unsigned failures_of(struct ops *device)
{
	struct ops *host = ops_cpu_open();
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	unsigned failures;

	assert_non_null(out);
	failures = self_test(device, host, out);
	(void)fclose(out);
	assert_int_equal(strstr(text, "FAILED") != NULL, failures != 0);
	free(text);
	host->close(host);
	return failures;
}

static void test_self_test_passes_on_itself(void **state)
{
	struct ops *device = ops_cpu_open();

	(void)state;
	assert_int_equal(failures_of(device), 0);
	device->close(device);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gradients_small),
		cmocka_unit_test(test_gradients_deep),
		cmocka_unit_test(test_gradients_large),
		cmocka_unit_test(test_loss_falls),
		cmocka_unit_test(test_short_batch),
		cmocka_unit_test(test_seed_makes_the_weights),
		cmocka_unit_test(test_overflow_is_skipped),
		cmocka_unit_test(test_parameter_counts),
		cmocka_unit_test(test_schedule),
		cmocka_unit_test(test_self_test_passes_on_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The network's graph. See net.h.
 *
 * A unit is a convolution with its normalization, because in a residual network nothing else reads
 * the value between them. Each unit keeps where its input came from, so the backward pass is the
 * forward pass read backward.
 *
 * Gradients of activations need three buffers of the largest size: `flow` holds the gradient at the
 * point that the backward pass has reached, the others are for use within a block. */
#include "net.h"

#include "fail.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct unit {
	struct ops_conv shape;
	struct conv *conv;
	struct norm *norm;
	size_t weight; /* where its filter begins in the half weights */
	size_t affine; /* where scale and shift begin in the float weights */
	size_t running; /* where mean and variance begin */
	const void *in; /* of the last forward pass */
	void *mid, *out; /* after the convolution; after all */
};

struct block {
	struct unit *first, *second;
	struct unit *shortcut; /* NULL: the block's input is its shortcut */
};

struct net {
	struct ops *ops;
	struct net_shape shape;
	bool pools;
	struct unit *unit; /* all of them; the first is the stem */
	unsigned units;
	struct unit *stem;
	struct block *block; /* NET_STAGES x blocks */
	unsigned blocks;
	/* The output map of the last block. */
	struct ops_map last;
	/* Weights: the half ones first, then the float ones. */
	size_t halves, floats, running_count; /* each a multiple of OPS_PACK */
	size_t linear, linear_bias;
	float *weights, *momentum, *running;
	void *copy, *gradients; /* half: of the first `halves` weights */
	float *float_gradients;
	struct ops_scaler *scaler;
	struct ops_metrics *metrics;
	/* Activations. */
	void *images, *wide, *pooled, *mean, *logit_gradients, *mean_gradients;
	uint8_t *taken;
	float *targets, *logits, *scratch;
	void *flow, *inner, *outer;
	size_t largest; /* halves in the largest activation */
};

/* ---- shapes: sizes and places, before anything is allocated ---- */

static size_t pack(size_t count)
{
	return (count + OPS_PACK - 1) / OPS_PACK * OPS_PACK;
}

static size_t filter_count(const struct ops_conv *shape)
{
	return (size_t)shape->k * shape->kernel * shape->kernel * shape->c;
}

static struct ops_map unit_map(const struct unit *unit)
{
	const struct ops_conv *shape = &unit->shape;

	return (struct ops_map){.n = shape->n,
		.h = ops_conv_out(shape, shape->h),
		.w = ops_conv_out(shape, shape->w),
		.c = shape->k};
}

static size_t map_count(const struct ops_map *map)
{
	return (size_t)map->n * map->h * map->w * map->c;
}

static size_t unit_count(const struct unit *unit)
{
	struct ops_map map = unit_map(unit);

	return map_count(&map);
}

static void grow(size_t *largest, size_t count)
{
	if (*largest < count)
		*largest = count;
}

/* Adds a unit: its shape and its places among the weights. */
static struct unit *lay_unit(struct net *net, const struct ops_map *in, unsigned channels,
	unsigned kernel, unsigned stride)
{
	struct unit *unit = &net->unit[net->units++];

	unit->shape = (struct ops_conv){.n = in->n,
		.h = in->h,
		.w = in->w,
		.c = in->c,
		.k = channels,
		.kernel = kernel,
		.stride = stride,
		.pad = kernel / 2};
	unit->weight = net->halves;
	net->halves += pack(filter_count(&unit->shape));
	unit->affine = net->floats;
	net->floats += (size_t)2 * channels;
	unit->running = net->running_count;
	net->running_count += (size_t)2 * channels;
	grow(&net->largest, map_count(in));
	grow(&net->largest, unit_count(unit));
	return unit;
}

static struct ops_map lay_block(
	struct net *net, struct block *block, const struct ops_map *in, unsigned channels)
{
	unsigned stride = in->c == channels ? 1 : 2;
	struct ops_map mid;

	block->first = lay_unit(net, in, channels, 3, stride);
	mid = unit_map(block->first);
	block->second = lay_unit(net, &mid, channels, 3, 1);
	if (stride == 2)
		block->shortcut = lay_unit(net, in, channels, 1, stride);
	return unit_map(block->second);
}

static struct ops_map pooled_map(const struct ops_map *in)
{
	return (struct ops_map){.n = in->n, .h = (in->h + 1) / 2, .w = (in->w + 1) / 2, .c = in->c};
}

static void lay(struct net *net)
{
	const struct net_shape *shape = &net->shape;
	struct ops_map map = {.n = shape->batch, .h = shape->side, .w = shape->side, .c = OPS_PACK};

	net->pools = shape->side >= NET_LARGE;
	net->stem = lay_unit(net, &map, shape->width, net->pools ? 7 : 3, net->pools ? 2 : 1);
	map = unit_map(net->stem);
	if (net->pools)
		map = pooled_map(&map);
	for (unsigned i = 0; i < net->blocks; i++)
		map = lay_block(net, &net->block[i], &map, shape->width << (i / shape->blocks));
	net->last = map;
	net->linear = net->halves;
	net->halves += pack((size_t)shape->classes * map.c);
	net->linear_bias = net->floats;
	net->floats += pack(shape->classes);
}

/* ---- memory ---- */

static void *half_new(struct net *net, size_t count)
{
	return net->ops->allocate(net->ops, pack(count) * net->ops->half_bytes);
}

static float *float_new(struct net *net, size_t count)
{
	return net->ops->allocate(net->ops, pack(count) * sizeof(float));
}

static void build_unit(struct net *net, struct unit *unit)
{
	struct ops_map map = unit_map(unit);

	unit->conv = net->ops->conv_new(net->ops, &unit->shape);
	unit->norm = net->ops->norm_new(net->ops, &map);
	unit->mid = half_new(net, map_count(&map));
	unit->out = half_new(net, map_count(&map));
}

static void build_units(struct net *net)
{
	struct ops_map stem = unit_map(net->stem), pooled = pooled_map(&stem);

	if (net->pools) {
		net->pooled = half_new(net, map_count(&pooled));
		net->taken = net->ops->allocate(net->ops, map_count(&pooled));
	}
	for (unsigned i = 0; i < net->units; i++)
		build_unit(net, &net->unit[i]);
}

static void build(struct net *net)
{
	const struct net_shape *shape = &net->shape;
	size_t pixels = (size_t)shape->batch * shape->side * shape->side;
	size_t scores = (size_t)shape->batch * shape->classes;
	size_t means = (size_t)shape->batch * net->last.c;

	net->weights = float_new(net, net->halves + net->floats);
	net->momentum = float_new(net, net->halves + net->floats);
	net->running = float_new(net, net->running_count);
	net->copy = half_new(net, net->halves);
	net->gradients = half_new(net, net->halves);
	net->float_gradients = float_new(net, net->floats);
	net->scaler = net->ops->allocate(net->ops, sizeof(*net->scaler));
	net->metrics = net->ops->allocate(net->ops, sizeof(*net->metrics));
	net->images = half_new(net, 3 * pixels);
	net->wide = half_new(net, OPS_PACK * pixels);
	net->targets = float_new(net, scores);
	net->logits = float_new(net, scores);
	net->logit_gradients = half_new(net, scores);
	net->scratch = float_new(net, (size_t)2 * shape->batch);
	net->mean = half_new(net, means);
	net->mean_gradients = half_new(net, means);
	net->flow = half_new(net, net->largest);
	net->inner = half_new(net, net->largest);
	net->outer = half_new(net, net->largest);
	build_units(net);
}

static void free_unit(struct net *net, struct unit *unit)
{
	net->ops->conv_free(net->ops, unit->conv);
	net->ops->norm_free(net->ops, unit->norm);
	net->ops->release(net->ops, unit->mid);
	net->ops->release(net->ops, unit->out);
}

void net_free(struct net *net)
{
	if (!net)
		return;
	void *memory[] = {net->weights, net->momentum, net->running, net->copy, net->gradients,
		net->float_gradients, net->scaler, net->metrics, net->images, net->wide,
		net->targets, net->logits, net->logit_gradients, net->scratch, net->mean,
		net->mean_gradients, net->flow, net->inner, net->outer, net->pooled, net->taken};

	for (unsigned i = 0; i < net->units; i++)
		free_unit(net, &net->unit[i]);
	for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
		net->ops->release(net->ops, memory[i]);
	free(net->unit);
	free(net->block);
	free(net);
}

/* ---- the weights at first ---- */

/* SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014),
 * as a number in (0, 1). */
static double draw(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	x ^= x >> 31;
	return ((double)(x >> 11) + 0.5) / 9007199254740992.0; /* 2^53 */
}

/* Standard normal, by Box and Muller. */
static double draw_normal(uint64_t *state)
{
	double radius = sqrt(-2 * log(draw(state)));

	return radius * cos(2 * M_PI * draw(state));
}

/* He et al., "Delving deep into rectifiers", ICCV 2015, by the outputs; 0 for the channels that
 * only pad the first convolution's input. */
static void draw_unit(const struct net *net, const struct unit *unit, float *weights,
	float *running, uint64_t *state)
{
	const struct ops_conv *shape = &unit->shape;
	size_t count = filter_count(shape);
	unsigned channels = unit == net->stem ? 3 : shape->c;
	double deviation = sqrt(2.0 / ((double)shape->kernel * shape->kernel * shape->k));
	float *scale = weights + net->halves + unit->affine;

	for (size_t i = 0; i < count; i++)
		weights[unit->weight + i] =
			i % shape->c < channels ? (float)(deviation * draw_normal(state)) : 0;
	for (unsigned i = 0; i < shape->k; i++) {
		scale[i] = 1;
		running[unit->running + shape->k + i] = 1; /* the variance */
	}
}

/* As torch.nn.Linear initializes its weights. */
static void draw_linear(const struct net *net, float *weights, uint64_t *state)
{
	double bound = 1 / sqrt(net->last.c);
	size_t count = (size_t)net->shape.classes * net->last.c;

	for (size_t i = 0; i < count; i++)
		weights[net->linear + i] = (float)(bound * (2 * draw(state) - 1));
	for (unsigned i = 0; i < net->shape.classes; i++)
		weights[net->halves + net->linear_bias + i] =
			(float)(bound * (2 * draw(state) - 1));
}

static void begin(struct net *net, uint64_t seed)
{
	struct ops_scaler scaler = {.scale = OPS_SCALE_FIRST};
	size_t count = net->halves + net->floats;
	float *weights = host_new(count, sizeof(float));
	float *running = host_new(net->running_count, sizeof(float));
	uint64_t state = seed;

	for (unsigned i = 0; i < net->units; i++)
		draw_unit(net, &net->unit[i], weights, running, &state);
	draw_linear(net, weights, &state);
	net->ops->put(net->ops, net->weights, weights, count * sizeof(float));
	net->ops->put(net->ops, net->running, running, net->running_count * sizeof(float));
	net->ops->put(net->ops, net->scaler, &scaler, sizeof(scaler));
	free(weights);
	free(running);
	net_refresh(net);
}

struct net *net_new(struct ops *ops, const struct net_shape *shape, uint64_t seed)
{
	struct net *net = host_new(1, sizeof(*net));

	net->ops = ops;
	net->shape = *shape;
	net->blocks = NET_STAGES * shape->blocks;
	net->block = host_new(net->blocks, sizeof(*net->block));
	net->unit = host_new(1 + 3 * net->blocks, sizeof(*net->unit));
	lay(net);
	build(net);
	begin(net, seed);
	return net;
}

/* ---- there ---- */

static void *weight_of(const struct net *net, size_t at)
{
	return (char *)net->copy + at * net->ops->half_bytes;
}

static void *gradient_of(const struct net *net, size_t at)
{
	return (char *)net->gradients + at * net->ops->half_bytes;
}

static struct ops_norm_values values_of(const struct net *net, const struct unit *unit)
{
	const float *affine = net->weights + net->halves + unit->affine;
	float *running = net->running + unit->running;

	return (struct ops_norm_values){.scale = affine,
		.shift = affine + unit->shape.k,
		.mean = running,
		.variance = running + unit->shape.k};
}

static void unit_forward(struct net *net, struct unit *unit, const void *in, bool learn)
{
	struct ops_norm_values values = values_of(net, unit);
	struct ops *ops = net->ops;

	unit->in = in;
	ops->conv_forward(ops, unit->conv, in, weight_of(net, unit->weight), unit->mid);
	if (learn)
		ops->norm_forward(ops, unit->norm, &values, unit->mid, unit->out);
	else
		ops->norm_infer(ops, unit->norm, &values, unit->mid, unit->out);
}

/* Returns the unit's output. */
static const void *block_forward(struct net *net, struct block *block, const void *in, bool learn)
{
	struct ops *ops = net->ops;

	unit_forward(net, block->first, in, learn);
	ops->relu(ops, block->first->out, unit_count(block->first));
	unit_forward(net, block->second, block->first->out, learn);
	if (block->shortcut)
		unit_forward(net, block->shortcut, in, learn);
	ops->add_relu(ops, block->second->out, block->shortcut ? block->shortcut->out : in,
		unit_count(block->second));
	return block->second->out;
}

static const void *stem_forward(struct net *net, bool learn)
{
	struct ops *ops = net->ops;
	struct ops_map map = unit_map(net->stem);

	ops->widen(ops, net->wide, net->images,
		(size_t)net->shape.batch * net->shape.side * net->shape.side);
	unit_forward(net, net->stem, net->wide, learn);
	ops->relu(ops, net->stem->out, map_count(&map));
	if (!net->pools)
		return net->stem->out;
	ops->pool_forward(ops, &map, net->stem->out, net->pooled, net->taken);
	return net->pooled;
}

static void forward(struct net *net, bool learn)
{
	struct ops *ops = net->ops;
	struct ops_gemm linear = {.m = net->shape.batch,
		.n = net->shape.classes,
		.k = net->last.c,
		.b_transposed = true};
	const void *at = stem_forward(net, learn);

	for (unsigned i = 0; i < net->blocks; i++)
		at = block_forward(net, &net->block[i], at, learn);
	ops->mean_forward(ops, &net->last, at, net->mean);
	ops->gemm(ops, &linear, net->mean, weight_of(net, net->linear), net->logits, true);
	ops->bias(ops, net->logits, net->weights + net->halves + net->linear_bias, net->shape.batch,
		net->shape.classes);
}

static void take_loss(struct net *net, unsigned count, void *gradients)
{
	struct ops_loss loss = {.rows = net->shape.batch,
		.classes = net->shape.classes,
		.count = count,
		.logits = net->logits,
		.targets = net->targets,
		.scratch = net->scratch,
		.gradients = gradients,
		.scaler = net->scaler,
		.metrics = net->metrics};

	net->ops->loss(net->ops, &loss);
}

/* ---- and back ---- */

/* Goes back from `dy`, the gradient of the normalization's output, to `dx`, the gradient of the
 * unit's input, which may be `dy`; NULL: not wanted. `between` is memory for the gradient between
 * the two. */
static void unit_backward(
	struct net *net, struct unit *unit, const void *dy, void *between, void *dx)
{
	struct ops *ops = net->ops;
	float *affine = net->float_gradients + unit->affine;

	ops->norm_backward(ops, unit->norm, net->weights + net->halves + unit->affine, unit->mid,
		dy, between, affine, affine + unit->shape.k);
	ops->conv_backward_filter(
		ops, unit->conv, unit->in, between, gradient_of(net, unit->weight));
	if (dx)
		ops->conv_backward_data(ops, unit->conv, weight_of(net, unit->weight), between, dx);
}

/* `flow` holds the gradient of the block's output before the call, and that of its input after
 * it. */
static void block_backward(struct net *net, struct block *block)
{
	struct ops *ops = net->ops;
	struct ops_conv *shape = &block->first->shape;

	ops->relu_backward(ops, net->flow, block->second->out, unit_count(block->second));
	unit_backward(net, block->second, net->flow, net->inner, net->outer);
	ops->relu_backward(ops, net->outer, block->first->out, unit_count(block->first));
	unit_backward(net, block->first, net->outer, net->inner, net->outer);
	if (block->shortcut)
		unit_backward(net, block->shortcut, net->flow, net->inner, net->flow);
	ops->add(ops, net->flow, net->outer, (size_t)shape->n * shape->h * shape->w * shape->c);
}

static void linear_backward(struct net *net)
{
	struct ops *ops = net->ops;
	unsigned batch = net->shape.batch, classes = net->shape.classes, channels = net->last.c;
	struct ops_gemm filter = {.m = classes, .n = channels, .k = batch, .a_transposed = true};
	struct ops_gemm data = {.m = batch, .n = channels, .k = classes};

	ops->gemm(ops, &filter, net->logit_gradients, net->mean, gradient_of(net, net->linear),
		false);
	ops->bias_backward(
		ops, net->float_gradients + net->linear_bias, net->logit_gradients, batch, classes);
	ops->gemm(ops, &data, net->logit_gradients, weight_of(net, net->linear),
		net->mean_gradients, false);
	ops->mean_backward(ops, &net->last, net->mean_gradients, net->flow);
}

static void stem_backward(struct net *net)
{
	struct ops *ops = net->ops;
	struct ops_map map = unit_map(net->stem);
	void *dy = net->flow;

	if (net->pools) {
		ops->pool_backward(ops, &map, net->flow, net->taken, net->outer);
		dy = net->outer;
	}
	ops->relu_backward(ops, dy, net->stem->out, map_count(&map));
	unit_backward(net, net->stem, dy, net->inner, NULL);
}

/* Fills the rows that a short batch leaves free with copies of its own first rows, so that what
 * normalization computes over the batch does not depend on earlier contents. */
static void fill_up(struct net *net, unsigned count)
{
	size_t row = (size_t)net->shape.side * net->shape.side * 3 * net->ops->half_bytes;
	char *images = net->images;

	for (unsigned done = count, more; done > 0 && done < net->shape.batch; done += more) {
		more = net->shape.batch - done < done ? net->shape.batch - done : done;
		net->ops->copy(net->ops, images + done * row, images, more * row);
	}
}

void net_learn(struct net *net, unsigned count)
{
	fill_up(net, count);
	forward(net, true);
	take_loss(net, count, net->logit_gradients);
	linear_backward(net);
	for (unsigned i = net->blocks; i-- > 0;)
		block_backward(net, &net->block[i]);
	stem_backward(net);
}

void net_score(struct net *net, unsigned count)
{
	forward(net, false);
	take_loss(net, count, NULL);
}

void net_step(struct net *net, const struct ops_sgd *how)
{
	struct ops *ops = net->ops;
	struct ops_sgd bare = {.rate = how->rate, .momentum = how->momentum};

	ops->check_half(ops, net->gradients, net->halves, net->scaler);
	ops->check_float(ops, net->float_gradients, net->floats, net->scaler);
	ops->sgd_half(ops, how, net->weights, net->momentum, net->gradients, net->copy, net->halves,
		net->scaler);
	ops->sgd_float(ops, &bare, net->weights + net->halves, net->momentum + net->halves,
		net->float_gradients, net->floats, net->scaler);
	ops->rescale(ops, net->scaler);
}

/* ---- from outside ---- */

void *net_images(struct net *net)
{
	return net->images;
}

float *net_targets(struct net *net)
{
	return net->targets;
}

void net_take_metrics(struct net *net, struct ops_metrics *ret_metrics)
{
	net->ops->get(net->ops, ret_metrics, net->metrics, sizeof(*ret_metrics));
	net->ops->zero(net->ops, net->metrics, sizeof(*ret_metrics));
}

void net_scaler(struct net *net, struct ops_scaler *ret_scaler)
{
	net->ops->get(net->ops, ret_scaler, net->scaler, sizeof(*ret_scaler));
}

void net_parts(struct net *net, struct net_part ret_parts[NET_PARTS])
{
	size_t bytes = (net->halves + net->floats) * sizeof(float);

	ret_parts[0] = (struct net_part){"weights", net->weights, bytes};
	ret_parts[1] = (struct net_part){"momentum", net->momentum, bytes};
	ret_parts[2] = (struct net_part){
		"running statistics", net->running, net->running_count * sizeof(float)};
	ret_parts[3] = (struct net_part){"loss scale", net->scaler, sizeof(*net->scaler)};
}

void net_refresh(struct net *net)
{
	net->ops->to_half(net->ops, net->copy, net->weights, net->halves);
}

size_t net_parameters(const struct net *net)
{
	size_t count = 0;

	for (unsigned i = 0; i < net->units; i++) {
		struct ops_conv shape = net->unit[i].shape;
		shape.c = i == 0 ? 3 : shape.c; /* the others only pad the stem's input */
		count += filter_count(&shape) + (size_t)2 * shape.k;
	}
	return count + (size_t)net->shape.classes * (net->last.c + 1);
}

uint64_t net_hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
	const unsigned char *at = bytes;

	for (size_t i = 0; i < count; i++)
		hash = (hash ^ at[i]) * 0x100000001b3u;
	return hash;
}

uint64_t net_hash(struct net *net)
{
	size_t bytes = (net->halves + net->floats) * sizeof(float);
	unsigned char *weights = host_new(bytes, 1);
	uint64_t hash;

	net->ops->get(net->ops, weights, net->weights, bytes);
	hash = net_hash_bytes(NET_HASH_BEGIN, weights, bytes);
	free(weights);
	return hash;
}

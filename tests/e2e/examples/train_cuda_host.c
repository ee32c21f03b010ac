/* The host's implementation of ops.h: each function follows its definition, one sum after another.
 *
 * It is for small tensors only: the GPU's results are compared with it, and the tests run the
 * network on it. Its half is a double that becomes infinite where float16 would (65520 and more
 * rounds up from the greatest finite value, 65504: IEEE 754, binary16), but is not rounded. So
 * gradients agree with differences of the loss to many digits, and an overflow on the GPU is an
 * overflow here too. */
#include "train_cuda_host.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef double half;

struct conv {
	struct ops_conv shape;
};

struct norm {
	struct ops_map shape;
	double *mean, *inverse; /* of each channel, from the last norm_forward */
};

struct clock_state {
	double idle_s, waited_s;
};

static half to_range(double x)
{
	return fabs(x) >= 65520 ? copysign(INFINITY, x) : x;
}

static void *host_new(size_t count, size_t bytes)
{
	void *memory = calloc(count ? count : 1, bytes);

	if (!memory) {
		fprintf(stderr, "train_cuda: no memory on the host\n");
		exit(1);
	}
	return memory;
}

/* ---- memory ---- */

static void *cpu_allocate(struct ops *ops, size_t bytes)
{
	(void)ops;
	return host_new(bytes, 1);
}

static void cpu_release(struct ops *ops, void *memory)
{
	(void)ops;
	free(memory);
}

static void cpu_copy(struct ops *ops, void *to, const void *from, size_t bytes)
{
	(void)ops;
	memcpy(to, from, bytes);
}

static void cpu_zero(struct ops *ops, void *memory, size_t bytes)
{
	(void)ops;
	memset(memory, 0, bytes);
}

static void cpu_to_half(struct ops *ops, void *to, const float *from, size_t count)
{
	half *out = to;

	(void)ops;
	for (size_t i = 0; i < count; i++)
		out[i] = to_range(from[i]);
}

static void cpu_to_float(struct ops *ops, float *to, const void *from, size_t count)
{
	const half *in = from;

	(void)ops;
	for (size_t i = 0; i < count; i++)
		to[i] = (float)in[i];
}

/* ---- convolutions ---- */

static struct conv *cpu_conv_new(struct ops *ops, const struct ops_conv *shape)
{
	struct conv *conv = host_new(1, sizeof(*conv));

	(void)ops;
	conv->shape = *shape;
	return conv;
}

static void cpu_conv_free(struct ops *ops, struct conv *conv)
{
	(void)ops;
	free(conv);
}

/* The pixel of the input that one tap of the filter reads for one output pixel. False if it is in
 * the padding. */
static bool tap_pixel(
	const struct ops_conv *shape, unsigned y, unsigned x, unsigned tap, size_t *ret_pixel)
{
	unsigned row = y * shape->stride + tap / shape->kernel;
	unsigned column = x * shape->stride + tap % shape->kernel;

	if (row < shape->pad || row - shape->pad >= shape->h || column < shape->pad ||
		column - shape->pad >= shape->w)
		return false;
	*ret_pixel = (size_t)(row - shape->pad) * shape->w + column - shape->pad;
	return true;
}

/* Called for each output pixel `out`, input pixel `in` (both as indices in the whole tensor) and
 * tap that belong together. */
typedef void meet_fn(
	const struct ops_conv *shape, void *context, size_t out, size_t in, unsigned tap);

static void each_meeting(const struct ops_conv *shape, meet_fn *meet, void *context)
{
	unsigned h = ops_conv_out(shape, shape->h), w = ops_conv_out(shape, shape->w);
	unsigned taps = shape->kernel * shape->kernel;
	size_t outputs = (size_t)shape->n * h * w;

	for (size_t out = 0; out < outputs; out++) {
		size_t image = out / ((size_t)h * w), pixel;
		unsigned y = (unsigned)(out / w % h), x = (unsigned)(out % w);
		for (unsigned tap = 0; tap < taps; tap++)
			if (tap_pixel(shape, y, x, tap, &pixel))
				meet(shape, context, out, image * shape->h * shape->w + pixel, tap);
	}
}

struct meeting {
	const half *x, *w, *dy;
	half *y, *dx, *dw;
};

static size_t filter_at(const struct ops_conv *shape, unsigned k, unsigned tap)
{
	return ((size_t)k * shape->kernel * shape->kernel + tap) * shape->c;
}

static void meet_forward(
	const struct ops_conv *shape, void *context, size_t out, size_t in, unsigned tap)
{
	struct meeting *all = context;
	const half *x = all->x + in * shape->c;

	for (unsigned k = 0; k < shape->k; k++) {
		const half *w = all->w + filter_at(shape, k, tap);
		double sum = 0;
		for (unsigned c = 0; c < shape->c; c++)
			sum += x[c] * w[c];
		all->y[out * shape->k + k] += sum;
	}
}

static void meet_data(
	const struct ops_conv *shape, void *context, size_t out, size_t in, unsigned tap)
{
	struct meeting *all = context;
	half *dx = all->dx + in * shape->c;

	for (unsigned k = 0; k < shape->k; k++) {
		const half *w = all->w + filter_at(shape, k, tap);
		double dy = all->dy[out * shape->k + k];
		for (unsigned c = 0; c < shape->c; c++)
			dx[c] += dy * w[c];
	}
}

static void meet_filter(
	const struct ops_conv *shape, void *context, size_t out, size_t in, unsigned tap)
{
	struct meeting *all = context;
	const half *x = all->x + in * shape->c;

	for (unsigned k = 0; k < shape->k; k++) {
		half *dw = all->dw + filter_at(shape, k, tap);
		double dy = all->dy[out * shape->k + k];
		for (unsigned c = 0; c < shape->c; c++)
			dw[c] += dy * x[c];
	}
}

static void meet_all(
	const struct ops_conv *shape, meet_fn *meet, struct meeting *all, half *sums, size_t count)
{
	memset(sums, 0, count * sizeof(*sums));
	each_meeting(shape, meet, all);
	for (size_t i = 0; i < count; i++)
		sums[i] = to_range(sums[i]);
}

static void cpu_conv_forward(
	struct ops *ops, struct conv *conv, const void *x, const void *w, void *y)
{
	const struct ops_conv *shape = &conv->shape;
	struct meeting all = {.x = x, .w = w, .y = y};

	(void)ops;
	meet_all(shape, meet_forward, &all, y,
		(size_t)shape->n * ops_conv_out(shape, shape->h) * ops_conv_out(shape, shape->w) *
			shape->k);
}

static void cpu_conv_backward_data(
	struct ops *ops, struct conv *conv, const void *w, const void *dy, void *dx)
{
	const struct ops_conv *shape = &conv->shape;
	struct meeting all = {.w = w, .dy = dy, .dx = dx};

	(void)ops;
	meet_all(shape, meet_data, &all, dx, (size_t)shape->n * shape->h * shape->w * shape->c);
}

static void cpu_conv_backward_filter(
	struct ops *ops, struct conv *conv, const void *x, const void *dy, void *dw)
{
	const struct ops_conv *shape = &conv->shape;
	struct meeting all = {.x = x, .dy = dy, .dw = dw};

	(void)ops;
	meet_all(shape, meet_filter, &all, dw,
		(size_t)shape->k * shape->kernel * shape->kernel * shape->c);
}

/* ---- normalization ---- */

static struct norm *cpu_norm_new(struct ops *ops, const struct ops_map *shape)
{
	struct norm *norm = host_new(1, sizeof(*norm));

	(void)ops;
	norm->shape = *shape;
	norm->mean = host_new(shape->c, sizeof(double));
	norm->inverse = host_new(shape->c, sizeof(double));
	return norm;
}

static void cpu_norm_free(struct ops *ops, struct norm *norm)
{
	(void)ops;
	free(norm->mean);
	free(norm->inverse);
	free(norm);
}

static size_t map_pixels(const struct ops_map *map)
{
	return (size_t)map->n * map->h * map->w;
}

static void normalize(const struct norm *norm, unsigned c, double mean, double inverse,
	const struct ops_norm_values *values, const half *x, half *y)
{
	size_t pixels = map_pixels(&norm->shape), step = norm->shape.c;

	for (size_t i = 0; i < pixels; i++)
		y[i * step + c] = to_range(
			(x[i * step + c] - mean) * inverse * values->scale[c] + values->shift[c]);
}

static void cpu_norm_forward(struct ops *ops, struct norm *norm,
	const struct ops_norm_values *values, const void *x, void *y)
{
	size_t pixels = map_pixels(&norm->shape), step = norm->shape.c;
	const half *in = x;

	(void)ops;
	for (unsigned c = 0; c < norm->shape.c; c++) {
		double sum = 0, squares = 0, mean;
		for (size_t i = 0; i < pixels; i++)
			sum += in[i * step + c];
		mean = sum / (double)pixels;
		for (size_t i = 0; i < pixels; i++)
			squares += (in[i * step + c] - mean) * (in[i * step + c] - mean);
		norm->mean[c] = mean;
		norm->inverse[c] = 1 / sqrt(squares / (double)pixels + OPS_NORM_EPSILON);
		values->mean[c] += (float)(OPS_NORM_MOMENTUM * (mean - (double)values->mean[c]));
		/* The running variance is the unbiased one. */
		values->variance[c] += (float)(OPS_NORM_MOMENTUM *
					       (squares / (double)(pixels > 1 ? pixels - 1 : 1) -
						       (double)values->variance[c]));
		normalize(norm, c, mean, norm->inverse[c], values, x, y);
	}
}

static void cpu_norm_infer(struct ops *ops, struct norm *norm, const struct ops_norm_values *values,
	const void *x, void *y)
{
	(void)ops;
	for (unsigned c = 0; c < norm->shape.c; c++)
		normalize(norm, c, values->mean[c],
			1 / sqrt((double)values->variance[c] + OPS_NORM_EPSILON), values, x, y);
}

/* Ioffe, Szegedy, "Batch normalization", ICML 2015, section 3. */
static void cpu_norm_backward(struct ops *ops, struct norm *norm, const float *scale, const void *x,
	const void *dy, void *dx, float *d_scale, float *d_shift)
{
	size_t pixels = map_pixels(&norm->shape), step = norm->shape.c;
	const half *in = x, *out = dy;
	half *back = dx;

	(void)ops;
	for (unsigned c = 0; c < norm->shape.c; c++) {
		double sum = 0, product = 0, inverse = norm->inverse[c];
		for (size_t i = 0; i < pixels; i++) {
			sum += out[i * step + c];
			product += out[i * step + c] * (in[i * step + c] - norm->mean[c]) * inverse;
		}
		d_shift[c] = (float)sum;
		d_scale[c] = (float)product;
		for (size_t i = 0; i < pixels; i++) {
			double normal = (in[i * step + c] - norm->mean[c]) * inverse;
			back[i * step + c] = to_range(
				scale[c] * inverse *
				(out[i * step + c] - (sum + normal * product) / (double)pixels));
		}
	}
}

/* ---- elementwise ---- */

/* Written so that NaN stays NaN. */
static half above_zero(half x)
{
	return x < 0 ? 0 : x;
}

static void cpu_relu(struct ops *ops, void *y, size_t count)
{
	half *out = y;

	(void)ops;
	for (size_t i = 0; i < count; i++)
		out[i] = above_zero(out[i]);
}

static void cpu_add_relu(struct ops *ops, void *y, const void *x, size_t count)
{
	const half *in = x;
	half *out = y;

	(void)ops;
	for (size_t i = 0; i < count; i++)
		out[i] = above_zero(to_range(out[i] + in[i]));
}

static void cpu_relu_backward(struct ops *ops, void *dy, const void *y, size_t count)
{
	const half *out = y;
	half *back = dy;

	(void)ops;
	for (size_t i = 0; i < count; i++)
		if (!(out[i] > 0))
			back[i] = 0;
}

static void cpu_add(struct ops *ops, void *y, const void *x, size_t count)
{
	const half *in = x;
	half *out = y;

	(void)ops;
	for (size_t i = 0; i < count; i++)
		out[i] = to_range(out[i] + in[i]);
}

static void cpu_widen(struct ops *ops, void *to, const void *from, size_t pixels)
{
	const half *in = from;
	half *out = to;

	(void)ops;
	for (size_t i = 0; i < pixels; i++)
		for (unsigned c = 0; c < OPS_PACK; c++)
			out[i * OPS_PACK + c] = c < 3 ? in[3 * i + c] : 0;
}

/* ---- pooling ---- */

static void cpu_pool_forward(
	struct ops *ops, const struct ops_map *in, const void *x, void *y, uint8_t *taken)
{
	struct ops_conv window = {
		.n = in->n, .h = in->h, .w = in->w, .kernel = 3, .stride = 2, .pad = 1};
	unsigned h = ops_conv_out(&window, in->h), w = ops_conv_out(&window, in->w);
	const half *from = x;
	half *to = y;

	(void)ops;
	for (size_t at = 0; at < (size_t)in->n * h * w * in->c; at++) {
		size_t out = at / in->c, image = out / ((size_t)h * w), pixel;
		bool any = false;
		for (unsigned tap = 0; tap < 9; tap++) {
			if (!tap_pixel(&window, (unsigned)(out / w % h), (unsigned)(out % w), tap,
				    &pixel))
				continue;
			half value = from[(image * in->h * in->w + pixel) * in->c + at % in->c];
			if (any && !(value > to[at]))
				continue;
			to[at] = value;
			taken[at] = (uint8_t)tap;
			any = true;
		}
	}
}

static void cpu_pool_backward(
	struct ops *ops, const struct ops_map *in, const void *dy, const uint8_t *taken, void *dx)
{
	struct ops_conv window = {
		.n = in->n, .h = in->h, .w = in->w, .kernel = 3, .stride = 2, .pad = 1};
	unsigned h = ops_conv_out(&window, in->h), w = ops_conv_out(&window, in->w);
	const half *out = dy;
	half *back = dx;
	size_t pixel;

	(void)ops;
	memset(back, 0, map_pixels(in) * in->c * sizeof(*back));
	for (size_t at = 0; at < (size_t)in->n * h * w * in->c; at++) {
		size_t here = at / in->c, image = here / ((size_t)h * w);
		if (tap_pixel(&window, (unsigned)(here / w % h), (unsigned)(here % w), taken[at],
			    &pixel))
			back[(image * in->h * in->w + pixel) * in->c + at % in->c] += out[at];
	}
}

static void cpu_mean_forward(struct ops *ops, const struct ops_map *in, const void *x, void *y)
{
	size_t pixels = (size_t)in->h * in->w;
	const half *from = x;
	half *to = y;

	(void)ops;
	for (size_t at = 0; at < (size_t)in->n * in->c; at++) {
		double sum = 0;
		for (size_t i = 0; i < pixels; i++)
			sum += from[(at / in->c * pixels + i) * in->c + at % in->c];
		to[at] = sum / (double)pixels;
	}
}

static void cpu_mean_backward(struct ops *ops, const struct ops_map *in, const void *dy, void *dx)
{
	size_t pixels = (size_t)in->h * in->w;
	const half *from = dy;
	half *to = dx;

	(void)ops;
	for (size_t at = 0; at < in->n * pixels * in->c; at++)
		to[at] = from[at / (pixels * in->c) * in->c + at % in->c] / (double)pixels;
}

/* ---- the linear layer and the loss ---- */

static void cpu_gemm(struct ops *ops, const struct ops_gemm *shape, const void *a, const void *b,
	void *c, bool wide)
{
	const half *left = a, *right = b;
	float *floats = c;
	half *halves = c;

	(void)ops;
	for (size_t at = 0; at < (size_t)shape->m * shape->n; at++) {
		size_t row = at / shape->n, column = at % shape->n;
		double sum = 0;
		for (size_t i = 0; i < shape->k; i++)
			sum += left[shape->a_transposed ? i * shape->m + row : row * shape->k + i] *
			       right[shape->b_transposed ? column * shape->k + i
							 : i * shape->n + column];
		if (wide)
			floats[at] = (float)sum;
		else
			halves[at] = to_range(sum);
	}
}

static void cpu_bias(struct ops *ops, float *y, const float *bias, unsigned rows, unsigned columns)
{
	(void)ops;
	for (size_t at = 0; at < (size_t)rows * columns; at++)
		y[at] += bias[at % columns];
}

static void cpu_bias_backward(
	struct ops *ops, float *d_bias, const void *dy, unsigned rows, unsigned columns)
{
	const half *out = dy;

	(void)ops;
	for (unsigned column = 0; column < columns; column++) {
		double sum = 0;
		for (size_t row = 0; row < rows; row++)
			sum += out[row * columns + column];
		d_bias[column] = (float)sum;
	}
}

static unsigned greatest(const float *values, unsigned count)
{
	unsigned best = 0;

	for (unsigned i = 1; i < count; i++)
		if (values[i] > values[best])
			best = i;
	return best;
}

static void loss_row(const struct ops_loss *loss, unsigned row)
{
	const float *logits = loss->logits + (size_t)row * loss->classes;
	const float *targets = loss->targets + (size_t)row * loss->classes;
	half *gradients = loss->gradients;
	unsigned best = greatest(logits, loss->classes);
	double sum = 0, weight = 0, hit = 0;

	for (unsigned i = 0; i < loss->classes; i++) {
		sum += exp((double)logits[i] - (double)logits[best]);
		weight += targets[i];
		hit += (double)targets[i] * ((double)logits[i] - (double)logits[best]);
	}
	if (row < loss->count && weight > 0) {
		loss->metrics->loss += weight * log(sum) - hit;
		loss->metrics->right += best == greatest(targets, loss->classes);
		loss->metrics->rows++;
	}
	for (unsigned i = 0; gradients && i < loss->classes; i++) {
		double share = exp((double)logits[i] - (double)logits[best]) / sum;
		gradients[(size_t)row * loss->classes + i] =
			row < loss->count ? to_range((share * weight - targets[i]) *
						     loss->scaler->scale / loss->count)
					  : 0;
	}
}

static void cpu_loss(struct ops *ops, const struct ops_loss *loss)
{
	(void)ops;
	for (unsigned row = 0; row < loss->rows; row++)
		loss_row(loss, row);
}

/* ---- the step ---- */

static void cpu_check_half(
	struct ops *ops, const void *gradients, size_t count, struct ops_scaler *scaler)
{
	const half *values = gradients;

	(void)ops;
	for (size_t i = 0; i < count; i++)
		if (!isfinite(values[i]))
			scaler->overflow = 1;
}

static void cpu_check_float(
	struct ops *ops, const float *gradients, size_t count, struct ops_scaler *scaler)
{
	(void)ops;
	for (size_t i = 0; i < count; i++)
		if (!isfinite(gradients[i]))
			scaler->overflow = 1;
}

static void move(const struct ops_sgd *how, float *weight, float *momentum, float gradient)
{
	*momentum = how->momentum * *momentum + (gradient + how->decay * *weight);
	*weight -= how->rate * *momentum;
}

static void cpu_sgd_half(struct ops *ops, const struct ops_sgd *how, float *weights,
	float *momentum, const void *gradients, void *copy, size_t count,
	const struct ops_scaler *scaler)
{
	const half *values = gradients;
	half *halves = copy;

	(void)ops;
	if (scaler->overflow)
		return;
	for (size_t i = 0; i < count; i++) {
		move(how, &weights[i], &momentum[i], (float)values[i] / scaler->scale);
		halves[i] = to_range(weights[i]);
	}
}

static void cpu_sgd_float(struct ops *ops, const struct ops_sgd *how, float *weights,
	float *momentum, const float *gradients, size_t count, const struct ops_scaler *scaler)
{
	(void)ops;
	if (scaler->overflow)
		return;
	for (size_t i = 0; i < count; i++)
		move(how, &weights[i], &momentum[i], gradients[i] / scaler->scale);
}

static void cpu_rescale(struct ops *ops, struct ops_scaler *scaler)
{
	(void)ops;
	if (scaler->overflow) {
		scaler->scale = fmaxf(scaler->scale / 2, 1);
		scaler->good = 0;
		scaler->skipped++;
		scaler->overflow = 0;
	} else if (++scaler->good == OPS_SCALE_AFTER) {
		scaler->scale = fminf(scaler->scale * 2, OPS_SCALE_MOST);
		scaler->good = 0;
	}
}

/* ---- the clock: the host is the device, and is idle while it waits ---- */

static void cpu_begin(struct ops *ops, double waited_s)
{
	((struct clock_state *)ops->self)->waited_s = waited_s;
}

static void cpu_end(struct ops *ops)
{
	struct clock_state *clock = ops->self;

	clock->idle_s += clock->waited_s;
}

static double cpu_idle_s(struct ops *ops)
{
	return ((struct clock_state *)ops->self)->idle_s;
}

static void cpu_close(struct ops *ops)
{
	free(ops->self);
	free(ops);
}

static const struct ops cpu = {
	.name = "host",
	.half_bytes = sizeof(half),
	.close = cpu_close,
	.allocate = cpu_allocate,
	.release = cpu_release,
	.put = cpu_copy,
	.get = cpu_copy,
	.zero = cpu_zero,
	.copy = cpu_copy,
	.to_half = cpu_to_half,
	.to_float = cpu_to_float,
	.conv_new = cpu_conv_new,
	.conv_free = cpu_conv_free,
	.conv_forward = cpu_conv_forward,
	.conv_backward_data = cpu_conv_backward_data,
	.conv_backward_filter = cpu_conv_backward_filter,
	.norm_new = cpu_norm_new,
	.norm_free = cpu_norm_free,
	.norm_forward = cpu_norm_forward,
	.norm_infer = cpu_norm_infer,
	.norm_backward = cpu_norm_backward,
	.relu = cpu_relu,
	.add_relu = cpu_add_relu,
	.relu_backward = cpu_relu_backward,
	.add = cpu_add,
	.widen = cpu_widen,
	.pool_forward = cpu_pool_forward,
	.pool_backward = cpu_pool_backward,
	.mean_forward = cpu_mean_forward,
	.mean_backward = cpu_mean_backward,
	.gemm = cpu_gemm,
	.bias = cpu_bias,
	.bias_backward = cpu_bias_backward,
	.loss = cpu_loss,
	.check_half = cpu_check_half,
	.check_float = cpu_check_float,
	.sgd_half = cpu_sgd_half,
	.sgd_float = cpu_sgd_float,
	.rescale = cpu_rescale,
	.begin = cpu_begin,
	.end = cpu_end,
	.idle_s = cpu_idle_s,
};

struct ops *ops_cpu_open(void)
{
	struct ops *ops = host_new(1, sizeof(*ops));

	*ops = cpu;
	ops->self = host_new(1, sizeof(struct clock_state));
	return ops;
}

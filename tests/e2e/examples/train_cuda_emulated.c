/* The GPU's kernels on the CPU, as ops. See train_cuda_emulated.h. */
#include "train_cuda_emulated.h"

#include "train_cuda_host.h"

#include "client/examples/train_cuda/kernels.h"

#include <stdlib.h>
#include <string.h>

struct conv {
	struct ops_conv shape;
	struct conv *host; /* train_cuda_host.c's, which is another struct */
};

struct norm {
	size_t count;
	struct norm *host;
};

static struct ops *host_of(struct ops *ops)
{
	return ops->self;
}

/* ---- casts, by the emulated kernels ---- */

static void *room(size_t count, size_t bytes)
{
	void *memory = calloc(count, bytes);

	if (!memory)
		abort();
	return memory;
}

static double *to_host(struct ops *ops, const void *half, size_t count)
{
	float *floats = room(count, sizeof(*floats));
	double *doubles = room(count, sizeof(*doubles));

	ops->to_float(ops, floats, half, count);
	for (size_t i = 0; i < count; i++)
		doubles[i] = floats[i];
	free(floats);
	return doubles;
}

static void from_host(struct ops *ops, void *half, double *doubles, size_t count)
{
	float *floats = room(count, sizeof(*floats));

	for (size_t i = 0; i < count; i++)
		floats[i] = (float)doubles[i];
	ops->to_half(ops, half, floats, count);
	free(floats);
	free(doubles);
}

/* ---- what is cuDNN's ---- */

static size_t x_count(const struct conv *conv)
{
	return (size_t)conv->shape.n * conv->shape.h * conv->shape.w * conv->shape.c;
}

static size_t w_count(const struct conv *conv)
{
	return (size_t)conv->shape.k * conv->shape.kernel * conv->shape.kernel * conv->shape.c;
}

static size_t y_count(const struct conv *conv)
{
	return (size_t)conv->shape.n * ops_conv_out(&conv->shape, conv->shape.h) *
	       ops_conv_out(&conv->shape, conv->shape.w) * conv->shape.k;
}

static struct conv *emulated_conv_new(struct ops *ops, const struct ops_conv *shape)
{
	struct conv *conv = room(1, sizeof(*conv));

	conv->shape = *shape;
	conv->host = host_of(ops)->conv_new(host_of(ops), shape);
	return conv;
}

static void emulated_conv_free(struct ops *ops, struct conv *conv)
{
	host_of(ops)->conv_free(host_of(ops), conv->host);
	free(conv);
}

typedef void conv_fn(struct ops *ops, struct conv *conv, const void *a, const void *b, void *c);

static void convolve(struct ops *ops, struct conv *conv, conv_fn *function, const void *const in[2],
	const size_t counts[2], void *out, size_t out_count)
{
	double *a = to_host(ops, in[0], counts[0]), *b = to_host(ops, in[1], counts[1]);
	double *c = room(out_count, sizeof(*c));

	function(host_of(ops), conv->host, a, b, c);
	from_host(ops, out, c, out_count);
	free(a);
	free(b);
}

static void emulated_conv_forward(
	struct ops *ops, struct conv *conv, const void *x, const void *w, void *y)
{
	convolve(ops, conv, host_of(ops)->conv_forward, (const void *[]){x, w},
		(size_t[]){x_count(conv), w_count(conv)}, y, y_count(conv));
}

static void emulated_conv_backward_data(
	struct ops *ops, struct conv *conv, const void *w, const void *dy, void *dx)
{
	convolve(ops, conv, host_of(ops)->conv_backward_data, (const void *[]){w, dy},
		(size_t[]){w_count(conv), y_count(conv)}, dx, x_count(conv));
}

static void emulated_conv_backward_filter(
	struct ops *ops, struct conv *conv, const void *x, const void *dy, void *dw)
{
	convolve(ops, conv, host_of(ops)->conv_backward_filter, (const void *[]){x, dy},
		(size_t[]){x_count(conv), y_count(conv)}, dw, w_count(conv));
}

static struct norm *emulated_norm_new(struct ops *ops, const struct ops_map *shape)
{
	struct norm *norm = room(1, sizeof(*norm));

	norm->count = (size_t)shape->n * shape->h * shape->w * shape->c;
	norm->host = host_of(ops)->norm_new(host_of(ops), shape);
	return norm;
}

static void emulated_norm_free(struct ops *ops, struct norm *norm)
{
	host_of(ops)->norm_free(host_of(ops), norm->host);
	free(norm);
}

static void emulated_norm_forward(struct ops *ops, struct norm *norm,
	const struct ops_norm_values *values, const void *x, void *y)
{
	double *in = to_host(ops, x, norm->count), *out = room(norm->count, sizeof(*out));

	host_of(ops)->norm_forward(host_of(ops), norm->host, values, in, out);
	from_host(ops, y, out, norm->count);
	free(in);
}

static void emulated_norm_infer(struct ops *ops, struct norm *norm,
	const struct ops_norm_values *values, const void *x, void *y)
{
	double *in = to_host(ops, x, norm->count), *out = room(norm->count, sizeof(*out));

	host_of(ops)->norm_infer(host_of(ops), norm->host, values, in, out);
	from_host(ops, y, out, norm->count);
	free(in);
}

static void emulated_norm_backward(struct ops *ops, struct norm *norm, const float *scale,
	const void *x, const void *dy, void *dx, float *d_scale, float *d_shift)
{
	double *in = to_host(ops, x, norm->count), *out = to_host(ops, dy, norm->count);
	double *back = room(norm->count, sizeof(*back));

	host_of(ops)->norm_backward(
		host_of(ops), norm->host, scale, in, out, back, d_scale, d_shift);
	from_host(ops, dx, back, norm->count);
	free(in);
	free(out);
}

/* ---- what is cuBLAS's ---- */

static void emulated_gemm(struct ops *ops, const struct ops_gemm *shape, const void *a,
	const void *b, void *c, bool wide)
{
	size_t count = (size_t)shape->m * shape->n;
	double *left = to_host(ops, a, (size_t)shape->m * shape->k);
	double *right = to_host(ops, b, (size_t)shape->k * shape->n);
	double *out = wide ? NULL : room(count, sizeof(*out));

	host_of(ops)->gemm(host_of(ops), shape, left, right, wide ? c : out, wide);
	if (out)
		from_host(ops, c, out, count);
	free(left);
	free(right);
}

/* ---- memory and the clock: the host's ---- */

static void *emulated_allocate(struct ops *ops, size_t bytes)
{
	void *memory = NULL;

	(void)ops;
	/* As cudaMalloc aligns. */
	if (posix_memalign(&memory, 256, bytes ? bytes : 1) != 0)
		abort();
	memset(memory, 0, bytes);
	return memory;
}

static void emulated_begin(struct ops *ops, double waited_s)
{
	host_of(ops)->begin(host_of(ops), waited_s);
}

static void emulated_end(struct ops *ops)
{
	host_of(ops)->end(host_of(ops));
}

static double emulated_idle_s(struct ops *ops)
{
	return host_of(ops)->idle_s(host_of(ops));
}

static void emulated_close(struct ops *ops)
{
	host_of(ops)->close(host_of(ops));
	free(ops);
}

struct ops *ops_emulated_open(void)
{
	struct ops *host = ops_cpu_open(), *ops = room(1, sizeof(*ops));

	*ops = (struct ops){
		.name = "emulated GPU",
		.half_bytes = 2,
		.self = host,
		.close = emulated_close,
		.allocate = emulated_allocate,
		.release = host->release,
		.put = host->put,
		.get = host->get,
		.zero = host->zero,
		.copy = host->copy,
		.conv_new = emulated_conv_new,
		.conv_free = emulated_conv_free,
		.conv_forward = emulated_conv_forward,
		.conv_backward_data = emulated_conv_backward_data,
		.conv_backward_filter = emulated_conv_backward_filter,
		.norm_new = emulated_norm_new,
		.norm_free = emulated_norm_free,
		.norm_forward = emulated_norm_forward,
		.norm_infer = emulated_norm_infer,
		.norm_backward = emulated_norm_backward,
		.gemm = emulated_gemm,
		.begin = emulated_begin,
		.end = emulated_end,
		.idle_s = emulated_idle_s,
	};
	kernels_fill(ops);
	return ops;
}

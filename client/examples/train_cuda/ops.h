/* ops: the operations that a small residual network needs from a device, as a table of functions.
 *
 *   ops.h          this table
 *   ops_cuda.c     on a GPU: cuDNN, cuBLAS and, for the rest, kernels.cu (kernels.h)
 *   net.[ch]       the network, its forward and backward pass, and its step
 *   schedule.[ch]  the learning rate
 *   checkpoint.[ch], options.[ch], train.c: the program train_cuda
 *
 * Tensors are pointers to device memory without a shape of their own. Images are stored as (n, h,
 * w, c), filters as (k, kernel, kernel, c), matrices by rows. There are two types: `half` and
 * float. `half` is float16 on the GPU; half_bytes says how large an element is: the host's
 * implementation computes in double within float16's range, so that gradients can be checked by
 * differences. Sums are float or wider everywhere. Numbers of channels are multiples of OPS_PACK,
 * as tensor cores and 16-byte loads require.
 *
 * Everything is done in order in one queue; only `get` waits for it. No function returns an error:
 * as in train_cpu, the process ends with a sentence. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;

enum { OPS_PACK = 8 }; /* halves in 16 bytes */

#define OPS_NORM_EPSILON 1e-5 /* as torch.nn.BatchNorm2d's defaults */
#define OPS_NORM_MOMENTUM 0.1
#define OPS_SCALE_FIRST 65536.0f /* as torch.amp.GradScaler's defaults */
#define OPS_SCALE_AFTER 2000u /* steps without overflow until the scale doubles */
#define OPS_SCALE_MOST 16777216.0f

/* A convolution's shape, with `pad` pixels of zeros on each side. */
struct ops_conv {
	unsigned n, h, w, c; /* in */
	unsigned k, kernel, stride, pad;
};

static inline unsigned ops_conv_out(const struct ops_conv *shape, unsigned side)
{
	return (side + 2 * shape->pad - shape->kernel) / shape->stride + 1;
}

/* Images of h x w pixels. */
struct ops_map {
	unsigned n, h, w, c;
};

/* C (m x n) = A (m x k) B (k x n). A transposed matrix is stored by columns. */
struct ops_gemm {
	unsigned m, n, k;
	bool a_transposed, b_transposed;
};

struct ops_sgd {
	float rate, momentum, decay;
};

/* The loss is multiplied by `scale` before the backward pass, so that small gradients are not 0 in
 * float16. In device memory. */
struct ops_scaler {
	float scale;
	uint32_t good; /* steps since the last change of the scale */
	uint32_t overflow; /* this step's gradients are not all finite */
	uint32_t skipped; /* steps that were skipped for that */
};

/* Sums since they were set to 0. In device memory. */
struct ops_metrics {
	double loss;
	uint64_t right, rows;
};

/* Normalization of each channel: scale and shift are learned. */
struct ops_norm_values {
	const float *scale, *shift;
	float *mean, *variance; /* running, for inference */
};

struct ops_loss {
	unsigned rows, classes;
	unsigned count; /* rows that count; the others' gradients are 0 */
	/* rows x classes. Targets are distributions; in a row that has no label and does not count
	 * they are all 0. */
	const float *logits, *targets;
	float *scratch; /* 2 x rows */
	void *gradients; /* half, rows x classes: of the scaled mean loss. NULL: not wanted */
	const struct ops_scaler *scaler;
	struct ops_metrics *metrics;
};

struct conv; /* each implementation's own */
struct norm;

struct ops {
	const char *name;
	size_t half_bytes;
	struct CUstream_st *queue; /* NULL on the host */
	void *self; /* the implementation's own */
	void (*close)(struct ops *ops);

	/* Memory. `get` waits until the queue has reached it. */
	void *(*allocate)(struct ops *ops, size_t bytes); /* set to 0 */
	void (*release)(struct ops *ops, void *memory);
	void (*put)(struct ops *ops, void *to, const void *from_host, size_t bytes);
	void (*get)(struct ops *ops, void *to_host, const void *from, size_t bytes);
	void (*zero)(struct ops *ops, void *memory, size_t bytes);
	void (*copy)(
		struct ops *ops, void *to, const void *from, size_t bytes); /* must not overlap */
	void (*to_half)(struct ops *ops, void *to, const float *from, size_t count);
	void (*to_float)(struct ops *ops, float *to, const void *from, size_t count);

	/* Convolutions: x is the input, y the output, w the filter; d_ their gradients. */
	struct conv *(*conv_new)(struct ops *ops, const struct ops_conv *shape);
	void (*conv_free)(struct ops *ops, struct conv *conv);
	void (*conv_forward)(
		struct ops *ops, struct conv *conv, const void *x, const void *w, void *y);
	void (*conv_backward_data)(
		struct ops *ops, struct conv *conv, const void *w, const void *dy, void *dx);
	void (*conv_backward_filter)(
		struct ops *ops, struct conv *conv, const void *x, const void *dy, void *dw);

	/* Batch normalization. `norm_backward` follows the `norm_forward` of the same x. */
	struct norm *(*norm_new)(struct ops *ops, const struct ops_map *shape);
	void (*norm_free)(struct ops *ops, struct norm *norm);
	void (*norm_forward)(struct ops *ops, struct norm *norm,
		const struct ops_norm_values *values, const void *x, void *y);
	void (*norm_infer)(struct ops *ops, struct norm *norm, const struct ops_norm_values *values,
		const void *x, void *y);
	void (*norm_backward)(struct ops *ops, struct norm *norm, const float *scale, const void *x,
		const void *dy, void *dx, float *d_scale, float *d_shift);

	/* Elementwise, of `count` halves, a multiple of OPS_PACK. */
	void (*relu)(struct ops *ops, void *y, size_t count); /* y = max(y, 0) */
	void (*add_relu)(struct ops *ops, void *y, const void *x, size_t count); /* max(y + x, 0) */
	/* dy = 0 where y is 0. */
	void (*relu_backward)(struct ops *ops, void *dy, const void *y, size_t count);
	void (*add)(struct ops *ops, void *y, const void *x, size_t count); /* y += x */

	/* (pixels, 3) to (pixels, OPS_PACK), padded with 0. */
	void (*widen)(struct ops *ops, void *to, const void *from, size_t pixels);

	/* Maximum of 3 x 3, every second pixel, one pixel of padding. `taken`: which of the nine
	 * (the first if several are equal), one byte per output. */
	void (*pool_forward)(
		struct ops *ops, const struct ops_map *in, const void *x, void *y, uint8_t *taken);
	void (*pool_backward)(struct ops *ops, const struct ops_map *in, const void *dy,
		const uint8_t *taken, void *dx);

	/* Mean over the image: (n, h, w, c) to (n, c). */
	void (*mean_forward)(struct ops *ops, const struct ops_map *in, const void *x, void *y);
	void (*mean_backward)(struct ops *ops, const struct ops_map *in, const void *dy, void *dx);

	/* Of halves; c is float if `wide` is set. */
	void (*gemm)(struct ops *ops, const struct ops_gemm *shape, const void *a, const void *b,
		void *c, bool wide);
	void (*bias)(struct ops *ops, float *y, const float *bias, unsigned rows, unsigned columns);
	void (*bias_backward)(
		struct ops *ops, float *d_bias, const void *dy, unsigned rows, unsigned columns);

	/* Softmax and cross-entropy. A row is right if logits and targets have their maximum at the
	 * same class. */
	void (*loss)(struct ops *ops, const struct ops_loss *loss);

	/* The step: `check` notes in the scaler whether a gradient is infinite or NaN; `sgd` then
	 * does nothing; `rescale` begins the next step. */
	void (*check_half)(
		struct ops *ops, const void *gradients, size_t count, struct ops_scaler *scaler);
	void (*check_float)(
		struct ops *ops, const float *gradients, size_t count, struct ops_scaler *scaler);
	/* momentum = m momentum + (gradients / scale + decay weights); weights -= rate momentum. */
	void (*sgd_half)(struct ops *ops, const struct ops_sgd *how, float *weights,
		float *momentum, const void *gradients, void *copy, size_t count,
		const struct ops_scaler *scaler); /* `copy`: the weights as half */
	void (*sgd_float)(struct ops *ops, const struct ops_sgd *how, float *weights,
		float *momentum, const float *gradients, size_t count,
		const struct ops_scaler *scaler);
	void (*rescale)(struct ops *ops, struct ops_scaler *scaler);

	/* How long the device had nothing to do because the host had no batch for it. Call `begin`
	 * when a batch begins to be used, after the host has waited `waited_s` for it, and `end`
	 * after its last work; idle_s is the sum so far over the batches that the device has
	 * passed. */
	void (*begin)(struct ops *ops, double waited_s);
	void (*end)(struct ops *ops);
	double (*idle_s)(struct ops *ops);
};

/* The GPU of that number. Ends the process with a sentence if it cannot be used. */
struct ops *ops_device_open(int number);

/* train_cuda's own functions on the GPU. See kernels.h and, for what each computes,
 * tests/e2e/examples/train_cuda_host.c.
 *
 * Elementwise functions take eight halves (16 bytes) per thread and step. All sums are float, in an
 * order that does not depend on timing, so that a run can be repeated bit for bit: no atomics. */
#include "kernels.h"

/* Tests compile this for the CPU, with their own definitions of keywords and launches. */
#ifdef __CUDACC__
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math_constants.h>

#include <stdio.h>
#include <stdlib.h>

static void check_launch(const char *kernel)
{
	cudaError_t status = cudaGetLastError();

	if (status == cudaSuccess)
		return;
	fprintf(stderr, "train_cuda: cannot start %s on the GPU: %s (%s)\n", kernel,
		cudaGetErrorString(status), cudaGetErrorName(status));
	exit(1);
}

#define LAUNCH(kernel, blocks, threads, ops, ...)                              \
	do {                                                                   \
		kernel<<<(blocks), (threads), 0, (ops)->queue>>>(__VA_ARGS__); \
		check_launch(#kernel);                                         \
	} while (0)

/* For a block whose threads wait for each other. */
#define LAUNCH_TOGETHER LAUNCH
#endif

namespace
{

constexpr unsigned THREADS = 256, BLOCKS_MAX = 16384;
constexpr unsigned ROW_THREADS = 32; /* of a block (a warp) that computes one row of scores */

struct alignas(16) pack {
	__half value[OPS_PACK];
};

unsigned blocks_for(size_t work)
{
	size_t blocks = (work + THREADS - 1) / THREADS;

	return (unsigned)(blocks < 1 ? 1 : blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX);
}

/* The thread's first piece of work, and the distance to its next. */
__device__ size_t first()
{
	return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ size_t stride()
{
	return (size_t)gridDim.x * blockDim.x;
}

/* Written so that NaN stays NaN. */
__device__ float above_zero(float x)
{
	return x < 0 ? 0 : x;
}

/* ---- elementwise ---- */

__global__ void to_half(__half *to, const float *from, size_t count)
{
	for (size_t i = first(); i < count; i += stride())
		to[i] = __float2half_rn(from[i]);
}

__global__ void to_float(float *to, const __half *from, size_t count)
{
	for (size_t i = first(); i < count; i += stride())
		to[i] = __half2float(from[i]);
}

struct relu_op {
	__device__ float operator()(float y, float) const
	{
		return above_zero(y);
	}
};

struct add_op {
	__device__ float operator()(float y, float x) const
	{
		return y + x;
	}
};

struct add_relu_op {
	__device__ float operator()(float y, float x) const
	{
		return above_zero(y + x);
	}
};

struct mask_op {
	__device__ float operator()(float dy, float y) const
	{
		return y > 0 ? dy : 0;
	}
};

/* y = op(y, x), pack by pack. */
template <typename Op> __global__ void combine(pack *y, const pack *x, size_t packs)
{
	for (size_t i = first(); i < packs; i += stride()) {
		pack mine = y[i], other = x[i];
#pragma unroll
		for (int j = 0; j < OPS_PACK; j++)
			mine.value[j] = __float2half_rn(
				Op()(__half2float(mine.value[j]), __half2float(other.value[j])));
		y[i] = mine;
	}
}

template <typename Op> void launch_combine(struct ops *ops, void *y, const void *x, size_t count)
{
	size_t packs = count / OPS_PACK;

	LAUNCH(combine<Op>, blocks_for(packs), THREADS, ops, (pack *)y, (const pack *)x, packs);
}

__global__ void widen(pack *to, const __half *from, size_t pixels)
{
	for (size_t i = first(); i < pixels; i += stride()) {
		pack wide = {};
#pragma unroll
		for (int c = 0; c < 3; c++)
			wide.value[c] = from[3 * i + c];
		to[i] = wide;
	}
}

/* ---- pooling ---- */

struct pooling {
	unsigned h, w, packs; /* of the input; channels in packs */
	unsigned out_h, out_w;
	size_t work; /* packs of the tensor that is written */
};

pooling pooling_of(const ops_map *in)
{
	pooling p;

	p.h = in->h;
	p.w = in->w;
	p.packs = in->c / OPS_PACK;
	p.out_h = (in->h + 1) / 2;
	p.out_w = (in->w + 1) / 2;
	p.work = 0;
	return p;
}

struct alignas(8) choice {
	uint8_t value[OPS_PACK];
};

__device__ void take(pack *best, choice *taken, const pack &here, int tap, bool any)
{
#pragma unroll
	for (int j = 0; j < OPS_PACK; j++) {
		if (any && !(__half2float(here.value[j]) > __half2float(best->value[j])))
			continue;
		best->value[j] = here.value[j];
		taken->value[j] = (uint8_t)tap;
	}
}

__global__ void pool_forward(pooling p, const pack *x, pack *y, choice *taken)
{
	for (size_t at = first(); at < p.work; at += stride()) {
		size_t out = at / p.packs, c = at % p.packs;
		size_t image = out / ((size_t)p.out_h * p.out_w);
		int top = (int)(out / p.out_w % p.out_h) * 2 - 1,
		    left = (int)(out % p.out_w) * 2 - 1;
		pack best = {};
		choice mine = {};
		bool any = false;
		for (int tap = 0; tap < 9; tap++) {
			int row = top + tap / 3, column = left + tap % 3;
			if (row < 0 || row >= (int)p.h || column < 0 || column >= (int)p.w)
				continue;
			take(&best, &mine, x[((image * p.h + row) * p.w + column) * p.packs + c],
				tap, any);
			any = true;
		}
		y[at] = best;
		taken[at] = mine;
	}
}

/* Each input pixel asks the (up to four) windows that contain it whether they took it. */
__global__ void pool_backward(pooling p, const pack *dy, const choice *taken, pack *dx)
{
	for (size_t at = first(); at < p.work; at += stride()) {
		size_t in = at / p.packs, c = at % p.packs;
		size_t image = in / ((size_t)p.h * p.w);
		unsigned row = (unsigned)(in / p.w % p.h), column = (unsigned)(in % p.w);
		float sum[OPS_PACK] = {};
		/* The window of output o covers rows 2 o - 1 to 2 o + 1. */
		for (unsigned oy = row / 2; oy <= (row + 1) / 2 && oy < p.out_h; oy++) {
			for (unsigned ox = column / 2; ox <= (column + 1) / 2 && ox < p.out_w;
				ox++) {
				size_t out = ((image * p.out_h + oy) * p.out_w + ox) * p.packs + c;
				unsigned tap = (row + 1 - 2 * oy) * 3 + (column + 1 - 2 * ox);
				pack gradient = dy[out];
				choice theirs = taken[out];
#pragma unroll
				for (int j = 0; j < OPS_PACK; j++)
					if (theirs.value[j] == tap)
						sum[j] += __half2float(gradient.value[j]);
			}
		}
		pack mine;
#pragma unroll
		for (int j = 0; j < OPS_PACK; j++)
			mine.value[j] = __float2half_rn(sum[j]);
		dx[at] = mine;
	}
}

__global__ void mean_forward(size_t work, unsigned packs, size_t pixels, const pack *x, pack *y)
{
	for (size_t at = first(); at < work; at += stride()) {
		const pack *from = x + at / packs * pixels * packs + at % packs;
		float sum[OPS_PACK] = {};
		for (size_t i = 0; i < pixels; i++) {
			pack here = from[i * packs];
#pragma unroll
			for (int j = 0; j < OPS_PACK; j++)
				sum[j] += __half2float(here.value[j]);
		}
		pack mine;
#pragma unroll
		for (int j = 0; j < OPS_PACK; j++)
			mine.value[j] = __float2half_rn(sum[j] / (float)pixels);
		y[at] = mine;
	}
}

__global__ void mean_backward(size_t work, unsigned packs, size_t pixels, const pack *dy, pack *dx)
{
	for (size_t at = first(); at < work; at += stride()) {
		pack mine = dy[at / (pixels * packs) * packs + at % packs];
#pragma unroll
		for (int j = 0; j < OPS_PACK; j++)
			mine.value[j] =
				__float2half_rn(__half2float(mine.value[j]) / (float)pixels);
		dx[at] = mine;
	}
}

/* ---- the linear layer and the loss ---- */

__global__ void bias(float *y, const float *values, size_t count, unsigned columns)
{
	for (size_t i = first(); i < count; i += stride())
		y[i] += values[i % columns];
}

__global__ void bias_backward(float *d_bias, const __half *dy, unsigned rows, unsigned columns)
{
	for (size_t column = first(); column < columns; column += stride()) {
		float sum = 0;
		for (size_t row = 0; row < rows; row++)
			sum += __half2float(dy[row * columns + column]);
		d_bias[column] = sum;
	}
}

struct place {
	float value;
	unsigned index;
};

__device__ place greater(place a, place b)
{
	if (b.value > a.value || (b.value == a.value && b.index < a.index))
		return b;
	return a;
}

__device__ float sum_of(float value, float *shared)
{
	__syncthreads();
	shared[threadIdx.x] = value;
	__syncthreads();
	for (unsigned half = ROW_THREADS / 2; half > 0; half /= 2) {
		if (threadIdx.x < half)
			shared[threadIdx.x] += shared[threadIdx.x + half];
		__syncthreads();
	}
	return shared[0];
}

__device__ place greatest_of(place value, place *shared)
{
	__syncthreads();
	shared[threadIdx.x] = value;
	__syncthreads();
	for (unsigned half = ROW_THREADS / 2; half > 0; half /= 2) {
		if (threadIdx.x < half)
			shared[threadIdx.x] =
				greater(shared[threadIdx.x], shared[threadIdx.x + half]);
		__syncthreads();
	}
	return shared[0];
}

__device__ place greatest(const float *values, unsigned count, place *shared)
{
	place best = {-CUDART_INF_F, 0xffffffffu};

	for (unsigned i = threadIdx.x; i < count; i += ROW_THREADS)
		best = greater(best, place{values[i], i});
	return greatest_of(best, shared);
}

/* One block per row. The loss and whether the row is right (-1: it has no label) go to scratch[row]
 * and scratch[rows + row]; sum_rows adds them up in their order. */
__global__ void loss_rows(ops_loss loss)
{
	__shared__ place places[ROW_THREADS];
	__shared__ float sums[ROW_THREADS];
	unsigned row = blockIdx.x, classes = loss.classes;
	const float *logits = loss.logits + (size_t)row * classes;
	const float *targets = loss.targets + (size_t)row * classes;
	__half *gradients = (__half *)loss.gradients;
	place best = greatest(logits, classes, places);
	place wanted = greatest(targets, classes, places);
	float sum = 0, weight = 0, hit = 0;

	for (unsigned i = threadIdx.x; i < classes; i += ROW_THREADS) {
		float above = logits[i] - best.value;
		sum += expf(above);
		weight += targets[i];
		hit += targets[i] * above;
	}
	sum = sum_of(sum, sums);
	weight = sum_of(weight, sums);
	hit = sum_of(hit, sums);
	if (threadIdx.x == 0) {
		loss.scratch[row] = weight * logf(sum) - hit;
		loss.scratch[loss.rows + row] =
			weight > 0 ? (best.index == wanted.index ? 1.0f : 0.0f) : -1.0f;
	}
	if (!gradients)
		return;
	float scale = row < loss.count ? loss.scaler->scale / (float)loss.count : 0;
	for (unsigned i = threadIdx.x; i < classes; i += ROW_THREADS)
		gradients[(size_t)row * classes + i] =
			row < loss.count
				? __float2half_rn((expf(logits[i] - best.value) / sum * weight -
							  targets[i]) *
						  scale)
				: __float2half_rn(0);
}

__global__ void sum_rows(ops_loss loss)
{
	__shared__ float sums[ROW_THREADS];
	float total = 0, right = 0, rows = 0;

	for (unsigned i = threadIdx.x; i < loss.count; i += ROW_THREADS) {
		float mark = loss.scratch[loss.rows + i];
		total += loss.scratch[i];
		right += mark > 0 ? 1.0f : 0.0f;
		rows += mark >= 0 ? 1.0f : 0.0f;
	}
	total = sum_of(total, sums);
	right = sum_of(right, sums);
	rows = sum_of(rows, sums);
	if (threadIdx.x == 0) {
		loss.metrics->loss += total;
		loss.metrics->right += (uint64_t)right;
		loss.metrics->rows += (uint64_t)rows;
	}
}

/* ---- the step ---- */

/* All threads that find something write the same value. */
__global__ void check_half(const pack *gradients, size_t packs, ops_scaler *scaler)
{
	for (size_t i = first(); i < packs; i += stride()) {
		pack here = gradients[i];
#pragma unroll
		for (int j = 0; j < OPS_PACK; j++)
			if ((__half_as_ushort(here.value[j]) & 0x7c00) == 0x7c00)
				scaler->overflow = 1;
	}
}

__global__ void check_float(const float *gradients, size_t count, ops_scaler *scaler)
{
	for (size_t i = first(); i < count; i += stride())
		if (!isfinite(gradients[i]))
			scaler->overflow = 1;
}

__device__ float move(const ops_sgd &how, float *weight, float *momentum, float gradient)
{
	*momentum = how.momentum * *momentum + (gradient + how.decay * *weight);
	*weight -= how.rate * *momentum;
	return *weight;
}

__global__ void sgd_half(ops_sgd how, float *weights, float *momentum, const __half *gradients,
	__half *copy, size_t count, const ops_scaler *scaler)
{
	if (scaler->overflow)
		return;
	for (size_t i = first(); i < count; i += stride())
		copy[i] = __float2half_rn(move(how, &weights[i], &momentum[i],
			__half2float(gradients[i]) / scaler->scale));
}

__global__ void sgd_float(ops_sgd how, float *weights, float *momentum, const float *gradients,
	size_t count, const ops_scaler *scaler)
{
	if (scaler->overflow)
		return;
	for (size_t i = first(); i < count; i += stride())
		move(how, &weights[i], &momentum[i], gradients[i] / scaler->scale);
}

__global__ void rescale(ops_scaler *scaler)
{
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

/* ---- launches ---- */

void launch_to_half(struct ops *ops, void *to, const float *from, size_t count)
{
	LAUNCH(to_half, blocks_for(count), THREADS, ops, (__half *)to, from, count);
}

void launch_to_float(struct ops *ops, float *to, const void *from, size_t count)
{
	LAUNCH(to_float, blocks_for(count), THREADS, ops, to, (const __half *)from, count);
}

void launch_relu(struct ops *ops, void *y, size_t count)
{
	launch_combine<relu_op>(ops, y, y, count);
}

void launch_add_relu(struct ops *ops, void *y, const void *x, size_t count)
{
	launch_combine<add_relu_op>(ops, y, x, count);
}

void launch_relu_backward(struct ops *ops, void *dy, const void *y, size_t count)
{
	launch_combine<mask_op>(ops, dy, y, count);
}

void launch_add(struct ops *ops, void *y, const void *x, size_t count)
{
	launch_combine<add_op>(ops, y, x, count);
}

void launch_widen(struct ops *ops, void *to, const void *from, size_t pixels)
{
	LAUNCH(widen, blocks_for(pixels), THREADS, ops, (pack *)to, (const __half *)from, pixels);
}

void launch_pool_forward(
	struct ops *ops, const struct ops_map *in, const void *x, void *y, uint8_t *taken)
{
	pooling p = pooling_of(in);

	p.work = (size_t)in->n * p.out_h * p.out_w * p.packs;
	LAUNCH(pool_forward, blocks_for(p.work), THREADS, ops, p, (const pack *)x, (pack *)y,
		(choice *)taken);
}

void launch_pool_backward(
	struct ops *ops, const struct ops_map *in, const void *dy, const uint8_t *taken, void *dx)
{
	pooling p = pooling_of(in);

	p.work = (size_t)in->n * p.h * p.w * p.packs;
	LAUNCH(pool_backward, blocks_for(p.work), THREADS, ops, p, (const pack *)dy,
		(const choice *)taken, (pack *)dx);
}

void launch_mean_forward(struct ops *ops, const struct ops_map *in, const void *x, void *y)
{
	unsigned packs = in->c / OPS_PACK;
	size_t work = (size_t)in->n * packs;

	LAUNCH(mean_forward, blocks_for(work), THREADS, ops, work, packs, (size_t)in->h * in->w,
		(const pack *)x, (pack *)y);
}

void launch_mean_backward(struct ops *ops, const struct ops_map *in, const void *dy, void *dx)
{
	unsigned packs = in->c / OPS_PACK;
	size_t pixels = (size_t)in->h * in->w, work = in->n * pixels * packs;

	LAUNCH(mean_backward, blocks_for(work), THREADS, ops, work, packs, pixels, (const pack *)dy,
		(pack *)dx);
}

void launch_bias(struct ops *ops, float *y, const float *values, unsigned rows, unsigned columns)
{
	size_t count = (size_t)rows * columns;

	LAUNCH(bias, blocks_for(count), THREADS, ops, y, values, count, columns);
}

void launch_bias_backward(
	struct ops *ops, float *d_bias, const void *dy, unsigned rows, unsigned columns)
{
	LAUNCH(bias_backward, blocks_for(columns), THREADS, ops, d_bias, (const __half *)dy, rows,
		columns);
}

void launch_loss(struct ops *ops, const struct ops_loss *loss)
{
	LAUNCH_TOGETHER(loss_rows, loss->rows, ROW_THREADS, ops, *loss);
	LAUNCH_TOGETHER(sum_rows, 1, ROW_THREADS, ops, *loss);
}

void launch_check_half(
	struct ops *ops, const void *gradients, size_t count, struct ops_scaler *scaler)
{
	size_t packs = count / OPS_PACK;

	LAUNCH(check_half, blocks_for(packs), THREADS, ops, (const pack *)gradients, packs, scaler);
}

void launch_check_float(
	struct ops *ops, const float *gradients, size_t count, struct ops_scaler *scaler)
{
	LAUNCH(check_float, blocks_for(count), THREADS, ops, gradients, count, scaler);
}

void launch_sgd_half(struct ops *ops, const struct ops_sgd *how, float *weights, float *momentum,
	const void *gradients, void *copy, size_t count, const struct ops_scaler *scaler)
{
	LAUNCH(sgd_half, blocks_for(count), THREADS, ops, *how, weights, momentum,
		(const __half *)gradients, (__half *)copy, count, scaler);
}

void launch_sgd_float(struct ops *ops, const struct ops_sgd *how, float *weights, float *momentum,
	const float *gradients, size_t count, const struct ops_scaler *scaler)
{
	LAUNCH(sgd_float, blocks_for(count), THREADS, ops, *how, weights, momentum, gradients,
		count, scaler);
}

void launch_rescale(struct ops *ops, struct ops_scaler *scaler)
{
	LAUNCH(rescale, 1, 1, ops, scaler);
}

} // namespace

void kernels_fill(struct ops *ops)
{
	ops->to_half = launch_to_half;
	ops->to_float = launch_to_float;
	ops->relu = launch_relu;
	ops->add_relu = launch_add_relu;
	ops->relu_backward = launch_relu_backward;
	ops->add = launch_add;
	ops->widen = launch_widen;
	ops->pool_forward = launch_pool_forward;
	ops->pool_backward = launch_pool_backward;
	ops->mean_forward = launch_mean_forward;
	ops->mean_backward = launch_mean_backward;
	ops->bias = launch_bias;
	ops->bias_backward = launch_bias_backward;
	ops->loss = launch_loss;
	ops->check_half = launch_check_half;
	ops->check_float = launch_check_float;
	ops->sgd_half = launch_sgd_half;
	ops->sgd_float = launch_sgd_float;
	ops->rescale = launch_rescale;
}

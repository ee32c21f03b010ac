/* kernels: what train_cuda does on the GPU beside cuDNN and cuBLAS. Each function is the one of
 * ops.h of the same name, put into `queue`; `half` memory is float16, aligned to 16 bytes. */
#pragma once

#include "ops.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CUstream_st *kernel_queue;

void kernel_to_half(kernel_queue queue, void *to, const float *from, size_t count);
void kernel_to_float(kernel_queue queue, float *to, const void *from, size_t count);
void kernel_relu(kernel_queue queue, void *y, size_t count);
void kernel_add_relu(kernel_queue queue, void *y, const void *x, size_t count);
void kernel_relu_backward(kernel_queue queue, void *dy, const void *y, size_t count);
void kernel_add(kernel_queue queue, void *y, const void *x, size_t count);
void kernel_widen(kernel_queue queue, void *to, const void *from, size_t pixels);
void kernel_pool_forward(
	kernel_queue queue, const struct ops_map *in, const void *x, void *y, uint8_t *taken);
void kernel_pool_backward(kernel_queue queue, const struct ops_map *in, const void *dy,
	const uint8_t *taken, void *dx);
void kernel_mean_forward(kernel_queue queue, const struct ops_map *in, const void *x, void *y);
void kernel_mean_backward(kernel_queue queue, const struct ops_map *in, const void *dy, void *dx);
void kernel_bias(kernel_queue queue, float *y, const float *bias, unsigned rows, unsigned columns);
void kernel_bias_backward(
	kernel_queue queue, float *d_bias, const void *dy, unsigned rows, unsigned columns);
void kernel_loss(kernel_queue queue, const struct ops_loss *loss);
void kernel_check_half(
	kernel_queue queue, const void *gradients, size_t count, struct ops_scaler *scaler);
void kernel_check_float(
	kernel_queue queue, const float *gradients, size_t count, struct ops_scaler *scaler);
void kernel_sgd_half(kernel_queue queue, const struct ops_sgd *how, float *weights, float *momentum,
	const void *gradients, void *copy, size_t count, const struct ops_scaler *scaler);
void kernel_sgd_float(kernel_queue queue, const struct ops_sgd *how, float *weights,
	float *momentum, const float *gradients, size_t count, const struct ops_scaler *scaler);
void kernel_rescale(kernel_queue queue, struct ops_scaler *scaler);

#ifdef __cplusplus
}
#endif

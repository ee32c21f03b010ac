/* kernels: what train_cuda does on the GPU besides cuDNN and cuBLAS. Each function is the one of
 * the same name in ops.h and is put into ops->queue; `half` memory is float16, aligned to 16 bytes.
 * If a launch fails, the process ends with a sentence. */
#pragma once

#include "ops.h"

#ifdef __cplusplus
extern "C" {
#endif

void kernel_to_half(struct ops *ops, void *to, const float *from, size_t count);
void kernel_to_float(struct ops *ops, float *to, const void *from, size_t count);
void kernel_relu(struct ops *ops, void *y, size_t count);
void kernel_add_relu(struct ops *ops, void *y, const void *x, size_t count);
void kernel_relu_backward(struct ops *ops, void *dy, const void *y, size_t count);
void kernel_add(struct ops *ops, void *y, const void *x, size_t count);
void kernel_widen(struct ops *ops, void *to, const void *from, size_t pixels);
void kernel_pool_forward(
	struct ops *ops, const struct ops_map *in, const void *x, void *y, uint8_t *taken);
void kernel_pool_backward(
	struct ops *ops, const struct ops_map *in, const void *dy, const uint8_t *taken, void *dx);
void kernel_mean_forward(struct ops *ops, const struct ops_map *in, const void *x, void *y);
void kernel_mean_backward(struct ops *ops, const struct ops_map *in, const void *dy, void *dx);
void kernel_bias(struct ops *ops, float *y, const float *values, unsigned rows, unsigned columns);
void kernel_bias_backward(
	struct ops *ops, float *d_bias, const void *dy, unsigned rows, unsigned columns);
void kernel_loss(struct ops *ops, const struct ops_loss *loss);
void kernel_check_half(
	struct ops *ops, const void *gradients, size_t count, struct ops_scaler *scaler);
void kernel_check_float(
	struct ops *ops, const float *gradients, size_t count, struct ops_scaler *scaler);
void kernel_sgd_half(struct ops *ops, const struct ops_sgd *how, float *weights, float *momentum,
	const void *gradients, void *copy, size_t count, const struct ops_scaler *scaler);
void kernel_sgd_float(struct ops *ops, const struct ops_sgd *how, float *weights, float *momentum,
	const float *gradients, size_t count, const struct ops_scaler *scaler);
void kernel_rescale(struct ops *ops, struct ops_scaler *scaler);

#ifdef __cplusplus
}
#endif

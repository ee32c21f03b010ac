/* kernels: what train_cuda does on the GPU besides cuDNN and cuBLAS. */
#pragma once

#include "ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sets the members of the table whose functions are kernels.cu's. They put their work into
 * ops->queue; `half` memory is float16, aligned to 16 bytes. If a launch fails, the process ends
 * with a sentence. */
void kernels_fill(struct ops *ops);

#ifdef __cplusplus
}
#endif

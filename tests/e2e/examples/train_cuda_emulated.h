/* ops with the GPU's number format and its own kernels, on the CPU. For tests. */
#pragma once

#include "client/examples/train_cuda/ops.h"

/* Memory is float16 where ops.h says half; what is kernels.cu's is done by kernels.cu
 * (train_cuda_emulate.cpp), what is cuDNN's and cuBLAS's by train_cuda_host.c between two casts. */
struct ops *ops_emulated_open(void);

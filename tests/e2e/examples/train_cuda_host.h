/* train_cuda_host: the operations of client/examples/train_cuda/ops.h on the host, written plainly:
 * the self-test compares a device with them, and tests run the rest of train_cuda on them. */
#pragma once

#include "client/examples/train_cuda/ops.h"

struct ops *ops_cpu_open(void);

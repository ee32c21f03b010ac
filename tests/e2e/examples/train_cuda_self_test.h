/* train_cuda_self_test: compares each function of ops.h on a device with the host's. */
#pragma once

#include "client/examples/train_cuda/ops.h"

#include <stdio.h>

/* Uses small tensors of numbers that float16 can hold, and writes a line to `out` for each result
 * that it compares. The allowed difference is a share of the greatest number in the tensor:
 * SELF_TEST_HALF for halves (twice the rounding of float16, 2^-11, and as much again for values
 * that were rounded on the way), SELF_TEST_CONV for convolutions (whose algorithms may transform
 * their factors in float16), SELF_TEST_FLOAT for floats. Counts and choices must be equal. Returns
 * the number of results that differ. */
unsigned self_test(struct ops *device, struct ops *host, FILE *out);

/* Without the networks: only the single functions. */
unsigned self_test_functions(struct ops *device, struct ops *host, FILE *out);

#define SELF_TEST_HALF 2e-3
#define SELF_TEST_CONV 1e-2
#define SELF_TEST_FLOAT 1e-4
/* The loss of a whole network, and 1 - cosine of its gradients. */
#define SELF_TEST_NET 5e-2

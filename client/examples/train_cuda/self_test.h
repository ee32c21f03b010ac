/* self_test: each function of ops.h on a device against the host's twin. */
#pragma once

#include "ops.h"

#include <stdio.h>

/* Over small tensors of numbers that float16 can hold; a line for each result that is compared, to
 * `out`. Allowed, of the greatest number in the tensor: SELF_TEST_HALF where the result is a half
 * (twice the rounding of float16, 2^-11, and as much again for values that were rounded on the
 * way), SELF_TEST_CONV of convolutions (whose algorithms may transform what they multiply, in
 * float16), SELF_TEST_FLOAT of floats, nothing for what is counted or chosen. Returns how many
 * differ. */
unsigned self_test(struct ops *device, struct ops *host, FILE *out);

/* Without the networks: each function alone. */
unsigned self_test_functions(struct ops *device, struct ops *host, FILE *out);

#define SELF_TEST_HALF 2e-3
#define SELF_TEST_CONV 1e-2
#define SELF_TEST_FLOAT 1e-4
#define SELF_TEST_NET 5e-2 /* the loss of a whole network, and 1 - cosine of its gradients */

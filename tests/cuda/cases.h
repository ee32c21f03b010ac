/* cases: the inputs with which the device's functions are tested, both emulated on the CPU
 * (test_kernels.c) and on a GPU (tests/gpu/kernels.c). Each result must equal that of
 * reference.c bit for bit; a result with noise may differ by CASES_NOISE and a step of the type. */
#pragma once

#include "cuda/reference.h"

/* For noise in float32: the logarithm, sine and cosine are off by at most 2 steps (CUDA C++
 * Programming Guide, "Mathematical Functions"), times a radius of up to 6.8. */
#define CASES_NOISE 4e-6

/* One launch. The pointers of its arguments are the host's; `sizes` are their bytes. The runner
 * copies the function's output to the `out` of the arguments. */
struct cases_launch {
	const char *name;
	struct kernels_grid grid;
	const struct kernels_normalise *normalise; /* or NULL: then */
	const struct kernels_targets *targets;
	size_t input_bytes, row_bytes, out_bytes; /* input: images or labels */
};

struct cases_runner {
	void (*run)(void *context, const struct cases_launch *launch);
	void *context;
	unsigned every; /* 1: all widths up to 70; n: each n-th, for slow builds */
};

/* All of them. Returns how many launches were compared; 0 if one differed, with a message on
 * stderr. */
unsigned cases_all(const struct cases_runner *runner);

/* emulate: client/cuda/kernels.cu, compiled for the CPU and run there, one device thread after the
 * other. This is not a GPU and not NVIDIA's code: emulate_device.h supplies the keywords and
 * intrinsics with their documented meaning.
 *
 * It shows that the source computes the right values, touches no other bytes (under the
 * sanitizers) and reads aligned. It cannot show speed, the code that nvcc generates, races
 * between threads or warps, or the last bits of the device's logf, sincospif and cospif. It has
 * no barriers or shared memory, because kernels.cu uses none. */
#include "cuda/emulate.h"

#include "cuda/emulate_device.h"

#include <cstdio>
#include <cstdlib>

thread_local emulate_index threadIdx, blockIdx, gridDim;
thread_local uint64_t emulate_wide;

#include "client/cuda/kernels.cu"

namespace
{

template <class A, void (*FUNCTION)(A)> void run_thread(const void *arguments)
{
	FUNCTION(*static_cast<const A *>(arguments));
}

#define EMULATE_NORMALISE(name)                                    \
	{                                                          \
#name, run_thread < const kernels_normalise, name> \
	}

const struct {
	const char *name;
	void (*run)(const void *arguments);
} functions[] = {
	EMULATE_NORMALISE(penstock_normalise_f32_nhwc),
	EMULATE_NORMALISE(penstock_normalise_f32_nchw),
	EMULATE_NORMALISE(penstock_normalise_f16_nhwc),
	EMULATE_NORMALISE(penstock_normalise_f16_nchw),
	EMULATE_NORMALISE(penstock_normalise_bf16_nhwc),
	EMULATE_NORMALISE(penstock_normalise_bf16_nchw),
	{"penstock_targets", run_thread<const kernels_targets, penstock_targets>},
};

void run_block(void (*run)(const void *), const void *arguments, uint32_t threads)
{
	for (uint32_t thread = 0; thread < threads; thread++) {
		threadIdx = {thread, 0, 0};
		run(arguments);
	}
}

} // namespace

bool emulate_knows(const char *name)
{
	for (const auto &function : functions)
		if (strcmp(function.name, name) == 0)
			return true;
	return false;
}

uint64_t emulate_wide_reads(void)
{
	return emulate_wide;
}

void emulate_launch(const char *name, const void *arguments, struct kernels_grid grid)
{
	for (const auto &function : functions) {
		if (strcmp(function.name, name) != 0)
			continue;
		gridDim = {grid.blocks_x, grid.blocks_y, 1};
		for (uint32_t y = 0; y < grid.blocks_y; y++)
			for (uint32_t x = 0; x < grid.blocks_x; x++) {
				blockIdx = {x, y, 0};
				run_block(function.run, arguments, grid.threads);
			}
		return;
	}
	(void)fprintf(stderr, "emulate: kernels.cu has no function %s\n", name);
	abort();
}

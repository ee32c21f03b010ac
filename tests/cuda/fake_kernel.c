/* The fake's kernels: see fake_driver.c. They are the kernels of client/cuda/kernels.cu;
 * emulate.cpp runs them on the CPU. The fake first checks the launch: names, grid, and every
 * pointer against the allocated memory. */
#include "cuda/emulate.h"
#include "cuda/fake_parts.h"

#include <stdio.h>
#include <string.h>

/* Parameters have penstock's names, not those of cuda.h.
 * NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */

enum { THREADS_MOST = 1024, BLOCKS_Y_MOST = 65535, SHARED_MOST = 48 << 10, OUT_ALIGN = 16 };

static uint64_t launches;

static const char targets_name[] = "penstock_targets";

/* Which of the kernels that normalize it is; false: none. */
static bool kernel_normalises(const char *name, enum penstock_cuda_dtype *ret_dtype,
	enum penstock_cuda_layout *ret_layout)
{
	for (int dtype = PENSTOCK_CUDA_FLOAT32; dtype <= PENSTOCK_CUDA_BFLOAT16; dtype++) {
		for (int layout = PENSTOCK_CUDA_NHWC; layout <= PENSTOCK_CUDA_NCHW; layout++) {
			if (strcmp(kernels_normalise_name(dtype, layout), name) != 0)
				continue;
			*ret_dtype = dtype;
			*ret_layout = layout;
			return true;
		}
	}
	return false;
}

bool kernel_is_known(const char *name)
{
	return emulate_knows(name);
}

void kernel_run(const struct launch *launch)
{
	emulate_launch(launch->name, &launch->argument, launch->grid);
}

void kernel_use(struct fake_cuda_use *use)
{
	use->launches = launches;
}

/* ---- launching ---- */

/* Notes the bytes that the kernel touches and returns their address; NULL and a fault if the
 * kernel may not touch them. */
static void *argument_take(const void *pointer, size_t bytes, bool writes,
	struct CUstream_st *stream, const char *what)
{
	struct block *block;
	CUdeviceptr address = (CUdeviceptr)(uintptr_t)pointer;
	uint8_t *place = memory_find(address, bytes, what, &block);
	if (place)
		memory_access(block, address, bytes, writes, stream, what);
	return place;
}

static bool normalise_take(
	struct launch *launch, enum penstock_cuda_dtype dtype, struct CUstream_st *stream)
{
	struct kernels_normalise *a = &launch->argument.normalise;
	size_t values = (size_t)a->rows * a->height * a->width * 3;
	size_t value_bytes = dtype == PENSTOCK_CUDA_FLOAT32 ? 4 : 2;
	if ((uintptr_t)a->out % OUT_ALIGN || (uintptr_t)a->images % OUT_ALIGN)
		fake_fault("%s: images or out are not aligned", launch->name);
	a->images = argument_take(a->images, values, false, stream, launch->name);
	a->row = argument_take(a->row, a->rows * sizeof *a->row, false, stream, launch->name);
	a->out = argument_take(a->out, values * value_bytes, true, stream, launch->name);
	return a->images && a->row && a->out;
}

static bool targets_take(struct launch *launch, struct CUstream_st *stream)
{
	struct kernels_targets *a = &launch->argument.targets;
	size_t values = (size_t)a->rows * a->classes;
	a->label = argument_take(a->label, a->rows * sizeof *a->label, false, stream, launch->name);
	a->row = argument_take(a->row, a->rows * sizeof *a->row, false, stream, launch->name);
	a->out = argument_take(a->out, values * sizeof *a->out, true, stream, launch->name);
	return a->label && a->row && a->out;
}

static bool grid_is_possible(const struct kernels_grid *grid)
{
	return grid->blocks_x && grid->blocks_y && grid->blocks_y <= BLOCKS_Y_MOST &&
	       grid->threads && grid->threads <= THREADS_MOST && grid->shared_bytes <= SHARED_MOST;
}

static void grid_check(const struct launch *launch, const struct kernels_grid *meant)
{
	if (memcmp(meant, &launch->grid, sizeof *meant) != 0)
		fake_fault("%s: the grid is not what kernels.h says", launch->name);
}

static bool launch_take(struct launch *launch, struct CUstream_st *stream)
{
	enum penstock_cuda_dtype dtype;
	enum penstock_cuda_layout layout;
	struct kernels_grid meant;
	if (!kernel_normalises(launch->name, &dtype, &layout)) {
		meant = kernels_targets_grid(&launch->argument.targets);
		grid_check(launch, &meant);
		return targets_take(launch, stream);
	}
	meant = kernels_normalise_grid(&launch->argument.normalise, dtype, layout);
	grid_check(launch, &meant);
	return normalise_take(launch, dtype, stream);
}

static CUresult launch_queue(
	struct CUfunc_st *function, struct launch *launch, struct CUstream_st *stream)
{
	struct work work = {.kind = WORK_KERNEL};
	if (!launch_take(launch, stream))
		return CUDA_ERROR_INVALID_VALUE;
	work.launch = *launch;
	function->lane = stream->lane;
	function->seq = stream_push(stream, &work);
	launches++;
	return CUDA_SUCCESS;
}

/* Looks up functions in the list of those that the driver has handed out. */
static struct CUfunc_st *function_find(CUfunction wanted)
{
	for (struct CUmod_st *module = fake_modules(); module; module = module->next)
		for (struct CUfunc_st *f = module->functions; f; f = f->next)
			if (f == wanted)
				return module->alive && module->context == fake_current() ? f
											  : NULL;
	return NULL;
}

FAKE_EXPORT CUresult CUDAAPI cuLaunchKernel(CUfunction handle, unsigned int blocks_x,
	unsigned int blocks_y, unsigned int blocks_z, unsigned int threads_x,
	unsigned int threads_y, unsigned int threads_z, unsigned int shared_bytes,
	CUstream stream_handle, void **parameters, void **extra)
{
	FAKE_ENTER(CALL_launch_kernel, true);
	struct CUfunc_st *function = function_find(handle);
	struct CUstream_st *stream = stream_find(stream_handle);
	if (!function || !stream)
		return CUDA_ERROR_INVALID_HANDLE;
	struct launch launch = {.grid = {blocks_x, blocks_y, threads_x, shared_bytes}};
	bool possible =
		grid_is_possible(&launch.grid) && blocks_z == 1 && threads_y == 1 && threads_z == 1;
	if (!possible || !parameters || extra)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(launch.name, function->name, sizeof launch.name);
	memcpy(&launch.argument, parameters[0],
		strcmp(launch.name, targets_name) == 0 ? sizeof launch.argument.targets
						       : sizeof launch.argument.normalise);
	return launch_queue(function, &launch, stream);
}

/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

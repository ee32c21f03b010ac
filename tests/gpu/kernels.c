/* kernels: libpenstock_cuda's device functions, as they are compiled into the library, on a GPU:
 * the cases of tests/cuda/cases.c against the reference on the CPU, and how fast they are.
 *
 *   gpu_kernels              all of it
 *   gpu_kernels --compare    of 8 widths one, and no speed: for compute-sanitizer
 *   gpu_kernels --small      of 40 widths one, and the speed of tiny batches, which says nothing:
 *                            for the fake driver of tests/cuda
 *
 * Speed: 256 images of 224 x 224. A turn is LAUNCHES launches back to back in one stream between
 * two events, over SETS buffers in turn, which together are several times an L2 cache. Bytes are
 * those read and written once: an image's own (not its partner's again) and the tensor's. The
 * ceiling is cuMemcpyDtoDAsync of as many bytes, within the device, timed in the same way and in
 * turns with the kernel; each is the median of ROUNDS turns. `share` is their ratio.
 *
 * The last line is a JSON object: {"device": ..., "bandwidth_gb_s": the copy's, the median over all
 * kernels, "peak_gb_s": by the device's clock and bus, null where it does not tell, "kernels":
 * {NAME: share, ...} of only normalizing, "augmented": {NAME: share, ...} of what else there is to
 * do}. Exit code: 0, 1 after telling what failed, 77 without a GPU. One thread. */
#include "tests/gpu/gpu.h"

#include "cuda/cases.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES_MOST = 256, ROUNDS_MOST = 9, SETS = 4, WARM_UP = 4, SHARES = 16 };

struct scale {
	unsigned every; /* of the compared widths one in so many */
	unsigned images, side, launches, rounds; /* of the speed; 0: not measured */
};
static const struct scale scale_usual = {1, IMAGES_MOST, 224, 40, ROUNDS_MOST},
			  scale_compare = {8, 0, 0, 0, 0}, scale_small = {40, 2, 16, 2, 1};

struct kernels {
	const struct gpu *gpu;
	PFN_cuMemcpyDtoDAsync_v3020 copy;
	CUmodule module;
	CUstream stream;
	CUevent begin, end;
	const struct scale *scale;
	double peak, ceilings[SHARES];
	unsigned measured;
};

static void launch(
	const struct kernels *k, const char *name, struct kernels_grid grid, void *argument)
{
	CUfunction function;
	void *parameters[] = {argument};
	gpu_must(k->gpu, name, k->gpu->module_get_function(&function, k->module, name));
	gpu_must(k->gpu, name,
		k->gpu->launch_kernel(function, grid.blocks_x, grid.blocks_y, 1, grid.threads, 1, 1,
			grid.shared_bytes, k->stream, parameters, NULL));
}

static CUdeviceptr device_room(const struct kernels *k, size_t bytes)
{
	CUdeviceptr memory;
	gpu_must(k->gpu, "cuMemAlloc", k->gpu->mem_alloc(&memory, bytes));
	return memory;
}

static void to_device(const struct kernels *k, CUdeviceptr to, const void *from, size_t bytes)
{
	gpu_must(
		k->gpu, "cuMemcpyHtoDAsync", k->gpu->memcpy_htod_async(to, from, bytes, k->stream));
}

static CUdeviceptr device_copy(const struct kernels *k, const void *from, size_t bytes)
{
	CUdeviceptr memory = device_room(k, bytes);
	to_device(k, memory, from, bytes);
	return memory;
}

static void device_free(const struct kernels *k, CUdeviceptr memory)
{
	gpu_must(k->gpu, "cuMemFree", k->gpu->mem_free(memory));
}

/* ---- what they compute ---- */

static void finish(const struct kernels *k, CUdeviceptr out, void *host, size_t bytes)
{
	gpu_must(k->gpu, "cuMemcpyDtoHAsync",
		k->gpu->memcpy_dtoh_async(host, out, bytes, k->stream));
	gpu_must(k->gpu, "cuStreamSynchronize", k->gpu->stream_synchronize(k->stream));
}

static void run_normalise(const struct kernels *k, const struct cases_launch *l)
{
	struct kernels_normalise a = *l->normalise;
	CUdeviceptr images = device_copy(k, a.images, l->input_bytes);
	CUdeviceptr rows = device_copy(k, a.row, l->row_bytes);
	CUdeviceptr out = device_copy(k, a.out, l->out_bytes);
	a.images = (const uint8_t *)images;
	a.row = (const struct penstock_cuda_row *)rows;
	a.out = (void *)out;
	launch(k, l->name, l->grid, &a);
	finish(k, out, l->normalise->out, l->out_bytes);
	device_free(k, images);
	device_free(k, rows);
	device_free(k, out);
}

static void run_targets(const struct kernels *k, const struct cases_launch *l)
{
	struct kernels_targets a = *l->targets;
	CUdeviceptr labels = device_copy(k, a.label, l->input_bytes);
	CUdeviceptr rows = device_copy(k, a.row, l->row_bytes);
	CUdeviceptr out = device_copy(k, a.out, l->out_bytes);
	a.label = (const int64_t *)labels;
	a.row = (const struct penstock_cuda_row *)rows;
	a.out = (float *)out;
	launch(k, l->name, l->grid, &a);
	finish(k, out, l->targets->out, l->out_bytes);
	device_free(k, labels);
	device_free(k, rows);
	device_free(k, out);
}

static void run_case(void *context, const struct cases_launch *l)
{
	if (l->normalise)
		run_normalise(context, l);
	else
		run_targets(context, l);
}

static void compare(struct kernels *k)
{
	const struct cases_runner runner = {
		.run = run_case, .context = k, .every = k->scale->every};
	unsigned launches = cases_all(&runner);
	if (launches == 0)
		gpu_fail("a kernel on %s differs from the reference: see above", k->gpu->name);
	printf("%u launches on %s equal the reference\n", launches, k->gpu->name);
}

/* ---- how fast they are ---- */

struct speed {
	const char *what, *name;
	enum penstock_cuda_dtype dtype;
	enum penstock_cuda_layout layout;
	struct kernels_normalise a;
	struct kernels_grid grid;
	CUdeviceptr images[SETS], rows, out[SETS];
	size_t input_bytes, output_bytes;
	unsigned turn; /* of the sets */
};

static void once(const struct kernels *k, struct speed *s)
{
	unsigned set = s->turn++ % SETS;
	s->a.images = (const uint8_t *)s->images[set];
	s->a.out = (void *)s->out[set];
	launch(k, s->name, s->grid, &s->a);
}

/* As many bytes read and written in all as the kernel's. */
static void once_copied(const struct kernels *k, struct speed *s)
{
	unsigned set = s->turn++ % SETS;
	gpu_must(k->gpu, "cuMemcpyDtoDAsync",
		k->copy(s->out[set], s->out[(set + SETS / 2) % SETS],
			(s->input_bytes + s->output_bytes) / 2, k->stream));
}

/* GB/s of one turn. */
static double measure_turn(const struct kernels *k, struct speed *s,
	void (*work)(const struct kernels *, struct speed *))
{
	float ms = 0;
	for (unsigned i = 0; i < WARM_UP; i++)
		work(k, s);
	gpu_must(k->gpu, "cuEventRecord", k->gpu->event_record(k->begin, k->stream));
	for (unsigned i = 0; i < k->scale->launches; i++)
		work(k, s);
	gpu_must(k->gpu, "cuEventRecord", k->gpu->event_record(k->end, k->stream));
	gpu_must(k->gpu, "cuEventSynchronize", k->gpu->event_synchronize(k->end));
	gpu_must(k->gpu, "cuEventElapsedTime", k->gpu->event_elapsed_time(&ms, k->begin, k->end));
	return (double)(s->input_bytes + s->output_bytes) * k->scale->launches / (double)ms * 1e-6;
}

static double share_of(struct kernels *k, struct speed *s)
{
	double kernel[ROUNDS_MOST], copy[ROUNDS_MOST];
	for (unsigned i = 0; i < k->scale->rounds; i++) {
		copy[i] = measure_turn(k, s, once_copied);
		kernel[i] = measure_turn(k, s, once);
	}
	double rate = gpu_median(kernel, k->scale->rounds),
	       ceiling = gpu_median(copy, k->scale->rounds);
	printf("%-30s %-18s %8.0f %8.0f %8.1f %7.3f\n", s->name, s->what, rate, ceiling,
		(double)(s->input_bytes + s->output_bytes) / rate * 1e-3, rate / ceiling);
	if (k->measured < SHARES)
		k->ceilings[k->measured++] = ceiling;
	return rate / ceiling;
}

/* Rows in which the same is done to each; rectangles of a quarter of the image. */
static void draw_rows(
	const struct scale *scale, struct penstock_cuda_row *rows, uint32_t flags, bool cutmix)
{
	uint16_t quarter = (uint16_t)(scale->side / 2);
	for (uint32_t n = 0; n < scale->images; n++) {
		rows[n] = (struct penstock_cuda_row){.position = n,
			.flags = flags,
			.erase_x = quarter / 2 + 1,
			.erase_y = quarter / 2 + 1,
			.erase_w = quarter,
			.erase_h = quarter,
			.partner = n,
			.blend = 1,
			.weight = 1};
		if (!(flags & PENSTOCK_CUDA_ROW_MIXED))
			continue;
		rows[n].partner = (n + scale->images - 1) % scale->images;
		if (cutmix) {
			rows[n].cut_x = rows[n].cut_y = quarter / 4 + 1;
			rows[n].cut_w = rows[n].cut_h = quarter;
		} else {
			rows[n].blend = 0.75f, rows[n].partner_blend = 0.25f;
		}
	}
}

static void speed_open(
	const struct kernels *k, struct speed *s, const struct penstock_cuda_row *rows)
{
	const struct scale *scale = k->scale;
	s->input_bytes = (size_t)scale->images * scale->side * scale->side * 3;
	s->output_bytes = s->input_bytes * reference_size(s->dtype);
	uint8_t *images = malloc(s->input_bytes);
	if (!images)
		gpu_fail("no memory for %zu bytes", s->input_bytes);
	for (size_t i = 0; i < s->input_bytes; i++)
		images[i] = (uint8_t)(i * 2654435761u >> 13);
	for (unsigned set = 0; set < SETS; set++) {
		s->images[set] = device_copy(k, images, s->input_bytes);
		s->out[set] = device_room(k, s->output_bytes);
	}
	s->rows = device_copy(k, rows, scale->images * sizeof *rows);
	gpu_must(k->gpu, "cuStreamSynchronize", k->gpu->stream_synchronize(k->stream));
	free(images);
}

static void speed_close(const struct kernels *k, struct speed *s)
{
	for (unsigned set = 0; set < SETS; set++) {
		device_free(k, s->images[set]);
		device_free(k, s->out[set]);
	}
	device_free(k, s->rows);
}

/* What is done to the rows of a measurement. */
struct kind {
	const char *what;
	uint32_t flags;
	bool cutmix, noise;
};

static double speed_of(struct kernels *k, enum penstock_cuda_dtype dtype,
	enum penstock_cuda_layout layout, const struct kind *kind)
{
	struct penstock_cuda_row rows[IMAGES_MOST];
	struct speed s = {.what = kind->what,
		.name = kernels_normalise_name(dtype, layout),
		.dtype = dtype,
		.layout = layout};
	draw_rows(k->scale, rows, kind->flags, kind->cutmix);
	speed_open(k, &s, rows);
	s.a = (struct kernels_normalise){.row = (const struct penstock_cuda_row *)s.rows,
		.rows = k->scale->images,
		.height = k->scale->side,
		.width = k->scale->side,
		.erase_random = kind->noise,
		.mean = {0.485f, 0.456f, 0.406f},
		.std = {0.229f, 0.224f, 0.225f}};
	kernels_normalise_prepare(&s.a);
	s.grid = kernels_normalise_grid(&s.a, dtype, layout);
	double share = share_of(k, &s);
	speed_close(k, &s);
	return share;
}

static const struct kind plain = {"normalised alone", 0, false, false};
static const struct kind augmented[] = {
	{"flipped", PENSTOCK_CUDA_ROW_FLIPPED, false, false},
	{"erased", PENSTOCK_CUDA_ROW_ERASED, false, false},
	{"noise", PENSTOCK_CUDA_ROW_ERASED, false, true},
	{"MixUp", PENSTOCK_CUDA_ROW_MIXED, false, false},
	{"CutMix", PENSTOCK_CUDA_ROW_MIXED, true, false},
};

enum { TYPES = 3, LAYOUTS = 2, KINDS = sizeof augmented / sizeof augmented[0] };

struct shares {
	double plain[TYPES][LAYOUTS], augmented[LAYOUTS][KINDS]; /* augmented: of float16 */
};

/* 0 where the device does not tell. */
static int attribute(const struct gpu *gpu, CUdevice_attribute which)
{
	int value = 0;
	return gpu->device_get_attribute(&value, which, gpu->device) == CUDA_SUCCESS ? value : 0;
}

/* Two transfers a clock over the whole bus. */
static double peak_gb_s(const struct gpu *gpu)
{
	int khz = attribute(gpu, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
	int bits = attribute(gpu, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
	return 2.0 * khz * (bits / 8.0) * 1e-6;
}

/* No function that the library calls, so not in the table. */
static PFN_cuMemcpyDtoDAsync_v3020 find_copy(void)
{
	PFN_cuMemcpyDtoDAsync_v3020 copy = NULL;
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	if (library)
		*(void **)&copy = dlsym(library, "cuMemcpyDtoDAsync_v2");
	if (!copy)
		gpu_fail("this driver has no cuMemcpyDtoDAsync_v2: a GPU's own has");
	return copy;
}

static void measure_all(struct kernels *k, struct shares *ret_shares)
{
	k->copy = find_copy();
	k->peak = peak_gb_s(k->gpu);
	printf("\n%-30s %-18s %8s %8s %8s %7s\n", "function", "rows", "GB/s", "copy", "us",
		"share");
	for (int dtype = 0; dtype < TYPES; dtype++)
		for (int layout = 0; layout < LAYOUTS; layout++)
			ret_shares->plain[dtype][layout] =
				speed_of(k, (enum penstock_cuda_dtype)dtype,
					(enum penstock_cuda_layout)layout, &plain);
	for (int layout = 0; layout < LAYOUTS; layout++)
		for (size_t kind = 0; kind < KINDS; kind++)
			ret_shares->augmented[layout][kind] = speed_of(k, PENSTOCK_CUDA_FLOAT16,
				(enum penstock_cuda_layout)layout, &augmented[kind]);
}

static void print_json(struct kernels *k, const struct shares *shares)
{
	printf("{\"device\": \"%s\", \"bandwidth_gb_s\": %.0f, \"peak_gb_s\": ", k->gpu->name,
		gpu_median(k->ceilings, k->measured));
	if (k->peak > 0)
		printf("%.0f", k->peak);
	else
		printf("null");
	printf(", \"kernels\": {");
	for (int i = 0; i < TYPES * LAYOUTS; i++)
		printf("%s\"%s\": %.4f", i ? ", " : "",
			kernels_normalise_name((enum penstock_cuda_dtype)(i / LAYOUTS),
				(enum penstock_cuda_layout)(i % LAYOUTS)),
			shares->plain[i / LAYOUTS][i % LAYOUTS]);
	printf("}, \"augmented\": {");
	for (size_t i = 0; i < LAYOUTS * KINDS; i++)
		printf("%s\"%s %s\": %.4f", i ? ", " : "",
			kernels_normalise_name(
				PENSTOCK_CUDA_FLOAT16, (enum penstock_cuda_layout)(i / KINDS)),
			augmented[i % KINDS].what, shares->augmented[i / KINDS][i % KINDS]);
	printf("}}\n");
}

static void measure(struct kernels *k)
{
	struct shares shares;
	measure_all(k, &shares);
	print_json(k, &shares);
}

/* ---- the program ---- */

static void kernels_open(struct kernels *k)
{
	k->gpu = gpu_open();
	gpu_must(k->gpu, "cuModuleLoadData", k->gpu->module_load_data(&k->module, kernels_image));
	gpu_must(k->gpu, "cuStreamCreate",
		k->gpu->stream_create(&k->stream, CU_STREAM_NON_BLOCKING));
	gpu_must(k->gpu, "cuEventCreate", k->gpu->event_create(&k->begin, CU_EVENT_DEFAULT));
	gpu_must(k->gpu, "cuEventCreate", k->gpu->event_create(&k->end, CU_EVENT_DEFAULT));
}

static void kernels_close(struct kernels *k)
{
	gpu_must(k->gpu, "cuEventDestroy", k->gpu->event_destroy(k->begin));
	gpu_must(k->gpu, "cuEventDestroy", k->gpu->event_destroy(k->end));
	gpu_must(k->gpu, "cuStreamDestroy", k->gpu->stream_destroy(k->stream));
	gpu_must(k->gpu, "cuModuleUnload", k->gpu->module_unload(k->module));
	gpu_close(k->gpu);
}

int main(int argc, char **argv)
{
	const char *option = argc > 1 ? argv[1] : "";
	struct kernels k = {.scale = argc < 2                           ? &scale_usual
				     : strcmp(option, "--compare") == 0 ? &scale_compare
				     : strcmp(option, "--small") == 0   ? &scale_small
									: NULL};
	if (argc > 2 || !k.scale) {
		(void)fprintf(stderr, "usage: gpu_kernels [--compare | --small]\n");
		return 2;
	}
	kernels_open(&k);
	compare(&k);
	if (k.scale->images)
		measure(&k);
	kernels_close(&k);
	return 0;
}

/* convert: see convert.h. */
#include "proto/convert/convert.h"

#include "proto/dispatch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Output of this size does not stay in a cache until it is read. Stores that bypass the caches
 * leave more of them to others, and are faster where memory is the bottleneck. */
enum { CONVERT_STREAM_FROM = 8 << 20 };

#define AVX2 (PROCESSOR_AVX2 | PROCESSOR_FMA | PROCESSOR_F16C)
#define WIDE (PROCESSOR_AVX512F | PROCESSOR_AVX512BW | PROCESSOR_AVX512VL)

static const struct dispatch known = {{
	[DISPATCH_C] = {&convert_c, 0},
	[DISPATCH_AVX2] = DISPATCH_X86(&convert_avx2, AVX2),
	[DISPATCH_AVX512] = DISPATCH_X86(&convert_avx512, WIDE),
	[DISPATCH_NEON] = DISPATCH_ARM(&convert_neon),
}};

int convert_choose(const struct convert_kernels **ret)
{
	const void *table;
	int result = dispatch_widest(&known, &table);
	if (!result)
		*ret = table;
	return result;
}

/* The reciprocal of `value` in two parts. */
static void convert_invert(float value, float *ret_scale, float *ret_rest)
{
	*ret_scale = 1 / value;
	*ret_rest = (float)(1 / (double)value - (double)*ret_scale);
}

static void convert_fill_constants(struct convert *convert, const struct convert_options *options)
{
	for (int i = 0; i < 3 * CONVERT_GROUP; i++) {
		int row = i / CONVERT_GROUP, lane = i % CONVERT_GROUP;
		int channel = convert->layout == CONVERT_NCHW ? row : i % 3;
		convert->constants.mean[row][lane] = options->mean[channel];
		convert_invert(options->std[channel], &convert->constants.scale[row][lane],
			&convert->constants.rest[row][lane]);
	}
}

/* Whether all values of the kernels equal those of the table. */
static bool convert_equals_table(const struct convert *convert)
{
	uint8_t from[256 * 3];
	float law[256 * 3], out[256 * 3];
	for (int i = 0; i < 256 * 3; i++)
		from[i] = (uint8_t)(i / 3);
	size_t plane = 256 * (size_t)convert->element_bytes;
	convert_c.run[convert->dtype][convert->layout](convert, from, 256, law, plane);
	convert->kernels->run[convert->dtype][convert->layout](convert, from, 256, out, plane);
	return memcmp(law, out, 3 * plane) == 0;
}

int convert_init(struct convert *convert, const struct convert_options *options)
{
	*convert = (struct convert){.dtype = options->dtype,
		.layout = options->layout,
		.stream_from = CONVERT_STREAM_FROM,
		.element_bytes = options->dtype == CONVERT_UINT8     ? 1
				 : options->dtype == CONVERT_FLOAT32 ? 4
								     : 2};
	int result = convert_choose(&convert->kernels);
	if (result < 0)
		return result;
	convert_fill_table(convert, options);
	convert_fill_constants(convert, options);
	if (!convert_equals_table(convert))
		convert->kernels = &convert_c;
	return 0;
}

int convert_new(const struct convert_options *options, struct convert **ret)
{
	struct convert *convert = aligned_alloc(CONVERT_LINE, sizeof *convert);
	if (!convert)
		return -ENOMEM;
	int result = convert_init(convert, options);
	if (result < 0)
		free(convert);
	else
		*ret = convert;
	return result;
}

size_t convert_row_bytes(const struct convert *convert, uint32_t height, uint32_t width)
{
	return (size_t)height * width * 3 * convert->element_bytes;
}

/* How many pixels, of `step` bytes each, come before the first one at which `out` is aligned for
 * streaming stores; CONVERT_LINE where there is none. */
static size_t convert_head(const char *out, size_t step)
{
	size_t head = 0;
	while (head < CONVERT_LINE && ((uintptr_t)out + head * step) % CONVERT_LINE)
		head++;
	return head;
}

/* Converts adjacent pixels: those of one image, or of the whole batch where they are adjacent. */
static void convert_pixels(
	const struct convert *convert, const uint8_t *from, size_t pixels, char *out, bool stream)
{
	uint32_t dtype = convert->dtype, layout = convert->layout;
	size_t bytes = convert->element_bytes, plane = pixels * bytes;
	size_t step = layout == CONVERT_NCHW ? bytes : 3 * bytes;
	convert_run *plain = convert_c.run[dtype][layout];
	convert_run *run = convert->kernels->run[dtype][layout];
	size_t head = 0;
	if (stream && (layout == CONVERT_NHWC || plane % CONVERT_LINE == 0)) {
		head = convert_head(out, step);
		if (head < CONVERT_LINE && head < pixels)
			run = convert->kernels->stream[dtype][layout];
		else
			head = 0;
	}
	size_t tail = (pixels - head) % CONVERT_GROUP, middle = pixels - head - tail;
	plain(convert, from, head, out, plane);
	run(convert, from + 3 * head, middle, out + step * head, plane);
	plain(convert, from + 3 * (head + middle), tail, out + step * (head + middle), plane);
}

void convert_rows(const struct convert *convert, const void *rows, uint32_t count, uint32_t height,
	uint32_t width, void *out)
{
	size_t pixels = (size_t)height * width, images = count;
	size_t bytes = convert_row_bytes(convert, height, width);
	if (bytes * images == 0)
		return;
	bool stream = convert->kernels->stream[convert->dtype][convert->layout] &&
		      bytes * images >= convert->stream_from;
	if (convert->layout == CONVERT_NHWC) {
		pixels *= images;
		images = 1;
	}
	for (size_t i = 0; i < images; i++)
		convert_pixels(convert, (const uint8_t *)rows + i * pixels * 3, pixels,
			(char *)out + i * bytes, stream);
}

/* headline: see headline.h. */
#include "client/cli/inspect/headline.h"

#include "base/util.h"
#include "decode/sniff.h"

#include <errno.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

struct headline_jpeg {
	struct jpeg_decompress_struct cinfo;
	struct jpeg_error_mgr errors;
	jmp_buf failed;
};

static void headline_fail(j_common_ptr cinfo)
{
	struct headline_jpeg *jpeg = (struct headline_jpeg *)(void *)cinfo;
	longjmp(jpeg->failed, 1);
}

static void headline_quiet(j_common_ptr cinfo)
{
	(void)cinfo;
}

static const char *headline_colour(J_COLOR_SPACE space)
{
	switch (space) {
	case JCS_GRAYSCALE:
		return "gray";
	case JCS_RGB:
		return "RGB";
	case JCS_YCbCr:
		return "YCbCr";
	case JCS_CMYK:
		return "CMYK";
	case JCS_YCCK:
		return "YCCK";
	default:
		return "";
	}
}

/* The usual names, by the factors of the first component; those of the others are 1x1. */
static const char *headline_sampling_name(const struct jpeg_decompress_struct *cinfo)
{
	static const struct {
		int h, v;
		const char *name;
	} names[] = {{1, 1, "4:4:4"}, {2, 1, "4:2:2"}, {2, 2, "4:2:0"}, {1, 2, "4:4:0"},
		{4, 1, "4:1:1"}, {4, 2, "4:1:0"}};
	const jpeg_component_info *c = cinfo->comp_info;
	for (int i = 1; i < cinfo->num_components; i++)
		if (c[i].h_samp_factor != 1 || c[i].v_samp_factor != 1)
			return NULL;
	for (size_t i = 0; i < UTIL_COUNT(names); i++)
		if (c[0].h_samp_factor == names[i].h && c[0].v_samp_factor == names[i].v)
			return names[i].name;
	return NULL;
}

static void headline_sampling(const struct jpeg_decompress_struct *cinfo, char *out, size_t room)
{
	if (cinfo->num_components < 3)
		return;
	const char *name = headline_sampling_name(cinfo);
	if (name) {
		(void)snprintf(out, room, "%s", name);
		return;
	}
	size_t at = 0;
	for (int i = 0; i < cinfo->num_components && at < room; i++)
		at += (size_t)snprintf(out + at, room - at, "%s%dx%d", i ? "," : "",
			cinfo->comp_info[i].h_samp_factor, cinfo->comp_info[i].v_samp_factor);
}

static void headline_note(const struct jpeg_decompress_struct *cinfo, struct headline *ret)
{
	(void)snprintf(ret->kind, sizeof ret->kind, "%s%sJPEG",
		cinfo->arith_code ? "arithmetic-coded " : "",
		cinfo->progressive_mode ? "progressive " : "");
	(void)snprintf(
		ret->colour, sizeof ret->colour, "%s", headline_colour(cinfo->jpeg_color_space));
	headline_sampling(cinfo, ret->sampling, sizeof ret->sampling);
	ret->restart = cinfo->restart_interval;
}

/* Everything that survives a longjmp out of libjpeg belongs to the caller. */
static void headline_jpeg(
	struct headline_jpeg *jpeg, const uint8_t *data, size_t size, struct headline *ret)
{
	if (setjmp(jpeg->failed))
		return;
	jpeg_create_decompress(&jpeg->cinfo);
	jpeg_mem_src(&jpeg->cinfo, data, (unsigned long)size);
	(void)jpeg_read_header(&jpeg->cinfo, TRUE);
	headline_note(&jpeg->cinfo, ret);
}

static void headline_png(const uint8_t *data, size_t size, struct headline *ret)
{
	static const char *const colours[] = {
		[0] = "gray", [2] = "RGB", [3] = "palette", [4] = "gray with alpha", [6] = "RGBA"};
	enum { IHDR_NAME = 12, IHDR_DEPTH = 24, IHDR_COLOUR, IHDR_INTERLACE = 28, IHDR_END };
	(void)snprintf(ret->kind, sizeof ret->kind, "PNG");
	if (size < IHDR_END || memcmp(data + IHDR_NAME, "IHDR", 4) != 0)
		return;
	const char *colour =
		data[IHDR_COLOUR] < UTIL_COUNT(colours) ? colours[data[IHDR_COLOUR]] : NULL;
	(void)snprintf(ret->kind, sizeof ret->kind, "%sPNG, %u bit, %s",
		data[IHDR_INTERLACE] ? "interlaced " : "", data[IHDR_DEPTH],
		colour ? colour : "unknown colors");
}

int headline_read(const uint8_t *data, size_t size, struct headline *ret)
{
	bool memory = true;
	*ret = (struct headline){0};
	if (sniff_jpeg(data, size)) {
		struct headline_jpeg jpeg = {0};
		jpeg.cinfo.err = jpeg_std_error(&jpeg.errors);
		jpeg.errors.error_exit = headline_fail;
		jpeg.errors.output_message = headline_quiet;
		(void)snprintf(ret->kind, sizeof ret->kind, "JPEG");
		headline_jpeg(&jpeg, data, size, ret);
		memory = jpeg.errors.msg_code != JERR_OUT_OF_MEMORY;
		jpeg_destroy_decompress(&jpeg.cinfo);
	} else if (sniff_png(data, size)) {
		headline_png(data, size, ret);
	}
	return memory ? 0 : -ENOMEM;
}

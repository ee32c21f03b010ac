/* jpegout: see jpegout.h. Facts about libjpeg: libjpeg-turbo's libjpeg.txt, "Really raw data: DCT
 * coefficients", and jdcoefct.c for how coefficient arrays are rounded up. */
#include "client/cli/pack/jpegout.h"

#include "base/util.h"

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

struct jpegout {
	struct jpeg_decompress_struct in;
	struct jpeg_compress_struct out;
	struct jpeg_error_mgr errors; /* of both */
	struct jpeg_destination_mgr destination;
	jmp_buf escape;
	int escaped; /* the outcome that longjmp reports */
	/* The arguments of a step: here and not in locals, because longjmp may leave a step. */
	const uint8_t *data;
	size_t size;
	jvirt_barray_ptr *coefficients;
	const struct metadata *metadata;
	struct jpegout_interval interval;
	struct jpegout_buffer *buffer;
	const struct jpegout_picture *picture;
	uint8_t *gray; /* a row of one component */
};

static void on_error(j_common_ptr cinfo)
{
	struct jpegout *jpegout = cinfo->client_data;
	bool memory = cinfo->err->msg_code == JERR_OUT_OF_MEMORY;
	jpegout->escaped = memory ? -ENOMEM : JPEGOUT_E_IRREGULAR;
	longjmp(jpegout->escape, 1);
}

static void on_message(j_common_ptr cinfo, int level)
{
	if (level < 0)
		cinfo->err->num_warnings++;
}

static void no_output(j_common_ptr cinfo)
{
	(void)cinfo;
}

static void destination_begin(j_compress_ptr cinfo)
{
	struct jpegout *jpegout = cinfo->client_data;
	cinfo->dest->next_output_byte = jpegout->buffer->bytes;
	cinfo->dest->free_in_buffer = jpegout->buffer->room;
}

static boolean destination_full(j_compress_ptr cinfo)
{
	struct jpegout *jpegout = cinfo->client_data;
	jpegout->escaped = JPEGOUT_E_ROOM;
	longjmp(jpegout->escape, 1);
}

static void destination_end(j_compress_ptr cinfo)
{
	struct jpegout *jpegout = cinfo->client_data;
	jpegout->buffer->size = jpegout->buffer->room - cinfo->dest->free_in_buffer;
}

static int guarded(struct jpegout *jpegout, int (*step)(struct jpegout *))
{
	if (setjmp(jpegout->escape))
		return jpegout->escaped;
	return step(jpegout);
}

static int step_create(struct jpegout *jpegout)
{
	jpeg_create_decompress(&jpegout->in);
	jpeg_create_compress(&jpegout->out);
	return JPEGOUT_OK;
}

int jpegout_new(struct jpegout **ret, struct fault *fault)
{
	struct jpegout *jpegout = calloc(1, sizeof *jpegout);
	if (!jpegout)
		return fault_set(
			fault, -ENOMEM, "not enough memory for a JPEG writer; use fewer threads");
	jpegout->in.err = jpegout->out.err = jpeg_std_error(&jpegout->errors);
	jpegout->errors.error_exit = on_error;
	jpegout->errors.emit_message = on_message;
	jpegout->errors.output_message = no_output;
	jpegout->in.client_data = jpegout->out.client_data = jpegout;
	if (guarded(jpegout, step_create)) {
		jpegout_free(jpegout);
		return fault_set(
			fault, -ENOMEM, "not enough memory for a JPEG writer; use fewer threads");
	}
	jpegout->destination = (struct jpeg_destination_mgr){
		.init_destination = destination_begin,
		.empty_output_buffer = destination_full,
		.term_destination = destination_end,
	};
	jpegout->out.dest = &jpegout->destination;
	*ret = jpegout;
	return 0;
}

void jpegout_free(struct jpegout *jpegout)
{
	if (!jpegout)
		return;
	jpeg_destroy_compress(&jpegout->out);
	jpeg_destroy_decompress(&jpegout->in);
	free(jpegout->gray);
	free(jpegout);
}

static int step_open(struct jpegout *jpegout)
{
	jpeg_mem_src(&jpegout->in, jpegout->data, jpegout->size);
	if (jpeg_read_header(&jpegout->in, TRUE) != JPEG_HEADER_OK)
		return JPEGOUT_E_IRREGULAR;
	if (jpegout->in.num_components != 1 && jpegout->in.num_components != 3)
		return JPEGOUT_E_COLOURS;
	return JPEGOUT_OK;
}

static uint64_t round_up(uint64_t value, uint64_t to)
{
	return (value + to - 1) / to * to;
}

/* Whole MCUs of every component, as libjpeg's coefficient controller allocates them. */
static uint64_t coefficient_bytes(const struct jpeg_decompress_struct *in)
{
	unsigned h = 1, v = 1;
	uint64_t bytes = 0;
	for (int i = 0; i < in->num_components; i++) {
		h = UTIL_MAX(h, (unsigned)in->comp_info[i].h_samp_factor);
		v = UTIL_MAX(v, (unsigned)in->comp_info[i].v_samp_factor);
	}
	uint64_t across = round_up(in->image_width, (uint64_t)8 * h) / (8 * h);
	uint64_t down = round_up(in->image_height, (uint64_t)8 * v) / (8 * v);
	for (int i = 0; i < in->num_components; i++)
		bytes += across * down * (unsigned)in->comp_info[i].h_samp_factor *
			 (unsigned)in->comp_info[i].v_samp_factor * sizeof(JBLOCK);
	return bytes;
}

int jpegout_open(struct jpegout *jpegout, const uint8_t *data, size_t size, uint64_t *ret_bytes)
{
	jpegout->data = data;
	jpegout->size = size;
	int outcome = guarded(jpegout, step_open);
	if (outcome == JPEGOUT_OK)
		*ret_bytes = coefficient_bytes(&jpegout->in);
	return outcome;
}

static int step_read(struct jpegout *jpegout)
{
	jpegout->coefficients = jpeg_read_coefficients(&jpegout->in);
	return jpegout->coefficients && jpegout->errors.num_warnings == 0 ? JPEGOUT_OK
									  : JPEGOUT_E_IRREGULAR;
}

int jpegout_read(struct jpegout *jpegout)
{
	return guarded(jpegout, step_read);
}

void jpegout_sampling(const struct jpegout *jpegout, unsigned *ret_h, unsigned *ret_v)
{
	const jpeg_component_info *c = jpegout->in.comp_info;
	*ret_h = *ret_v = 1;
	if (jpegout->in.num_components == 1 || c[0].h_samp_factor % c[1].h_samp_factor ||
		c[0].v_samp_factor % c[1].v_samp_factor)
		return;
	*ret_h = (unsigned)(c[0].h_samp_factor / c[1].h_samp_factor);
	*ret_v = (unsigned)(c[0].v_samp_factor / c[1].v_samp_factor);
}

void jpegout_close(struct jpegout *jpegout)
{
	jpeg_abort_compress(&jpegout->out);
	jpeg_abort_decompress(&jpegout->in);
	jpegout->coefficients = NULL;
}

static void set_interval(struct jpegout *jpegout)
{
	jpegout->out.restart_in_rows = jpegout->interval.row ? 1 : 0;
	jpegout->out.restart_interval = jpegout->interval.row ? 0 : jpegout->interval.mcus;
}

/* These follow the JFIF or Adobe segment, which libjpeg writes first. */
static void write_metadata(struct jpegout *jpegout)
{
	const struct metadata *metadata = jpegout->metadata;
	if (metadata->orientation) {
		uint8_t segment[METADATA_ORIENTATION];
		metadata_orientation(metadata->orientation, segment);
		jpeg_write_marker(&jpegout->out, JPEG_APP0 + 1, segment, sizeof segment);
	}
	for (unsigned i = 0; i < metadata->profile_parts; i++)
		jpeg_write_marker(&jpegout->out, JPEG_APP0 + 2, metadata->profile[i].bytes,
			metadata->profile[i].size);
}

static int step_transcode(struct jpegout *jpegout)
{
	jpeg_copy_critical_parameters(&jpegout->in, &jpegout->out);
	jpegout->out.optimize_coding = TRUE;
	jpegout->out.arith_code = FALSE;
	jpegout->out.num_scans = 0;
	set_interval(jpegout);
	jpeg_write_coefficients(&jpegout->out, jpegout->coefficients);
	write_metadata(jpegout);
	jpeg_finish_compress(&jpegout->out);
	return JPEGOUT_OK;
}

int jpegout_transcode(struct jpegout *jpegout, const struct metadata *metadata,
	struct jpegout_interval interval, struct jpegout_buffer *buffer)
{
	jpegout->metadata = metadata;
	jpegout->interval = interval;
	jpegout->buffer = buffer;
	int outcome = guarded(jpegout, step_transcode);
	jpeg_abort_compress(&jpegout->out);
	return outcome;
}

uint64_t jpegout_encode_bytes(uint32_t width, uint32_t height)
{
	enum { MCU = 16, COMPONENTS = 3, EXTRA_ROWS = 64 };
	/* Coefficients of two bytes, all components at full size, and the rows in progress. */
	return COMPONENTS * sizeof(JCOEF) * util_align(width, MCU) *
	       (util_align(height, MCU) + EXTRA_ROWS);
}

static void set_picture(struct jpegout *jpegout)
{
	const struct jpegout_picture *picture = jpegout->picture;
	struct jpeg_compress_struct *out = &jpegout->out;
	out->image_width = picture->width;
	out->image_height = picture->height;
	out->input_components = picture->gray ? 1 : 3;
	out->in_color_space = picture->gray ? JCS_GRAYSCALE : JCS_RGB;
	jpeg_set_defaults(out);
	jpeg_set_quality(out, (int)picture->quality, TRUE);
	if (!picture->gray) {
		out->comp_info[0].h_samp_factor = (int)picture->h;
		out->comp_info[0].v_samp_factor = (int)picture->v;
	}
	out->optimize_coding = TRUE;
	set_interval(jpegout);
}

static JSAMPROW picture_row(struct jpegout *jpegout, uint32_t y)
{
	const struct jpegout_picture *picture = jpegout->picture;
	const uint8_t *rgb = picture->rgb + (size_t)y * picture->width * 3;
	if (!picture->gray)
		return (JSAMPROW)rgb;
	for (uint32_t x = 0; x < picture->width; x++)
		jpegout->gray[x] = rgb[(size_t)x * 3];
	return jpegout->gray;
}

static int step_encode(struct jpegout *jpegout)
{
	set_picture(jpegout);
	jpeg_start_compress(&jpegout->out, TRUE);
	write_metadata(jpegout);
	while (jpegout->out.next_scanline < jpegout->out.image_height) {
		JSAMPROW row = picture_row(jpegout, jpegout->out.next_scanline);
		(void)jpeg_write_scanlines(&jpegout->out, &row, 1);
	}
	jpeg_finish_compress(&jpegout->out);
	return JPEGOUT_OK;
}

int jpegout_encode(struct jpegout *jpegout, const struct jpegout_picture *picture,
	const struct metadata *metadata, struct jpegout_interval interval,
	struct jpegout_buffer *buffer)
{
	jpegout->picture = picture;
	jpegout->metadata = metadata;
	jpegout->interval = interval;
	jpegout->buffer = buffer;
	if (picture->gray) {
		uint8_t *grown = realloc(jpegout->gray, picture->width);
		if (!grown)
			return -ENOMEM;
		jpegout->gray = grown;
	}
	int outcome = guarded(jpegout, step_encode);
	jpeg_abort_compress(&jpegout->out);
	return outcome;
}

/* decode: `penstock decode`: writes single images, so that anyone can check penstock's pixels.
 *
 * libjpeg-turbo or libpng always judges the whole image first, because penstock's decoder never
 * reads beyond the requested rows. That pass provides the pixels if the user asked for no other
 * decoder, and the reference for penstock's decoder. Pixels stay in memory: at most a quarter of
 * --memory, besides a quarter for the file and half for the decoders. Main thread. */
#include "client/cli/cli.h"

#include "base/util.h"
#include "client/cli/draw/picture.h"
#include "client/cli/inspect/headline.h"
#include "client/cli/inspect/input.h"
#include "client/cli/options.h"
#include "client/cli/recipe.h"
#include "decode/decode.h"
#include "decode/stepback.h"
#include "pixel/pixel.h"
#include "pixel/resample.h"
#include "proto/jsontext.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <zlib.h>

enum decode_which { DECODE_BY_OWN, DECODE_BY_LIBRARY, DECODE_BY_BOTH };

struct decode {
	const char *output, *which_text, *format_text, *crop_text, *resize_text, *interpolation;
	uint64_t memory;
	bool force, json;
	bool which_given;

	enum decode_which which;
	enum picture_format format;
	bool to_folder, to_stdout;
	uint32_t crop[4]; /* x, y, width, height; with crop_text */
	uint32_t resize[2]; /* with resize_text */
	struct permit large; /* of the decoders */
	bool permit_made;
	struct decoder *library, *own;
	struct resample *resample;
	const char **files;
	int file_count;
	char **written; /* paths below the output folder */
	int written_count;
	struct jsontext out;
};

/* The current image. */
struct decode_image {
	const char *given, *name; /* its name on the command line; in messages */
	struct input input;
	struct headline headline;
	struct decode_info info;
	struct decode_region region;
	struct picture picture; /* pixels of the region, then of the result */
	uint8_t *woven; /* one row of the region */
	uint32_t row; /* the next row of the region */
	bool compare; /* compare rows with the image instead of keeping them */
	bool asked; /* whether penstock's decoder was tried */
	struct decode_job job;
	struct picture_difference difference;
	bool compared; /* two decoders decoded it */
	int outcome; /* an enum decode_outcome; `fault` has the text */
	struct fault fault;
	char output[PATH_MAX];
};

static const struct command decode_command = {
	.name = "decode",
	.operands = "FILE...",
	.min_operands = 1,
	.about = "Decodes images and prints what they are, which decoder made their pixels, and\n"
		 "the CRC-32 of the pixels; with -o, writes them as PNG or PPM. A FILE is an\n"
		 "image, - for standard input, or SHARD.tar!MEMBER.",
};

/* ---- the command line ---- */

/* Reads `count` whole numbers separated by `mark`. */
static int decode_numbers(const char *text, char mark, uint32_t *ret, int count)
{
	for (int i = 0; i < count; i++) {
		char *end;
		errno = 0;
		unsigned long value =
			*text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : ULONG_MAX;
		if (value > DECODE_SIDE_MAX || errno || *end != (i + 1 < count ? mark : 0))
			return -EINVAL;
		ret[i] = (uint32_t)value;
		text = end + 1;
	}
	return 0;
}

static int decode_judge_sizes(struct decode *decode)
{
	if (decode->crop_text && (decode_numbers(decode->crop_text, ',', decode->crop, 4) < 0 ||
					 !decode->crop[2] || !decode->crop[3]))
		return cli_fail(CLI_USAGE,
			"--crop: expected X,Y,W,H, four whole numbers of source pixels with W and "
			"H at "
			"least 1, got \"%s\"",
			decode->crop_text);
	if (decode->resize_text &&
		(decode_numbers(decode->resize_text, 'x', decode->resize, 2) < 0 ||
			!decode->resize[0] || !decode->resize[1]))
		return cli_fail(CLI_USAGE,
			"--resize: expected WxH, two whole numbers from 1 to %d, got \"%s\"",
			DECODE_SIDE_MAX, decode->resize_text);
	return CLI_OK;
}

/* 0, or -EINVAL: the name does not tell the format. */
static int decode_format(const char *path, enum picture_format *ret)
{
	const char *dot = strrchr(path, '.');
	if (!dot || strchr(dot, '/'))
		return -EINVAL;
	if (strcasecmp(dot, ".png") == 0)
		*ret = PICTURE_PNG;
	else if (strcasecmp(dot, ".ppm") == 0 || strcasecmp(dot, ".pnm") == 0)
		*ret = PICTURE_PPM;
	else
		return -EINVAL;
	return 0;
}

static int decode_judge_stdout(struct decode *decode)
{
	decode->to_stdout = true;
	if (!decode->format_text)
		decode->format = PICTURE_PPM;
	if (decode->json)
		return cli_fail(CLI_USAGE,
			"--output - and --json both write to standard output; give one of them");
	if (decode->file_count > 1)
		return cli_fail(
			CLI_USAGE, "standard output takes one image; name a folder with --output");
	if (isatty(STDOUT_FILENO))
		return cli_fail(CLI_USAGE, "standard output is a terminal and cannot show an "
					   "image; redirect it, or name "
					   "a file with --output");
	return CLI_OK;
}

static int decode_judge_output(struct decode *decode)
{
	struct stat st;
	const char *output = decode->output;
	decode->format = decode->format_text && strcmp(decode->format_text, "ppm") == 0
				 ? PICTURE_PPM
				 : PICTURE_PNG;
	if (!output)
		return CLI_OK;
	if (strcmp(output, "-") == 0)
		return decode_judge_stdout(decode);
	bool there = stat(output, &st) == 0;
	decode->to_folder = (there && S_ISDIR(st.st_mode)) || output[strlen(output) - 1] == '/' ||
			    decode->file_count > 1;
	if (!decode->to_folder && !decode->format_text &&
		decode_format(output, &decode->format) < 0)
		return cli_fail(CLI_USAGE,
			"--output: expected a name that ends in .png or .ppm, a folder, or -; "
			"\"%s\" "
			"is none of them (or say --format)",
			output);
	if (decode->to_folder && mkdir(output, 0777) < 0 && errno != EEXIST)
		return cli_fail(CLI_FAILED, "cannot make %s: %s", output, strerror(errno));
	if (decode->to_folder && there && !S_ISDIR(st.st_mode))
		return cli_fail(CLI_USAGE, "several images need an output folder, but %s is a file",
			output);
	return CLI_OK;
}

/* An explicit option wins over the environment. */
static void decode_choose(struct decode *decode)
{
	static const char *const names[] = {[DECODE_BY_OWN] = "own",
		[DECODE_BY_LIBRARY] = "libjpeg",
		[DECODE_BY_BOTH] = "compare"};
	const char *environment = getenv("PENSTOCK_DECODER");
	if (decode->which_given)
		(void)unsetenv("PENSTOCK_DECODER");
	else if (environment && strcmp(environment, "libjpeg") == 0)
		decode->which_text = "libjpeg";
	for (size_t i = 0; i < UTIL_COUNT(names); i++)
		if (strcmp(names[i], decode->which_text) == 0)
			decode->which = (enum decode_which)i;
}

static int decode_options(struct decode *decode, int argc, char **argv)
{
	const struct option table[] = {
		{"output", 'o', OPTION_TEXT, &decode->output, "OUT",
			"write the image: to a name that ends in .png or .ppm, into a folder, or "
			"to standard output (-)",
			0, 0, NULL},
		{"format", 0, OPTION_CHOICE, &decode->format_text, "png|ppm",
			"the format to write if the name does not say it (png)", 0, 0, NULL},
		{"force", 0, OPTION_FLAG, &decode->force, NULL,
			"replace existing files in a folder", 0, 0, NULL},
		{"decoder", 'd', OPTION_CHOICE, &decode->which_text, "own|libjpeg|compare",
			"which decoder decodes JPEGs; compare: both, and how they differ (own)", 0,
			0, &decode->which_given},
		{"crop", 'c', OPTION_TEXT, &decode->crop_text, "X,Y,W,H",
			"only this part of the image, in source pixels", 0, 0, NULL},
		{"resize", 0, OPTION_TEXT, &decode->resize_text, "WxH",
			"resize the image, or the crop, as Pillow does", 0, 0, NULL},
		{"interpolation", 0, OPTION_CHOICE, &decode->interpolation, PENSTOCK_FILTERS,
			"the filter of the resize (bilinear)", 0, 0, NULL},
		{"memory", 'm', OPTION_SIZE, &decode->memory, "SIZE",
			"the most memory to use for one image (1G)", 1 << 20, 0, NULL},
		{"json", 'j', OPTION_FLAG, &decode->json, NULL, "print one JSON object", 0, 0,
			NULL},
	};
	struct command command = decode_command;
	command.max_operands = argc;
	int r = options_parse(&command, table, UTIL_COUNT(table), argc, argv, decode->files);
	if (r != OPTIONS_OK)
		return r;
	while (decode->files[decode->file_count])
		decode->file_count++;
	return OPTIONS_OK;
}

/* ---- pixels ---- */

static void decode_row(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	struct decode_image *image = context;
	size_t width = image->picture.width;
	uint8_t *to = image->compare ? image->woven : image->picture.rgb + image->row * width * 3;
	decode_weave(to, rgb, width);
	if (image->compare)
		picture_compare(&image->picture, image->row, to, &image->difference);
	image->row++;
}

static struct decode_job *decode_next(void *context)
{
	struct decode_image *image = context;
	if (image->asked)
		return NULL;
	image->asked = true;
	return &image->job;
}

static void decode_header(void *context, struct decode_job *job, const struct decode_info *info)
{
	struct decode_image *image = context;
	(void)info;
	job->region = image->region;
}

static void decode_start(void *context, struct decode_job *job)
{
	struct decode_image *image = context;
	(void)job;
	image->row = 0;
	image->difference = (struct picture_difference){0};
}

static void decode_done(void *context, struct decode_job *job)
{
	(void)context;
	(void)job;
}

static int decode_judged(struct decode_image *image, const struct decoder *decoder, int outcome)
{
	image->outcome = outcome;
	if (outcome > 0)
		(void)fault_set(&image->fault, 0, "%s", decoder_message(decoder));
	if (outcome < 0)
		return cli_fail(CLI_FAILED, "not enough memory to decode %s", image->name);
	return outcome ? CLI_FAILED : CLI_OK;
}

/* Takes the pixels of penstock's decoder in place of the library's, or compares the two. */
static int decode_by_own(struct decode *decode, struct decode_image *image)
{
	const struct decode_stream stream = {.next = decode_next,
		.header = decode_header,
		.start = decode_start,
		.row = decode_row,
		.done = decode_done,
		.context = image};
	image->compare = decode->which == DECODE_BY_BOTH;
	image->job = (struct decode_job){.data = image->input.data, .size = image->input.size};
	decoder_run(decode->own, &stream);
	image->compared = image->compare && !image->job.stepback;
	return decode_judged(image, decode->own, image->job.outcome);
}

/* Determines the requested region, and takes memory for it and for the result. */
static int decode_frame(const struct decode *decode, struct decode_image *image)
{
	const uint32_t *crop = decode->crop;
	uint32_t width = image->info.width, height = image->info.height;
	image->region = (struct decode_region){0, 0, width, height};
	if (decode->crop_text) {
		if (crop[0] + crop[2] > width || crop[1] + crop[3] > height)
			return cli_fail(CLI_USAGE,
				"%s: the crop %s is not inside the image, which is %ux%u",
				image->name, decode->crop_text, width, height);
		image->region = (struct decode_region){
			crop[0], crop[1], crop[0] + crop[2], crop[1] + crop[3]};
	}
	image->picture.width = image->region.x1 - image->region.x0;
	image->picture.height = image->region.y1 - image->region.y0;
	uint64_t bytes = (uint64_t)image->picture.width * image->picture.height * 3;
	if (bytes + (uint64_t)decode->resize[0] * decode->resize[1] * 3 > decode->memory / 4)
		return cli_fail(CLI_FAILED,
			"%s: its pixels take more than a quarter of --memory; give more, or a "
			"smaller --crop or --resize",
			image->name);
	image->picture.rgb = malloc(bytes);
	image->woven = malloc((size_t)image->picture.width * 3);
	return image->picture.rgb && image->woven
		       ? CLI_OK
		       : cli_fail(
				 CLI_FAILED, "not enough memory for the pixels of %s", image->name);
}

static int decode_pixels(struct decode *decode, struct decode_image *image)
{
	int r = decoder_begin(decode->library, image->input.data, image->input.size, &image->info);
	if (r)
		return decode_judged(image, decode->library, r);
	int code = decode_frame(decode, image);
	if (code != CLI_OK) {
		decoder_abort(decode->library);
		return code;
	}
	r = decoder_rows(decode->library, image->region, true, decode_row, image);
	code = decode_judged(image, decode->library, r);
	if (code == CLI_OK && decode->own && image->info.format == DECODE_JPEG)
		code = decode_by_own(decode, image);
	return code;
}

/* As Pillow: the crop is an image by itself, with its own edges. */
static int decode_resize(struct decode *decode, struct decode_image *image)
{
	uint32_t width = decode->resize[0], height = decode->resize[1];
	struct picture *picture = &image->picture;
	size_t pitch = picture->width + PIXEL_ROW_SLACK;
	cleanup(free_ptr) uint8_t *planes = malloc(pitch * PIXEL_PLANES);
	uint8_t *resized = malloc((size_t)width * height * 3);
	if (!resized || !planes) {
		free(resized);
		return cli_fail(CLI_FAILED, "not enough memory for the pixels of %s", image->name);
	}
	struct resample_job job = {.x = {.source = picture->width,
					   .result = width,
					   .window = width,
					   .filter = recipe_filter(decode->interpolation)},
		.y = {.source = picture->height,
			.result = height,
			.window = height,
			.filter = recipe_filter(decode->interpolation)},
		.out = resized};
	struct resample_region region;
	resample_begin(decode->resample, &job, &region);
	for (uint32_t y = region.y0; y < region.y1; y++) {
		const uint8_t *from = picture->rgb + ((size_t)y * picture->width + region.x0) * 3;
		const uint8_t *const rgb[] = {planes, planes + pitch, planes + 2 * pitch};
		for (size_t i = 0; i < 3 * (size_t)(region.x1 - region.x0); i++)
			planes[i % 3 * pitch + i / 3] = from[i];
		resample_row(decode->resample, rgb);
	}
	free(picture->rgb);
	*picture = (struct picture){width, height, resized};
	return CLI_OK;
}

/* ---- output ---- */

/* Whether this run reads one of its images from that file: writing would destroy it. */
static bool decode_reads(const struct decode *decode, const char *path)
{
	struct stat st;
	if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
		return false;
	for (int i = 0; i < decode->file_count; i++)
		if (input_is(decode->files[i], &st))
			return true;
	return false;
}

/* True if two images of this run would get the same name: one would be lost. */
static bool decode_written(struct decode *decode, const char *path)
{
	for (int i = 0; i < decode->written_count; i++)
		if (strcmp(decode->written[i], path) == 0)
			return true;
	return false;
}

static int decode_name_output(struct decode *decode, struct decode_image *image)
{
	char base[NAME_MAX + 1];
	size_t room = sizeof image->output;
	int n = decode->to_folder
			? snprintf(image->output, room, "%s%s%s.%s", decode->output,
				  decode->output[strlen(decode->output) - 1] == '/' ? "" : "/",
				  input_base(image->given, base, sizeof base),
				  decode->format == PICTURE_PPM ? "ppm" : "png")
			: snprintf(image->output, room, "%s", decode->output);
	if ((size_t)n >= room)
		return cli_fail(
			CLI_FAILED, "cannot write %s: its name is too long", decode->output);
	if (decode_reads(decode, image->output))
		return cli_fail(CLI_USAGE,
			"%s is an input file and is not overwritten; give another --output",
			image->output);
	if (decode_written(decode, image->output))
		return cli_fail(CLI_FAILED,
			"%s: %s was just written from another image of the same name; decode them "
			"into different folders",
			image->name, image->output);
	return CLI_OK;
}

static int decode_write(struct decode *decode, struct decode_image *image)
{
	struct fault fault;
	int r;
	if (decode->to_stdout) {
		r = picture_put(stdout, "the output", decode->format, &image->picture, &fault);
		return r < 0 ? cli_fail(CLI_FAILED, "%s", fault.text) : CLI_OK;
	}
	int code = decode_name_output(decode, image);
	if (code != CLI_OK)
		return code;
	r = picture_write(image->output, decode->format, &image->picture,
		!decode->to_folder || decode->force, &fault);
	if (r < 0)
		return cli_fail(CLI_FAILED, "%s", fault.text);
	if (decode->to_folder) {
		char *path = strdup(image->output);
		if (!path)
			return cli_fail(CLI_FAILED, "not enough memory for the names of images");
		decode->written[decode->written_count++] = path;
	}
	return CLI_OK;
}

static const char *decode_decoder(const struct decode *decode, const struct decode_image *image)
{
	if (image->info.format != DECODE_JPEG)
		return decode_format_library(image->info.format);
	return decode->own && image->asked && !image->job.stepback ? "own" : "libjpeg-turbo";
}

static void decode_print_difference(const struct decode_image *image)
{
	const struct picture_difference *difference = &image->difference;
	(void)printf("  compared   ");
	if (image->info.format != DECODE_JPEG)
		(void)printf("nothing: %s is the only decoder for %s files\n",
			decode_format_library(image->info.format),
			decode_format_name(image->info.format));
	else if (!image->compared)
		(void)printf("nothing: libjpeg-turbo is the only decoder for this file\n");
	else if (!difference->pixels)
		(void)printf("equal: penstock's decoder gives libjpeg-turbo's pixels\n");
	else
		(void)printf("%" PRIu64 " pixels differ, by up to %u, the first at %u,%u\n",
			difference->pixels, difference->largest, image->region.x0 + difference->x,
			image->region.y0 + difference->y);
}

static void decode_print_kind(const struct decode_image *image)
{
	const struct headline *headline = &image->headline;
	(void)printf(
		"  image      %s, %ux%u", headline->kind, image->info.width, image->info.height);
	if (*headline->colour)
		(void)printf(", %s", headline->colour);
	if (*headline->sampling)
		(void)printf(", %s", headline->sampling);
	if (headline->restart)
		(void)printf(", restart interval %u", headline->restart);
	(void)printf("\n");
}

static uint32_t decode_crc(const struct picture *picture)
{
	return (uint32_t)crc32_z(0, picture->rgb, (size_t)picture->width * picture->height * 3);
}

static void decode_print(const struct decode *decode, const struct decode_image *image)
{
	char name[PATH_MAX];
	(void)snprintf(name, sizeof name, "%s", image->name);
	(void)printf("%s\n", cli_tame(name));
	decode_print_kind(image);
	(void)printf("  decoder    %s", decode_decoder(decode, image));
	if (image->job.stepback)
		(void)printf("; not penstock's, because of %s",
			stepback_words((enum stepback)image->job.stepback));
	(void)printf("\n  pixels     %ux%u, crc32 %08x\n", image->picture.width,
		image->picture.height, decode_crc(&image->picture));
	if (decode->which == DECODE_BY_BOTH)
		decode_print_difference(image);
	if (*image->output) {
		(void)snprintf(name, sizeof name, "%s", image->output);
		(void)printf("  written    %s\n", cli_tame(name));
	}
}

static void decode_json_difference(struct jsontext *json, const struct decode_image *image)
{
	const struct picture_difference *difference = &image->difference;
	jsontext_object(json, "compare");
	jsontext_bool(json, "compared", image->compared);
	if (image->compared) {
		jsontext_bool(json, "equal", !difference->pixels);
		jsontext_u64(json, "differing_pixels", difference->pixels);
		jsontext_u64(json, "largest_difference", difference->largest);
	}
	if (difference->pixels) {
		jsontext_array(json, "first");
		jsontext_u64(json, NULL, image->region.x0 + difference->x);
		jsontext_u64(json, NULL, image->region.y0 + difference->y);
		jsontext_end(json);
	}
	jsontext_end(json);
}

static void decode_json_pixels(
	const struct decode *decode, struct jsontext *json, const struct decode_image *image)
{
	char crc[16];
	jsontext_string(json, "decoder", decode_decoder(decode, image));
	if (image->job.stepback)
		jsontext_string(
			json, "stepback", stepback_name((enum stepback)image->job.stepback));
	jsontext_array(json, "crop");
	jsontext_u64(json, NULL, image->region.x0);
	jsontext_u64(json, NULL, image->region.y0);
	jsontext_u64(json, NULL, image->region.x1 - image->region.x0);
	jsontext_u64(json, NULL, image->region.y1 - image->region.y0);
	jsontext_end(json);
	jsontext_array(json, "size");
	jsontext_u64(json, NULL, image->picture.width);
	jsontext_u64(json, NULL, image->picture.height);
	jsontext_end(json);
	(void)snprintf(crc, sizeof crc, "%08x", decode_crc(&image->picture));
	jsontext_string(json, "crc32", crc);
	if (decode->which == DECODE_BY_BOTH)
		decode_json_difference(json, image);
	if (*image->output)
		jsontext_string(json, "output", image->output);
}

static void decode_json(struct decode *decode, const struct decode_image *image, bool decoded)
{
	struct jsontext *json = &decode->out;
	jsontext_object(json, NULL);
	jsontext_string(json, "path", image->given);
	jsontext_string(json, "outcome",
		decode_outcome_name((enum decode_outcome)UTIL_MAX(image->outcome, 0)));
	if (image->outcome)
		jsontext_string(json, "message", image->fault.text);
	jsontext_string(json, "kind", image->headline.kind);
	jsontext_string(json, "colour", image->headline.colour);
	jsontext_string(json, "sampling", image->headline.sampling);
	jsontext_u64(json, "restart_interval", image->headline.restart);
	jsontext_u64(json, "width", image->info.width);
	jsontext_u64(json, "height", image->info.height);
	if (decoded)
		decode_json_pixels(decode, json, image);
	jsontext_end(json);
}

static void decode_report(struct decode *decode, const struct decode_image *image, bool decoded)
{
	if (image->outcome > 0)
		cli_note("%s: %s: %s", image->name,
			decode_outcome_name((enum decode_outcome)image->outcome),
			image->fault.text);
	if (decode->json)
		decode_json(decode, image, decoded);
	else if (decoded && !decode->to_stdout)
		decode_print(decode, image);
}

static int decode_read(struct decode *decode, struct decode_image *image)
{
	struct fault fault;
	int r = input_read(image->given, decode->memory / 4, &image->input, &fault);
	if (r < 0)
		return cli_fail(r == -EISDIR ? CLI_USAGE : cli_exit_code(r), "%s", fault.text);
	r = headline_read(image->input.data, image->input.size, &image->headline);
	if (r < 0)
		return cli_fail(
			cli_exit_code(r), "%s: not enough memory to read its header", image->given);
	return CLI_OK;
}

static int decode_image(struct decode *decode, const char *name)
{
	struct decode_image image = {
		.given = name, .name = strcmp(name, "-") == 0 ? "standard input" : name};
	int code = decode_read(decode, &image);
	if (code == CLI_OK) {
		code = decode_pixels(decode, &image);
		bool decoded = code == CLI_OK;
		if (decoded && decode->resize_text)
			code = decode_resize(decode, &image);
		if (code == CLI_OK && decode->output)
			code = decode_write(decode, &image);
		if (image.outcome > 0 || code == CLI_OK)
			decode_report(decode, &image, decoded);
		if (code == CLI_OK && image.difference.pixels)
			code = CLI_FAILED;
	}
	free(image.picture.rgb);
	free(image.woven);
	input_free(&image.input);
	return code;
}

static int decode_make(struct decode *decode)
{
	struct decode_limits limits = decode_limits_default();
	struct fault fault = {{0}};
	limits.large = &decode->large;
	limits.whole = limits.libraries = true;
	int r = decoder_new(&limits, &decode->library, &fault);
	limits.whole = limits.libraries = false;
	if (r == 0 && decode->which != DECODE_BY_LIBRARY)
		r = decoder_new(&limits, &decode->own, &fault);
	if (r == 0 && decode->resize_text)
		r = resample_new(
			UTIL_MAX(decode->resize[0], decode->resize[1]), &decode->resample, &fault);
	return r < 0 ? cli_fail(cli_exit_code(r), "%s", fault.text) : CLI_OK;
}

static int decode_run(struct decode *decode)
{
	decode_choose(decode);
	permit_init(&decode->large, decode->memory / 2);
	decode->permit_made = true;
	int code = decode_judge_sizes(decode);
	if (code == CLI_OK)
		code = decode_make(decode);
	if (code == CLI_OK)
		code = decode_judge_output(decode);
	if (code != CLI_OK)
		return code;
	if (decode->json) {
		jsontext_object(&decode->out, NULL);
		jsontext_array(&decode->out, "images");
	}
	for (int i = 0; i < decode->file_count && !ferror(stdout); i++) {
		int one = decode_image(decode, decode->files[i]);
		code = UTIL_MAX(code, one);
	}
	if (!decode->json)
		return code;
	jsontext_end(&decode->out);
	jsontext_end(&decode->out);
	int printed = cli_print_json(&decode->out);
	return UTIL_MAX(code, printed);
}

int decode_main(int argc, char **argv)
{
	struct decode decode = {.which_text = "own",
		.interpolation = "bilinear",
		.memory = 1 << 30,
		.files = calloc((size_t)argc + 1, sizeof *decode.files),
		.written = calloc((size_t)argc, sizeof *decode.written)};
	int code = CLI_OK;
	if (decode.files && decode.written) {
		int r = decode_options(&decode, argc, argv);
		code = r == OPTIONS_OK ? decode_run(&decode) : r < 0 ? CLI_USAGE : CLI_OK;
	} else {
		code = cli_fail(CLI_FAILED, "not enough memory for %d names", argc);
	}
	for (int i = 0; i < decode.written_count; i++)
		free(decode.written[i]);
	jsontext_free(&decode.out);
	resample_free(decode.resample);
	decoder_free(decode.library);
	decoder_free(decode.own);
	if (decode.permit_made)
		permit_deinit(&decode.large);
	free(decode.written);
	free(decode.files);
	return code;
}

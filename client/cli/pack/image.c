/* image: see image.h. Worker threads, one maker each. */
#include "client/cli/pack/image.h"

#include "base/util.h"
#include "decode/decode.h"
#include "pixel/resample.h"

#include <errno.h>
#include <string.h>

/* Where decoded rows go: nowhere; into `pixels`, to compare with later rows; into `pixels`, to
 * encode; or through the resampler. */
enum rows { ROWS_DROP, ROWS_STORE, ROWS_COMPARE, ROWS_WEAVE, ROWS_RESAMPLE };

struct image_maker {
	struct image_options options;
	struct image_memory memory;
	struct decoder *decoder;
	struct jpegout *jpegout;
	struct resample *resample; /* NULL without max_side */
	char message[256];

	/* The current image. */
	uint8_t *data; /* NULL: handed on */
	size_t size;
	struct decode_info info;
	struct metadata metadata;
	uint8_t *pixels, *made;
	uint64_t held; /* of memory.work */
	uint32_t width, height; /* of `pixels` */
	enum rows rows;
	size_t row;
	bool differs;
};

const char *image_how_name(enum image_how how)
{
	static const char *const names[IMAGE_HOWS] = {
		[IMAGE_TRANSCODED] = "transcoded",
		[IMAGE_TRANSCODED_WIDER] = "transcoded_wider",
		[IMAGE_TRANSCODED_PLAIN] = "transcoded_plain",
		[IMAGE_REENCODED] = "reencoded",
		[IMAGE_KEPT_PNG] = "kept_png",
		[IMAGE_KEPT_COLOURS] = "kept_colours",
		[IMAGE_KEPT_IRREGULAR] = "kept_irregular",
		[IMAGE_KEPT_SMALLER] = "kept_smaller",
		[IMAGE_KEPT_MEMORY] = "kept_memory",
		[IMAGE_KEPT_DIFFERS] = "kept_differs",
	};
	return (unsigned)how < IMAGE_HOWS ? names[how] : "unknown";
}

int image_maker_new(const struct image_options *options, struct image_memory memory,
	struct image_maker **ret, struct fault *fault)
{
	struct image_maker *maker = calloc(1, sizeof *maker);
	if (!maker)
		return fault_set(
			fault, -ENOMEM, "not enough memory for a thread; use fewer --threads");
	maker->options = *options;
	maker->memory = memory;
	struct decode_limits limits = decode_limits_default();
	limits.large = memory.decoders;
	limits.whole = true;
	int r = decoder_new(&limits, &maker->decoder, fault);
	if (r == 0)
		r = jpegout_new(&maker->jpegout, fault);
	if (r == 0 && options->max_side)
		r = resample_new(options->max_side, &maker->resample, fault);
	if (r < 0)
		image_maker_free(maker);
	else
		*ret = maker;
	return r;
}

void image_maker_free(struct image_maker *maker)
{
	if (!maker)
		return;
	resample_free(maker->resample);
	jpegout_free(maker->jpegout);
	decoder_free(maker->decoder);
	free(maker);
}

uint64_t image_maker_bytes(const struct image_options *options)
{
	return sizeof(struct image_maker) + decoder_whole_bytes() +
	       (options->max_side ? resample_bytes(options->max_side) : 0);
}

const char *image_maker_message(const struct image_maker *maker)
{
	return maker->message;
}

static void image_row_compare(
	struct image_maker *maker, const uint8_t *at, const uint8_t *const rgb[DECODE_PLANES])
{
	for (int i = 0; i < DECODE_PLANES; i++)
		if (memcmp(at + (size_t)i * maker->info.width, rgb[i], maker->info.width) != 0)
			maker->differs = true;
}

static void image_row(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	struct image_maker *maker = context;
	size_t width = maker->info.width;
	if (maker->rows == ROWS_DROP)
		return;
	if (maker->rows == ROWS_RESAMPLE) {
		resample_row(maker->resample, rgb);
		return;
	}
	uint8_t *at = maker->pixels + maker->row++ * width * DECODE_PLANES;
	if (maker->rows == ROWS_COMPARE)
		image_row_compare(maker, at, rgb);
	else if (maker->rows == ROWS_WEAVE)
		decode_weave(at, rgb, width);
	else
		for (int i = 0; i < DECODE_PLANES; i++)
			memcpy(at + (size_t)i * width, rgb[i], width);
}

/* Decodes the begun image to its end. An outcome or -ENOMEM. */
static int image_decode(struct image_maker *maker, enum rows rows, struct decode_region region)
{
	maker->rows = rows;
	maker->row = 0;
	int r = decoder_rows(maker->decoder, region, true, image_row, maker);
	(void)snprintf(
		maker->message, sizeof maker->message, "%s", decoder_message(maker->decoder));
	return r;
}

static struct decode_region image_whole(const struct image_maker *maker)
{
	return (struct decode_region){0, 0, maker->info.width, maker->info.height};
}

static int image_begin(struct image_maker *maker)
{
	int r = decoder_begin(maker->decoder, maker->data, maker->size, &maker->info);
	(void)snprintf(
		maker->message, sizeof maker->message, "%s", decoder_message(maker->decoder));
	return r;
}

static uint64_t image_pixel_bytes(uint32_t width, uint32_t height)
{
	return (uint64_t)width * height * 3;
}

/* Takes memory for the image, `pixels` and `made` bytes of it for these two. 0,
 * PERMIT_E_TOO_LARGE, or -ENOMEM. */
static int image_take(struct image_maker *maker, uint64_t pixels, uint64_t made, uint64_t more)
{
	uint64_t bytes = pixels + made + more;
	int r = permit_acquire(maker->memory.work, bytes);
	if (r != 0)
		return r;
	maker->held = bytes;
	maker->pixels = pixels ? malloc(pixels) : NULL;
	maker->made = malloc(made + IMAGE_SLACK);
	return (pixels && !maker->pixels) || !maker->made ? -ENOMEM : 0;
}

static void image_give(struct image_maker *maker)
{
	free(maker->pixels);
	free(maker->made);
	maker->pixels = maker->made = NULL;
	if (maker->held)
		permit_release(maker->memory.work, maker->held);
	maker->held = 0;
}

static void image_add(struct image *image, uint8_t *bytes, size_t size, enum image_how how)
{
	image->choice[image->choices++] = (struct image_choice){bytes, size, how};
}

void image_deinit(struct image *image)
{
	for (unsigned i = 0; i < image->choices; i++)
		free(image->choice[i].bytes);
	*image = (struct image){.choices = 0};
}

size_t image_bytes(const struct image *image)
{
	size_t bytes = 0;
	for (unsigned i = 0; i < image->choices; i++)
		bytes += image->choice[i].size;
	return bytes;
}

/* The extension of the source's own bytes: one that image_names_tar takes. */
static const char *image_extension(const struct image_maker *maker)
{
	static const char *const extensions[] = {
		[DECODE_JPEG] = "jpg",
		[DECODE_PNG] = "png",
		[DECODE_BMP] = "bmp",
		[DECODE_PNM] = "pnm",
		[DECODE_GIF] = "gif",
		[DECODE_WEBP] = "webp",
		[DECODE_TIFF] = "tif",
	};
	/* P1 to P6: a bitmap, gray, or colors, as text and then as bytes. */
	static const char *const pnm[] = {"pbm", "pgm", "ppm"};
	const unsigned format = maker->info.format;
	if (format == DECODE_PNM && maker->size > 1 && maker->data[1] >= '1' &&
		maker->data[1] <= '6')
		return pnm[(maker->data[1] - '1') % 3];
	return format < UTIL_COUNT(extensions) && extensions[format] ? extensions[format] : "jpg";
}

/* Adds the source's own bytes as the last choice, or the only one. */
static int image_keep(struct image_maker *maker, enum image_how how, struct image *ret)
{
	ret->extension = image_extension(maker);
	image_add(ret, maker->data, maker->size, how);
	maker->data = NULL;
	return 0;
}

static int image_keep_alone(struct image_maker *maker, enum image_how how, struct image *ret)
{
	image_deinit(ret);
	return image_keep(maker, how, ret);
}

/* The same for an image that has not been decoded yet. */
static int image_judge_keep(struct image_maker *maker, enum image_how how, struct image *ret)
{
	int r = image_decode(maker, ROWS_DROP, image_whole(maker));
	return r ? r : image_keep(maker, how, ret);
}

/* Adds the encoded result as a choice, in memory of its own size. */
static int image_add_made(
	const struct image_maker *maker, size_t size, enum image_how how, struct image *ret)
{
	uint8_t *copy = malloc(size);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, maker->made, size);
	image_add(ret, copy, size, how);
	return 0;
}

/* Whether the result decodes to an image of that size and, if `rows` compares, to the stored
 * pixels. 1, 0 or -ENOMEM. */
static int image_verify(struct image_maker *maker, size_t size, enum rows rows)
{
	struct decode_info source = maker->info, info;
	uint32_t width = rows == ROWS_COMPARE ? source.width : maker->width;
	uint32_t height = rows == ROWS_COMPARE ? source.height : maker->height;
	memset(maker->made + size, 0, IMAGE_SLACK);
	int r = decoder_begin(maker->decoder, maker->made, size, &info);
	maker->differs = r != 0 || info.width != width || info.height != height;
	if (r == 0 && !maker->differs) {
		maker->info = info;
		r = image_decode(maker, rows, image_whole(maker));
		maker->info = source;
	}
	decoder_abort(maker->decoder);
	return r < 0 ? r : r == 0 && !maker->differs;
}

/* ---- without loss ---- */

/* Room for a file that restart markers make larger. */
static size_t image_room(const struct image_maker *maker)
{
	enum { SHARE = 8, LEAST = 4096 };
	return maker->size + maker->size / SHARE + LEAST;
}

/* Adds the file with one interval. An outcome of jpegout, JPEGOUT_E_ROOM if it is larger than
 * `most`; or -ENOMEM. *differs: its pixels differ from the source's, and it was not added. */
static int image_transcode(struct image_maker *maker, struct jpegout_interval interval,
	enum image_how how, size_t most, bool *differs, struct image *ret)
{
	struct jpegout_buffer buffer = {.bytes = maker->made, .room = image_room(maker)};
	int r = jpegout_transcode(maker->jpegout, &maker->metadata, interval, &buffer);
	if (r != JPEGOUT_OK || buffer.size > most)
		return r != JPEGOUT_OK ? r : JPEGOUT_E_ROOM;
	int same = maker->options.verify ? image_verify(maker, buffer.size, ROWS_COMPARE) : 1;
	*differs = same == 0;
	if (same <= 0)
		return same;
	return image_add_made(maker, buffer.size, how, ret);
}

/* The ways to write a file, the best first. */
struct image_way {
	struct jpegout_interval interval;
	enum image_how how;
	size_t most; /* bytes */
};

static unsigned image_ways(const struct image_maker *maker, struct image_way ret[IMAGE_CHOICES])
{
	enum { WIDER = 4 };
	struct jpegout_interval asked = maker->options.interval, wider = asked;
	unsigned ways = 0;
	wider.mcus = (uint32_t)UTIL_MIN((uint64_t)asked.mcus * WIDER, JPEGOUT_MCUS_MOST);
	bool markers = asked.row || asked.mcus;
	if (markers)
		ret[ways++] = (struct image_way){asked, IMAGE_TRANSCODED, image_room(maker)};
	if (markers && !asked.row)
		ret[ways++] = (struct image_way){wider, IMAGE_TRANSCODED_WIDER, image_room(maker)};
	ret[ways++] = (struct image_way){
		{.mcus = 0}, markers ? IMAGE_TRANSCODED_PLAIN : IMAGE_TRANSCODED, maker->size};
	return ways;
}

/* The source is decoded and good. Stops at the first way whose result is not larger than the
 * source. */
static int image_rewrite(struct image_maker *maker, struct image *ret)
{
	struct image_way way[IMAGE_CHOICES];
	unsigned ways = image_ways(maker, way);
	int read = jpegout_read(maker->jpegout);
	if (read != JPEGOUT_OK)
		return read < 0 ? read : image_keep(maker, IMAGE_KEPT_IRREGULAR, ret);
	for (unsigned i = 0; i < ways; i++) {
		bool differs = false;
		int r = image_transcode(
			maker, way[i].interval, way[i].how, way[i].most, &differs, ret);
		if (r < 0)
			return r;
		if (differs)
			return image_keep_alone(maker, IMAGE_KEPT_DIFFERS, ret);
		if (r != JPEGOUT_OK && r != JPEGOUT_E_ROOM)
			return image_keep_alone(maker, IMAGE_KEPT_IRREGULAR, ret);
		if (r == JPEGOUT_OK && ret->choice[ret->choices - 1].size <= maker->size)
			return 0;
	}
	return image_keep(maker, IMAGE_KEPT_SMALLER, ret);
}

/* Both the reader and the writer have read the JPEG's header. */
static int image_lossless_open(struct image_maker *maker, uint64_t coefficients, struct image *ret)
{
	uint64_t pixels = maker->options.verify
				  ? image_pixel_bytes(maker->info.width, maker->info.height)
				  : 0;
	/* Makes the choices while it holds all of this. */
	uint64_t more = coefficients + IMAGE_CHOICES * (uint64_t)image_room(maker);
	int r = image_take(maker, pixels, image_room(maker), more);
	if (r == PERMIT_E_TOO_LARGE)
		return image_judge_keep(maker, IMAGE_KEPT_MEMORY, ret);
	if (r == 0)
		r = image_decode(maker, pixels ? ROWS_STORE : ROWS_DROP, image_whole(maker));
	if (r == 0)
		r = image_rewrite(maker, ret);
	return r;
}

/* The decoder has begun the image. */
static int image_lossless(struct image_maker *maker, struct image *ret)
{
	if (maker->info.format != DECODE_JPEG)
		return image_judge_keep(maker, IMAGE_KEPT_PNG, ret);
	if (!metadata_read(maker->data, maker->size, &maker->metadata))
		return image_judge_keep(maker, IMAGE_KEPT_IRREGULAR, ret);
	uint64_t coefficients;
	int outcome = jpegout_open(maker->jpegout, maker->data, maker->size, &coefficients);
	int r = outcome;
	if (outcome == JPEGOUT_OK)
		r = image_lossless_open(maker, coefficients, ret);
	else if (outcome > 0)
		r = image_judge_keep(maker,
			outcome == JPEGOUT_E_COLOURS ? IMAGE_KEPT_COLOURS : IMAGE_KEPT_IRREGULAR,
			ret);
	jpegout_close(maker->jpegout);
	image_give(maker);
	return r;
}

/* ---- with loss ---- */

static bool image_is_gray(const uint8_t *rgb, uint64_t pixels)
{
	for (uint64_t i = 0; i < pixels; i++)
		if (rgb[3 * i] != rgb[3 * i + 1] || rgb[3 * i] != rgb[3 * i + 2])
			return false;
	return true;
}

/* The chroma subsampling of the source, if libjpeg can read it. 0 or -ENOMEM. */
static int image_inherit_sampling(struct image_maker *maker, struct jpegout_picture *picture)
{
	uint64_t unused;
	int outcome = jpegout_open(maker->jpegout, maker->data, maker->size, &unused);
	if (outcome == JPEGOUT_OK)
		jpegout_sampling(maker->jpegout, &picture->h, &picture->v);
	jpegout_close(maker->jpegout);
	return outcome < 0 ? outcome : 0;
}

/* The metadata of the source that an image encoded again keeps. 0 or -ENOMEM. */
static int image_inherit(struct image_maker *maker, struct jpegout_picture *picture)
{
	static const struct {
		unsigned h, v;
	} factors[] = {[IMAGE_420] = {2, 2}, [IMAGE_422] = {2, 1}, [IMAGE_444] = {1, 1}};
	enum image_subsampling asked = maker->options.subsampling;
	picture->h = picture->v = 1;
	if (asked != IMAGE_KEEP) {
		picture->h = factors[asked].h;
		picture->v = factors[asked].v;
	}
	maker->metadata.profile_parts = maker->metadata.orientation = 0;
	if (maker->info.format != DECODE_JPEG)
		return 0;
	if (!metadata_read(maker->data, maker->size, &maker->metadata))
		maker->metadata.profile_parts = maker->metadata.orientation = 0;
	/* A gray image may have an RGB profile, but no image that pack writes can have a CMYK
	 * profile. */
	if (maker->metadata.profile_parts && metadata_profile_fits(&maker->metadata, 3))
		picture->gray = false;
	if (!metadata_profile_fits(&maker->metadata, picture->gray ? 1 : 3))
		maker->metadata.profile_parts = 0;
	return asked == IMAGE_KEEP ? image_inherit_sampling(maker, picture) : 0;
}

/* Puts the source's pixels, resized if requested, into maker->pixels. */
static int image_pixels(struct image_maker *maker)
{
	uint32_t w = maker->info.width, h = maker->info.height;
	if (maker->width == w && maker->height == h)
		return image_decode(maker, ROWS_WEAVE, image_whole(maker));
	struct resample_job job = {
		.x = {.source = w,
			.result = maker->width,
			.window = maker->width,
			.filter = WEIGHTS_LANCZOS},
		.y = {.source = h,
			.result = maker->height,
			.window = maker->height,
			.filter = WEIGHTS_LANCZOS},
		.out = maker->pixels,
	};
	struct resample_region region;
	resample_begin(maker->resample, &job, &region);
	struct decode_region needed = {region.x0, region.y0, region.x1, region.y1};
	return image_decode(maker, ROWS_RESAMPLE, needed);
}

/* Encodes maker->pixels. An outcome of jpegout, or -ENOMEM. */
static int image_encode(struct image_maker *maker, struct jpegout_buffer *buffer)
{
	struct jpegout_picture picture = {
		.rgb = maker->pixels,
		.width = maker->width,
		.height = maker->height,
		.gray = image_is_gray(maker->pixels, (uint64_t)maker->width * maker->height),
		.quality = maker->options.quality ? maker->options.quality : IMAGE_QUALITY,
	};
	int r = image_inherit(maker, &picture);
	return r ? r
		 : jpegout_encode(maker->jpegout, &picture, &maker->metadata,
			   maker->options.interval, buffer);
}

enum { LOSSY_LOSSLESS = 1000 }; /* above all outcomes: pack it without loss */

/* The decoder has begun the image, and the memory is taken. */
static int image_reencode(struct image_maker *maker, size_t room, struct image *ret)
{
	struct jpegout_buffer buffer = {.bytes = maker->made, .room = room};
	int r = image_pixels(maker);
	if (r != 0)
		return r;
	r = image_encode(maker, &buffer);
	if (r != JPEGOUT_OK)
		return r < 0 ? r : LOSSY_LOSSLESS;
	if (maker->options.verify) {
		int good = image_verify(maker, buffer.size, ROWS_DROP);
		if (good <= 0)
			return good < 0 ? good : LOSSY_LOSSLESS;
	}
	return image_add_made(maker, buffer.size, IMAGE_REENCODED, ret);
}

static int image_lossy(struct image_maker *maker, struct image *ret)
{
	/* Noise at quality 100 in 4:4:4 takes more bytes than its pixels, but never twice as
	 * many. */
	enum { HEADERS = 65536 };
	uint64_t pixels = image_pixel_bytes(maker->width, maker->height);
	bool resized = maker->width != maker->info.width || maker->height != maker->info.height;
	uint64_t room = resized ? 2 * pixels + HEADERS : maker->size;
	int r = image_take(maker, pixels, room, jpegout_encode_bytes(maker->width, maker->height));
	if (r == PERMIT_E_TOO_LARGE)
		r = image_judge_keep(maker, IMAGE_KEPT_MEMORY, ret);
	else if (r == 0)
		r = image_reencode(maker, (size_t)room, ret);
	image_give(maker);
	if (r != LOSSY_LOSSLESS)
		return r;
	r = image_begin(maker);
	return r ? r : image_lossless(maker, ret);
}

void image_fit(
	uint32_t width, uint32_t height, uint32_t side, uint32_t *ret_width, uint32_t *ret_height)
{
	uint64_t longest = UTIL_MAX(width, height), shorter = UTIL_MIN(width, height);
	uint32_t other = (uint32_t)UTIL_MAX((shorter * side * 2 + longest) / (2 * longest), 1u);
	*ret_width = width >= height ? side : other;
	*ret_height = width >= height ? other : side;
}

static int image_choose(struct image_maker *maker, struct image *ret)
{
	uint32_t side = maker->options.max_side;
	maker->width = maker->info.width;
	maker->height = maker->info.height;
	bool large = side && UTIL_MAX(maker->width, maker->height) > side;
	if (large)
		image_fit(
			maker->info.width, maker->info.height, side, &maker->width, &maker->height);
	return large || maker->options.quality ? image_lossy(maker, ret)
					       : image_lossless(maker, ret);
}

int image_make(struct image_maker *maker, uint8_t *data, size_t size, struct image *ret)
{
	maker->data = data;
	maker->size = size;
	*ret = (struct image){.extension = "jpg"};
	int r = image_begin(maker);
	if (r == 0)
		r = image_choose(maker, ret);
	if (r != 0)
		image_deinit(ret);
	decoder_abort(maker->decoder);
	free(maker->data);
	maker->data = NULL;
	return r;
}

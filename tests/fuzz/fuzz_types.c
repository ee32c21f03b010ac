/* WebP, BMP, PNM and GIF, through decode.h: small files with changed bytes, and any bytes after a
 * signature.
 *
 * Expected: no access beyond the file and its slack; a region equals the same columns and rows of
 * the whole; what decodes whole also decodes in part; the decoder obeys its limits; and every
 * refusal has a sentence. types_corpus.py compares the pixels with Pillow's. */
#include "decode/decode.h"

#include "base/util.h"
#include "fuzz/drive.h"
#include "fuzz/recipe.h"
#include "fuzz/want.h"

#include <stdlib.h>

enum { INPUT_ROOM = 4096, PIXELS_MOST = 1 << 16, SLACK = 64, POOL = 64 << 20 };

struct image {
	int outcome;
	struct decode_info info;
	struct decode_region region;
	uint32_t rows;
	uint8_t rgb[PIXELS_MOST * 3];
};

static struct decoder *decoder;
static struct image whole, part;

static void prepare(void)
{
	static struct permit pool;
	struct decode_limits limits = decode_limits_default();
	struct fault fault;
	limits.pixels = PIXELS_MOST;
	limits.large = &pool;
	permit_init(&pool, POOL);
	want(decoder_new(&limits, &decoder, &fault) == 0, "no decoder");
}

static void keep_row(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	struct image *image = context;
	const size_t width = image->region.x1 - image->region.x0;
	want(image->rows < image->region.y1 - image->region.y0, "more rows than the region has");
	decode_weave(image->rgb + image->rows++ * width * 3, rgb, width);
}

static void want_outcome(int outcome)
{
	want(outcome >= 0 && outcome < DECODE_OUTCOMES, "no such outcome");
	want(!outcome || decoder_message(decoder)[0], "refused without a sentence");
}

/* A region; the whole image if x1 is 0. */
static void decode(struct image *ret, const uint8_t *bytes, size_t size,
	struct decode_region region, bool to_end)
{
	ret->rows = 0;
	ret->outcome = decoder_begin(decoder, bytes, size, &ret->info);
	want_outcome(ret->outcome);
	if (ret->outcome)
		return;
	want((uint64_t)ret->info.width * ret->info.height <= PIXELS_MOST, "beyond the limit");
	if (!region.x1)
		region = (struct decode_region){0, 0, ret->info.width, ret->info.height};
	ret->region = region;
	ret->outcome = decoder_rows(decoder, region, to_end, keep_row, ret);
	want_outcome(ret->outcome);
	want(ret->outcome || ret->rows == region.y1 - region.y0, "rows are missing");
}

static void side(uint32_t random, uint32_t size, uint32_t *from, uint32_t *to)
{
	*from = random % size;
	*to = *from + 1 + random / 256 % (size - *from);
}

/* Checks that a region, which the file's last bytes choose, equals the same part of the whole. */
static void check_part(const uint8_t *bytes, size_t size)
{
	struct recipe recipe = {
		bytes + size - UTIL_MIN(size, (size_t)4), UTIL_MIN(size, (size_t)4), 0};
	struct decode_region region;
	side((uint32_t)recipe_number(&recipe, 2), whole.info.width, &region.x0, &region.x1);
	side((uint32_t)recipe_number(&recipe, 2), whole.info.height, &region.y0, &region.y1);
	decode(&part, bytes, size, region, false);
	want(part.outcome == DECODE_OK, "the whole decodes, and a region does not");
	const size_t width = region.x1 - region.x0;
	for (uint32_t y = region.y0; y < region.y1; y++)
		want(memcmp(part.rgb + (y - region.y0) * width * 3,
			     whole.rgb + ((size_t)y * whole.info.width + region.x0) * 3,
			     width * 3) == 0,
			"a region has other pixels than the whole");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!decoder)
		prepare();
	/* A sanitizer sees an access beyond the slack. */
	uint8_t *bytes = malloc(size + SLACK);
	want(bytes != NULL, "no memory");
	memcpy(bytes, data, size);
	memset(bytes + size, 0xff, SLACK);
	decode(&whole, bytes, size, (struct decode_region){0}, true);
	if (whole.outcome == DECODE_OK)
		check_part(bytes, size);
	free(bytes);
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
/* Of 12 x 9 pixels. */
static const uint8_t webp_lossy[] = {
	0x52,
	0x49,
	0x46,
	0x46,
	0x44,
	0x00,
	0x00,
	0x00,
	0x57,
	0x45,
	0x42,
	0x50,
	0x56,
	0x50,
	0x38,
	0x20,
	0x38,
	0x00,
	0x00,
	0x00,
	0xf0,
	0x01,
	0x00,
	0x9d,
	0x01,
	0x2a,
	0x0c,
	0x00,
	0x09,
	0x00,
	0x03,
	0x80,
	0x5a,
	0x25,
	0xb0,
	0x02,
	0x74,
	0xba,
	0x00,
	0x03,
	0x08,
	0x2f,
	0xbf,
	0xc0,
	0x00,
	0xfe,
	0xf5,
	0xdc,
	0x50,
	0xee,
	0x45,
	0xda,
	0xf4,
	0x25,
	0xbf,
	0x7f,
	0xd0,
	0xad,
	0xf4,
	0x81,
	0x77,
	0xb3,
	0xa2,
	0x5f,
	0xeb,
	0xd7,
	0xf6,
	0xfd,
	0xde,
	0x51,
	0x85,
	0x81,
	0xa8,
	0xc8,
	0x00,
	0x00,
};
static const uint8_t webp_alpha[] = {
	0x52,
	0x49,
	0x46,
	0x46,
	0xa2,
	0x00,
	0x00,
	0x00,
	0x57,
	0x45,
	0x42,
	0x50,
	0x56,
	0x50,
	0x38,
	0x58,
	0x0a,
	0x00,
	0x00,
	0x00,
	0x10,
	0x00,
	0x00,
	0x00,
	0x0b,
	0x00,
	0x00,
	0x08,
	0x00,
	0x00,
	0x41,
	0x4c,
	0x50,
	0x48,
	0x3d,
	0x00,
	0x00,
	0x00,
	0x01,
	0x4f,
	0x40,
	0x98,
	0x6d,
	0x1c,
	0x3b,
	0x83,
	0xdb,
	0x73,
	0x08,
	0x8b,
	0x88,
	0x98,
	0x48,
	0xd5,
	0xc1,
	0x34,
	0xb6,
	0xed,
	0x28,
	0xb1,
	0x91,
	0x91,
	0xb1,
	0x71,
	0x68,
	0x14,
	0x7e,
	0x2f,
	0x60,
	0x6d,
	0x60,
	0xab,
	0x80,
	0xa1,
	0x03,
	0x28,
	0xe1,
	0x74,
	0x1e,
	0xd1,
	0xff,
	0x80,
	0x18,
	0xa0,
	0x2a,
	0x30,
	0xb5,
	0xb0,
	0xcf,
	0x70,
	0x1f,
	0xf0,
	0x3e,
	0xf0,
	0x7f,
	0x90,
	0x13,
	0x34,
	0x35,
	0x00,
	0x56,
	0x50,
	0x38,
	0x20,
	0x3e,
	0x00,
	0x00,
	0x00,
	0x10,
	0x02,
	0x00,
	0x9d,
	0x01,
	0x2a,
	0x0c,
	0x00,
	0x09,
	0x00,
	0x03,
	0x80,
	0x5a,
	0x25,
	0xb0,
	0x02,
	0x74,
	0xba,
	0x00,
	0x02,
	0xfd,
	0xf6,
	0x99,
	0xf4,
	0x00,
	0x00,
	0xfe,
	0xf5,
	0xdc,
	0x50,
	0xee,
	0x01,
	0x1f,
	0x30,
	0x6f,
	0x2f,
	0xe0,
	0xc3,
	0x06,
	0xcd,
	0x18,
	0x5f,
	0x8e,
	0xcf,
	0xe4,
	0x53,
	0xf0,
	0x6b,
	0x44,
	0xbf,
	0xd7,
	0xaf,
	0xdf,
	0x12,
	0x76,
	0x7a,
	0x72,
	0x0d,
	0xa7,
	0x38,
	0x00,
	0x00,
};
static const uint8_t webp_lossless[] = {
	0x52,
	0x49,
	0x46,
	0x46,
	0x38,
	0x00,
	0x00,
	0x00,
	0x57,
	0x45,
	0x42,
	0x50,
	0x56,
	0x50,
	0x38,
	0x4c,
	0x2b,
	0x00,
	0x00,
	0x00,
	0x2f,
	0x0b,
	0x00,
	0x02,
	0x10,
	0xb9,
	0x32,
	0x44,
	0xf4,
	0x3f,
	0x76,
	0x11,
	0xd1,
	0xff,
	0x30,
	0x98,
	0x69,
	0xdb,
	0x26,
	0x34,
	0xc6,
	0x1f,
	0x6b,
	0xbf,
	0x01,
	0xb0,
	0x86,
	0x62,
	0x02,
	0x04,
	0x02,
	0x29,
	0x6c,
	0x9b,
	0x27,
	0x40,
	0x99,
	0x15,
	0x87,
	0x34,
	0x73,
	0x7e,
	0x02,
	0x00,
};
static const uint8_t bmp[] = {'B', 'M', 0, 0, 0, 0, 0, 0, 0, 0, 54, 0, 0, 0, 40, 0, 0, 0, 5, 0, 0,
	0, 4, 0, 0, 0, 1, 0, 24};
static const uint8_t bmp_runs[] = {'B', 'M', 0, 0, 0, 0, 0, 0, 0, 0, 62, 0, 0, 0, 40, 0, 0, 0, 5, 0,
	0, 0, 4, 0, 0, 0, 1, 0, 8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0,
	0, 0, 0, 9, 9, 0, 0, 3, 1, 0, 3, 0, 1, 0, 0, 0, 0, 4, 1, 0, 2, 1, 0, 5, 0};
static const uint8_t gif[] = {'G', 'I', 'F', '8', '9', 'a', 6, 0, 5, 0, 0x80, 0, 0, 9, 8, 7, 1, 2,
	3, ',', 1, 0, 1, 0, 4, 0, 3, 0, 0x40, 2, 6, 0x84, 0x8f, 0xa9, 0xcb, 0xed, 0x5a, 0, ';'};

static const struct {
	const void *bytes;
	size_t size;
	unsigned noise; /* random bytes that follow */
} seeds[] = {
	{webp_lossy, sizeof(webp_lossy), 0},
	{webp_alpha, sizeof(webp_alpha), 0},
	{webp_lossless, sizeof(webp_lossless), 0},
	{bmp, sizeof(bmp), 120},
	{bmp_runs, sizeof(bmp_runs), 0},
	{gif, sizeof(gif), 0},
	{"P6 5 4 255\n", 11, 60},
	{"P5 5 4 1000 ", 12, 40},
	{"P4\n9 3\n", 7, 6},
	{"P3 2 2 9 1 2 3 4 5 6 7 8 9 1 2 3 ", 33, 0},
	{"P1\n3 2\n0 1 1\n010", 16, 0},
};

static size_t compose(uint8_t *bytes, size_t room, struct random *random)
{
	size_t from = draw(random, UTIL_COUNT(seeds)), size = seeds[from].size;
	memcpy(bytes, seeds[from].bytes, size);
	size += drive_noise(bytes + size, UTIL_MIN(seeds[from].noise, room - size), random);
	for (unsigned changes = draw(random, 4); changes; changes--)
		bytes[2 + draw(random, (uint32_t)size - 2)] = (uint8_t)draw(random, 256);
	return size;
}

const struct drive fuzz_drive = {"fuzz_types", INPUT_ROOM, compose, NULL};
#endif

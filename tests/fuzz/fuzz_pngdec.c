/* Penstock's PNG decoder against libpng (PENSTOCK_DECODER=libjpeg), through decode.h, with every
 * table of kernels.
 *
 * An input chooses an image's form, its rows before unfiltering, how zlib packs them, damage to the
 * stream, and how it is cut into chunks. Nothing says which pixels are meant: whatever libpng makes
 * of them is right. Some images are larger than the decoder's window.
 *
 * Expected: for whole files, the same outcome and pixels. For a region, the same pixels if libpng
 * decodes it. If libpng refuses it, penstock's decoder may decode it where it ends above the last
 * row, because libpng looks some bits further; all kernels then say the same. */
#include "decode/decode.h"

#include "fuzz/drive.h"
#include "fuzz/number.h"
#include "fuzz/recipe.h"
#include "fuzz/want.h"

#include "base/util.h"

#include <zlib.h>

enum {
	INPUT_ROOM = 256,
	PIXELS_MOST = 1 << 16,
	PLAIN_ROOM = PIXELS_MOST * 8 + PIXELS_MOST + 64,
	PACKED_ROOM = PLAIN_ROOM + PLAIN_ROOM / 4 + 4096,
	FILE_ROOM = 2 * PACKED_ROOM,
	WAYS = 5, /* libpng, and tables of kernels */
	SLACK = 64,
};

struct image {
	int outcome;
	struct decode_info info;
	uint32_t rows, width;
	uint8_t rgb[PIXELS_MOST * 3];
};

static struct decoder *ways[WAYS];
static unsigned way_count;
static struct image library, own;
static uint8_t plain[PLAIN_ROOM], packed[PACKED_ROOM], file[FILE_ROOM];
static size_t file_size;

static void way_add(const char *which, const char *kernels)
{
	static struct permit pool;
	struct decode_limits limits = decode_limits_default();
	struct fault fault;
	limits.pixels = PIXELS_MOST;
	limits.large = &pool;
	if (!way_count)
		permit_init(&pool, 64 << 20);
	(void)setenv("PENSTOCK_DECODER", which, 1);
	(void)setenv("PENSTOCK_KERNELS", kernels, 1);
	if (decoder_new(&limits, &ways[way_count], &fault) == 0)
		way_count++;
}

static void prepare(void)
{
	way_add("libjpeg", "c");
	way_add("own", "c");
	way_add("own", "avx2");
	way_add("own", "neon");
	want(way_count >= 2, "no decoders");
}

static void keep_row(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	struct image *image = context;
	decode_weave(image->rgb + (size_t)image->rows++ * image->width * 3, rgb, image->width);
}

static void decode(struct image *ret, struct decoder *decoder, const uint8_t *bytes, size_t size,
	const struct decode_region *region, bool to_end)
{
	ret->rows = 0;
	ret->outcome = decoder_begin(decoder, bytes, size, &ret->info);
	if (ret->outcome)
		return;
	const struct decode_region all = {0, 0, ret->info.width, ret->info.height};
	const struct decode_region r = region ? *region : all;
	ret->width = r.x1 - r.x0;
	ret->outcome = decoder_rows(decoder, r, to_end, keep_row, ret);
	want(ret->outcome || ret->rows == r.y1 - r.y0, "rows are missing");
	want(!ret->outcome || decoder_message(decoder)[0], "refused without a sentence");
}

static void same_pixels(const struct image *a, const struct image *b)
{
	want(a->rows == b->rows && a->width == b->width, "not as many rows");
	want(memcmp(a->rgb, b->rgb, (size_t)a->rows * a->width * 3) == 0, "other pixels");
}

static void side(struct recipe *recipe, uint32_t size, uint32_t *from, uint32_t *to)
{
	*from = (uint32_t)recipe_number(recipe, 2) % size;
	*to = *from + 1 + (uint32_t)recipe_number(recipe, 2) % (size - *from);
}

static void check(struct recipe *recipe, const uint8_t *bytes, size_t size)
{
	static struct image first;
	decode(&library, ways[0], bytes, size, NULL, true);
	for (unsigned i = 1; i < way_count; i++) {
		decode(&own, ways[i], bytes, size, NULL, true);
		want(own.outcome == library.outcome, "another outcome than libpng's");
		if (!own.outcome)
			same_pixels(&own, &library);
	}
	if (!library.info.width)
		return;
	struct decode_region region;
	side(recipe, library.info.width, &region.x0, &region.x1);
	side(recipe, library.info.height, &region.y0, &region.y1);
	const bool last = region.y1 == library.info.height;
	decode(&library, ways[0], bytes, size, &region, false);
	for (unsigned i = 1; i < way_count; i++) {
		decode(&own, ways[i], bytes, size, &region, false);
		want(own.outcome == library.outcome || (!own.outcome && !last),
			"another outcome for a region than libpng's");
		if (!own.outcome && !library.outcome)
			same_pixels(&own, &library);
		if (i == 1)
			first = own;
		want(own.outcome == first.outcome, "another outcome with other kernels");
		if (!own.outcome)
			same_pixels(&own, &first);
	}
}

/* ---- inputs ---- */

struct form {
	uint32_t width, height, stride;
	uint8_t depth, color;
};

static struct form form_make(struct recipe *recipe)
{
	static const uint8_t forms[][3] = {{8, 2, 3}, {8, 6, 4}, {8, 0, 1}, {8, 3, 1}, {8, 4, 2},
		{16, 2, 6}, {16, 6, 8}, {16, 0, 2}, {16, 4, 4}, {1, 0, 1}, {2, 3, 1}, {4, 0, 1}};
	const uint8_t which = recipe_byte(recipe);
	const uint8_t *f = forms[which % UTIL_COUNT(forms)];
	const uint32_t most = which >= 252 ? PIXELS_MOST : which >= 240 ? 300 : 30;
	struct form form = {.depth = f[0], .color = f[1]};
	form.width = 1 + (uint32_t)recipe_number(recipe, 2) % most;
	form.height = 1 + (uint32_t)recipe_number(recipe, 2) % most;
	form.height = UTIL_MIN(form.height, PIXELS_MOST / form.width);
	form.stride = f[0] < 8 ? (form.width * f[0] + 7) / 8 : form.width * f[2];
	return form;
}

/* Bytes before unfiltering; returns how many. */
static size_t plain_make(struct recipe *recipe, struct random *random, const struct form *form)
{
	const uint8_t how = recipe_byte(recipe), filters = recipe_byte(recipe);
	const size_t back = 1 + recipe_number(recipe, 2);
	size_t size = 0;
	for (uint32_t y = 0; y < form->height; y++) {
		plain[size++] =
			filters < 5 ? filters : (uint8_t)draw(random, filters == 255 ? 6 : 5);
		for (uint32_t i = 0; i < form->stride; i++, size++) {
			const uint64_t noise = random_64(random);
			if (how % 4 == 0)
				plain[size] = (uint8_t)noise;
			else if (how % 4 == 1)
				plain[size] = (uint8_t)__builtin_clzll(noise | 1);
			else if (how % 4 == 2 || back > size)
				plain[size] = (uint8_t)((noise & 3) + i / 9);
			else
				plain[size] =
					noise & 31 ? plain[size - back] : (uint8_t)(noise >> 8);
		}
	}
	/* Some bytes too few or too many. */
	const size_t off = draw(random, how >= 250 ? 2 * form->stride + 2 : 40);
	if (how >= 250)
		return size - UTIL_MIN(size, off);
	return how >= 244 ? size + off : size;
}

static size_t packed_make(struct recipe *recipe, struct random *random, size_t size)
{
	const uint8_t how = recipe_byte(recipe), more = recipe_byte(recipe);
	z_stream z = {0};
	want(deflateInit2(&z, how % 10, Z_DEFLATED, 9 + more % 7, 1 + more / 7 % 9,
		     how / 10 % (Z_FIXED + 1)) == Z_OK,
		"no memory");
	z.next_in = plain;
	z.next_out = packed;
	z.avail_out = PACKED_ROOM;
	for (unsigned parts = more / 63; parts; parts--) {
		z.avail_in = draw(random, (uint32_t)(plain + size - z.next_in) + 1);
		(void)deflate(&z, more & 1 ? Z_FULL_FLUSH : Z_BLOCK);
	}
	z.avail_in = (uInt)(plain + size - z.next_in);
	want(deflate(&z, Z_FINISH) == Z_STREAM_END, "a stream does not fit");
	(void)deflateEnd(&z);
	return PACKED_ROOM - z.avail_out;
}

static size_t packed_spoil(struct recipe *recipe, struct random *random, size_t size)
{
	const uint8_t how = recipe_byte(recipe);
	if (how < 100)
		return size;
	for (unsigned changes = how < 140 ? 1 + how % 3 : 0; changes; changes--) {
		/* More often near the ends. */
		const uint32_t reach = (uint32_t)(draw(random, 2) ? size : UTIL_MIN(size, 40u));
		const size_t at =
			draw(random, 2) ? draw(random, reach) : size - 1 - draw(random, reach);
		packed[at] ^= (uint8_t)(1 << draw(random, 8));
	}
	if (how >= 140 && how < 170)
		size -= draw(random, (uint32_t)(how < 155 ? UTIL_MIN(size, 12u) : size));
	for (unsigned extra = how >= 245 ? 1 + how % 9 : 0; extra; extra--)
		packed[size++] = (uint8_t)random_64(random);
	return size;
}

static void chunk(const char *name, const uint8_t *data, size_t size)
{
	uint8_t *to = file + file_size;
	want(size + 12 <= FILE_ROOM - file_size, "a file does not fit");
	(void)number_big(to, (uint32_t)size, 4);
	memcpy(to + 4, name, 4);
	if (size)
		memcpy(to + 8, data, size);
	(void)number_big(to + 8 + size, (uint32_t)crc32(0, to + 4, (uInt)size + 4), 4);
	file_size += size + 12;
}

static void head_make(const struct form *form, struct random *random)
{
	uint8_t data[13] = {0}, palette[48 * 3];
	memcpy(file, "\x89PNG\r\n\x1a\n", 8);
	file_size = 8;
	(void)number_big(data, form->width, 4);
	(void)number_big(data + 4, form->height, 4);
	data[8] = form->depth;
	data[9] = form->color;
	chunk("IHDR", data, sizeof data);
	for (size_t i = 0; i < sizeof palette; i++)
		palette[i] = (uint8_t)random_64(random);
	if (form->color == 3)
		chunk("PLTE", palette, sizeof palette);
}

static void chunks_make(struct recipe *recipe, struct random *random, size_t size)
{
	const uint8_t how = recipe_byte(recipe);
	const size_t piece = how < 60    ? size + 1
			     : how < 120 ? 8192
			     : how < 180 ? 65536
			     : how < 220 ? 1 + size / (1 + how % 16)
					 : 1 + (size_t)draw(random, 30) + size / 1000;
	for (size_t at = 0; at < size; at += piece) {
		if (how % 16 == 1)
			chunk("IDAT", packed, 0);
		if (how == 255 && at)
			chunk("tEXt", (const uint8_t *)"a\0b", 3);
		chunk("IDAT", packed + at, UTIL_MIN(piece, size - at));
	}
	if (how % 32 != 2)
		chunk("IEND", NULL, 0);
	if (how % 32 == 3)
		file_size -= draw(random, UTIL_MIN((uint32_t)file_size - 40, 60u));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct recipe recipe = {data, size, 0};
	if (!way_count)
		prepare();
	struct random random = {recipe_number(&recipe, 4)};
	const struct form form = form_make(&recipe);
	head_make(&form, &random);
	size_t bytes = plain_make(&recipe, &random, &form);
	bytes = packed_make(&recipe, &random, bytes);
	bytes = packed_spoil(&recipe, &random, bytes);
	chunks_make(&recipe, &random, bytes);
	/* The file ends where its memory does, except for the slack. */
	uint8_t *exact = malloc(file_size + SLACK);
	want(exact != NULL, "no memory");
	memcpy(exact, file, file_size);
	memset(exact + file_size, 0xa5, SLACK);
	check(&recipe, exact, file_size);
	free(exact);
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
static size_t compose(uint8_t *bytes, size_t room, struct random *random)
{
	(void)room;
	return drive_noise(bytes, 40, random);
}

const struct drive fuzz_drive = {"fuzz_pngdec", INPUT_ROOM, compose, NULL};
#endif

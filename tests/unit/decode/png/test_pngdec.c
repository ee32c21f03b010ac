/* Penstock's PNG decoder by itself: it makes every row of every color type and depth, whatever the
 * chunks, up to the row that is wanted; and where something is irregular, it gives up after the
 * rows before that. */
#include "unit/decode/images.h"

#include "decode/png/pngdec.h"

#include <zlib.h>

enum { SCRATCH = 4 << 20 };

struct rows {
	const uint8_t *plain; /* with their filter types, which are 0 */
	size_t stride, bytes;
	uint32_t given;
	unsigned reads;
};

static void take(void *context, const uint8_t *row)
{
	struct rows *rows = context;
	assert_memory_equal(row, rows->plain + rows->given * (rows->stride + 1) + 1, rows->bytes);
	rows->given++;
}

static void read_some(void *context)
{
	struct rows *rows = context;
	rows->reads++;
}

/* A PNG of any bytes in gray of 8 bits, and its rows. */
struct image {
	struct bytes file;
	uint8_t *plain;
	size_t plain_size;
	uint32_t width, height;
};

static void put_chunk(struct bytes *file, const char *name, const uint8_t *data, size_t size)
{
	uint8_t *to = file->data + file->size;
	for (int i = 0; i < 4; i++)
		to[i] = (uint8_t)(size >> (24 - 8 * i));
	memcpy(to + 4, name, 4);
	if (size)
		memcpy(to + 8, data, size);
	uLong sum = crc32(0, to + 4, (uInt)size + 4);
	for (int i = 0; i < 4; i++)
		to[8 + size + (size_t)i] = (uint8_t)(sum >> (24 - 8 * i));
	file->size += size + 12;
}

/* `piece`: bytes of a chunk of pixels. `spoil` may change the rows before they are packed, and the
 * stream before it is cut into chunks, of which it returns the new size. */
static struct image image_new(uint32_t width, uint32_t height, size_t piece,
	void (*spoil_rows)(uint8_t *plain, size_t stride),
	size_t (*spoil)(uint8_t *packed, size_t size))
{
	struct image image = {.width = width, .height = height};
	uint8_t head[13] = {(uint8_t)(width >> 24), (uint8_t)(width >> 16), (uint8_t)(width >> 8),
		(uint8_t)width, (uint8_t)(height >> 24), (uint8_t)(height >> 16),
		(uint8_t)(height >> 8), (uint8_t)height, 8};
	image.plain_size = ((size_t)width + 1) * height;
	uLongf packed_size = compressBound(image.plain_size);
	uint8_t *packed = malloc(packed_size + 8);
	image.plain = malloc(image.plain_size);
	image.file.data = malloc(2 * packed_size + 64 * (packed_size / piece + 3));
	assert_true(packed && image.plain && image.file.data);
	for (size_t i = 0; i < image.plain_size; i++)
		image.plain[i] = i % (width + 1) ? (uint8_t)(i * i >> 7 ^ i % 13) : 0;
	if (spoil_rows)
		spoil_rows(image.plain, (size_t)width + 1);
	assert_int_equal(compress(packed, &packed_size, image.plain, image.plain_size), Z_OK);
	size_t size = spoil ? spoil(packed, packed_size) : packed_size;
	memcpy(image.file.data, "\x89PNG\r\n\x1a\n", 8);
	image.file.size = 8;
	put_chunk(&image.file, "IHDR", head, sizeof(head));
	for (size_t at = 0; at < size; at += piece)
		put_chunk(&image.file, "IDAT", packed + at, size - at < piece ? size - at : piece);
	put_chunk(&image.file, "IEND", NULL, 0);
	free(packed);
	return image;
}

static void image_free(struct image *image)
{
	free(image->plain);
	free(image->file.data);
}

/* Makes `wanted` rows, `width` pixels of each. Returns whether it gave up; *ret_given: the rows
 * that came, all of which were right. */
static bool gives_up(const struct image *image, uint32_t wanted, uint32_t width,
	const struct png_kernels *kernels, uint32_t *ret_given)
{
	static struct scratch scratch;
	struct sentence sentence;
	struct pngwalk walk;
	struct stages stages = {0};
	struct rows rows = {image->plain, image->width, width, 0, 0};
	assert_int_equal(scratch_init(&scratch, SCRATCH, NULL, NULL), 0);
	assert_int_equal(
		pngwalk_begin(&walk, image->file.data, image->file.size, &scratch, &sentence), 0);
	const struct pngdec_rows how = {.kernels = kernels,
		.walk = &walk,
		.stride = image->width,
		.bytes = width,
		.pixel = 1,
		.rows = wanted,
		.give = take,
		.read = read_some,
		.context = &rows,
		.stages = &stages};
	size_t used = scratch.used;
	bool made = pngdec_make(&how, &scratch, ret_given);
	assert_in_range(scratch.used - used, 1, pngdec_scratch_bytes(image->width));
	assert_int_equal(*ret_given, rows.given);
	assert_true(rows.reads > 0);
	scratch_deinit(&scratch);
	return !made;
}

static void test_regular(void **state)
{
	static const struct {
		uint32_t width, height;
		size_t piece;
	} cases[] = {{1, 1, 100}, {5, 7, 1}, {300, 200, 8192}, {300, 900, 1 << 20},
		{700, 800, 65536}, {20000, 40, 8192}, {65535, 9, 50000}, {16383, 20, 3000},
		{16384, 20, 3000}};
	const struct png_kernels *kernels;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct image image =
			image_new(cases[i].width, cases[i].height, cases[i].piece, NULL, NULL);
		for (unsigned k = 0; (kernels = png_kernels_at(k)); k++)
			for (uint32_t cut = 0; cut < 3; cut++) {
				uint32_t rows = image.height - image.height * cut / 4, given;
				uint32_t width = image.width - image.width * cut / 3;
				assert_false(gives_up(&image, rows, width, kernels, &given));
				assert_int_equal(given, rows);
			}
		image_free(&image);
	}
}

static void spoil_filter(uint8_t *plain, size_t stride)
{
	plain[77 * stride] = 5;
}

static size_t spoil_sum(uint8_t *packed, size_t size)
{
	packed[size - 1] ^= 1;
	return size;
}

static size_t spoil_cut(uint8_t *packed, size_t size)
{
	(void)packed;
	return size - 1;
}

static size_t spoil_half(uint8_t *packed, size_t size)
{
	(void)packed;
	return size / 2;
}

static size_t spoil_head(uint8_t *packed, size_t size)
{
	packed[1] ^= 1;
	return size;
}

static void test_irregular(void **state)
{
	static const struct {
		void (*spoil_rows)(uint8_t *, size_t);
		size_t (*spoil)(uint8_t *, size_t);
		uint32_t least, most; /* rows before it gives up */
		uint32_t good; /* rows that can be made without seeing it */
	} cases[] = {
		{spoil_filter, NULL, 77, 77, 77},
		{NULL, spoil_sum, 300, 300, 299},
		{NULL, spoil_cut, 300, 300, 299},
		{NULL, spoil_half, 20, 280, 20},
		{NULL, spoil_head, 0, 0, 0},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		for (unsigned k = 0; png_kernels_at(k); k++) {
			uint32_t given;
			struct image image =
				image_new(200, 300, 4000, cases[i].spoil_rows, cases[i].spoil);
			assert_true(gives_up(&image, 300, 200, png_kernels_at(k), &given));
			assert_in_range(given, cases[i].least, cases[i].most);
			if (cases[i].good)
				assert_false(gives_up(
					&image, cases[i].good, 9, png_kernels_at(k), &given));
			image_free(&image);
		}
}

/* A stream of more rows than the header says. */
static void test_more_rows(void **state)
{
	struct image image = image_new(30, 40, 100, NULL, NULL);
	uint32_t given;
	image.file.data[8 + 8 + 7] = 39;
	uLong sum = crc32(0, image.file.data + 12, 17);
	for (int i = 0; i < 4; i++)
		image.file.data[8 + 8 + 13 + i] = (uint8_t)(sum >> (24 - 8 * i));
	assert_true(gives_up(&image, 39, 30, &png_kernels_c, &given));
	assert_int_equal(given, 39);
	assert_false(gives_up(&image, 38, 30, &png_kernels_c, &given));
	image_free(&image);
}

/* Through decode.h: the time goes to this decoder, not to the libraries, for each kind that it is
 * for, and for no other. */
static void test_kinds(void **state)
{
	static const int colors[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_RGB,
		PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB_ALPHA};
	for (int i = 0; i < 16; i++) {
		bool interlaced = i & 1, library = i & 2;
		int depth = i & 4 ? 16 : 8;
		for (int c = 0; c < 4; c++) {
			struct decoder *decoder = make_decoder_by(library ? "libjpeg" : "own");
			struct bytes png = make_png(90, 70, colors[c], depth, interlaced);
			struct result result = decode_bytes(decoder, png, NULL, i & 8);
			uint64_t ticks[DECODE_STAGES];
			assert_int_equal(result.outcome, DECODE_OK);
			decoder_stages(decoder, ticks);
			if (library || interlaced)
				assert_int_equal(ticks[DECODE_STAGE_ENTROPY], 0);
			else
				assert_true(ticks[DECODE_STAGE_ENTROPY] > 0);
			result_free(&result);
			free(png.data);
			decoder_free(decoder);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_regular),
		cmocka_unit_test(test_irregular),
		cmocka_unit_test(test_more_rows),
		cmocka_unit_test(test_kinds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

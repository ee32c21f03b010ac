/* Headers: files that are not images, and the markers that Pillow checks before libjpeg sees them.
 */
#include "images.h"

#include "decode/exif.h"
#include "decode/jpegwalk.h"
#include "decode/sniff.h"

static const struct jpeg_kind plain = {.width = 16, .height = 16, .components = 3};

static int outcome_of(struct bytes image)
{
	struct decoder *decoder = make_decoder(NULL);
	struct result result = decode_bytes(decoder, image, NULL, true);
	int outcome = result.outcome;
	result_free(&result);
	decoder_free(decoder);
	return outcome;
}

/* Inserts bytes after the start of image. */
static struct bytes with(struct bytes jpeg, const void *segment, size_t size)
{
	struct bytes made = {malloc(jpeg.size + size + SLACK), jpeg.size + size};
	assert_non_null(made.data);
	memcpy(made.data, jpeg.data, 2);
	memcpy(made.data + 2, segment, size);
	memcpy(made.data + 2 + size, jpeg.data + 2, jpeg.size - 2 + SLACK);
	return made;
}

static void test_not_an_image(void **state)
{
	(void)state;
	static const struct {
		const char *bytes;
		size_t size;
		const char *name;
	} cases[] = {
		{"", 0, "an empty file"},
		{"P7\nWIDTH 1\n", 11, "a PAM image"},
		{"PF\n1 1\n", 7, "a PFM image"},
		{"P6", 2, "no known format"},
		{"P8\n1 1", 6, "no known format"},
		{"P\0\n1 1", 6, "no known format"},
		{"P62 bytes of text", 17, "no known format"},
		{"BZh91AY&SY", 10, "a bzip2 file: unpack it"},
		{"\xfd"
		 "7zXZ\0\0\4",
			8, "an xz file: unpack it"},
		{"\x28\xb5\x2f\xfd\4", 5, "a zstd file: unpack it"},
		{"\x04\x22\x4d\x18", 4, "an LZ4 file: unpack it"},
		{"\x1f\x8b\x08", 3, "a gzip file: unpack it"},
		{"7z\xbc\xaf\x27\x1c", 6, "a 7z archive: unpack it"},
		{"version https://git-lfs.github.com/spec/v1", 42,
			"a git-lfs pointer: fetch the files with git lfs pull"},
		{"RIFF\0\0\0\0WEBPICCP", 16, "a WebP file without an image"},
		{"GIF88a", 6, "a damaged GIF signature"},
		{"P6#", 3, "a PPM image"},
		{"II*\0", 4, "the start of a TIFF image"},
		{"\r\n <!DOCTYPE html>", 18, "a web page or XML"},
		{"\xff\xd8\xfe", 3, "the start of a JPEG whose third byte is not FF"},
		{"\x89PNG\r\n\n\n", 8, "a damaged PNG signature"},
		{"\0\0\0\0\0\0", 6, "zero bytes"},
		{"hello", 5, "no known format"},
	};
	struct decoder *decoder = make_decoder(NULL);
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		struct bytes image = bytes_copy(cases[i].bytes, cases[i].size);
		struct result result = decode_bytes(decoder, image, NULL, true);
		assert_int_equal(result.outcome, DECODE_E_NOT_IMAGE);
		assert_non_null(strstr(result.message, cases[i].name));
		free(image.data);
	}
	decoder_free(decoder);
	uint8_t tar[512] = "name";
	memcpy(tar + 257, "ustar", 5);
	assert_string_equal(sniff_name(tar, sizeof(tar)), "a tar archive");
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(decode_outcome_name(DECODE_OK), "ok");
	for (int i = 0; i < DECODE_OUTCOMES; i++)
		for (int j = 0; j < i; j++)
			assert_string_not_equal(decode_outcome_name((enum decode_outcome)i),
				decode_outcome_name((enum decode_outcome)j));
	assert_string_equal(decode_outcome_name((enum decode_outcome)99), "unknown");
}

/* Segments that libjpeg takes and Pillow does not, and the other way round. */
static void test_segments(void **state)
{
	(void)state;
	static const struct {
		const char *bytes;
		size_t size;
		int outcome;
	} cases[] = {
		{"\xff\xfe\0\2", 4, DECODE_OK},
		{"\xff\xfe\0\0", 4, DECODE_OK}, /* a length below 2 is an empty comment */
		{"\xff\xfe\0\2junk\xff\0junk\xff\xff\xff", 17, DECODE_OK},
		{"\xff\1", 2, DECODE_E_CORRUPT},
		{"\xff\xbf\0\2", 4, DECODE_E_CORRUPT},
		{"\xff\xd0", 2, DECODE_OK},
		{"\xff\xee\0\x08"
		 "Adobe\0",
			10, DECODE_E_CORRUPT},
		{"\xff\xee\0\x09"
		 "Adobe\0\x64",
			11, DECODE_OK},
		{"\xff\xe0\0\x08"
		 "JFIF\0\1",
			10, DECODE_E_CORRUPT},
		{"\xff\xe0\0\x09"
		 "JFIF\0\1\1",
			11, DECODE_OK},
		{"\xff\xe2\0\x0e"
		 "ICC_PROFILE\0",
			16, DECODE_E_CORRUPT},
		{"\xff\xe2\0\x0f"
		 "ICC_PROFILE\0\1",
			17, DECODE_E_CORRUPT},
		{"\xff\xe2\0\x10"
		 "ICC_PROFILE\0\1\1",
			18, DECODE_OK},
		{"\xff\xed\0\x16"
		 "Photoshop 3.0\0"
		 "8BIM\3\xed",
			24, DECODE_E_CORRUPT},
		{"\xff\xed\0\x15"
		 "Photoshop 3.0\0"
		 "8BIM\3",
			23, DECODE_OK},
		{"\xff\xed\0\x17"
		 "Photoshop 3.0\0"
		 "8BIM\3\xed\0",
			25, DECODE_OK},
		{"\xff\xdb\0\x03\0", 5, DECODE_E_CORRUPT},
		{"\xff\xe5\xff\xff", 4, DECODE_E_TRUNCATED},
	};
	struct bytes jpeg = make_jpeg(&plain);
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		struct bytes made = with(jpeg, cases[i].bytes, cases[i].size);
		int outcome = outcome_of(made);
		if (outcome != cases[i].outcome)
			print_error("case %zu\n", i);
		assert_int_equal(outcome, cases[i].outcome);
		free(made.data);
	}
	free(jpeg.data);
}

/* Changes a byte of the frame header. */
static int frame_outcome(size_t offset, uint8_t value)
{
	struct bytes jpeg = make_jpeg(&plain);
	for (size_t i = 2; i + 20 < jpeg.size; i++)
		if (jpeg.data[i] == 0xff && jpeg.data[i + 1] == 0xc0) {
			jpeg.data[i + offset] = value;
			break;
		}
	int outcome = outcome_of(jpeg);
	free(jpeg.data);
	return outcome;
}

static void test_frame(void **state)
{
	(void)state;
	assert_int_equal(frame_outcome(4, 8), DECODE_OK);
	assert_int_equal(frame_outcome(4, 12), DECODE_E_UNSUPPORTED); /* bits */
	assert_int_equal(frame_outcome(6, 0), DECODE_E_CORRUPT); /* height 0 */
	assert_int_equal(frame_outcome(8, 0), DECODE_E_CORRUPT); /* width 0 */
	assert_int_equal(frame_outcome(9, 2), DECODE_E_UNSUPPORTED); /* components */
	assert_int_equal(frame_outcome(1, 0xc3), DECODE_E_UNSUPPORTED);
	assert_int_equal(frame_outcome(1, 0xc5), DECODE_E_UNSUPPORTED);
	assert_int_equal(frame_outcome(3, 18), DECODE_E_CORRUPT); /* ends inside a component */
	assert_int_equal(frame_outcome(11, 0x51), DECODE_E_CORRUPT); /* sampling 5 */
}

static void test_exif(void **state)
{
	(void)state;
	/* Two entries: XResolution of the given type and count, ResolutionUnit. */
	uint8_t tiff[] =
		"II*\0\x08\0\0\0\2\0\x1a\1\1\0\1\0\0\0\x48\0\0\0\x28\1\3\0\1\0\0\0\2\0\0\0\0\0\0\0";
	enum { TYPE = 12, COUNT = 14, VALUE = 18, UNIT_TAG = 22 };
	size_t size = sizeof(tiff) - 1;
	assert_true(exif_density_refused(tiff, size)); /* one byte */
	tiff[COUNT] = 2;
	assert_false(exif_density_refused(tiff, size));
	tiff[TYPE] = 2;
	tiff[VALUE] = '7';
	assert_true(exif_density_refused(tiff, size)); /* "7" and its zero */
	tiff[VALUE] = 'x';
	assert_false(exif_density_refused(tiff, size));
	tiff[COUNT] = 1;
	tiff[VALUE] = 0;
	assert_true(exif_density_refused(tiff, size)); /* "" */
	tiff[UNIT_TAG] = 0x29;
	assert_false(exif_density_refused(tiff, size)); /* no unit: the resolution is ignored */
	tiff[UNIT_TAG] = 0x28;
	for (size_t cut = 0; cut < size; cut++) /* bounds */
		(void)exif_density_refused(tiff, cut);
	tiff[TYPE] = 5;
	tiff[COUNT] = 1;
	assert_false(exif_density_refused(tiff, size)); /* a rational outside the segment */
}

static void test_walk_is_bounded(void **state)
{
	(void)state;
	struct sentence words;
	struct jpegwalk walk;
	struct bytes jpeg = make_jpeg(&plain);
	assert_int_equal(jpegwalk_read(jpeg.data, jpeg.size, &walk, &words), DECODE_OK);
	assert_int_equal(walk.width, 16);
	assert_int_equal(walk.layers, 3);
	uint32_t seed = 1;
	for (int i = 0; i < 20000; i++) { /* any bytes, in memory that ends where they end */
		seed = seed * 1664525u + 1013904223u;
		size_t size = 3 + (seed >> 16) % 60;
		uint8_t *copy = malloc(size);
		assert_non_null(copy);
		memcpy(copy, jpeg.data, size);
		copy[2 + (seed >> 8) % (size - 2)] = (uint8_t)seed;
		(void)jpegwalk_read(copy, size, &walk, &words);
		free(copy);
	}
	free(jpeg.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_not_an_image),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_segments),
		cmocka_unit_test(test_frame),
		cmocka_unit_test(test_exif),
		cmocka_unit_test(test_walk_is_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What of a JPEG's segments goes along: profiles whole and in order, the orientation from Exif,
 * else from XMP, as Pillow's getexif() has it; and which headers are left alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/cli/pack/metadata.h"

#include "base/util.h"
#include "decode/exif.h"

#include <stdio.h>
#include <string.h>

struct file {
	uint8_t bytes[8192];
	size_t size;
};

static void put(struct file *file, const void *data, size_t size)
{
	assert_true(file->size + size <= sizeof file->bytes);
	memcpy(file->bytes + file->size, data, size);
	file->size += size;
}

static void put_segment(struct file *file, unsigned marker, const void *data, size_t size)
{
	const uint8_t head[] = {
		0xff, (uint8_t)marker, (uint8_t)((size + 2) >> 8), (uint8_t)(size + 2)};
	put(file, head, sizeof head);
	put(file, data, size);
}

static void begin(struct file *file)
{
	file->size = 0;
	put(file, "\xff\xd8", 2);
}

static bool end(struct file *file, struct metadata *ret)
{
	put_segment(file, 0xda, "\1\1\0\0\x3f\0", 6);
	return metadata_read(file->bytes, file->size, ret);
}

static void put_exif(struct file *file, unsigned orientation)
{
	uint8_t segment[METADATA_ORIENTATION];
	metadata_orientation(orientation, segment);
	put_segment(file, 0xe1, segment, sizeof segment);
}

static void put_xmp(struct file *file, const char *text)
{
	char segment[400];
	int n = snprintf(segment, sizeof segment, "http://ns.adobe.com/xap/1.0/%c%s", 0, text);
	put_segment(file, 0xe1, segment, (size_t)n);
}

static void test_orientation(void **state)
{
	(void)state;
	struct file file;
	struct metadata found;
	for (unsigned value = 0; value <= 9; value++) {
		begin(&file);
		put_exif(&file, value);
		assert_true(end(&file, &found));
		assert_int_equal(found.orientation, value >= 2 && value <= 8 ? value : 0);
	}
	/* XMP counts only where Exif says nothing. */
	static const struct {
		const char *text;
		unsigned value;
	} xmp[] = {{"tiff:Orientation=\"6\"", 6}, {"<tiff:Orientation>3</tiff:Orientation>", 3},
		{"tiff:Orientation='6'", 0}, {"tiff:Orientation=\"", 0}, {"tiff:Orientation", 0},
		{"tiff:Orientation=\"x\" tiff:Orientation=\"8\"", 8}, {"", 0}};
	for (size_t i = 0; i < UTIL_COUNT(xmp); i++) {
		begin(&file);
		put_xmp(&file, xmp[i].text);
		assert_true(end(&file, &found));
		assert_int_equal(found.orientation, xmp[i].value);
	}
	begin(&file);
	put_xmp(&file, "tiff:Orientation=\"6\"");
	put_exif(&file, 8);
	assert_true(end(&file, &found));
	assert_int_equal(found.orientation, 8);
}

/* Both byte orders, both integer types; nonsense is none. */
static void test_exif_values(void **state)
{
	(void)state;
	static const uint8_t little[] = {'I', 'I', 42, 0, 8, 0, 0, 0, 2, 0, 0x0f, 0x01, 2, 0, 1, 0,
		0, 0, 'c', 0, 0, 0, 0x12, 0x01, 3, 0, 1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0};
	static const uint8_t wide[] = {
		'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 0x01, 0x12, 0, 4, 0, 0, 0, 1, 0, 0, 0, 7};
	static const uint8_t two[] = {
		'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 0x01, 0x12, 0, 3, 0, 0, 0, 2, 0, 6, 0, 6};
	static const uint8_t text[] = {
		'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 0x01, 0x12, 0, 2, 0, 0, 0, 2, '6', 0, 0, 0};
	assert_int_equal(exif_orientation(little, sizeof little), 5);
	assert_int_equal(exif_orientation(wide, sizeof wide), 7);
	assert_int_equal(exif_orientation(two, sizeof two), 0);
	assert_int_equal(exif_orientation(text, sizeof text), 0);
	for (size_t size = 0; size < sizeof wide; size++)
		assert_int_equal(exif_orientation(wide, size), 0);
}

static void test_profile(void **state)
{
	(void)state;
	struct file file;
	struct metadata found;
	begin(&file);
	put_segment(&file, 0xe0, "JFIF\0", 5);
	put_segment(&file, 0xe2, "ICC_PROFILE\0\1\2first", 19);
	put_segment(&file, 0xe2, "MPF\0....", 8);
	put_segment(&file, 0xe2, "ICC_PROFILE\0\2\2second", 20);
	assert_true(end(&file, &found));
	assert_int_equal(found.profile_parts, 2);
	assert_int_equal(found.profile[0].size, 19);
	assert_memory_equal(found.profile[1].bytes, "ICC_PROFILE\0\2\2second", 20);
	begin(&file);
	for (int i = 0; i <= METADATA_PROFILE_PARTS; i++)
		put_segment(&file, 0xe2, "ICC_PROFILE\0\1\1", 14);
	assert_false(end(&file, &found));
}

/* A profile stays with pixels of its colours; what does not say for which, with none. */
static void test_profile_fits(void **state)
{
	(void)state;
	static const struct {
		const char *head; /* name, zero, number, count */
		const char *colours;
		bool gray, rgb;
	} cases[] = {
		{"ICC_PROFILE\0\1\1", "GRAY", true, false},
		{"ICC_PROFILE\0\1\2", "RGB ", false, true},
		{"ICC_PROFILE\0\1\1", "CMYK", false, false},
		{"ICC_PROFILE\0\2\2", "RGB ", false, false},
		{"ICC_PROFILE\0\1\1", NULL, false, false},
	};
	struct file file;
	struct metadata found;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		char segment[64] = {0};
		memcpy(segment, cases[i].head, 14);
		if (cases[i].colours)
			memcpy(segment + 14 + 16, cases[i].colours, 4);
		begin(&file);
		put_segment(&file, 0xe2, segment, cases[i].colours ? 34 : 33);
		assert_true(end(&file, &found));
		assert_int_equal(metadata_profile_fits(&found, 1), cases[i].gray);
		assert_int_equal(metadata_profile_fits(&found, 3), cases[i].rgb);
	}
	begin(&file);
	assert_true(end(&file, &found));
	assert_true(metadata_profile_fits(&found, 1) && metadata_profile_fits(&found, 3));
}

static void test_left_alone(void **state)
{
	(void)state;
	struct file file;
	struct metadata found;
	begin(&file);
	put_exif(&file, 6);
	put_exif(&file, 3);
	assert_false(end(&file, &found));
	begin(&file);
	put(&file, "\xff", 1);
	put_exif(&file, 6);
	assert_false(end(&file, &found));
	begin(&file);
	put(&file, "\0", 1);
	assert_false(end(&file, &found));
	begin(&file);
	put(&file, "\xff\xd0", 2);
	assert_false(end(&file, &found));
	/* Cut anywhere. */
	begin(&file);
	put_exif(&file, 6);
	assert_true(end(&file, &found));
	for (size_t size = 0; size < file.size; size++)
		assert_false(metadata_read(file.bytes, size, &found));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_orientation),
		cmocka_unit_test(test_exif_values),
		cmocka_unit_test(test_profile),
		cmocka_unit_test(test_profile_fits),
		cmocka_unit_test(test_left_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

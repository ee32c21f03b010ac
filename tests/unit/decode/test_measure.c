/* measure: the sizes are those that the decoder finds, in good files and in damaged ones. */
#include "images.h"

#include "decode/measure.h"
#include "proto/philox.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* Behind some bytes of another file, as in a tar. */
enum { BEFORE = 1000 };

struct measured {
	int outcome;
	uint32_t width, height;
};

static struct measured measure(const uint8_t *data, size_t size)
{
	static uint8_t before[BEFORE];
	struct measured m = {0, 0, 0};
	int fd = memfd_create("image", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, before, BEFORE), BEFORE);
	assert_int_equal(write(fd, data, size), size);
	/* What follows belongs to another sample. */
	assert_int_equal(write(fd, "\xff\xc0\0\x11\x08\0\1\0\1\3", 10), 10);
	m.outcome = measure_image(fd, BEFORE, (uint32_t)size, &m.width, &m.height);
	(void)close(fd);
	return m;
}

/* What the decoder takes has the decoder's size. */
static void assert_as_decoder(struct decoder *decoder, struct bytes image)
{
	struct decode_info info;
	struct measured m = measure(image.data, image.size);
	if (decoder_begin(decoder, image.data, image.size, &info) != DECODE_OK)
		return;
	decoder_abort(decoder);
	assert_int_equal(m.outcome, 0);
	assert_int_equal(m.width, info.width);
	assert_int_equal(m.height, info.height);
}

static struct bytes with_segments(struct bytes jpeg, unsigned count, size_t each)
{
	struct bytes made = {
		malloc(jpeg.size + count * (each + 4) + SLACK), jpeg.size + count * (each + 4)};
	uint8_t *at = made.data + 2;
	assert_non_null(made.data);
	memcpy(made.data, jpeg.data, 2);
	for (unsigned i = 0; i < count; i++) {
		/* A payload that looks like frame headers. */
		memcpy(at, "\xff\xe5", 2);
		at[2] = (uint8_t)((each + 2) >> 8);
		at[3] = (uint8_t)(each + 2);
		for (size_t k = 0; k < each; k++)
			at[4 + k] = "\xff\xc0\0\x11\x08\0\7\0\7\3"[k % 10] & 0xff;
		at += each + 4;
	}
	memcpy(at, jpeg.data + 2, jpeg.size - 2 + SLACK);
	return made;
}

static void test_kinds(void **state)
{
	(void)state;
	static const struct jpeg_kind kinds[] = {
		{.width = 1, .height = 1, .components = 1},
		{.width = 300, .height = 17, .components = 3, .h = 2, .v = 2},
		{.width = 65, .height = 400, .components = 3, .progressive = true},
		{.width = 31, .height = 32, .components = 4},
		{.width = 40, .height = 30, .components = 3, .arithmetic = true},
	};
	for (size_t i = 0; i < UTIL_COUNT(kinds); i++) {
		struct bytes jpeg = make_jpeg(&kinds[i]), more = with_segments(jpeg, 70, 60000);
		struct measured m = measure(jpeg.data, jpeg.size),
				n = measure(more.data, more.size);
		assert_int_equal(m.outcome, 0);
		assert_int_equal(m.width, kinds[i].width);
		assert_int_equal(m.height, kinds[i].height);
		assert_int_equal(n.outcome, 0);
		assert_int_equal(n.width, kinds[i].width);
		/* Cut anywhere in front of its scan, it has no size. */
		for (size_t size = 0; size < jpeg.size && size < 200; size++)
			(void)measure(jpeg.data, size);
		assert_int_equal(measure(jpeg.data, 20).outcome, 1);
		free(more.data);
		free(jpeg.data);
	}
	static const uint8_t png[] = "\x89PNG\r\n\x1a\n\0\0\0\15IHDR\0\0\1\2\0\0\3\4\10\2\0\0\0";
	struct measured m = measure(png, sizeof png - 1);
	assert_int_equal(m.outcome, 0);
	assert_int_equal(m.width, 0x102);
	assert_int_equal(m.height, 0x304);
	assert_int_equal(measure(png, 23).outcome, 1);
	assert_int_equal(measure((const uint8_t *)"GIF89a", 6).outcome, 1);
	assert_int_equal(measure((const uint8_t *)"", 0).outcome, 1);
}

/* A header that never ends costs a bounded number of reads. */
static void test_endless(void **state)
{
	(void)state;
	const size_t size = 16 << 20;
	uint8_t *data = calloc(1, size);
	uint32_t width, height;
	assert_non_null(data);
	memcpy(data, "\xff\xd8\xff", 3);
	assert_int_equal(measure(data, size).outcome, 1);
	for (size_t i = 2; i + 4 <= size; i += 4)
		memcpy(data + i, "\xff\xe0\0\2", 4);
	assert_int_equal(measure(data, size).outcome, 1);
	assert_true(measure_image(-1, 0, 100, &width, &height) < 0);
	free(data);
}

/* Bytes that flip, in the order of a fixed seed. */
static void test_damage(void **state)
{
	(void)state;
	static const struct jpeg_kind kind = {.width = 90, .height = 50, .components = 3};
	struct decoder *decoder = make_decoder(NULL);
	struct bytes jpeg = make_jpeg(&kind);
	for (uint32_t i = 0; i < 3000; i++) {
		struct philox r = philox_draw(3, 0, i, PHILOX_SHUFFLE, 0);
		struct bytes image = bytes_copy(jpeg.data, jpeg.size);
		image.data[r.word[0] % 640] = (uint8_t)r.word[1];
		image.data[r.word[2] % 200] = r.word[3] & 256 ? (uint8_t)r.word[3] : 0xff;
		assert_as_decoder(decoder, image);
		free(image.data);
	}
	free(jpeg.data);
	decoder_free(decoder);
}

static void test_photographs(void **state)
{
	(void)state;
	struct decoder *decoder = make_decoder(NULL);
	DIR *dir = opendir(PENSTOCK_PHOTOGRAPHS);
	unsigned count = 0;
	for (const struct dirent *e; dir && (e = readdir(dir)) && count < 200;) {
		char path[4096];
		(void)snprintf(path, sizeof path, "%s/%s", PENSTOCK_PHOTOGRAPHS, e->d_name);
		FILE *file = fopen(path, "rb");
		static uint8_t data[8 << 20];
		size_t size = file ? fread(data, 1, sizeof data, file) : 0;
		if (file)
			(void)fclose(file);
		if (!size || size == sizeof data)
			continue;
		struct bytes image = bytes_copy(data, size);
		assert_as_decoder(decoder, image);
		free(image.data);
		count++;
	}
	if (dir)
		(void)closedir(dir);
	decoder_free(decoder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_endless),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_photographs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

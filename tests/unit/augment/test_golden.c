/* Ops against Pillow 13.0.0's results for the same images (golden.txt, made by golden.py), with
 * every table of kernels: all sizes from one pixel on, factors at and beyond the ends, images of
 * one color, and all 2^24 colors through HSV. */
#include "base/hash.h"
#include "base/util.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "augment/kernels/kernels.h"
#include "unit/augment/words.h"

enum { SIDE_MOST = 2048, LINE_MOST = 512, SHOWN = 8 };

struct line {
	char pattern[16];
	uint32_t width, height;
	char *ops, *result;
};

static bool line_parse(char *text, struct line *ret)
{
	int at = 0;
	char *equals = strchr(text, '=');
	if (!equals || sscanf(text, "%15s %" SCNu32 " %" SCNu32 " %n", ret->pattern, &ret->width,
			       &ret->height, &at) != 3)
		return false;
	*equals = '\0';
	ret->ops = text + at;
	ret->result = equals + 2;
	ret->result[strcspn(ret->result, "\n")] = '\0';
	return ret->width <= SIDE_MOST && ret->height <= SIDE_MOST;
}

/* The same as in golden.py. */
static uint64_t pattern_byte(const struct line *line, uint64_t i)
{
	uint64_t noise = hash_mix(i + 1), row = (uint64_t)3 * line->width;
	switch (line->pattern[0]) {
	case 'n':
		return noise;
	case 'e':
		return (noise & 1) * 255;
	case 's':
		return (i / row * 3 + i % row) / 4;
	case 'f':
		return line->pattern[1] == 'e' ? noise % 4 + 100 : i % 3 * 50 + 7;
	default:
		return (i / 3 + ((uint64_t)(line->pattern[7] - '0') << 22)) >> (16 - 8 * (i % 3));
	}
}

static uint32_t crc32(const uint8_t *bytes, size_t count)
{
	static uint32_t table[256];
	for (uint32_t i = 0; i < 256 && !table[255]; i++) {
		uint32_t c = i;
		for (int bit = 0; bit < 8; bit++)
			c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
		table[i] = c;
	}
	uint32_t crc = UINT32_MAX;
	for (size_t i = 0; i < count; i++)
		crc = crc >> 8 ^ table[(crc ^ bytes[i]) & 255];
	return ~crc;
}

static void result_text(const uint8_t *out, size_t bytes, char text[64])
{
	int at = snprintf(text, 64, "%08" PRIx32 " ", crc32(out, bytes));
	for (size_t i = 0; i < SHOWN && i < bytes; i++)
		at += snprintf(text + at, 64 - (size_t)at, "%02x", out[i]);
}

static struct augmenter *augmenter_of(const char *kernels)
{
	static const struct step_recipe none;
	struct augmenter *augmenter;
	struct fault fault;
	assert_int_equal(setenv("PENSTOCK_KERNELS", kernels, 1), 0);
	assert_int_equal(augmenter_new(&none, SIDE_MOST, &augmenter, &fault), 0);
	return augmenter;
}

static void line_check(struct augmenter *augmenter, const char *kernels, const struct line *line)
{
	size_t bytes = (size_t)3 * line->width * line->height;
	cleanup(free_ptr) uint8_t *out = malloc(bytes);
	char ops[LINE_MOST], text[64];
	struct step_plan plan;
	assert_non_null(out);
	(void)snprintf(ops, sizeof(ops), "%s", line->ops);
	assert_true(words_read(ops, &plan));
	uint8_t *image = augmenter_image(augmenter);
	for (size_t i = 0; i < bytes; i++)
		image[i] = (uint8_t)pattern_byte(line, i);
	augmenter_run(augmenter, &plan, line->width, line->height, out);
	result_text(out, bytes, text);
	if (strcmp(text, line->result) != 0)
		fail_msg("%s %" PRIu32 " x %" PRIu32 ", %s, kernels %s: %s, Pillow %s",
			line->pattern, line->width, line->height, line->ops, kernels, text,
			line->result);
}

static void test_golden(void **state)
{
	const char *kernels = *state;
	cleanup(close_file) FILE *file = fopen(PENSTOCK_GOLDEN, "r");
	assert_non_null(file);
	struct augmenter *augmenter = augmenter_of(kernels);
	char text[LINE_MOST];
	unsigned lines = 0;
	for (; fgets(text, sizeof(text), file); lines++) {
		struct line line;
		assert_true(line_parse(text, &line));
		line_check(augmenter, kernels, &line);
	}
	augmenter_free(augmenter);
	assert_true(lines > 500);
}

static void test_unknown_kernels(void **state)
{
	(void)state;
	static const struct step_recipe none;
	struct augmenter *augmenter;
	struct fault fault;
	assert_int_equal(setenv("PENSTOCK_KERNELS", "mmx", 1), 0);
	assert_int_equal(augmenter_new(&none, 1, &augmenter, &fault), -EINVAL);
	assert_non_null(strstr(fault.text, "PENSTOCK_KERNELS=mmx: expected c, avx2"));
}

int main(void)
{
	int failed = 0;
	for (unsigned i = 0; augment_kernels_at(i); i++) {
		void *name = (void *)(uintptr_t)augment_kernels_at(i)->name;
		const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_golden, name)};
		failed += cmocka_run_group_tests_name(name, tests, NULL, NULL);
	}
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_unknown_kernels)};
	return (failed + cmocka_run_group_tests(tests, NULL, NULL)) != 0;
}

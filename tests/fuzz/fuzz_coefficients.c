/* Differential fuzzing of the entropy decoder: a file's coefficients by every driver against
 * libjpeg's. A file that a driver takes decodes in libjpeg without a warning and to the same
 * coefficients; drivers agree on the files that they take, whole and entered at entry points that
 * they recorded. Built for libFuzzer, or with a main that takes files on the command line. */
#include "unit/decode/jpeg/coefficients.h"

enum { PIXELS_MOST = 512 * 512 };

static void fail(const char *what, const struct lanes *lanes)
{
	(void)fprintf(stderr, "fuzz_coefficients: %s: %s\n", lanes->name, what);
	abort();
}

/* Decodes the whole file by one driver, and records entry points. -1 where it steps back. */
static int decode_whole(struct file file, const struct lanes *lanes, const int16_t *expected,
	struct entry_point *points, uint32_t interval)
{
	struct subject s;
	int reason = subject_init(&s, file, lanes, NULL, interval, true);
	if (!reason) {
		if (!s.parse.restart_mcus)
			subject_records(&s, points, interval);
		reason = feed_decode_one(&s.image, lanes);
		if (!reason && (!expected || subject_differs(&s, expected)))
			fail("coefficients differ from libjpeg's, or libjpeg complains", lanes);
		if (!reason && !s.parse.restart_mcus &&
			!entry_point_settle(file.bytes, file.size, points, 0,
				entry_point_count(&s.parse, interval)))
			fail("more zeros than an interval of 9 MCUs can have", lanes);
	}
	subject_deinit(&s);
	return reason ? -1 : 0;
}

static void decode_entered(struct file file, const struct lanes *lanes, const int16_t *expected,
	const struct entry_point *points, uint32_t interval)
{
	struct subject s;
	if (subject_init(&s, file, lanes, NULL, 0, true) || s.parse.restart_mcus) {
		subject_deinit(&s);
		return;
	}
	uint32_t count = entry_point_count(&s.parse, interval);
	struct decode_region crop = {
		s.parse.width / 3, s.parse.height / 4, s.parse.width, (s.parse.height * 3 + 3) / 4};
	if (subject_enter(&s, lanes, points, count, interval, crop) ||
		feed_decode_one(&s.image, lanes))
		fail("does not fit its own entry points", lanes);
	if (subject_differs(&s, expected))
		fail("coefficients differ when entered at entry points", lanes);
	subject_deinit(&s);
}

static void check(struct file file, const struct parse *parse)
{
	uint32_t interval = 1 + file.bytes[file.size / 2] % 9;
	int16_t *expected = want(malloc(image_coefficients(parse) * sizeof(*expected)));
	bool clean = libjpeg_coefficients(file, parse, expected) == 0;
	struct entry_point *points =
		want(calloc(entry_point_count(parse, interval), sizeof(*points)));
	int taken = decode_whole(file, &lanes_ref, clean ? expected : NULL, points, interval);
	for (unsigned i = 0; lanes_at(i); i++) {
		if (decode_whole(file, lanes_at(i), clean ? expected : NULL, points, interval) !=
			taken)
			fail("accepts a file that the reference refuses, or the reverse",
				lanes_at(i));
		if (!taken)
			decode_entered(file, lanes_at(i), expected, points, interval);
	}
	free(points);
	free(expected);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct file file = {want(calloc(1, size + 64)), size};
	struct parse parse;
	memcpy(file.bytes, data, size);
	if (!parse_read_single(file.bytes, size, &parse) &&
		(uint64_t)parse.width * parse.height <= PIXELS_MOST)
		check(file, &parse);
	free(file.bytes);
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct file file = file_read(argv[i]);
		(void)LLVMFuzzerTestOneInput(file.bytes, file.size);
		free(file.bytes);
	}
	(void)printf("%d files\n", argc - 1);
	return 0;
}
#endif

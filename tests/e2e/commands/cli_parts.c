/* cli_parts: the command's small parts that can be judged by themselves: numbers for people,
 * a run over time, the command line, images, letters. */
#include "base/util.h"
#include "client/cli/bench/series.h"
#include "client/cli/cli.h"
#include "client/cli/draw/canvas.h"
#include "client/cli/draw/font.h"
#include "client/cli/draw/picture.h"
#include "client/cli/options.h"
#include "client/cli/process.h"
#include "client/cli/table.h"

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The last message of options.c. */
static char said[512];

void cli_note(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	(void)vsnprintf(said, sizeof said, format, args);
	va_end(args);
}

static void test_counts(void **state)
{
	(void)state;
	assert_string_equal(table_count(0).text, "0");
	assert_string_equal(table_count(999).text, "999");
	assert_string_equal(table_count(1000).text, "1,000");
	assert_string_equal(table_count(123456).text, "123,456");
	assert_string_equal(table_count(1234567).text, "1,234,567");
	assert_string_equal(table_rate(0).text, "0.0");
	assert_string_equal(table_rate(99.94).text, "99.9");
	assert_string_equal(table_rate(100).text, "100");
	assert_string_equal(table_rate(1234.5).text, "1,235");
	assert_string_equal(table_rate(1e308).text, "1,000,000,000,000,000");
	assert_string_equal(table_count(UINT64_MAX).text, "18,446,744,073,709,551,615");
}

static void test_times(void **state)
{
	(void)state;
	assert_string_equal(table_clock(0).text, "0:00");
	assert_string_equal(table_clock(59.6).text, "1:00");
	assert_string_equal(table_clock(3723).text, "1:02:03");
	assert_string_equal(table_clock(1e30).text, "100000:00:00");
	assert_string_equal(table_seconds(0.000354).text, "0.35 ms");
	assert_string_equal(table_seconds(0.0434).text, "43 ms");
	assert_string_equal(table_seconds(0.9996).text, "1.00 s");
	assert_string_equal(table_seconds(17.26).text, "17.3 s");
	assert_string_equal(table_seconds(240.4).text, "240 s");
}

/* More samples than it has room for: counts are kept, and shares are weighted by time. */
static void test_series(void **state)
{
	(void)state;
	enum { SAMPLES = SERIES_MAX * 5 + 3 };
	static struct series series;
	double images = 0, waited = 0, end_s = 0;
	uint64_t bytes = 0;
	for (unsigned i = 0; i < SAMPLES; i++) {
		struct series_sample sample = {.images = i % 7,
			.waits = i % 3 / 2.0,
			.cpu = 1.5,
			.memory = i,
			.bytes_read = i};
		double span_s = 0.1 + i % 5 * 0.01;
		sample.t_s = end_s += span_s;
		images += sample.images;
		waited += sample.waits * span_s;
		bytes += sample.bytes_read;
		series_add(&series, &sample);
		assert_true(series.count <= SERIES_MAX);
	}
	double got_images = 0, got_waited = 0, before_s = 0;
	uint64_t got_bytes = 0;
	for (unsigned i = 0; i < series.count; i++) {
		const struct series_sample *sample = &series.sample[i];
		assert_true(sample->t_s > before_s);
		assert_true(fabs(series_span_s(&series, i) - (sample->t_s - before_s)) < 1e-9);
		before_s = sample->t_s;
		got_images += sample->images;
		got_waited += sample->waits * series_span_s(&series, i);
		got_bytes += sample->bytes_read;
		assert_true(fabs(sample->cpu - 1.5) < 1e-9);
	}
	assert_true(series.count > SERIES_MAX / 2 && series.each == 8);
	assert_true(before_s == end_s && got_images == images && got_bytes == bytes);
	assert_true(fabs(got_waited - waited) < 1e-6);
	assert_int_equal(series.sample[series.count - 1].memory, SAMPLES - 1);
	/* A sample that ends before the last one is still counted. */
	const struct series_sample late = {.t_s = end_s - 0.01, .images = 5, .bytes_read = 1};
	unsigned count = series.count;
	series_add(&series, &late);
	assert_true(series.count == count && series.sample[count - 1].t_s == end_s);
	double rates[31], sum = 0;
	series_rates(&series, 31, rates);
	for (int i = 0; i < 31; i++)
		sum += rates[i] * end_s / 31;
	assert_true(fabs(sum - images - 5) < 1e-6 * images);
}

static void test_series_of_little(void **state)
{
	(void)state;
	static struct series series;
	double rates[4] = {-1, -1, -1, -1};
	series_rates(&series, 4, rates);
	assert_true(rates[0] == -1);
	const struct series_sample one = {.t_s = 2, .images = 8};
	series_add(&series, &one);
	series_rates(&series, 4, rates);
	for (int i = 0; i < 4; i++)
		assert_true(fabs(rates[i] - 4) < 1e-9);
	/* A sample that is too short for a rate becomes part of the previous one. */
	const struct series_sample end = {.t_s = 2.00002, .images = 4, .waits = 1};
	series_add(&series, &end);
	assert_true(series.count == 1 && series.sample[0].images == 12 &&
		    series.sample[0].t_s == 2.00002 && series.sample[0].waits < 0.001);
}

static void test_children_of_a_process(void **state)
{
	(void)state;
	pid_t pids[4], mine[2];
	for (int i = 0; i < 2; i++) {
		mine[i] = fork();
		assert_true(mine[i] >= 0);
		if (mine[i] == 0) {
			(void)pause();
			_exit(0);
		}
	}
	unsigned count = process_children(getpid(), pids, 4);
	unsigned cut = process_children(getpid(), pids + 3, 1);
	bool told = access("/proc/thread-self/children", R_OK) == 0;
	for (int i = 0; i < 2; i++) {
		(void)kill(mine[i], SIGKILL);
		assert_int_equal(waitpid(mine[i], NULL, 0), mine[i]);
	}
	assert_int_equal(process_children(getpid(), pids + 2, 2), 0);
	if (!told) /* the kernel was built without it */
		skip();
	assert_true(count == 2 && pids[0] == mine[0] && pids[1] == mine[1]);
	assert_true(cut == 1 && pids[3] == mine[0]);
}

struct parsed {
	bool flag;
	uint64_t number, size;
	double seconds, share;
	const char *text, *choice;
};

static int parse(
	struct parsed *p, int argc, const char *const *argv, const char *operand[OPTIONS_OPERANDS])
{
	static const struct command command = {.name = "try",
		.operands = "A [B]",
		.min_operands = 1,
		.max_operands = 2,
		.about = ""};
	const struct option table[] = {
		{"flag", 'f', OPTION_FLAG, &p->flag, NULL, "", 0, 0, NULL},
		{"number", 'n', OPTION_NUMBER, &p->number, "N", "", 3, 9, NULL},
		{"size", 0, OPTION_SIZE, &p->size, "SIZE", "", 1024, 0, NULL},
		{"seconds", 0, OPTION_SECONDS, &p->seconds, "S", "", 0, 60, NULL},
		{"share", 0, OPTION_SHARE, &p->share, "SHARE", "", 0, 0, NULL},
		{"text", 't', OPTION_TEXT, &p->text, "TEXT", "", 0, 0, NULL},
		{"choice", 0, OPTION_CHOICE, &p->choice, "ab|abc|c", "", 0, 0, NULL},
	};
	said[0] = 0;
	return options_parse(
		&command, table, sizeof table / sizeof table[0], argc, (char **)argv, operand);
}

#define PARSE(p, operand, ...)                                                        \
	parse(p, sizeof((const char *[]){"try", __VA_ARGS__}) / sizeof(const char *), \
		(const char *[]){"try", __VA_ARGS__}, operand)

static void test_options_are_taken(void **state)
{
	(void)state;
	struct parsed p = {0};
	const char *operand[OPTIONS_OPERANDS];
	assert_int_equal(PARSE(&p, operand, "-n", "9", "one", "--size=2K", "-f", "--seconds", ".5",
				 "-", "--choice", "abc", "-tword", "--share=1"),
		0);
	assert_string_equal(operand[0], "one");
	assert_string_equal(operand[1], "-");
	assert_true(p.flag);
	assert_int_equal(p.number, 9);
	assert_int_equal(p.size, 2048);
	assert_true(p.seconds == 0.5);
	assert_true(p.share == 1);
	assert_string_equal(p.choice, "abc");
	assert_string_equal(p.text, "word");
	assert_int_equal(PARSE(&p, operand, "--", "--flag", "-n"), 0);
	assert_string_equal(operand[0], "--flag");
	assert_string_equal(operand[1], "-n");
}

static void test_options_are_refused(void **state)
{
	(void)state;
	struct parsed p = {.number = 5};
	const char *operand[OPTIONS_OPERANDS] = {"untouched"};
	assert_int_equal(PARSE(&p, operand, "a", "--number", "10"), -EINVAL);
	assert_non_null(strstr(said, "from 3 to 9"));
	assert_int_equal(PARSE(&p, operand, "a", "--number", "2"), -EINVAL);
	assert_int_equal(PARSE(&p, operand, "a", "--number="), -EINVAL);
	assert_int_equal(PARSE(&p, operand, "a", "--number", " 5"), -EINVAL);
	assert_int_equal(PARSE(&p, operand, "a", "--seconds", "inf"), -EINVAL);
	assert_int_equal(PARSE(&p, operand, "a", "--seconds", "61"), -EINVAL);
	assert_int_equal(PARSE(&p, operand, "a", "--share", "0"), -EINVAL);
	assert_int_equal(PARSE(&p, operand, "a", "--size", "1K1"), -EINVAL);
	assert_int_equal(PARSE(&p, operand, "a", "--choice", "a"), -EINVAL);
	assert_int_equal(PARSE(&p, operand, "a", "--choice", ""), -EINVAL);
	assert_int_equal(PARSE(&p, operand, "a", "--choice", "ab|abc"), -EINVAL);
	assert_int_equal(PARSE(&p, operand, "a", "--numbre=4"), -EINVAL);
	assert_non_null(strstr(said, "did you mean --number?"));
	assert_int_equal(PARSE(&p, operand, "a", "b", "c"), -EINVAL);
	assert_int_equal(PARSE(&p, operand, "-f"), -EINVAL);
	assert_int_equal(p.number, 5);
	assert_string_equal(operand[0], "untouched");
}

static void test_pictures_differ(void **state)
{
	(void)state;
	uint8_t one[2 * 3 * 3], other[2 * 3 * 3];
	for (unsigned i = 0; i < sizeof one; i++)
		other[i] = one[i] = (uint8_t)(i * 14);
	const struct picture picture = {3, 2, one};
	struct picture_difference difference = {0};
	for (uint32_t y = 0; y < 2; y++)
		picture_compare(&picture, y, other + 9 * y, &difference);
	assert_int_equal(difference.pixels, 0);
	assert_int_equal(difference.largest, 0);
	other[8] = (uint8_t)(one[8] + 1); /* the blue of 2, 0 */
	other[9] = (uint8_t)(one[9] - 7); /* the red of 0, 1, and its green */
	other[10] = (uint8_t)(one[10] + 3);
	for (uint32_t y = 0; y < 2; y++)
		picture_compare(&picture, y, other + 9 * y, &difference);
	assert_int_equal(difference.pixels, 2);
	assert_int_equal(difference.largest, 7);
	assert_int_equal(difference.x, 2);
	assert_int_equal(difference.y, 0);
}

/* The only glyph of the text. */
static const struct font_glyph *glyph_of(enum font_face face, const char *text)
{
	const struct font_glyph *glyph = font_next(face, &text);
	assert_non_null(glyph);
	assert_string_equal(text, "");
	return glyph;
}

static bool glyphs_are_equal(const struct font_glyph *a, const struct font_glyph *b)
{
	uint8_t x[FONT_PIXELS], y[FONT_PIXELS];
	font_pixels(a, x);
	font_pixels(b, y);
	return a->width == b->width && a->height == b->height && a->top == b->top &&
	       memcmp(x, y, (size_t)a->width * a->height) == 0;
}

/* No two letters may look alike, only the blank is empty, and edges are smooth: the glyph of a
 * round letter has levels between paper and ink. */
static void test_font(void **state)
{
	(void)state;
	for (int face = 0; face < FONT_FACES; face++) {
		for (int a = ' '; a <= '~'; a++) {
			const struct font_glyph *glyph =
				glyph_of((enum font_face)face, (const char[]){(char)a, 0});
			assert_int_equal(glyph->width == 0, a == ' ');
			assert_true(glyph->width * glyph->height <= FONT_PIXELS);
			assert_true(glyph->advance > 0);
			for (int b = ' '; b < a; b++)
				assert_false(glyphs_are_equal(
					glyph, glyph_of((enum font_face)face,
						       (const char[]){(char)b, 0})));
		}
		uint8_t pixels[FONT_PIXELS];
		bool levels[256] = {false};
		const struct font_glyph *round = glyph_of((enum font_face)face, "S");
		font_pixels(round, pixels);
		for (int i = 0; i < round->width * round->height; i++)
			levels[pixels[i]] = true;
		int between = 0;
		for (int i = 1; i < 255; i++)
			between += levels[i];
		assert_true(levels[0] && between >= 8);
	}
}

static void test_font_characters(void **state)
{
	(void)state;
	const struct font_glyph *missing = glyph_of(FONT_TEXT, "\xef\xbf\xbd");
	static const char *const drawn[] = {"é", "ß", "Å", "×", "µ", "–", "…", "’", "€"};
	for (size_t i = 0; i < sizeof drawn / sizeof *drawn; i++)
		assert_false(glyphs_are_equal(glyph_of(FONT_TEXT, drawn[i]), missing));
	/* Malformed bytes, characters that the table lacks, control characters. */
	static const char *const missed[] = {
		"\xe9", "\xc0", "\xff", "猫", "\n", "\x7f", "\xc2\x85"};
	for (size_t i = 0; i < sizeof missed / sizeof *missed; i++)
		assert_ptr_equal(glyph_of(FONT_TEXT, missed[i]), missing);
	assert_int_equal(font_width(FONT_TEXT, "e\xcc\x81"), font_width(FONT_TEXT, "e"));
	assert_int_equal(font_width(FONT_TEXT, ""), 0);
	assert_int_equal(font_nearest(40, true), FONT_HEAD);
	assert_int_equal(font_nearest(28, false), FONT_TITLE);
	assert_int_equal(font_nearest(1, false), FONT_SMALL);
	assert_int_equal(font_nearest(1000, false), FONT_TITLE);
}

/* Whatever the text and the width, what is written fits; ends that must stay do. */
static void test_font_fits(void **state)
{
	(void)state;
	static const char *const texts[] = {"", "x", "n01440764_10026.JPEG", "Größenwahn.jpg",
		"bad\xff\xfe\xc3name.jpg", "猫猫猫猫.jpg", "o\xcc\x88o\xcc\x88o\xcc\x88o\xcc\x88"};
	char fitting[64];
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		int whole = font_width(FONT_TEXT, texts[i]);
		for (int width = 0; width <= whole + 3; width++)
			for (int cut = FONT_CUT_END; cut <= FONT_CUT_MIDDLE; cut++) {
				font_fit(FONT_TEXT, texts[i], width, (enum font_cut)cut, fitting,
					sizeof fitting);
				assert_true(font_width(FONT_TEXT, fitting) <= width);
				assert_int_equal(strcmp(fitting, texts[i]) == 0, width >= whole);
			}
	}
	font_fit(FONT_TEXT, texts[2], 120, FONT_CUT_MIDDLE, fitting, sizeof fitting);
	assert_memory_equal(fitting, "n0", 2);
	assert_string_equal(fitting + strlen(fitting) - 4, "JPEG");
	assert_non_null(strstr(fitting, "…"));
	font_fit(FONT_TEXT, texts[2], 120, FONT_CUT_END, fitting, sizeof fitting);
	assert_memory_equal(fitting, "n0144", 5);
	assert_string_equal(fitting + strlen(fitting) - 3, "…");
	/* A text longer than the room for it. */
	char small[8];
	font_fit(FONT_TEXT, "Größenwahn.jpg", 1000, FONT_CUT_MIDDLE, small, sizeof small);
	assert_string_equal(small, "Größe");
}

/* Letters are blended into the paper, stay inside the canvas, and can read upward. */
static void test_canvas_letters(void **state)
{
	(void)state;
	enum { SIDE = 60, PAPER = 0xffffff, INK = 0x000000 };
	struct canvas flat, turned;
	assert_int_equal(canvas_init(&flat, SIDE, SIDE, PAPER), 0);
	assert_int_equal(canvas_init(&turned, SIDE, SIDE, PAPER), 0);
	int along = canvas_letters(&flat, 5, 40, FONT_TEXT, false, INK, "Rg5");
	assert_int_equal(along, font_width(FONT_TEXT, "Rg5"));
	assert_int_equal(
		canvas_letters(&turned, 40, SIDE - 1 - 5, FONT_TEXT, true, INK, "Rg5"), along);
	int gray = 0, black = 0;
	for (int y = 0; y < SIDE; y++)
		for (int x = 0; x < SIDE; x++) {
			const uint8_t *p = flat.rgb + (y * SIDE + x) * 3;
			assert_int_equal(p[0], turned.rgb[((SIDE - 1 - x) * SIDE + y) * 3]);
			gray += p[0] > 0 && p[0] < 255;
			black += p[0] == 0;
		}
	assert_true(gray > 20 && black > 20);
	/* Beyond each edge nothing is drawn, and nothing is written (the sanitizers watch). */
	for (int at = -100; at <= 100; at += 10) {
		(void)canvas_letters(&flat, at, at, FONT_HEAD, false, INK, "Wg");
		(void)canvas_letters(&turned, at, at, FONT_HEAD, true, INK, "Wg");
	}
	assert_true(canvas_text(&flat, 0, 0, FONT_TEXT, 30, INK, "too wide for it") <= 30);
	canvas_deinit(&flat);
	canvas_deinit(&turned);
}

/* An image keeps its proportions, in the middle of its box. */
static void test_canvas_fit(void **state)
{
	static const struct {
		int w, h;
		struct canvas_box fit;
	} cases[] = {
		{7, 7, {10, 20, 100, 100}},
		{64, 128, {35, 20, 50, 100}},
		{128, 64, {10, 45, 100, 50}},
		{1, 2048, {59, 20, 1, 100}},
	};
	const struct canvas_box box = {10, 20, 100, 100};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		const struct canvas_box fit = canvas_fit(box, cases[i].w, cases[i].h);
		assert_memory_equal(&fit, &cases[i].fit, sizeof fit);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_canvas_fit),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_series),
		cmocka_unit_test(test_series_of_little),
		cmocka_unit_test(test_children_of_a_process),
		cmocka_unit_test(test_options_are_taken),
		cmocka_unit_test(test_options_are_refused),
		cmocka_unit_test(test_pictures_differ),
		cmocka_unit_test(test_font),
		cmocka_unit_test(test_font_characters),
		cmocka_unit_test(test_font_fits),
		cmocka_unit_test(test_canvas_letters),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

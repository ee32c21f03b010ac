/* cli_sweep_parts: what `penstock bench` compares with that can be judged by itself: which points a
 * sweep has, plots as SVG and as pixels, text in markup. */
#include "client/cli/bench/sweep/grid.h"
#include "client/cli/bench/sweep/spread.h"
#include "client/cli/draw/drawing.h"
#include "client/cli/draw/markup.h"
#include "client/cli/draw/plot.h"
#include "client/cli/output.h"

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void assert_refused(const char *const *texts, size_t count, const char *says)
{
	struct grid grid = {0};
	struct fault fault = {{0}};
	int r = 0;
	for (size_t i = 0; i < count && r == 0; i++)
		r = grid_add(&grid, texts[i], &fault);
	if (r == 0)
		r = grid_check(&grid, &fault);
	assert_int_equal(r, -EINVAL);
	if (!strstr(fault.text, says))
		fail_msg("\"%s\" does not say \"%s\"", fault.text, says);
}

static void test_grid_refuses(void **state)
{
	(void)state;
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"", "image-size (--sweep threads=1,2,4), got \"\""},
		{"thread=1", "cannot vary \"thread\"; did you mean threads?"},
		{"thread=", "did you mean threads?"},
		{"batch_size=64", "did you mean batch-size?"},
		{"colour=1", "threads, batch-size or image-size"},
		{"=1", "threads, batch-size or image-size"},
		{"threads", "expected values"},
		{"threads=", "expected values"},
		{"threads=,", "from 1 to 1024, got \"\""},
		{"threads=1,", "got \"\""},
		{"threads=1,,2", "got \"\""},
		{"threads=0", "from 1 to 1024, got \"0\""},
		{"threads=1025", "from 1 to 1024"},
		{"threads=-1", "got \"-1\""},
		{"threads=+1", "got \"+1\""},
		{"threads= 1", "got \" 1\""},
		{"threads=99999999999999999999999", "from 1 to 1024"},
		{"threads=18446744073709551617", "from 1 to 1024"},
		{"threads=2x", "\"x\" is neither"},
		{"threads=1.5", "\".5\" is neither"},
		{"threads=1...5", "got \".5\""},
		{"threads=4,2", "rising order"},
		{"threads=2,2", "rising order"},
		{"threads=1..4,3", "rising order"},
		{"threads=8..1", "runs backwards"},
		{"threads=1..", "got \"\""},
		{"threads=1..8*", "got \"\""},
		{"threads=1..8*1", "never ends"},
		{"threads=1..8*0", "got \"0\""},
		{"threads=1..65", "more than 64 values"},
		{"batch-size=65537", "from 1 to 65536"},
		{"image-size=8192", "from 1 to 4096"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_refused(&cases[i].text, 1, cases[i].says);
	static const char *const twice[] = {"threads=1", "batch-size=1", "threads=2"};
	assert_refused(twice, 3, "given twice");
	static const char *const many[] = {"threads=1..12", "batch-size=1..11"};
	assert_refused(many, 2, "132 points");
	static const char *const more[] = {"threads=1..64", "batch-size=1..64", "image-size=1..64"};
	assert_refused(more, 3, "262144 points");
}

static void test_grid_points(void **state)
{
	(void)state;
	struct grid grid = {0};
	struct fault fault;
	assert_int_equal(grid_points(&grid), 1);
	assert_int_equal(grid_at(&grid, 0).value[GRID_THREADS], 0);
	assert_int_equal(grid_add(&grid, "image-size=160,224", &fault), 0);
	assert_int_equal(grid_add(&grid, "threads=1..8*2,10..12", &fault), 0);
	assert_int_equal(grid_check(&grid, &fault), 0);
	assert_int_equal(grid_points(&grid), 14);
	static const uint64_t threads[] = {1, 2, 4, 8, 10, 11, 12};
	for (size_t i = 0; i < 14; i++) {
		struct grid_point point = grid_at(&grid, i);
		assert_int_equal(point.value[GRID_IMAGE], i < 7 ? 160 : 224);
		assert_int_equal(point.value[GRID_THREADS], threads[i % 7]);
		assert_int_equal(point.value[GRID_BATCH], 0);
	}
	struct grid full = {0};
	assert_int_equal(grid_add(&full, "threads=1..50", &fault), 0);
	assert_int_equal(grid_add(&full, "batch-size=1,2", &fault), 0);
	assert_int_equal(grid_check(&full, &fault), 0);
	struct grid top = {0};
	assert_int_equal(grid_add(&top, "batch-size=65536..65536*65536", &fault), 0);
	assert_int_equal(grid_points(&top), 1);
}

static void test_spread(void **state)
{
	(void)state;
	struct spread spread = {.count = 0};
	assert_true(spread_median(&spread) == 0 && spread_middle(&spread) == 0);
	spread_add(&spread, 5);
	assert_true(spread_median(&spread) == 5 && spread_least(&spread) == 5);
	spread_add(&spread, 1);
	assert_true(spread_median(&spread) == 3);
	spread_add(&spread, 4);
	assert_true(spread_median(&spread) == 4 && spread_middle(&spread) == 2);
	assert_true(spread_least(&spread) == 1 && spread_most(&spread) == 5);
	assert_true(spread.value[0] == 5 && spread.value[1] == 1); /* as measured */
	for (int i = 0; i < 2 * SPREAD_MAX; i++)
		spread_add(&spread, 100);
	assert_int_equal(spread.count, SPREAD_MAX);
	assert_true(spread_median(&spread) == 100 && spread_least(&spread) == 1);
}

static char *marked(const char *text)
{
	char *out = NULL;
	size_t size;
	FILE *file = open_memstream(&out, &size);
	markup_text(file, text);
	assert_int_equal(fclose(file), 0);
	return out;
}

static void test_markup(void **state)
{
	(void)state;
#define BAD "\xef\xbf\xbd"
	static const char *const cases[][2] = {
		{"plain", "plain"}, {"<b a=\"x\">&'", "&lt;b a=&quot;x&quot;&gt;&amp;&#39;"},
		{"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80",
			"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"},
		{"a\x01\x1b[31m\x7f", "a" BAD BAD "[31m" BAD}, {"\xff\xfe", BAD BAD},
		{"\xc0\xaf", BAD BAD}, /* overlong */
		{"\xe0\x80\x80", BAD BAD BAD}, {"\xed\xa0\x80", BAD BAD BAD}, /* a surrogate */
		{"\xf4\x90\x80\x80", BAD BAD BAD BAD}, /* beyond the last */
		{"\xc2\x85", BAD BAD}, /* a control character of two bytes */
		{"\xef\xbf\xbf", BAD BAD BAD}, {"\xe2\x82", BAD BAD}, /* cut off */
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *out = marked(cases[i][0]);
		assert_string_equal(out, cases[i][1]);
		free(out);
	}
}

static struct plot_point points[2][3] = {
	{{1, 400, 390, 410}, {2, 790, 700, 800}, {4, 1500, 1500, 1500}},
	{{1, 300, 300, 300}, {2, 310, 305, 320}, {4, 305, 300, 310}},
};
static const struct plot_series series[2] = {
	{"batch <32> & \"more\"", points[0], 3}, {"batch 64", points[1], 3}};
static const struct plot plot = {.title = "a title that says <what> & why",
	.subtitle = "below it",
	.x_label = "decoding threads",
	.y_label = "images/s",
	.series = series,
	.count = 2,
	.marks = true};

static char *drawn(const struct plot *what, bool themed)
{
	struct drawing drawing;
	plot_draw(what, &drawing);
	char *out = NULL;
	size_t size;
	FILE *file = open_memstream(&out, &size);
	assert_int_equal(drawing_svg(&drawing, themed, file), 0);
	assert_int_equal(fclose(file), 0);
	drawing_deinit(&drawing);
	return out;
}

static void test_plot_svg(void **state)
{
	(void)state;
	char *svg = drawn(&plot, false);
	assert_non_null(strstr(svg, "data-x=\"4\" data-y=\"1500\""));
	assert_non_null(strstr(svg, "batch &lt;32&gt; &amp; &quot;more&quot;"));
	assert_non_null(strstr(svg, "says &lt;what&gt; &amp; why"));
	assert_null(strstr(svg, "var(--"));
	assert_null(strstr(svg, "nan"));
	free(svg);
	svg = drawn(&plot, true);
	assert_non_null(strstr(svg, "var(--drawing-ink)"));
	assert_null(strstr(svg, "#1f63b5"));
	free(svg);
}

/* No point, one point, all zero, the largest: every axis has a length. */
static void test_plot_extremes(void **state)
{
	(void)state;
	static struct plot_point one[] = {{7, 0, 0, 0}};
	static struct plot_point wide[] = {{1, 1e12, 1e12, 1e12}, {65536, 1e-6, 0, 2e12}};
	const struct plot_series cases[] = {
		{"none", one, 0}, {"one", one, 1}, {"wide", wide, 2}, {"tiny", wide + 1, 1}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (int kind = 0; kind < 4; kind++) {
			struct plot p = plot;
			p.series = &cases[i];
			p.count = 1;
			p.marks = kind & 1;
			p.logarithmic = kind & 2;
			char *svg = drawn(&p, false);
			assert_null(strstr(svg, "nan"));
			assert_null(strstr(svg, "inf"));
			free(svg);
		}
}

static void test_plot_pixels(void **state)
{
	(void)state;
	char path[] = "/tmp/penstock-parts-XXXXXX.png";
	int fd = mkstemps(path, 4);
	assert_true(fd >= 0);
	assert_int_equal(close(fd), 0);
	struct fault fault = {{0}};
	assert_int_equal(plot_save(&plot, path, &fault), 0);
	png_image image = {.version = PNG_IMAGE_VERSION};
	assert_true(png_image_begin_read_from_file(&image, path));
	image.format = PNG_FORMAT_RGB;
	assert_int_equal(image.width, 2 * PLOT_WIDTH);
	uint8_t *rgb = malloc(PNG_IMAGE_SIZE(image));
	assert_non_null(rgb);
	assert_true(png_image_finish_read(&image, NULL, rgb, 0, NULL));
	/* Mostly paper, with the colors of the first two series somewhere. */
	size_t paper = 0, first = 0, second = 0, pixels = (size_t)image.width * image.height;
	for (size_t i = 0; i < pixels; i++) {
		paper += memcmp(rgb + 3 * i, "\xff\xff\xff", 3) == 0;
		first += memcmp(rgb + 3 * i, "\x1f\x63\xb5", 3) == 0;
		second += memcmp(rgb + 3 * i, "\xc8\x59\x0c", 3) == 0;
	}
	assert_true(paper > pixels / 2 && paper < pixels);
	assert_true(first > 500 && second > 500);
	free(rgb);
	assert_int_equal(unlink(path), 0);
}

static void test_plot_names(void **state)
{
	(void)state;
	enum plot_format format;
	struct fault fault = {{0}};
	assert_int_equal(plot_format("a.SVG", &format, &fault), 0);
	assert_int_equal(format, PLOT_SVG);
	assert_int_equal(plot_format("x/y.png", &format, &fault), 0);
	assert_int_equal(format, PLOT_PNG);
	static const char *const bad[] = {"", "svg", ".sv", "a.jpeg", "a.svg ", "png"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(plot_format(bad[i], &format, &fault), -EINVAL);
		assert_non_null(strstr(fault.text, "ends in neither"));
	}
}

static void test_output_refuses(void **state)
{
	(void)state;
	char folder[] = "/tmp/penstock-parts-XXXXXX";
	assert_non_null(mkdtemp(folder));
	char path[64];
	struct fault fault = {{0}};
	(void)snprintf(path, sizeof path, "%s/there/is.svg", folder);
	assert_int_equal(output_check(path, &fault), -ENOENT);
	assert_int_equal(plot_save(&plot, path, &fault), -ENOENT);
	assert_non_null(strstr(fault.text, path));
	assert_int_equal(output_check(folder, &fault), -EISDIR);
	(void)snprintf(path, sizeof path, "%s/full.svg", folder);
	assert_int_equal(output_check(path, &fault), 0);
	assert_int_equal(symlink("/dev/full", path), 0);
	assert_int_equal(plot_save(&plot, path, &fault), -ENOSPC);
	assert_non_null(strstr(fault.text, "No space left"));
	char name[64];
	(void)snprintf(name, sizeof name, "%s/full.png", folder);
	assert_int_equal(rename(path, name), 0);
	assert_int_equal(plot_save(&plot, name, &fault), -ENOSPC);
	assert_int_equal(unlink(name), 0);
	assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_grid_refuses),
		cmocka_unit_test(test_grid_points),
		cmocka_unit_test(test_spread),
		cmocka_unit_test(test_markup),
		cmocka_unit_test(test_plot_svg),
		cmocka_unit_test(test_plot_extremes),
		cmocka_unit_test(test_plot_pixels),
		cmocka_unit_test(test_plot_names),
		cmocka_unit_test(test_output_refuses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

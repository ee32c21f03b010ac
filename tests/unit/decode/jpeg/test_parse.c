/* Headers: the fields of files that libjpeg writes, the reason for each kind that is not taken,
 * every truncation and every change of a byte (libjpeg takes all files that are taken then). */
#include "unit/decode/images.h"

#include "unit/decode/jpeg/coefficients.h"

static struct bytes simple(void)
{
	return make_jpeg(
		&(struct jpeg_kind){.width = 37, .height = 21, .components = 3, .h = 2, .v = 2});
}

static int read_kind(struct jpeg_kind kind, struct parse *ret)
{
	struct bytes jpeg = make_jpeg(&kind);
	int reason = parse_read_single(jpeg.data, jpeg.size, ret);
	free(jpeg.data);
	return reason;
}

static void test_fields(void **state)
{
	(void)state;
	struct bytes jpeg = simple();
	struct parse p;
	assert_int_equal(parse_read_single(jpeg.data, jpeg.size, &p), 0);
	assert_int_equal(p.width, 37);
	assert_int_equal(p.height, 21);
	assert_int_equal(p.components, 3);
	assert_int_equal(p.mcus_across, 3);
	assert_int_equal(p.mcus_down, 2);
	assert_int_equal(p.in_mcu, 6);
	assert_int_equal(p.h_max, 2);
	assert_int_equal(p.v_max, 2);
	assert_int_equal(p.restart_mcus, 0);
	assert_int_equal(p.color, PARSE_YCC);
	assert_int_equal(p.component[0].quant, 0);
	assert_int_equal(p.component[2].quant, 1);
	assert_int_equal(p.component[1].ac, 1);
	assert_int_equal(p.ac[1].symbol_count, 162);
	assert_memory_equal(jpeg.data + p.scan - 3, "\0\77\0", 3);
	free(jpeg.data);
}

static void test_kinds(void **state)
{
	(void)state;
	struct parse p;
	struct jpeg_kind k = {.width = 40, .height = 40, .components = 1, .h = 2, .v = 2};
	assert_int_equal(read_kind(k, &p), 0);
	assert_int_equal(p.in_mcu, 1);
	assert_int_equal(p.mcus_across, 5);
	assert_int_equal(p.color, PARSE_GRAY);
	k.restart_rows = 1;
	assert_int_equal(read_kind(k, &p), 0);
	assert_int_equal(p.restart_mcus, 5);
	k.components = 4;
	assert_int_equal(read_kind(k, &p), STEPBACK_COMPONENTS);
	k.components = 3;
	k.progressive = true;
	assert_int_equal(read_kind(k, &p), STEPBACK_KIND);
	k.progressive = false;
	k.arithmetic = true;
	assert_int_equal(read_kind(k, &p), STEPBACK_KIND);
	static const struct {
		int h, v, reason;
	} samplings[] = {{1, 1, 0}, {2, 1, 0}, {1, 2, 0}, {2, 2, 0}, {4, 1, 0}, {4, 2, 0},
		{1, 4, STEPBACK_COMPONENTS}, {3, 1, STEPBACK_COMPONENTS},
		{3, 2, STEPBACK_COMPONENTS}, {1, 3, STEPBACK_COMPONENTS}};
	for (size_t i = 0; i < UTIL_COUNT(samplings); i++) {
		k = (struct jpeg_kind){.width = 40,
			.height = 40,
			.components = 3,
			.h = samplings[i].h,
			.v = samplings[i].v};
		assert_int_equal(read_kind(k, &p), samplings[i].reason);
	}
}

/* The offset of a segment's marker. */
static size_t find(struct bytes jpeg, uint8_t marker)
{
	for (size_t at = 2;; at += 2 + (size_t)(jpeg.data[at + 2] << 8 | jpeg.data[at + 3]))
		if (jpeg.data[at + 1] == marker)
			return at;
}

/* Changes one byte of a segment and reads. */
static int changed(uint8_t marker, size_t offset, uint8_t value, struct parse *ret)
{
	struct bytes jpeg = simple();
	jpeg.data[find(jpeg, marker) + offset] = value;
	int reason = parse_read_single(jpeg.data, jpeg.size, ret);
	free(jpeg.data);
	return reason;
}

static void test_reasons(void **state)
{
	(void)state;
	static const struct {
		uint8_t marker, offset, value;
		int reason;
	} cases[] = {
		{0xc0, 1, 0xc2, STEPBACK_KIND}, /* SOF2 */
		{0xc0, 1, 0xc3, STEPBACK_KIND}, /* lossless */
		{0xc0, 1, 0xc8, STEPBACK_HEADER}, /* JPG */
		{0xc0, 1, 0xc1, 0}, /* extended */
		{0xc0, 1, 0xfe, STEPBACK_HEADER}, /* a comment: the scan comes without a frame */
		{0xc0, 3, 16, STEPBACK_HEADER}, /* lengths */
		{0xc0, 3, 18, STEPBACK_HEADER}, {0xc0, 4, 12, STEPBACK_KIND},
		{0xc0, 6, 0, STEPBACK_HEADER}, /* DNL would give the height */
		{0xc0, 8, 0, STEPBACK_HEADER}, {0xc0, 9, 2, STEPBACK_COMPONENTS},
		{0xc0, 13, 1, STEPBACK_COMPONENTS}, /* the same name twice */
		{0xc0, 11, 0, STEPBACK_HEADER}, /* factors of 0 */
		{0xc0, 11, 0x52, STEPBACK_HEADER},
		{0xc0, 14, 0x21, STEPBACK_COMPONENTS}, /* chroma unlike */
		{0xc0, 12, 2, STEPBACK_TABLES}, /* quantizer not given */
		{0xc0, 12, 4, STEPBACK_HEADER}, {0xdb, 4, 0x10, STEPBACK_TABLES}, /* 16 bits */
		{0xdb, 4, 4, STEPBACK_TABLES}, {0xdb, 9, 0, STEPBACK_TABLES}, /* a step of 0 */
		{0xc4, 4, 4, STEPBACK_TABLES}, {0xc4, 4, 0x20, STEPBACK_TABLES},
		{0xc4, 5, 9, STEPBACK_TABLES}, /* more symbols than there are */
		{0xc4, 1, 0xcc, STEPBACK_KIND}, /* DAC */
		{0xda, 4, 1, STEPBACK_SCAN}, {0xda, 5, 2, STEPBACK_SCAN},
		{0xda, 6, 0x20, STEPBACK_TABLES}, {0xda, 6, 0x04, STEPBACK_TABLES},
		{0xda, 11, 1, STEPBACK_SCAN}, /* spectral selection, as in progressive */
		{0xda, 12, 62, STEPBACK_SCAN}, {0xda, 13, 1, STEPBACK_SCAN},
		{0xda, 0, 0xfe, STEPBACK_HEADER}, /* bytes between segments */
		{0xda, 1, 0xd8, STEPBACK_HEADER}, /* SOI once more */
		{0xda, 1, 0xff, STEPBACK_HEADER}, /* fill byte */
	};
	struct parse p;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++)
		assert_int_equal(changed(cases[i].marker, cases[i].offset, cases[i].value, &p),
			cases[i].reason);
}

static void test_colors(void **state)
{
	(void)state;
	struct parse p;
	assert_int_equal(changed(0xe0, 4, 'K', &p), 0); /* no JFIF, names 1 2 3 */
	assert_int_equal(p.color, PARSE_YCC);
	struct bytes jpeg = simple();
	size_t app = find(jpeg, 0xe0), frame = find(jpeg, 0xc0), scan = find(jpeg, 0xda);
	for (int i = 0; i < 3; i++)
		jpeg.data[frame + 10 + 3 * (size_t)i] = jpeg.data[scan + 5 + 2 * (size_t)i] =
			(uint8_t) "RGB"[i];
	assert_int_equal(parse_read_single(jpeg.data, jpeg.size, &p), 0);
	assert_int_equal(p.color, PARSE_YCC); /* JFIF */
	jpeg.data[app + 4] = 'K';
	assert_int_equal(parse_read_single(jpeg.data, jpeg.size, &p), 0);
	assert_int_equal(p.color, PARSE_RGB);
	memcpy(jpeg.data + app,
		"\xff\xee\0\x10"
		"Adobe\0\0\0\0\0\0\1",
		16);
	assert_int_equal(parse_read_single(jpeg.data, jpeg.size, &p), 0);
	assert_int_equal(p.color, PARSE_YCC);
	jpeg.data[app + 15] = 0;
	assert_int_equal(parse_read_single(jpeg.data, jpeg.size, &p), 0);
	assert_int_equal(p.color, PARSE_RGB);
	free(jpeg.data);
}

/* No byte after the end is read; the sanitizers check that. */
static void test_truncated(void **state)
{
	(void)state;
	struct bytes jpeg = simple();
	struct parse p;
	assert_int_equal(parse_read_single(jpeg.data, jpeg.size, &p), 0);
	for (size_t size = 0; size < p.scan; size++) {
		uint8_t *copy = malloc(size ? size : 1);
		struct parse unused;
		memcpy(copy, jpeg.data, size);
		assert_int_equal(parse_read_single(copy, size, &unused), STEPBACK_HEADER);
		free(copy);
	}
	assert_int_equal(parse_read_single(jpeg.data, p.scan, &p), 0);
	free(jpeg.data);
}

/* Whether libjpeg takes the header without a warning. */
static bool libjpeg_takes(struct bytes jpeg, const struct parse *p)
{
	struct libjpeg *l = want(calloc(1, sizeof(*l)));
	volatile bool taken = false;
	l->cinfo.err = jpeg_std_error(&l->errors);
	l->errors.error_exit = libjpeg_exit;
	l->errors.emit_message = libjpeg_message;
	l->cinfo.client_data = l;
	if (!setjmp(l->escape)) {
		jpeg_create_decompress(&l->cinfo);
		jpeg_mem_src(&l->cinfo, jpeg.data, jpeg.size);
		jpeg_read_header(&l->cinfo, TRUE);
		taken = l->warnings == 0 && l->cinfo.image_width == p->width &&
			l->cinfo.image_height == p->height &&
			(unsigned)l->cinfo.num_components == p->components &&
			l->cinfo.comps_in_scan == l->cinfo.num_components &&
			!l->cinfo.progressive_mode && !l->cinfo.arith_code &&
			l->cinfo.restart_interval == p->restart_mcus &&
			(l->cinfo.jpeg_color_space == JCS_GRAYSCALE) == (p->color == PARSE_GRAY) &&
			(l->cinfo.jpeg_color_space == JCS_RGB) == (p->color == PARSE_RGB);
	}
	jpeg_destroy_decompress(&l->cinfo);
	free(l);
	return taken;
}

static void test_changed_bytes(void **state)
{
	(void)state;
	struct bytes jpeg = simple();
	struct parse p;
	assert_int_equal(parse_read_single(jpeg.data, jpeg.size, &p), 0);
	size_t header = p.scan;
	for (size_t at = 0; at < header; at++) {
		uint8_t old = jpeg.data[at];
		for (int value = 0; value < 256; value++) {
			jpeg.data[at] = (uint8_t)value;
			int reason = parse_read_single(jpeg.data, jpeg.size, &p);
			assert_in_range(reason, 0, STEPBACKS - 1);
			if (reason == 0 && !libjpeg_takes(jpeg, &p))
				fail_msg("byte %zu as %02x is taken, not so by libjpeg", at, value);
		}
		jpeg.data[at] = old;
	}
	free(jpeg.data);
}

static void test_names(void **state)
{
	(void)state;
	for (int i = 0; i < STEPBACKS; i++) {
		assert_non_null(stepback_name((enum stepback)i));
		for (int k = 0; k < i; k++)
			assert_string_not_equal(
				stepback_name((enum stepback)i), stepback_name((enum stepback)k));
	}
	assert_string_equal(stepback_name(STEPBACKS), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_colors),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_changed_bytes),
		cmocka_unit_test(test_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

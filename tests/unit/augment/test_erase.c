/* Erased rectangles in rows of every type and layout: the pixels inside have the value, rounded
 * to the type, or noise, which is the same for each type; the pixels outside stay. */
#include "augment/erase.h"
#include "base/util.h"
#include "proto/erase.h"
#include "proto/half.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { WIDTH = 13, HEIGHT = 9, VALUES = 3 * WIDTH * HEIGHT, BEFORE = 0x3c };

static const struct pixel_key key = {.seed = 5, .epoch = 2, .position = 77, .view = 1};
static const enum slots_pixel_type types[] = {SLOTS_U8, SLOTS_F32, SLOTS_F16, SLOTS_BF16};
static const size_t bytes_of[] = {
	[SLOTS_U8] = 1, [SLOTS_F32] = 4, [SLOTS_F16] = 2, [SLOTS_BF16] = 2};

static void check_value(enum slots_pixel_type type, const uint8_t *at, double wanted,
	const uint8_t *before, bool inside)
{
	float f32 = (float)wanted;
	uint16_t u16 = type == SLOTS_F16 ? half_to_float16(f32) : half_to_bfloat16(f32);
	uint8_t u8 = (uint8_t)fmin(fmax(nearbyint(wanted), 0), 255);
	const void *value = type == SLOTS_F32  ? (const void *)&f32
			    : type == SLOTS_U8 ? (const void *)&u8
					       : (const void *)&u16;
	assert_memory_equal(at, inside ? value : before, bytes_of[type]);
}

static void check_row(const struct op *op, const struct erase_row *row, const uint8_t *memory,
	const uint8_t *before)
{
	const struct erase_noise noise = {key.seed, key.position, key.epoch, key.view};
	for (uint32_t i = 0; i < VALUES; i++) {
		bool planar = row->layout == SLOTS_NCHW;
		uint32_t channel = planar ? i / (WIDTH * HEIGHT) : i % 3;
		uint32_t pixel = planar ? i % (WIDTH * HEIGHT) : i / 3;
		uint32_t x = pixel % WIDTH, y = pixel / WIDTH;
		bool inside = x >= op->box.x && x < op->box.x + op->box.w && y >= op->box.y &&
			      y < op->box.y + op->box.h;
		float drawn[3];
		erase_noise(&noise, pixel, drawn);
		size_t at = i * bytes_of[row->type];
		check_value(row->type, memory + at,
			op->box.noise ? (double)drawn[channel] : op->box.value[channel],
			before + at, inside);
	}
}

static void check_box(const struct op *op)
{
	_Alignas(4) uint8_t memory[4 * VALUES + 4], before[sizeof(memory)];
	for (unsigned i = 0; i < 2 * UTIL_COUNT(types); i++) {
		struct erase_row row = {
			types[i / 2], i & 1 ? SLOTS_NCHW : SLOTS_NHWC, WIDTH, HEIGHT};
		if (op->box.noise && row.type == SLOTS_U8)
			continue; /* the reader of lists refuses it */
		memset(before, BEFORE, sizeof(before));
		memcpy(memory, before, sizeof(memory));
		op_erase(op, &row, &key, memory);
		check_row(op, &row, memory, before);
		size_t end = bytes_of[row.type] * VALUES;
		assert_memory_equal(memory + end, before + end, sizeof(memory) - end);
	}
}

static void test_boxes(void **state)
{
	static const uint32_t boxes[][4] = {{0, 0, 0, 0}, {0, 0, 1, 1}, {0, 0, WIDTH, HEIGHT},
		{WIDTH - 1, HEIGHT - 1, 1, 1}, {3, 2, 5, 4}, {0, 8, WIDTH, 1}, {12, 0, 1, HEIGHT}};
	static const double values[][3] = {
		{0, 0, 0}, {255, 127.5, 128.5}, {-2.1179, 2.64, 1e-6}, {-300, 300, 0.5}};
	(void)state;
	for (unsigned i = 0; i < UTIL_COUNT(boxes) * (UTIL_COUNT(values) + 1); i++) {
		const uint32_t *box = boxes[i % UTIL_COUNT(boxes)];
		unsigned value = i / UTIL_COUNT(boxes);
		struct op op = {.kind = OP_ERASE};
		op.box.x = box[0];
		op.box.y = box[1];
		op.box.w = box[2];
		op.box.h = box[3];
		op.box.noise = value == UTIL_COUNT(values);
		if (!op.box.noise)
			memcpy(op.box.value, values[value], sizeof(op.box.value));
		check_box(&op);
	}
}

static void its_rectangle_is_told(void **state)
{
	(void)state;
	struct op op = {.kind = OP_ERASE, .box = {.x = 12, .y = 7, .w = 40, .h = 32}};
	char text[64];
	op_text(&op, text, sizeof text);
	assert_string_equal(text, "erase 12,7 40x32");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_boxes),
		cmocka_unit_test(its_rectangle_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

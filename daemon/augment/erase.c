/* erase: see erase.h. Runs on a worker's thread; pure. */
#include "augment/erase.h"

#include "base/util.h"
#include "proto/erase.h"
#include "proto/half.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { ERASE_CHANNELS = 3 };

/* The bytes of a value in the type of the row. */
union erase_value {
	uint8_t u8;
	uint16_t u16;
	float f32;
};

static size_t erase_bytes(enum slots_pixel_type type)
{
	static const uint8_t bytes[] = {
		[SLOTS_U8] = 1, [SLOTS_F32] = 4, [SLOTS_F16] = 2, [SLOTS_BF16] = 2};
	assert(type >= SLOTS_U8 && type <= SLOTS_BF16);
	return bytes[type];
}

static union erase_value erase_value(enum slots_pixel_type type, float value)
{
	switch (type) {
	case SLOTS_F32:
		return (union erase_value){.f32 = value};
	case SLOTS_F16:
		return (union erase_value){.u16 = half_to_float16(value)};
	case SLOTS_BF16:
		return (union erase_value){.u16 = half_to_bfloat16(value)};
	default:
		return (union erase_value){
			.u8 = (uint8_t)UTIL_MIN(UTIL_MAX(rintf(value), 0.0f), 255.0f)};
	}
}

/* The strides of a layout: bytes from a value to that of the next pixel, row, channel. */
struct erase_steps {
	size_t value, pixel, row, channel;
};

static struct erase_steps erase_steps(const struct erase_row *row)
{
	size_t value = erase_bytes(row->type);
	bool planar = row->layout == SLOTS_NCHW;
	size_t pixel = planar ? value : ERASE_CHANNELS * value;
	return (struct erase_steps){
		.value = value,
		.pixel = pixel,
		.row = pixel * row->width,
		.channel = planar ? pixel * row->width * row->height : value,
	};
}

static void erase_pixel(const struct erase_steps *steps, uint8_t *to,
	const union erase_value values[ERASE_CHANNELS])
{
	for (size_t c = 0; c < ERASE_CHANNELS; c++)
		memcpy(to + c * steps->channel, &values[c], steps->value);
}

static void erase_values(
	enum slots_pixel_type type, const float from[ERASE_CHANNELS], union erase_value *ret)
{
	for (size_t c = 0; c < ERASE_CHANNELS; c++)
		ret[c] = erase_value(type, from[c]);
}

void op_erase(
	const struct op *op, const struct erase_row *row, const struct pixel_key *key, void *pixels)
{
	struct erase_steps steps = erase_steps(row);
	float value[ERASE_CHANNELS];
	union erase_value values[ERASE_CHANNELS];
	assert(op->kind == OP_ERASE && op->box.x + op->box.w <= row->width &&
		op->box.y + op->box.h <= row->height);
	const struct erase_noise noise = {key->seed, key->position, key->epoch, key->view};
	for (size_t c = 0; c < ERASE_CHANNELS; c++)
		value[c] = (float)op->box.value[c];
	erase_values(row->type, value, values);
	for (uint32_t y = op->box.y; y < op->box.y + op->box.h; y++)
		for (uint32_t x = op->box.x; x < op->box.x + op->box.w; x++) {
			if (op->box.noise) {
				erase_noise(&noise, y * row->width + x, value);
				erase_values(row->type, value, values);
			}
			erase_pixel(&steps, (uint8_t *)pixels + y * steps.row + x * steps.pixel,
				values);
		}
}

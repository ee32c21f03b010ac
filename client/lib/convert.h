/* convert: uint8 pixels to the values that trainers compute with; penstock.h says what they are.
 *
 * The table is the law: 256 values for each of three channels, computed in float32 as torchvision
 * computes them, rounded once more to a shorter dtype. */
#pragma once

#include "penstock/penstock.h"

struct penstock_convert {
	uint32_t dtype, layout;
	uint32_t element_bytes;
	union {
		uint8_t u8[3][256];
		uint16_t u16[3][256]; /* float16, bfloat16 */
		float f32[3][256];
	} table;
};

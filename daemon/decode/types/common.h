/* common: what the readers of this folder share. */
#pragma once

#include "decode/reader.h"

/* The bytes of a file, and the place in it. */
struct types_bytes {
	const uint8_t *data;
	size_t size;
};

/* The bytes [at, at + count) are in the file. */
static inline bool types_has(const struct types_bytes *bytes, uint64_t at, uint64_t count)
{
	return at <= bytes->size && count <= bytes->size - at;
}

static inline uint32_t types_get16(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static inline uint32_t types_get32(const uint8_t *p)
{
	return types_get16(p) | types_get16(p + 2) << 16;
}

/* A row of the region, as a reader hands it over. */
struct types_row {
	uint8_t *rgb[DECODE_PLANES];
};

/* Scratch that types_row_take takes for an image of this width. */
static inline uint64_t types_row_bytes(uint32_t width)
{
	return DECODE_PLANES * ((uint64_t)width + DECODE_ROW_SLACK + SCRATCH_ALIGN);
}

static inline bool types_row_take(struct types_row *row, struct scratch *scratch, uint32_t width)
{
	bool taken = true;
	for (int c = 0; c < DECODE_PLANES; c++) {
		row->rgb[c] = scratch_take(scratch, (size_t)width + DECODE_ROW_SLACK);
		taken &= row->rgb[c] != NULL;
	}
	return taken;
}

static inline void types_row_give(const struct types_row *row, decode_row_fn *give, void *context)
{
	give(context, (const uint8_t *const *)row->rgb);
}

static inline int types_no_room(struct sentence *sentence, const char *type)
{
	return sentence_set(sentence, DECODE_E_MEMORY,
		"%s: its rows do not fit into the memory that was provided for them", type);
}

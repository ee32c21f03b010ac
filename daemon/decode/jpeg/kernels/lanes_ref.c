/* lanes_ref: one lane, one symbol at a time, every bound checked; see lane.h. Slow on purpose. */
#include "decode/jpeg/lane.h"

#include <string.h>

struct reader {
	const struct lane *lane;
	uint64_t bit;
};

/* The next 64 bits; bits after the segment's end are zeros. */
static uint64_t peek(const struct reader *reader)
{
	uint64_t window = 0;
	for (uint64_t i = 0; i < 64; i++) {
		uint64_t bit = reader->bit + i;
		if (bit < reader->lane->bits)
			window |= (uint64_t)(reader->lane->bytes[bit / 8] >> (7 - bit % 8) & 1)
				  << (63 - i);
	}
	return window;
}

static int read_symbol(struct reader *reader, bool ac, unsigned class, struct huffman_symbol *ret)
{
	*ret = huffman_decode(&reader->lane->huffman->code[class][ac], peek(reader));
	if (!ret->length)
		return STEPBACK_CODE;
	reader->bit += ret->length;
	return reader->bit > reader->lane->bits ? STEPBACK_SHORT : 0;
}

static int read_block(struct reader *reader, struct lane *lane, unsigned place, int16_t *block)
{
	unsigned class = lane->huffman->place[place].class_of;
	int32_t *dc = &lane->dc[lane->huffman->place[place].component_of];
	struct huffman_symbol symbol;
	int outcome = read_symbol(reader, false, class, &symbol);
	if (outcome)
		return outcome;
	*dc += symbol.value;
	if (lane_dc_strange(*dc))
		return STEPBACK_RANGE;
	memset(block, 0, BLOCKS_SIZE * sizeof(*block));
	block[0] = (int16_t)*dc;
	for (unsigned k = 1; k < BLOCKS_SIZE;) {
		outcome = read_symbol(reader, true, class, &symbol);
		if (outcome || symbol.advance == HUFFMAN_EOB)
			return outcome;
		k += symbol.advance;
		if (k > BLOCKS_SIZE)
			return STEPBACK_RUN;
		block[k - 1] = (int16_t)symbol.value;
	}
	return 0;
}

/* An MCU of a chunk. 0 or an enum stepback. */
static int read_mcu(struct reader *reader, struct lane *lane, int16_t *to)
{
	int outcome = 0;
	for (unsigned i = 0; i < lane->huffman->in_mcu && !outcome; i++) {
		memset(lane->dc, 0, sizeof(lane->dc));
		outcome = read_block(reader, lane, i, to + (size_t)i * BLOCKS_SIZE);
	}
	return outcome;
}

static void decode_chunk(struct lane *lane)
{
	struct reader reader = {lane, lane->bit};
	lane->complete = 0;
	do {
		int16_t *to =
			lane->blocks + (size_t)lane->complete * lane->huffman->in_mcu * BLOCKS_SIZE;
		lane->outcome = read_mcu(&reader, lane, to);
		if (!lane->outcome && reader.bit > lane->bits)
			lane->outcome = STEPBACK_SHORT;
		if (!lane->outcome)
			lane->marks[lane->complete++] = (uint32_t)reader.bit;
	} while (!lane->outcome && lane->complete < lane->mcus && reader.bit <= lane->stop);
	lane->bit = reader.bit;
}

void lane_decode_ref(struct lane *lane)
{
	if (lane->marks) {
		decode_chunk(lane);
		return;
	}
	struct reader reader = {lane, lane->bit};
	int16_t nowhere[BLOCKS_SIZE], *to = lane->blocks;
	int outcome = 0;
	for (uint32_t mcu = 0; mcu < lane->mcus && !outcome; mcu++) {
		for (unsigned i = 0; i < lane->huffman->in_mcu && !outcome; i++) {
			outcome = read_block(&reader, lane, i, to ? to : nowhere);
			if (to)
				to += BLOCKS_SIZE;
		}
	}
	lane_end(lane, reader.bit, outcome);
}

static void decode(lane_next_fn *next, void *context)
{
	struct lane lane = {0};
	while (next(context, &lane))
		lane_decode_ref(&lane);
}

const struct lanes lanes_ref = {
	.name = "ref",
	.kind = HUFFMAN_NONE,
	.width = 1,
	.decode = decode,
	.unstuff = unstuff_c,
	.checksum = checksum_c,
};

/* checkpoint: see checkpoint.h. */
#include "decode/checkpoint.h"

uint32_t checkpoint_count(const struct parse *parse, uint32_t interval)
{
	return (parse->mcus_across * parse->mcus_down - 1) / interval + 1;
}

void checkpoint_settle(const struct parse *parse, const uint8_t *data, size_t size,
	struct checkpoint *checkpoints, size_t count)
{
	struct unstuff_origin origin = {.from = data + parse->scan, .size = size - parse->scan};
	for (size_t i = 0; i < count; i++) {
		uint64_t byte = unstuff_origin(&origin, checkpoints[i].bit / 8);
		checkpoints[i].bit = (parse->scan + byte) * 8 + checkpoints[i].bit % 8;
	}
}

/* Whether the byte there is data: inside the scan, and an FF only with its zero. */
static bool is_data(
	const struct parse *parse, const uint8_t *data, size_t size, const struct checkpoint *at)
{
	uint64_t byte = at->bit / 8;
	if (byte < parse->scan || byte >= size)
		return false;
	return data[byte] != 0xff || (byte + 1 < size && data[byte + 1] == 0);
}

int checkpoint_unstuff(unstuff_fn *unstuff, const struct parse *parse, const uint8_t *data,
	size_t size, const struct checkpoint *from, const struct checkpoint *to, uint8_t *out,
	uint64_t *ret_bits, size_t *ret_end)
{
	if (!is_data(parse, data, size, from) || (to && !is_data(parse, data, size, to)))
		return STEPBACK_CHECKPOINT;
	size_t start = (size_t)(from->bit / 8), stop = to ? (size_t)(to->bit / 8) : size;
	if (stop < start || (to && to->bit < from->bit))
		return STEPBACK_CHECKPOINT;
	size_t written, end = start + unstuff(out, data + start, stop - start, &written);
	uint64_t bits = (uint64_t)written * 8;
	if (to && end != stop)
		return STEPBACK_CHECKPOINT;
	if (to && to->bit % 8) {
		out[written] = data[stop];
		bits += to->bit % 8;
	}
	*ret_bits = bits;
	*ret_end = end;
	return 0;
}

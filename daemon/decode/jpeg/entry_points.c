/* entry_points: see entry_points.h. */
#include "decode/jpeg/entry_points.h"

uint32_t entry_point_count(const struct parse *parse, uint32_t interval)
{
	return (parse->mcus_across * parse->mcus_down - 1) / interval + 1;
}

struct entry_point entry_point_first(const struct parse *parse)
{
	return (struct entry_point){.bit = (uint64_t)parse->scan * 8};
}

bool entry_point_settle(const uint8_t *data, size_t size, struct entry_point *entry_points,
	size_t from, size_t count)
{
	uint64_t base = entry_points[from].bit / 8, dropped = 0;
	struct unstuff_origin origin = {.from = data + base, .size = size - (size_t)base};
	for (size_t i = from + 1; i < count; i++) {
		uint64_t at = entry_points[i].bit / 8, byte = unstuff_origin(&origin, at);
		if (byte - at - dropped > UINT16_MAX)
			return false;
		entry_points[i - 1].stuffed = (uint16_t)(byte - at - dropped);
		dropped = byte - at;
		entry_points[i].bit = (base + byte) * 8 + entry_points[i].bit % 8;
		entry_points[i].stuffed = 0;
	}
	return true;
}

size_t entry_point_room(const struct entry_point *entry_points, uint32_t count, uint32_t from,
	uint32_t last, size_t size)
{
	size_t end = last + 1 < count ? (size_t)(entry_points[last + 1].bit / 8) + 1 : size;
	return end - (size_t)(entry_points[from].bit / 8);
}

/* Whether the byte there is data: inside the scan, and if it is an FF, followed by a zero. */
static bool is_data(
	const struct parse *parse, const uint8_t *data, size_t size, const struct entry_point *at)
{
	uint64_t byte = at->bit / 8;
	if (byte < parse->scan || byte >= size)
		return false;
	return data[byte] != 0xff || (byte + 1 < size && data[byte + 1] == 0);
}

/* Finds each of the stretches in the unstuffed bytes. */
static int place_segments(const struct entry_point *at, uint32_t stretches, bool to_end,
	uint64_t bytes, struct unstuff_segment *segments)
{
	uint64_t start = 0;
	for (uint32_t i = 0; i < stretches; i++) {
		uint64_t end = bytes, stop = bytes;
		if (!to_end || i + 1 < stretches) {
			uint64_t span = at[i + 1].bit / 8 - at[i].bit / 8;
			if (at[i + 1].bit < at[i].bit || span < at[i].stuffed)
				return STEPBACK_ENTRY_POINT;
			stop = start + span - at[i].stuffed;
			end = stop + (at[i + 1].bit % 8 != 0);
		}
		if (end > bytes || end < start)
			return STEPBACK_ENTRY_POINT;
		segments[i] = (struct unstuff_segment){(uint32_t)start, (uint32_t)(end - start)};
		start = stop;
	}
	return 0;
}

int entry_point_unstuff(unstuff_fn *unstuff, const struct parse *parse, const uint8_t *data,
	size_t size, const struct entry_point *entry_points, uint32_t count, uint32_t first,
	uint32_t last, uint8_t *out, struct unstuff_segment *segments, size_t *ret_bytes)
{
	const struct entry_point *from = &entry_points[first];
	const struct entry_point *to = last + 1 < count ? &entry_points[last + 1] : NULL;
	if (!is_data(parse, data, size, from) || (to && !is_data(parse, data, size, to)))
		return STEPBACK_ENTRY_POINT;
	size_t start = (size_t)(from->bit / 8), stop = to ? (size_t)(to->bit / 8) : size;
	if (stop < start)
		return STEPBACK_ENTRY_POINT;
	size_t written, end = start + unstuff(out, data + start, stop - start, &written);
	if (to && end != stop)
		return STEPBACK_ENTRY_POINT;
	if (!to && !unstuff_is_end(data, size, end))
		return STEPBACK_END;
	if (to && to->bit % 8)
		out[written++] = data[stop];
	if (written > UINT32_MAX)
		return STEPBACK_SIZE;
	*ret_bytes = written;
	return place_segments(from, last - first + 1, !to, written, segments);
}

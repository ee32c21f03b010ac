/* script: see script.h. Facts: ITU-T T.81, B.2.3 and G.1.1.1; libjpeg-turbo 2.1.5, jdphuff.c,
 * start_pass_phuff_decoder, and jdmarker.c. */
#include "decode/jpeg/scans/script.h"

#include <string.h>

struct reader {
	const uint8_t *data;
	size_t size, at;
	struct parse state; /* with the tables that are in effect */
	/* By component and coefficient: the lowest bit that was sent; -1: none. */
	int8_t low[BLOCKS_COMPONENTS][BLOCKS_SIZE];
};

/* Whether the scan's components, band and bits are those of T.81. */
static bool script_valid(const struct parse *parse, const struct script_scan *scan)
{
	if (!parse->progressive)
		return scan->first == 0 && scan->last == BLOCKS_SIZE - 1 && !scan->high &&
		       !scan->low;
	if (scan->last >= BLOCKS_SIZE || scan->first > scan->last || scan->low > SCRIPT_LOW_MOST)
		return false;
	if (scan->first == 0 ? scan->last != 0 : scan->components != 1)
		return false;
	return scan->high == 0 || scan->high == scan->low + 1;
}

/* Notes which bits the scan sends. False: they are not the next ones. */
static bool script_note(struct reader *reader, const struct script_scan *scan)
{
	for (unsigned i = 0; i < scan->components; i++) {
		int8_t *low = reader->low[scan->component[i]];
		if (scan->first && low[0] < 0)
			return false;
		for (unsigned k = scan->first; k <= scan->last; k++) {
			if (low[k] != (scan->high ? scan->high : -1))
				return false;
			low[k] = (int8_t)scan->low;
		}
	}
	return true;
}

/* Takes over the codes that the scan uses. */
static int script_codes(const struct parse *parse, const uint8_t tables[BLOCKS_COMPONENTS],
	struct script_scan *scan)
{
	bool dc = scan->first == 0 && !scan->high, ac = scan->last > 0;
	for (unsigned i = 0; i < scan->components; i++) {
		unsigned of_dc = tables[i] >> 4, of_ac = tables[i] & 15;
		if ((dc && (of_dc > 3 || !parse->dc[of_dc].counts)) ||
			(ac && (of_ac > 3 || !parse->ac[of_ac].counts)) ||
			!parse->quant[parse->component[scan->component[i]].quant])
			return STEPBACK_TABLES;
		if (dc)
			scan->dc[i] = parse->dc[of_dc];
		if (ac)
			scan->ac[i] = parse->ac[of_ac];
	}
	return 0;
}

/* Reads a scan's header. */
static int script_scan(struct reader *reader, struct parse_payload p, struct script_scan *scan)
{
	const struct parse *parse = &reader->state;
	uint8_t tables[BLOCKS_COMPONENTS];
	*scan = (struct script_scan){.restart_mcus = parse->restart_mcus};
	int reason;
	scan->components =
		(uint8_t)parse_scan_components(parse, p, scan->component, tables, &reason);
	if (!scan->components)
		return reason;
	const uint8_t *rest = p.bytes + 1 + 2 * scan->components;
	scan->first = rest[0];
	scan->last = rest[1];
	scan->high = rest[2] >> 4;
	scan->low = rest[2] & 15;
	if (!script_valid(parse, scan) || !script_note(reader, scan))
		return STEPBACK_SCAN;
	return script_codes(parse, tables, scan);
}

/* Finds the marker after the entropy-coded bytes at `at` that is not a restart marker. */
static int script_skip(const struct reader *reader, size_t at, size_t *ret)
{
	for (;;) {
		const uint8_t *ff = memchr(reader->data + at, 0xff, reader->size - at);
		at = ff ? (size_t)(ff - reader->data) : reader->size;
		if (reader->size - at < 2)
			return STEPBACK_END;
		uint8_t next = reader->data[at + 1];
		if (next && (next < PARSE_RST0 || next > PARSE_RST7))
			break;
		at += 2;
	}
	*ret = at;
	return 0;
}

/* Reads the segments up to the next scan, and its header; true: the end marker came first. */
static int script_next(struct reader *reader, struct script_scan *scan, bool *ret_end)
{
	for (;;) {
		struct parse_payload payload;
		unsigned marker;
		*ret_end = reader->size - reader->at >= 2 && reader->data[reader->at] == 0xff &&
			   reader->data[reader->at + 1] == PARSE_EOI;
		if (*ret_end)
			return 0;
		int reason = parse_segment_at(
			reader->data, reader->size, reader->at, &marker, &payload, &reader->at);
		if (reason)
			return reason;
		if (marker == PARSE_SOS)
			return script_scan(reader, payload, scan);
		/* Other quantizers may belong to the components of later scans. */
		if (marker == PARSE_DQT)
			return STEPBACK_TABLES;
		if (marker >= PARSE_SOF0 && marker <= PARSE_SOF15 && marker != PARSE_DHT)
			return STEPBACK_HEADER;
		if (marker == PARSE_DHT)
			reason = parse_codes(&reader->state, payload);
		else if (marker == PARSE_DRI)
			reason = parse_restart(&reader->state, payload);
		if (reason)
			return reason;
	}
}

/* Whether all bits of all coefficients were sent. */
static bool script_complete(const struct reader *reader)
{
	for (unsigned c = 0; c < reader->state.components; c++)
		for (unsigned k = 0; k < BLOCKS_SIZE; k++)
			if (reader->low[c][k])
				return false;
	return true;
}

int script_read(const uint8_t *data, size_t size, const struct parse *parse, struct script *ret)
{
	struct reader reader = {.data = data, .size = size, .at = parse->header, .state = *parse};
	memset(reader.low, -1, sizeof(reader.low));
	ret->count = 0;
	for (;;) {
		struct script_scan scan;
		bool end;
		int reason = script_next(&reader, &scan, &end);
		if (reason)
			return reason;
		if (end)
			break;
		if (ret->count == SCRIPT_SCANS)
			return STEPBACK_SCAN;
		scan.begin = reader.at;
		reason = script_skip(&reader, scan.begin, &scan.end);
		if (reason)
			return reason;
		reader.at = scan.end;
		ret->scan[ret->count++] = scan;
	}
	ret->end = reader.at + 2;
	return script_complete(&reader) ? 0 : STEPBACK_SCAN;
}

/* parse: see parse.h. One function per kind of segment; each receives the payload, all of which is
 * inside the file. Facts: ITU-T T.81, B.2; libjpeg-turbo 2.1.5, jdmarker.c and jdapimin.c. */
#include "decode/jpeg/parse.h"

#include <stdbool.h>
#include <string.h>

enum {
	SIDE_MOST = 65500, /* JPEG_MAX_DIMENSION */
};

struct parser {
	struct parse found;
	uint8_t ids[BLOCKS_COMPONENTS];
	bool jfif, adobe;
	uint8_t adobe_transform;
};

static unsigned be16(const uint8_t *p)
{
	return (unsigned)p[0] << 8 | p[1];
}

static int parse_quantizers(struct parser *parser, struct parse_payload p)
{
	enum { BYTES = 1 + BLOCKS_SIZE };
	while (p.size) {
		if (p.size < BYTES || p.bytes[0] > 3)
			return STEPBACK_TABLES;
		/* A step of 0 is not valid, although libjpeg would multiply by it. */
		if (memchr(p.bytes + 1, 0, BLOCKS_SIZE))
			return STEPBACK_TABLES;
		parser->found.quant[p.bytes[0]] = p.bytes + 1;
		p.bytes += BYTES;
		p.size -= BYTES;
	}
	return 0;
}

int parse_codes(struct parse *parse, struct parse_payload p)
{
	enum { COUNTS = 16, AC = 0x10, SYMBOLS_MOST = 256 };
	while (p.size) {
		if (p.size < 1 + COUNTS || (p.bytes[0] & ~AC) > 3)
			return STEPBACK_TABLES;
		struct parse_code code = {.counts = p.bytes + 1, .symbols = p.bytes + 1 + COUNTS};
		for (int i = 0; i < COUNTS; i++)
			code.symbol_count += code.counts[i];
		size_t bytes = 1 + COUNTS + (size_t)code.symbol_count;
		if (code.symbol_count > SYMBOLS_MOST || bytes > p.size)
			return STEPBACK_TABLES;
		if (p.bytes[0] & AC)
			parse->ac[p.bytes[0] & 3] = code;
		else
			parse->dc[p.bytes[0] & 3] = code;
		p.bytes += bytes;
		p.size -= bytes;
	}
	return 0;
}

int parse_restart(struct parse *parse, struct parse_payload p)
{
	if (p.size != 2)
		return STEPBACK_HEADER;
	parse->restart_mcus = be16(p.bytes);
	return 0;
}

static void parse_jfif(struct parser *parser, struct parse_payload p)
{
	enum { JFIF_BYTES = 14 };
	if (p.size >= JFIF_BYTES && memcmp(p.bytes, "JFIF", 5) == 0)
		parser->jfif = true;
}

static void parse_adobe(struct parser *parser, struct parse_payload p)
{
	enum { ADOBE_BYTES = 12 };
	if (p.size < ADOBE_BYTES || memcmp(p.bytes, "Adobe", 5) != 0)
		return;
	parser->adobe = true;
	parser->adobe_transform = p.bytes[ADOBE_BYTES - 1];
}

/* Whether both chroma components have the same sampling, and luma a usual multiple of it. */
static bool is_usual(const struct parse *p)
{
	const struct parse_component *c = p->component;
	if (c[1].h != c[2].h || c[1].v != c[2].v || c[0].h % c[1].h || c[0].v % c[1].v)
		return false;
	unsigned across = c[0].h / c[1].h, down = c[0].v / c[1].v;
	return (across == 1 || across == 2 || across == 4) && (down == 1 || down == 2);
}

static int parse_sampling(struct parse *p)
{
	if (p->components == 1) {
		p->component[0].h = p->component[0].v = 1;
	} else if (!is_usual(p)) {
		return STEPBACK_COMPONENTS;
	}
	p->h_max = p->component[0].h;
	p->v_max = p->component[0].v;
	p->in_mcu = 0;
	for (unsigned i = 0; i < p->components; i++)
		p->in_mcu += p->component[i].h * p->component[i].v;
	if (p->in_mcu > BLOCKS_IN_MCU)
		return STEPBACK_COMPONENTS;
	p->mcus_across = (p->width + 8 * p->h_max - 1) / (8 * p->h_max);
	p->mcus_down = (p->height + 8 * p->v_max - 1) / (8 * p->v_max);
	return 0;
}

static int parse_frame(struct parser *parser, struct parse_payload p)
{
	enum { FIXED = 6, PER_COMPONENT = 3 };
	struct parse *found = &parser->found;
	if (found->components || p.size < FIXED)
		return STEPBACK_HEADER;
	if (p.bytes[0] != 8)
		return STEPBACK_KIND;
	found->height = be16(p.bytes + 1);
	found->width = be16(p.bytes + 3);
	found->components = p.bytes[5];
	if (!found->height || !found->width || found->height > SIDE_MOST ||
		found->width > SIDE_MOST)
		return STEPBACK_HEADER;
	if (found->components != 1 && found->components != 3)
		return STEPBACK_COMPONENTS;
	if (p.size != FIXED + PER_COMPONENT * (size_t)found->components)
		return STEPBACK_HEADER;
	for (unsigned i = 0; i < found->components; i++) {
		const uint8_t *at = p.bytes + FIXED + PER_COMPONENT * i;
		struct parse_component *c = &found->component[i];
		c->h = at[1] >> 4;
		c->v = at[1] & 15;
		c->quant = at[2];
		if (c->h < 1 || c->h > 4 || c->v < 1 || c->v > 4 || c->quant > 3)
			return STEPBACK_HEADER;
		if (memchr(parser->ids, at[0], i))
			return STEPBACK_COMPONENTS;
		parser->ids[i] = c->id = at[0];
	}
	return parse_sampling(found);
}

/* As default_decompress_parms in jdapimin.c. */
static enum parse_color color_of(const struct parser *parser)
{
	if (parser->found.components == 1)
		return PARSE_GRAY;
	if (parser->jfif)
		return PARSE_YCC;
	if (parser->adobe)
		return parser->adobe_transform == 0 ? PARSE_RGB : PARSE_YCC;
	return memcmp(parser->ids, "RGB", 3) == 0 ? PARSE_RGB : PARSE_YCC;
}

unsigned parse_scan_components(const struct parse *parse, struct parse_payload p,
	uint8_t component[BLOCKS_COMPONENTS], uint8_t tables[BLOCKS_COMPONENTS], int *ret_reason)
{
	unsigned n = p.size ? p.bytes[0] : 0, number = 0;
	*ret_reason = STEPBACK_SCAN;
	if (n < 1 || n > parse->components)
		return 0;
	if (p.size != 4 + 2 * (size_t)n) {
		*ret_reason = n == parse->components ? STEPBACK_HEADER : STEPBACK_SCAN;
		return 0;
	}
	for (unsigned i = 0; i < n; i++, number++) {
		const uint8_t *at = p.bytes + 1 + 2 * i;
		while (number < parse->components && parse->component[number].id != at[0])
			number++;
		if (number == parse->components)
			return 0;
		component[i] = (uint8_t)number;
		tables[i] = at[1];
	}
	return n;
}

static int parse_scan(struct parser *parser, struct parse_payload p)
{
	struct parse *found = &parser->found;
	uint8_t component[BLOCKS_COMPONENTS], tables[BLOCKS_COMPONENTS];
	int reason;
	if (found->components == 0 || p.size < 1)
		return STEPBACK_HEADER;
	unsigned n = parse_scan_components(found, p, component, tables, &reason);
	if (!n)
		return reason;
	found->color = color_of(parser);
	found->several = found->progressive || n < found->components;
	if (found->several)
		return 0;
	for (unsigned i = 0; i < n; i++) {
		struct parse_component *c = &found->component[i];
		c->dc = tables[i] >> 4;
		c->ac = tables[i] & 15;
		if (c->dc > 3 || c->ac > 3 || !found->dc[c->dc].counts ||
			!found->ac[c->ac].counts || !found->quant[c->quant])
			return STEPBACK_TABLES;
	}
	const uint8_t *rest = p.bytes + 1 + 2 * n;
	if (rest[0] != 0 || rest[1] != BLOCKS_SIZE - 1 || rest[2] != 0)
		return STEPBACK_SCAN;
	return 0;
}

static int parse_segment(struct parser *parser, unsigned marker, struct parse_payload p)
{
	switch (marker) {
	case PARSE_SOF0:
	case PARSE_SOF1:
	case PARSE_SOF2:
		parser->found.progressive = marker == PARSE_SOF2;
		return parse_frame(parser, p);
	case PARSE_DHT:
		return parse_codes(&parser->found, p);
	case PARSE_DQT:
		return parse_quantizers(parser, p);
	case PARSE_DRI:
		return parse_restart(&parser->found, p);
	case PARSE_SOS:
		return parse_scan(parser, p);
	case PARSE_APP0:
		parse_jfif(parser, p);
		return 0;
	case PARSE_APP14:
		parse_adobe(parser, p);
		return 0;
	default:
		return 0;
	}
}

/* Whether a header that is taken may have a segment of this kind: 0, or the reason why not. */
static int judge_marker(unsigned marker)
{
	if (marker == PARSE_SOF0 || marker == PARSE_SOF1 || marker == PARSE_SOF2 ||
		marker == PARSE_DHT || marker == PARSE_DQT || marker == PARSE_DRI ||
		marker == PARSE_SOS || marker == PARSE_COM ||
		(marker >= PARSE_APP0 && marker <= PARSE_APP15))
		return 0;
	bool frame = marker > PARSE_SOF2 && marker <= PARSE_SOF15 && marker != PARSE_JPG;
	return frame ? STEPBACK_KIND : STEPBACK_HEADER; /* DAC belongs to arithmetic coding */
}

int parse_segment_at(const uint8_t *data, size_t size, size_t at, unsigned *ret_marker,
	struct parse_payload *ret, size_t *ret_end)
{
	enum { MARKER_AND_LENGTH = 4 };
	if (at > size || size - at < MARKER_AND_LENGTH || data[at] != 0xff)
		return STEPBACK_HEADER;
	unsigned marker = data[at + 1];
	int reason = judge_marker(marker);
	if (reason)
		return reason;
	size_t length = be16(data + at + 2);
	if (length < 2 || length > size - at - 2)
		return STEPBACK_HEADER;
	*ret_marker = marker;
	*ret = (struct parse_payload){data + at + MARKER_AND_LENGTH, length - 2};
	*ret_end = at + 2 + length;
	return 0;
}

int parse_read(const uint8_t *data, size_t size, struct parse *ret)
{
	struct parser parser = {0};
	size_t at = 2;
	if (size < 2 || data[0] != 0xff || data[1] != PARSE_SOI)
		return STEPBACK_HEADER;
	for (;;) {
		struct parse_payload payload;
		unsigned marker;
		parser.found.header = at;
		int reason = parse_segment_at(data, size, at, &marker, &payload, &at);
		if (!reason)
			reason = parse_segment(&parser, marker, payload);
		if (reason)
			return reason;
		if (marker == PARSE_SOS)
			break;
	}
	parser.found.scan = at;
	*ret = parser.found;
	return 0;
}

int parse_read_single(const uint8_t *data, size_t size, struct parse *ret)
{
	struct parse found;
	int reason = parse_read(data, size, &found);
	if (!reason && found.several)
		reason = found.progressive ? STEPBACK_KIND : STEPBACK_SCAN;
	if (!reason)
		*ret = found;
	return reason;
}

/* generate: JPEGs from a seed, made in the coefficient domain, symbol by symbol: files that no
 * encoder writes but a decoder must accept. Any sampling and restart interval, codes of any shape
 * with up to 16 bits, DC and AC values at the ends of their ranges, runs of zeros in every pattern.
 * Then faults, most of them at the borders of segments.
 *
 * A seed always gives the same file, on every machine. It does not use libjpeg: a file of a few
 * hundred bytes takes microseconds. Not thread-safe. */
#pragma once

#include "fuzz/random.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
	GENERATE_BYTES = 1 << 18, /* room for any file; larger files are cut */
	GENERATE_EDGES = 4096,
};

/* A Huffman code: canonical, no code all ones unless a fault is wanted. */
struct generate_code {
	uint8_t counts[16], symbols[256];
	unsigned symbol_count;
	uint8_t length[256]; /* by symbol; 0: no code */
	uint16_t code[256];
	bool shallow; /* symbols are drawn with the probability that their lengths imply */
};

/* The kind of a file; set by generate_kind, in some tests by hand. */
struct generate_kind {
	uint32_t width, height;
	unsigned components;
	uint8_t h[3], v[3];
	uint32_t restart; /* MCUs, 0: none */
	bool said; /* a DRI segment even without an interval */
	unsigned step_most; /* of quantizers */
	unsigned size_most; /* bits of a coefficient */
	uint32_t dc_most; /* predictions stay within it */
	enum { BLOCKS_ANY, BLOCKS_EMPTY, BLOCKS_FULL, BLOCKS_ZEROS } style;
	bool standard; /* the codes of T.81, K.3 */
	bool ends; /* values at the ends of their sizes */
	unsigned long_codes; /* 0 .. 4: how strongly code lengths tend to 16 bits */
	enum { IDS_JFIF, IDS_PLAIN, IDS_RGB, IDS_ADOBE } ids;
	uint8_t adobe_transform;
	unsigned tables; /* 1 .. 3: of codes */
	bool faulty; /* codes may be broken */
};

struct generate {
	struct random random;
	struct generate_kind kind;
	size_t size, edges;
	uint64_t acc;
	unsigned bits; /* in acc */
	size_t edge[GENERATE_EDGES]; /* where segments begin */
	size_t scan; /* first entropy-coded byte */
	struct generate_code code[3][2]; /* DC, AC */
	uint8_t bytes[GENERATE_BYTES];
};

static inline void put(struct generate *g, unsigned byte)
{
	if (g->size < GENERATE_BYTES)
		g->bytes[g->size++] = (uint8_t)byte;
}

static inline void put16(struct generate *g, unsigned value)
{
	put(g, value >> 8);
	put(g, value & 255);
}

static inline void put_edge(struct generate *g)
{
	if (g->edges < GENERATE_EDGES)
		g->edge[g->edges++] = g->size;
}

static inline void put_marker(struct generate *g, unsigned marker)
{
	put_edge(g);
	put(g, 0xff);
	put(g, marker);
}

/* Most significant bit first, an FF followed by its zero. */
static inline void put_bits(struct generate *g, unsigned value, unsigned count)
{
	g->acc = g->acc << count | (value & ((1u << count) - 1));
	g->bits += count;
	while (g->bits >= 8) {
		unsigned byte = (unsigned)(g->acc >> (g->bits - 8)) & 255;
		put(g, byte);
		if (byte == 0xff)
			put(g, 0);
		g->bits -= 8;
	}
}

/* Ends a segment. Ones fill the last byte, as T.81 requires, but decoders must accept any bits. */
static inline void put_fill(struct generate *g)
{
	if (g->bits % 8)
		put_bits(g, one_in(&g->random, 50) ? 0 : 0xff, 8 - g->bits % 8);
	g->bits = 0;
}

static inline void code_number(struct generate_code *c)
{
	unsigned code = 0, place = 0;
	memset(c->length, 0, sizeof(c->length));
	for (unsigned length = 1; length <= 16; length++) {
		for (unsigned i = 0; i < c->counts[length - 1]; i++) {
			c->length[c->symbols[place]] = (uint8_t)length;
			c->code[c->symbols[place++]] = (uint16_t)code++;
		}
		code <<= 1;
	}
}

/* Random lengths for that many symbols; `lean` moves them toward 16 bits. */
static inline void code_lengths(
	struct generate_code *c, struct random *random, unsigned symbols, unsigned lean)
{
	unsigned room = 1, left = symbols;
	memset(c->counts, 0, sizeof(c->counts));
	for (unsigned length = 1; length <= 16 && left; length++) {
		room *= 2;
		/* One code stays free, and the rest must fit below what is left. */
		unsigned beyond = 16 - length, most = room - 1 < left ? room - 1 : left;
		while (most && ((uint64_t)(room - most) << beyond) < left - most + 1)
			most--;
		unsigned take = length == 16 ? left : draw(random, most + 1);
		for (unsigned i = 0; length < 16 && i < lean; i++)
			take = draw(random, take + 1);
		c->counts[length - 1] = (uint8_t)take;
		left -= take;
		room -= take;
	}
}

static inline void code_shuffle(struct generate_code *c, struct random *random, unsigned strength)
{
	for (unsigned i = 0; i < strength; i++) {
		unsigned a = draw(random, c->symbol_count), b = draw(random, c->symbol_count);
		uint8_t symbol = c->symbols[a];
		c->symbols[a] = c->symbols[b];
		c->symbols[b] = symbol;
	}
}

static inline void code_dc(struct generate *g, struct generate_code *c)
{
	static const uint8_t counts[16] = {0, 1, 5, 1, 1, 1, 1, 1, 1};
	*c = (struct generate_code){.symbol_count = 12};
	for (unsigned i = 0; i < 12; i++)
		c->symbols[i] = (uint8_t)i;
	if (g->kind.standard) {
		memcpy(c->counts, counts, sizeof(counts));
	} else {
		code_lengths(c, &g->random, 12, g->kind.long_codes);
		code_shuffle(c, &g->random, draw(&g->random, 24));
	}
}

/* Short runs and sizes first, as in files; all symbols that 8-bit images may use, or some. */
static inline void code_ac(struct generate *g, struct generate_code *c)
{
	static const uint8_t counts[16] = {0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 0x7d};
	*c = (struct generate_code){0};
	unsigned sparse = g->kind.standard ? 1 : 1 + draw(&g->random, 4) * draw(&g->random, 4);
	c->symbols[c->symbol_count++] = 0;
	for (unsigned sum = 1; sum <= 25; sum++)
		for (unsigned size = 1; size <= 10 && size <= sum; size++)
			if (sum - size < 16 && (sum < 3 || one_in(&g->random, sparse)))
				c->symbols[c->symbol_count++] = (uint8_t)((sum - size) << 4 | size);
	c->symbols[c->symbol_count++] = 0xf0;
	if (g->kind.standard) {
		memcpy(c->counts, counts, sizeof(counts));
	} else {
		code_lengths(c, &g->random, c->symbol_count, g->kind.long_codes);
		code_shuffle(c, &g->random, draw(&g->random, c->symbol_count));
	}
}

/* Rarely an invalid code: too many symbols, all ones, or symbols that 8-bit images do not need. */
static inline void code_break(struct generate *g, struct generate_code *c)
{
	switch (draw(&g->random, 3)) {
	case 0:
		c->counts[draw(&g->random, 16)]++;
		break;
	case 1:
		c->symbols[draw(&g->random, c->symbol_count)] = (uint8_t)random_64(&g->random);
		break;
	default:
		c->counts[draw(&g->random, 16)] = (uint8_t)random_64(&g->random);
	}
}

/* A segment with one code, sometimes not the one that the scan uses. */
static inline void put_code(struct generate *g, unsigned number, const struct generate_code *code)
{
	struct generate_code said = *code;
	if (g->kind.faulty && one_in(&g->random, 200))
		code_break(g, &said);
	unsigned symbols = 0;
	for (unsigned i = 0; i < 16; i++)
		symbols += said.counts[i];
	symbols = symbols < 256 ? symbols : 256;
	put_marker(g, 0xc4);
	put16(g, 19 + symbols);
	put(g, number);
	for (unsigned i = 0; i < 16; i++)
		put(g, said.counts[i]);
	for (unsigned i = 0; i < symbols; i++)
		put(g, said.symbols[i]);
}

static inline void put_codes(struct generate *g)
{
	for (unsigned t = 0; t < g->kind.tables; t++) {
		code_dc(g, &g->code[t][0]);
		code_ac(g, &g->code[t][1]);
		for (unsigned ac = 0; ac < 2; ac++) {
			g->code[t][ac].shallow = one_in(&g->random, 2);
			code_number(&g->code[t][ac]);
			put_code(g, ac << 4 | t, &g->code[t][ac]);
		}
	}
}

static inline void put_quantizers(struct generate *g)
{
	for (unsigned t = 0; t < g->kind.tables; t++) {
		put_marker(g, 0xdb);
		put16(g, 67);
		put(g, t);
		for (unsigned k = 0; k < 64; k++)
			put(g, 1 + draw(&g->random, g->kind.step_most));
	}
}

static inline void put_application(struct generate *g)
{
	static const uint8_t jfif[] = {'J', 'F', 'I', 'F', 0, 1, 1, 0, 0, 1, 0, 1, 0, 0};
	static const uint8_t adobe[] = {'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0};
	if (g->kind.ids == IDS_JFIF) {
		put_marker(g, 0xe0);
		put16(g, 2 + sizeof(jfif));
		for (unsigned i = 0; i < sizeof(jfif); i++)
			put(g, jfif[i]);
	} else if (g->kind.ids == IDS_ADOBE) {
		put_marker(g, 0xee);
		put16(g, 3 + sizeof(adobe));
		for (unsigned i = 0; i < sizeof(adobe); i++)
			put(g, adobe[i]);
		put(g, g->kind.adobe_transform);
	}
}

static inline uint8_t component_id(const struct generate *g, unsigned i)
{
	return g->kind.ids == IDS_RGB ? (uint8_t) "RGB"[i] : (uint8_t)(i + 1);
}

static inline unsigned component_table(const struct generate *g, unsigned i)
{
	return i < g->kind.tables ? i : g->kind.tables - 1;
}

static inline void put_frame(struct generate *g)
{
	const struct generate_kind *k = &g->kind;
	put_marker(g, one_in(&g->random, 4) ? 0xc1 : 0xc0);
	put16(g, 8 + 3 * k->components);
	put(g, 8);
	put16(g, k->height);
	put16(g, k->width);
	put(g, k->components);
	for (unsigned i = 0; i < k->components; i++) {
		put(g, component_id(g, i));
		put(g, (unsigned)k->h[i] << 4 | k->v[i]);
		put(g, component_table(g, i));
	}
}

static inline void put_scan_header(struct generate *g)
{
	put_marker(g, 0xda);
	put16(g, 6 + 2 * g->kind.components);
	put(g, g->kind.components);
	for (unsigned i = 0; i < g->kind.components; i++) {
		put(g, component_id(g, i));
		put(g, component_table(g, i) * 0x11);
	}
	put(g, 0);
	put(g, 63);
	put(g, 0);
	put_edge(g);
	g->scan = g->size;
}

static inline unsigned draw_symbol(struct generate *g, const struct generate_code *c)
{
	unsigned below = c->symbol_count;
	if (c->shallow)
		below = 1 + draw(&g->random, below);
	return c->symbols[draw(&g->random, below)];
}

/* A value of that many bits, as the bits in the file (T.81, F.1.2.1). */
static inline unsigned draw_value(struct generate *g, unsigned size)
{
	if (!g->kind.ends)
		return (unsigned)random_64(&g->random) & ((1u << size) - 1);
	static const unsigned ends[] = {0, ~0u};
	unsigned value = ends[draw(&g->random, 2)];
	if (one_in(&g->random, 4))
		value = 1u << (size ? size - 1 : 0);
	return value & ((1u << size) - 1);
}

static inline void put_dc(struct generate *g, const struct generate_code *c, int32_t *prediction)
{
	unsigned size = draw_symbol(g, c), bits = draw_value(g, size);
	for (int tries = 0; tries < 3; tries++) {
		int value =
			size && bits < 1u << (size - 1) ? (int)bits - (1 << size) + 1 : (int)bits;
		int32_t most = (int32_t)g->kind.dc_most, next = *prediction + value;
		if ((next >= -most && next <= most) ||
			(g->kind.faulty && one_in(&g->random, 4000))) {
			*prediction = next;
			break;
		}
		bits ^= (1u << size) - 1;
		if (tries == 1)
			size = bits = 0;
	}
	put_bits(g, c->code[size], c->length[size]);
	put_bits(g, bits, size);
}

/* How far a symbol takes a block that has k coefficients; more than 64 where it ends it. */
static inline unsigned symbol_reach(unsigned symbol, unsigned k)
{
	return symbol ? k + (symbol >> 4) + 1 : 128;
}

/* A symbol that suits the file's style and the block, or after some tries the one that ends it. */
static inline unsigned draw_ac(struct generate *g, const struct generate_code *c, unsigned k)
{
	for (int tries = 0; tries < 6; tries++) {
		unsigned symbol = draw_symbol(g, c);
		bool fits = symbol == 0 || symbol_reach(symbol, k) <= 64;
		switch (g->kind.style) {
		case BLOCKS_EMPTY:
			fits &= symbol == 0 || one_in(&g->random, 8);
			break;
		case BLOCKS_FULL:
			fits &= symbol != 0 && symbol >> 4 <= draw(&g->random, 3);
			break;
		case BLOCKS_ZEROS:
			if (k <= 48 && c->length[0xf0] && one_in(&g->random, 2))
				return 0xf0;
			break;
		default:
			break;
		}
		if (fits && (symbol & 15) <= g->kind.size_most)
			return symbol;
	}
	if (g->kind.style == BLOCKS_FULL && c->length[1] && !one_in(&g->random, 64))
		return 1;
	return 0;
}

static inline void put_block(
	struct generate *g, const struct generate_code code[2], int32_t *prediction)
{
	put_dc(g, &code[0], prediction);
	for (unsigned k = 1; k < 64;) {
		unsigned symbol = draw_ac(g, &code[1], k), size = symbol & 15;
		put_bits(g, code[1].code[symbol], code[1].length[symbol]);
		put_bits(g, draw_value(g, size), size);
		k = symbol_reach(symbol, k);
	}
}

static inline void put_scan(struct generate *g)
{
	const struct generate_kind *k = &g->kind;
	bool gray = k->components == 1;
	uint32_t side_x = gray ? 8 : 8u * k->h[0], side_y = gray ? 8 : 8u * k->v[0];
	uint32_t across = (k->width + side_x - 1) / side_x, mcus;
	mcus = across * ((k->height + side_y - 1) / side_y);
	int32_t predictions[3] = {0};
	for (uint32_t mcu = 0; mcu < mcus; mcu++) {
		if (k->restart && mcu && mcu % k->restart == 0) {
			put_fill(g);
			put_marker(g, 0xd0 + (mcu / k->restart - 1) % 8);
			memset(predictions, 0, sizeof(predictions));
		}
		for (unsigned i = 0; i < k->components; i++)
			for (int b = gray ? 1 : k->h[i] * k->v[i]; b > 0; b--)
				put_block(g, g->code[component_table(g, i)], &predictions[i]);
	}
	put_fill(g);
}

static inline void generate_file(struct generate *g)
{
	g->size = g->edges = 0;
	g->bits = 0;
	put_marker(g, 0xd8);
	put_application(g);
	put_quantizers(g);
	put_frame(g);
	put_codes(g);
	if (g->kind.restart || g->kind.said) {
		put_marker(g, 0xdd);
		put16(g, 4);
		put16(g, g->kind.restart);
	}
	put_scan_header(g);
	put_scan(g);
	put_marker(g, 0xd9);
	put_edge(g);
}

/* Sampling of luma and chroma, the most common first; penstock's decoder leaves the last ones to
 * libjpeg-turbo. */
static const uint8_t generate_samplings[][4] = {{1, 1, 1, 1}, {2, 2, 1, 1}, {2, 1, 1, 1},
	{1, 2, 1, 1}, {4, 1, 1, 1}, {4, 2, 1, 1}, {2, 1, 2, 1}, {1, 2, 1, 2}, {2, 2, 1, 2},
	{2, 2, 2, 1}, {4, 1, 2, 1}, {3, 1, 3, 1}, {1, 3, 1, 3}, {1, 4, 1, 2}, {1, 4, 1, 1},
	{3, 1, 1, 1}, {2, 1, 1, 2}};

static inline uint32_t draw_side(struct random *random)
{
	uint32_t kind = draw(random, 64);
	if (kind == 0)
		return 1 + draw(random, 200);
	return 1 + draw(random, kind < 16 ? 64 : 24);
}

static inline uint32_t draw_restart(struct random *random, uint32_t across)
{
	switch (draw(random, 8)) {
	case 0:
	case 1:
		return 1;
	case 2:
		return 2;
	case 3:
		return across;
	case 4:
		return 1 + draw(random, 2 * across + 3);
	default:
		return 0;
	}
}

static inline void draw_sampling(struct random *random, struct generate_kind *k)
{
	enum { SAMPLINGS = sizeof(generate_samplings) / sizeof(generate_samplings[0]), USUAL = 6 };
	const uint8_t *s = generate_samplings[draw(random, one_in(random, 8) ? SAMPLINGS : USUAL)];
	k->components = one_in(random, 5) ? 1 : 3;
	for (unsigned i = 0; i < 3; i++) {
		k->h[i] = s[i ? 2 : 0];
		k->v[i] = s[i ? 3 : 1];
	}
	if (one_in(random, 300))
		k->v[2] = 2;
}

/* Large coefficients times large steps leave the range where libjpeg-turbo's SIMD and C agree, and
 * the image with it: one file in eight may. */
static inline void draw_sizes(struct random *random, struct generate_kind *k)
{
	static const unsigned amounts[] = {
		[BLOCKS_ANY] = 4, [BLOCKS_EMPTY] = 1, [BLOCKS_FULL] = 8, [BLOCKS_ZEROS] = 2};
	enum { SUM = 2048, PREDICTION = 2500 };
	k->ends = one_in(random, 5);
	k->size_most = 1 + draw(random, 10);
	k->dc_most = one_in(random, 3) ? 2047 : 16u << draw(random, 7);
	k->step_most = 1 + draw(random, 255);
	if (one_in(random, 8))
		return;
	unsigned amount = amounts[k->style];
	while (k->size_most > 1 && amount << k->size_most > SUM)
		k->size_most--;
	unsigned steps = SUM / (amount << k->size_most);
	k->step_most = 1 + draw(random, steps < 255 ? steps : 255);
	if (k->dc_most > PREDICTION / k->step_most)
		k->dc_most = PREDICTION / k->step_most;
}

static inline struct generate_kind draw_kind(struct random *random)
{
	struct generate_kind k = {.width = draw_side(random), .height = draw_side(random)};
	/* Enough MCUs for several entry points. */
	bool many = one_in(random, 8);
	if (many) {
		k.width = 24 + draw(random, 100);
		k.height = 24 + draw(random, 100);
	}
	draw_sampling(random, &k);
	uint32_t side = k.components == 1 ? 8 : 8u * k.h[0];
	k.restart = many ? 0 : draw_restart(random, (k.width + side - 1) / side);
	k.said = one_in(random, 10);
	k.style = draw(random, 4);
	draw_sizes(random, &k);
	k.standard = one_in(random, 3);
	k.long_codes = draw(random, 5);
	k.ids = one_in(random, 2) ? IDS_JFIF : draw(random, 4);
	k.adobe_transform = (uint8_t)draw(random, 3);
	k.tables = 1 + draw(random, k.components);
	k.faulty = true;
	return k;
}

/* ---- faults ---- */

static inline void cut_out(struct generate *g, size_t at, size_t count)
{
	if (at >= g->size)
		return;
	count = count < g->size - at ? count : g->size - at;
	memmove(g->bytes + at, g->bytes + at + count, g->size - at - count);
	g->size -= count;
}

static inline void insert(struct generate *g, size_t at, const uint8_t *bytes, size_t count)
{
	if (at > g->size || g->size + count > GENERATE_BYTES)
		return;
	memmove(g->bytes + at + count, g->bytes + at, g->size - at);
	memcpy(g->bytes + at, bytes, count);
	g->size += count;
}

/* A place at or next to the beginning of a segment; most often of one in the scan. */
static inline size_t draw_edge(struct generate *g, unsigned beside)
{
	size_t number = draw(&g->random, (uint32_t)g->edges);
	for (int tries = 0; tries < 3 && g->edge[number] < g->scan; tries++)
		number = draw(&g->random, (uint32_t)g->edges);
	size_t at = g->edge[number] + draw(&g->random, 2 * beside + 1);
	at = at < beside ? 0 : at - beside;
	return at < g->size ? at : g->size;
}

static inline void flip(struct generate *g, size_t at)
{
	if (at < g->size)
		g->bytes[at] ^= (uint8_t)(1 << draw(&g->random, 8));
}

/* Changes or removes the stuffed zero after an FF of the scan. */
static inline void unstuff_badly(struct generate *g)
{
	size_t from = g->scan + draw(&g->random, (uint32_t)(g->size - g->scan + 1));
	for (size_t at = from; at + 1 < g->size; at++) {
		if (g->bytes[at] != 0xff || g->bytes[at + 1] != 0)
			continue;
		if (one_in(&g->random, 2))
			cut_out(g, at + 1, 1);
		else
			g->bytes[at + 1] = (uint8_t)random_64(&g->random);
		return;
	}
}

static inline void insert_marker(struct generate *g)
{
	uint8_t marker[2] = {0xff, (uint8_t)(0xd0 + draw(&g->random, 10))};
	if (one_in(&g->random, 4))
		marker[1] = (uint8_t)random_64(&g->random);
	insert(g, draw_edge(g, one_in(&g->random, 2) ? 0 : 6), marker, 2);
}

static inline void insert_bytes(struct generate *g)
{
	uint8_t bytes[4];
	bool fill = one_in(&g->random, 3), zeros = one_in(&g->random, 3);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = fill ? 0xff : zeros ? 0 : (uint8_t)random_64(&g->random);
	insert(g, draw_edge(g, 1), bytes, 1 + draw(&g->random, 4));
}

static inline void move_segment(struct generate *g)
{
	size_t a = draw_edge(g, 0), b = draw_edge(g, 0), size = a < b ? b - a : a - b;
	static uint8_t copy[4096];
	a = a < b ? a : b;
	size = size < sizeof(copy) ? size : sizeof(copy);
	memcpy(copy, g->bytes + a, size);
	if (one_in(&g->random, 2))
		cut_out(g, a, size);
	insert(g, draw_edge(g, 0), copy, size);
}

static inline void change_restart(struct generate *g)
{
	size_t at = draw_edge(g, 0);
	if (at + 1 < g->size && g->bytes[at] == 0xff && g->bytes[at + 1] >= 0xd0)
		g->bytes[at + 1] = (uint8_t)(0xd0 + draw(&g->random, 10));
}

static inline void generate_fault(struct generate *g)
{
	switch (draw(&g->random, 10)) {
	case 0:
		g->size = draw_edge(g, 4);
		break;
	case 1:
		insert_marker(g);
		break;
	case 2:
		change_restart(g);
		break;
	case 3:
		flip(g, draw_edge(g, 5));
		break;
	case 4:
		unstuff_badly(g);
		break;
	case 5:
		insert_bytes(g);
		break;
	case 6:
		cut_out(g, draw_edge(g, 2), 1 + draw(&g->random, 3));
		break;
	case 7:
		move_segment(g);
		break;
	case 8:
		flip(g, draw(&g->random, (uint32_t)g->size + 1));
		break;
	default:
		if (g->size > g->scan)
			flip(g, g->scan + draw(&g->random, (uint32_t)(g->size - g->scan)));
	}
}

/* Makes the seed's file, which is valid two times in three. */
static inline void generate(struct generate *g, uint64_t seed)
{
	g->random.state = seed;
	g->kind = draw_kind(&g->random);
	generate_file(g);
	if (!one_in(&g->random, 3))
		return;
	for (unsigned faults = 1 + one_in(&g->random, 3); faults; faults--)
		generate_fault(g);
}

/* huffman: see huffman.h. */
#include "decode/jpeg/huffman.h"

#include <string.h>

enum {
	CODE_LONGEST = 16,
	DC_SIZE_MOST = 11,
	AC_SIZE_MOST = 10,
	NO_COEFFICIENT = 15 << 4, /* ZRL: 16 zeros */
	PAIR_SIZE_MOST = 5, /* of a pair's second value */
	FOLLOWER_LEAST = 1, /* bits of a follower */
};

struct symbol {
	unsigned advance, size;
	bool bad;
};

static struct symbol symbol_of(bool ac, uint8_t symbol)
{
	if (!ac)
		return (struct symbol){.advance = 1, .size = symbol};
	unsigned run = symbol >> 4, size = symbol & 15;
	if (symbol == 0)
		return (struct symbol){.advance = HUFFMAN_EOB};
	return (struct symbol){.advance = run + 1,
		.size = size,
		.bad = size > AC_SIZE_MOST || (size == 0 && symbol != NO_COEFFICIENT)};
}

int huffman_symbol_at(const struct huffman_code *code, uint32_t next, unsigned *ret_length)
{
	unsigned length = 1;
	while (length <= CODE_LONGEST && next >= code->limit[length])
		length++;
	if (length > CODE_LONGEST)
		return -1;
	*ret_length = length;
	return code->symbols[(int)(next >> (CODE_LONGEST - length)) + code->offset[length]];
}

struct huffman_symbol huffman_decode(const struct huffman_code *code, uint64_t window)
{
	unsigned length;
	int found = huffman_symbol_at(code, (uint32_t)(window >> 48), &length);
	if (found < 0)
		return (struct huffman_symbol){0};
	struct symbol symbol = symbol_of(code->ac, (uint8_t)found);
	if (symbol.bad)
		return (struct huffman_symbol){0};
	unsigned bits = symbol.size ? (unsigned)(window << length >> (64 - symbol.size)) : 0;
	return (struct huffman_symbol){
		length + symbol.size, symbol.advance, huffman_extend(bits, symbol.size)};
}

/* Numbers the codes. No code may be all ones; libjpeg checks that too. */
int huffman_build_code(const struct parse_code *from, bool ac, struct huffman_code *ret)
{
	uint32_t code = 0;
	int place = 0;
	*ret = (struct huffman_code){.symbols = from->symbols, .ac = ac};
	for (unsigned length = 1; length <= CODE_LONGEST; length++) {
		unsigned count = from->counts[length - 1];
		ret->offset[length] = place - (int)code;
		place += (int)count;
		code += count;
		if (count && code >= 1u << length)
			return STEPBACK_TABLES;
		ret->limit[length] = code << (CODE_LONGEST - length);
		code <<= 1;
	}
	for (unsigned i = 0; !ac && i < from->symbol_count; i++)
		if (from->symbols[i] > DC_SIZE_MOST)
			return STEPBACK_TABLES;
	return 0;
}

static uint32_t *fill(uint32_t *at, uint32_t entry, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		at[i] = entry;
	return at + count;
}

/* Fills all entries that begin with one code: its values in order, each with all bits that may
 * follow it. */
static uint32_t *fill_values(uint32_t *at, struct symbol symbol, unsigned length, bool ac)
{
	unsigned rest = HUFFMAN_VALUE_BITS - length;
	if (symbol.bad)
		return fill(at, HUFFMAN_ESCAPE << 8, 1u << rest);
	if (symbol.size > rest) {
		uint32_t known =
			length | (HUFFMAN_ESCAPE + symbol.advance) << 8 | symbol.size << 16;
		return fill(at, ac ? known : HUFFMAN_ESCAPE << 8, 1u << rest);
	}
	uint32_t entry = (length + symbol.size) | symbol.advance << 8;
	if (symbol.size == 0)
		return fill(at, entry, 1u << rest);
	int half = 1 << (symbol.size - 1);
	unsigned each = 1u << (rest - symbol.size);
	for (int value = 1 - 2 * half; value <= -half; value++)
		at = fill(at, entry | (uint32_t)value << 16, each);
	for (int value = half; value < 2 * half; value++)
		at = fill(at, entry | (uint32_t)value << 16, each);
	return at;
}

void huffman_build_values(const struct parse_code *from, bool ac, uint32_t *table)
{
	uint32_t *at = table, *end = table + (1 << HUFFMAN_VALUE_BITS);
	const uint8_t *symbol = from->symbols;
	for (unsigned length = 1; length <= HUFFMAN_VALUE_BITS; length++)
		for (unsigned i = 0; i < from->counts[length - 1]; i++)
			at = fill_values(at, symbol_of(ac, *symbol++), length, ac);
	fill(at, HUFFMAN_ESCAPE << 8, (unsigned)(end - at));
}

/* ---- code tables ---- */

/* A symbol that an entry can have besides its first one: EOB, or a coefficient without zeros before
 * it. */
struct follower {
	uint32_t code;
	unsigned length, size; /* size 0: EOB */
};

/* What can follow in 1 bit, in 2, ..: each a part of `adds`, of which the part for `bits` bits
 * begins at 1 << bits, and has what to add to an entry by the bits that follow its symbol. Made
 * when needed: `made` has a bit for each part. */
struct followers {
	struct follower follower[256], eob;
	unsigned count, made;
	uint32_t adds[1 << HUFFMAN_CODE_BITS];
};

static void find_followers(const struct parse_code *ac, struct followers *ret)
{
	const uint8_t *symbol = ac->symbols;
	uint32_t code = 0;
	ret->eob = (struct follower){0};
	ret->count = ret->made = 0;
	for (unsigned length = 1; length < HUFFMAN_CODE_BITS; length++, code <<= 1)
		for (unsigned i = 0; i < ac->counts[length - 1]; i++, code++) {
			const struct follower follower = {code, length, *symbol++};
			if (follower.size <= PAIR_SIZE_MOST)
				ret->follower[ret->count++] = follower;
			if (follower.size == 0)
				ret->eob = follower;
		}
}

/* Fills the 1 << bits entries at `at` that begin with an EOB. */
static void add_eob(const struct follower *eob, uint32_t *at, unsigned bits, uint32_t before)
{
	if (eob->length && eob->length <= bits)
		fill(at + (eob->code << (bits - eob->length)),
			(before + eob->length) | HUFFMAN_LAST, 1u << (bits - eob->length));
}

static const uint32_t *what_follows(struct followers *followers, unsigned bits)
{
	uint32_t *part = followers->adds + (1 << bits);
	if (followers->made >> bits & 1)
		return part;
	followers->made |= 1u << bits;
	fill(part, 0, 1u << bits);
	for (unsigned i = 0; i < followers->count; i++) {
		const struct follower *f = &followers->follower[i];
		if (f->size == 0 || f->length + f->size > bits)
			continue;
		unsigned rest = bits - f->length - f->size;
		uint32_t *at = part + (f->code << (bits - f->length));
		for (unsigned value = 0; value < 1u << f->size; value++, at += 1u << rest) {
			uint32_t add = (f->length + f->size) | HUFFMAN_PAIR |
				       (uint32_t)huffman_extend(value, f->size)
					       << HUFFMAN_PAIR_SHIFT;
			fill(at, add, 1u << rest);
			add_eob(&followers->eob, at, rest, add);
		}
	}
	add_eob(&followers->eob, part, bits, 0);
	return part;
}

/* Fills all entries that begin with one code. */
static uint32_t *fill_codes(
	uint32_t *at, struct symbol symbol, unsigned length, struct followers *followers)
{
	const unsigned all = length + symbol.size;
	const uint32_t entry = all | symbol.advance << 8 | symbol.size << HUFFMAN_SIZE_SHIFT |
			       length << HUFFMAN_LENGTH_SHIFT;
	if (symbol.bad)
		return fill(at, HUFFMAN_ESCAPE << 8, 1u << (HUFFMAN_CODE_BITS - length));
	if (symbol.advance == HUFFMAN_EOB || all + FOLLOWER_LEAST > HUFFMAN_CODE_BITS)
		return fill(at, entry, 1u << (HUFFMAN_CODE_BITS - length));
	const unsigned bits = HUFFMAN_CODE_BITS - all;
	const uint32_t *add = what_follows(followers, bits);
	for (unsigned value = 0; value < 1u << symbol.size; value++)
		for (unsigned i = 0; i < 1u << bits; i++)
			*at++ = entry + add[i];
	return at;
}

static void build_codes(
	const struct parse_code *from, bool ac, struct followers *followers, uint32_t *table)
{
	uint32_t *at = table, *end = table + (1 << HUFFMAN_CODE_BITS);
	const uint8_t *symbols = from->symbols;
	for (unsigned length = 1; length <= HUFFMAN_CODE_BITS; length++)
		for (unsigned i = 0; i < from->counts[length - 1]; i++)
			at = fill_codes(at, symbol_of(ac, *symbols++), length, followers);
	fill(at, HUFFMAN_ESCAPE << 8, (unsigned)(end - at));
}

/* ---- a scan's tables ---- */

static unsigned table_bits(enum huffman_kind kind)
{
	return kind == HUFFMAN_VALUES ? HUFFMAN_VALUE_BITS : HUFFMAN_CODE_BITS;
}

/* The first component with the same tables as this one. */
static unsigned first_alike(const struct parse *parse, unsigned component)
{
	const struct parse_component *of = parse->component;
	unsigned i = 0;
	while (of[i].dc != of[component].dc || of[i].ac != of[component].ac)
		i++;
	return i;
}

size_t huffman_tables_bytes(const struct parse *parse, enum huffman_kind kind)
{
	size_t classes = 0;
	for (unsigned i = 0; i < parse->components; i++)
		classes += first_alike(parse, i) == i;
	return kind == HUFFMAN_NONE ? 0 : 2 * classes * sizeof(uint32_t) << table_bits(kind);
}

static int build_class(const struct parse *parse, const struct parse_component *component,
	enum huffman_kind kind, uint32_t *tables, struct huffman_code code[2])
{
	const struct parse_code *from[2] = {&parse->dc[component->dc], &parse->ac[component->ac]};
	struct followers followers;
	if (huffman_build_code(from[0], false, &code[0]) ||
		huffman_build_code(from[1], true, &code[1]))
		return STEPBACK_TABLES;
	if (kind == HUFFMAN_CODES)
		find_followers(from[1], &followers);
	for (int ac = 0; ac < 2; ac++) {
		if (kind == HUFFMAN_VALUES)
			huffman_build_values(
				from[ac], ac, tables + ((size_t)ac << HUFFMAN_VALUE_BITS));
		else if (kind == HUFFMAN_CODES)
			build_codes(from[ac], ac, &followers,
				tables + ((size_t)ac << HUFFMAN_CODE_BITS));
	}
	return 0;
}

static struct huffman_place place_of(
	const uint32_t *tables, enum huffman_kind kind, unsigned class, unsigned component)
{
	struct huffman_place place = {.class_of = class, .component_of = component};
	if (tables) {
		place.dc = tables + ((size_t)(2 * class) << table_bits(kind));
		place.ac = tables + ((size_t)(2 * class + 1) << table_bits(kind));
	}
	return place;
}

int huffman_build(
	const struct parse *parse, enum huffman_kind kind, uint32_t *tables, struct huffman *ret)
{
	unsigned class_of[BLOCKS_COMPONENTS];
	*ret = (struct huffman){.components = parse->components, .tables = tables};
	for (unsigned i = 0; i < parse->components; i++) {
		const struct parse_component *c = &parse->component[i];
		unsigned alike = first_alike(parse, i);
		unsigned class = alike == i ? ret->classes++ : class_of[alike];
		uint32_t *place =
			tables ? tables + ((size_t)(2 * class) << table_bits(kind)) : NULL;
		if (alike == i && build_class(parse, c, kind, place, ret->code[class]))
			return STEPBACK_TABLES;
		class_of[i] = class;
		for (int block = 0; block < c->h * c->v; block++)
			ret->place[ret->in_mcu++] = place_of(tables, kind, class, i);
	}
	for (unsigned i = 0; i < ret->in_mcu; i++)
		ret->place[i].next = &ret->place[(i + 1) % ret->in_mcu];
	return 0;
}

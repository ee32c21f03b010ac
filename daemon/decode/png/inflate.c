/* inflate: see inflate.h. The blocks' headers, the tables, stored blocks, and the careful loop. */
#include "decode/png/inflate.h"

#include "base/util.h"

#include <assert.h>
#include <string.h>

enum {
	LITLEN_CODES = 288,
	DIST_CODES = 32,
	LENGTH_CODES = 19, /* of the code that code lengths are sent in */
	LENGTH_BITS = 7,
	CODE_END = 256,
};

/* Entries for symbols, without their codes' lengths: see inflate.h. `extra` bits also go to the
 * low byte. */
#define VALUE(base, extra) ((uint32_t)(base) << 16 | (extra))

/* RFC 1951, 3.2.5: lengths, from symbol 257 on. */
static const uint32_t lengths[] = {VALUE(3, 0), VALUE(4, 0), VALUE(5, 0), VALUE(6, 0), VALUE(7, 0),
	VALUE(8, 0), VALUE(9, 0), VALUE(10, 0), VALUE(11, 1), VALUE(13, 1), VALUE(15, 1),
	VALUE(17, 1), VALUE(19, 2), VALUE(23, 2), VALUE(27, 2), VALUE(31, 2), VALUE(35, 3),
	VALUE(43, 3), VALUE(51, 3), VALUE(59, 3), VALUE(67, 4), VALUE(83, 4), VALUE(99, 4),
	VALUE(115, 4), VALUE(131, 5), VALUE(163, 5), VALUE(195, 5), VALUE(227, 5), VALUE(258, 0),
	INFLATE_BAD, INFLATE_BAD};

static const uint32_t distances[DIST_CODES] = {VALUE(1, 0), VALUE(2, 0), VALUE(3, 0), VALUE(4, 0),
	VALUE(5, 1), VALUE(7, 1), VALUE(9, 2), VALUE(13, 2), VALUE(17, 3), VALUE(25, 3),
	VALUE(33, 4), VALUE(49, 4), VALUE(65, 5), VALUE(97, 5), VALUE(129, 6), VALUE(193, 6),
	VALUE(257, 7), VALUE(385, 7), VALUE(513, 8), VALUE(769, 8), VALUE(1025, 9), VALUE(1537, 9),
	VALUE(2049, 10), VALUE(3073, 10), VALUE(4097, 11), VALUE(6145, 11), VALUE(8193, 12),
	VALUE(12289, 12), VALUE(16385, 13), VALUE(24577, 13), INFLATE_DIST_SPECIAL,
	INFLATE_DIST_SPECIAL};

static uint32_t litlen_symbol(unsigned symbol)
{
	if (symbol < CODE_END)
		return INFLATE_LITERAL | 1u << 24 | symbol << 8;
	return symbol == CODE_END ? INFLATE_END : lengths[symbol - CODE_END - 1];
}

static uint32_t dist_symbol(unsigned symbol)
{
	return distances[symbol];
}

static uint32_t length_symbol(unsigned symbol)
{
	return symbol << 16;
}

/* How to build a table. */
struct plan {
	unsigned codes, bits; /* symbols; bits of the first table */
	uint32_t (*symbol)(unsigned symbol);
	uint32_t link, bad; /* what marks an entry as such */
	bool values; /* entries have extra bits */
	bool may_lack; /* one code of one bit, or none at all, is enough */
	size_t entries; /* room */
};

static const struct plan litlen_plan = {LITLEN_CODES, INFLATE_LITLEN_BITS, litlen_symbol,
	INFLATE_LINK, INFLATE_BAD, true, false, INFLATE_LITLEN_ENTRIES};
static const struct plan dist_plan = {DIST_CODES, INFLATE_DIST_BITS, dist_symbol,
	INFLATE_LINK | INFLATE_DIST_SPECIAL, INFLATE_DIST_SPECIAL, true, true,
	INFLATE_DIST_ENTRIES};
static const struct plan length_plan = {
	LENGTH_CODES, LENGTH_BITS, length_symbol, 0, 0, false, false, 1 << LENGTH_BITS};

/* Adds the length of its code to an entry. */
static uint32_t with_length(const struct plan *plan, uint32_t entry, unsigned length)
{
	return plan->values ? entry + length + (length << 8) * !(entry & INFLATE_LITERAL)
			    : entry | length;
}

/* A code's lengths, sorted. */
struct code {
	unsigned count[INFLATE_CODE_MOST + 1]; /* how many codes have this length */
	uint16_t sorted[LITLEN_CODES]; /* symbols, by their codes */
	unsigned used;
	bool complete;
};

/* False: more codes than there are of these lengths. */
static bool code_sort(struct code *ret, const uint8_t *of, unsigned symbols)
{
	unsigned offset[INFLATE_CODE_MOST + 2] = {0};
	int left = 1;
	memset(ret->count, 0, sizeof(ret->count));
	for (unsigned i = 0; i < symbols; i++)
		ret->count[of[i]]++;
	for (unsigned length = 1; length <= INFLATE_CODE_MOST; length++) {
		left = 2 * left - (int)ret->count[length];
		if (left < 0)
			return false;
		offset[length + 1] = offset[length] + ret->count[length];
	}
	for (unsigned i = 0; i < symbols; i++)
		if (of[i])
			ret->sorted[offset[of[i]]++] = (uint16_t)i;
	ret->used = symbols - ret->count[0];
	ret->complete = left == 0;
	return true;
}

/* The code after this one, of the same length, both with their first bit lowest. `ones`: that many
 * ones, which is the last code. */
static unsigned code_next(unsigned code, unsigned ones)
{
	unsigned bit = 1u << (31 - __builtin_clz(code ^ ones));
	return (code & (bit - 1)) | bit;
}

static uint32_t entry_of(const struct plan *plan, unsigned symbol, unsigned length)
{
	return with_length(plan, plan->symbol(symbol), length);
}

/* Fills in the first table. Returns the first code that is longer, or UINT_MAX. */
static unsigned table_fill(const struct plan *plan, uint32_t *table, const struct code *code)
{
	const uint16_t *symbol = code->sorted;
	unsigned next = 0;
	for (unsigned length = 1; length <= plan->bits; length++) {
		unsigned size = 1u << length;
		for (unsigned i = 0; i < code->count[length]; i++) {
			table[next] = entry_of(plan, *symbol++, length);
			next = next == size - 1 ? UINT32_MAX : code_next(next, size - 1);
		}
		/* Entries that no code has reached yet are copied, too, and written later. */
		if (length < plan->bits)
			memcpy(table + size, table, size * sizeof(*table));
	}
	return next;
}

/* The bits of the subtable whose first code has this length, with `left` codes of it to come. */
static unsigned subtable_bits(
	const struct plan *plan, const struct code *code, unsigned length, unsigned left)
{
	unsigned bits = length - plan->bits;
	for (unsigned used = left; used < 1u << bits;
		used = 2 * used + code->count[plan->bits + bits])
		bits++;
	return bits;
}

/* Makes the subtables, from code `next` on. */
static bool table_link(
	const struct plan *plan, uint32_t *table, const struct code *code, unsigned next)
{
	const unsigned mask = (1u << plan->bits) - 1;
	unsigned prefix = UINT32_MAX, start = 0, end = 1u << plan->bits, at = 0;
	for (unsigned length = 1; length <= plan->bits; length++)
		at += code->count[length];
	for (unsigned length = plan->bits + 1; length <= INFLATE_CODE_MOST; length++)
		for (unsigned left = code->count[length]; left; left--) {
			if ((next & mask) != prefix) {
				unsigned bits = subtable_bits(plan, code, length, left);
				prefix = next & mask;
				start = end;
				end += 1u << bits;
				if (end > plan->entries)
					return false;
				table[prefix] = plan->link | start << 8 | bits << 24;
			}
			uint32_t entry = entry_of(plan, code->sorted[at++], length);
			for (unsigned i = start + (next >> plan->bits); i < end;
				i += 1u << (length - plan->bits))
				table[i] = entry;
			if (next != (1u << length) - 1)
				next = code_next(next, (1u << length) - 1);
		}
	return true;
}

static bool table_build(
	const struct plan *plan, uint32_t *table, const uint8_t *of, unsigned symbols)
{
	struct code code;
	if (!code_sort(&code, of, symbols))
		return false;
	if (!code.complete) {
		if (!plan->may_lack || code.used > 1 || code.used != code.count[1])
			return false;
		for (unsigned i = 0; i < 1u << plan->bits; i++)
			table[i] =
				i & 1 || !code.used ? plan->bad : entry_of(plan, code.sorted[0], 1);
		return true;
	}
	unsigned next = table_fill(plan, table, &code);
	return next == UINT32_MAX || table_link(plan, table, &code, next);
}

/* Joins literals whose codes fit into one look. Downwards: the second look of an entry goes to a
 * lower one, which is then still a single literal. */
static void table_pair(uint32_t *table)
{
	for (unsigned i = 1u << INFLATE_LITLEN_BITS; i-- > 0;) {
		uint32_t first = table[i], second = table[i >> (first & 31)];
		uint32_t bits = (first & 31) + (second & 31);
		bool both = first & second & INFLATE_LITERAL && bits <= INFLATE_LITLEN_BITS;
		uint32_t pair = INFLATE_LITERAL | 2u << 24 | (second & 0xff00) << 8 |
				(first & 0xff00) | bits;
		table[i] = both ? pair : first;
	}
}

static bool tables(
	struct inflate *inflate, const uint8_t *of, unsigned litlens, unsigned dists, bool fixed)
{
	inflate->fixed = false;
	if (inflate->tables++ == INFLATE_TABLES_MOST)
		return false;
	if (!table_build(&litlen_plan, inflate->litlen, of, litlens) ||
		!table_build(&dist_plan, inflate->dist, of + litlens, dists))
		return false;
	table_pair(inflate->litlen);
	inflate->fixed = fixed;
	return true;
}

/* ---- bits, one by one ---- */

/* Makes at least 56 bits available. After the input's end, they are zeros. */
static void top_up(struct inflate *inflate)
{
	while (inflate->count <= 56) {
		uint64_t byte = 0;
		if (inflate->in < inflate->in_end)
			byte = *inflate->in++;
		else
			inflate->made++;
		inflate->bits |= byte << inflate->count;
		inflate->count += 8;
	}
}

static unsigned take(struct inflate *inflate, unsigned bits)
{
	unsigned value = (unsigned)(inflate->bits & ((1ull << bits) - 1));
	inflate->bits >>= bits;
	inflate->count -= bits;
	return value;
}

/* Whether all bits that were taken are in the input. */
static bool sound(const struct inflate *inflate)
{
	return inflate->count >= inflate->made * 8;
}

static void input(struct inflate *inflate)
{
	if (!inflate->in_last && inflate->in_end - inflate->in < INFLATE_INPUT_LEAST)
		inflate->more(inflate->context, inflate);
}

/* Goes to the next whole byte. */
static void align(struct inflate *inflate)
{
	(void)take(inflate, inflate->count % 8);
}

bool inflate_begin(struct inflate *inflate)
{
	enum { METHOD = 8, WINDOW_MOST = 7, DICTIONARY = 0x20 };
	inflate->bits = 0;
	inflate->count = inflate->made = 0;
	inflate->state = INFLATE_HEAD;
	inflate->last = inflate->fixed = false;
	inflate->tables = 0;
	input(inflate);
	top_up(inflate);
	unsigned method = take(inflate, 8), flags = take(inflate, 8);
	return sound(inflate) && method % 16 == METHOD && method / 16 <= WINDOW_MOST &&
	       !(flags & DICTIONARY) && (method * 256 + flags) % 31 == 0;
}

bool inflate_sum(struct inflate *inflate, uint32_t *ret)
{
	uint32_t sum = 0;
	input(inflate);
	align(inflate);
	top_up(inflate);
	for (int i = 0; i < 4; i++)
		sum = sum << 8 | take(inflate, 8);
	*ret = sum;
	return sound(inflate);
}

/* ---- blocks ---- */

static void block_end(struct inflate *inflate)
{
	inflate->state = inflate->last ? INFLATE_ENDED : INFLATE_HEAD;
}

/* The whole bytes among the bits go back to the input. */
static bool stored_begin(struct inflate *inflate)
{
	align(inflate);
	top_up(inflate);
	unsigned size = take(inflate, 16), inverse = take(inflate, 16);
	if (!sound(inflate) || (size ^ inverse) != 0xffff)
		return false;
	inflate->in -= inflate->count / 8 - inflate->made;
	inflate->bits = 0;
	inflate->count = inflate->made = 0;
	inflate->stored = size;
	inflate->state = INFLATE_STORED;
	if (!size)
		block_end(inflate);
	return true;
}

static bool stored_copy(struct inflate *inflate, const uint8_t *stop)
{
	size_t size = UTIL_MIN(inflate->stored, (size_t)(stop - inflate->out));
	size = UTIL_MIN(size, (size_t)(inflate->in_end - inflate->in));
	memcpy(inflate->out, inflate->in, size);
	inflate->in += size;
	inflate->out += size;
	inflate->stored -= (unsigned)size;
	if (!inflate->stored)
		block_end(inflate);
	return size > 0;
}

static bool fixed_begin(struct inflate *inflate)
{
	uint8_t of[LITLEN_CODES + DIST_CODES];
	memset(of, 8, 144);
	memset(of + 144, 9, 112);
	memset(of + 256, 7, 24);
	memset(of + 280, 8, 8);
	memset(of + LITLEN_CODES, 5, DIST_CODES);
	return inflate->fixed || tables(inflate, of, LITLEN_CODES, DIST_CODES, true);
}

/* The lengths of `count` codes, sent in the code of `table`. */
static bool read_lengths(
	struct inflate *inflate, const uint32_t *table, uint8_t *to, unsigned count)
{
	enum { AGAIN = 16, ZEROS = 17, MANY_ZEROS = 18 };
	for (unsigned i = 0; i < count;) {
		top_up(inflate);
		uint32_t entry = table[inflate->bits & ((1u << LENGTH_BITS) - 1)];
		(void)take(inflate, entry & 0xff);
		unsigned symbol = entry >> 16, times = 1;
		if (symbol == AGAIN)
			times = 3 + take(inflate, 2);
		else if (symbol == ZEROS)
			times = 3 + take(inflate, 3);
		else if (symbol == MANY_ZEROS)
			times = 11 + take(inflate, 7);
		if (times > count - i || (symbol == AGAIN && !i))
			return false;
		uint8_t length = symbol < AGAIN ? (uint8_t)symbol : 0;
		memset(to + i, symbol == AGAIN ? to[i - 1] : length, times);
		i += times;
	}
	return sound(inflate);
}

static bool dynamic_begin(struct inflate *inflate)
{
	enum { LITLENS_MOST = 286, DISTS_MOST = 30 };
	static const uint8_t order[LENGTH_CODES] = {
		16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
	uint8_t of[LITLENS_MOST + DISTS_MOST], codes[LENGTH_CODES] = {0};
	uint32_t table[1 << LENGTH_BITS];
	unsigned litlens = take(inflate, 5) + 257, dists = take(inflate, 5) + 1;
	unsigned sent = take(inflate, 4) + 4;
	if (litlens > LITLENS_MOST || dists > DISTS_MOST)
		return false;
	for (unsigned i = 0; i < sent; i++) {
		top_up(inflate);
		codes[order[i]] = (uint8_t)take(inflate, 3);
	}
	return table_build(&length_plan, table, codes, LENGTH_CODES) &&
	       read_lengths(inflate, table, of, litlens + dists) && of[CODE_END] &&
	       tables(inflate, of, litlens, dists, false);
}

static bool block_begin(struct inflate *inflate)
{
	enum { STORED, FIXED, DYNAMIC };
	top_up(inflate);
	inflate->last = take(inflate, 1);
	inflate->state = INFLATE_CODED;
	switch (take(inflate, 2)) {
	case STORED:
		return stored_begin(inflate);
	case FIXED:
		return fixed_begin(inflate) && sound(inflate);
	case DYNAMIC:
		return dynamic_begin(inflate);
	default:
		return false;
	}
}

/* ---- symbols, one by one ---- */

static uint32_t look(
	const struct inflate *inflate, const uint32_t *table, unsigned bits, uint32_t link)
{
	uint32_t entry = table[inflate->bits & ((1u << bits) - 1)];
	if ((entry & link) == link)
		entry = table[(entry >> 8 & 0xffff) +
			      (inflate->bits >> bits & ((1u << (entry >> 24 & 15)) - 1))];
	return entry;
}

/* A length or a distance with its extra bits. */
static size_t value(struct inflate *inflate, uint32_t entry)
{
	(void)take(inflate, entry >> 8 & 15);
	return (entry >> 16 & 0x7fff) + take(inflate, (entry & 0xff) - (entry >> 8 & 15));
}

static enum inflate_stop match(struct inflate *inflate, uint32_t entry)
{
	size_t length = value(inflate, entry);
	entry = look(
		inflate, inflate->dist, INFLATE_DIST_BITS, INFLATE_LINK | INFLATE_DIST_SPECIAL);
	if (entry & INFLATE_DIST_SPECIAL)
		return INFLATE_FAILED;
	size_t distance = value(inflate, entry);
	if (!sound(inflate) || distance > (size_t)(inflate->out - inflate->start))
		return INFLATE_FAILED;
	for (; length; length--, inflate->out++)
		*inflate->out = *(inflate->out - distance);
	return INFLATE_MORE;
}

static enum inflate_stop symbol_read(struct inflate *inflate)
{
	top_up(inflate);
	uint32_t entry = look(inflate, inflate->litlen, INFLATE_LITLEN_BITS, INFLATE_LINK);
	if (!(entry & (INFLATE_LITERAL | INFLATE_SPECIAL)))
		return match(inflate, entry);
	if (entry & INFLATE_LITERAL) {
		(void)take(inflate, entry & 0xff);
		if (!sound(inflate))
			return INFLATE_FAILED;
		*inflate->out++ = (uint8_t)(entry >> 8);
		if ((entry >> 24 & 3) == 2)
			*inflate->out++ = (uint8_t)(entry >> 16);
		return INFLATE_MORE;
	}
	if (!(entry & INFLATE_END))
		return INFLATE_FAILED;
	(void)take(inflate, entry & 0xff);
	return sound(inflate) ? INFLATE_BLOCK : INFLATE_FAILED;
}

static enum inflate_stop coded_careful(struct inflate *inflate, const uint8_t *stop)
{
	enum inflate_stop result = INFLATE_MORE;
	while (result == INFLATE_MORE && inflate->out < stop)
		result = symbol_read(inflate);
	return result;
}

static bool coded_read(struct inflate *inflate, inflate_coded_fn *coded, const uint8_t *stop)
{
	bool near_end = inflate->in_end - inflate->in < INFLATE_INPUT_MARGIN;
	enum inflate_stop result = (near_end ? coded_careful : coded)(inflate, stop);
	if (result == INFLATE_BLOCK)
		block_end(inflate);
	return result != INFLATE_FAILED;
}

bool inflate_run(struct inflate *inflate, inflate_coded_fn *coded, const uint8_t *stop)
{
	bool fine = true;
	while (fine && inflate->state != INFLATE_ENDED && inflate->out < stop) {
		input(inflate);
		if (inflate->state == INFLATE_HEAD)
			fine = block_begin(inflate);
		else if (inflate->state == INFLATE_STORED)
			fine = stored_copy(inflate, stop);
		else
			fine = coded_read(inflate, coded, stop);
	}
	return fine;
}

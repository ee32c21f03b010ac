/* inflate_body: the loop over a block's symbols (inflate.h), compiled once per instruction set. The
 * including file defines BODY_NAME. */
#include "decode/png/inflate.h"

#include <string.h>

#define BODY_INLINE static inline __attribute__((always_inline))

BODY_INLINE uint64_t body_load(const uint8_t *p)
{
	uint64_t value;
	memcpy(&value, p, sizeof(value));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	value = __builtin_bswap64(value);
#endif
	return value;
}

/* Copies a match. May write up to 31 bytes after its end. */
BODY_INLINE void body_copy(uint8_t *to, size_t distance, size_t length)
{
	const uint8_t *from = to - distance, *end = to + length;
	if (distance >= 16) {
		do {
			memcpy(to, from, 16);
			to += 16;
			from += 16;
		} while (to < end);
	} else if (distance >= 8) {
		do {
			memcpy(to, from, 8);
			to += 8;
			from += 8;
		} while (to < end);
	} else if (distance == 1) {
		uint8_t byte = *from;
		do {
			memset(to, byte, 16);
			to += 16;
		} while (to < end);
	} else {
		/* Of the eight bytes, the first `distance` are right. */
		do {
			memmove(to, from, 8);
			to += distance;
			from += distance;
		} while (to < end);
	}
}

/* Tops `bits` up to at least 56. Only the low byte of `count` means anything. */
#define REFILL()                                       \
	do {                                           \
		bits |= body_load(in) << (count & 63); \
		in += 7 - (count >> 3 & 7);            \
		count |= 56;                           \
	} while (0)

#define LOOK() (entry = litlen[bits & ((1u << INFLATE_LITLEN_BITS) - 1)])

/* Takes the bits of an entry, as many as its low byte says. */
#define TAKE()                       \
	do {                         \
		bits >>= entry & 63; \
		count -= entry;      \
	} while (0)

/* Takes one or two literals. */
#define LITERALS()                               \
	do {                                     \
		TAKE();                          \
		out[0] = (uint8_t)(entry >> 8);  \
		out[1] = (uint8_t)(entry >> 16); \
		out += entry >> 24 & 3;          \
	} while (0)

enum inflate_stop BODY_NAME(struct inflate *inflate, const uint8_t *stop)
{
	const uint32_t *const litlen = inflate->litlen, *const dist = inflate->dist;
	const uint8_t *const in_stop = inflate->in_end - INFLATE_INPUT_MARGIN;
	const uint8_t *in = inflate->in;
	uint8_t *out = inflate->out;
	uint64_t bits = inflate->bits;
	uint32_t count = inflate->count, entry;
	enum inflate_stop result = INFLATE_MORE;
	REFILL();
	LOOK();
	do {
		if (entry & INFLATE_LITERAL) {
			/* 56 bits are three entries of 12, and a look at a fourth. */
			LITERALS();
			LOOK();
			if (entry & INFLATE_LITERAL) {
				LITERALS();
				LOOK();
				if (entry & INFLATE_LITERAL) {
					LITERALS();
					LOOK();
				}
			}
			REFILL();
			if (entry & INFLATE_LITERAL)
				continue;
		}
		if (entry & INFLATE_SPECIAL) {
			if (entry & INFLATE_LINK) {
				uint64_t rest = bits >> INFLATE_LITLEN_BITS;
				entry = litlen[(entry >> 8 & 0xffff) +
					       (rest & ((1u << (entry >> 24 & 15)) - 1))];
			}
			if (entry & INFLATE_LITERAL) {
				LITERALS();
				REFILL();
				LOOK();
				continue;
			}
			if (entry & INFLATE_SPECIAL) {
				result = entry & INFLATE_END ? INFLATE_BLOCK : INFLATE_FAILED;
				if (result == INFLATE_BLOCK)
					TAKE();
				break;
			}
		}
		/* A length and a distance with all their extra bits have at most 48. */
		size_t length = (entry >> 16 & 0x1ff) +
				((bits & ((1ull << (entry & 63)) - 1)) >> (entry >> 8 & 15));
		TAKE();
		uint32_t far = dist[bits & ((1u << INFLATE_DIST_BITS) - 1)];
		if (far & INFLATE_DIST_SPECIAL) {
			uint64_t rest = bits >> INFLATE_DIST_BITS;
			if (far & INFLATE_LINK)
				far = dist[(far >> 8 & 0xffff) +
					   (rest & ((1u << (far >> 24 & 15)) - 1))];
			if (far & INFLATE_DIST_SPECIAL) {
				result = INFLATE_FAILED;
				break;
			}
		}
		size_t distance =
			(far >> 16) + ((bits & ((1ull << (far & 63)) - 1)) >> (far >> 8 & 15));
		entry = far;
		TAKE();
		if (distance > (size_t)(out - inflate->start)) {
			result = INFLATE_FAILED;
			break;
		}
		REFILL();
		LOOK();
		body_copy(out, distance, length);
		out += length;
	} while (in < in_stop && out < stop);
	inflate->in = in;
	inflate->out = out;
	inflate->bits = bits;
	inflate->count = count & 0xff;
	return result;
}

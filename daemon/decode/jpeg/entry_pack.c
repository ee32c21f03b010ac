/* entry_pack: see entry_pack.h. Pure. */
#include "decode/jpeg/entry_pack.h"

#include "base/util.h"

#include <stdbool.h>
#include <string.h>

/* What differs from one entry point to the next. */
enum { FIELD_BITS, FIELD_STUFFED, FIELD_DC, FIELDS = FIELD_DC + BLOCKS_COMPONENTS };

enum {
	PACK_VERSION = 2,
	PACK_INTERVAL_MOST = 20, /* as a power of two */
	RICE_MOST = 15, /* the largest parameter of any field */
	RICE_PLAIN = 24, /* after so many ones the value follows as it is */
	RICE_PLAIN_BITS = 32,
	LOOK_BITS = 57, /* valid bits of what look() returns; what put() takes at most */
	SOME = 64, /* entry points whose codes are measured at a time */
};

/* The largest parameter of each field. Their sum is LOOK_BITS. */
static const uint8_t rice_most[FIELDS] = {RICE_MOST, 6, 12, 12, 12};

struct pack_head {
	uint32_t check;
	uint16_t bytes, count;
	uint32_t size;
	uint8_t version, interval;
	uint8_t rice[FIELDS];
	uint8_t zero[5];
	uint64_t checksum;
};
_Static_assert(sizeof(struct pack_head) == ENTRY_PACK_HEAD, "the head of a pack");
/* The longest codes of an entry point, and the bytes that are loaded after them. */
_Static_assert((LOOK_BITS + FIELDS * (RICE_PLAIN + RICE_PLAIN_BITS)) / 8 + 1 + sizeof(uint64_t) <=
		       ENTRY_PACK_SLACK,
	"an entry point's codes may begin at the pack's last bit");

struct bits {
	uint8_t *bytes;
	size_t at; /* bits */
};

static uint32_t pack_check(const uint8_t *pack, size_t bytes)
{
	return (uint32_t)checksum_c(pack + sizeof(uint32_t), bytes - sizeof(uint32_t));
}

static uint32_t zigzag(int32_t value)
{
	return ((uint32_t)value << 1) ^ (uint32_t)(value >> 31);
}

static int32_t unzigzag(uint32_t value)
{
	return (int32_t)(value >> 1) ^ -(int32_t)(value & 1);
}

/* Computes the fields. False: the distance does not fit a code. */
static bool fields_of(const struct entry_point *at, uint32_t *ret)
{
	uint64_t bits = at[1].bit - at[0].bit;
	ret[FIELD_BITS] = (uint32_t)bits;
	ret[FIELD_STUFFED] = at[0].stuffed;
	for (int i = 0; i < BLOCKS_COMPONENTS; i++)
		ret[FIELD_DC + i] = zigzag(at[1].dc[i] - at[0].dc[i]);
	return bits <= UINT32_MAX;
}

static unsigned rice_bits(uint32_t value, unsigned k)
{
	uint32_t ones = value >> k;
	return k + (ones < RICE_PLAIN ? ones + 1 : RICE_PLAIN + RICE_PLAIN_BITS);
}

/* The parameters that are tried for values of this mean: the best one is near its logarithm. */
static void rice_range(uint64_t mean, unsigned most, unsigned *ret_least, unsigned *ret_most)
{
	unsigned log = mean ? 63 - (unsigned)__builtin_clzll(mean) : 0;
	*ret_least = UTIL_MIN(log > 2 ? log - 2 : 0, most);
	*ret_most = UTIL_MIN(log + 1, most);
}

/* Adds the bits that the values of one field take with each parameter from `least` to `most`. */
static void rice_sum(
	const uint32_t value[SOME], uint32_t count, unsigned least, unsigned most, uint64_t *bits)
{
	for (unsigned k = least; k <= most; k++) {
		uint32_t sum = 0;
		for (uint32_t i = 0; i < count; i++)
			sum += rice_bits(value[i], k);
		bits[k] += sum;
	}
}

/* Chooses the parameters that make the codes shortest, of those that are tried; returns how many
 * bits all codes take. UINT64_MAX: they cannot be coded. */
static uint64_t rice_choose(const struct entry_point *points, uint32_t count, uint8_t rice[FIELDS])
{
	uint64_t sum[FIELDS] = {0}, bits[FIELDS][RICE_MOST + 1] = {0}, all = 0;
	uint32_t field[FIELDS], some[FIELDS][SOME];
	unsigned least[FIELDS], most[FIELDS];
	for (uint32_t i = 0; i + 1 < count; i++) {
		if (!fields_of(points + i, field))
			return UINT64_MAX;
		for (int f = 0; f < FIELDS; f++)
			sum[f] += field[f];
	}
	for (int f = 0; f < FIELDS; f++)
		rice_range(sum[f] / (count - 1), rice_most[f], &least[f], &most[f]);
	for (uint32_t from = 0; from + 1 < count; from += SOME) {
		uint32_t here = UTIL_MIN(count - 1 - from, (uint32_t)SOME);
		for (uint32_t i = 0; i < here; i++) {
			(void)fields_of(points + from + i, field);
			for (int f = 0; f < FIELDS; f++)
				some[f][i] = field[f];
		}
		for (int f = 0; f < FIELDS; f++)
			rice_sum(some[f], here, least[f], most[f], bits[f]);
	}
	for (int f = 0; f < FIELDS; f++) {
		unsigned best = least[f];
		for (unsigned k = best; k <= most[f]; k++)
			if (bits[f][k] < bits[f][best])
				best = k;
		rice[f] = (uint8_t)best;
		all += bits[f][best];
	}
	return all;
}

static uint64_t load_word(const uint8_t *bytes)
{
	uint64_t word;
	memcpy(&word, bytes, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	word = __builtin_bswap64(word);
#endif
	return word;
}

/* Appends up to LOOK_BITS bits to what is zero from there on. */
static void put(struct bits *to, uint64_t value, unsigned bits)
{
	uint8_t *at = to->bytes + to->at / 8;
	uint64_t word = load_word(at) | value << to->at % 8;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	word = __builtin_bswap64(word);
#endif
	memcpy(at, &word, sizeof(word));
	to->at += bits;
}

static uint32_t low_bits(uint32_t value, unsigned bits)
{
	return value & ((UINT32_C(1) << bits) - 1);
}

/* Nearly always, all remainders are one word, and all quotients another one. */
static void put_point(struct bits *to, const uint32_t field[FIELDS], const uint8_t rice[FIELDS])
{
	uint64_t word = 0;
	unsigned bits = 0;
	for (int f = 0; f < FIELDS; f++) {
		word |= (uint64_t)low_bits(field[f], rice[f]) << bits;
		bits += rice[f];
	}
	put(to, word, bits);
	word = bits = 0;
	for (int f = 0; f < FIELDS; f++) {
		uint32_t ones = UTIL_MIN(field[f] >> rice[f], (uint32_t)RICE_PLAIN);
		unsigned more = ones + (ones < RICE_PLAIN);
		if (bits + more > LOOK_BITS) {
			put(to, word, bits);
			word = bits = 0;
		}
		word |= ((UINT64_C(1) << ones) - 1) << bits;
		bits += more;
		if (ones == RICE_PLAIN) {
			put(to, word, bits);
			put(to, field[f], RICE_PLAIN_BITS);
			word = bits = 0;
		}
	}
	put(to, word, bits);
}

/* At least LOOK_BITS bits, from bit `at` on. */
static uint64_t look(const uint8_t *bytes, size_t at)
{
	return load_word(bytes + at / 8) >> at % 8;
}

/* Reads the fields of the next entry point. Nearly always, all quotients are in one word. */
static void take_fields(struct bits *from, const uint8_t rice[FIELDS], uint32_t field[FIELDS])
{
	uint64_t word = look(from->bytes, from->at);
	for (int f = 0; f < FIELDS; f++) {
		field[f] = low_bits((uint32_t)word, rice[f]);
		word >>= rice[f];
		from->at += rice[f];
	}
	unsigned left = LOOK_BITS;
	word = look(from->bytes, from->at);
	for (int f = 0; f < FIELDS; f++) {
		if (left <= RICE_PLAIN) {
			word = look(from->bytes, from->at);
			left = LOOK_BITS;
		}
		unsigned ones = (unsigned)__builtin_ctzll(~word | UINT64_C(1) << RICE_PLAIN);
		field[f] |= ones << rice[f];
		unsigned bits = ones + 1;
		if (ones == RICE_PLAIN) {
			field[f] = (uint32_t)(look(from->bytes, from->at) >> RICE_PLAIN);
			bits = RICE_PLAIN + RICE_PLAIN_BITS;
			left = bits; /* looks again */
		}
		from->at += bits;
		left -= bits;
		word >>= bits;
	}
}

/* Drops every second entry point. False: too many zeros between those that stay. */
static bool halve(struct entry_point *points, uint32_t *count)
{
	uint32_t kept = (*count + 1) / 2;
	for (uint32_t i = 0; i < kept; i++) {
		uint32_t stuffed = points[2 * i].stuffed;
		if (2 * i + 1 < *count)
			stuffed += points[2 * i + 1].stuffed;
		if (stuffed > UINT16_MAX)
			return false;
		points[i] = points[2 * i];
		points[i].stuffed = (uint16_t)stuffed;
	}
	*count = kept;
	return true;
}

uint32_t entry_pack_interval(const struct parse *parse)
{
	uint32_t interval = ENTRY_PACK_INTERVAL;
	while (entry_point_count(parse, interval) > ENTRY_PACK_POINTS)
		interval *= 2;
	return interval;
}

/* Reduces the entry points until they fit into `room` bytes after the head; returns how many are
 * left; 0: none fit. */
static uint32_t fit(struct entry_point *points, uint32_t count, struct pack_head *head, size_t room)
{
	while (count > 1) {
		if (rice_choose(points, count, head->rice) <= (uint64_t)room * 8)
			return count;
		if (!halve(points, &count))
			return 0;
		head->interval++;
	}
	return 0;
}

size_t entry_pack_pack(const uint8_t *data, size_t size, checksum_fn *checksum,
	struct entry_point *entry_points, uint32_t count, uint32_t interval, uint8_t *out,
	size_t room)
{
	struct pack_head head = {.version = PACK_VERSION};
	uint32_t field[FIELDS];
	if (room > ENTRY_PACK_MOST)
		room = ENTRY_PACK_MOST;
	if (room < sizeof(head) || size > UINT32_MAX)
		return 0;
	head.interval = (uint8_t)__builtin_ctz(interval / ENTRY_PACK_INTERVAL);
	count = fit(entry_points, count, &head, room - sizeof(head));
	if (!count)
		head = (struct pack_head){.version = PACK_VERSION};
	head.count = (uint16_t)count;
	head.size = (uint32_t)size;
	head.checksum = checksum(data, size);
	memset(out, 0, room + ENTRY_PACK_SLACK);
	struct bits to = {.bytes = out, .at = sizeof(head) * 8};
	for (uint32_t i = 0; i + 1 < count; i++) {
		(void)fields_of(entry_points + i, field);
		put_point(&to, field, head.rice);
	}
	head.bytes = (uint16_t)((to.at + 7) / 8);
	memcpy(out, &head, sizeof(head));
	head.check = pack_check(out, head.bytes);
	memcpy(out, &head, sizeof(head));
	return head.bytes;
}

/* Reads the next entry point. False: it cannot be right for a file that ends at bit `end`. */
static bool take_point(
	struct bits *from, const uint8_t rice[FIELDS], uint64_t end, struct entry_point *at)
{
	uint32_t field[FIELDS];
	int32_t strange = 0;
	take_fields(from, rice, field);
	at[1].bit = at[0].bit + field[FIELD_BITS];
	at[1].stuffed = 0;
	at[0].stuffed = (uint16_t)field[FIELD_STUFFED];
	for (int i = 0; i < BLOCKS_COMPONENTS; i++) {
		int64_t dc = (int64_t)at[0].dc[i] + unzigzag(field[FIELD_DC + i]);
		strange |= dc < -BLOCKS_DC || dc > BLOCKS_DC;
		at[1].dc[i] = (int16_t)dc;
	}
	return !strange && at[1].bit < end && field[FIELD_STUFFED] <= UINT16_MAX &&
	       field[FIELD_STUFFED] <= field[FIELD_BITS] / 8 + 1;
}

static bool take_points(const struct parse *parse, const struct pack_head *head,
	const uint8_t *pack, struct entry_point *points)
{
	struct bits from = {.bytes = (uint8_t *)pack, .at = sizeof(*head) * 8};
	points[0] = entry_point_first(parse);
	for (uint32_t i = 0; i + 1 < head->count; i++)
		if (from.at > (size_t)head->bytes * 8 ||
			!take_point(&from, head->rice, (uint64_t)head->size * 8, points + i))
			return false;
	return (from.at + 7) / 8 == head->bytes;
}

/* Whether the head may belong to a pack of this file. */
static bool head_fits(const struct parse *parse, const uint8_t *data, size_t size,
	checksum_fn *checksum, const struct pack_head *head, const uint8_t *pack, size_t bytes)
{
	if (head->version != PACK_VERSION || head->size != size || head->bytes < sizeof(*head) ||
		head->bytes > bytes || head->interval > PACK_INTERVAL_MOST ||
		head->count > ENTRY_PACK_POINTS || head->count == 1)
		return false;
	for (int f = 0; f < FIELDS; f++)
		if (head->rice[f] > rice_most[f])
			return false;
	uint32_t interval = (uint32_t)ENTRY_PACK_INTERVAL << head->interval;
	return (!head->count || interval >= entry_pack_interval(parse)) &&
	       head->count <= entry_point_count(parse, interval) &&
	       head->check == pack_check(pack, head->bytes) &&
	       head->checksum == checksum(data, size);
}

enum entry_pack_found entry_pack_unpack(const struct parse *parse, const uint8_t *data, size_t size,
	checksum_fn *checksum, const uint8_t *pack, size_t bytes, struct entry_point *points,
	uint32_t *ret_count, uint32_t *ret_interval)
{
	static const struct pack_head empty;
	struct pack_head head = {0};
	memcpy(&head, pack, bytes < sizeof(head) ? bytes : sizeof(head));
	if (memcmp(&head, &empty, sizeof(head)) == 0)
		return ENTRY_PACK_EMPTY;
	if (!head_fits(parse, data, size, checksum, &head, pack, bytes))
		return ENTRY_PACK_FOREIGN;
	if (!head.count)
		return ENTRY_PACK_NONE;
	if (!take_points(parse, &head, pack, points))
		return ENTRY_PACK_FOREIGN;
	*ret_count = head.count;
	*ret_interval = (uint32_t)ENTRY_PACK_INTERVAL << head.interval;
	return ENTRY_PACK_FOUND;
}

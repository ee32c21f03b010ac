/* places: see places.h. */
#include "definition/shuffle/places.h"

#include "base/hash.h"

static const struct list_words places_words = {
	"shuffle: blocks", "sample numbers of the subset, in the order of the dataset"};

/* Numbers that are sorted where they are: the budget has no room for a second copy. */
struct places {
	uint32_t *narrow; /* or, where NULL: */
	uint64_t *wide;
};

static uint64_t places_get(const struct places *places, uint64_t at)
{
	return places->narrow ? places->narrow[at] : places->wide[at];
}

static void places_set(const struct places *places, uint64_t at, uint64_t value)
{
	if (places->narrow)
		places->narrow[at] = (uint32_t)value;
	else
		places->wide[at] = value;
}

/* Moves `value` down from `at` to where it belongs in the heap of the first `count`. */
static void places_sink(const struct places *places, uint64_t at, uint64_t count, uint64_t value)
{
	for (uint64_t child; (child = 2 * at + 1) < count; at = child) {
		uint64_t most = places_get(places, child);
		if (child + 1 < count && places_get(places, child + 1) > most)
			most = places_get(places, ++child);
		if (most <= value)
			break;
		places_set(places, at, most);
	}
	places_set(places, at, value);
}

static void places_sort(const struct places *places, uint64_t count)
{
	for (uint64_t at = count / 2; at-- > 0;)
		places_sink(places, at, count, places_get(places, at));
	for (uint64_t left = count; left-- > 1;) {
		const uint64_t last = places_get(places, left);
		places_set(places, left, places_get(places, 0));
		places_sink(places, 0, left, last);
	}
}

static bool places_sorted(const struct order *order)
{
	if (order->subset.of)
		return false;
	/* Without a subset a place is its sample. */
	if (!order->subset.narrow && !order->subset.wide)
		return true;
	for (uint64_t at = 1; at < order->samples; at++)
		if (order_pick(order, at - 1) > order_pick(order, at))
			return false;
	return true;
}

static bool places_narrow(const struct order *order)
{
	return order->subset.of ? order->subset.of - 1 <= UINT32_MAX : order->subset.narrow != NULL;
}

static uint64_t places_hash(const struct order *order, uint64_t hash)
{
	const uint64_t h = hash_bytes(HASH_SEED, "places", 6);
	if (!order->subset.of)
		return hash_mix(hash_u64(h, hash));
	return hash_mix(hash_u64(hash_u64(h, order->subset.of), order->subset.from));
}

int places_open(struct list_shelf *shelf, const struct order *order, uint64_t hash,
	struct list **ret, struct fault *fault)
{
	const uint64_t mine = places_hash(order, hash);
	*ret = NULL;
	if (places_sorted(order))
		return 0;
	*ret = list_find(shelf, LIST_PLACES, order->samples, mine);
	if (*ret)
		return 0;
	struct list *list;
	const bool narrow = places_narrow(order);
	int result = list_new(shelf, &places_words, LIST_PLACES, order->samples,
		narrow ? sizeof(uint32_t) : sizeof(uint64_t), &list, fault);
	if (result)
		return result;
	const struct places places = {narrow ? list->memory : NULL, narrow ? NULL : list->memory};
	for (uint64_t at = 0; at < order->samples; at++)
		places_set(&places, at, order_pick(order, at));
	places_sort(&places, order->samples);
	list->hash = mine;
	*ret = list_put(shelf, list);
	return 0;
}

/* members: see members.h. Pure functions. */
#include "order/members.h"

#include <assert.h>
#include <string.h>

enum { MEMBERS_WORD = 64, MEMBERS_BLOCK = 64 /* words */ };

static uint32_t members_planes(uint32_t classes)
{
	assert(classes >= 1 && classes <= MEMBERS_CLASSES);
	return classes > 1 ? 32u - (uint32_t)__builtin_clz(classes - 1) : 0;
}

static uint64_t members_words_of(uint64_t places)
{
	return places / MEMBERS_WORD + (places % MEMBERS_WORD != 0);
}

static uint64_t members_blocks(uint64_t places)
{
	uint64_t words = members_words_of(places);
	return words / MEMBERS_BLOCK + (words % MEMBERS_BLOCK != 0);
}

uint64_t members_words(uint64_t places, uint32_t classes)
{
	uint64_t words = members_words_of(places) * members_planes(classes) +
			 members_blocks(places) * classes;
	return words ? words : 1;
}

struct members members_lay(uint64_t places, uint32_t classes, uint64_t *memory)
{
	uint32_t planes = members_planes(classes);
	return (struct members){
		.places = places,
		.classes = classes,
		.planes = planes,
		.bits = memory,
		.before = memory + members_words_of(places) * planes,
	};
}

void members_set(struct members *members, uint64_t place, uint32_t class_number)
{
	assert(place < members->places && class_number < members->classes);
	uint64_t *word = members->bits + place / MEMBERS_WORD * members->planes;
	uint64_t bit = (uint64_t)1 << place % MEMBERS_WORD;
	for (uint32_t i = 0; i < members->planes; i++)
		word[i] = class_number >> i & 1 ? word[i] | bit : word[i] & ~bit;
}

uint32_t members_get(const struct members *members, uint64_t place)
{
	assert(place < members->places);
	const uint64_t *word = members->bits + place / MEMBERS_WORD * members->planes;
	uint32_t class_number = 0;
	for (uint32_t i = 0; i < members->planes; i++)
		class_number |= (uint32_t)(word[i] >> place % MEMBERS_WORD & 1) << i;
	return class_number;
}

/* One bit for each of the 64 places of a word that belongs to the class. */
static uint64_t members_match(const struct members *members, uint64_t number, uint32_t class_number)
{
	const uint64_t *word = members->bits + number * members->planes;
	uint64_t left = members->places - number * MEMBERS_WORD;
	uint64_t match = left < MEMBERS_WORD ? ((uint64_t)1 << left) - 1 : UINT64_MAX;
	for (uint32_t i = 0; i < members->planes; i++)
		match &= class_number >> i & 1 ? word[i] : ~word[i];
	return match;
}

static void members_add(const struct members *members, uint64_t block, uint64_t *counts)
{
	uint64_t words = members_words_of(members->places), at = block * MEMBERS_BLOCK;
	for (uint64_t i = at; i < at + MEMBERS_BLOCK && i < words; i++)
		for (uint32_t c = 0; c < members->classes; c++)
			counts[c] += (uint64_t)__builtin_popcountll(members_match(members, i, c));
}

void members_count(struct members *members, uint64_t ret_counts[MEMBERS_CLASSES])
{
	uint64_t counts[MEMBERS_CLASSES] = {0};
	for (uint64_t block = 0; block < members_blocks(members->places); block++) {
		memcpy(members->before + block * members->classes, counts,
			members->classes * sizeof counts[0]);
		members_add(members, block, counts);
	}
	memcpy(ret_counts, counts, sizeof counts);
}

static uint64_t members_before(const struct members *members, uint32_t class_number, uint64_t block)
{
	return members->before[block * members->classes + class_number];
}

/* The last block with at most `rank` members before it. */
static uint64_t members_block_of(
	const struct members *members, uint32_t class_number, uint64_t rank)
{
	uint64_t low = 0, high = members_blocks(members->places) - 1;
	while (low < high) {
		uint64_t middle = high - (high - low) / 2;
		if (members_before(members, class_number, middle) <= rank)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

uint64_t members_find(const struct members *members, uint32_t class_number, uint64_t rank)
{
	assert(members->places && class_number < members->classes);
	uint64_t block = members_block_of(members, class_number, rank);
	uint64_t number = block * MEMBERS_BLOCK;
	uint64_t match = members_match(members, number, class_number);
	rank -= members_before(members, class_number, block);
	for (uint64_t here; rank >= (here = (uint64_t)__builtin_popcountll(match)); rank -= here) {
		number++;
		assert(number < members_words_of(members->places));
		match = members_match(members, number, class_number);
	}
	for (; rank; rank--)
		match &= match - 1;
	return number * MEMBERS_WORD + (uint64_t)__builtin_ctzll(match);
}

uint64_t members_rank(const struct members *members, uint32_t class_number, uint64_t place)
{
	assert(place < members->places);
	uint64_t number = place / MEMBERS_WORD, block = number / MEMBERS_BLOCK;
	uint64_t rank = members_before(members, class_number, block);
	for (uint64_t i = block * MEMBERS_BLOCK; i < number; i++)
		rank += (uint64_t)__builtin_popcountll(members_match(members, i, class_number));
	uint64_t below = ((uint64_t)1 << place % MEMBERS_WORD) - 1;
	return rank +
	       (uint64_t)__builtin_popcountll(members_match(members, number, class_number) & below);
}

/* members: which of a few classes each place of [0, n) belongs to, and the r-th member of a class.
 *
 * The number of the class is stored in binary: one bit per place in each of ceil(log2(classes))
 * planes, and counts every 4,096 places. So 3 classes take 0.27 bytes per place, and 64 classes
 * take 0.88. The memory belongs to the caller.
 *
 * Pure functions. A table may be read by any thread once members_count has returned. */
#pragma once

#include <stdint.h>

enum { MEMBERS_CLASSES = 64 };

struct members {
	uint64_t places;
	uint32_t classes, planes;
	uint64_t *bits; /* `planes` words for every 64 places */
	uint64_t *before; /* `classes` counts for every 4,096 places: members at lower places */
};

/* The words of 8 bytes that a table needs, at least 1. */
uint64_t members_words(uint64_t places, uint32_t classes);

/* Lays a table into zeroed memory of members_words words: every place belongs to class 0. */
struct members members_lay(uint64_t places, uint32_t classes, uint64_t *memory);

void members_set(struct members *members, uint64_t place, uint32_t class_number);
uint32_t members_get(const struct members *members, uint64_t place);

/* Call after the last members_set: makes the counts, and writes how many members each class has. */
void members_count(struct members *members, uint64_t ret_counts[MEMBERS_CLASSES]);

/* The place of a class's member number `rank`, which is below the class's count. */
uint64_t members_find(const struct members *members, uint32_t class_number, uint64_t rank);

/* How many members of a class are at places below `place`. */
uint64_t members_rank(const struct members *members, uint32_t class_number, uint64_t place);

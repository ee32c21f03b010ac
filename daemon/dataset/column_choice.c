/* column_choice: see column_choice.h. */
#include "dataset/column_choice.h"

#include "base/hash.h"

#include <string.h>

uint64_t column_choice_hash(const struct column_choice *choice)
{
	uint64_t h = HASH_SEED;
	if (!choice->image[0] && !choice->label[0] && !choice->label_offset)
		return 0;
	h = hash_bytes(h, choice->image, strlen(choice->image) + 1);
	h = hash_bytes(h, choice->label, strlen(choice->label) + 1);
	h = hash_mix(hash_u64(h, (uint32_t)choice->label_offset));
	return h ? h : 1;
}

bool column_choice_equal(const struct column_choice *a, const struct column_choice *b)
{
	return strcmp(a->image, b->image) == 0 && strcmp(a->label, b->label) == 0 &&
	       a->label_offset == b->label_offset;
}

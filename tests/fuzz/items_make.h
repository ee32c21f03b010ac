/* items_make: what the shards of MDS and the chunks of LitData have in common, made of choices
 * (recipe.h): a count, offsets, something between, items; and damage to any of them. */
#pragma once

#include "fuzz/recipe.h"
#include "fuzz/shard.h"

enum { ITEMS = 48, ITEMS_ROOM = 32 << 10, ITEM_IMAGE = 200 };

struct items {
	struct recipe recipe, faults; /* choices of what is made, and of the damage to it */
	bool damaged;
	uint32_t count;
	size_t size, text_size; /* of the file; of what is between the offsets and the items */
	struct shard_place sample[ITEMS];
	uint8_t text[2048];
	uint8_t file[ITEMS_ROOM];
};

/* How the columns of an item follow each other. */
struct items_layout {
	bool label_first; /* otherwise the image */
	bool label_sized; /* the label's size is in the item, as the image's is */
	bool note; /* a third column, of any bytes */
	/* What images have in front of their pixels, which are one row of RGB; otherwise they are
	 * files. */
	enum items_head { ITEMS_FILE, ITEMS_PIL, ITEMS_NDARRAY, ITEMS_TENSOR, ITEMS_NUMPY } head;
};

/* Puts the head of a row of pixels, and fills in the sample. */
static inline void items_pixels(struct items *items, enum items_head head, uint32_t width)
{
	uint8_t *to = items->file + items->size;
	const uint32_t pil[] = {width, 1, 3};
	const uint32_t numpy[] = {4, 3, 1, width, 3};
	const uint8_t tensor[] = {
		0, 0, 0, 11, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, (uint8_t)width, 0, 0, 0, 3};
	const uint8_t ndarray[] = {8, 3 << 2, 1, (uint8_t)width, 3};
	size_t size = 15;
	if (head == ITEMS_PIL) {
		memcpy(to, pil, sizeof pil);
		memcpy(to + sizeof pil, "RGB", 3);
	} else if (head == ITEMS_NDARRAY) {
		memcpy(to, ndarray, size = sizeof ndarray);
	} else if (head == ITEMS_TENSOR) {
		memcpy(to, tensor, size = sizeof tensor);
	} else {
		memcpy(to, numpy, size = sizeof numpy);
	}
	struct shard_place *sample = &items->sample[items->count - 1];
	sample->offset = items->size + size;
	sample->size = PACKED_HEADER + 3 * width;
}

static inline uint32_t items_head_size(enum items_head head)
{
	static const uint8_t sizes[] = {0, 15, 5, 20, 20};
	return sizes[head];
}

static inline void items_u32(struct items *items, size_t at, uint32_t value)
{
	memcpy(items->file + at, &value, sizeof value);
}

/* Puts one item at the end of the file. */
static inline void items_put(struct items *items, const struct items_layout *layout)
{
	const uint32_t width = 4 + recipe_byte(&items->recipe) % (ITEM_IMAGE / 3 - 4);
	const uint32_t image = items_head_size(layout->head) + 3 * width;
	const uint32_t note = recipe_byte(&items->recipe) % 16;
	const uint64_t label = recipe_number(&items->recipe, 2);
	struct shard_place *sample = &items->sample[items->count++];
	if (!layout->label_first) {
		items_u32(items, items->size, image);
		items->size += 4;
	}
	if (layout->label_sized) {
		items_u32(items, items->size, 8);
		items->size += 4;
	}
	if (layout->label_first) {
		items_u32(items, items->size, image);
		items->size += 4;
	}
	if (layout->note) {
		items_u32(items, items->size, note);
		items->size += 4;
	}
	for (int i = 0; i < 2; i++)
		if (layout->label_first == (i == 0)) {
			memcpy(items->file + items->size, &label, 8);
			items->size += 8;
		} else {
			*sample = (struct shard_place){items->size, image, (int64_t)label};
			memset(items->file + items->size, 0x5a, image);
			memcpy(items->file + items->size, "\xff\xd8\xff", 3);
			if (layout->head != ITEMS_FILE)
				items_pixels(items, layout->head, width);
			items->size += image;
		}
	memset(items->file + items->size, 'n', layout->note ? note : 0);
	items->size += layout->note ? note : 0;
}

/* Makes a whole file with the text that is in items->text. */
static inline void items_make(struct items *items, const struct items_layout *layout)
{
	const uint32_t count = 1 + recipe_byte(&items->recipe) % (ITEMS - 1);
	items->count = 0;
	items->size = 4 + 4 * (count + 1);
	memcpy(items->file + items->size, items->text, items->text_size);
	items->size += items->text_size;
	items_u32(items, 0, count);
	for (uint32_t i = 0; i < count; i++) {
		items_u32(items, 4 + 4 * i, (uint32_t)items->size);
		items_put(items, layout);
	}
	items_u32(items, 4 + 4 * count, (uint32_t)items->size);
}

/* Changes bytes, numbers of the table, sizes in an item, or the end of the file. */
static inline void items_damage(struct items *items)
{
	static const uint32_t lies[] = {0, 1, 0x7fffffff, 0xffffffff, 0xfffffffc};
	for (int left = 1 + recipe_byte(&items->faults) % 3; left && items->size > 8; left--) {
		const uint8_t how = recipe_byte(&items->faults);
		const size_t words = (size_t)items->count + 2 + items->text_size / 4 + 4;
		size_t at = recipe_number(&items->faults, 2);
		items->damaged = true;
		if (how < 64) {
			items->file[at % items->size] ^=
				(uint8_t)(1 + recipe_byte(&items->faults) % 255);
		} else if (how < 128) {
			at = at % words * 4 % (items->size - 4);
			items_u32(items, at, lies[how % 5]);
		} else if (how < 192) {
			at = at % words * 4 % (items->size - 4);
			items_u32(items, at, (uint32_t)recipe_number(&items->faults, 2));
		} else if (how < 224) {
			items->size = at % items->size;
		} else {
			at = items->sample[at % items->count].offset - 8;
			if (at < items->size - 4)
				items_u32(items, at, (uint32_t)recipe_number(&items->faults, 1));
		}
	}
}

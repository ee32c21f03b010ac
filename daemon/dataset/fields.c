/* fields: see fields.h. */
#include "dataset/fields.h"

#include "base/hash.h"
#include "dataset/container/folder.h"
#include "dataset/dataset.h"

#include <stdio.h>
#include <string.h>

const char *field_name_refused(const char *name)
{
	size_t size = strlen(name);
	if (size == 0 || size > FIELD_NAME_MAX)
		return "an extension of 1 to 63 bytes, such as txt";
	if (name[0] == '.')
		return "an extension without the dot before it, such as txt";
	if (name[size - 1] == '.' || strstr(name, ".."))
		return "an extension, such as txt or seg.json, without empty parts";
	for (const char *c = name; *c; c++)
		if (*c == '/' || (unsigned char)*c <= ' ' || *c == 0x7f)
			return "an extension, such as txt, without slashes and spaces";
	char file[FIELD_NAME_MAX + 3];
	(void)snprintf(file, sizeof file, "x.%s", name);
	/* A tar may have members of the other image types that are fields: see dataset_open.c. */
	if (folder_format(file) == SAMPLE_JPEG || folder_format(file) == SAMPLE_PNG)
		return "an extension other than those of images (jpg, jpeg, png): files with "
		       "these are samples";
	return NULL;
}

uint64_t field_list_hash(const struct field_list *list)
{
	uint64_t h = HASH_SEED;
	if (!list->count)
		return 0;
	for (uint32_t i = 0; i < list->count; i++)
		h = hash_bytes(h, list->at[i].name, strlen(list->at[i].name) + 1);
	h = hash_mix(h);
	return h ? h : 1;
}

bool field_list_equal(const struct field_list *a, const struct field_list *b)
{
	bool equal = a->count == b->count;
	for (uint32_t i = 0; equal && i < a->count; i++) {
		const struct field *x = &a->at[i], *y = &b->at[i];
		equal = strcmp(x->name, y->name) == 0 && x->max == y->max && x->cut == y->cut &&
			x->empty == y->empty;
	}
	return equal;
}

bool field_path(const char *image, const char *name, char *buffer, size_t room)
{
	size_t key = folder_key_size(image), size = strlen(name);
	if (key + 1 + size + 1 > room)
		return false;
	memmove(buffer, image, key);
	buffer[key] = '.';
	memcpy(buffer + key + 1, name, size + 1);
	return true;
}

/* listing_folder: a prefix of class folders. See listing.h. */
#include "remote/listing/listing.h"

#include "base/hash_name.h"
#include "base/name_order.h"
#include "base/util.h"
#include "remote/listing/listing_sort.h"

#include <errno.h>
#include <string.h>

enum { FOLDER_CLASSES_MAX = 1 << 20, FOLDER_CLASSES_BYTES = 32 << 20, FOLDER_SLOTS_LEAST = 256 };

/* Names of classes: open hashing, at most half full. */
struct names {
	char **slot;
	size_t count, bytes, slots; /* slots: a power of two */
};

struct folder {
	const struct listing_folder_sink *sink;
	struct listing_sort *sort;
	size_t prefix; /* bytes of keys that are not part of names */
	struct names names;
};

static size_t names_at(const struct names *names, const char *name, size_t size)
{
	uint64_t at = hash_name(name, size);
	for (;; at++) {
		const char *there = names->slot[at & (names->slots - 1)];
		if (!there || (!strncmp(there, name, size) && !there[size]))
			return at & (names->slots - 1);
	}
}

static int names_grow(struct names *names)
{
	struct names grown = {.slots = UTIL_MAX(names->slots * 2, (size_t)FOLDER_SLOTS_LEAST),
		.count = names->count,
		.bytes = names->bytes};
	grown.slot = calloc(grown.slots, sizeof *grown.slot);
	if (!grown.slot)
		return -ENOMEM;
	for (size_t i = 0; i < names->slots; i++)
		if (names->slot[i])
			grown.slot[names_at(&grown, names->slot[i], strlen(names->slot[i]))] =
				names->slot[i];
	free((void *)names->slot);
	*names = grown;
	return 0;
}

static int names_add(struct names *names, const char *name, size_t size, struct fault *fault)
{
	if (names->count == FOLDER_CLASSES_MAX)
		return fault_set(fault, -E2BIG, "more than %d class folders", FOLDER_CLASSES_MAX);
	int rc = names->count * 2 >= names->slots ? names_grow(names) : 0;
	size_t at = rc == 0 ? names_at(names, name, size) : 0;
	if (rc == 0 && !names->slot[at]) {
		names->bytes += size;
		if (names->bytes > FOLDER_CLASSES_BYTES)
			return fault_set(fault, -E2BIG,
				"the names of the class folders have more than %d bytes",
				FOLDER_CLASSES_BYTES);
		names->slot[at] = strndup(name, size);
		names->count += names->slot[at] != NULL;
		rc = names->slot[at] ? 0 : -ENOMEM;
	}
	return rc < 0 ? fault_set(fault, rc, "no memory for the classes of a listing") : 0;
}

static void names_free(struct names *names)
{
	for (size_t i = 0; i < names->slots; i++)
		free(names->slot[i]);
	free((void *)names->slot);
}

static int take(void *context, const struct listing_object *object, struct fault *fault)
{
	struct folder *folder = context;
	const char *name = object->key + folder->prefix;
	size_t size = strlen(name), class = strcspn(name, "/");
	/* Consoles make objects without bytes that stand for folders. */
	if (object->folder || !size || name[size - 1] == '/')
		return 0;
	if (!folder->sink->wanted(folder->sink->context, name))
		return 0;
	int rc = listing_sort_add(folder->sort, name, object->size, object->etag, fault);
	return rc < 0 || class == size ? rc : names_add(&folder->names, name, class, fault);
}

static int order_plain(const void *left, const void *right)
{
	return name_order(*(char *const *)left, *(char *const *)right);
}

static int order_natural(const void *left, const void *right)
{
	return name_order_natural(*(char *const *)left, *(char *const *)right);
}

static int give_classes(const struct folder *folder, struct fault *fault)
{
	const char **sorted = calloc(folder->names.count + 1, sizeof *sorted);
	size_t count = 0;
	if (!sorted)
		return fault_set(fault, -ENOMEM, "no memory for the classes of a listing");
	for (size_t i = 0; i < folder->names.slots; i++)
		if (folder->names.slot[i])
			sorted[count++] = folder->names.slot[i];
	if (count)
		qsort((void *)sorted, count, sizeof *sorted,
			folder->sink->natural ? order_natural : order_plain);
	int rc = folder->sink->classes(folder->sink->context, sorted, count, fault);
	free((void *)sorted);
	return rc;
}

int listing_folder(const struct listing_source *source, const struct remote_url *url,
	const struct listing_folder_sink *sink, struct fault *fault)
{
	struct remote_url below = *url;
	struct folder folder = {.sink = sink};
	size_t size = strlen(below.key);
	if (size && below.key[size - 1] != '/') {
		if (size >= REMOTE_KEY_MAX)
			return fault_set(fault, -ENAMETOOLONG, "the prefix is too long");
		below.key[size++] = '/';
		below.key[size] = 0;
	}
	folder.prefix = size;
	folder.sort = listing_sort_new(sink->natural, LISTING_SORT_BYTES, sink->scratch);
	if (!folder.sort)
		return fault_set(fault, -ENOMEM, "no memory for a listing");
	int rc = listing_objects(source, &below, false, take, &folder, fault);
	if (rc == 0)
		rc = give_classes(&folder, fault);
	if (rc == 0)
		rc = listing_sort_give(folder.sort, sink->object, sink->context, fault);
	listing_sort_free(folder.sort);
	names_free(&folder.names);
	return rc;
}

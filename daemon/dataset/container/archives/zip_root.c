/* zip_root: see zip_root.h. */
#include "dataset/container/archives/zip_root.h"

#include "base/hash_name.h"
#include "base/name_order.h"
#include "base/util.h"

#include <errno.h>
#include <string.h>

enum {
	SLOTS_LEAST = 64,
	/* As for folders in an object store. */
	CLASSES_MAX = 1 << 20,
	CLASSES_BYTES = 32 << 20, /* of their names */
	ASK_MEMBERS = 1 << 16, /* between two looks at whether to go on */
};

static bool part_is_hidden(const char *part, size_t size)
{
	return part[0] == '.' || (size == 8 && memcmp(part, "__MACOSX", 8) == 0);
}

bool zip_root_counts(const struct zip_member *member)
{
	for (const char *part = member->name;; part++) {
		const size_t size = strcspn(part, "/");
		if (part_is_hidden(part, size))
			return false;
		part += size;
		if (!*part)
			return true;
	}
}

/* Names that would lead out of the folder into which an archive is unpacked, or that unpacking
 * would change. */
static int name_check(
	const struct zip_reader *zip, const struct zip_member *member, struct fault *fault)
{
	static const char advice[] =
		"make the archive again with names relative to its folder (cd FOLDER && zip -0 -r "
		"X.zip .)";
	if (member->name[0] == '/' || (member->name_size == 0 && member->folder))
		return zip_fault(
			zip, member, member->at, fault, "has an absolute name: %s", advice);
	for (const char *part = member->name;; part++) {
		const size_t size = strcspn(part, "/");
		if (size == 0 || (size <= 2 && strncmp(part, "..", size) == 0))
			return zip_fault(zip, member, member->at, fault,
				"has \"%.*s\" as a part of its name: %s", (int)size, part, advice);
		part += size;
		if (!*part)
			break;
	}
	if (member->cut && !member->folder && folder_format(member->name))
		return zip_fault(zip, member, member->at, fault,
			"has a name of more than %d bytes: shorten it", INDEX_NAME_MAX);
	return 0;
}

/* Takes the next member that counts. */
static int root_next(struct zip_root *root, struct zip_reader *zip, struct zip_member *member,
	struct fault *fault)
{
	int rc;
	while ((rc = zip_next(zip, member, fault)) > 0) {
		rc = name_check(zip, member, fault);
		if (rc == 0 && ++root->walked % ASK_MEMBERS == 0)
			rc = index_progress_report(root->progress, 0, 0, fault);
		if (rc < 0)
			return rc;
		if (zip_root_counts(member))
			return 1;
	}
	return rc;
}

/* The bytes that both begin with, up to and with a slash. */
static size_t common_size(const char *a, size_t a_size, const char *b, size_t b_size)
{
	size_t common = 0;
	for (size_t i = 0; i < a_size && i < b_size && a[i] == b[i]; i++)
		if (a[i] == '/')
			common = i + 1;
	return common;
}

/* The bytes of a path without its last part, with the slash; 0: it has one part. */
static size_t parent_size(const char *path, size_t size)
{
	while (size && path[size - 1] != '/')
		size--;
	return size;
}

/* The longest path that all images have two parts below: the last folder and the image. */
static int root_by_images(struct zip_root *root, struct zip_reader *zip, struct zip_member *member,
	struct fault *fault)
{
	bool any = false;
	int rc;
	root->size = 0;
	while ((rc = root_next(root, zip, member, fault)) > 0) {
		if (member->folder || member->cut || !folder_format(member->name))
			continue;
		size_t size = parent_size(member->name, member->name_size);
		size = size ? parent_size(member->name, size - 1) : 0;
		root->size = any ? common_size(root->path, root->size, member->name, size) : size;
		if (!any)
			memcpy(root->path, member->name, size);
		any = true;
	}
	root->path[root->size] = 0;
	return rc;
}

static struct zip_class *slot_at(const struct zip_root *root, const char *name, size_t size)
{
	for (uint64_t at = hash_name(name, size);; at++) {
		struct zip_class *slot = &root->slot[at & (root->slots - 1)];
		if (!slot->name || (strncmp(slot->name, name, size) == 0 && !slot->name[size]))
			return slot;
	}
}

static int no_memory(const struct zip_reader *zip, struct fault *fault)
{
	return fault_set(fault, -ENOMEM, "no memory for the class names of %s", zip->window.path);
}

static int slots_grow(struct zip_root *root)
{
	struct zip_root grown = {.slots = UTIL_MAX(root->slots * 2, (size_t)SLOTS_LEAST)};
	grown.slot = calloc(grown.slots, sizeof *grown.slot);
	if (!grown.slot)
		return -ENOMEM;
	for (size_t i = 0; i < root->slots; i++)
		if (root->slot[i].name)
			*slot_at(&grown, root->slot[i].name, strlen(root->slot[i].name)) =
				root->slot[i];
	free(root->slot);
	root->slot = grown.slot;
	root->slots = grown.slots;
	return 0;
}

static int class_add(struct zip_root *root, const struct zip_reader *zip, const char *name,
	size_t size, struct fault *fault)
{
	if (root->classes * 2 >= root->slots && slots_grow(root) < 0)
		return no_memory(zip, fault);
	struct zip_class *slot = slot_at(root, name, size);
	if (slot->name)
		return 0;
	root->bytes += size;
	if (root->classes == CLASSES_MAX || root->bytes > CLASSES_BYTES)
		return fault_set(fault, -E2BIG,
			"%s has more than %d class folders, or names of more than %d MiB: divide "
			"the archive",
			zip->window.path, CLASSES_MAX, CLASSES_BYTES >> 20);
	slot->name = strndup(name, size);
	root->classes += slot->name != NULL;
	return slot->name ? 0 : no_memory(zip, fault);
}

static void classes_free(struct zip_root *root)
{
	for (size_t i = 0; i < root->slots; i++)
		free(root->slot[i].name);
	free(root->slot);
	root->slot = NULL;
	root->slots = root->classes = root->bytes = 0;
}

/* The bytes of the folder that a member is in, or is, with a slash after it. The name of a folder
 * has no slash at its end. */
static size_t folder_size(struct zip_member *member)
{
	if (!member->folder || member->name_size >= INDEX_NAME_MAX)
		return parent_size(member->name, member->name_size);
	member->name[member->name_size] = '/';
	return member->name_size + 1;
}

/* Collects the folders below the root. 1: folders outside the root were met, so that the root was
 * shortened, and their classes were not all collected; once more. */
static int classes_collect(struct zip_root *root, struct zip_reader *zip, struct zip_member *member,
	struct fault *fault)
{
	bool shortened = false;
	int rc;
	while ((rc = root_next(root, zip, member, fault)) > 0) {
		const size_t size = folder_size(member);
		const size_t common = common_size(root->path, root->size, member->name, size);
		if (common < root->size && common < size) {
			root->size = common;
			root->path[common] = 0;
			shortened = true;
		}
		if (size <= root->size || shortened)
			continue;
		const char *name = member->name + root->size;
		rc = class_add(root, zip, name, strcspn(name, "/"), fault);
		if (rc < 0)
			return rc;
	}
	return rc < 0 ? rc : shortened;
}

static int names_order(const void *a, const void *b)
{
	return name_order(*(const char *const *)a, *(const char *const *)b);
}

static int names_order_natural(const void *a, const void *b)
{
	return name_order_natural(*(const char *const *)a, *(const char *const *)b);
}

static int classes_number(struct zip_root *root, enum class_order order)
{
	size_t count = 0;
	root->names = calloc(root->classes + 1, sizeof *root->names);
	if (!root->names)
		return -ENOMEM;
	for (size_t i = 0; i < root->slots; i++)
		if (root->slot[i].name)
			root->names[count++] = root->slot[i].name;
	qsort(root->names, count, sizeof *root->names,
		order == CLASS_ORDER_NATURAL ? names_order_natural : names_order);
	for (uint32_t i = 0; i < count; i++)
		slot_at(root, root->names[i], strlen(root->names[i]))->label = i;
	return 0;
}

int zip_root_find(
	struct zip_root *root, struct zip_reader *zip, enum class_order order, struct fault *fault)
{
	cleanup(free_ptr) struct zip_member *member = malloc(sizeof *member);
	int rc = !member ? fault_set(fault, -ENOMEM, "no memory to index %s", zip->window.path)
			 : root_by_images(root, zip, member, fault);
	for (bool again = true; rc == 0 && again;) {
		classes_free(root);
		zip_rewind(zip);
		rc = classes_collect(root, zip, member, fault);
		again = rc > 0;
		rc = UTIL_MIN(rc, 0);
	}
	if (rc == 0 && classes_number(root, order) < 0)
		rc = no_memory(zip, fault);
	return rc;
}

void zip_root_deinit(struct zip_root *root)
{
	classes_free(root);
	free((void *)root->names);
	root->names = NULL;
}

uint32_t zip_root_label(const struct zip_root *root, const char *name, size_t size)
{
	const struct zip_class *slot = root->slots ? slot_at(root, name, size) : NULL;
	return slot && slot->name ? slot->label : UINT32_MAX;
}

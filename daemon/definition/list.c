/* list: see list.h. A thread holds the shelf's lock only while it walks the entries, never while it
 * reads a file or calls the ledger. */
#include "definition/list.h"

#include "base/hash.h"
#include "base/host/roots.h"
#include "base/nearest.h"
#include "base/size.h"
#include "base/util.h"
#include "dataset/blob.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

_Static_assert(LIST_CHUNK * sizeof(uint64_t) <= NPY_PREFIX + NPY_TEXT_MAX, "a chunk fits");

/* ---- the file ---- */

/* A client makes a path of whatever is not "balanced". */
static const char *list_file_hint(const struct list_file *file)
{
	static const char *const words[] = {"balanced", NULL};
	const char *slash = strrchr(file->path, '/');
	if (file->kind != NPY_FLOATS)
		return "";
	return nearest_of(slash ? slash + 1 : file->path, words)
		       ? "; did you mean balanced?"
		       : "; the only word that is not a path is balanced";
}

static int list_file_look(struct list_file *file)
{
	struct stat st;
	file->fd = -1;
	if (blob_is_url(file->path))
		return fault_set(file->fault, -EINVAL,
			"%s: %s is a URL, and this file is read from local files only: copy it to "
			"the machine of penstockd",
			file->key, file->path);
	int allowed = roots_check_list(file->key, file->path, file->fault);
	if (allowed < 0)
		return allowed;
	/* O_NONBLOCK: opening a pipe must not block. */
	file->fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (file->fd < 0)
		return fault_set(file->fault, -errno,
			"%s: %s: %s; penstockd must be able to read the file each time that the "
			"stream is opened, also when a trainer reconnects%s",
			file->key, file->path, strerror(errno), list_file_hint(file));
	if (fstat(file->fd, &st) < 0)
		return fault_set(
			file->fault, -errno, "%s: %s: %s", file->key, file->path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return fault_set(file->fault, -EINVAL,
			"%s: %s is not a regular file: expected a .npy file of %s", file->key,
			file->path, file->kind == NPY_FLOATS ? "weights" : "sample numbers");
	file->size = (uint64_t)st.st_size;
	return 0;
}

/* Reads `size` bytes. Fewer bytes mean that the file has become shorter. */
static int list_file_read(struct list_file *file, uint64_t offset, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n =
			pread(file->fd, file->bytes + done, size - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fault_set(file->fault, -errno, "%s: %s: at byte %" PRIu64 ": %s",
				file->key, file->path, offset + done, strerror(errno));
		if (n == 0)
			return fault_set(file->fault, -EIO,
				"%s: %s was cut off at byte %" PRIu64
				" while it was read: open the stream when it is whole",
				file->key, file->path, offset + done);
		done += (size_t)n;
	}
	return 0;
}

static int list_file_header(struct list_file *file)
{
	uint64_t bytes, end;
	size_t head = (size_t)UTIL_MIN(file->size, (uint64_t)sizeof file->bytes);
	int result = list_file_read(file, 0, head);
	if (result)
		return result;
	if (npy_parse(file->bytes, head, file->kind, &file->npy, file->fault))
		return fault_prefix(file->fault, -EINVAL, "%s: %s", file->key, file->path);
	const struct npy *npy = &file->npy;
	if (!npy->count)
		return fault_set(file->fault, -EINVAL,
			"%s: %s is empty: an epoch needs at least one sample", file->key,
			file->path);
	if (!__builtin_mul_overflow(npy->count, (uint64_t)npy->bytes, &bytes) &&
		!__builtin_add_overflow(bytes, npy->data, &end) && end == file->size)
		return 0;
	return fault_set(file->fault, -EINVAL,
		"%s: %s is cut off or damaged: its header says %" PRIu64
		" numbers of %u bytes from byte %u on, and the file has %" PRIu64
		" bytes; write it again",
		file->key, file->path, npy->count, npy->bytes, npy->data, file->size);
}

int list_file_open(struct list_file *file)
{
	int result = list_file_look(file);
	return result ? result : list_file_header(file);
}

void list_file_close(struct list_file *file)
{
	if (file->fd >= 0)
		(void)close(file->fd);
}

int list_file_walk(struct list_file *file, list_take_fn *take, void *context)
{
	const struct npy *npy = &file->npy;
	int result = 0;
	for (uint64_t at = 0; !result && at < npy->count; at += LIST_CHUNK) {
		size_t count = (size_t)UTIL_MIN(npy->count - at, (uint64_t)LIST_CHUNK);
		if (file->cancel && atomic_load_explicit(file->cancel, memory_order_relaxed))
			return fault_set(file->fault, -ECANCELED, "nobody waits for it any more");
		result = list_file_read(file, npy->data + at * npy->bytes, count * npy->bytes);
		if (result)
			return result;
		if (file->kind == NPY_FLOATS)
			npy_reals(npy, file->bytes, count, file->value.real);
		else
			npy_widen(npy, file->bytes, count, file->value.number);
		result = take(context, file, at, count);
	}
	return result;
}

uint64_t list_hash(uint64_t h, const uint64_t *value, size_t count)
{
	for (size_t i = 0; i < count; i++)
		h = hash_mix(h ^ value[i]) + HASH_SEED;
	return h;
}

int list_file_changed(const struct list_file *file)
{
	return fault_set(file->fault, -EIO,
		"%s: %s changed while it was read: write it beside its place and rename it",
		file->key, file->path);
}

/* ---- memory ---- */

/* Adds the file and the budget needed to the refusal; the ledger's own message names no files. */
static int list_refuse(struct list_shelf *shelf, const struct list_words *words, uint64_t count,
	uint32_t width, struct fault *fault)
{
	uint64_t room = ledger_free(shelf->ledger), need;
	char want[16], left[16], all[16];
	if (__builtin_mul_overflow(count, (uint64_t)width, &need))
		need = UINT64_MAX / 2;
	if (need <= room)
		return fault_prefix(fault, -ENOMEM, "%s", words->origin);
	uint64_t budget = shelf->budget_for(shelf->budget_context, need - room);
	return fault_set(fault, -ENOMEM,
		"%s: its %" PRIu64 " %s need %s (%u bytes each), but %s of the memory budget of %s "
		"is free, enough for %" PRIu64 " %s: start penstockd with --memory %" PRIu64
		"M or more",
		words->origin, count, words->values, size_format(need, want, sizeof want), width,
		size_format(room, left, sizeof left),
		size_format(shelf->ledger->budget, all, sizeof all), room / width, words->values,
		util_align(budget, 1 << 20) >> 20);
}

int list_hopeless(struct list_shelf *shelf, const struct list_words *words, uint64_t count,
	uint32_t width, struct fault *fault)
{
	if (!shelf->ledger || count <= shelf->ledger->budget / width)
		return 0;
	return list_refuse(shelf, words, count, width, fault);
}

static int list_reserve(struct list_shelf *shelf, const struct list_words *words, struct list *list,
	uint32_t width, struct fault *fault)
{
	static const char *const kinds[] = {
		[LIST_INDICES] = "indices",
		[LIST_WEIGHTS] = "weights",
		[LIST_BALANCED] = "balanced weights",
		[LIST_CLASSES] = "classes of sampling",
		[LIST_BUCKETS] = "buckets",
		[LIST_PLACES] = "places in blocks",
	};
	_Static_assert(UTIL_COUNT(kinds) == LIST_KINDS, "a name for each kind");
	char name[LEDGER_NAME];
	(void)snprintf(name, sizeof name, "%s of %" PRIu64 " %s", kinds[list->kind], list->count,
		list->kind == LIST_BUCKETS ? "words" : "samples");
	if (shelf->ledger &&
		ledger_reserve(shelf->ledger, list->bytes, name, &list->ledger_line, fault))
		return list_refuse(shelf, words, list->count, width, fault);
	list->memory = calloc(1, list->bytes);
	if (!list->memory)
		return fault_set(fault, -ENOMEM, "%s: no memory for its %" PRIu64 " %s",
			words->origin, list->count, words->values);
	return 0;
}

int list_new(struct list_shelf *shelf, const struct list_words *words, enum list_kind kind,
	uint64_t count, uint32_t width, struct list **ret, struct fault *fault)
{
	return list_new_with(shelf, words, kind, count, width, 0, ret, fault);
}

int list_new_with(struct list_shelf *shelf, const struct list_words *words, enum list_kind kind,
	uint64_t count, uint32_t width, uint64_t more, struct list **ret, struct fault *fault)
{
	int result = list_hopeless(shelf, words, count, width, fault);
	if (result)
		return result;
	assert(count);
	struct list *list = malloc(sizeof *list);
	if (!list)
		return fault_set(fault, -ENOMEM, "no memory for a list");
	*list = (struct list){
		.kind = kind, .count = count, .bytes = count * width + more, .ledger_line = -1};
	result = list_reserve(shelf, words, list, width, fault);
	if (result) {
		list_free(shelf, list);
		return result;
	}
	*ret = list;
	return 0;
}

void list_free(struct list_shelf *shelf, struct list *list)
{
	if (!list)
		return;
	free(list->memory);
	if (list->ledger_line >= 0)
		ledger_release(shelf->ledger, list->ledger_line);
	free(list);
}

/* ---- the shelf ---- */

void list_shelf_init(struct list_shelf *shelf, struct ledger *ledger,
	uint64_t (*budget_for)(void *context, uint64_t bytes_more), void *budget_context)
{
	*shelf = (struct list_shelf){
		.ledger = ledger, .budget_for = budget_for, .budget_context = budget_context};
	pthread_mutex_init(&shelf->lock, NULL);
}

void list_shelf_deinit(struct list_shelf *shelf)
{
	assert(!shelf->lists);
	pthread_mutex_destroy(&shelf->lock);
}

/* Finds the list with this content, or else puts `fresh` (may be NULL) on the shelf, and adds a
 * holder. */
static struct list *list_settle(struct list_shelf *shelf, enum list_kind kind, uint64_t count,
	uint64_t hash, struct list *fresh)
{
	pthread_mutex_lock(&shelf->lock);
	struct list *list = shelf->lists;
	while (list && (list->kind != kind || list->count != count || list->hash != hash))
		list = list->next;
	if (!list && fresh) {
		list = fresh;
		list->next = shelf->lists;
		shelf->lists = list;
	}
	if (list)
		list->holders++;
	pthread_mutex_unlock(&shelf->lock);
	return list;
}

struct list *list_find(struct list_shelf *shelf, enum list_kind kind, uint64_t count, uint64_t hash)
{
	return list_settle(shelf, kind, count, hash, NULL);
}

struct list *list_put(struct list_shelf *shelf, struct list *fresh)
{
	struct list *list = list_settle(shelf, fresh->kind, fresh->count, fresh->hash, fresh);
	if (list != fresh)
		list_free(shelf, fresh);
	return list;
}

void list_close(struct list_shelf *shelf, struct list *list)
{
	if (!list)
		return;
	pthread_mutex_lock(&shelf->lock);
	bool last = --list->holders == 0;
	if (last) {
		struct list **at = &shelf->lists;
		while (*at != list)
			at = &(*at)->next;
		*at = list->next;
	}
	pthread_mutex_unlock(&shelf->lock);
	if (last)
		list_free(shelf, list);
}

/* sorted: see sorted.h. */
#include "dataset/container/archives/sorted.h"

#include "base/array.h"
#include "base/store.h"
#include "base/util.h"
#include "base/whole.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* In front of each item in a run: then the key, then the value. */
struct item_head {
	uint16_t key_size, value_size;
};

enum { ITEM_MOST = sizeof(struct item_head) + SORTED_KEY_MAX + SORTED_VALUE_MAX };

/* A run while it is merged. */
struct run {
	uint64_t at, end; /* in the file: of what is not yet in the buffer */
	uint8_t *buffer;
	size_t from, used; /* of the buffer's bytes that are not yet taken */
};

struct sorted {
	const char *what;
	size_t size;
	uint8_t *buffer;
	size_t used;
	uint32_t *at; /* of the items in the buffer */
	size_t count, room;
	bool merging;
	size_t taken; /* without runs: items that were taken out of the buffer */
	int fd; /* -1: no run was written */
	uint64_t written;
	size_t runs;
	uint64_t end[SORTED_RUNS]; /* of each run in the file */
	struct run run[SORTED_RUNS];
	size_t heap[SORTED_RUNS]; /* numbers of runs, that with the first item at the top */
	size_t heaped;
	uint8_t out[SORTED_LEAST]; /* on its way into the file */
};

int sorted_new(const char *what, size_t buffer, struct sorted **ret, struct fault *fault)
{
	assert(buffer >= SORTED_LEAST);
	struct sorted *sorted = calloc(1, sizeof *sorted);
	if (sorted)
		*sorted = (struct sorted){
			.what = what, .size = buffer, .buffer = malloc(buffer), .fd = -1};
	if (!sorted || !sorted->buffer) {
		free(sorted);
		return fault_set(fault, -ENOMEM, "no memory to sort %s", what);
	}
	*ret = sorted;
	return 0;
}

void sorted_free(struct sorted *sorted)
{
	if (!sorted)
		return;
	util_close_fd(&sorted->fd);
	free(sorted->buffer);
	free(sorted->at);
	free(sorted);
}

static struct sorted_item item_at(const uint8_t *bytes)
{
	struct item_head head;
	memcpy(&head, bytes, sizeof head);
	const uint8_t *key = bytes + sizeof head;
	return (struct sorted_item){.key = key,
		.value = key + head.key_size,
		.key_size = head.key_size,
		.value_size = head.value_size};
}

static size_t item_bytes(const struct sorted_item *item)
{
	return sizeof(struct item_head) + item->key_size + item->value_size;
}

static int item_compare(const struct sorted_item *a, const struct sorted_item *b)
{
	int order = memcmp(a->key, b->key, UTIL_MIN(a->key_size, b->key_size));
	return order ? order : (a->key_size > b->key_size) - (a->key_size < b->key_size);
}

static int place_compare(const void *left, const void *right, void *context)
{
	const uint8_t *buffer = context;
	const struct sorted_item a = item_at(buffer + *(const uint32_t *)left);
	const struct sorted_item b = item_at(buffer + *(const uint32_t *)right);
	return item_compare(&a, &b);
}

static void buffer_sort(struct sorted *sorted)
{
	if (sorted->count) /* qsort_r must not get a null pointer */
		qsort_r(sorted->at, sorted->count, sizeof sorted->at[0], place_compare,
			sorted->buffer);
}

static int fault_file(const struct sorted *sorted, int rc, const char *what, struct fault *fault)
{
	return fault_set(fault, rc,
		"%s needs a temporary file to be sorted, which cannot be %s: %s: free disk space "
		"in TMPDIR, or name another folder there",
		sorted->what, what, strerror(-rc));
}

/* Copies the items into the file through a small buffer, in their order. */
static int run_copy(struct sorted *sorted)
{
	size_t used = 0;
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < sorted->count; i++) {
		const uint8_t *bytes = sorted->buffer + sorted->at[i];
		const struct sorted_item item = item_at(bytes);
		const size_t size = item_bytes(&item);
		if (used + size > sizeof sorted->out) {
			rc = whole_write(sorted->fd, sorted->out, used, sorted->written);
			sorted->written += used;
			used = 0;
		}
		memcpy(sorted->out + used, bytes, size);
		used += size;
	}
	if (rc == 0)
		rc = whole_write(sorted->fd, sorted->out, used, sorted->written);
	sorted->written += used;
	return rc;
}

static int run_write(struct sorted *sorted, struct fault *fault)
{
	if (sorted->runs == SORTED_RUNS)
		return fault_set(fault, -E2BIG, "%s has too many members: divide it into files",
			sorted->what);
	if (sorted->fd < 0)
		sorted->fd = store_unlinked(NULL);
	if (sorted->fd < 0)
		return fault_file(sorted, sorted->fd, "made", fault);
	buffer_sort(sorted);
	int rc = run_copy(sorted);
	if (rc < 0)
		return fault_file(sorted, rc, "written", fault);
	sorted->end[sorted->runs++] = sorted->written;
	sorted->used = sorted->count = 0;
	return 0;
}

int sorted_add(struct sorted *sorted, const struct sorted_item *item, struct fault *fault)
{
	assert(item->key_size <= SORTED_KEY_MAX && item->value_size <= SORTED_VALUE_MAX);
	const size_t size = item_bytes(item);
	if (size > sorted->size - sorted->used) {
		int rc = run_write(sorted, fault);
		if (rc < 0)
			return rc;
	}
	uint32_t *grown =
		array_grown(sorted->at, sorted->count, &sorted->room, sizeof sorted->at[0]);
	if (!grown)
		return fault_set(fault, -ENOMEM, "no memory to sort %s", sorted->what);
	sorted->at = grown;
	sorted->at[sorted->count++] = (uint32_t)sorted->used;
	const struct item_head head = {(uint16_t)item->key_size, (uint16_t)item->value_size};
	uint8_t *to = sorted->buffer + sorted->used;
	memcpy(to, &head, sizeof head);
	memcpy(to + sizeof head, item->key, item->key_size);
	if (item->value_size)
		memcpy(to + sizeof head + item->key_size, item->value, item->value_size);
	sorted->used += size;
	return 0;
}

/* Makes sure that the run's next item is whole in its buffer, if it has one more. */
static int run_fill(const struct sorted *sorted, struct run *run, size_t room)
{
	const size_t left = run->used - run->from;
	if (left >= ITEM_MOST || run->at == run->end)
		return 0;
	memmove(run->buffer, run->buffer + run->from, left);
	const size_t size = (size_t)UTIL_MIN((uint64_t)(room - left), run->end - run->at);
	run->from = 0;
	run->used = left;
	ssize_t n = whole_read(sorted->fd, run->buffer + left, size, run->at);
	if (n < 0 || (size_t)n != size)
		return n < 0 ? (int)n : -EIO;
	run->used += size;
	run->at += size;
	return 0;
}

static struct sorted_item run_item(const struct run *run)
{
	return item_at(run->buffer + run->from);
}

static bool heap_before(const struct sorted *sorted, size_t a, size_t b)
{
	const struct sorted_item left = run_item(&sorted->run[sorted->heap[a]]);
	const struct sorted_item right = run_item(&sorted->run[sorted->heap[b]]);
	return item_compare(&left, &right) < 0;
}

/* Moves the run at `at` down to its place. */
static void heap_sink(struct sorted *sorted, size_t at)
{
	for (;;) {
		size_t least = at;
		for (size_t down = 2 * at + 1; down <= 2 * at + 2; down++)
			if (down < sorted->heaped && heap_before(sorted, down, least))
				least = down;
		if (least == at)
			return;
		const size_t other = sorted->heap[least];
		sorted->heap[least] = sorted->heap[at];
		sorted->heap[at] = other;
		at = least;
	}
}

/* The bytes that each run has of the buffer, which has become free. */
static size_t run_room(const struct sorted *sorted)
{
	return sorted->size / sorted->runs;
}

/* A buffer for tests may be too small for many runs. */
static int buffer_suffice(struct sorted *sorted, struct fault *fault)
{
	const size_t least = sorted->runs * (size_t)2 * ITEM_MOST;
	uint8_t *grown = sorted->size < least ? realloc(sorted->buffer, least) : sorted->buffer;
	if (!grown)
		return fault_set(fault, -ENOMEM, "no memory to sort %s", sorted->what);
	sorted->buffer = grown;
	sorted->size = UTIL_MAX(sorted->size, least);
	return 0;
}

static int merge_begin(struct sorted *sorted, struct fault *fault)
{
	int rc = sorted->count ? run_write(sorted, fault) : 0;
	if (rc == 0)
		rc = buffer_suffice(sorted, fault);
	if (rc < 0)
		return rc;
	const size_t room = run_room(sorted);
	for (size_t i = 0; i < sorted->runs; i++) {
		sorted->run[i] = (struct run){.at = i ? sorted->end[i - 1] : 0,
			.end = sorted->end[i],
			.buffer = sorted->buffer + i * room};
		rc = run_fill(sorted, &sorted->run[i], room);
		if (rc < 0)
			return fault_file(sorted, rc, "read", fault);
		sorted->heap[sorted->heaped++] = i;
	}
	for (size_t i = sorted->heaped / 2; i-- > 0;)
		heap_sink(sorted, i);
	return 0;
}

/* Takes the item that sorted_next gave last out of its run. */
static int merge_step(struct sorted *sorted)
{
	struct run *run = &sorted->run[sorted->heap[0]];
	const struct sorted_item item = run_item(run);
	run->from += item_bytes(&item);
	int rc = run_fill(sorted, run, run_room(sorted));
	if (rc == 0 && run->from == run->used)
		sorted->heap[0] = sorted->heap[--sorted->heaped];
	if (rc == 0)
		heap_sink(sorted, 0);
	return rc;
}

int sorted_next(struct sorted *sorted, struct sorted_item *ret, struct fault *fault)
{
	const bool first = !sorted->merging;
	sorted->merging = true;
	int rc = 0;
	if (sorted->runs == 0) {
		if (first)
			buffer_sort(sorted);
		if (sorted->taken == sorted->count)
			return 0;
		*ret = item_at(sorted->buffer + sorted->at[sorted->taken++]);
		return 1;
	}
	if (first)
		rc = merge_begin(sorted, fault);
	else if (sorted->heaped && (rc = merge_step(sorted)) < 0)
		rc = fault_file(sorted, rc, "read", fault);
	if (rc < 0 || sorted->heaped == 0)
		return rc;
	*ret = run_item(&sorted->run[sorted->heap[0]]);
	return 1;
}

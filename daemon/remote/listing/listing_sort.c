/* listing_sort: see listing_sort.h. */
#include "remote/listing/listing_sort.h"

#include "base/array.h"
#include "base/name_order.h"
#include "base/store.h"
#include "base/util.h"
#include "base/whole.h"
#include "remote/url.h"

#include <errno.h>
#include <string.h>

enum { SORT_WINDOW = 16384, SORT_ETAG = 160, SORT_NAME = REMOTE_KEY_MAX + 1 };

/* A name as it is stored: followed by its text and its ETag's, each with a zero. */
struct record {
	uint64_t size;
	uint16_t bytes; /* of the whole record, a multiple of 8 */
	uint16_t etag; /* where the ETag begins, from the record's beginning */
	char name[4]; /* and more */
};

#define RECORD_NAME offsetof(struct record, name)
_Static_assert(SORT_WINDOW >= SORT_NAME + SORT_ETAG + 64, "a window holds any record");

struct run {
	uint64_t at, end; /* in the file: what has not been read */
	uint8_t *window; /* of the file: bytes `from` to `to` hold records */
	size_t from, to;
};

struct listing_sort {
	bool natural;
	char *scratch;
	uint8_t *bytes;
	uint32_t *at; /* where records begin in `bytes` */
	size_t used, room, count, count_room;
	int fd; /* -1: no run was written */
	uint64_t written;
	struct run *run;
	size_t run_count, run_room;
};

/* Copies the first `size` bytes, for functions that want a zero after them. */
static const char *copied(char *to, const char *from, size_t size)
{
	size = UTIL_MIN(size, (size_t)SORT_NAME - 1);
	memcpy(to, from, size);
	to[size] = 0;
	return to;
}

/* Orders the first components, then the folders of two names that have folders. */
static int folders_order(const char *a, size_t a_size, const char *b, size_t b_size, bool natural)
{
	char left[SORT_NAME], right[SORT_NAME];
	if (a_size == b_size && !memcmp(a, b, a_size))
		return 0;
	size_t a_class = strcspn(a, "/"), b_class = strcspn(b, "/");
	if (a_class != b_class || memcmp(a, b, a_class) != 0) {
		(void)copied(left, a, a_class);
		(void)copied(right, b, b_class);
		return natural ? name_order_natural(left, right) : name_order(left, right);
	}
	return name_order(copied(left, a, a_size), copied(right, b, b_size));
}

int listing_sort_order(const char *a, const char *b, bool natural)
{
	const char *a_slash = strrchr(a, '/'), *b_slash = strrchr(b, '/');
	if (!a_slash || !b_slash)
		return a_slash ? 1 : b_slash ? -1 : name_order(a, b);
	int order = folders_order(a, (size_t)(a_slash - a), b, (size_t)(b_slash - b), natural);
	return order ? order : name_order(a_slash + 1, b_slash + 1);
}

struct listing_sort *listing_sort_new(bool natural, size_t run_bytes, const char *scratch)
{
	struct listing_sort *sort = calloc(1, sizeof *sort);
	if (!sort)
		return NULL;
	sort->natural = natural;
	sort->fd = -1;
	sort->room = run_bytes;
	sort->bytes = malloc(run_bytes);
	sort->scratch = scratch ? strdup(scratch) : NULL;
	if (sort->bytes && (sort->scratch || !scratch))
		return sort;
	listing_sort_free(sort);
	return NULL;
}

void listing_sort_free(struct listing_sort *sort)
{
	if (!sort)
		return;
	for (size_t i = 0; i < sort->run_count; i++)
		free(sort->run[i].window);
	util_close_fd(&sort->fd);
	free(sort->run);
	free(sort->scratch);
	free(sort->bytes);
	free(sort->at);
	free(sort);
}

static const struct record *record_at(const struct listing_sort *sort, uint32_t at)
{
	return (const struct record *)(const void *)(sort->bytes + at);
}

static int at_compare(const void *left, const void *right, void *context)
{
	const struct listing_sort *sort = context;
	return listing_sort_order(record_at(sort, *(const uint32_t *)left)->name,
		record_at(sort, *(const uint32_t *)right)->name, sort->natural);
}

static void memory_sort(struct listing_sort *sort)
{
	if (sort->count)
		qsort_r(sort->at, sort->count, sizeof sort->at[0], at_compare, sort);
}

/* Writes records one after the other, a window at a time. */
static int run_write(struct listing_sort *sort, struct run *run)
{
	int rc = 0;
	run->to = 0;
	for (size_t i = 0; rc == 0 && i < sort->count; i++) {
		const struct record *record = record_at(sort, sort->at[i]);
		if (run->to + record->bytes > SORT_WINDOW) {
			rc = whole_write(sort->fd, run->window, run->to, sort->written);
			sort->written += run->to;
			run->to = 0;
		}
		memcpy(run->window + run->to, record, record->bytes);
		run->to += record->bytes;
	}
	if (rc == 0)
		rc = whole_write(sort->fd, run->window, run->to, sort->written);
	sort->written += run->to;
	run->to = 0;
	return rc;
}

/* Moves what is in memory to the file. */
static int spill(struct listing_sort *sort, struct fault *fault)
{
	struct run *grown =
		array_grown(sort->run, sort->run_count, &sort->run_room, sizeof *sort->run);
	sort->run = grown ? grown : sort->run;
	if (sort->run_count == LISTING_SORT_RUNS)
		return fault_set(fault, -E2BIG, "too many objects to sort");
	if (sort->fd < 0)
		sort->fd = store_unlinked(sort->scratch);
	if (sort->fd < 0)
		return fault_set(fault, sort->fd,
			"a temporary file for a listing cannot be made: %s; set TMPDIR",
			strerror(-sort->fd));
	struct run run = {.at = sort->written, .window = grown ? malloc(SORT_WINDOW) : NULL};
	if (!run.window)
		return fault_set(fault, -ENOMEM, "no memory for a listing");
	memory_sort(sort);
	int rc = run_write(sort, &run);
	run.end = sort->written;
	sort->run[sort->run_count++] = run;
	sort->used = sort->count = 0;
	return rc < 0 ? fault_set(fault, rc,
				"a temporary file for a listing cannot be written: %s; set TMPDIR",
				strerror(-rc))
		      : 0;
}

int listing_sort_add(struct listing_sort *sort, const char *name, uint64_t size, const char *etag,
	struct fault *fault)
{
	size_t name_size = strlen(name) + 1, etag_size = strlen(etag) + 1;
	if (name_size > SORT_NAME || etag_size > SORT_ETAG)
		return fault_set(fault, -ENAMETOOLONG, "a name in the listing is too long");
	size_t bytes = (size_t)util_align(RECORD_NAME + name_size + etag_size, 8);
	int rc = sort->used + bytes > sort->room ? spill(sort, fault) : 0;
	if (rc < 0)
		return rc;
	uint32_t *at = array_grown(sort->at, sort->count, &sort->count_room, sizeof *sort->at);
	if (!at || bytes > sort->room)
		return fault_set(fault, -ENOMEM, "no memory for a listing");
	sort->at = at;
	struct record *record = (struct record *)(void *)(sort->bytes + sort->used);
	record->size = size;
	record->bytes = (uint16_t)bytes;
	record->etag = (uint16_t)(RECORD_NAME + name_size);
	memcpy((char *)record + RECORD_NAME, name, name_size);
	memcpy((char *)record + record->etag, etag, etag_size);
	sort->at[sort->count++] = (uint32_t)sort->used;
	sort->used += bytes;
	return 0;
}

/* The first record of a run that was not given; NULL at its end. */
static const struct record *run_first(const struct run *run)
{
	return run->from < run->to ? (const struct record *)(const void *)(run->window + run->from)
				   : NULL;
}

/* Reads on, so that a whole record is in the window unless the run is at its end. */
static int run_fill(const struct listing_sort *sort, struct run *run, struct fault *fault)
{
	size_t left = run->to - run->from;
	const struct record *record = run_first(run);
	if (left >= RECORD_NAME && left >= record->bytes)
		return 0;
	memmove(run->window, run->window + run->from, left);
	run->from = 0;
	run->to = left;
	size_t want = (size_t)UTIL_MIN(run->end - run->at, (uint64_t)(SORT_WINDOW - left));
	ssize_t got = want ? whole_read(sort->fd, run->window + left, want, run->at) : 0;
	if (got < 0 || (size_t)got != want)
		return fault_set(fault, got < 0 ? (int)got : -EIO,
			"a temporary file for a listing cannot be read");
	run->at += want;
	run->to += want;
	return 0;
}

struct giving {
	int (*give)(void *context, const char *name, uint64_t size, const char *etag,
		struct fault *fault);
	void *context;
	struct fault *fault;
	char last[SORT_NAME];
	bool any;
};

static int give_one(struct giving *giving, const struct record *record)
{
	if (giving->any && !strcmp(giving->last, record->name))
		return fault_set(giving->fault, -EPROTO,
			"the server's listing has an object twice: it changed while it was read, "
			"or the server lies; try again");
	giving->any = true;
	(void)snprintf(giving->last, sizeof giving->last, "%s", record->name);
	return giving->give(giving->context, record->name, record->size,
		(const char *)record + record->etag, giving->fault);
}

/* The runs whose first record is first are at the top of a heap of `heap[count]`. */
static void heap_down(const struct listing_sort *sort, size_t *heap, size_t count, size_t at)
{
	for (;;) {
		size_t least = at;
		for (size_t down = 2 * at + 1; down <= 2 * at + 2 && down < count; down++)
			if (listing_sort_order(run_first(&sort->run[heap[down]])->name,
				    run_first(&sort->run[heap[least]])->name, sort->natural) < 0)
				least = down;
		if (least == at)
			return;
		size_t moved = heap[at];
		heap[at] = heap[least];
		heap[least] = moved;
		at = least;
	}
}

static int merge(struct listing_sort *sort, struct giving *giving)
{
	size_t *heap = calloc(sort->run_count + 1, sizeof *heap), count = 0;
	int rc = heap ? 0 : fault_set(giving->fault, -ENOMEM, "no memory for a listing");
	for (size_t i = 0; rc == 0 && i < sort->run_count; i++) {
		rc = run_fill(sort, &sort->run[i], giving->fault);
		if (rc == 0 && run_first(&sort->run[i]))
			heap[count++] = i;
	}
	for (size_t i = count; rc == 0 && i-- > 0;)
		heap_down(sort, heap, count, i);
	while (rc == 0 && count) {
		struct run *run = &sort->run[heap[0]];
		rc = give_one(giving, run_first(run));
		run->from += run_first(run)->bytes;
		if (rc == 0)
			rc = run_fill(sort, run, giving->fault);
		if (!run_first(run))
			heap[0] = heap[--count];
		if (rc == 0 && count)
			heap_down(sort, heap, count, 0);
	}
	free(heap);
	return rc;
}

int listing_sort_give(struct listing_sort *sort,
	int (*give)(void *context, const char *name, uint64_t size, const char *etag,
		struct fault *fault),
	void *context, struct fault *fault)
{
	struct giving *giving = calloc(1, sizeof *giving);
	if (!giving)
		return fault_set(fault, -ENOMEM, "no memory for a listing");
	giving->give = give;
	giving->context = context;
	giving->fault = fault;
	int rc = 0;
	if (sort->run_count) {
		rc = sort->count ? spill(sort, fault) : 0;
		if (rc == 0)
			rc = merge(sort, giving);
	} else {
		memory_sort(sort);
		for (size_t i = 0; rc == 0 && i < sort->count; i++)
			rc = give_one(giving, record_at(sort, sort->at[i]));
	}
	free(giving);
	return rc;
}

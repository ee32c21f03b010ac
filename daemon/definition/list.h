/* list: the content of a .npy file, read once, kept in memory and shared: the sample numbers of
 * `indices` (subset.h) or the weights of `weights` (weigh.h).
 *
 * A list is a copy in the daemon's memory, charged to the ledger. The file is never mapped, so
 * nothing changes when someone truncates, changes or replaces it later. Streams and ranks that name
 * files of the same content share one list. A first pass over the file computes the hash of the
 * content; a second pass keeps the values, unless a list of that hash exists.
 *
 * Files are read on threads of their own, possibly several at the same time. The shelf may be
 * used by any thread. */
#pragma once

#include "base/fault.h"
#include "base/host/ledger.h"
#include "labels/npy.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum list_kind {
	LIST_INDICES,
	LIST_WEIGHTS,
	LIST_BALANCED,
	LIST_CLASSES,
	LIST_BUCKETS,
	LIST_PLACES,
	LIST_KINDS
};

struct list {
	enum list_kind kind;
	uint64_t count; /* at least 1 */
	uint64_t hash; /* of the values and their order */
	uint64_t bytes; /* charged to the budget */
	/* private to the shelf */
	struct list *next;
	uint32_t holders; /* under its lock */
	int ledger_line;
	void *memory;
};

struct list_shelf {
	struct ledger *ledger; /* NULL: memory is not counted (tools) */
	/* Returns the budget that has room for `bytes_more` more than the present one, for
	 * refusals. */
	uint64_t (*budget_for)(void *context, uint64_t bytes_more);
	void *budget_context;
	pthread_mutex_t lock;
	struct list *lists;
};

void list_shelf_init(struct list_shelf *shelf, struct ledger *ledger,
	uint64_t (*budget_for)(void *context, uint64_t bytes_more), void *budget_context);
/* Every list must be closed before. */
void list_shelf_deinit(struct list_shelf *shelf);

/* The words of a refusal: "indices: /a/few.npy", "numbers". */
struct list_words {
	const char *origin, *values;
};

/* Makes a list with zeroed memory for `count` values of `width` bytes. 0; -ENOMEM if the budget
 * is too small (the fault names a budget that is enough). */
int list_new(struct list_shelf *shelf, const struct list_words *words, enum list_kind kind,
	uint64_t count, uint32_t width, struct list **ret, struct fault *fault);
/* The same with `more` bytes, a multiple of 8, beside the values. */
int list_new_with(struct list_shelf *shelf, const struct list_words *words, enum list_kind kind,
	uint64_t count, uint32_t width, uint64_t more, struct list **ret, struct fault *fault);
/* Frees a list that is not on the shelf. Takes NULL. */
void list_free(struct list_shelf *shelf, struct list *list);

/* -ENOMEM with a fault if the whole budget cannot hold that many values; otherwise 0. */
int list_hopeless(struct list_shelf *shelf, const struct list_words *words, uint64_t count,
	uint32_t width, struct fault *fault);

/* Returns the list with this content and adds a holder; NULL if the shelf has none. */
struct list *list_find(
	struct list_shelf *shelf, enum list_kind kind, uint64_t count, uint64_t hash);
/* Puts `fresh` on the shelf, or frees it if the shelf already has its content. Returns the list on
 * the shelf, with one more holder. */
struct list *list_put(struct list_shelf *shelf, struct list *fresh);
/* Takes NULL. */
void list_close(struct list_shelf *shelf, struct list *list);

/* A file that is read in chunks. */
enum { LIST_CHUNK = 8192 };

struct list_file {
	const char *key, *path; /* for messages; the key is "indices", for example */
	const atomic_bool *cancel; /* may be NULL */
	struct fault *fault;
	int fd;
	uint64_t size;
	enum npy_kind kind;
	struct npy npy;
	union {
		uint64_t number[LIST_CHUNK]; /* NPY_INTEGERS */
		double real[LIST_CHUNK]; /* NPY_FLOATS */
	} value;
	uint8_t bytes[NPY_PREFIX + NPY_TEXT_MAX]; /* the header, then a chunk */
};

/* Opens `path` and reads its header. 0 or a negative errno with a fault that names the file:
 * -ENOENT and other errors of open, -EINVAL if it is not a list of that kind, -EIO. */
int list_file_open(struct list_file *file);
void list_file_close(struct list_file *file);

/* Passes all values to `take` in `value`, one chunk at a time, until `take` returns other than 0.
 * Returns the last result of `take`, -EIO or -ECANCELED. */
typedef int list_take_fn(void *context, struct list_file *file, uint64_t first, size_t count);
int list_file_walk(struct list_file *file, list_take_fn *take, void *context);

/* Feeds values into a running hash. */
uint64_t list_hash(uint64_t h, const uint64_t *value, size_t count);

/* Sets the fault that the second pass saw other values than the first. Returns -EIO. */
int list_file_changed(const struct list_file *file);

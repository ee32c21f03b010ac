/* subset: the lists of sample numbers that streams with `indices` consist of.
 *
 * A list is read from its file once and is the daemon's memory from then on: charged to the ledger,
 * never mapped, so that a file that is cut, changed or replaced afterwards changes nothing. Streams
 * and ranks that name the same content share it, whatever their paths: a first pass over the file
 * finds the content's hash, a second one keeps the numbers, where nobody has them yet.
 *
 * subset_open blocks and belongs on a thread of its own; several may open at once. The rest: any
 * thread. */
#pragma once

#include "base/fault.h"
#include "base/ledger.h"
#include "order/order.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

struct subset {
	uint64_t count; /* at least 1 */
	uint64_t hash; /* of the numbers and their order */
	uint64_t highest; /* of the numbers */
	struct order_subset numbers; /* 4 bytes each where they all fit */
	/* the shelf's own */
	struct subset *next;
	uint32_t holders; /* under its lock */
	int ledger_line;
	void *memory;
};

struct subset_shelf {
	struct ledger *ledger; /* NULL: memory is not counted (tools) */
	/* The budget that would leave `bytes_more` more than this one does: for refusals. */
	uint64_t (*budget_for)(void *context, uint64_t bytes_more);
	void *budget_context;
	pthread_mutex_t lock;
	struct subset *subsets;
};

void subset_shelf_init(struct subset_shelf *shelf, struct ledger *ledger,
	uint64_t (*budget_for)(void *context, uint64_t bytes_more), void *budget_context);
/* Every subset must be closed. */
void subset_shelf_deinit(struct subset_shelf *shelf);

/* Reads the .npy file. `cancel` (may be NULL) is looked at now and then. 0 and a subset for one
 * subset_close; or a negative errno with a fault that names the file: -ENOENT and the like, -EINVAL
 * it is no list of sample numbers, -EIO, -ENOMEM not within the budget (says what would fit),
 * -ECANCELED. */
int subset_open(struct subset_shelf *shelf, const char *path, const atomic_bool *cancel,
	struct subset **ret, struct fault *fault);
/* Takes NULL. */
void subset_close(struct subset_shelf *shelf, struct subset *subset);

/* What it takes of the budget. */
uint64_t subset_bytes(const struct subset *subset);

/* 0, or -EINVAL where one of its numbers is none of a dataset with so many samples. */
int subset_fits(
	const struct subset *subset, const char *path, uint64_t samples, struct fault *fault);

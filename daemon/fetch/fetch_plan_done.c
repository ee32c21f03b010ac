/* fetch_plan_done: see fetch_plan.h. Takes the results of ops: shards are open or not, items and
 * their followers get their results, and buffers that no item holds are freed. */
#include "base/clock.h"
#include "dataset/dataset.h"
#include "fetch/fetch_lookup.h"
#include "fetch/fetch_plan.h"
#include "fetch/fetch_share.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

static void plan_refused(struct lane *lane, const struct dataset *dataset)
{
	struct fetch_mode *mode = fetch_plan_mode(lane, dataset);
	if (!mode->direct)
		return;
	mode->direct = false;
	if (lane->fetch->cache && lane->fetch->options.cache == FETCH_CACHE_AUTO)
		cache_stop(lane->fetch->cache, dataset);
	/* Each lane finds out by itself; the operator is told once. */
	if (atomic_exchange_explicit(&lane->fetch->refused, dataset, memory_order_relaxed) ==
		dataset)
		return;
	(void)snprintf(lane->notice, sizeof lane->notice,
		"%s: its file system refuses O_DIRECT, so it is read through the page cache (as "
		"with io: buffered)",
		dataset_shard_path(dataset, 0));
}

/* If other parts of the process use up its files, closing one of ours makes room. */
static bool plan_reopen(struct lane *lane, struct fetch_op *op)
{
	if ((op->result != -EMFILE && op->result != -ENFILE) || !files_evict(&lane->files))
		return false;
	op->stage = FETCH_OP_OPEN;
	op->tries = 0;
	fetch_far_again(op);
	fetch_plan_ready(lane, op);
	return true;
}

/* Gives an item the sentence of remote storage, if there is one. */
static void plan_tell(struct fetch_item *item, const struct fault *why)
{
	if (!why->text[0])
		return;
	fetch_state(item)->told = true;
	if (item->fault)
		*item->fault = *why;
}

static void plan_file_opened(struct lane *lane, struct file *file)
{
	const struct dataset *dataset = file->dataset;
	uint32_t shard = file->shard;
	int result = file->op.result;
	if (plan_reopen(lane, &file->op))
		return;
	if (file->op.refused)
		plan_refused(lane, dataset);
	bool doomed = file->doomed;
	struct fault why = {""};
	if (file->op.remote) {
		why = *fetch_far_fault(&file->op);
		file->op.object = fetch_far_take(&file->op);
		fetch_far_end(&file->op);
	}
	if (files_opened(&lane->files, file, clock_ns()) || doomed)
		return;
	if (result == -ENOENT || result == -ENOTDIR)
		result = -ESTALE;
	for (struct fetch_request *request = lane->window, *after; request; request = after) {
		after = request->after;
		if (request->state == REQUEST_READY && request->item->dataset == dataset &&
			request->at.shard == shard) {
			plan_tell(request->item, &why);
			fetch_lookup_finish(lane, request, result);
		}
	}
}

/* Storage has many errors for a place that cannot be read: the block layer's for media, protection
 * and target errors, the file systems' for checksums. An error of remote storage has nothing to do
 * with the place. */
static bool plan_is_io_error(const struct fetch_op *op)
{
	const int result = op->result;
	if (op->remote)
		return false;
	return result == -EIO || result == -ENODATA || result == -EREMOTEIO || result == -EILSEQ ||
	       result == -EUCLEAN || result == -EBADMSG;
}

static int plan_outcome_file(const struct fetch_op *op)
{
	switch (op->result) {
	case 0:
		return op->got > op->need ? FETCH_E_CHANGED : FETCH_OK;
	case FETCH_OP_ENDED:
		return op->changed ? FETCH_E_CHANGED : FETCH_E_SHORT;
	case -EISDIR:
	case -ENXIO:
	case -ESPIPE:
		return FETCH_E_CHANGED;
	case -ENOENT:
	case -ENOTDIR:
	case -ELOOP:
	case -ESTALE:
		return FETCH_E_MISSING;
	default:
		return plan_is_io_error(op) ? FETCH_E_IO : op->result;
	}
}

/* The outcome of a folder's field: no index says that it exists, or how long it is. */
static int plan_outcome_field(const struct fetch_op *op)
{
	if (op->result == -ENOENT || op->result == -ENOTDIR)
		return FETCH_E_FIELD_MISSING;
	return op->result == -ELOOP || op->result == -ESTALE ? FETCH_E_IO : plan_outcome_file(op);
}

static int plan_outcome_range(const struct fetch_op *op)
{
	if (op->result == FETCH_OP_ENDED)
		return FETCH_E_SHORT;
	return plan_is_io_error(op) ? FETCH_E_IO : op->result;
}

/* Returns followers that cannot have their leader's buffer to the queue. */
static void plan_look_again(struct lane *lane, struct fetch_item *followers)
{
	for (struct fetch_item *item = followers, *next; item; item = next) {
		next = item->next;
		if (lane->stopping)
			fetch_plan_finish(lane, item, -ECANCELED);
		else
			fetch_queue_return(&lane->queue, item);
	}
}

/* Gives followers their leader's result. Returns how many. */
static uint32_t plan_follow(
	struct lane *lane, const struct fetch_item *leader, struct fetch_item *followers)
{
	uint32_t count = 0;
	for (struct fetch_item *item = followers, *next; item; item = next, count++) {
		next = item->next;
		item->data = leader->data;
		item->size = leader->size;
		item->read_ns = leader->read_ns;
		/* The stored bytes are the leader's, and it may be another sample's. */
		if (!fetch_state(item)->range) {
			item->packed = leader->packed;
			item->unpacked = leader->unpacked;
			item->label = leader->label;
			item->shard = leader->shard;
			item->position = leader->position;
			item->longer = leader->longer;
		}
		fetch_state(item)->buffer = fetch_state_const(leader)->buffer;
		fetch_charge(item, arena_cost(item->size));
		fetch_plan_finish(lane, item, FETCH_OK);
	}
	return count;
}

/* A merged read failed: each of its items is read again by itself, so that no outcome depends on
 * merging. */
static void plan_split(struct lane *lane, struct fetch_read *read)
{
	struct fetch_item *item = read->items;
	while (item) {
		struct fetch_item *next = item->next;
		plan_look_again(lane, fetch_share_end(lane, item));
		fetch_state(item)->solo = true;
		fetch_uncharge(item);
		item->data = NULL;
		fetch_queue_return(&lane->queue, item);
		item = next;
	}
	fetch_give_back(lane->fetch, read->buffer, read->large);
}

/* Gives each item its result; the items that were read hold the buffer from now on. */
static void plan_deal(struct lane *lane, struct fetch_read *read)
{
	const struct fetch_op *op = &read->op;
	uint64_t read_ns = clock_ns() - read->begun_ns;
	uint32_t holders = 0;
	for (struct fetch_item *item = read->items, *next; item; item = next) {
		next = item->next;
		int result = lane->stopping ? -ECANCELED
			     : read->file   ? plan_outcome_range(op)
			     : item->field  ? plan_outcome_field(op)
					    : plan_outcome_file(op);
		struct fetch_item *followers = fetch_share_end(lane, item);
		if (result < 0 && op->remote)
			plan_tell(item, fetch_far_fault(op));
		item->read_ns = read_ns;
		item->size = fetch_field_size(op, item, &item->longer);
		if (item->packed.method == PACKED_NONE)
			item->unpacked = item->size;
		item->resized = !read->file && !item->field && !op->irregular &&
				(op->result == 0 || (op->result == FETCH_OP_ENDED && op->changed));
		if (result == FETCH_OK) {
			fetch_state(item)->buffer = read->buffer;
			fetch_state(item)->large = read->large;
			holders++;
		} else {
			fetch_uncharge(item);
			item->data = NULL;
		}
		if (result == FETCH_OK && !read->large)
			holders += plan_follow(lane, item, followers);
		else
			plan_look_again(lane, followers);
		fetch_plan_finish(lane, item, result);
	}
	if (holders == 0)
		fetch_give_back(lane->fetch, read->buffer, read->large);
	else if (!read->large)
		arena_share(&lane->fetch->arena, read->buffer, holders);
}

/* Checks a shard after a read. A shard that ends early or was replaced is not read any more. */
static void plan_check_shard(struct lane *lane, struct fetch_read *read)
{
	struct fetch_op *op = &read->op;
	if (op->refused) {
		read->file->direct = false;
		read->file->align = 1;
	}
	if (op->result == FETCH_OP_ENDED && !op->remote &&
		dataset_verify_shard(op->dataset, op->shard, NULL) < 0)
		op->result = -ESTALE;
	if (op->result == -ESTALE)
		files_doom(&lane->files, read->file);
}

/* Whether reading each item by itself may have other results. What remote storage refuses to one
 * request, it refuses to all. */
static bool plan_splits(const struct fetch_op *op)
{
	return op->remote ? op->result > 0 : op->result != 0 && op->result != -ESTALE;
}

static void plan_read_done(struct lane *lane, struct fetch_read *read)
{
	struct fetch_op *op = &read->op;
	if (!read->file && op->fd < 0 && !op->object && plan_reopen(lane, op))
		return;
	if (op->refused)
		plan_refused(lane, op->dataset);
	if (read->file)
		plan_check_shard(lane, read);
	if (plan_splits(op) && read->count > 1 && !lane->stopping)
		plan_split(lane, read);
	else
		plan_deal(lane, read);
	if (read->file)
		files_drop(&lane->files, read->file);
	else
		lane->files_own--;
	struct fetch_mode *mode = fetch_plan_known(lane, op->dataset);
	if (mode && mode->reads > 0)
		mode->reads--;
	if (op->remote)
		lane->far_used--;
	else
		lane->reads_used--;
	fetch_far_end(op);
	read->next = lane->read_free;
	lane->read_free = read;
}

void fetch_plan_done(struct lane *lane, struct fetch_op *op)
{
	assert(op->stage == FETCH_OP_DONE && lane->asked > 0);
	lane->asked--;
	struct fetch_mode *mode = fetch_plan_known(lane, op->dataset);
	if (op->remote)
		lane->asked_far--;
	else if (mode && mode->asked > 0)
		mode->asked--;
	switch (op->kind) {
	case FETCH_OP_PAGE:
		fetch_lookup_loaded(lane, (struct page *)op);
		break;
	case FETCH_OP_SHARD:
		plan_file_opened(lane, (struct file *)op);
		break;
	case FETCH_OP_RANGE:
	case FETCH_OP_FILE:
		plan_read_done(lane, (struct fetch_read *)op);
		break;
	}
}

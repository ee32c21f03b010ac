/* subset: see subset.h. The shelf's lock is held for a walk over its entries, never while a file is
 * read or the ledger is asked. */
#include "stream/subset.h"

#include "base/hash.h"
#include "base/size.h"
#include "base/util.h"
#include "source/npy.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SUBSET_CHUNK = 8192 }; /* values that are read at once */

struct subset_file {
	const char *path;
	const atomic_bool *cancel;
	struct fault *fault;
	int fd;
	uint64_t size;
	struct npy npy;
	uint64_t value[SUBSET_CHUNK];
	uint8_t bytes[NPY_PREFIX + NPY_TEXT_MAX]; /* the header, then SUBSET_CHUNK values */
};

_Static_assert(SUBSET_CHUNK * sizeof(uint64_t) <= NPY_PREFIX + NPY_TEXT_MAX, "a chunk fits");

/* The file
 * ------------------------------------------------------------------------------------------------------
 */

static int subset_file_open(struct subset_file *file)
{
	struct stat st;
	/* A pipe must hold nobody up. */
	file->fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (file->fd < 0)
		return fault_set(file->fault, -errno,
			"indices: %s: %s; the file must be there and readable for penstockd each "
			"time "
			"that the stream is opened, also when a trainer reconnects",
			file->path, strerror(errno));
	if (fstat(file->fd, &st) < 0)
		return fault_set(
			file->fault, -errno, "indices: %s: %s", file->path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return fault_set(file->fault, -EINVAL,
			"indices: %s is no regular file: expected a .npy file of sample numbers",
			file->path);
	file->size = (uint64_t)st.st_size;
	return 0;
}

/* Fewer bytes than asked for: the file is shorter than it was. */
static int subset_file_read(struct subset_file *file, uint64_t offset, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n =
			pread(file->fd, file->bytes + done, size - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fault_set(file->fault, -errno,
				"indices: %s: at byte %" PRIu64 ": %s", file->path, offset + done,
				strerror(errno));
		if (n == 0)
			return fault_set(file->fault, -EIO,
				"indices: %s was cut off at byte %" PRIu64
				" while it was read: open the stream when it is whole",
				file->path, offset + done);
		done += (size_t)n;
	}
	return 0;
}

static int subset_file_header(struct subset_file *file)
{
	uint64_t bytes, end;
	size_t head = (size_t)UTIL_MIN(file->size, (uint64_t)sizeof file->bytes);
	int result = subset_file_read(file, 0, head);
	if (result)
		return result;
	if (npy_parse(file->bytes, head, &file->npy, file->fault))
		return fault_prefix(file->fault, -EINVAL, "indices: %s", file->path);
	const struct npy *npy = &file->npy;
	if (!npy->count)
		return fault_set(file->fault, -EINVAL,
			"indices: %s is empty: an epoch needs at least one sample", file->path);
	if (!__builtin_mul_overflow(npy->count, (uint64_t)npy->bytes, &bytes) &&
		!__builtin_add_overflow(bytes, npy->data, &end) && end == file->size)
		return 0;
	return fault_set(file->fault, -EINVAL,
		"indices: %s is cut off or damaged: its header says %" PRIu64
		" numbers of %u bytes from byte %u on, and the file has %" PRIu64
		" bytes; write it again",
		file->path, npy->count, npy->bytes, npy->data, file->size);
}

typedef int subset_take_fn(void *context, struct subset_file *file, uint64_t first, size_t count);

/* All the values, a chunk at a time. */
static int subset_file_walk(struct subset_file *file, subset_take_fn *take, void *context)
{
	const struct npy *npy = &file->npy;
	int result = 0;
	for (uint64_t at = 0; !result && at < npy->count; at += SUBSET_CHUNK) {
		size_t count = (size_t)UTIL_MIN(npy->count - at, (uint64_t)SUBSET_CHUNK);
		if (file->cancel && atomic_load_explicit(file->cancel, memory_order_relaxed))
			return fault_set(file->fault, -ECANCELED, "nobody waits for it any more");
		result = subset_file_read(file, npy->data + at * npy->bytes, count * npy->bytes);
		if (result)
			return result;
		npy_widen(npy, file->bytes, count, file->value);
		result = take(context, file, at, count);
	}
	return result;
}

/* The content
 * ------------------------------------------------------------------------------------------------------
 */

static uint64_t subset_hash(uint64_t h, const uint64_t *value, size_t count)
{
	for (size_t i = 0; i < count; i++)
		h = hash_mix(h ^ value[i]) + HASH_SEED;
	return h;
}

struct subset_look {
	uint64_t hash, highest;
};

static int subset_look(void *context, struct subset_file *file, uint64_t first, size_t count)
{
	struct subset_look *look = context;
	look->hash = subset_hash(look->hash, file->value, count);
	for (size_t i = 0; i < count; i++) {
		if (file->npy.is_signed && file->value[i] >> 63)
			return fault_set(file->fault, -EINVAL,
				"indices: %s: [%" PRIu64 "] is %" PRId64
				": expected the numbers of samples, from 0 to one less than the "
				"dataset has",
				file->path, first + i, (int64_t)file->value[i]);
		look->highest = UTIL_MAX(look->highest, file->value[i]);
	}
	return 0;
}

static uint32_t subset_width(uint64_t highest)
{
	return highest <= UINT32_MAX ? sizeof(uint32_t) : sizeof(uint64_t);
}

struct subset_keep {
	struct subset *subset;
	uint64_t hash;
};

static int subset_keep(void *context, struct subset_file *file, uint64_t first, size_t count)
{
	struct subset_keep *keep = context;
	uint32_t *narrow = keep->subset->memory;
	uint64_t *wide = keep->subset->memory;
	keep->hash = subset_hash(keep->hash, file->value, count);
	if (subset_width(keep->subset->highest) == sizeof *wide)
		memcpy(wide + first, file->value, count * sizeof *wide);
	else
		for (size_t i = 0; i < count; i++)
			narrow[first + i] = (uint32_t)file->value[i];
	return 0;
}

/* Memory
 * ------------------------------------------------------------------------------------------------------
 */

/* More than the whole budget holds, whatever the numbers are: that needs no look at them. */
static bool subset_is_hopeless(const struct subset_shelf *shelf, const struct npy *npy)
{
	return shelf->ledger && npy->count > shelf->ledger->budget / sizeof(uint32_t);
}

/* Behind the ledger's own words, which know no files. */
static int subset_refuse(struct subset_shelf *shelf, const struct subset_file *file, uint32_t width)
{
	uint64_t room = ledger_free(shelf->ledger), need = file->npy.count * width;
	char want[16], left[16], all[16];
	if (need <= room)
		return fault_prefix(file->fault, -ENOMEM, "indices: %s", file->path);
	uint64_t budget = shelf->budget_for(shelf->budget_context, need - room);
	return fault_set(file->fault, -ENOMEM,
		"indices: %s: its %" PRIu64
		" numbers need %s (%u bytes each), but %s of the memory "
		"budget of %s is free, enough for %" PRIu64
		" numbers: start penstockd with --memory %" PRIu64 "M or more",
		file->path, file->npy.count, size_format(need, want, sizeof want), width,
		size_format(room, left, sizeof left),
		size_format(shelf->ledger->budget, all, sizeof all), room / width,
		util_align(budget, 1 << 20) >> 20);
}

static int subset_allocate(
	struct subset_shelf *shelf, struct subset *subset, const struct subset_file *file)
{
	uint32_t width = subset_width(subset->highest);
	char name[LEDGER_NAME];
	(void)snprintf(name, sizeof name, "indices of %" PRIu64 " samples", subset->count);
	if (shelf->ledger && ledger_reserve(shelf->ledger, subset->count * width, name,
				     &subset->ledger_line, file->fault))
		return subset_refuse(shelf, file, width);
	assert(subset->count);
	subset->memory = calloc(subset->count, width);
	if (!subset->memory)
		return fault_set(file->fault, -ENOMEM,
			"indices: %s: no memory for its %" PRIu64 " numbers", file->path,
			subset->count);
	if (width == sizeof(uint32_t))
		subset->numbers.narrow = subset->memory;
	else
		subset->numbers.wide = subset->memory;
	return 0;
}

static void subset_free(struct subset_shelf *shelf, struct subset *subset)
{
	if (!subset)
		return;
	free(subset->memory);
	if (subset->ledger_line >= 0)
		ledger_release(shelf->ledger, subset->ledger_line);
	free(subset);
}

/* The shelf
 * ------------------------------------------------------------------------------------------------------
 */

void subset_shelf_init(struct subset_shelf *shelf, struct ledger *ledger,
	uint64_t (*budget_for)(void *context, uint64_t bytes_more), void *budget_context)
{
	*shelf = (struct subset_shelf){
		.ledger = ledger, .budget_for = budget_for, .budget_context = budget_context};
	pthread_mutex_init(&shelf->lock, NULL);
}

void subset_shelf_deinit(struct subset_shelf *shelf)
{
	assert(!shelf->subsets);
	pthread_mutex_destroy(&shelf->lock);
}

/* Another holder of the content, or of `fresh` (may be NULL) put up for it; NULL: neither is there.
 */
static struct subset *subset_settle(
	struct subset_shelf *shelf, uint64_t count, uint64_t hash, struct subset *fresh)
{
	pthread_mutex_lock(&shelf->lock);
	struct subset *subset = shelf->subsets;
	while (subset && (subset->count != count || subset->hash != hash))
		subset = subset->next;
	if (!subset && fresh) {
		subset = fresh;
		subset->next = shelf->subsets;
		shelf->subsets = subset;
	}
	if (subset)
		subset->holders++;
	pthread_mutex_unlock(&shelf->lock);
	return subset;
}

/* The second pass: what it reads must be what the first one read. */
static int subset_load(struct subset_shelf *shelf, struct subset_file *file,
	const struct subset_look *look, struct subset **ret)
{
	struct subset *subset = malloc(sizeof *subset);
	if (!subset)
		return fault_set(file->fault, -ENOMEM, "no memory for a subset");
	*subset = (struct subset){.count = file->npy.count,
		.hash = look->hash,
		.highest = look->highest,
		.ledger_line = -1};
	struct subset_keep keep = {.subset = subset};
	int result = subset_allocate(shelf, subset, file);
	if (!result)
		result = subset_file_walk(file, subset_keep, &keep);
	if (!result && keep.hash != look->hash)
		result = fault_set(file->fault, -EIO,
			"indices: %s changed while it was read: write it beside its place and "
			"rename it",
			file->path);
	if (result) {
		subset_free(shelf, subset);
		return result;
	}
	*ret = subset_settle(shelf, subset->count, subset->hash, subset);
	if (*ret != subset)
		subset_free(shelf, subset);
	return 0;
}

static int subset_read(struct subset_shelf *shelf, struct subset_file *file, struct subset **ret)
{
	struct subset_look look = {0};
	int result = subset_file_open(file);
	if (!result)
		result = subset_file_header(file);
	if (!result && subset_is_hopeless(shelf, &file->npy))
		result = subset_refuse(shelf, file, sizeof(uint32_t));
	if (!result)
		result = subset_file_walk(file, subset_look, &look);
	if (result)
		return result;
	*ret = subset_settle(shelf, file->npy.count, look.hash, NULL);
	return *ret ? 0 : subset_load(shelf, file, &look, ret);
}

int subset_open(struct subset_shelf *shelf, const char *path, const atomic_bool *cancel,
	struct subset **ret, struct fault *fault)
{
	struct subset_file *file = malloc(sizeof *file);
	if (!file)
		return fault_set(fault, -ENOMEM, "no memory to read %s", path);
	file->path = path;
	file->cancel = cancel;
	file->fault = fault;
	file->fd = -1;
	int result = subset_read(shelf, file, ret);
	if (file->fd >= 0)
		(void)close(file->fd);
	free(file);
	return result;
}

void subset_close(struct subset_shelf *shelf, struct subset *subset)
{
	if (!subset)
		return;
	pthread_mutex_lock(&shelf->lock);
	bool last = --subset->holders == 0;
	if (last) {
		struct subset **at = &shelf->subsets;
		while (*at != subset)
			at = &(*at)->next;
		*at = subset->next;
	}
	pthread_mutex_unlock(&shelf->lock);
	if (last)
		subset_free(shelf, subset);
}

uint64_t subset_bytes(const struct subset *subset)
{
	return subset->count * subset_width(subset->highest);
}

static uint64_t subset_at(const struct subset *subset, uint64_t place)
{
	const struct order_subset *numbers = &subset->numbers;
	return numbers->narrow ? numbers->narrow[place] : numbers->wide[place];
}

int subset_fits(
	const struct subset *subset, const char *path, uint64_t samples, struct fault *fault)
{
	uint64_t place = 0;
	if (subset->highest < samples)
		return 0;
	while (subset_at(subset, place) < samples)
		place++;
	return fault_set(fault, -EINVAL,
		"indices: %s: [%" PRIu64 "] is %" PRIu64 ", but the dataset has %" PRIu64
		" samples: expected numbers from 0 to %" PRIu64,
		path, place, subset_at(subset, place), samples, samples - 1);
}

/* unpacking: see unpacking.h. Runs on workers. */
#include "stream/unpacking.h"

#include "base/size.h"
#include "base/util.h"
#include "fetch/fetch.h"
#include "unpack/unpack.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Samples in a block at once; the decoder takes up to 32 at a time, and one may have further
 * views. */
enum { LIVE_MOST = 64 };

struct piece {
	size_t at, size;
};

struct unpacking_worker {
	struct unpack *unpack; /* made when it is first needed */
	uint8_t *block;
	struct piece live[LIVE_MOST]; /* in ascending order */
	unsigned count;
};

struct unpacking {
	unsigned workers;
	size_t own;
	struct unpacking_worker *worker;
};

uint64_t unpacking_bytes(size_t own)
{
	return own + UNPACK_BYTES + sizeof(struct unpacking_worker);
}

int unpacking_new(unsigned workers, size_t own, struct unpacking **ret)
{
	struct unpacking *unpacking = calloc(1, sizeof *unpacking);
	if (!unpacking)
		return -ENOMEM;
	unpacking->own = own;
	unpacking->worker = calloc(workers, sizeof *unpacking->worker);
	bool whole = unpacking->worker != NULL;
	for (; whole && unpacking->workers < workers; unpacking->workers++) {
		if (!own)
			continue;
		uint8_t *block = aligned_alloc(RASTER_ALIGN, util_align(own, RASTER_ALIGN));
		unpacking->worker[unpacking->workers].block = block;
		whole = block != NULL;
	}
	if (!whole) {
		unpacking_free(unpacking);
		return -ENOMEM;
	}
	*ret = unpacking;
	return 0;
}

void unpacking_free(struct unpacking *unpacking)
{
	if (!unpacking)
		return;
	for (unsigned i = 0; i < unpacking->workers; i++) {
		assert(!unpacking->worker[i].count);
		unpack_free(unpacking->worker[i].unpack);
		free(unpacking->worker[i].block);
	}
	free(unpacking->worker);
	free(unpacking);
}

/* The first gap of the block that is large enough. NULL: there is none. */
static uint8_t *block_take(
	const struct unpacking *unpacking, struct unpacking_worker *worker, size_t size)
{
	size_t from = 0;
	unsigned i = 0;
	size = util_align(size, RASTER_ALIGN);
	if (!worker->block || worker->count == LIVE_MOST)
		return NULL;
	for (; i < worker->count && worker->live[i].at - from < size; i++)
		from = worker->live[i].at + worker->live[i].size;
	if (i == worker->count && (from > unpacking->own || size > unpacking->own - from))
		return NULL;
	memmove(&worker->live[i + 1], &worker->live[i],
		(worker->count - i) * sizeof worker->live[0]);
	worker->live[i] = (struct piece){from, size};
	worker->count++;
	return worker->block + from;
}

static void block_give_back(struct unpacking_worker *worker, const uint8_t *data)
{
	const size_t at = (size_t)(data - worker->block);
	unsigned i = 0;
	while (worker->live[i].at != at)
		i++;
	worker->count--;
	memmove(&worker->live[i], &worker->live[i + 1],
		(worker->count - i) * sizeof worker->live[0]);
}

static int memory_fault(
	const struct raster_beyond *beyond, uint32_t size, int error, struct fault *fault)
{
	char wanted[16];
	if (error == -ENOMEM)
		return fault_set(fault, error,
			"no memory left to unpack a sample; lower `threads` or raise the machine's "
			"memory");
	return fault_set(fault, error,
		"a sample has %s when it is unpacked, more than the memory budget has for large "
		"files now; it goes to a temporary file in %.200s, which fails: %s; make room "
		"there, set cache_dir to a folder on a disk with room, or raise memory",
		size_format(size, wanted, sizeof wanted),
		beyond->spill ? beyond->spill->folder : "no folder", strerror(-error));
}

static int unpacked_take(struct unpacking *unpacking, unsigned worker,
	const struct raster_beyond *beyond, uint32_t size, struct unpacked *to, struct fault *fault)
{
	const size_t bytes = (size_t)size + UNPACKING_SLACK;
	to->worker = worker;
	to->data = block_take(unpacking, &unpacking->worker[worker], bytes);
	to->inside = to->data != NULL;
	if (to->inside)
		return 0;
	(void)raster_init(&to->beyond, 0);
	int rc = raster_take(&to->beyond, beyond, bytes, false, &to->data);
	if (rc == 0)
		return 0;
	to->data = NULL;
	return memory_fault(beyond, size, rc, fault);
}

void unpacking_give_back(struct unpacking *unpacking, struct unpacked *unpacked)
{
	if (!unpacked->data)
		return;
	if (unpacked->inside)
		block_give_back(&unpacking->worker[unpacked->worker], unpacked->data);
	else
		raster_give_back(&unpacked->beyond);
	unpacked->data = NULL;
}

/* 0; FETCH_E_UNPACK; or a negative errno. */
static int unpacking_slice(struct unpacking *unpacking, unsigned number,
	const struct packed *packed, uint32_t size, const uint8_t *stored, void *out,
	struct fault *fault)
{
	struct unpacking_worker *worker = &unpacking->worker[number];
	if (!worker->unpack)
		worker->unpack = unpack_new();
	if (!worker->unpack)
		return memory_fault(NULL, size, -ENOMEM, fault);
	int rc = unpack_slice(worker->unpack, packed, size, stored, out, fault);
	return rc == -EBADMSG || rc == -EOPNOTSUPP ? FETCH_E_UNPACK : rc;
}

int unpacking_run(struct unpacking *unpacking, unsigned worker, const struct raster_beyond *beyond,
	const struct packed *packed, uint32_t size, const uint8_t *stored, struct unpacked *to,
	struct fault *fault)
{
	int rc = unpacked_take(unpacking, worker, beyond, size, to, fault);
	if (rc < 0)
		return rc;
	rc = unpacking_slice(unpacking, worker, packed, size, stored, to->data, fault);
	if (rc)
		unpacking_give_back(unpacking, to);
	else
		memset(to->data + size, 0, UNPACKING_SLACK);
	return rc;
}

int unpacking_field(struct unpacking *unpacking, unsigned worker, const struct packed *packed,
	uint32_t size, bool longer, const uint8_t *stored, void *out, struct fault *fault)
{
	struct packed part = *packed;
	/* The checksum is that of all bytes. */
	part.checked &= !longer;
	return unpacking_slice(unpacking, worker, &part, size, stored, out, fault);
}

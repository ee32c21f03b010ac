/* The fake's memory: see fake_driver.c.
 *
 * Device memory has an address that the CPU cannot touch (a reserved range, never used again) and
 * its bytes elsewhere, with guard bytes after them. So a host that reads a device pointer dies,
 * and a late use or one past the end is noticed.
 *
 * Each block notes what touched which of its bytes last, in which lane: see fake_parts.h for how
 * work that is not ordered is found. */
#include "cuda/fake_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Parameters are named as this house does, not as cuda.h.
 * NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */

enum { FRESH = 0xa5, GUARD = 0x5a, DEVICE_ALIGN = 512 };

static struct {
	struct block *blocks;
	uint64_t used[FAKE_DEVICES], pinned, pageable_copies, direct_copies;
} fake;

/* ---- blocks ---- */

static const char *block_name(const struct block *block)
{
	switch (block->kind) {
	case BLOCK_DEVICE:
		return "device memory";
	case BLOCK_PINNED:
		return "pinned memory";
	default:
		return "registered memory";
	}
}

static struct block *block_new(enum block_kind kind, uintptr_t address, size_t bytes)
{
	struct block *block = fake_room(sizeof *block);
	block->context = fake_current();
	block->kind = kind;
	block->alive = true;
	block->address = address;
	block->bytes = bytes;
	block->next = fake.blocks;
	fake.blocks = block;
	return block;
}

/* Of this kind, beginning here. */
static struct block *block_at(enum block_kind kind, uintptr_t address)
{
	for (struct block *block = fake.blocks; block; block = block->next)
		if (block->alive && block->kind == kind && block->address == address)
			return block;
	return NULL;
}

static bool block_overlaps(const struct block *block, uintptr_t address, size_t bytes)
{
	return address < block->address + block->bytes && block->address < address + bytes;
}

static void block_end(struct block *block)
{
	bool busy = false;
	for (size_t i = 0; i < block->accesses; i++)
		busy = busy || !stream_done(block->access[i].lane, block->access[i].seq);
	if (busy && fake_lost() == CUDA_SUCCESS)
		fake_fault("%s of %zu bytes was given back while queued work uses it",
			block_name(block), block->bytes);
	block->alive = false;
	free(block->access);
	block->access = NULL;
	block->accesses = block->room = 0;
	/* What still runs goes on with bytes that nobody else gets. */
	if (block->kind == BLOCK_DEVICE && !busy) {
		for (size_t i = 0; i < FAKE_GUARD; i++) {
			if (block->backing[block->bytes + i] == GUARD)
				continue;
			fake_fault("device memory was written behind its %zu bytes", block->bytes);
			break;
		}
		free(block->backing);
		block->backing = NULL;
	}
}

/* ---- order ---- */

static bool access_overlaps(const struct access *a, const struct access *b)
{
	return a->begin < b->end && b->begin < a->end;
}

/* Whether whatever must come after `before` and comes after `now` needs to know of `before` no
 * more. */
static bool access_replaces(const struct access *now, const struct access *before)
{
	return now->begin <= before->begin && before->end <= now->end &&
	       (now->writes || !before->writes);
}

static void access_compare(const struct block *block, const struct access *now,
	const struct access *before, const char *what)
{
	if (!access_overlaps(now, before) || !(now->writes || before->writes))
		return;
	fake_fault("%s %s bytes %zu to %zu of %s of %zu bytes, and is not ordered after what %s "
		   "them before (wait for an event, or use the same stream)",
		what, now->writes ? "writes" : "reads", now->begin, now->end, block_name(block),
		block->bytes, before->writes ? "wrote" : "reads");
}

static void access_add(struct block *block, const struct access *access)
{
	if (block->accesses == block->room) {
		block->room = block->room ? 2 * block->room : 32;
		block->access = realloc(block->access, block->room * sizeof *block->access);
		if (!block->access)
			abort();
	}
	block->access[block->accesses++] = *access;
}

void memory_access(struct block *block, uintptr_t address, size_t bytes, bool writes,
	struct CUstream_st *stream, const char *what)
{
	const struct clock *clock = stream_clock(stream);
	struct access now = {stream->lane, writes, stream_next(stream), address - block->address,
		address - block->address + bytes};
	size_t kept = 0;
	for (size_t i = 0; i < block->accesses; i++) {
		const struct access *before = &block->access[i];
		/* The same piece of work may touch bytes twice. */
		bool ordered = clock->at[before->lane] >= before->seq ||
			       (before->lane == now.lane && before->seq == now.seq);
		if (!ordered)
			access_compare(block, &now, before, what);
		if (!ordered || !access_replaces(&now, before))
			block->access[kept++] = *before;
	}
	block->accesses = kept;
	access_add(block, &now);
}

/* ---- the device's memory ---- */

static bool memory_fits(size_t bytes)
{
	return bytes <= fake_settings()->memory - fake.used[fake_current()->device];
}

/* What a made-up process beside this one takes of the device, for programs that are tested as a
 * whole: FAKE_CUDA_NEIGHBOR=once takes half of the memory from the second question on, =restless
 * before every second question. */
static uint64_t memory_of_neighbor(void)
{
	static unsigned questions;
	const char *neighbor = getenv("FAKE_CUDA_NEIGHBOR");
	questions++;
	if (!neighbor)
		return 0;
	bool takes = strcmp(neighbor, "once") == 0 ? questions > 1 : questions % 2 == 0;
	return takes ? fake_settings()->memory / 2 : 0;
}

FAKE_EXPORT CUresult CUDAAPI cuMemGetInfo_v2(size_t *ret_free, size_t *ret_total)
{
	FAKE_ENTER(CALL_mem_get_info, true);
	*ret_total = fake_settings()->memory;
	uint64_t used = fake.used[fake_current()->device] + memory_of_neighbor();
	*ret_free = *ret_total > used ? *ret_total - used : 0;
	return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *ret_address, size_t bytes)
{
	FAKE_ENTER(CALL_mem_alloc, true);
	if (bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!memory_fits(bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	void *range = mmap(NULL, bytes + FAKE_GUARD, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t room = (bytes + FAKE_GUARD + DEVICE_ALIGN - 1) / DEVICE_ALIGN * DEVICE_ALIGN;
	void *backing = aligned_alloc(DEVICE_ALIGN, room);
	if (range == MAP_FAILED || !backing)
		abort();
	struct block *block = block_new(BLOCK_DEVICE, (uintptr_t)range, bytes);
	block->backing = backing;
	memset(block->backing, FRESH, bytes);
	memset(block->backing + bytes, GUARD, FAKE_GUARD);
	fake.used[block->context->device] += bytes;
	*ret_address = block->address;
	return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult CUDAAPI cuMemFree_v2(CUdeviceptr address)
{
	FAKE_ENTER_RELEASE(CALL_mem_free, true);
	struct block *block = block_at(BLOCK_DEVICE, address);
	if (!block) {
		fake_fault("cuMemFree of 0x%llx, which is no allocation", address);
		return CUDA_ERROR_INVALID_VALUE;
	}
	fake.used[block->context->device] -= block->bytes;
	block_end(block);
	return result;
}

/* Also among those that are gone. */
static struct block *block_around(uintptr_t address)
{
	for (struct block *block = fake.blocks; block; block = block->next)
		if (block->kind == BLOCK_DEVICE && address >= block->address &&
			address < block->address + block->bytes + FAKE_GUARD)
			return block;
	return NULL;
}

uint8_t *memory_find(CUdeviceptr address, size_t bytes, const char *what, struct block **ret_block)
{
	struct block *block = block_around(address);
	const char *wrong = NULL;
	if (!block)
		wrong = "is no device memory";
	else if (!block->alive)
		wrong = "has been freed";
	else if (block->context != fake_current())
		wrong = "is of another device";
	else if (address + bytes > block->address + block->bytes)
		wrong = "ends before that";
	if (wrong) {
		fake_fault("%s: %zu bytes at 0x%llx: it %s", what, bytes, address, wrong);
		return NULL;
	}
	*ret_block = block;
	return block->backing + (address - block->address);
}

/* ---- the host's memory ---- */

FAKE_EXPORT CUresult CUDAAPI cuMemHostAlloc(void **ret_memory, size_t bytes, unsigned int flags)
{
	FAKE_ENTER(CALL_mem_host_alloc, true);
	if (bytes == 0 || flags & ~(unsigned)(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
					      CU_MEMHOSTALLOC_WRITECOMBINED))
		return CUDA_ERROR_INVALID_VALUE;
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct block *block = block_new(BLOCK_PINNED, (uintptr_t)memory, bytes);
	block->backing = memory;
	block->portable = true; /* with unified addressing, whatever the flags say */
	fake.pinned += bytes;
	*ret_memory = memory;
	return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult CUDAAPI cuMemFreeHost(void *memory)
{
	FAKE_ENTER_RELEASE(CALL_mem_free_host, true);
	struct block *block = block_at(BLOCK_PINNED, (uintptr_t)memory);
	if (!block) {
		fake_fault("cuMemFreeHost of %p, which is no allocation", memory);
		return CUDA_ERROR_INVALID_VALUE;
	}
	fake.pinned -= block->bytes;
	block_end(block);
	(void)munmap(memory, block->bytes);
	return result;
}

/* A line of /proc/self/maps. */
struct mapping {
	uintptr_t begin, end;
	bool writable, readable;
	uint64_t device_id, inode;
};

static bool mapping_parse(const char *line, struct mapping *ret_mapping)
{
	char rights[5];
	unsigned major, minor;
	int n = sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*s %x:%x %" SCNu64,
		&ret_mapping->begin, &ret_mapping->end, rights, &major, &minor,
		&ret_mapping->inode);
	if (n != 6)
		return false;
	ret_mapping->readable = rights[0] == 'r';
	ret_mapping->writable = rights[1] == 'w';
	ret_mapping->device_id = makedev(major, minor);
	return true;
}

/* The mapping that holds all of these bytes. */
static bool mapping_find(uintptr_t address, size_t bytes, struct mapping *ret_mapping)
{
	char line[4200];
	bool found = false;
	FILE *maps = fopen("/proc/self/maps", "re");
	if (!maps)
		abort();
	while (!found && fgets(line, sizeof line, maps))
		found = mapping_parse(line, ret_mapping) && ret_mapping->begin <= address &&
			address + bytes <= ret_mapping->end;
	(void)fclose(maps);
	return found;
}

bool memory_is_mapped(const void *address, size_t bytes)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	unsigned char resident;
	for (uintptr_t at = (uintptr_t)address / page * page; at < (uintptr_t)address + bytes;
		at += page)
		if (mincore((void *)at, 1, &resident) < 0)
			return false;
	return true;
}

static CUresult register_check(
	const struct mapping *mapping, bool read_only, const struct fake_cuda_settings *settings)
{
	if (!settings->host_register || (read_only && !settings->read_only_register))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!mapping->readable || (!mapping->writable && !read_only && !settings->host_page_tables))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static bool register_overlaps(uintptr_t address, size_t bytes)
{
	for (const struct block *block = fake.blocks; block; block = block->next)
		if (block->alive && block->kind != BLOCK_DEVICE &&
			block_overlaps(block, address, bytes))
			return true;
	return false;
}

FAKE_EXPORT CUresult CUDAAPI cuMemHostRegister_v2(void *memory, size_t bytes, unsigned int flags)
{
	struct mapping mapping;
	FAKE_ENTER(CALL_mem_host_register, true);
	if (!memory || bytes == 0 ||
		flags & ~(unsigned)(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
				    CU_MEMHOSTREGISTER_READ_ONLY))
		return CUDA_ERROR_INVALID_VALUE;
	if (!mapping_find((uintptr_t)memory, bytes, &mapping)) {
		fake_fault("memory was registered that is not mapped");
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (register_overlaps((uintptr_t)memory, bytes))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	result = register_check(&mapping, flags & CU_MEMHOSTREGISTER_READ_ONLY, fake_settings());
	if (result != CUDA_SUCCESS)
		return result;
	struct block *block = block_new(BLOCK_REGISTERED, (uintptr_t)memory, bytes);
	block->portable = flags & CU_MEMHOSTREGISTER_PORTABLE;
	block->device_id = mapping.device_id;
	block->inode = mapping.inode;
	return CUDA_SUCCESS;
}

static bool register_is_there(const struct block *block)
{
	struct mapping mapping;
	return mapping_find(block->address, block->bytes, &mapping) &&
	       mapping.device_id == block->device_id && mapping.inode == block->inode;
}

FAKE_EXPORT CUresult CUDAAPI cuMemHostUnregister(void *memory)
{
	FAKE_ENTER_RELEASE(CALL_mem_host_unregister, true);
	struct block *block = block_at(BLOCK_REGISTERED, (uintptr_t)memory);
	if (!block)
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	if (!register_is_there(block))
		fake_fault("registered memory was unmapped before it was unregistered");
	block_end(block);
	return result;
}

/* ---- copies ---- */

/* The pinned or registered memory that holds these bytes for the current context; NULL: pageable.
 * `ret_partly`: only some of them. */
static struct block *source_find(uintptr_t address, size_t bytes, bool *ret_partly)
{
	*ret_partly = false;
	for (struct block *block = fake.blocks; block; block = block->next) {
		if (!block->alive || block->kind == BLOCK_DEVICE ||
			!(block->portable || block->context == fake_current()) ||
			!block_overlaps(block, address, bytes))
			continue;
		if (address >= block->address && address + bytes <= block->address + block->bytes)
			return block;
		*ret_partly = true;
	}
	return NULL;
}

/* Pageable memory: the stream is waited for, the bytes are staged, and the caller may do with its
 * memory what it likes when the call has returned ("API synchronization behavior"). */
static CUresult copy_stage(struct work *work, struct CUstream_st *stream)
{
	fake.pageable_copies++;
	CUresult result = stream_await(stream->lane, stream_last(stream));
	if (result != CUDA_SUCCESS)
		return result;
	work->staged = fake_room(work->bytes);
	memcpy(work->staged, work->from, work->bytes);
	work->from = work->staged;
	return CUDA_SUCCESS;
}

static CUresult copy_queue(
	CUdeviceptr to, const void *from, size_t bytes, struct CUstream_st *stream)
{
	bool partly;
	struct block *target, *source = source_find((uintptr_t)from, bytes, &partly);
	struct work work = {.kind = WORK_COPY, .from = from, .bytes = bytes};
	work.to = memory_find(to, bytes, "cuMemcpyHtoDAsync", &target);
	if (!work.to || partly)
		return CUDA_ERROR_INVALID_VALUE;
	if (source) {
		fake.direct_copies += source->kind == BLOCK_REGISTERED;
		memory_access(source, (uintptr_t)from, bytes, false, stream, "cuMemcpyHtoDAsync");
	} else {
		CUresult result = copy_stage(&work, stream);
		if (result != CUDA_SUCCESS)
			return result;
	}
	memory_access(target, to, bytes, true, stream, "cuMemcpyHtoDAsync");
	(void)stream_push(stream, &work);
	return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult CUDAAPI cuMemcpyHtoDAsync_v2(
	CUdeviceptr to, const void *from, size_t bytes, CUstream handle)
{
	FAKE_ENTER(CALL_memcpy_htod_async, true);
	struct CUstream_st *stream = stream_find(handle);
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	return bytes ? copy_queue(to, from, bytes, stream) : CUDA_SUCCESS;
}

/* Back to the host: what this library does not use, and tests look at results with. */
static CUresult copy_back(
	void *to, CUdeviceptr from, size_t bytes, struct CUstream_st *stream, bool wait)
{
	bool partly;
	struct block *source, *target = source_find((uintptr_t)to, bytes, &partly);
	struct work work = {.kind = WORK_COPY, .to = to, .bytes = bytes};
	work.from = memory_find(from, bytes, "cuMemcpyDtoH", &source);
	if (!work.from || partly)
		return CUDA_ERROR_INVALID_VALUE;
	memory_access(source, from, bytes, false, stream, "cuMemcpyDtoH");
	if (target)
		memory_access(target, (uintptr_t)to, bytes, true, stream, "cuMemcpyDtoH");
	uint64_t seq = stream_push(stream, &work);
	return wait || !target ? stream_await(stream->lane, seq) : CUDA_SUCCESS;
}

static CUresult copy_back_in(void *to, CUdeviceptr from, size_t bytes, CUstream handle, bool wait)
{
	FAKE_LOCKED;
	struct CUstream_st *stream = fake_current() ? stream_find(handle) : NULL;
	if (fake_lost() != CUDA_SUCCESS)
		return fake_lost();
	return stream ? copy_back(to, from, bytes, stream, wait) : CUDA_ERROR_INVALID_CONTEXT;
}

/* Within the device: tests/gpu times it. */
FAKE_EXPORT CUresult CUDAAPI cuMemcpyDtoDAsync_v2(
	CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle)
{
	FAKE_LOCKED;
	struct block *source, *target;
	struct CUstream_st *stream = fake_current() ? stream_find(handle) : NULL;
	struct work work = {.kind = WORK_COPY, .bytes = bytes};
	if (fake_lost() != CUDA_SUCCESS)
		return fake_lost();
	if (!stream)
		return CUDA_ERROR_INVALID_CONTEXT;
	work.from = memory_find(from, bytes, "cuMemcpyDtoDAsync", &source);
	work.to = memory_find(to, bytes, "cuMemcpyDtoDAsync", &target);
	if (!work.from || !work.to)
		return CUDA_ERROR_INVALID_VALUE;
	memory_access(source, from, bytes, false, stream, "cuMemcpyDtoDAsync");
	memory_access(target, to, bytes, true, stream, "cuMemcpyDtoDAsync");
	(void)stream_push(stream, &work);
	return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult CUDAAPI cuMemcpyDtoHAsync_v2(
	void *to, CUdeviceptr from, size_t bytes, CUstream handle)
{
	return copy_back_in(to, from, bytes, handle, false);
}

FAKE_EXPORT CUresult CUDAAPI cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
	return copy_back_in(to, from, bytes, NULL, true);
}

/* ---- all of it ---- */

unsigned memory_leaks(const struct CUctx_st *context, bool tell, bool forget)
{
	unsigned n = 0;
	for (struct block *block = fake.blocks; block; block = block->next) {
		if (!block->alive || (context && block->context != context))
			continue;
		n++;
		if (tell)
			(void)fprintf(stderr, "fake CUDA: %s of %zu bytes was not given back%s\n",
				block_name(block), block->bytes,
				block->kind == BLOCK_REGISTERED && !register_is_there(block)
					? ", and is no longer mapped"
					: "");
		if (forget)
			block->alive = false;
	}
	return n;
}

void memory_use(struct fake_cuda_use *use)
{
	use->pinned_bytes = fake.pinned;
	use->pageable_copies = fake.pageable_copies;
	use->direct_copies = fake.direct_copies;
	for (int i = 0; i < FAKE_DEVICES; i++)
		use->device_bytes += fake.used[i];
	for (const struct block *block = fake.blocks; block; block = block->next) {
		use->registrations += block->alive && block->kind == BLOCK_REGISTERED;
		use->allocations += block->alive && block->kind == BLOCK_DEVICE;
	}
}

/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

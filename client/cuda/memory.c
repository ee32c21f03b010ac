/* memory: see memory.h. */
#include "client/cuda/memory.h"

#include "client/cuda/sentence.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* linux/fcntl.h, 5.1 */
#endif

static const struct {
	unsigned flags; /* of cuMemHostRegister */
	int protection, seals; /* of the mapping; of memory such as it may be of */
	const char *why;
} memory_ways[MEMORY_WAYS] = {
	[MEMORY_READ_ONLY] = {CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_READ_ONLY, PROT_READ,
		F_SEAL_FUTURE_WRITE,
		"the device reads the daemon's memory, which is registered with it read-only"},
	[MEMORY_WRITABLE] = {CU_MEMHOSTREGISTER_PORTABLE, PROT_READ | PROT_WRITE, 0,
		"the device reads the daemon's memory, which is registered with it as this "
		"process's own (pin_memory)"},
	[MEMORY_PAGE_TABLES] = {CU_MEMHOSTREGISTER_PORTABLE, PROT_READ, F_SEAL_FUTURE_WRITE,
		"the device reads the daemon's memory through the CPU's page tables"},
};

/* ---- the decision ---- */

static void memory_decide(struct memory *memory, uint32_t mode, uint64_t pinned_bytes,
	const char *format, ...) __attribute__((format(printf, 4, 5)));

static void memory_decide(
	struct memory *memory, uint32_t mode, uint64_t pinned_bytes, const char *format, ...)
{
	char why[MEMORY_WHY_BYTES];
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(why, sizeof why, format, arguments);
	va_end(arguments);
	(void)pthread_mutex_lock(&memory->lock);
	memory->mode = mode;
	memory->pinned_bytes = pinned_bytes;
	memcpy(memory->why, why, sizeof why);
	(void)pthread_mutex_unlock(&memory->lock);
}

static int memory_use_ring(struct memory *memory, const char *why)
{
	int result = ring_init(&memory->ring, memory->device);
	if (result == 0)
		memory_decide(memory, PENSTOCK_CUDA_RING, (uint64_t)RING_CHUNKS * RING_CHUNK_BYTES,
			"%s", why);
	return result;
}

/* Registering is refused or impossible; what follows depends on the options. A device that has
 * failed refuses, too, and then refuses everything. */
static int memory_step_back(struct memory *memory, const char *why)
{
	size_t free_bytes, total_bytes;
	CUresult r = memory->device->driver->mem_get_info(&free_bytes, &total_bytes);
	if (r != CUDA_SUCCESS)
		return driver_fail(memory->device->driver, r, NULL,
			"registering the daemon's memory with the device");
	if (memory->wanted != PENSTOCK_CUDA_REGISTERED)
		return memory_use_ring(memory, why);
	return sentence_set(-ENOTSUP,
		"the daemon's memory cannot be registered with device %d (%s), which "
		"options.memory asks for: %s; let it be PENSTOCK_CUDA_AUTO or _RING to copy "
		"through "
		"pinned memory",
		memory->device->ordinal, memory->device->name, why);
}

static bool memory_may(const struct memory *memory, enum memory_way way)
{
	switch (way) {
	case MEMORY_READ_ONLY:
		return memory->device->registers_read_only;
	case MEMORY_WRITABLE:
		return memory->writable;
	default:
		return memory->device->page_tables;
	}
}

/* ---- one mapping ---- */

/* 0, or a refusal in `ret_why`. */
static CUresult memory_register(
	const struct memory *memory, const uint8_t *base, size_t bytes, char why[MEMORY_WHY_BYTES])
{
	const struct driver *driver = memory->device->driver;
	const char *name = NULL;
	CUresult r = driver->mem_host_register(
		(void *)(uintptr_t)base, bytes, memory_ways[memory->way].flags);
	if (r == CUDA_SUCCESS)
		return r;
	(void)driver->get_error_name(r, &name);
	(void)snprintf(why, MEMORY_WHY_BYTES,
		"cuMemHostRegister of %zu bytes of shared memory, mapped %s, failed: %s (%d)",
		bytes, memory->way == MEMORY_WRITABLE ? "writable" : "read-only",
		name ? name : "an error without a name", (int)r);
	return r;
}

static void memory_drop(struct memory *memory, struct memory_extent *extent)
{
	assert(extent->copies == 0);
	(void)memory->device->driver->mem_host_unregister((void *)(uintptr_t)extent->base);
	(void)munmap((void *)(uintptr_t)extent->base, extent->bytes);
	*extent = (struct memory_extent){0};
}

/* ---- a page such as the daemon's ---- */

static const uint8_t *memory_map_page(enum memory_way way, int fd, size_t bytes)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | memory_ways[way].seals;
	if (ftruncate(fd, (off_t)bytes) < 0 || fcntl(fd, F_ADD_SEALS, seals) < 0)
		return NULL;
	void *page = mmap(NULL, bytes, memory_ways[way].protection, MAP_SHARED, fd, 0);
	return page == MAP_FAILED ? NULL : page;
}

static const uint8_t *memory_make_page(enum memory_way way, size_t bytes)
{
	int fd = memfd_create("penstock-cuda", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return NULL;
	const uint8_t *page = memory_map_page(way, fd, bytes);
	(void)close(fd);
	return page;
}

/* Tries what the attributes promise before a batch depends on it: so attaching finds out about a
 * virtual machine, or a kernel that does not let drivers pin such pages. False with a refusal. */
static bool memory_try(const struct memory *memory, char why[MEMORY_WHY_BYTES])
{
	const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	const uint8_t *page = memory_make_page(memory->way, bytes);
	if (!page) {
		(void)snprintf(why, MEMORY_WHY_BYTES,
			"cannot make a sealed page to try it with: %s", strerror(errno));
		return false;
	}
	bool good = memory_register(memory, page, bytes, why) == CUDA_SUCCESS;
	if (good)
		(void)memory->device->driver->mem_host_unregister((void *)(uintptr_t)page);
	(void)munmap((void *)(uintptr_t)page, bytes);
	return good;
}

/* Tries the ways in order and takes the first that works. False with a refusal. */
static bool memory_choose(struct memory *memory, char why[MEMORY_WHY_BYTES])
{
	/* The message names NVIDIA's attributes, so that users can look them up. */
	(void)snprintf(why, MEMORY_WHY_BYTES,
		"the device registers no memory that is mapped read-only "
		"(CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED is 0), as the stream's is: "
		"open it with pin_memory, where nobody else reads it");
	for (unsigned way = 0; way < MEMORY_WAYS; way++) {
		memory->way = way;
		if (memory_may(memory, way) && memory_try(memory, why))
			return true;
	}
	return false;
}

/* ---- life ---- */

int memory_init(struct memory *memory, const struct device *device, uint32_t wanted, bool writable)
{
	char refusal[MEMORY_WHY_BYTES];
	*memory = (struct memory){.device = device,
		.wanted = wanted,
		.writable = writable,
		.lock = PTHREAD_MUTEX_INITIALIZER};
	if (wanted == PENSTOCK_CUDA_RING)
		return memory_use_ring(memory, "options.memory asks for the ring");
	if (!device->registers)
		return memory_step_back(memory,
			"the device registers no host memory "
			"(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED is 0)");
	if (!memory_choose(memory, refusal))
		return memory_step_back(memory, refusal);
	memory_decide(memory, PENSTOCK_CUDA_REGISTERED, 0, "%s", memory_ways[memory->way].why);
	return 0;
}

void memory_deinit(struct memory *memory)
{
	if (!memory->device)
		return;
	for (unsigned i = 0; i < MEMORY_EXTENTS; i++) {
		if (memory->extent[i].base)
			memory_drop(memory, &memory->extent[i]);
	}
	ring_deinit(&memory->ring, memory->device);
	(void)pthread_mutex_destroy(&memory->lock);
	*memory = (struct memory){0};
}

/* ---- extents ---- */

static int memory_find(const struct memory *memory, uint32_t name)
{
	for (int i = 0; i < MEMORY_EXTENTS; i++) {
		if (memory->extent[i].base && memory->extent[i].name == name)
			return i;
	}
	return MEMORY_NO_EXTENT;
}

static void memory_retire_older(struct memory *memory, uint32_t name)
{
	for (unsigned i = 0; i < MEMORY_EXTENTS; i++) {
		struct memory_extent *extent = &memory->extent[i];
		if (extent->base && extent->name < name && extent->copies == 0)
			memory_drop(memory, extent);
	}
}

static int memory_find_room(const struct memory *memory)
{
	for (int i = 0; i < MEMORY_EXTENTS; i++) {
		if (!memory->extent[i].base)
			return i;
	}
	return MEMORY_NO_EXTENT;
}

/* A second mapping of the same pages: mremap(2) of length 0. The kernel refuses it for pages of
 * hugetlbfs. NULL, and errno. */
static void *memory_map_again(const struct memory *memory, const struct memory_source *source)
{
	void *base =
		mremap((void *)(uintptr_t)source->base, 0, source->extent_bytes, MREMAP_MAYMOVE);
	if (base == MAP_FAILED)
		return NULL;
	if (madvise(base, source->extent_bytes, MADV_DONTFORK) == 0 &&
		(memory->way != MEMORY_WRITABLE ||
			mprotect(base, source->extent_bytes, memory_ways[memory->way].protection) ==
				0))
		return base;
	int error = errno;
	(void)munmap(base, source->extent_bytes);
	errno = error;
	return NULL;
}

/* NULL with a refusal. */
static const uint8_t *memory_map(
	const struct memory *memory, const struct memory_source *source, char why[MEMORY_WHY_BYTES])
{
	void *base = memory_map_again(memory, source);
	if (!base)
		(void)snprintf(why, MEMORY_WHY_BYTES,
			"the daemon's memory (%zu bytes) cannot be mapped once more: %s%s",
			source->extent_bytes, strerror(errno),
			errno == EINVAL ? "; is it of reserved huge pages (vm.nr_hugepages)?" : "");
	return base;
}

/* False with a refusal. */
static bool memory_add(struct memory *memory, const struct memory_source *source,
	struct memory_extent *extent, char why[MEMORY_WHY_BYTES])
{
	const uint8_t *base = memory_map(memory, source, why);
	if (!base)
		return false;
	if (memory_register(memory, base, source->extent_bytes, why) != CUDA_SUCCESS) {
		(void)munmap((void *)(uintptr_t)base, source->extent_bytes);
		return false;
	}
	*extent = (struct memory_extent){
		.base = base, .bytes = source->extent_bytes, .name = source->extent};
	return true;
}

/* Uses the ring from now on; unregisters mappings now, or after their last copy. */
static int memory_give_up(struct memory *memory, const char *why)
{
	int result = memory_step_back(memory, why);
	if (result == 0)
		memory_retire_older(memory, UINT32_MAX);
	return result;
}

/* 0, with MEMORY_NO_EXTENT if it uses the ring from now on. */
static int memory_take_extent(
	struct memory *memory, const struct memory_source *source, int *ret_extent)
{
	char why[MEMORY_WHY_BYTES];
	int i = memory_find(memory, source->extent);
	*ret_extent = i;
	if (i != MEMORY_NO_EXTENT)
		return 0;
	memory_retire_older(memory, source->extent);
	i = memory_find_room(memory);
	if (i == MEMORY_NO_EXTENT)
		return sentence_set(-EIO,
			"copies from the memory of %d daemons that are gone are still in progress: "
			"find what keeps the device waiting",
			MEMORY_EXTENTS);
	if (!memory_add(memory, source, &memory->extent[i], why))
		return memory_give_up(memory, why);
	*ret_extent = i;
	return 0;
}

static int memory_send(struct memory *memory, const struct memory_source *source, int i,
	CUdeviceptr to, CUstream queue)
{
	struct memory_extent *extent = &memory->extent[i];
	const uint8_t *from = extent->base + (source->images - source->base);
	CUresult r = memory->device->driver->memcpy_htod_async(to, from, source->bytes, queue);
	if (r != CUDA_SUCCESS)
		return driver_fail(memory->device->driver, r, NULL,
			"cuMemcpyHtoDAsync of %zu bytes", source->bytes);
	extent->copies++;
	return 0;
}

int memory_copy(struct memory *memory, const struct memory_source *source, CUdeviceptr to,
	CUstream queue, int *ret_extent)
{
	int extent = MEMORY_NO_EXTENT;
	int result = 0;
	if (!memory_is_ring(memory))
		result = memory_take_extent(memory, source, &extent);
	if (result == 0 && extent == MEMORY_NO_EXTENT)
		result = ring_copy(
			&memory->ring, memory->device, to, source->images, source->bytes, queue);
	else if (result == 0)
		result = memory_send(memory, source, extent, to, queue);
	if (result == 0)
		*ret_extent = extent;
	return result;
}

void memory_done(struct memory *memory, int extent)
{
	uint32_t newest = 0;
	if (extent == MEMORY_NO_EXTENT)
		return;
	assert(memory->extent[extent].copies > 0);
	memory->extent[extent].copies--;
	for (unsigned i = 0; i < MEMORY_EXTENTS; i++) {
		if (memory->extent[i].base && memory->extent[i].name > newest)
			newest = memory->extent[i].name;
	}
	memory_retire_older(memory, memory_is_ring(memory) ? UINT32_MAX : newest);
}

bool memory_is_ring(const struct memory *memory)
{
	/* Only this thread writes it. */
	return memory->mode == PENSTOCK_CUDA_RING;
}

void memory_report(struct memory *memory, struct penstock_cuda_info *info)
{
	(void)pthread_mutex_lock(&memory->lock);
	info->memory = memory->mode;
	info->pinned_bytes += memory->pinned_bytes;
	memcpy(info->why, memory->why, sizeof info->why);
	(void)pthread_mutex_unlock(&memory->lock);
}

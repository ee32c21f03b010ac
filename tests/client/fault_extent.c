/* fault_extent: see fault.h. EXTENT as no daemon sends it: another geometry than was announced,
 * memory that is none, without its seals, twice. */
#include "client/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define SEND_EXTENT(function, change)                                                     \
	static void function(                                                             \
		int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory) \
	{                                                                                 \
		struct wire_extent *e = (struct wire_extent *)(void *)next;               \
		change;                                                                   \
		fake_send(fd, next, bytes, NULL, 0, memory->fd);                          \
	}

SEND_EXTENT(extent_no_slots, e->slot_count = 0)
SEND_EXTENT(extent_many_slots, e->slot_count = UINT32_MAX)
SEND_EXTENT(extent_too_many_slots, e->slot_count = WIRE_SLOTS_MAX + 1; e->bytes = UINT64_MAX)
SEND_EXTENT(extent_one_slot_more, e->slot_count++)
SEND_EXTENT(extent_odd_stride, e->slot_stride -= 64)
SEND_EXTENT(extent_no_stride, e->slot_stride = 0)
SEND_EXTENT(extent_overflow, e->slot_stride = (UINT64_MAX / 4 + 1) & ~4095ull)
SEND_EXTENT(extent_smaller, e->bytes -= 4096; e->slot_count = 1)
SEND_EXTENT(extent_larger, e->bytes += 4096)
SEND_EXTENT(extent_empty, e->bytes = 0)

static void extent_without_fd(
	int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	(void)memory;
	fake_send(fd, next, bytes, NULL, 0, -1);
}

static void extent_of_a_file(
	int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	char name[] = "/tmp/penstock-file-XXXXXX";
	int file = mkstemp(name);
	(void)unlink(name);
	if (ftruncate(file, (off_t)memory->size) < 0)
		_exit(99);
	fake_send(fd, next, bytes, NULL, 0, file);
	(void)close(file);
}

static void extent_of_a_pipe(
	int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	int ends[2];
	(void)memory;
	if (pipe2(ends, O_CLOEXEC) < 0)
		_exit(99);
	fake_send(fd, next, bytes, NULL, 0, ends[0]);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

static void send_with_seals(int fd, struct wire_head *next, size_t bytes, int seals)
{
	struct fake_memory memory = fake_memory(&fault_shape, seals);
	fake_send(fd, next, bytes, NULL, 0, memory.fd);
}

#define SEND_SEALED(function, seals)                                                      \
	static void function(                                                             \
		int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory) \
	{                                                                                 \
		(void)memory;                                                             \
		send_with_seals(fd, next, bytes, seals);                                  \
	}

SEND_SEALED(extent_unsealed, 0)
SEND_SEALED(extent_shrinkable, FAKE_SEALS & ~F_SEAL_SHRINK)
SEND_SEALED(extent_growable, FAKE_SEALS & ~F_SEAL_GROW)
SEND_SEALED(extent_writable, FAKE_SEALS & ~0x0010)
SEND_SEALED(extent_sealable, FAKE_SEALS & ~F_SEAL_SEAL)

static void extent_twice(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	fake_send(fd, next, bytes, NULL, 0, memory->fd);
	fake_send(fd, next, bytes, NULL, 0, memory->fd);
}

static void extents_without_end(
	int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	for (uint32_t i = 0; i <= WIRE_EXTENTS_MAX; i++) {
		((struct wire_extent *)(void *)next)->extent = i;
		fake_send(fd, next, bytes, NULL, 0, memory->fd);
	}
}

static void withdraw_unknown(
	int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	struct wire_withdrawn withdrawn = {
		.head = {.type = WIRE_WITHDRAWN, .stream = 1}, .extent = 3};
	(void)next, (void)bytes, (void)memory;
	fake_send(fd, &withdrawn.head, sizeof withdrawn, NULL, 0, -1);
}

/* Each is as the contract wants it. */
static void flood_extents(int fd, struct wire_head *next, size_t bytes, struct fake_memory *memory)
{
	struct wire_extent *extent = (struct wire_extent *)(void *)next;
	struct wire_withdrawn withdrawn = {.head = {.type = WIRE_WITHDRAWN, .stream = 1}};
	int result = CONN_OK;
	for (uint32_t i = 0; result == CONN_OK; i++) {
		extent->extent = withdrawn.extent = i;
		result = conn_send(fd, false, next, bytes, NULL, 0, memory->fd);
		if (result == CONN_OK)
			result = conn_send(
				fd, false, &withdrawn.head, sizeof withdrawn, NULL, 0, -1);
	}
}

const struct fault faults_of_extent[] = {
	{"hang up before extent", EXTENT, fault_hang_up, 0, -EPIPE,
		"has ended or closed the connection"},
	{"cut extent", EXTENT, fault_cut, 0, -EPROTO, "malformed EXTENT"},
	{"long extent", EXTENT, fault_lengthen, 0, -EPROTO, "malformed EXTENT"},
	{"extent of another length", EXTENT, fault_lie_about_length, 0, -EPROTO,
		"malformed message"},
	{"extent of another stream", EXTENT, fault_send_other_stream, 0, -EPROTO,
		"stream 2, which is not open"},
	{"extent without memory", EXTENT, extent_without_fd, 0, -EPROTO, "without its memory"},
	{"extent of a file", EXTENT, extent_of_a_file, 0, -EPROTO, "extent"},
	{"extent of a pipe", EXTENT, extent_of_a_pipe, 0, -EPROTO, "not a memfd"},
	{"unsealed", EXTENT, extent_unsealed, 0, -EPROTO, "without its seals (has 0"},
	{"shrinkable", EXTENT, extent_shrinkable, 0, -EPROTO, "without its seals"},
	{"growable", EXTENT, extent_growable, 0, -EPROTO, "without its seals"},
	{"writable", EXTENT, extent_writable, 0, -EPROTO, "without its seals"},
	{"sealable", EXTENT, extent_sealable, 0, -EPROTO, "without its seals"},
	{"extent of no slots", EXTENT, extent_no_slots, 0, -EPROTO, "of 0 slots"},
	{"extent of many slots", EXTENT, extent_many_slots, 0, -EPROTO, "of 4294967295 slots"},
	{"extent beyond the limit", EXTENT, extent_too_many_slots, 0, -EPROTO, "of 1025 slots"},
	{"extent of one slot more", EXTENT, extent_one_slot_more, 0, -EPROTO, "of 5 slots"},
	{"odd stride", EXTENT, extent_odd_stride, 0, -EPROTO, "slots of"},
	{"no stride", EXTENT, extent_no_stride, 0, -EPROTO, "slots of 0 bytes"},
	{"overflow", EXTENT, extent_overflow, 0, -EPROTO, "slots of"},
	{"memory larger than said", EXTENT, extent_smaller, 0, -EPROTO, "and sent one of"},
	{"memory smaller than said", EXTENT, extent_larger, 0, -EPROTO, "and sent one of"},
	{"no memory said", EXTENT, extent_empty, 0, -EPROTO, "in 0 bytes"},
	{"extent twice", EXTENT, extent_twice, 0, -EPROTO, "extent 0 twice"},
	{"extents without end", EXTENT, extents_without_end, 0, -EPROTO, "beyond the number"},
	{"extents that come and go without end", EXTENT, flood_extents, 0, -EPROTO,
		"messages that were not asked for"},
	{"withdrawn before it came", EXTENT, withdraw_unknown, 0, -EPROTO, "withdrew extent 3"},
	{0},
};

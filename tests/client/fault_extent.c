/* fault_extent: see fault.h. EXTENT messages that no daemon sends: with another geometry than
 * announced, with a descriptor that is not memory, without seals, twice. */
#include "client/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* Changes of the message `e`, and the client's sentences. */
#define CHANGES(X)                                                                       \
	X(extent_no_slots, e->slot_count = 0, "of 0 slots")                              \
	X(extent_many_slots, e->slot_count = UINT32_MAX, "of 4294967295 slots")          \
	X(extent_too_many_slots, e->slot_count = WIRE_SLOTS_MAX + 1;                     \
		e->bytes = UINT64_MAX, "of 1025 slots")                                  \
	X(extent_one_slot_more, e->slot_count++, "of 5 slots")                           \
	X(extent_odd_stride, e->slot_stride -= 64, "slots of")                           \
	X(extent_no_stride, e->slot_stride = 0, "slots of 0 bytes")                      \
	X(extent_overflow, e->slot_stride = (UINT64_MAX / 4 + 1) & ~4095ull, "slots of") \
	X(extent_smaller, e->bytes -= 4096; e->slot_count = 1, "and sent one of")        \
	X(extent_larger, e->bytes += 4096, "and sent one of")                            \
	X(extent_empty, e->bytes = 0, "in 0 bytes")

#define SEND_EXTENT(function, change, sentence)                                \
	static void function(const struct fault_turn *t)                       \
	{                                                                      \
		struct wire_extent *e = (struct wire_extent *)(void *)t->next; \
		change;                                                        \
		fault_send(t, t->memory->fd);                                  \
	}
CHANGES(SEND_EXTENT)

static void extent_without_fd(const struct fault_turn *t)
{
	fault_send(t, -1);
}

static void extent_of_a_file(const struct fault_turn *t)
{
	char name[] = "/tmp/penstock-file-XXXXXX";
	int file = mkstemp(name);
	(void)unlink(name);
	if (ftruncate(file, (off_t)t->memory->size) < 0)
		_exit(99);
	fault_send(t, file);
	(void)close(file);
}

static void extent_of_a_pipe(const struct fault_turn *t)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		_exit(99);
	fault_send(t, ends[0]);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

#define SEND_SEALED(function, seals)                                          \
	static void function(const struct fault_turn *t)                      \
	{                                                                     \
		struct fake_memory memory = fake_memory(&fault_shape, seals); \
		fault_send(t, memory.fd);                                     \
	}

SEND_SEALED(extent_unsealed, 0)
SEND_SEALED(extent_shrinkable, FAKE_SEALS & ~F_SEAL_SHRINK)
SEND_SEALED(extent_growable, FAKE_SEALS & ~F_SEAL_GROW)
SEND_SEALED(extent_writable, FAKE_SEALS & ~0x0010)
SEND_SEALED(extent_sealable, FAKE_SEALS & ~F_SEAL_SEAL)

static void extent_twice(const struct fault_turn *t)
{
	fault_send(t, t->memory->fd);
	fault_send(t, t->memory->fd);
}

static void extents_without_end(const struct fault_turn *t)
{
	for (uint32_t i = 0; i <= WIRE_EXTENTS_MAX; i++) {
		((struct wire_extent *)(void *)t->next)->extent = i;
		fault_send(t, t->memory->fd);
	}
}

static void withdraw_unknown(const struct fault_turn *t)
{
	struct wire_withdrawn withdrawn = {
		.head = {.type = WIRE_WITHDRAWN, .stream = 1}, .extent = 3};
	fake_send(t->fd, &withdrawn.head, sizeof withdrawn, NULL, 0, -1);
}

/* Each follows the contract. */
static void flood_extents(const struct fault_turn *t)
{
	struct wire_extent *extent = (struct wire_extent *)(void *)t->next;
	struct wire_withdrawn withdrawn = {.head = {.type = WIRE_WITHDRAWN, .stream = 1}};
	int result = CONN_OK;
	for (uint32_t i = 0; result == CONN_OK; i++) {
		extent->extent = withdrawn.extent = i;
		result = conn_send(t->fd, false, t->next, t->bytes, NULL, 0, t->memory->fd);
		if (result == CONN_OK)
			result = conn_send(
				t->fd, false, &withdrawn.head, sizeof withdrawn, NULL, 0, -1);
	}
}

#define CHANGE_FAULT(function, change, sentence) \
	{#function, EXTENT, function, 0, -EPROTO, sentence},

const struct fault faults_of_extent[] = {
	CHANGES(CHANGE_FAULT){"hang up before extent", EXTENT, fault_hang_up, 0, -EPIPE,
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
	{"extent twice", EXTENT, extent_twice, 0, -EPROTO, "extent 0 twice"},
	{"extents without end", EXTENT, extents_without_end, 0, -EPROTO, "beyond the number"},
	{"extents that come and go without end", EXTENT, flood_extents, 0, -EPROTO,
		"messages that were not asked for"},
	{"withdrawn before it came", EXTENT, withdraw_unknown, 0, -EPROTO, "withdrew extent 3"},
	{0},
};

/* ring: see ring.h. The witness writes, on one thread; any process reads.
 *
 * The file has three places of the same kind: a page that begins with struct ring_head and has room
 * for the entry that is kept for ever (the start), then the marks, then the moments. In a place,
 * entries follow each other at multiples of eight bytes. None goes past the end of its place; the
 * space that the last one leaves free there is erased, so that no entry from two laps ago stays
 * among newer ones. A reader relies on none of this: it looks for an entry at every eighth byte,
 * and goes on after each one whose checksum is right. */
#include "record/ring.h"

#include "base/array.h"
#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <xxhash.h>

#define RING_MAGIC "PENSTREC"
#define RING_ENTRY_MAGIC 0x52454350u /* "PCER" */

enum {
	RING_PAGE = 4096,
	RING_ALIGN = 8,
	RING_MARKS_SHARE = 8, /* an eighth of the file is for marks */
	RING_BLOCK = 64 << 10,
	RING_TRIES = 8,
	/* A reader keeps at most ALWAYS entries, and one more for each LEAST bytes of the file:
	 * entries of a recorder are larger on average, and each takes a struct record in memory. */
	RING_KEPT_ALWAYS = 4096,
	RING_KEPT_LEAST = 96,
	/* For entries whose checksum is wrong it reads at most SPOILT times the bytes of the file
	 * and of the smallest one: a crash spoils a few. */
	RING_SPOILT = 4,
};
#define RING_MOST ((uint64_t)1 << 30) /* no recorder writes more, and no reader loads more */

struct ring_head {
	char magic[8];
	uint32_t version, bytes; /* bytes: of this head */
};

struct ring_entry {
	uint32_t magic;
	uint16_t kind;
	uint16_t bytes; /* of the body; zeros at its end are not kept */
	uint64_t sequence, time_ns;
	uint64_t sum; /* of the fields above and the body */
};
_Static_assert(sizeof(struct ring_entry) == 32 && sizeof(struct ring_head) % RING_ALIGN == 0,
	"the format of the file");
_Static_assert(sizeof(((struct record *)0)->body) <= UINT16_MAX, "bytes of an entry");

enum ring_place_name { RING_STARTS, RING_MARKS, RING_MOMENTS, RING_PLACES };

struct ring_place {
	uint64_t begin, end, at; /* offsets in the file; `at` is where the next entry goes */
};

struct ring {
	int fd;
	uint64_t sequence; /* of the next entry */
	struct ring_place place[RING_PLACES];
};

static uint64_t ring_sum(const struct ring_entry *entry, const void *body)
{
	uint64_t head = XXH3_64bits(entry, offsetof(struct ring_entry, sum));
	return XXH3_64bits_withSeed(body, entry->bytes, head);
}

/* ---- writing ---- */

static int ring_write(int fd, const void *data, size_t size, uint64_t offset)
{
	for (size_t done = 0; done < size;) {
		ssize_t n =
			pwrite(fd, (const char *)data + done, size - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		done += (size_t)n;
	}
	return 0;
}

static int ring_erase(int fd, uint64_t begin, uint64_t end)
{
	static const char zeros[RING_BLOCK];
	int result = 0;
	while (begin < end && !result) {
		size_t size = UTIL_MIN(end - begin, sizeof zeros);
		result = ring_write(fd, zeros, size, begin);
		begin += size;
	}
	return result;
}

/* Allocates room on the disk for the whole file. Where the file system cannot reserve room, it is
 * written. */
static int ring_allocate(int fd, uint64_t bytes)
{
	int result;
	do
		result = fallocate(fd, 0, 0, (off_t)bytes) ? -errno : 0;
	while (result == -EINTR);
	return result == -EOPNOTSUPP || result == -ENOSYS ? ring_erase(fd, 0, bytes) : result;
}

static void ring_lay_out(struct ring *ring, uint64_t bytes)
{
	uint64_t marks = UTIL_MAX(bytes / RING_MARKS_SHARE, (uint64_t)RING_PAGE);
	uint64_t const border[] = {sizeof(struct ring_head), RING_PAGE, RING_PAGE + marks, bytes};
	for (int i = 0; i < RING_PLACES; i++)
		ring->place[i] = (struct ring_place){
			border[i] & ~(uint64_t)(RING_ALIGN - 1),
			border[i + 1] & ~(uint64_t)(RING_ALIGN - 1),
			border[i] & ~(uint64_t)(RING_ALIGN - 1),
		};
}

static int ring_fill(struct ring *ring, uint64_t bytes)
{
	struct ring_head head = {
		.magic = RING_MAGIC, .version = RECORD_VERSION, .bytes = sizeof(struct ring_head)};
	int result = ring_allocate(ring->fd, bytes);
	return result ? result : ring_write(ring->fd, &head, sizeof head, 0);
}

static int ring_complain(const char *path, uint64_t bytes, int code, struct fault *fault)
{
	if (code == -ENOSPC || code == -EDQUOT || code == -EFBIG)
		return fault_set(fault, code,
			"no room for the flight recorder's file %s (%" PRIu64
			" KiB): %s; free some space, lower recorder_size, or set recorder to "
			"another folder or to off",
			path, bytes >> 10, strerror(-code));
	if (code == -EEXIST || code == -ELOOP)
		return fault_set(fault, code,
			"cannot create the flight recorder's file %s: that name already exists; "
			"remove it",
			path);
	return fault_set(fault, code,
		"cannot write the flight recorder's file %s: %s; set recorder to a folder that is "
		"writable, or to off",
		path, strerror(-code));
}

/* Opens and locks the file. Before it is locked, another recorder that tidies the folder may lock
 * or remove it; then it is made anew. */
static int ring_open(const char *path, int *ret_fd)
{
	int result = -EAGAIN;
	for (int i = 0; i < RING_TRIES && result == -EAGAIN; i++) {
		struct stat status = {.st_nlink = 0};
		/* O_EXCL also refuses a link of that name, wherever it points. */
		cleanup(close_fd) int fd =
			open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0)
			return -errno;
		result = flock(fd, LOCK_EX | LOCK_NB) || fstat(fd, &status) ? -errno : 0;
		if (!result && status.st_nlink) {
			*ret_fd = fd;
			fd = -1;
			return 0;
		}
		(void)unlink(path);
		result = result ? result : -EAGAIN;
	}
	return result;
}

int ring_create(const char *path, uint64_t bytes, struct ring **ret, struct fault *fault)
{
	if (bytes < RING_LEAST || bytes > RING_MOST)
		return fault_set(fault, -EINVAL,
			"a flight recorder's file has %d MiB to %" PRIu64 " MiB, not %" PRIu64
			" bytes",
			RING_LEAST >> 20, RING_MOST >> 20, bytes);
	struct ring *ring = calloc(1, sizeof *ring);
	if (!ring)
		return fault_set(fault, -ENOMEM, "no memory for the flight recorder");
	ring_lay_out(ring, bytes);
	ring->fd = -1;
	int result = ring_open(path, &ring->fd);
	if (!result)
		result = ring_fill(ring, bytes);
	if (result) {
		if (ring->fd >= 0)
			(void)unlink(path);
		ring_free(ring);
		return ring_complain(path, bytes, result, fault);
	}
	*ret = ring;
	return 0;
}

static enum ring_place_name ring_place_of(uint32_t kind)
{
	if (kind == RECORD_START)
		return RING_STARTS;
	return kind < RECORD_DAEMON ? RING_MARKS : RING_MOMENTS;
}

/* The size of a body without the zeros at its end. */
static uint16_t ring_trim(const struct record *record)
{
	const uint8_t *body = (const uint8_t *)&record->body;
	size_t size = UTIL_MIN(record->bytes, sizeof record->body);
	while (size && !body[size - 1])
		size--;
	return (uint16_t)size;
}

int ring_append(struct ring *ring, const struct record *record)
{
	struct {
		struct ring_entry entry;
		uint8_t body[sizeof record->body + RING_ALIGN];
	} whole = {.entry = {.magic = RING_ENTRY_MAGIC,
			   .kind = (uint16_t)record->kind,
			   .bytes = ring_trim(record),
			   .sequence = ring->sequence,
			   .time_ns = record->time_ns}};
	memcpy(whole.body, &record->body, whole.entry.bytes);
	whole.entry.sum = ring_sum(&whole.entry, whole.body);
	uint64_t size = util_align(sizeof whole.entry + whole.entry.bytes, RING_ALIGN);
	struct ring_place *place = &ring->place[ring_place_of(record->kind)];
	uint64_t at = place->at;
	int result = 0;
	if (size > place->end - at) {
		result = ring_erase(ring->fd, at, place->end);
		at = place->begin;
	}
	/* The next entry overwrites one whose write failed. */
	if (!result)
		result = ring_write(ring->fd, &whole, size, at);
	if (result)
		return result;
	place->at = at + size;
	ring->sequence++;
	return 0;
}

void ring_free(struct ring *ring)
{
	if (!ring)
		return;
	if (ring->fd >= 0)
		(void)close(ring->fd);
	free(ring);
}

/* ---- reading ---- */

/* The entries found so far, as pointers into the file's bytes. */
struct ring_found {
	const struct ring_entry **entry;
	size_t count, room;
};

static int ring_refuse(const char *path, struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"%s is not a flight recorder's file: expected one that penstockd wrote "
		"(recorder-*.ring)",
		path);
}

/* Reads the whole file into memory whose size is a multiple of RING_ALIGN. */
static int ring_load(const char *path, uint8_t **ret, size_t *ret_size, struct fault *fault)
{
	/* O_NONBLOCK: opening a FIFO would wait for a writer. */
	cleanup(close_fd) int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat status;
	if (fd < 0 || fstat(fd, &status))
		return fault_set(fault, -errno, "cannot read %s: %s", path, strerror(errno));
	if (!S_ISREG(status.st_mode) || status.st_size < (off_t)sizeof(struct ring_head) ||
		(uint64_t)status.st_size > RING_MOST)
		return ring_refuse(path, fault);
	size_t size = (size_t)status.st_size, done = 0;
	cleanup(free_ptr) uint8_t *bytes = calloc(1, util_align(size, RING_ALIGN));
	if (!bytes)
		return fault_set(fault, -ENOMEM, "no memory to read %s", path);
	while (done < size) {
		ssize_t n = pread(fd, bytes + done, size - done, (off_t)done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fault_set(
				fault, -errno, "cannot read %s: %s", path, strerror(errno));
		if (n == 0)
			break; /* it was cut meanwhile: the rest stays zero */
		done += (size_t)n;
	}
	*ret = bytes;
	*ret_size = size;
	bytes = NULL;
	return 0;
}

static int ring_check_head(const char *path, const uint8_t *bytes, struct fault *fault)
{
	struct ring_head head;
	memcpy(&head, bytes, sizeof head);
	if (memcmp(head.magic, RING_MAGIC, sizeof head.magic) != 0)
		return ring_refuse(path, fault);
	if (head.version != RECORD_VERSION)
		return fault_set(fault, -EINVAL,
			"%s is a flight recorder's file of version %" PRIu32
			", and this penstock reads version %d: read it with the release that wrote "
			"it",
			path, head.version, RECORD_VERSION);
	return 0;
}

/* True when a whole entry begins at `bytes`, of which there are `left`. Adds the bytes of one whose
 * checksum is wrong to *spoilt. */
static bool ring_is_entry(const uint8_t *bytes, size_t left, uint64_t *spoilt)
{
	const struct ring_entry *entry = (const struct ring_entry *)bytes;
	if (left < sizeof *entry || entry->magic != RING_ENTRY_MAGIC ||
		entry->bytes > left - sizeof *entry)
		return false;
	const bool sound = entry->sum == ring_sum(entry, entry + 1);
	*spoilt += sound ? 0 : sizeof *entry + entry->bytes;
	return sound;
}

static int ring_note(struct ring_found *found, const struct ring_entry *entry)
{
	void *grown = array_grown(found->entry, found->count, &found->room, sizeof(void *));
	if (!grown)
		return -ENOMEM;
	found->entry = grown;
	found->entry[found->count++] = entry;
	return 0;
}

/* Entries may claim to overlap, so that each byte would be read 8,000 times: what comes after too
 * many of them is left out. */
static int ring_scan(const uint8_t *bytes, size_t size, struct ring_found *found)
{
	const uint64_t most = RING_SPOILT * ((uint64_t)size + RING_LEAST);
	uint64_t spoilt = 0;
	size_t at = sizeof(struct ring_head);
	while (at < size && spoilt <= most) {
		const struct ring_entry *entry = (const struct ring_entry *)(bytes + at);
		if (!ring_is_entry(bytes + at, size - at, &spoilt)) {
			at += RING_ALIGN;
			continue;
		}
		/* Entries of kinds that this release does not know are left out. */
		if (entry->kind && entry->kind < RECORD_KINDS && ring_note(found, entry))
			return -ENOMEM;
		at += util_align(sizeof *entry + entry->bytes, RING_ALIGN);
	}
	return 0;
}

static int ring_order(const void *a, const void *b)
{
	const struct ring_entry *x = *(const struct ring_entry *const *)a;
	const struct ring_entry *y = *(const struct ring_entry *const *)b;
	return (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

/* Leaves out the oldest entries where a file of `size` bytes has more than a recorder writes, but
 * not the start. */
static void ring_keep(struct ring_found *found, size_t size)
{
	const size_t most = RING_KEPT_ALWAYS + size / RING_KEPT_LEAST;
	if (found->count <= most)
		return;
	const struct ring_entry **kept = found->entry + (found->count - most);
	for (const struct ring_entry **old = found->entry; old < kept; old++)
		if ((*old)->kind == RECORD_START) {
			*kept = *old;
			break;
		}
	memmove(found->entry, kept, most * sizeof *kept);
	found->count = most;
}

/* Terminates all texts of a record, whatever the file contains. */
static void ring_terminate(struct record *record)
{
#define RING_TEXT(which, member)                                                                 \
	{                                                                                        \
		RECORD_##which, offsetof(struct record, body.member), sizeof record->body.member \
	}
	static const struct {
		uint32_t kind;
		size_t offset, room;
	} texts[] = {RING_TEXT(START, start.boot_id), RING_TEXT(START, start.version),
		RING_TEXT(START, start.kernel), RING_TEXT(START, start.socket),
		RING_TEXT(START, start.config), RING_TEXT(START, start.cgroup.path),
		RING_TEXT(START, start.host), RING_TEXT(START, start.parent_command),
		RING_TEXT(ATTACH, attach.stream), RING_TEXT(ATTACH, attach.source),
		RING_TEXT(ATTACH, attach.group), RING_TEXT(ATTACH, attach.command),
		RING_TEXT(ATTACH, attach.parent_command), RING_TEXT(ATTACH, attach.cgroup.path),
		RING_TEXT(LEAVE, leave.text), RING_TEXT(EXIT, exit.cgroup.path),
		RING_TEXT(END, note.text), RING_TEXT(NOTE, note.text),
		RING_TEXT(DAEMON, daemon.verdict), RING_TEXT(MACHINE, machine.cgroup.path),
		RING_TEXT(GPU, gpu.name)};
#undef RING_TEXT
	for (size_t i = 0; i < UTIL_COUNT(texts); i++)
		if (texts[i].kind == record->kind)
			((char *)record)[texts[i].offset + texts[i].room - 1] = 0;
}

static struct record *ring_unpack(const struct ring_found *found)
{
	struct record *records = calloc(UTIL_MAX(found->count, 1u), sizeof *records);
	for (size_t i = 0; records && i < found->count; i++) {
		const struct ring_entry *entry = found->entry[i];
		uint32_t bytes = UTIL_MIN(entry->bytes, (uint32_t)sizeof records->body);
		records[i].time_ns = entry->time_ns;
		records[i].kind = entry->kind;
		records[i].bytes = bytes;
		memcpy(&records[i].body, entry + 1, bytes);
		ring_terminate(&records[i]);
	}
	return records;
}

int ring_read(const char *path, struct record **ret_records, size_t *ret_count, struct fault *fault)
{
	cleanup(free_ptr) uint8_t *bytes = NULL;
	struct ring_found found = {0};
	size_t size = 0;
	int result = ring_load(path, &bytes, &size, fault);
	if (!result)
		result = ring_check_head(path, bytes, fault);
	if (result)
		return result;
	result = ring_scan(bytes, size, &found);
	if (!result && found.count)
		qsort(found.entry, found.count, sizeof(void *), ring_order);
	ring_keep(&found, size);
	struct record *records = result ? NULL : ring_unpack(&found);
	free(found.entry);
	if (!records)
		return fault_set(fault, -ENOMEM, "no memory to read %s", path);
	*ret_records = records;
	*ret_count = found.count;
	return 0;
}

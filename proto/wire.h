/* wire: the layout of the messages between daemon and clients. PROTOCOL.md says what they mean.
 *
 * proto is the contract between daemon and clients, and code that both need. It is at the bottom:
 * its files include only each other.
 *
 * A map of this folder:
 *   wire.h            this file
 *   slots.h           the layout of a batch in shared memory
 *   keys.h            every key of a stream's definition, once
 *   opened_tail.[ch]  what follows OPENED in its message
 *   conn.[ch]         sends and receives messages
 *   folder.[ch]       the folder of the daemon's socket
 *   philox.[ch]       random numbers: one counter for each draw
 *   variate.[ch]      gamma and beta variates from them
 *   elementary.[ch]   log, exp and similar functions that are equal everywhere
 *   angle.[ch]        sines and cosines, correctly rounded
 *   erase.[ch]        the boxes of random erasing
 *   half.h            floats of 16 bits
 *   convert/          uint8 pixels to normalized floats
 *   dispatch.[ch]     which kernels to use
 *   processor.[ch]    which instructions this processor has
 *   text.[ch]         a growing buffer of text
 *   utf8.[ch]         UTF-8 that may be malformed
 *   jsontext.[ch]     writes JSON
 *
 * One message is one SEQPACKET datagram: struct wire_head, the rest of the fixed struct, then
 * `text_bytes` bytes of UTF-8 where the struct has that field (not zero-terminated). Fields have
 * fixed widths and the machine's byte order; the size of every struct is a multiple of 8. */
#pragma once

#include <stdint.h>

#define WIRE_MAGIC 0x4b434f54534e4550u /* "PENSTOCK", little-endian */
enum {
	WIRE_VERSION_MIN = 1,
	WIRE_VERSION_MAX = 1,
	WIRE_MESSAGE_MAX = 65536, /* a longer datagram is a protocol error */
	WIRE_FDS_MAX = 1, /* a message carries at most one descriptor, and only from the daemon */
	WIRE_SLOTS_MAX = 1024, /* leased batches of one stream at the same time */
	WIRE_EXTENTS_MAX = 64, /* extents of one stream at the same time */
	WIRE_CUTS_MAX = 8, /* global batches that an epoch is cut into, one after the other */
	WIRE_INLINE_MAX = 32768, /* a longer answer is in a sealed memfd */
};

enum wire_type {
	/* client to daemon */
	WIRE_HELLO = 1,
	WIRE_OPEN = 2,
	WIRE_RELEASE = 3,
	WIRE_CLOSE = 4,
	WIRE_QUERY = 5,
	WIRE_STOP = 6,
	/* daemon to client */
	WIRE_WELCOME = 101,
	WIRE_OPENED = 102,
	WIRE_EXTENT = 103,
	WIRE_WITHDRAWN = 104,
	WIRE_BATCH = 105,
	WIRE_END = 106,
	WIRE_ERROR = 107,
	WIRE_ANSWER = 108,
};

struct wire_head {
	uint32_t type; /* enum wire_type */
	uint32_t bytes; /* of the whole message with this head: the length of the datagram */
	/* The client's number, repeated in the answer; 0 in messages that answer no request. */
	uint32_t request;
	uint32_t stream; /* the client's number of the stream; 0: the message concerns none */
};

enum wire_feature {
	WIRE_FEATURE_NONE = 0, /* bits are assigned here and never used again */
	WIRE_FEATURE_GROUPS = 1, /* the views of a sample may be divided into groups */
	WIRE_FEATURE_FIELDS = 2, /* samples may have fields */
	WIRE_FEATURE_BUCKETS = 4, /* batches may have shapes of their own, and states have cuts */
};

struct wire_hello {
	struct wire_head head;
	uint64_t magic;
	uint32_t version_min, version_max;
	uint64_t features; /* those the client knows; the daemon answers with the common ones */
};

struct wire_welcome {
	struct wire_head head;
	uint64_t magic;
	uint32_t version;
	int32_t pid; /* of the daemon */
	uint64_t features;
	uint32_t text_bytes; /* the daemon's release, e.g. "0.1.0" */
	uint32_t reserved;
};

/* Opens a stream or joins its group. The text is a YAML (or JSON) mapping with the keys of a stream
 * in penstock.yaml(5), or `{stream: NAME}` for a stream of the daemon's configuration; with
 * `state:` the stream continues from a state. */
struct wire_open {
	struct wire_head head; /* stream: a number that the client chooses, not 0, not in use */
	uint32_t text_bytes;
	uint32_t reserved;
};

/* Where the stream has groups, fields or cuts, `struct wire_opened_tail` follows in the same
 * message. */
struct wire_opened {
	struct wire_head head;
	uint64_t samples; /* of the dataset, or of its subset (`indices`) */
	uint64_t epoch_samples; /* delivered in an epoch, to all ranks together */
	uint64_t batches; /* of an epoch, per rank */
	uint64_t fingerprint; /* of the dataset */
	uint64_t order; /* hash of everything that determines the order: seed, shuffle, subset */
	uint64_t transform; /* hash of everything that determines the pixels */
	uint64_t seed;
	uint64_t epoch, batch; /* the first batch that will be announced */
	uint32_t batch_size, height, width, channels; /* the largest that any batch has */
	uint32_t pixel_type, pixel_layout, label_type, label_width;
	uint32_t rank, world_size;
	uint32_t classes; /* number of class names; 0: none known */
	uint32_t shuffle; /* 1: full shuffle; 0: sequential */
	uint32_t train; /* 1: training recipe */
	uint32_t slots; /* how many leases there may be at once, 1 .. WIRE_SLOTS_MAX */
	/* Where (epoch, batch) begins in the epoch's global order, of all ranks together: 0, or
	 * the place in the state. */
	uint64_t position;
	uint32_t views; /* rows of a sample, of all groups together, 1 .. SLOTS_VIEWS_MAX */
	/* A hash of the key `salt`; 0: none. The random draws are keyed by philox_salted of it. */
	uint32_t salt;
};

/* After it come `groups` x struct wire_group, `fields` x struct wire_field, and then `cuts` x
 * struct wire_cut. */
struct wire_opened_tail {
	uint32_t groups; /* 0 .. SLOTS_GROUPS_MAX */
	uint32_t fields; /* 0 .. SLOTS_FIELDS_MAX */
	uint32_t cuts; /* 0 .. WIRE_CUTS_MAX; not 0 exactly where the stream has buckets */
	uint32_t reserved;
};

enum { WIRE_NAME = 64 };

struct wire_group {
	uint32_t views; /* at least 1; the groups' views together are wire_opened.views */
	uint32_t height, width;
	uint32_t reserved;
	char name[WIRE_NAME]; /* ends with a zero byte; "": the group has no name */
};

struct wire_field {
	uint64_t max_bytes; /* of a sample */
	uint64_t reserved;
	char name[WIRE_NAME]; /* ends with a zero byte */
};

/* From `position` of OPENED's epoch on, the stream is cut into global batches of `global`
 * samples, up to the next cut. */
struct wire_cut {
	uint64_t position;
	uint64_t global;
};

/* Carries the extent's descriptor. Sent before the first batch in it. */
struct wire_extent {
	struct wire_head head;
	uint32_t extent; /* the daemon's number */
	uint32_t slot_count;
	uint64_t slot_stride; /* bytes, a multiple of SLOTS_ALIGN */
	uint64_t bytes; /* of the memfd */
};

struct wire_withdrawn {
	struct wire_head head;
	uint32_t extent;
	uint32_t reserved;
};

enum wire_batch_flag {
	WIRE_BATCH_LAST = 1u << 0, /* of its epoch */
};

/* The batch is complete and leased to this client until it releases or hangs up. */
struct wire_batch {
	struct wire_head head;
	uint32_t extent, slot;
	uint64_t serial; /* grows by one per batch of the stream */
	uint64_t epoch, batch;
	uint64_t position; /* of its first row in the epoch's global order */
	uint32_t count; /* valid samples */
	uint32_t flags; /* enum wire_batch_flag */
};

/* The client will not read the slot again. Exactly once per announced batch. */
struct wire_release {
	struct wire_head head;
	uint32_t extent, slot;
	uint64_t serial;
};

/* Closes the stream; leases still held are returned. Nothing answers. */
struct wire_close {
	struct wire_head head;
};

/* All requested epochs have ended. The last message of a stream. */
struct wire_end {
	struct wire_head head;
	uint64_t epochs, batches;
};

/* A request failed (request set), or the stream has ended (stream set). */
struct wire_error {
	struct wire_head head;
	int32_t code; /* negative errno */
	uint32_t text_bytes; /* one sentence */
};

enum wire_query_kind {
	WIRE_QUERY_STATUS = 1, /* the daemon: JSON */
	WIRE_QUERY_STREAM = 2, /* the stream, its counters and verdict: JSON */
	WIRE_QUERY_CLASSES = 3, /* class names, one per line */
	WIRE_QUERY_PATH = 4, /* path of sample `argument` */
	WIRE_QUERY_WAIT = 5, /* one sentence: what the stream waits for now */
	WIRE_QUERY_CONFIG =
		6, /* the stream's definition as JSON: WIRE_OPEN with it opens the same */
	WIRE_QUERY_SAMPLES = 7, /* labels and paths of samples from `argument` on */
};

/* The most samples in one answer to WIRE_QUERY_SAMPLES. No line follows after so many bytes. */
enum { WIRE_SAMPLES_MOST = 1024, WIRE_SAMPLES_BYTES = 1 << 20 };

struct wire_query {
	struct wire_head head;
	uint32_t kind; /* enum wire_query_kind */
	uint32_t reserved;
	uint64_t argument;
};

/* A text of up to 1 GiB: inline, or in a sealed memfd that comes with the message if it is too
 * long. */
struct wire_answer {
	struct wire_head head;
	uint64_t total_bytes;
	uint32_t text_bytes; /* inline part: total_bytes, or 0 with a descriptor */
	uint32_t reserved;
};

/* Asks the daemon to drain and end, as SIGTERM does. The daemon sends WIRE_ANSWER before it
 * ends. */
struct wire_stop {
	struct wire_head head;
};

_Static_assert(sizeof(struct wire_head) == 16, "wire layout");
_Static_assert(sizeof(struct wire_hello) == 40, "wire layout");
_Static_assert(sizeof(struct wire_welcome) == 48, "wire layout");
_Static_assert(sizeof(struct wire_open) == 24, "wire layout");
_Static_assert(sizeof(struct wire_opened) == 160, "wire layout");
_Static_assert(sizeof(struct wire_opened_tail) == 16, "wire layout");
_Static_assert(sizeof(struct wire_cut) == 16, "wire layout");
_Static_assert(sizeof(struct wire_group) == 80, "wire layout");
_Static_assert(sizeof(struct wire_field) == 80, "wire layout");
_Static_assert(sizeof(struct wire_extent) == 40, "wire layout");
_Static_assert(sizeof(struct wire_withdrawn) == 24, "wire layout");
_Static_assert(sizeof(struct wire_batch) == 64, "wire layout");
_Static_assert(sizeof(struct wire_release) == 32, "wire layout");
_Static_assert(sizeof(struct wire_close) == 16, "wire layout");
_Static_assert(sizeof(struct wire_end) == 32, "wire layout");
_Static_assert(sizeof(struct wire_error) == 24, "wire layout");
_Static_assert(sizeof(struct wire_query) == 32, "wire layout");
_Static_assert(sizeof(struct wire_answer) == 32, "wire layout");
_Static_assert(sizeof(struct wire_stop) == 16, "wire layout");
_Static_assert(__builtin_offsetof(struct wire_opened, batch_size) == 88, "wire layout");
_Static_assert(__builtin_offsetof(struct wire_opened, views) == 152, "wire layout");
_Static_assert(__builtin_offsetof(struct wire_batch, count) == 56, "wire layout");

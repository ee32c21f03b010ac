/* unpack: the bytes of samples that a container stores compressed or without a header
 * (dataset/packed.h), piece by piece.
 *
 * A map of this folder:
 *   unpack.[ch]            begins, reads, skips and checks; where the stored bytes come from
 *   unpack_method.h        what a method is, for the files of this folder
 *   unpack_plain.c         bytes that are stored as they are
 *   unpack_zlib.c          raw deflate, gzip and zlib, with zlib
 *   unpack_snappy.c        Snappy, with penstock's decoder
 *   unpack_zstd.c          Zstandard, with libzstd
 *   unpack_zstd_walk.[ch]  where the parts of a Zstandard frame are that samples need
 *   unpack_deflate_walk.[ch]  the same for a deflate stream
 *   unpack_shadow.h        which of two shadows of a stream to begin anew
 *   unpack_zstd_absent.c   refuses Zstandard in builds without libzstd
 *   unpack_pixels.c        pixels without a header, as a PNM file
 *   unpack_parts.c         a RecordIO record that is stored in parts
 *
 * The caller pulls: it asks for so many bytes, and gets them or an error. Memory is bounded by
 * UNPACK_BYTES whatever the sizes are, because input and output pass in pieces. Nothing is unpacked
 * beyond what was asked for, except that the end of the stream is examined when its last byte was
 * asked for.
 *
 * The stored bytes are not trusted. A stream that unpacks to more bytes than its container says,
 * ends early, or has a wrong checksum is -EBADMSG with a sentence that does not name a file: the
 * caller puts one in front of it (fault_prefix).
 *
 * An unpack belongs to one thread and serves one stream at a time. It may block if its source
 * does. It allocates what a method needs when that method is first used, and keeps it. */
#pragma once

#include "base/fault.h"
#include "dataset/packed.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	/* The largest window of a Zstandard frame: what its format asks decoders to support, and
	 * what the reference compressor makes at all levels but the highest. */
	UNPACK_WINDOW_LOG = 23,
	/* Memory of one unpack in the worst case. libzstd takes its window, two blocks and 160 KB;
	 * it allocates no more than the frame can need. */
	UNPACK_BYTES = (1 << UNPACK_WINDOW_LOG) + (1 << 20),
};

/* For `whole`: the container does not say. */
#define UNPACK_UNKNOWN UINT64_MAX

/* Where the stored bytes are. */
struct unpack_source {
	const uint8_t *memory; /* all of them; or NULL, and the rest counts */
	/* Reads up to `size` bytes from byte `at` of the stored ones; fewer only where the file
	 * ends. Returns how many, or -errno. */
	ssize_t (*read)(void *context, uint64_t at, void *buffer, size_t size);
	/* Why this thread's last `read` failed; NULL: the errno says it. */
	const char *(*why)(int error);
	void *context;
};

struct unpack;

/* NULL: no memory. */
struct unpack *unpack_new(void);
void unpack_free(struct unpack *unpack); /* takes NULL */

/* Begins a stream of `stored` bytes that unpacks to `whole` bytes (or UNPACK_UNKNOWN; Snappy always
 * says). PIXELS and all methods after it, which only samples have, are not for this function. The
 * source and its memory outlive the reading. Ends the stream before. 0; -EBADMSG; -EOPNOTSUPP: this
 * build has no such method; -ENOMEM; -errno of the source. */
int unpack_begin(struct unpack *unpack, enum packed_method method, uint64_t stored, uint64_t whole,
	const struct unpack_source *source, struct fault *fault);

/* The same for the first `size` bytes of a sample that packed_sound has allowed: the stream then
 * consists of these only. Their checksum is compared when the last one was read, so a caller that
 * does not want the whole sample clears `checked`. */
int unpack_begin_sample(struct unpack *unpack, const struct packed *packed, uint32_t size,
	const struct unpack_source *source, struct fault *fault);

/* The next `size` bytes; *ret_size is less only at the end of the stream, which then is where its
 * container says. 0, or as unpack_begin; -ENODATA: the source ended before its `stored` bytes.
 * After an error the stream can only be ended or another one begun. */
int unpack_read(
	struct unpack *unpack, void *buffer, size_t size, size_t *ret_size, struct fault *fault);

/* The same without the bytes. */
int unpack_skip(struct unpack *unpack, uint64_t size, uint64_t *ret_size, struct fault *fault);

/* The part of a stream that a sample needs: a caller that reads a stream from front to back to find
 * its samples calls unpack_parts after unpack_begin. It then can say with unpack_part_begin that a
 * sample begins at byte `at`, which is at most 64 KiB before what it has read, and after it has
 * read or skipped the sample's last byte ask for the part with unpack_part_end. That is true, and
 * *ret_from is the stored byte at which the part begins, *ret how it unpacks to the sample; or
 * false: only the whole stream does.
 *
 * Snappy has parts: the elements that all known compressors make of a piece of 64 KiB refer only to
 * that piece, so that a part begins less than 64 KiB before its sample. It is not taken for
 * granted: a part begins where no element of it has referred to anything before. So have gzip
 * (unpack_deflate_walk.h) and Zstandard (unpack_zstd_walk.h), which then takes three times
 * UNPACK_BYTES. unpack_parts: 0 or -ENOMEM. */
int unpack_parts(struct unpack *unpack, struct fault *fault);
void unpack_part_begin(struct unpack *unpack, uint64_t at);
bool unpack_part_end(const struct unpack *unpack, uint64_t at, uint32_t size, uint64_t *ret_from,
	struct packed *ret);

/* Forgets the stream and its source. */
void unpack_end(struct unpack *unpack);

/* Unpacks a sample whose stored bytes are in memory into `out`, which has room for `size`. 0, or as
 * unpack_read. */
int unpack_slice(struct unpack *unpack, const struct packed *packed, uint32_t size,
	const uint8_t *stored, void *out, struct fault *fault);

/* NULL, or the sentence that says why this build does not unpack a method. Pure. */
const char *unpack_refused(enum packed_method method);

/* "Snappy" and so on, for messages. Pure. */
const char *unpack_name(enum packed_method method);

/* For `penstock --version`: "deflate and gzip (zlib 1.2.13), Snappy, Zstandard (libzstd 1.5.4)".
 * Returns `buffer`. */
enum { UNPACK_TEXT = 160 };
const char *unpack_describe(char buffer[UNPACK_TEXT]);

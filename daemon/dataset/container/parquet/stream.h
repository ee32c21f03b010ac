/* stream: the bytes of a page from front to back, unpacked if they are compressed, and the runs of
 * small numbers that Parquet stores levels and dictionary indexes in.
 *
 * Memory is one piece, whatever the size of the page: values that are not wanted are passed over.
 * Blocks. One thread. */
#pragma once

#include "base/fault.h"
#include "dataset/container/window.h"
#include "dataset/packed.h"
#include "unpack/unpack.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STREAM_PIECE = 16 << 10 };

struct stream {
	struct window *window; /* borrowed; of bytes that are stored as they are; else NULL */
	struct unpack *unpack; /* borrowed; of compressed bytes; else NULL */
	const char *path, *what; /* borrowed; for faults */
	uint64_t base; /* in the file, of the first byte (as stored) */
	uint64_t at, end; /* unpacked bytes: given out, and all of them */
	const uint8_t *piece, *piece_end; /* what comes next */
	struct blob_part part;
	uint8_t buffer[STREAM_PIECE];
};

/* Bytes of a file that are stored as they are. */
void stream_plain(struct stream *stream, struct window *window, uint64_t base, uint64_t size,
	const char *what);

/* `stored` bytes of a file that unpack to `size`. 0, or as stream_read. */
int stream_packed(struct stream *stream, struct window *window, struct unpack *unpack,
	enum packed_method method, uint64_t base, uint32_t stored, uint32_t size, const char *what,
	struct fault *fault);

/* Bytes in memory. */
void stream_memory(struct stream *stream, const char *path, const uint8_t *bytes, size_t size,
	const char *what);

/* Gives out or passes over `size` bytes. 0; -EINVAL: the page has fewer, or is damaged; -ENOMEM;
 * -errno of a read. */
int stream_read(struct stream *stream, void *buffer, size_t size, struct fault *fault);
int stream_skip(struct stream *stream, uint64_t size, struct fault *fault);

/* -EINVAL: "PATH: byte N: WHAT is damaged: `how`". */
int stream_damaged(const struct stream *stream, const char *how, struct fault *fault);

/* The values of the "RLE / bit-packing hybrid" (parquet-format's Encodings.md), which the stream
 * has until its end. */
struct runs {
	struct stream *stream;
	unsigned width; /* bits of a value, at most 32 */
	uint64_t left; /* values of this run */
	bool packed; /* they are stored one by one; otherwise all are `value` */
	uint32_t value;
	uint64_t bits; /* read and not used */
	unsigned bits_count;
};
void runs_init(struct runs *runs, struct stream *stream, unsigned width);
int runs_next(struct runs *runs, uint32_t *ret, struct fault *fault);

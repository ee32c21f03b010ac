/* packed: how the bytes of a sample are stored in its shard, where they are not stored as they are.
 *
 * Most samples are a range of bytes of a file, which is read and decoded in place. Some containers
 * compress: a member of a ZIP, a page of a Parquet file with many images. There the record of the
 * index says which bytes to read (`stored` of them, from the record's offset), how to unpack them,
 * and which part of the result is the sample: record.size bytes from byte `inner`. Other containers
 * hold pixels without a header (CIFAR, MNIST): these are unpacked into a PNM file, which every
 * decoder of images reads. Plain data; unpack.h does the work. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Indexes store these numbers. */
enum packed_method {
	PACKED_NONE, /* the sample is the record's range of bytes; the rest of struct packed is 0 */
	PACKED_DEFLATE, /* raw deflate, as in ZIP */
	PACKED_GZIP, /* a gzip or zlib stream */
	PACKED_SNAPPY, /* one raw Snappy block */
	PACKED_ZSTD, /* one or more Zstandard frames */
	PACKED_PIXELS, /* height x width x channels bytes; becomes a PGM or PPM file */
	PACKED_PLANES, /* channels x height x width bytes; the same */
	PACKED_PARTS, /* a RecordIO record of several parts, with their headers */
	/* Elements of a Snappy block from one on that needs nothing before it; `whole` ends with
	 * the sample, and elements or parts of them may follow. */
	PACKED_SNAPPY_PART,
	/* The same of blocks of a Zstandard frame. */
	PACKED_ZSTD_PART,
	/* The same of blocks of a deflate stream. */
	PACKED_DEFLATE_PART,
	PACKED_METHODS,
};

/* The descriptor of a window of 8 MiB, in a Zstandard frame. */
enum { PACKED_WINDOW_MOST = 13 << 3 };

/* A byte of Zstandard may unpack to 32 KB, so that a few kilobytes could ask for gigabytes of work
 * for each sample. So what a sample needs of it is bounded: PACKED_RATIO times the stored bytes, as
 * deflate is by its format, and PACKED_ALWAYS more, for images of one color. */
enum { PACKED_RATIO = 1024, PACKED_ALWAYS = 16 << 20 };

struct packed {
	uint32_t stored; /* bytes to read */
	uint32_t inner; /* of the sample's first byte, in what they unpack to */
	uint32_t whole; /* bytes that all of them unpack to; more is damage */
	uint32_t crc; /* CRC-32 (zlib) of the sample's bytes, if `checked` */
	uint8_t method; /* enum packed_method */
	uint8_t checked;
	uint8_t channels; /* of PIXELS and PLANES: 1 or 3 */
	/* Of ZSTD_PART, the frame's descriptor of its window. Of DEFLATE_PART, how many bits of the
	 * first byte belong to the part; 0: all. */
	uint8_t window;
	uint16_t width, height; /* the same */
};

_Static_assert(sizeof(struct packed) == 24, "packed is part of an index");

/* Whether the stored bytes are this sample's only. Those of others overlap with them, and may begin
 * at the same place and be more or fewer. */
static inline bool packed_is_part(const struct packed *packed)
{
	return packed->method >= PACKED_SNAPPY_PART;
}

/* The bytes that a sample of `size` bytes has in its shard. */
static inline uint64_t packed_stored(const struct packed *packed, uint32_t size)
{
	return packed->method == PACKED_NONE ? size : packed->stored;
}

/* The most bytes that `stored` bytes of Zstandard may unpack to. */
static inline uint64_t packed_most(uint32_t stored)
{
	return (uint64_t)stored * PACKED_RATIO + PACKED_ALWAYS;
}

/* The bytes of the PNM header that PACKED_PIXELS and PACKED_PLANES put before the pixels: it always
 * has this many, since PNM allows any number of blanks between the numbers. */
enum { PACKED_HEADER = 20 };

/* Whether a container can have said this about a sample of `size` bytes: an index is not trusted.
 */
static inline bool packed_sound(const struct packed *packed, uint32_t size)
{
	if (packed->method == PACKED_NONE)
		return !packed->stored && !packed->inner && !packed->whole;
	if (packed->method >= PACKED_METHODS || (uint64_t)packed->inner + size > packed->whole)
		return false;
	if ((packed->method == PACKED_ZSTD || packed->method == PACKED_ZSTD_PART) &&
		(uint64_t)packed->inner + size > packed_most(packed->stored))
		return false;
	if (packed->method < PACKED_PIXELS || packed->method == PACKED_SNAPPY_PART)
		return true;
	if (packed->method == PACKED_ZSTD_PART)
		return packed->window <= PACKED_WINDOW_MOST;
	if (packed->method == PACKED_DEFLATE_PART)
		return packed->window < 8;
	if (packed->method == PACKED_PARTS) /* headers are larger than what is put in their place */
		return packed->whole <= packed->stored;
	const uint64_t pixels = (uint64_t)packed->width * packed->height * packed->channels;
	return (packed->channels == 1 || packed->channels == 3) && pixels > 0 &&
	       packed->stored == pixels && packed->whole == PACKED_HEADER + pixels &&
	       packed->inner == 0 && size == packed->whole;
}

/* unpack_method: what a method of unpacking is, for the files of this folder. */
#pragma once

#include "unpack/unpack.h"

#include <stdbool.h>

enum {
	UNPACK_PIECE = 64 << 10, /* of the source that is read at once, and of what is skipped */
	UNPACK_INPUT_MOST = 1 << 30, /* that unpack_input hands out of a source in memory */
};

struct unpack_method {
	const char *name;
	/* The version of the library; "" if penstock's code does it. */
	const char *(*library)(void);
	const char *refused; /* see unpack_refused */

	/* Begins a stream. 0 or as unpack_begin. */
	int (*begin)(struct unpack *unpack, struct fault *fault);

	/* Writes at least 1 and at most `room` bytes. *ret_made is 0 only at the end of the stream.
	 * 0 or as unpack_read. */
	int (*make)(struct unpack *unpack, uint8_t *out, size_t room, size_t *ret_made,
		struct fault *fault);

	/* NULL: the method has no parts, or is always ready for them. As unpack_parts. */
	int (*parts)(struct unpack *unpack, struct fault *fault);
	/* NULL: the method has no parts. As unpack_part_begin and _end. */
	void (*part_begin)(struct unpack *unpack, uint64_t at);
	bool (*part_end)(const struct unpack *unpack, uint64_t at, uint32_t size,
		uint64_t *ret_from, struct packed *ret);

	/* Frees a state that begin has made. */
	void (*unmake)(void *state);
};

extern const struct unpack_method unpack_plain, unpack_deflate, unpack_deflate_part, unpack_gzip,
	unpack_snappy, unpack_snappy_part, unpack_zstd, unpack_zstd_part, unpack_pixels,
	unpack_planes, unpack_record_parts;

struct unpack {
	const struct unpack_method *method; /* NULL: no stream */
	struct unpack_source source;
	uint64_t stored, at; /* bytes of the source, and of those that `input` has read */
	const uint8_t *input; /* bytes that are read and not consumed */
	size_t input_size;
	uint64_t made, whole; /* bytes unpacked so far, and all of them */
	uint64_t end; /* of what the caller may have: at most `whole` */
	struct packed packed; /* of a sample; otherwise only the method is set */
	uint64_t crc;
	bool checked; /* the sample's checksum is to be compared */
	void *state[PACKED_METHODS]; /* of the methods that were used */
	uint8_t piece[UNPACK_PIECE], skipped[UNPACK_PIECE];
};

/* Points *ret to the bytes that come next and were not consumed; *ret_size is 0 where the source
 * has ended. 0 or as unpack_read. */
int unpack_input(struct unpack *unpack, const uint8_t **ret, size_t *ret_size, struct fault *fault);
void unpack_consume(struct unpack *unpack, size_t size);

/* Reads `size` bytes at byte `at` of the source, which has them. For methods that do not read from
 * front to back. 0 or as unpack_read. */
int unpack_source_read(
	struct unpack *unpack, uint64_t at, void *buffer, size_t size, struct fault *fault);

/* The method's state, of `size` bytes, cleared when it is made. NULL: no memory. */
void *unpack_state(struct unpack *unpack, size_t size);

/* The sentences that several methods have. All return -EBADMSG. */
int unpack_damaged(const struct unpack *unpack, const char *how, struct fault *fault);
int unpack_cut(const struct unpack *unpack, struct fault *fault);
int unpack_too_long(const struct unpack *unpack, struct fault *fault);

/* -ENOMEM with its sentence. */
int unpack_no_memory(const struct unpack *unpack, struct fault *fault);

/* unpack: see unpack.h. Any thread; each unpack belongs to one. */
#include "unpack/unpack_method.h"

#include "base/util.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static const struct unpack_method *const methods[PACKED_METHODS] = {
	[PACKED_NONE] = &unpack_plain,
	[PACKED_DEFLATE] = &unpack_deflate,
	[PACKED_GZIP] = &unpack_gzip,
	[PACKED_SNAPPY] = &unpack_snappy,
	[PACKED_ZSTD] = &unpack_zstd,
	[PACKED_PIXELS] = &unpack_pixels,
	[PACKED_PLANES] = &unpack_planes,
	[PACKED_PARTS] = &unpack_record_parts,
	[PACKED_SNAPPY_PART] = &unpack_snappy_part,
	[PACKED_ZSTD_PART] = &unpack_zstd_part,
	[PACKED_DEFLATE_PART] = &unpack_deflate_part,
};

struct unpack *unpack_new(void)
{
	return calloc(1, sizeof(struct unpack));
}

void unpack_free(struct unpack *unpack)
{
	if (!unpack)
		return;
	for (size_t i = 0; i < PACKED_METHODS; i++)
		if (unpack->state[i])
			methods[i]->unmake(unpack->state[i]);
	free(unpack);
}

const char *unpack_refused(enum packed_method method)
{
	return methods[method]->refused;
}

const char *unpack_name(enum packed_method method)
{
	return methods[method]->name;
}

const char *unpack_describe(char buffer[UNPACK_TEXT])
{
	int used = snprintf(buffer, UNPACK_TEXT, "deflate and gzip (zlib %s), Snappy",
		unpack_deflate.library());
	if (!unpack_zstd.refused)
		(void)snprintf(buffer + used, UNPACK_TEXT - (size_t)used,
			", Zstandard (libzstd %s)", unpack_zstd.library());
	return buffer;
}

/* ---- sentences ---- */

int unpack_damaged(const struct unpack *unpack, const char *how, struct fault *fault)
{
	return fault_set(fault, -EBADMSG,
		"its %llu compressed bytes (%s) are damaged after %llu unpacked bytes: %s; copy "
		"the file again from where it came from",
		(unsigned long long)unpack->stored, unpack->method->name,
		(unsigned long long)unpack->made, how);
}

int unpack_cut(const struct unpack *unpack, struct fault *fault)
{
	return fault_set(fault, -EBADMSG,
		"its %llu compressed bytes (%s) end after %llu unpacked bytes, in the middle of "
		"the stream: they are damaged or cut off; copy the file again from where it came "
		"from",
		(unsigned long long)unpack->stored, unpack->method->name,
		(unsigned long long)unpack->made);
}

int unpack_too_long(const struct unpack *unpack, struct fault *fault)
{
	return fault_set(fault, -EBADMSG,
		"its %llu compressed bytes (%s) unpack to more than the %llu bytes that its "
		"container says: damaged or a bomb; copy the file again from where it came from",
		(unsigned long long)unpack->stored, unpack->method->name,
		(unsigned long long)unpack->whole);
}

static int unpack_too_short(const struct unpack *unpack, struct fault *fault)
{
	return fault_set(fault, -EBADMSG,
		"its %llu compressed bytes (%s) unpack to %llu bytes, but its container says "
		"%llu: damaged; copy the file again from where it came from",
		(unsigned long long)unpack->stored, unpack->method->name,
		(unsigned long long)unpack->made, (unsigned long long)unpack->whole);
}

int unpack_no_memory(const struct unpack *unpack, struct fault *fault)
{
	return fault_set(fault, -ENOMEM, "no memory to unpack a sample (%s)", unpack->method->name);
}

/* ---- the source ---- */

int unpack_source_read(
	struct unpack *unpack, uint64_t at, void *buffer, size_t size, struct fault *fault)
{
	const struct unpack_source *source = &unpack->source;
	assert(at <= unpack->stored && size <= unpack->stored - at);
	if (source->memory) {
		memcpy(buffer, source->memory + at, size);
		return 0;
	}
	ssize_t n = source->read(source->context, at, buffer, size);
	if (n < 0)
		return fault_set(fault, (int)n, "its stored bytes cannot be read: %s",
			source->why ? source->why((int)n) : strerror((int)-n));
	if ((size_t)n < size)
		return fault_set(fault, -ENODATA,
			"the file ends after %llu of its %llu stored bytes",
			(unsigned long long)at + (unsigned long long)n,
			(unsigned long long)unpack->stored);
	return 0;
}

int unpack_input(struct unpack *unpack, const uint8_t **ret, size_t *ret_size, struct fault *fault)
{
	const uint64_t left = unpack->stored - unpack->at;
	if (!unpack->input_size && left) {
		size_t size = (size_t)UTIL_MIN(left, (uint64_t)UNPACK_INPUT_MOST);
		if (unpack->source.memory) {
			unpack->input = unpack->source.memory + unpack->at;
		} else {
			size = (size_t)UTIL_MIN(left, (uint64_t)UNPACK_PIECE);
			unpack->input = unpack->piece;
			int rc = unpack_source_read(unpack, unpack->at, unpack->piece, size, fault);
			if (rc < 0)
				return rc;
		}
		unpack->at += size;
		unpack->input_size = size;
	}
	*ret = unpack->input;
	*ret_size = unpack->input_size;
	return 0;
}

void unpack_consume(struct unpack *unpack, size_t size)
{
	assert(size <= unpack->input_size);
	/* Without input it is NULL. */
	if (size)
		unpack->input += size;
	unpack->input_size -= size;
}

void *unpack_state(struct unpack *unpack, size_t size)
{
	void **state = &unpack->state[unpack->packed.method];
	if (!*state)
		*state = calloc(1, size);
	return *state;
}

/* ---- streams ---- */

/* The container's last byte is unpacked: the stream must end here, too. */
static int unpack_check_end(struct unpack *unpack, struct fault *fault)
{
	uint8_t more;
	size_t made = 0;
	int rc = unpack->method->make(unpack, &more, 1, &made, fault);
	if (rc == 0 && made)
		return unpack_too_long(unpack, fault);
	return rc;
}

static int unpack_start(struct unpack *unpack, const struct packed *packed, uint64_t stored,
	uint64_t whole, const struct unpack_source *source, struct fault *fault)
{
	unpack_end(unpack);
	const struct unpack_method *method = methods[packed->method];
	if (method->refused)
		return fault_set(fault, -EOPNOTSUPP, "%s", method->refused);
	unpack->method = method;
	unpack->packed = *packed;
	unpack->source = *source;
	unpack->stored = stored;
	unpack->whole = unpack->end = whole;
	int rc = method->begin(unpack, fault);
	if (rc == 0 && !unpack->whole)
		rc = unpack_check_end(unpack, fault);
	if (rc < 0)
		unpack_end(unpack);
	return rc;
}

void unpack_end(struct unpack *unpack)
{
	unpack->method = NULL;
	unpack->source = (struct unpack_source){0};
	unpack->packed = (struct packed){0};
	unpack->stored = unpack->at = unpack->made = unpack->whole = unpack->end = 0;
	unpack->input = NULL;
	unpack->input_size = 0;
	unpack->checked = false;
	unpack->crc = 0;
}

int unpack_begin(struct unpack *unpack, enum packed_method method, uint64_t stored, uint64_t whole,
	const struct unpack_source *source, struct fault *fault)
{
	assert(method < PACKED_PIXELS);
	return unpack_start(
		unpack, &(struct packed){.method = (uint8_t)method}, stored, whole, source, fault);
}

int unpack_begin_sample(struct unpack *unpack, const struct packed *packed, uint32_t size,
	const struct unpack_source *source, struct fault *fault)
{
	const bool plain = packed->method == PACKED_NONE;
	assert(plain || (uint64_t)packed->inner + size <= packed->whole);
	uint64_t skipped = 0;
	int rc = unpack_start(unpack, packed, packed_stored(packed, size),
		plain ? size : packed->whole, source, fault);
	if (rc == 0)
		rc = unpack_skip(unpack, packed->inner, &skipped, fault);
	if (rc < 0)
		return rc;
	unpack->end = (uint64_t)packed->inner + size;
	unpack->checked = packed->checked;
	unpack->crc = crc32(0, NULL, 0);
	return 0;
}

static int unpack_check_crc(struct unpack *unpack, struct fault *fault)
{
	const uint32_t expected = unpack->packed.crc, found = (uint32_t)unpack->crc;
	unpack->checked = false;
	if (found == expected)
		return 0;
	return fault_set(fault, -EBADMSG,
		"its bytes have the checksum %08x, but its container says %08x: they are damaged; "
		"copy the file again from where it came from",
		found, expected);
}

/* Makes at most `size` bytes in `out`. *ret_made is 0 at the end of the stream only. */
static int unpack_some(
	struct unpack *unpack, uint8_t *out, size_t size, size_t *ret_made, struct fault *fault)
{
	size_t made = 0;
	int rc = unpack->method->make(unpack, out, size, &made, fault);
	if (rc < 0)
		return rc;
	if (!made && unpack->whole != UNPACK_UNKNOWN)
		return unpack_too_short(unpack, fault);
	unpack->made += made;
	if (unpack->checked)
		unpack->crc = crc32(unpack->crc, out, (uInt)made);
	if (unpack->made == unpack->whole)
		rc = unpack_check_end(unpack, fault);
	if (rc == 0 && unpack->checked && unpack->made == unpack->end)
		rc = unpack_check_crc(unpack, fault);
	*ret_made = made;
	return rc;
}

int unpack_read(
	struct unpack *unpack, void *buffer, size_t size, size_t *ret_size, struct fault *fault)
{
	size_t done = 0, made = 1;
	assert(unpack->method);
	size = (size_t)UTIL_MIN((uint64_t)size, unpack->end - unpack->made);
	while (done < size && made) {
		int rc = unpack_some(unpack, (uint8_t *)buffer + done,
			UTIL_MIN(size - done, (size_t)UNPACK_INPUT_MOST), &made, fault);
		if (rc < 0)
			return rc;
		done += made;
	}
	*ret_size = done;
	return 0;
}

int unpack_skip(struct unpack *unpack, uint64_t size, uint64_t *ret_size, struct fault *fault)
{
	uint64_t done = 0;
	size_t read = 1;
	while (done < size && read) {
		size_t part = (size_t)UTIL_MIN(size - done, (uint64_t)sizeof unpack->skipped);
		int rc = unpack_read(unpack, unpack->skipped, part, &read, fault);
		if (rc < 0)
			return rc;
		done += read;
	}
	*ret_size = done;
	return 0;
}

int unpack_parts(struct unpack *unpack, struct fault *fault)
{
	assert(unpack->method);
	return unpack->method->parts ? unpack->method->parts(unpack, fault) : 0;
}

void unpack_part_begin(struct unpack *unpack, uint64_t at)
{
	assert(unpack->method);
	if (unpack->method->part_begin)
		unpack->method->part_begin(unpack, at);
}

bool unpack_part_end(const struct unpack *unpack, uint64_t at, uint32_t size, uint64_t *ret_from,
	struct packed *ret)
{
	assert(unpack->method);
	return unpack->method->part_end &&
	       unpack->method->part_end(unpack, at, size, ret_from, ret);
}

int unpack_slice(struct unpack *unpack, const struct packed *packed, uint32_t size,
	const uint8_t *stored, void *out, struct fault *fault)
{
	const struct unpack_source source = {.memory = stored};
	size_t read = 0;
	int rc = unpack_begin_sample(unpack, packed, size, &source, fault);
	if (rc == 0)
		rc = unpack_read(unpack, out, size, &read, fault);
	unpack_end(unpack);
	return rc;
}

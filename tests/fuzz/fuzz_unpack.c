/* fuzz_unpack: packed bytes of every method, made of choices and then damaged, or any bytes.
 *
 * The first bytes say how: the method, what the container says of the sizes and the checksum, and
 * how the stream is read. Expected, for each input: the same bytes and the same result from memory
 * in one read as from a source in pieces of any size; never a byte beyond what the container says;
 * a sentence with every refusal; a checksum that was compared is right; a Snappy block or part is
 * accepted, with the same bytes, exactly if a second decoder in this file accepts it; and the parts
 * of a block that samples need unpack to them. */
#include "unpack/unpack.h"

#include "fuzz/drive.h"
#include "fuzz/snappy_make.h"
#include "fuzz/want.h"

#include "base/util.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

enum {
	HEAD = 20,
	INPUT_ROOM = 64 << 10,
	PLAIN_ROOM = 256 << 10,
	OUT_GUARD = 64,
};

/* The bytes in front of the stream. */
struct head {
	uint8_t method, how, channels, window;
	uint32_t whole, inner, crc;
	uint16_t width, height;
};
_Static_assert(sizeof(struct head) == HEAD, "head");
enum {
	HOW_CHECKED = 1,
	HOW_SLICE = 2, /* inner counts; otherwise all bytes are read */
};

static uint8_t first[PLAIN_ROOM + OUT_GUARD], second[PLAIN_ROOM + OUT_GUARD];
static struct unpack *unpack;

struct source {
	const uint8_t *bytes;
	size_t size;
	struct random random;
};

static ssize_t source_read(void *context, uint64_t at, void *buffer, size_t size)
{
	const struct source *source = context;
	want(at <= source->size && size <= source->size - at, "a read beyond the stored bytes");
	memcpy(buffer, source->bytes + at, size);
	return (ssize_t)size;
}

static void check_fault(int rc, const struct fault *fault)
{
	want(rc == 0 || rc == -EBADMSG || rc == -EOPNOTSUPP, "another code");
	want(rc == 0 || fault->text[0], "refused without a sentence");
}

/* The same in reads and skips of any size; the bytes that were skipped are not compared. Returns
 * the result. */
static int read_pieces(const struct packed *packed, uint32_t size, struct source *source)
{
	const struct unpack_source from = {.read = source_read, .context = source};
	struct fault fault = {{0}};
	size_t done = 0, n = 1;
	int rc = unpack_begin_sample(unpack, packed, size, &from, &fault);
	while (rc == 0 && n) {
		const size_t piece =
			1 + draw(&source->random, one_in(&source->random, 2) ? 9 : 90000);
		uint64_t skipped = 0;
		if (one_in(&source->random, 6)) {
			rc = unpack_skip(unpack, piece, &skipped, &fault);
			n = (size_t)skipped;
			want(n <= size - done, "more bytes than the sample has");
			memcpy(second + done, first + done, rc ? 0 : n);
		} else {
			rc = unpack_read(unpack, second + done,
				UTIL_MIN(piece, sizeof second - done), &n, &fault);
		}
		done += rc ? 0 : n;
		want(done <= size, "more bytes than the sample has");
	}
	check_fault(rc, &fault);
	want(rc || done == size, "fewer bytes than the sample has");
	return rc;
}

/* ---- Snappy a second time, with the whole block in memory ---- */

static bool plain_number(
	const uint8_t *bytes, size_t size, size_t *at, unsigned count, uint32_t *ret)
{
	*ret = 0;
	if (count > size - *at)
		return false;
	for (unsigned i = 0; i < count; i++)
		*ret |= (uint32_t)bytes[(*at)++] << 8 * i;
	return true;
}

/* The size in front of a block's elements. */
static bool snappy_announced(const uint8_t *bytes, size_t size, uint64_t *ret, size_t *ret_at)
{
	unsigned shift = 0;
	*ret = 0;
	do {
		if (*ret_at == size || shift > 28)
			return false;
		*ret |= (uint64_t)(bytes[*ret_at] & 0x7f) << shift;
		shift += 7;
	} while (bytes[(*ret_at)++] & 0x80);
	return true;
}

/* False: not a Snappy block of `whole` bytes, or a part with them and perhaps more. *ret_far: a
 * copy reaches back further than the decoder supports. */
static bool snappy_plain(
	const uint8_t *bytes, size_t size, uint32_t whole, bool part, uint8_t *out, bool *ret_far)
{
	uint64_t announced = whole;
	size_t at = 0, made = 0;
	if ((!part && !snappy_announced(bytes, size, &announced, &at)) || announced != whole)
		return false;
	while (part ? made < whole : at < size) {
		if (at == size)
			return false;
		const uint8_t tag = bytes[at++];
		uint32_t number = tag >> 2, distance = 0;
		if ((tag & 3) == 0) {
			if (number >= 60 && !plain_number(bytes, size, &at, number - 59, &number))
				return false;
			number = part ? (uint32_t)UTIL_MIN((size_t)number, whole - made - 1)
				      : number;
			if (number >= size - at || number >= whole - made)
				return false;
			memcpy(out + made, bytes + at, number + 1);
			at += number + 1;
			made += number + 1;
			continue;
		}
		if (!plain_number(bytes, size, &at, 1u << ((tag & 3) - 1), &distance))
			return false;
		number = (tag & 3) == 1 ? (tag >> 2 & 7u) + 4 : number + 1;
		distance |= (tag & 3) == 1 ? (uint32_t)(tag >> 5) << 8 : 0;
		number = part ? (uint32_t)UTIL_MIN((size_t)number, whole - made) : number;
		if (!distance || distance > made || number > whole - made)
			return false;
		*ret_far |= distance > 64 << 10;
		for (uint32_t i = 0; i < number; i++, made++)
			out[made] = out[made - distance];
	}
	return made == whole;
}

static void check_snappy(const uint8_t *bytes, size_t size, const struct packed *packed, int rc)
{
	bool far = false;
	const bool part = packed->method == PACKED_SNAPPY_PART;
	const bool good = snappy_plain(bytes, size, packed->whole, part, second, &far);
	if (!far)
		want(good == (rc == 0), "Snappy is accepted or refused wrongly");
	if (rc == 0)
		want(memcmp(first, second, packed->whole) == 0, "Snappy unpacks to other bytes");
}

/* Finds a sample in the block, of which `first` has all bytes, as an indexer does: it reads on for
 * up to 16 KiB after it has found where the sample begins. */
static void check_part(const uint8_t *bytes, const struct packed *block, struct random *random)
{
	const struct unpack_source source = {.memory = bytes};
	const uint32_t at = draw(random, block->whole), size = draw(random, block->whole - at + 1);
	const uint32_t ahead = UTIL_MIN(draw(random, 16 << 10), block->whole - at);
	uint64_t skipped, from;
	struct packed part;
	struct fault fault = {{0}};
	want(unpack_begin(unpack, block->method, block->stored, block->whole, &source, &fault) ==
				0 &&
			unpack_parts(unpack, &fault) == 0 &&
			unpack_skip(unpack, at + ahead, &skipped, &fault) == 0,
		"a good block is refused");
	unpack_part_begin(unpack, at);
	want(unpack_skip(unpack, size > ahead ? size - ahead : 0, &skipped, &fault) == 0,
		"a good block is refused");
	if (!unpack_part_end(unpack, at, size, &from, &part)) {
		want(block->method != PACKED_SNAPPY, "a good block has no part");
		return;
	}
	want(from <= block->stored && part.stored <= block->stored - from &&
			packed_sound(&part, size),
		"an impossible part");
	want(unpack_slice(unpack, &part, size, bytes + from, second, &fault) == 0 &&
			memcmp(second, first + at, size) == 0,
		"a part is another sample");
}

/* ---- one input ---- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct head head;
	if (size < HEAD || size > UINT32_MAX)
		return 0;
	memcpy(&head, data, HEAD);
	const size_t stored = size - HEAD;
	struct packed packed = {.method = head.method % PACKED_METHODS,
		.stored = (uint32_t)stored,
		.whole = head.whole % (PLAIN_ROOM + 1),
		.checked = head.how & HOW_CHECKED,
		.crc = head.crc,
		.channels = head.channels,
		.window = head.window,
		.width = head.width,
		.height = head.height};
	packed.inner = head.how & HOW_SLICE ? head.inner % (packed.whole + 1) : 0;
	uint32_t wanted = packed.whole - packed.inner;
	if (head.how & HOW_SLICE)
		wanted -= head.inner / (PLAIN_ROOM + 1) % (wanted + 1);
	if (packed.method == PACKED_NONE) {
		packed.stored = packed.whole = packed.inner = 0;
		wanted = (uint32_t)stored;
	}
	if (!packed_sound(&packed, wanted) || wanted > PLAIN_ROOM)
		return 0;
	uint8_t *exact = malloc(stored ? stored : 1);
	want(exact != NULL, "no memory");
	if (!unpack)
		unpack = unpack_new();
	want(unpack != NULL, "no memory");
	memcpy(exact, data + HEAD, stored);
	memset(first + wanted, 0xa5, OUT_GUARD);
	struct fault fault = {{0}};
	int rc = unpack_slice(unpack, &packed, wanted, exact, first, &fault);
	check_fault(rc, &fault);
	for (size_t i = 0; i < OUT_GUARD; i++)
		want(first[wanted + i] == 0xa5, "more bytes than there is room for");
	if (rc == 0 && packed.checked && wanted)
		want(crc32(0, first, wanted) == packed.crc, "a wrong checksum");
	struct source source = {exact, stored, {head.crc + size}};
	want(read_pieces(&packed, wanted, &source) == rc, "in pieces the result is another");
	if (rc == 0)
		want(memcmp(first, second, wanted) == 0, "in pieces the bytes are others");
	const bool snappy = packed.method == PACKED_SNAPPY || packed.method == PACKED_SNAPPY_PART;
	if (snappy && wanted == packed.whole && !packed.checked) {
		check_snappy(exact, stored, &packed, rc);
	}
	const bool parts = packed.method == PACKED_SNAPPY || packed.method == PACKED_ZSTD ||
			   packed.method == PACKED_GZIP;
	if (rc == 0 && parts && wanted == packed.whole && packed.whole)
		for (int i = 0; i < 3; i++)
			check_part(exact, &packed, &source.random);
	free(exact);
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
static uint8_t plain[PLAIN_ROOM];
static struct snappy_made made;

static uint32_t plain_fill(uint32_t room, struct random *random)
{
	const uint32_t size = draw(random, one_in(random, 8) ? room : UTIL_MIN(room, 3000u));
	const uint32_t noise = 1 + draw(random, 30), back = 1 + draw(random, 200);
	for (uint32_t i = 0; i < size; i++)
		plain[i] = i > back && !one_in(random, noise) ? plain[i - 1 - draw(random, back)]
							      : (uint8_t)random_64(random);
	return size;
}

static uint32_t put_zlib(uint8_t *to, uint32_t room, uint32_t size, int bits, struct random *random)
{
	z_stream stream = {0};
	if (deflateInit2(&stream, (int)draw(random, 10), Z_DEFLATED, bits, 1 + (int)draw(random, 9),
		    (int)draw(random, 5)) != Z_OK)
		return 0;
	stream.next_in = plain;
	stream.avail_in = size;
	stream.next_out = to;
	stream.avail_out = room;
	(void)deflate(&stream, Z_FINISH);
	(void)deflateEnd(&stream);
	return (uint32_t)stream.total_out;
}

/* Random elements, at times such that few copies reach back over a multiple of 64 KiB; `plain`
 * becomes what they unpack to. */
static uint32_t put_snappy(
	uint8_t *to, uint32_t room, bool part, uint32_t *ret_size, struct random *random)
{
	const uint32_t most = UTIL_MIN(room / 2, one_in(random, 8) ? 30000u : 2000u);
	const uint32_t over = one_in(random, 2) ? 1 : 2 + draw(random, 1000);
	made.packed_size = made.plain_size = 0;
	while (made.packed_size < most && made.plain_size < PLAIN_ROOM - 1000) {
		const uint32_t offsets = 1u << draw(random, 3);
		const uint32_t within =
			one_in(random, over) ? made.plain_size : made.plain_size % (64 << 10);
		const uint32_t back = UTIL_MIN(within, offsets == 1 ? 2047u : 65535u);
		if (!back || one_in(random, 4))
			snappy_put_literal(&made, plain, 1 + draw(random, 300), draw(random, 5));
		else
			snappy_put_copy(&made, 1 + draw(random, back),
				offsets == 1 ? 4 + draw(random, 8) : 1 + draw(random, 64), offsets);
	}
	*ret_size = made.plain_size;
	if (part)
		*ret_size -= draw(random, 100) % made.plain_size;
	else
		snappy_put_size(&made, made.plain_size);
	memcpy(plain, made.plain, made.plain_size);
	memcpy(to, made.packed, made.packed_size);
	return made.packed_size;
}

#ifdef HAVE_ZSTD
/* A frame of many small blocks, some of them noise. Without its head if it is for a part. */
static uint32_t put_blocks(struct head *head, uint8_t *to, uint32_t room, uint32_t *ret_size,
	bool part, struct random *random)
{
	const uint32_t size = UTIL_MIN(room / 2, PLAIN_ROOM / 8u);
	const unsigned log = 10 + draw(random, 4);
	for (uint32_t at = 0; at < size; at += 1 + draw(random, 4000)) {
		const uint32_t noise = draw(random, UTIL_MIN(3000u, size - at));
		if (one_in(random, 2))
			(void)drive_noise(plain + at, noise, random);
		else if (at > noise)
			memmove(plain + at, plain + draw(random, at - noise), noise);
	}
	ZSTD_CCtx *context = ZSTD_createCCtx();
	(void)ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, 1 + (int)draw(random, 5));
	(void)ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, (int)log);
	const size_t n = ZSTD_compress2(context, to, room, plain, size);
	(void)ZSTD_freeCCtx(context);
	*ret_size = ZSTD_isError(n) ? 0 : size;
	if (!part || ZSTD_isError(n))
		return ZSTD_isError(n) ? 0 : (uint32_t)n;
	/* A window, and the size in 2 bytes or 4. */
	const uint32_t opening = size < 256 + 65536 ? 8 : 10;
	if (n <= opening)
		return 0;
	memmove(to, to + opening, n - opening);
	head->window = (uint8_t)((log - 10) << 3);
	*ret_size -= draw(random, 2000) % size;
	return (uint32_t)n - opening;
}
#endif

static uint32_t put_zstd(
	struct head *head, uint8_t *to, uint32_t room, uint32_t *ret_size, struct random *random)
{
	const uint32_t size = *ret_size;
#ifdef HAVE_ZSTD
	if (head->method == PACKED_ZSTD_PART || one_in(random, 2))
		return put_blocks(
			head, to, room, ret_size, head->method == PACKED_ZSTD_PART, random);
	const uint32_t cut = one_in(random, 3) ? draw(random, size + 1) : size;
	size_t n = ZSTD_compress(to, room, plain, cut, 1 + (int)draw(random, 5));
	if (!ZSTD_isError(n) && cut < size) {
		size_t more = ZSTD_compress(to + n, room - n, plain + cut, size - cut, 1);
		n = ZSTD_isError(more) ? n : n + more;
	}
	return ZSTD_isError(n) ? 0 : (uint32_t)n;
#else
	(void)head, (void)to, (void)size, (void)random;
	return UTIL_MIN(room, 10u);
#endif
}

/* A RecordIO record of several parts. `plain` becomes what they are joined to. */
static uint32_t put_parts(uint8_t *to, uint32_t *ret_size, struct random *random)
{
	static const uint8_t magic[] = {0x0a, 0x23, 0xd7, 0xce};
	const uint32_t parts = 2 + draw(random, 4);
	uint32_t at = 0, size = 0;
	for (uint32_t i = 0; i < parts; i++) {
		const uint32_t bytes = draw(random, 50);
		const uint32_t which = i ? i + 1 < parts ? 2u : 3u : 1u;
		const uint32_t coded = bytes | which << 29;
		if (i) {
			memcpy(plain + size, magic, sizeof magic);
			size += sizeof magic;
		}
		memcpy(to + at, magic, sizeof magic);
		memcpy(to + at + sizeof magic, &coded, sizeof coded);
		memcpy(to + at + 8, plain + size, bytes);
		at += 8 + bytes;
		size += bytes;
	}
	*ret_size = size;
	return at;
}

static uint32_t put_stream(
	struct head *head, uint8_t *to, uint32_t room, uint32_t *size, struct random *random)
{
	switch (head->method) {
	case PACKED_DEFLATE:
	case PACKED_DEFLATE_PART:
		return put_zlib(to, room, *size, -15, random);
	case PACKED_GZIP:
		return put_zlib(to, room, *size, one_in(random, 2) ? 15 : 31, random);
	case PACKED_SNAPPY:
	case PACKED_SNAPPY_PART:
		return put_snappy(to, room, head->method == PACKED_SNAPPY_PART, size, random);
	case PACKED_ZSTD:
	case PACKED_ZSTD_PART:
		return put_zstd(head, to, room, size, random);
	case PACKED_PARTS:
		return put_parts(to, size, random);
	case PACKED_PIXELS:
	case PACKED_PLANES:
		head->channels = one_in(random, 2) ? 1 : 3;
		head->width = (uint16_t)(1 + draw(random, 100));
		head->height = (uint16_t)(1 + draw(random, 100));
		*size = PACKED_HEADER + (uint32_t)head->channels * head->width * head->height;
		head->how = 0;
		return *size - PACKED_HEADER;
	default:
		return UTIL_MIN(room, *size);
	}
}

/* Half of them are whole and sound; drive damages every second one. */
static size_t compose(uint8_t *bytes, size_t room, struct random *random)
{
	struct head head = {
		.method = (uint8_t)draw(random, PACKED_METHODS), .how = (uint8_t)draw(random, 4)};
	uint32_t size = plain_fill(PLAIN_ROOM / 8, random);
	uint32_t stored = put_stream(&head, bytes + HEAD, (uint32_t)room - HEAD, &size, random);
	head.whole = size;
	if (head.how & HOW_SLICE)
		head.inner = draw(random, size + 1) + draw(random, 50) * (PLAIN_ROOM + 1);
	const uint32_t inner = head.how & HOW_SLICE ? head.inner % (size + 1) : 0;
	uint32_t wanted = size - inner;
	if (head.how & HOW_SLICE)
		wanted -= head.inner / (PLAIN_ROOM + 1) % (wanted + 1);
	head.crc = (uint32_t)crc32(0, plain + inner, wanted);
	if (one_in(random, 8))
		head.whole += draw(random, 3) - 1;
	memcpy(bytes, &head, HEAD);
	return HEAD + stored;
}

static void end(void)
{
	unpack_free(unpack);
}

const struct drive fuzz_drive = {"fuzz_unpack", INPUT_ROOM, compose, end};
#endif

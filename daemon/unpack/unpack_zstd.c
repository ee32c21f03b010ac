/* unpack_zstd: one or more Zstandard frames (RFC 8878) with libzstd. A frame whose window is larger
 * than UNPACK_WINDOW_LOG is refused before memory is allocated for it. */
#include "unpack/unpack_method.h"

#include "base/util.h"
#include "unpack/unpack_zstd_walk.h"

#include <errno.h>
#include <stdlib.h>
#include <zstd.h>
#include <zstd_errors.h>

struct unzstd {
	ZSTD_DCtx *context;
	bool between; /* no frame is begun */
	bool walks; /* parts will be asked for */
	struct zstd_walk *walk; /* NULL until they are */
};

static int zstd_begin(struct unpack *unpack, struct fault *fault)
{
	struct unzstd *own = unpack_state(unpack, sizeof *own);
	if (own && !own->context)
		own->context = ZSTD_createDCtx();
	if (!own || !own->context)
		return unpack_no_memory(unpack, fault);
	size_t rc = ZSTD_DCtx_reset(own->context, ZSTD_reset_session_only);
	if (!ZSTD_isError(rc))
		rc = ZSTD_DCtx_setParameter(own->context, ZSTD_d_windowLogMax, UNPACK_WINDOW_LOG);
	own->between = true;
	own->walks = false;
	return ZSTD_isError(rc) ? unpack_damaged(unpack, ZSTD_getErrorName(rc), fault) : 0;
}

static int zstd_failed(const struct unpack *unpack, size_t code, struct fault *fault)
{
	const ZSTD_ErrorCode error = ZSTD_getErrorCode(code);
	if (error == ZSTD_error_memory_allocation)
		return unpack_no_memory(unpack, fault);
	if (error != ZSTD_error_frameParameter_windowTooLarge)
		return unpack_damaged(unpack, ZSTD_getErrorName(code), fault);
	return fault_set(fault, -EBADMSG,
		"its Zstandard frame needs a window of more than %d MiB: write the file again "
		"without --long and with a level below 20",
		1 << (UNPACK_WINDOW_LOG - 20));
}

/* A part is a frame without its head and its end. */
static int zstd_part_begin(struct unpack *unpack, struct fault *fault)
{
	uint8_t opening[ZSTD_WALK_OPENING], none;
	int rc = zstd_begin(unpack, fault);
	if (rc < 0)
		return rc;
	struct unzstd *own = unpack->state[unpack->packed.method];
	zstd_walk_opening(unpack->packed.window, opening);
	ZSTD_inBuffer from = {.src = opening, .size = sizeof opening};
	ZSTD_outBuffer to = {.dst = &none};
	size_t found = ZSTD_decompressStream(own->context, &to, &from);
	own->between = false;
	return ZSTD_isError(found) ? zstd_failed(unpack, found, fault) : 0;
}

/* Gives libzstd the next bytes of the stream, and room for `room`. */
static int zstd_more(struct unpack *unpack, struct unzstd *own, uint8_t *out, size_t room,
	size_t *ret_made, struct fault *fault)
{
	const bool walks = own->walks && own->walk->on;
	const uint8_t *input;
	size_t size;
	int rc = unpack_input(unpack, &input, &size, fault);
	if (rc < 0 || (!size && own->between))
		return rc;
	const bool ended = !size;
	if (walks)
		size = UTIL_MIN(size, zstd_walk_limit(own->walk));
	ZSTD_inBuffer from = {.src = input, .size = size};
	ZSTD_outBuffer to = {.dst = out, .size = room};
	size_t found = ZSTD_decompressStream(own->context, &to, &from);
	if (ZSTD_isError(found))
		return zstd_failed(unpack, found, fault);
	if (walks)
		zstd_walk_step(own->walk, &(struct zstd_walk_done){.input = input,
						  .out = out,
						  .size = size,
						  .taken = from.pos,
						  .room = room,
						  .made = to.pos,
						  .ended = found == 0});
	unpack_consume(unpack, from.pos);
	own->between = found == 0;
	/* Without input it gives out what it still holds, and then makes no progress. */
	if (ended && !to.pos && !own->between)
		return unpack_cut(unpack, fault);
	*ret_made = to.pos;
	return ended && own->between ? 0 : 1;
}

static int zstd_make(
	struct unpack *unpack, uint8_t *out, size_t room, size_t *ret_made, struct fault *fault)
{
	struct unzstd *own = unpack->state[unpack->packed.method];
	int rc = 1;
	if (own->walks)
		room = UTIL_MIN(room, (size_t)ZSTD_WALK_ROOM);
	*ret_made = 0;
	while (rc > 0 && !*ret_made)
		rc = zstd_more(unpack, own, out, room, ret_made, fault);
	return UTIL_MIN(rc, 0);
}

/* Bytes that follow the sample are not looked at. */
static int zstd_part_make(
	struct unpack *unpack, uint8_t *out, size_t room, size_t *ret_made, struct fault *fault)
{
	*ret_made = 0;
	return unpack->made < unpack->whole ? zstd_make(unpack, out, room, ret_made, fault) : 0;
}

static int zstd_parts(struct unpack *unpack, struct fault *fault)
{
	struct unzstd *own = unpack->state[unpack->packed.method];
	if (!own->walk)
		own->walk = calloc(1, sizeof *own->walk);
	if (!own->walk)
		return unpack_no_memory(unpack, fault);
	own->walks = true;
	zstd_walk_begin(own->walk);
	return 0;
}

static void zstd_sample_begin(struct unpack *unpack, uint64_t at)
{
	const struct unzstd *own = unpack->state[unpack->packed.method];
	if (own->walks)
		zstd_walk_sample_begin(own->walk, at);
}

static bool zstd_sample_end(const struct unpack *unpack, uint64_t at, uint32_t size,
	uint64_t *ret_from, struct packed *ret)
{
	const struct unzstd *own = unpack->state[unpack->packed.method];
	return own->walks && zstd_walk_sample_end(own->walk, at, size, ret_from, ret);
}

static void zstd_unmake(void *state)
{
	struct unzstd *own = state;
	(void)ZSTD_freeDCtx(own->context);
	if (own->walk)
		zstd_walk_deinit(own->walk);
	free(own->walk);
	free(own);
}

static const char *zstd_library(void)
{
	return ZSTD_versionString();
}

const struct unpack_method unpack_zstd = {
	.name = "Zstandard",
	.library = zstd_library,
	.begin = zstd_begin,
	.make = zstd_make,
	.parts = zstd_parts,
	.part_begin = zstd_sample_begin,
	.part_end = zstd_sample_end,
	.unmake = zstd_unmake,
};

const struct unpack_method unpack_zstd_part = {
	.name = "Zstandard",
	.library = zstd_library,
	.begin = zstd_part_begin,
	.make = zstd_part_make,
	.unmake = zstd_unmake,
};

/* unpack_zstd: one or more Zstandard frames (RFC 8878) with libzstd. A frame whose window is larger
 * than UNPACK_WINDOW_LOG is refused before memory is allocated for it. */
#include "unpack/unpack_method.h"

#include <errno.h>
#include <stdlib.h>
#include <zstd.h>
#include <zstd_errors.h>

struct unzstd {
	ZSTD_DCtx *context;
	bool between; /* no frame is begun */
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

static int zstd_make(
	struct unpack *unpack, uint8_t *out, size_t room, size_t *ret_made, struct fault *fault)
{
	struct unzstd *own = unpack->state[unpack->packed.method];
	ZSTD_outBuffer to = {.dst = out, .size = room};
	while (!to.pos) {
		const uint8_t *input;
		size_t size;
		int rc = unpack_input(unpack, &input, &size, fault);
		if (rc < 0)
			return rc;
		if (!size && own->between)
			break;
		ZSTD_inBuffer from = {.src = input, .size = size};
		size_t found = ZSTD_decompressStream(own->context, &to, &from);
		if (ZSTD_isError(found))
			return zstd_failed(unpack, found, fault);
		unpack_consume(unpack, from.pos);
		own->between = found == 0;
		/* Without input it gives out what it still holds, and then makes no progress. */
		if (!size && !to.pos && !own->between)
			return unpack_cut(unpack, fault);
	}
	*ret_made = to.pos;
	return 0;
}

static void zstd_unmake(void *state)
{
	struct unzstd *own = state;
	(void)ZSTD_freeDCtx(own->context);
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
	.unmake = zstd_unmake,
};

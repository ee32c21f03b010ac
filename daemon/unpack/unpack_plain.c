/* unpack_plain: bytes that are stored as they are, so that callers need no case of their own. */
#include "unpack/unpack_method.h"

#include "base/util.h"

#include <string.h>

static int plain_begin(struct unpack *unpack, struct fault *fault)
{
	(void)unpack, (void)fault;
	return 0;
}

static int plain_make(
	struct unpack *unpack, uint8_t *out, size_t room, size_t *ret_made, struct fault *fault)
{
	const uint8_t *input;
	size_t size;
	int rc = unpack_input(unpack, &input, &size, fault);
	if (rc < 0)
		return rc;
	size = UTIL_MIN(size, room);
	if (size)
		memcpy(out, input, size);
	unpack_consume(unpack, size);
	*ret_made = size;
	return 0;
}

static const char *plain_library(void)
{
	return "";
}

const struct unpack_method unpack_plain = {
	.name = "stored",
	.library = plain_library,
	.begin = plain_begin,
	.make = plain_make,
	.unmake = free,
};

/* webp_absent: replaces webp.c in builds without libwebp; refuses every WebP image. */
#include "decode/types/types.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct webp {
	struct sentence *sentence;
};

static bool webp_sniff(const uint8_t *data, size_t size)
{
	return size >= 15 && !memcmp(data, "RIFF", 4) && !memcmp(data + 8, "WEBPVP8", 7);
}

static int webp_make(const struct reader_tools *tools, void **ret)
{
	struct webp *webp = calloc(1, sizeof(*webp));
	if (!webp)
		return -ENOMEM;
	webp->sentence = tools->sentence;
	*ret = webp;
	return 0;
}

static uint64_t webp_bytes(void)
{
	return sizeof(struct webp);
}

static int webp_begin(void *self, const struct decode_limits *limits, const uint8_t *data,
	size_t size, struct decode_info *ret)
{
	const struct webp *webp = self;
	(void)limits, (void)data, (void)size, (void)ret;
	return sentence_set(webp->sentence, DECODE_E_UNSUPPORTED,
		"WebP: this penstock was built without libwebp; build it with libwebp-dev, or "
		"convert the images to JPEG or PNG");
}

static void webp_end(void *self)
{
	(void)self;
}

const struct reader types_webp = {
	.format = DECODE_WEBP,
	.name = "WebP",
	.library = NULL,
	.sniff = webp_sniff,
	.make = webp_make,
	.unmake = free,
	.bytes = webp_bytes,
	.begin = webp_begin,
	.end = webp_end,
};

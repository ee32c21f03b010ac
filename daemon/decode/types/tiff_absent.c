/* tiff_absent: replaces tiff.c in builds without libtiff; refuses every TIFF image. */
#include "decode/types/types.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct tiff {
	struct sentence *sentence;
};

static bool tiff_sniff(const uint8_t *data, size_t size)
{
	return size >= 8 && (!memcmp(data, "II*\0", 4) || !memcmp(data, "MM\0*", 4) ||
				    !memcmp(data, "II+\0", 4) || !memcmp(data, "MM\0+", 4));
}

static int tiff_make(const struct reader_tools *tools, void **ret)
{
	struct tiff *tiff = calloc(1, sizeof(*tiff));
	if (!tiff)
		return -ENOMEM;
	tiff->sentence = tools->sentence;
	*ret = tiff;
	return 0;
}

static uint64_t tiff_bytes(void)
{
	return sizeof(struct tiff);
}

static int tiff_begin(void *self, const struct decode_limits *limits, const uint8_t *data,
	size_t size, struct decode_info *ret)
{
	const struct tiff *tiff = self;
	(void)limits, (void)data, (void)size, (void)ret;
	return sentence_set(tiff->sentence, DECODE_E_UNSUPPORTED,
		"TIFF: this penstock was built without libtiff; build it with libtiff-dev, or "
		"convert the images to JPEG or PNG");
}

static void tiff_end(void *self)
{
	(void)self;
}

const struct reader types_tiff = {
	.format = DECODE_TIFF,
	.name = "TIFF",
	.library = NULL,
	.sniff = tiff_sniff,
	.make = tiff_make,
	.unmake = free,
	.bytes = tiff_bytes,
	.begin = tiff_begin,
	.end = tiff_end,
};

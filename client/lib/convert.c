/* convert: penstock_convert_*, the public functions of proto/convert/convert.h.
 *
 * Thread: any. */
#include "client/lib/convert.h"

#include "client/lib/error.h"
#include "proto/dispatch.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)PENSTOCK_UINT8 == (int)CONVERT_UINT8 &&
		       (int)PENSTOCK_FLOAT32 == (int)CONVERT_FLOAT32 &&
		       (int)PENSTOCK_FLOAT16 == (int)CONVERT_FLOAT16 &&
		       (int)PENSTOCK_BFLOAT16 == (int)CONVERT_BFLOAT16 &&
		       (int)PENSTOCK_NHWC == (int)CONVERT_NHWC &&
		       (int)PENSTOCK_NCHW == (int)CONVERT_NCHW,
	"one numbering");

void penstock_convert_options_init_size(struct penstock_convert_options *options, size_t size)
{
	const struct penstock_convert_options defaults = {.size = size,
		.dtype = PENSTOCK_FLOAT32,
		.mean = {0.485f, 0.456f, 0.406f},
		.std = {0.229f, 0.224f, 0.225f}};
	size_t known = size < sizeof defaults ? size : sizeof defaults;
	memcpy(options, &defaults, known);
	memset((unsigned char *)options + known, 0, size - known);
}

static int convert_check(const struct penstock_convert_options *options)
{
	if (options->dtype > PENSTOCK_BFLOAT16)
		return error_set(-EINVAL,
			"options.dtype is %u: expected one of enum penstock_dtype", options->dtype);
	if (options->layout > PENSTOCK_NCHW)
		return error_set(-EINVAL,
			"options.layout is %u: expected one of enum penstock_layout",
			options->layout);
	for (int i = 0; i < 3; i++) {
		if (!isfinite(options->mean[i]))
			return error_set(-EINVAL,
				"options.mean[%d] is %g: expected a finite number", i,
				(double)options->mean[i]);
		if (!isfinite(options->std[i]) || options->std[i] == 0)
			return error_set(-EINVAL,
				"options.std[%d] is %g: expected a finite number other than 0", i,
				(double)options->std[i]);
	}
	return 0;
}

int convert_refuse(int code)
{
	char sentence[DISPATCH_REFUSAL];
	dispatch_refusal(code, sentence);
	return error_set(code, "%s", sentence);
}

int penstock_convert_new(
	const struct penstock_convert_options *options, struct penstock_convert **ret_convert)
{
	if (!options || options->size < sizeof *options)
		return error_set(-EINVAL,
			"the options were not prepared: call penstock_convert_options_init first");
	int result = convert_check(options);
	if (result < 0)
		return result;
	struct convert_options mine = {.dtype = options->dtype, .layout = options->layout};
	memcpy(mine.mean, options->mean, sizeof mine.mean);
	memcpy(mine.std, options->std, sizeof mine.std);
	struct penstock_convert *convert = aligned_alloc(CONVERT_LINE, sizeof *convert);
	if (!convert)
		return error_set(-ENOMEM, "no memory for a conversion");
	result = convert_init(&convert->convert, &mine);
	if (result < 0) {
		free(convert);
		return convert_refuse(result);
	}
	*ret_convert = convert;
	return 0;
}

size_t penstock_convert_row_bytes(
	const struct penstock_convert *convert, uint32_t height, uint32_t width)
{
	return convert_row_bytes(&convert->convert, height, width);
}

void penstock_convert_rows(const struct penstock_convert *convert, const void *rows, uint32_t count,
	uint32_t height, uint32_t width, void *out)
{
	convert_rows(&convert->convert, rows, count, height, width, out);
}

void penstock_convert_free(struct penstock_convert *convert)
{
	free(convert);
}

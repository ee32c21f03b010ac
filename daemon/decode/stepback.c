/* stepback: see stepback.h. Pure. */
#include "decode/stepback.h"

const char *stepback_name(enum stepback reason)
{
	static const char *const names[STEPBACKS] = {
		[STEPBACK_NONE] = "none",
		[STEPBACK_KIND] = "kind",
		[STEPBACK_COMPONENTS] = "components",
		[STEPBACK_SCAN] = "scan",
		[STEPBACK_HEADER] = "header",
		[STEPBACK_TABLES] = "tables",
		[STEPBACK_CODE] = "code",
		[STEPBACK_RUN] = "run",
		[STEPBACK_RANGE] = "range",
		[STEPBACK_SHORT] = "short",
		[STEPBACK_RESTART] = "restart",
		[STEPBACK_END] = "end",
		[STEPBACK_ENTRY_POINT] = "checkpoint",
		[STEPBACK_SIZE] = "size",
	};
	return (unsigned)reason < STEPBACKS ? names[reason] : "unknown";
}

const char *stepback_words(enum stepback reason)
{
	static const char *const words[STEPBACKS] = {
		[STEPBACK_NONE] = "nothing",
		[STEPBACK_KIND] = "arithmetic or lossless coding, or not 8 bit",
		[STEPBACK_COMPONENTS] = "an unusual number or sampling of components",
		[STEPBACK_SCAN] =
			"scans that are missing, repeated, too many or in an unusual order",
		[STEPBACK_HEADER] = "something unusual in the header",
		[STEPBACK_TABLES] = "a table that is missing, broken or unusual",
		[STEPBACK_CODE] = "bits that are not a code of an 8-bit image",
		[STEPBACK_RUN] = "a coefficient beyond the 63rd",
		[STEPBACK_RANGE] = "coefficients out of range",
		[STEPBACK_SHORT] = "data that ends before the last block",
		[STEPBACK_RESTART] = "a restart marker that is missing or misplaced",
		[STEPBACK_END] = "something other than the end marker after the last block",
		[STEPBACK_ENTRY_POINT] = "entry points that do not fit the file",
		[STEPBACK_SIZE] = "an image larger than the decoder's memory",
	};
	return (unsigned)reason < STEPBACKS ? words[reason] : "something unknown";
}

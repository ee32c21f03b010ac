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

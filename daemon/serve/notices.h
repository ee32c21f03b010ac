/* notices: the last few warnings of the daemon, which the status shows. Event loop. */
#pragma once

#include "base/fault.h"
#include "base/log.h"
#include "base/util.h"

#include <stdint.h>
#include <stdio.h>

struct notices { /* zeroed is empty */
	char text[4][FAULT_TEXT];
	uint32_t count;
};

/* Logs a warning and keeps it; where all places are taken, in place of the last one. Most callers
 * want recorder_notice, which tells the flight recorder too. */
static inline void notices_add(struct notices *notices, const char *text)
{
	log_write(LOG_WARNING, LOG_DAEMON, "%s", text);
	uint32_t last = UTIL_COUNT(notices->text) - 1;
	uint32_t at = notices->count <= last ? notices->count++ : last;
	(void)snprintf(notices->text[at], FAULT_TEXT, "%s", text);
}

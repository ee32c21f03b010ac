/* log_limit: what clients do wrong, or do without end, must not fill the log.
 *
 * Each kind of line may be logged a number of times in ten seconds. How many lines were left out is
 * logged when the ten seconds are over, or when the daemon ends. Event loop. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum log_limit_kind {
	LOG_LIMIT_OFFENCE, /* what clients do wrong */
	LOG_LIMIT_OPENING, /* streams that are opened, are refused or fail */
	LOG_LIMIT_KINDS
};

struct log_limits { /* zeroed has logged nothing */
	struct log_limit {
		uint64_t since_ns, left_out;
		uint32_t lines;
	} of[LOG_LIMIT_KINDS];
};

/* Whether to log a line of this kind. If not, it is counted as left out. */
bool log_limit_may(struct log_limits *limits, enum log_limit_kind kind);
void log_limit_tick(struct log_limits *limits); /* once a second */
void log_limit_end(struct log_limits *limits);

/* log_limit: see log_limit.h. */
#include "serve/log_limit.h"

#include "base/clock.h"
#include "base/log.h"

#include <inttypes.h>

#define LOG_LIMIT_WINDOW_NS 10000000000ull

static const struct {
	uint32_t lines;
	const char *of;
} log_limit_kinds[LOG_LIMIT_KINDS] = {
	[LOG_LIMIT_OFFENCE] = {10, "what clients did wrong"},
	[LOG_LIMIT_OPENING] = {200, "streams that were opened, were refused or failed"},
};

static void log_limit_report(struct log_limit *limit, int kind, uint64_t now)
{
	if (limit->left_out)
		log_write(LOG_WARNING, LOG_TRAINER,
			"%" PRIu64 " more lines about %s were left out in %.0f s", limit->left_out,
			log_limit_kinds[kind].of, (double)(now - limit->since_ns) * 1e-9);
	*limit = (struct log_limit){0};
}

static void log_limit_close_window(struct log_limit *limit, int kind, uint64_t now)
{
	if (limit->since_ns && now - limit->since_ns >= LOG_LIMIT_WINDOW_NS)
		log_limit_report(limit, kind, now);
}

bool log_limit_may(struct log_limits *limits, enum log_limit_kind kind)
{
	struct log_limit *limit = &limits->of[kind];
	uint64_t now = clock_ns();
	log_limit_close_window(limit, (int)kind, now);
	if (!limit->since_ns)
		limit->since_ns = now;
	if (limit->lines++ < log_limit_kinds[kind].lines)
		return true;
	limit->left_out++;
	return false;
}

void log_limit_tick(struct log_limits *limits)
{
	for (int kind = 0; kind < LOG_LIMIT_KINDS; kind++)
		log_limit_close_window(&limits->of[kind], kind, clock_ns());
}

void log_limit_end(struct log_limits *limits)
{
	for (int kind = 0; kind < LOG_LIMIT_KINDS; kind++)
		log_limit_report(&limits->of[kind], kind, clock_ns());
}

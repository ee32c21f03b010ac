/* quiet: what clients do wrong, or do without end, must not fill the log.
 *
 * So many lines of a kind in ten seconds; how many were left out is said in the next ten, or when
 * they are over, or the daemon ends. */
#include "serve/serve_impl.h"

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

static void log_limit_say(struct log_limit *quiet, enum log_limit_kind kind, uint64_t now)
{
	if (quiet->left_out)
		log_write(LOG_WARNING, LOG_TRAINER,
			"%" PRIu64 " more lines about %s were left out in %.0f s", quiet->left_out,
			log_limit_kinds[kind].of, (double)(now - quiet->since_ns) * 1e-9);
	*quiet = (struct log_limit){0};
}

static void log_limit_close_window(struct log_limit *quiet, enum log_limit_kind kind, uint64_t now)
{
	if (quiet->since_ns && now - quiet->since_ns >= LOG_LIMIT_WINDOW_NS)
		log_limit_say(quiet, kind, now);
}

bool log_limit_may(struct server *server, enum log_limit_kind kind)
{
	struct log_limit *quiet = &server->quiet[kind];
	uint64_t now = clock_ns();
	log_limit_close_window(quiet, kind, now);
	if (!quiet->since_ns)
		quiet->since_ns = now;
	if (quiet->lines++ < log_limit_kinds[kind].lines)
		return true;
	quiet->left_out++;
	return false;
}

void log_limit_tick(struct server *server)
{
	for (int kind = 0; kind < LOG_LIMIT_KINDS; kind++)
		log_limit_close_window(&server->quiet[kind], (enum log_limit_kind)kind, clock_ns());
}

void log_limit_end(struct server *server)
{
	for (int kind = 0; kind < LOG_LIMIT_KINDS; kind++)
		log_limit_say(&server->quiet[kind], (enum log_limit_kind)kind, clock_ns());
}

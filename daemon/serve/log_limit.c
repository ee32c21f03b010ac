/* quiet: what clients do wrong, or do without end, must not fill the log.
 *
 * So many lines of a kind in ten seconds; how many were left out is said in the next ten, or when
 * they are over, or the daemon ends. */
#include "serve/serve_impl.h"

#include "base/clock.h"
#include "base/log.h"

#include <inttypes.h>

#define QUIET_WINDOW_NS 10000000000ull

static const struct {
	uint32_t lines;
	const char *of;
} quiet_kinds[QUIET_KINDS] = {
	[QUIET_OFFENCE] = {10, "what clients did wrong"},
	[QUIET_OPENING] = {200, "streams that were opened, were refused or failed"},
};

static void quiet_say(struct quiet *quiet, enum quiet_kind kind, uint64_t now)
{
	if (quiet->left_out)
		log_write(LOG_WARNING, LOG_TRAINER,
			"%" PRIu64 " more lines about %s were left out in %.0f s", quiet->left_out,
			quiet_kinds[kind].of, (double)(now - quiet->since_ns) * 1e-9);
	*quiet = (struct quiet){0};
}

static void quiet_close_window(struct quiet *quiet, enum quiet_kind kind, uint64_t now)
{
	if (quiet->since_ns && now - quiet->since_ns >= QUIET_WINDOW_NS)
		quiet_say(quiet, kind, now);
}

bool quiet_may(struct server *server, enum quiet_kind kind)
{
	struct quiet *quiet = &server->quiet[kind];
	uint64_t now = clock_ns();
	quiet_close_window(quiet, kind, now);
	if (!quiet->since_ns)
		quiet->since_ns = now;
	if (quiet->lines++ < quiet_kinds[kind].lines)
		return true;
	quiet->left_out++;
	return false;
}

void quiet_tick(struct server *server)
{
	for (int kind = 0; kind < QUIET_KINDS; kind++)
		quiet_close_window(&server->quiet[kind], (enum quiet_kind)kind, clock_ns());
}

void quiet_end(struct server *server)
{
	for (int kind = 0; kind < QUIET_KINDS; kind++)
		quiet_say(&server->quiet[kind], (enum quiet_kind)kind, clock_ns());
}

/* supervisor: tells systemd (sd_notify(3)) that the daemon is ready, reads its settings again, or
 * ends; what it serves; and that it is alive. It waits while systemd's queue is full. Without
 * NOTIFY_SOCKET it tells nothing.
 *
 * The daemon is alive if the loop turns, which it does where its timer calls this, and if its
 * threads make progress: while batches are being filled, some thread must compute, or be kept from
 * computing by other processes, or wait for storage, which a restart would not make faster. When
 * neither was seen for half of the watchdog's time, the daemon stops telling that it is alive, and
 * systemd ends it and starts another. */
#include "serve/observe/observe.h"

#include "base/clock.h"
#include "base/log.h"
#include "serve/session/session.h"
#include "serve/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <time.h>

/* Of a second. Looking at an idle pool takes less. */
#define SUPERVISOR_COMPUTES_S 0.001

/* The least WatchdogSec= for which telling once a second is enough. */
#define SUPERVISOR_LEAST_NS UINT64_C(2000000000)

static bool supervisor_fills(const struct server *server)
{
	list_each (g, &server->groups, struct group, node) {
		struct stream_stats stats;
		if (!g->stream || g->closing)
			continue;
		stream_stats(g->stream, &stats);
		if (stats.slots_filling)
			return true;
	}
	return false;
}

bool supervisor_gets_on(const struct account_second *second)
{
	return second->workers_cpu_s + second->delay_s + second->read_delay_s +
			       second->throttled_s >
		       SUPERVISOR_COMPUTES_S ||
	       second->reads || second->read_busy_s > 0 || second->read_depth_s > 0;
}

/* Tells how many streams and clients there are, when that changes. */
static void supervisor_say(struct server *server)
{
	struct supervisor *s = &server->supervisor;
	char text[sizeof s->status];
	uint32_t streams = 0;
	list_each (g, &server->groups, struct group, node)
		streams += g->stream && !g->closing;
	(void)snprintf(text, sizeof text, "serves %" PRIu32 " stream%s to %" PRIu32 " client%s",
		streams, streams == 1 ? "" : "s", server->client_count,
		server->client_count == 1 ? "" : "s");
	if (strcmp(text, s->status) == 0)
		return;
	memcpy(s->status, text, sizeof text);
	(void)sd_notifyf(0, "STATUS=%s", text);
}

void supervisor_start(struct server *server)
{
	struct supervisor *s = &server->supervisor;
	uint64_t watchdog_us;
	if (sd_watchdog_enabled(0, &watchdog_us) > 0)
		s->watchdog_ns = watchdog_us > UINT64_MAX / 1000 ? UINT64_MAX : watchdog_us * 1000;
	if (s->watchdog_ns && s->watchdog_ns < SUPERVISOR_LEAST_NS)
		log_warning(
			"WatchdogSec= is %.3g s, but penstockd reports once a second that it is "
			"alive: systemd would end it although it is; set 10 s or more",
			(double)s->watchdog_ns * 1e-9);
	s->progress_ns = clock_ns();
	(void)sd_notify(0, "READY=1");
	supervisor_say(server);
}

void supervisor_reloading(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	(void)sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
		(uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
}

void supervisor_reloaded(void)
{
	(void)sd_notify(0, "READY=1");
}

void supervisor_stopping(void)
{
	(void)sd_notify(0, "STOPPING=1\nSTATUS=trainers are told to go on elsewhere");
}

void supervisor_tick(struct server *server)
{
	struct supervisor *s = &server->supervisor;
	uint64_t now = clock_ns();
	if (!server->draining)
		supervisor_say(server);
	if (!s->watchdog_ns)
		return;
	if (supervisor_gets_on(&server->account.second) || !supervisor_fills(server)) {
		s->progress_ns = now;
		s->told = false;
	}
	if (now - s->progress_ns < s->watchdog_ns / 2) {
		(void)sd_notify(0, "WATCHDOG=1");
	} else if (!s->told) {
		s->told = true;
		log_error("batches are being filled, but for %.0f s no thread has computed or "
			  "waited for storage: systemd's watchdog is no longer told that the "
			  "daemon is alive",
			(double)(now - s->progress_ns) * 1e-9);
	}
}

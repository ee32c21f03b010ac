/* progress: see progress.h. */
#include "client/cli/progress.h"

#include "base/clock.h"
#include "base/util.h"
#include "client/cli/bar.h"
#include "client/cli/table.h"

#include <langinfo.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
	PROGRESS_PATIENCE_NS = 1000000000,
	PROGRESS_REDRAW_NS = 100000000,
	PROGRESS_LABEL = 10,
	PROGRESS_BAR = 24
};

void progress_begin(struct progress *progress, const char *label, enum progress_unit unit,
	uint64_t total, bool at_once)
{
	*progress =
		(struct progress){.label = label, .unit = unit, .total = total, .at_once = at_once};
	progress->start_ns = clock_ns();
	progress->terminal = isatty(STDERR_FILENO) == 1;
	progress->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

static int progress_columns(void)
{
	struct winsize size;
	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col < 20)
		return 80;
	return size.ws_col;
}

/* "1,402/s  0:12 left", as far as they are known. */
static void progress_rate(
	const struct progress *progress, uint64_t done, uint64_t now_ns, char *out, size_t room)
{
	char rate[32] = "", left[32] = "";
	double seconds = (double)(now_ns - progress->start_ns) / 1e9;
	double per_s = seconds > 0 ? (double)done / seconds : 0;
	if (progress->unit == PROGRESS_ITEMS)
		(void)snprintf(rate, sizeof rate, "%s/s", table_count((uint64_t)per_s).text);
	else if (progress->unit == PROGRESS_BYTES)
		(void)snprintf(rate, sizeof rate, "%s/s", table_bytes((uint64_t)per_s).text);
	if (progress->total && per_s > 0 && done <= progress->total) {
		double rest_s = (double)(progress->total - done) / per_s;
		(void)snprintf(left, sizeof left, "%s left", table_clock(rest_s).text);
	}
	(void)snprintf(out, room, "%s%s%s", rate, *rate && *left ? "  " : "", left);
}

static void progress_draw(
	struct progress *progress, uint64_t done, uint64_t now_ns, const char *note)
{
	char bar[BAR_ROOM], tail[160];
	double share = progress->total ? UTIL_MIN((double)done / (double)progress->total, 1.0) : 0;
	(void)bar_share(share, PROGRESS_BAR, progress->utf8, bar);
	progress_rate(progress, done, now_ns, tail, sizeof tail);
	/* One column stays free: some terminals wrap a full line. */
	int room = progress_columns() - 1 - PROGRESS_LABEL - 1;
	(void)fprintf(stderr, "\r%-*s ", PROGRESS_LABEL, progress->label);
	if (progress->total)
		room -= PROGRESS_BAR + 7, (void)fprintf(stderr, "%s %3.0f %% ", bar, share * 100);
	else
		room -= fprintf(stderr, "%s  ", table_count(done).text);
	(void)fprintf(stderr, "%.*s\033[K", UTIL_MAX(room, 0), note ? note : tail);
	(void)fflush(stderr);
}

void progress_update(struct progress *progress, uint64_t done, const char *note)
{
	if (!progress->terminal)
		return;
	uint64_t now_ns = clock_ns();
	if (!progress->at_once && now_ns - progress->start_ns < PROGRESS_PATIENCE_NS)
		return;
	if (progress->shown && now_ns - progress->drawn_ns < PROGRESS_REDRAW_NS)
		return;
	progress_draw(progress, done, now_ns, note);
	progress->drawn_ns = now_ns;
	progress->shown = true;
}

void progress_end(struct progress *progress)
{
	if (progress->shown) {
		(void)fprintf(stderr, "\r\033[K");
		(void)fflush(stderr);
	}
	progress->shown = false;
}

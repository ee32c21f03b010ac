/* verdict: see verdict.h. */
#include "stats/verdict.h"

#include "base/util.h"

#include <stdio.h>

static double verdict_share(double part, double whole)
{
	return whole > 0 ? UTIL_MIN(part / whole, 1.0) : 0;
}

/* More workers that would have fed this trainer: its wait is the share of time in which they were
 * too few. */
static unsigned verdict_more_workers(const struct verdict_input *in, double wait)
{
	double busy =
		in->threads * (1 - verdict_share(in->workers_idle_s, in->seconds * in->threads));
	double more = busy / (1 - wait) - in->threads;
	return more < 1 ? 1 : (unsigned)(more + 0.999);
}

const char *verdict_write(const struct verdict_input *in, char *buffer, size_t room)
{
	double wait = verdict_share(in->trainer_wait_s, in->seconds);
	double full = verdict_share(in->slots_full_s, in->seconds);
	double idle = verdict_share(in->workers_idle_s, in->seconds * in->threads);
	/* With more threads than CPUs idle threads say nothing: the CPUs' time does. */
	double cpu = verdict_share(in->decode_cpu_s, in->seconds * UTIL_MIN(in->threads, in->cpus));
	if (in->seconds < 0.5 || !in->trainers)
		(void)snprintf(buffer, room, in->trainers ? "not measured yet" : "no trainer");
	else if (in->trainers > 1 && full > 0.5 && wait > 0.5)
		(void)snprintf(buffer, room,
			"one trainer holds its batches: pid %d has %llu of %llu, the others wait",
			in->held_pid, (unsigned long long)in->held_most,
			(unsigned long long)in->slots);
	else if (full >= wait)
		(void)snprintf(buffer, room,
			"trainer-bound, %.0f %%: complete batches wait for the trainer",
			100 * full);
	else if ((idle < 0.25 || cpu > 0.75) && in->threads >= in->cpus)
		(void)snprintf(buffer, room,
			"decode-bound: %u decoding thread%s on %u CPU%s, %.0f %% busy; the trainer "
			"waits %.0f %% of the time",
			in->threads, in->threads == 1 ? "" : "s", in->cpus,
			in->cpus == 1 ? "" : "s", 100 * UTIL_MAX(cpu, 1 - idle), 100 * wait);
	else if (idle < 0.25 && wait > 0.95) /* it takes whatever comes: no number would be true */
		(void)snprintf(buffer, room,
			"decode-bound: %u of %u decoding threads busy; the trainer only waits, "
			"more threads "
			"would feed it faster",
			in->threads, in->threads);
	else if (idle < 0.25)
		(void)snprintf(buffer, room,
			"decode-bound: %u of %u decoding threads busy; %u more would feed this "
			"trainer (it "
			"waits %.0f %%)",
			in->threads, in->threads, verdict_more_workers(in, wait), 100 * wait);
	else
		(void)snprintf(buffer, room,
			"read-bound: decoding threads idle %.0f %%, waiting for storage; the "
			"trainer waits "
			"%.0f %%",
			100 * idle, 100 * wait);
	return buffer;
}

/* verdict: see verdict.h. */
#include "stats/verdict.h"

#include "base/util.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* Shares of the time that count as little, some, much and nearly all. */
#define VERDICT_LITTLE 0.05
#define VERDICT_SOME 0.25
#define VERDICT_MUCH 0.75
#define VERDICT_ALL 0.9
/* A trainer that waits for more than this share hardly computes: how fast it could be is not
 * visible. */
#define VERDICT_ONLY_WAITS 0.75
/* More reads than this at a time would not make the storage faster. */
#define VERDICT_DEEP 8u
/* A single trainer that has returned nothing for this long, and for twice as long as ever before,
 * holds its batches. */
#define VERDICT_QUIET_S 5
#define VERDICT_LEAST_S 0.5
/* More connections, and more seconds to a first byte, than there can be. */
#define VERDICT_MOST 1e6
/* From this share of answers on, a store asks for fewer requests than there are. */
#define VERDICT_SLOWED 0.05
/* From this share of the allowed connections on, all of them are in use. */
#define VERDICT_CONNECTED 0.8
/* The remedy against other programs; takes the number of processors and its plural. */
#define VERDICT_OTHERS                                                                    \
	"run fewer other programs on its %.0f core%s; OMP_NUM_THREADS limits threads of " \
	"a trainer's libraries"

const char *verdict_kind_name(enum verdict_kind kind)
{
	static const char *const names[VERDICT_KINDS] = {
		[VERDICT_UNKNOWN] = "unknown",
		[VERDICT_NONE] = "none",
		[VERDICT_WAITING] = "waiting",
		[VERDICT_TRAINER] = "trainer",
		[VERDICT_DECODE] = "decode",
		[VERDICT_READ] = "read",
		[VERDICT_MEMORY] = "memory",
		[VERDICT_HELD] = "held",
	};
	return (unsigned)kind < VERDICT_KINDS ? names[kind] : "unknown";
}

/* The sanitized input, and numbers that follow from it. */
struct verdict_view {
	const struct verdict_input *in;
	struct verdict *out;
	double seconds, active_s; /* active: not every slot is full */
	double threads, cpus;
	double complete;
	double own, lost; /* CPU time in processors: used; needed but not received */
	/* Shares of the active time: */
	double idle, permit; /* of the workers' time */
	double demand; /* own and lost, of all processors */
	double reading, brief; /* a read is in progress; a read waits for a buffer */
	double robbed; /* the part of the needed CPU time that was lost */
	double read_delay; /* the part of the reads' time that their threads wait for a processor */
};

static double verdict_sane(double value)
{
	return isfinite(value) && value > 0 ? value : 0;
}

static double verdict_share(double part, double whole)
{
	part = verdict_sane(part);
	whole = verdict_sane(whole);
	return whole > 0 ? UTIL_MIN(part / whole, 1.0) : 0;
}

/* CPU time that threads needed and other programs used. Where the kernel does not report it, the
 * time during which workers neither waited for anything nor ran. */
static double verdict_lost_s(const struct verdict_view *view)
{
	const struct verdict_input *in = view->in;
	double lost = isfinite(in->delay_s) && in->delay_s >= 0
			      ? in->delay_s
			      : view->threads * view->seconds - verdict_sane(in->workers_idle_s) -
					verdict_sane(in->permit_wait_s) -
					verdict_sane(in->workers_cpu_s);
	double others = view->cpus * view->seconds - verdict_sane(in->cpu_s);
	return verdict_sane(UTIL_MIN(lost, others));
}

static void verdict_evidence(const struct verdict_view *view)
{
	const struct verdict_input *in = view->in;
	struct verdict *out = view->out;
	double s = view->seconds;
	out->trainer_wait = verdict_share(in->trainer_wait_s, s);
	out->slots_full = verdict_share(in->slots_full_s, s);
	out->workers_idle = verdict_share(in->workers_idle_s, s * view->threads);
	out->permit_wait = verdict_share(in->permit_wait_s, s * view->threads);
	out->cpu_busy = verdict_share(in->cpu_s, s * view->cpus);
	out->read_busy = verdict_share(in->read_busy_s, s);
	out->buffers_full = verdict_share(in->buffers_full_s, s);
	out->cpus_idle = s > 0 && isfinite(in->cpus_idle_s) && in->cpus_idle_s >= 0
				 ? UTIL_MIN(in->cpus_idle_s / s, view->cpus)
				 : -1;
	out->read_bytes_per_s = s > 0 ? verdict_sane(verdict_sane(in->read_bytes) / s) : 0;
	out->read_bytes_per_s_best = verdict_sane(in->read_best);
	double busy = verdict_sane(in->read_busy_s);
	out->reads_under_way = busy > 0 ? verdict_sane(verdict_sane(in->read_depth_s) / busy) : 0;
	out->connections = UTIL_MIN(verdict_sane(in->remote.connections), VERDICT_MOST);
	out->slowdowns = verdict_share(in->remote.slowdowns, in->remote.requests);
	out->first_byte_p99_s = UTIL_MIN(verdict_sane(in->remote.first_byte_p99_s), VERDICT_MOST);
}

/* A delay of the io_uring thread delays all its reads; a delay of a thread that calls pread delays
 * only its own. */
static double verdict_read_delay(const struct verdict_input *in)
{
	return verdict_share(
		in->read_delay_s, in->read_threads > 1 ? in->read_depth_s : in->read_busy_s);
}

static void verdict_look(
	const struct verdict_input *in, struct verdict *out, struct verdict_view *view)
{
	*view = (struct verdict_view){.in = in, .out = out};
	view->seconds = verdict_sane(in->seconds);
	view->threads = UTIL_MAX(in->threads, 1u);
	view->cpus = UTIL_MAX(in->cpus, 1u);
	verdict_evidence(view);
	double full_s = out->slots_full * view->seconds;
	double active = view->seconds - full_s;
	view->active_s = active;
	view->complete = verdict_share(in->complete_s, view->seconds);
	view->own = out->cpu_busy * view->cpus;
	view->lost = view->seconds > 0 ? verdict_lost_s(view) / view->seconds : 0;
	out->cpu_stolen = verdict_share(view->lost, view->cpus);
	view->robbed = verdict_share(view->lost, view->own + view->lost);
	/* While every slot is full, workers wait and nothing is read. */
	view->idle = verdict_share(
		verdict_sane(in->workers_idle_s) - full_s * view->threads, active * view->threads);
	view->permit = verdict_share(in->permit_wait_s, active * view->threads);
	view->demand = verdict_share((view->own + view->lost) * view->seconds, active * view->cpus);
	view->reading = verdict_share(in->read_busy_s, active);
	view->brief = verdict_share(in->buffers_full_s, active);
	view->read_delay = verdict_read_delay(in);
}

__attribute__((format(printf, 4, 5))) static void verdict_say(
	struct verdict *out, enum verdict_kind kind, double share, const char *format, ...)
{
	va_list arguments;
	out->kind = kind;
	out->share = share;
	va_start(arguments, format);
	(void)vsnprintf(out->sentence, sizeof out->sentence, format, arguments);
	va_end(arguments);
}

__attribute__((format(printf, 2, 3))) static void verdict_remedy(
	struct verdict *out, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(out->remedy, sizeof out->remedy, format, arguments);
	va_end(arguments);
}

static const char *verdict_s(double n)
{
	return n == 1 ? "" : "s";
}

/* "raise memory to 96M", where that is more than the current budget. */
static void verdict_budget(const struct verdict_view *view, const char *key, uint64_t budget)
{
	if (budget > view->in->budget)
		verdict_remedy(
			view->out, "raise %s to %" PRIu64 "M", key, (budget + (1 << 20) - 1) >> 20);
	else
		verdict_remedy(view->out, "use fewer threads: each then has more memory");
}

/* ---- servers that do not answer ---- */

static bool verdict_silent(const struct verdict_view *view)
{
	const struct verdict_remote *remote = &view->in->remote;
	return remote->store && remote->waiting && *remote->waiting;
}

static void verdict_say_silent(const struct verdict_view *view)
{
	struct verdict *out = view->out;
	verdict_say(out, VERDICT_READ, out->trainer_wait, "%s", view->in->remote.waiting);
	verdict_remedy(out,
		"find out why the server does not answer this machine; reading goes on when it "
		"does");
}

/* A trainer that still has batches does not wait for it. */
static bool verdict_gone(const struct verdict_view *view)
{
	const struct verdict *out = view->out;
	if (!verdict_silent(view) || out->trainer_wait < VERDICT_LITTLE ||
		out->trainer_wait <= view->complete)
		return false;
	verdict_say_silent(view);
	return true;
}

/* ---- trainers ---- */

static bool verdict_absent(const struct verdict_view *view)
{
	const struct verdict_input *in = view->in;
	if (!in->trainers)
		verdict_say(view->out, VERDICT_NONE, 0, "no trainer");
	else if (verdict_silent(view) &&
		 (in->opening || (!in->started && in->present >= in->wait_for)))
		verdict_say_silent(view);
	else if (in->opening)
		verdict_say(view->out, VERDICT_UNKNOWN, 0,
			"not measured yet: the stream is being opened");
	else if (!in->started && in->present < in->wait_for)
		verdict_say(view->out, VERDICT_WAITING, 0,
			"the group waits for trainers: %u of %u are here", in->present,
			in->wait_for);
	else if (!in->started)
		verdict_say(view->out, VERDICT_WAITING, 0,
			"the group waits for trainers that return: %u here", in->present);
	else if (view->seconds < VERDICT_LEAST_S)
		verdict_say(view->out, VERDICT_UNKNOWN, 0, "not measured yet");
	else if (in->ended >= in->trainers && !in->images)
		verdict_say(view->out, VERDICT_NONE, 0,
			"nothing to do: every trainer has received its last batch");
	else
		return false;
	return true;
}

static bool verdict_held(const struct verdict_view *view)
{
	const struct verdict_input *in = view->in;
	struct verdict *out = view->out;
	double quiet = verdict_sane(in->held_quiet_s);
	char returned[64] = "";
	if (in->trainers > 1 && out->trainer_wait > 0.5 && out->slots_full > 0.5) {
		if (quiet >= 1)
			(void)snprintf(returned, sizeof returned,
				" and has returned none for %.0f s", quiet);
		verdict_say(out, VERDICT_HELD, out->slots_full,
			"one trainer holds its batches: pid %d has %" PRIu64 " of %u%s",
			in->held_pid, in->held_most, in->slots, returned);
		verdict_remedy(out,
			"find out why pid %d has stopped; laggard: detach lets the others go on",
			in->held_pid);
	} else if (in->trainers == 1 && in->slots && in->held_most >= in->slots &&
		   quiet >= VERDICT_QUIET_S && quiet > 2 * verdict_sane(in->held_usual_s)) {
		verdict_say(out, VERDICT_HELD, out->slots_full,
			"trainer-bound: pid %d holds all %u batches and has returned none for "
			"%.0f s",
			in->held_pid, in->slots, quiet);
		verdict_remedy(out, "find out why pid %d has stopped", in->held_pid);
	} else {
		return false;
	}
	out->pid = in->held_pid;
	return true;
}

/* Whether a stage is busy nearly all of the active time. */
static bool verdict_busy(const struct verdict_view *view)
{
	return view->demand >= VERDICT_ALL || 1 - view->idle - view->permit >= VERDICT_ALL ||
	       (view->idle >= VERDICT_SOME && view->reading >= VERDICT_ALL);
}

/* A trainer that keeps batches while it waits for the next one never seems to wait, and seems to
 * have unused batches. It does wait where slots are never full and a stage is always busy. */
static bool verdict_trainer(const struct verdict_view *view)
{
	struct verdict *out = view->out;
	bool keeps = out->slots_full < VERDICT_LITTLE && verdict_busy(view);
	if (keeps)
		return false;
	if (view->complete > VERDICT_LITTLE && view->complete >= out->trainer_wait)
		verdict_say(out, VERDICT_TRAINER, view->complete,
			"trainer-bound, %.0f %%: complete batches wait for the trainer",
			100 * view->complete);
	else if (out->trainer_wait < VERDICT_LITTLE)
		verdict_say(out, VERDICT_TRAINER, 1 - out->trainer_wait,
			"trainer-bound: no trainer waits, and no stage is busy");
	else
		return false;
	return true;
}

/* Samples that the cache of remote storage holds are read from the local disk. */
static bool verdict_requests(const struct verdict_view *view)
{
	const struct verdict_remote *remote = &view->in->remote;
	return remote->store &&
	       (verdict_sane(remote->requests) > 0 || verdict_sane(remote->connections) > 0);
}

/* ---- memory ---- */

static bool verdict_slots(const struct verdict_view *view)
{
	const struct verdict_input *in = view->in;
	struct verdict *out = view->out;
	if (in->slots >= in->slots_wanted || out->trainer_wait < 0.1 || out->slots_full < 0.1 ||
		out->cpu_busy + out->cpu_stolen > VERDICT_MUCH || out->read_busy > VERDICT_MUCH)
		return false;
	verdict_say(out, VERDICT_MEMORY, out->trainer_wait,
		"memory-bound: %u of %u batches fit the budget", in->slots, in->slots_wanted);
	verdict_budget(view, in->slots_limited ? "stream_memory" : "memory", in->budget_slots);
	return true;
}

/* Where most workers wait for this memory, other programs that use the processors matter less: with
 * more workers ready to run, penstock would get more CPU time. */
static bool verdict_permit(const struct verdict_view *view)
{
	struct verdict *out = view->out;
	double busy = view->permit >= 0.5 ? out->cpu_busy : view->demand;
	if (view->permit < VERDICT_SOME || busy > VERDICT_MUCH)
		return false;
	verdict_say(out, VERDICT_MEMORY, out->trainer_wait,
		"memory-bound: decoders wait %.0f %% of their time for the memory of large images",
		100 * view->permit);
	verdict_budget(view, "memory", view->in->budget_images);
	return true;
}

static bool verdict_buffers(const struct verdict_view *view)
{
	struct verdict *out = view->out;
	unsigned deep = verdict_requests(view) ? UTIL_MAX(view->in->remote.limit, VERDICT_DEEP)
					       : VERDICT_DEEP;
	if (view->brief < 0.5 || view->idle < VERDICT_SOME || out->reads_under_way >= deep)
		return false;
	verdict_say(out, VERDICT_MEMORY, out->trainer_wait,
		"memory-bound: reads wait %.0f %% of the time for buffers", 100 * view->brief);
	verdict_budget(view, "memory", view->in->budget_buffers);
	return true;
}

/* ---- processors ---- */

/* How many more processors would feed the trainer. Its demand is its rate while it does not wait;
 * the cost of an image is the CPU time that it takes. So the trainer needs the CPU time that is
 * used now, divided by the share of time during which it does not wait. Not known for a trainer
 * that keeps batches or hardly computes. */
static void verdict_more(const struct verdict_view *view)
{
	struct verdict *out = view->out;
	double wait = out->trainer_wait;
	if (wait < VERDICT_LITTLE || wait > VERDICT_ONLY_WAITS || !view->in->images)
		return;
	out->more_cpus = ceil(UTIL_MAX(view->own, 0.01) * wait / (1 - wait) - 0.05);
	out->more_cpus = UTIL_MAX(out->more_cpus, 1.0);
}

/* How many more threads would have a processor to themselves; 0: none. */
static double verdict_free(const struct verdict_view *view)
{
	const struct verdict *out = view->out;
	double room = view->cpus - view->threads, unused = view->cpus - view->own - view->lost;
	if (out->cpus_idle >= 0)
		unused = UTIL_MIN(unused, out->cpus_idle);
	if (room < 1 || unused < 0.5)
		return 0;
	double more = UTIL_MIN(UTIL_MAX(floor(unused + 0.25), 1.0), room);
	return out->more_cpus > 0 ? UTIL_MIN(more, out->more_cpus) : more;
}

void verdict_remedy_cores(double more_cpus, bool fast, char ret[VERDICT_TEXT])
{
	char first[64] = "use more cores";
	if (more_cpus > 0)
		(void)snprintf(first, sizeof first, "%.0f more core%s would feed this trainer",
			more_cpus, verdict_s(more_cpus));
	(void)snprintf(ret, VERDICT_TEXT, "%s; penstock pack%s decoding cheaper", first,
		fast ? " makes" : " or decode: fast makes");
}

/* Says how many processors decode, and what else uses them. */
static void verdict_say_decode(const struct verdict_view *view)
{
	struct verdict *out = view->out;
	double throttled = verdict_share(view->in->throttled_s, view->seconds * view->cpus);
	double more = verdict_free(view);
	/* A processor that is used in part counts as busy. */
	double cores = UTIL_MIN(ceil(view->own - VERDICT_SOME), view->cpus);
	cores = UTIL_MAX(cores, 1.0);
	if (throttled > VERDICT_LITTLE) {
		verdict_say(out, VERDICT_DECODE, out->trainer_wait,
			"decode-bound: the cgroup's CPU quota holds penstock back %.0f %% of the "
			"time",
			100 * throttled);
		verdict_remedy(
			out, "raise the cgroup's CPU quota, or run fewer processes within it");
	} else if (view->robbed > VERDICT_SOME) {
		verdict_say(out, VERDICT_DECODE, out->trainer_wait,
			"decode-bound: other programs took %.0f %% of the CPU time that penstock "
			"needs",
			100 * view->robbed);
		verdict_remedy(out, VERDICT_OTHERS, view->cpus, verdict_s(view->cpus));
	} else if (view->threads < view->cpus) {
		verdict_say(out, VERDICT_DECODE, out->trainer_wait,
			"decode-bound: %.0f of %.0f cores busy with %.0f decoding thread%s", cores,
			view->cpus, view->threads, verdict_s(view->threads));
	} else {
		verdict_say(out, VERDICT_DECODE, out->trainer_wait,
			"decode-bound: %.0f of %.0f core%s busy", cores, view->cpus,
			verdict_s(view->cpus));
	}
	if (!out->remedy[0] && more > 0)
		verdict_remedy(out, "try --threads %.0f, in Python threads=%.0f",
			view->threads + more, view->threads + more);
	else if (!out->remedy[0])
		verdict_remedy_cores(out->more_cpus, view->in->fast, out->remedy);
}

static bool verdict_decode(const struct verdict_view *view)
{
	struct verdict *out = view->out;
	double occupied = 1 - view->idle - view->permit;
	bool neither = view->reading < VERDICT_SOME && view->demand >= view->reading;
	bool late = view->read_delay > 0.5 && !neither;
	if (view->demand < VERDICT_MUCH && occupied < VERDICT_MUCH && !neither && !late)
		return false;
	if (late && view->demand < VERDICT_MUCH && occupied < VERDICT_MUCH) {
		verdict_say(out, VERDICT_DECODE, out->trainer_wait,
			"decode-bound: reading threads wait %.0f %% of their time for a processor",
			100 * view->read_delay);
		verdict_remedy(out, VERDICT_OTHERS, view->cpus, verdict_s(view->cpus));
		return true;
	}
	verdict_more(view);
	verdict_say_decode(view);
	return true;
}

/* ---- storage ---- */

/* "210 MB/s, at best 220", in powers of ten, as storage is sold. These are rates of reads: where
 * they go through the page cache, it contributes. */
static void verdict_rate(const struct verdict *out, char *buffer, size_t room)
{
	double now = out->read_bytes_per_s, best = UTIL_MAX(out->read_bytes_per_s_best, now);
	double unit = best >= 10e6 ? 1e6 : 1e3;
	int n = snprintf(buffer, room, "%.0f %s/s", now / unit, unit > 1e3 ? "MB" : "kB");
	if (out->read_bytes_per_s_best > 0 && n > 0 && (size_t)n < room)
		(void)snprintf(buffer + n, room - (size_t)n, ", at best %.0f", best / unit);
}

/* How many more connections would feed the trainer: as for processors, since requests that run side
 * by side take as long as one. */
static void verdict_more_connections(const struct verdict_view *view)
{
	struct verdict *out = view->out;
	double wait = out->trainer_wait;
	if (wait < VERDICT_LITTLE || wait > VERDICT_ONLY_WAITS || !view->in->images)
		return;
	out->more_connections = ceil(UTIL_MAX(out->connections, 1.0) * wait / (1 - wait) - 0.05);
	out->more_connections = UTIL_MAX(out->more_connections, 1.0);
}

static void verdict_remedy_remote(const struct verdict_view *view)
{
	struct verdict *out = view->out;
	const struct verdict_remote *remote = &view->in->remote;
	double more = out->more_connections, limit = remote->limit;
	bool all = limit > 0 && out->connections >= VERDICT_CONNECTED * limit;
	if (verdict_share(remote->throttled_s, view->seconds) > VERDICT_SOME)
		verdict_remedy(out, "raise bandwidth, which limits what is received, in remote:");
	else if (out->slowdowns >= VERDICT_SLOWED)
		verdict_remedy(out,
			"the store wants fewer requests: shuffle: blocks makes them larger, a "
			"cache_dir saves them");
	else if (more > 0 && all)
		verdict_remedy(out,
			"%.0f more connection%s would feed this trainer: set connections: %.0f in "
			"remote:",
			more, verdict_s(more), limit + more);
	else if (more > 0)
		verdict_remedy(out,
			"%.0f more connection%s would feed this trainer: raise prefetch, which "
			"uses more of them",
			more, verdict_s(more));
	else if (all)
		verdict_remedy(out,
			"raise connections in remote:; a cache_dir keeps what was read; shuffle: "
			"blocks reads larger pieces");
	else
		verdict_remedy(out,
			"raise prefetch; a cache_dir keeps what was read; shuffle: blocks reads "
			"larger pieces");
}

/* "S3-bound: 38 connections, first byte p99 900 ms, 2 % SlowDown". */
static void verdict_read_remote(const struct verdict_view *view)
{
	struct verdict *out = view->out;
	double ms = 1e3 * out->first_byte_p99_s, n = UTIL_MAX(round(out->connections), 1.0);
	char first[48] = "", slow[32] = "";
	if (ms > 0)
		(void)snprintf(first, sizeof first, ", first byte p99 %.0f %s",
			ms < 10e3 ? ms : ms / 1e3, ms < 10e3 ? "ms" : "s");
	if (out->slowdowns >= 0.005)
		(void)snprintf(slow, sizeof slow, ", %.0f %% SlowDown", 100 * out->slowdowns);
	verdict_more_connections(view);
	verdict_say(out, VERDICT_READ, out->trainer_wait, "%s-bound: %.0f connection%s%s%s",
		view->in->remote.store, n, verdict_s(n), first, slow);
	verdict_remedy_remote(view);
}

static void verdict_read(const struct verdict_view *view)
{
	struct verdict *out = view->out;
	char rate[64];
	if (verdict_requests(view)) {
		verdict_read_remote(view);
		return;
	}
	verdict_rate(out, rate, sizeof rate);
	verdict_say(out, VERDICT_READ, out->trainer_wait, "disk-bound: reads bring %s", rate);
	verdict_remedy(out,
		"use faster storage, or more memory for the cache; penstock pack makes large files "
		"of small ones");
}

void verdict_find(const struct verdict_input *input, struct verdict *ret)
{
	struct verdict_view view;
	*ret = (struct verdict){.more_cpus = -1, .more_connections = -1, .cpus_idle = -1};
	verdict_look(input, ret, &view);
	if (verdict_absent(&view) || verdict_held(&view) || verdict_gone(&view) ||
		verdict_slots(&view) || verdict_trainer(&view) || verdict_permit(&view) ||
		verdict_decode(&view) || verdict_buffers(&view))
		return;
	verdict_read(&view);
}

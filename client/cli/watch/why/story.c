/* story: see story.h. It gathers the records into processes, the daemon first; then each process
 * gets its numbers (timeline), its cause (cause), and its words (phrase, detail, advice). */
#include "client/cli/watch/why/story.h"

#include "base/util.h"
#include "client/cli/watch/why/advice.h"
#include "client/cli/watch/why/cause.h"
#include "client/cli/watch/why/detail.h"
#include "client/cli/watch/why/phrase.h"
#include "client/cli/watch/why/timeline.h"
#include "client/cli/watch/why/words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STORY_SECOND_NS 1000000000ull
/* Processes that ended within so many seconds belong to one event. */
enum { STORY_TOGETHER_S = 5 };

/* The number that the daemon gave a connection, and the process that it belonged to. */
struct story_stay {
	uint64_t trainer;
	size_t end;
	bool left;
};

struct story_book {
	struct story *story;
	struct story_stay *stay;
	size_t stays, stay_room, end_room;
};

static const char *const story_causes[STORY_CAUSES] = {
	[STORY_RUNNING] = "running",
	[STORY_ORDER] = "order",
	[STORY_CGROUP_OOM] = "cgroup_oom",
	[STORY_MACHINE_OOM] = "machine_oom",
	[STORY_TIME] = "time",
	[STORY_SIGNAL] = "signal",
	[STORY_CRASH] = "crash",
	[STORY_GPU_OOM] = "gpu_oom",
	[STORY_EXIT_CODE] = "exit_code",
	[STORY_UNCLOSED] = "unclosed",
	[STORY_EXPELLED] = "expelled",
	[STORY_HUNG_UP] = "hung_up",
	[STORY_OUTLIVED] = "outlived",
	[STORY_DAEMON_GONE] = "daemon_gone",
	[STORY_ASKED] = "asked",
	[STORY_IDLE] = "idle",
	[STORY_FAILED] = "failed",
	[STORY_VANISHED] = "vanished",
	[STORY_REBOOT] = "reboot",
	[STORY_ENDED] = "ended",
};

const char *story_cause_name(enum story_cause cause)
{
	return story_causes[cause];
}

const char *story_sure_name(enum story_sure sure)
{
	static const char *const names[] = {"certain", "likely", "possible"};
	return names[sure];
}

/* ---- gathering ---- */

/* Makes room for one more element; the array may move. */
static int story_grow(void *array, size_t count, size_t *room, size_t bytes)
{
	void *old, *grown;
	if (count < *room)
		return 0;
	memcpy(&old, array, sizeof old);
	size_t wanted = *room ? 2 * *room : 16;
	grown = reallocarray(old, wanted, bytes);
	if (!grown)
		return -ENOMEM;
	memcpy(array, &grown, sizeof grown);
	*room = wanted;
	return 0;
}

static int story_add(struct story_book *book, int32_t pid, uint64_t since_ns, size_t *ret)
{
	struct story *story = book->story;
	int r = story_grow(&story->end, story->count, &book->end_room, sizeof *story->end);
	if (r < 0)
		return r;
	*ret = story->count++;
	story->end[*ret] = (struct story_end){.pid = pid,
		.since_ns = since_ns,
		.event = -1,
		.parent_command = "",
		.cpu_limit_s = STORY_UNKNOWN};
	return 0;
}

static struct story_stay *story_find(struct story_book *book, uint64_t trainer)
{
	for (size_t i = book->stays; i-- > 0;)
		if (book->stay[i].trainer == trainer)
			return &book->stay[i];
	return NULL;
}

static int story_stay_add(struct story_book *book, uint64_t trainer, size_t end)
{
	int r = story_grow(&book->stay, book->stays, &book->stay_room, sizeof *book->stay);
	if (r < 0)
		return r;
	book->stay[book->stays++] = (struct story_stay){.trainer = trainer, .end = end};
	book->story->end[end].opened++;
	return 0;
}

/* The stay with that number. If newer entries replaced its arrival in the file, makes one up. */
static int story_stay_of(
	struct story_book *book, uint64_t trainer, int32_t pid, struct story_stay **ret)
{
	size_t end;
	int r = 0;
	struct story_stay *stay = story_find(book, trainer);
	if (!stay) {
		r = story_add(book, pid, 0, &end);
		if (r == 0)
			r = story_stay_add(book, trainer, end);
		if (r < 0)
			return r;
		stay = &book->stay[book->stays - 1];
	}
	if (!book->story->end[stay->end].pid)
		book->story->end[stay->end].pid = pid;
	*ret = stay;
	return 0;
}

/* Whether the same process has attached before; the kernel may have reused its pid. */
static bool story_known(const struct story *story, const struct record_attach *attach, size_t *ret)
{
	for (size_t i = story->count; i-- > 1;) {
		const struct story_end *end = &story->end[i];
		if (end->pid == attach->pid && end->start_ticks == attach->start_ticks &&
			!end->exit) {
			*ret = i;
			return true;
		}
	}
	return false;
}

static int story_attach(
	struct story_book *book, uint64_t time_ns, const struct record_attach *attach)
{
	size_t at;
	int r = 0;
	const struct story_stay *stay = story_find(book, attach->trainer);
	if (stay)
		at = stay->end;
	else if (!story_known(book->story, attach, &at))
		r = story_add(book, attach->pid, time_ns, &at);
	if (r == 0 && !stay)
		r = story_stay_add(book, attach->trainer, at);
	if (r < 0)
		return r;
	struct story_end *end = &book->story->end[at];
	end->attach = attach;
	end->pid = attach->pid;
	end->start_ticks = attach->start_ticks;
	end->parent_command = attach->parent_command;
	end->deadline_s = attach->deadline_s;
	end->cpu_limit_s = attach->cpu_limit_s;
	return 0;
}

static int story_leave(struct story_book *book, uint64_t time_ns, const struct record_leave *leave)
{
	struct story_stay *stay;
	int r = story_stay_of(book, leave->trainer, 0, &stay);
	if (r < 0)
		return r;
	struct story_end *end = &book->story->end[stay->end];
	if (!stay->left) {
		end->left++;
		end->closed += leave->how == RECORD_CLOSED;
	}
	stay->left = true;
	end->left_ns = time_ns;
	if (!end->leave || end->leave->how != RECORD_EXPELLED)
		end->leave = leave;
	return 0;
}

static int story_exit(struct story_book *book, uint64_t time_ns, const struct record_exit *exit)
{
	struct story_stay *stay;
	size_t at = 0;
	int r = exit->trainer ? story_stay_of(book, exit->trainer, exit->pid, &stay) : 0;
	if (r < 0)
		return r;
	if (exit->trainer)
		at = stay->end;
	struct story_end *end = &book->story->end[at];
	if (!end->exit) {
		end->exit = exit;
		end->exit_ns = time_ns;
	}
	if (!end->pid)
		end->pid = exit->pid;
	return 0;
}

static void story_begin(struct story_book *book, uint64_t time_ns, const struct record_start *start)
{
	struct story_end *daemon = &book->story->end[0];
	book->story->start = start;
	daemon->pid = start->pid;
	daemon->start_ticks = start->start_ticks;
	daemon->since_ns = time_ns;
	daemon->parent_command = start->parent_command;
	daemon->deadline_s = start->deadline_s;
	daemon->cpu_limit_s = start->cpu_limit_s ? start->cpu_limit_s : STORY_UNKNOWN;
}

static int story_take(struct story_book *book, const struct record *record)
{
	struct story *story = book->story;
	struct story_stay *stay;
	switch (record->kind) {
	case RECORD_START:
		story_begin(book, record->time_ns, &record->body.start);
		return 0;
	case RECORD_ATTACH:
		return story_attach(book, record->time_ns, &record->body.attach);
	case RECORD_LEAVE:
		return story_leave(book, record->time_ns, &record->body.leave);
	case RECORD_EXIT:
		return story_exit(book, record->time_ns, &record->body.exit);
	case RECORD_END:
		story->why = record->body.note.text;
		story->why_ns = record->time_ns;
		return 0;
	case RECORD_TRAINER:
		return story_stay_of(
			book, record->body.trainer.trainer, record->body.trainer.pid, &stay);
	default:
		return 0;
	}
}

/* ---- ends ---- */

bool story_matters(const struct story_end *end)
{
	return end->cause != STORY_RUNNING && end->cause != STORY_ORDER &&
	       end->cause != STORY_OUTLIVED;
}

/* Sets when it ended; if it still runs, when it was last seen. */
static void story_when(struct story *story, struct story_end *end)
{
	bool over = end->opened && end->left == end->opened;
	if (end->exit_ns)
		end->end_ns = end->exit_ns;
	else if (end->daemon && story->why_ns)
		end->end_ns = story->why_ns;
	else if (!end->daemon && over)
		end->end_ns = end->left_ns;
	else
		end->end_ns = story->last_ns;
	if (!end->since_ns)
		end->since_ns = UTIL_MIN(story->first_ns, end->end_ns);
}

/* Whether it is known to have ended, so that it counts among those that ended together. */
static bool story_ended(const struct story_end *end)
{
	return end->daemon ? end->cause != STORY_RUNNING
			   : story_matters(end) && end->cause != STORY_HUNG_UP &&
				     (end->cause != STORY_EXPELLED || end->exit);
}

static int story_by_time(const void *a, const void *b)
{
	const struct story_end *x = a, *y = b;
	if (x->end_ns != y->end_ns)
		return x->end_ns < y->end_ns ? 1 : -1;
	return x->since_ns < y->since_ns ? 1 : x->since_ns > y->since_ns ? -1 : 0;
}

static int story_by_event(const void *a, const void *b)
{
	const struct story_end *x = a, *y = b;
	if (x->event != y->event)
		return (unsigned)x->event < (unsigned)y->event ? -1 : 1; /* -1 last */
	return x->event < 0 ? story_by_time(a, b) : story_by_time(b, a);
}

/* Numbers the processes that ended together: within seconds of the last of them. */
static void story_join(struct story *story)
{
	uint64_t last_ns = 0;
	qsort(story->end, story->count, sizeof *story->end, story_by_time);
	for (size_t i = 0; i < story->count; i++) {
		struct story_end *end = &story->end[i];
		if (!story_matters(end))
			continue;
		if (!story->events || !story_ended(end) ||
			end->end_ns + STORY_TOGETHER_S * STORY_SECOND_NS < last_ns) {
			story->events++;
			last_ns = story_ended(end) ? end->end_ns : 0;
		}
		end->event = story->events - 1;
	}
	qsort(story->end, story->count, sizeof *story->end, story_by_event);
}

/* Drops a process whose pid is unknown, and the daemon if the file has neither its start nor its
 * end: there is nothing to tell about them. */
static void story_drop(struct story *story)
{
	size_t kept = 0;
	for (size_t i = 0; i < story->count; i++)
		if (story->end[i].pid || story->end[i].exit || (story->end[i].daemon && story->why))
			story->end[kept++] = story->end[i];
	story->count = kept;
}

static int story_gather(struct story_book *book, const struct record *records, size_t count)
{
	struct story *story = book->story;
	size_t daemon;
	int r = story_add(book, 0, 0, &daemon);
	if (r < 0)
		return r;
	story->end[daemon].daemon = true;
	for (size_t i = 0; i < count && r == 0; i++) {
		if (!story->first_ns)
			story->first_ns = records[i].time_ns;
		story->last_ns = UTIL_MAX(story->last_ns, records[i].time_ns);
		r = story_take(book, &records[i]);
	}
	return r;
}

static void story_say(const struct story *story, struct story_end *end)
{
	phrase_write(end, story);
	detail_write(end, story);
	advice_write(end);
}

static void story_judge(struct story *story, const struct record *records, size_t count,
	const struct story_now *now)
{
	struct story_end *daemon = &story->end[0]; /* judged first: trainers may follow it */
	for (size_t i = 0; i < story->count; i++) {
		struct story_end *end = &story->end[i];
		story_when(story, end);
		timeline_fill(end, records, count);
		if (end->daemon)
			cause_of_daemon(end, story, now);
		else
			cause_of_trainer(end, story, daemon, now);
	}
	for (size_t i = 0; i < story->count; i++)
		cause_share_kills(story, &story->end[i]);
	for (size_t i = 0; i < story->count; i++)
		story_say(story, &story->end[i]);
}

const struct record_start *story_start(const struct record *records, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (records[i].kind == RECORD_START)
			return &records[i].body.start;
	return NULL;
}

int story_tell(const struct record *records, size_t count, const struct story_now *now,
	struct story *ret_story)
{
	struct story story = {0};
	struct story_book book = {.story = &story};
	int r = story_gather(&book, records, count);
	free(book.stay);
	if (r < 0) {
		story_free(&story);
		return r;
	}
	story.elsewhere = story.start && story.start->host[0] && now->host[0] &&
			  strcmp(story.start->host, now->host) != 0;
	story_judge(&story, records, count, now);
	story_drop(&story);
	story_join(&story);
	*ret_story = story;
	return 0;
}

void story_free(struct story *story)
{
	free(story->end);
	*story = (struct story){0};
}

/* ---- events ---- */

static void story_event_who(unsigned trainers, bool daemon, char *buffer, size_t room)
{
	(void)snprintf(buffer, room, "%u trainer%s%s", trainers, trainers == 1 ? "" : "s",
		daemon ? " and penstockd" : "");
}

bool story_event(const struct story *story, int event, char *buffer, size_t room)
{
	const struct story_end *first = NULL, *last = NULL;
	unsigned trainers = 0;
	bool daemon = false;
	char who[64], name[32], span[32];
	for (size_t i = 0; event >= 0 && i < story->count; i++) {
		if (story->end[i].event != event)
			continue;
		first = first ? first : &story->end[i];
		last = &story->end[i];
		daemon |= last->daemon;
		trainers += !last->daemon;
	}
	if (trainers + daemon < 2)
		return false;
	story_event_who(trainers, daemon, who, sizeof who);
	words_who(first, name, sizeof name);
	double seconds = (double)(last->end_ns - first->end_ns) / STORY_SECOND_NS;
	words_duration(seconds, span, sizeof span);
	(void)snprintf(buffer, room, "%s ended %s%s; the first was %s", who,
		seconds < 0.05 ? "at once" : "within ", seconds < 0.05 ? "" : span, name);
	return true;
}

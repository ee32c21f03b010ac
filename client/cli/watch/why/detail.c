/* detail: see detail.h. */
#include "client/cli/watch/why/detail.h"

#include "base/util.h"
#include "client/cli/watch/why/words.h"

#include <stdio.h>
#include <string.h>

#define DETAIL_SECOND_NS 1e9

static struct story_line *detail_line(struct story_end *end, const char *label)
{
	/* Without room the last line would be overwritten; the size of the table rules that out. */
	unsigned at = UTIL_MIN(end->lines, (unsigned)STORY_LINES - 1);
	struct story_line *line = &end->line[at];
	end->lines = at + 1;
	(void)snprintf(line->label, sizeof line->label, "%s", label);
	line->text[0] = 0;
	return line;
}

#define DETAIL_ADD(line, ...) words_add((line)->text, sizeof(line)->text, __VA_ARGS__)

static void detail_text(struct story_end *end, const char *label, const char *text)
{
	if (text[0])
		DETAIL_ADD(detail_line(end, label), "%s", text);
}

/* "imagenet, rank 2 of 8, batches of 256; /data/imagenet" */
static void detail_stream(struct story_end *end)
{
	const struct record_attach *attach = end->attach;
	if (!attach)
		return;
	struct story_line *line = detail_line(end, "stream");
	DETAIL_ADD(line, "%s; ", attach->stream[0] ? attach->stream : "its own");
	if (attach->world_size > 1)
		DETAIL_ADD(line, "rank %u of %u; ", attach->rank, attach->world_size);
	if (attach->group[0])
		DETAIL_ADD(line, "group %s; ", attach->group);
	DETAIL_ADD(line, "batches of %u from %s", attach->batch_size,
		attach->source[0] ? attach->source : "?");
}

static void detail_life(struct story_end *end)
{
	const struct story_numbers *n = &end->numbers;
	char span[WORDS_NUMBER];
	struct story_line *line = detail_line(end, "lived");
	if (n->lived_s != STORY_UNKNOWN)
		DETAIL_ADD(line, "%s; ", words_duration((double)n->lived_s, span, sizeof span));
	DETAIL_ADD(line, "%s for %s", end->daemon ? "served" : "attached",
		words_duration((double)(end->end_ns - UTIL_MIN(end->since_ns, end->end_ns)) /
				       DETAIL_SECOND_NS,
			span, sizeof span));
	if (n->cpu_ns != STORY_UNKNOWN)
		DETAIL_ADD(line, "; used %s of CPU time",
			words_duration((double)n->cpu_ns / DETAIL_SECOND_NS, span, sizeof span));
	if (!end->daemon && end->opened > 1)
		DETAIL_ADD(line, "; connected %u times", end->opened);
}

static void detail_growth(struct story_line *line, const struct story_numbers *n)
{
	char rate[WORDS_NUMBER];
	if (!n->grows)
		return;
	bool falls = n->growth_per_hour < 0;
	double bytes = falls ? -n->growth_per_hour : n->growth_per_hour;
	DETAIL_ADD(line, "; it %s by %s per hour", falls ? "fell" : "grew",
		words_bytes((uint64_t)UTIL_MIN(bytes, 1e18), rate));
}

static void detail_memory(struct story_end *end)
{
	const struct story_numbers *n = &end->numbers;
	char text[WORDS_NUMBER];
	if (n->memory_last == STORY_UNKNOWN)
		return;
	struct story_line *line = detail_line(end, "memory");
	DETAIL_ADD(line, "%s at the start", words_bytes(n->memory_first, text));
	if (n->memory_before != STORY_UNKNOWN)
		DETAIL_ADD(line, ", %s ten minutes before its end",
			words_bytes(n->memory_before, text));
	DETAIL_ADD(line, ", %s at the end", words_bytes(n->memory_last, text));
	if (n->anonymous != STORY_UNKNOWN)
		DETAIL_ADD(line, " (%s of it anonymous)", words_bytes(n->anonymous, text));
	if (n->swapped != STORY_UNKNOWN && n->swapped)
		DETAIL_ADD(line, " and %s swapped", words_bytes(n->swapped, text));
	detail_growth(line, n);
	if (n->memory_peak != STORY_UNKNOWN)
		DETAIL_ADD(line, "; peak %s", words_bytes(n->memory_peak, text));
}

static void detail_cgroup(struct story_end *end)
{
	const struct story_numbers *n = &end->numbers;
	const struct record_cgroup *cgroup = &n->cgroup;
	char used[WORDS_NUMBER], limit[WORDS_NUMBER];
	if (cgroup->used == STORY_UNKNOWN && cgroup->limit == STORY_UNKNOWN)
		return;
	struct story_line *line = detail_line(end, "cgroup");
	DETAIL_ADD(line, "%s in use", words_bytes(cgroup->used, used));
	if (cgroup->limit == STORY_UNKNOWN)
		DETAIL_ADD(line, ", no limit");
	else
		DETAIL_ADD(line, " of %s", words_bytes(cgroup->limit, limit));
	if (n->cgroup_used_after != STORY_UNKNOWN)
		DETAIL_ADD(line, ", %s after its end", words_bytes(n->cgroup_used_after, used));
	if (cgroup->oom_kills != STORY_UNKNOWN)
		DETAIL_ADD(line, "; OOM kills so far: %llu", (unsigned long long)cgroup->oom_kills);
	if (cgroup->path[0])
		DETAIL_ADD(line, "; %s", cgroup->path);
}

static void detail_machine(struct story_end *end)
{
	const struct story_numbers *n = &end->numbers;
	char left[WORDS_NUMBER], total[WORDS_NUMBER];
	if (!n->machine_known)
		return;
	struct story_line *line = detail_line(end, "machine");
	DETAIL_ADD(line, "%s of %s memory left", words_bytes(n->available, left),
		words_bytes(n->total, total));
	if (n->swap_free != STORY_UNKNOWN)
		DETAIL_ADD(line, ", %s of swap", words_bytes(n->swap_free, left));
	if (n->disk_free != STORY_UNKNOWN)
		DETAIL_ADD(line, "; %s free on the disk of the recorder",
			words_bytes(n->disk_free, left));
}

static void detail_pressure(struct story_end *end)
{
	const struct record_pressure *p = &end->numbers.pressure;
	const struct {
		const char *name;
		float share;
	} parts[] = {{"memory", p->memory_some}, {"memory for all", p->memory_full},
		{"disk", p->io_some}, {"disk for all", p->io_full}, {"CPU", p->cpu_some}};
	struct story_line *line = NULL;
	for (size_t i = 0; i < UTIL_COUNT(parts); i++) {
		if (!(parts[i].share >= 0))
			continue;
		if (line)
			DETAIL_ADD(line, ", ");
		else
			line = detail_line(end, "pressure");
		DETAIL_ADD(line, "%s %.0f %%", parts[i].name, (double)parts[i].share);
	}
	if (line)
		DETAIL_ADD(line, " of its last ten seconds");
}

static void detail_gpus(struct story_end *end)
{
	const struct story_numbers *n = &end->numbers;
	char used[WORDS_NUMBER], total[WORDS_NUMBER], label[STORY_LABEL];
	for (unsigned i = 0; i < n->gpus; i++) {
		const struct record_gpu *gpu = &n->gpu[i];
		(void)snprintf(label, sizeof label, "device %u", gpu->device);
		struct story_line *line = detail_line(end, label);
		DETAIL_ADD(line, "%s of %s in use", words_bytes(gpu->used, used),
			words_bytes(gpu->total, total));
		if (gpu->busy >= 0)
			DETAIL_ADD(line, ", busy %.0f %%", 100 * (double)gpu->busy);
		if (gpu->name[0])
			DETAIL_ADD(line, "; %s", gpu->name);
	}
	if (n->gpu_bytes != STORY_UNKNOWN && n->gpu_bytes)
		DETAIL_ADD(detail_line(end, "on devices"), "%s used by it",
			words_bytes(n->gpu_bytes, used));
}

static void detail_place(struct story_end *end)
{
	const struct story_numbers *n = &end->numbers;
	if (!n->place_known)
		return;
	struct story_line *line = detail_line(end, "batches");
	if (!n->given) {
		DETAIL_ADD(line, "it had received none");
		return;
	}
	DETAIL_ADD(line, "%llu received; the last was batch %llu of epoch %llu",
		(unsigned long long)n->given, (unsigned long long)n->batch,
		(unsigned long long)n->epoch);
	if (n->held)
		DETAIL_ADD(line, "; it held %u", n->held);
	if (n->held && n->slots)
		DETAIL_ADD(line, " of %u", n->slots);
}

static void detail_waits(struct story_end *end)
{
	if (end->numbers.waits >= 0)
		DETAIL_ADD(detail_line(end, "waited"), "for data during %.0f %% of its last minute",
			100 * (double)end->numbers.waits);
}

static void detail_daemon(struct story_end *end)
{
	const struct story_numbers *n = &end->numbers;
	char reserved[WORDS_NUMBER], budget[WORDS_NUMBER];
	if (!n->daemon_known)
		return;
	struct story_line *line = detail_line(end, "penstock");
	DETAIL_ADD(line, "held %s of its %s", words_bytes(n->reserved, reserved),
		words_bytes(n->budget, budget));
	if (n->daemon_resident != STORY_UNKNOWN && !end->daemon)
		DETAIL_ADD(line, "; %s resident", words_bytes(n->daemon_resident, reserved));
	if (n->images_per_s >= 0)
		DETAIL_ADD(line, "; %.0f images/s", (double)n->images_per_s);
	detail_text(end, "verdict", n->verdict);
}

/* For the daemon: "1 trainer was connected; it continued with penstockd 812". A trainer that is
 * known to have ended has an entry of its own. */
static void detail_outlived(struct story_end *daemon, const struct story *story)
{
	enum { ON, LIVES, UNKNOWN, FATES };
	unsigned all = 0, count[FATES] = {0};
	char texts[FATES][64] = {
		[LIVES] = "kept running", [UNKNOWN] = "may have continued with the next daemon"};
	for (const struct story_end *end = story->end; end < story->end + story->count; end++) {
		if (end->cause != STORY_OUTLIVED)
			continue;
		all++;
		count[end->fate.daemon ? ON : end->fate.lives ? LIVES : UNKNOWN]++;
		if (end->fate.daemon)
			(void)snprintf(texts[ON], sizeof texts[ON], "continued with penstockd %d",
				end->fate.daemon);
	}
	if (!all)
		return;
	struct story_line *line = detail_line(daemon, "trainers");
	DETAIL_ADD(line, "%u trainer%s connected; ", all, all == 1 ? " was" : "s were");
	const char *comma = "";
	for (int fate = 0; fate < FATES; fate++) {
		if (!count[fate])
			continue;
		if (count[fate] == all)
			DETAIL_ADD(line, "%s %s", all == 1 ? "it" : "they", texts[fate]);
		else
			DETAIL_ADD(line, "%s%u %s", comma, count[fate], texts[fate]);
		comma = ", ";
	}
}

void detail_write(struct story_end *end, const struct story *story)
{
	if (end->attach)
		detail_text(end, "command", end->attach->command);
	detail_text(end, "parent", end->parent_command);
	if (end->daemon && story->start) {
		detail_text(end, "socket", story->start->socket);
		detail_text(end, "settings", story->start->config);
	}
	if (end->daemon && story->why && end->cause != STORY_ASKED && end->cause != STORY_IDLE &&
		end->cause != STORY_FAILED)
		detail_text(end, "it said", story->why);
	if (end->daemon)
		detail_outlived(end, story);
	detail_stream(end);
	detail_life(end);
	detail_memory(end);
	detail_cgroup(end);
	detail_machine(end);
	detail_pressure(end);
	detail_gpus(end);
	if (!end->daemon)
		detail_place(end);
	detail_waits(end);
	detail_daemon(end);
}

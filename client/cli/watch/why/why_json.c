/* why: see why.h. */
#include "client/cli/watch/why/why.h"

#include "client/cli/cli.h"
#include "proto/jsontext.h"
#include "record/record_json.h"

static void why_json_seconds(struct jsontext *json, const char *key, uint64_t ns)
{
	if (ns)
		jsontext_number(json, key, (double)ns / (double)WHY_SECOND_NS, 3);
	else
		jsontext_raw(json, key, "null");
}

static void why_json_memory(struct jsontext *json, const struct story_numbers *n)
{
	jsontext_object(json, "memory");
	record_json_known(json, "first", n->memory_first);
	record_json_known(json, "ten_minutes_before", n->memory_before);
	record_json_known(json, "last", n->memory_last);
	record_json_known(json, "peak", n->memory_peak);
	record_json_known(json, "anonymous", n->anonymous);
	record_json_known(json, "shared", n->shared);
	record_json_known(json, "swapped", n->swapped);
	if (n->grows)
		jsontext_number(json, "growth_per_hour", n->growth_per_hour, 0);
	else
		jsontext_raw(json, "growth_per_hour", "null");
	why_json_seconds(json, "first_at", n->first_ns);
	why_json_seconds(json, "last_at", n->last_ns);
	jsontext_end(json);
}

static void why_json_cgroup(struct jsontext *json, const struct story_numbers *n)
{
	jsontext_object(json, "cgroup");
	jsontext_string(json, "path", n->cgroup.path);
	record_json_known(json, "used", n->cgroup.used);
	record_json_known(json, "used_after", n->cgroup_used_after);
	record_json_known(json, "limit", n->cgroup.limit);
	record_json_known(json, "oom_kills", n->cgroup.oom_kills);
	jsontext_end(json);
}

static void why_json_machine(struct jsontext *json, const struct story_numbers *n)
{
	jsontext_object(json, "machine");
	record_json_known(json, "available", n->available);
	record_json_known(json, "total", n->total);
	record_json_known(json, "swap_free", n->swap_free);
	record_json_known(json, "disk_free", n->disk_free);
	jsontext_end(json);
	record_json_pressure(json, &n->pressure, 3);
}

static void why_json_gpus(struct jsontext *json, const struct story_numbers *n)
{
	record_json_known(json, "gpu_bytes", n->gpu_bytes);
	jsontext_array(json, "gpus");
	for (unsigned i = 0; i < n->gpus; i++)
		record_json_gpu(json, &n->gpu[i], 3);
	jsontext_end(json);
}

static void why_json_place(struct jsontext *json, const struct story_numbers *n)
{
	jsontext_object(json, "batches");
	record_json_known(json, "given", n->place_known ? n->given : STORY_UNKNOWN);
	bool any = n->place_known && n->given;
	record_json_known(json, "epoch", any ? n->epoch : STORY_UNKNOWN);
	record_json_known(json, "batch", any ? n->batch : STORY_UNKNOWN);
	record_json_known(json, "held", n->place_known ? n->held : STORY_UNKNOWN);
	record_json_share(json, "waits", (double)n->waits, 3);
	jsontext_end(json);
}

static void why_json_daemon(struct jsontext *json, const struct story_numbers *n)
{
	jsontext_object(json, "penstock");
	record_json_known(json, "reserved", n->reserved);
	record_json_known(json, "budget", n->budget);
	record_json_known(json, "resident", n->daemon_resident);
	record_json_share(json, "images_per_s", (double)n->images_per_s, 3);
	jsontext_string(json, "verdict", n->verdict);
	jsontext_end(json);
}

static void why_json_status(struct jsontext *json, const struct story_end *end)
{
	bool known = end->exit && end->exit->known;
	if (known)
		jsontext_i64(json, "wait_status", end->exit->status);
	else
		jsontext_raw(json, "wait_status", "null");
	jsontext_u64(json, "oom_kills", end->numbers.oom_kills);
	record_json_known(json, "lived_s", end->numbers.lived_s);
	if (end->numbers.cpu_ns == STORY_UNKNOWN)
		jsontext_raw(json, "cpu_s", "null");
	else
		jsontext_number(
			json, "cpu_s", (double)end->numbers.cpu_ns / (double)WHY_SECOND_NS, 2);
}

static void why_json_limit(struct jsontext *json, const struct story_end *end)
{
	static const char *const names[] = {[STORY_LIMIT_NONE] = "",
		[STORY_LIMIT_CPU] = "cpu",
		[STORY_LIMIT_TIMEOUT] = "timeout",
		[STORY_LIMIT_DEADLINE] = "deadline"};
	if (end->cause != STORY_TIME)
		return;
	jsontext_string(json, "time_limit", names[end->limit]);
	record_json_known(json, "time_limit_s", end->limit_s);
}

static void why_json_attach(struct jsontext *json, const struct record_attach *attach)
{
	if (!attach)
		return;
	jsontext_string(json, "command", attach->command);
	jsontext_string(json, "stream", attach->stream);
	jsontext_string(json, "source", attach->source);
	jsontext_string(json, "group", attach->group);
	jsontext_u64(json, "batch_size", attach->batch_size);
	jsontext_u64(json, "rank", attach->rank);
	jsontext_u64(json, "world_size", attach->world_size);
}

static void why_json_end(struct jsontext *json, const struct story_end *end)
{
	const struct story_numbers *n = &end->numbers;
	jsontext_object(json, NULL);
	jsontext_string(json, "who", end->daemon ? "daemon" : "trainer");
	jsontext_i64(json, "pid", end->pid);
	jsontext_string(json, "cause", story_cause_name(end->cause));
	jsontext_string(json, "confidence", story_sure_name(end->sure));
	jsontext_string(json, "sentence", end->sentence);
	jsontext_string(json, "advice", end->advice);
	if (end->cause == STORY_OUTLIVED) {
		record_json_known(json, "went_on_with",
			end->fate.daemon ? (uint64_t)end->fate.daemon : STORY_UNKNOWN);
		jsontext_bool(json, "lives", end->fate.lives);
	}
	if (end->event >= 0)
		jsontext_i64(json, "event", end->event);
	why_json_seconds(json, "since", end->since_ns);
	why_json_seconds(json, "at", end->end_ns);
	why_json_status(json, end);
	why_json_limit(json, end);
	jsontext_string(json, "parent_command", end->parent_command);
	why_json_attach(json, end->attach);
	why_json_memory(json, n);
	why_json_cgroup(json, n);
	why_json_machine(json, n);
	why_json_gpus(json, n);
	if (!end->daemon)
		why_json_place(json, n);
	why_json_daemon(json, n);
	jsontext_end(json);
}

static void why_json_events(struct jsontext *json, const struct story *story)
{
	char text[160];
	jsontext_array(json, "events");
	for (int i = 0; i < story->events; i++) {
		if (!story_event(story, i, text, sizeof text))
			continue;
		jsontext_object(json, NULL);
		jsontext_i64(json, "event", i);
		jsontext_string(json, "sentence", text);
		jsontext_end(json);
	}
	jsontext_end(json);
}

static void why_json_file(struct jsontext *json, const struct why *why, const struct why_file *file)
{
	const struct story *story = &file->story;
	const struct record_start *start = story->start;
	jsontext_object(json, NULL);
	jsontext_string(json, "path", file->path);
	why_json_seconds(json, "first", story->first_ns);
	why_json_seconds(json, "last", story->last_ns);
	if (start) {
		jsontext_i64(json, "pid", start->pid);
		jsontext_string(json, "version", start->version);
		jsontext_string(json, "host", start->host);
		jsontext_string(json, "kernel", start->kernel);
		jsontext_string(json, "boot_id", start->boot_id);
		jsontext_string(json, "socket", start->socket);
	}
	why_json_events(json, story);
	jsontext_array(json, "ends");
	for (size_t i = 0; i < story->count; i++)
		if (why_tells(why, &story->end[i]))
			why_json_end(json, &story->end[i]);
	jsontext_end(json);
	jsontext_end(json);
}

int why_machine(const struct why *why)
{
	struct jsontext json = {0};
	jsontext_object(&json, NULL);
	jsontext_array(&json, "records");
	for (size_t i = 0; i < why->files; i++)
		if (why_count(why, &why->file[i].story) || !why->pid)
			why_json_file(&json, why, &why->file[i]);
	jsontext_end(&json);
	jsontext_end(&json);
	return cli_print_json(&json);
}

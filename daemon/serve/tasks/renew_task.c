/* renew_task: makes the index of a folder anew whose images were rewritten in place. A stream has
 * one such thread at a time; streams of one dataset wait for each other in the shelf, so that the
 * index is made once. */
#define LOG_TOPIC LOG_STREAM
#include "serve/tasks/tasks.h"

#include "base/log.h"
#include "serve/session/session.h"
#include "serve/state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *renew_task_source(const struct group *group)
{
	const struct concat *parts = stream_samples_of(group->stream);
	return dataset_shard_path(parts->dataset[group->renewal.renewal.part], 0);
}

static void renew_task_run(void *argument)
{
	struct group *group = argument;
	stream_renew(group->stream, &group->renewal.renewal);
}

/* Reports what was done, once for all streams of the dataset. */
static void renew_task_tell(struct group *group)
{
	const struct stream_renewal *renewal = &group->renewal.renewal;
	const char *source = renew_task_source(group);
	char text[FAULT_TEXT];
	if (!renewal->made)
		return;
	if (renewal->result == 0)
		(void)snprintf(text, sizeof text,
			"%.300s: images were rewritten in place, so its index was made anew in "
			"%.1f s; streams that read it go on with the new images",
			source, (double)renewal->took_ns / 1e9);
	else if (renewal->result == SHELF_E_SAME)
		(void)snprintf(text, sizeof text,
			"%.300s: an image had another size than its index says, but has it again "
			"now that the index was made anew",
			source);
	else if (renewal->result == -ESTALE)
		(void)snprintf(text, sizeof text,
			"%.300s: its index was made anew, and streams that read it cannot go on",
			source);
	else if (renewal->result != -ECANCELED)
		(void)snprintf(text, sizeof text,
			"%.200s: images were rewritten in place, but its index cannot be made "
			"anew, so they count as broken: %.600s",
			source, renewal->fault.text);
	else
		return;
	recorder_notice(group->server, text);
}

/* Without a thread, what was parked counts as broken. */
static void renew_task_start(struct group *group)
{
	struct renew_task *r = &group->renewal;
	log_info("%s: an image has another size than its index says", renew_task_source(group));
	int result = loop_start_task(
		&group->server->loop, &r->task, "penstock-renew", renew_task_run, group);
	if (!result)
		return;
	r->renewal.made = true;
	r->renewal.result = result;
	r->renewal.after_ns = UINT64_MAX;
	(void)fault_set(&r->renewal.fault, result, "cannot start a thread: %s", strerror(-result));
	renew_task_tell(group);
	stream_renewed(group->stream, &r->renewal);
}

bool renew_task_take(struct group *group)
{
	struct renew_task *r = &group->renewal;
	if (!group->stream)
		return false;
	if (r->task.running) {
		if (!task_collect(&r->task))
			return true;
		renew_task_tell(group);
		stream_renewed(group->stream, &r->renewal);
	}
	if (!group->closing && stream_wants_renewal(group->stream, &r->renewal))
		renew_task_start(group);
	return r->task.running;
}

/* open_task: opens a stream. Building its index or allocating its memory takes from milliseconds to
 * minutes. */
#define LOG_TOPIC LOG_STREAM
#include "serve/tasks/tasks.h"

#include "base/clock.h"
#include "base/log.h"
#include "remote/interrupt.h"
#include "serve/session/session.h"
#include "serve/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_TASK_LOG_NS (5 * 1000000000ull)

struct open_task_progress {
	struct opening *opening;
	uint64_t last_ns;
};

static int open_task_note(void *context, uint64_t samples, uint64_t bytes, uint64_t total)
{
	struct open_task_progress *progress = context;
	struct opening *opening = progress->opening;
	atomic_store_explicit(&opening->samples, samples, memory_order_relaxed);
	atomic_store_explicit(&opening->bytes, bytes, memory_order_relaxed);
	atomic_store_explicit(&opening->total, total, memory_order_relaxed);
	uint64_t now = clock_ns();
	if (now - progress->last_ns > OPEN_TASK_LOG_NS) {
		char call[SPEC_CALL];
		progress->last_ns = now;
		(void)spec_call(&opening->spec, call, sizeof call);
		if (total)
			log_info("indexing %s: %llu samples, %llu of %llu MB", call,
				(unsigned long long)samples, (unsigned long long)(bytes / 1000000),
				(unsigned long long)(total / 1000000));
		else
			log_info("indexing %s: %llu samples", call, (unsigned long long)samples);
	}
	return atomic_load_explicit(&opening->cancel, memory_order_relaxed);
}

/* The node on which the trainer runs; where it may run on several, the nodes take turns. */
static int open_task_node(const struct group *group)
{
	struct server *server = group->server;
	if (!server->numa.count)
		return -1;
	int node = -1;
	list_each (m, &group->members, struct member, of_group)
		if (node < 0)
			node = numa_of_process(&server->numa, m->client->pid);
	return node >= 0 ? node : (int)(server->numa_turn++ % server->numa.count);
}

/* Has the stream's memory allocated on its node. All of it is allocated on this thread, which ends
 * when the stream is open, so the preference needs no end. */
static void open_task_place(const struct opening *opening)
{
	struct server *server = opening->server;
	int node = opening->numa_node;
	int result = node < 0 ? 0 : numa_prefer(&server->numa, (unsigned)node);
	if (result < 0 && !atomic_exchange_explicit(&server->numa_told, true, memory_order_relaxed))
		log_info("the memory of streams is not placed by NUMA node: the kernel refuses "
			 "node %u (set_mempolicy): %s",
			server->numa.node[node].number, strerror(-result));
}

static void open_task_run(void *argument)
{
	struct opening *opening = argument;
	struct open_task_progress progress = {.opening = opening, .last_ns = clock_ns()};
	open_task_place(opening);
	(void)interrupt_set(&opening->cancel);
	opening->result = stream_new(&opening->server->environment, &opening->spec, &opening->lists,
		open_task_note, &progress, &opening->stream, &opening->fault);
	(void)interrupt_set(NULL);
}

int open_task_start(struct group *group, struct fault *fault)
{
	struct server *server = group->server;
	struct opening *opening = calloc(1, sizeof *opening);
	if (!opening)
		return fault_set(fault, -ENOMEM, "no memory to open a stream");
	opening->server = server;
	opening->group = group;
	opening->spec = group->spec;
	opening->lists = group->lists;
	opening->numa_node = group->numa_node = open_task_node(group);
	int result = loop_start_task(
		&server->loop, &opening->task, "penstock-open", open_task_run, opening);
	if (result) {
		free(opening);
		return fault_set(fault, result,
			"cannot start a thread to open %s: %s; raise the limit on processes "
			"(ulimit -u)",
			group->spec.source, strerror(-result));
	}
	group->lists = (struct sampling_lists){0};
	group->opening = opening;
	opening->peer =
		group->peer ? peer_charge(&server->peers, &group->peer->name, PEER_OPENINGS) : NULL;
	list_append(&server->tasks.openings, &opening->node);
	return 0;
}

void open_task_abandon(struct opening *opening)
{
	atomic_store_explicit(&opening->cancel, true, memory_order_relaxed);
	opening->group = NULL;
}

void open_task_collect(struct server *server)
{
	list_each_removable (opening, &server->tasks.openings, struct opening, node) {
		if (!task_collect(&opening->task))
			continue;
		list_remove(&server->tasks.openings, &opening->node);
		join_opened(opening);
		peer_discharge(&server->peers, opening->peer, PEER_OPENINGS);
		free(opening);
	}
}

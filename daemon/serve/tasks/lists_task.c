/* lists_task: reads the lists of samples (`indices`, a file of `weights`) that a stream is opened
 * with.
 *
 * The members of a group agree on the content of a list, so a client can neither join a group nor
 * begin one before the list was read. It joins when the thread is done. Clients that name one file
 * take turns: the second finds what the first has read.
 *
 * The thread owns `lists`, `result` and `fault`. */
#define LOG_TOPIC LOG_STREAM
#include "serve/tasks/tasks.h"

#include "base/log.h"
#include "definition/weigh.h"
#include "remote/interrupt.h"
#include "serve/session/session.h"
#include "serve/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct lists_task {
	struct list_node node;
	struct server *server;
	struct client *client; /* NULL: it has left, or has closed the stream */
	struct peer *peer; /* charged while this exists */
	struct wire_head head; /* of its WIRE_OPEN */
	struct stream_spec spec;
	struct task task;
	struct sampling_lists lists;
	int result;
	struct fault fault;
	atomic_bool cancel; /* relaxed: polled while reading */
};

static void lists_task_run(void *argument)
{
	struct lists_task *task = argument;
	(void)interrupt_set(&task->cancel);
	task->result = sampling_lists_open(&task->server->lists, task->spec.indices,
		task->spec.sampling.weights, &task->cancel, &task->lists, &task->fault);
	(void)interrupt_set(NULL);
}

static void lists_task_start(struct lists_task *task)
{
	const struct stream_spec *spec = &task->spec;
	int result = loop_start_task(
		&task->server->loop, &task->task, "penstock-list", lists_task_run, task);
	if (result)
		task->result = fault_set(&task->fault, result,
			"cannot start a thread to read %s: %s; raise the limit on processes "
			"(ulimit -u)",
			spec->indices[0] ? spec->indices : spec->sampling.weights,
			strerror(-result));
}

/* A file of weights; "": none. */
static const char *lists_task_weights(const struct lists_task *task)
{
	const char *weights = task->spec.sampling.weights;
	return weigh_is_balanced(weights) ? "" : weights;
}

static bool lists_task_same(const char *a, const char *b)
{
	return a[0] && strcmp(a, b) == 0;
}

/* Whether one that came before reads one of the same files. */
static bool lists_task_waits(const struct lists_task *task)
{
	list_each (before, &task->server->tasks.lists, struct lists_task, node) {
		if (before == task)
			break;
		if (lists_task_same(task->spec.indices, before->spec.indices) ||
			lists_task_same(lists_task_weights(task), lists_task_weights(before)))
			return true;
	}
	return false;
}

static void lists_task_deliver(struct lists_task *task)
{
	struct client *client = task->client;
	struct stream_spec *spec = &task->spec;
	char call[SPEC_CALL];
	if (task->result) {
		if (client)
			client_error(client, task->head.request, task->head.stream, task->result,
				task->fault.text);
		if (task->result != -ECANCELED &&
			log_limit_may(&task->server->log_limits, LOG_LIMIT_OPENING))
			log_info("cannot open %s: %s", spec_call(spec, call, sizeof call),
				task->fault.text);
	} else if (client && !client->dead) {
		spec_note_lists(spec, &task->lists);
		join_open(client, &task->head, spec, &task->lists);
	} else {
		sampling_lists_close(&task->server->lists, &task->lists);
	}
}

/* True when it is over: read, failed, or given up before it began. */
static bool lists_task_step(struct lists_task *task)
{
	if (task->task.running)
		return task_collect(&task->task);
	if (!task->client)
		task->result = -ECANCELED;
	else if (!lists_task_waits(task))
		lists_task_start(task);
	/* Once it runs, the result is the thread's. */
	return !task->task.running && task->result != 0;
}

void lists_task_sweep(struct server *server)
{
	list_each_removable (task, &server->tasks.lists, struct lists_task, node) {
		if (!lists_task_step(task))
			continue;
		list_remove(&server->tasks.lists, &task->node);
		peer_discharge(&server->peers, task->peer, PEER_OPENINGS);
		lists_task_deliver(task);
		free(task);
	}
}

void lists_task_open(
	struct client *client, const struct wire_head *head, const struct stream_spec *spec)
{
	struct server *server = client->server;
	struct fault fault;
	int result = peer_may(&server->peers, &client->name, PEER_OPENINGS, &fault);
	struct lists_task *task = result ? NULL : calloc(1, sizeof *task);
	if (!result && !task)
		result = fault_set(&fault, -ENOMEM, "no memory for another trainer");
	if (result) {
		client_error(client, head->request, head->stream, result, fault.text);
		return;
	}
	task->peer = peer_charge(&server->peers, &client->name, PEER_OPENINGS);
	task->server = server;
	task->client = client;
	task->head = *head;
	task->spec = *spec;
	list_append(&server->tasks.lists, &task->node);
}

static void lists_task_abandon(struct lists_task *task)
{
	task->client = NULL;
	atomic_store_explicit(&task->cancel, true, memory_order_relaxed);
}

static struct lists_task *lists_task_find(const struct client *client, uint32_t stream)
{
	list_each (task, &client->server->tasks.lists, struct lists_task, node)
		if (task->client == client && task->head.stream == stream)
			return task;
	return NULL;
}

bool lists_task_is(const struct client *client, uint32_t stream)
{
	return lists_task_find(client, stream) != NULL;
}

unsigned lists_task_count(const struct client *client)
{
	unsigned n = 0;
	list_each (task, &client->server->tasks.lists, struct lists_task, node)
		n += task->client == client;
	return n;
}

void lists_task_close(struct client *client, uint32_t stream)
{
	struct lists_task *task = lists_task_find(client, stream);
	if (task)
		lists_task_abandon(task);
}

void lists_task_leave(struct client *client)
{
	list_each (task, &client->server->tasks.lists, struct lists_task, node)
		if (task->client == client)
			lists_task_abandon(task);
}

void lists_task_refuse(struct server *server, int code, const char *text)
{
	list_each (task, &server->tasks.lists, struct lists_task, node) {
		struct client *client = task->client;
		if (!client)
			continue;
		lists_task_abandon(task);
		client_error(client, task->head.request, task->head.stream, code, text);
	}
}

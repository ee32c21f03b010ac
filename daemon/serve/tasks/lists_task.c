/* arrival: who opens a stream with `indices` or a file of `weights`, until those lists are read.
 *
 * What a group agrees on is a list's content, so nobody can join one, or begin one, before it is
 * known; and the file may lie on storage that hangs, which the event loop must not. So a thread
 * reads it, and whoever came joins when it is done, as all others do at once. Those who name one
 * file take turns: the second finds what the first has read.
 *
 * A thread owns `result`, `lists` and `fault` of its arrival until it says done; all else is the
 * event loop's. */
#define LOG_TOPIC LOG_STREAM
#include "serve/serve_impl.h"

#include "base/log.h"
#include "definition/weigh.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct lists_task {
	struct lists_task *next; /* in the order in which they came */
	struct server *server;
	struct client *client; /* NULL: nobody waits for it any more */
	struct peer *peer; /* charged while this is there */
	struct wire_head head; /* of its WIRE_OPEN */
	struct stream_spec spec;
	bool running;
	pthread_t thread;
	struct sampling_lists lists;
	int result;
	struct fault fault;
	atomic_bool cancel; /* relaxed: polled while reading */
	atomic_bool done; /* released by the thread, acquired by the event loop */
};

static void *lists_task_main(void *argument)
{
	struct lists_task *arrival = argument;
	struct server *server = arrival->server;
	(void)pthread_setname_np(pthread_self(), "penstock-list");
	arrival->result = sampling_lists_open(&server->lists, arrival->spec.indices,
		arrival->spec.sampling.weights, &arrival->cancel, &arrival->lists, &arrival->fault);
	/* Afterwards it may be gone. */
	atomic_store_explicit(&arrival->done, true, memory_order_release);
	server->environment.wake(server->environment.wake_context);
	return NULL;
}

static const char *lists_task_file(const struct lists_task *arrival)
{
	const struct stream_spec *spec = &arrival->spec;
	return spec->indices[0] ? spec->indices : spec->sampling.weights;
}

/* From here on the thread has the result, which it may have written already. */
static void lists_task_start(struct lists_task *arrival)
{
	int result = open_task_thread(&arrival->thread, lists_task_main, arrival);
	arrival->running = result == 0;
	if (result)
		arrival->result = fault_set(&arrival->fault, -result,
			"cannot start a thread to read %s: %s; raise the limit on processes "
			"(ulimit -u)",
			lists_task_file(arrival), strerror(result));
}

/* A file of weights; "": none. */
static const char *lists_task_weights(const struct lists_task *arrival)
{
	const char *weights = arrival->spec.sampling.weights;
	return weigh_is_balanced(weights) ? "" : weights;
}

static bool lists_task_same(const char *a, const char *b)
{
	return a[0] && strcmp(a, b) == 0;
}

/* Whether one that came before reads one of the same files. */
static bool lists_task_waits(const struct lists_task *arrival)
{
	const struct stream_spec *spec = &arrival->spec;
	for (const struct lists_task *a = arrival->server->arrivals; a != arrival; a = a->next)
		if (lists_task_same(spec->indices, a->spec.indices) ||
			lists_task_same(lists_task_weights(arrival), lists_task_weights(a)))
			return true;
	return false;
}

static void lists_task_deliver(struct lists_task *arrival)
{
	struct client *client = arrival->client;
	struct stream_spec *spec = &arrival->spec;
	char call[SPEC_CALL];
	if (arrival->result) {
		if (client)
			client_error(client, arrival->head.request, arrival->head.stream,
				arrival->result, arrival->fault.text);
		if (arrival->result != -ECANCELED &&
			log_limit_may(arrival->server, LOG_LIMIT_OPENING))
			log_info("cannot open %s: %s", spec_call(spec, call, sizeof call),
				arrival->fault.text);
	} else if (client && !client->dead) {
		spec_note_lists(spec, &arrival->lists);
		join_open(client, &arrival->head, spec, &arrival->lists);
	} else {
		sampling_lists_close(&arrival->server->lists, &arrival->lists);
	}
}

/* True when it is through with: read and joined, failed, or never begun and not wanted any more. */
static bool lists_task_step(struct lists_task *arrival)
{
	if (!arrival->running && !arrival->client)
		arrival->result = -ECANCELED;
	else if (!arrival->running && !lists_task_waits(arrival))
		lists_task_start(arrival);
	if (!arrival->running)
		return arrival->result != 0;
	if (!atomic_load_explicit(&arrival->done, memory_order_acquire))
		return false;
	pthread_join(arrival->thread, NULL);
	return true;
}

void lists_task_sweep(struct server *server)
{
	for (struct lists_task **place = &server->arrivals; *place;) {
		struct lists_task *arrival = *place;
		if (!lists_task_step(arrival)) {
			place = &arrival->next;
			continue;
		}
		*place = arrival->next;
		peer_discharge(&server->peers, arrival->peer, PEER_OPENINGS);
		lists_task_deliver(arrival);
		free(arrival);
	}
}

void lists_task_open(
	struct client *client, const struct wire_head *head, const struct stream_spec *spec)
{
	struct server *server = client->server;
	struct lists_task **place = &server->arrivals;
	struct fault fault;
	int result = peer_may(&server->peers, &client->name, PEER_OPENINGS, &fault);
	struct lists_task *arrival = result ? NULL : calloc(1, sizeof *arrival);
	if (!arrival) {
		if (!result)
			result = fault_set(&fault, -ENOMEM, "no memory for another trainer");
		client_error(client, head->request, head->stream, result, fault.text);
		return;
	}
	arrival->peer = peer_charge(&server->peers, &client->name, PEER_OPENINGS);
	arrival->server = server;
	arrival->client = client;
	arrival->head = *head;
	arrival->spec = *spec;
	while (*place)
		place = &(*place)->next;
	*place = arrival;
}

static void lists_task_abandon(struct lists_task *arrival)
{
	arrival->client = NULL;
	atomic_store_explicit(&arrival->cancel, true, memory_order_relaxed);
}

static struct lists_task *lists_task_find(const struct client *client, uint32_t stream)
{
	struct lists_task *a = client->server->arrivals;
	while (a && (a->client != client || a->head.stream != stream))
		a = a->next;
	return a;
}

bool lists_task_is(const struct client *client, uint32_t stream)
{
	return lists_task_find(client, stream) != NULL;
}

unsigned lists_task_count(const struct client *client)
{
	unsigned n = 0;
	for (const struct lists_task *a = client->server->arrivals; a; a = a->next)
		n += a->client == client;
	return n;
}

void lists_task_close(struct client *client, uint32_t stream)
{
	struct lists_task *arrival = lists_task_find(client, stream);
	if (arrival)
		lists_task_abandon(arrival);
}

void lists_task_leave(struct client *client)
{
	for (struct lists_task *a = client->server->arrivals; a; a = a->next)
		if (a->client == client)
			lists_task_abandon(a);
}

void lists_task_refuse(struct server *server, int code, const char *text)
{
	for (struct lists_task *a = server->arrivals; a; a = a->next) {
		struct client *client = a->client;
		if (!client)
			continue;
		lists_task_abandon(a);
		client_error(client, a->head.request, a->head.stream, code, text);
	}
}

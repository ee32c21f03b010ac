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

struct arrival {
	struct arrival *next; /* in the order in which they came */
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

static void *arrival_main(void *argument)
{
	struct arrival *arrival = argument;
	struct server *server = arrival->server;
	(void)pthread_setname_np(pthread_self(), "penstock-list");
	arrival->result = sampling_lists_open(&server->lists, arrival->spec.indices,
		arrival->spec.sampling.weights, &arrival->cancel, &arrival->lists, &arrival->fault);
	/* Afterwards it may be gone. */
	atomic_store_explicit(&arrival->done, true, memory_order_release);
	server->environment.wake(server->environment.wake_context);
	return NULL;
}

static const char *arrival_file(const struct arrival *arrival)
{
	const struct stream_spec *spec = &arrival->spec;
	return spec->indices[0] ? spec->indices : spec->sampling.weights;
}

/* From here on the thread has the result, which it may have written already. */
static void arrival_start(struct arrival *arrival)
{
	int result = opener_thread(&arrival->thread, arrival_main, arrival);
	arrival->running = result == 0;
	if (result)
		arrival->result = fault_set(&arrival->fault, -result,
			"cannot start a thread to read %s: %s; raise the limit on processes "
			"(ulimit -u)",
			arrival_file(arrival), strerror(result));
}

/* A file of weights; "": none. */
static const char *arrival_weights(const struct arrival *arrival)
{
	const char *weights = arrival->spec.sampling.weights;
	return weigh_is_balanced(weights) ? "" : weights;
}

static bool arrival_same(const char *a, const char *b)
{
	return a[0] && strcmp(a, b) == 0;
}

/* Whether one that came before reads one of the same files. */
static bool arrival_waits(const struct arrival *arrival)
{
	const struct stream_spec *spec = &arrival->spec;
	for (const struct arrival *a = arrival->server->arrivals; a != arrival; a = a->next)
		if (arrival_same(spec->indices, a->spec.indices) ||
			arrival_same(arrival_weights(arrival), arrival_weights(a)))
			return true;
	return false;
}

static void arrival_deliver(struct arrival *arrival)
{
	struct client *client = arrival->client;
	struct stream_spec *spec = &arrival->spec;
	char call[SPEC_CALL];
	if (arrival->result) {
		if (client)
			client_error(client, arrival->head.request, arrival->head.stream,
				arrival->result, arrival->fault.text);
		if (arrival->result != -ECANCELED && quiet_may(arrival->server, QUIET_OPENING))
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
static bool arrival_step(struct arrival *arrival)
{
	if (!arrival->running && !arrival->client)
		arrival->result = -ECANCELED;
	else if (!arrival->running && !arrival_waits(arrival))
		arrival_start(arrival);
	if (!arrival->running)
		return arrival->result != 0;
	if (!atomic_load_explicit(&arrival->done, memory_order_acquire))
		return false;
	pthread_join(arrival->thread, NULL);
	return true;
}

void arrival_sweep(struct server *server)
{
	for (struct arrival **place = &server->arrivals; *place;) {
		struct arrival *arrival = *place;
		if (!arrival_step(arrival)) {
			place = &arrival->next;
			continue;
		}
		*place = arrival->next;
		peer_discharge(&server->peers, arrival->peer, PEER_OPENINGS);
		arrival_deliver(arrival);
		free(arrival);
	}
}

void arrival_open(
	struct client *client, const struct wire_head *head, const struct stream_spec *spec)
{
	struct server *server = client->server;
	struct arrival **place = &server->arrivals;
	struct fault fault;
	int result = peer_may(&server->peers, &client->name, PEER_OPENINGS, &fault);
	struct arrival *arrival = result ? NULL : calloc(1, sizeof *arrival);
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

static void arrival_abandon(struct arrival *arrival)
{
	arrival->client = NULL;
	atomic_store_explicit(&arrival->cancel, true, memory_order_relaxed);
}

static struct arrival *arrival_find(const struct client *client, uint32_t stream)
{
	struct arrival *a = client->server->arrivals;
	while (a && (a->client != client || a->head.stream != stream))
		a = a->next;
	return a;
}

bool arrival_is(const struct client *client, uint32_t stream)
{
	return arrival_find(client, stream) != NULL;
}

unsigned arrival_count(const struct client *client)
{
	unsigned n = 0;
	for (const struct arrival *a = client->server->arrivals; a; a = a->next)
		n += a->client == client;
	return n;
}

void arrival_close(struct client *client, uint32_t stream)
{
	struct arrival *arrival = arrival_find(client, stream);
	if (arrival)
		arrival_abandon(arrival);
}

void arrival_leave(struct client *client)
{
	for (struct arrival *a = client->server->arrivals; a; a = a->next)
		if (a->client == client)
			arrival_abandon(a);
}

void arrival_refuse(struct server *server, int code, const char *text)
{
	for (struct arrival *a = server->arrivals; a; a = a->next) {
		struct client *client = a->client;
		if (!client)
			continue;
		arrival_abandon(a);
		client_error(client, a->head.request, a->head.stream, code, text);
	}
}

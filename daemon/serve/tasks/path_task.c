/* namer: answers which file a sample is (WIRE_QUERY_PATH).
 *
 * That is read from the dataset's index, whose storage may hang: so a thread of the stream's looks
 * up what was asked, all at once, and what is asked meanwhile waits for the next. The stream stays
 * until it is done; who asked may be gone by then.
 *
 * The thread has `result` and `text` of what is in `asked`; all else is the event loop's. */
#include "serve/serve_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct naming {
	struct naming *next;
	struct client *client; /* NULL: gone */
	struct wire_head head; /* of its WIRE_QUERY */
	uint64_t sample;
	int result;
	char *text; /* the path, or why there is none; NULL: no memory */
};

static void *path_task_main(void *argument)
{
	struct group *group = argument;
	struct server *server = group->server;
	(void)pthread_setname_np(pthread_self(), "penstock-names");
	for (struct naming *n = group->namer.asked; n; n = n->next) {
		struct fault fault;
		char path[8192 + 64];
		n->result = concat_path(
			stream_samples_of(group->stream), n->sample, path, sizeof path, &fault);
		n->text = strdup(n->result ? fault.text : path);
	}
	/* Afterwards the group may be gone. */
	atomic_store_explicit(&group->namer.done, true, memory_order_release);
	server->environment.wake(server->environment.wake_context);
	return NULL;
}

static void path_task_deliver(struct naming *naming)
{
	if (naming->client && naming->result && naming->text)
		client_error(naming->client, naming->head.request, naming->head.stream,
			naming->result, naming->text);
	else if (naming->client)
		client_answer(naming->client, &naming->head, naming->text);
	free(naming->text);
	free(naming);
}

static void path_task_deliver_all(struct path_task *namer)
{
	while (namer->asked) {
		struct naming *naming = namer->asked;
		namer->asked = naming->next;
		namer->count--;
		path_task_deliver(naming);
	}
}

static void path_task_start(struct group *group)
{
	struct path_task *namer = &group->namer;
	namer->asked = namer->waiting;
	namer->waiting = NULL;
	atomic_store_explicit(&namer->done, false, memory_order_relaxed); /* before the thread is */
	namer->running = open_task_thread(&namer->thread, path_task_main, group) == 0;
	/* Whoever asked is told that there is no memory for the answer. */
	if (!namer->running)
		path_task_deliver_all(namer);
}

void path_task_ask(struct client *client, const struct wire_query *query, struct group *group)
{
	struct path_task *namer = &group->namer;
	struct naming **place = &namer->waiting;
	if (namer->count >= SERVE_NAMINGS) {
		client_error(client, query->head.request, query->head.stream, -EBUSY,
			"too many paths were asked for that storage has yet to give: wait for "
			"them");
		return;
	}
	struct naming *naming = calloc(1, sizeof *naming);
	if (!naming) {
		client_answer(client, &query->head, NULL);
		return;
	}
	naming->client = client;
	naming->head = query->head;
	naming->sample = query->argument;
	while (*place)
		place = &(*place)->next;
	*place = naming;
	namer->count++;
	if (!namer->running)
		path_task_start(group);
}

bool path_task_collect(struct group *group)
{
	struct path_task *namer = &group->namer;
	if (!namer->running)
		return false;
	if (!atomic_load_explicit(&namer->done, memory_order_acquire))
		return true;
	pthread_join(namer->thread, NULL);
	namer->running = false;
	path_task_deliver_all(namer);
	if (namer->waiting)
		path_task_start(group);
	return namer->running;
}

static void path_task_forget(struct naming *list, const struct client *client)
{
	for (struct naming *n = list; n; n = n->next)
		if (n->client == client)
			n->client = NULL;
}

void path_task_leave(const struct client *client)
{
	for (struct group *g = client->server->groups; g; g = g->next) {
		path_task_forget(g->namer.asked, client);
		path_task_forget(g->namer.waiting, client);
	}
}

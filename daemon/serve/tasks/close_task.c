/* closer: frees a stream on a thread of its own.
 *
 * Forgetting a dataset waits for index pages that are still being read, and closes files: on
 * storage that hangs that takes as long as it hangs, and the event loop must go on serving others.
 * What the stream was charged with stays charged until the thread has ended. */
#include "serve/serve_impl.h"

#include <stdlib.h>

struct closing {
	struct closing *next;
	struct server *server;
	struct stream *stream;
	struct peer *peer; /* charged with PEER_KEPT */
	pthread_t thread;
	bool kept; /* a client has its memory: */
	struct handout loan;
	int line;
	uint64_t bytes;
};

/* Its charge stays where a client still has its memory. */
static void close_task_end(struct closing *closing)
{
	struct server *server = closing->server;
	if (closing->kept)
		handouts_keep(server, closing->peer, PEER_KEPT, closing->loan, closing->line,
			closing->bytes);
	else
		peer_discharge(&server->peers, closing->peer, PEER_KEPT);
}

static void *close_task_main(void *argument)
{
	struct closing *closing = argument;
	struct server *server = closing->server;
	(void)pthread_setname_np(pthread_self(), "penstock-close");
	stream_free(closing->stream);
	pthread_mutex_lock(&server->opened_lock);
	closing->next = server->closed;
	server->closed = closing;
	pthread_mutex_unlock(&server->opened_lock);
	server->environment.wake(server->environment.wake_context);
	return NULL;
}

void close_task_take(struct server *server, struct stream *stream, struct peer *peer)
{
	struct closing *closing = malloc(sizeof *closing), here;
	struct closing *c = closing ? closing : &here;
	*c = (struct closing){.server = server,
		.stream = stream,
		.peer = peer,
		.loan = HANDOUT_NONE,
		.bytes = stream_extent(stream)->bytes};
	c->kept = stream_take_kept(stream, &c->loan, &c->line);
	if (closing && open_task_thread(&closing->thread, close_task_main, closing) == 0) {
		server->closings++;
		return;
	}
	/* Without memory or threads it waits for whatever the storage takes. */
	stream_free(stream);
	close_task_end(c);
	free(closing);
}

void close_task_collect(struct server *server)
{
	pthread_mutex_lock(&server->opened_lock);
	struct closing *list = server->closed;
	server->closed = NULL;
	pthread_mutex_unlock(&server->opened_lock);
	while (list) {
		struct closing *closing = list;
		list = closing->next;
		pthread_join(closing->thread, NULL);
		server->closings--;
		close_task_end(closing);
		free(closing);
	}
}

/* close_task: frees a stream. To forget a dataset means to wait for index pages that are still
 * being read, and to close files: where storage hangs, that hangs too. The peer stays charged
 * until the thread has ended. */
#include "serve/tasks/tasks.h"

#include "serve/session/handouts.h"
#include "serve/session/peer.h"
#include "serve/state.h"

#include <stdlib.h>

struct closing {
	struct list_node node;
	struct stream *stream;
	struct peer *peer; /* charged with PEER_KEPT */
	struct task task;
	bool kept; /* a client still holds its memory: */
	struct handout handout;
	int line;
	uint64_t bytes;
};

/* The charge stays where a client still holds the memory. */
static void close_task_end(struct server *server, const struct closing *closing)
{
	if (closing->kept)
		handouts_keep(server, closing->peer, PEER_KEPT, closing->handout, closing->line,
			closing->bytes);
	else
		peer_discharge(&server->peers, closing->peer, PEER_KEPT);
}

static void close_task_run(void *argument)
{
	struct closing *closing = argument;
	stream_free(closing->stream);
}

void close_task_start(struct server *server, struct stream *stream, struct peer *peer)
{
	struct closing *closing = malloc(sizeof *closing), here;
	struct closing *c = closing ? closing : &here;
	*c = (struct closing){.stream = stream,
		.peer = peer,
		.handout = HANDOUT_NONE,
		.bytes = stream_extent(stream)->bytes};
	c->kept = stream_take_kept(stream, &c->handout, &c->line);
	if (closing && loop_start_task(&server->loop, &closing->task, "penstock-close",
			       close_task_run, closing) == 0) {
		list_append(&server->tasks.closings, &closing->node);
		return;
	}
	/* Without memory or threads the loop waits for storage after all. */
	stream_free(stream);
	close_task_end(server, c);
	free(closing);
}

void close_task_collect(struct server *server)
{
	list_each_removable (closing, &server->tasks.closings, struct closing, node) {
		if (!task_collect(&closing->task))
			continue;
		list_remove(&server->tasks.closings, &closing->node);
		close_task_end(server, closing);
		free(closing);
	}
}

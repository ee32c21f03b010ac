/* opener: opens a stream on a thread of its own.
 *
 * Building an index or allocating shared memory may take from milliseconds to minutes; the event
 * loop must go on serving the others. The thread owns its struct opening until it puts it on the
 * server's list and wakes the loop; the loop joins it and takes the result. */
#define LOG_TOPIC LOG_STREAM
#include "serve/serve_impl.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

enum { OPENER_STACK = 1 << 20 };
#define OPENER_LOG_NS (5 * 1000000000ull)

struct open_task_log {
	struct opening *opening;
	uint64_t last_ns;
};

static int open_task_progress(void *context, uint64_t samples, uint64_t bytes, uint64_t total)
{
	struct open_task_log *log = context;
	struct opening *opening = log->opening;
	atomic_store_explicit(&opening->samples, samples, memory_order_relaxed);
	atomic_store_explicit(&opening->bytes, bytes, memory_order_relaxed);
	atomic_store_explicit(&opening->total, total, memory_order_relaxed);
	uint64_t now = clock_ns();
	if (now - log->last_ns > OPENER_LOG_NS) {
		char call[SPEC_CALL];
		log->last_ns = now;
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

static void *open_task_main(void *argument)
{
	struct opening *opening = argument;
	struct server *server = opening->server;
	(void)pthread_setname_np(pthread_self(), "penstock-open");
	struct open_task_log log = {.opening = opening, .last_ns = clock_ns()};
	opening->result = stream_new(&server->environment, &opening->spec, &opening->lists,
		open_task_progress, &log, &opening->stream, &opening->fault);
	pthread_mutex_lock(&server->opened_lock);
	opening->next = server->opened;
	server->opened = opening;
	pthread_mutex_unlock(&server->opened_lock);
	server->environment.wake(server->environment.wake_context);
	return NULL;
}

int open_task_thread(pthread_t *ret, void *(*run)(void *argument), void *argument)
{
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, OPENER_STACK);
	int result = pthread_create(ret, &attr, run, argument);
	pthread_attr_destroy(&attr);
	return result;
}

int open_task_start(struct server *server, struct group *group, const struct stream_spec *spec,
	struct fault *fault)
{
	struct opening *opening = calloc(1, sizeof *opening);
	if (!opening)
		return fault_set(fault, -ENOMEM, "no memory to open a stream");
	opening->server = server;
	opening->group = group;
	opening->spec = *spec;
	opening->lists = group->lists;
	int result = open_task_thread(&opening->thread, open_task_main, opening);
	if (result) {
		free(opening);
		return fault_set(fault, -result,
			"cannot start a thread to open %s: %s; raise the limit on processes "
			"(ulimit -u)",
			spec->source, strerror(result));
	}
	group->lists = (struct sampling_lists){0};
	group->opening = opening;
	opening->peer =
		group->peer ? peer_charge(&server->peers, &group->peer->name, PEER_OPENINGS) : NULL;
	server->openings++;
	return 0;
}

void open_task_collect(struct server *server)
{
	pthread_mutex_lock(&server->opened_lock);
	struct opening *list = server->opened;
	server->opened = NULL;
	pthread_mutex_unlock(&server->opened_lock);
	while (list) {
		struct opening *opening = list;
		list = opening->next;
		pthread_join(opening->thread, NULL);
		server->openings--;
		join_opened(opening);
		peer_discharge(&server->peers, opening->peer, PEER_OPENINGS);
		free(opening);
	}
}

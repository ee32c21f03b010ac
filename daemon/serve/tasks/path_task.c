/* path_task: answers which file a sample is (WIRE_QUERY_PATH).
 *
 * The answer is read from the dataset's index, whose storage may hang. So a thread looks up
 * everything that was asked of a stream, at once; requests that come meanwhile wait for the next
 * thread. The stream stays until the thread is done; the client that asked may be gone by then.
 *
 * The thread owns `result` and `text` of the requests in `asked`. */
#include "serve/tasks/tasks.h"

#include "serve/session/session.h"
#include "serve/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_TASK_MOST = 128 }; /* requests of a stream that are not yet answered */

struct path_request {
	struct list_node node;
	struct client *client; /* NULL: gone */
	struct wire_head head; /* of its WIRE_QUERY */
	uint64_t sample;
	int result;
	char *text; /* the path, or why there is none; NULL: no memory */
};

static void path_task_run(void *argument)
{
	struct group *group = argument;
	list_each (request, &group->paths.asked, struct path_request, node) {
		struct fault fault;
		char path[8192 + 64];
		request->result = concat_path(stream_samples_of(group->stream), request->sample,
			path, sizeof path, &fault);
		request->text = strdup(request->result ? fault.text : path);
	}
}

static void path_task_answer(const struct path_request *request)
{
	const struct wire_head *head = &request->head;
	if (request->client && request->result && request->text)
		client_error(request->client, head->request, head->stream, request->result,
			request->text);
	else if (request->client)
		answer_send(request->client, head, request->text);
}

static void path_task_answer_all(struct path_task *paths)
{
	struct path_request *request;
	while ((request = list_take(&paths->asked, struct path_request, node))) {
		paths->count--;
		path_task_answer(request);
		free(request->text);
		free(request);
	}
}

static void path_task_start(struct group *group)
{
	struct path_task *paths = &group->paths;
	list_join(&paths->asked, &paths->waiting);
	/* Without a thread the clients are told that there is no memory for the answer. */
	if (loop_start_task(
		    &group->server->loop, &paths->task, "penstock-names", path_task_run, group))
		path_task_answer_all(paths);
}

void path_task_ask(struct client *client, const struct wire_query *query, struct group *group)
{
	struct path_task *paths = &group->paths;
	if (paths->count >= PATH_TASK_MOST) {
		client_error(client, query->head.request, query->head.stream, -EBUSY,
			"too many paths were asked for that storage has not given yet: wait for "
			"the answers");
		return;
	}
	struct path_request *request = calloc(1, sizeof *request);
	if (!request) {
		answer_send(client, &query->head, NULL);
		return;
	}
	request->client = client;
	request->head = query->head;
	request->sample = query->argument;
	list_append(&paths->waiting, &request->node);
	paths->count++;
	if (!paths->task.running)
		path_task_start(group);
}

bool path_task_collect(struct group *group)
{
	struct path_task *paths = &group->paths;
	if (!paths->task.running)
		return false;
	if (!task_collect(&paths->task))
		return true;
	path_task_answer_all(paths);
	if (!list_is_empty(&paths->waiting))
		path_task_start(group);
	return paths->task.running;
}

static void path_task_forget(const struct list_head *list, const struct client *client)
{
	list_each (request, list, struct path_request, node)
		if (request->client == client)
			request->client = NULL;
}

void path_task_leave(const struct client *client)
{
	list_each (group, &client->server->groups, struct group, node) {
		path_task_forget(&group->paths.asked, client);
		path_task_forget(&group->paths.waiting, client);
	}
}

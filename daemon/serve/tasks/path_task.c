/* path_task: answers which file a sample is (WIRE_QUERY_PATH), and which labels and files samples
 * have (WIRE_QUERY_SAMPLES).
 *
 * The answer is read from the dataset's index, whose storage may hang. So a thread looks up
 * everything that was asked of a stream, at once; requests that come meanwhile wait for the next
 * thread. The stream stays until the thread is done; the client that asked may be gone by then.
 *
 * The thread owns `result` and `text` of the requests in `asked`. */
#include "serve/tasks/tasks.h"

#include "base/util.h"
#include "proto/text.h"
#include "serve/session/session.h"
#include "serve/state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_TASK_MOST = 128 }; /* requests of a stream that are not yet answered */

struct path_request {
	struct list_node node;
	struct client *client; /* NULL: gone */
	struct wire_head head; /* of its WIRE_QUERY */
	bool many; /* WIRE_QUERY_SAMPLES */
	uint64_t sample;
	int result;
	char *text; /* the answer, or why there is none; NULL: no memory */
};

/* `values` has room for a label of the dataset. */
static int path_task_label(const struct dataset *dataset, uint64_t number, void *values,
	struct text *text, struct fault *fault)
{
	struct sample sample;
	const enum label_type type = dataset_label_type(dataset);
	if (type == LABEL_TYPE_CLASS) {
		int result = dataset_sample(dataset, number, &sample, fault);
		text_print(text, "%" PRId64, result ? -1 : sample.label);
		return result;
	}
	int result = dataset_sample_values(dataset, number, values, fault);
	for (uint32_t i = 0; !result && i < dataset_label_width(dataset); i++) {
		text_put(text, i ? "," : "");
		if (type == LABEL_TYPE_CLASSES)
			text_print(text, "%" PRId64, ((const int64_t *)values)[i]);
		else
			text_print(text, "%.9g", (double)((const float *)values)[i]);
	}
	return result;
}

static void path_task_put(struct text *text, const char *path)
{
	text_put(text, " ");
	for (; *path; path++) {
		if (*path == '\\' || *path == '\n')
			text_put(text, *path == '\n' ? "\\n" : "\\\\");
		else
			text_put_bytes(text, path, 1);
	}
	text_put(text, "\n");
}

/* A line for each sample from `first` on. A label may have 65,536 values, so the bytes are bounded
 * too. */
static int path_task_lines(
	const struct concat *samples, uint64_t first, struct text *text, struct fault *fault)
{
	uint64_t end = UTIL_MIN(concat_samples(samples), first + WIRE_SAMPLES_MOST);
	void *values = malloc(dataset_label_bytes(samples->dataset[0]) + 1); /* of each dataset */
	if (!values)
		return fault_set(fault, -ENOMEM, "no memory for labels");
	int result = 0;
	for (uint64_t i = first; !result && i < end && text->size < WIRE_SAMPLES_BYTES; i++) {
		char path[8192 + 64];
		struct sampler_pick pick = concat_find(samples, i);
		result = path_task_label(
			samples->dataset[pick.part], pick.number, values, text, fault);
		if (!result)
			result = concat_path(samples, i, path, sizeof path, fault);
		if (!result)
			path_task_put(text, path);
	}
	free(values);
	return result;
}

static void path_task_look(const struct concat *samples, struct path_request *request)
{
	struct fault fault;
	struct text text = {0};
	char path[8192 + 64];
	if (request->many) {
		request->result = path_task_lines(samples, request->sample, &text, &fault);
		request->text = request->result ? strdup(fault.text) : text_take(&text);
		text_free(&text);
		return;
	}
	request->result = concat_path(samples, request->sample, path, sizeof path, &fault);
	request->text = strdup(request->result ? fault.text : path);
}

static void path_task_run(void *argument)
{
	struct group *group = argument;
	list_each (request, &group->paths.asked, struct path_request, node)
		path_task_look(stream_samples_of(group->stream), request);
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
	request->many = query->kind == WIRE_QUERY_SAMPLES;
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

/* messages: what a client sends.
 *
 * Length, type, and numbers of streams and slots are checked before anything is used. A message
 * that breaks the protocol gets one WIRE_ERROR, and the connection is closed. A request that
 * cannot be granted gets a WIRE_ERROR, and the connection stays. */
#define LOG_TOPIC LOG_TRAINER
#include "serve/session/session.h"

#include "base/log.h"
#include "base/nearest.h"
#include "base/util.h"
#include "proto/text.h"
#include "serve/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGES_TURN = 16 }; /* of one client in a turn of the loop */

static void messages_protocol_error(
	struct client *client, const struct wire_head *head, const char *text)
{
	if (log_limit_may(&client->server->log_limits, LOG_LIMIT_OFFENCE))
		log_warning("trainer %d breaks the protocol: %s", client->pid, text);
	client_error(client, head ? head->request : 0, 0, -EPROTO, text);
	client_close(client, "protocol error");
}

static void messages_hello(struct client *client, const struct conn_message *message)
{
	const struct wire_hello *hello = conn_view(message, WIRE_HELLO, sizeof *hello, 0);
	if (!hello || hello->magic != WIRE_MAGIC || !hello->head.request) {
		messages_protocol_error(
			client, &message->head, "expected penstock's hello as the first message");
		return;
	}
	if (hello->version_min > WIRE_VERSION_MAX || hello->version_max < WIRE_VERSION_MIN ||
		hello->version_min > hello->version_max) {
		char text[200];
		(void)snprintf(text, sizeof text,
			"penstockd %s speaks protocol %d to %d, the client %u to %u: install the "
			"same release of both",
			PENSTOCK_VERSION, WIRE_VERSION_MIN, WIRE_VERSION_MAX, hello->version_min,
			hello->version_max);
		messages_protocol_error(client, &message->head, text);
		return;
	}
	client->hello = true;
	client->features = hello->features &
			   (WIRE_FEATURE_GROUPS | WIRE_FEATURE_FIELDS | WIRE_FEATURE_BUCKETS);
	struct wire_welcome welcome = {
		.head = {.type = WIRE_WELCOME, .request = message->head.request},
		.magic = WIRE_MAGIC,
		.version = UTIL_MIN(hello->version_max, (uint32_t)WIRE_VERSION_MAX),
		.pid = getpid(),
		.features = client->features,
		.text_bytes = sizeof PENSTOCK_VERSION - 1,
	};
	client_send(
		client, &welcome.head, sizeof welcome, PENSTOCK_VERSION, welcome.text_bytes, -1);
}

/* "; did you mean train?", or ", which has train, val"; "" where there are none. */
static void messages_other_streams(
	const struct config *config, const char *name, char *text, size_t room)
{
	struct nearest nearest = nearest_to(name);
	size_t used = 0;
	text[0] = 0;
	for (uint32_t i = 0; i < config->stream_count; i++)
		nearest_try(&nearest, config->stream[i].name);
	const char *near = nearest_found(&nearest);
	if (near) {
		(void)snprintf(text, room, "; did you mean %s?", near);
		return;
	}
	for (uint32_t i = 0; i < config->stream_count && used < room; i++)
		used += (size_t)snprintf(text + used, room - used, "%s%s",
			i ? ", " : ", which has ", config->stream[i].name);
	if (used >= room)
		memcpy(text + room - 4, "...", 4);
}

static int messages_unknown_stream(
	const struct config *config, const char *name, struct fault *fault)
{
	char others[256];
	messages_other_streams(config, name, others, sizeof others);
	return fault_set(fault, -ENOENT, "no stream named %s in %s%s%s", name,
		config->file[0] ? config->file
				: "the configuration (this penstockd was started without one)",
		others, others[0] == ';' ? "" : ": add it there, or name a folder or tars");
}

/* `stream: NAME` becomes the configuration's definition; the keys that a client may set beside
 * it are kept. */
static int messages_named_stream(
	const struct server *server, struct stream_spec *spec, struct fault *fault)
{
	const struct config *config = server->config;
	if (!spec->name[0] && config->open_streams == CONFIG_OPEN_NAMED)
		return fault_set(fault, -EACCES,
			"this penstockd opens only the streams that its configuration names "
			"(open_streams: named): open one of them as stream:NAME, or have yours "
			"added there");
	if (!spec->name[0])
		return 0;
	for (uint32_t i = 0; i < config->stream_count; i++) {
		if (strcmp(config->stream[i].name, spec->name) != 0)
			continue;
		spec_overlay(&config->stream[i], spec);
		return 0;
	}
	return messages_unknown_stream(config, spec->name, fault);
}

/* A client that does not know a feature would misread the batches. */
static int messages_check_features(
	const struct client *client, const struct stream_spec *spec, struct fault *fault)
{
	if (spec->buckets.count && !(client->features & WIRE_FEATURE_BUCKETS))
		return fault_set(fault, -ENOTSUP,
			"the stream has buckets, whose states the trainer's libpenstock does not "
			"know: install the release of this penstockd (%s)",
			PENSTOCK_VERSION);
	if (spec->fields.count && !(client->features & WIRE_FEATURE_FIELDS))
		return fault_set(fault, -ENOTSUP,
			"the stream has fields, which the trainer's libpenstock does not know: "
			"install the release of this penstockd (%s), or open a stream without "
			"fields",
			PENSTOCK_VERSION);
	if (spec->views.groups && !(client->features & WIRE_FEATURE_GROUPS))
		return fault_set(fault, -ENOTSUP,
			"the stream's views are divided into groups, which the trainer's "
			"libpenstock, or the program that it was compiled for, does not know: "
			"install the release of this penstockd (%s) and build the program with it",
			PENSTOCK_VERSION);
	return 0;
}

static void messages_open(struct client *client, const struct conn_message *message)
{
	const struct wire_open *open =
		conn_view(message, WIRE_OPEN, sizeof *open, offsetof(struct wire_open, text_bytes));
	struct fault fault;
	if (!open || !open->head.stream || !open->head.request ||
		session_find_member(client, open->head.stream) ||
		lists_task_is(client, open->head.stream)) {
		messages_protocol_error(client, &message->head,
			"an open needs a request number and a stream number that is not in use");
		return;
	}
	const struct wire_head *head = &open->head;
	unsigned streams = lists_task_count(client);
	list_each (m, &client->members, struct member, of_client)
		streams++;
	if (client->server->draining || streams >= SESSION_STREAMS) {
		client_error(client, head->request, head->stream,
			client->server->draining ? -ESHUTDOWN : -EBUSY,
			client->server->draining ? "penstockd is ending: connect again in a moment"
						 : "one client may have 16 streams");
		return;
	}
	struct stream_spec *spec = malloc(sizeof *spec);
	int result = spec ? spec_parse((const char *)(open + 1), open->text_bytes, "open request",
				    spec, &fault)
			  : fault_set(&fault, -ENOMEM, "no memory to open a stream");
	if (!result)
		result = messages_named_stream(client->server, spec, &fault);
	if (!result)
		result = spec_check_share(spec, &fault);
	if (!result)
		result = messages_check_features(client, spec, &fault);
	if (result)
		client_error(client, head->request, head->stream, result, fault.text);
	else if (spec_has_lists(spec))
		lists_task_open(client, head, spec);
	else
		join_open(client, head, spec, &(struct sampling_lists){0});
	free(spec);
}

/* The daemon may just have ended the stream: then the message is ignored. */
static void messages_release(struct client *client, const struct conn_message *message)
{
	const struct wire_release *release = conn_view(message, WIRE_RELEASE, sizeof *release, 0);
	struct member *m = release ? session_find_member(client, release->head.stream) : NULL;
	if (release && !m)
		return;
	if (!release || !m->answered || release->extent != m->group->extent_number ||
		!tally_holds(stream_tally(m->group->stream), &m->reader, release->slot,
			release->serial)) {
		messages_protocol_error(
			client, &message->head, "released a batch that it does not hold");
		return;
	}
	lease_return(m, release->slot);
	group_turn(m->group);
}

static void messages_close_stream(struct client *client, const struct conn_message *message)
{
	const struct wire_close *close_message =
		conn_view(message, WIRE_CLOSE, sizeof *close_message, 0);
	struct member *m =
		close_message ? session_find_member(client, close_message->head.stream) : NULL;
	if (!close_message)
		messages_protocol_error(client, &message->head, "malformed close");
	else if (m)
		group_leave(m);
	else
		lists_task_close(client, close_message->head.stream);
}

static char *messages_classes(const struct group *group)
{
	const struct dataset *dataset = stream_dataset(group->stream);
	struct text text = {0};
	for (uint32_t i = 0; i < dataset_classes(dataset); i++)
		text_print(&text, "%s\n", dataset_class_name(dataset, i));
	return text_take(&text);
}

static void messages_query_path(
	struct client *client, const struct wire_query *query, struct group *group)
{
	const struct concat *parts = stream_samples_of(group->stream);
	struct fault fault;
	if (query->argument < concat_samples(parts)) {
		path_task_ask(client, query, group);
		return;
	}
	int result = concat_path(parts, query->argument, NULL, 0, &fault);
	client_error(client, query->head.request, query->head.stream, result, fault.text);
}

static void messages_query_stream(struct client *client, const struct wire_query *query)
{
	struct member *m = session_find_member(client, query->head.stream);
	char wait[512];
	char *text = NULL;
	if (!m || !m->answered) {
		client_error(client, query->head.request, query->head.stream, -EINVAL,
			m || lists_task_is(client, query->head.stream)
				? "the stream is still being opened"
				: "no such stream");
		return;
	}
	switch (query->kind) {
	case WIRE_QUERY_STREAM:
		text = status_stream(m->group);
		break;
	case WIRE_QUERY_CLASSES:
		text = messages_classes(m->group);
		break;
	case WIRE_QUERY_CONFIG:
		text = spec_json(stream_spec(m->group->stream));
		break;
	case WIRE_QUERY_PATH:
	case WIRE_QUERY_SAMPLES:
		messages_query_path(client, query, m->group);
		return;
	default:
		status_wait(m->group, wait, sizeof wait);
		answer_send(client, &query->head, wait);
		return;
	}
	answer_send(client, &query->head, text);
	free(text);
}

static void messages_query(struct client *client, const struct conn_message *message)
{
	const struct wire_query *query = conn_view(message, WIRE_QUERY, sizeof *query, 0);
	if (!query || !query->head.request) {
		messages_protocol_error(
			client, &message->head, "a query is malformed or has no request number");
	} else if (query->kind < WIRE_QUERY_STATUS || query->kind > WIRE_QUERY_SAMPLES) {
		/* A newer client may know more queries. */
		client_error(client, query->head.request, query->head.stream, -EINVAL,
			"this penstockd does not know this query: install the same release of "
			"daemon and client");
	} else if (query->kind == WIRE_QUERY_STATUS) {
		char *text = status_server(client->server);
		answer_send(client, &query->head, text);
		free(text);
	} else {
		messages_query_stream(client, query);
	}
}

static void messages_stop(struct client *client, const struct conn_message *message)
{
	const struct wire_stop *stop = conn_view(message, WIRE_STOP, sizeof *stop, 0);
	if (!stop || !stop->head.request) {
		messages_protocol_error(
			client, &message->head, "a stop is malformed or has no request number");
		return;
	}
	answer_send(client, &stop->head, "");
	if (client->server->draining)
		return;
	log_info("process %d asks to stop", client->pid);
	recorder_ending(client->server, "asked", "by penstock stop");
	drain_begin(client->server);
}

/* A request has a number, which its answer repeats. */
static bool messages_is_request(uint32_t type)
{
	return type == WIRE_HELLO || type == WIRE_OPEN || type == WIRE_QUERY || type == WIRE_STOP;
}

static void messages_handle(struct client *client, const struct conn_message *message)
{
	if (messages_is_request(message->head.type) && !message->head.request) {
		messages_protocol_error(client, &message->head,
			"a request has the number 0: expected another number");
		return;
	}
	if (!client->hello) {
		messages_hello(client, message);
		return;
	}
	switch (message->head.type) {
	case WIRE_OPEN:
		messages_open(client, message);
		return;
	case WIRE_RELEASE:
		messages_release(client, message);
		return;
	case WIRE_CLOSE:
		messages_close_stream(client, message);
		return;
	case WIRE_QUERY:
		messages_query(client, message);
		return;
	case WIRE_STOP:
		messages_stop(client, message);
		return;
	default:
		messages_protocol_error(client, &message->head, "unknown type of message");
	}
}

static bool messages_is_costly(const struct conn_message *message)
{
	return message->head.type == WIRE_OPEN || message->head.type == WIRE_QUERY;
}

/* Takes one message. False when there was none, or the client is gone. */
static bool messages_take(struct client *client, struct conn_message *message)
{
	int result = conn_receive_plain(client->fd, message);
	if (result == -EAGAIN)
		return false;
	if (result == CONN_E_FDS)
		messages_protocol_error(client, NULL, "a client may send no descriptors");
	else if (result == CONN_E_MALFORMED)
		messages_protocol_error(client, NULL, "malformed message");
	else if (result)
		client_lost(client, result);
	else
		messages_handle(client, message);
	return !client->dead;
}

/* A few messages a turn, so that a client that floods the daemon does not keep others waiting;
 * and fewer of those that cost something, counted over all connections of a process. The rest is
 * read in the next turn. */
void messages_read(struct client *client)
{
	/* 64 KiB are much for a stack, and the event loop is one thread. */
	static struct conn_message message;
	uint64_t turn = client->server->turn;
	for (int i = 0; i < MESSAGES_TURN && peer_has_turn(client->peer, turn) &&
			messages_take(client, &message);
		i++)
		if (messages_is_costly(&message))
			peer_spend(client->peer);
}

/* client: one connection and its messages.
 *
 * Everything a client sends is checked before it is used: length, type, numbers of streams and
 * slots. What breaks the protocol gets one WIRE_ERROR and the connection is closed; what is merely
 * wrong gets a WIRE_ERROR and the connection lives. A client that does not read its socket until
 * the buffer is full of answers is closed. A client dies by hang-up or by its pidfd, whichever is
 * seen first: a forked child may keep a dead trainer's socket open. */
#define LOG_TOPIC LOG_TRAINER
#include "serve/serve_impl.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/util.h"
#include "base/yaml.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum {
	CLIENT_INLINE_MAX = 32768,
	CLIENT_MESSAGES = 16, /* handled in a turn */
	CLIENT_ACCEPTS = 16,
};

/* ---- life ---- */

/* Turns a connection away with a sentence: there is no struct client to speak through yet. */
static void client_turn_away(int fd, int code, const char *text)
{
	struct wire_error error = {
		.head.type = WIRE_ERROR, .code = code, .text_bytes = (uint32_t)strlen(text)};
	(void)conn_send(fd, true, &error.head, sizeof error, text, strlen(text), -1);
	(void)close(fd);
}

/* Connections of one process are one process to its device. */
static uint64_t client_gpu_peak(const struct server *server, pid_t pid)
{
	uint64_t peak = 0;
	for (const struct client *c = server->clients; c && pid; c = c->next)
		if (c->pid == pid)
			peak = UTIL_MAX(peak, c->gpu_peak_bytes);
	return peak;
}

static const char client_unwatched[] =
	"a trainer could not connect: no memory to watch it; raise fs.epoll.max_user_watches";

static int client_watch(struct client *client)
{
	int result = server_watch(client->server, client->fd, EPOLLIN, &client->socket_watch);
	if (!result && client->pidfd >= 0)
		result = server_watch(client->server, client->pidfd, EPOLLIN, &client->pid_watch);
	return result;
}

static void client_begin(
	struct server *server, int fd, int pidfd, const struct peer_name *name, struct peer *peer)
{
	struct client *client = calloc(1, sizeof *client);
	if (!client) {
		peer_discharge(&server->peers, peer, PEER_CLIENTS);
		if (pidfd >= 0)
			(void)close(pidfd);
		client_turn_away(fd, -ENOMEM, "no memory for another client");
		return;
	}
	*client = (struct client){.server = server,
		.fd = fd,
		.pid = name->pid,
		.pidfd = pidfd,
		.name = *name,
		.peer = peer,
		.since_ns = clock_ns(),
		.gpu_peak_bytes = client_gpu_peak(server, name->pid)};
	client->socket_watch = (struct watch){WATCH_CLIENT, client};
	client->pid_watch = (struct watch){WATCH_PIDFD, client};
	int result = client_watch(client);
	if (result) {
		peer_discharge(&server->peers, peer, PEER_CLIENTS);
		if (pidfd >= 0)
			(void)close(pidfd);
		free(client);
		server_notice(server, client_unwatched);
		client_turn_away(fd, result, client_unwatched);
		return;
	}
	client->next = server->clients;
	server->clients = client;
	server->client_count++;
}

/* Who comes in: this user's processes and root's, as far as the quotas go. */
static void client_admit(struct server *server, int fd)
{
	struct peer_name name = {0};
	struct fault fault = {{0}};
	int pidfd = -1, result = peer_look(fd, &name, &pidfd);
	if (result == 0 && pidfd == -ESRCH) {
		/* A child of the dead may hold the socket: it would never hang up. */
		(void)close(fd);
		return;
	}
	if (result || (name.uid != geteuid() && name.uid != 0))
		result = fault_set(
			&fault, -EACCES, "this penstockd belongs to another user: start your own");
	else
		result = peer_may(&server->peers, &name, PEER_CLIENTS, &fault);
	struct peer *peer = result ? NULL : peer_charge(&server->peers, &name, PEER_CLIENTS);
	if (!result && !peer)
		result = fault_set(&fault, -ENOMEM, "no memory for another client");
	if (result) {
		if (pidfd >= 0)
			(void)close(pidfd);
		if (log_limit_may(server, LOG_LIMIT_OFFENCE))
			log_warning("process %d is turned away: %s", (int)name.pid, fault.text);
		client_turn_away(fd, result, fault.text);
		return;
	}
	client_begin(server, fd, pidfd, &name, peer);
}

static bool client_accept_one(struct server *server)
{
	int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) {
		if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
			return false;
		server_notice(server, errno == EMFILE || errno == ENFILE
					      ? "a trainer could not connect: no file "
						"descriptors left; raise ulimit -n"
					      : "a trainer could not connect");
		server_deafen(server, true);
		return false;
	}
	client_admit(server, fd);
	return true;
}

/* Several a turn: who connects in a loop, and is turned away, must not keep others waiting. */
void client_accept(struct server *server)
{
	for (int i = 0; i < CLIENT_ACCEPTS && client_accept_one(server);)
		i++;
}

const char client_hung_up[] = "hung up", client_process_ended[] = "process ended",
	   client_daemon_ends[] = "the daemon ends";

void client_close(struct client *client, const char *why)
{
	if (client->dead)
		return;
	recorder_leave(client, why);
	client->dead = true;
	log_debug("process %d: %s", client->pid, why); /* a tool, too */
	/* Closing takes the socket out of epoll, but not the pidfd, which the flight recorder's
	 * process has too; events already fetched in this turn see `dead`. */
	(void)close(client->fd);
	if (client->pidfd >= 0) {
		(void)epoll_ctl(client->server->epoll_fd, EPOLL_CTL_DEL, client->pidfd, NULL);
		(void)close(client->pidfd);
	}
	client->fd = client->pidfd = -1;
}

void client_bury(struct server *server)
{
	bool again = true;
	while (again) {
		again = false;
		/* Leaving may close others: look at the whole list once more. */
		for (struct client *c = server->clients; c; c = c->next) {
			if (c->dead) {
				lists_task_leave(c);
				path_task_leave(c);
			}
			while (c->dead && c->members) {
				group_leave(c->members);
				again = true;
			}
		}
	}
}

void client_sweep(struct server *server)
{
	bool served = false;
	client_bury(server);
	for (struct client **place = &server->clients; *place;) {
		struct client *client = *place;
		if (!client->dead) {
			place = &client->next;
			continue;
		}
		*place = client->next;
		server->client_count--;
		peer_discharge(&server->peers, client->peer, PEER_CLIENTS);
		served |= client->record.number != 0;
		free(client);
	}
	/* Who only asks does not keep an idle daemon: a client that looks for its own one again and
	 * again would keep this one, and its socket, for ever. */
	if (served)
		server->used_ns = clock_ns();
	if (!server->client_count && !server->idle_since_ns)
		server->idle_since_ns = server->used_ns;
	else if (server->client_count)
		server->idle_since_ns = 0;
}

void client_want_write(struct client *client, bool want)
{
	if (client->dead || client->want_write == want)
		return;
	client->want_write = want;
	struct epoll_event event = {
		.events = EPOLLIN | (want ? EPOLLOUT : 0u), .data.ptr = &client->socket_watch};
	(void)epoll_ctl(client->server->epoll_fd, EPOLL_CTL_MOD, client->fd, &event);
}

/* Whose socket neither takes nor gives: one that does not read is the client's doing, the rest the
 * kernel's (no memory, too many descriptors under way), and is told, since the client sees its
 * daemon hang up. */
void client_lost(struct client *client, int result)
{
	if (client->dead || result > 0) {
		client_close(client, client_hung_up);
		return;
	}
	const char *why = result == -EAGAIN ? "it does not read its socket" : strerror(-result);
	if (log_limit_may(client->server, LOG_LIMIT_OFFENCE))
		log_warning("process %d is disconnected: %s", client->pid, why);
	client_close(client, result == -EAGAIN ? "does not read its socket" : "its socket failed");
}

/* ---- sending ---- */

void client_send(struct client *client, struct wire_head *head, size_t bytes, const void *text,
	size_t text_bytes, int fd)
{
	if (client->dead)
		return;
	int result = conn_send(client->fd, true, head, bytes, text, text_bytes, fd);
	if (result)
		client_lost(client, result);
}

void client_error(
	struct client *client, uint32_t request, uint32_t stream, int code, const char *text)
{
	struct wire_error error = {
		.head = {.type = WIRE_ERROR, .request = request, .stream = stream},
		.code = code,
		.text_bytes = (uint32_t)strlen(text),
	};
	client_send(client, &error.head, sizeof error, text, strlen(text), -1);
}

static void client_protocol_error(
	struct client *client, const struct wire_head *head, const char *text)
{
	if (log_limit_may(client->server, LOG_LIMIT_OFFENCE))
		log_warning("trainer %d breaks the protocol: %s", client->pid, text);
	client_error(client, head ? head->request : 0, 0, -EPROTO, text);
	client_close(client, "protocol error");
}

static int client_fill(int fd, const char *text, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = write(fd, text + done, size - done);
		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
	return fcntl(fd, F_ADD_SEALS, seals) ? -errno : 0;
}

static int client_text_loan(const char *text, size_t size, struct handout *ret, struct fault *fault)
{
	int fd = memfd_create("penstock-answer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int result = fd < 0 ? -errno : client_fill(fd, text, size);
	if (result) {
		if (fd >= 0)
			(void)close(fd);
		return fault_set(fault, result, "no memory for the answer: %s", strerror(-result));
	}
	*ret = handout_make(fd, false);
	return 0;
}

/* A text too long for one message goes as a sealed memfd, which counts until the client has let go
 * of it. */
static int client_answer_long(
	struct client *client, struct wire_answer *answer, const char *text, struct fault *fault)
{
	struct server *server = client->server;
	struct handout loan;
	int line;
	handouts_sweep(server);
	int result = peer_may(&server->peers, &client->name, PEER_ANSWERS, fault);
	if (!result)
		result = ledger_reserve(
			&server->ledger, answer->total_bytes, "a long answer", &line, fault);
	if (result)
		return result;
	result = client_text_loan(text, answer->total_bytes, &loan, fault);
	if (result) {
		ledger_release(&server->ledger, line);
		return result;
	}
	client_send(client, &answer->head, sizeof *answer, NULL, 0, loan.give);
	handout_end(&loan);
	handouts_keep(server, peer_charge(&server->peers, &client->name, PEER_ANSWERS),
		PEER_ANSWERS, loan, line, answer->total_bytes);
	return 0;
}

void client_answer(struct client *client, const struct wire_head *head, const char *text)
{
	struct wire_answer answer = {
		.head = {.type = WIRE_ANSWER, .request = head->request, .stream = head->stream}};
	if (!text) {
		client_error(
			client, head->request, head->stream, -ENOMEM, "no memory for the answer");
		return;
	}
	answer.total_bytes = strlen(text);
	if (answer.total_bytes <= CLIENT_INLINE_MAX) {
		answer.text_bytes = (uint32_t)answer.total_bytes;
		client_send(client, &answer.head, sizeof answer, text, answer.text_bytes, -1);
		return;
	}
	struct fault fault;
	int result = client_answer_long(client, &answer, text, &fault);
	if (result)
		client_error(client, head->request, head->stream, result, fault.text);
}

/* ---- messages ---- */

static void client_hello(struct client *client, const struct conn_message *message)
{
	const struct wire_hello *hello = conn_view(message, WIRE_HELLO, sizeof *hello, 0);
	if (!hello || hello->magic != WIRE_MAGIC || !hello->head.request) {
		client_protocol_error(
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
		client_protocol_error(client, &message->head, text);
		return;
	}
	client->hello = true;
	struct wire_welcome welcome = {
		.head = {.type = WIRE_WELCOME, .request = message->head.request},
		.magic = WIRE_MAGIC,
		.version = UTIL_MIN(hello->version_max, (uint32_t)WIRE_VERSION_MAX),
		.pid = getpid(),
		.text_bytes = sizeof PENSTOCK_VERSION - 1,
	};
	client_send(
		client, &welcome.head, sizeof welcome, PENSTOCK_VERSION, welcome.text_bytes, -1);
}

/* "; did you mean train?", or ", which has train, val"; "" without any. */
static void client_other_streams(
	const struct config *config, const char *name, char *text, size_t room)
{
	cleanup(free_ptr) const char **names =
		calloc((size_t)config->stream_count + 1, sizeof *names);
	size_t used = 0;
	text[0] = 0;
	if (!names || !config->stream_count)
		return;
	for (uint32_t i = 0; i < config->stream_count; i++)
		names[i] = config->stream[i].name;
	const char *near = nearest_of(name, names);
	if (near) {
		(void)snprintf(text, room, "; did you mean %s?", near);
		return;
	}
	for (uint32_t i = 0; i < config->stream_count && used < room; i++)
		used += (size_t)snprintf(
			text + used, room - used, "%s%s", i ? ", " : ", which has ", names[i]);
	if (used >= room)
		memcpy(text + room - 4, "...", 4);
}

static int client_unknown_stream(const struct config *config, const char *name, struct fault *fault)
{
	char others[256];
	client_other_streams(config, name, others, sizeof others);
	return fault_set(fault, -ENOENT, "no stream named %s in %s%s%s", name,
		config->file[0] ? config->file
				: "the configuration (this penstockd was started without one)",
		others, others[0] == ';' ? "" : ": add it there, or name a folder or tars");
}

/* `stream: NAME` becomes the configuration's definition; what a client may say beside it is kept.
 */
static int client_named_stream(
	const struct server *server, struct stream_spec *spec, struct fault *fault)
{
	const struct config *config = server->config;
	if (!spec->name[0] && config->open_streams == CONFIG_OPEN_NAMED)
		return fault_set(fault, -EACCES,
			"this penstockd opens only the streams that its configuration names "
			"(open_streams: named): open one as stream:NAME, or have it added there");
	if (!spec->name[0])
		return 0;
	for (uint32_t i = 0; i < config->stream_count; i++) {
		if (strcmp(config->stream[i].name, spec->name) != 0)
			continue;
		spec_overlay(&config->stream[i], spec);
		return 0;
	}
	return client_unknown_stream(config, spec->name, fault);
}

static void client_open(struct client *client, const struct conn_message *message)
{
	const struct wire_open *open =
		conn_view(message, WIRE_OPEN, sizeof *open, offsetof(struct wire_open, text_bytes));
	struct fault fault;
	if (!open || !open->head.stream || !open->head.request ||
		group_find_member(client, open->head.stream) ||
		lists_task_is(client, open->head.stream)) {
		client_protocol_error(client, &message->head,
			"an open needs a request number and a stream number that is not in use");
		return;
	}
	const struct wire_head *head = &open->head;
	unsigned streams = lists_task_count(client);
	for (const struct member *m = client->members; m; m = m->next_of_client)
		streams++;
	if (client->server->draining || streams >= SERVE_STREAMS_PER_CLIENT) {
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
		result = client_named_stream(client->server, spec, &fault);
	if (!result)
		result = spec_check_share(spec, &fault);
	if (result)
		client_error(client, head->request, head->stream, result, fault.text);
	else if (spec_has_lists(spec))
		lists_task_open(client, head, spec);
	else
		join_open(client, head, spec, &(struct sampling_lists){0});
	free(spec);
}

/* A stream that the daemon has just ended may still be spoken of: such messages are passed over. */
static void client_release(struct client *client, const struct conn_message *message)
{
	const struct wire_release *release = conn_view(message, WIRE_RELEASE, sizeof *release, 0);
	struct member *m = release ? group_find_member(client, release->head.stream) : NULL;
	if (release && !m)
		return;
	if (!release || !m->answered || release->extent != m->group->extent_number ||
		!tally_holds(stream_tally(m->group->stream), &m->reader, release->slot,
			release->serial)) {
		client_protocol_error(
			client, &message->head, "released a batch that it does not hold");
		return;
	}
	group_released(m, release->slot);
}

static void client_close_stream(struct client *client, const struct conn_message *message)
{
	const struct wire_close *close_message =
		conn_view(message, WIRE_CLOSE, sizeof *close_message, 0);
	struct member *m =
		close_message ? group_find_member(client, close_message->head.stream) : NULL;
	if (!close_message)
		client_protocol_error(client, &message->head, "malformed close");
	else if (m)
		group_leave(m);
	else
		lists_task_close(client, close_message->head.stream);
}

static char *client_classes(const struct group *group)
{
	const struct dataset *dataset = stream_dataset(group->stream);
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	for (uint32_t i = 0; i < dataset_classes(dataset); i++)
		(void)fprintf(out, "%s\n", dataset_class_name(dataset, i));
	return fclose(out) ? (free(text), NULL) : text;
}

static void client_query_path(
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

static void client_query_stream(struct client *client, const struct wire_query *query)
{
	struct member *m = group_find_member(client, query->head.stream);
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
		text = client_classes(m->group);
		break;
	case WIRE_QUERY_CONFIG:
		text = spec_json(stream_spec(m->group->stream));
		break;
	case WIRE_QUERY_PATH:
		client_query_path(client, query, m->group);
		return;
	default:
		status_wait(m->group, wait, sizeof wait);
		client_answer(client, &query->head, wait);
		return;
	}
	client_answer(client, &query->head, text);
	free(text);
}

static void client_query(struct client *client, const struct conn_message *message)
{
	const struct wire_query *query = conn_view(message, WIRE_QUERY, sizeof *query, 0);
	if (!query || !query->head.request) {
		client_protocol_error(
			client, &message->head, "a query is malformed or has no request number");
	} else if (query->kind < WIRE_QUERY_STATUS || query->kind > WIRE_QUERY_CONFIG) {
		/* A newer client may know more of them. */
		client_error(client, query->head.request, query->head.stream, -EINVAL,
			"this penstockd does not know that query: install the same release of "
			"daemon and client");
	} else if (query->kind == WIRE_QUERY_STATUS) {
		char *text = status_server(client->server);
		client_answer(client, &query->head, text);
		free(text);
	} else {
		client_query_stream(client, query);
	}
}

static void client_stop(struct client *client, const struct conn_message *message)
{
	const struct wire_stop *stop = conn_view(message, WIRE_STOP, sizeof *stop, 0);
	if (!stop || !stop->head.request) {
		client_protocol_error(
			client, &message->head, "a stop is malformed or has no request number");
		return;
	}
	client_answer(client, &stop->head, "");
	if (client->server->draining)
		return;
	log_info("process %d asks to stop", client->pid);
	recorder_ending(client->server, "asked", "by penstock stop");
	server_drain(client->server);
}

/* What is answered has a number, so that the answer can have it. */
static bool client_is_request(uint32_t type)
{
	return type == WIRE_HELLO || type == WIRE_OPEN || type == WIRE_QUERY || type == WIRE_STOP;
}

static void client_handle(struct client *client, const struct conn_message *message)
{
	if (client_is_request(message->head.type) && !message->head.request) {
		client_protocol_error(client, &message->head,
			"a request has the number 0: expected one that is not");
		return;
	}
	if (!client->hello) {
		client_hello(client, message);
		return;
	}
	switch (message->head.type) {
	case WIRE_OPEN:
		client_open(client, message);
		return;
	case WIRE_RELEASE:
		client_release(client, message);
		return;
	case WIRE_CLOSE:
		client_close_stream(client, message);
		return;
	case WIRE_QUERY:
		client_query(client, message);
		return;
	case WIRE_STOP:
		client_stop(client, message);
		return;
	default:
		client_protocol_error(client, &message->head, "unknown type of message");
	}
}

static bool client_is_costly(const struct conn_message *message)
{
	return message->head.type == WIRE_OPEN || message->head.type == WIRE_QUERY;
}

/* One message. False when none was there, or the client is gone. */
static bool client_read(struct client *client, struct conn_message *message)
{
	int result = conn_receive_plain(client->fd, message);
	if (result == -EAGAIN)
		return false;
	if (result == CONN_E_FDS)
		client_protocol_error(client, NULL, "a client may send no descriptors");
	else if (result == CONN_E_MALFORMED)
		client_protocol_error(client, NULL, "malformed message");
	else if (result)
		client_lost(client, result);
	else
		client_handle(client, message);
	return !client->dead;
}

/* A few messages a turn: one client that floods must not keep the others waiting; and fewer of
 * those that cost something, counted over all connections of its process. The rest is read in the
 * next turn. */
void client_readable(struct client *client)
{
	static struct conn_message
		message; /* the event loop is one thread, and 64 KiB are much for a stack */
	uint64_t turn = client->server->turn;
	for (int i = 0; i < CLIENT_MESSAGES && peer_has_turn(client->peer, turn) &&
			client_read(client, &message);
		i++)
		if (client_is_costly(&message))
			peer_spend(client->peer);
}

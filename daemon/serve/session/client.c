/* client: one connection: accepting, sending, closing.
 *
 * A client that does not read its socket until the buffer is full of answers is closed. A client
 * ends when it hangs up or when its pidfd says that the process has ended, whichever is seen first:
 * a forked child may keep a dead trainer's socket open. */
#define LOG_TOPIC LOG_TRAINER
#include "serve/session/session.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "serve/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENT_ACCEPTS = 16 };

/* Refuses a connection with a sentence, before it has a struct client. */
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
	list_each (c, &server->clients, struct client, node)
		if (pid && c->pid == pid)
			peak = UTIL_MAX(peak, c->gpu_peak_bytes);
	return peak;
}

static const char client_unwatched[] =
	"a trainer could not connect: no memory to watch it; raise fs.epoll.max_user_watches";

static int client_watch(struct client *client)
{
	int result = loop_watch(&client->server->loop, client->fd, EPOLLIN, &client->socket_watch);
	if (!result && client->pidfd >= 0)
		result = loop_watch(
			&client->server->loop, client->pidfd, EPOLLIN, &client->pid_watch);
	return result;
}

static struct client *client_new(
	struct server *server, int fd, int pidfd, const struct peer_name *name, struct peer *peer)
{
	struct client *client = calloc(1, sizeof *client);
	if (!client)
		return NULL;
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
	return client;
}

static void client_begin(
	struct server *server, int fd, int pidfd, const struct peer_name *name, struct peer *peer)
{
	struct client *client = client_new(server, fd, pidfd, name, peer);
	int result = client ? client_watch(client) : -ENOMEM;
	if (result) {
		peer_discharge(&server->peers, peer, PEER_CLIENTS);
		if (pidfd >= 0)
			(void)close(pidfd);
		if (client)
			recorder_notice(server, client_unwatched);
		client_turn_away(
			fd, result, client ? client_unwatched : "no memory for another client");
		free(client);
		return;
	}
	list_prepend(&server->clients, &client->node);
	server->client_count++;
}

/* Admits processes of this user and of root, within the quotas. */
static void client_admit(struct server *server, int fd)
{
	struct peer_name name = {0};
	struct fault fault = {{0}};
	int pidfd = -1, result = peer_look(fd, &name, &pidfd);
	if (result == 0 && pidfd == -ESRCH) {
		/* A child of the dead process may hold the socket: it would never hang up. */
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
		if (log_limit_may(&server->log_limits, LOG_LIMIT_OFFENCE))
			log_warning("process %d is turned away: %s", (int)name.pid, fault.text);
		client_turn_away(fd, result, fault.text);
		return;
	}
	client_begin(server, fd, pidfd, &name, peer);
}

static bool client_accept_one(struct server *server)
{
	int fd = accept4(server->loop.listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) {
		if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
			return false;
		recorder_notice(server, errno == EMFILE || errno == ENFILE
						? "a trainer could not connect: no file "
						  "descriptors left; raise ulimit -n"
						: "a trainer could not connect");
		loop_deafen(&server->loop, true);
		return false;
	}
	client_admit(server, fd);
	return true;
}

/* Several a turn: a process that connects in a loop and is refused must not keep others waiting. */
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
	log_debug("process %d: %s", client->pid, why);
	/* Closing removes the socket from epoll, but not the pidfd, of which the flight recorder's
	 * process has a copy. Events that were already fetched in this turn see `dead`. */
	(void)close(client->fd);
	if (client->pidfd >= 0) {
		loop_unwatch(&client->server->loop, client->pidfd);
		(void)close(client->pidfd);
	}
	client->fd = client->pidfd = -1;
}

void client_want_write(struct client *client, bool want)
{
	if (client->dead || client->want_write == want)
		return;
	client->want_write = want;
	loop_rewatch(&client->server->loop, client->fd, EPOLLIN | (want ? EPOLLOUT : 0u),
		&client->socket_watch);
}

/* Logs why, since the client sees its daemon hang up: either it did not read its socket, or the
 * kernel failed (no memory, too many descriptors in flight). */
void client_lost(struct client *client, int result)
{
	if (client->dead || result > 0) {
		client_close(client, client_hung_up);
		return;
	}
	const char *why = result == -EAGAIN ? "it does not read its socket" : strerror(-result);
	if (log_limit_may(&client->server->log_limits, LOG_LIMIT_OFFENCE))
		log_warning("process %d is disconnected: %s", client->pid, why);
	client_close(client, result == -EAGAIN ? "does not read its socket" : "its socket failed");
}

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

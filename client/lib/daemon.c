/* daemon: status and stop of the daemon, without a stream.
 *
 * Thread: the caller's. */
#include "client/lib/error.h"
#include "client/lib/socket_path.h"
#include "penstock/penstock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { DAEMON_ANSWER_MS = 10000, DAEMON_STOP_MS = 10000, DAEMON_LOOK_MS = 20 };

static int daemon_connect(const char *socket, struct connection *connection)
{
	struct socket_path place;
	int result = socket_path_find(socket, &place);
	if (result == 0)
		result = socket_path_open_any(connection, &place);
	return result == CONNECTION_E_ABSENT ? -ECONNREFUSED : result;
}

/* Sends a request whose answer is ANSWER or ERROR. */
static int daemon_request(
	struct connection *connection, struct wire_head *message, size_t bytes, char **ret_text)
{
	message->request = ++connection->last_request;
	int result = connection_send(connection, message, bytes, NULL, 0);
	if (result >= 0)
		result = connection_wait(connection, wait_deadline(DAEMON_ANSWER_MS));
	if (result == 0)
		result = connection_receive(connection);
	if (result == -ETIMEDOUT)
		return error_set(-ETIMEDOUT,
			"the daemon (pid %d) did not answer within %d s: is it stopped?",
			connection->daemon_pid, DAEMON_ANSWER_MS / 1000);
	if (result < 0)
		return result;
	if (connection->message.head.type == WIRE_ERROR)
		return connection_error(connection);
	if (connection->message.head.request != message->request)
		return error_set(-EPROTO, "the daemon at %s answered a question that was not asked",
			connection->path);
	return connection_answer(connection, ret_text);
}

int penstock_daemon_socket(const char *socket, char *buffer, size_t room)
{
	struct connection connection = {.fd = -1};
	int result = daemon_connect(socket, &connection);
	connection_close(&connection);
	if (result < 0)
		return result;
	int n = snprintf(buffer, room, "%s", connection.path);
	return n < 0 || (size_t)n >= room ? error_set(-ENOSPC,
						    "the socket's path takes %d bytes, and the "
						    "buffer has %zu: 108 are "
						    "always enough",
						    n + 1, room)
					  : 0;
}

int penstock_daemon_status(const char *socket, char **ret_json)
{
	struct connection connection = {.fd = -1};
	struct wire_query query = {.head = {.type = WIRE_QUERY}, .kind = WIRE_QUERY_STATUS};
	int result = daemon_connect(socket, &connection);
	if (result == 0)
		result = daemon_request(&connection, &query.head, sizeof query, ret_json);
	connection_close(&connection);
	return result;
}

/* Waits for the end of the connection, whatever is sent before it. */
static int daemon_await_hangup(struct connection *connection, int64_t deadline_ns)
{
	int result = 0;
	while (result == 0) {
		result = connection_wait(connection, deadline_ns);
		if (result == 0)
			result = connection_receive(connection);
		if (result == -EAGAIN || result == -EPROTO)
			result = 0;
	}
	return result == -EPIPE ? 0 : result;
}

/* Waits for the end of the process, which comes after the end of the socket and frees the
 * instance's lock and memory. */
static int daemon_await_exit(int pid_fd, pid_t pid, int64_t deadline_ns)
{
	for (;;) {
		struct pollfd gone = {.fd = pid_fd, .events = POLLIN};
		if (pid_fd >= 0 && poll(&gone, 1, DAEMON_LOOK_MS) > 0)
			return 0;
		if (pid_fd < 0 && (pid <= 0 || (kill(pid, 0) < 0 && errno == ESRCH)))
			return 0;
		if (pid_fd < 0)
			(void)nanosleep(
				&(struct timespec){.tv_nsec = DAEMON_LOOK_MS * 1000000}, NULL);
		if (wait_deadline(0) >= deadline_ns)
			return -ETIMEDOUT;
	}
}

static int daemon_stop(struct connection *connection)
{
	char *answer = NULL;
	struct wire_stop stop = {.head = {.type = WIRE_STOP}};
	pid_t pid = connection->daemon_pid;
	/* Opened while the daemon is certainly alive, so that the pid cannot belong to another
	 * process. Kernels before 5.3 have no pidfd. */
	int pid_fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	int64_t deadline_ns = wait_deadline(DAEMON_STOP_MS);
	int result = daemon_request(connection, &stop.head, sizeof stop, &answer);
	free(answer);
	if (result == 0)
		result = daemon_await_hangup(connection, deadline_ns);
	if (result == 0)
		result = daemon_await_exit(pid_fd, pid, deadline_ns);
	if (result == -ETIMEDOUT && pid > 0)
		error_set(-ETIMEDOUT,
			"the daemon (pid %d) was asked to end, and has not ended after %d s: wait, "
			"or end it with kill",
			(int)pid, DAEMON_STOP_MS / 1000);
	if (pid_fd >= 0)
		(void)close(pid_fd);
	return result;
}

int penstock_daemon_stop(const char *socket)
{
	struct connection connection = {.fd = -1};
	int result = daemon_connect(socket, &connection);
	if (result == -ECONNREFUSED)
		error_set(
			result, "nothing to stop: no penstockd is running at %s", connection.path);
	if (result == 0)
		result = daemon_stop(&connection);
	connection_close(&connection);
	return result;
}

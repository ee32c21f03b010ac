/* connection: see connection.h.
 *
 * The length, type and numbers of everything that the daemon sends are checked before they are
 * used; a message that does not fit ends in -EPROTO with a sentence. Sockets stay in blocking mode,
 * but every call on them uses MSG_DONTWAIT and waits in poll: a stopped daemon costs a timeout,
 * never a hang.
 *
 * Thread: that of the stream. */
#include "client/lib/connection.h"

#include "client/lib/error.h"
#include "client/lib/map.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	CONNECTION_SEND_MS = 10000,
	CONNECTION_ASK_MS = 100, /* between questions to the application while a backlog is full */
	CONNECTION_ANSWER_MAX = 1 << 30,
};

/* ---- waiting ---- */

static bool connection_daemon_died(const struct connection *connection)
{
	return connection->daemon_pid > 0 && kill(connection->daemon_pid, 0) < 0 && errno == ESRCH;
}

static int connection_poll(struct connection *connection, short events, int64_t deadline_ns)
{
	for (;;) {
		int result = wait_poll(connection->wait, connection->fd, events, deadline_ns);
		if (result > 0)
			return 0; /* an error or a hang-up too: the next call says which */
		if (result == -EINTR)
			return result;
		if (result < 0)
			return error_set(
				result, "waiting for the daemon failed: %s", strerror(-result));
		/* A child of a dead daemon may hold its end of the socket: then there is no
		 * hang-up. */
		if (connection_daemon_died(connection))
			return error_set(-EPIPE,
				"the daemon (pid %d) has died without closing its socket %s",
				connection->daemon_pid, connection->path);
		if (wait_left_ms(deadline_ns, 1) == 0)
			return -ETIMEDOUT;
	}
}

int connection_wait(struct connection *connection, int64_t deadline_ns)
{
	return connection_poll(connection, POLLIN, deadline_ns);
}

/* ---- messages ---- */

int connection_send(struct connection *connection, struct wire_head *fixed, size_t fixed_bytes,
	const void *text, size_t text_bytes)
{
	int64_t deadline_ns = wait_deadline(CONNECTION_SEND_MS);
	for (;;) {
		int result =
			conn_send(connection->fd, true, fixed, fixed_bytes, text, text_bytes, -1);
		if (result == -EMSGSIZE)
			return error_set(-EMSGSIZE,
				"the request is longer than a message may be (%d bytes)",
				WIRE_MESSAGE_MAX);
		if (result != -EAGAIN && result < 0)
			return error_set(result, "sending to the daemon at %s failed: %s",
				connection->path, strerror(-result));
		if (result != -EAGAIN)
			return result;
		result = connection_poll(connection, POLLOUT, deadline_ns);
		if (result == -ETIMEDOUT)
			return error_set(-ETIMEDOUT,
				"the daemon (pid %d) has not read its messages for %d s: is it "
				"stopped?",
				connection->daemon_pid, CONNECTION_SEND_MS / 1000);
		if (result < 0)
			return result;
	}
}

static void connection_drop_fd(struct connection *connection)
{
	if (connection->message.fd >= 0)
		(void)close(connection->message.fd);
	connection->message.fd = -1;
}

int connection_receive(struct connection *connection)
{
	connection_drop_fd(connection);
	int result = conn_receive(connection->fd, true, &connection->message);
	switch (result) {
	case CONN_OK:
	case -EAGAIN:
		return result;
	case CONN_E_CLOSED:
		return error_set(-EPIPE,
			"the daemon (pid %d, socket %s) has ended or closed the connection; its "
			"log or `penstock why` says why, and a new stream opened with the saved "
			"state goes on with the next batch",
			connection->daemon_pid, connection->path);
	case CONN_E_MALFORMED:
		return error_set(-EPROTO,
			"the daemon at %s sent a malformed message: it is broken, of another "
			"version, or not penstockd",
			connection->path);
	case -EMFILE:
		return error_set(-EMFILE, "no descriptor was free for memory that the daemon sent: "
					  "close some or raise `ulimit -n`");
	default:
		return error_set(result, "receiving from the daemon at %s failed: %s",
			connection->path, strerror(-result));
	}
}

/* Codes that this library itself returns (nothing has come yet, the time is up, the daemon has
 * gone) must not come from the daemon. */
static int connection_code(int32_t code)
{
	static const int32_t own[] = {
		-EAGAIN, -EINTR, -ETIMEDOUT, -EPIPE, -EDEADLK, -EBADF, -ECONNREFUSED};
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		if (code == own[i])
			return -EIO;
	return code;
}

int connection_error(const struct connection *connection)
{
	const struct wire_error *error = conn_view(&connection->message, WIRE_ERROR, sizeof *error,
		offsetof(struct wire_error, text_bytes));
	if (!error || error->code >= 0 || error->code < -4095)
		return error_set(
			-EPROTO, "the daemon at %s sent a malformed error", connection->path);
	const char *text = (const char *)(error + 1);
	if (error->text_bytes == 0)
		return error_set(connection_code(error->code), "the daemon says: %s",
			strerror(-error->code));
	return error_take(connection_code(error->code), text, error->text_bytes);
}

/* A long answer is in a sealed memfd, which cannot shrink between the check and the reading. */
static int connection_read_answer(int fd, char *text, size_t total)
{
	struct stat status;
	int result = map_check_seals(fd, false, "an answer");
	if (result < 0)
		return result;
	if (fstat(fd, &status) < 0 || status.st_size < 0 || (uint64_t)status.st_size < total)
		return error_set(-EPROTO,
			"the daemon announced an answer of %zu bytes and sent a shorter one",
			total);
	for (size_t done = 0; done < total;) {
		ssize_t n = pread(fd, text + done, total - done, (off_t)done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return error_set(-EIO, "an answer of the daemon cannot be read: %s",
				n < 0 ? strerror(errno) : "it ends early");
		done += (size_t)n;
	}
	return 0;
}

int connection_answer(struct connection *connection, char **ret_text)
{
	const struct wire_answer *answer = conn_view(&connection->message, WIRE_ANSWER,
		sizeof *answer, offsetof(struct wire_answer, text_bytes));
	bool has_fd = connection->message.fd >= 0;
	if (!answer || answer->total_bytes > CONNECTION_ANSWER_MAX ||
		answer->text_bytes != (has_fd ? 0 : answer->total_bytes))
		return error_set(
			-EPROTO, "the daemon at %s sent a malformed answer", connection->path);
	size_t total = (size_t)answer->total_bytes;
	char *text = malloc(total + 1);
	if (!text)
		return error_set(-ENOMEM, "no memory for an answer of %zu bytes", total);
	int result = 0;
	if (has_fd)
		result = connection_read_answer(connection->message.fd, text, total);
	else
		memcpy(text, answer + 1, total);
	if (result < 0) {
		free(text);
		return result;
	}
	text[total] = '\0';
	*ret_text = text;
	return 0;
}

/* ---- finding and greeting ---- */

static int connection_too_long(const char *socket)
{
	const char *variable = getenv("PENSTOCK_SOCKET");
	if (socket && *socket)
		return error_set(-ENAMETOOLONG,
			"the socket's path %s is too long (at most %d bytes): choose a shorter one",
			socket, CONNECTION_PATH - 1);
	if (variable && *variable)
		return error_set(-ENAMETOOLONG,
			"the socket's path in PENSTOCK_SOCKET, %s, is too long (at most %d bytes): "
			"set the variable to a shorter one",
			variable, CONNECTION_PATH - 1);
	return error_set(-ENAMETOOLONG,
		"the socket's default path is too long (at most %d bytes): set PENSTOCK_SOCKET to "
		"a shorter one",
		CONNECTION_PATH - 1);
}

int connection_find(const char *socket, char ret_path[CONNECTION_PATH], bool *ret_named)
{
	char path[CONNECTION_PATH], full[4096 + CONNECTION_PATH];
	const char *variable = getenv("PENSTOCK_SOCKET");
	size_t length = 0;
	bool named = (socket && *socket) || (variable && *variable);
	int result = 0;
	if (socket && *socket)
		result = (length = strlen(socket)) < sizeof path ? 0 : -ENAMETOOLONG;
	else
		result = conn_default_path(path, sizeof path);
	if (result == 0 && socket && *socket)
		memcpy(path, socket, length + 1);

	/* A private daemon works in another folder than this process, so its paths must be
	 * absolute. */
	full[0] = '\0';
	if (result == 0 && path[0] != '/' && !getcwd(full, 4096))
		return error_set(-errno, "the working folder of %s cannot be found: %s", path,
			strerror(errno));
	length = strlen(full);
	if (result == 0 && length + 1 + strlen(path) >= CONNECTION_PATH && length)
		result = -ENAMETOOLONG;
	if (result < 0)
		return connection_too_long(socket);
	if (length)
		full[length++] = '/';
	memcpy(full + length, path, strlen(path) + 1);
	memcpy(ret_path, full, strlen(full) + 1);
	*ret_named = named;
	return 0;
}

/* Whether programs that are given no socket find a daemon that is started without --socket: this is
 * the default path, or that of a job, whose loaders look there first. */
static bool connection_is_default(const char *path)
{
	char common[CONNECTION_PATH];
	if (conn_default_path(common, sizeof common) < 0)
		return false;
	const char *slash = strrchr(common, '/');
	size_t folder = slash ? (size_t)(slash - common) + 1 : 0;
	return strcmp(path, common) == 0 || (folder && strncmp(path, common, folder) == 0 &&
						    strncmp(path + folder, "job-", 4) == 0);
}

static int connection_absent(const char *path)
{
	bool plain = connection_is_default(path);
	return error_set(CONNECTION_E_ABSENT,
		"no penstockd is running at %s (start one: penstockd%s%s; how the last one ended: "
		"penstock why)",
		path, plain ? "" : " --socket ", plain ? "" : path);
}

static int connection_refused(const char *path, int error)
{
	const char *hint = "";
	if (error == -EACCES)
		hint = " (it belongs to another user)";
	else if (error == -ETIMEDOUT)
		hint = " (it accepts no connection: is it stopped?)";
	else if (error == -EPROTOTYPE)
		hint = " (that socket is not penstockd's)";
	return error_set(error, "connecting to %s failed: %s%s", path, strerror(-error), hint);
}

/* Any user could have made a folder in /tmp: without this check, another user's process could
 * feed a training run. */
static int connection_check_peer(struct connection *connection, bool named)
{
	uid_t uid;
	int result = conn_peer(connection->fd, &uid, &connection->peer);
	if (result < 0)
		return error_set(result, "cannot find out which user listens at %s: %s",
			connection->path, strerror(-result));
	if (!named && uid != geteuid() && uid != 0)
		return error_set(-EPERM,
			"the daemon at %s runs as user %lu, not as you: set PENSTOCK_SOCKET to its "
			"path if you mean that one",
			connection->path, (unsigned long)uid);
	return 0;
}

static int connection_check_welcome(struct connection *connection)
{
	if (connection->message.head.type == WIRE_ERROR)
		return connection_error(connection);
	const struct wire_welcome *welcome = conn_view(&connection->message, WIRE_WELCOME,
		sizeof *welcome, offsetof(struct wire_welcome, text_bytes));
	if (!welcome || welcome->magic != WIRE_MAGIC ||
		welcome->head.request != connection->last_request || connection->message.fd >= 0)
		return error_set(-EPROTO,
			"the process that listens at %s does not answer as penstockd does",
			connection->path);
	if (welcome->version < WIRE_VERSION_MIN || welcome->version > WIRE_VERSION_MAX)
		return error_set(-EPROTO,
			"the daemon at %s speaks protocol version %u, this library %d to %d: use "
			"penstockd and libpenstock of the same release (this is %s)",
			connection->path, welcome->version, WIRE_VERSION_MIN, WIRE_VERSION_MAX,
			PENSTOCK_VERSION);
	if (welcome->features & ~connection->features)
		return error_set(-EPROTO,
			"the daemon at %s uses features that were not offered to it",
			connection->path);
	connection->agreed = welcome->features;
	/* The kernel gives 0 for a peer in a pid namespace that cannot be seen from here. */
	connection->daemon_pid = connection->peer > 0 ? welcome->pid : 0;
	return 0;
}

static int connection_hello(struct connection *connection, bool named)
{
	struct wire_hello hello = {
		.head = {.type = WIRE_HELLO, .request = ++connection->last_request},
		.magic = WIRE_MAGIC,
		.version_min = WIRE_VERSION_MIN,
		.version_max = WIRE_VERSION_MAX,
		.features = connection->features};
	int result = connection_check_peer(connection, named);
	if (result == 0)
		result = connection_send(connection, &hello.head, sizeof hello, NULL, 0);
	/* A daemon that is ending may have refused with a sentence: so read it even then. */
	return result > 0 ? 0 : result;
}

/* A full backlog cannot be polled: connect() waits for it, piece by piece if the application
 * wants to be asked. */
static int connection_connect(struct connection *connection, const char *path, int32_t limit_ms)
{
	int64_t deadline_ns = wait_deadline(limit_ms);
	int32_t piece_ms = limit_ms;
	if (connection->wait && connection->wait->interrupt && piece_ms > CONNECTION_ASK_MS)
		piece_ms = CONNECTION_ASK_MS;
	int result = conn_connect_within(path, piece_ms, &connection->fd);
	while (result == -ETIMEDOUT && wait_left_ms(deadline_ns, 1)) {
		result = wait_poll(connection->wait, -1, 0, 0);
		if (result == 0)
			result = conn_connect_within(path, piece_ms, &connection->fd);
	}
	return result;
}

int connection_begin(struct connection *connection, const char *path, bool named, int32_t limit_ms)
{
	connection->owner = getpid();
	connection->daemon_pid = 0;
	connection->last_request = 0;
	connection->message.fd = -1;
	connection->fd = -1;
	memcpy(connection->path, path, strlen(path) + 1);
	int result = connection_connect(connection, path, limit_ms);
	if (result == -ENOENT || result == -ECONNREFUSED || result == -ENOTDIR)
		return connection_absent(path);
	if (result == -EINTR)
		return result;
	if (result < 0)
		return connection_refused(path, result);
	result = connection_hello(connection, named);
	if (result != 0)
		connection_close(connection);
	return result;
}

int connection_welcome(struct connection *connection)
{
	int result = connection_receive(connection);
	if (result == 0)
		result = connection_check_welcome(connection);
	return result == -EPIPE ? connection_absent(connection->path) : result;
}

/* A daemon that died without closing its socket is as absent as one that closed it. */
static int connection_await_welcome(struct connection *connection)
{
	int64_t deadline_ns = wait_deadline(CONNECTION_GREETING_MS);
	int result = connection_welcome(connection);
	while (result == -EAGAIN) {
		result = connection_wait(connection, deadline_ns);
		if (result == 0)
			result = connection_welcome(connection);
	}
	if (result == -EPIPE)
		result = connection_absent(connection->path);
	if (result == -ETIMEDOUT)
		error_set(-ETIMEDOUT, "the daemon at %s has not answered for %d s: is it stopped?",
			connection->path, CONNECTION_GREETING_MS / 1000);
	if (result != 0)
		connection_close(connection);
	return result;
}

int connection_open(struct connection *connection, const char *path, bool named)
{
	int result = connection_begin(connection, path, named, CONNECTION_CONNECT_MS);
	return result == 0 ? connection_await_welcome(connection) : result;
}

void connection_close(struct connection *connection)
{
	connection_drop_fd(connection);
	if (connection->fd >= 0)
		(void)close(connection->fd);
	connection->fd = -1;
}

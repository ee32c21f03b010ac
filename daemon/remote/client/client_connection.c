/* client_connection: connections over which the client itself sends requests and receives answers.
 *
 * libcurl makes them: it looks up names, speaks with proxies, and agrees on TLS and verifies it
 * (CURLOPT_CONNECT_ONLY). Each has a multi handle of its own, since a multi handle closes what it
 * takes for idle. Without TLS the socket is all that is left of libcurl then; with TLS, its handle
 * reads and writes.
 *
 * A connection is being made, belongs to an attempt, or is idle. An idle one is watched: it is
 * closed when the server closes it or sends what nobody asked for. */
#include "remote/client/client_impl.h"

#include "base/clock.h"
#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { CONNECTION_IDLE_MORE = 16 /* idle ones beyond the limit of connections */ };

static int connection_socket(CURL *easy, curl_socket_t fd, int what, void *context, void *known)
{
	struct client_connection *connection = context;
	struct client *client = connection->client;
	(void)easy;
	(void)known;
	if (what == CURL_POLL_REMOVE) {
		client_sockets_forget(client, fd);
		return 0;
	}
	uint32_t events = (what & CURL_POLL_IN ? (uint32_t)EPOLLIN : 0) |
			  (what & CURL_POLL_OUT ? (uint32_t)EPOLLOUT : 0);
	return client_sockets_watch(client, fd, events, connection) < 0 ? -1 : 0;
}

static int connection_timer(CURLM *multi, long ms, void *context)
{
	struct client_connection *connection = context;
	(void)multi;
	connection->timer_ns = ms < 0 ? UINT64_MAX : clock_ns() + (uint64_t)ms * CLIENT_MS;
	return 0;
}

/* Ends libcurl's part of a connection. */
static void connection_leave_curl(struct client_connection *connection)
{
	if (connection->easy) {
		(void)curl_multi_remove_handle(connection->multi, connection->easy);
		curl_easy_cleanup(connection->easy);
	}
	if (connection->multi)
		(void)curl_multi_cleanup(connection->multi);
	connection->easy = NULL;
	connection->multi = NULL;
}

void client_connection_close(struct client_connection *connection)
{
	struct client *client = connection->client;
	if (connection->state == CONNECTION_MAKING)
		list_remove(&client->making, &connection->node);
	if (connection->state == CONNECTION_IDLE) {
		list_remove(&client->idle, &connection->node);
		client->idle_count--;
	}
	bool own = connection->fd >= 0 && !connection->easy;
	/* While the socket is open: another process may have it, too, and then closing it does not
	 * take it from the epoll. */
	client_sockets_disown(client, connection);
	connection_leave_curl(connection);
	client_sockets_disown(client, connection);
	if (own)
		(void)close(connection->fd);
	free(connection);
}

void client_connection_close_all(struct client *client)
{
	struct list_head *lists[] = {&client->idle, &client->making};
	for (size_t i = 0; i < UTIL_COUNT(lists); i++)
		while (!list_is_empty(lists[i]))
			client_connection_close(list_element(
				lists[i]->first, offsetof(struct client_connection, node)));
}

static CURLMcode connection_begin(struct client_connection *connection)
{
	CURL *easy = connection->easy;
	CURLM *multi = connection->multi;
	client_curl_prepare(connection->client, easy);
	const char *url = connection->origin;
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, connection->error);
	curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, connection_socket);
	curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, connection);
	curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, connection_timer);
	curl_multi_setopt(multi, CURLMOPT_TIMERDATA, connection);
	curl_multi_setopt(multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
	return curl_multi_add_handle(multi, easy);
}

static struct client_connection *connection_make(struct client *client, const char *origin)
{
	struct client_connection *connection = calloc(1, sizeof *connection + strlen(origin) + 1);
	if (!connection)
		return NULL;
	connection->client = client;
	connection->fd = -1;
	connection->timer_ns = UINT64_MAX;
	connection->tls = strncasecmp(origin, "https:", 6) == 0;
	memcpy(connection->origin, origin, strlen(origin) + 1);
	connection->state = CONNECTION_MAKING;
	list_append(&client->making, &connection->node);
	connection->easy = curl_easy_init();
	connection->multi = connection->easy ? curl_multi_init() : NULL;
	if (!connection->multi || connection_begin(connection) != CURLM_OK) {
		curl_easy_cleanup(connection->easy);
		connection->easy = NULL;
		client_connection_close(connection);
		return NULL;
	}
	client->stats.connects++;
	return connection;
}

/* Whether nothing came on an idle connection. TLS has messages of its own. */
bool client_connection_is_quiet(struct client_connection *connection)
{
	char byte;
	size_t got;
	if (connection->easy)
		return curl_easy_recv(connection->easy, &byte, 1, &got) == CURLE_AGAIN;
	return recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static struct client_connection *connection_idle(struct client *client, const char *origin)
{
	for (struct list_node *node = client->idle.first, *next; node; node = next) {
		struct client_connection *connection =
			list_element(node, offsetof(struct client_connection, node));
		next = node->next;
		bool old = client->now_ns > connection->idle_ns &&
			   client->now_ns - connection->idle_ns > CONNECTION_IDLE_S * CLIENT_S;
		bool same = !old && strcmp(connection->origin, origin) == 0;
		/* What came unasked must not pass for the next answer. */
		if (same && client_connection_is_quiet(connection))
			return connection;
		if (old || same)
			client_connection_close(connection);
	}
	return NULL;
}

struct client_connection *client_connection_take(
	struct client *client, struct client_attempt *attempt, const char *origin, bool fresh)
{
	struct client_connection *connection = fresh ? NULL : connection_idle(client, origin);
	if (connection) {
		list_remove(&client->idle, &connection->node);
		client->idle_count--;
		connection->state = CONNECTION_BUSY;
	} else {
		connection = connection_make(client, origin);
	}
	if (connection)
		connection->attempt = attempt;
	return connection;
}

void client_connection_give(struct client_connection *connection)
{
	struct client *client = connection->client;
	connection->attempt = NULL;
	connection->reused = true;
	connection->idle_ns = client->now_ns;
	connection->state = CONNECTION_IDLE;
	list_prepend(&client->idle, &connection->node);
	if (++client->idle_count > client->options.connections + CONNECTION_IDLE_MORE)
		client_connection_close(
			list_element(client->idle.last, offsetof(struct client_connection, node)));
}

int client_connection_watch(struct client_connection *connection, uint32_t events)
{
	if (connection->events == events)
		return 0;
	connection->events = events;
	if (events)
		return client_sockets_watch(connection->client, connection->fd, events, connection);
	client_sockets_forget(connection->client, connection->fd);
	return 0;
}

/* libcurl has connected. */
static CURLcode connection_made(struct client_connection *connection)
{
	curl_socket_t fd = CURL_SOCKET_BAD;
	(void)curl_easy_getinfo(connection->easy, CURLINFO_ACTIVESOCKET, &fd);
	if (fd == CURL_SOCKET_BAD)
		return CURLE_COULDNT_CONNECT;
	if (!connection->tls) {
		int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (own < 0) {
			(void)snprintf(
				connection->error, sizeof connection->error, "%s", strerror(errno));
			return CURLE_COULDNT_CONNECT;
		}
		connection_leave_curl(connection);
		fd = own;
	}
	client_sockets_disown(connection->client, connection);
	connection->fd = fd;
	list_remove(&connection->client->making, &connection->node);
	connection->state = CONNECTION_BUSY;
	return client_connection_watch(connection, EPOLLIN) < 0 ? CURLE_OUT_OF_MEMORY : CURLE_OK;
}

bool client_connection_advance(
	struct client_connection *connection, int fd, uint32_t events, CURLcode *ret_code)
{
	int running, left;
	int what = (events & EPOLLIN ? CURL_CSELECT_IN : 0) |
		   (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
		   (events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
	if (fd == CURL_SOCKET_TIMEOUT)
		connection->timer_ns = UINT64_MAX;
	(void)curl_multi_socket_action(connection->multi, fd, what, &running);
	for (const CURLMsg *message; (message = curl_multi_info_read(connection->multi, &left));) {
		if (message->msg != CURLMSG_DONE)
			continue;
		*ret_code = message->data.result;
		long error = 0;
		(void)curl_easy_getinfo(connection->easy, CURLINFO_OS_ERRNO, &error);
		connection->os_error = (int)error;
		if (*ret_code == CURLE_OK)
			*ret_code = connection_made(connection);
		return true;
	}
	return false;
}

int client_connection_send(
	struct client_connection *connection, const void *bytes, size_t size, size_t *ret_sent)
{
	if (connection->easy) {
		CURLcode code = curl_easy_send(connection->easy, bytes, size, ret_sent);
		return code == CURLE_OK ? 0 : code == CURLE_AGAIN ? -EAGAIN : -ECONNRESET;
	}
	ssize_t sent;
	do
		sent = send(connection->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return -errno;
	*ret_sent = (size_t)sent;
	return 0;
}

int client_connection_receive(
	struct client_connection *connection, const struct iovec *parts, int count, size_t *ret_got)
{
	if (connection->easy) {
		CURLcode code =
			curl_easy_recv(connection->easy, parts->iov_base, parts->iov_len, ret_got);
		return code == CURLE_OK ? 0 : code == CURLE_AGAIN ? -EAGAIN : -ECONNRESET;
	}
	ssize_t got;
	do
		got = readv(connection->fd, parts, count);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	*ret_got = (size_t)got;
	return 0;
}

void client_connection_acknowledge(const struct client_connection *connection)
{
	const int now = 1;
	if (connection->fd >= 0)
		(void)setsockopt(connection->fd, IPPROTO_TCP, TCP_QUICKACK, &now, sizeof now);
}

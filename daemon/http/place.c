/* place: how many connections there may be at once, and for how long. Thread: penstock-http.
 *
 * A client must complete a request within HTTP_LIMIT_S of its connection, or of its last answer.
 * That is a hard limit, because a client that sends a byte now and then is never silent. When all
 * places are taken, the connection that has waited longest for a request is ended. So a thousand
 * clients that send nothing never keep others out for long, and never take more descriptors than
 * there are places.
 *
 * libmicrohttpd has no function that ends a connection from outside. So the code shuts the socket
 * down; libmicrohttpd notices that at once and closes it. */
#define LOG_TOPIC LOG_HTTP
#include "http/http_impl.h"

#include "base/clock.h"
#include "base/host/limits.h"
#include "base/log.h"
#include "base/util.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

static struct place *place_free(struct http *http)
{
	for (unsigned i = 0; i < http->places; i++)
		if (http->place[i].fd < 0)
			return &http->place[i];
	return NULL;
}

static void place_end(struct place *place)
{
	place->doomed = true;
	(void)shutdown(place->fd, SHUT_RDWR);
}

/* Whether a connection may be ended to make room: one without a request; or one that has read its
 * answer for longer than it would have had for a request. */
static bool place_may_go(const struct place *place, uint64_t now)
{
	return !place->suspended && !place->doomed &&
	       (!place->asked || now - place->since_ns > HTTP_LIMIT_S * HTTP_S_NS);
}

static struct place *place_oldest(struct http *http)
{
	struct place *oldest = NULL;
	uint64_t now = clock_ns();
	for (unsigned i = 0; i < http->places; i++) {
		struct place *p = &http->place[i];
		if (place_may_go(p, now) &&
			(!oldest || p->asked < oldest->asked ||
				(p->asked == oldest->asked && p->since_ns < oldest->since_ns)))
			oldest = p;
	}
	return oldest;
}

static struct place *place_make_room(struct http *http)
{
	struct place *place = place_free(http);
	struct place *oldest = place ? NULL : place_oldest(http);
	if (oldest) {
		place_end(oldest);
		http_count(&http->refused);
		(void)MHD_run(http->daemon);
		place = place_free(http);
	}
	return place;
}

static void place_take(struct http *http, int fd, const struct sockaddr *peer, socklen_t size)
{
	static const int send_bytes = HTTP_SEND_BYTES;
	struct place *place = place_make_room(http);
	if (!place) {
		http_count(&http->refused);
		(void)close(fd);
		return;
	}
	/* Otherwise the kernel would buffer megabytes for a client that does not read, and nothing
	 * here would count them. */
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof send_bytes);
	*place = (struct place){.fd = fd, .since_ns = clock_ns()};
	/* libmicrohttpd closes the descriptor where it refuses the connection. */
	if (MHD_add_connection(http->daemon, fd, peer, size) != MHD_YES && !place->connection)
		place->fd = -1;
}

/* Stops accepting for a while, without descriptors or memory: the listener would stay readable. */
static void place_deafen(struct http *http, int error)
{
	struct epoll_event none = {.data.fd = http->listener.fd};
	http->deaf_ns = clock_ns() + HTTP_DEAF_MS * HTTP_MS_NS;
	(void)epoll_ctl(http->epoll_fd, EPOLL_CTL_MOD, http->listener.fd, &none);
	if (!http->complained)
		log_warning("clients cannot connect to metrics and the page: %s%s", strerror(error),
			limits_hint(error));
	http->complained = true;
}

void place_accept(struct http *http)
{
	for (int i = 0; i < HTTP_ACCEPTS; i++) {
		struct sockaddr_storage peer = {0};
		socklen_t size = sizeof peer;
		int fd = accept4(http->listener.fd, (struct sockaddr *)&peer, &size,
			SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			http->complained = false;
			place_take(http, fd, (struct sockaddr *)&peer, size);
			continue;
		}
		if (errno == EAGAIN)
			return;
		if (errno != EINTR && errno != ECONNABORTED) {
			place_deafen(http, errno);
			return;
		}
	}
}

/* When the connection's time is over; UINT64_MAX: it has no limit now. */
static uint64_t place_due(const struct place *place)
{
	if (place->fd < 0 || place->suspended || place->doomed)
		return UINT64_MAX;
	return place->since_ns + (place->asked ? HTTP_ANSWER_S : HTTP_LIMIT_S) * HTTP_S_NS;
}

/* Whether the client has closed the connection together with its last bytes: libmicrohttpd, which
 * uses edge-triggered events, has read those bytes but not noticed the end. */
static bool place_left(const struct place *place)
{
	char byte;
	return place->fd >= 0 && !place->asked && !place->suspended && !place->doomed &&
	       recv(place->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* Whether the connection is being sent an outdated answer. */
static bool place_holds(const struct http *http, const struct place *place)
{
	const struct MHD_Response *newest[] = {http->served[HTTP_METRICS].response,
		http->served[HTTP_STATUS].response, http->prometheus.response, http->page.response,
		http->picture.png.response, http->picture.json.response};
	bool holds = place->fd >= 0 && !place->doomed && place->answer.response;
	for (size_t i = 0; i < UTIL_COUNT(newest); i++)
		holds = holds && place->answer.response != newest[i];
	return holds;
}

/* How many bytes are kept only for slow readers, counting each answer once, and the connection that
 * has read for longest. */
static size_t place_held(struct http *http, struct place **ret_oldest)
{
	size_t bytes = 0;
	*ret_oldest = NULL;
	for (unsigned i = 0; i < http->places; i++) {
		struct place *p = &http->place[i];
		unsigned same = 0;
		if (!place_holds(http, p))
			continue;
		while (http->place[same].answer.response != p->answer.response)
			same++;
		bytes += same == i ? p->answer.bytes : 0;
		if (!*ret_oldest || p->since_ns < (*ret_oldest)->since_ns)
			*ret_oldest = p;
	}
	return bytes;
}

void place_sweep(struct http *http)
{
	struct place *oldest;
	uint64_t now = clock_ns();
	while (place_held(http, &oldest) > HTTP_HELD_BYTES) {
		place_end(oldest);
		http_count(&http->refused);
	}
	for (unsigned i = 0; i < http->places; i++) {
		struct place *place = &http->place[i];
		if (place_due(place) <= now) {
			place_end(place);
			http_count(&http->refused);
		} else if (place_left(place)) {
			place_end(place);
		}
	}
	if (http->deaf_ns && http->deaf_ns <= now) {
		struct epoll_event readable = {.events = EPOLLIN, .data.fd = http->listener.fd};
		http->deaf_ns = 0;
		(void)epoll_ctl(http->epoll_fd, EPOLL_CTL_MOD, http->listener.fd, &readable);
	}
}

int place_wait_ms(const struct http *http)
{
	uint64_t due = http->deaf_ns ? http->deaf_ns : UINT64_MAX, now = clock_ns();
	MHD_UNSIGNED_LONG_LONG library;
	for (unsigned i = 0; i < http->places; i++)
		due = UTIL_MIN(due, place_due(&http->place[i]));
	due = UTIL_MIN(due, picture_due_ns(http));
	if (MHD_get_timeout(http->daemon, &library) == MHD_YES)
		due = UTIL_MIN(due, now + library * HTTP_MS_NS);
	if (due == UINT64_MAX)
		return -1;
	return due > now ? (int)((due - now) / HTTP_MS_NS) + 1 : 0;
}

void place_notify(void *context, struct MHD_Connection *connection, void **socket_context,
	enum MHD_ConnectionNotificationCode code)
{
	struct http *http = context;
	if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
		struct place *place = *socket_context;
		if (place)
			place->fd = -1;
		atomic_fetch_sub_explicit(&http->connections, 1, memory_order_relaxed);
		return;
	}
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	http_count(&http->connections);
	for (unsigned i = 0; i < http->places; i++)
		if (http->place[i].fd == info->connect_fd) {
			http->place[i].connection = connection;
			*socket_context = &http->place[i];
		}
}

void place_answered(void *context, struct MHD_Connection *connection, void **request,
	enum MHD_RequestTerminationCode code)
{
	struct place *place = *request;
	(void)context;
	(void)connection;
	(void)code;
	if (!place)
		return;
	place->asked = place->drawn = false;
	place->answer = (struct document){0};
	place->since_ns = clock_ns();
}

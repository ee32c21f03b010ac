/* client_loop: the sockets of the client's connections and of libcurl's transfers in one epoll.
 * libcurl tells which sockets it waits for and when it wants to be called; the cost of a wakeup
 * does not depend on the number of connections. */
#include "remote/client/client_impl.h"

#include "base/clock.h"
#include "base/util.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

enum { LOOP_EVENTS = 64 };

static int loop_socket(CURL *easy, curl_socket_t fd, int what, void *context, void *known)
{
	struct client *client = context;
	(void)easy;
	(void)known;
	if (what == CURL_POLL_REMOVE) {
		client_sockets_forget(client, fd);
		return 0;
	}
	uint32_t events = (what & CURL_POLL_IN ? (uint32_t)EPOLLIN : 0) |
			  (what & CURL_POLL_OUT ? (uint32_t)EPOLLOUT : 0);
	return client_sockets_watch(client, fd, events, NULL) < 0 ? -1 : 0;
}

static int loop_timer(CURLM *multi, long ms, void *context)
{
	struct client *client = context;
	(void)multi;
	client->timer_ns = ms < 0 ? UINT64_MAX : clock_ns() + (uint64_t)ms * CLIENT_MS;
	return 0;
}

int client_loop_start(struct client *client, struct fault *fault)
{
	client->timer_ns = UINT64_MAX;
	client->epoll = epoll_create1(EPOLL_CLOEXEC);
	client->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	client->multi = curl_multi_init();
	struct epoll_event event = {.events = EPOLLIN, .data.fd = client->wake};
	if (client->epoll < 0 || client->wake < 0 || !client->multi ||
		client_curl_start(client) < 0 ||
		epoll_ctl(client->epoll, EPOLL_CTL_ADD, client->wake, &event) < 0)
		return fault_set(fault, -EMFILE,
			"the client of remote data could not be started: %s; check the limit of "
			"open files (ulimit -n) and memory",
			strerror(errno));
	curl_multi_setopt(client->multi, CURLMOPT_SOCKETFUNCTION, loop_socket);
	curl_multi_setopt(client->multi, CURLMOPT_SOCKETDATA, client);
	curl_multi_setopt(client->multi, CURLMOPT_TIMERFUNCTION, loop_timer);
	curl_multi_setopt(client->multi, CURLMOPT_TIMERDATA, client);
	curl_multi_setopt(client->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
	curl_multi_setopt(
		client->multi, CURLMOPT_MAXCONNECTS, (long)client->options.connections + 16);
	return 0;
}

void client_loop_stop(struct client *client)
{
	client_connection_close_all(client);
	if (client->multi)
		(void)curl_multi_cleanup(client->multi);
	client_curl_stop(client);
	free(client->sockets);
	if (client->wake >= 0)
		(void)close(client->wake);
	if (client->epoll >= 0)
		(void)close(client->epoll);
}

void client_loop_due(struct client *client)
{
	/* A transfer that begins makes the timer due at once, and may do so again. */
	for (int turns = 0; turns < 4 && client->timer_ns <= clock_ns(); turns++) {
		int running;
		client->timer_ns = UINT64_MAX;
		(void)curl_multi_socket_action(client->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	}
	for (struct list_node *node = client->making.first, *next; node; node = next) {
		struct client_connection *connection =
			list_element(node, offsetof(struct client_connection, node));
		next = node->next;
		if (connection->timer_ns <= clock_ns())
			client_direct_event(connection, CURL_SOCKET_TIMEOUT, 0);
	}
}

/* When libcurl wants to be called. */
static uint64_t loop_timers(const struct client *client)
{
	uint64_t first = client->timer_ns;
	list_each (connection, &client->making, struct client_connection, node)
		first = UTIL_MIN(first, connection->timer_ns);
	return first;
}

static void loop_event(struct client *client, int fd, uint32_t events)
{
	int running;
	struct client_connection *connection = client_sockets_owner(client, fd);
	if (connection) {
		client_direct_event(connection, fd, events);
		return;
	}
	int what = (events & EPOLLIN ? CURL_CSELECT_IN : 0) |
		   (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
		   (events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
	(void)curl_multi_socket_action(client->multi, fd, what, &running);
}

void client_loop_wait(struct client *client, uint64_t until_ns)
{
	struct epoll_event events[LOOP_EVENTS];
	uint64_t now = clock_ns(), until = UTIL_MIN(until_ns, loop_timers(client));
	int timeout = -1;
	if (until != UINT64_MAX)
		timeout = until <= now ? 0
				       : (int)UTIL_MIN(
						 (until - now + CLIENT_MS - 1) / CLIENT_MS, 60000u);
	int count = epoll_wait(client->epoll, events, LOOP_EVENTS, timeout);
	client->now_ns = clock_ns();
	for (int i = 0; i < count; i++) {
		if (events[i].data.fd != client->wake) {
			loop_event(client, events[i].data.fd, events[i].events);
			continue;
		}
		uint64_t value;
		(void)!read(client->wake, &value, sizeof value);
	}
}

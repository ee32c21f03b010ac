/* http: see http.h. The public functions and the thread's loop.
 *
 * The loop here drives libmicrohttpd (MHD_run, when its epoll descriptor is readable) and accepts
 * the connections itself: see http_impl.h. */
#include "http/http_impl.h"

#include "base/clock.h"
#include "base/util.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

enum { HTTP_STACK = 256 << 10, HTTP_EVENTS = 4, HTTP_SHARE_OF_DESCRIPTORS = 8 };

/* ---- the thread ---- */

static bool http_goes_on(struct http *http)
{
	pthread_mutex_lock(&http->lock);
	bool stop = http->stop;
	pthread_mutex_unlock(&http->lock);
	return !stop;
}

static void http_events(struct http *http, const struct epoll_event *event, int count)
{
	for (int i = 0; i < count; i++) {
		uint64_t pokes;
		if (event[i].data.fd == http->listener.fd)
			place_accept(http);
		else if (event[i].data.fd == http->wake_fd &&
			 read(http->wake_fd, &pokes, sizeof pokes) > 0)
			continue;
	}
}

void http_turn(struct http *http, int timeout_ms)
{
	struct epoll_event event[HTTP_EVENTS];
	int n = epoll_wait(http->epoll_fd, event, HTTP_EVENTS, timeout_ms);
	http_events(http, event, n);
	/* libmicrohttpd does not report resumed connections to a loop that is not its own. */
	(void)MHD_run(http->daemon);
	if (picture_turn(http))
		(void)MHD_run(http->daemon);
	place_sweep(http);
}

static void *http_main(void *argument)
{
	struct http *http = argument;
	(void)pthread_setname_np(pthread_self(), "penstock-http");
	while (http_goes_on(http))
		http_turn(http, place_wait_ms(http));
	return NULL;
}

/* ---- begin ---- */

static int http_watch(struct http *http, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
	return epoll_ctl(http->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int http_start_library(struct http *http)
{
	http->daemon = MHD_start_daemon(
		MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
		answer_request, http, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_MEMORY,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS + 1,
		MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_NOTIFY_CONNECTION, place_notify, http,
		MHD_OPTION_NOTIFY_COMPLETED, place_answered, http, MHD_OPTION_STRICT_FOR_CLIENT, 1,
		MHD_OPTION_END);
	if (!http->daemon)
		return -ENOMEM;
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	return http_watch(http, info->epoll_fd);
}

static int http_start_loop(struct http *http)
{
	http->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	http->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (http->epoll_fd < 0 || http->wake_fd < 0)
		return -errno;
	int result = http_watch(http, http->listener.fd);
	if (!result)
		result = http_watch(http, http->wake_fd);
	return result;
}

/* The thread blocks all signals: the event loop takes them. */
static int http_start_thread(struct http *http)
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, HTTP_STACK);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int result = pthread_create(&http->thread, &attr, http_main, http);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	http->thread_runs = result == 0;
	return -result;
}

/* Most descriptors are reserved for trainers, however few there are. */
static unsigned http_places(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return HTTP_CONNECTIONS;
	rlim_t share = limit.rlim_cur / HTTP_SHARE_OF_DESCRIPTORS;
	return share ? (unsigned)UTIL_MIN(share, (rlim_t)HTTP_CONNECTIONS) : 1;
}

static int http_start(struct http *http, struct fault *fault)
{
	int result = http_start_loop(http);
	if (!result)
		result = http_start_library(http);
	if (!result)
		result = http_start_thread(http);
	return result ? fault_set(fault, result, "cannot serve the page: %s; raise ulimit -n or -u",
				strerror(-result))
		      : 0;
}

int http_new(const struct http_options *options, struct http **ret, struct fault *fault)
{
	struct http *http = calloc(1, sizeof *http);
	if (!http)
		return fault_set(fault, -ENOMEM, "no memory to serve the page");
	http->wake = options->wake;
	http->wake_context = options->wake_context;
	http->listener.fd = http->epoll_fd = http->wake_fd = -1;
	http->places = http_places();
	for (int i = 0; i < HTTP_CONNECTIONS; i++)
		http->place[i].fd = -1;
	pthread_mutex_init(&http->lock, NULL);
	int result = address_parse(options->address, options->folder, &http->address, fault);
	if (!result)
		result = address_listen(&http->address, &http->listener, fault);
	if (!result) {
		answer_learn_names(http);
		result = http_start(http, fault);
	}
	if (result) {
		http_free(http);
		return result;
	}
	*ret = http;
	return 0;
}

const char *http_address(const struct http *http)
{
	return http->listener.text;
}

bool http_is_open(const struct http *http)
{
	return http->listener.open;
}

/* ---- the event loop's side ---- */

void http_publish(struct http *http, enum http_document which, char *text)
{
	pthread_mutex_lock(&http->lock);
	char *old = http->published[which];
	http->published[which] = text;
	http->published_ns = clock_ns();
	pthread_mutex_unlock(&http->lock);
	free(old);
}

bool http_sheet_wanted(struct http *http, uint32_t *ret_stream)
{
	pthread_mutex_lock(&http->lock);
	bool wanted = http->sheet_wanted;
	http->sheet_wanted = false;
	*ret_stream = http->sheet_stream;
	pthread_mutex_unlock(&http->lock);
	return wanted;
}

void http_sheet_give(struct http *http, struct http_sheet *sheet)
{
	pthread_mutex_lock(&http->lock);
	struct http_sheet *old = http->sheet;
	http->sheet = sheet;
	http->sheet_given = true;
	pthread_mutex_unlock(&http->lock);
	free(old);
	http_poke(http);
}

void http_stats_read(struct http *http, struct http_stats *ret)
{
	*ret = (struct http_stats){
		.requests = atomic_load_explicit(&http->requests, memory_order_relaxed),
		.refused = atomic_load_explicit(&http->refused, memory_order_relaxed),
		.connections = atomic_load_explicit(&http->connections, memory_order_relaxed),
	};
}

/* ---- end ---- */

/* libmicrohttpd cannot stop while a connection is suspended. */
static void http_resume_all(struct http *http)
{
	for (unsigned i = 0; i < http->places; i++)
		if (http->place[i].fd >= 0 && http->place[i].suspended) {
			http->place[i].suspended = false;
			http->place[i].drawn = true;
			MHD_resume_connection(http->place[i].connection);
		}
}

void http_free(struct http *http)
{
	if (!http)
		return;
	if (http->thread_runs) {
		pthread_mutex_lock(&http->lock);
		http->stop = true;
		pthread_mutex_unlock(&http->lock);
		http_poke(http);
		(void)pthread_join(http->thread, NULL);
	}
	if (http->daemon) {
		http_resume_all(http);
		MHD_stop_daemon(http->daemon);
	}
	picture_deinit(http);
	answer_deinit(http);
	address_close(&http->address, &http->listener);
	if (http->epoll_fd >= 0)
		(void)close(http->epoll_fd);
	if (http->wake_fd >= 0)
		(void)close(http->wake_fd);
	pthread_mutex_destroy(&http->lock);
	free(http);
}

/* server: see server.h. One thread, one epoll; stages report through one eventfd. */
#include "serve/serve_impl.h"

#include "base/clock.h"
#include "base/host/cpu.h"
#include "base/host/limits.h"
#include "base/log.h"
#include "base/size.h"
#include "base/store.h"
#include "base/util.h"
#include "batch/handout.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

enum { SERVER_EVENTS = 64 };
#define SERVER_SECOND_NS 1000000000ull

const char *server_socket(const struct server *server)
{
	return server->socket;
}

void server_notice(struct server *server, const char *text)
{
	recorder_note(server, text);
	server_notice_only(server, text);
}

void server_notice_only(struct server *server, const char *text)
{
	log_warning("%s", text);
	uint32_t at = server->notice_count < UTIL_COUNT(server->notices)
			      ? server->notice_count++
			      : UTIL_COUNT(server->notices) - 1;
	(void)snprintf(server->notices[at], FAULT_TEXT, "%s", text);
}

int server_watch(struct server *server, int fd, uint32_t events, struct watch *watch)
{
	struct epoll_event event = {.events = events, .data.ptr = watch};
	return epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

void server_deafen(struct server *server, bool deaf)
{
	struct epoll_event event = {
		.events = deaf ? 0 : EPOLLIN, .data.ptr = &server->listen_watch};
	if (server->deaf == deaf || server->listen_fd < 0)
		return;
	server->deaf = deaf;
	(void)epoll_ctl(server->epoll_fd, EPOLL_CTL_MOD, server->listen_fd, &event);
}

/* ---- start ---- */

static int server_lock(struct server *server, struct fault *fault)
{
	char path[sizeof server->socket + 8], pid[32] = "";
	(void)snprintf(path, sizeof path, "%s.lock", server->socket);
	server->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (server->lock_fd < 0)
		return fault_set(fault, -errno,
			"cannot open the lock %s: %s; choose another place with --socket or "
			"PENSTOCK_SOCKET",
			path, strerror(errno));
	if (flock(server->lock_fd, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK)
			return fault_set(fault, -errno,
				"cannot lock %s: %s; this file system or sandbox has no locks "
				"(flock): choose another place with --socket or PENSTOCK_SOCKET",
				path, strerror(errno));
		ssize_t n = read(server->lock_fd, pid, sizeof pid - 1);
		pid[n > 0 ? strcspn(pid, "\n") : 0] = 0;
		return fault_set(fault, -EBUSY,
			"another penstockd (pid %s) already serves %s: use it, end it with "
			"`penstock stop`, or give this one "
			"another --socket",
			pid[0] ? pid : "unknown", server->socket);
	}
	int n = snprintf(pid, sizeof pid, "%d\n", getpid());
	if (ftruncate(server->lock_fd, 0) || pwrite(server->lock_fd, pid, (size_t)n, 0) != n)
		return fault_set(
			fault, -errno, "cannot write the lock %s: %s", path, strerror(errno));
	return 0;
}

static int server_resolve(struct server *server, struct fault *fault)
{
	const struct config *config = server->config;
	int result = 0;
	if (config->socket[0])
		(void)snprintf(server->socket, sizeof server->socket, "%s", config->socket);
	else
		result = conn_default_path(server->socket, sizeof server->socket);
	if (result)
		return fault_set(fault, result,
			"the path of the socket is too long: set PENSTOCK_SOCKET to a path below "
			"108 bytes");
	result = store_cache_folder(config->cache_dir, server->cache_dir, sizeof server->cache_dir);
	if (result)
		return fault_set(fault, result,
			"no cache folder can be used (%s is not yours alone, or too long): set "
			"cache_dir, HOME or XDG_CACHE_HOME",
			server->cache_dir);
	result = conn_make_folder(server->socket);
	if (result == -ENOENT)
		return fault_set(fault, result,
			"the folder of the socket %s cannot be made: only the last folder of a "
			"path is, so make those above it",
			server->socket);
	if (result)
		return fault_set(fault, result,
			"the folder of the socket %s cannot be used: %s; it must be yours alone "
			"(mode 0700), choose another with "
			"--socket or PENSTOCK_SOCKET",
			server->socket, strerror(-result));
	return server_lock(server, fault);
}

/* One table for the plan that is printed and the lines that are reserved. */
static int server_reserve(struct server *server, struct fault *fault)
{
	const struct budget *p = &server->plan;
	const struct {
		const char *name;
		uint64_t bytes;
	} lines[] = {{"process", p->process}, {"workers", p->scratch}, {"index pages", p->index},
		{"read buffers", p->arena}, {"large files", p->large_reads},
		{"large images", p->large_images}};
	char text[FAULT_TEXT], size[16];
	int n = snprintf(
		text, sizeof text, "memory: %s =", size_format(p->budget, size, sizeof size));
	int result = 0, line;
	for (size_t i = 0; i < UTIL_COUNT(lines) && !result; i++) {
		result = ledger_reserve(
			&server->ledger, lines[i].bytes, lines[i].name, &line, fault);
		n += snprintf(text + n, sizeof text - (size_t)n, " %s %s +", lines[i].name,
			size_format(lines[i].bytes, size, sizeof size));
	}
	log_write(LOG_INFO, LOG_MEMORY, "%s batches %s", text,
		size_format(p->streams, size, sizeof size));
	return result;
}

static unsigned server_threads(const struct config *config)
{
	return config->threads ? config->threads : budget_threads();
}

static void server_wake(void *context)
{
	struct server *server = context;
	uint64_t one = 1;
	/* Full means that it is awake already. */
	ssize_t written = write(server->wake_fd, &one, sizeof one);
	(void)written;
}

static uint64_t server_budget_for(void *context, uint64_t bytes_more)
{
	const struct server *server = context;
	const struct budget_worker worker = budget_worker_needs();
	return budget_for(
		server->plan.streams + bytes_more, workers_threads(server->pool), &worker);
}

static int server_start_stages(struct server *server, struct fault *fault)
{
	const struct config *config = server->config;
	unsigned threads = server_threads(config);
	uint64_t budget = config->memory ? config->memory : ledger_default_budget();
	const struct budget_worker worker = budget_worker_needs();
	int result = budget_make(budget, threads, &worker, &server->plan, fault);
	if (result)
		return result;
	ledger_init(&server->ledger, budget);
	permit_init(&server->large_reads, server->plan.large_reads);
	permit_init(&server->large_images, server->plan.large_images);
	server->ready_parts = true;
	result = server_reserve(server, fault);
	struct fetch_options options = {
		.engine = config->reader,
		.io = config->io,
		.pread_threads = config->reader_threads,
		.arena_bytes = server->plan.arena,
		.index_bytes = server->plan.index,
		.cache = config->cache,
		.ledger = &server->ledger,
		.large = &server->large_reads,
	};
	struct decode_limits limits = decode_limits_default();
	limits.large = &server->large_images;
	limits.scratch = server->plan.worker_scratch;
	if (!result)
		result = fetch_new(&options, &server->fetch, fault);
	if (!result)
		result = workers_new(threads, &limits, BUDGET_IMAGE_SIZE_MAX, &server->pool, fault);
	if (!result)
		log_write(LOG_INFO, LOG_READER,
			"%u worker%s on %u CPU%s; reader: %s; checkpoints %s", threads,
			threads == 1 ? "" : "s", cpu_available(), cpu_available() == 1 ? "" : "s",
			fetch_describe(server->fetch), config->entry_points ? "kept" : "off");
	if (server->fetch)
		shelf_init(&server->shelf, server->fetch);
	list_shelf_init(&server->lists, &server->ledger, server_budget_for, server);
	server->environment = (struct stream_environment){
		.fetch = server->fetch,
		.shelf = &server->shelf,
		.lists = &server->lists,
		.workers = server->pool,
		.ledger = &server->ledger,
		.cache_dir = server->cache_dir,
		.stream_memory = config->stream_memory,
		.entry_points = server->config->entry_points,
		.budget_for = server_budget_for,
		.budget_context = server,
		.wake = server_wake,
		.wake_context = server,
		.fills = &server->fills,
	};
	return result;
}

static int server_watch_fault(int result, struct fault *fault)
{
	return fault_set(fault, result,
		"the event loop cannot watch a descriptor: %s; raise fs.epoll.max_user_watches",
		strerror(-result));
}

static int server_start_loop(struct server *server, struct fault *fault)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	server->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	server->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	server->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct itimerspec second = {{1, 0}, {1, 0}};
	if (server->epoll_fd < 0 || server->signal_fd < 0 || server->timer_fd < 0 ||
		server->wake_fd < 0 || timerfd_settime(server->timer_fd, 0, &second, NULL))
		return fault_set(fault, -errno,
			"cannot set up the event loop (epoll, signalfd, timerfd, eventfd): %s%s",
			strerror(errno), limits_hint(errno));
	server->listen_watch.kind = WATCH_LISTENER;
	server->signal_watch.kind = WATCH_SIGNAL;
	server->timer_watch.kind = WATCH_TIMER;
	server->wake_watch.kind = WATCH_WAKE;
	int result = server_watch(server, server->signal_fd, EPOLLIN, &server->signal_watch);
	if (!result)
		result = server_watch(server, server->timer_fd, EPOLLIN, &server->timer_watch);
	if (!result)
		result = server_watch(server, server->wake_fd, EPOLLIN, &server->wake_watch);
	return result ? server_watch_fault(result, fault) : 0;
}

static int server_listen(struct server *server, struct fault *fault)
{
	int result = conn_listen(server->socket, &server->listen_fd);
	if (result)
		return fault_set(fault, result,
			"cannot listen on %s: %s; choose another place with --socket or "
			"PENSTOCK_SOCKET",
			server->socket, strerror(-result));
	(void)conn_refuse_fds(server->listen_fd); /* else they are dropped when they come */
	result = server_watch(server, server->listen_fd, EPOLLIN, &server->listen_watch);
	return result ? server_watch_fault(result, fault) : 0;
}

int server_new(struct config *config, struct server **ret, struct fault *fault)
{
	struct server *server = calloc(1, sizeof *server);
	if (!server)
		return fault_set(fault, -ENOMEM, "no memory for the server");
	*server = (struct server){.config = config,
		.lock_fd = -1,
		.listen_fd = -1,
		.epoll_fd = -1,
		.signal_fd = -1,
		.timer_fd = -1,
		.wake_fd = -1};
	peer_book_set(&server->peers, config->max_clients, config->max_streams);
	pthread_mutex_init(&server->quarantine_lock, NULL);
	server->started_ns = server->idle_since_ns = server->used_ns = clock_ns();
	server->started_unix_ns = clock_unix_ns();
	pthread_mutex_init(&server->opened_lock, NULL);
	int result = server_resolve(server, fault);
	if (!result)
		result = server_start_loop(server, fault);
	if (!result)
		result = confined_begin(server, fault);
	if (!result) {
		recorder_start(server);
		handout_begin();
		result = confined_files(server, fault);
	}
	if (!result)
		result = server_start_stages(server, fault);
	/* Listening comes last: whoever connects finds a daemon that works. */
	if (!result)
		result = server_listen(server, fault);
	if (!result) {
		publish_start(server);
		recorder_watch(server);
		result = confined_calls(server, fault);
	}
	if (result) {
		recorder_ending(server, "failed", fault->text);
		server_free(server);
		return result;
	}
	supervisor_start(server);
	*ret = server;
	return 0;
}

/* ---- the loop ---- */

static void server_signal(struct server *server)
{
	struct signalfd_siginfo info;
	while (read(server->signal_fd, &info, sizeof info) == sizeof info) {
		if (info.ssi_signo == SIGHUP) {
			reload_ask(server);
		} else if (server->draining) {
			server->stop = true;
		} else {
			log_info("signal %u from pid %u: draining; a second one ends at once",
				info.ssi_signo, info.ssi_pid);
			recorder_signalled(server, info.ssi_signo, info.ssi_pid);
			server_drain(server);
		}
	}
}

void server_drain(struct server *server)
{
	if (server->draining)
		return;
	server->draining = true;
	supervisor_stopping();
	server->drain_since_ns = clock_ns();
	if (server->listen_fd >= 0) {
		(void)unlink(server->socket);
		(void)close(server->listen_fd);
		server->listen_fd = -1;
	}
	for (struct group *g = server->groups; g; g = g->next)
		if (g->stream)
			stream_drain(g->stream);
}

/* Clients without a stream (who asked for the end, or for the status) keep nobody waiting. */
static bool server_attached(const struct server *server)
{
	for (const struct client *c = server->clients; c; c = c->next)
		if (c->members)
			return true;
	return false;
}

static const char server_ending[] =
	"penstockd was asked to end; open the stream again with the state to go on with the next "
	"batch";

/* A draining stream ends at a batch boundary: what is being filled is still announced, then its
 * trainers are told. A stream that is still being opened ends at once. */
static void server_drain_turn(struct server *server)
{
	bool quiet = true;
	lists_task_refuse(server, -ESHUTDOWN, server_ending);
	for (struct group *g = server->groups; g; g = g->next) {
		struct stream_stats stats;
		if (g->closing)
			continue;
		if (!g->begun) {
			group_refuse(g, -ESHUTDOWN, server_ending);
			if (g->stream)
				stream_cancel(g->stream);
			continue;
		}
		/* It may have come after server_drain, in the same turn of the loop. */
		stream_drain(g->stream);
		stream_stats(g->stream, &stats);
		if (stats.slots_filling) {
			quiet = false;
			continue;
		}
		if (!g->told_end) {
			g->told_end = true;
			for (struct member *m = g->members; m; m = m->next_of_group)
				group_say_over(m, -ESHUTDOWN, server_ending);
		}
	}
	bool late = clock_ns() - server->drain_since_ns > SERVE_DRAIN_LIMIT_S * SERVER_SECOND_NS;
	if ((quiet && !server_attached(server)) || late)
		server->stop = true;
}

static void server_tick(struct server *server)
{
	uint64_t expirations, now = clock_ns();
	ssize_t n = read(server->timer_fd, &expirations, sizeof expirations);
	(void)n;
	char notice[FAULT_TEXT];
	while (fetch_notice(server->fetch, notice, sizeof notice))
		server_notice(server, notice);
	server_deafen(server, false);
	account_server_tick(server);
	log_limit_tick(server);
	for (struct group *g = server->groups; g; g = g->next) {
		group_tick(g);
		group_remark(g);
	}
	supervisor_tick(server);
	recorder_tick(server);
	publish_tick(server);
	for (struct client *c = server->clients; c; c = c->next)
		if (!c->hello && now - c->since_ns > SERVE_HELLO_LIMIT_S * SERVER_SECOND_NS)
			client_close(c, "sent no hello");
	uint64_t limit = server->config->idle_exit_s * SERVER_SECOND_NS;
	if (!limit || !server->idle_since_ns || server->draining ||
		now - server->idle_since_ns < limit)
		return;
	/* Whoever has connected by now is served. */
	client_accept(server);
	if (!server->client_count) {
		(void)snprintf(
			notice, sizeof notice, "no client for %u s", server->config->idle_exit_s);
		log_info("%s: ending", notice);
		recorder_ending(server, "idle", notice);
		server_drain(server);
	}
}

static void server_woken(struct server *server)
{
	uint64_t count;
	ssize_t n = read(server->wake_fd, &count, sizeof count);
	(void)n;
	open_task_collect(server);
	close_task_collect(server);
	reload_collect(server);
	publish_sheet(server);
	for (struct group *g = server->groups; g; g = g->next) {
		(void)path_task_collect(g);
		group_turn(g);
	}
}

static void server_client_event(struct client *client, enum watch_kind kind, uint32_t events)
{
	if (client->dead)
		return;
	if (kind == WATCH_PIDFD) {
		client_close(client, client_process_ended);
		return;
	}
	if (events & EPOLLOUT) {
		client_want_write(client, false);
		/* By group: a turn may end a stream, and with it members of any client. */
		for (struct group *g = client->server->groups; g; g = g->next)
			group_turn(g);
	}
	/* What it sent before it hung up is still read: a release is a release. */
	if (!client->dead && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		client_readable(client);
}

static void server_event(struct server *server, const struct epoll_event *event)
{
	const struct watch *watch = event->data.ptr;
	switch (watch->kind) {
	case WATCH_LISTENER:
		if (server->listen_fd >= 0)
			client_accept(server);
		break;
	case WATCH_SIGNAL:
		server_signal(server);
		break;
	case WATCH_TIMER:
		server_tick(server);
		break;
	case WATCH_WAKE:
		server_woken(server);
		break;
	case WATCH_WITNESS:
		recorder_hear(server);
		break;
	case WATCH_CLIENT:
	case WATCH_PIDFD:
		server_client_event(watch->client, watch->kind, event->events);
		break;
	}
}

int server_turn(struct server *server, int timeout_ms, struct fault *fault)
{
	struct epoll_event events[SERVER_EVENTS];
	int n = epoll_wait(
		server->epoll_fd, events, SERVER_EVENTS, handouts_timeout_ms(server, timeout_ms));
	server->turn++;
	if (n < 0 && errno != EINTR) {
		int result = fault_set(fault, -errno, "the event loop failed: %s", strerror(errno));
		recorder_ending(server, "failed", fault->text);
		return result;
	}
	for (int i = 0; i < n; i++)
		server_event(server, &events[i]);
	client_sweep(server);
	lists_task_sweep(server);
	handouts_sweep(server);
	group_sweep(server);
	if (server->draining)
		server_drain_turn(server);
	client_sweep(server);
	return server->stop;
}

int server_run(struct server *server, struct fault *fault)
{
	int result = 0;
	(void)pthread_setname_np(pthread_self(), "penstock-serve");
	while (result == 0)
		result = server_turn(server, -1, fault);
	return result < 0 ? result : 0;
}

/* ---- end ---- */

static bool server_has_streams(const struct server *server)
{
	return server->groups || server->openings || server->closings || server->arrivals;
}

/* All clients go, then the streams: their rows in flight come back first. Openers are told to give
 * up and are waited for, as closers are. */
static void server_end_streams(struct server *server)
{
	for (struct client *c = server->clients; c; c = c->next)
		client_close(c, client_daemon_ends);
	client_sweep(server);
	while (server_has_streams(server)) {
		uint64_t count;
		open_task_collect(server);
		close_task_collect(server);
		lists_task_sweep(server);
		for (struct group *g = server->groups; g; g = g->next)
			if (g->stream)
				stream_collect(g->stream);
		group_sweep(server);
		if (server_has_streams(server)) {
			struct timespec pause = {0, 1000000};
			(void)nanosleep(&pause, NULL);
		}
		ssize_t n = read(server->wake_fd, &count, sizeof count);
		(void)n;
	}
}

void server_free(struct server *server)
{
	if (!server)
		return;
	publish_end(server);
	int const fds[] = {server->listen_fd, server->epoll_fd, server->signal_fd, server->timer_fd,
		server->wake_fd};
	reload_end(server);
	if (server->wake_fd >= 0)
		server_end_streams(server);
	log_limit_end(server);
	handouts_deinit(server);
	peer_book_deinit(&server->peers);
	workers_free(server->pool);
	shelf_deinit(&server->shelf);
	if (server->environment.lists)
		list_shelf_deinit(&server->lists);
	fetch_free(server->fetch);
	if (server->ready_parts) {
		permit_deinit(&server->large_reads);
		permit_deinit(&server->large_images);
		ledger_deinit(&server->ledger);
	}
	if (server->listen_fd >= 0)
		(void)unlink(server->socket);
	for (size_t i = 0; i < UTIL_COUNT(fds); i++)
		if (fds[i] >= 0)
			(void)close(fds[i]);
	/* The lock file stays: removing it would let two daemons hold locks on two files of one
	 * name. */
	if (server->lock_fd >= 0)
		(void)close(server->lock_fd);
	recorder_end(server);
	pthread_mutex_destroy(&server->opened_lock);
	pthread_mutex_destroy(&server->quarantine_lock);
	free(server);
}

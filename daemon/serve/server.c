/* server: see server.h. */
#include "serve/server.h"
#include "serve/remoted.h"

#include "base/clock.h"
#include "base/host/cpu.h"
#include "base/log.h"
#include "base/size.h"
#include "base/store.h"
#include "base/util.h"
#include "batch/handout.h"
#include "proto/conn.h"
#include "serve/confined.h"
#include "serve/session/handouts.h"
#include "serve/session/session.h"
#include "serve/state.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

enum { SERVER_EVENTS = 64, SERVER_HELLO_LIMIT_S = 10 };

const char *server_socket(const struct server *server)
{
	return server->socket;
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
			"`penstock stop`, or give this one another --socket",
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
			"the path of the socket is too long: set PENSTOCK_SOCKET to one of fewer "
			"than 108 bytes");
	result = store_cache_folder(config->cache_dir, server->cache_dir, sizeof server->cache_dir);
	if (result)
		return fault_set(fault, result,
			"no cache folder can be used (%s is open to others, or too long): set "
			"cache_dir, HOME or XDG_CACHE_HOME",
			server->cache_dir);
	result = conn_make_folder(server->socket);
	if (result == -ENOENT)
		return fault_set(fault, result,
			"the folder of the socket %s cannot be made: penstockd makes only the last "
			"folder of a path, so make those above it",
			server->socket);
	if (result == -EROFS)
		return fault_set(fault, result,
			"the folder of the socket %s cannot be made, because the file system is "
			"read-only: mount a volume there, or choose another with --socket or "
			"PENSTOCK_SOCKET",
			server->socket);
	if (result)
		return fault_set(fault, result,
			"the folder of the socket %s cannot be used: %s; it must be yours alone "
			"(mode 0700): choose another with --socket or PENSTOCK_SOCKET",
			server->socket, strerror(-result));
	return server_lock(server, fault);
}

/* One table for the line that is logged and the lines that are reserved. */
static int server_reserve(struct server *server, struct fault *fault)
{
	const struct budget *p = &server->memory;
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
	return config->threads ? config->threads : cpu_threads();
}

static uint64_t server_budget_for(void *context, uint64_t bytes_more)
{
	const struct server *server = context;
	const struct budget_worker worker = budget_worker_needs();
	return budget_for(
		server->memory.streams + bytes_more, workers_threads(server->workers), &worker);
}

/* A topology that cannot be understood is reported, and nothing is placed. */
static void server_read_numa(struct server *server)
{
	struct fault fault;
	if (server->config->numa == CONFIG_NUMA_AUTO &&
		numa_read(numa_folder(), &server->numa, &fault) < 0)
		log_warning("%s", fault.text);
}

/* Before the daemon is confined: it may then bind no more threads. */
static void server_place(struct server *server)
{
	const struct numa *numa = &server->numa;
	if (!numa->count)
		return;
	unsigned workers = workers_place(server->workers, numa);
	unsigned readers = fetch_place(server->fetch, numa);
	log_write(LOG_INFO, LOG_READER,
		"NUMA: %u nodes; bound to them: %u of the workers, %u of the reader's threads",
		numa->count, workers, readers);
}

static int server_start_stages(struct server *server, struct fault *fault)
{
	const struct config *config = server->config;
	unsigned threads = server_threads(config);
	uint64_t budget = config->memory ? config->memory : budget_default();
	const struct budget_worker worker = budget_worker_needs();
	int result = budget_make(budget, threads, &worker, &server->memory, fault);
	if (result)
		return result;
	ledger_init(&server->ledger, budget);
	permit_init(&server->large_reads, server->memory.large_reads);
	permit_init(&server->large_images, server->memory.large_images);
	server->has_memory = true;
	result = server_reserve(server, fault);
	server_read_numa(server);
	struct fetch_options options = {
		.engine = config->reader,
		.io = config->io,
		.pread_threads = config->reader_threads,
		.arena_bytes = server->memory.arena,
		.index_bytes = server->memory.index,
		/* Each node has one. */
		.lanes = fetch_lanes_for(UTIL_MAX(threads, server->numa.count * FETCH_LANE_WORKERS),
			server->memory.arena, server->memory.index),
		/* Some wait for a connection, so that none is idle. */
		.far_reads = 2 * config->remote.connections,
		.cache = config->cache,
		.ledger = &server->ledger,
		.large = &server->large_reads,
	};
	struct decode_limits limits = decode_limits_default();
	server->spill.folder = server->cache_dir;
	limits.large = &server->large_images;
	limits.spill = &server->spill;
	limits.scratch = server->memory.worker_scratch;
	if (!result)
		result = fetch_new(&options, &server->fetch, fault);
	if (!result)
		result = workers_new(
			threads, &limits, BUDGET_IMAGE_SIZE_MAX, &server->workers, fault);
	if (!result)
		log_write(LOG_INFO, LOG_READER,
			"%u worker%s on %u CPU%s; reader: %s; entry points %s", threads,
			threads == 1 ? "" : "s", cpu_available(), cpu_available() == 1 ? "" : "s",
			fetch_describe(server->fetch), config->entry_points ? "kept" : "off");
	if (!result)
		server_place(server);
	if (server->fetch)
		shelf_init(&server->shelf, server->fetch);
	list_shelf_init(&server->lists, &server->ledger, server_budget_for, server);
	server->environment = (struct stream_environment){
		.fetch = server->fetch,
		.shelf = &server->shelf,
		.lists = &server->lists,
		.workers = server->workers,
		.ledger = &server->ledger,
		.cache_dir = server->cache_dir,
		.spill = &server->spill,
		.large = &server->large_reads,
		.stream_memory = config->stream_memory,
		.entry_points = server->config->entry_points,
		.budget_for = server_budget_for,
		.budget_context = server,
		.wake = loop_wake,
		.wake_context = &server->loop,
		.fills = &server->account.fills,
	};
	return result;
}

void server_note_streams(const struct config *config)
{
	bool closed;
	const char *text = config_no_streams(config, &closed);
	if (text[0] && closed)
		log_warning("%s %s", config->file, text);
	else if (text[0])
		log_info("%s %s", config->file, text);
}

int server_new(struct config *config, struct server **ret, struct fault *fault)
{
	struct server *server = calloc(1, sizeof *server);
	if (!server)
		return fault_set(fault, -ENOMEM, "no memory for the server");
	server->config = config;
	server->lock_fd = -1;
	loop_init(&server->loop);
	peer_book_set(&server->peers, config->max_clients, config->max_streams);
	pthread_mutex_init(&server->tasks.quarantine_lock, NULL);
	server->started_ns = server->idle_since_ns = server->used_ns = clock_ns();
	server->started_unix_ns = clock_unix_ns();
	int result = server_resolve(server, fault);
	if (!result)
		result = loop_start(&server->loop, fault);
	if (!result)
		result = confined_begin(server, fault);
	if (!result)
		result = remoted_begin(server, fault);
	if (!result) {
		recorder_start(server, confined_witness);
		handout_begin();
		result = confined_files(server, fault);
	}
	if (!result)
		result = server_start_stages(server, fault);
	/* Listening comes last: a client that connects finds a daemon that works. */
	if (!result)
		result = loop_listen(&server->loop, server->socket, fault);
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
	server_note_streams(config);
	supervisor_start(server);
	*ret = server;
	return 0;
}

/* ---- the loop ---- */

static void server_signal(struct server *server)
{
	struct signalfd_siginfo info;
	while (read(server->loop.signal_fd, &info, sizeof info) == sizeof info) {
		if (info.ssi_signo == SIGHUP) {
			reload_task_ask(server);
		} else if (server->draining) {
			server->stop = true;
		} else {
			log_info("signal %u from pid %u: draining; a second one ends at once",
				info.ssi_signo, info.ssi_pid);
			recorder_signalled(server, info.ssi_signo, info.ssi_pid);
			drain_begin(server);
		}
	}
}

/* Reports once that a pool is too small for what came: batches are the same, but take longer. */
static void server_note_spilled(
	struct server *server, const char *what, struct permit *pool, bool *told)
{
	struct permit_stats stats;
	char text[FAULT_TEXT], size[16], have[16], advice[64] = "";
	permit_stats_read(pool, &stats);
	if (*told || stats.largest <= pool->total)
		return;
	*told = true;
	bool files = pool == &server->large_reads;
	const struct budget parts = {.large_reads = files ? stats.largest : 0,
		.large_images = files ? 0 : stats.largest};
	const struct budget_worker worker = budget_worker_needs();
	uint64_t budget = budget_for_parts(&parts, workers_threads(server->workers), &worker);
	if (budget)
		(void)snprintf(advice, sizeof advice, "; memory: %lluM would hold it",
			(unsigned long long)(budget >> 20));
	(void)snprintf(text, sizeof text,
		"%s needs %s, and the memory budget has %s: such %ss go through a temporary file "
		"in %s, which costs time but changes no batch%s",
		files ? "a large file" : "a large image",
		size_format(stats.largest, size, sizeof size),
		size_format(pool->total, have, sizeof have), what, server->spill.folder, advice);
	recorder_notice(server, text);
}

static void server_tick(struct server *server)
{
	uint64_t now = clock_ns();
	loop_clear(server->loop.timer_fd);
	char notice[FAULT_TEXT];
	while (fetch_notice(server->fetch, notice, sizeof notice))
		recorder_notice(server, notice);
	server_note_spilled(server, "file", &server->large_reads, &server->spilled[0]);
	server_note_spilled(server, "image", &server->large_images, &server->spilled[1]);
	loop_deafen(&server->loop, false);
	account_server_tick(server);
	log_limit_tick(&server->log_limits);
	sweep_second(server);
	supervisor_tick(server);
	recorder_tick(server);
	publish_tick(server);
	list_each (c, &server->clients, struct client, node)
		if (!c->hello && now - c->since_ns > SERVER_HELLO_LIMIT_S * STATE_SECOND_NS)
			client_close(c, "sent no hello");
	uint64_t limit = server->config->idle_exit_s * STATE_SECOND_NS;
	if (!limit || !server->idle_since_ns || server->draining ||
		now - server->idle_since_ns < limit)
		return;
	/* A client that has connected by now is served. */
	client_accept(server);
	if (!server->client_count) {
		(void)snprintf(
			notice, sizeof notice, "no client for %u s", server->config->idle_exit_s);
		log_info("%s: ending", notice);
		recorder_ending(server, "idle", notice);
		drain_begin(server);
	}
}

static void server_woken(struct server *server)
{
	loop_clear(server->loop.wake_fd);
	open_task_collect(server);
	close_task_collect(server);
	reload_task_collect(server);
	publish_sheet(server);
	list_each (g, &server->groups, struct group, node) {
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
		list_each (g, &client->server->groups, struct group, node)
			group_turn(g);
	}
	/* Messages that it sent before it hung up still count. */
	if (!client->dead && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		messages_read(client);
}

static void server_event(struct server *server, const struct epoll_event *event)
{
	const struct watch *watch = event->data.ptr;
	switch (watch->kind) {
	case WATCH_LISTENER:
		if (server->loop.listen_fd >= 0)
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
	int n = epoll_wait(server->loop.epoll_fd, events, SERVER_EVENTS,
		handouts_timeout_ms(server, timeout_ms));
	server->turn++;
	if (n < 0 && errno != EINTR) {
		int result = fault_set(fault, -errno, "the event loop failed: %s", strerror(errno));
		recorder_ending(server, "failed", fault->text);
		return result;
	}
	for (int i = 0; i < n; i++)
		server_event(server, &events[i]);
	sweep_clients(server);
	lists_task_sweep(server);
	handouts_sweep(server);
	sweep_groups(server);
	if (server->draining)
		drain_turn(server);
	sweep_clients(server);
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
	const struct tasks *tasks = &server->tasks;
	return !list_is_empty(&server->groups) || !list_is_empty(&tasks->openings) ||
	       !list_is_empty(&tasks->closings) || !list_is_empty(&tasks->lists);
}

/* All clients are closed, then the streams, once their rows in flight have come back. Tasks that
 * open streams are told to give up; they are waited for, as are those that close streams. */
static void server_end_streams(struct server *server)
{
	list_each (c, &server->clients, struct client, node)
		client_close(c, client_daemon_ends);
	sweep_clients(server);
	while (server_has_streams(server)) {
		open_task_collect(server);
		close_task_collect(server);
		lists_task_sweep(server);
		list_each (g, &server->groups, struct group, node)
			if (g->stream)
				stream_collect(g->stream);
		sweep_groups(server);
		if (server_has_streams(server)) {
			struct timespec pause = {0, 1000000};
			(void)nanosleep(&pause, NULL);
		}
		loop_clear(server->loop.wake_fd);
	}
}

void server_free(struct server *server)
{
	if (!server)
		return;
	publish_end(server);
	reload_task_end(server);
	if (server->loop.wake_fd >= 0)
		server_end_streams(server);
	log_limit_end(&server->log_limits);
	handouts_deinit(server);
	peer_book_deinit(&server->peers);
	workers_free(server->workers);
	shelf_deinit(&server->shelf);
	if (server->environment.lists)
		list_shelf_deinit(&server->lists);
	fetch_free(server->fetch);
	remoted_end();
	if (server->has_memory) {
		permit_deinit(&server->large_reads);
		permit_deinit(&server->large_images);
		ledger_deinit(&server->ledger);
	}
	loop_stop_listening(&server->loop, server->socket);
	loop_deinit(&server->loop);
	/* The lock file stays: if it were removed, two daemons could lock two files of one name. */
	if (server->lock_fd >= 0)
		(void)close(server->lock_fd);
	recorder_end(server);
	pthread_mutex_destroy(&server->tasks.quarantine_lock);
	free(server);
}

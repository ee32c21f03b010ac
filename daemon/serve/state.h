/* state: struct server: what the parts of serve/ share. What only one part uses is a struct of
 * that part's header. Only serve/ and its tests include this. All of it belongs to the event
 * loop, except where a task's struct says otherwise. */
#pragma once

#include "base/host/ledger.h"
#include "base/host/numa.h"
#include "base/list.h"
#include "base/permit.h"
#include "config.h"
#include "confine/confine.h"
#include "serve/budget.h"
#include "serve/log_limit.h"
#include "serve/loop.h"
#include "serve/notices.h"
#include "serve/observe/account.h"
#include "serve/observe/observe.h"
#include "serve/observe/recorder.h"
#include "serve/session/peer.h"
#include "serve/tasks/tasks.h"
#include "stream/stream.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define STATE_SECOND_NS 1000000000ull

struct server {
	struct config *config;
	char socket[108], cache_dir[4096];
	int lock_fd;
	struct loop loop;
	uint64_t started_ns, started_unix_ns; /* it must not move when the clock is set */
	bool stop; /* the loop ends */

	/* What streams share. */
	struct budget memory;
	struct ledger ledger;
	/* Two pools: a decoder may wait for its permit while it holds a large read, so they must
	 * not be one. */
	struct permit large_reads, large_images;
	struct spill spill; /* in the cache folder */
	bool spilled[2]; /* that files, and images, are spilled was reported */
	bool has_memory; /* ledger and permits are initialized */
	struct fetch *fetch;
	struct shelf shelf;
	struct list_shelf lists;
	struct workers *workers;
	struct stream_environment environment;

	/* NUMA. Read-only once the threads run, but for the turns. */
	struct numa numa;
	unsigned numa_turn; /* the node of the next stream whose trainer may run on several */
	atomic_bool numa_told; /* relaxed: that the kernel does not place memory was logged */

	/* Sessions. The newest is the first of a list. */
	struct list_head clients, groups, jobs;
	uint32_t client_count;
	uint32_t next_extent;
	uint64_t members; /* that ever came */
	struct peer_book peers;
	struct list_head handouts;
	uint64_t turn; /* of the loop, counted */
	uint64_t used_ns; /* when the last client that had had a stream left */
	uint64_t idle_since_ns; /* 0: there are clients */
	bool draining;
	uint64_t drain_since_ns;
	struct log_limits log_limits;

	struct tasks tasks;

	/* Observing. */
	struct notices notices;
	bool entry_points_lost; /* a stream has reported that some cannot be kept */
	struct account_server account;
	struct totals retired; /* of streams that are gone */
	struct publish publish;
	struct recorder recorder;
	struct supervisor supervisor;
	struct confine_state confined;
};

/* ---- drain.c ---- */

/* Begins to end the daemon: it accepts no more clients, and its streams end at a batch. */
void drain_begin(struct server *server);
void drain_turn(struct server *server); /* at the end of each turn, once begun */

/* account: what the daemon keeps to say where time goes: a window of seconds for each group, and
 * how long each trainer waited. Event loop. */
#pragma once

#include "stats/histogram.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ACCOUNT_WINDOW = 10, /* seconds that a verdict looks back */
	ACCOUNT_WAITING = 256, /* bytes of the sentence about a server that does not answer */
};

struct server;
struct group;
struct member;

/* What the whole daemon spent in about a second. */
struct account_second {
	double seconds;
	double workers_idle_s, permit_wait_s, workers_cpu_s, cpu_s, delay_s, throttled_s;
	double cpus_idle_s; /* negative: not known */
	double read_delay_s;
	double read_busy_s, read_depth_s, buffers_full_s;
	uint64_t read_bytes, reads;
};

/* Counters as they were a second ago. */
struct account_counters {
	uint64_t at_ns, idle_ns, permit_ns, workers_cpu_ns, cpu_ns, delay_ns, throttled_us;
	uint64_t read_delay_ns, cpus_idle_ns;
	uint64_t busy_ns, depth_ns, short_ns, bytes, reads;
	unsigned read_threads;
	bool delay_known, read_delay_known, throttled_known, cpus_idle_known;
};

/* What grew between two counts. A counter that the kernel did not give at one of them counts from
 * the next one on, not from its beginning. Pure. */
void account_between(const struct account_counters *last, const struct account_counters *now,
	struct account_second *ret);

/* What was requested of remote storage since the start, as it was at the end of a second; the
 * connections are those of that moment. */
struct account_remote {
	uint64_t requests, slowdowns, throttled_ns;
	unsigned connections, limit;
	struct histogram first_byte;
};

struct account_server {
	struct account_counters last;
	struct account_second second;
	double read_best; /* bytes a second */
	uint64_t largest; /* bytes that an image needed of the memory for large images */
	unsigned cpus;
	/* Since the start: how long a trainer that had returned all batches waited for the next
	 * one, how long a batch took to be filled, and how long a trainer held one. */
	struct histogram waits, fills, held;
	struct account_remote remote[ACCOUNT_WINDOW + 1];
	uint64_t remote_ticks;
	char waiting[ACCOUNT_WAITING]; /* for a server that does not answer; "" */
};

struct account_group_second {
	struct account_second daemon;
	double trainer_wait_s, complete_s, slots_full_s;
	uint64_t images;
};

struct account_group {
	uint64_t at_ns; /* until when the times below are counted */
	uint64_t trainer_wait_ns, slots_full_ns, complete_ns;
	bool was_waiting, was_full, was_complete;
	uint64_t last_wait_ns, last_complete_ns, last_full_ns, last_images;
	struct account_group_second window[ACCOUNT_WINDOW];
	uint64_t ticks; /* since batches are announced */
	uint64_t seconds; /* since the stream began */
	struct histogram waits[2]; /* as the server's, of this half minute and the last */
};

struct account_member {
	bool was_waiting;
	uint64_t seen; /* a bit for each slot that it held at the last look */
	uint64_t wait_ns, last_wait_ns;
	uint64_t released_ns; /* when it returned a batch, or got the first of those it holds */
	uint64_t longest_ns; /* from one of these to the next */
	double window[ACCOUNT_WINDOW]; /* shares */
	uint64_t ticks;
};

void account_turn(struct group *group); /* before and after anything that changes who waits */
void account_server_tick(struct server *server); /* once a second, before the groups' */
void account_tick(struct group *group);

double account_s(uint64_t now, uint64_t before); /* seconds from one count to the next, or 0 */
/* How many seconds the window has, and one of them: 0 is the last one. */
uint64_t account_have(const struct group *group);
const struct account_group_second *account_ago(const struct group *group, uint64_t ago);
double account_rate(const struct group *group);

struct verdict_remote;
/* What was requested in the last seconds, at most `seconds` of them; leaves `store` NULL. Pure. */
void account_requested(
	const struct account_server *account, uint64_t seconds, struct verdict_remote *ret);
/* The share of the last ten seconds, or of the last one, in which the trainer held nothing and
 * waited. */
double account_member_waits(const struct member *member);
double account_member_waited(const struct member *member);

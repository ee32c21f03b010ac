/* account: what serve/ keeps to say where time goes: a window of seconds for each group, and for
 * each trainer how long it waited. Event loop. */
#pragma once

#include "stats/verdict.h"

#include <stdbool.h>
#include <stdint.h>

enum { ACCOUNT_WINDOW = 10 }; /* seconds that a verdict looks back */

struct server;
struct group;
struct member;

/* What the whole daemon spent in about a second. */
struct account_second {
	double seconds;
	double workers_idle_s, permit_wait_s, workers_cpu_s, cpu_s, delay_s, throttled_s;
	double read_delay_s;
	double read_busy_s, read_depth_s, buffers_full_s;
	uint64_t read_bytes, reads;
};

/* Counters as they were a second ago. */
struct account_counters {
	uint64_t at_ns, idle_ns, permit_ns, workers_cpu_ns, cpu_ns, delay_ns, throttled_us;
	uint64_t read_delay_ns;
	uint64_t busy_ns, depth_ns, short_ns, bytes, reads;
	unsigned read_threads;
	bool delay_known, read_delay_known, throttled_known;
};

/* What grew between two counts. What the kernel did not say at one of them counts from the next on,
 * and not since it began. Pure. */
void account_between(const struct account_counters *last, const struct account_counters *now,
	struct account_second *ret);

struct account_server {
	struct account_counters last;
	struct account_second second;
	double read_best; /* bytes a second */
	uint64_t largest; /* bytes that an image needed of the memory of large ones */
	unsigned cpus;
};

struct account_group_second {
	struct account_second daemon;
	double trainer_wait_s, complete_s, slots_full_s;
	uint64_t images;
};

struct account_group {
	bool was_complete;
	uint64_t complete_ns;
	uint64_t last_wait_ns, last_complete_ns, last_full_ns, last_images;
	struct account_group_second window[ACCOUNT_WINDOW];
	uint64_t ticks;
};

struct account_member {
	bool was_waiting;
	uint64_t seen; /* bit per slot that it held when it was looked at last */
	uint64_t wait_ns, last_wait_ns;
	uint64_t released_ns; /* when it gave back a batch, or got the first of those it holds */
	uint64_t longest_ns; /* from one of these to the next */
	double window[ACCOUNT_WINDOW]; /* shares */
	uint64_t ticks;
};

void account_turn(struct group *group); /* before and after anything that changes who waits */
void account_server_tick(struct server *server); /* once a second, before the groups' */
void account_tick(struct group *group);

void account_bottleneck(const struct group *group, struct verdict *ret);
/* Its sentence alone. */
void account_verdict(const struct group *group, char *buffer, size_t room);
/* Of the stream whose trainers wait most, named where there are several. */
void account_server_verdict(const struct server *server, char *buffer, size_t room);
double account_rate(const struct group *group);

/* The share of the last ten seconds, or of the last one, in which it held nothing and waited. */
double account_member_waits(const struct member *member);
double account_member_waited(const struct member *member);

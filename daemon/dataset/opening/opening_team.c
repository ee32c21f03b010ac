/* opening_team: see opening.h.
 *
 * Each remote shard costs a request before anything is known of it, and its index is made while it
 * streams through. Both wait for the network most of the time, so several threads do them side by
 * side. */
#include "dataset/opening/opening.h"

#include "base/util.h"
#include "remote/interrupt.h"

#include <pthread.h>
#include <stdatomic.h>

enum { TEAM_THREADS = 16, THREAD_STACK = 1 << 20 };

/* What one thread's shard has reached. */
struct member {
	struct opening_team *team;
	struct member *next;
	bool alone; /* it keeps the lock until its index is written; its own thread's */
	uint64_t samples, bytes;
};

/* Threads that take shards one after the other. */
struct opening_team {
	struct opening *opening;
	opening_work *work;
	const atomic_bool *interrupt; /* of the thread that opens */
	atomic_uint next; /* shard; relaxed: only its value counts */
	pthread_mutex_t lock; /* of struct opening, and of what follows */
	uint32_t failed; /* the lowest shard that failed; UINT32_MAX: none */
	int result;
	struct fault fault;
	struct member *members;
};

static _Thread_local struct member *member_here;

static void team_fail(struct opening_team *team, uint32_t number, int rc, const struct fault *fault)
{
	if (number >= team->failed)
		return;
	team->failed = number;
	team->result = rc;
	team->fault = *fault;
	atomic_store_explicit(&team->next, UINT32_MAX / 2, memory_order_relaxed);
}

static void member_work(struct opening_team *team, uint32_t number)
{
	struct member member = {.team = team};
	struct fault fault = {{0}};
	(void)pthread_mutex_lock(&team->lock);
	member.next = team->members;
	team->members = &member;
	(void)pthread_mutex_unlock(&team->lock);
	member_here = &member;
	int rc = team->work(team->opening, number, &fault);
	member_here = NULL;
	(void)pthread_mutex_lock(&team->lock);
	struct member **at = &team->members;
	while (*at != &member)
		at = &(*at)->next;
	*at = member.next;
	if (rc < 0)
		team_fail(team, number, rc, &fault);
	(void)pthread_mutex_unlock(&team->lock);
}

static void *member_run(void *argument)
{
	struct opening_team *team = argument;
	(void)interrupt_set(team->interrupt);
	for (;;) {
		const uint32_t number =
			atomic_fetch_add_explicit(&team->next, 1, memory_order_relaxed);
		if (number >= team->opening->dataset->shards)
			return NULL;
		member_work(team, number);
	}
}

/* The calling thread takes part, so no other thread is needed. */
static void team_run(struct opening_team *team, unsigned wanted)
{
	pthread_t thread[TEAM_THREADS];
	pthread_attr_t attributes;
	unsigned threads = 0;
	(void)pthread_attr_init(&attributes);
	(void)pthread_attr_setstacksize(&attributes, THREAD_STACK);
	while (threads + 1 < wanted && threads < TEAM_THREADS &&
		pthread_create(&thread[threads], &attributes, member_run, team) == 0)
		threads++;
	(void)member_run(team);
	while (threads)
		(void)pthread_join(thread[--threads], NULL);
	(void)pthread_attr_destroy(&attributes);
}

int opening_team(struct opening *opening, unsigned threads, opening_work *work)
{
	struct opening_team team = {.opening = opening,
		.work = work,
		.interrupt = interrupt_here(),
		.failed = UINT32_MAX};
	struct fault *const fault = opening->fault;
	(void)pthread_mutex_init(&team.lock, NULL);
	opening->team = &team;
	team_run(&team, threads);
	opening->team = NULL;
	opening->fault = fault;
	(void)pthread_mutex_destroy(&team.lock);
	if (team.result < 0)
		*fault = team.fault;
	return team.result;
}

void opening_pause(struct opening *opening)
{
	if (member_here && !member_here->alone)
		(void)pthread_mutex_unlock(&opening->team->lock);
}

void opening_resume(struct opening *opening, struct fault *fault)
{
	if (!member_here || member_here->alone)
		return;
	(void)pthread_mutex_lock(&opening->team->lock);
	opening->fault = fault;
}

void opening_alone(bool alone)
{
	if (member_here)
		member_here->alone = alone;
}

static int members_tell(struct opening *opening, const struct member *members)
{
	uint64_t samples = opening->progress.samples, bytes = opening->progress.bytes;
	for (const struct member *each = members; each; each = each->next) {
		samples += each->samples;
		bytes += each->bytes;
	}
	return opening->progress.call ? opening->progress.call(opening->progress.context, samples,
						bytes, opening->progress.total_bytes)
				      : 0;
}

/* Adds up what all threads have reached. */
static int member_tell(void *context, uint64_t samples, uint64_t bytes, uint64_t total)
{
	struct member *member = context;
	struct opening_team *team = member->team;
	(void)total;
	if (!member->alone)
		(void)pthread_mutex_lock(&team->lock);
	member->samples = samples;
	member->bytes = bytes;
	int rc = members_tell(team->opening, team->members);
	if (!member->alone)
		(void)pthread_mutex_unlock(&team->lock);
	return rc;
}

struct index_progress *opening_progress(struct opening *opening, struct index_progress *own)
{
	if (!member_here)
		return &opening->progress;
	*own = (struct index_progress){.call = member_tell, .context = member_here};
	return own;
}

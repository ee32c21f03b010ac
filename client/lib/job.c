/* job: see job.h.
 *
 * Ranks are processes that do not know each other, but have to name one group. They have in common
 * what their launcher told them, what they read, and the order in which they open it. A process
 * without a launcher is a job of its own. Its pid would not do as a name, since containers that
 * share a socket have the same pids, so it takes a random number.
 *
 * Thread: any; the counters have a lock. After fork() a child counts anew, like another process
 * that was started with the same work. */
#include "client/lib/job.h"

#include "client/lib/error.h"
#include "proto/jsontext.h"
#include "proto/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define JOB_SPLIT "split"
#define JOB_SUFFIX "/%016" PRIx64 "/%" PRIu64 /* the stream's hash, its ordinal */

enum { JOB_SUFFIX_BYTES = 1 + 16 + 1 + 20, JOB_NAME = JOB_GROUP - JOB_SUFFIX_BYTES };

/* ---- ranks ---- */

/* Only digits; 0 or -EINVAL. */
static int job_parse(const char *text, uint32_t *ret_value)
{
	uint64_t value = 0;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return -EINVAL;
		value = value * 10 + (uint64_t)(*text - '0');
		if (value > UINT32_MAX)
			return -EINVAL;
	}
	*ret_value = (uint32_t)value;
	return 0;
}

static int job_number(const char *variable, const char *expected, uint32_t *ret_value)
{
	const char *text = getenv(variable);
	if (!text || !*text)
		return error_set(-EINVAL,
			"options.share is \"split\" and the environment's %s is not set: expected "
			"%s, as torchrun sets it; or set options.rank and options.world_size",
			variable, expected);
	if (job_parse(text, ret_value) < 0)
		return error_set(-EINVAL, "the environment's %s is \"%s\": expected %s", variable,
			text, expected);
	return 0;
}

static int job_ranks_from_environment(struct penstock_options *options)
{
	uint32_t rank = 0, world_size = 0;
	int result = job_number("RANK", "a number from 0 to WORLD_SIZE - 1", &rank);
	if (result == 0)
		result = job_number("WORLD_SIZE", "the number of ranks, 1 or more", &world_size);
	if (result < 0)
		return result;
	if (world_size == 0)
		return error_set(-EINVAL,
			"the environment's WORLD_SIZE is 0: expected the number of ranks, 1 or "
			"more");
	if (rank >= world_size)
		return error_set(-EINVAL,
			"the environment's RANK is %u and WORLD_SIZE %u: expected a rank from 0 to "
			"%u",
			rank, world_size, world_size - 1);
	options->rank = rank;
	options->world_size = world_size;
	return 0;
}

int job_take_ranks(struct penstock_options *options)
{
	if (options->world_size == 0 && options->rank != 0)
		return error_set(-EINVAL,
			"options.rank is %u and options.world_size is not set: set both, or "
			"neither if the environment has RANK and WORLD_SIZE",
			options->rank);
	if (options->world_size && options->rank >= options->world_size)
		return error_set(-EINVAL,
			"options.rank is %u and options.world_size %u: expected a rank from 0 to "
			"%u",
			options->rank, options->world_size, options->world_size - 1);
	bool split = options->share && strcmp(options->share, JOB_SPLIT) == 0;
	return split && options->world_size == 0 ? job_ranks_from_environment(options) : 0;
}

/* ---- counting ---- */

struct job_count {
	uint64_t hash, opened;
};

static struct {
	pthread_mutex_t lock;
	pid_t owner; /* the process that these belong to */
	uint64_t number; /* random: stands for this process as a job */
	struct job_count *count; /* one for each hash, until the process ends */
	size_t counts;
} job = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Without random numbers (a kernel that has just booted) the clock must do. */
static uint64_t job_random(void)
{
	uint64_t number;
	if (getrandom(&number, sizeof number, GRND_NONBLOCK) == (ssize_t)sizeof number)
		return number;
	struct timespec now;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void job_own(void)
{
	if (job.owner == getpid())
		return;
	job.owner = getpid();
	job.number = job_random();
	job.counts = 0;
}

static struct job_count *job_find(uint64_t hash)
{
	for (size_t i = 0; i < job.counts; i++) {
		if (job.count[i].hash == hash)
			return &job.count[i];
	}
	return NULL;
}

static struct job_count *job_add(uint64_t hash)
{
	struct job_count *grown = realloc(job.count, (job.counts + 1) * sizeof *grown);
	if (!grown)
		return NULL;
	job.count = grown;
	grown[job.counts] = (struct job_count){.hash = hash};
	return &grown[job.counts++];
}

/* ---- names ---- */

/* FNV-1a with 64 bits (Fowler, Noll, Vo): for a few short texts, none of them an adversary's. */
uint64_t job_hash(const char *definition)
{
	uint64_t hash = 0xcbf29ce484222325;
	for (; *definition; definition++)
		hash = (hash ^ (unsigned char)*definition) * 0x100000001b3;
	return hash;
}

static const char *job_variable(const char *name)
{
	const char *value = getenv(name);
	return value && *value ? value : NULL;
}

static bool job_fits(const char *name)
{
	if (strlen(name) >= JOB_NAME || !utf8_is_valid(name))
		return false;
	for (; *name; name++) {
		if ((unsigned char)*name < 0x20 || *name == 0x7f)
			return false;
	}
	return true;
}

/* Writes what a launcher said in a form that a group's name can hold. */
static void job_write(char name[JOB_NAME], const char *kind, const char *first, const char *second)
{
	char whole[4096];
	int n = snprintf(whole, sizeof whole, "%s%s%s%s", kind, first, second ? ":" : "",
		second ? second : "");
	if (n >= 0 && (size_t)n < sizeof whole && job_fits(whole))
		memcpy(name, whole, (size_t)n + 1);
	else
		(void)snprintf(name, JOB_NAME, "%s%016" PRIx64, kind,
			job_hash(first) * 31 + job_hash(second ? second : ""));
}

/* torchrun without --rdzv-id calls every job "none". */
static const char *job_torch(void)
{
	const char *run = job_variable("TORCHELASTIC_RUN_ID");
	return run && strcmp(run, "none") != 0 ? run : NULL;
}

bool job_known(void)
{
	return job_variable("PENSTOCK_JOB") || job_torch() || job_variable("SLURM_JOB_ID") ||
	       (job_variable("MASTER_ADDR") && job_variable("MASTER_PORT"));
}

/* Each kind of name has a prefix: a job of Slurm and one of torchrun may both be "7". */
static void job_name(char name[JOB_NAME])
{
	const char *own = job_variable("PENSTOCK_JOB"), *torch = job_torch(),
		   *slurm = job_variable("SLURM_JOB_ID"), *address = job_variable("MASTER_ADDR"),
		   *port = job_variable("MASTER_PORT");
	if (own)
		job_write(name, "job-", own, NULL);
	else if (torch)
		job_write(name, "torch-", torch, NULL);
	else if (slurm)
		job_write(name, "slurm-", slurm, NULL);
	else if (address && port)
		job_write(name, "master-", address, port);
	else
		(void)snprintf(name, JOB_NAME, "process-%d-%016" PRIx64, (int)getpid(), job.number);
}

bool job_key(uint64_t *ret_hash)
{
	char name[JOB_NAME];
	if (!job_known())
		return false;
	job_name(name);
	*ret_hash = job_hash(name);
	return true;
}

int job_group(uint64_t hash, char ret_name[JOB_GROUP], uint64_t *ret_ordinal)
{
	char name[JOB_NAME];
	(void)pthread_mutex_lock(&job.lock);
	job_own();
	struct job_count *count = job_find(hash);
	if (!count)
		count = job_add(hash);
	uint64_t ordinal = count ? count->opened++ : 0;
	job_name(name);
	(void)pthread_mutex_unlock(&job.lock);
	if (!count)
		return error_set(-ENOMEM, "no memory for the name of a group");
	(void)snprintf(ret_name, JOB_GROUP, "%s" JOB_SUFFIX, name, hash, ordinal);
	*ret_ordinal = ordinal;
	return 0;
}

void job_take_back(uint64_t hash, uint64_t ordinal)
{
	(void)pthread_mutex_lock(&job.lock);
	job_own();
	struct job_count *count = job_find(hash);
	if (count && count->opened == ordinal + 1)
		count->opened = ordinal;
	(void)pthread_mutex_unlock(&job.lock);
}

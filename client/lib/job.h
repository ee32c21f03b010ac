/* job: what an option leaves to the job that this process belongs to: its rank, and the name of its
 * group. */
#pragma once

#include "penstock/penstock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JOB_GROUP = 128 }; /* room for a group's name with its zero: as much as a daemon takes */

/* Rank and number of ranks of a stream that is split: what the application set, else RANK and
 * WORLD_SIZE of the environment. Others are left as they are. 0, or -EINVAL with what is wrong. */
int job_take_ranks(struct penstock_options *options);

/* The hash by which a definition goes into a group's name. Pure. */
uint64_t job_hash(const char *definition);

/* Whether the environment names a job, by which the processes of one find each other. */
bool job_known(void);

/* The hash of the job's name, where the environment names one: the same in all its processes. */
bool job_key(uint64_t *ret_hash);

/* The name of a group for the stream of this hash: the job's name, or its hash where it is long or
 * odd; the stream's; and how many streams of this hash the process has opened before. The same in
 * every rank of a job, as long as all open their streams in the same order. Each call counts as an
 * opening, unless job_take_back follows. Thread: any. 0, -ENOMEM. */
int job_group(uint64_t hash, char ret_name[JOB_GROUP], uint64_t *ret_ordinal);

/* The opening did not come about: the number is free again, if nobody took one after it. Thread:
 * any. */
void job_take_back(uint64_t hash, uint64_t ordinal);

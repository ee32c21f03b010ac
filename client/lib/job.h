/* job: what the options leave to the job that this process belongs to: its rank, and the name of
 * its group. */
#pragma once

#include "penstock/penstock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JOB_GROUP = 128 }; /* room for a group's name: as long as a daemon takes */

/* Sets rank and number of ranks of a stream that is split: what the application set, else RANK and
 * WORLD_SIZE of the environment. Leaves other streams alone. 0, or -EINVAL with a sentence. */
int job_take_ranks(struct penstock_options *options);

/* The hash that stands for a definition in a group's name. Pure. */
uint64_t job_hash(const char *definition);

/* Whether the environment names a job, by which its processes find each other. */
bool job_known(void);

/* The hash of the job's name, if the environment names one: the same in all processes of the
 * job. */
bool job_key(uint64_t *ret_hash);

/* The name of a group for the stream of this hash. It is made of the job's name (or its hash, if
 * the name is long or odd), the stream's hash, and how many streams of this hash the process has
 * opened before. It is the same in every rank of a job, as long as all ranks open their streams
 * in the same order. Each call counts as an opening, unless job_take_back follows. Thread: any.
 * 0, -ENOMEM. */
int job_group(uint64_t hash, char ret_name[JOB_GROUP], uint64_t *ret_ordinal);

/* The stream was not opened: its number is free again, unless a later one was taken. Thread:
 * any. */
void job_take_back(uint64_t hash, uint64_t ordinal);

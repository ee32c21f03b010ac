/* open: what the application asked for, as the text of WIRE_OPEN. */
#pragma once

#include "client/lib/job.h"
#include "penstock/penstock.h"
#include "proto/jsontext.h"

#include <stdbool.h>
#include <stdint.h>

/* A group's name that was made here, because the application wants one and names none. */
struct open_group {
	bool made;
	uint64_t hash, ordinal;
	char name[JOB_GROUP];
};

/* Copies the application's options into those of this library's release, defaults where its release
 * had none, its rank from the environment where that is where it stands. 0, -EINVAL. */
int open_take_options(const struct penstock_options *options, struct penstock_options *ret_options);

/* Where the options have `share` and no `group`: makes a name, sets it. `group` has to outlive the
 * options. 0; -EINVAL where others are to be waited for and no job is known by which they would
 * find the group, and others of open_write; -ENOMEM. */
int open_make_group(struct penstock_options *options, struct open_group *group);

/* Whether a source (NULL allowed) names a stream of the daemon's configuration. */
bool open_is_named(const char *source);

/* Whether these options ask for memory that this process can write to, and mean a stream that
 * nobody else reads, which is who gets it (PROTOCOL.md, "Shared memory"). */
bool open_is_writable(const struct penstock_options *options);

/* The opening came to nothing: the name may be made again. Takes a group that made none. */
void open_drop_group(const struct open_group *group);

/* Writes the definition, a mapping: all but the state. jsontext_free is the caller's. 0, -EINVAL,
 * -ENOMEM, -errno of getcwd. */
int open_write(const struct penstock_options *options, struct jsontext *json);

/* Writes the text of OPEN: the definition, and where to go on (`state` NULL: at the beginning;
 * `reconnect`: where a trainer stands that has lost its daemon). jsontext_free is the caller's. 0,
 * -EINVAL, -ENOMEM. */
int open_request(const char *definition, const char *state, bool reconnect, struct jsontext *json);

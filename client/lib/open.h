/* open: the application's options, as the text of WIRE_OPEN. */
#pragma once

#include "client/lib/job.h"
#include "penstock/penstock.h"
#include "proto/jsontext.h"

#include <stdbool.h>
#include <stdint.h>

/* A group's name that the library made, because the application wants a group and names none. */
struct open_group {
	bool made;
	uint64_t hash, ordinal;
	char name[JOB_GROUP];
};

/* Copies the application's options into the struct of this release: fields that the application's
 * release did not have get their defaults, and rank and world_size may come from the environment.
 * 0, -EINVAL. */
int open_take_options(const struct penstock_options *options, struct penstock_options *ret_options);

/* If the options have `share` and no `group`: makes a name and sets it. `group` must outlive the
 * options. 0; -EINVAL if the options wait for other trainers and no job is known by which those
 * would find the group; the errors of open_write; -ENOMEM. */
int open_make_group(struct penstock_options *options, struct open_group *group);

/* Whether the samples of a stream with this definition can be chosen anew: they are not defined by
 * the configuration, and no other trainer gets the same batches. 0; -EINVAL; -EBUSY. */
int open_may_choose(const char *definition);

struct open_choice {
	const char *indices; /* NULL: all samples */
	bool same; /* the indices that the definition has, instead */
	bool numbered; /* the group's name ends with the number of an earlier choice */
	unsigned number; /* of this one */
};

/* Writes a definition with other indices, and if it has a group, with the choice's number in its
 * name. The caller calls jsontext_free. 0, -EINVAL, -ENAMETOOLONG, -ENOMEM, -errno of getcwd. */
int open_choose(const char *definition, const struct open_choice *choice, struct jsontext *json);

/* Whether a source (NULL allowed) names a stream of the daemon's configuration. */
bool open_is_named(const char *source);

/* Whether these options ask for memory that this process can write to, for a stream that no other
 * trainer reads: only such a stream gets it (PROTOCOL.md, "Shared memory"). */
/* The features (enum wire_feature) that the application can use: those for which its struct has
 * fields. It may be older than this library. */
uint64_t open_features(const struct penstock_options *options);

bool open_is_writable(const struct penstock_options *options);

/* Opening failed: the same name may be made again. Takes a group without a made name. */
void open_drop_group(const struct open_group *group);

/* Writes the definition, a mapping without the state. The caller calls jsontext_free. 0, -EINVAL,
 * -ENOMEM, -errno of getcwd. */
int open_write(const struct penstock_options *options, struct jsontext *json);

/* Writes the text of OPEN: the definition, and where to start (`state` NULL: at the beginning;
 * `reconnect`: at the place of a trainer that lost its daemon). The caller calls jsontext_free. 0,
 * -EINVAL, -ENOMEM. */
int open_request(const char *definition, const char *state, bool reconnect, struct jsontext *json);

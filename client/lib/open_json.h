/* open_json: options that are texts of JSON, written into the request. */
#pragma once

#include "proto/jsontext.h"

#include <stdbool.h>
#include <stddef.h>

struct open_json {
	const char *option, *key; /* of penstock_options; of the request */
	char opener; /* '[' or '{': what the value is */
	const char *const *paths; /* its keys whose texts are paths; NULL ends them */
	const char *expected; /* "a JSON array of ...": for the refusal */
};

/* A member of an object: its name, without quotes, and its value as it is written. */
struct open_member {
	const char *key, *value; /* not zero-terminated */
	size_t key_size, value_size;
};

/* Reads the next member of an object that open_write wrote, and moves `*at`, which is its beginning
 * at first. False after the last one. */
bool open_json_next(const char **at, struct open_member *ret);

/* Writes `text` as a member of the request, and makes relative paths in it absolute. 0; -EINVAL
 * if it is not exactly one such value; -ENOMEM; the errors of getcwd. */
int open_json_write(const struct open_json *option, const char *text, struct jsontext *json);

/* Whether a source is one that the daemon reads over the network, from s3:// to http://: it is
 * passed on as it is. */
bool open_is_url(const char *path);

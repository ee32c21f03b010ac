/* open_json: options that are texts of JSON, written into the request. */
#pragma once

#include "proto/jsontext.h"

struct open_json {
	const char *option, *key; /* of penstock_options; of the request */
	char opener; /* '[' or '{': what the value is */
	const char *const *paths; /* its keys whose texts are paths; NULL ends them */
	const char *expected; /* "a JSON array of ...": for the refusal */
};

/* Writes `text` as a member of the request, and makes relative paths in it absolute. 0; -EINVAL
 * if it is not exactly one such value; -ENOMEM; the errors of getcwd. */
int open_json_write(const struct open_json *option, const char *text, struct jsontext *json);

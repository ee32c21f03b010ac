/* open_json: options that are texts of JSON, on their way into the request. */
#pragma once

#include "proto/jsontext.h"

struct open_json {
	const char *option, *key; /* of penstock_options; of the request */
	char opener; /* '[' or '{': what the value is */
	const char *const *paths; /* keys of it whose texts are paths, up to NULL */
	const char *expected; /* "a JSON array of ...": for the refusal */
};

/* Writes `text` as a member of the request; relative paths in it as absolute ones. 0; -EINVAL it is
 * no single such value; -ENOMEM; of getcwd. */
int open_json_write(const struct open_json *option, const char *text, struct jsontext *json);

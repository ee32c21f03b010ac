/* credentials: keys of an account, and the answers that contain them. The texts are secrets: a
 * struct is wiped before it is freed, and no sentence shows what is in one.
 *
 * Pure; any thread. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CREDENTIALS_ID = 132, /* AWS: at most 128 bytes */
	CREDENTIALS_SECRET = 260,
	CREDENTIALS_TOKEN = 8192, /* of a session; tokens of STS have some 1,000 bytes */
	CREDENTIALS_SOURCE = 160,
	CREDENTIALS_BODY = 65536, /* bytes of an answer */
	CREDENTIALS_PARTS = 4096, /* of it, as base/text/json.h counts */
};

struct credentials {
	char id[CREDENTIALS_ID], secret[CREDENTIALS_SECRET];
	char token[CREDENTIALS_TOKEN]; /* "": none */
	int64_t expires_s; /* since 1970; 0: never */
	bool fixed; /* fetching them again gives the same, or is impossible */
	char source[CREDENTIALS_SOURCE]; /* "profile work", for messages; not a secret */
};

void credentials_wipe(struct credentials *credentials);

/* Copies texts; `token` may be NULL. 0; -EINVAL with a sentence that names `source`, where one is
 * empty, too long or has bytes that a header may not have. */
int credentials_set(struct credentials *ret, const char *source, const char *id, const char *secret,
	const char *token, struct fault *fault);

/* Reads the JSON of a credential process, of ECS and of IMDS. 0; -EINVAL with a sentence that
 * begins with `source`. */
int credentials_from_json(struct credentials *ret, const char *source, const void *bytes,
	size_t size, struct fault *fault);

/* Reads the XML of STS. */
int credentials_from_sts(struct credentials *ret, const char *source, const void *bytes,
	size_t size, struct fault *fault);

/* Reads "2026-02-28T23:59:59Z", also with a fraction of a second or an offset. 0 or -EINVAL. */
int credentials_time(const char *text, int64_t *ret_s);

/* Reads a file of at most CREDENTIALS_BODY bytes that may contain secrets, with a zero after it.
 * Allocated; wipe and free it. 0; -ENOENT and the like with a sentence; -EFBIG. */
int credentials_file(const char *path, char **ret, size_t *ret_size, struct fault *fault);

/* The same for a file with one token: without blanks and line ends around it. */
int credentials_token_file(const char *path, char **ret, struct fault *fault);

/* Wipes and frees a text; for `cleanup(secret)` too. */
void credentials_free(char *text);

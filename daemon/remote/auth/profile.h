/* profile: what ~/.aws/credentials and ~/.aws/config say about one profile.
 * (AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE name other files.) Where both have a key, the
 * credentials file's is used.
 *
 * Reads files, each time: they may be replaced while a daemon runs. Any thread. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>

enum {
	PROFILE_NAME = 129,
	PROFILE_TEXT = 2049,
	PROFILE_TOKEN = 8193,
};

/* Zeroed texts are not set. Wipe it after use. */
struct profile {
	char name[PROFILE_NAME];
	bool found; /* in either file */
	char id[PROFILE_TEXT], secret[PROFILE_TEXT], token[PROFILE_TOKEN];
	char role_arn[PROFILE_TEXT], source_profile[PROFILE_NAME];
	char credential_source[PROFILE_NAME], external_id[PROFILE_TEXT];
	char session_name[PROFILE_NAME], mfa_serial[PROFILE_TEXT];
	char web_token_file[PROFILE_TEXT], process[PROFILE_TEXT];
	char sso[PROFILE_TEXT]; /* either key of AWS IAM Identity Center */
	char duration[PROFILE_NAME];
	char region[PROFILE_NAME], endpoint_url[PROFILE_TEXT];
};

/* Reads a profile. NULL: without memory. 0 (also where no file has it: then `found` is false);
 * -EINVAL with "path:line: ..."; -errno for a file that exists and cannot be read. Allocated; end
 * it with profile_free. */
int profile_read(const char *name, struct profile **ret, struct fault *fault);
void profile_free(struct profile *profile);

/* The name that is meant where none is given: AWS_PROFILE, AWS_DEFAULT_PROFILE, "default". */
const char *profile_default(void);

/* The two files' paths, in this order: credentials, config. "" where there is no home. */
enum { PROFILE_FILES = 2, PROFILE_PATH = 1024 };
void profile_paths(char ret[PROFILE_FILES][PROFILE_PATH]);

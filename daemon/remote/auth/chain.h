/* chain: finds credentials where AWS's tools find them, in this order:
 *
 *   1. the profile that the settings name (remote: profile), if they name one; nothing else then
 *   2. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
 *   3. AWS_ROLE_ARN with AWS_WEB_IDENTITY_TOKEN_FILE: exchanged at STS
 *   4. the profile AWS_PROFILE or "default": keys, credential_process, a role that is assumed at
 *      STS with the keys of source_profile or credential_source, a web identity
 *   5. ECS and EKS: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI
 *   6. EC2: the instance's metadata service, version 2 only
 *
 * A place that has something wrong is an error, and the later ones are not asked: other credentials
 * than the ones that were meant would be used.
 *
 * credential_process runs a program, which a confined daemon cannot (seccomp): penstockd runs it
 * once before it is confined. When what it gave expires, the fault says so.
 *
 * One thread; blocks on files, on the program and on the network. */
#pragma once

#include "base/fault.h"
#include "remote/auth/credentials.h"

#include <stdbool.h>
#include <stddef.h>

enum {
	CHAIN_E_NONE = 1, /* an outcome: no place has credentials */
	CHAIN_PROCESS_MS = 60000, /* that a credential_process has */
};

/* One request to a service of credentials. It is not signed and not repeated, and no redirect is
 * followed. */
struct chain_request {
	const char *method, *url;
	const char *const *headers; /* "Name: value"; NULL at the end; NULL: none */
	const char *body; /* NULL: none */
	unsigned timeout_s;
	bool direct; /* not through a proxy */

	unsigned status; /* 0: no answer */
	char code[64]; /* the service's error code; "" */
	size_t size;
	char answer[CREDENTIALS_BODY + 1]; /* with a zero after it */
};

/* 0 where the status is 200 and the body is whole; a negative errno with a sentence. */
typedef int chain_send_fn(void *context, struct chain_request *request, struct fault *fault);

struct chain {
	const char *profile; /* NULL: AWS_PROFILE and so on */
	const char *region; /* of STS; NULL: us-east-1 */
	const char *const *plain_http; /* see remote_url_check_plain */
	chain_send_fn *send;
	void *context;
};

/* 0; a negative errno with a sentence; CHAIN_E_NONE with one about the places that were looked
 * at and what to set. Nothing in `ret` points elsewhere. */
int chain_find(const struct chain *chain, struct credentials *ret, struct fault *fault);

/* Whether the profile that would be used runs a program. A profile that cannot be read: false. */
bool chain_runs_program(const struct chain *chain);

/* Parts of the chain, for chain.c. Each: as chain_find; only chain_instance says why it returns
 * CHAIN_E_NONE. */
int chain_web_identity(const struct chain *chain, const char *role, const char *token_file,
	const char *session, struct credentials *ret, struct fault *fault);

struct chain_role {
	const char *arn, *external_id, *session, *duration; /* but the first may be "" */
};
int chain_assume_role(const struct chain *chain, const struct chain_role *role,
	const struct credentials *from, struct credentials *ret, struct fault *fault);
int chain_container(const struct chain *chain, struct credentials *ret, struct fault *fault);
int chain_instance(const struct chain *chain, struct credentials *ret, struct fault *fault);
/* `limit_ms`: a program that runs longer is killed, with its process group. An interrupt of the
 * thread (remote/interrupt.h) kills it, too. */
int chain_process(
	const char *command, unsigned limit_ms, struct credentials *ret, struct fault *fault);

/* A variable of the environment; NULL where it is not set or empty. */
const char *chain_variable(const char *name);
struct chain_request *chain_request_new(struct fault *fault);
void chain_request_free(struct chain_request *request); /* wipes it */

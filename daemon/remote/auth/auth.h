/* auth: which requests are allowed, and the headers that authorize them.
 *
 * A map of this folder:
 *   auth.[ch]           this file: the object, signing, answers that refuse
 *   auth_absent.c       replaces the folder in builds without libcurl, libcrypto and expat
 *   auth_allowed.c      roots, http:// in the clear, redirects
 *   auth_impl.h         the object's fields
 *   auth_refresh.c      the thread that fetches credentials
 *   chain.[ch]          where credentials are found: the order, the environment, profiles
 *   chain_metadata.c    of ECS, EKS and EC2
 *   chain_process.c     of a program
 *   chain_request.c     what the parts of the chain share
 *   chain_sts.c         roles that are assumed
 *   credentials.[ch]    keys, and the answers that contain them
 *   ini.[ch]            lines of ~/.aws/credentials and ~/.aws/config
 *   profile.[ch]        one profile of these files
 *   sigv4.[ch]          AWS Signature Version 4
 *
 * Credentials are those of the process: its environment, its files, its machine. Nothing that a
 * client of a daemon sends is ever one. They are fetched at the first request that needs them, and
 * again five minutes before they expire or when a server says that they have expired; by one
 * thread, while requests go on with the old ones. They are wiped when they are replaced, and no
 * message, log line, state or JSON shows them.
 *
 * s3:// is signed by AWS Signature Version 4; gs:// too, with an HMAC key (GS_ACCESS_KEY_ID,
 * GS_SECRET_ACCESS_KEY), and without one it is read anonymously; hf:// is sent the token of
 * HF_TOKEN or of the file that huggingface_hub keeps, if there is one.
 *
 * Circle: auth, auth_absent, auth_allowed, auth_refresh: the second replaces the others.
 *
 * Any thread may call the functions; auth_sign, auth_refused and auth_allowed are the client's
 * callbacks, with the object as their context. */
#pragma once

#include "base/fault.h"
#include "remote/client/client.h"
#include "remote/remote.h"
#include "remote/url.h"

#include <stdbool.h>
#include <stddef.h>

struct auth;

/* Reads the environment and the profile; fetches nothing. Of the options only those of this room
 * are read, and copied. 0; a negative errno with a sentence (a root or an endpoint that is not a
 * URL). */
int auth_new(const struct remote_options *options, struct auth **ret, struct fault *fault);

/* Gives it the client, with which it fetches credentials. Call it before the first request. */
void auth_begin(struct auth *auth, struct client *client);

/* Ends fetching and waits for its thread; requests that need credentials fail from now on. Call it
 * before client_stop. */
void auth_end(struct auth *auth);

/* NULL is allowed. */
void auth_free(struct auth *auth);

client_sign_fn auth_sign;
client_refused_fn auth_refused;
client_allowed_fn auth_allowed;

/* Whether the URL may be read: below a root, if there are roots of URLs; and not in the clear. 0;
 * -EACCES with a sentence. Pure but for reading `auth`. */
int auth_check(const struct auth *auth, const struct remote_url *url, struct fault *fault);

/* Where requests go, for listings. The texts live as long as `auth`. */
const struct remote_where *auth_where(const struct auth *auth);

/* If the profile of `options` gets its credentials from a program, runs it now, before the process
 * is confined, and keeps what it printed for the first auth_new. 0; a negative errno with a
 * sentence. Call it before there are other threads. */
int auth_before_confinement(const struct remote_options *options, struct fault *fault);

/* The files that fetching credentials reads, for confinement: calls `add` with each path. */
void auth_files(const struct remote_options *options, void (*add)(void *context, const char *path),
	void *context);

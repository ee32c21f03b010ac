/* auth_impl: the object of auth.h. Only files of this folder include it. */
#pragma once

#include "base/task.h"
#include "remote/auth/auth.h"
#include "remote/auth/chain.h"
#include "remote/auth/credentials.h"
#include "remote/auth/sigv4.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
	AUTH_REGIONS = 32, /* buckets whose region a server told */
	AUTH_EARLY_S = 300, /* before they expire, credentials are fetched again */
	AUTH_VALID_S = 30, /* for which a signature is used for requests for the same URL */
	AUTH_AGAIN_S = 5, /* after an attempt to fetch them failed, the next one */
	AUTH_GRACE_S = 60, /* for which requests wait while fetching them again fails */
	AUTH_HEADER = 256, /* bytes of a header that a request brings and that is signed */
};

struct auth_region {
	char bucket[REMOTE_HOST_MAX + 1], region[CLIENT_REGION];
};

/* What signing one request needs, in one place because it is large. */
struct auth_scratch {
	struct remote_url url;
	struct remote_address address;
	char text[CLIENT_URL + 1], query[CLIENT_URL];
	struct sigv4_header headers[SIGV4_HEADERS];
	char names[SIGV4_HEADERS][AUTH_HEADER];
	size_t count;
};

struct auth {
	/* Constant after auth_new. */
	struct client *client;
	struct remote_where where;
	char *endpoint_url, *region, *profile;
	bool anonymous, requester_pays;
	char **plain_http; /* ends with NULL; or NULL */
	struct remote_url *roots; /* NULL: every URL is allowed */
	size_t root_count;
	bool rooted;
	struct credentials gs; /* "": anonymous */
	char *hf_token; /* NULL: none */
	struct remote_url hub; /* of hf:// */

	/* Under `lock`, which is held for a signature. */
	pthread_mutex_t lock;
	struct credentials current;
	bool have, refused; /* there are some; a server said that they have expired */
	bool none; /* no place has credentials: requests are not signed */
	int64_t refused_s; /* when such a refusal was last believed */
	uint64_t tried_ns, bad_ns; /* when fetching began last; since when it fails (0: it works) */
	uint64_t lost_ns; /* since when there are no usable credentials; 0: there are */
	int failed; /* of the last attempt; with `failure` */
	struct fault failure;
	struct sigv4_scope scope;
	struct auth_region regions[AUTH_REGIONS];
	unsigned region_count, region_next;
	struct auth_scratch scratch;

	bool ended; /* credentials are not fetched any more: `task` is auth_refresh_end's */
	struct task task; /* the thread that fetches */
	struct { /* the thread's results, taken by the one that collects the task */
		int rc;
		struct credentials found;
		struct fault fault;
	} fetched;

	/* Under `sending`: the request of the thread that fetches. */
	pthread_mutex_t sending;
	pthread_cond_t sent;
	struct client_request *request;
	bool answered;
	atomic_bool ending; /* also interrupts the thread. Set under `sending` */
};

/* Makes sure that `current` can be used at `now_s`; starts the thread that fetches if not, or if
 * they expire soon. `lock` is held. 0; -EAGAIN: they are being fetched; an error with a sentence.
 * After 0, `none` may be set. */
int auth_refresh(struct auth *auth, int64_t now_s, struct fault *fault);

/* Ends a request of the thread that fetches, and waits for the thread. */
void auth_refresh_end(struct auth *auth);

/* What a program gave before the process was confined, or nothing: 1 if `ret` was filled. */
int auth_refresh_take_kept(struct credentials *ret);

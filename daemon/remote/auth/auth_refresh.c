/* auth_refresh: fetches credentials, on a thread of its own, one at a time. See auth.h.
 *
 * Requests go on with credentials that are still good. Requests that have none wait; where fetching
 * fails, the first ones fail with the reason, and those after credentials that have expired wait
 * for AUTH_GRACE_S, because a service that cannot be reached comes back. */
#include "remote/auth/auth_impl.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "remote/auth/profile.h"
#include "remote/interrupt.h"

#include <errno.h>
#include <string.h>

/* Where there were no credentials, how long until they are looked for again. */
#define AUTH_LOOK_NS ((uint64_t)60 * 1000000000u)

/* What a program printed before the process was confined. Written and taken before there are
 * threads that fetch. */
static struct credentials auth_kept;
static bool auth_kept_full;

static void on_done(struct client_request *request)
{
	struct auth *auth = request->context;
	(void)pthread_mutex_lock(&auth->sending);
	auth->answered = true;
	(void)pthread_cond_signal(&auth->sent);
	(void)pthread_mutex_unlock(&auth->sending);
}

/* Waits for the request, which auth_refresh_end may cancel. */
static int send_and_wait(struct auth *auth, struct client_request *request, struct fault *fault)
{
	(void)pthread_mutex_lock(&auth->sending);
	bool ending = atomic_load_explicit(&auth->ending, memory_order_relaxed);
	if (!ending) {
		auth->request = request;
		auth->answered = false;
		client_begin(auth->client, request);
		while (!auth->answered)
			(void)pthread_cond_wait(&auth->sent, &auth->sending);
		auth->request = NULL;
	}
	(void)pthread_mutex_unlock(&auth->sending);
	if (ending)
		return fault_set(fault, -ECANCELED, "penstock is stopping");
	if (request->result < 0)
		(void)fault_set(fault, request->result, "%s", request->fault.text);
	return request->result;
}

static int send_request(void *context, struct chain_request *from, struct fault *fault)
{
	struct auth *auth = context;
	struct client_request *request = calloc(1, sizeof *request);
	if (!request)
		return fault_set(fault, -ENOMEM, "no memory for a request for credentials");
	request->method = !strcmp(from->method, "PUT")    ? CLIENT_PUT
			  : !strcmp(from->method, "POST") ? CLIENT_POST
							  : CLIENT_GET;
	request->flags = CLIENT_UNSIGNED | CLIENT_URGENT | CLIENT_ONCE | CLIENT_STAY |
			 (from->direct ? (unsigned)CLIENT_DIRECT : 0);
	request->url = from->url;
	request->headers = from->headers;
	request->body = from->body ? from->body : "";
	request->body_size = from->body ? strlen(from->body) : 0;
	request->buffer = (uint8_t *)from->answer;
	request->room = CREDENTIALS_BODY;
	request->timeout_s = from->timeout_s;
	request->done = on_done;
	request->context = auth;
	int rc = send_and_wait(auth, request, fault);
	from->status = request->status;
	(void)snprintf(from->code, sizeof from->code, "%s", request->code);
	from->size = rc == 0 ? (size_t)UTIL_MIN(request->received, CREDENTIALS_BODY) : 0;
	from->answer[from->size] = 0;
	explicit_bzero(request, sizeof *request);
	free(request);
	return rc;
}

/* The thread. */
static void fetch(void *argument)
{
	struct auth *auth = argument;
	const struct chain chain = {.profile = auth->profile,
		.region = auth->where.region,
		.plain_http = (const char *const *)auth->plain_http,
		.send = send_request,
		.context = auth};
	auth->fetched.fault.text[0] = 0;
	(void)interrupt_set(&auth->ending);
	auth->fetched.rc = chain_find(&chain, &auth->fetched.found, &auth->fetched.fault);
}

static void wake(void *context)
{
	struct auth *auth = context;
	client_credentials_changed(auth->client);
}

/* Takes what the thread has found. */
static void take(struct auth *auth)
{
	/* A source that has nothing for a while does not take what is still valid. */
	const bool keep = auth->fetched.rc == CHAIN_E_NONE && auth->have && !auth->refused;
	auth->failed = keep ? -EACCES : UTIL_MIN(auth->fetched.rc, 0);
	auth->failure = auth->fetched.fault;
	if (auth->failed) {
		auth->bad_ns = auth->bad_ns ? auth->bad_ns : clock_ns();
		return;
	}
	auth->none = auth->fetched.rc == CHAIN_E_NONE;
	auth->bad_ns = 0;
	auth->have = !auth->none;
	auth->refused = false;
	/* A signature's key is made of the secret. */
	explicit_bzero(&auth->scope, sizeof auth->scope);
	credentials_wipe(&auth->current);
	if (auth->have)
		auth->current = auth->fetched.found;
	credentials_wipe(&auth->fetched.found);
}

static void start(struct auth *auth)
{
	uint64_t now = clock_ns();
	if (auth->task.running || !auth->client ||
		(auth->tried_ns && now - auth->tried_ns < (uint64_t)AUTH_AGAIN_S * 1000000000u &&
			auth->failed))
		return;
	auth->tried_ns = now;
	auth->task = (struct task){.name = "penstock-keys",
		.run = fetch,
		.argument = auth,
		.wake = wake,
		.context = auth};
	int rc = task_start(&auth->task);
	if (rc < 0) {
		auth->failed = rc;
		(void)fault_set(
			&auth->failure, rc, "a thread that fetches credentials: %s", strerror(-rc));
	}
}

int auth_refresh(struct auth *auth, int64_t now_s, struct fault *fault)
{
	if (auth->ended)
		return fault_set(fault, -ECANCELED, "penstock is stopping");
	if (task_collect(&auth->task))
		take(auth);
	int64_t left_s =
		auth->have && auth->current.expires_s ? auth->current.expires_s - now_s : INT64_MAX;
	bool usable = auth->have && !auth->refused && left_s > 0;
	auth->lost_ns = usable ? 0 : auth->lost_ns ? auth->lost_ns : clock_ns();
	if (!usable || left_s < AUTH_EARLY_S)
		/* Someone may have logged in since. */
		if (!auth->none || clock_ns() - auth->tried_ns > AUTH_LOOK_NS)
			start(auth);
	if (usable)
		return 0;
	if (auth->none)
		return fault_set(fault, -EACCES, "%s", auth->failure.text);
	if (auth->task.running || !auth->failed)
		return -EAGAIN;
	/* There were credentials: what refuses now may come back. */
	const uint64_t since_ns = UTIL_MAX(auth->bad_ns, auth->lost_ns);
	if (auth->have && clock_ns() - since_ns < (uint64_t)AUTH_GRACE_S * 1000000000u &&
		auth->failed != -EPERM)
		return -EAGAIN;
	if (fault)
		*fault = auth->failure;
	return auth->failed == -EAGAIN ? -EIO : auth->failed;
}

void auth_refresh_end(struct auth *auth)
{
	/* The client's thread may sign requests until it ends. */
	(void)pthread_mutex_lock(&auth->lock);
	auth->ended = true;
	(void)pthread_mutex_unlock(&auth->lock);
	(void)pthread_mutex_lock(&auth->sending);
	atomic_store_explicit(&auth->ending, true, memory_order_relaxed);
	if (auth->request && !auth->answered)
		client_cancel(auth->client, auth->request);
	(void)pthread_mutex_unlock(&auth->sending);
	task_join(&auth->task);
}

int auth_refresh_take_kept(struct credentials *ret)
{
	if (!auth_kept_full)
		return 0;
	*ret = auth_kept;
	credentials_wipe(&auth_kept);
	auth_kept_full = false;
	return 1;
}

static int refuse_network(void *context, struct chain_request *request, struct fault *fault)
{
	(void)context;
	(void)request;
	return fault_set(fault, -EAGAIN, "not before the process is confined");
}

int auth_before_confinement(const struct remote_options *options, struct fault *fault)
{
	const struct chain chain = {.profile = options->profile, .send = refuse_network};
	if (options->anonymous || !chain_runs_program(&chain))
		return 0;
	int rc = chain_find(&chain, &auth_kept, fault);
	/* A role that is assumed with what the program printed is fetched later: it needs the
	 * network, and then the program again. */
	if (rc == -EAGAIN)
		return fault_set(fault, -ENOTSUP,
			"a role whose source_profile has a credential_process cannot be used by a "
			"confined penstockd: let the program print the role's credentials");
	auth_kept_full = rc == 0;
	return rc < 0 ? rc : 0;
}

/* A file that is replaced by renaming another is read through its folder only. */
static void add_folder(
	void (*add)(void *context, const char *path), void *context, const char *path)
{
	char folder[PROFILE_PATH];
	const char *slash = strrchr(path, '/');
	if (!slash || slash == path || (size_t)(slash - path) >= sizeof folder)
		return;
	memcpy(folder, path, (size_t)(slash - path));
	folder[slash - path] = 0;
	add(context, folder);
}

void auth_files(const struct remote_options *options, void (*add)(void *context, const char *path),
	void *context)
{
	static const char *const variables[] = {"AWS_WEB_IDENTITY_TOKEN_FILE",
		"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "HF_TOKEN_PATH", "AWS_CA_BUNDLE",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE"};
	char paths[PROFILE_FILES][PROFILE_PATH], path[PROFILE_PATH];
	struct profile *profile = NULL;
	profile_paths(paths);
	for (size_t i = 0; i < PROFILE_FILES; i++) {
		if (paths[i][0])
			add(context, paths[i]);
		/* Tools of AWS replace these files; so does what refreshes the tokens of pods. */
		if (strstr(paths[i], "/.aws/"))
			add_folder(add, context, paths[i]);
	}
	for (size_t i = 0; i < 2; i++)
		if (chain_variable(variables[i]))
			add_folder(add, context, chain_variable(variables[i]));
	for (size_t i = 0; i < UTIL_COUNT(variables); i++)
		if (chain_variable(variables[i]))
			add(context, chain_variable(variables[i]));
	const char *name = options->profile ? options->profile : profile_default();
	if (profile_read(name, &profile, NULL) == 0 && profile->web_token_file[0])
		add_folder(add, context, profile->web_token_file);
	profile_free(profile);
	const char *home = chain_variable("HF_HOME"), *cache = chain_variable("XDG_CACHE_HOME");
	const char *user = chain_variable("HOME");
	const char *base = home ? home : cache ? cache : user ? user : "";
	(void)snprintf(path, sizeof path, "%s/%stoken", base,
		home    ? ""
		: cache ? "huggingface/"
			: ".cache/huggingface/");
	add(context, path);
}

/* client: the thread and what other threads call. The thread alone touches libcurl. */
#include "remote/client/client_impl.h"

#include "base/clock.h"
#include "base/util.h"
#include "remote/interrupt.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <string.h>
#include <sys/random.h>

enum { CLIENT_TICK_MS = 10, CLIENT_TICK_THROTTLED_MS = 2, CLIENT_CONNECTIONS = 64 };

static pthread_once_t client_once = PTHREAD_ONCE_INIT;
static CURLcode client_library;

static void client_load(void)
{
	client_library = curl_global_init(CURL_GLOBAL_DEFAULT);
}

const char *client_refused(void)
{
	return NULL;
}

const char *client_describe(char buffer[CLIENT_DESCRIPTION])
{
	const curl_version_info_data *info = curl_version_info(CURLVERSION_NOW);
	(void)snprintf(buffer, CLIENT_DESCRIPTION, "s3, gs, hf, https, http (libcurl %s, %s)",
		info->version, info->ssl_version ? info->ssl_version : "no TLS");
	return buffer;
}

static void client_wake(struct client *client)
{
	uint64_t one = 1;
	(void)!write(client->wake, &one, sizeof one);
}

/* The usual variables for certificate authorities, of which libcurl itself reads none, and whether
 * there are proxies. */
static void client_read_environment(struct client *client)
{
	static const char *const files[] = {
		"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"};
	for (size_t i = 0; i < UTIL_COUNT(files) && !client->ca_file; i++) {
		const char *value = getenv(files[i]);
		if (value && *value)
			client->ca_file = strdup(value);
	}
	const char *folder = getenv("SSL_CERT_DIR");
	if (folder && *folder)
		client->ca_path = strdup(folder);
	/* As libcurl reads them: HTTP_PROXY is what a web server gives to its scripts. */
	static const char *const proxies[] = {"http_proxy", "all_proxy", "ALL_PROXY"};
	for (size_t i = 0; i < UTIL_COUNT(proxies); i++) {
		const char *value = getenv(proxies[i]);
		client->proxied |= value && *value;
	}
}

static void client_reap(struct client *client)
{
	int left;
	const CURLMsg *message;
	client_request_drop_losers(client);
	for (struct client_attempt *attempt;
		(attempt = list_take(&client->over, struct client_attempt, over_node));) {
		attempt->over = false;
		client_request_ended(client, attempt, attempt->code);
	}
	while ((message = curl_multi_info_read(client->multi, &left))) {
		if (message->msg != CURLMSG_DONE)
			continue;
		struct client_attempt *attempt = NULL;
		CURLcode code = message->data.result;
		(void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&attempt);
		client_request_ended(client, attempt, code);
	}
}

/* Takes what other threads asked for. Returns whether to stop. */
static bool client_take(struct client *client)
{
	for (;;) {
		(void)pthread_mutex_lock(&client->lock);
		bool stopping = client->stopping, changed = client->credentials_changed;
		client->credentials_changed = false;
		struct list_head inbox = client->inbox;
		client->inbox = (struct list_head){0};
		(void)pthread_mutex_unlock(&client->lock);
		if (changed)
			client_request_credentials_changed(client);
		struct list_node *node;
		while ((node = list_take_node(&inbox)))
			client_request_arrive(
				client, (struct client_request *)((char *)node -
								  offsetof(struct client_request,
									  own.node)));
		(void)pthread_mutex_lock(&client->lock);
		struct client_request *canceled = NULL;
		/* A request that is canceled has left the inbox, since it came before. */
		if (list_is_empty(&client->inbox) && (node = list_take_node(&client->cancels))) {
			canceled = (struct client_request *)((char *)node -
							     offsetof(struct client_request,
								     own.cancel_node));
			canceled->own.canceling = false;
		}
		bool more = canceled || !list_is_empty(&client->inbox);
		(void)pthread_mutex_unlock(&client->lock);
		if (canceled)
			client_request_cancel(client, canceled);
		if (!more)
			return stopping;
	}
}

static uint64_t client_next(const struct client *client)
{
	if (list_is_empty(&client->running) && !client->queued)
		return UINT64_MAX;
	return client->tick_ns + (client->throttled ? CLIENT_TICK_THROTTLED_MS : CLIENT_TICK_MS) *
					 (uint64_t)CLIENT_MS;
}

static void *client_run(void *context)
{
	struct client *client = context;
	client->tick_ns = client->bandwidth_ns = client->now_ns = clock_ns();
	while (!client_take(client)) {
		uint64_t due = client_next(client);
		client->now_ns = clock_ns();
		/* After a pause without work there is nothing to watch, and no time has passed. */
		if (due == UINT64_MAX)
			client->tick_ns = client->now_ns;
		else if (client->now_ns >= due)
			client_request_tick(client);
		client_request_launch(client);
		client_loop_due(client);
		client_reap(client);
		if (client_next(client) == UINT64_MAX)
			client_request_publish(client);
		client_loop_wait(client, client_next(client));
		client->now_ns = clock_ns();
		client_reap(client);
	}
	do
		client_request_cancel_all(client);
	while (!client_take(client) || !list_is_empty(&client->running) || client->queued);
	client_attempt_free_spare(client);
	return NULL;
}

static void client_free(struct client *client)
{
	client_loop_stop(client);
	client_signed_free(client);
	(void)pthread_mutex_destroy(&client->lock);
	free(client->ca_file);
	free(client->ca_path);
	free(client);
}

static void client_defaults(struct client *client, const struct client_options *options)
{
	client->options = *options;
	struct client_options *own = &client->options;
	own->connections = own->connections ? own->connections : CLIENT_CONNECTIONS;
	own->timeout_s = own->timeout_s ? own->timeout_s : 300;
	own->backoff_ms = own->backoff_ms ? own->backoff_ms : 100;
	/* One in advance: the first requests may be those that a whole stream waits for. */
	client->hedge_tokens = client->hedge_owed = own->hedge > 0 ? 1 : 0;
	if (getrandom(&client->random, sizeof client->random, GRND_NONBLOCK) < 0)
		client->random = clock_ns();
	client->random |= 1;
	client->epoll = client->wake = -1;
}

int client_start(const struct client_options *options, struct client **ret, struct fault *fault)
{
	(void)pthread_once(&client_once, client_load);
	if (client_library != CURLE_OK)
		return fault_set(fault, -EIO, "libcurl could not be started: %s",
			curl_easy_strerror(client_library));
	struct client *client = calloc(1, sizeof *client);
	if (!client)
		return fault_set(fault, -ENOMEM, "out of memory");
	client_defaults(client, options);
	client_read_environment(client);
	(void)pthread_mutex_init(&client->lock, NULL);
	int result = client_loop_start(client, fault);
	if (result == 0) {
		result = -pthread_create(&client->thread, NULL, client_run, client);
		if (result < 0)
			(void)fault_set(fault, result,
				"the thread of remote data could not be started: %s",
				strerror(-result));
	}
	if (result < 0) {
		client_free(client);
		return result;
	}
	(void)pthread_setname_np(client->thread, "remote-net");
	*ret = client;
	return 0;
}

void client_stop(struct client *client)
{
	if (!client)
		return;
	(void)pthread_mutex_lock(&client->lock);
	client->stopping = true;
	(void)pthread_mutex_unlock(&client->lock);
	client_wake(client);
	(void)pthread_join(client->thread, NULL);
	client_free(client);
}

void client_begin(struct client *client, struct client_request *request)
{
	memset(&request->own, 0, sizeof request->own);
	request->result = 0;
	request->status = 0;
	request->received = 0;
	request->answer =
		(struct client_answer){.size = CLIENT_UNKNOWN, .modified_s = -1, .date_s = -1};
	*request->code = 0;
	*request->fault.text = 0;
	(void)pthread_mutex_lock(&client->lock);
	bool first = list_is_empty(&client->inbox);
	list_append(&client->inbox, &request->own.node);
	(void)pthread_mutex_unlock(&client->lock);
	if (first)
		client_wake(client);
}

void client_cancel(struct client *client, struct client_request *request)
{
	(void)pthread_mutex_lock(&client->lock);
	bool ended = request->own.ended || request->own.canceling;
	if (!ended) {
		request->own.canceling = true;
		list_append(&client->cancels, &request->own.cancel_node);
	}
	(void)pthread_mutex_unlock(&client->lock);
	if (!ended)
		client_wake(client);
}

struct client_wait {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool done;
};

static void client_waited(struct client_request *request)
{
	struct client_wait *wait = request->context;
	(void)pthread_mutex_lock(&wait->lock);
	wait->done = true;
	(void)pthread_cond_signal(&wait->changed);
	(void)pthread_mutex_unlock(&wait->lock);
}

int client_perform(struct client *client, struct client_request *request, struct fault *fault)
{
	struct client_wait wait = {.lock = PTHREAD_MUTEX_INITIALIZER};
	bool canceled = false;
	if (interrupt_wanted()) {
		request->status = 0;
		request->result = fault_set(fault, -ECANCELED, "the request was canceled");
		return request->result;
	}
	interrupt_cond_init(&wait.changed);
	request->done = client_waited;
	request->context = &wait;
	client_begin(client, request);
	(void)pthread_mutex_lock(&wait.lock);
	while (!wait.done) {
		interrupt_wait(&wait.changed, &wait.lock, canceled);
		if (canceled || wait.done || !interrupt_wanted())
			continue;
		canceled = true;
		(void)pthread_mutex_unlock(&wait.lock);
		client_cancel(client, request);
		(void)pthread_mutex_lock(&wait.lock);
	}
	(void)pthread_mutex_unlock(&wait.lock);
	(void)pthread_cond_destroy(&wait.changed);
	if (request->result < 0 && fault)
		*fault = request->fault;
	return request->result;
}

void client_credentials_changed(struct client *client)
{
	(void)pthread_mutex_lock(&client->lock);
	client->credentials_changed = true;
	(void)pthread_mutex_unlock(&client->lock);
	client_wake(client);
}

void client_stats_read(struct client *client, struct client_stats *ret)
{
	(void)pthread_mutex_lock(&client->lock);
	*ret = client->published;
	(void)pthread_mutex_unlock(&client->lock);
}

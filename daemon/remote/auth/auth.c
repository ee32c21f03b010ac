/* auth: see auth.h. This file makes the object and signs requests. */
#include "remote/auth/auth_impl.h"

#include "base/clock.h"
#include "base/util.h"
#include "remote/auth/profile.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

/* The token that huggingface_hub's `login` has stored. */
static void hub_token_path(char *ret, size_t room)
{
	const char *given = chain_variable("HF_TOKEN_PATH"), *home = chain_variable("HF_HOME");
	const char *cache = chain_variable("XDG_CACHE_HOME"), *user = chain_variable("HOME");
	if (given)
		(void)snprintf(ret, room, "%s", given);
	else if (home)
		(void)snprintf(ret, room, "%s/token", home);
	else if (cache)
		(void)snprintf(ret, room, "%s/huggingface/token", cache);
	else
		(void)snprintf(ret, room, "%s/.cache/huggingface/token", user ? user : "");
}

static char *hub_token(void)
{
	const char *given = chain_variable("HF_TOKEN");
	char path[PROFILE_PATH], *token = NULL;
	if (!given)
		given = chain_variable("HUGGING_FACE_HUB_TOKEN");
	if (given)
		return strdup(given);
	hub_token_path(path, sizeof path);
	/* Most datasets are public: no token, or one that cannot be read, is not an error. */
	return credentials_token_file(path, &token, NULL) == 0 ? token : NULL;
}

static char *copied(const char *text)
{
	return text && text[0] ? strdup(text) : NULL;
}

static int copy_list(const char *const *from, char ***ret)
{
	size_t count = 0;
	while (from && from[count])
		count++;
	char **list = from ? calloc(count + 1, sizeof *list) : NULL;
	*ret = list;
	if (from && !list)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		list[i] = strdup(from[i]);
		if (!list[i])
			return -ENOMEM;
	}
	return 0;
}

static int copy_roots(struct auth *auth, const char *const *roots, struct fault *fault)
{
	size_t count = 0;
	auth->rooted = roots != NULL;
	while (roots && roots[count])
		count++;
	auth->roots = count ? calloc(count, sizeof *auth->roots) : NULL;
	if (count && !auth->roots)
		return fault_set(fault, -ENOMEM, "no memory for the roots");
	for (; auth->root_count < count; auth->root_count++) {
		int rc = remote_url_parse(
			roots[auth->root_count], &auth->roots[auth->root_count], fault);
		if (rc < 0)
			return fault_prefix(fault, rc, "roots");
	}
	return 0;
}

/* The region and the endpoint of the profile count where neither the settings nor the environment
 * has them. */
static void take_profile(struct auth *auth)
{
	struct profile *profile = NULL;
	const char *name = auth->profile ? auth->profile : profile_default();
	/* What is wrong with the file is reported where its credentials are needed. */
	if ((auth->where.region && auth->where.endpoint_url) || profile_read(name, &profile, NULL))
		return;
	if (!auth->where.region && profile->region[0]) {
		auth->region = strdup(profile->region);
		auth->where.region = auth->region;
	}
	if (!auth->where.endpoint_url && profile->endpoint_url[0]) {
		auth->endpoint_url = strdup(profile->endpoint_url);
		auth->where.endpoint_url = auth->endpoint_url;
	}
	profile_free(profile);
}

static int take_gs(struct auth *auth, struct fault *fault)
{
	const char *id = chain_variable("GS_ACCESS_KEY_ID");
	const char *secret = chain_variable("GS_SECRET_ACCESS_KEY");
	if (!id && !secret)
		return 0;
	return credentials_set(
		&auth->gs, "GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY", id, secret, NULL, fault);
}

/* Fails where an endpoint is not a URL, or is one that may not be used. */
static int check_endpoints(struct auth *auth, struct fault *fault)
{
	static const char *const samples[] = {
		"s3://bucket", "gs://bucket", "hf://datasets/org/name"};
	struct auth_scratch *scratch = &auth->scratch;
	for (size_t i = 0; i < UTIL_COUNT(samples); i++) {
		int rc = remote_url_parse(samples[i], &scratch->url, fault);
		if (rc == 0)
			rc = remote_url_address(
				&scratch->url, &auth->where, &scratch->address, fault);
		if (rc == 0)
			rc = remote_url_parse(scratch->address.url, &scratch->url, fault);
		if (rc == 0)
			rc = remote_url_check_plain(
				&scratch->url, (const char *const *)auth->plain_http, fault);
		if (rc < 0)
			return rc;
	}
	auth->hub = scratch->url;
	return 0;
}

static int auth_fill(struct auth *auth, const struct remote_options *options, struct fault *fault)
{
	auth->endpoint_url = copied(options->endpoint_url);
	auth->region = copied(options->region);
	auth->profile = copied(options->profile);
	auth->anonymous = options->anonymous;
	auth->requester_pays = options->requester_pays;
	auth->where = (struct remote_where){.endpoint_url = auth->endpoint_url,
		.region = auth->region,
		.path_style = options->path_style};
	remote_where_read(&auth->where);
	take_profile(auth);
	int rc = copy_list(options->plain_http, &auth->plain_http);
	if (rc < 0)
		return fault_set(fault, rc, "no memory for plain_http");
	rc = copy_roots(auth, options->roots, fault);
	if (rc == 0)
		rc = check_endpoints(auth, fault);
	if (rc == 0 && !auth->anonymous)
		rc = take_gs(auth, fault);
	auth->hf_token = rc == 0 && !auth->anonymous ? hub_token() : NULL;
	return rc;
}

int auth_new(const struct remote_options *options, struct auth **ret, struct fault *fault)
{
	struct auth *auth = calloc(1, sizeof *auth);
	if (!auth)
		return fault_set(fault, -ENOMEM, "no memory for credentials");
	(void)pthread_mutex_init(&auth->lock, NULL);
	(void)pthread_mutex_init(&auth->sending, NULL);
	(void)pthread_cond_init(&auth->sent, NULL);
	int rc = auth_fill(auth, options, fault);
	if (rc == 0 && !auth->anonymous)
		auth->have = auth_refresh_take_kept(&auth->current) > 0;
	if (rc < 0)
		auth_free(auth);
	else
		*ret = auth;
	return rc;
}

void auth_begin(struct auth *auth, struct client *client)
{
	auth->client = client;
	/* It may have ended with a client whose start failed. */
	auth->ended = false;
	auth->ending = false;
}

void auth_end(struct auth *auth)
{
	auth_refresh_end(auth);
}

void auth_free(struct auth *auth)
{
	if (!auth)
		return;
	for (size_t i = 0; auth->plain_http && auth->plain_http[i]; i++)
		free(auth->plain_http[i]);
	free((void *)auth->plain_http);
	free(auth->endpoint_url);
	free(auth->region);
	free(auth->profile);
	free(auth->roots);
	credentials_free(auth->hf_token);
	(void)pthread_mutex_destroy(&auth->lock);
	(void)pthread_mutex_destroy(&auth->sending);
	(void)pthread_cond_destroy(&auth->sent);
	explicit_bzero(auth, sizeof *auth);
	free(auth);
}

const struct remote_where *auth_where(const struct auth *auth)
{
	return &auth->where;
}

/* The region in which a bucket's requests are signed. */
static const char *region_of(const struct auth *auth, const char *bucket)
{
	for (unsigned i = 0; i < auth->region_count; i++)
		if (!strcmp(auth->regions[i].bucket, bucket))
			return auth->regions[i].region;
	return auth->where.region ? auth->where.region : "us-east-1";
}

/* Headers of the request that must be signed: S3 wants every x-amz-... signed. */
static int take_headers(struct auth_scratch *scratch, const struct client_request *request)
{
	for (const char *const *line = request->headers; line && *line; line++) {
		const char *colon = strchr(*line, ':');
		if (!colon || strncasecmp(*line, "x-amz-", 6) != 0)
			continue;
		size_t size = (size_t)(colon - *line);
		if (scratch->count == SIGV4_HEADERS || size >= AUTH_HEADER)
			return -E2BIG;
		for (size_t i = 0; i < size; i++)
			scratch->names[scratch->count][i] =
				(char)tolower((unsigned char)(*line)[i]);
		scratch->names[scratch->count][size] = 0;
		scratch->headers[scratch->count] = (struct sigv4_header){
			scratch->names[scratch->count], colon + 1 + strspn(colon + 1, " \t")};
		scratch->count++;
	}
	return 0;
}

/* What is said about the body: its hash, or that it is not signed. */
static const char *payload_of(const struct client_request *request, char hash[SIGV4_HASH])
{
	if (request->method != CLIENT_PUT && request->method != CLIENT_POST)
		return SIGV4_EMPTY;
	if (request->body_sha256)
		return request->body_sha256;
	if (!request->body_size)
		return SIGV4_EMPTY;
	return request->body && sigv4_hash(request->body, request->body_size, hash) == 0
		       ? hash
		       : SIGV4_UNSIGNED;
}

/* The key of the day and the region; made again when either, or the credentials, have changed. */
static int take_scope(struct auth *auth, const struct credentials *credentials, const char *region,
	int64_t time_s, struct sigv4_scope *ret)
{
	int rc = sigv4_scope_make(credentials->secret, region, "s3", time_s, ret);
	if (rc == 0 && credentials == &auth->current)
		auth->scope = *ret;
	return rc;
}

static bool scope_fits(const struct auth *auth, const char *region, int64_t time_s)
{
	char day[16];
	time_t seconds = (time_t)time_s;
	struct tm tm = {0};
	(void)gmtime_r(&seconds, &tm);
	(void)strftime(day, sizeof day, "%Y%m%d", &tm);
	return !strcmp(auth->scope.day, day) && !strcmp(auth->scope.region, region);
}

static int add_headers(const struct client_signing *signing, const struct credentials *credentials,
	const char *payload, const struct sigv4_signed *made)
{
	int rc = client_header_add(signing->headers, "x-amz-date", made->date);
	if (rc == 0)
		rc = client_header_add(signing->headers, "x-amz-content-sha256", payload);
	if (rc == 0 && credentials->token[0])
		rc = client_header_add(
			signing->headers, "x-amz-security-token", credentials->token);
	return rc < 0 ? rc
		      : client_header_add(signing->headers, "authorization", made->authorization);
}

/* Signs the request for the scratch's address. */
static int sign_v4(struct auth *auth, const struct client_signing *signing,
	const struct credentials *credentials, const char *region, struct fault *fault)
{
	struct auth_scratch *scratch = &auth->scratch;
	char hash[SIGV4_HASH];
	struct sigv4_signed made;
	struct sigv4_scope scope = auth->scope;
	int64_t now_s = (int64_t)(clock_unix_ns() / 1000000000u) + signing->clock_offset_s;
	const char *payload = payload_of(signing->request, hash);
	int rc = take_headers(scratch, signing->request);
	const struct sigv4_request request = {.method = signing->method,
		.host = scratch->address.host,
		.path = scratch->address.path,
		.query = scratch->query,
		.payload = payload,
		.token = credentials->token,
		.headers = scratch->headers,
		.header_count = scratch->count,
		.time = now_s};
	if (rc == 0 && (credentials != &auth->current || !scope_fits(auth, region, now_s)))
		rc = take_scope(auth, credentials, region, now_s, &scope);
	if (rc == 0)
		rc = sigv4_sign(&scope, credentials->id, &request, &made);
	if (rc == 0)
		rc = add_headers(signing, credentials, payload, &made);
	explicit_bzero(&scope, sizeof scope);
	return rc < 0 ? fault_set(fault, rc, "the request cannot be signed: %s", strerror(-rc)) : 0;
}

static int sign_s3(struct auth *auth, const struct client_signing *signing, const char *region,
	struct fault *fault)
{
	struct auth_scratch *scratch = &auth->scratch;
	int rc = 0;
	if (auth->requester_pays) {
		rc = client_header_add(signing->headers, "x-amz-request-payer", "requester");
		scratch->headers[scratch->count++] =
			(struct sigv4_header){"x-amz-request-payer", "requester"};
	}
	if (rc < 0)
		return fault_set(fault, rc, "no memory for the headers of a request");
	if (auth->anonymous)
		return 0;
	rc = auth_refresh(auth, (int64_t)(clock_unix_ns() / 1000000000u), fault);
	return rc < 0 ? rc : sign_v4(auth, signing, &auth->current, region, fault);
}

static int sign_hub(
	const struct auth *auth, const struct client_signing *signing, struct fault *fault)
{
	char value[CREDENTIALS_TOKEN];
	if (!auth->hf_token)
		return 0;
	int size = snprintf(value, sizeof value, "Bearer %s", auth->hf_token);
	int rc = size < 0 || (size_t)size >= sizeof value
			 ? -EINVAL
			 : client_header_add(signing->headers, "authorization", value);
	explicit_bzero(value, sizeof value);
	return rc < 0 ? fault_set(fault, rc, "HF_TOKEN: expected a token in one line") : 0;
}

/* Reads a text with REMOTE_QUERY_MARK into the scratch's URL and query. */
static int take_url(struct auth_scratch *scratch, const char *text, struct fault *fault)
{
	const char *mark = strchr(text, REMOTE_QUERY_MARK);
	size_t size = mark ? (size_t)(mark - text) : strlen(text);
	if (size >= sizeof scratch->text || (mark && strlen(mark) > sizeof scratch->query))
		return fault_set(fault, -ENAMETOOLONG, "the URL is too long for a request");
	memcpy(scratch->text, text, size);
	scratch->text[size] = 0;
	int rc = remote_url_parse(scratch->text, &scratch->url, fault);
	(void)snprintf(scratch->query, sizeof scratch->query, "%s",
		mark      ? mark + 1
		: rc == 0 ? scratch->url.query
			  : "");
	return rc;
}

/* The address of the attempt: of the request's URL, or where a server sent it to. */
static int take_address(struct auth *auth, struct client_signing *signing,
	enum remote_scheme *ret_scheme, char *bucket, struct fault *fault)
{
	struct auth_scratch *scratch = &auth->scratch;
	struct remote_where where = auth->where;
	int rc = take_url(scratch, signing->request->url, fault);
	if (rc < 0)
		return rc;
	*ret_scheme = scratch->url.scheme;
	(void)snprintf(bucket, REMOTE_HOST_MAX + 1, "%s", scratch->url.host);
	where.region = region_of(auth, bucket);
	rc = signing->redirected ? take_url(scratch, signing->url, fault)
				 : auth_check(auth, &scratch->url, fault);
	if (rc == 0)
		rc = remote_url_address(&scratch->url, &where, &scratch->address, fault);
	if (rc < 0 || signing->redirected)
		return rc;
	bool own = remote_url_lists(&scratch->url) && scratch->query[0];
	int size = snprintf(signing->ret_url, CLIENT_URL, "%s%s%s", scratch->address.url,
		own ? "?" : "", own ? scratch->query : "");
	return size < 0 || size >= CLIENT_URL
		       ? fault_set(fault, -ENAMETOOLONG, "the URL is too long for a request")
		       : 0;
}

/* Whether a name, which is cut at its last dots, ends in S3's own labels: s3, s3-REGION, s3.REGION,
 * s3.dualstack.REGION, also with s3-accelerate and the like. */
static bool is_s3_name(char *name)
{
	bool dualstack = true;
	for (unsigned labels = 0; labels < 2 || (labels == 2 && dualstack); labels++) {
		char *dot = strrchr(name, '.');
		const char *label = dot ? dot + 1 : name;
		if (!strncmp(label, "s3", 2) && (!label[2] || label[2] == '-'))
			return true;
		dualstack = !strcmp(label, "dualstack");
		if (!dot)
			return false;
		*dot = 0;
	}
	return false;
}

/* AWS sends requests for new buckets to the region's own host. Other hosts of AWS, those of its API
 * Gateway, answer for its customers. */
static bool is_aws(const char *host)
{
	char name[REMOTE_HOST_MAX + 8];
	static const char *const ends[] = {".amazonaws.com", ".amazonaws.com.cn"};
	(void)snprintf(name, sizeof name, "%.*s", (int)strcspn(host, ":"), host);
	size_t size = strlen(name);
	for (size_t i = 0; i < UTIL_COUNT(ends); i++) {
		size_t end = strlen(ends[i]);
		if (size <= end || strcasecmp(name + size - end, ends[i]) != 0)
			continue;
		name[size - end] = 0;
		return is_s3_name(name);
	}
	return false;
}

static bool is_hub(const struct auth *auth, const struct remote_url *url)
{
	return url->scheme == auth->hub.scheme && url->port == auth->hub.port &&
	       !strcmp(url->host, auth->hub.host);
}

static int sign_locked(struct auth *auth, struct client_signing *signing, struct fault *fault)
{
	struct auth_scratch *scratch = &auth->scratch;
	char bucket[REMOTE_HOST_MAX + 1];
	enum remote_scheme scheme;
	scratch->count = 0;
	int rc = take_address(auth, signing, &scheme, bucket, fault);
	if (rc < 0)
		return rc;
	if (scheme == REMOTE_S3 &&
		(!signing->foreign || (scratch->address.tls && is_aws(scratch->address.host))))
		return sign_s3(auth, signing, region_of(auth, bucket), fault);
	if (signing->foreign)
		return 0;
	if (scheme == REMOTE_GS && auth->gs.id[0])
		return sign_v4(auth, signing, &auth->gs, "auto", fault);
	/* The Hub's own addresses, too: listings have them. */
	if (scheme == REMOTE_HF || is_hub(auth, &scratch->url))
		return sign_hub(auth, signing, fault);
	return 0;
}

int auth_sign(void *context, struct client_signing *signing, struct fault *fault)
{
	struct auth *auth = context;
	(void)pthread_mutex_lock(&auth->lock);
	int rc = sign_locked(auth, signing, fault);
	(void)pthread_mutex_unlock(&auth->lock);
	/* Stores take a signature for 15 minutes, and credentials are fetched again well before
	 * they expire. */
	signing->ret_valid_s = AUTH_VALID_S;
	return rc;
}

/* Remembers where a bucket is. Whether that is new. `lock` is held. */
static bool region_learn(struct auth *auth, const char *bucket, const char *region)
{
	for (const char *c = region; *c; c++)
		if (!isalnum((unsigned char)*c) && *c != '-')
			return false;
	if (!strcmp(region_of(auth, bucket), region))
		return false;
	unsigned i = 0;
	while (i < auth->region_count && strcmp(auth->regions[i].bucket, bucket) != 0)
		i++;
	if (i == AUTH_REGIONS)
		i = auth->region_next++ % AUTH_REGIONS;
	else if (i == auth->region_count)
		auth->region_count++;
	(void)snprintf(auth->regions[i].bucket, sizeof auth->regions[i].bucket, "%s", bucket);
	(void)snprintf(auth->regions[i].region, sizeof auth->regions[i].region, "%s", region);
	return true;
}

/* Whether a refusal can mean that the credentials are too old. An answer to HEAD has no code. */
static bool means_expired(const struct client_refusal *refusal)
{
	static const char *const codes[] = {"ExpiredToken", "ExpiredTokenException",
		"TokenRefreshRequired", "InvalidToken", "InvalidAccessKeyId", "RequestExpired"};
	for (size_t i = 0; i < UTIL_COUNT(codes); i++)
		if (!strcmp(refusal->code, codes[i]))
			return true;
	return !refusal->code[0] && (refusal->status == 400 || refusal->status == 403);
}

bool auth_refused(
	void *context, const struct client_request *request, const struct client_refusal *refusal)
{
	struct auth *auth = context;
	struct auth_scratch *scratch = &auth->scratch;
	int64_t now_s = (int64_t)(clock_unix_ns() / 1000000000u);
	bool again = false;
	(void)pthread_mutex_lock(&auth->lock);
	if (take_url(scratch, request->url, NULL) == 0 && scratch->url.scheme == REMOTE_S3) {
		if (refusal->region[0])
			again = region_learn(auth, scratch->url.host, refusal->region);
		/* The client has learned the server's clock from the answer. */
		again = again || !strcmp(refusal->code, "RequestTimeTooSkewed");
		bool fresh = !auth->have || auth->current.fixed || auth->none || auth->anonymous;
		if (!again && !fresh && means_expired(refusal) &&
			(auth->refused || now_s - auth->refused_s > AUTH_GRACE_S)) {
			auth->refused_s = auth->refused ? auth->refused_s : now_s;
			auth->refused = true;
			again = true;
		}
	}
	(void)pthread_mutex_unlock(&auth->lock);
	return again;
}

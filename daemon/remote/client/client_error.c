/* client_error: sentences and decisions about answers that are errors. Bodies of errors come from
 * servers: only short, cleaned parts of them are shown. URLs are shown without what may be secret.
 * Pure. */
#include "remote/client/client_impl.h"

#include "base/util.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

enum { ERROR_URL = 300, ERROR_SECRET = 12 /* bytes by which a secret is known */ };

void client_error_clean(const char *text, size_t size, char *buffer, size_t room)
{
	size_t out = 0;
	for (size_t i = 0; i < size && text[i] && out + 1 < room; i++)
		buffer[out++] = (unsigned char)(text[i] - ' ') < 0x7f - ' ' ? text[i] : '?';
	buffer[out] = 0;
}

void client_error_url(const char *url, char *buffer, size_t room)
{
	char clean[CLIENT_URL];
	const char *colon = strstr(url, "://");
	size_t scheme = colon ? (size_t)(colon - url) + 3 : 0;
	const char *host = url + scheme;
	size_t whole = strcspn(host, "?#");
	size_t authority = strcspn(host, "/?#");
	const char *at = memrchr(host, '@', authority);
	/* A bucket's name may not have an @, and a folder of hf:// has its revision after one. */
	if (at && strncasecmp(url, "http", 4) == 0) {
		whole -= (size_t)(at + 1 - host);
		host = at + 1;
	}
	(void)snprintf(clean, sizeof clean, "%.*s%.*s%s", (int)scheme, url, (int)whole, host,
		host[whole] == '?' ? "?..." : "");
	size_t size = strlen(clean);
	if (size < room) {
		client_error_clean(clean, size, buffer, room);
	} else {
		/* The name at the end says more than the middle. */
		size_t head = room / 2 - 4, tail = room - head - 4;
		client_error_clean(clean, head, buffer, room);
		memcpy(buffer + head, "...", 3);
		client_error_clean(clean + size - tail, tail, buffer + head + 3, room - head - 3);
	}
}

void client_error_origin(const char *url, char *buffer, size_t room)
{
	const char *colon = strstr(url, "://");
	size_t scheme = colon ? (size_t)(colon - url) + 3 : 0;
	const char *host = url + scheme;
	size_t size = strcspn(host, "/?#");
	const char *at = memrchr(host, '@', size);
	if (at && strncasecmp(url, "http", 4) == 0) {
		size -= (size_t)(at + 1 - host);
		host = at + 1;
	}
	client_error_clean(url, scheme, buffer, room);
	size_t used = strlen(buffer);
	client_error_clean(host, size, buffer + used, room - used);
}

/* The text between <NAME> and </NAME>. */
static void error_element(
	const char *body, size_t size, const char *name, char *buffer, size_t room)
{
	char open[32];
	int length = snprintf(open, sizeof open, "<%s>", name);
	const char *at = memmem(body, size, open, (size_t)length);
	if (!at)
		return;
	at += length;
	size_t rest = size - (size_t)(at - body);
	const char *end = memchr(at, '<', rest);
	client_error_clean(at, end ? (size_t)(end - at) : rest, buffer, room);
}

/* {"error":"..."} or {"message":"..."}, as web APIs have it. */
static void error_json(const char *body, size_t size, struct error_body *ret)
{
	static const char *const names[] = {"\"error\"", "\"message\"", "\"Message\""};
	for (size_t i = 0; i < UTIL_COUNT(names); i++) {
		const char *at = memmem(body, size, names[i], strlen(names[i]));
		if (!at)
			continue;
		const char *end = body + size;
		at += strlen(names[i]);
		while (at < end && (*at == ':' || *at == ' '))
			at++;
		if (at == end || *at++ != '"')
			continue;
		const char *quote = memchr(at, '"', (size_t)(end - at));
		client_error_clean(at, (size_t)((quote ? quote : end) - at), ret->message,
			sizeof ret->message);
		return;
	}
}

void client_error_read(const char *body, size_t size, struct error_body *ret)
{
	*ret = (struct error_body){0};
	while (size && (*body == ' ' || *body == '\r' || *body == '\n' || *body == '\t')) {
		body++;
		size--;
	}
	if (size == 0)
		return;
	if (*body == '{') {
		error_json(body, size, ret);
		return;
	}
	error_element(body, size, "Code", ret->code, sizeof ret->code);
	error_element(body, size, "Region", ret->region, sizeof ret->region);
	error_element(body, size, "Message", ret->message, sizeof ret->message);
	if (*body == '<')
		return;
	size_t line = 0;
	while (line < size && body[line] != '\r' && body[line] != '\n')
		line++;
	client_error_clean(body, line, ret->message, sizeof ret->message);
}

static bool error_shows(const struct error_body *body, const char *word, size_t size)
{
	char begin[ERROR_SECRET + 1] = {0};
	if (size < ERROR_SECRET)
		return false;
	memcpy(begin, word, ERROR_SECRET);
	return strncmp(begin, "AWS4-HMAC-SHA256", ERROR_SECRET) != 0 &&
	       (strstr(body->message, begin) || strstr(body->code, begin));
}

/* Whether the body shows one of the words from `at` to `end`, which are parted by `between`. */
static bool error_shows_word(
	const struct error_body *body, const char *at, const char *end, const char *between)
{
	for (; at < end; at++) {
		size_t size = 0;
		while (at + size < end && !strchr(between, at[size]))
			size++;
		if (error_shows(body, at, size))
			return true;
		at += size;
	}
	return false;
}

/* One line, which ends at `end`. Whether the body repeats what it authorizes with. */
static bool error_repeats(const struct error_body *body, const char *at, const char *end)
{
	const char *colon = memchr(at, ':', (size_t)(end - at));
	if (!colon)
		return false;
	char name[64] = {0};
	memcpy(name, at, UTIL_MIN((size_t)(colon - at), sizeof name - 1));
	if (strcasecmp(name, "authorization") != 0 && !strcasestr(name, "token"))
		return false;
	return error_shows_word(body, colon + 1, end, " ,=");
}

/* The user and the query of an address may have a password or a signature in them, and libcurl
 * makes a header of the user. */
static bool error_repeats_address(const struct error_body *body, const char *address)
{
	const char *host = strstr(address, "://"), *end = address + strlen(address);
	host = host ? host + 3 : address;
	const char *path = host + strcspn(host, "/?"), *query = strchr(host, '?');
	const char *user = memchr(host, '@', (size_t)(path - host));
	if (user && (strstr(body->message, "Basic ") || error_shows_word(body, host, user, ":")))
		return true;
	return query && error_shows_word(body, query + 1, end, "&=");
}

void client_error_hide(
	struct error_body *body, const struct client_headers *headers, const char *address)
{
	bool repeats = error_repeats_address(body, address);
	const char *at = client_headers_at(headers, 0), *end = at + headers->used;
	for (const char *next; !repeats && at < end; at = next + 2) {
		next = memmem(at, (size_t)(end - at), "\r\n", 2);
		if (!next)
			break;
		repeats = error_repeats(body, at, next);
	}
	if (!repeats)
		return;
	*body->code = 0;
	(void)strcpy(body->message, "the server repeats the request's credentials");
}

/* What to do, by the store's code or the status. The first that fits. */
static const struct error_remedy {
	const char *code; /* NULL: any */
	unsigned status; /* 0: any */
	int result;
	const char *remedy;
} error_remedies[] = {
	{"NoSuchBucket", 0, -ENOENT,
		"there is no such bucket: check its name, `region` and `endpoint_url`"},
	{"NoSuchKey", 0, -ENOENT, "there is no such object: check the key, or list the bucket"},
	{"InvalidAccessKeyId", 0, -EACCES,
		"the store does not know this access key: check AWS_ACCESS_KEY_ID or `profile`, "
		"and "
		"that `endpoint_url` is the store that the key belongs to"},
	{"SignatureDoesNotMatch", 0, -EACCES,
		"the secret key does not belong to the access key: check AWS_SECRET_ACCESS_KEY or "
		"`profile`, and `endpoint_url` and `region`"},
	{"ExpiredToken", 0, -EACCES,
		"the credentials have expired: renew them (`aws sso login`, a new "
		"AWS_SESSION_TOKEN), or use ones that refresh themselves"},
	{"InvalidToken", 0, -EACCES,
		"AWS_SESSION_TOKEN is not valid for this key: set it anew, or unset it for "
		"long-term keys"},
	{"TokenRefreshRequired", 0, -EACCES, "the credentials have expired: renew them"},
	{"RequestTimeTooSkewed", 0, -EACCES,
		"this machine's clock is off: set it by NTP (`timedatectl`)"},
	{"RequestExpired", 0, -EACCES,
		"the signature has expired: renew the URL, or set this machine's clock by NTP"},
	{"AuthorizationHeaderMalformed", 0, -EACCES,
		"the bucket is in another region: set `region` or AWS_REGION"},
	{"IllegalLocationConstraintException", 0, -EACCES,
		"the bucket is in another region: set `region` or AWS_REGION"},
	{"PermanentRedirect", 0, -EREMCHG,
		"the bucket is in another region: set `region` or AWS_REGION"},
	{"UserProjectMissing", 0, -EACCES, "the bucket bills its readers: set `requester_pays`"},
	{"InvalidRange", 0, -ENODATA,
		"the object is shorter than its index says: it was replaced or truncated"},
	{"PreconditionFailed", 0, -ESTALE,
		"the dataset changed while it was read: open it again; objects of a dataset in use "
		"must not be overwritten"},
	{"InvalidObjectState", 0, -EACCES,
		"the object is archived: restore it, or copy it to another storage class"},
	{"EntityTooLarge", 0, -EFBIG, "the store takes no body of this size"},
	{NULL, 301, -EREMCHG, "the bucket is elsewhere: set `region` or `endpoint_url`"},
	{NULL, 307, -EREMCHG, "the bucket is elsewhere: set `region` or `endpoint_url`"},
	{NULL, 400, -EPROTO,
		"check `region`, `endpoint_url`, credentials and this machine's clock"},
	{NULL, 401, -EACCES, "credentials are missing or wrong: set them (for hf:// HF_TOKEN)"},
	{NULL, 403, -EACCES,
		"access is denied: check the credentials, their permission to read (s3:GetObject, "
		"s3:ListBucket) and, for public data, `anonymous`; a missing object is also "
		"refused "
		"to a reader that may not list the bucket"},
	{NULL, 404, -ENOENT, "there is no such object: check the URL"},
	{NULL, 407, -EACCES, "the proxy wants a password: set it in HTTPS_PROXY"},
	{NULL, 408, -ETIMEDOUT, "the server found the request too slow"},
	{NULL, 410, -ENOENT, "the object is no longer there: check the URL"},
	{NULL, 412, -ESTALE,
		"the dataset changed while it was read: open it again; objects of a dataset in use "
		"must not be overwritten"},
	{NULL, 416, -ENODATA,
		"the object is shorter than its index says: it was replaced or truncated"},
	{NULL, 429, -EBUSY,
		"the server wants fewer requests: lower `connections`, or ask its operator for a "
		"higher limit"},
	{NULL, 503, -EBUSY,
		"the store is overloaded or wants fewer requests: lower `connections`, or spread "
		"the shards over more prefixes"},
	{NULL, 501, -EOPNOTSUPP, "the server does not know this request: check `endpoint_url`"},
	{NULL, 0, -EREMOTEIO, "the server failed: look into its logs, or try again later"},
};

static const char *error_verb(enum client_method method)
{
	static const char *const verbs[] = {[CLIENT_GET] = "GET",
		[CLIENT_HEAD] = "HEAD",
		[CLIENT_PUT] = "PUT",
		[CLIENT_POST] = "POST",
		[CLIENT_DELETE] = "DELETE"};
	return verbs[method];
}

int client_error_answer(const struct client_request *request, unsigned status,
	const struct error_body *body, struct fault *fault)
{
	char url[ERROR_URL];
	const struct error_remedy *remedy = error_remedies;
	while ((remedy->code && strcmp(remedy->code, body->code) != 0) ||
		(remedy->status && remedy->status != status))
		remedy++;
	int result = remedy->result;
	/* An error of the request, not of the server, that the table has no line for. */
	const char *text = remedy->remedy;
	if (!remedy->code && !remedy->status && status < 500) {
		result = -EPROTO;
		text = "the server does not take this request: check the URL and `endpoint_url`";
	}
	/* Requests that write to a store; POST is also how tokens are asked for. */
	const bool writes =
		request->method != CLIENT_GET && request->method != CLIENT_HEAD &&
		(!strncmp(request->url, "s3://", 5) || !strncmp(request->url, "gs://", 5));
	if (writes && !remedy->code && status == 403)
		text = "access is denied: check the credentials and their permission to write "
		       "(s3:PutObject, s3:AbortMultipartUpload)";
	if (writes && status == 412)
		text = "the object exists, or was changed by another process";
	client_error_url(request->url, url, sizeof url);
	return fault_set(fault, result, "%s %s: status %u%s%s%s%s%s: %s",
		error_verb(request->method), url, status, *body->code ? " " : "", body->code,
		*body->message ? " (\"" : "", body->message, *body->message ? "\")" : "", text);
}

/* The sentence for what libcurl reports; NULL: its own words. */
static const char *error_words(CURLcode code)
{
	switch (code) {
	case CURLE_COULDNT_RESOLVE_HOST:
		return "the server's name was not found: check the host, `endpoint_url` and DNS";
	case CURLE_COULDNT_CONNECT:
		return "the server cannot be reached: check that it runs, the host, the port, "
		       "`endpoint_url` and the proxy";
	case CURLE_COULDNT_RESOLVE_PROXY:
		return "the proxy's name was not found: check HTTPS_PROXY";
	case CURLE_PEER_FAILED_VERIFICATION:
		return "the server's TLS certificate could not be verified: name the authority "
		       "that "
		       "signed it in AWS_CA_BUNDLE, CURL_CA_BUNDLE or SSL_CERT_FILE, or check the "
		       "host; verification cannot be turned off";
	case CURLE_SSL_CACERT_BADFILE:
		return "the file of certificate authorities cannot be read: check AWS_CA_BUNDLE, "
		       "CURL_CA_BUNDLE, SSL_CERT_FILE and SSL_CERT_DIR";
	case CURLE_SSL_CONNECT_ERROR:
		return "TLS could not be agreed on: check that the port speaks TLS (https:// and "
		       "http:// differ), and the proxy";
	case CURLE_GOT_NOTHING:
		return "the server closed the connection without an answer";
	case CURLE_PARTIAL_FILE:
		return "the body ended early";
	case CURLE_RECV_ERROR:
	case CURLE_SEND_ERROR:
		return "the connection was reset";
	case CURLE_WEIRD_SERVER_REPLY:
		return "the answer is not HTTP: check the port, and that https:// and http:// are "
		       "not mixed up";
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_URL_MALFORMAT:
		return "this is not an address that the client can read: check the URL and "
		       "`endpoint_url`";
	default:
		return NULL;
	}
}

int client_error_transport(const struct client_request *request, CURLcode code, const char *detail,
	struct fault *fault)
{
	char url[ERROR_URL], said[160];
	const char *words = error_words(code);
	client_error_url(request->url, url, sizeof url);
	if (!words || !*detail)
		detail = *detail ? detail : curl_easy_strerror(code);
	client_error_clean(detail, strlen(detail), said, sizeof said);
	int result = code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL ? -EINVAL
		     : code == CURLE_OUT_OF_MEMORY                                     ? -ENOMEM
		     : code == CURLE_COULDNT_CONNECT      ? -ECONNREFUSED
		     : code == CURLE_COULDNT_RESOLVE_HOST ? -EHOSTUNREACH
		     : code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
				     code == CURLE_SSL_CONNECT_ERROR
			     ? -EKEYREJECTED
			     : -ECONNRESET;
	if (!words)
		return fault_set(
			fault, result, "%s %s: %s", error_verb(request->method), url, said);
	return fault_set(
		fault, result, "%s %s: %s (%s)", error_verb(request->method), url, words, said);
}

static bool error_is(const char *code, const char *const *codes)
{
	for (; *codes; codes++)
		if (strcmp(code, *codes) == 0)
			return true;
	return false;
}

enum error_class client_error_classify_answer(
	unsigned status, const char *code, enum client_retry *ret_reason)
{
	static const char *const slow[] = {"SlowDown", "Throttling", "ThrottlingException",
		"RequestLimitExceeded", "TooManyRequests", "RequestThrottled", NULL};
	static const char *const again[] = {"RequestTimeout", "InternalError", "OperationAborted",
		"ServiceUnavailable", "BadDigest", NULL};
	static const char *const refused[] = {"ExpiredToken", "InvalidToken",
		"TokenRefreshRequired", "InvalidAccessKeyId", "AuthorizationHeaderMalformed",
		"IllegalLocationConstraintException", "PermanentRedirect", "TemporaryRedirect",
		NULL};
	*ret_reason = CLIENT_RETRY_STATUS;
	if (strcmp(code, "RequestTimeTooSkewed") == 0)
		return ERROR_CLOCK;
	if (error_is(code, slow) || status == 429 || status == 503) {
		*ret_reason = CLIENT_RETRY_SLOWDOWN;
		return ERROR_RETRY;
	}
	if (error_is(code, again))
		return ERROR_RETRY;
	if (error_is(code, refused) || status == 301 || status == 307 || status == 401 ||
		/* A HEAD has no body with a code. */
		(!*code && (status == 400 || status == 403))) {
		*ret_reason = CLIENT_RETRY_REFUSED;
		return ERROR_REFUSED;
	}
	if (status == 408 || status == 409 || status == 425)
		return ERROR_RETRY;
	return status >= 500 && status != 501 && status != 505 ? ERROR_RETRY : ERROR_FINAL;
}

enum error_class client_error_classify_transport(CURLcode code, enum client_retry *ret_reason)
{
	switch (code) {
	case CURLE_COULDNT_CONNECT:
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
	case CURLE_OPERATION_TIMEDOUT:
	case CURLE_PROXY:
		*ret_reason = CLIENT_RETRY_CONNECT;
		return ERROR_RETRY;
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_GOT_NOTHING:
	case CURLE_PARTIAL_FILE:
	case CURLE_SEND_FAIL_REWIND:
		*ret_reason = CLIENT_RETRY_RESET;
		return ERROR_RETRY;
	case CURLE_SSL_CONNECT_ERROR:
		*ret_reason = CLIENT_RETRY_TLS;
		return ERROR_RETRY;
	case CURLE_WEIRD_SERVER_REPLY:
	case CURLE_BAD_CONTENT_ENCODING:
	case CURLE_HTTP_RETURNED_ERROR:
	case CURLE_WRITE_ERROR:
	case CURLE_READ_ERROR:
		*ret_reason = CLIENT_RETRY_ANSWER;
		return ERROR_RETRY;
	default:
		*ret_reason = CLIENT_RETRY_RESET;
		return ERROR_FINAL;
	}
}

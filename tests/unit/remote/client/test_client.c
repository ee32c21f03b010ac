/* Requests that are answered well or badly. Each bad answer has its recovery or its sentence. */
#include "client_fixture.h"

#include <time.h>

static void test_ranges(void **state)
{
	fixture_client((struct client_options){.connections = 4});
	fixture_get_right("", 0, 1);
	fixture_get_right("", 0, OBJECT_SIZE);
	fixture_get_right("", OBJECT_SIZE - 1, 1);
	fixture_get_right("", 12345, 300000);
	struct client_request request;
	assert_int_equal(fixture_get("", 5, 10, &request, NULL), 0);
	assert_int_equal(request.status, 206);
	assert_int_equal(request.answer.size, OBJECT_SIZE);
	assert_int_equal(request.answer.modified_s, 1000000000);
	assert_true(request.answer.ranges);
	assert_int_equal(strlen(request.answer.etag), 34);
	char etag[CLIENT_ETAG];
	(void)strcpy(etag, request.answer.etag);
	assert_int_equal(fixture_get("", 5, 10, &request, etag), 0);
	/* One connection serves requests that follow each other. */
	assert_int_equal(fixture_stats().connects, 1);
	assert_int_equal(fixture_stats().requests, 6);
	assert_int_equal(fixture_stats().bytes_wasted, 0);
	fixture_stop();
}

static void test_whole_bodies(void **state)
{
	struct client_request request;
	fixture_client((struct client_options){0});
	assert_int_equal(fixture_get("", 0, 0, &request, NULL), 0);
	assert_int_equal(request.received, OBJECT_SIZE);
	assert_memory_equal(fixture_buffer, fixture_object, OBJECT_SIZE);
	/* Cut off in the middle: it is read again from its beginning. */
	assert_int_equal(fixture_get("?fault=short&body=777", 0, 0, &request, NULL), 0);
	assert_int_equal(request.received, OBJECT_SIZE);
	assert_memory_equal(fixture_buffer, fixture_object, OBJECT_SIZE);
	/* A part that nobody asked for is not taken for all of it. */
	assert_int_equal(fixture_get("?fault=part", 0, 0, &request, NULL), 0);
	assert_int_equal(request.received, OBJECT_SIZE);
	assert_int_equal(fixture_get("?fault=part&times=0", 0, 0, &request, NULL), -EBADMSG);
	assert_non_null(strstr(request.fault.text, "status 206"));
	struct client_request small = {
		.url = fixture_url(""), .buffer = fixture_buffer, .room = OBJECT_SIZE - 1};
	struct fault fault;
	assert_int_equal(client_perform(fixture.client, &small, &fault), -EFBIG);
	assert_non_null(strstr(fault.text, "1048576 bytes, and at most 1048575 are read"));
	fixture_stop();
}

static void test_other_methods(void **state)
{
	char url[256], body[] = "some bytes of a part";
	struct fault fault;
	fixture_client((struct client_options){0});
	struct client_request head = {.method = CLIENT_HEAD, .url = fixture_url("")};
	assert_int_equal(client_perform(fixture.client, &head, &fault), 0);
	assert_int_equal(head.answer.size, OBJECT_SIZE);
	assert_int_equal(head.status, 200);
	(void)snprintf(url, sizeof url, "http://127.0.0.1:%u/new?fault=status:500", fixture.port);
	struct client_request put = {
		.method = CLIENT_PUT, .url = url, .body = body, .body_size = sizeof body};
	assert_int_equal(client_perform(fixture.client, &put, &fault), 0);
	assert_int_equal(fixture_stats().retries[CLIENT_RETRY_STATUS], 1);
	assert_int_equal(strlen(put.answer.etag), 34);
	struct client_request get = {.url = url, .size = sizeof body, .buffer = fixture_buffer};
	assert_int_equal(client_perform(fixture.client, &get, &fault), 0);
	assert_memory_equal(fixture_buffer, body, sizeof body);
	char answer[64] = {0};
	struct client_request post = {.method = CLIENT_POST,
		.url = url,
		.body = body,
		.body_size = 4,
		.buffer = (uint8_t *)answer,
		.room = sizeof answer - 1};
	assert_int_equal(client_perform(fixture.client, &post, &fault), 0);
	assert_string_equal(answer, "<Posted>some</Posted>");
	struct client_request gone = {.method = CLIENT_DELETE, .url = url};
	assert_int_equal(client_perform(fixture.client, &gone, &fault), 0);
	assert_int_equal(client_perform(fixture.client, &get, &fault), -ENOENT);
	assert_non_null(strstr(fault.text, "NoSuchKey"));
	assert_string_equal(get.code, "NoSuchKey");
	fixture_stop();
}

static int body_of_callback(
	struct client_request *request, uint64_t offset, void *buffer, size_t size)
{
	const uint8_t *bytes = request->context == NULL ? fixture_object : NULL;
	(void)bytes;
	memcpy(buffer, fixture_object + offset, size);
	return 0;
}

static int body_fails(struct client_request *request, uint64_t offset, void *buffer, size_t size)
{
	(void)request;
	(void)offset;
	(void)buffer;
	(void)size;
	return -EIO;
}

static void test_bodies_of_callbacks(void **state)
{
	char url[256];
	struct fault fault;
	fixture_client((struct client_options){0});
	(void)snprintf(url, sizeof url, "http://127.0.0.1:%u/part?fault=status:503:SlowDown",
		fixture.port);
	struct client_request put = {.method = CLIENT_PUT,
		.url = url,
		.body_read = body_of_callback,
		.body_size = 700000};
	assert_int_equal(client_perform(fixture.client, &put, &fault), 0);
	struct client_request get = {.url = url, .size = 700000, .buffer = fixture_buffer};
	assert_int_equal(client_perform(fixture.client, &get, &fault), 0);
	assert_memory_equal(fixture_buffer, fixture_object, 700000);
	put.body_read = body_fails;
	assert_int_equal(client_perform(fixture.client, &put, &fault), -EIO);
	assert_non_null(strstr(fault.text, "the body to send cannot be read"));
	fixture_stop();
}

/* After each of these, the bytes are right. */
static void test_recovers(void **state)
{
	static const struct {
		const char *append;
		enum client_retry reason;
	} cases[] = {
		{"?fault=status:408", CLIENT_RETRY_STATUS},
		{"?fault=status:429", CLIENT_RETRY_SLOWDOWN},
		{"?fault=status:500:InternalError", CLIENT_RETRY_STATUS},
		{"?fault=status:502&times=3", CLIENT_RETRY_STATUS},
		{"?fault=status:503:SlowDown", CLIENT_RETRY_SLOWDOWN},
		{"?fault=status:504", CLIENT_RETRY_STATUS},
		{"?fault=status:400:RequestTimeout", CLIENT_RETRY_STATUS},
		{"?fault=close&times=3", CLIENT_RETRY_RESET},
		{"?fault=reset&times=3", CLIENT_RETRY_RESET},
		{"?fault=reset&body=100&times=2", CLIENT_RETRY_RESET},
		{"?fault=short&body=1&times=2", CLIENT_RETRY_RESET},
		{"?fault=short", CLIENT_RETRY_RESET},
		{"?fault=wrongrange", CLIENT_RETRY_ANSWER},
		{"?fault=norange", CLIENT_RETRY_ANSWER},
		{"?fault=lie", CLIENT_RETRY_ANSWER},
		{"?fault=html", CLIENT_RETRY_ANSWER},
		{"?fault=headers", CLIENT_RETRY_ANSWER},
	};
	fixture_client((struct client_options){.connections = 4});
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		struct client_stats before = fixture_stats();
		fixture_get_right(cases[i].append, 1000 + i, 5000);
		struct client_stats after = fixture_stats();
		if (after.retries[cases[i].reason] == before.retries[cases[i].reason])
			fail_msg("%s was not retried as %s", cases[i].append,
				client_retry_name(cases[i].reason));
	}
	fixture_stop();
}

/* And after each of these without a retry. */
static void test_survives(void **state)
{
	fixture_client((struct client_options){.connections = 4});
	fixture_get_right("?fault=ignore&times=0", 1000, 5000);
	fixture_get_right("?fault=ignore&times=0", 0, 5000);
	fixture_get_right("?fault=ignore&times=0", OBJECT_SIZE - 7, 7);
	assert_true(fixture_stats().bytes_wasted >= 1000);
	fixture_get_right("?fault=shorter&times=0", 1000, 50);
	for (int i = 0; i < CLIENT_RETRIES; i++)
		assert_int_equal(fixture_stats().retries[i], 0);
	/* Its extra bytes may spoil the next answer of the connection, which is then retried. */
	fixture_get_right("?fault=longer&times=0", 1000, 5000);
	fixture_get_right("", 1000, 5000);
	fixture_stop();
}

/* A range that begins before the one that was asked for: 4 MiB are passed over, and no more are
 * received. */
static void test_front(void **state)
{
	enum { MOST = 4 << 20, AT = MOST + 100 };
	uint8_t *bytes = malloc(AT + OBJECT_SIZE);
	char url[128];
	struct fault fault;
	assert_non_null(bytes);
	memset(bytes, 'x', AT);
	memcpy(bytes + AT, fixture_object, OBJECT_SIZE);
	fixture_client((struct client_options){0});
	(void)snprintf(url, sizeof url, "http://127.0.0.1:%u/front", fixture.port);
	struct client_request put = {
		.method = CLIENT_PUT, .url = url, .body = bytes, .body_size = AT + OBJECT_SIZE};
	assert_int_equal(client_perform(fixture.client, &put, &fault), 0);
	free(bytes);
	struct client_request get = {
		.url = url, .offset = AT, .size = 5000, .buffer = fixture_buffer};
	(void)snprintf(url, sizeof url, "http://127.0.0.1:%u/front?fault=front:%d&times=0",
		fixture.port, MOST);
	if (client_perform(fixture.client, &get, &fault) != 0)
		fail_msg("%s", fault.text);
	assert_memory_equal(fixture_buffer, fixture_object, 5000);
	const uint64_t wasted = fixture_stats().bytes_wasted;
	assert_in_range(wasted, MOST, MOST + OBJECT_SIZE);
	(void)snprintf(url, sizeof url, "http://127.0.0.1:%u/front?fault=front:%d&times=0",
		fixture.port, MOST + 1);
	assert_int_equal(client_perform(fixture.client, &get, &fault), -EBADMSG);
	assert_non_null(strstr(
		fault.text, "sent bytes 99 to 4199403 where 4194404 to 4199403 were asked for"));
	assert_true(fixture_stats().bytes_wasted - wasted < MOST);
	fixture_stop();
}

/* Answers whose body has no length, or which do not come alone. */
static void test_frames(void **state)
{
	struct client_request request;
	fixture_client((struct client_options){.connections = 4});
	fixture_get_right("?fault=interim&times=0", 1000, 50000);
	assert_int_equal(fixture_get("?fault=chunked&times=0", 0, 0, &request, NULL), 0);
	assert_int_equal(request.received, OBJECT_SIZE);
	assert_memory_equal(fixture_buffer, fixture_object, OBJECT_SIZE);
	fixture_get_right("?fault=chunked&times=0", 1000, 50000);
	/* What comes after the last byte that is wanted is not waited for. */
	assert_int_equal(fixture_stats().connects, 1);
	fixture_get_right("?fault=chunked&times=0", 3, 1);
	fixture_get_right("?fault=unframed&times=0", 1000, 50000);
	assert_int_equal(fixture_get("?fault=unframed&times=0", 0, 0, &request, NULL), 0);
	assert_int_equal(request.received, OBJECT_SIZE);
	assert_int_equal(fixture_stats().connects, 4);
	for (int i = 0; i < CLIENT_RETRIES; i++)
		assert_int_equal(fixture_stats().retries[i], 0);
	assert_int_equal(fixture_stats().bytes_wasted, 0);
	fixture_stop();
}

/* A connection that the server closes after an answer costs no retry: the next request finds it
 * closed before, or when it is sent, or when no answer comes. */
static void test_hang_up(void **state)
{
	fixture_client((struct client_options){.connections = 4});
	for (int i = 0; i < 50; i++)
		fixture_get_right("?fault=hangup&times=0", (uint64_t)i, 3000);
	assert_int_equal(fixture_stats().requests, 50);
	for (int i = 0; i < CLIENT_RETRIES; i++)
		assert_int_equal(fixture_stats().retries[i], 0);
	fixture_stop();
}

/* An error that lasts has a sentence with the URL, the status and what to do. */
static void test_sentences(void **state)
{
	static const struct {
		const char *append;
		int result;
		const char *sentence;
	} cases[] = {
		{"?fault=status:404:NoSuchBucket&times=0", -ENOENT,
			"/object?...: status 404 NoSuchBucket (\"made up ?[31m\"): there is no "
			"such "
			"bucket: check its name, `region` and `endpoint_url`"},
		{"?fault=status:404:NoSuchKey&times=0", -ENOENT, "check the key"},
		{"?fault=status:404&times=0", -ENOENT, "status 404: there is no such object"},
		{"?fault=status:403:InvalidAccessKeyId&times=0", -EACCES, "AWS_ACCESS_KEY_ID"},
		{"?fault=status:403:SignatureDoesNotMatch&times=0", -EACCES,
			"AWS_SECRET_ACCESS_KEY"},
		{"?fault=status:400:ExpiredToken&times=0", -EACCES, "have expired"},
		{"?fault=status:400:InvalidToken&times=0", -EACCES, "AWS_SESSION_TOKEN"},
		{"?fault=status:401&times=0", -EACCES, "credentials are missing or wrong"},
		{"?fault=status:403:AccessDenied&times=0", -EACCES, "s3:GetObject"},
		{"?fault=skew:3600&times=0", -EACCES, "this machine's clock is off"},
		{"?fault=status:301:PermanentRedirect&times=0", -EREMCHG, "AWS_REGION"},
		{"?fault=status:307&times=0", -EREMCHG, "`region` or `endpoint_url`"},
		{"?fault=status:412&times=0", -ESTALE, "the dataset changed while it was read"},
		{"?fault=etag&times=0", 0, ""},
		{"?fault=status:416:InvalidRange&times=0", -ENODATA, "shorter than its index"},
		{"?fault=status:501&times=0", -EOPNOTSUPP, "does not know this request"},
		{"?fault=status:418&times=0", -EPROTO, "status 418"},
		{"?fault=wrongrange&times=0", -EBADMSG,
			"sent bytes 1001 to 6000 where 1000 to 5999 were asked for"},
		{"?fault=norange&times=0", -EBADMSG, "without a Content-Range"},
		{"?fault=lie&times=0", -EBADMSG,
			"Content-Length of 5007 contradicts its Content-Range of 5000"},
		{"?fault=html&times=0", -EBADMSG, "a web page (text/html) instead of the data"},
		{"?fault=headers&times=0", -EBADMSG, "headers of the answer do not end"},
		{"?fault=redirect:ftp://127.0.0.1/x&times=0", -EACCES, "not https://"},
		{"?fault=redirect:http://localhost:1/x&times=0", -EACCES,
			"redirects to http://localhost:1/x, which is another server"},
		{"?fault=redirect:/object%3ffault%3dredirect:/object&times=0", 0, ""},
	};
	fixture_client((struct client_options){.connections = 4});
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		if (cases[i].result)
			fixture_get_wrong(cases[i].append, cases[i].result, cases[i].sentence);
		else
			fixture_get_right(cases[i].append, 1000, 5000);
	}
	struct client_request request;
	assert_int_equal(fixture_get("", OBJECT_SIZE, 5, &request, NULL), -ENODATA);
	assert_int_equal(fixture_get("", OBJECT_SIZE - 5, 6, &request, NULL), -ENODATA);
	assert_int_equal(request.received, 5);
	assert_int_equal(
		fixture_get("?fault=ignore", OBJECT_SIZE - 5, 6, &request, NULL), -ENODATA);
	fixture_stop();
}

static void test_replaced(void **state)
{
	struct client_request request;
	fixture_client((struct client_options){.connections = 4});
	assert_int_equal(fixture_get("", 0, 100, &request, "\"old\""), -ESTALE);
	assert_non_null(strstr(request.fault.text, "the dataset changed while it was read"));
	/* A server that ignores If-Match. */
	assert_int_equal(fixture_get("", 0, 1, &request, NULL), 0);
	char etag[CLIENT_ETAG];
	(void)strcpy(etag, request.answer.etag);
	assert_int_equal(fixture_get("?fault=etag", 0, 100, &request, etag), -ESTALE);
	assert_int_equal(request.received, 0);
	assert_int_equal(fixture_buffer[0], 0xa5);
	fixture_stop();
}

static void test_addresses_that_are_none(void **state)
{
	static const char *const urls[] = {"", "object", "http://", "ftp://127.0.0.1/x",
		"file:///etc/passwd", "http://[::1", "s3://bucket/key"};
	struct fault fault;
	fixture_client((struct client_options){0});
	for (size_t i = 0; i < UTIL_COUNT(urls); i++) {
		struct client_request request = {
			.url = urls[i], .size = 5, .buffer = fixture_buffer};
		int result = client_perform(fixture.client, &request, &fault);
		if (result != -EINVAL)
			fail_msg("\"%s\": %d %s", urls[i], result, fault.text);
	}
	fixture_stop();
}

static void test_secrets_are_not_shown(void **state)
{
	char url[256];
	struct fault fault;
	fixture_client((struct client_options){0});
	(void)snprintf(url, sizeof url, "http://user:pass%%20word@127.0.0.1:%u/no?X-Amz-Sig=secret",
		fixture.port);
	struct client_request request = {.url = url, .size = 5, .buffer = fixture_buffer};
	assert_int_equal(client_perform(fixture.client, &request, &fault), -ENOENT);
	assert_null(strstr(fault.text, "pass"));
	assert_null(strstr(fault.text, "secret"));
	/* A server that shows the request. */
	static const char *const headers[] = {"Authorization: Bearer hf_s3cr3ts3cr3t",
		"X-Amz-Security-Token: s3cr3tt0k3nt0k3n/+==", NULL};
	static const char *const names[] = {"authorization", "x-amz-security-token"};
	for (size_t i = 0; i < UTIL_COUNT(names); i++) {
		(void)snprintf(url, sizeof url, "%s?fault=echo:%s", fixture_url(""), names[i]);
		request = (struct client_request){
			.url = url, .size = 5, .buffer = fixture_buffer, .headers = headers};
		assert_int_equal(client_perform(fixture.client, &request, &fault), -EACCES);
		assert_null(strstr(fault.text, "s3cr3t"));
		assert_non_null(strstr(fault.text, "repeats the request's credentials"));
		assert_null(strstr(request.code, "s3cr3t"));
	}
	/* Or what the address has: a signature, here in a header, too; and a user. */
	static const char *const copy[] = {"X-Copy: s3cr3ts1gnature0123", NULL};
	(void)snprintf(url, sizeof url,
		"%s?fault=echo:x-copy&times=0&X-Amz-Signature=s3cr3ts1gnature0123",
		fixture_url(""));
	request = (struct client_request){
		.url = url, .size = 5, .buffer = fixture_buffer, .headers = copy};
	assert_int_equal(client_perform(fixture.client, &request, &fault), -EACCES);
	assert_null(strstr(fault.text, "s3cr3t"));
	(void)snprintf(url, sizeof url,
		"http://user:s3cr3ts3cr3t@127.0.0.1:%u/object?fault=echo:authorization&times=0",
		fixture.port);
	request = (struct client_request){.url = url, .size = 5, .buffer = fixture_buffer};
	assert_int_equal(client_perform(fixture.client, &request, &fault), -EACCES);
	assert_non_null(strstr(fault.text, "repeats the request's credentials"));
	fixture_stop();
}

/* Stand-ins for what signs. */

static int sign_calls, refused_calls;
static int64_t sign_offset;
static unsigned sign_valid_s;
static char sign_token[32], sign_region[32];

static int sign(void *context, struct client_signing *signing, struct fault *fault)
{
	char text[32];
	(void)context;
	(void)fault;
	sign_calls++;
	if (strcmp(sign_token, "coming") == 0)
		return -EAGAIN;
	sign_offset = signing->clock_offset_s;
	signing->ret_valid_s = sign_valid_s;
	(void)snprintf(text, sizeof text, "%lld", (long long)time(NULL) + signing->clock_offset_s);
	assert_int_equal(client_header_add(signing->headers, "x-test-time", text), 0);
	assert_int_equal(client_header_add(signing->headers, "x-region", sign_region), 0);
	assert_int_equal(client_header_add(signing->headers, "x-bad", "a\r\nb"), -EINVAL);
	if (!signing->foreign)
		assert_int_equal(client_header_add(signing->headers, "x-token", sign_token), 0);
	if (strncmp(signing->url, "s3://", 5) == 0)
		(void)snprintf(signing->ret_url, CLIENT_URL, "http://127.0.0.1:%u/%s", fixture.port,
			strchr(signing->url + 5, '/') + 1);
	return 0;
}

static bool refused(
	void *context, const struct client_request *request, const struct client_refusal *refusal)
{
	(void)context;
	(void)request;
	refused_calls++;
	if (*refusal->region) {
		(void)snprintf(sign_region, sizeof sign_region, "%s", refusal->region);
		return true;
	}
	if (strcmp(refusal->code, "ExpiredToken") == 0 ||
		strcmp(refusal->code, "InvalidToken") == 0) {
		(void)strcpy(sign_token, "new");
		return true;
	}
	return false;
}

static int allowed(void *context, const char *url, struct fault *fault)
{
	(void)context;
	if (strncmp(url, "http://127.0.0.1:", 17) == 0 ||
		strncmp(url, "http://localhost:", 17) == 0)
		return 0;
	return fault_set(fault, -EACCES, "that place is not allowed");
}

static const struct client_options signing_options = {
	.connections = 4, .sign = sign, .refused = refused, .allowed = allowed};

static void test_signs_again(void **state)
{
	struct client_request request;
	(void)strcpy(sign_token, "old");
	(void)strcpy(sign_region, "here");
	fixture_client(signing_options);
	fixture_get_right("?fault=need:x-token:new:400:ExpiredToken", 1, 100);
	assert_int_equal(refused_calls, 1);
	(void)strcpy(sign_token, "old");
	fixture_get_right("?fault=need:x-token:new:403:InvalidToken", 1, 100);
	fixture_get_right(
		"?fault=need:x-region:eu-west-1:301:PermanentRedirect&region=eu-west-1", 1, 100);
	(void)strcpy(sign_region, "here");
	fixture_get_right(
		"?fault=need:x-region:eu-west-2:400:AuthorizationHeaderMalformed&region=eu-west-2",
		1, 100);
	assert_int_equal(refused_calls, 4);
	/* An hour ahead: the second attempt is signed with the server's time, as are later ones. */
	fixture_get_right("?fault=skew:3600", 1, 100);
	assert_in_range(sign_offset, 3590, 3610);
	fixture_get_right("?fault=skew:-86400", 1, 100);
	assert_in_range(-sign_offset, 86390, 86410);
	/* The same from a server that says no more than that it refuses; then a plain refusal. */
	fixture_get_right("?fault=skew:7200:400:AccessDenied", 1, 100);
	assert_in_range(sign_offset, 7190, 7210);
	assert_int_equal(
		fixture_get("?fault=status:403:AccessDenied&times=0", 1, 100, &request, NULL),
		-EACCES);
	fixture_get_right("?fault=skew:-86400", 1, 100);
	/* A date that cannot be right is not learned. */
	assert_int_equal(fixture_get("?fault=skew:5500000000", 1, 100, &request, NULL), -EACCES);
	fixture_get_right("", 1, 100);
	assert_in_range(-sign_offset, 86390, 86410);
	/* Refusals without end. */
	refused_calls = 0;
	assert_int_equal(
		fixture_get("?fault=status:400:ExpiredToken&times=0", 0, 5, &request, NULL),
		-EACCES);
	assert_int_equal(refused_calls, 4);
	fixture_stop();
}

/* What was signed for a URL serves other ranges of it, until the store refuses it or there are
 * other credentials. */
static void test_signs_once(void **state)
{
	static const char *const more[] = {"X-More: y", NULL};
	struct fault fault;
	sign_calls = 0;
	sign_valid_s = 30;
	(void)strcpy(sign_token, "new");
	fixture_client(signing_options);
	for (uint64_t i = 0; i < 20; i++)
		fixture_get_right("?fault=need:x-token:new:403:No", i * 1000, 500);
	assert_int_equal(sign_calls, 1);
	fixture_get_right("?fault=need:x-token:new:403:Other", 1, 5);
	struct client_request request = {.method = CLIENT_HEAD, .url = fixture_url("")};
	assert_int_equal(client_perform(fixture.client, &request, &fault), 0);
	assert_int_equal(sign_calls, 3);
	/* Headers of the caller may have to be signed. */
	for (int i = 0; i < 2; i++) {
		request = (struct client_request){.url = fixture_url(""),
			.size = 5,
			.buffer = fixture_buffer,
			.headers = more};
		assert_int_equal(client_perform(fixture.client, &request, &fault), 0);
	}
	assert_int_equal(sign_calls, 5);
	client_credentials_changed(fixture.client);
	fixture_get_right("?fault=need:x-token:new:403:No", 1, 5);
	assert_int_equal(sign_calls, 6);
	/* Credentials that have expired: `refused` gets new ones. */
	(void)strcpy(sign_token, "old");
	fixture_get_right("?fault=need:x-token:new:400:ExpiredToken", 1, 5);
	fixture_get_right("?fault=need:x-token:new:400:ExpiredToken", 2, 5);
	assert_string_equal(sign_token, "new");
	/* A retry is signed again, too. */
	sign_calls = 0;
	fixture_get_right("?fault=status:503", 1, 5);
	assert_int_equal(sign_calls, 2);
	fixture_stop();
	sign_valid_s = 0;
}

static void *credentials_come(void *context)
{
	(void)context;
	struct timespec moment = {.tv_nsec = 20000000};
	(void)nanosleep(&moment, NULL);
	client_credentials_changed(fixture.client);
	return NULL;
}

static void test_waits_for_credentials(void **state)
{
	pthread_t thread;
	struct client_options options = signing_options;
	struct client_request request;
	options.timeout_s = 1;
	(void)strcpy(sign_token, "coming");
	fixture_client(options);
	assert_int_equal(pthread_create(&thread, NULL, credentials_come, NULL), 0);
	assert_int_equal(fixture_get("", 0, 5, &request, NULL), -ETIMEDOUT);
	assert_int_equal(pthread_join(thread, NULL), 0);
	(void)strcpy(sign_token, "new");
	fixture_get_right("", 0, 5);
	fixture_stop();
}

static void test_addresses_of_sign(void **state)
{
	struct fault fault;
	fixture_client(signing_options);
	struct client_request request = {
		.url = "s3://bucket/object", .size = 500, .offset = 3, .buffer = fixture_buffer};
	assert_int_equal(client_perform(fixture.client, &request, &fault), 0);
	assert_memory_equal(fixture_buffer, fixture_object + 3, 500);
	fixture_stop();
}

static void test_redirects(void **state)
{
	char append[256];
	(void)strcpy(sign_token, "new");
	fixture_client(signing_options);
	fixture_get_right("?fault=redirect:/object&times=0", 1000, 500);
	(void)snprintf(append, sizeof append,
		"?fault=redirect:http://localhost:%u/object:307&times=0", fixture.port);
	fixture_get_right(append, 1000, 500);
	assert_int_equal(fixture_stats().redirects, 2);
	/* Each retry is redirected again: these are not redirects in a circle. */
	(void)snprintf(append, sizeof append,
		"?fault=redirect:http://localhost:%u/object%%3ffault%%3dstatus:503%%26times%%3d8"
		"&times=0",
		fixture.port);
	fixture_get_right(append, 1000, 500);
	assert_int_equal(fixture_stats().redirects, 11);
	/* The place that a redirect leads to must be allowed. */
	fixture_get_wrong("?fault=redirect:http://10.1.2.3/object&times=0", -EACCES,
		"that place is not allowed");
	/* And is asked without what authorizes at the place before. */
	(void)snprintf(append, sizeof append,
		"?fault=redirect:http://localhost:%u/"
		"object%%3ffault%%3dneed:x-token:new:403:Kept"
		"&times=0",
		fixture.port);
	fixture_get_wrong(append, -EACCES, "Kept");
	fixture_get_wrong("?fault=loop&times=0", -ELOOP, "redirects");
	fixture_stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_whole_bodies),
		cmocka_unit_test(test_other_methods),
		cmocka_unit_test(test_bodies_of_callbacks),
		cmocka_unit_test(test_recovers),
		cmocka_unit_test(test_survives),
		cmocka_unit_test(test_front),
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_hang_up),
		cmocka_unit_test(test_sentences),
		cmocka_unit_test(test_replaced),
		cmocka_unit_test(test_addresses_that_are_none),
		cmocka_unit_test(test_secrets_are_not_shown),
		cmocka_unit_test(test_signs_again),
		cmocka_unit_test(test_signs_once),
		cmocka_unit_test(test_waits_for_credentials),
		cmocka_unit_test(test_addresses_of_sign),
		cmocka_unit_test(test_redirects),
	};
	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}

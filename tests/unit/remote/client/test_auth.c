/* auth: where redirects may lead and which of them are signed for; the end of fetching. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "remote/auth/auth.h"
#include "remote/client/client_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct fixture {
	struct auth *auth;
	struct client *client;
	struct fault fault;
};

static void begin(struct fixture *fixture, const char *const *roots)
{
	const struct remote_options options = {.roots = roots};
	const struct client_options client_options = {.timeout_s = 5};
	*fixture = (struct fixture){.auth = NULL};
	if (auth_new(&options, &fixture->auth, &fixture->fault) < 0 ||
		client_start(&client_options, &fixture->client, &fixture->fault) < 0)
		fail_msg("%s", fixture->fault.text);
	auth_begin(fixture->auth, fixture->client);
}

static void end(struct fixture *fixture)
{
	auth_end(fixture->auth);
	client_stop(fixture->client);
	auth_free(fixture->auth);
}

/* Signs a request for an object, or the redirect that answered it. Returns what auth_sign does, and
 * in `ret_signed` whether there is a header that authorizes. */
static int sign(struct fixture *fixture, const char *redirect, bool *ret_signed)
{
	static char address[CLIENT_URL];
	struct client_request request = {.url = "s3://bucket/key"};
	struct client_headers headers = {0};
	int rc;
	do {
		struct client_signing signing = {.request = &request,
			.method = "GET",
			.url = redirect ? redirect : request.url,
			.redirected = redirect,
			.foreign = redirect,
			.ret_url = address,
			.headers = &headers};
		rc = auth_sign(fixture->auth, &signing, &fixture->fault);
		const struct timespec moment = {.tv_nsec = 1000000};
		if (rc == -EAGAIN)
			(void)nanosleep(&moment, NULL);
	} while (rc == -EAGAIN);
	*ret_signed = headers.used &&
		      (memmem(headers.text, headers.used, "authorization:", 14) ||
			      memmem(headers.text, headers.used, "x-amz-security-token:", 21));
	free(headers.text);
	return rc;
}

static void signs_for_stores_only(void **state)
{
	static const struct {
		const char *url;
		bool is_signed;
	} cases[] = {
		{"https://bucket.s3.eu-west-1.amazonaws.com/key", true},
		{"https://bucket.s3-eu-west-1.amazonaws.com/key", true},
		{"https://bucket.s3.amazonaws.com/key", true},
		{"https://s3.cn-north-1.amazonaws.com.cn/bucket/key", true},
		{"https://bucket.s3.dualstack.us-east-2.amazonaws.com/key", true},
		{"http://bucket.s3.amazonaws.com/key", false},
		{"https://a1b2c3.execute-api.us-east-1.amazonaws.com/key", false},
		{"https://s3-mine-1.us-east-1.elb.amazonaws.com/key", false},
		{"https://s3.evil.example/key", false},
		{"https://s3.amazonaws.com.evil.example/key", false},
		{"https://xs3.amazonaws.com/key", false},
	};
	struct fixture fixture;
	bool is_signed;
	begin(&fixture, NULL);
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		assert_int_equal(sign(&fixture, cases[i].url, &is_signed), 0);
		if (is_signed != cases[i].is_signed)
			fail_msg("%s", cases[i].url);
	}
	end(&fixture);
}

/* The client's thread signs until it ends, which is after auth_end. */
static void signs_nothing_after_its_end(void **state)
{
	struct fixture fixture;
	bool is_signed;
	begin(&fixture, NULL);
	auth_end(fixture.auth);
	assert_int_equal(sign(&fixture, NULL, &is_signed), -ECANCELED);
	assert_false(is_signed);
	end(&fixture);
}

static void keeps_redirects_below_roots(void **state)
{
	static const char *const roots[] = {"https://host/data", "s3://bucket/data", NULL};
	static const struct {
		const char *url;
		bool fine;
	} cases[] = {
		{"https://host/data/x", true},
		{"https://host:443/data/x", true},
		{"https://HOST/data/x", true},
		{"https://host/data-2/x", false},
		{"https://host/DATA/x", false},
		{"https://host/data%2fx", false},
		{"https://host/data/../x", false},
		{"https://host/data/..%2fx", false},
		{"https://host/data/%2e%2e%5cx", false},
		{"https://host.evil/data/x", false},
		{"https://host@evil/data/x", false},
		{"https://host:8443/data/x", false},
		{"http://host/data/x", false},
		{"http://127.0.0.1/data/x", false},
		{"http://169.254.169.254/latest/meta-data/", false},
		{"https://169.254.169.254/latest/meta-data/", false},
		{"file:///etc/passwd", false},
		{"s3://bucket/data/x", false},
		{"https://host/data/x\r\nX-Evil: 1", false},
		{"https://other.s3.eu-west-1.amazonaws.com/key", true},
	};
	struct fixture fixture;
	begin(&fixture, roots);
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		int rc = auth_allowed(fixture.auth, cases[i].url, &fixture.fault);
		if ((rc == 0) != cases[i].fine)
			fail_msg("%s: %d %s", cases[i].url, rc, fixture.fault.text);
	}
	end(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signs_for_stores_only),
		cmocka_unit_test(signs_nothing_after_its_end),
		cmocka_unit_test(keeps_redirects_below_roots),
	};
	(void)setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE", 1);
	(void)setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
	(void)setenv("AWS_SESSION_TOKEN", "token", 1);
	(void)setenv("AWS_CONFIG_FILE", "/dev/null", 1);
	(void)setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null", 1);
	(void)unsetenv("AWS_PROFILE");
	(void)unsetenv("AWS_ENDPOINT_URL");
	(void)unsetenv("AWS_ENDPOINT_URL_S3");
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* url: what is read, printed and requested for each scheme, what is refused, and that no secret is
 * ever printed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "remote/url.h"

#include <errno.h>
#include <string.h>

static struct remote_url parsed(const char *text)
{
	struct remote_url url;
	struct fault fault = {{0}};
	if (remote_url_parse(text, &url, &fault) != 0)
		fail_msg("%s: %s", text, fault.text);
	return url;
}

static void reads_and_prints(void **state)
{
	static const struct {
		const char *text, *host, *key, *printed;
		enum remote_scheme scheme;
	} cases[] = {
		{"s3://bucket/train-000.tar", "bucket", "train-000.tar", NULL, REMOTE_S3},
		{"S3://my.bucket-1/a b/100%/%41.tar", "my.bucket-1", "a b/100%/%41.tar",
			"s3://my.bucket-1/a b/100%/%41.tar", REMOTE_S3},
		{"s3://bucket", "bucket", "", "s3://bucket/", REMOTE_S3},
		{"s3://bucket/", "bucket", "", NULL, REMOTE_S3},
		{"s3://bucket//x", "bucket", "/x", NULL, REMOTE_S3},
		{"s3://bucket/a/{0..3}-*.tar?", "bucket", "a/{0..3}-*.tar?", NULL, REMOTE_S3},
		{"gs://bucket/\xc3\xa4/#1.jpg", "bucket", "\xc3\xa4/#1.jpg", NULL, REMOTE_GS},
		{"hf://datasets/org/name/data/x.parquet", "org/name", "data/x.parquet", NULL,
			REMOTE_HF},
		{"hf://datasets/org/name@main/x", "org/name", "x", "hf://datasets/org/name/x",
			REMOTE_HF},
		{"hf://datasets/org/name@refs%2Fconvert%2fparquet/x", "org/name", "x",
			"hf://datasets/org/name@refs%2Fconvert%2Fparquet/x", REMOTE_HF},
		{"https://Example.COM:443/a%20b?x=1&y", "example.com", "a%20b",
			"https://example.com/a%20b?x=1&y", REMOTE_HTTPS},
		{"http://u:p@[::1]:8080/a", "[::1]", "a", NULL, REMOTE_HTTP},
		{"https://host", "host", "", "https://host/", REMOTE_HTTPS},
		{"https://host?x", "host", "", "https://host/?x", REMOTE_HTTPS},
	};
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		char printed[REMOTE_URL_MAX + 1];
		const struct remote_url url = parsed(cases[i].text);
		assert_int_equal(url.scheme, cases[i].scheme);
		assert_string_equal(url.host, cases[i].host);
		assert_string_equal(url.key, cases[i].key);
		const char *expected = cases[i].printed ? cases[i].printed : cases[i].text;
		assert_int_equal(remote_url_print(&url, printed, sizeof printed), strlen(expected));
		assert_string_equal(printed, expected);
		/* What is printed is read as the same. */
		const struct remote_url again = parsed(printed);
		assert_memory_equal(&again, &url, sizeof url);
	}
	assert_string_equal(parsed("hf://datasets/o/n@refs%2Fpr%2F1").revision, "refs/pr/1");
	assert_int_equal(parsed("http://host:8080/").port, 8080);
}

static void knows_what_is_a_url(void **state)
{
	static const char *const no[] = {
		"", "/data/x", "s3:/bucket", "c://x", "://x", "data/s3://x", "s3", "1s3://x"};
	static const char *const yes[] = {"s3://b/k", "gs://", "azure+x://y", "FILE://x"};
	for (size_t i = 0; i < UTIL_COUNT(no); i++)
		assert_false(remote_is_url(no[i]));
	for (size_t i = 0; i < UTIL_COUNT(yes); i++)
		assert_true(remote_is_url(yes[i]));
}

static void refuses(void **state)
{
	static const struct {
		const char *text, *part;
	} cases[] = {
		{"/local", "expected a URL"},
		{"ftp://host/x", "expected s3://, gs://, hf://, https:// or http://"},
		{"s3a://bucket/x", "write s3://"},
		{"file:///data/x", "without file://"},
		{"s3:///key", "expected s3://BUCKET/KEY"},
		{"s3://ab/key", "expected s3://BUCKET/KEY"},
		{"s3://a..b/key", "expected s3://BUCKET/KEY"},
		{"s3://-bucket/key", "expected s3://BUCKET/KEY"},
		{"gs://bu cket/key", "expected gs://BUCKET/KEY"},
		{"s3://AKIAX:s3cr3t@bucket/key", "keys do not belong into a URL"},
		{"s3://arn:aws:s3:eu-west-1:1:accesspoint/x/key", "access points"},
		{"s3://bucket/a/../b", ".. as a component"},
		{"s3://bucket/..", ".. as a component"},
		{"s3://bucket/./b", ".. as a component"},
		{"https://host/a/%2E./b", ".. as a component"},
		{"https://host/%2e%2e", ".. as a component"},
		{"https://host/a/..%2fb", ".. as a component"},
		{"https://host/a%2F%2e.", ".. as a component"},
		{"https://host/a/..\\b", ".. as a component"},
		{"https://host/a/..%5Cb", ".. as a component"},
		{"https://host/a/..;x/b", ".. as a component"},
		{"s3://bucket/a\nb", "control characters"},
		{"hf://org/name/x", "expected hf://datasets/ORG/NAME"},
		{"hf://datasets/name", "expected hf://datasets/ORG/NAME"},
		{"hf://datasets/o/n@/x", "expected a revision"},
		{"hf://datasets/o/n@a%2/x", "two digits"},
		{"hf://datasets/o/n@%00/x", "two digits"},
		{"hf://datasets/o/n@..%2F..%2Fmodel/x", "expected a revision"},
		{"https:///x", "expected https://HOST/PATH"},
		{"https://host:0/x", "port of 1 to 65535"},
		{"https://host:65536/x", "port of 1 to 65535"},
		{"https://host:99999999999999999999/x", "port of 1 to 65535"},
		{"https://ho st/x", "expected https://HOST/PATH"},
		{"https://[::1/x", "expected https://HOST/PATH"},
		{"https://host/x#y", "a # is written %23"},
		{"https://a@b@host/x", "written %40"},
	};
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		struct fault fault = {{0}};
		struct remote_url url = {.port = 7};
		assert_int_equal(remote_url_parse(cases[i].text, &url, &fault), -EINVAL);
		if (!strstr(fault.text, cases[i].part))
			fail_msg("%s: \"%s\" does not say \"%s\"", cases[i].text, fault.text,
				cases[i].part);
		assert_int_equal(url.port, 7);
		assert_null(strstr(fault.text, "s3cr3t"));
	}
}

static void refuses_what_is_too_long(void **state)
{
	char text[REMOTE_URL_MAX + 64];
	struct fault fault = {{0}};
	struct remote_url url;
	for (size_t size = 200; size < REMOTE_URL_MAX + 40; size += 7) {
		for (size_t i = 0; i < 3; i++) {
			static const char *const begin[] = {
				"s3://bucket/", "https://", "https://h/?"};
			memset(text, 'x', size);
			text[size] = 0;
			memcpy(text, begin[i], strlen(begin[i]));
			int rc = remote_url_parse(text, &url, &fault);
			assert_true(rc == 0 || rc == -EINVAL);
			if (size > REMOTE_URL_MAX)
				assert_int_equal(rc, -EINVAL);
		}
	}
}

static void prints_no_secret(void **state)
{
	static const struct {
		const char *text, *safe;
	} cases[] = {
		{"https://u:s3cr3t@host/x", "https://***@host/x"},
		{"https://s3cr3t@host", "https://***@host"},
		{"https://u:s3cr/3t@host/x", "https://***@host/x"},
		{"https://u:p@s3cr3t@host/x", "https://***@host/x"},
		{"https://u:123456/s3cr3t@host/x", "https://***@host/x"},
		{"https://host:8080/a@b", "https://host:8080/a@b"},
		{"https://host/x?X-Amz-Signature=s3cr3t", "https://host/x?..."},
		{"HTTP://host?s3cr3t", "HTTP://host?..."},
		{"https://host/\302\23331m\xc3\xa4", "https://host/??31m\xc3\xa4"},
		{"ftp://u:s3cr3t@host/x?s3cr3t#s3cr3t", "ftp://***@host/x?..."},
		{"s3://AK:s3cr3t@bucket/x", "s3://***@bucket/x"},
		{"s3://bucket/a?b@c", "s3://bucket/a?b@c"},
		{"hf://datasets/o/n@rev/x", "hf://datasets/o/n@rev/x"},
		{"/path/\n\x1b[31mx", "/path/??[31mx"},
	};
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		char safe[256], small[8];
		assert_string_equal(
			remote_url_safe(cases[i].text, safe, sizeof safe), cases[i].safe);
		assert_true(strlen(remote_url_safe(cases[i].text, small, sizeof small)) < 8);
	}
}

static void makes_addresses(void **state)
{
	static const struct {
		const char *text, *url;
		struct remote_where where;
	} cases[] = {
		{"s3://bucket/a b/\xc3\xa4+%.tar",
			"https://bucket.s3.us-east-1.amazonaws.com/a%20b/%C3%A4%2B%25.tar", {0}},
		{"s3://bucket/x", "https://bucket.s3.cn-north-1.amazonaws.com.cn/x",
			{.region = "cn-north-1"}},
		{"s3://my.bucket/x", "https://s3.eu-west-1.amazonaws.com/my.bucket/x",
			{.region = "eu-west-1"}},
		{"s3://Bucket_1/x", "https://s3.us-east-1.amazonaws.com/Bucket_1/x", {0}},
		{"s3://bucket", "https://bucket.s3.us-east-1.amazonaws.com/", {0}},
		{"s3://my.bucket", "https://s3.us-east-1.amazonaws.com/my.bucket", {0}},
		{"s3://bucket/x", "https://s3.us-east-1.amazonaws.com/bucket/x",
			{.path_style = REMOTE_PATH_ON}},
		{"s3://my.bucket/x", "https://my.bucket.s3.us-east-1.amazonaws.com/x",
			{.path_style = REMOTE_PATH_OFF}},
		{"s3://bucket/x", "http://127.0.0.1:9000/bucket/x",
			{.endpoint_url = "http://127.0.0.1:9000"}},
		{"s3://bucket/x", "http://[::1]:9000/bucket/x",
			{.endpoint_url = "http://[::1]:9000/"}},
		{"s3://bucket/x", "http://localhost:9000/s3/bucket/x",
			{.endpoint_url = "http://localhost:9000/s3/"}},
		{"s3://bucket/x", "https://bucket.minio.example.com/x",
			{.endpoint_url = "https://minio.example.com:443"}},
		{"gs://bucket/x y", "https://storage.googleapis.com/bucket/x%20y", {0}},
		{"gs://bucket/x", "http://localhost:4443/bucket/x",
			{.gs_endpoint = "localhost:4443"}},
		{"hf://datasets/o/n/a b", "https://huggingface.co/datasets/o/n/resolve/main/a%20b",
			{0}},
		{"hf://datasets/o/n@refs%2Fpr%2F1/a",
			"https://hub.example/datasets/o/n/resolve/refs%2Fpr%2F1/a",
			{.hf_endpoint = "https://hub.example"}},
		{"https://u:p@host:81/a%20b c{0..1}\xc3\xa4?x=%20",
			"https://u:p@host:81/a%20b%20c%7B0..1%7D%C3%A4?x=%20", {0}},
	};
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		static struct remote_address address;
		struct fault fault = {{0}};
		const struct remote_url url = parsed(cases[i].text);
		assert_int_equal(remote_url_address(&url, &cases[i].where, &address, &fault), 0);
		assert_string_equal(address.url, cases[i].url);
		assert_non_null(strstr(address.url, address.host));
		assert_non_null(strstr(address.url, address.path));
		assert_int_equal(address.path[0], '/');
		assert_int_equal(address.tls, !strncmp(address.url, "https", 5));
	}
}

static void refuses_endpoints(void **state)
{
	static const char *const wrong[] = {
		"s3://bucket", "https://", "https://u:s3cr3t@host", "https://host?s3cr3t", ""};
	const struct remote_url url = parsed("s3://bucket/x");
	for (size_t i = 0; i < UTIL_COUNT(wrong); i++) {
		static struct remote_address address;
		struct fault fault = {{0}};
		const struct remote_where where = {.endpoint_url = wrong[i]};
		assert_int_equal(remote_url_address(&url, &where, &address, &fault), -EINVAL);
		assert_non_null(strstr(fault.text, "endpoint_url: expected"));
		assert_null(strstr(fault.text, "s3cr3t"));
	}
}

static void allows_plain_http(void **state)
{
	static const char *const hosts[] = {"store.local", NULL};
	static const struct {
		const char *text;
		int rc;
	} cases[] = {
		{"http://localhost/x", 0},
		{"http://a.localhost:1/x", 0},
		{"http://127.3.2.1/x", 0},
		{"http://[::1]/x", 0},
		{"https://example.com/x", 0},
		{"http://STORE.local/x", 0},
		{"http://example.com/x", -EACCES},
		{"http://127.0.0.1.example.com/x", -EACCES},
		{"http://127.0.0.1x/x", -EACCES},
		{"http://127.0.0.256/x", -EACCES},
		{"http://notlocalhost/x", -EACCES},
		{"http://store.local.evil/x", -EACCES},
	};
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		struct fault fault = {{0}};
		const struct remote_url url = parsed(cases[i].text);
		assert_int_equal(remote_url_check_plain(&url, hosts, &fault), cases[i].rc);
		assert_int_equal(strstr(fault.text, "plain_http") != NULL, cases[i].rc != 0);
	}
	struct fault fault = {{0}};
	const struct remote_url url = parsed("http://store.local/x");
	assert_int_equal(remote_url_check_plain(&url, NULL, &fault), -EACCES);
}

static void compares_whole_components(void **state)
{
	static const struct {
		const char *root, *url;
		bool within;
	} cases[] = {
		{"s3://bucket", "s3://bucket/x", true},
		{"s3://bucket/", "s3://bucket", true},
		{"s3://bucket", "s3://bucket-evil/x", false},
		{"s3://bucket", "gs://bucket/x", false},
		{"s3://bucket/data", "s3://bucket/data", true},
		{"s3://bucket/data/", "s3://bucket/data/x/y", true},
		{"s3://bucket/data", "s3://bucket/data-2/x", false},
		{"s3://bucket/data", "s3://bucket/dat", false},
		{"s3://bucket/data/x", "s3://bucket/data", false},
		{"https://host/a", "https://host:443/a/b", true},
		{"https://host/a", "https://host:444/a/b", false},
		{"https://host/a", "http://host/a/b", false},
		{"https://host", "https://host.evil/a", false},
		{"https://host/a", "https://evil@host/a/b", true},
		{"hf://datasets/o/n", "hf://datasets/o/n@v1/x", true},
		{"hf://datasets/o/n@v1", "hf://datasets/o/n@v1/x", true},
		{"hf://datasets/o/n@v1", "hf://datasets/o/n/x", false},
		{"hf://datasets/o/n", "hf://datasets/o/n2/x", false},
	};
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		const struct remote_url root = parsed(cases[i].root), url = parsed(cases[i].url);
		if (remote_url_within(&url, &root) != cases[i].within)
			fail_msg("%s within %s", cases[i].url, cases[i].root);
	}
	/* A key that did not pass through remote_url_parse: a redirect, a listing. */
	struct remote_url root = parsed("s3://bucket/data"), url = parsed("s3://bucket/data/x");
	(void)strcpy(url.key, "data/../secret");
	assert_false(remote_url_within(&url, &root));
	root = parsed("https://host/data");
	url = parsed("https://host/data/x");
	(void)strcpy(url.key, "data/..%2fsecret");
	assert_false(remote_url_within(&url, &root));
	/* A store's key has a % that means nothing else. */
	(void)parsed("s3://bucket/data/..%2fx");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_and_prints),
		cmocka_unit_test(knows_what_is_a_url),
		cmocka_unit_test(refuses),
		cmocka_unit_test(refuses_what_is_too_long),
		cmocka_unit_test(prints_no_secret),
		cmocka_unit_test(makes_addresses),
		cmocka_unit_test(refuses_endpoints),
		cmocka_unit_test(allows_plain_http),
		cmocka_unit_test(compares_whole_components),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

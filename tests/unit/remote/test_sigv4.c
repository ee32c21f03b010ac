/* sigv4: signatures against the examples of AWS's documentation ("Authenticating Requests: Using
 * the Authorization Header", Amazon S3 API Reference) and against figures of botocore 1.43 for
 * requests that the examples lack. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "remote/auth/sigv4.h"

#include <errno.h>
#include <string.h>

enum { EXAMPLE_TIME = 1369353600, OWN_TIME = 1772323199 };

struct example {
	const char *secret, *id, *region;
	struct sigv4_request request;
	const char *authorization;
};

#define EXAMPLE_ID "AKIAIOSFODNN7EXAMPLE"
#define EXAMPLE_SECRET "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
#define EXAMPLE_SCOPE \
	"AWS4-HMAC-SHA256 Credential=" EXAMPLE_ID "/20130524/us-east-1/s3/aws4_request, "
#define OWN_SECRET "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
#define OWN_TOKEN "token/with+signs=="
#define OWN_SCOPE "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260228/eu-west-1/s3/aws4_request, "

static const struct sigv4_header example_range[] = {{"range", "bytes=0-9"}};
static const struct sigv4_header example_put[] = {
	{"x-amz-storage-class", "REDUCED_REDUNDANCY"}, {"date", "Fri, 24 May 2013 00:00:00 GMT"}};
static const struct sigv4_header own_payer[] = {{"x-amz-request-payer", "requester"}};

static const struct example examples[] = {
	{EXAMPLE_SECRET, EXAMPLE_ID, "us-east-1",
		{.method = "GET",
			.host = "examplebucket.s3.amazonaws.com",
			.path = "/test.txt",
			.payload = SIGV4_EMPTY,
			.headers = example_range,
			.header_count = 1,
			.time = EXAMPLE_TIME},
		EXAMPLE_SCOPE "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
			      "Signature="
			      "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
	{EXAMPLE_SECRET, EXAMPLE_ID, "us-east-1",
		{.method = "PUT",
			.host = "examplebucket.s3.amazonaws.com",
			.path = "/test%24file.text",
			.payload =
				"44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
			.headers = example_put,
			.header_count = 2,
			.time = EXAMPLE_TIME},
		EXAMPLE_SCOPE "SignedHeaders=date;host;x-amz-content-sha256;x-amz-date;"
			      "x-amz-storage-class, Signature="
			      "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
	{EXAMPLE_SECRET, EXAMPLE_ID, "us-east-1",
		{.method = "GET",
			.host = "examplebucket.s3.amazonaws.com",
			.path = "/",
			.query = "lifecycle",
			.payload = SIGV4_EMPTY,
			.time = EXAMPLE_TIME},
		EXAMPLE_SCOPE "SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature="
			      "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
	{EXAMPLE_SECRET, EXAMPLE_ID, "us-east-1",
		{.method = "GET",
			.host = "examplebucket.s3.amazonaws.com",
			.path = "/",
			.query = "prefix=J&max-keys=2",
			.payload = SIGV4_EMPTY,
			.time = EXAMPLE_TIME},
		EXAMPLE_SCOPE "SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature="
			      "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
	{OWN_SECRET, "AKIDEXAMPLE", "eu-west-1",
		{.method = "GET",
			.host = "my.bucket.s3.eu-west-1.amazonaws.com",
			.path = "/a%20b/%C3%A4%2B%25.tar",
			.payload = SIGV4_EMPTY,
			.token = OWN_TOKEN,
			.time = OWN_TIME},
		OWN_SCOPE "SignedHeaders=host;x-amz-content-sha256;x-amz-date;"
			  "x-amz-security-token, Signature="
			  "61c30fea4800e1905a266f96cb23c7f5c37c3e7a000c5bc82040d77571ab333e"},
	{OWN_SECRET, "AKIDEXAMPLE", "eu-west-1",
		{.method = "GET",
			.host = "127.0.0.1:9000",
			.path = "/bucket",
			.query = "prefix=a%2Fb&list-type=2&continuation-token=x%3D%3D&a=&delimiter",
			.payload = SIGV4_EMPTY,
			.token = OWN_TOKEN,
			.headers = own_payer,
			.header_count = 1,
			.time = OWN_TIME},
		OWN_SCOPE "SignedHeaders=host;x-amz-content-sha256;x-amz-date;"
			  "x-amz-request-payer;x-amz-security-token, Signature="
			  "d49c498f454c86853bfc05fec0b365c999478b5ac2d50531c07d7fc32e283d2d"},
	{OWN_SECRET, "AKIDEXAMPLE", "eu-west-1",
		{.method = "PUT",
			.host = "bucket.s3.eu-west-1.amazonaws.com",
			.path = "/x",
			.query = "partNumber=2&uploadId=u",
			.payload =
				"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
			.token = OWN_TOKEN,
			.time = OWN_TIME},
		OWN_SCOPE "SignedHeaders=host;x-amz-content-sha256;x-amz-date;"
			  "x-amz-security-token, Signature="
			  "da95b5a1b20d1975ddf77ac69ea7feff99c3d53a0a1b0b32e48508f1b0746cd5"},
};

static void signs_as_documented(void **state)
{
	for (size_t i = 0; i < UTIL_COUNT(examples); i++) {
		const struct example *example = &examples[i];
		struct sigv4_scope scope;
		struct sigv4_signed made;
		assert_int_equal(sigv4_scope_make(example->secret, example->region, "s3",
					 example->request.time, &scope),
			0);
		assert_int_equal(sigv4_sign(&scope, example->id, &example->request, &made), 0);
		assert_string_equal(made.authorization, example->authorization);
		assert_string_equal(made.date, example->request.time == OWN_TIME
						       ? "20260228T235959Z"
						       : "20130524T000000Z");
	}
}

static void hashes(void **state)
{
	char hash[SIGV4_HASH];
	assert_int_equal(sigv4_hash("", 0, hash), 0);
	assert_string_equal(hash, SIGV4_EMPTY);
	assert_int_equal(sigv4_hash("Welcome to Amazon S3.", 21, hash), 0);
	assert_string_equal(
		hash, "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072");
}

/* An order of parameters is an order of names first: "a=b" before "a-b=", though "-" is less than
 * "=". */
static void orders_parameters(void **state)
{
	static const char *const same[] = {"a=b&a-b=c", "a-b=c&a=b", "&a-b=c&&a=b&"};
	struct sigv4_scope scope;
	struct sigv4_signed made[UTIL_COUNT(same)];
	assert_int_equal(sigv4_scope_make("secret", "r", "s3", OWN_TIME, &scope), 0);
	for (size_t i = 0; i < UTIL_COUNT(same); i++) {
		struct sigv4_request request = examples[6].request;
		request.query = same[i];
		assert_int_equal(sigv4_sign(&scope, "id", &request, &made[i]), 0);
		assert_string_equal(made[i].authorization, made[0].authorization);
	}
}

static void refuses_what_does_not_fit(void **state)
{
	static char text[70000];
	struct sigv4_scope scope;
	struct sigv4_signed made;
	memset(text, 'x', sizeof text - 1);
	assert_int_equal(sigv4_scope_make(text, "r", "s3", 0, &scope), -ENAMETOOLONG);
	assert_int_equal(sigv4_scope_make("s", text, "s3", 0, &scope), -ENAMETOOLONG);
	assert_int_equal(sigv4_scope_make("s", "r", text, 0, &scope), -ENAMETOOLONG);
	assert_int_equal(sigv4_scope_make("s", "r", "s3", EXAMPLE_TIME, &scope), 0);
	struct sigv4_request request = examples[0].request;
	request.token = text;
	assert_int_equal(sigv4_sign(&scope, "id", &request, &made), -ENAMETOOLONG);
	request.token = NULL;
	assert_int_equal(sigv4_sign(&scope, text, &request, &made), -ENAMETOOLONG);
	request.time += 86400;
	assert_int_equal(sigv4_sign(&scope, "id", &request, &made), -EINVAL);
	request.time = EXAMPLE_TIME;
	request.header_count = SIGV4_HEADERS + 1;
	assert_int_equal(sigv4_sign(&scope, "id", &request, &made), -E2BIG);
	request.header_count = 0;
	for (size_t i = 0; i < 1000; i += 2)
		memcpy(text + i, "a&", 2);
	text[1000] = 0;
	request.query = text;
	assert_int_equal(sigv4_sign(&scope, "id", &request, &made), -E2BIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signs_as_documented),
		cmocka_unit_test(hashes),
		cmocka_unit_test(orders_parameters),
		cmocka_unit_test(refuses_what_does_not_fit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

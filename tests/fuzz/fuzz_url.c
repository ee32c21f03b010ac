/* fuzz_url: any text as a URL: with libFuzzer, and as a test with URLs put together at random from
 * meaningful parts (drive.h).
 *
 * Expected: a sentence with every refusal; what is printed is read as the same URL; an address of
 * printable ASCII whose path begins with a slash; a URL is within its own bucket and not within
 * another; a password, wherever it is, is not in the printed text or in a sentence. */
#include "remote/url.h"

#include "fuzz/drive.h"
#include "fuzz/want.h"

#include "base/util.h"

#include <errno.h>
#include <string.h>

enum { TEXT_MOST = 6000 };

static void check_address(const struct remote_url *url, const struct remote_where *where)
{
	static struct remote_address address;
	struct fault fault = {{0}};
	int rc = remote_url_address(url, where, &address, &fault);
	want(rc == 0 || fault.text[0], "refused without a sentence");
	if (rc < 0)
		return;
	want(address.path[0] == '/', "a path without a slash");
	want(strstr(address.url, address.host) != NULL, "another host");
	for (const char *c = address.path; *c; c++)
		want(*c > ' ' && *c <= '~' && *c != '#' && *c != '?', "a path not encoded");
	for (const char *c = address.host; *c; c++)
		want(*c > ' ' && *c <= '~' && !strchr("/@?#", *c), "a host that is not one");
}

/* Every byte, but for padding. */
static bool same(const struct remote_url *a, const struct remote_url *b)
{
	return a->scheme == b->scheme && a->port == b->port &&
	       memcmp(a->user, b->user, sizeof a->user) == 0 &&
	       memcmp(a->host, b->host, sizeof a->host) == 0 &&
	       memcmp(a->revision, b->revision, sizeof a->revision) == 0 &&
	       memcmp(a->key, b->key, sizeof a->key) == 0 &&
	       memcmp(a->query, b->query, sizeof a->query) == 0;
}

static void check_url(const struct remote_url *url)
{
	static const struct remote_where where[] = {{.region = "eu-west-1"},
		{.endpoint_url = "http://127.0.0.1:1/x", .gs_endpoint = "localhost:2"}};
	static char text[REMOTE_URL_MAX * 2 + 1];
	struct remote_url again, root = *url;
	struct fault fault;
	want(remote_url_print(url, text, sizeof text) < sizeof text, "printed is too long");
	/* A revision that is encoded may have become longer than a URL may be. */
	if (strlen(text) <= REMOTE_URL_MAX) {
		want(remote_url_parse(text, &again, &fault) == 0, "printed, but not read");
		want(same(&again, url), "printed, but read as another");
	}
	root.key[0] = 0;
	want(remote_url_within(url, &root), "not within its own bucket");
	root.host[0] = root.host[0] == 'x' ? 'y' : 'x';
	want(!remote_url_within(url, &root), "within another bucket");
	for (size_t i = 0; i < UTIL_COUNT(where); i++)
		check_address(url, &where[i]);
	want(remote_url_check_plain(url, NULL, &fault) == 0 || url->scheme == REMOTE_HTTP,
		"refused as plain");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct remote_url url;
	static char safe[TEXT_MOST + 64];
	char *text = strndup((const char *)data, size); /* ends at the end of its allocation */
	struct fault fault = {{0}};
	want(text != NULL, "no memory");
	(void)remote_url_safe(text, safe, sizeof safe);
	for (const char *c = safe; *c; c++)
		want((unsigned char)*c >= ' ' && *c != 0x7f, "a control character is printed");
	int rc = remote_url_parse(text, &url, &fault);
	want(rc == 0 || (rc == -EINVAL && fault.text[0]), "refused without a sentence");
	const char *secret = strstr(text, "s3cr3t");
	if (secret && !strstr(secret + 1, "s3cr3t") && secret[6] == '@' && remote_is_url(text) &&
		secret == strstr(text, "://") + 3)
		want(!strstr(safe, "s3cr3t") && !strstr(fault.text, "s3cr3t"), "a secret is shown");
	if (rc == 0)
		check_url(&url);
	free(text);
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
static size_t compose(uint8_t *bytes, size_t room, struct random *random)
{
	static const char *const schemes[] = {"s3://", "gs://", "hf://datasets/", "https://",
		"http://", "S3://", "ftp://", "hf://"};
	static const char *const parts[] = {"bucket", "my.bucket", "org/name", "@main",
		"@refs%2Fpr%2F1", "host", "127.0.0.1", "[::1]", ":8080", ":443", "/", "//", "a b",
		"%41", "%2e", "..", ".", "?", "x=1", "&", "#", "{0..3}", "*", "\xc3\xa4", "\xff",
		"data/x.tar", "u:p@", "-", "_", "+", "~"};
	size_t used = 0;
	const char *put = schemes[draw(random, UTIL_COUNT(schemes))];
	if (one_in(random, 4))
		put = "https://s3cr3t@";
	for (uint32_t i = 1 + draw(random, one_in(random, 50) ? 900 : 9);; i--) {
		size_t more = UTIL_MIN(strlen(put), room - used);
		memcpy(bytes + used, put, more);
		used += more;
		if (!i)
			return used;
		put = parts[draw(random, UTIL_COUNT(parts))];
	}
}

const struct drive fuzz_drive = {"fuzz_url", TEXT_MOST, compose, NULL};
#endif

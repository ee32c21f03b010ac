/* url: see url.h. url_text.c prints and encodes; url_address.c makes addresses of requests. */
#include "remote/url.h"

#include "base/util.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

enum { URL_SCHEME_MAX = REMOTE_SCHEME_MAX, URL_BUCKET_LEAST = 3, URL_BUCKET_MOST = 63 };

static const char *const url_schemes[] = {[0] = "",
	[REMOTE_S3] = "s3",
	[REMOTE_GS] = "gs",
	[REMOTE_HF] = "hf",
	[REMOTE_HTTPS] = "https",
	[REMOTE_HTTP] = "http"};

bool remote_url_lists(const struct remote_url *url)
{
	return url->scheme == REMOTE_S3 || url->scheme == REMOTE_GS || url->scheme == REMOTE_HF;
}

struct parse {
	const char *text;
	struct remote_url *url;
	struct fault *fault;
};

static int refuse(const struct parse *parse, const char *why)
{
	char safe[FAULT_TEXT / 2];
	return fault_set(parse->fault, -EINVAL, "%s: %s",
		remote_url_safe(parse->text, safe, sizeof safe), why);
}

static int copy(const struct parse *parse, const char *from, size_t size, char *to, size_t room,
	const char *what)
{
	char why[128];
	if (size >= room) {
		(void)snprintf(why, sizeof why, "%s has %zu bytes; at most %zu are allowed", what,
			size, room - 1);
		return refuse(parse, why);
	}
	memcpy(to, from, size);
	to[size] = 0;
	return 0;
}

static int scheme_parse(const struct parse *parse, size_t size)
{
	char name[URL_SCHEME_MAX], why[256];
	for (size_t i = 0; i < size; i++)
		name[i] = (char)tolower((unsigned char)parse->text[i]);
	name[size] = 0;
	for (unsigned i = REMOTE_S3; i <= REMOTE_HTTP; i++)
		if (!strcmp(name, url_schemes[i])) {
			parse->url->scheme = (enum remote_scheme)i;
			return 0;
		}
	if (!strcmp(name, "file"))
		return refuse(parse, "write the path itself, without file://");
	(void)snprintf(why, sizeof why,
		"%s:// is not known: expected s3://, gs://, hf://, https:// or http://%s", name,
		!strcmp(name, "s3a") || !strcmp(name, "s3n") ? "; write s3://" : "");
	return refuse(parse, why);
}

/* Bytes of what ends a component of a path; 0: nothing does. Web servers decode a path before they
 * resolve its dots, and some take a backslash for a slash. */
static size_t separator(const char *path, bool web)
{
	if (*path == '/' || (web && *path == '\\'))
		return 1;
	return web && (!strncasecmp(path, "%2f", 3) || !strncasecmp(path, "%5c", 3)) ? 3 : 0;
}

/* Whether a path has a component ".", ".." or their encoded forms: servers and libraries resolve
 * these differently, so that a check of the path would not hold. On the web a component may have
 * parameters (..;x), which do not count. */
static bool has_dots(const char *path, bool web)
{
	while (*path) {
		unsigned dots = 0, others = 0;
		bool parameters = false;
		for (; *path && !separator(path, web); path++) {
			parameters = parameters || (web && *path == ';');
			if (parameters)
				continue;
			if (*path == '.') {
				dots++;
			} else if (!strncasecmp(path, "%2e", 3)) {
				dots++;
				path += 2;
			} else {
				others++;
			}
		}
		if (!others && (dots == 1 || dots == 2))
			return true;
		path += separator(path, web);
	}
	return false;
}

static int key_parse(const struct parse *parse, const char *key, size_t size)
{
	struct remote_url *url = parse->url;
	int rc = copy(parse, key, size, url->key, sizeof url->key, "the key");
	if (rc < 0)
		return rc;
	return has_dots(url->key, !remote_url_lists(url))
		       ? refuse(parse, "a path may not have . or .. as a component")
		       : 0;
}

static int bucket_parse(const struct parse *parse, const char *rest)
{
	size_t size = strcspn(rest, "/");
	char why[256];
	if (memchr(rest, '@', size))
		return refuse(parse, "keys do not belong into a URL: use the environment or a "
				     "profile of ~/.aws/credentials");
	if (size >= 4 && !strncmp(rest, "arn:", 4))
		return refuse(parse, "access points (arn:...) are not supported: name the bucket");
	bool fine = size >= URL_BUCKET_LEAST && size <= URL_BUCKET_MOST &&
		    isalnum((unsigned char)rest[0]) && isalnum((unsigned char)rest[size - 1]);
	for (size_t i = 0; i < size; i++)
		fine = fine && (isalnum((unsigned char)rest[i]) || strchr("-._", rest[i])) &&
		       (rest[i] != '.' || rest[i + 1] != '.');
	if (!fine) {
		(void)snprintf(why, sizeof why,
			"expected %s://BUCKET/KEY, with a bucket of %d to %d letters, digits, dots "
			"and hyphens",
			url_schemes[parse->url->scheme], URL_BUCKET_LEAST, URL_BUCKET_MOST);
		return refuse(parse, why);
	}
	memcpy(parse->url->host, rest, size);
	parse->url->host[size] = 0;
	return rest[size] ? key_parse(parse, rest + size + 1, strlen(rest + size + 1)) : 0;
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int revision_parse(const struct parse *parse, const char *text, size_t size)
{
	char *to = parse->url->revision;
	size_t used = 0;
	for (size_t i = 0; i < size; i++) {
		char c = text[i];
		if (c == '%') {
			int high = i + 2 < size ? hex(text[i + 1]) : -1;
			int low = high >= 0 ? hex(text[i + 2]) : -1;
			if (low < 0 || (high == 0 && low == 0))
				return refuse(parse, "the revision has a % without two digits");
			c = (char)(high * 16 + low);
			i += 2;
		}
		if (used == REMOTE_REVISION_MAX || (unsigned char)c < ' ' || c == 0x7f)
			return refuse(parse, "the revision is too long or not a name");
		to[used++] = c;
	}
	to[used] = 0;
	if (!used || has_dots(to, false))
		return refuse(parse, "expected a revision after the @");
	return 0;
}

/* Whether ORG and NAME are names of the Hub. */
static bool is_hub_name(const char *name, size_t size)
{
	bool fine = size > 0 && size <= 96 && name[0] != '.' && name[0] != '-';
	for (size_t i = 0; i < size; i++)
		fine = fine && (isalnum((unsigned char)name[i]) || strchr("-._", name[i]));
	return fine;
}

static int hub_parse(const struct parse *parse, const char *rest)
{
	struct remote_url *url = parse->url;
	static const char expected[] =
		"expected hf://datasets/ORG/NAME/PATH or hf://datasets/ORG/NAME@REVISION/PATH";
	if (strncmp(rest, "datasets/", 9) != 0)
		return refuse(parse, expected);
	const char *org = rest + 9;
	size_t org_size = strcspn(org, "/");
	if (!org[org_size] || !is_hub_name(org, org_size))
		return refuse(parse, expected);
	const char *name = org + org_size + 1;
	size_t name_size = strcspn(name, "/@");
	if (!is_hub_name(name, name_size))
		return refuse(parse, expected);
	(void)snprintf(
		url->host, sizeof url->host, "%.*s/%.*s", (int)org_size, org, (int)name_size, name);
	(void)strcpy(url->revision, "main");
	const char *end = name + name_size;
	if (*end == '@') {
		size_t size = strcspn(end + 1, "/");
		int rc = revision_parse(parse, end + 1, size);
		if (rc < 0)
			return rc;
		end += 1 + size;
	}
	return *end ? key_parse(parse, end + 1, strlen(end + 1)) : 0;
}

static int port_parse(const struct parse *parse, const char *text, size_t size)
{
	unsigned long port = 0;
	for (size_t i = 0; i < size; i++) {
		if (!isdigit((unsigned char)text[i]) || port > UINT16_MAX)
			return refuse(parse, "expected a port of 1 to 65535 after the host");
		port = port * 10 + (unsigned long)(text[i] - '0');
	}
	if (port > UINT16_MAX || (size && !port))
		return refuse(parse, "expected a port of 1 to 65535 after the host");
	/* The scheme's own port is as good as none: two spellings of one place are equal. */
	bool own = port == (parse->url->scheme == REMOTE_HTTPS ? 443 : 80);
	parse->url->port = own ? 0 : (uint16_t)port;
	return 0;
}

/* Whether a host is a name, an IPv4 address, or an IPv6 address in brackets. */
static bool is_host(const char *host, size_t size)
{
	if (!size || size > REMOTE_HOST_MAX)
		return false;
	if (host[0] == '[') {
		bool fine = size > 3 && host[size - 1] == ']';
		for (size_t i = 1; i + 1 < size; i++)
			fine = fine && (isxdigit((unsigned char)host[i]) || strchr(":.", host[i]));
		return fine;
	}
	for (size_t i = 0; i < size; i++)
		if (!isalnum((unsigned char)host[i]) && !strchr("-._", host[i]))
			return false;
	return host[0] != '.' && host[0] != '-';
}

static int authority_parse(const struct parse *parse, const char *text, size_t size)
{
	struct remote_url *url = parse->url;
	const char *host = text;
	for (size_t i = 0; i < size; i++)
		host = text[i] == '@' ? text + i + 1 : host;
	if (host != text) {
		int rc = copy(parse, text, (size_t)(host - text) - 1, url->user, sizeof url->user,
			"what precedes the @");
		if (rc < 0)
			return rc;
		if (strpbrk(url->user, "@"))
			return refuse(parse, "an @ in a user or a password is written %40");
	}
	size_t rest = size - (size_t)(host - text);
	const char *bracket = host[0] == '[' ? memchr(host, ']', rest) : NULL;
	const char *from = bracket ? bracket : host;
	const char *colon = memchr(from, ':', rest - (size_t)(from - host));
	size_t host_size = colon ? (size_t)(colon - host) : rest;
	if (!is_host(host, host_size))
		return refuse(parse, "expected https://HOST/PATH");
	for (size_t i = 0; i < host_size; i++)
		url->host[i] = (char)tolower((unsigned char)host[i]);
	url->host[host_size] = 0;
	return colon ? port_parse(parse, colon + 1, rest - host_size - 1) : 0;
}

static int web_parse(const struct parse *parse, const char *rest)
{
	struct remote_url *url = parse->url;
	size_t size = strcspn(rest, "/?#");
	int rc = authority_parse(parse, rest, size);
	if (rc < 0)
		return rc;
	if (strchr(rest, '#'))
		return refuse(parse, "a # is written %23 in a URL; what follows it is never sent");
	const char *path = rest + size + (rest[size] == '/');
	const char *query = strchr(path, '?');
	/* "{0..3}" and globs stay in the text; a "?" is the query's beginning. */
	rc = key_parse(parse, path, query ? (size_t)(query - path) : strlen(path));
	if (rc == 0 && query)
		rc = copy(parse, query + 1, strlen(query + 1), url->query, sizeof url->query,
			"the query");
	return rc;
}

int remote_url_parse(const char *text, struct remote_url *ret, struct fault *fault)
{
	struct remote_url url = {.port = 0};
	const struct parse parse = {text, &url, fault};
	size_t size = remote_url_scheme(text);
	if (!size)
		return refuse(&parse, "expected a URL: s3://, gs://, hf://, https:// or http://");
	if (strlen(text) > REMOTE_URL_MAX)
		return refuse(&parse, "a URL may have at most 4095 bytes");
	for (const char *at = text; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			return refuse(&parse, "a URL may not contain control characters");
	int rc = scheme_parse(&parse, size);
	if (rc < 0)
		return rc;
	const char *rest = text + size + 3;
	if (url.scheme == REMOTE_HF)
		rc = hub_parse(&parse, rest);
	else if (remote_url_lists(&url))
		rc = bucket_parse(&parse, rest);
	else
		rc = web_parse(&parse, rest);
	if (rc == 0)
		*ret = url;
	return rc;
}

bool remote_host_is_loopback(const char *host)
{
	size_t size = strlen(host);
	if (!strcmp(host, "[::1]") || !strcmp(host, "localhost"))
		return true;
	if (size > 10 && !strcmp(host + size - 10, ".localhost"))
		return true;
	/* 127.0.0.1 in full: a name such as 127.0.0.1.example.com is not this machine. */
	unsigned part[4];
	int used = 0;
	return sscanf(host, "%3u.%3u.%3u.%3u%n", &part[0], &part[1], &part[2], &part[3], &used) ==
		       4 &&
	       (size_t)used == size && part[0] == 127 && part[1] < 256 && part[2] < 256 &&
	       part[3] < 256;
}

int remote_url_check_plain(
	const struct remote_url *url, const char *const *plain_http, struct fault *fault)
{
	if (url->scheme != REMOTE_HTTP || remote_host_is_loopback(url->host))
		return 0;
	for (; plain_http && *plain_http; plain_http++)
		if (!strcasecmp(*plain_http, url->host))
			return 0;
	return fault_set(fault, -EACCES,
		"http://%s sends data in the clear, where others can read and change it: use "
		"https://, or add %s to remote: plain_http",
		url->host, url->host);
}

bool remote_url_within(const struct remote_url *url, const struct remote_url *root)
{
	if (url->scheme != root->scheme || url->port != root->port ||
		strcmp(url->host, root->host) != 0)
		return false;
	if (root->scheme == REMOTE_HF && strcmp(root->revision, "main") != 0 &&
		strcmp(url->revision, root->revision) != 0)
		return false;
	size_t size = strlen(root->key);
	while (size && root->key[size - 1] == '/')
		size--;
	return !strncmp(url->key, root->key, size) &&
	       (!size || !url->key[size] || url->key[size] == '/') &&
	       !has_dots(url->key, !remote_url_lists(url));
}

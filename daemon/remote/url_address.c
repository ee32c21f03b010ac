/* url_address: the address that a request for an object is sent to. See url.h.
 *
 * S3: https://BUCKET.s3.REGION.amazonaws.com/KEY or, where the bucket cannot be part of a host name
 * that a certificate matches, https://s3.REGION.amazonaws.com/BUCKET/KEY ("path style"). A server
 * at an IP address or on this machine has no names below its own. Google's XML interface takes path
 * style everywhere. */
#include "remote/url.h"

#include "base/util.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>

static const char *of_environment(const char *given, const char *name)
{
	const char *value = given && given[0] ? given : getenv(name);
	return value && value[0] ? value : NULL;
}

void remote_where_read(struct remote_where *where)
{
	where->endpoint_url = of_environment(where->endpoint_url, "AWS_ENDPOINT_URL_S3");
	where->endpoint_url = of_environment(where->endpoint_url, "AWS_ENDPOINT_URL");
	where->region = of_environment(where->region, "AWS_REGION");
	where->region = of_environment(where->region, "AWS_DEFAULT_REGION");
	where->gs_endpoint = of_environment(where->gs_endpoint, "STORAGE_EMULATOR_HOST");
	where->hf_endpoint = of_environment(where->hf_endpoint, "HF_ENDPOINT");
}

int remote_aws_endpoint(const char *service, const char *region, char *buffer, size_t room)
{
	bool china = !strncmp(region, "cn-", 3);
	int size = snprintf(
		buffer, room, "https://%s.%s.amazonaws.com%s", service, region, china ? ".cn" : "");
	return size < 0 || (size_t)size >= room ? -ENAMETOOLONG : 0;
}

/* A path of https:// is encoded already; only bytes that no URL may have are encoded. */
static size_t web_encode(const char *key, char *buffer, size_t room)
{
	size_t used = 0;
	char one[2] = {0}, code[4];
	for (; *key; key++) {
		one[0] = *key;
		bool plain = isalnum((unsigned char)*key) || strchr("-._~/%!$&'()*+,;=:@", *key);
		const char *put = one;
		if (!plain || (unsigned char)*key >= 0x80) {
			(void)remote_encode(one, true, code, sizeof code);
			put = code;
		}
		for (; *put; put++)
			if (used + 1 < room)
				buffer[used++] = *put;
	}
	buffer[used] = 0;
	return used;
}

/* The parts of an endpoint: "http://127.0.0.1:9000/prefix". STORAGE_EMULATOR_HOST often lacks the
 * scheme. */
static int endpoint_parse(const char *text, struct remote_url *ret, struct fault *fault)
{
	char with[REMOTE_URL_MAX + 1], safe[256];
	struct fault why = {{0}};
	(void)snprintf(with, sizeof with, "%s%s", remote_is_url(text) ? "" : "http://", text);
	int rc = remote_url_parse(with, ret, &why);
	if (rc == 0 && (ret->scheme == REMOTE_HTTPS || ret->scheme == REMOTE_HTTP) &&
		!ret->query[0] && !ret->user[0])
		return 0;
	return fault_set(fault, -EINVAL,
		"endpoint_url: expected https://HOST[:PORT], as in https://minio.example.com:9000, "
		"got %s",
		remote_url_safe(text, safe, sizeof safe));
}

static bool is_address(const char *host)
{
	return host[0] == '[' || strspn(host, "0123456789.") == strlen(host);
}

static bool path_style(
	const struct remote_url *url, const struct remote_where *where, const char *host)
{
	if (where->path_style != REMOTE_PATH_AUTO)
		return where->path_style == REMOTE_PATH_ON;
	for (const char *c = url->host; *c; c++)
		if (*c == '.' || *c == '_' || isupper((unsigned char)*c))
			return true;
	return is_address(host) || remote_host_is_loopback(host);
}

struct making {
	struct remote_address *address;
	struct remote_url endpoint;
	size_t used; /* of the path */
	struct fault *fault;
};

static int path_add(struct making *making, const char *text)
{
	size_t size = strlen(text), room = sizeof making->address->path;
	if (size >= room - making->used)
		return fault_set(making->fault, -ENAMETOOLONG, "the key is too long for a request");
	memcpy(making->address->path + making->used, text, size + 1);
	making->used += size;
	return 0;
}

static int path_add_key(struct making *making, const char *key, bool web)
{
	char part[REMOTE_KEY_MAX * 3 + 1];
	if (web)
		(void)web_encode(key, part, sizeof part);
	else
		(void)remote_encode(key, true, part, sizeof part);
	return path_add(making, part);
}

/* The path so far is the endpoint's own. */
static int path_make(struct making *making, const struct remote_url *url, bool in_path)
{
	char revision[REMOTE_REVISION_MAX * 3 + 1];
	int rc = path_add(making, "/");
	if (rc == 0 && url->scheme == REMOTE_HF) {
		(void)remote_encode(url->revision, false, revision, sizeof revision);
		const char *const parts[] = {
			"datasets/", url->host, "/resolve/", revision, "/", NULL};
		for (size_t i = 0; rc == 0 && parts[i]; i++)
			rc = path_add(making, parts[i]);
	} else if (rc == 0 && in_path) {
		rc = path_add(making, url->host);
		if (rc == 0 && url->key[0])
			rc = path_add(making, "/");
	}
	return rc < 0 ? rc : path_add_key(making, url->key, !remote_url_lists(url));
}

static int address_print(struct making *making, const struct remote_url *url, const char *bucket)
{
	struct remote_address *ret = making->address;
	const struct remote_url *endpoint = &making->endpoint;
	char port[8] = "";
	if (endpoint->port)
		(void)snprintf(port, sizeof port, ":%u", endpoint->port);
	ret->tls = endpoint->scheme == REMOTE_HTTPS;
	int size = snprintf(ret->host, sizeof ret->host, "%s%s%s%s", bucket, bucket[0] ? "." : "",
		endpoint->host, port);
	int whole = size < 0 || (size_t)size >= sizeof ret->host
			    ? -1
			    : snprintf(ret->url, sizeof ret->url, "%s%s%s%s%s%s%s",
				      ret->tls ? "https://" : "http://", url->user,
				      url->user[0] ? "@" : "", ret->host, ret->path,
				      url->query[0] ? "?" : "", url->query);
	return whole < 0 || (size_t)whole >= sizeof ret->url
		       ? fault_set(
				 making->fault, -ENAMETOOLONG, "the URL is too long for a request")
		       : 0;
}

/* The text of the endpoint of a scheme; `buffer` may be used for it. */
static int endpoint_of(const struct remote_url *url, const struct remote_where *where, char *buffer,
	size_t room, const char **ret)
{
	const char *region = where->region && where->region[0] ? where->region : "us-east-1";
	switch (url->scheme) {
	case REMOTE_GS:
		*ret = where->gs_endpoint ? where->gs_endpoint : "https://storage.googleapis.com";
		return 0;
	case REMOTE_HF:
		*ret = where->hf_endpoint ? where->hf_endpoint : "https://huggingface.co";
		return 0;
	case REMOTE_S3:
	case REMOTE_HTTPS:
	case REMOTE_HTTP:
	default:
		*ret = where->endpoint_url ? where->endpoint_url : buffer;
		return where->endpoint_url ? 0 : remote_aws_endpoint("s3", region, buffer, room);
	}
}

int remote_url_address(const struct remote_url *url, const struct remote_where *where,
	struct remote_address *ret, struct fault *fault)
{
	struct making making = {.address = ret, .fault = fault};
	char buffer[REMOTE_HOST_MAX + 1];
	const char *endpoint = NULL;
	bool in_path = false;
	int rc;
	if (remote_url_lists(url)) {
		rc = endpoint_of(url, where, buffer, sizeof buffer, &endpoint);
		if (rc < 0)
			return fault_set(fault, rc, "region: expected a name such as eu-west-1");
		rc = endpoint_parse(endpoint, &making.endpoint, fault);
		if (rc < 0)
			return rc;
		in_path =
			url->scheme == REMOTE_GS ||
			(url->scheme == REMOTE_S3 && path_style(url, where, making.endpoint.host));
		size_t size = strlen(making.endpoint.key);
		while (size && making.endpoint.key[size - 1] == '/')
			making.endpoint.key[--size] = 0;
		rc = size ? path_add(&making, "/") : 0;
		if (rc == 0 && size)
			rc = path_add_key(&making, making.endpoint.key, true);
		if (rc < 0)
			return rc;
	} else {
		making.endpoint = *url;
	}
	rc = path_make(&making, url, in_path);
	bool below = url->scheme == REMOTE_S3 && !in_path;
	return rc < 0 ? rc : address_print(&making, url, below ? url->host : "");
}

/* auth_allowed: which URLs may be read, and which redirects followed. See auth.h.
 *
 * A redirect must lead where a request may go: below a root or, for a root in a store, to the hosts
 * that the store itself uses for its objects. Without roots, anywhere by https://. Never from a
 * store into the clear, unless that host is one of plain_http or this machine. */
#include "remote/auth/auth_impl.h"

#include "base/util.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

static int outside(const struct auth *auth, const struct remote_url *url, const char *what,
	struct fault *fault)
{
	char shown[REMOTE_URL_MAX + 1], safe[256], list[256] = "none is a URL";
	size_t used = 0;
	for (size_t i = 0; i < auth->root_count && used < sizeof list; i++) {
		char text[REMOTE_URL_MAX + 1], clean[128];
		(void)remote_url_print(&auth->roots[i], text, sizeof text);
		used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "",
			remote_url_safe(text, clean, sizeof clean));
	}
	(void)remote_url_print(url, shown, sizeof shown);
	return fault_set(fault, -EACCES,
		"%s%s is outside the URLs that this penstockd may read (roots: %s): name a URL "
		"below them, or have it added to roots: and penstockd restarted",
		what, remote_url_safe(shown, safe, sizeof safe), list);
}

/* Whether a URL is the Hub's list of the files of a dataset that is a root. */
static bool lists(
	const struct auth *auth, const struct remote_url *root, const struct remote_url *url)
{
	char path[REMOTE_HOST_MAX + 64];
	int size = snprintf(path, sizeof path, "api/datasets/%s/tree/", root->host);
	return root->scheme == REMOTE_HF && url->scheme == auth->hub.scheme &&
	       url->port == auth->hub.port && !strcmp(url->host, auth->hub.host) &&
	       !strncmp(url->key, path, (size_t)size);
}

static bool within(const struct auth *auth, const struct remote_url *url)
{
	for (size_t i = 0; i < auth->root_count; i++)
		if (remote_url_within(url, &auth->roots[i]) || lists(auth, &auth->roots[i], url))
			return true;
	return !auth->rooted;
}

int auth_check(const struct auth *auth, const struct remote_url *url, struct fault *fault)
{
	if (!within(auth, url))
		return outside(auth, url, "", fault);
	return remote_url_check_plain(url, (const char *const *)auth->plain_http, fault);
}

static bool ends_in(const char *host, const char *domain)
{
	size_t size = strlen(host), end = strlen(domain);
	if (size < end || strcasecmp(host + size - end, domain) != 0)
		return false;
	return size == end || host[size - end - 1] == '.';
}

/* Whether a store answers for its objects at this host. Its own endpoint does, and is named by the
 * settings. */
static bool store_host(
	const struct auth *auth, const struct remote_url *root, const struct remote_url *url)
{
	static const char *const s3[] = {"amazonaws.com", "amazonaws.com.cn", NULL};
	static const char *const gs[] = {"storage.googleapis.com", NULL};
	static const char *const hf[] = {"huggingface.co", "hf.co", NULL};
	const char *const *hosts = root->scheme == REMOTE_S3   ? s3
				   : root->scheme == REMOTE_GS ? gs
				   : root->scheme == REMOTE_HF ? hf
							       : NULL;
	for (; hosts && *hosts && url->scheme == REMOTE_HTTPS && !url->port; hosts++)
		if (ends_in(url->host, *hosts))
			return true;
	struct remote_address address;
	struct remote_url own;
	return remote_url_lists(root) &&
	       remote_url_address(root, &auth->where, &address, NULL) == 0 &&
	       remote_url_parse(address.url, &own, NULL) == 0 && own.scheme == url->scheme &&
	       own.port == url->port && !strcmp(own.host, url->host);
}

int auth_allowed(void *context, const char *text, struct fault *fault)
{
	const struct auth *auth = context;
	struct remote_url url;
	int rc = remote_url_parse(text, &url, fault);
	if (rc == 0 && remote_url_lists(&url))
		rc = fault_set(fault, -EINVAL, "expected http:// or https://");
	if (rc == 0)
		rc = remote_url_check_plain(&url, (const char *const *)auth->plain_http, fault);
	if (rc < 0)
		return fault_prefix(fault, rc, "the server redirects the request");
	bool allowed = within(auth, &url);
	for (size_t i = 0; !allowed && i < auth->root_count; i++)
		allowed = store_host(auth, &auth->roots[i], &url);
	return allowed ? 0 : outside(auth, &url, "the server redirects the request: ", fault);
}

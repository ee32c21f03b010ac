/* auth_absent: replaces this folder in builds without libcurl, libcrypto and expat, in which
 * client_start refuses every URL before credentials are needed. */
#include "remote/auth/auth.h"

#include <errno.h>

int auth_new(const struct remote_options *options, struct auth **ret, struct fault *fault)
{
	(void)options;
	(void)ret;
	return fault_set(fault, -ENOTSUP, "%s", client_refused());
}

void auth_begin(struct auth *auth, struct client *client)
{
	(void)auth;
	(void)client;
}

void auth_end(struct auth *auth)
{
	(void)auth;
}

void auth_free(struct auth *auth)
{
	(void)auth;
}

int auth_sign(void *context, struct client_signing *signing, struct fault *fault)
{
	(void)context;
	(void)signing;
	return fault_set(fault, -ENOTSUP, "%s", client_refused());
}

bool auth_refused(
	void *context, const struct client_request *request, const struct client_refusal *refusal)
{
	(void)context;
	(void)request;
	(void)refusal;
	return false;
}

int auth_allowed(void *context, const char *url, struct fault *fault)
{
	(void)context;
	(void)url;
	return fault_set(fault, -ENOTSUP, "%s", client_refused());
}

int auth_check(const struct auth *auth, const struct remote_url *url, struct fault *fault)
{
	(void)auth;
	(void)url;
	return fault_set(fault, -ENOTSUP, "%s", client_refused());
}

const struct remote_where *auth_where(const struct auth *auth)
{
	(void)auth;
	return NULL;
}

int auth_before_confinement(const struct remote_options *options, struct fault *fault)
{
	(void)options;
	(void)fault;
	return 0;
}

void auth_files(const struct remote_options *options, void (*add)(void *context, const char *path),
	void *context)
{
	(void)options;
	(void)add;
	(void)context;
}

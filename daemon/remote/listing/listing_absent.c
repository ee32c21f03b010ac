/* listing_absent: replaces this folder in builds without libcurl, libcrypto and expat. */
#include "remote/listing/listing.h"

#include "remote/client/client.h"

#include <errno.h>
#include <string.h>

int listing_objects(const struct listing_source *source, const struct remote_url *url, bool folders,
	listing_take_fn *take, void *context, struct fault *fault)
{
	(void)source;
	(void)url;
	(void)folders;
	(void)take;
	(void)context;
	return fault_set(fault, -ENOTSUP, "%s", client_refused());
}

bool listing_is_glob(const char *key)
{
	return strpbrk(key, "*?[") != NULL;
}

int listing_glob(const struct listing_source *source, const struct remote_url *url,
	listing_take_fn *take, void *context, struct fault *fault)
{
	return listing_objects(source, url, true, take, context, fault);
}

int listing_folder(const struct listing_source *source, const struct remote_url *url,
	const struct listing_folder_sink *sink, struct fault *fault)
{
	return listing_objects(source, url, false, NULL, sink->context, fault);
}

void listing_source_client(struct listing_client *listing, struct client *client,
	const struct auth *auth, struct listing_source *ret)
{
	(void)auth;
	*listing = (struct listing_client){client, ""};
	*ret = (struct listing_source){.hub = ""};
}

/* client_absent: replaces the client in builds without libcurl, libcrypto or expat. */
#include "remote/client/client.h"

#include <errno.h>
#include <stdio.h>

static const char absent[] =
	"this penstock was built without libcurl, libcrypto and expat, and cannot read URLs: build "
	"it "
	"with "
	"libcurl4-openssl-dev, libssl-dev and libexpat1-dev, or copy the data to a local folder";

const char *client_refused(void)
{
	return absent;
}

const char *client_describe(char buffer[CLIENT_DESCRIPTION])
{
	(void)snprintf(
		buffer, CLIENT_DESCRIPTION, "none (built without libcurl, libcrypto and expat)");
	return buffer;
}

int client_start(const struct client_options *options, struct client **ret, struct fault *fault)
{
	(void)options;
	(void)ret;
	return fault_set(fault, -ENOTSUP, "%s", absent);
}

/* There is no client, so nobody can call these. */
void client_stop(struct client *client)
{
	(void)client;
}

void client_begin(struct client *client, struct client_request *request)
{
	(void)client;
	request->result = fault_set(&request->fault, -ENOTSUP, "%s", absent);
	request->done(request);
}

void client_cancel(struct client *client, struct client_request *request)
{
	(void)client;
	(void)request;
}

int client_perform(struct client *client, struct client_request *request, struct fault *fault)
{
	(void)client;
	(void)request;
	return fault_set(fault, -ENOTSUP, "%s", absent);
}

void client_credentials_changed(struct client *client)
{
	(void)client;
}

void client_stats_read(struct client *client, struct client_stats *ret)
{
	(void)client;
	*ret = (struct client_stats){0};
}

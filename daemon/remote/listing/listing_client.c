/* listing_client: pages that the client fetches. See listing.h. */
#include "remote/listing/listing.h"

#include "base/util.h"
#include "remote/auth/auth.h"
#include "remote/client/client.h"

#include <errno.h>
#include <string.h>

static int fetch(void *context, const char *url, char *buffer, size_t room, size_t *ret_size,
	char *ret_link, struct fault *fault)
{
	struct listing_client *listing = context;
	struct client_request *request = calloc(1, sizeof *request);
	if (!request)
		return fault_set(fault, -ENOMEM, "no memory for a listing");
	request->method = CLIENT_GET;
	request->flags = CLIENT_URGENT;
	request->url = url;
	request->buffer = (uint8_t *)buffer;
	request->room = room;
	request->link = ret_link;
	request->link_room = LISTING_NEXT;
	int rc = client_perform(listing->client, request, fault);
	if (rc == 0) {
		*ret_size = (size_t)request->received;
		buffer[request->received] = 0;
	}
	free(request);
	return rc;
}

void listing_source_client(struct listing_client *listing, struct client *client,
	const struct auth *auth, struct listing_source *ret)
{
	const char *hub = auth_where(auth)->hf_endpoint;
	*listing = (struct listing_client){client, hub ? hub : "https://huggingface.co"};
	*ret = (struct listing_source){fetch, listing, listing->hub};
}

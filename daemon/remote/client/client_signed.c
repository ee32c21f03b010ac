/* client_signed: what `sign` answered, which is good for requests for the same URL for a while.
 * Ranges are not signed, so requests for the samples of one shard differ in nothing that is. */
#include "remote/client/client_impl.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

/* Requests whose address and headers depend on nothing but URL, method and clock. */
static bool signed_is_plain(const struct client_request *request)
{
	return (request->method == CLIENT_GET || request->method == CLIENT_HEAD) &&
	       !request->headers && !request->own.location && request->own.attempts == 0;
}

static struct client_signed *signed_slot(
	struct client *client, const struct client_request *request)
{
	size_t size = strlen(request->url);
	uint64_t hash = hash_mix(hash_bytes(HASH_SEED + request->method, request->url, size));
	return &client->signed_ones[hash % SIGNED_MAX];
}

bool client_signed_find(struct client_attempt *attempt)
{
	struct client *client = attempt->client;
	const struct client_request *request = attempt->request;
	if (!signed_is_plain(request))
		return false;
	const struct client_signed *one = signed_slot(client, request);
	if (client->now_ns >= one->until_ns || one->method != request->method ||
		one->clock_offset_s != request->own.place->clock_offset_s ||
		strcmp(one->text.text, request->url) != 0 ||
		client_headers_append(&attempt->headers, one->text.text + one->lines,
			one->text.used - one->lines) < 0)
		return false;
	memcpy(attempt->address, one->text.text + one->address, one->lines - one->address);
	return true;
}

void client_signed_keep(struct client_attempt *attempt, size_t before, unsigned valid_s)
{
	struct client *client = attempt->client;
	const struct client_request *request = attempt->request;
	if (!signed_is_plain(request))
		return;
	struct client_signed *one = signed_slot(client, request);
	const char *address = *attempt->address ? attempt->address : "";
	one->until_ns = 0;
	one->text.used = 0;
	if (client_headers_append(&one->text, request->url, strlen(request->url) + 1) < 0)
		return;
	one->address = one->text.used;
	if (client_headers_append(&one->text, address, strlen(address) + 1) < 0)
		return;
	one->lines = one->text.used;
	if (client_headers_append(&one->text, client_headers_at(&attempt->headers, before),
		    attempt->headers.used - before) < 0)
		return;
	one->method = request->method;
	one->clock_offset_s = request->own.place->clock_offset_s;
	one->until_ns = client->now_ns + valid_s * (uint64_t)CLIENT_S;
}

void client_signed_forget(struct client *client)
{
	for (size_t i = 0; i < SIGNED_MAX; i++)
		client->signed_ones[i].until_ns = 0;
}

void client_signed_free(struct client *client)
{
	for (size_t i = 0; i < SIGNED_MAX; i++) {
		struct client_headers *text = &client->signed_ones[i].text;
		if (text->text)
			explicit_bzero(text->text, text->room);
		free(text->text);
	}
}

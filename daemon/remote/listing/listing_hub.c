/* listing_hub: see listing_hub.h. */
#include "remote/listing/listing_hub.h"

#include "base/text/json.h"
#include "base/util.h"

#include <errno.h>
#include <string.h>

/* A page has 1,000 entries of some ten parts. */
enum { HUB_PARTS_MAX = 200000 };

static int take_entry(
	const json_t *entry, listing_take_fn *take, void *context, struct fault *fault)
{
	const char *type = json_string_value(json_object_get(entry, "type"));
	const char *path = json_string_value(json_object_get(entry, "path"));
	const json_t *large = json_object_get(entry, "lfs");
	const json_t *size = json_object_get(entry, "size");
	const char *hash = json_string_value(json_object_get(large ? large : entry, "oid"));
	char key[REMOTE_KEY_MAX + 2], etag[160] = "";
	if (!type || !path || !path[0])
		return fault_set(fault, -EPROTO, "the Hub's listing has an entry without a path");
	bool folder = !strcmp(type, "directory");
	if (!folder && strcmp(type, "file") != 0)
		return 0; /* a submodule */
	if (!folder && (!json_is_integer(size) || json_integer_value(size) < 0))
		return fault_set(fault, -EPROTO, "the Hub's listing has a file without a size");
	int used = snprintf(key, sizeof key, "%s%s", path, folder ? "/" : "");
	if (used < 0 || (size_t)used >= sizeof key)
		return fault_set(fault, -EPROTO, "the Hub's listing has a path that is too long");
	if (hash && strlen(hash) < sizeof etag - 3)
		(void)snprintf(etag, sizeof etag, "\"%s\"", hash);
	const struct listing_object object = {.key = key,
		.folder = folder,
		.size = folder ? 0 : (uint64_t)json_integer_value(size),
		.etag = etag};
	return take(context, &object, fault);
}

size_t listing_hub_size(const char *hub)
{
	size_t size = strlen(hub);
	while (size && hub[size - 1] == '/')
		size--;
	return size;
}

int listing_hub_read(const char *bytes, size_t size, listing_take_fn *take, void *context,
	uint64_t *ret_count, struct fault *fault)
{
	json_error_t error = {.line = 0};
	json_t *list = json_read(bytes, size, HUB_PARTS_MAX, JSON_REJECT_DUPLICATES, &error);
	int rc = json_is_array(list) ? 0
		 : !list && json_lacked_memory(&error)
			 ? fault_set(fault, -ENOMEM, "the Hub's listing: %s", error.text)
			 : fault_set(fault, -EPROTO,
				   "the Hub's answer is not a listing (a list in JSON)");
	*ret_count = 0;
	for (size_t i = 0; rc == 0 && i < json_array_size(list); i++) {
		rc = take_entry(json_array_get(list, i), take, context, fault);
		++*ret_count;
	}
	json_decref(list);
	return rc;
}

int listing_hub_next(
	const char *link, const char *hub, char ret_next[LISTING_NEXT], struct fault *fault)
{
	const size_t own = listing_hub_size(hub);
	ret_next[0] = 0;
	while ((link = strchr(link, '<'))) {
		const char *end = strchr(++link, '>');
		const char *after = end ? strchr(end, '<') : NULL;
		const char *rel = end ? strstr(end, "rel=\"next\"") : NULL;
		if (!rel || (after && after < rel))
			continue;
		size_t size = (size_t)(end - link);
		if (size >= LISTING_NEXT || size <= own || strncmp(link, hub, own) != 0 ||
			link[own] != '/')
			return fault_set(fault, -EPROTO,
				"the Hub's listing continues elsewhere than at %s", hub);
		memcpy(ret_next, link, size);
		ret_next[size] = 0;
		return 0;
	}
	return 0;
}

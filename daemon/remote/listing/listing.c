/* listing: see listing.h. */
#include "remote/listing/listing.h"

#include "base/array.h"
#include "base/hash.h"
#include "base/util.h"
#include "remote/listing/listing_hub.h"
#include "remote/listing/listing_page.h"

#include <errno.h>
#include <fnmatch.h>
#include <string.h>

enum { LISTING_URL = 10000 };

/* One listing on its way. */
struct walk {
	const struct listing_source *source;
	const struct remote_url *url;
	bool folders;
	listing_take_fn *take;
	void *context;
	struct fault *fault;
	char next[LISTING_NEXT], link[LISTING_NEXT], text[LISTING_URL];
	uint64_t pages, empty;
	/* Brent's way to find a circle: a continuation is compared with the one of the last power
	 * of two. */
	uint64_t mark, mark_at;
};

static const char *shown(const struct walk *walk, char *buffer, size_t room)
{
	char text[REMOTE_URL_MAX + 1];
	(void)remote_url_print(walk->url, text, sizeof text);
	return remote_url_safe(text, buffer, room);
}

static int store_url(struct walk *walk)
{
	char prefix[REMOTE_KEY_MAX * 3 + 1], next[LISTING_NEXT * 3 + 1];
	(void)remote_encode(walk->url->key, false, prefix, sizeof prefix);
	(void)remote_encode(walk->next, false, next, sizeof next);
	int size = snprintf(walk->text, sizeof walk->text,
		"%s://%s/%clist-type=2&encoding-type=url&max-keys=1000&prefix=%s%s%s%s",
		walk->url->scheme == REMOTE_GS ? "gs" : "s3", walk->url->host, REMOTE_QUERY_MARK,
		prefix, walk->folders ? "&delimiter=%2F" : "",
		next[0] ? "&continuation-token=" : "", next);
	return size < 0 || (size_t)size >= sizeof walk->text ? -ENAMETOOLONG : 0;
}

static int hub_url(struct walk *walk)
{
	char revision[REMOTE_REVISION_MAX * 3 + 1], path[REMOTE_KEY_MAX * 3 + 1];
	char folder[REMOTE_KEY_MAX + 1];
	/* The Hub lists folders, not prefixes: what follows the last slash is matched here. */
	const char *slash = strrchr(walk->url->key, '/');
	size_t used = slash ? (size_t)(slash - walk->url->key) : 0;
	memcpy(folder, walk->url->key, used);
	folder[used] = 0;
	(void)remote_encode(walk->url->revision, false, revision, sizeof revision);
	(void)remote_encode(folder, true, path, sizeof path);
	int size = walk->next[0]
			   ? snprintf(walk->text, sizeof walk->text, "%s", walk->next)
			   : snprintf(walk->text, sizeof walk->text,
				     "%.*s/api/datasets/%s/tree/%s%s%s?recursive=%s&limit=1000",
				     (int)listing_hub_size(walk->source->hub), walk->source->hub,
				     walk->url->host, revision, path[0] ? "/" : "", path,
				     walk->folders ? "false" : "true");
	return size < 0 || (size_t)size >= sizeof walk->text ? -ENAMETOOLONG : 0;
}

/* An object of a page: passes on those that were asked for. */
static int take(void *context, const struct listing_object *object, struct fault *fault)
{
	struct walk *walk = context;
	bool hub = walk->url->scheme == REMOTE_HF;
	if (strncmp(object->key, walk->url->key, strlen(walk->url->key)) != 0)
		return hub ? 0
			   : fault_set(fault, -EPROTO,
				     "the server's listing has a key that does not begin with what "
				     "was asked for");
	if (strlen(object->key) > REMOTE_KEY_MAX)
		return fault_set(fault, -EPROTO, "a key has more than %d bytes", REMOTE_KEY_MAX);
	if (object->folder && (hub ? !walk->folders : !strchr(object->key, '/')))
		return 0;
	return walk->take(walk->context, object, fault);
}

static int page_read(struct walk *walk, const char *buffer, size_t size, uint64_t *ret_count)
{
	if (walk->url->scheme != REMOTE_HF)
		return listing_page_read(
			buffer, size, take, walk, walk->next, ret_count, walk->fault);
	int rc = listing_hub_read(buffer, size, take, walk, ret_count, walk->fault);
	return rc ? rc : listing_hub_next(walk->link, walk->source->hub, walk->next, walk->fault);
}

/* Refuses a listing that does not end. */
static int check_end(struct walk *walk, uint64_t count)
{
	uint64_t next = hash_mix(hash_bytes(HASH_SEED, walk->next, strlen(walk->next)));
	walk->pages++;
	walk->empty = count ? 0 : walk->empty + 1;
	if (!walk->next[0])
		return 0;
	if (walk->pages > 1 && next == walk->mark)
		return fault_set(walk->fault, -EPROTO,
			"the server's listing goes in a circle: a continuation was there before");
	if (walk->empty > LISTING_EMPTY_MAX || walk->pages > LISTING_PAGES_MAX)
		return fault_set(walk->fault, -EPROTO, "the server's listing does not end");
	if (walk->pages >= walk->mark_at) {
		walk->mark = next;
		walk->mark_at = walk->pages * 2;
	}
	return 0;
}

static int page_next(struct walk *walk, char *buffer)
{
	uint64_t count = 0;
	size_t size = 0;
	walk->link[0] = 0;
	int rc = walk->url->scheme == REMOTE_HF ? hub_url(walk) : store_url(walk);
	if (rc < 0)
		return fault_set(walk->fault, rc, "the prefix or the continuation is too long");
	rc = walk->source->fetch(walk->source->context, walk->text, buffer, LISTING_PAGE, &size,
		walk->link, walk->fault);
	if (rc == 0)
		rc = page_read(walk, buffer, size, &count);
	return rc ? rc : check_end(walk, count);
}

int listing_objects(const struct listing_source *source, const struct remote_url *url, bool folders,
	listing_take_fn *take_object, void *context, struct fault *fault)
{
	char safe[256];
	struct walk *walk = calloc(1, sizeof *walk);
	char *buffer = malloc(LISTING_PAGE + 1);
	int rc = walk && buffer ? 0 : fault_set(fault, -ENOMEM, "no memory for a listing");
	if (rc == 0) {
		*walk = (struct walk){.source = source,
			.url = url,
			.folders = folders,
			.take = take_object,
			.context = context,
			.fault = fault};
		if (!remote_url_lists(url))
			rc = fault_set(fault, -ENOTSUP,
				"%s: a web server does not list its files: name them one by one, "
				"or with braces (train-{000..146}.tar)",
				shown(walk, safe, sizeof safe));
		else
			do {
				rc = page_next(walk, buffer);
			} while (rc == 0 && walk->next[0]);
		if (rc < 0 && rc != -ENOTSUP)
			rc = fault_prefix(fault, rc, "%s", shown(walk, safe, sizeof safe));
	}
	free(walk);
	free(buffer);
	return rc;
}

bool listing_is_glob(const char *key)
{
	return strpbrk(key, "*?[") != NULL;
}

/* What a glob has matched. */
struct match {
	char *key, *etag;
	uint64_t size;
};

struct glob {
	const struct listing_source *source;
	struct match *match;
	size_t count, room, bytes;
	struct fault *fault;
};

/* One level of a glob: what begins with `url` is listed as far as the next slash. */
struct level {
	struct glob *glob;
	struct remote_url url;
	char pattern[REMOTE_KEY_MAX + 1]; /* of the key down to this level */
	const char *rest; /* of the whole pattern, below this level; "" at the last */
	char **folders;
	size_t count, room;
};

static int level_walk(
	struct glob *glob, const struct remote_url *url, const char *prefix, const char *rest);

static int match_add(struct glob *glob, const struct listing_object *object)
{
	struct match *grown =
		array_grown(glob->match, glob->count, &glob->room, sizeof *glob->match);
	if (!grown)
		return -ENOMEM;
	glob->match = grown;
	struct match *match = &glob->match[glob->count];
	*match = (struct match){strdup(object->key), strdup(object->etag), object->size};
	glob->count++;
	return match->key && match->etag ? 0 : -ENOMEM;
}

static int level_take(void *context, const struct listing_object *object, struct fault *fault)
{
	struct level *level = context;
	if (object->folder != (level->rest[0] != 0) ||
		fnmatch(level->pattern, object->key, FNM_PATHNAME | FNM_PERIOD) != 0)
		return 0;
	int rc = 0;
	if (level->glob->count + level->count >= LISTING_MATCHES_MAX)
		return fault_set(fault, -E2BIG, "more than %d names match", LISTING_MATCHES_MAX);
	level->glob->bytes += strlen(object->key) + strlen(object->etag);
	if (level->glob->bytes > LISTING_MATCHES_BYTES)
		return fault_set(fault, -E2BIG, "the names that match have more than %d bytes",
			LISTING_MATCHES_BYTES);
	if (!object->folder)
		return match_add(level->glob, object) < 0
			       ? fault_set(fault, -ENOMEM, "no memory for a listing")
			       : 0;
	char **grown = array_grown(
		(void *)level->folders, level->count, &level->room, sizeof *level->folders);
	if (grown) {
		level->folders = grown;
		level->folders[level->count] = strdup(object->key);
		rc = level->folders[level->count] ? 0 : -ENOMEM;
		level->count += rc == 0;
	}
	return !grown || rc < 0 ? fault_set(fault, -ENOMEM, "no memory for a listing") : 0;
}

/* Whether the name that ends a key may have a meta character escaped: fnmatch takes a backslash as
 * the beginning of a plain character. */
static size_t literal_size(const char *text)
{
	return strcspn(text, "*?[\\");
}

static void folders_free(struct level *level)
{
	for (size_t i = 0; i < level->count; i++)
		free(level->folders[i]);
	free((void *)level->folders);
}

/* Appends `size` bytes of `from` with what fnmatch would take for more than themselves escaped. */
static int pattern_add(struct level *level, const char *from, size_t size, bool plain)
{
	size_t used = strlen(level->pattern);
	for (size_t i = 0; i < size; i++) {
		if (used + 3 > sizeof level->pattern)
			return -ENAMETOOLONG;
		if (plain && strchr("*?[\\", from[i]))
			level->pattern[used++] = '\\';
		level->pattern[used++] = from[i];
		level->pattern[used] = 0;
	}
	return 0;
}

/* Lists below `prefix`, the part of the key that is known, by the first component of `rest` that is
 * a glob. */
static int level_walk(
	struct glob *glob, const struct remote_url *url, const char *prefix, const char *rest)
{
	struct level *level = calloc(1, sizeof *level);
	if (!level)
		return fault_set(glob->fault, -ENOMEM, "no memory for a listing");
	level->glob = glob;
	level->url = *url;
	/* Components without a glob need no listing. */
	size_t plain = 0, component;
	while ((component = strcspn(rest + plain, "/"), rest[plain + component]) &&
		literal_size(rest + plain) > component)
		plain += component + 1;
	component = strcspn(rest + plain, "/");
	component += rest[plain + component] == '/';
	size_t literal = UTIL_MIN(literal_size(rest + plain), component);
	int size = snprintf(level->url.key, sizeof level->url.key, "%s%.*s", prefix,
		(int)(plain + literal), rest);
	int rc = size < 0 || (size_t)size >= sizeof level->url.key ? -ENAMETOOLONG : 0;
	if (rc == 0)
		rc = pattern_add(level, prefix, strlen(prefix), true);
	if (rc == 0)
		rc = pattern_add(level, rest, plain + component, false);
	if (rc < 0)
		(void)fault_set(glob->fault, rc, "the pattern is too long");
	level->rest = rest + plain + component;
	if (rc == 0)
		rc = listing_objects(
			glob->source, &level->url, true, level_take, level, glob->fault);
	for (size_t i = 0; rc == 0 && i < level->count; i++)
		rc = level_walk(glob, url, level->folders[i], level->rest);
	folders_free(level);
	free(level);
	return rc;
}

static int match_compare(const void *left, const void *right)
{
	return strcmp(((const struct match *)left)->key, ((const struct match *)right)->key);
}

static int matches_give(
	struct glob *glob, listing_take_fn *take_object, void *context, struct fault *fault)
{
	int rc = 0;
	if (glob->count)
		qsort(glob->match, glob->count, sizeof glob->match[0], match_compare);
	for (size_t i = 0; rc == 0 && i < glob->count; i++) {
		const struct match *match = &glob->match[i];
		const struct listing_object object = {
			.key = match->key, .size = match->size, .etag = match->etag};
		if (!i || strcmp(match->key, glob->match[i - 1].key) != 0)
			rc = take_object(context, &object, fault);
	}
	return rc;
}

int listing_glob(const struct listing_source *source, const struct remote_url *url,
	listing_take_fn *take_object, void *context, struct fault *fault)
{
	struct glob glob = {.source = source, .fault = fault};
	int rc = level_walk(&glob, url, "", url->key);
	if (rc == 0)
		rc = matches_give(&glob, take_object, context, fault);
	for (size_t i = 0; i < glob.count; i++) {
		free(glob.match[i].key);
		free(glob.match[i].etag);
	}
	free(glob.match);
	return rc;
}

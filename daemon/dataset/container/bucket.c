/* bucket: see bucket.h. */
#include "dataset/container/bucket.h"

#include "base/hash.h"
#include "base/util.h"
#include "dataset/index.h"
#include "remote/auth/auth.h"
#include "remote/instance.h"
#include "remote/listing/listing.h"
#include "remote/object.h"
#include "remote/url.h"

#include <errno.h>
#include <string.h>

/* A URL that is listed. Large, so it is allocated. */
struct bucket {
	struct remote_url url;
	struct listing_client client;
	struct listing_source source;
	size_t prefix; /* bytes of the URL's key */
	struct remote_url printed; /* for the URLs of a glob's matches */
	char text[REMOTE_URL_MAX + 1];
	/* What is called for each name. */
	bucket_take_fn *take;
	void *context;
	/* bucket_stamp */
	uint64_t sum;
	/* bucket_walk */
	const struct folder_sink *sink;
	int64_t stamp;
	bool begun; /* a folder was reported */
	bool looked,
		trusted; /* whether the listing's ETags are those of the objects was found out */
	char at[INDEX_NAME_MAX + 1]; /* the folder that was reported last */
};

static bool has_slash(const char *url)
{
	const size_t size = strlen(url);
	return size && url[size - 1] == '/';
}

int bucket_judge(
	const char *url, bool *ret_lists, bool *ret_glob, bool *ret_folder, struct fault *fault)
{
	cleanup(free_ptr) struct remote_url *parsed = malloc(sizeof *parsed);
	if (!parsed)
		return fault_set(fault, -ENOMEM, "no memory for a URL");
	int rc = remote_url_parse(url, parsed, fault);
	if (rc < 0)
		return rc;
	*ret_lists = remote_url_lists(parsed);
	*ret_folder = *ret_lists && (!parsed->key[0] || has_slash(url));
	*ret_glob = *ret_lists ? listing_is_glob(parsed->key) : strchr(parsed->key, '*') != NULL;
	return 0;
}

/* `end` is what is added to the URL: a slash for a folder. */
static int bucket_new(const char *url, const char *end, struct bucket **ret, struct fault *fault)
{
	struct bucket *bucket = calloc(1, sizeof *bucket);
	if (!bucket)
		return fault_set(fault, -ENOMEM, "no memory to list %s", url);
	(void)snprintf(bucket->text, sizeof bucket->text, "%s%s", url, end);
	int rc = remote_url_parse(bucket->text, &bucket->url, fault);
	struct client *client = rc == 0 ? instance_client(fault) : NULL;
	struct auth *auth = client ? instance_auth(fault) : NULL;
	if (rc == 0 && (!client || !auth))
		rc = instance_error();
	if (rc == 0)
		rc = auth_check(auth, &bucket->url, fault);
	if (rc < 0) {
		free(bucket);
		return rc;
	}
	listing_source_client(&bucket->client, client, auth, &bucket->source);
	bucket->prefix = strlen(bucket->url.key);
	*ret = bucket;
	return 0;
}

static int on_name(void *context, const struct listing_object *object, struct fault *fault)
{
	struct bucket *bucket = context;
	char name[REMOTE_KEY_MAX + 1];
	(void)snprintf(name, sizeof name, "%s", object->key + bucket->prefix);
	const size_t size = strlen(name);
	if (size && name[size - 1] == '/')
		name[size - 1] = 0;
	/* Some tools make an object for the folder itself. */
	if (!name[0])
		return 0;
	return bucket->take(bucket->context, name, object->folder, fault);
}

static int on_match(void *context, const struct listing_object *object, struct fault *fault)
{
	struct bucket *bucket = context;
	bucket->printed = bucket->url;
	(void)snprintf(bucket->printed.key, sizeof bucket->printed.key, "%s", object->key);
	(void)remote_url_print(&bucket->printed, bucket->text, sizeof bucket->text);
	return bucket->take(bucket->context, bucket->text, object->folder, fault);
}

/* Gives `take` what is at a URL: the names of a folder, or the URLs that a pattern matches. */
static int bucket_each(
	const char *where, bool pattern, bucket_take_fn *take, void *context, struct fault *fault)
{
	struct bucket *bucket = NULL;
	int rc = bucket_new(where, pattern ? "" : "/", &bucket, fault);
	if (rc < 0)
		return rc;
	bucket->take = take;
	bucket->context = context;
	rc = pattern ? listing_glob(&bucket->source, &bucket->url, on_match, bucket, fault)
		     : listing_objects(&bucket->source, &bucket->url, true, on_name, bucket, fault);
	free(bucket);
	return rc;
}

int bucket_names(const char *folder, bucket_take_fn *take, void *context, struct fault *fault)
{
	return bucket_each(folder, false, take, context, fault);
}

int bucket_glob(const char *pattern, bucket_take_fn *take, void *context, struct fault *fault)
{
	return bucket_each(pattern, true, take, context, fault);
}

/* Whether every part of a name is one that folder_walk enters, and the last one an image. */
static bool is_wanted(const char *name)
{
	for (const char *part = name;; part += strcspn(part, "/") + 1) {
		const size_t size = strcspn(part, "/");
		if (size == 0 || part[0] == '.' || (size == 8 && !strncmp(part, "__MACOSX", 8)))
			return false;
		if (!part[size])
			return folder_format(part) != 0;
	}
}

static int on_stamped(void *context, const struct listing_object *object, struct fault *fault)
{
	struct bucket *bucket = context;
	const char *name = object->key + bucket->prefix;
	(void)fault;
	if (!is_wanted(name))
		return 0;
	uint64_t hash = hash_bytes(HASH_SEED, name, strlen(name) + 1);
	hash = hash_bytes(hash_u64(hash, object->size), object->etag, strlen(object->etag));
	/* A sum, since stores list in different orders. */
	bucket->sum += hash_mix(hash);
	return 0;
}

int bucket_stamp(const char *folder, int64_t *ret, struct fault *fault)
{
	struct bucket *bucket = NULL;
	int rc = bucket_new(folder, "/", &bucket, fault);
	if (rc < 0)
		return rc;
	rc = listing_objects(&bucket->source, &bucket->url, false, on_stamped, bucket, fault);
	*ret = (int64_t)(bucket->sum >> 1);
	free(bucket);
	return rc;
}

static bool walk_wanted(void *context, const char *name)
{
	const struct bucket *bucket = context;
	const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
	if (is_wanted(name))
		return true;
	/* As folder_walk: "._x.jpg" is what macOS keeps beside x.jpg, and is not an image. */
	const bool hidden = last[0] == '.' && (last[1] == '_' || !folder_format(last));
	if (last[0] && !hidden && bucket->sink->other)
		bucket->sink->other(bucket->sink->context, last);
	return false;
}

static int walk_classes(void *context, const char *const *names, size_t count, struct fault *fault)
{
	const struct bucket *bucket = context;
	return bucket->sink->classes(bucket->sink->context, names, count, fault);
}

static int walk_folder(struct bucket *bucket, const char *name, struct fault *fault)
{
	const char *slash = strrchr(name, '/');
	const size_t size = slash ? (size_t)(slash - name) : 0;
	if (bucket->begun && strlen(bucket->at) == size && !memcmp(bucket->at, name, size))
		return 0;
	bucket->begun = true;
	memcpy(bucket->at, name, size);
	bucket->at[size] = 0;
	return bucket->sink->directory(bucket->sink->context, bucket->at, bucket->stamp, fault);
}

/* Whether the ETags of the listing are those that the server gives with the objects. A server that
 * has others is asked for each object when it is read. */
static bool etags_hold(struct bucket *bucket, const char *name, uint64_t size, const char *etag)
{
	struct remote_object *object = NULL;
	cleanup(free_ptr) char *url = NULL;
	if (bucket->looked || !etag[0])
		return bucket->trusted;
	if (asprintf(&url, "%s%s", bucket->text, name) < 0)
		url = NULL;
	/* Where objects can be listed but not opened, one question is enough. */
	bucket->looked = true;
	if (!url || remote_object_open(url, &object, NULL) < 0)
		return false;
	bucket->trusted =
		remote_object_size(object) == size && strcmp(remote_object_etag(object), etag) == 0;
	remote_object_unref(object);
	return bucket->trusted;
}

static int walk_object(
	void *context, const char *name, uint64_t size, const char *etag, struct fault *fault)
{
	struct bucket *bucket = context;
	if (strlen(name) > INDEX_NAME_MAX)
		return fault_set(fault, -ENAMETOOLONG,
			"%s%.80s...: a name below the URL may have at most %d bytes", bucket->text,
			name, INDEX_NAME_MAX);
	int rc = walk_folder(bucket, name, fault);
	if (rc == 0 && bucket->sink->etag)
		bucket->sink->etag(
			bucket->sink->context, etags_hold(bucket, name, size, etag) ? etag : "");
	return rc < 0 ? rc : bucket->sink->file(bucket->sink->context, name, size, fault);
}

int bucket_walk(const char *folder, int64_t stamp, enum class_order order,
	const struct folder_sink *sink, struct fault *fault)
{
	struct bucket *bucket = NULL;
	int rc = bucket_new(folder, "/", &bucket, fault);
	if (rc < 0)
		return rc;
	bucket->sink = sink;
	bucket->stamp = stamp;
	const struct listing_folder_sink listed = {.wanted = walk_wanted,
		.classes = walk_classes,
		.object = walk_object,
		.context = bucket,
		.natural = order == CLASS_ORDER_NATURAL};
	rc = listing_folder(&bucket->source, &bucket->url, &listed, fault);
	free(bucket);
	return rc;
}

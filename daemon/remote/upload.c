/* upload: see upload.h. This file has whole objects and listings; upload_parts.c the parts. */
#include "remote/upload.h"

#include "base/hash.h"
#include "base/util.h"
#include "remote/auth/auth.h"
#include "remote/auth/sigv4.h"
#include "remote/instance.h"
#include "remote/listing/listing.h"
#include "remote/object.h"
#include "remote/upload_impl.h"
#include "remote/url.h"
#include "remote/xml.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum {
	UPLOAD_SWEPT_MAX = 1000, /* unfinished uploads of a page */
	UPLOAD_PAGES_MAX = 100, /* of them that one call asks for */
	UPLOAD_PIECE = 1 << 20, /* of a comparison */
	UPLOAD_LIST = 4 << 20, /* bytes of a page of unfinished uploads */
	UPLOAD_SAFE = 300,
};

int upload_check(const char *url, struct fault *fault)
{
	char safe[UPLOAD_SAFE];
	cleanup(free_ptr) struct remote_url *parsed = malloc(sizeof *parsed);
	if (!parsed)
		return fault_set(fault, -ENOMEM, "no memory for a URL");
	int rc = remote_url_parse(url, parsed, fault);
	if (rc < 0)
		return rc;
	if (parsed->scheme != REMOTE_S3 && parsed->scheme != REMOTE_GS)
		return fault_set(fault, -EINVAL,
			"%s: penstock writes to s3:// and gs:// only: write to a folder, and copy "
			"it",
			remote_url_safe(url, safe, sizeof safe));
	return 0;
}

int upload_perform(struct client_request *request, struct fault *fault)
{
	struct client *client = instance_client(fault);
	return client ? client_perform(client, request, fault) : instance_error();
}

/* ---- objects ---- */

int upload_look(const char *url, struct upload_found *ret, struct fault *fault)
{
	cleanup(free_ptr) struct client_request *request = calloc(1, sizeof *request);
	if (!request)
		return fault_set(fault, -ENOMEM, "no memory for a request");
	*request = (struct client_request){.method = CLIENT_HEAD, .url = url};
	struct fault why = {{0}};
	int rc = upload_perform(request, &why);
	if (rc < 0 && request->status == 404)
		return 0;
	if (rc < 0)
		return fault_set(fault, rc, "%s", why.text);
	const struct client_answer *answer = &request->answer;
	ret->size = answer->size == CLIENT_UNKNOWN ? 0 : answer->size;
	(void)snprintf(ret->etag, sizeof ret->etag, "%s", answer->etag);
	return 1;
}

int upload_read(const char *url, uint64_t most, char **ret, struct upload_found *ret_found,
	struct fault *fault)
{
	struct upload_found found;
	char safe[UPLOAD_SAFE];
	int rc = upload_look(url, &found, fault);
	if (rc <= 0)
		return rc;
	(void)remote_url_safe(url, safe, sizeof safe);
	if (found.size > most)
		return fault_set(fault, -EFBIG, "%s has %llu bytes, and at most %llu are expected",
			safe, (unsigned long long)found.size, (unsigned long long)most);
	cleanup(free_ptr) char *text = malloc(found.size + 1);
	cleanup(free_ptr) struct client_request *request = calloc(1, sizeof *request);
	if (!text || !request)
		return fault_set(fault, -ENOMEM, "no memory for %s", safe);
	*request = (struct client_request){.method = CLIENT_GET,
		.url = url,
		.size = found.size,
		.buffer = (uint8_t *)text,
		.etag = found.etag[0] ? found.etag : NULL};
	rc = found.size ? upload_perform(request, fault) : 0;
	if (rc < 0)
		return rc;
	text[found.size] = 0;
	*ret = text;
	text = NULL;
	*ret_found = found;
	return 1;
}

/* ---- writing ---- */

static int occupied(const char *url, struct fault *fault)
{
	char safe[UPLOAD_SAFE];
	return fault_set(fault, -EEXIST,
		"%s exists, or was changed by another process: nothing is overwritten",
		remote_url_safe(url, safe, sizeof safe));
}

/* Whether what is there is what the caller expects. 0, -EEXIST, a negative errno. */
static int look_before(const char *url, const struct upload_found *instead, struct fault *fault)
{
	struct upload_found now;
	int rc = upload_look(url, &now, fault);
	if (rc < 0)
		return rc;
	const bool expected = rc ? instead && !strcmp(now.etag, instead->etag) : !instead;
	return expected ? 0 : occupied(url, fault);
}

int upload_guarded(
	struct client_request *request, const struct upload_found *instead, struct fault *fault)
{
	char condition[UPLOAD_ETAG + 16];
	const char *const headers[] = {condition, NULL};
	/* Google's interface has conditions of its own. */
	const bool sent = strncmp(request->url, "gs://", 5) != 0 && (!instead || instead->etag[0]);
	(void)snprintf(condition, sizeof condition, "%s: %s",
		instead ? "If-Match" : "If-None-Match", instead ? instead->etag : "*");
	request->headers = sent ? headers : NULL;
	int rc = upload_perform(request, fault);
	if (rc < 0 && sent && request->status == 501) {
		request->headers = NULL;
		rc = upload_perform(request, fault);
	}
	request->headers = NULL;
	return rc < 0 && request->status == 412 ? occupied(request->url, fault) : rc;
}

/* Whether the object is `bytes`: a request may have been done although its answer was lost. */
static bool is_written(const char *url, const void *bytes, size_t size, struct upload_found *ret)
{
	cleanup(free_ptr) char *there = NULL;
	struct upload_found found;
	if (upload_read(url, size, &there, &found, NULL) != 1 || found.size != size ||
		memcmp(there, bytes, size) != 0)
		return false;
	*ret = found;
	return true;
}

static int put(const char *url, const void *bytes, size_t size, const struct upload_found *instead,
	struct upload_found *ret, struct fault *fault)
{
	char hash[SIGV4_HASH];
	cleanup(free_ptr) struct client_request *request = calloc(1, sizeof *request);
	cleanup(free_ptr) uint8_t *answer = malloc(UPLOAD_ETAG);
	if (!request || !answer || sigv4_hash(bytes, size, hash) < 0)
		return fault_set(fault, -ENOMEM, "no memory for a request");
	*request = (struct client_request){.method = CLIENT_PUT,
		.url = url,
		.body = bytes,
		.body_size = size,
		.body_sha256 = hash,
		.buffer = answer,
		.room = UPLOAD_ETAG};
	int rc = upload_guarded(request, instead, fault);
	if (rc == 0) {
		*ret = (struct upload_found){.size = size};
		(void)snprintf(ret->etag, sizeof ret->etag, "%s", request->answer.etag);
	}
	return rc;
}

int upload_write(const char *url, const void *bytes, size_t size,
	const struct upload_found *instead, struct upload_found *ret, struct fault *fault)
{
	/* A store may ignore the condition of the request. */
	int rc = look_before(url, instead, fault);
	if (rc == 0)
		rc = put(url, bytes, size, instead, ret, fault);
	return rc < 0 && rc != -EACCES && is_written(url, bytes, size, ret) ? 0 : rc;
}

static int compare(struct remote_object *object, const uint8_t *map, uint64_t size, uint8_t *piece,
	struct fault *fault)
{
	for (uint64_t at = 0; at < size; at += UPLOAD_PIECE) {
		const size_t part = (size_t)UTIL_MIN(size - at, (uint64_t)UPLOAD_PIECE);
		int rc = remote_object_read(object, piece, part, at, fault);
		if (rc < 0)
			return rc;
		if (memcmp(piece, map + at, part) != 0)
			return 0;
	}
	return 1;
}

/* Whether the object has the bytes of the map. 1, 0 or a negative errno. */
static int same(const char *url, const uint8_t *map, uint64_t size, struct fault *fault)
{
	struct remote_object *object = NULL;
	cleanup(free_ptr) uint8_t *piece = malloc(UPLOAD_PIECE);
	int rc = piece ? remote_object_open(url, &object, fault)
		       : fault_set(fault, -ENOMEM, "no memory to compare an object");
	if (rc == -ENOENT)
		return 0;
	if (rc < 0)
		return rc;
	rc = remote_object_size(object) == size ? compare(object, map, size, piece, fault) : 0;
	remote_object_unref(object);
	return rc;
}

static int send_map(const char *url, const uint8_t *map, uint64_t size, struct fault *fault)
{
	struct upload_found found;
	int rc = upload_look(url, &found, fault);
	if (rc < 0)
		return rc;
	if (rc == 1)
		rc = occupied(url, fault);
	else if (size <= UPLOAD_PART)
		rc = put(url, map, (size_t)size, NULL, &found, fault);
	else
		rc = upload_parts(url, map, size, fault);
	if (rc == 0 || rc == -EACCES)
		return rc;
	/* The same bytes: of an earlier run, or of a request whose answer was lost. */
	struct fault why = {{0}};
	return same(url, map, size, &why) == 1 ? 0 : rc;
}

int upload_file(const char *url, int fd, uint64_t size, struct fault *fault)
{
	char safe[UPLOAD_SAFE];
	void *map = size ? mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
	if (map == MAP_FAILED)
		return fault_set(fault, size ? -errno : -EINVAL, "%s: its file cannot be read: %s",
			remote_url_safe(url, safe, sizeof safe), strerror(size ? errno : EINVAL));
	int rc = send_map(url, map, size, fault);
	(void)munmap(map, size);
	return rc;
}

/* ---- listings ---- */

struct giving {
	upload_take_fn *take;
	void *context;
	size_t skip; /* of keys: up to the last slash of the prefix */
};

static size_t folder_bytes(const char *key)
{
	const char *slash = strrchr(key, '/');
	return slash ? (size_t)(slash - key) + 1 : 0;
}

static int give(void *context, const struct listing_object *object, struct fault *fault)
{
	const struct giving *giving = context;
	if (object->folder || strlen(object->key) < giving->skip)
		return 0;
	return giving->take(giving->context, object->key + giving->skip, object->size, fault);
}

int upload_list(const char *prefix, upload_take_fn *take, void *context, struct fault *fault)
{
	struct listing_client listing;
	struct listing_source source;
	cleanup(free_ptr) struct remote_url *url = malloc(sizeof *url);
	struct client *client = instance_client(fault);
	if (!client)
		return instance_error();
	int rc = url ? remote_url_parse(prefix, url, fault)
		     : fault_set(fault, -ENOMEM, "no memory for a listing");
	if (rc < 0)
		return rc;
	struct giving giving = {take, context, folder_bytes(url->key)};
	listing_source_client(&listing, client, instance_auth(NULL), &source);
	return listing_objects(&source, url, true, give, &giving, fault);
}

/* One unfinished upload of a page. */
struct sweep {
	const struct giving *giving;
	const char *bucket; /* "s3://bucket" */
	char key[XML_TEXT_MAX], id[XML_TEXT_MAX];
	unsigned swept, pages; /* of this page; pages before it */
	uint64_t first; /* a hash of the first upload of this page, or of the one before it */
	struct fault *fault;
};

/* The store shows uploads that were aborted, or ever more of them: this would not end. */
static int sweep_fault(const struct sweep *sweep, struct fault *fault)
{
	return fault_set(fault, -EPROTO,
		"%s: the list of unfinished uploads does not become shorter although %u of them "
		"were aborted: abort them with the tools of the store, and start again",
		sweep->bucket, sweep->pages * UPLOAD_SWEPT_MAX);
}

/* Notes the first upload of a page. It is not that of the page before, which was aborted. */
static int sweep_first(struct sweep *sweep)
{
	uint64_t first = hash_bytes(HASH_SEED, sweep->key, strlen(sweep->key) + 1);
	first = hash_bytes(first, sweep->id, strlen(sweep->id));
	const bool again = sweep->pages && sweep->first == first;
	sweep->first = first;
	return again ? sweep_fault(sweep, sweep->fault) : 0;
}

static int sweep_one(struct sweep *sweep)
{
	cleanup(free_ptr) char *url = NULL;
	const size_t skip = sweep->giving->skip;
	int rc = sweep->key[0] && sweep->id[0] && strlen(sweep->key) > skip
			 ? sweep->giving->take(
				   sweep->giving->context, sweep->key + skip, 0, sweep->fault)
			 : 0;
	if (rc == 1 && asprintf(&url, "%s/%s", sweep->bucket, sweep->key) < 0)
		rc = -ENOMEM;
	if (rc == 1) {
		rc = sweep->swept ? 0 : sweep_first(sweep);
		if (rc == 0)
			rc = upload_abort(url, sweep->id, sweep->fault);
		sweep->swept++;
	}
	sweep->key[0] = sweep->id[0] = 0;
	return rc;
}

static int on_upload(void *context, const char *path, const char *text)
{
	static const char root[] = "ListMultipartUploadsResult/Upload";
	struct sweep *sweep = context;
	if (strncmp(path, root, sizeof root - 1) != 0)
		return 0;
	const char *name = path + sizeof root - 1;
	if (!strcmp(name, "/Key"))
		(void)snprintf(sweep->key, sizeof sweep->key, "%s", text);
	else if (!strcmp(name, "/UploadId"))
		(void)snprintf(sweep->id, sizeof sweep->id, "%s", text);
	return name[0] ? 0 : sweep_one(sweep);
}

/* Asks for a page of unfinished uploads. 0; 1: the store cannot list them; a negative errno. */
static int sweep_page(
	const char *bucket, const char *key, uint8_t *page, uint64_t *ret_size, struct fault *fault)
{
	char encoded[REMOTE_KEY_MAX * 3 + 1];
	cleanup(free_ptr) char *url = NULL;
	cleanup(free_ptr) struct client_request *request = calloc(1, sizeof *request);
	(void)remote_encode(key, false, encoded, sizeof encoded);
	if (!request || asprintf(&url, "%s/%cmax-uploads=%d&prefix=%s&uploads=", bucket,
				REMOTE_QUERY_MARK, UPLOAD_SWEPT_MAX, encoded) < 0)
		return fault_set(fault, -ENOMEM, "no memory for a request");
	*request = (struct client_request){
		.method = CLIENT_GET, .url = url, .buffer = page, .room = UPLOAD_LIST};
	int rc = upload_perform(request, fault);
	if (rc < 0)
		return request->status >= 400 && request->status < 500 ? 1 : rc;
	*ret_size = request->received;
	return 0;
}

int upload_sweep(const char *prefix, upload_take_fn *take, void *context, struct fault *fault)
{
	char bucket[REMOTE_HOST_MAX + 8];
	cleanup(free_ptr) struct remote_url *url = malloc(sizeof *url);
	cleanup(free_ptr) uint8_t *page = malloc(UPLOAD_LIST);
	cleanup(free_ptr) struct sweep *sweep = calloc(1, sizeof *sweep);
	uint64_t size = 0;
	int rc = url && page && sweep ? remote_url_parse(prefix, url, fault)
				      : fault_set(fault, -ENOMEM, "no memory for a listing");
	if (rc < 0)
		return rc;
	(void)snprintf(bucket, sizeof bucket, "%s://%s", url->scheme == REMOTE_GS ? "gs" : "s3",
		url->host);
	const struct giving giving = {take, context, folder_bytes(url->key)};
	*sweep = (struct sweep){.giving = &giving, .bucket = bucket, .fault = fault};
	do {
		sweep->swept = 0;
		rc = sweep_page(bucket, url->key, page, &size, fault);
		if (rc == 0)
			rc = xml_read(page, size, on_upload, sweep, fault);
		sweep->pages++;
	} while (rc == 0 && sweep->swept == UPLOAD_SWEPT_MAX && sweep->pages < UPLOAD_PAGES_MAX);
	if (rc == 0 && sweep->swept == UPLOAD_SWEPT_MAX)
		rc = sweep_fault(sweep, fault);
	return rc == 1 ? 0 : rc;
}

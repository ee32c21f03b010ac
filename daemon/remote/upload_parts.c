/* upload_parts: large files: a multipart upload, several parts at a time. See upload.h.
 *
 * The calling thread computes the hash of a part while others are sent. `done` runs on the client's
 * thread, and only counts. */
#include "remote/upload_impl.h"

#include "base/util.h"
#include "remote/auth/sigv4.h"
#include "remote/instance.h"
#include "remote/url.h"
#include "remote/xml.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum {
	PARTS_AT_ONCE = 4,
	PARTS_URL = REMOTE_URL_MAX + XML_TEXT_MAX,
	PARTS_ANSWER = 64 << 10,
	PARTS_LINE = UPLOAD_ETAG + 64, /* of one part in the request that completes the upload */
};

struct parts {
	const char *url;
	const uint8_t *map;
	uint64_t size, part_bytes;
	unsigned count;
	char id[XML_TEXT_MAX]; /* as the store gave it */
	char (*etag)[UPLOAD_ETAG]; /* of `count` parts */
	pthread_mutex_t lock;
	pthread_cond_t moved;
	struct part {
		struct client_request request;
		struct parts *parts;
		char url[PARTS_URL], hash[SIGV4_HASH];
		uint8_t answer[UPLOAD_ETAG];
		unsigned number; /* from 0 */
		bool used, done;
	} part[PARTS_AT_ONCE];
};

/* ---- the requests before and after the parts ---- */

/* The address of a request about an upload: the object's with a query. */
static int query_url(const char *url, const char *id, int number, char ret[PARTS_URL])
{
	char encoded[XML_TEXT_MAX], part[32] = "";
	if (remote_encode(id, false, encoded, sizeof encoded) >= sizeof encoded)
		return -ENAMETOOLONG;
	if (number >= 0)
		(void)snprintf(part, sizeof part, "partNumber=%d&", number + 1);
	int size = snprintf(
		ret, PARTS_URL, "%s%c%suploadId=%s", url, REMOTE_QUERY_MARK, part, encoded);
	return size < 0 || size >= PARTS_URL ? -ENAMETOOLONG : 0;
}

int upload_abort(const char *url, const char *id, struct fault *fault)
{
	cleanup(free_ptr) char *address = malloc(PARTS_URL);
	cleanup(free_ptr) struct client_request *request = calloc(1, sizeof *request);
	if (!address || !request || query_url(url, id, -1, address) < 0)
		return fault_set(fault, -ENOMEM, "no memory to end an upload");
	*request = (struct client_request){.method = CLIENT_DELETE, .url = address};
	int rc = upload_perform(request, fault);
	return rc < 0 && request->status == 404 ? 0 : rc;
}

static int on_begun(void *context, const char *path, const char *text)
{
	struct parts *parts = context;
	/* rclone's server calls the document InitiateMultipartUpload. */
	const char *name = strchr(path, '/');
	if (name && !strcmp(name, "/UploadId"))
		(void)snprintf(parts->id, sizeof parts->id, "%s", text);
	return 0;
}

static int parts_begin(struct parts *parts, struct fault *fault)
{
	char safe[300];
	cleanup(free_ptr) char *url = NULL;
	cleanup(free_ptr) uint8_t *answer = malloc(PARTS_ANSWER);
	cleanup(free_ptr) struct client_request *request = calloc(1, sizeof *request);
	if (!answer || !request ||
		asprintf(&url, "%s%cuploads=", parts->url, REMOTE_QUERY_MARK) < 0)
		return fault_set(fault, -ENOMEM, "no memory to begin an upload");
	*request = (struct client_request){
		.method = CLIENT_POST, .url = url, .buffer = answer, .room = PARTS_ANSWER};
	int rc = upload_perform(request, fault);
	if (rc == 0)
		rc = xml_read(answer, request->received, on_begun, parts, fault);
	if (rc == 0 && !parts->id[0])
		rc = fault_set(fault, -EPROTO,
			"%s: the server's answer to a multipart upload has no UploadId: check "
			"`endpoint_url`",
			remote_url_safe(parts->url, safe, sizeof safe));
	return rc;
}

/* Whether an answer of status 200 is an error: the store sends its headers before it has
 * finished. */
static int on_ended(void *context, const char *path, const char *text)
{
	(void)text;
	if (!strcmp(path, "CompleteMultipartUploadResult"))
		*(bool *)context = true;
	return 0;
}

static char *parts_list(const struct parts *parts)
{
	static const char head[] = "<CompleteMultipartUpload>",
			  tail[] = "</CompleteMultipartUpload>";
	const size_t room = sizeof head + sizeof tail + (size_t)parts->count * PARTS_LINE;
	char *text = malloc(room);
	size_t at = text ? (size_t)snprintf(text, room, "%s", head) : 0;
	for (unsigned i = 0; text && i < parts->count; i++)
		at += (size_t)snprintf(text + at, room - at,
			"<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>", i + 1,
			parts->etag[i]);
	if (text)
		(void)snprintf(text + at, room - at, "%s", tail);
	return text;
}

static int parts_end(struct parts *parts, struct fault *fault)
{
	char safe[300], hash[SIGV4_HASH];
	bool ended = false;
	cleanup(free_ptr) char *url = malloc(PARTS_URL), *list = parts_list(parts);
	cleanup(free_ptr) uint8_t *answer = malloc(PARTS_ANSWER);
	cleanup(free_ptr) struct client_request *request = calloc(1, sizeof *request);
	if (!url || !list || !answer || !request || sigv4_hash(list, strlen(list), hash) < 0 ||
		query_url(parts->url, parts->id, -1, url) < 0)
		return fault_set(fault, -ENOMEM, "no memory to end an upload");
	*request = (struct client_request){.method = CLIENT_POST,
		.url = url,
		.body = list,
		.body_size = strlen(list),
		.body_sha256 = hash,
		.buffer = answer,
		.room = PARTS_ANSWER};
	int rc = upload_guarded(request, NULL, fault);
	if (rc == 0 && (xml_read(answer, request->received, on_ended, &ended, NULL) < 0 || !ended))
		rc = fault_set(fault, -EREMOTEIO,
			"%s: the store could not put its parts together: run the same command "
			"again",
			remote_url_safe(parts->url, safe, sizeof safe));
	return rc;
}

/* ---- the parts ---- */

static void part_done(struct client_request *request)
{
	struct part *part = request->context;
	struct parts *parts = part->parts;
	(void)pthread_mutex_lock(&parts->lock);
	part->done = true;
	(void)pthread_cond_signal(&parts->moved);
	(void)pthread_mutex_unlock(&parts->lock);
}

static int part_begin(struct parts *parts, struct part *part, unsigned number, struct fault *fault)
{
	const uint64_t at = number * parts->part_bytes;
	const uint64_t size = UTIL_MIN(parts->size - at, parts->part_bytes);
	if (query_url(parts->url, parts->id, (int)number, part->url) < 0 ||
		sigv4_hash(parts->map + at, size, part->hash) < 0)
		return fault_set(fault, -EINVAL, "a part of an upload cannot be signed");
	part->parts = parts;
	part->number = number;
	part->used = true;
	part->done = false;
	part->request = (struct client_request){.method = CLIENT_PUT,
		.url = part->url,
		.body = parts->map + at,
		.body_size = size,
		.body_sha256 = part->hash,
		.buffer = part->answer,
		.room = sizeof part->answer,
		.done = part_done,
		.context = part};
	client_begin(instance_client(NULL), &part->request);
	return 0;
}

/* Waits for a part that was begun. 0, or its error. */
static int part_wait(struct parts *parts, struct part *part, struct fault *fault)
{
	char safe[300];
	if (!part->used)
		return 0;
	(void)pthread_mutex_lock(&parts->lock);
	while (!part->done)
		(void)pthread_cond_wait(&parts->moved, &parts->lock);
	(void)pthread_mutex_unlock(&parts->lock);
	part->used = false;
	if (part->request.result < 0)
		return fault_set(fault, part->request.result, "%s", part->request.fault.text);
	const char *etag = part->request.answer.etag;
	if (!etag[0] || strpbrk(etag, "<>&"))
		return fault_set(fault, -EPROTO,
			"%s: the server gave part %u no usable ETag: check `endpoint_url`",
			remote_url_safe(parts->url, safe, sizeof safe), part->number + 1);
	(void)snprintf(parts->etag[part->number], UPLOAD_ETAG, "%s", etag);
	return 0;
}

static int parts_send(struct parts *parts, struct fault *fault)
{
	int rc = 0;
	for (unsigned i = 0; rc == 0 && i < parts->count; i++) {
		struct part *part = &parts->part[i % PARTS_AT_ONCE];
		rc = part_wait(parts, part, fault);
		if (rc == 0)
			rc = part_begin(parts, part, i, fault);
	}
	for (unsigned i = 0; i < PARTS_AT_ONCE; i++) {
		struct part *part = &parts->part[i];
		if (rc < 0 && part->used)
			client_cancel(instance_client(NULL), &part->request);
		int code = part_wait(parts, part, rc < 0 ? NULL : fault);
		rc = rc < 0 ? rc : code;
	}
	return rc;
}

int upload_parts(const char *url, const uint8_t *map, uint64_t size, struct fault *fault)
{
	cleanup(free_ptr) struct parts *parts = calloc(1, sizeof *parts);
	if (!parts)
		return fault_set(fault, -ENOMEM, "no memory for an upload");
	parts->url = url;
	parts->map = map;
	parts->size = size;
	parts->part_bytes = UTIL_MAX((uint64_t)UPLOAD_PART,
		util_align((size + UPLOAD_PARTS_MAX - 1) / UPLOAD_PARTS_MAX, 1 << 20));
	parts->count = (unsigned)((size + parts->part_bytes - 1) / parts->part_bytes);
	cleanup(free_ptr) void *etags = calloc(parts->count, UPLOAD_ETAG);
	parts->etag = etags;
	if (!parts->etag)
		return fault_set(fault, -ENOMEM, "no memory for an upload");
	(void)pthread_mutex_init(&parts->lock, NULL);
	(void)pthread_cond_init(&parts->moved, NULL);
	int rc = parts_begin(parts, fault);
	if (rc == 0) {
		rc = parts_send(parts, fault);
		if (rc == 0)
			rc = parts_end(parts, fault);
		if (rc < 0)
			(void)upload_abort(url, parts->id, NULL);
	}
	(void)pthread_cond_destroy(&parts->moved);
	(void)pthread_mutex_destroy(&parts->lock);
	return rc;
}

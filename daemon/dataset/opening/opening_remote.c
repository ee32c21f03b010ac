/* opening_remote: see opening.h. Shards that are URLs: their objects, and the indexes beside
 * them. */
#include "dataset/opening/opening.h"

#include "base/store.h"
#include "base/util.h"
#include "base/whole.h"
#include "dataset/container/bucket.h"
#include "remote/object.h"

#include <errno.h>
#include <string.h>

enum { CONNECT_THREADS = 16, DOWNLOAD_PIECE = 256 << 10 };

/* ---- objects ---- */

static int connect_one(struct opening *opening, uint32_t number, struct fault *fault)
{
	struct dataset_shard *shard = &opening->dataset->shard[number];
	return shard->remote ? 0 : remote_object_open(shard->path, &shard->remote, fault);
}

/* No stream has the objects of class folders open all the time, so the cache is told which ones are
 * being read. */
static int folder_connect(struct opening *opening)
{
	struct dataset_shard *root = &opening->dataset->shard[0];
	int rc = bucket_stamp(root->path, &root->mtime_ns, opening->fault);
	if (rc < 0)
		return rc;
	const size_t size = strlen(root->path);
	cleanup(free_ptr) char *prefix = NULL;
	if (asprintf(&prefix, "%s%s", root->path, size && root->path[size - 1] == '/' ? "" : "/") <
		0)
		prefix = NULL;
	if (!prefix || remote_hold(prefix, &opening->dataset->hold) < 0)
		return fault_set(opening->fault, -ENOMEM, "no memory to open %s", root->path);
	return 0;
}

int opening_connect(struct opening *opening)
{
	const struct dataset *dataset = opening->dataset;
	if (!dataset_remote(dataset))
		return 0;
	if (dataset->container->files)
		return folder_connect(opening);
	return opening_team(
		opening, UTIL_MIN(dataset->shards, (uint32_t)CONNECT_THREADS), connect_one);
}

/* ---- indexes that others made ---- */

static int object_copy(struct remote_object *object, int to)
{
	const uint64_t size = remote_object_size(object);
	cleanup(free_ptr) uint8_t *piece = malloc(DOWNLOAD_PIECE);
	int rc = piece ? 0 : -ENOMEM;
	for (uint64_t at = 0; rc == 0 && at < size; at += DOWNLOAD_PIECE) {
		const size_t part = (size_t)UTIL_MIN(size - at, (uint64_t)DOWNLOAD_PIECE);
		rc = remote_object_read(object, piece, part, at, NULL);
		if (rc == 0)
			rc = whole_write(to, piece, part, at);
	}
	return rc;
}

/* Whether the object begins as an index does, and not as a server's page about what it does not
 * have. */
static bool object_is_index(struct remote_object *object, const struct dataset_shard *shard)
{
	uint8_t page[INDEX_PAGE];
	struct index_head head;
	uint32_t crc;
	if (remote_object_size(object) < sizeof page ||
		remote_object_read(object, page, sizeof page, 0, NULL) < 0)
		return false;
	cleanup(close_fd) int fd = store_unlinked(NULL);
	return fd >= 0 && whole_write(fd, page, sizeof page, 0) == 0 &&
	       index_head_read(fd, 0, remote_object_size(object), &head, &crc) == 0 &&
	       head.shard_size == shard->size && head.shard_mtime_ns == shard->mtime_ns;
}

/* Copies the index at `url` to `path`. 0, or a negative errno. */
static int index_copy(const struct dataset_shard *shard, const char *url, const char *path)
{
	struct remote_object *object = NULL;
	struct store_file file;
	int rc = remote_object_open(url, &object, NULL);
	if (rc < 0)
		return rc;
	rc = object_is_index(object, shard) ? store_begin(&file, path, 0600) : -ENOENT;
	if (rc == 0) {
		rc = object_copy(object, file.fd);
		if (rc == 0)
			rc = store_commit(&file);
		store_end(&file);
	}
	remote_object_unref(object);
	return rc;
}

static int download_one(struct opening *opening, uint32_t number, enum dataset_labels labels)
{
	cleanup(free_ptr) char *path = opening_place(opening, number, PLACE_CACHE, labels);
	cleanup(free_ptr) char *url = opening_beside(opening, number, labels);
	struct fault *const fault = opening->fault;
	if (!path || !url || store_folder_make(opening->cache) < 0)
		return FOUND_NOTHING;
	opening_pause(opening);
	int rc = index_copy(&opening->dataset->shard[number], url, path);
	opening_resume(opening, fault);
	return rc == 0 ? opening_try(opening, number, path) : FOUND_NOTHING;
}

int opening_download(struct opening *opening, uint32_t number)
{
	if (!opening->dataset->shard[number].remote)
		return FOUND_NOTHING;
	int rc = download_one(opening, number, DATASET_LABELS_AUTO);
	if (rc > FOUND && opening->asked != DATASET_LABELS_AUTO && !opening->rule)
		rc = download_one(opening, number, opening->asked);
	return rc;
}

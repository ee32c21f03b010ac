/* index_share: see index_share.h. */
#include "dataset/index_share.h"

#include "base/store.h"
#include "base/util.h"
#include "base/whole.h"
#include "dataset/dataset_impl.h"
#include "dataset/index.h"
#include "remote/object.h"
#include "remote/upload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Allocates the name beside the shard: what follows the hash in the name of the cache folder. NULL:
 * it has none, or no memory. */
static char *share_url(const struct dataset_shard *shard)
{
	static const char *const endings[] = {
		".idx", ".none.idx", ".folder.idx", ".cls.idx", ".json.idx"};
	const char *slash = shard->index_path ? strrchr(shard->index_path, '/') : NULL;
	char *url = NULL;
	/* A query is a signature for the shard only. */
	if (!slash || !shard->remote || strchr(shard->path, '?'))
		return NULL;
	cleanup(free_ptr) char *folder =
		strndup(shard->index_path, (size_t)(slash - shard->index_path));
	for (size_t i = 0; folder && i < UTIL_COUNT(endings); i++) {
		cleanup(free_ptr) char *path = store_cache_path(folder, shard->path, endings[i]);
		if (path && !strcmp(path, shard->index_path))
			return asprintf(&url, "%s%s", shard->path, endings[i]) < 0 ? NULL : url;
	}
	return NULL;
}

/* Whether the object at the place is this index (1), an index that may be replaced (0), or neither:
 * -EEXIST, or another negative errno. */
static int share_judge(const char *url, uint64_t size, uint32_t crc, struct fault *fault)
{
	uint8_t page[INDEX_PAGE];
	struct remote_object *object = NULL;
	struct index_head head;
	uint32_t theirs = 0;
	int outcome = INDEX_E_FOREIGN, rc = remote_object_open(url, &object, fault);
	if (rc < 0)
		return rc;
	const uint64_t bytes = remote_object_size(object);
	cleanup(close_fd) int fd = store_unlinked(NULL);
	if (bytes >= sizeof page)
		rc = remote_object_read(object, page, sizeof page, 0, fault);
	if (rc == 0 && bytes >= sizeof page)
		outcome = fd < 0 || whole_write(fd, page, sizeof page, 0) < 0
				  ? -EIO
				  : index_head_read(fd, 0, bytes, &head, &theirs);
	remote_object_unref(object);
	if (rc < 0)
		return rc;
	if (outcome < 0)
		return fault_set(fault, outcome, "a temporary file cannot be written (TMPDIR)");
	if (outcome == INDEX_E_FOREIGN)
		return fault_set(fault, -EEXIST,
			"%s exists and is not an index of penstock: it is not overwritten", url);
	return outcome == 0 && bytes == size && theirs == crc;
}

static int share_write(const char *url, int fd, uint64_t size, const struct upload_found *instead,
	struct fault *fault)
{
	struct upload_found written;
	void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return fault_set(
			fault, -errno, "the index for %s cannot be read: %s", url, strerror(errno));
	int rc = upload_write(url, map, size, instead, &written, fault);
	(void)munmap(map, size);
	return rc < 0 ? rc : INDEX_SHARE_STORED;
}

int index_share(const struct dataset *dataset, uint32_t number, struct fault *fault)
{
	const struct dataset_shard *shard = &dataset->shard[number];
	struct upload_found found;
	struct stat st;
	cleanup(free_ptr) char *url = share_url(shard);
	if (!url)
		return INDEX_SHARE_NONE;
	int rc = upload_check(shard->path, fault);
	if (rc < 0)
		return rc;
	cleanup(close_fd) int fd = open(shard->index_path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size <= 0)
		return fault_set(fault, -EIO, "the index %s cannot be read", shard->index_path);
	rc = upload_look(url, &found, fault);
	if (rc < 0)
		return rc;
	if (rc == 0)
		return share_write(url, fd, (uint64_t)st.st_size, NULL, fault);
	rc = share_judge(url, (uint64_t)st.st_size, shard->head_crc, fault);
	if (rc < 0)
		return rc;
	return rc ? INDEX_SHARE_SAME : share_write(url, fd, (uint64_t)st.st_size, &found, fault);
}

/* beside: see beside.h. */
#include "dataset/container/beside.h"

#include "base/hash.h"
#include "base/host/roots.h"
#include "dataset/mtime.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int path_make(const char *shard, const char *name, char *ret, struct fault *fault)
{
	const char *slash = strrchr(shard, '/');
	const int folder = slash ? (int)(slash - shard) + 1 : 0;
	const int n = snprintf(ret, BESIDE_PATH, "%.*s%s", folder, shard, name);
	return n >= 0 && n < BESIDE_PATH
		       ? 0
		       : fault_set(fault, -ENAMETOOLONG,
				 "%s: its path is too long for the file %s beside it", shard, name);
}

int beside_open(const char *shard, const char *name, struct beside *ret, struct fault *fault)
{
	struct stat st;
	ret->blob = BLOB_OF(-1);
	ret->size = 0;
	int rc = path_make(shard, name, ret->path, fault);
	if (rc < 0)
		return rc;
	/* Without blocking: the name may be that of a FIFO. */
	ret->blob.fd = open(ret->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	const int opened = ret->blob.fd < 0 ? -errno : 0;
	if (opened == -ENOENT || opened == -ENOTDIR)
		return BESIDE_E_NONE;
	rc = roots_check("the file beside a shard", ret->path, fault);
	if (rc < 0)
		return rc;
	rc = opened < 0 ? opened : fstat(ret->blob.fd, &st) < 0 ? -errno : 0;
	if (rc < 0)
		return fault_set(fault, rc, "%s, which belongs to %s, cannot be opened: %s",
			ret->path, shard, strerror(-rc));
	if (!S_ISREG(st.st_mode))
		return fault_set(fault, -EINVAL, "%s, which belongs to %s, is not a regular file",
			ret->path, shard);
	ret->size = (uint64_t)st.st_size;
	return 0;
}

void beside_close(struct beside *beside)
{
	blob_close(&beside->blob);
}

uint32_t beside_state(uint32_t hash, const char *shard, const char *name)
{
	char path[BESIDE_PATH];
	struct stat st;
	uint64_t mixed = hash_u64(HASH_SEED, hash);
	if (path_make(shard, name, path, NULL) == 0 && stat(path, &st) == 0) {
		mixed = hash_u64(mixed, (uint64_t)st.st_size + 1);
		mixed = hash_u64(mixed, (uint64_t)mtime_of(&st));
	}
	return (uint32_t)hash_mix(mixed);
}

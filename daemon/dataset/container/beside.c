/* beside: see beside.h. */
#include "dataset/container/beside.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/host/roots.h"
#include "base/util.h"
#include "dataset/mtime.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int path_make(const char *shard, const char *name, char *ret, struct fault *fault)
{
	/* What follows a question mark in a URL is not part of its path. */
	const char *end = blob_is_url(shard) ? strchrnul(shard, '?') : strchr(shard, 0);
	while (end > shard && end[-1] != '/')
		end--;
	const int n = snprintf(ret, BESIDE_PATH, "%.*s%s", (int)(end - shard), shard, name);
	return n >= 0 && n < BESIDE_PATH
		       ? 0
		       : fault_set(fault, -ENAMETOOLONG,
				 "%s: its path is too long for the file %s beside it", shard, name);
}

/* A server that does not list its folders to everybody also refuses what does not exist. */
static int remote_open(const char *shard, struct beside *ret, struct fault *fault)
{
	struct fault why = {{0}};
	int rc = blob_open(ret->path, &ret->blob, &why);
	ret->size = ret->blob.size;
	if (rc == -ENOENT || rc == -EACCES)
		return BESIDE_E_NONE;
	return rc < 0 ? fault_set(fault, rc, "%s, which belongs to %s", why.text, shard) : 0;
}

int beside_open(const char *shard, const char *name, struct beside *ret, struct fault *fault)
{
	struct stat st;
	ret->blob = BLOB_OF(-1);
	ret->size = 0;
	int rc = path_make(shard, name, ret->path, fault);
	if (rc < 0)
		return rc;
	if (blob_is_url(shard))
		return remote_open(shard, ret, fault);
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

/* What an index depends on of a file. */
struct state {
	bool exists;
	uint64_t size;
	int64_t changed;
};

/* The states of remote files that were asked for lately: the shards of a folder have the same files
 * beside them, and each question is a request. */
static struct {
	pthread_mutex_t lock;
	unsigned next;
	struct asked {
		uint64_t until_ns; /* 0: none */
		char path[BESIDE_PATH];
		struct state state;
	} asked[4];
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER};

enum { MEMORY_MS = 5000 };

static bool memory_find(const char *path, struct state *ret)
{
	const uint64_t now = clock_ns();
	bool found = false;
	(void)pthread_mutex_lock(&memory.lock);
	for (size_t i = 0; i < UTIL_COUNT(memory.asked) && !found; i++) {
		found = memory.asked[i].until_ns > now && !strcmp(memory.asked[i].path, path);
		if (found)
			*ret = memory.asked[i].state;
	}
	(void)pthread_mutex_unlock(&memory.lock);
	return found;
}

static void memory_keep(const char *path, const struct state *state)
{
	(void)pthread_mutex_lock(&memory.lock);
	struct asked *asked = &memory.asked[memory.next++ % UTIL_COUNT(memory.asked)];
	(void)snprintf(asked->path, sizeof asked->path, "%s", path);
	asked->state = *state;
	asked->until_ns = clock_ns() + (uint64_t)MEMORY_MS * 1000000;
	(void)pthread_mutex_unlock(&memory.lock);
}

/* Asks without the lock, since a server may answer late. Only an answer is kept, not a failure. */
static int remote_state(const char *shard, const char *path, struct state *ret, struct fault *fault)
{
	if (memory_find(path, ret))
		return 0;
	struct beside beside = {.blob = BLOB_OF(-1)};
	(void)snprintf(beside.path, sizeof beside.path, "%s", path);
	const int rc = remote_open(shard, &beside, fault);
	if (rc < 0)
		return rc;
	if (rc == 0)
		*ret = (struct state){true, beside.size, beside.blob.stamp};
	beside_close(&beside);
	memory_keep(path, ret);
	return 0;
}

int beside_state(uint32_t *hash, const char *shard, const char *name, struct fault *fault)
{
	char path[BESIDE_PATH];
	struct stat st;
	struct state state = {0};
	int rc = path_make(shard, name, path, fault);
	if (rc == 0 && blob_is_url(path))
		rc = remote_state(shard, path, &state, fault);
	else if (rc == 0 && stat(path, &st) == 0)
		state = (struct state){true, (uint64_t)st.st_size, mtime_of(&st)};
	if (rc < 0)
		return rc;
	uint64_t mixed = hash_u64(HASH_SEED, *hash);
	if (state.exists)
		mixed = hash_u64(hash_u64(mixed, state.size + 1), (uint64_t)state.changed);
	*hash = (uint32_t)hash_mix(mixed);
	return 0;
}

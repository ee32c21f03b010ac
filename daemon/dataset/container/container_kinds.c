/* container_kinds: which kind of container a file or a folder is. See container.h. */
#include "dataset/container/container.h"

#include "base/host/roots.h"
#include "base/util.h"
#include "dataset/container/tar.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

int container_kind(
	const char *path, const struct blob *blob, enum dataset_kind *ret, struct fault *fault)
{
	uint8_t head[CONTAINER_HEAD];
	const size_t most = (size_t)UTIL_MIN((uint64_t)sizeof head, blob->size);
	const ssize_t n = blob_read(blob, head, most, 0);
	*ret = DATASET_TARS;
	if (n < 0)
		return fault_set(fault, (int)n, "%s cannot be read: %s", path, blob_error((int)n));
	/* A file that begins with the header of a member is a tar, whatever else it resembles. */
	if (n >= TAR_BLOCK && tar_block_valid(head))
		return 1;
	const struct container_probe probe = {path, blob, blob->size, head, (size_t)n};
	for (uint32_t kind = 0; kind < DATASET_KINDS; kind++) {
		const struct container *container = container_of(kind);
		if (!container || !container->sniff || !container->sniff(&probe))
			continue;
		*ret = (enum dataset_kind)kind;
		return 1;
	}
	return 0;
}

/* Each file that a kind names must be a file below the roots: a name in a folder may be a link. */
static int expanded_check(const struct source_paths *paths, size_t from, struct fault *fault)
{
	for (size_t i = from; i < paths->count; i++) {
		struct stat st;
		if (blob_is_url(paths->path[i]))
			continue; /* remote/ checks each URL that is opened */
		int rc = roots_check("source", paths->path[i], fault);
		if (rc < 0)
			return rc;
		if (stat(paths->path[i], &st) < 0)
			return fault_set(fault, -errno, "%s cannot be examined: %s", paths->path[i],
				strerror(errno));
		if (!S_ISREG(st.st_mode))
			return fault_set(
				fault, -EINVAL, "%s is not a regular file", paths->path[i]);
	}
	return 0;
}

int container_expand(const char *folder, int fd, struct source_paths *paths, enum dataset_kind *ret,
	struct fault *fault)
{
	/* First those that one file of a certain name gives away. */
	static const enum dataset_kind order[] = {DATASET_MDS, DATASET_LITDATA, DATASET_LMDB,
		DATASET_CIFAR, DATASET_MNIST, DATASET_RECORDIO, DATASET_TFRECORD, DATASET_PARQUET,
		DATASET_ZIP};
	for (size_t i = 0; i < UTIL_COUNT(order); i++) {
		const enum dataset_kind kind = order[i];
		const struct container *container = container_of(kind);
		const size_t before = paths->count;
		if (!container || !container->expand)
			continue;
		/* Others look into a local folder. */
		if (blob_is_url(folder) && kind != DATASET_MDS && kind != DATASET_LITDATA)
			continue;
		int rc = container->expand(folder, fd, paths, fault);
		if (rc > 0)
			rc = expanded_check(paths, before, fault);
		else if (rc == 0)
			continue;
		*ret = order[i];
		return rc < 0 ? rc : 1;
	}
	return 0;
}

int container_mixture(const char *one, enum dataset_kind one_kind, const char *other,
	enum dataset_kind other_kind, struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"%s (%s) and %s (%s) are of different kinds: name files of one kind, and the "
		"others "
		"as a source of their own",
		one, container_of(one_kind)->name, other, container_of(other_kind)->name);
}

const char *container_names(char buffer[CONTAINER_NAMES])
{
	size_t used = 0;
	buffer[0] = 0;
	for (uint32_t kind = 0; kind < DATASET_KINDS && used < CONTAINER_NAMES; kind++)
		if (container_of(kind))
			used += (size_t)snprintf(buffer + used, CONTAINER_NAMES - used, "%s%s",
				used ? ", " : "", container_of(kind)->name);
	return buffer;
}

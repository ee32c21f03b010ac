/* source_remote: expands URLs into the URLs of files of one kind. See source.h. */
#include "dataset/source/source_remote.h"

#include "base/util.h"
#include "dataset/blob.h"
#include "dataset/container/container.h"

#include <errno.h>
#include <string.h>

int source_remote(const struct source_paths *named, struct source_paths *paths,
	enum dataset_kind *ret, struct fault *fault)
{
	*ret = DATASET_TARS;
	for (size_t i = 0; i < named->count; i++) {
		if (!blob_is_url(named->path[i]))
			return fault_set(fault, -EINVAL,
				"names both URLs (%s) and local paths (%s): name files in one "
				"place, and the others as a source of their own",
				named->path[0], named->path[i]);
		int rc = source_paths_add(paths, strdup(named->path[i]), fault);
		if (rc < 0)
			return rc;
	}
	cleanup(close_blob) struct blob blob = {.fd = -1};
	int rc = blob_open(paths->path[0], &blob, fault);
	if (rc == 0)
		rc = container_kind(paths->path[0], &blob, ret, fault);
	return UTIL_MIN(rc, 0);
}

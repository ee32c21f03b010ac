/* source_remote: the URLs among what a user names; for source.c. */
#pragma once

#include "dataset/dataset.h"
#include "dataset/source/braces.h"

/* From what braces gave, the first of which is a URL, to the URLs of files, and the kind of the
 * first. 0; -EINVAL: local paths among them; or as remote_object_open. The caller frees `paths`. */
int source_remote(const struct source_paths *named, struct source_paths *paths,
	enum dataset_kind *ret, struct fault *fault);

/* bucket: what is below a URL that is a folder: the prefix of a bucket, or a folder of the Hub.
 *
 * Its URL has no slash at its end, as the path of a local folder. Blocks. */
#pragma once

#include "base/fault.h"
#include "dataset/container/folder.h"

#include <stdbool.h>
#include <stdint.h>

/* One object or folder in a folder; a nonzero answer ends the listing. `name` is the last part. */
typedef int bucket_take_fn(void *context, const char *name, bool folder, struct fault *fault);

/* Lists one level. 0; what `take` returned; or a negative errno with a fault. */
int bucket_names(const char *folder, bucket_take_fn *take, void *context, struct fault *fault);

/* Lists the URLs that match a pattern, in bytewise order: each becomes the `name` of `take`. */
int bucket_glob(const char *pattern, bucket_take_fn *take, void *context, struct fault *fault);

/* Whether a URL's server can list what it has, whether its path has a pattern, and whether it is
 * written as a folder: a bucket, or with a slash at its end. Pure. 0; -EINVAL with a fault: not a
 * URL that is read. */
int bucket_judge(
	const char *url, bool *ret_lists, bool *ret_glob, bool *ret_folder, struct fault *fault);

/* *ret stands for the state of all images below the folder: their names, sizes and ETags. 0, or as
 * bucket_names. */
int bucket_stamp(const char *folder, int64_t *ret, struct fault *fault);

/* As folder_walk, for objects: in the same order, with the same names left out. Folders are
 * reported with `stamp` as their time of modification. */
int bucket_walk(const char *folder, int64_t stamp, enum class_order order,
	const struct folder_sink *sink, struct fault *fault);

/* source_remote: expands URLs into the URLs of files of one kind. See source.h. */
#include "dataset/source/source_remote.h"

#include "base/util.h"
#include "dataset/blob.h"
#include "dataset/container/bucket.h"
#include "dataset/container/container.h"
#include "dataset/source/own.h"

#include <errno.h>
#include <string.h>

struct expansion {
	const char *pattern; /* a glob, or a folder */
	struct source_paths *paths;
	/* What the folder holds. */
	bool any, index_json, images, folders, other;
	size_t parquet;
};

static int on_match(void *context, const char *url, bool folder, struct fault *fault)
{
	struct expansion *expansion = context;
	if (folder || (source_is_own(url) && !source_is_own(expansion->pattern)))
		return 0;
	return source_paths_add(expansion->paths, strdup(url), fault);
}

static int glob_add(
	const char *pattern, bool lists, struct source_paths *paths, struct fault *fault)
{
	struct expansion expansion = {.pattern = pattern, .paths = paths};
	const size_t before = paths->count;
	if (!lists)
		return fault_set(fault, -EINVAL,
			"%s has a star, but web servers do not list what they have: name the files "
			"with braces, as in train-{000..146}.tar",
			pattern);
	int rc = bucket_glob(pattern, on_match, &expansion, fault);
	return rc < 0                   ? rc
	       : paths->count == before ? fault_set(fault, -ENOENT, "nothing matches %s", pattern)
					: 0;
}

static bool has_end(const char *name, const char *end)
{
	const size_t size = strlen(name), last = strlen(end);
	return size > last && !strcmp(name + size - last, end);
}

/* Looks at the names in a folder. Stops when nothing can change what kind it is. */
static int on_name(void *context, const char *name, bool folder, struct fault *fault)
{
	struct expansion *expansion = context;
	char *url = NULL;
	if (name[0] == '.')
		return 0;
	expansion->any = true;
	expansion->folders |= folder;
	expansion->index_json |= !folder && !strcmp(name, "index.json");
	expansion->images |= !folder && folder_format(name);
	expansion->other |= !folder && (has_end(name, ".tar") || has_end(name, ".zip"));
	if (folder || !has_end(name, ".parquet"))
		return 0;
	expansion->parquet++;
	if (asprintf(&url, "%s/%s", expansion->pattern, name) < 0)
		url = NULL;
	return source_paths_add(expansion->paths, url, fault);
}

static void paths_clear(struct source_paths *paths)
{
	source_paths_free(paths);
}

/* A folder of images; or of one container's files, whose URLs replace its own. */
static int folder_add(
	char *folder, struct source_paths *paths, enum dataset_kind *ret, struct fault *fault)
{
	struct expansion found = {.pattern = folder, .paths = paths};
	for (size_t n = strlen(folder); n && folder[n - 1] == '/'; n--)
		folder[n - 1] = 0;
	int rc = bucket_names(folder, on_name, &found, fault);
	if (rc < 0)
		return rc;
	if (!found.any)
		return fault_set(
			fault, -ENOENT, "%s does not exist: nothing is below %s/", folder, folder);
	const bool rest = found.folders || found.images || found.index_json || found.other;
	if (found.parquet && !rest) {
		*ret = DATASET_PARQUET;
		return 0;
	}
	paths_clear(paths);
	if (found.index_json)
		rc = container_expand(folder, -1, paths, ret, fault);
	if (rc != 0)
		return UTIL_MIN(rc, 0);
	if (found.other && !found.images && !found.folders)
		return fault_set(fault, -EINVAL,
			"%s holds files of samples, and not images: name the files, as in %s/*.tar",
			folder, folder);
	*ret = DATASET_FOLDER;
	return source_paths_add(paths, strdup(folder), fault);
}

/* A URL without a star: a file, or a folder that was written without a slash at its end. */
static int one_add(char *url, bool lists, struct source_paths *paths, enum dataset_kind *ret,
	struct fault *fault)
{
	cleanup(close_blob) struct blob blob = {.fd = -1};
	int rc = blob_open(url, &blob, fault);
	if (rc == -ENOENT && lists) {
		struct fault why = {{0}};
		const int folder = folder_add(url, paths, ret, &why);
		if (folder != -ENOENT)
			*fault = why;
		return folder == -ENOENT ? rc : folder;
	}
	if (rc == 0)
		rc = source_paths_add(paths, strdup(url), fault);
	if (rc == 0)
		rc = container_kind(url, &blob, ret, fault);
	return UTIL_MIN(rc, 0);
}

static int each_add(
	const struct source_paths *named, struct source_paths *paths, struct fault *fault)
{
	for (size_t i = 0; i < named->count; i++) {
		bool lists = false, glob = false, folder = false;
		const char *url = named->path[i];
		if (!blob_is_url(url))
			return fault_set(fault, -EINVAL,
				"names both URLs (%s) and local paths (%s): name files in one "
				"place, and the others as a source of their own",
				named->path[0], url);
		int rc = bucket_judge(url, &lists, &glob, &folder, fault);
		if (rc == 0 && folder && named->count > 1)
			rc = fault_set(fault, -EINVAL,
				"names several folders, as %s: name the one folder that holds "
				"them, or files",
				url);
		if (rc == 0)
			rc = glob ? glob_add(url, lists, paths, fault)
				  : source_paths_add(paths, strdup(url), fault);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int source_remote(const struct source_paths *named, struct source_paths *paths,
	enum dataset_kind *ret, struct fault *fault)
{
	bool lists = false, glob = false, folder = false;
	*ret = DATASET_TARS;
	if (named->count == 1 && bucket_judge(named->path[0], &lists, &glob, &folder, fault) == 0 &&
		!glob)
		return folder ? folder_add(named->path[0], paths, ret, fault)
			      : one_add(named->path[0], lists, paths, ret, fault);
	int rc = each_add(named, paths, fault);
	cleanup(close_blob) struct blob blob = {.fd = -1};
	if (rc == 0)
		rc = blob_open(paths->path[0], &blob, fault);
	if (rc == 0)
		rc = container_kind(paths->path[0], &blob, ret, fault);
	return UTIL_MIN(rc, 0);
}

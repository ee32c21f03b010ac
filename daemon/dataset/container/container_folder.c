/* container_folder: a folder of image files, whose folders are classes (class_folders.h). */
#include "dataset/container/class_folders.h"

#include "base/util.h"
#include "dataset/container/bucket.h"
#include "dataset/container/folder.h"
#include "dataset/container/folder_hint.h"
#include "dataset/container/image_names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

struct walked {
	const struct index_job *job;
	struct class_folders *classes;
	uint64_t bytes;
};

static int on_classes(void *context, const char *const *names, size_t count, struct fault *fault)
{
	struct walked *walked = context;
	return class_folders_names(walked->classes, names, count, fault);
}

static int on_directory(void *context, const char *path, int64_t mtime_ns, struct fault *fault)
{
	const struct walked *walked = context;
	int rc = class_folders_directory(walked->classes, path, fault);
	if (rc < 0)
		return rc;
	/* The writer keeps its error. */
	return index_writer_entry(walked->job->writer, 'D', mtime_ns, path, strlen(path));
}

static int on_file(void *context, const char *path, uint64_t size, struct fault *fault)
{
	struct walked *walked = context;
	const struct index_job *job = walked->job;
	if (size > UINT32_MAX)
		return fault_set(fault, -EINVAL, "%s/%s has %llu bytes: an image has at most %u",
			job->path, path, (unsigned long long)size, UINT32_MAX);
	struct index_sample sample = {.name = path,
		.key = path,
		.name_size = strlen(path),
		.key_size = folder_key_size(path),
		.record = {.offset = walked->bytes,
			.size = (uint32_t)size,
			.format = (uint8_t)folder_format(path)}};
	int rc = class_folders_image(walked->classes, &sample, path, fault);
	/* A file that the manifest leaves out changes nothing. */
	walked->bytes += rc == 0 ? size : 0;
	return rc < 0 ? rc
		      : index_progress_step(
				job->progress, job->writer->head.samples, walked->bytes, fault);
}

static void on_other(void *context, const char *name)
{
	const struct walked *walked = context;
	class_folders_other(walked->classes, name);
}

static void on_etag(void *context, const char *etag)
{
	const struct walked *walked = context;
	walked->job->writer->etag = etag;
}

static int folder_index(const struct index_job *job, struct fault *fault)
{
	if (job->asked == DATASET_LABELS_CLS || job->asked == DATASET_LABELS_JSON ||
		job->asked == DATASET_LABELS_PATH)
		return fault_set(fault, -EINVAL,
			"%s is a folder: its labels come from class folders or a manifest, not "
			"from .cls or .json files",
			job->path);
	struct walked walked = {.job = job};
	int rc = class_folders_new(job, &walked.classes, fault);
	if (rc < 0)
		return rc;
	const struct folder_sink sink = {
		&walked, on_classes, on_directory, on_file, on_other, on_etag};
	rc = job->blob->fd < 0
		     ? bucket_walk(job->path, job->blob->stamp, job->class_order, &sink, fault)
		     : folder_walk(job->blob->fd, job->path, job->class_order, &sink, fault);
	if (rc == 0)
		rc = class_folders_end(walked.classes, fault);
	class_folders_free(walked.classes);
	return rc;
}

static int folder_empty(const struct container_empty *empty, struct fault *fault)
{
	const int fd = empty->blob ? empty->blob->fd : -1;
	int rc = fd < 0 ? 0 : folder_hint(empty->path, fd, fault);
	if (rc < 0)
		return rc;
	return fault_set(fault, -EINVAL,
		"%s holds no images: expected files in it or in its folders that are "
		"named " IMAGE_NAMES_FOLDER,
		empty->path);
}

const struct container container_folder = {
	.name = "folder",
	.files = true,
	.fields = true,
	.labels = 1 << DATASET_LABELS_NONE | 1 << DATASET_LABELS_FOLDER |
		  1 << DATASET_LABELS_MANIFEST,
	.joint = "/",
	.naming = "a path relative to it",
	.index = folder_index,
	.empty = folder_empty,
};

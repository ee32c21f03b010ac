/* container_folder: a folder of image files.
 *
 * Either the root holds images (a flat folder: no labels), or its directories are classes and each
 * of them has at least one image somewhere below it. As in torchvision's ImageFolder, a class's
 * label is the rank of its name, and an empty class is an error, because it would shift all labels
 * after it. With labels NONE, and if a manifest has the labels, the folder may have any shape. */
#include "dataset/container.h"

#include "base/util.h"
#include "dataset/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

struct classes {
	const struct index_job *job;
	char **names; /* in the order of the walk */
	bool *seen; /* the class has an image */
	size_t count;
	size_t current; /* of the last image */
	uint64_t bytes;
	char flat[INDEX_NAME_MAX + 1]; /* first image in the root; "": none */
	char nested[INDEX_NAME_MAX + 1]; /* first image below a directory */
	struct label_found found; /* scratch space for the label of a manifest */
};

static int on_classes(void *context, const char *const *names, size_t count, struct fault *fault)
{
	struct classes *classes = context;
	classes->names = calloc(count + 1, sizeof *classes->names);
	classes->seen = calloc(count + 1, sizeof *classes->seen);
	if (!classes->names || !classes->seen)
		return fault_set(fault, -ENOMEM, "no memory for %zu class names", count);
	for (; classes->count < count; classes->count++) {
		classes->names[classes->count] = strdup(names[classes->count]);
		if (!classes->names[classes->count])
			return fault_set(fault, -ENOMEM, "no memory for %zu class names", count);
	}
	return 0;
}

static int on_directory(void *context, const char *path, int64_t mtime_ns, struct fault *fault)
{
	(void)fault; /* the writer keeps its error */
	struct classes *classes = context;
	return index_writer_entry(classes->job->writer, 'D', mtime_ns, path, strlen(path));
}

/* Finds the class of a path's first part. The walk goes through the classes in their order, and
 * has named all of them. */
static size_t class_of(struct classes *classes, const char *path, size_t part)
{
	size_t at = classes->current;
	while (at + 1 < classes->count &&
		(strncmp(classes->names[at], path, part) || classes->names[at][part]))
		at++;
	return classes->current = at;
}

/* Whether folders are classes. They are not if no labels are asked for, or if a manifest has
 * them. */
static bool takes_classes(const struct classes *classes)
{
	return classes->job->asked != DATASET_LABELS_NONE &&
	       classes->job->asked != DATASET_LABELS_MANIFEST;
}

static int mixture_check(const struct classes *classes, struct fault *fault)
{
	if (!takes_classes(classes) || !classes->flat[0] || !classes->nested[0])
		return 0;
	return fault_set(fault, -EINVAL,
		"%s holds both images (%s) and folders of images (%s): keep one of the two, or ask "
		"for labels: none",
		classes->job->path, classes->flat, classes->nested);
}

static int32_t class_label(struct classes *classes, const char *path)
{
	const char *slash = strchr(path, '/');
	char *first = slash ? classes->nested : classes->flat;
	if (!first[0])
		memcpy(first, path, strlen(path) + 1);
	if (!slash || !takes_classes(classes))
		return -1;
	size_t rank = class_of(classes, path, (size_t)(slash - path));
	classes->seen[rank] = true;
	return (int32_t)rank;
}

static int image_write(
	struct classes *classes, struct index_record *record, const char *path, struct fault *fault)
{
	const struct index_job *job = classes->job;
	if (job->asked == DATASET_LABELS_MANIFEST) {
		struct index_sample sample = {
			path, path, strlen(path), folder_key_size(path), *record};
		return index_sample_manifest(job, &sample, NULL, &classes->found, fault);
	}
	int rc = index_writer_name(job->writer, path, strlen(path), record);
	return rc < 0 ? rc : index_writer_add(job->writer, record, path, folder_key_size(path));
}

static int on_file(void *context, const char *path, uint64_t size, struct fault *fault)
{
	struct classes *classes = context;
	struct index_writer *writer = classes->job->writer;
	if (size > UINT32_MAX)
		return fault_set(fault, -EINVAL, "%s/%s has %llu bytes: an image has at most %u",
			classes->job->path, path, (unsigned long long)size, UINT32_MAX);
	struct index_record record = {.offset = classes->bytes,
		.size = (uint32_t)size,
		.format = (uint8_t)folder_format(path)};
	record.label = class_label(classes, path);
	int rc = mixture_check(classes, fault);
	if (rc == 0)
		rc = image_write(classes, &record, path, fault);
	classes->bytes += size;
	writer->head.members++;
	return rc < 0 ? rc
		      : index_progress_step(classes->job->progress, writer->head.samples,
				classes->bytes, fault);
}

/* Counted for `penstock check` and, if they are images, for the notice: a user with 1,000 images in
 * 10 formats who sees 100 samples must not have to search for the others. */
static void on_other(void *context, const char *name)
{
	const struct classes *classes = context;
	classes->job->writer->head.members++;
	classes->job->writer->head.dotted += folder_foreign(name);
}

static int empty_check(const struct classes *classes, struct fault *fault)
{
	char list[256] = "";
	size_t empty = 0, used = 0;
	for (size_t i = 0; i < classes->count; i++) {
		if (classes->seen[i])
			continue;
		if (empty++ < 3 && used < sizeof list)
			used += (size_t)snprintf(list + used, sizeof list - used, "%s%.60s",
				used ? ", " : "", classes->names[i]);
	}
	if (empty == 0)
		return 0;
	return fault_set(fault, -EINVAL,
		"%s: %zu class folder%s without an image (%s%s): remove %s, or ask for labels: "
		"none",
		classes->job->path, empty, empty == 1 ? "" : "s", list, empty > 3 ? ", ..." : "",
		empty == 1 ? "it" : "them");
}

/* After the walk: decides whether the folders are classes, and checks that each has an image. */
static int classes_end(struct classes *classes, struct fault *fault)
{
	struct index_writer *writer = classes->job->writer;
	writer->head.source = DATASET_LABELS_NONE;
	if (classes->job->asked == DATASET_LABELS_MANIFEST)
		writer->head.source = DATASET_LABELS_MANIFEST;
	if (!takes_classes(classes) || !writer->head.samples)
		return 0;
	if (!classes->nested[0] && classes->job->asked == DATASET_LABELS_FOLDER)
		return fault_set(fault, -EINVAL,
			"%s has no class folders, but labels must come from there: its images are "
			"not in folders (%s)",
			classes->job->path, classes->flat);
	if (!classes->nested[0])
		return 0;
	int rc = empty_check(classes, fault);
	for (size_t i = 0; rc == 0 && i < classes->count; i++)
		rc = index_writer_entry(
			writer, 'C', 0, classes->names[i], strlen(classes->names[i]));
	writer->head.source = DATASET_LABELS_FOLDER;
	return rc;
}

static void classes_free(struct classes *classes)
{
	for (size_t i = 0; i < classes->count; i++)
		free(classes->names[i]);
	free(classes->names);
	free(classes->seen);
	free(classes);
}

static int folder_index(const struct index_job *job, struct fault *fault)
{
	if (job->asked == DATASET_LABELS_CLS || job->asked == DATASET_LABELS_JSON ||
		job->asked == DATASET_LABELS_PATH)
		return fault_set(fault, -EINVAL,
			"%s is a folder: its labels come from class folders or a manifest, not "
			"from .cls or .json files",
			job->path);
	struct classes *classes = calloc(1, sizeof *classes);
	if (!classes)
		return fault_set(fault, -ENOMEM, "no memory to index %s", job->path);
	classes->job = job;
	const struct folder_sink sink = {classes, on_classes, on_directory, on_file, on_other};
	int rc = folder_walk(job->fd, job->path, job->class_order, &sink, fault);
	if (rc == 0)
		rc = classes_end(classes, fault);
	classes_free(classes);
	return rc;
}

/* A user who names a folder of tars means the tars. */
static bool folder_has_tars(int root_fd)
{
	int fd = openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	bool tars = false;
	if (!dir) {
		util_close_fd(&fd);
		return false;
	}
	for (struct dirent *dent; !tars && (dent = readdir(dir));) {
		size_t size = strlen(dent->d_name);
		tars = size > 4 && !strcmp(dent->d_name + size - 4, ".tar");
	}
	(void)closedir(dir);
	return tars;
}

static int folder_empty(const struct container_empty *empty, struct fault *fault)
{
	if (folder_has_tars(empty->fd))
		return fault_set(fault, -EINVAL,
			"%s holds tars, but no images: name the tars, as in \"%s/*.tar\"",
			empty->path, empty->path);
	return fault_set(fault, -EINVAL,
		"%s holds no images: expected .jpg, .jpeg or .png files in it or in its folders",
		empty->path);
}

static void folder_left_out(uint64_t count, const char *example, char *ret_text, size_t room)
{
	(void)snprintf(ret_text, room,
		"%llu image%s left out because of the extension (%s): formats such as GIF, WebP, "
		"BMP and TIFF are not read; convert them to JPEG or PNG (rename .jfif and .jpe to "
		".jpg).",
		(unsigned long long)count, count == 1 ? " was" : "s were", example);
}

const struct container container_folder = {
	.files = true,
	.labels = 1 << DATASET_LABELS_NONE | 1 << DATASET_LABELS_FOLDER |
		  1 << DATASET_LABELS_MANIFEST,
	.joint = "/",
	.naming = "a path relative to it",
	.index = folder_index,
	.empty = folder_empty,
	.left_out = folder_left_out,
};

/* class_folders: see class_folders.h. */
#include "dataset/container/class_folders.h"

#include "base/util.h"
#include "proto/utf8.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <strings.h>

struct class_folders {
	const struct index_job *job;
	char **names; /* in the order of the walk */
	bool *seen; /* the class has an image */
	size_t count;
	size_t current; /* of the last image */
	char flat[INDEX_NAME_MAX + 1]; /* first image in the root; "": none */
	char nested[INDEX_NAME_MAX + 1]; /* first image below a directory */
	/* The extensions of files that were passed over: the first ones in bytewise order, so that
	 * the index does not depend on the order in which a directory is read. */
	struct passed {
		uint64_t count;
		char text[INDEX_PASSED_TEXT];
	} passed[INDEX_PASSED_KINDS];
	size_t passed_kinds;
	uint64_t passed_others;
	struct label_found found; /* scratch space for the label of a manifest */
};

/* Whether folders are classes. They are not if no labels are asked for, or if a manifest has
 * them. */
static bool takes_classes(const struct class_folders *classes)
{
	return classes->job->asked != DATASET_LABELS_NONE &&
	       classes->job->asked != DATASET_LABELS_MANIFEST;
}

int class_folders_names(
	struct class_folders *classes, const char *const *names, size_t count, struct fault *fault)
{
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

bool class_folders_split_like(const char *name, size_t size)
{
	static const char *const splits[] = {"train", "val", "validation", "test", "eval"};
	for (size_t i = 0; i < UTIL_COUNT(splits); i++)
		if (strlen(splits[i]) == size && !strncasecmp(splits[i], name, size))
			return true;
	return false;
}

int class_folders_split_fault(const char *root, bool archive, char *const *classes, size_t count,
	const char *found, struct fault *fault)
{
	char names[160] = "";
	size_t used = 0;
	for (size_t i = 0; i < count; i++) {
		if (!strcasecmp(classes[i], "train"))
			found = classes[i];
		if (class_folders_split_like(classes[i], strlen(classes[i])) &&
			used + 16 < sizeof names)
			used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
				used ? ", " : "", classes[i]);
	}
	if (archive)
		return fault_set(fault, -EINVAL,
			"%s holds folders of folders that are named like splits (%s), so that "
			"these would be its classes: make an archive of each split, or unpack it "
			"and name the folder %s. If they are the classes, say nested: true "
			"(--nested); torchvision's ImageFolder takes both",
			root, names, found);
	return fault_set(fault, -EINVAL,
		"%s holds folders of folders that are named like splits (%s), so that these would "
		"be its classes: did you mean %s/%s? If they are the classes, say nested: true "
		"(--nested); torchvision's ImageFolder takes both",
		root, names, root, found);
}

int class_folders_directory(
	const struct class_folders *classes, const char *path, struct fault *fault)
{
	const struct index_job *job = classes->job;
	/* The classes are the folders in `path`, a folder in the root that holds folders. */
	const char *slash = strchr(path, '/');
	if (!slash || job->nested || !takes_classes(classes) ||
		!class_folders_split_like(path, (size_t)(slash - path)))
		return 0;
	char name[NAME_MAX + 1];
	(void)snprintf(name, sizeof name, "%.*s", (int)(slash - path), path);
	return class_folders_split_fault(job->path, strcmp(job->joint, "/") != 0, classes->names,
		classes->count, name, fault);
}

/* Finds the class of a path's first part. The walk goes through the classes in their order, and
 * has named all of them. */
static size_t class_of(struct class_folders *classes, const char *path, size_t part)
{
	size_t at = classes->current;
	while (at + 1 < classes->count &&
		(strncmp(classes->names[at], path, part) != 0 || classes->names[at][part]))
		at++;
	return classes->current = at;
}

static int mixture_check(const struct class_folders *classes, struct fault *fault)
{
	if (!takes_classes(classes) || !classes->flat[0] || !classes->nested[0])
		return 0;
	return fault_set(fault, -EINVAL,
		"%s holds both images (%s) and folders of images (%s): keep one of the two, or ask "
		"for labels: none",
		classes->job->path, classes->flat, classes->nested);
}

static int32_t class_label(struct class_folders *classes, const char *path)
{
	const char *slash = strchr(path, '/');
	char *first = slash ? classes->nested : classes->flat;
	if (!first[0])
		memcpy(first, path, strlen(path) + 1);
	if (!slash || !takes_classes(classes))
		return -1;
	size_t rank = class_of(classes, path, (size_t)(slash - path));
	classes->seen[rank] = true;
	classes->job->writer->head.direct += !strchr(slash + 1, '/');
	return (int32_t)rank;
}

static int image_write(
	struct class_folders *classes, struct index_sample *sample, struct fault *fault)
{
	const struct index_job *job = classes->job;
	const bool folder = strcmp(job->joint, "/") == 0;
	if (job->asked == DATASET_LABELS_MANIFEST)
		return index_sample_manifest(
			job, sample, folder ? NULL : job->path, &classes->found, fault);
	job->writer->head.label_type = LABEL_TYPE_CLASS;
	int rc = index_writer_name(job->writer, sample->name, sample->name_size, &sample->record);
	return rc < 0 ? rc
		      : index_writer_add(
				job->writer, &sample->record, sample->key, sample->key_size);
}

int class_folders_image(struct class_folders *classes, struct index_sample *sample,
	const char *path, struct fault *fault)
{
	struct index_head *head = &classes->job->writer->head;
	sample->record.label = class_label(classes, path);
	int rc = mixture_check(classes, fault);
	if (rc == 0)
		rc = image_write(classes, sample, fault);
	head->members += rc == 0;
	return rc;
}

/* What a file was passed over for: the extension in lower case; of a name without one, "" or a name
 * that READMEs have. Nothing but printable text. */
static void passed_text(const char *name, char ret[INDEX_PASSED_TEXT])
{
	static const char *const plain[] = {
		"README", "LICENSE", "LICENCE", "COPYING", "NOTICE", "AUTHORS", "CITATION"};
	const char *dot = strrchr(name, '.'), *text = dot ? dot : "";
	if (name[0] == '.')
		text = INDEX_PASSED_HIDDEN;
	for (size_t i = 0; !dot && i < UTIL_COUNT(plain); i++)
		if (!strcasecmp(name, plain[i]))
			text = plain[i];
	size_t size = utf8_cut(text, INDEX_PASSED_TEXT - 1);
	memcpy(ret, text, size);
	ret[size] = 0;
	bool good = utf8_is_valid(ret);
	for (char *c = ret; *c; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f || (!good && (unsigned char)*c > 0x7f))
			*c = '?';
		else if (dot && *c >= 'A' && *c <= 'Z')
			*c = (char)(*c - 'A' + 'a');
	}
}

static void passed_add(struct class_folders *classes, const char *text)
{
	struct passed *passed = classes->passed;
	size_t at = 0;
	while (at < classes->passed_kinds && strcmp(passed[at].text, text) < 0)
		at++;
	if (at < classes->passed_kinds && !strcmp(passed[at].text, text)) {
		passed[at].count++;
		return;
	}
	if (at == INDEX_PASSED_KINDS) {
		classes->passed_others++;
		return;
	}
	if (classes->passed_kinds == INDEX_PASSED_KINDS)
		classes->passed_others += passed[--classes->passed_kinds].count;
	memmove(&passed[at + 1], &passed[at], (classes->passed_kinds - at) * sizeof *passed);
	classes->passed_kinds++;
	passed[at].count = 1;
	(void)snprintf(passed[at].text, sizeof passed[at].text, "%s", text);
}

/* Kept for `penstock check` and for the warning: a user with 1,000 images in 10 formats who sees
 * 100 samples must not have to search for the others. */
void class_folders_other(struct class_folders *classes, const char *name)
{
	char text[INDEX_PASSED_TEXT];
	passed_text(name, text);
	passed_add(classes, text);
	classes->job->writer->head.members++;
}

static int passed_write(const struct class_folders *classes)
{
	struct index_writer *writer = classes->job->writer;
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < classes->passed_kinds; i++)
		rc = index_writer_entry(writer, 'X', (int64_t)classes->passed[i].count,
			classes->passed[i].text, strlen(classes->passed[i].text));
	if (rc == 0 && classes->passed_others)
		rc = index_writer_entry(writer, 'X', (int64_t)classes->passed_others,
			INDEX_PASSED_OTHERS, strlen(INDEX_PASSED_OTHERS));
	return rc;
}

static int empty_check(const struct class_folders *classes, struct fault *fault)
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
static int classes_settle(struct class_folders *classes, struct fault *fault)
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

int class_folders_end(struct class_folders *classes, struct fault *fault)
{
	int rc = classes_settle(classes, fault);
	return rc < 0 ? rc : passed_write(classes);
}

int class_folders_new(const struct index_job *job, struct class_folders **ret, struct fault *fault)
{
	struct class_folders *classes = calloc(1, sizeof *classes);
	if (!classes)
		return fault_set(fault, -ENOMEM, "no memory to index %s", job->path);
	classes->job = job;
	*ret = classes;
	return 0;
}

void class_folders_free(struct class_folders *classes)
{
	if (!classes)
		return;
	for (size_t i = 0; i < classes->count; i++)
		free(classes->names[i]);
	free(classes->names);
	free(classes->seen);
	free(classes);
}

/* dataset_fixture: a folder for each test of a dataset, small class folders and tars in it, and
 * what every dataset must answer. Every helper asserts its own success. */
#pragma once

#include "dataset/dataset.h"
#include "unit/source_fixture.h"

#include <errno.h>
#include <stdbool.h>

static char *root; /* this test's folder */
static char *cache; /* its cache folder: never the user's */
static struct fault fault; /* of the last call */

static inline int setup(void **state)
{
	root = fixture_folder();
	assert_true(asprintf(&cache, "%s/.cache/below", root) > 0);
	return 0;
}

static inline int teardown(void **state)
{
	free(cache);
	fixture_remove(root);
	return 0;
}

static inline char *in(const char *name)
{
	return fixture_path(root, name);
}

static inline int open_labels(const char *name, enum dataset_labels labels, struct dataset **ret)
{
	struct dataset_options options = {.cache_dir = cache, .labels = labels};
	(void)strcpy(fault.text, "");
	return dataset_open(in(name), &options, ret, &fault);
}

static inline struct dataset *open_good(const char *name)
{
	struct dataset *dataset = NULL;
	if (open_labels(name, DATASET_LABELS_AUTO, &dataset) < 0)
		fail_msg("%s", fault.text);
	return dataset;
}

static inline void expect_labels(
	const char *name, enum dataset_labels labels, int rc, const char *part)
{
	struct dataset *dataset = NULL;
	assert_int_equal(open_labels(name, labels, &dataset), rc);
	if (rc == 0)
		dataset_free(dataset);
	else if (!strstr(fault.text, part))
		fail_msg("%s: \"%s\" does not say \"%s\"", name, fault.text, part);
}

static inline void expect_fault(const char *name, int rc, const char *part)
{
	expect_labels(name, DATASET_LABELS_AUTO, rc, part);
}

static inline bool exists(const char *name)
{
	return access(in(name), F_OK) == 0;
}

/* Sample `number` must have this name, label and text. */
static inline void check(const struct dataset *dataset, uint64_t number, const char *name,
	int64_t label, const char *text)
{
	struct sample sample;
	char data[256] = "", path[8192];
	if (dataset_sample(dataset, number, &sample, &fault) < 0)
		fail_msg("%s", fault.text);
	assert_string_equal(sample.name, name);
	assert_int_equal(sample.number, number);
	assert_int_equal(sample.label, label);
	assert_int_equal(sample.size, strlen(text));
	assert_int_equal(dataset_read(dataset, &sample, data, sizeof data, &fault), 0);
	assert_string_equal(data, text);
	assert_int_equal(dataset_path(dataset, number, path, sizeof path, &fault), 0);
	assert_non_null(strstr(path, name));
	assert_int_equal(path[0], '/');
	assert_int_equal(path[strlen(path) - strlen(name) - 1],
		dataset_kind(dataset) == DATASET_TARS ? '!' : '/');
	assert_int_equal(dataset_path(dataset, number, path, 5, &fault), -ENAMETOOLONG);
	if (sample.size)
		assert_int_equal(
			dataset_read(dataset, &sample, data, sample.size - 1, &fault), -ENOBUFS);
}

static inline void make_classes(const char *name)
{
	char path[256];
	const char *const files[] = {"a/1.jpg", "a/2.JPEG", "a-b/1.png", "b/deep/1.jpg"};
	for (size_t i = 0; i < 4; i++) {
		(void)snprintf(path, sizeof path, "%s/%s", name, files[i]);
		fixture_file(root, path, files[i]);
	}
}

/* The samples [first, last) of make_classes as a tar, with labels as .cls (1), as .json (2) or
 * without (0). */
static inline void make_tar(const char *name, int labels, int first, int last, const char *front)
{
	static const char *const keys[] = {"a/1", "a/2", "a-b/1", "b/deep/1"};
	static const char *const extensions[] = {"jpg", "JPEG", "png", "jpg"};
	static const int label[] = {0, 0, 1, 2};
	struct fixture_tar tar = {0};
	for (int i = first; i < last; i++) {
		char member[256], text[256];
		if (labels) {
			(void)snprintf(member, sizeof member, "%s%s.%s", front, keys[i],
				labels == 1 ? "cls" : "json");
			(void)snprintf(text, sizeof text, labels == 1 ? "%d\n" : "{\"label\": %d}",
				label[i]);
			fixture_tar_member(&tar, member, text);
		}
		(void)snprintf(member, sizeof member, "%s%s.%s", front, keys[i], extensions[i]);
		(void)snprintf(text, sizeof text, "%s.%s", keys[i], extensions[i]);
		fixture_tar_member(&tar, member, text);
		fixture_tar_member(&tar, "folder without a key/README", "nothing");
	}
	fixture_tar_write(&tar, in(name));
}

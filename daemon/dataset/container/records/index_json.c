/* index_json: see index_json.h. */
#include "dataset/container/records/index_json.h"

#include "base/host/roots.h"
#include "base/text/json.h"
#include "base/util.h"
#include "dataset/blob.h"
#include "dataset/container/records/records.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static int text_parse(const char *folder, const char *text, size_t size, const char *list,
	json_t **ret, struct fault *fault)
{
	char quoted[32];
	json_error_t error;
	(void)snprintf(quoted, sizeof quoted, "\"%s\"", list);
	json_t *root = json_read(text, size, INDEX_JSON_PARTS, JSON_REJECT_DUPLICATES, &error);
	if (root && json_is_array(json_object_get(root, list))) {
		*ret = root;
		return 1;
	}
	const bool parsed = root != NULL;
	json_decref(root);
	if (parsed || !memmem(text, size, quoted, strlen(quoted)))
		return 0;
	return fault_set(fault, -EINVAL,
		"%s/index.json: line %d, column %d: %.160s: it is damaged or was cut off; copy it "
		"again from where it came from",
		folder, error.line, error.column, error.text);
}

int index_json_read(const char *folder, int fd, const char *list, json_t **ret, struct fault *fault)
{
	cleanup(free_ptr) char *path = NULL;
	cleanup(free_ptr) char *text = NULL;
	size_t size;
	int rc = index_json_exists(folder, fd, "index.json", fault);
	if (rc <= 0)
		return rc;
	if (asprintf(&path, "%s/index.json", folder) < 0) {
		path = NULL;
		return fault_set(fault, -ENOMEM, "no memory for the path of %s", folder);
	}
	rc = blob_is_url(path) ? 0 : roots_check("source", path, fault);
	if (rc == 0)
		rc = records_beside(path, "index.json", INDEX_JSON_MAX, &text, &size, fault);
	return rc <= 0 ? rc : text_parse(folder, text, size, list, ret, fault);
}

/* Whether the name stays below the folder. */
static bool name_below(const char *name)
{
	if (!*name)
		return false;
	for (const char *part = name;; part += strcspn(part, "/") + 1) {
		const size_t size = strcspn(part, "/");
		if (size == 0 || !strncmp(part, ".", size) || !strncmp(part, "..", size))
			return false;
		if (!part[size])
			return true;
	}
}

static int file_check(const char *path, const struct blob *blob, const struct index_file *file,
	struct fault *fault)
{
	struct blob now;
	uint8_t count[4];
	int rc = blob_look(blob, &now);
	if (rc < 0)
		return fault_set(fault, rc, "%s cannot be examined: %s", path, strerror(-rc));
	const uint64_t bytes = now.size;
	if (!now.regular || (file->more ? bytes < file->bytes : bytes != file->bytes))
		return fault_set(fault, -EINVAL,
			"%s has %llu bytes, but index.json beside it says %llu: it was cut off or "
			"belongs to another index.json; copy both again from where they came from",
			path, (unsigned long long)bytes, (unsigned long long)file->bytes);
	const ssize_t n = blob_read(blob, count, sizeof count, 0);
	if (n < 0)
		return fault_set(fault, (int)n, "%s cannot be read: %s", path, blob_error((int)n));
	if (n < (ssize_t)sizeof count || records_u32(count) != file->count)
		return fault_set(fault, -EINVAL,
			"%s: byte 0: it has %lld samples, but index.json beside it says %llu: one "
			"of them is damaged; copy both again from where they came from",
			path, n < (ssize_t)sizeof count ? -1LL : (long long)records_u32(count),
			(unsigned long long)file->count);
	return 0;
}

static int file_open(
	const char *path, int fd, const char *name, struct blob *ret, struct fault *fault)
{
	if (blob_is_url(path))
		return blob_open(path, ret, fault);
	int rc = roots_check("source", path, fault);
	if (rc < 0)
		return rc;
	*ret = BLOB_OF(openat(fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
	return ret->fd < 0
		       ? fault_set(fault, -errno, "%s cannot be opened: %s", path, strerror(errno))
		       : 0;
}

int index_json_add(const char *folder, int fd, const struct index_file *file,
	struct source_paths *paths, struct fault *fault)
{
	char *path = NULL;
	if (!file->name || !name_below(file->name))
		return fault_set(fault, -EINVAL,
			"%s/index.json names the file \"%.200s\": expected the name of a file in "
			"this folder or below it",
			folder, file->name ? file->name : "");
	if (asprintf(&path, "%s/%s", folder, file->name) < 0)
		return fault_set(fault, -ENOMEM, "no memory for the path of %s", file->name);
	cleanup(close_blob) struct blob blob = {.fd = -1};
	int rc = file_open(path, fd, file->name, &blob, fault);
	if (rc == -ENOENT) {
		free(path);
		return 0;
	}
	if (rc == 0)
		rc = file_check(path, &blob, file, fault);
	if (rc < 0) {
		free(path);
		return rc;
	}
	rc = source_paths_add(paths, path, fault);
	return rc < 0 ? rc : 1;
}

int index_json_exists(const char *folder, int fd, const char *name, struct fault *fault)
{
	if (!blob_is_url(folder))
		return faccessat(fd, name, F_OK, 0) == 0;
	cleanup(close_blob) struct blob blob = {.fd = -1};
	cleanup(free_ptr) char *url = NULL;
	if (asprintf(&url, "%s/%s", folder, name) < 0) {
		url = NULL;
		return fault_set(fault, -ENOMEM, "no memory for the path of %s", folder);
	}
	const int rc = blob_open(url, &blob, fault);
	return rc == -ENOENT ? 0 : rc < 0 ? rc : 1;
}

const char *index_json_text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

uint64_t index_json_number(const json_t *object, const char *key, uint64_t none)
{
	const json_t *value = json_object_get(object, key);
	const json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
	return number < 0 ? none : (uint64_t)number;
}

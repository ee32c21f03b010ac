/* records: see records.h. */
#include "dataset/container/records/records.h"

#include "base/util.h"
#include "base/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static bool begins(const uint8_t *bytes, size_t size, const char *magic, size_t magic_size)
{
	return size >= magic_size && !memcmp(bytes, magic, magic_size);
}

bool records_image(const uint8_t *bytes, size_t size, uint8_t *ret_format)
{
	static const struct {
		const char *magic;
		uint8_t size, format;
	} types[] = {
		{"\xff\xd8\xff", 3, SAMPLE_JPEG},
		{"\x89PNG\r\n\x1a\n", 8, SAMPLE_PNG},
		{"GIF87a", 6, SAMPLE_OTHER},
		{"GIF89a", 6, SAMPLE_OTHER},
		{"II*\0", 4, SAMPLE_OTHER},
		{"MM\0*", 4, SAMPLE_OTHER},
		{"BM", 2, SAMPLE_OTHER},
	};
	for (size_t i = 0; i < UTIL_COUNT(types); i++)
		if (begins(bytes, size, types[i].magic, types[i].size)) {
			*ret_format = types[i].format;
			return true;
		}
	*ret_format = SAMPLE_OTHER;
	if (size >= 12 && begins(bytes, size, "RIFF", 4))
		return !memcmp(bytes + 8, "WEBP", 4);
	if (size >= 12 && !memcmp(bytes + 4, "ftyp", 4))
		return !memcmp(bytes + 8, "avif", 4) || !memcmp(bytes + 8, "avis", 4);
	return size >= 3 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6' &&
	       strchr(" \t\r\n", bytes[2]) && bytes[2];
}

int records_begin(const struct index_job *job, const char *kind, struct fault *fault)
{
	const bool manifest = job->asked == DATASET_LABELS_MANIFEST;
	job->writer->head.source = manifest ? DATASET_LABELS_MANIFEST : DATASET_LABELS_NONE;
	if (manifest || job->asked == DATASET_LABELS_AUTO || job->asked == DATASET_LABELS_NONE)
		return 0;
	return fault_set(fault, -EINVAL,
		"%s is %s: its labels are in it (label_column says where) or come from a manifest, "
		"not from class folders or from .cls or .json files",
		job->path, kind);
}

bool records_labelled(const struct index_job *job)
{
	return job->asked == DATASET_LABELS_AUTO;
}

int records_class(const struct index_job *job, uint64_t row, int64_t value, struct fault *fault)
{
	struct label_found *found = job->found;
	const int64_t offset = job->columns->label_offset;
	const int64_t label = value > INT32_MAX || value < INT32_MIN ? INT64_MIN : value + offset;
	const int64_t most = found->type == LABEL_TYPE_MULTI_HOT ? LABEL_WIDTH_MAX - 1 : INT32_MAX;
	if (label < 0 || label > most)
		return fault_set(fault, -EINVAL,
			"%s: row %llu: its label is %lld, which with label_offset %lld is not a "
			"class from 0 to %lld: classes begin with 0, so correct label_offset "
			"(--label-offset), or ask for labels: none (--labels none) if the samples "
			"have none",
			job->path, (unsigned long long)row, (long long)value, (long long)offset,
			(long long)most);
	if (found->count == LABEL_VALUES_MAX)
		return fault_set(fault, -EINVAL, "%s: row %llu: a label has at most %d values",
			job->path, (unsigned long long)row, (int)LABEL_VALUES_MAX);
	if (found->count == 0)
		found->first = (int32_t)label;
	found->class[found->count++] = (uint32_t)label;
	return 0;
}

int records_number(const struct index_job *job, uint64_t row, double value, struct fault *fault)
{
	int rc = label_found_number(job->found, value, fault);
	return rc < 0 ? fault_prefix(fault, rc, "%s: row %llu", job->path, (unsigned long long)row)
		      : 0;
}

static int beside_read(int fd, const char *folder, const char *name, size_t most, char **ret,
	size_t *ret_size, struct fault *fault)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return fault_set(fault, -errno, "%s/%s cannot be examined: %s", folder, name,
			strerror(errno));
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > most)
		return fault_set(fault, -EINVAL,
			"%s/%s is not a regular file of at most %zu bytes: it is not the file that "
			"belongs to these shards",
			folder, name, most);
	char *text = malloc((size_t)st.st_size + 1);
	if (!text)
		return fault_set(fault, -ENOMEM, "no memory for %s/%s", folder, name);
	ssize_t n = whole_read(fd, text, (size_t)st.st_size, 0);
	if (n < 0) {
		free(text);
		return fault_set(
			fault, (int)n, "%s/%s cannot be read: %s", folder, name, strerror((int)-n));
	}
	text[n] = 0;
	*ret = text;
	*ret_size = (size_t)n;
	return 1;
}

int records_beside(const char *path, const char *name, size_t most, char **ret, size_t *ret_size,
	struct fault *fault)
{
	const char *slash = strrchr(path, '/');
	cleanup(free_ptr) char *folder =
		slash ? strndup(path, (size_t)(slash - path)) : strdup(".");
	cleanup(free_ptr) char *whole = NULL;
	if (!folder || asprintf(&whole, "%s/%s", folder, name) < 0) {
		whole = NULL;
		return fault_set(fault, -ENOMEM, "no memory for a path beside %s", path);
	}
	cleanup(close_fd) int fd = open(whole, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && (errno == ENOENT || errno == ENAMETOOLONG))
		return 0;
	if (fd < 0)
		return fault_set(fault, -errno, "%s cannot be opened: %s", whole, strerror(errno));
	return beside_read(fd, folder, name, most, ret, ret_size, fault);
}

size_t records_row(uint64_t row, char ret[RECORDS_ROW])
{
	char digits[RECORDS_ROW];
	size_t size = 0;
	do
		digits[size++] = (char)('0' + row % 10);
	while ((row /= 10) != 0);
	for (size_t i = 0; i < size; i++)
		ret[i] = digits[size - 1 - i];
	ret[size] = 0;
	return size;
}

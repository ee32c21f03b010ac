/* records: see records.h. */
#include "dataset/container/records/records.h"

#include "base/util.h"
#include "dataset/container/beside.h"

#include <errno.h>
#include <string.h>

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

void records_begin(const struct index_job *job)
{
	job->writer->head.source = job->asked == DATASET_LABELS_MANIFEST ? DATASET_LABELS_MANIFEST
									 : DATASET_LABELS_NONE;
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

int records_beside(const char *path, const char *name, size_t most, char **ret, size_t *ret_size,
	struct fault *fault)
{
	struct beside beside;
	char *text = NULL;
	int rc = beside_open(path, name, &beside, fault);
	if (rc == 0 && beside.size > most)
		rc = fault_set(fault, -EINVAL,
			"%s has %llu bytes, but at most %zu are allowed: it is not the file that "
			"belongs to these shards",
			beside.path, (unsigned long long)beside.size, most);
	if (rc == 0 && !(text = malloc((size_t)beside.size + 1)))
		rc = fault_set(fault, -ENOMEM, "no memory for %s", beside.path);
	const ssize_t n = rc == 0 ? blob_read(&beside.blob, text, (size_t)beside.size, 0) : 0;
	if (n < 0)
		rc = fault_set(
			fault, (int)n, "%s cannot be read: %s", beside.path, blob_error((int)n));
	beside_close(&beside);
	if (rc != 0) {
		free(text);
		return UTIL_MIN(rc, 0);
	}
	text[n] = 0;
	*ret = text;
	*ret_size = (size_t)n;
	return 1;
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

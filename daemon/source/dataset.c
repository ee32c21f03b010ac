/* dataset: see dataset.h. Answers about a dataset that dataset_open.c has opened. Nothing here
 * changes it but the table of lent index files, which locks itself; so any thread may ask. */
#include "source/dataset.h"

#include "base/util.h"
#include "source/dataset_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

enum dataset_kind dataset_kind(const struct dataset *dataset)
{
	return dataset->kind;
}

uint64_t dataset_count(const struct dataset *dataset)
{
	return dataset->count;
}

uint64_t dataset_bytes(const struct dataset *dataset)
{
	return dataset->bytes;
}

uint64_t dataset_largest(const struct dataset *dataset)
{
	return dataset->largest;
}

uint64_t dataset_fingerprint(const struct dataset *dataset)
{
	return dataset->fingerprint;
}

bool dataset_labelled(const struct dataset *dataset)
{
	return dataset->labelled;
}

uint32_t dataset_classes(const struct dataset *dataset)
{
	return dataset->classes;
}

const char *dataset_class_name(const struct dataset *dataset, uint32_t label)
{
	return label < dataset->classes ? dataset->class_names[label] : NULL;
}

uint32_t dataset_shards(const struct dataset *dataset)
{
	return dataset->shards;
}

const char *dataset_shard_path(const struct dataset *dataset, uint32_t shard)
{
	return dataset->shard[shard].path;
}

const char *dataset_notice(const struct dataset *dataset)
{
	return dataset->notice;
}

uint64_t dataset_indexed_ns(const struct dataset *dataset)
{
	return dataset->indexed_ns;
}

int dataset_root_fd(const struct dataset *dataset)
{
	return dataset->root_fd;
}

/* The last shard whose first sample is not after `number`: empty shards share their `first` with
 * the next one. */
static uint32_t shard_of(const struct dataset *dataset, uint64_t number)
{
	uint32_t low = 0, high = dataset->shards;
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;
		if (dataset->shard[middle].first <= number)
			low = middle;
		else
			high = middle;
	}
	return low;
}

int dataset_locate(const struct dataset *dataset, uint64_t number, struct dataset_page *ret)
{
	if (number >= dataset->count)
		return -ERANGE;
	uint32_t shard = shard_of(dataset, number);
	const struct dataset_shard *s = &dataset->shard[shard];
	uint64_t inside = number - s->first;
	uint64_t page = 1 + inside / INDEX_RECORDS;
	*ret = (struct dataset_page){
		.shard = shard,
		.slot = (uint32_t)(inside % INDEX_RECORDS),
		.page = page,
		.offset = s->index_base + page * INDEX_PAGE,
	};
	return 0;
}

static const char *index_name(const struct dataset_shard *shard)
{
	return shard->index_path ? shard->index_path : "the index in a temporary file";
}

/* Labels of a labelled dataset are at least 0, and below the number of classes where there are
 * class folders. */
static bool label_fits(
	const struct dataset *dataset, const struct dataset_shard *shard, int32_t label)
{
	if (shard->source == DATASET_LABELS_NONE)
		return label == -1;
	return label >= 0 && (shard->source != DATASET_LABELS_FOLDER || !dataset->labelled ||
				     (uint32_t)label < dataset->classes);
}

int dataset_record(const struct dataset *dataset, const struct dataset_page *at,
	const uint8_t *page, struct index_record *ret, struct fault *fault)
{
	const struct dataset_shard *shard = &dataset->shard[at->shard];
	struct index_record record;
	int rc = index_page_record(page, at->page, at->slot, &record, fault);
	if (rc < 0)
		return fault_prefix(fault, rc, "%s", index_name(shard));
	bool inside = dataset->kind == DATASET_FOLDER
			      ? record.offset == 0
			      : record.offset <= shard->size &&
					record.size <= shard->size - record.offset;
	if (!inside || !label_fits(dataset, shard, record.label) ||
		record.name_page >= shard->name_pages ||
		(record.format != SAMPLE_JPEG && record.format != SAMPLE_PNG))
		return fault_set(fault, -EIO,
			"%s: record %u of page %llu cannot be true of %s: delete the index, it is "
			"built again",
			index_name(shard), at->slot, (unsigned long long)at->page, shard->path);
	if (!dataset->labelled)
		record.label = -1;
	*ret = record;
	return 0;
}

int dataset_locate_name(const struct dataset *dataset, uint32_t shard,
	const struct index_record *record, struct dataset_page *ret, struct fault *fault)
{
	const struct dataset_shard *s = &dataset->shard[shard];
	if (record->name_page >= s->name_pages)
		return fault_set(fault, -EIO,
			"%s: no name page %llu: delete the index, it is built again", index_name(s),
			(unsigned long long)record->name_page);
	uint64_t page = 1 + s->record_pages + record->name_page;
	*ret = (struct dataset_page){.shard = shard,
		.slot = 0,
		.page = page,
		.offset = s->index_base + page * INDEX_PAGE};
	return 0;
}

int dataset_index_acquire(
	const struct dataset *dataset, uint32_t shard, int *ret_fd, struct fault *fault)
{
	if (!dataset->shard[shard].index_path) {
		*ret_fd = dataset->scratch_fd;
		return 0;
	}
	return lend_acquire(dataset->lend, shard, ret_fd, fault);
}

void dataset_index_release(const struct dataset *dataset, uint32_t shard)
{
	if (dataset->shard[shard].index_path)
		lend_release(dataset->lend, shard);
}

uint32_t dataset_index_files(const struct dataset *dataset)
{
	return lend_slots(dataset->lend);
}

int dataset_page_read(const struct dataset *dataset, const struct dataset_page *at, uint8_t *buffer,
	struct fault *fault)
{
	int fd;
	int rc = dataset_index_acquire(dataset, at->shard, &fd, fault);
	if (rc < 0)
		return rc;
	rc = index_read(fd, at->offset, buffer, INDEX_PAGE, fault);
	dataset_index_release(dataset, at->shard);
	return rc < 0 ? fault_prefix(fault, rc, "%s", index_name(&dataset->shard[at->shard])) : 0;
}

/* dataset: see dataset.h. Answers questions about a dataset that dataset_open.c has opened. Nothing
 * here changes the dataset except the table of open index files, which has its own lock; so any
 * thread may ask. */
#include "dataset/dataset.h"

#include "base/host/limits.h"
#include "base/store.h"
#include "base/util.h"
#include "base/whole.h"
#include "dataset/dataset_impl.h"
#include "dataset/mtime.h"
#include "remote/object.h"
#include "unpack/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

enum dataset_kind dataset_kind(const struct dataset *dataset)
{
	return dataset->kind;
}

const char *dataset_kind_name(const struct dataset *dataset)
{
	return dataset->container->name;
}

bool dataset_has_fields(const struct dataset *dataset)
{
	return dataset->container->fields;
}

bool dataset_has_columns(const struct dataset *dataset)
{
	return dataset->container->columns;
}

bool dataset_in_files(const struct dataset *dataset)
{
	return dataset->container->files;
}

bool dataset_remote(const struct dataset *dataset)
{
	return blob_is_url(dataset->shard[0].path);
}

struct remote_object *dataset_shard_remote(const struct dataset *dataset, uint32_t shard)
{
	return dataset->shard[shard].remote;
}

bool dataset_packed(const struct dataset *dataset)
{
	for (uint32_t i = 0; i < dataset->shards; i++)
		if (dataset->shard[i].packed)
			return true;
	return false;
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

uint64_t dataset_passed(const struct dataset *dataset)
{
	return dataset->passed;
}

const char *dataset_passed_text(const struct dataset *dataset)
{
	return dataset->passed_text;
}

bool dataset_labelled(const struct dataset *dataset)
{
	return dataset->labelled;
}

enum dataset_labels dataset_label_source(const struct dataset *dataset)
{
	/* All shards with samples agree. */
	uint32_t i = 0;
	while (i + 1 < dataset->shards && !dataset->shard[i].samples)
		i++;
	return dataset->labelled ? (enum dataset_labels)dataset->shard[i].source
				 : DATASET_LABELS_NONE;
}

enum label_type dataset_label_type(const struct dataset *dataset)
{
	return dataset->label_type;
}

uint32_t dataset_label_width(const struct dataset *dataset)
{
	return dataset->label_width;
}

uint64_t dataset_label_bytes(const struct dataset *dataset)
{
	const bool whole = dataset->label_type == LABEL_TYPE_CLASSES;
	return dataset->label_width * (whole ? sizeof(int64_t) : sizeof(float));
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

const char *dataset_warning(const struct dataset *dataset, uint32_t number)
{
	return number < dataset->warnings ? dataset->warning[number] : NULL;
}

uint64_t dataset_indexed_ns(const struct dataset *dataset)
{
	return dataset->indexed_ns;
}

int dataset_root_fd(const struct dataset *dataset)
{
	return dataset->root_fd;
}

/* The head's checksum counts too: dataset_index_acquire refuses an index that replaced the opened
 * one. */
static bool shard_same(const struct dataset_shard *a, const struct dataset_shard *b)
{
	return strcmp(a->path, b->path) == 0 && a->dev == b->dev && a->ino == b->ino &&
	       a->size == b->size && a->mtime_ns == b->mtime_ns && a->head_crc == b->head_crc &&
	       a->source == b->source;
}

bool dataset_same(const struct dataset *a, const struct dataset *b)
{
	if (a->kind != b->kind || a->shards != b->shards || a->labelled != b->labelled ||
		a->fingerprint != b->fingerprint || a->rule != b->rule || a->fields != b->fields ||
		a->warnings != b->warnings)
		return false;
	for (uint32_t i = 0; i < a->shards; i++)
		if (!shard_same(&a->shard[i], &b->shard[i]))
			return false;
	return true;
}

/* The last shard whose first sample is not after `number`: an empty shard has the same `first` as
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
	const uint32_t records = index_records(s->version);
	uint64_t page = 1 + inside / records;
	*ret = (struct dataset_page){
		.shard = shard,
		.slot = (uint32_t)(inside % records),
		.page = page,
		.offset = s->index_base + page * INDEX_PAGE,
	};
	return 0;
}

static const char *index_name(const struct dataset_shard *shard)
{
	return shard->index_path ? shard->index_path : "the index in a temporary file";
}

/* A label must agree with what the index's head says about all of them. */
static bool label_fits(
	const struct dataset *dataset, const struct dataset_shard *shard, int32_t label)
{
	if (shard->source == DATASET_LABELS_NONE)
		return label == -1;
	if ((dataset->label_type != LABEL_TYPE_CLASS || !dataset->labelled) && label == -1)
		return true;
	return label >= 0 && (shard->classes == 0 || (uint32_t)label < shard->classes);
}

/* Whether a record's bytes can be packed in this way. The head says whether any are: streams make
 * what unpacking needs by it. */
static bool packed_known(
	const struct dataset_shard *shard, const struct packed *packed, uint32_t size)
{
	return packed_sound(packed, size) && (packed->method == PACKED_NONE || shard->packed);
}

int dataset_record(const struct dataset *dataset, const struct dataset_page *at,
	const uint8_t *page, bool checked, struct index_record *ret, uint64_t *ret_position,
	struct fault *fault)
{
	const struct dataset_shard *shard = &dataset->shard[at->shard];
	struct index_record record = {0};
	int rc = index_page_record(page, checked, at->page, at->slot, &record, fault);
	if (rc < 0)
		return fault_prefix(fault, rc, "%s", index_name(shard));
	bool folder = dataset->container->files;
	uint64_t end = folder ? shard->bytes : shard->size;
	uint64_t stored = packed_stored(&record.packed, record.size);
	bool inside = record.offset <= end && stored <= end - record.offset &&
		      record.position <= UINT64_MAX - record.size;
	const bool packed = shard->version == INDEX_VERSION_PACKED;
	/* Positions are places in the sidecar file, whose size depends on the samples' bytes. */
	if (packed)
		inside = inside && record.size <= shard->bytes &&
			 record.position <= shard->bytes - record.size;
	/* A page of the other kind has other records, and another number of them. */
	if (index_page_is_packed(page) != packed || !inside ||
		!packed_known(shard, &record.packed, record.size) ||
		!label_fits(dataset, shard, record.label) ||
		record.name_page >= shard->name_pages || record.fields != dataset->field_count ||
		record.format < SAMPLE_JPEG || record.format > SAMPLE_OTHER)
		return fault_set(fault, -EIO,
			"%s: record %u of page %llu cannot describe a sample of %s: delete the "
			"index, it will be built again",
			index_name(shard), at->slot, (unsigned long long)at->page, shard->path);
	if (!dataset->labelled)
		record.label = -1;
	*ret_position = record.position;
	if (folder)
		record.offset = 0;
	*ret = record;
	return 0;
}

int dataset_locate_name(const struct dataset *dataset, uint32_t shard,
	const struct index_record *record, struct dataset_page *ret, struct fault *fault)
{
	const struct dataset_shard *s = &dataset->shard[shard];
	if (record->name_page >= s->name_pages)
		return fault_set(fault, -EIO,
			"%s: name page %llu does not exist: delete the index, it will be built "
			"again",
			index_name(s), (unsigned long long)record->name_page);
	uint64_t page = 1 + s->record_pages + record->name_page;
	*ret = (struct dataset_page){.shard = shard,
		.slot = 0,
		.page = page,
		.offset = s->index_base + page * INDEX_PAGE};
	return 0;
}

/* Whether the open file is the index that was loaded. */
static int index_same(const struct dataset_shard *shard, int fd, struct fault *fault)
{
	struct index_head head;
	uint32_t crc;
	struct stat st;
	if (fstat(fd, &st) < 0)
		return fault_set(fault, -errno, "%s cannot be examined: %s", shard->index_path,
			strerror(errno));
	if (index_head_read(fd, 0, (uint64_t)st.st_size, &head, &crc) != 0 ||
		crc != shard->head_crc)
		return fault_set(fault, -ESTALE,
			"%s was replaced by another index after the dataset was opened: open the "
			"dataset again",
			shard->index_path);
	return 0;
}

/* For index_files: opens an index again that was closed to make room. */
static int index_reopen(const void *context, uint32_t number, struct fault *fault)
{
	const struct dataset *dataset = context;
	const struct dataset_shard *shard = &dataset->shard[number];
	int fd = open(shard->index_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return fault_set(fault, -errno, "%s cannot be opened: %s%s", shard->index_path,
			strerror(errno), limits_hint(errno));
	int rc = index_same(shard, fd, fault);
	if (rc < 0) {
		(void)close(fd);
		return rc;
	}
	return fd;
}

int dataset_index_files_new(struct dataset *dataset)
{
	struct rlimit limit = {.rlim_cur = 1024};
	(void)getrlimit(RLIMIT_NOFILE, &limit);
	return index_files_new(dataset->shards, index_files_slots_for(limit.rlim_cur), index_reopen,
		dataset, &dataset->index_files);
}

int dataset_index_acquire(
	const struct dataset *dataset, uint32_t shard, int *ret_fd, struct fault *fault)
{
	if (!dataset->shard[shard].index_path) {
		*ret_fd = dataset->scratch_fd;
		return 0;
	}
	return index_files_acquire(dataset->index_files, shard, ret_fd, fault);
}

void dataset_index_release(const struct dataset *dataset, uint32_t shard)
{
	if (dataset->shard[shard].index_path)
		index_files_release(dataset->index_files, shard);
}

uint32_t dataset_index_files(const struct dataset *dataset)
{
	return index_files_slots(dataset->index_files);
}

int dataset_page_read(const struct dataset *dataset, const struct dataset_page *at, uint8_t *buffer,
	struct fault *fault)
{
	enum { WAIT_NS = 100000, WAITS = 20000 };
	int fd;
	int rc = dataset_index_acquire(dataset, at->shard, &fd, fault);
	/* Several threads may wait for an index file; each holds one only while it reads. The wait
	 * is bounded, because this thread may itself hold the file that the others wait for. */
	for (int i = 0; rc == -EAGAIN && i < WAITS; i++) {
		(void)nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
		rc = dataset_index_acquire(dataset, at->shard, &fd, fault);
	}
	if (rc < 0)
		return rc;
	rc = index_read(fd, at->offset, buffer, INDEX_PAGE, fault);
	dataset_index_release(dataset, at->shard);
	return rc < 0 ? fault_prefix(fault, rc, "%s", index_name(&dataset->shard[at->shard])) : 0;
}

/* A path from an index must stay below the folder, even if the index was forged. */
static bool path_stays_below(const char *path)
{
	if (path[0] == '/')
		return false;
	for (const char *at = path; at; at = strchr(at, '/')) {
		at += *at == '/';
		if (at[0] == '.' && at[1] == '.' && (at[2] == '/' || at[2] == 0))
			return false;
	}
	return true;
}

int dataset_name(const struct dataset *dataset, uint32_t shard, const struct index_record *record,
	const uint8_t *page, bool checked, char *buffer, size_t room, struct fault *fault)
{
	const char *index = index_name(&dataset->shard[shard]);
	int rc = index_page_name(page, checked, record, buffer, room, fault);
	if (rc < 0)
		return fault_prefix(fault, rc, "%s", index);
	if (strlen(buffer) != record->name_size ||
		(dataset->container->files && !path_stays_below(buffer)))
		return fault_set(fault, -EIO,
			"%s: a name in it is not a path below %s: delete the index, it will be "
			"built again",
			index, dataset->shard[shard].path);
	return 0;
}

_Static_assert((int)DATASET_ETAG == (int)INDEX_ETAG, "one ETag");

int dataset_etag(const struct dataset *dataset, uint32_t shard, const struct index_record *record,
	const uint8_t *page, bool checked, char *buffer, struct fault *fault)
{
	const struct dataset_shard *s = &dataset->shard[shard];
	int rc = index_page_etag(page, checked, s->version, record, buffer, fault);
	return rc < 0 ? fault_prefix(fault, rc, "%s", index_name(s)) : 0;
}

/* False: one of them is not below `classes` (0: no bound but that of all classes). */
static bool values_classes(const uint8_t *label, uint32_t count, uint32_t classes, int64_t *values)
{
	bool fit = true;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t class;
		memcpy(&class, label + i * sizeof class, sizeof class);
		fit &= class <= INT32_MAX && (!classes || class < classes);
		values[i] = class;
	}
	return fit;
}

static void values_hot(const uint8_t *label, uint32_t count, uint32_t width, float *values)
{
	memset(values, 0, width * sizeof *values);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t class;
		memcpy(&class, label + i * sizeof class, sizeof class);
		if (class < width)
			values[class] = 1;
	}
}

int dataset_values(const struct dataset *dataset, uint32_t shard, const struct index_record *record,
	const uint8_t *page, bool checked, void *values, struct fault *fault)
{
	const struct dataset_shard *s = &dataset->shard[shard];
	const uint32_t width = dataset->label_width;
	const bool hot = dataset->label_type == LABEL_TYPE_MULTI_HOT;
	const uint8_t *label;
	int rc = index_page_label(page, checked, record, &label, fault);
	if (rc < 0)
		return fault_prefix(fault, rc, "%s", index_name(s));
	if (record->label_size % sizeof(float) ||
		(!hot && record->label_size != width * sizeof(float)))
		return fault_set(fault, -EIO,
			"%s: a label in it has %u bytes: delete the index, it will be built again",
			index_name(s), record->label_size);
	if (hot)
		values_hot(label, record->label_size / sizeof(uint32_t), width, values);
	else if (dataset->label_type != LABEL_TYPE_CLASSES)
		memcpy(values, label, record->label_size);
	else if (!values_classes(label, width, s->classes, values))
		return fault_set(fault, -EIO,
			"%s: a label in it is not a class: delete the index, it will be built "
			"again",
			index_name(s));
	return 0;
}

int dataset_field(const struct dataset *dataset, uint32_t shard, const struct index_record *record,
	const uint8_t *page, bool checked, uint32_t number, struct index_field *ret,
	struct fault *fault)
{
	const struct dataset_shard *s = &dataset->shard[shard];
	struct index_field field = {0};
	int rc = index_page_field(page, checked, record, number, &field, fault);
	if (rc < 0)
		return fault_prefix(fault, rc, "%s", index_name(s));
	if (!field.present)
		field = (struct index_field){0};
	uint64_t stored = packed_stored(&field.packed, field.size);
	if (field.offset > s->size || stored > s->size - field.offset ||
		!packed_known(s, &field.packed, field.size))
		return fault_set(fault, -EIO,
			"%s: a field in it is not within %s: delete the index, it will be built "
			"again",
			index_name(s), s->path);
	*ret = field;
	return 0;
}

int dataset_name_page(const struct dataset *dataset, uint64_t number, struct dataset_page *at,
	struct index_record *record, uint64_t *position, uint8_t *page, struct fault *fault)
{
	if (dataset_locate(dataset, number, at) < 0)
		return fault_set(fault, -ERANGE,
			"sample %llu does not exist: the dataset has %llu samples",
			(unsigned long long)number, (unsigned long long)dataset->count);
	int rc = dataset_page_read(dataset, at, page, fault);
	if (rc == 0)
		rc = dataset_record(dataset, at, page, false, record, position, fault);
	if (rc == 0)
		rc = dataset_locate_name(dataset, at->shard, record, at, fault);
	return rc < 0 ? rc : dataset_page_read(dataset, at, page, fault);
}

int dataset_sample_values(
	const struct dataset *dataset, uint64_t number, void *values, struct fault *fault)
{
	struct dataset_page at;
	struct index_record record = {0};
	uint64_t position;
	uint8_t page[INDEX_PAGE];
	int rc = dataset_name_page(dataset, number, &at, &record, &position, page, fault);
	return rc < 0 ? rc : dataset_values(dataset, at.shard, &record, page, false, values, fault);
}

int dataset_sample(
	const struct dataset *dataset, uint64_t number, struct sample *ret, struct fault *fault)
{
	struct dataset_page at;
	struct index_record record = {0};
	uint64_t position = 0;
	uint8_t page[INDEX_PAGE];
	int rc = dataset_name_page(dataset, number, &at, &record, &position, page, fault);
	char name[sizeof ret->name], etag[sizeof ret->etag];
	if (rc == 0)
		rc = dataset_name(
			dataset, at.shard, &record, page, false, name, sizeof name, fault);
	if (rc == 0)
		rc = dataset_etag(dataset, at.shard, &record, page, true, etag, fault);
	if (rc < 0)
		return rc;
	*ret = (struct sample){
		.number = number,
		.shard = at.shard,
		.size = record.size,
		.offset = record.offset,
		.position = position,
		.label = record.label,
		.format = record.format,
		.packed = record.packed,
	};
	memcpy(ret->name, name, record.name_size + 1u);
	memcpy(ret->etag, etag, strlen(etag) + 1);
	return 0;
}

int dataset_path(const struct dataset *dataset, uint64_t number, char *buffer, size_t room,
	struct fault *fault)
{
	struct sample sample;
	int rc = dataset_sample(dataset, number, &sample, fault);
	if (rc < 0)
		return rc;
	const char *path = dataset->shard[sample.shard].path;
	const char *between = strcmp(path, "/") ? dataset->container->joint : "";
	int n = snprintf(buffer, room, "%s%s%s", path, between, sample.name);
	if (n < 0 || (size_t)n >= room)
		return fault_set(fault, -ENAMETOOLONG,
			"the path of sample %llu has %d bytes, but there is room for %zu",
			(unsigned long long)number, n, room);
	return 0;
}

static bool is_same_file(const struct dataset_shard *shard, const struct stat *st)
{
	return st->st_dev == shard->dev && st->st_ino == shard->ino &&
	       mtime_of(st) == shard->mtime_ns &&
	       (S_ISDIR(st->st_mode) || (uint64_t)st->st_size == shard->size);
}

static bool is_same_blob(const struct dataset_shard *shard, const struct blob *now)
{
	return now->dev == shard->dev && now->ino == shard->ino && now->stamp == shard->mtime_ns &&
	       now->size == shard->size;
}

static int fault_changed(const struct dataset_shard *shard, struct fault *fault)
{
	return fault_set(fault, -ESTALE,
		"%s changed after the dataset was opened: open the dataset again, and write new "
		"shards under new names",
		shard->path);
}

int dataset_verify_shard(const struct dataset *dataset, uint32_t shard, struct fault *fault)
{
	const struct dataset_shard *s = &dataset->shard[shard];
	struct stat st;
	/* A read of an object that was replaced says so itself. */
	if (s->remote)
		return 0;
	if (stat(s->path, &st) < 0)
		return fault_set(fault, errno == ENOENT ? -ESTALE : -errno,
			"%s cannot be examined: %s (put it back, or open the dataset again)",
			s->path, strerror(errno));
	return is_same_file(s, &st) ? 0 : fault_changed(s, fault);
}

int dataset_verify_file(const struct dataset *dataset, uint32_t shard, int fd)
{
	struct stat st;
	return fstat(fd, &st) == 0 && is_same_file(&dataset->shard[shard], &st) ? 0 : -ESTALE;
}

int dataset_verify_blob(const struct dataset *dataset, uint32_t shard, const struct blob *blob)
{
	struct blob now;
	return blob_look(blob, &now) == 0 && is_same_blob(&dataset->shard[shard], &now) ? 0
											: -ESTALE;
}

int dataset_verify_object(const struct dataset *dataset, uint32_t shard, uint64_t size,
	int64_t stamp, struct fault *fault)
{
	const struct dataset_shard *s = &dataset->shard[shard];
	return s->size == size && s->mtime_ns == stamp ? 0 : fault_changed(s, fault);
}

/* A sample that is an object of its own. */
static int sample_connect(const struct dataset_shard *shard, const struct sample *sample,
	struct blob *ret, struct fault *fault)
{
	cleanup(free_ptr) char *url = NULL;
	*ret = BLOB_OF(-1);
	if (asprintf(&url, "%s/%s", shard->path, sample->name) < 0) {
		url = NULL;
		return fault_set(fault, -ENOMEM, "no memory for the URL of a sample");
	}
	return sample->etag[0] ? blob_open_listed(url, sample->size, sample->etag, ret, fault)
			       : blob_open(url, ret, fault);
}

static int sample_open(const struct dataset *dataset, const struct sample *sample, struct blob *ret,
	struct fault *fault)
{
	const struct dataset_shard *shard = &dataset->shard[sample->shard];
	bool folder = dataset->container->files;
	if (shard->remote) {
		*ret = blob_of_remote(shard->remote);
		return 0;
	}
	if (folder && dataset_remote(dataset))
		return sample_connect(shard, sample, ret, fault);
	*ret = BLOB_OF(
		folder ? openat(dataset->root_fd, sample->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
		       : open(shard->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
	if (ret->fd >= 0)
		return 0;
	int error = errno, rc = -error;
	bool gone = error == ENOENT || (folder && (error == ENOTDIR || error == ELOOP));
	if (gone)
		rc = folder ? -ENOENT : -ESTALE;
	return fault_set(fault, rc, "%s%s%s cannot be opened: %s", shard->path, folder ? "/" : "",
		folder ? sample->name : "", strerror(error));
}

static int sample_check(const struct dataset *dataset, const struct sample *sample,
	const struct blob *blob, int64_t *ret_stamp, struct fault *fault)
{
	const struct dataset_shard *shard = &dataset->shard[sample->shard];
	struct blob now;
	int rc = blob_look(blob, &now);
	if (rc < 0)
		return fault_set(
			fault, rc, "%s cannot be examined: %s", shard->path, strerror(-rc));
	*ret_stamp = now.stamp;
	if (!dataset->container->files)
		return is_same_blob(shard, &now) ? 0 : fault_changed(shard, fault);
	if (!now.regular || now.size != sample->size)
		return fault_set(fault, -ESTALE,
			"%s/%s has %llu bytes, but %s says %u: delete the index, or run penstock "
			"check on the folder: it will be built again",
			shard->path, sample->name, (unsigned long long)now.size, index_name(shard),
			sample->size);
	return 0;
}

static int sample_pread(
	const struct sample *sample, const struct blob *blob, uint8_t *buffer, struct fault *fault)
{
	ssize_t n = blob_read(blob, buffer, sample->size, sample->offset);
	if (n < 0)
		return fault_set(fault, (int)n, "sample %llu (%s) cannot be read: %s",
			(unsigned long long)sample->number, sample->name, blob_error((int)n));
	if ((size_t)n < sample->size)
		return fault_set(fault, -ENODATA, "sample %llu (%s) ends after %zd of %u bytes",
			(unsigned long long)sample->number, sample->name, n, sample->size);
	return 0;
}

/* Copies the sample to the file `to`. *ret_unwritten: -errno where that one fails. */
static int sample_copy(const struct sample *sample, const struct blob *blob, int to,
	int *ret_unwritten, struct fault *fault)
{
	uint8_t piece[64 << 10];
	for (uint32_t at = 0; at < sample->size;) {
		struct sample part = *sample;
		part.offset += at;
		part.size = UTIL_MIN(sample->size - at, (uint32_t)sizeof piece);
		int rc = sample_pread(&part, blob, piece, fault);
		if (rc == -ENODATA)
			return fault_set(fault, rc, "sample %llu (%s) ends before its %u bytes",
				(unsigned long long)sample->number, sample->name, sample->size);
		if (rc)
			return rc;
		*ret_unwritten = whole_write(to, piece, part.size, at);
		if (*ret_unwritten)
			return *ret_unwritten;
		at += part.size;
	}
	return 0;
}

/* Why a packed sample could not be unpacked, with the name of the sample. -EPROTO: its bytes are at
 * fault. */
static int unpack_fault(const struct sample *sample, int rc, struct fault *fault)
{
	(void)fault_prefix(
		fault, rc, "sample %llu (%s)", (unsigned long long)sample->number, sample->name);
	return rc == -EBADMSG || rc == -EOPNOTSUPP ? -EPROTO : rc;
}

/* Copies what is left of a stream to the file `to`. */
static int unpack_copy(struct unpack *unpack, int to, int *ret_unwritten, struct fault *fault)
{
	uint8_t piece[64 << 10];
	size_t size = 0;
	uint64_t at = 0;
	for (;; at += size) {
		int rc = unpack_read(unpack, piece, sizeof piece, &size, fault);
		if (rc < 0 || !size)
			return rc;
		*ret_unwritten = whole_write(to, piece, size, at);
		if (*ret_unwritten)
			return *ret_unwritten;
	}
}

/* As sample_pread or sample_copy, for a packed sample. */
static int sample_unpack(const struct sample *sample, const struct blob *blob, void *buffer, int to,
	int *ret_unwritten, struct fault *fault)
{
	struct blob_part part = {.blob = blob, .offset = sample->offset};
	const struct unpack_source source = {
		.read = blob_part_read, .why = blob_error, .context = &part};
	struct unpack *unpack = unpack_new();
	size_t size;
	if (!unpack)
		return fault_set(fault, -ENOMEM, "no memory to unpack sample %llu",
			(unsigned long long)sample->number);
	int rc = unpack_begin_sample(unpack, &sample->packed, sample->size, &source, fault);
	if (rc == 0)
		rc = buffer ? unpack_read(unpack, buffer, sample->size, &size, fault)
			    : unpack_copy(unpack, to, ret_unwritten, fault);
	unpack_free(unpack);
	return rc < 0 && !*ret_unwritten ? unpack_fault(sample, rc, fault) : rc;
}

static int sample_take(const struct sample *sample, const struct blob *blob, void *buffer, int to,
	int *ret_unwritten, struct fault *fault)
{
	if (sample->packed.method != PACKED_NONE)
		return sample_unpack(sample, blob, buffer, to, ret_unwritten, fault);
	return buffer ? sample_pread(sample, blob, buffer, fault)
		      : sample_copy(sample, blob, to, ret_unwritten, fault);
}

/* Reads into `buffer`, or if that is NULL into the file `to`. */
static int sample_read(const struct dataset *dataset, const struct sample *sample, void *buffer,
	int to, int *ret_unwritten, struct fault *fault)
{
	cleanup(close_blob) struct blob blob = {0};
	int rc = sample_open(dataset, sample, &blob, fault);
	int64_t before = 0, after = 0;
	if (rc == 0)
		rc = sample_check(dataset, sample, &blob, &before, fault);
	if (rc < 0)
		return rc;
	rc = sample_take(sample, &blob, buffer, to, ret_unwritten, fault);
	/* Bytes that do not unpack may be those of a shard that was written meanwhile. */
	if (rc == 0 || rc == -EPROTO) {
		struct fault changed;
		int checked = sample_check(dataset, sample, &blob, &after, &changed);
		if (checked < 0) {
			rc = checked;
			*fault = changed;
		}
	}
	if (rc == 0 && before != after)
		rc = fault_set(fault, -ESTALE, "sample %llu (%s) was changed while it was read",
			(unsigned long long)sample->number, sample->name);
	return rc;
}

int dataset_read(const struct dataset *dataset, const struct sample *sample, void *buffer,
	size_t room, struct fault *fault)
{
	int unwritten = 0;
	if (room < sample->size)
		return fault_set(fault, -ENOBUFS,
			"sample %llu has %u bytes, but there is room for %zu",
			(unsigned long long)sample->number, sample->size, room);
	return sample_read(dataset, sample, buffer, -1, &unwritten, fault);
}

int dataset_copy(const struct dataset *dataset, const struct sample *sample, int to,
	int *ret_unwritten, struct fault *fault)
{
	*ret_unwritten = 0;
	return sample_read(dataset, sample, NULL, to, ret_unwritten, fault);
}

/* An unlinked file with the bytes of a packed sample: in memory unless it is large. */
static int sample_unpacked(
	const struct dataset *dataset, const struct sample *sample, struct fault *fault)
{
	enum { IN_MEMORY = 16 << 20 };
	int unwritten = 0;
	int fd = sample->size <= IN_MEMORY ? memfd_create("penstock-sample", MFD_CLOEXEC) : -1;
	if (fd < 0)
		fd = store_unlinked(dataset->cache_folder);
	int rc = fd < 0 ? (unwritten = fd) : dataset_copy(dataset, sample, fd, &unwritten, fault);
	if (unwritten)
		(void)fault_set(fault, rc,
			"sample %llu (%s) is unpacked to a temporary file in %s, which fails: %s; "
			"make room there or set cache_dir",
			(unsigned long long)sample->number, sample->name,
			dataset->cache_folder ? dataset->cache_folder : "TMPDIR", strerror(-rc));
	if (rc < 0)
		util_close_fd(&fd);
	return rc < 0 ? rc : fd;
}

int dataset_sample_open(const struct dataset *dataset, const struct sample *sample,
	uint64_t *ret_offset, struct fault *fault)
{
	struct blob blob;
	int64_t stamp;
	*ret_offset = 0;
	if (sample->packed.method != PACKED_NONE || dataset_remote(dataset))
		return sample_unpacked(dataset, sample, fault);
	int rc = sample_open(dataset, sample, &blob, fault);
	if (rc == 0)
		rc = sample_check(dataset, sample, &blob, &stamp, fault);
	if (rc < 0)
		blob_close(&blob);
	*ret_offset = sample->offset;
	return rc < 0 ? rc : blob.fd;
}

void dataset_classes_free(struct dataset *dataset)
{
	for (uint32_t i = 0; i < dataset->classes; i++)
		free(dataset->class_names[i]);
	free(dataset->class_names);
	dataset->class_names = NULL;
	dataset->classes = 0;
}

void dataset_free(struct dataset *dataset)
{
	if (!dataset)
		return;
	index_files_free(dataset->index_files);
	for (uint32_t i = 0; dataset->shard && i < dataset->shards; i++) {
		free(dataset->shard[i].path);
		free(dataset->shard[i].index_path);
		remote_object_unref(dataset->shard[i].remote);
	}
	remote_hold_free(dataset->hold);
	free(dataset->shard);
	dataset_classes_free(dataset);
	free(dataset->cache_folder);
	util_close_fd(&dataset->root_fd);
	util_close_fd(&dataset->scratch_fd);
	free(dataset);
}

/* make_index: a synthetic index of any length for a real tar, to show that memory does not grow
 * with the samples.
 *
 *   make_index SHARD.tar N
 *
 * Writes SHARD.tar.idx with N records that cycle through the tar's real samples and share their
 * names. A program that opens the tar afterward finds a fresh index of N readable samples.
 * Streams: 10^8 records (3.2 GB) need no more memory than ten. */
#include "base/store.h"
#include "base/util.h"
#include "dataset/dataset.h"
#include "dataset/digest.h"
#include "dataset/index.h"

#include <string.h>
#include <sys/stat.h>

struct model {
	struct index_record record;
	uint64_t hash, hash_unlabelled;
};

/* The key of a member's name, as container_tar.c cuts it. */
static size_t key_size(const char *name)
{
	const char *slash = strrchr(name, '/');
	const char *dot = strchr(slash ? slash : name, '.');
	return dot ? (size_t)(dot - name) : strlen(name);
}

/* Copies the real samples' records and names. */
static int models_load(const struct dataset *dataset, struct index_writer *writer,
	struct model *models, struct fault *fault)
{
	for (uint64_t i = 0; i < dataset_count(dataset); i++) {
		struct sample sample;
		int rc = dataset_sample(dataset, i, &sample, fault);
		if (rc < 0)
			return rc;
		const char *key = sample.name;
		while (key[0] == '.' && key[1] == '/')
			key += 2;
		struct model *model = &models[i];
		model->record = (struct index_record){.offset = sample.offset,
			.size = sample.size,
			.label = (int32_t)sample.label,
			.format = sample.format};
		model->hash = digest_sample(key, key_size(key), sample.size, sample.label);
		model->hash_unlabelled = digest_sample(key, key_size(key), sample.size, -1);
		rc = index_writer_name(writer, sample.name, strlen(sample.name), &model->record);
		if (rc < 0)
			return fault_set(
				fault, rc, "the index cannot be written: %s", strerror(-rc));
	}
	return 0;
}

static int records_write(
	struct index_writer *writer, const struct model *models, uint64_t real, uint64_t count)
{
	int rc = 0;
	uint64_t at = 0;
	for (uint64_t i = 0; i < count && rc == 0; i++) {
		rc = index_writer_add_hashed(
			writer, &models[at].record, models[at].hash, models[at].hash_unlabelled);
		at = at + 1 == real ? 0 : at + 1;
	}
	return rc;
}

static int index_make(const struct dataset *dataset, const struct stat *st, uint64_t count,
	struct store_file *file, struct fault *fault)
{
	uint64_t real = dataset_count(dataset), bytes;
	struct index_writer writer;
	cleanup(free_ptr) struct model *models = calloc(real, sizeof *models);
	int rc = models ? index_writer_init(
				  &writer, file->fd, file->base, file->names_fd, file->tables_fd)
			: -1;
	if (rc < 0)
		return fault_set(fault, rc, "no memory");
	rc = models_load(dataset, &writer, models, fault);
	if (rc == 0) {
		writer.head.kind = DATASET_TARS;
		writer.head.asked = DATASET_LABELS_AUTO;
		writer.head.label_type = LABEL_TYPE_CLASS;
		writer.head.source =
			dataset_labelled(dataset) ? DATASET_LABELS_CLS : DATASET_LABELS_NONE;
		writer.head.shard_size = (uint64_t)st->st_size;
		writer.head.shard_mtime_ns =
			(int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
		rc = records_write(&writer, models, real, count);
		if (rc == 0)
			rc = index_writer_finish(&writer, &bytes);
		if (rc == 0)
			rc = store_commit(file);
		if (rc < 0)
			(void)fault_set(
				fault, rc, "the index cannot be written: %s", strerror(-rc));
	}
	index_writer_deinit(&writer);
	return rc;
}

static int make(const char *tar, uint64_t count, struct fault *fault)
{
	struct dataset *dataset;
	struct store_file file;
	struct stat st;
	cleanup(free_ptr) char *path = NULL;
	if (asprintf(&path, "%s.idx", tar) < 0)
		return fault_set(fault, -1, "no memory");
	(void)unlink(path); /* an earlier synthetic index must not count as real */
	int rc = dataset_open(tar, NULL, &dataset, fault);
	if (rc < 0)
		return rc;
	if (dataset_kind(dataset) != DATASET_TARS || dataset_shards(dataset) != 1 ||
		stat(tar, &st) < 0)
		rc = fault_set(fault, -1, "%s is not one tar", tar);
	else if (store_begin(&file, path, st.st_mode) < 0)
		rc = fault_set(fault, -1, "%s cannot be written", path);
	if (rc == 0) {
		rc = index_make(dataset, &st, count, &file, fault);
		store_end(&file);
	}
	dataset_free(dataset);
	return rc;
}

int main(int argc, char **argv)
{
	char *end = NULL;
	uint64_t count = argc == 3 ? strtoull(argv[2], &end, 10) : 0;
	struct fault fault;
	if (count == 0 || *end) {
		(void)fprintf(stderr, "usage: make_index SHARD.tar N\n");
		return 2;
	}
	if (make(argv[1], count, &fault) < 0) {
		(void)fprintf(stderr, "make_index: %s\n", fault.text);
		return 1;
	}
	return 0;
}

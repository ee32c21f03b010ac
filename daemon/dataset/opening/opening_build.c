/* opening_build: see opening.h. Builds the index of a shard that has none: beside the shard, or
 * else in the cache folder, or else in one unlinked file that all such shards share. */
#include "dataset/opening/opening.h"

#include "base/store.h"
#include "base/util.h"
#include "dataset/container/folder.h"
#include "labels/labels.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* The shard must not have changed between the first read and the last. */
static int shard_unchanged(struct opening *opening, uint32_t number, const struct blob *blob)
{
	const struct dataset_shard *shard = &opening->dataset->shard[number];
	struct blob now;
	if (opening->dataset->container->files)
		return 0; /* folder_walk has checked each directory */
	if (blob_look(blob, &now) < 0 || now.stamp != shard->mtime_ns || now.size != shard->size)
		return fault_set(opening->fault, -ESTALE,
			"%s changed while it was indexed: open it again when it is complete",
			shard->path);
	return 0;
}

/* Builds an index in `file`. `ret_place`: a failure was the place's fault, not the shard's. */
static int index_write(struct opening *opening, uint32_t number, const struct blob *blob,
	struct store_file *file, bool *ret_place)
{
	const struct dataset_shard *shard = &opening->dataset->shard[number];
	struct index_writer writer;
	uint64_t bytes;
	cleanup(free_ptr) struct label_found *found = malloc(sizeof *found);
	uint32_t beside;
	int rc = opening_state_beside(opening, number, &beside);
	if (rc < 0) {
		*ret_place = false;
		return rc;
	}
	rc = !found ? -ENOMEM
		    : index_writer_init(
			      &writer, file->fd, file->base, file->names_fd, file->tables_fd);
	if (rc < 0)
		return fault_set(opening->fault, rc, "no memory to index %s", shard->path);
	const struct container *container = opening->dataset->container;
	struct index_first first = {.empty = false};
	struct index_progress own;
	struct fault *fault = opening->fault;
	struct index_job job = {
		.path = shard->path,
		.joint = container->joint,
		.first = &first,
		.blob = blob,
		.size = shard->size,
		.asked = opening->asked,
		.class_order = opening->options.class_order,
		.nested = opening->options.nested,
		.labels = opening->rule ? opening->labels : NULL,
		.found = found,
		.fields = &opening->fields,
		.columns = &opening->columns,
		.writer = &writer,
		.progress = opening_progress(opening, &own),
	};
	writer.head.version = !container->files                  ? INDEX_VERSION
			      : dataset_remote(opening->dataset) ? INDEX_VERSION_BUCKET
								 : INDEX_VERSION_FOLDER;
	if (opening->dataset->kind > DATASET_TARS)
		index_writer_packed(&writer);
	writer.head.class_order = (uint32_t)opening->options.class_order;
	writer.head.kind = (uint32_t)opening->dataset->kind;
	writer.head.asked = (uint32_t)opening->asked;
	writer.head.rule = opening->rule;
	writer.head.fields = opening->fields_hash;
	writer.head.field_count = opening->fields.count;
	writer.head.columns = opening->columns_hash;
	writer.head.beside = beside;
	if (opening->rule)
		writer.head.label_type = labels_type(opening->labels);
	else /* the first label of another container says what type they have */
		writer.head.label_type =
			opening->dataset->kind > DATASET_TARS ? LABEL_TYPE_AUTO : LABEL_TYPE_CLASS;
	writer.head.shard_size = shard->size;
	writer.head.shard_mtime_ns = container->files ? 0 : shard->mtime_ns;
	opening_pause(opening);
	rc = container->index(&job, fault);
	opening_resume(opening, fault);
	if (rc == 0)
		rc = shard_unchanged(opening, number, blob);
	if (rc == 0 && job.labels)
		rc = labels_unchanged(opening->labels, opening->fault);
	if (rc == 0 && opening->replaced.magic)
		index_writer_replaces(
			&writer, &opening->replaced, opening->asked == DATASET_LABELS_NONE);
	if (rc == 0)
		rc = index_writer_finish(&writer, &bytes);
	opening->anew |= rc == 0;
	*ret_place = writer.error != 0;
	opening->progress.samples += rc == 0 ? writer.head.samples : 0;
	index_writer_deinit(&writer);
	return rc;
}

/* Judges an index that was just built and read back. */
static int index_readback(struct opening *opening, uint32_t number, int found, bool *ret_place)
{
	*ret_place = found > FOUND && found != FOUND_STALE;
	if (found == FOUND_STALE)
		return fault_set(opening->fault, -ESTALE,
			"%s changed while it was indexed: open it again when no other program "
			"writes there",
			opening->dataset->shard[number].path);
	return found <= FOUND ? found : -EIO; /* it cannot be read back, or was removed */
}

/* Builds the index at `path`. `ret_place`: a failure was the place's fault. */
static int index_build_at(struct opening *opening, uint32_t number, const struct blob *blob,
	const char *path, bool *ret_place)
{
	struct stat st;
	struct store_file file;
	mode_t mode = fstat(blob->fd, &st) == 0 && S_ISREG(st.st_mode) ? st.st_mode : 0600;
	*ret_place = true;
	int rc = store_begin(&file, path, mode);
	if (rc < 0)
		return rc;
	rc = index_write(opening, number, blob, &file, ret_place);
	if (rc == 0) {
		*ret_place = true;
		rc = store_commit(&file);
	}
	store_end(&file);
	return rc < 0 ? rc
		      : index_readback(
				opening, number, opening_try(opening, number, path), ret_place);
}

/* The last resort: appends the index to the scratch file. */
static int index_build_scratch(struct opening *opening, uint32_t number, const struct blob *blob)
{
	struct dataset *dataset = opening->dataset;
	const char *shard = dataset->shard[number].path;
	struct store_file file;
	bool place = true;
	/* All such indexes are in one file, one after the other. */
	opening_alone(true);
	if (dataset->scratch_fd < 0)
		dataset->scratch_fd = store_unlinked(NULL);
	uint64_t base = dataset->scratch_bytes;
	int rc = dataset->scratch_fd < 0 ? dataset->scratch_fd
					 : store_begin_unlinked(&file, dataset->scratch_fd, base);
	if (rc == 0) {
		rc = index_write(opening, number, blob, &file, &place);
		store_end(&file);
	}
	if (rc == 0)
		rc = index_readback(opening, number,
			opening_examine(opening, number, dataset->scratch_fd, base, 0), &place);
	opening_alone(false);
	if (rc < 0 && place)
		return fault_set(opening->fault, rc,
			"the index of %s cannot be written beside it (%s), in the cache folder %s "
			"(%s), or in a temporary file (%s): free disk space or grant write "
			"permission in one of these places, or set cache_dir to a folder that this "
			"user may write to",
			shard, strerror(-opening->place_error[PLACE_BESIDE]),
			opening->cache ? opening->cache : "(none)",
			store_error(opening->place_error[PLACE_CACHE]), strerror(-rc));
	const struct index_head *head = &opening->heads[number];
	if (rc == 0)
		dataset->scratch_bytes +=
			(1 + head->record_pages + head->name_pages + head->table_pages) *
			INDEX_PAGE;
	opening->homeless++;
	return rc;
}

/* Consecutive shards are usually in one folder, which is tidied once. */
static void place_tidy(struct opening *opening, enum place place, const char *path)
{
	char **last = &opening->tidied[place];
	size_t size = (size_t)(strrchr(path, '/') - path) + 1;
	if (*last && strlen(*last) == size && strncmp(*last, path, size) == 0)
		return;
	free(*last);
	*last = strndup(path, size);
	store_tidy(path);
}

/* Tries one place: 0 the index exists (built here, or meanwhile by another process), 1 the place
 * cannot be used, or a fault. */
static int index_build_place(
	struct opening *opening, uint32_t number, const struct blob *blob, enum place place)
{
	cleanup(free_ptr) char *path = opening_place(opening, number, place, opening->asked);
	bool at_fault = true;
	int rc = -ENOENT;
	if (path && place == PLACE_CACHE)
		rc = store_folder_make(opening->cache);
	else if (path)
		rc = 0;
	if (rc == 0) {
		rc = opening_try(opening, number, path);
		if (rc <= FOUND)
			return rc;
		place_tidy(opening, place, path);
		rc = rc == FOUND_FOREIGN ? -EEXIST
					 : index_build_at(opening, number, blob, path, &at_fault);
	}
	if (rc < 0 && at_fault) {
		opening->place_error[place] = rc;
		return 1;
	}
	return rc;
}

/* The kind of a dataset is that of its first file. The others are looked into here, where they are
 * about to be read as a whole; a file whose index was found needs no look, because that index says
 * of which kind it is. */
static int kind_check(struct opening *opening, uint32_t number, const struct blob *blob)
{
	const struct dataset *dataset = opening->dataset;
	const struct dataset_shard *shard = &dataset->shard[number];
	enum dataset_kind kind = DATASET_TARS;
	if (number == 0 || dataset->container->files)
		return 0;
	struct fault *fault = opening->fault;
	opening_pause(opening);
	int rc = container_kind(shard->path, blob, &kind, fault);
	opening_resume(opening, fault);
	return rc <= 0 || kind == dataset->kind
		       ? UTIL_MIN(rc, 0)
		       : container_mixture(dataset->shard[0].path, dataset->kind, shard->path, kind,
				 opening->fault);
}

int opening_build(struct opening *opening, uint32_t number)
{
	const struct dataset_shard *shard = &opening->dataset->shard[number];
	cleanup(close_blob) struct blob blob = {0};
	int opened = opening_shard(opening, number, &blob);
	if (opened < 0)
		return opened;
	int rc = opening_download(opening, number);
	if (rc <= FOUND)
		return rc;
	int kind = kind_check(opening, number, &blob);
	if (kind < 0)
		return kind;
	blob_ahead(&blob);
	if (!opening->dataset->container->files && !blob.remote)
		folder_settle(shard->mtime_ns);
	const struct index_head *head = &opening->heads[number];
	const bool old =
		head->version == INDEX_VERSION_TAR_OLD || head->version == INDEX_VERSION_FOLDER_OLD;
	const uint64_t before = head->samples;
	rc = 1;
	for (enum place place = 0; rc > 0 && place < PLACES; place++)
		rc = index_build_place(opening, number, &blob, place);
	if (rc > 0) {
		opening_example(opening, shard->path);
		rc = index_build_scratch(opening, number, &blob);
	}
	if (rc == 0 && old && head->samples > before)
		opening->gained += head->samples - before;
	opening->progress.bytes += shard->size;
	return rc;
}

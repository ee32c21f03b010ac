/* dataset_impl: struct dataset, for the files of this folder only. */
#pragma once

#include "dataset/container/container.h"
#include "dataset/dataset.h"
#include "dataset/index.h"
#include "dataset/index_files.h"

#include <sys/types.h>

struct labels;
struct remote_hold;
struct remote_object;

/* One tar, or the folder. Only this grows with the number of shards. */
struct dataset_shard {
	char *path; /* absolute */
	char *index_path; /* NULL: its index is in the dataset's scratch file */
	struct remote_object *remote; /* of a URL; NULL: local */
	uint64_t index_base; /* of the index's page 0 in that file */
	uint64_t first; /* number of its first sample */
	uint64_t size;
	uint64_t samples, bytes, digest_unlabelled; /* as in its index's head */
	int64_t mtime_ns;
	dev_t dev;
	ino_t ino;
	uint64_t record_pages, name_pages;
	uint32_t version; /* of the index */
	bool packed; /* some of its samples or fields are */
	uint32_t classes; /* every label is below this; 0: no bound */
	/* Of the index that was opened. An index with another head is another index. */
	uint32_t head_crc;
	uint32_t label_width; /* one more than the highest class */
	uint32_t source; /* enum dataset_labels: where its labels came from; NONE if it has none */
};

struct dataset {
	enum dataset_kind kind;
	const struct container *container; /* of `kind` */
	bool labelled;
	uint32_t shards;
	uint32_t classes;
	enum label_type label_type;
	uint32_t label_width;
	uint64_t rule; /* labels_hash of the label rule; 0: the rule is a single word */
	uint64_t only; /* the same if the rule chooses the samples, else 0 */
	uint64_t fields; /* of tars: field_list_hash of the fields in the indexes; 0: none */
	uint32_t field_count;
	int root_fd; /* folder; else -1 */
	/* Class folders behind a URL: keeps their objects in the cache; else NULL. */
	struct remote_hold *hold;
	/* an unlinked file for indexes that could not be stored elsewhere; -1: none */
	int scratch_fd;
	uint64_t scratch_bytes;
	uint64_t count, bytes, largest, fingerprint, indexed_ns, passed;
	uint64_t names; /* of a folder: the digest of names and labels in its index */
	uint32_t earlier_count;
	uint64_t earlier[INDEX_EARLIER]; /* fingerprints */
	struct dataset_shard *shard;
	char **class_names;
	char *cache_folder; /* NULL: no cache folder can be used */
	bool index_in_cache;
	struct index_files *index_files;
	char notice[1024];
	char passed_text[512];
	uint32_t warnings;
	char warning[DATASET_WARNINGS][FAULT_TEXT];
};

/* Makes dataset->index_files, after the paths of all index files are known. 0 or -ENOMEM. */
int dataset_index_files_new(struct dataset *dataset);

/* dataset_verify_file for a blob. 0 or -ESTALE. */
int dataset_verify_blob(const struct dataset *dataset, uint32_t shard, const struct blob *blob);

/* Frees the names of the classes: the dataset then has none. */
void dataset_classes_free(struct dataset *dataset);

/* Reads a sample's record, and the page that holds its name, whose place `at` becomes. */
int dataset_name_page(const struct dataset *dataset, uint64_t number, struct dataset_page *at,
	struct index_record *record, uint64_t *position, uint8_t *page, struct fault *fault);

/* In dataset_labels.c. Called when all indexes exist; `heads` are theirs, one per shard. `labels`
 * is NULL where the labels come from the container itself. 0 or a negative errno. */
int dataset_labels_settle(struct dataset *dataset, const struct index_head *heads,
	struct labels *labels, const char *cache, struct fault *fault);

/* dataset_impl: what dataset.c (questions) and the opening (opening.h) share; nobody else includes
 * it. */
#pragma once

#include "dataset/container.h"
#include "dataset/dataset.h"
#include "dataset/index.h"
#include "dataset/index_files.h"

#include <sys/types.h>

struct labels;

/* One tar, or the folder. Everything that grows with the number of shards is here. */
struct dataset_shard {
	char *path; /* absolute */
	char *index_path; /* NULL: in the dataset's scratch file */
	uint64_t index_base; /* of its page 0 in that file */
	uint64_t first; /* number of its first sample */
	uint64_t size;
	uint64_t samples, bytes, digest_unlabelled; /* of its index */
	int64_t mtime_ns;
	dev_t dev;
	ino_t ino;
	uint64_t record_pages, name_pages;
	uint32_t classes; /* that its labels are below; 0: no bound */
	uint32_t
		head_crc; /* of the index that was opened: one with another head is another index */
	uint32_t label_width; /* one more than the highest class of its labels */
	uint32_t source; /* enum dataset_labels: where its labels came from; DATASET_LABELS_NONE:
			    nowhere */
};

struct dataset {
	enum dataset_kind kind;
	const struct container *container; /* of `kind` */
	bool labelled;
	uint32_t shards;
	uint32_t classes;
	enum label_type label_type;
	uint32_t label_width;
	uint64_t rule; /* labels_hash of the label rule; 0: a word */
	int root_fd; /* folder; else -1 */
	int scratch_fd; /* unlinked file with the indexes that found no other place; -1: none */
	uint64_t scratch_bytes;
	uint64_t count, bytes, largest, fingerprint, indexed_ns, passed;
	struct dataset_shard *shard;
	char **class_names;
	char *cache_folder; /* NULL: there is none */
	bool index_in_cache;
	struct index_files *lend;
	char notice[1024];
};

/* Once index files are known: dataset->lend. 0 or -ENOMEM. */
int dataset_lend_new(struct dataset *dataset);

/* dataset_labels.c: once all indexes are there, whose heads `heads` are. 0 or negative errno. */
int dataset_labels_settle(struct dataset *dataset, const struct index_head *heads,
	struct labels *labels, const char *cache, struct fault *fault);

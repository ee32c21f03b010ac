/* index_build: what makes records out of a tar (index_tar.c) or a folder (index_folder.c), with
 * labels of a rule (index_label.c). Blocks. */
#pragma once

#include "base/fault.h"
#include "dataset/dataset.h"
#include "dataset/index.h"
#include "dataset/index_progress.h"
#include "labels/labels.h"

struct index_job {
	const char *path; /* for faults */
	int fd; /* of the tar or the folder */
	uint64_t size; /* of the tar */
	enum dataset_labels asked;
	struct labels *labels; /* of PATH and MANIFEST; NULL otherwise */
	struct index_writer *writer; /* gets records, entries, and in its head source, members,
					dotted and labelless */
	struct index_progress *progress;
};

/* One sample on its way into an index. */
struct index_sample {
	const char *name, *key; /* the key ends where its size says */
	size_t name_size, key_size;
	struct index_record record; /* without name and label */
};

/* Writes a sample with a label of a rule: index_label.c. The fault does not name the sample. 0;
 * -EINVAL another type of label than those before it, or another number of values, or too many;
 * -errno. */
int index_sample_write(const struct index_job *job, struct index_sample *sample,
	const struct label_found *found, struct fault *fault);

/* Looks the sample up in the manifest and writes it; the fault names it, after `shard` (of a tar;
 * NULL in a folder). `found` is room. */
int index_sample_manifest(const struct index_job *job, struct index_sample *sample,
	const char *shard, struct label_found *found, struct fault *fault);

/* The key of a tar's member, in its name; false where the name has none. Pure. */
bool index_tar_key(const char *name, const char **ret_key, size_t *ret_size);

/* 0; -EINVAL damaged, or labels missing, mixed or no labels; -ECANCELED; -errno. When writer->error
 * is set afterwards the index's place was at fault. */
int index_tar(const struct index_job *job, struct fault *fault);
int index_folder(const struct index_job *job, struct fault *fault);

/* index_build: what makes records out of a tar (index_tar.c) or a folder (index_folder.c). Blocks.
 */
#pragma once

#include "base/fault.h"
#include "source/dataset.h"
#include "source/index.h"
#include "source/progress.h"

struct index_job {
	const char *path; /* for faults */
	int fd; /* of the tar or the folder */
	uint64_t size; /* of the tar */
	enum dataset_labels asked;
	struct index_writer *writer; /* gets records, entries, and in its head source, members,
					dotted and labelless */
	struct progress *progress;
};

/* 0; -EINVAL damaged, or labels missing, mixed or no labels; -ECANCELED; -errno. When writer->error
 * is set afterwards the index's place was at fault. */
int index_tar(const struct index_job *job, struct fault *fault);
int index_folder(const struct index_job *job, struct fault *fault);

/* container: where the samples of a dataset come from.
 *
 * A map of this folder:
 *   container.[ch]       what differs between the kinds, and the table of them
 *   container_kinds.c    which kind a file or a folder is of
 *   container_sample.c   writes the samples of containers that know their labels themselves
 *   container_folder.c   a folder: each sample is a file of its own
 *   bucket.[ch]          folders in a bucket: what is in them, as a folder's walk
 *   class_folders.[ch]   folders as classes, for containers that hold files with paths
 *   container_tar.c      WebDataset tars: each sample is a range of bytes of a shard
 *   window.[ch]          reads a file in any order through one buffer
 *   beside.[ch]          opens a file that belongs to a shard and is beside it
 *   arrays/              CIFAR and MNIST: files of pixels
 *   folder.[ch]          walks the image files of a folder in ImageFolder's order
 *   folder_hint.[ch]     what a folder without images holds instead, and what to name
 *   image_names.[ch]     the extensions of images
 *   tar.[ch]             reads the headers of a tar (ustar, GNU, pax)
 *   unread.[ch]          files of formats that are not read, and what to do with them
 *   archives/            ZIP, LMDB
 *   parquet/             Parquet
 *   records/             files of records: TFRecord, MDS, LitData, RecordIO
 *
 * Everything that differs between the kinds of containers is in a struct container; dataset/ and
 * fetch/ only ask it. To add a kind:
 *
 *   dataset/dataset.h   its number in enum dataset_kind (indexes store it)
 *   container_X.c       its struct container, and the function that indexes one shard
 *   container.c         its line in the table
 *   container_kinds.c   its place among the kinds that a folder may be of
 *
 * Building an index blocks; the rest is pure. */
#pragma once

#include "base/fault.h"
#include "dataset/blob.h"
#include "dataset/container/folder.h"
#include "dataset/dataset.h"
#include "dataset/index.h"
#include "dataset/index_progress.h"
#include "dataset/source/source.h"
#include "labels/labels.h"

/* The first sample of a shard with the labels of a rule; for index_sample.c and faults. */
struct index_first {
	bool empty; /* all labels so far are empty lists */
	bool blamed; /* the fault is about this sample and names it */
	char name[INDEX_NAME_MAX + 1];
};

/* One shard that is being indexed. */
struct index_job {
	const char *path; /* for faults */
	const char *joint; /* see struct container */
	struct index_first *first;
	const struct blob *blob; /* the shard; of a folder, its root */
	uint64_t size; /* of the shard; 0 for a folder */
	enum dataset_labels asked;
	enum class_order class_order; /* of a folder */
	bool nested; /* the user says that class folders named like splits are meant */
	struct labels *labels; /* for PATH and MANIFEST; otherwise NULL */
	struct label_found *found; /* scratch space for the label of a sample */
	const struct field_list *fields; /* not of a folder; NULL or no names: none */
	const struct column_choice *columns; /* never NULL */
	/* Receives records and tables, and in its head source, members, dotted and labelless. */
	struct index_writer *writer;
	struct index_progress *progress;
};

/* What was found in a dataset without a single sample. */
struct container_empty {
	const char *path; /* of the first shard */
	const struct blob *blob; /* it; NULL if it cannot be opened */
	uint64_t size; /* of it */
	uint32_t shards;
	uint64_t members, dotted; /* sums over the indexes' heads */
};

/* A file that may be of some kind. */
struct container_probe {
	const char *path;
	const struct blob *blob;
	uint64_t size;
	const uint8_t *head; /* its first bytes */
	size_t head_size; /* at least CONTAINER_HEAD, unless the file is smaller */
};
enum { CONTAINER_HEAD = 4096 };

struct container {
	const char *name; /* for messages and `penstock --version`: "Parquet", "WebDataset tar" */

	/* Whether a file is of this kind, by its content first and its name second. Pure apart
	 * from reading the file. NULL: files are never of this kind (a folder of files), or are of
	 * it if no other kind takes them (a tar). */
	bool (*sniff)(const struct container_probe *probe);

	/* A user named a folder. If it is one of this kind, adds the paths of the files that hold
	 * its samples, in the order of the reference reader, and returns 1. 0: it is not. A fault:
	 * it is, but it cannot be read. Reads at most one small file to decide. NULL: never. */
	int (*expand)(const char *folder, int fd, struct source_paths *paths, struct fault *fault);

	bool columns; /* it has columns (column_choice.h): otherwise naming one is refused */
	bool fields; /* its samples may have fields; otherwise they never have */
	bool parts; /* its indexes have parts of packed streams (enum index_packed) */

	/* True: each sample is a file of its own, and the shard is the folder that these files are
	 * below. False: the shard is a file, and a sample is a range of its bytes. */
	bool files;
	/* Where labels in an index may come from: 1 << enum dataset_labels */
	uint32_t labels;
	const char *joint; /* between the shard's path and the sample's name in a path for users */
	const char *naming; /* how a manifest may name a sample, for faults */

	/* Reads the whole shard and writes its index. 0; -EINVAL for a damaged shard, or labels
	 * that are missing or mixed or no labels; -ECANCELED; -errno. If writer->error is set
	 * afterwards, the place of the index is at fault. */
	int (*index)(const struct index_job *job, struct fault *fault);

	/* A hash of the state of the files beside the shard that its index depends on, too
	 * (beside.h), if these columns are chosen: with another one, the index is built again.
	 * NULL: there are no such files. Blocks. */
	int (*beside)(const char *path, const struct column_choice *columns, uint32_t *ret,
		struct fault *fault);

	/* The key within a sample's name; false if the name has none. NULL: a manifest names
	 * samples of this kind by their whole names only. */
	bool (*key)(const char *name, const char **ret_key, size_t *ret_size);

	/* Writes the fault that says what was found instead of samples. Returns -EINVAL. */
	int (*empty)(const struct container_empty *empty, struct fault *fault);

	/* The warning that `count` images were left out; `example` is a shard that holds some.
	 * NULL: files that were passed over are in the tables. */
	void (*left_out)(uint64_t count, const char *example, char *ret_text, size_t room);
};

/* Which kind a file is of. 1 and *ret; 0 and DATASET_TARS: no other kind takes it, and it does not
 * begin as a tar either; or -errno with a fault. Reads the beginning of the file, and what the
 * kinds read to decide. `blob` is borrowed. */
int container_kind(
	const char *path, const struct blob *blob, enum dataset_kind *ret, struct fault *fault);

/* Whether a folder that a user named is a dataset of some kind other than a folder of images: see
 * `expand`. 1, with the paths of its files and *ret; 0; or a fault. */
int container_expand(const char *folder, int fd, struct source_paths *paths, enum dataset_kind *ret,
	struct fault *fault);

/* The fault that `one` and `other` are of different kinds. -EINVAL. */
int container_mixture(const char *one, enum dataset_kind one_kind, const char *other,
	enum dataset_kind other_kind, struct fault *fault);

/* The names of all kinds, for `penstock --version`: "folder, WebDataset tar, Parquet". Returns
 * `buffer`. */
enum { CONTAINER_NAMES = 256 };
const char *container_names(char buffer[CONTAINER_NAMES]);

/* By enum dataset_kind. NULL for a number that is not a kind. */
const struct container *container_of(uint32_t kind);

extern const struct container container_folder, container_tar, container_parquet;
extern const struct container container_tfrecord, container_mds, container_litdata;
extern const struct container container_zip, container_lmdb;
extern const struct container container_recordio, container_cifar, container_mnist;

struct index_sample;

/* Called before the first sample of such a container: refuses labels that come from somewhere else
 * than the container or a manifest. `kind` is what the shard is: "a RecordIO file". 0 or
 * -EINVAL. */
int container_begin(const struct index_job *job, const char *kind, struct fault *fault);

/* Writes one sample of a container that knows its labels itself, by the rule of the labels that was
 * asked for: none; those of a manifest, which knows the sample by its name; or `found`, the label
 * that the container has for it (NULL: it has none). Either all samples have one or none has. The
 * fault names the sample. 0 or negative errno; 1: the manifest leaves the sample out. */
int container_sample(const struct index_job *job, struct index_sample *sample,
	const struct label_found *found, struct fault *fault);

/* One sample on its way into an index. */
struct index_sample {
	const char *name, *key; /* the key is not zero-terminated */
	size_t name_size, key_size;
	struct index_record record; /* without name and label */
};

/* Writes a sample with the label that a rule found for it. The fault does not name the sample,
 * unless job->first->blamed says that it names another one. 0;
 * -EINVAL if the label has another type or another number of values than those before it, or too
 * many values; -errno. */
int index_sample_write(const struct index_job *job, struct index_sample *sample,
	const struct label_found *found, struct fault *fault);

/* Looks the sample up in the manifest and writes it; the fault names the sample. `shard` is the
 * path of the sample's tar, or NULL in a folder. `found` is scratch space. 1: the manifest does not
 * name the sample, which is therefore left out (label_rule.only). */
int index_sample_manifest(const struct index_job *job, struct index_sample *sample,
	const char *shard, struct label_found *found, struct fault *fault);

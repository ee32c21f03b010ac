/* dataset: an immutable list of samples, numbered from 0: shards plus their index.
 *
 * A map of this folder:
 *   spec.[ch]     what a user names (folder, tar, glob, brace range) -> list of paths and their kind
 *   tar.[ch]      members of a tar (ustar, GNU long names, pax, base-256 sizes), headers alone
 *   folder.[ch]   files of a folder of class folders, or of a flat folder
 *   label.[ch]    what .cls and .json say
 *   index.[ch]    the sidecar: format, builder (atomic), reader of single pages, staleness
 *   dataset.[ch]  shards + indexes as one row of samples; fingerprint, classes
 *   arena.[ch]    the bounded, registered read buffers
 *   files.[ch]    the bounded table of open files
 *   fetch.[ch]    sample numbers in, bytes out: the stage's door; fetch_uring.c and fetch_pread.c are its engines
 *
 * What a user may name, `.jpg .jpeg .png` in any case:
 *   DIR/class/x.jpg   classes are the sorted (bytewise) names of DIR's folders, at any depth below the class folder
 *   DIR/x.jpg         flat: no folders with images; labels are -1
 *   X.tar, "train-*.tar", "train-{000000..000146}.tar", "{a,b}/x-{0..9}.tar": WebDataset tars, in the order given
 *                     (globs sorted bytewise)
 *   keys: in folders the relative path less its last extension; in tars the member's path with its last part cut at the
 *   first dot.
 * Symbolic links to files and to class folders are followed. Hidden files (leading dot) and "__MACOSX" are left out.
 *
 * RAM does not grow with the number of samples: per shard a path, sizes and a file number; records live in the index
 * and are read in pages (index.h). Everything here may block on storage; the pipeline reads through fetch.h instead.
 * A dataset is immutable after dataset_open, so any thread may read it. */
#pragma once

#include "base/fault.h"
#include "source/index.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dataset;

enum dataset_labels {
	DATASET_LABELS_AUTO,   /* class folders, .cls, .json, or none */
	DATASET_LABELS_NONE,   /* every label is -1 */
	DATASET_LABELS_FOLDER, /* asked for explicitly: an error where there are none */
	DATASET_LABELS_CLS,
	DATASET_LABELS_JSON,   /* member .json, key "label", else "cls" */
};

enum dataset_kind { DATASET_FOLDER, DATASET_TARS };

enum sample_format { SAMPLE_JPEG = 1, SAMPLE_PNG = 2 }; /* by the name's extension; content is sniffed when decoded */

/* Called now and then while an index is built: bytes and samples seen so far, of `total_bytes` (0: unknown).
 * Return nonzero to stop: dataset_open then returns -ECANCELED. */
typedef int dataset_progress_fn(void *context, uint64_t samples, uint64_t bytes, uint64_t total_bytes);

struct dataset_options {
	const char *cache_dir;      /* where indexes go that cannot lie beside their shard; created when missing */
	bool index_in_cache;        /* never write beside shards (a confined daemon) */
	enum dataset_labels labels;
	dataset_progress_fn *progress;
	void *progress_context;
};

/* Where the bytes of one sample are. */
struct sample {
	uint64_t number;
	uint32_t shard;
	uint32_t size;      /* bytes of the image */
	uint64_t offset;    /* in the shard; 0 in a folder */
	int64_t label;      /* -1: unlabelled */
	uint8_t format;     /* enum sample_format */
	char name[4096];    /* relative path (folder) or member (tar); filled by dataset_sample only */
};

/* Opens what `spec` names, building or rebuilding indexes where they are missing or stale. 0; -ENOENT nothing there;
 * -EINVAL not a dataset, no samples, labels for some only, a damaged tar; -EIO and the like from storage. When no index
 * can be written (read-only beside the shard and no usable cache), it is kept in an unlinked temporary file and
 * `dataset_notice` says so. */
int dataset_open(const char *spec, const struct dataset_options *options, struct dataset **ret, struct fault *fault);
void dataset_free(struct dataset *dataset);

enum dataset_kind dataset_kind(const struct dataset *dataset);
uint64_t dataset_count(const struct dataset *dataset);
uint64_t dataset_bytes(const struct dataset *dataset);       /* sum of the samples' sizes */
uint64_t dataset_largest(const struct dataset *dataset);     /* size of the largest sample */
uint64_t dataset_fingerprint(const struct dataset *dataset); /* keys, sizes, labels in order; not paths, not sharding */
bool dataset_labelled(const struct dataset *dataset);
uint32_t dataset_classes(const struct dataset *dataset);     /* class folders; 0 for tars and flat folders */
const char *dataset_class_name(const struct dataset *dataset, uint32_t label);
uint32_t dataset_shards(const struct dataset *dataset);      /* 1 for a folder */
const char *dataset_shard_path(const struct dataset *dataset, uint32_t shard); /* absolute; a folder's root */
const char *dataset_notice(const struct dataset *dataset);   /* "" or a sentence worth logging once */
uint64_t dataset_indexed_ns(const struct dataset *dataset);  /* time spent building indexes; 0 when all were fresh */

/* Reads one sample's record, with its name. Blocks. 0, -EIO (index damaged: says to delete it), -errno. */
int dataset_sample(const struct dataset *dataset, uint64_t number, struct sample *ret, struct fault *fault);

/* An absolute path, or SHARD!MEMBER. Blocks. 0, -ENAMETOOLONG, or as dataset_sample. */
int dataset_path(const struct dataset *dataset, uint64_t number, char *buffer, size_t room, struct fault *fault);

/* Reads a sample's bytes with pread into `buffer` (`room` >= size). For tools, not for the pipeline. Checks what fetch
 * checks: 0, -ESTALE when file or shard is no longer what the index saw, -ENODATA when cut short, -errno. */
int dataset_read(const struct dataset *dataset, const struct sample *sample, void *buffer, size_t room, struct fault *fault);

/* 0, or -ESTALE with a fault when shard `shard` on disk is no longer what was indexed (another inode, size or mtime). */
int dataset_verify_shard(const struct dataset *dataset, uint32_t shard, struct fault *fault);

/* For the fetch stage. A dataset may have more shards than a process may have files, so index files are borrowed:
 *
 *   dataset_locate(d, number, &at)              which page of which index holds the record; pure, never blocks
 *   dataset_index_acquire(d, at.shard, &fd)     the file, open until released; read INDEX_PAGE bytes at `at.offset`
 *   dataset_index_release(d, at.shard)          when the read has completed
 *   dataset_record(d, &at, bytes, &record)      checks the page and the record; pure, never blocks
 *   dataset_locate_name(d, at.shard, &record, &name_at)   folders: where the relative path is; read it as above, then
 *   dataset_name(d, shard, &record, bytes, ...) (a tar's sample needs no name to be read)
 *
 * All of them may be called by any thread. A page's bytes never change while the dataset lives: (shard, page) is a key
 * for a cache. */
struct dataset_page {
	uint32_t shard;
	uint32_t slot;     /* number of the record in its page; 0 for a name */
	uint64_t page;     /* number of the page in the shard's index, from 0; INDEX_PAGE bytes each */
	uint64_t offset;   /* of the page in the file that dataset_index_acquire lends; a multiple of INDEX_PAGE */
};

/* 0, or -ERANGE when there is no sample `number`. */
int dataset_locate(const struct dataset *dataset, uint64_t number, struct dataset_page *ret);

/* Takes the record at `at` out of its page as read from disk. Checks page, bounds within the shard and label; a record
 * that is returned can be read without further checks. `label` is -1 where labels were asked to be left out. 0 or -EIO
 * with a fault that names the index and says to delete it. */
int dataset_record(const struct dataset *dataset, const struct dataset_page *at, const uint8_t *page,
	struct index_record *ret, struct fault *fault);

/* 0 or -EIO with a fault when the record's name page lies outside the index's names. */
int dataset_locate_name(const struct dataset *dataset, uint32_t shard, const struct index_record *record,
	struct dataset_page *ret, struct fault *fault);

/* Takes the record's name out of its name page as read from disk, zero-terminated; in a folder it is a path that stays
 * below the root. `room` of 4096 always suffices. Pure. 0 or -EIO with a fault that names the index. */
int dataset_name(const struct dataset *dataset, uint32_t shard, const struct index_record *record, const uint8_t *page,
	char *buffer, size_t room, struct fault *fault);

/* Lends the file that holds a shard's index. At most dataset_index_files are open at once; the least recently used one
 * that nobody holds makes room. Blocks while a file is opened. 0; -EAGAIN all are held: release one first; -ESTALE the
 * index was replaced by one of other contents; -errno. Every success needs one release. */
int dataset_index_acquire(const struct dataset *dataset, uint32_t shard, int *ret_fd, struct fault *fault);
void dataset_index_release(const struct dataset *dataset, uint32_t shard);

/* How many index files may be held at once: at least 16, at most 512, a third of RLIMIT_NOFILE between them. */
uint32_t dataset_index_files(const struct dataset *dataset);

/* Borrows, reads and gives back: one whole page. Blocks. 0 or negative errno. */
int dataset_page_read(const struct dataset *dataset, const struct dataset_page *at, uint8_t *buffer,
	struct fault *fault);

/* The root of a folder dataset for openat; -1 for tars. Stays open. */
int dataset_root_fd(const struct dataset *dataset);

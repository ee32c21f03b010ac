/* dataset: an immutable list of samples, numbered from 0: shards plus their index.
 *
 * A map of this folder:
 *   spec.[ch]       what a user names (folder, tar, glob, brace range) -> paths and their kind
 *   tar.[ch]        members of a tar (ustar, GNU long names, pax, base-256 sizes), headers alone
 *   folder.[ch]     files of a folder in the order of their keys
 *   label.[ch]      what .cls and .json say
 *   label_rule.h    where labels come from otherwise: a manifest, a path into .json, files of
 *                   class names; labels.[ch] is such a rule made ready, label_path.[ch],
 *                   label_value.[ch], label_classes.[ch], label_manifest.[ch] and label_csv.[ch]
 *                   read what it names
 *   index.[ch]      the sidecar: format, writer, reader of single pages
 *   index_build.h   records from a tar (index_tar.c), from a folder (index_folder.c), with
 *                   labels of a rule (index_label.c)
 *   progress.h      tells who waits for that
 *   digest.h        the running value behind the fingerprint
 *   store.[ch]      where indexes are kept, and how one gets there whole
 *   sidecar.[ch]    a place for something small about every sample: its checkpoints
 *   lend.[ch]       the bounded table of open index files and sidecars
 *   dataset.c       shards and their indexes as one row of samples: what it can answer
 *   dataset_open.c  how it comes to be: opening.h has the map of the parts; dataset_labels.c what
 *                   labels of a rule come to
 *   shelf.[ch]      the datasets that are open, one for all who read the same
 *   arena.[ch]      the bounded, registered read buffers
 *   files.[ch]      the bounded table of open files
 *   quota.h         how much one of several may hold
 *   mtime.h         when a file was last changed
 *   cache.[ch]      bytes of samples, in what the memory budget has left
 *   fetch.[ch]      sample numbers in, bytes out: the stage's door; fetch.c has the map of its
 *                   parts
 *
 * What a user may name:
 *   DIR with DIR/class/x.jpg   class folders; images at any depth below them. The label of a class
 *                              is the rank of its name in bytewise order. A class folder without an
 *                              image is an error, as in torchvision's ImageFolder, and so are
 *                              images beside class folders.
 *   DIR with DIR/x.jpg         a flat folder, where no folder in it has images; unlabelled
 *   X.tar, "train-*.tar", "train-{000000..000146}.tar", "{a,b}/x-{0..9}.tar"
 *                              WebDataset tars: globs sorted bytewise, braces in the order written
 *                              (spec.h)
 * Images are .jpg .jpeg .png in any case; what is in them is looked at when they are decoded. Names
 * with a leading dot and "__MACOSX" are left out. Symbolic links to files and folders are followed;
 * one that leads nowhere or back is an error.
 *
 * Keys: in folders the relative path less its last extension, and samples come in the bytewise
 * order of their keys; in tars the member's path with its last part cut at the first dot ("./" in
 * front left away), and samples come as they lie. Members of one sample lie next to each other. A
 * tar that holds the files of a folder in that order is the same dataset, under the same
 * fingerprint. "a.b.jpg" has the key "a" and the extension "b.jpg", which is no image's: such
 * members are left out, and dataset_notice counts them.
 *
 * Labels: from class folders, from KEY.cls (one decimal number) or KEY.json (an object; the integer
 * "label", else "cls"), 0 to 2^31-1. All samples have one or none has: a mixture is an error that
 * names both. Where a .cls and a .json are there, the .cls counts unless JSON was asked for; JSON
 * without these keys is metadata. Other labels, and rows of them, are label_rule.h's.
 *
 * Limits: 1,000,000 shards; names of 4,000 bytes; images of 4 GiB; folders 64 deep; one extended
 * header of a tar 1 MiB. Sparse members of a tar cannot be read in place and are an error;
 * compressed tars must be unpacked first. A tar that ends inside a member is an error; one that
 * ends between two is taken as whole even without its end mark, as by Python's tarfile.
 *
 * RAM does not grow with the number of samples: per shard a path, sizes and a file number; records
 * live in the index and are read in pages (index.h). Building a folder's index needs some 40 bytes
 * per image of its largest directory. Everything here may block on storage; the pipeline reads
 * through fetch.h instead. A dataset is immutable after dataset_open, so any thread may read it. */
#pragma once

#include "base/fault.h"
#include "base/progress.h"
#include "dataset/index.h"
#include "labels/label_rule.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dataset;

enum dataset_kind { DATASET_FOLDER, DATASET_TARS };

/* By the name's extension; content is sniffed when decoded. */
enum sample_format { SAMPLE_JPEG = 1, SAMPLE_PNG = 2 };

struct dataset_options {
	/* Where indexes go that cannot lie beside their shard; created when missing. NULL:
	 * XDG_CACHE_HOME/penstock, else ~/.cache/penstock. */
	const char *cache_dir;
	bool index_in_cache; /* never write beside shards (a confined daemon) */
	enum dataset_labels labels;
	/* Says more than `labels`, which does not count then (label_rule.h). NULL: `labels` says it
	 * all. Borrowed while dataset_open runs. */
	const struct label_rule *rule;
	progress_fn *progress;
	void *progress_context;
};

/* Where the bytes of one sample are. */
struct sample {
	uint64_t number;
	uint32_t shard;
	uint32_t size; /* bytes of the image */
	uint64_t offset; /* in the shard; 0 in a folder */
	uint64_t position; /* among the shard's bytes: `offset`; in a folder, as if its images lay
			      one behind the other. For sidecar.h. */
	int64_t label; /* -1: unlabelled */
	uint8_t format; /* enum sample_format */
	char name[4096]; /* relative path (folder) or member (tar); filled by dataset_sample only */
};

/* Opens what `spec` names (`options` may be NULL: all zero), building or rebuilding indexes where
 * they are missing or stale. 0; -ENOENT nothing there; -EINVAL not a dataset, no samples, labels
 * for some only, a damaged tar; -E2BIG too many shards; -ESTALE it changed meanwhile; -ECANCELED;
 * -EIO and the like from storage. When no index can be written (read-only beside the shard and no
 * usable cache), it is kept in an unlinked temporary file and `dataset_notice` says so. A file
 * SHARD.idx that is no index of ours is left alone, and the cache folder used. */
int dataset_open(const char *spec, const struct dataset_options *options, struct dataset **ret,
	struct fault *fault);
void dataset_free(struct dataset *dataset);

enum dataset_kind dataset_kind(const struct dataset *dataset);
/* Whether each sample is a file of its own below dataset_root_fd, rather than a range of a shard. */
bool dataset_in_files(const struct dataset *dataset);
uint64_t dataset_count(const struct dataset *dataset);
uint64_t dataset_bytes(const struct dataset *dataset); /* sum of the samples' sizes */
uint64_t dataset_largest(const struct dataset *dataset); /* size of the largest sample */
/* Of keys, sizes and labels in order; not of paths, nor of how they are cut into shards. */
uint64_t dataset_fingerprint(const struct dataset *dataset);
/* Files of a folder whose extensions are no images', when its index was built; 0 for tars. */
uint64_t dataset_passed(const struct dataset *dataset);
bool dataset_labelled(const struct dataset *dataset);
/* Where they came from; NONE where there are none. */
enum dataset_labels dataset_label_source(const struct dataset *dataset);
/* CLASS, also where there are no labels; or MULTI_HOT or FLOAT. */
enum label_type dataset_label_type(const struct dataset *dataset);
/* Values of one label: 1 for CLASS; K of a float32 row for the others, 1 to LABEL_WIDTH_MAX. */
uint32_t dataset_label_width(const struct dataset *dataset);
/* Class folders, names of a manifest, lines of a file of classes; 0 for others, and where labels
 * were asked to be left out. */
uint32_t dataset_classes(const struct dataset *dataset);
const char *dataset_class_name(const struct dataset *dataset, uint32_t label);
uint32_t dataset_shards(const struct dataset *dataset); /* 1 for a folder */
/* Absolute; a folder's root. */
const char *dataset_shard_path(const struct dataset *dataset, uint32_t shard);
const char *dataset_notice(const struct dataset *dataset); /* "" or a sentence worth logging once */
/* Time spent building indexes; 0 when all were fresh. */
uint64_t dataset_indexed_ns(const struct dataset *dataset);

/* True when both read the same: the same shards, at the same paths and unchanged between the two
 * openings, through the same indexes, with the same labels. Pure. */
bool dataset_same(const struct dataset *a, const struct dataset *b);

/* Reads one sample's record, with its name. Blocks. 0, -EIO (index damaged: says to delete it),
 * -errno. */
int dataset_sample(
	const struct dataset *dataset, uint64_t number, struct sample *ret, struct fault *fault);

/* An absolute path, or SHARD!MEMBER. Blocks. 0, -ENAMETOOLONG, or as dataset_sample. */
int dataset_path(const struct dataset *dataset, uint64_t number, char *buffer, size_t room,
	struct fault *fault);

/* Reads the label of a sample of a dataset whose labels are MULTI_HOT or FLOAT into `values`
 * (dataset_label_width of them). Blocks. 0, or as dataset_sample. */
int dataset_sample_values(
	const struct dataset *dataset, uint64_t number, float *values, struct fault *fault);

/* Reads a sample's bytes with pread into `buffer` (`room` >= size). For tools, not for the
 * pipeline. Checks what fetch checks: 0, -ENOENT when a folder's file is gone or a link to nothing,
 * -ESTALE when file or shard is no longer what the index saw, -ENODATA when cut short, -errno. */
int dataset_read(const struct dataset *dataset, const struct sample *sample, void *buffer,
	size_t room, struct fault *fault);

/* 0, or -ESTALE with a fault when shard `shard` on disk is no longer what was indexed (another
 * inode, size or mtime). */
int dataset_verify_shard(const struct dataset *dataset, uint32_t shard, struct fault *fault);

/* The same of a shard that is open, without its path: 0 or -ESTALE. */
int dataset_verify_file(const struct dataset *dataset, uint32_t shard, int fd);

/* For the fetch stage. A dataset may have more shards than a process may have files, so index files
 * are borrowed:
 *
 *   dataset_locate(d, number, &at)          which page of which index holds the record
 *   dataset_index_acquire(d, shard, &fd)    the index, open until released: read INDEX_PAGE bytes
 *                                           at `at.offset`
 *   dataset_index_release(d, shard)         when the read has completed
 *   dataset_record(d, &at, bytes, &record)  checks the page and the record
 *   and for a folder, where the path is needed to open the file:
 *   dataset_locate_name(d, shard, &record, &name_at)    its page: borrow and read as above
 *   dataset_name(d, shard, &record, bytes, ...)         checks the page and copies the path
 *
 * All of them may be called by any thread; only dataset_index_acquire may block. A page's bytes
 * never change while the dataset lives: (shard, page) is a key for a cache. */
struct dataset_page {
	uint32_t shard;
	uint32_t slot; /* number of the record in its page; 0 for a name */
	uint64_t page; /* number of the page in the shard's index, from 0; INDEX_PAGE bytes each */
	uint64_t
		offset; /* in the file that dataset_index_acquire lends; a multiple of INDEX_PAGE */
};

/* 0, or -ERANGE when there is no sample `number`. */
int dataset_locate(const struct dataset *dataset, uint64_t number, struct dataset_page *ret);

/* Takes the record at `at` out of its page as read from disk. Checks page, bounds within the shard
 * and label; a record that is returned can be read without further checks. `label` is -1 where
 * labels were asked to be left out; `offset` is 0 in a folder, and *ret_position as in struct
 * sample. 0 or -EIO with a fault that names the index and says to delete it. */
int dataset_record(const struct dataset *dataset, const struct dataset_page *at,
	const uint8_t *page, struct index_record *ret, uint64_t *ret_position, struct fault *fault);

/* 0 or -EIO with a fault when the record's name page lies outside the index's names. */
int dataset_locate_name(const struct dataset *dataset, uint32_t shard,
	const struct index_record *record, struct dataset_page *ret, struct fault *fault);

/* Takes the record's name out of its name page as read from disk, zero-terminated; in a folder it
 * is a path that stays below the root. `room` of 4096 always suffices. Pure. 0 or -EIO with a fault
 * that names the index. */
int dataset_name(const struct dataset *dataset, uint32_t shard, const struct index_record *record,
	const uint8_t *page, char *buffer, size_t room, struct fault *fault);

/* The same page: takes the label's values out of it, dataset_label_width of them. For datasets
 * whose labels are MULTI_HOT or FLOAT. 0 or -EIO with a fault that names the index. */
int dataset_values(const struct dataset *dataset, uint32_t shard, const struct index_record *record,
	const uint8_t *page, float *values, struct fault *fault);

/* Lends the file that holds a shard's index. At most dataset_index_files are open at once; the
 * least recently used one that nobody holds makes room. Blocks while a file is opened. 0; -EAGAIN
 * all are held: release one first; -ESTALE the index was replaced by one of other contents; -errno.
 * Every success needs one release. */
int dataset_index_acquire(
	const struct dataset *dataset, uint32_t shard, int *ret_fd, struct fault *fault);
void dataset_index_release(const struct dataset *dataset, uint32_t shard);

/* How many index files may be held at once: at least 16, at most 512, a third of RLIMIT_NOFILE
 * between them. */
uint32_t dataset_index_files(const struct dataset *dataset);

/* Borrows, reads and gives back: one whole page. Blocks, for an index file to come free too (two
 * seconds at most). 0 or negative errno. */
int dataset_page_read(const struct dataset *dataset, const struct dataset_page *at, uint8_t *buffer,
	struct fault *fault);

/* The root of a folder dataset for openat; -1 for tars. Stays open. */
int dataset_root_fd(const struct dataset *dataset);

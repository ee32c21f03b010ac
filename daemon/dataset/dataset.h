/* dataset: an immutable list of samples, numbered from 0: shards and their index.
 *
 * A map of this folder:
 *   dataset.[ch]           an open dataset: what it answers about its samples
 *   dataset_impl.h         struct dataset, for the files of this folder
 *   dataset_open.c         from what a user names to an open dataset; opening/ has its parts
 *   dataset_renew.c        images that were rewritten in place: finds them, compares two openings
 *   dataset_fields.c       reads the fields of a sample, for tools
 *   dataset_labels.c       checks the labels of a rule once all indexes exist
 *   opening/               a dataset while it is being opened: its indexes, what the user is told
 *   source/                expands what a user names (folder, tar, glob, braces, URL) into paths
 *   container/             the kinds of containers: folders, tars
 *   blob.[ch]              a file that is read from, wherever it is
 *   index.[ch]             the index file: its format, its writer, its reader of single pages
 *   index_sample.c         writes a sample with the label of a rule into an index
 *   index_files.[ch]       the bounded table of open index files and sidecars
 *   index_share.[ch]       an index of a remote shard, stored beside it
 *   index_progress.h       reports progress while indexes are built
 *   packed.h               how a sample's bytes are stored where they are not stored as they are
 *   column_choice.[ch]     which columns of a container hold image and label
 *   fields.[ch]            what is delivered beside an image, and where it is
 *   field_keys.[ch]        reads and writes the key `fields` of a stream's definition
 *   digest.h               the running value from which the fingerprint is computed
 *   mtime.h                when a file was last changed
 *   sidecar.[ch]           a file beside each shard for something small per sample: entry points
 *   dimensions.[ch]        a file beside each shard for the sizes of its images
 *   concat.[ch]            several datasets of one stream as one list of samples
 *
 * What a user may name:
 *   DIR with DIR/class/x.jpg   class folders; images at any depth below them. A class's label is
 *                              the rank of its name. A class folder without an image is an error,
 *                              as in torchvision's ImageFolder, and so are images beside class
 *                              folders.
 *   DIR with DIR/x.jpg         a flat folder, in which no folder has images; unlabeled
 *   X.tar, "train-*.tar", "train-{000000..000146}.tar", "{a,b}/x-{0..9}.tar"
 *                              WebDataset tars: globs sorted bytewise, braces in the order written
 *                              (source/source.h)
 *   X.zip                      a ZIP of class folders, or a flat one (container_zip.c)
 *   DIR with DIR/data.mdb      an LMDB database (container_lmdb.c), also a file of any name
 * Images are files with the extensions of images (container/image_names.h); their content is
 * examined when they are decoded. Names that begin with a dot and "__MACOSX" are left out. Symbolic
 * links to files and folders are followed; a link that leads nowhere or back is an error, and so is
 * a folder that links lead to more than 100 times.
 *
 * Order: in a folder, that of torchvision's ImageFolder (folder.h); in a tar, that of the tar.
 * Keys: in a folder, the relative path without its last extension. In a tar, the member's path cut
 * at the first dot of its last part, without a leading "./"; the members of one sample must follow
 * each other. A tar that holds the files of a folder in the folder's order is the same dataset,
 * with the same fingerprint. "a.b.jpg" has the key "a" and the extension "b.jpg", which is not an
 * image's extension: such members are left out, and dataset_notice counts them.
 *
 * Labels: from class folders, from KEY.cls (one decimal number) or from KEY.json (an object; its
 * integer "label", or else "cls"), 0 to 2^31-1. Either all samples have a label or none has: a
 * mixture is an error that names both. If a sample has a .cls and a .json, the .cls counts unless
 * JSON was asked for; JSON without these keys is metadata. labels/label_rule.h describes other
 * labels, and rows of them.
 *
 * Limits: 1,000,000 shards; names of 4,000 bytes; images of 4 GiB; folders 64 deep; one extended
 * header of a tar 1 MiB. Sparse members of a tar cannot be read in place and are an error;
 * compressed tars must be unpacked first. A tar that ends inside a member is an error; a tar that
 * ends between two members is read even without its end mark, as by Python's tarfile, and so is a
 * tar with further bytes after its end, which are not read: dataset_warning reports both.
 *
 * Memory does not grow with the number of samples: a path, sizes and a file number per shard.
 * Records are stored in the index and are read in pages (index.h). Building a folder's index needs
 * some 40 bytes per image of its largest directory. Everything here may block on storage; the
 * pipeline reads through fetch/fetch.h instead. A dataset does not change after dataset_open, so
 * any thread may read it. */
#pragma once

#include "base/fault.h"
#include "base/progress.h"
#include "dataset/column_choice.h"
#include "dataset/container/folder.h"
#include "dataset/index.h"
#include "labels/label_rule.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dataset;
struct remote_object;

/* Indexes store these numbers. */
enum dataset_kind {
	DATASET_FOLDER,
	DATASET_TARS,
	DATASET_PARQUET,
	DATASET_TFRECORD,
	DATASET_MDS,
	DATASET_LITDATA,
	DATASET_ZIP,
	DATASET_LMDB,
	DATASET_RECORDIO,
	DATASET_CIFAR,
	DATASET_MNIST,
	DATASET_KINDS,
};

/* By the name's extension; OTHER: the content says what it is. Decoders examine the content in any
 * case. */
enum sample_format { SAMPLE_JPEG = 1, SAMPLE_PNG = 2, SAMPLE_OTHER = 3 };

struct dataset_options {
	/* The folder for indexes that cannot be stored beside their shard; created if missing.
	 * NULL: XDG_CACHE_HOME/penstock, or else ~/.cache/penstock. */
	const char *cache_dir;
	bool index_in_cache; /* never write beside shards: for a confined daemon */
	enum dataset_labels labels;
	enum class_order class_order; /* natural only for class folders */
	/* True: class folders that are named like splits, or hold nothing but folders, are
	 * meant. */
	bool nested;
	/* If not NULL, replaces `labels` (label_rule.h). Borrowed while dataset_open runs. */
	const struct label_rule *rule;
	/* The fields that will be read (fields.h); NULL or no names: none. Borrowed while
	 * dataset_open runs. */
	const struct field_list *fields;
	/* The columns that hold image and label; NULL: all zero. Borrowed while dataset_open
	 * runs. */
	const struct column_choice *columns;
	/* Look at every file of a folder, and build the index again if one has another size than
	 * the index says. Otherwise only the folders' modification times are compared, which stay
	 * the same when an image is rewritten in place. */
	bool check_sizes;
	/* If not NULL, an opening of the same source whose sizes are out of date: its index is not
	 * used, and is built again unless there is another one whose sizes are right, as when
	 * another process has built it. Only for folders. Borrowed while dataset_open runs. */
	const struct dataset *instead_of;
	/* Build the index of a folder again, whatever indexes exist. */
	bool anew;
	progress_fn *progress;
	void *progress_context;
};

/* Where the bytes of one sample are stored. */
enum { DATASET_ETAG = 160 };
struct sample {
	uint64_t number;
	uint32_t shard;
	uint32_t size; /* bytes of the image */
	uint64_t offset; /* of its first byte in the shard; 0 in a folder */
	/* For sidecar.h: in a tar equal to `offset`; otherwise the offset that the sample would
	 * have if all samples of the shard were one file. */
	uint64_t position;
	int64_t label; /* -1: unlabeled */
	uint8_t format; /* enum sample_format */
	struct packed packed; /* how its bytes are stored in the shard */
	char name[4096]; /* Relative path (folder) or member (tar). */
	char etag[DATASET_ETAG]; /* of a folder in a bucket: as the listing had it; else "" */
};

/* Opens what `spec` names, and builds indexes that are missing or stale. `options` may be NULL,
 * which means all zero. 0; -ENOENT nothing exists there; -EINVAL not a dataset, no samples, labels
 * for some samples only, a damaged tar; -E2BIG too many shards; -ESTALE it changed meanwhile;
 * -ECANCELED; -EIO and other errors of storage. If no index can be written (read-only beside the
 * shard and no usable cache folder), the index is kept in an unlinked temporary file and
 * `dataset_notice` says so. A file SHARD.idx that is not one of our indexes is left as it is, and
 * the cache folder is used. */
int dataset_open(const char *spec, const struct dataset_options *options, struct dataset **ret,
	struct fault *fault);
void dataset_free(struct dataset *dataset);

enum dataset_kind dataset_kind(const struct dataset *dataset);
/* The name of that kind, for people: "Parquet". */
const char *dataset_kind_name(const struct dataset *dataset);
/* Whether it has columns, of which one holds the labels (column_choice.h). */
bool dataset_has_columns(const struct dataset *dataset);
/* Whether samples of this kind can have fields. */
bool dataset_has_fields(const struct dataset *dataset);
/* Whether each sample is a file of its own below dataset_root_fd, rather than a range of a
 * shard. */
bool dataset_in_files(const struct dataset *dataset);
/* Whether its shards are URLs: all are, or none. */
bool dataset_remote(const struct dataset *dataset);
/* The open object of a shard of such a dataset (remote/object.h), borrowed; NULL: the shard is
 * local, or each sample is an object of its own. */
struct remote_object *dataset_shard_remote(const struct dataset *dataset, uint32_t shard);
/* Whether some samples or fields are stored packed (packed.h). */
bool dataset_packed(const struct dataset *dataset);
uint64_t dataset_count(const struct dataset *dataset);
uint64_t dataset_bytes(const struct dataset *dataset); /* sum of the samples' sizes */
uint64_t dataset_largest(const struct dataset *dataset); /* size of the largest sample */
/* Covers keys, sizes and labels in order; neither paths nor the division into shards. */
uint64_t dataset_fingerprint(const struct dataset *dataset);
/* Whether a state with this fingerprint fits: it is the dataset's own, or that of an index that
 * this one has replaced with the same names and labels in the same order. Images may have been
 * rewritten in between: other pixels, the same samples. At most 16 indexes are remembered, as long
 * as the file of the index exists. */
bool dataset_was(const struct dataset *dataset, uint64_t fingerprint);
/* The fingerprints of those indexes, the latest first: number `i` from 0; 0 after the last. */
uint64_t dataset_earlier(const struct dataset *dataset, uint32_t i);

/* 0, or -ESTALE with a fault that says what differs: whether readers of `old`, a folder, can go on
 * with `fresh`: the same names with the same labels in the same order. */
int dataset_continues(const struct dataset *old, const struct dataset *fresh, struct fault *fault);

/* Looks at every file of a folder: *ret becomes whether all have the sizes that the index says.
 * Files that cannot be examined are left to their readers. Blocks. 0, or as dataset_sample. */
int dataset_sizes_fit(const struct dataset *dataset, const struct dataset_options *options,
	bool *ret, struct fault *fault);

/* The number of files in a folder whose extensions are not those of images, counted when its index
 * was built; 0 for tars. */
uint64_t dataset_passed(const struct dataset *dataset);
/* Their extensions, the most frequent first: "webp 10, txt 2". "" without such files. */
const char *dataset_passed_text(const struct dataset *dataset);
bool dataset_labelled(const struct dataset *dataset);
/* Where the labels came from; NONE if there are no labels. */
enum dataset_labels dataset_label_source(const struct dataset *dataset);
/* CLASS (also if there are no labels), MULTI_HOT, FLOAT or CLASSES. */
enum label_type dataset_label_type(const struct dataset *dataset);
/* The number of values of one label: 1 for CLASS; for the other types the width K of a row, 1 to
 * LABEL_WIDTH_MAX. */
uint32_t dataset_label_width(const struct dataset *dataset);
/* The bytes of a row of dataset_label_width values: float, or int64_t for CLASSES. */
uint64_t dataset_label_bytes(const struct dataset *dataset);
/* The number of class names: from class folders, from a manifest or from a file of classes; 0 if
 * labels have no names, or if the caller asked for no labels. */
uint32_t dataset_classes(const struct dataset *dataset);
const char *dataset_class_name(const struct dataset *dataset, uint32_t label);
uint32_t dataset_shards(const struct dataset *dataset); /* 1 for a folder */
/* An absolute path or a URL; for a folder, its root. */
const char *dataset_shard_path(const struct dataset *dataset, uint32_t shard);
/* "" or a sentence that is worth logging once */
const char *dataset_notice(const struct dataset *dataset);
/* The warnings about the samples, which every trainer of the dataset should be told: sentence
 * `number`, from 0; NULL after the last. */
enum { DATASET_WARNINGS = 4 };
const char *dataset_warning(const struct dataset *dataset, uint32_t number);
/* The time spent building indexes; 0 if all were up to date. */
uint64_t dataset_indexed_ns(const struct dataset *dataset);

/* True if both are the same data: the same shards, at the same paths and unchanged between the two
 * openings, through the same indexes, with the same labels. Pure. */
bool dataset_same(const struct dataset *a, const struct dataset *b);

/* Reads one sample's record, with its name. Blocks. 0, -EIO (damaged index; the fault says to
 * delete it), -errno. */
int dataset_sample(
	const struct dataset *dataset, uint64_t number, struct sample *ret, struct fault *fault);

/* Writes the sample's absolute path, or SHARD!MEMBER. Blocks. 0, -ENAMETOOLONG, or as
 * dataset_sample. */
int dataset_path(const struct dataset *dataset, uint64_t number, char *buffer, size_t room,
	struct fault *fault);

/* Reads a sample's label into `values`, dataset_label_bytes of them. Not for CLASS. Blocks. 0, or
 * as dataset_sample. */
int dataset_sample_values(
	const struct dataset *dataset, uint64_t number, void *values, struct fault *fault);

/* Reads a sample's bytes with pread into `buffer` (`room` >= size). For tools, not for the
 * pipeline. Makes the same checks as fetch: 0, -ENOENT if a folder's file is gone or is a link to
 * nothing, -ESTALE if the file or the shard changed since it was indexed, -ENODATA if it was cut
 * short, -EPROTO if it is stored packed and cannot be unpacked, -errno. */
int dataset_read(const struct dataset *dataset, const struct sample *sample, void *buffer,
	size_t room, struct fault *fault);

/* Opens a file that holds the sample's bytes, from byte *ret_offset on: the sample's own or its
 * shard, after the checks of dataset_read that come before reading; or, of a sample that is stored
 * packed, an unlinked file with its bytes. Returns a descriptor, or as dataset_read. */
int dataset_sample_open(const struct dataset *dataset, const struct sample *sample,
	uint64_t *ret_offset, struct fault *fault);

/* The same for a sample that is too large for memory: copies its bytes into the file `to`, from its
 * first byte on. *ret_unwritten is 0, or the -errno for which `to` could not be written, which is
 * then returned, too, without a fault. */
int dataset_copy(const struct dataset *dataset, const struct sample *sample, int to,
	int *ret_unwritten, struct fault *fault);

/* Reads the first bytes of a sample's field `number` of `fields`, the list that the dataset was
 * opened with, at most its `max`, into `buffer`, which has room for them. *ret_longer: it has more
 * bytes. For tools, and for fields that are too large for the pipeline's buffers. Blocks. 0;
 * DATASET_E_NONE if the sample has no such field; or as dataset_read. */
enum { DATASET_E_NONE = 1 };
int dataset_field_read(const struct dataset *dataset, uint64_t sample,
	const struct field_list *fields, uint32_t number, void *buffer, uint32_t *ret_size,
	bool *ret_longer, struct fault *fault);

/* 0, or -ESTALE with a fault if shard `shard` on disk is no longer what was indexed (another inode,
 * size or mtime). */
int dataset_verify_shard(const struct dataset *dataset, uint32_t shard, struct fault *fault);

/* The same for a shard that is open, without looking at its path: 0 or -ESTALE. */
int dataset_verify_file(const struct dataset *dataset, uint32_t shard, int fd);

/* The same for a shard that is an object of remote storage, with the size and the stamp
 * (remote_object_stamp) that it has there. Pure. */
int dataset_verify_object(const struct dataset *dataset, uint32_t shard, uint64_t size,
	int64_t stamp, struct fault *fault);

/* For fetch. A dataset may have more shards than a process may have open files, so index files are
 * borrowed:
 *
 *   dataset_locate(d, number, &at)          which page of which index holds the record
 *   dataset_index_acquire(d, shard, &fd)    the index, open until released: read INDEX_PAGE bytes
 *   at
 *                                           `at.offset`
 *   dataset_index_release(d, shard)         when the read has completed
 *   dataset_record(d, &at, bytes, &record)  checks the page and the record
 * and for a folder, whose files are opened by path:
 *   dataset_locate_name(d, shard, &record, &name_at)    its page: borrow and read as above
 *   dataset_name(d, shard, &record, bytes, ...)         checks the page and copies the path
 *
 * `checked` says that the page's checksum is known to be right: the caller has kept the bytes since
 * one of these functions found it so.
 *
 * Any thread may call all of them; only dataset_index_acquire may block. The bytes of a page never
 * change while the dataset exists: (shard, page) can be the key of a cache. */
struct dataset_page {
	uint32_t shard;
	uint32_t slot; /* number of the record in its page; 0 for a name */
	/* number of the page in the shard's index, from 0; each has INDEX_PAGE bytes */
	uint64_t page;
	uint64_t
		offset; /* in the file that dataset_index_acquire lends; a multiple of INDEX_PAGE */
};

/* 0, or -ERANGE if sample `number` does not exist. */
int dataset_locate(const struct dataset *dataset, uint64_t number, struct dataset_page *ret);

/* Takes the record at `at` out of its page as read from disk. Checks the page, the bounds within
 * the shard and the label, so that the caller needs no further checks. `label` is -1 if the caller
 * asked for no labels; `offset` is 0 in a folder, and *ret_position is as in struct sample. 0, or
 * -EIO with a fault that names the index and says to delete it. */
int dataset_record(const struct dataset *dataset, const struct dataset_page *at,
	const uint8_t *page, bool checked, struct index_record *ret, uint64_t *ret_position,
	struct fault *fault);

/* 0, or -EIO with a fault if the record's name page is beyond the index's names. */
int dataset_locate_name(const struct dataset *dataset, uint32_t shard,
	const struct index_record *record, struct dataset_page *ret, struct fault *fault);

/* Takes the ETag of a folder's sample in a bucket out of its name page, zero-terminated; `buffer`
 * has DATASET_ETAG bytes. "": there is none. Pure. 0, or -EIO with a fault that names the index. */
int dataset_etag(const struct dataset *dataset, uint32_t shard, const struct index_record *record,
	const uint8_t *page, bool checked, char *buffer, struct fault *fault);

/* Takes the record's name out of its name page as read from disk, zero-terminated; in a folder the
 * name is a path that stays below the root. `room` of 4096 always suffices. Pure. 0, or -EIO with a
 * fault that names the index. */
int dataset_name(const struct dataset *dataset, uint32_t shard, const struct index_record *record,
	const uint8_t *page, bool checked, char *buffer, size_t room, struct fault *fault);

/* Takes the label's values out of the name page, dataset_label_bytes of them. Not for CLASS. 0, or
 * -EIO with a fault that names the index. */
int dataset_values(const struct dataset *dataset, uint32_t shard, const struct index_record *record,
	const uint8_t *page, bool checked, void *values, struct fault *fault);

/* Takes the place of field `number` out of the name page of a tar that was opened with fields: it
 * is within the shard, or absent. 0, or -EIO with a fault that names the index. */
int dataset_field(const struct dataset *dataset, uint32_t shard, const struct index_record *record,
	const uint8_t *page, bool checked, uint32_t number, struct index_field *ret,
	struct fault *fault);

/* Lends the file that holds a shard's index. At most dataset_index_files are open at once; the
 * least recently used one that no caller holds is closed to make room. Blocks while a file is
 * opened. 0; -EAGAIN if all are held: release one first; -ESTALE if the index was replaced by one
 * with other contents; -errno. Every success needs one release. */
int dataset_index_acquire(
	const struct dataset *dataset, uint32_t shard, int *ret_fd, struct fault *fault);
void dataset_index_release(const struct dataset *dataset, uint32_t shard);

/* How many index files may be held at once: a third of RLIMIT_NOFILE, but at least 16 and at most
 * 512. */
uint32_t dataset_index_files(const struct dataset *dataset);

/* Borrows the index file, reads one whole page and gives the file back. Blocks, also for at most
 * two seconds until an index file is free. 0 or negative errno. */
int dataset_page_read(const struct dataset *dataset, const struct dataset_page *at, uint8_t *buffer,
	struct fault *fault);

/* The root of a folder for openat; -1 for tars. Stays open as long as the dataset. */
int dataset_root_fd(const struct dataset *dataset);

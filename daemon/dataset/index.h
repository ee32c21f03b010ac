/* index: the file that says where every sample is stored.
 *
 * It consists of pages of 4 KiB, each with its own number and checksum. Readers do not trust it:
 * every offset read from it is checked against the shard's size before use, and a page whose
 * checksum is wrong is an error.
 *
 *   page 0         struct index_head: magic, version, what it was made from (shard size, mtime),
 *                  counts, digests
 *   record_pages   records: index_records() of struct index_record each, in sample order; numbered
 *                  from 1
 *   name_pages     names: each record's name is whole within one page, at (name_page, name_offset,
 *                  name_size); if labels are not single classes, `label_size` bytes of label follow
 *                  the name; then come the places of fields (fields.h); in version 9, the ETag;
 *                  numbered from 0, so that they can be written before the number of records is
 *                  known
 *   table_pages    tables: directories with their mtimes (folders), class names; numbered from 0
 *
 * It is written to a temporary file beside its place, synced and renamed, so that no reader sees a
 * partial index. Its contents depend on the data and on the index that it replaces, not on when or
 * where it was made, so two processes that build it at once write the same bytes. Byte order is the
 * machine's; an index with another byte order has another magic and is built again.
 *
 * The writer streams: records go to the file itself, names and tables to unlinked files beside it
 * that are appended at the end. Its memory does not grow with the number of samples. A writer
 * belongs to one thread; everything else here is pure or only reads. */
#pragma once

#include "base/fault.h"
#include "dataset/fields.h"
#include "dataset/packed.h"
#include "labels/label_rule.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INDEX_PAGE = 4096, INDEX_PAGE_HEAD = 16 };
/* Records in a page; those of version 6 are longer. */
enum { INDEX_RECORDS = 127, INDEX_RECORDS_PACKED = 63 };
/* Indexes of folders have version 7, those of tars version 8, those of folders in a bucket version
 * 9, which has the ETag of each sample. Version 6 is that of all other containers: its records and
 * the places of its fields say how the bytes are packed. Earlier releases took only .jpg, .jpeg and
 * .png for images: their indexes of folders have version 5, and those of tars version 4; they
 * differ in nothing else, and serve where no other image was left out (opening_find.c). Still
 * earlier, indexes of folders had version 4 and another order. */
enum {
	INDEX_VERSION_TAR_OLD = 4,
	INDEX_VERSION_FOLDER_OLD = 5,
	INDEX_VERSION_PACKED = 6,
	INDEX_VERSION_FOLDER = 7,
	INDEX_VERSION = 8, /* of tars */
	INDEX_VERSION_BUCKET = 9, /* of folders in a bucket */
};

static inline uint32_t index_records(uint32_t version)
{
	return version == INDEX_VERSION_PACKED ? INDEX_RECORDS_PACKED : INDEX_RECORDS;
}
enum { INDEX_EARLIER = 16 }; /* replaced indexes that are remembered */
enum { INDEX_NAME_MAX = LABEL_NAME_MAX }; /* bytes of a member's name or of a relative path */
enum { INDEX_NAME_ROOM = INDEX_PAGE - INDEX_PAGE_HEAD }; /* of a name with its label */

struct index_page_head {
	uint32_t crc; /* CRC-32 (zlib) of the page's other 4092 bytes */
	/* 'H', 'R', 'N', 'T'; in version 6 'P' for records and 'M' for names */
	uint32_t kind;
	uint64_t number; /* as above: a page in the wrong place is detected */
};

struct index_record {
	/* Of the image's first byte in the shard. In a folder's index, the offset that it would
	 * have if all images were one file, so that it ascends from record to record. */
	uint64_t offset;
	uint32_t size;
	int32_t label;
	uint64_t name_page; /* among the name pages, from 0 */
	uint16_t name_offset; /* in the page, at least INDEX_PAGE_HEAD */
	uint16_t name_size; /* without a terminating zero */
	uint8_t format; /* enum sample_format */
	uint8_t fields; /* how many struct index_field follow the label */
	/* Bytes of label after the name: float32 values, or uint32_t classes in ascending order. 0
	 * if `label` is the whole label. */
	uint16_t label_size;
	/* In version 6 only. In all others a record ends here, the position is the offset, and
	 * nothing is packed. */
	uint64_t position; /* the sum of the sizes of the samples before it */
	struct packed packed;
};
enum { INDEX_RECORD_PLAIN = 32 };

/* Where a field of a sample is in the shard. */
struct index_field {
	uint64_t offset;
	uint32_t size; /* UINT32_MAX stands for all larger ones, too */
	uint32_t present; /* 0: the sample has none */
	struct packed packed; /* in version 6 only */
};
enum { INDEX_FIELD_PLAIN = 16 };

_Static_assert(sizeof(struct index_page_head) == INDEX_PAGE_HEAD, "index page head");
_Static_assert(sizeof(struct index_record) == 64, "index record");
_Static_assert(sizeof(struct index_field) == 40, "index field");
_Static_assert(
	(int)INDEX_NAME_ROOM == (int)LABEL_NAME_ROOM, "labels are limited by what a page holds");
_Static_assert(
	INDEX_PAGE_HEAD + (int)INDEX_RECORDS * (int)INDEX_RECORD_PLAIN <= INDEX_PAGE &&
		INDEX_PAGE_HEAD + INDEX_RECORDS_PACKED * sizeof(struct index_record) <= INDEX_PAGE,
	"records fit a page");
_Static_assert(offsetof(struct index_record, position) == INDEX_RECORD_PLAIN &&
		       offsetof(struct index_field, packed) == INDEX_FIELD_PLAIN,
	"what all versions but 6 store");

/* Checks page `number` as read from disk and takes record `slot` out of it; with `checked`, the
 * page's checksum is known to be right. 0, or -EIO with a fault. Pure. */
int index_page_record(const uint8_t page[INDEX_PAGE], bool checked, uint64_t number, uint32_t slot,
	struct index_record *ret, struct fault *fault);

/* Whether it is a page of records as version 6 has them. */
bool index_page_is_packed(const uint8_t page[INDEX_PAGE]);

/* The class in record `slot` of a page of which dataset_record has accepted a record. Pure. */
int32_t index_page_class(const uint8_t page[INDEX_PAGE], uint32_t slot);

/* Checks a name page and copies the record's name, zero-terminated. `room` of 4096 always suffices.
 * 0 or -EIO. Pure. */
int index_page_name(const uint8_t page[INDEX_PAGE], bool checked, const struct index_record *record,
	char *buffer, size_t room, struct fault *fault);

/* The same for the label after the name: *ret points into `page` and need not be aligned. */
int index_page_label(const uint8_t page[INDEX_PAGE], bool checked,
	const struct index_record *record, const uint8_t **ret, struct fault *fault);

/* The same for field `number` after the label; the record has that many fields. */
int index_page_field(const uint8_t page[INDEX_PAGE], bool checked,
	const struct index_record *record, uint32_t number, struct index_field *ret,
	struct fault *fault);

/* The same for the ETag, zero-terminated; `buffer` has INDEX_ETAG bytes. "": the store gave none,
 * or the index is not of version 9. */
enum { INDEX_ETAG = 160 };
int index_page_etag(const uint8_t page[INDEX_PAGE], bool checked, uint32_t version,
	const struct index_record *record, char *buffer, struct fault *fault);

/* Reads exactly `size` bytes at `offset`, despite short reads and EINTR. 0; -EIO at the end of the
 * file; -errno. */
int index_read(int fd, uint64_t offset, void *buffer, size_t size, struct fault *fault);

/* Page 0, after its index_page_head. */
struct index_head {
	uint64_t magic;
	uint32_t version;
	uint32_t kind; /* enum dataset_kind */
	uint32_t asked; /* enum dataset_labels that it was built for */
	uint32_t source; /* enum dataset_labels that the labels came from; NONE: all are -1 */
	uint64_t shard_size; /* 0 for a folder */
	/* 0 for a folder, whose tables have the mtimes of its directories */
	int64_t shard_mtime_ns;
	uint64_t samples, bytes, largest;
	uint64_t digest; /* see digest.h */
	uint64_t digest_unlabelled; /* the same with every label -1 */
	uint64_t record_pages, name_pages, table_pages;
	uint64_t table_bytes;
	uint64_t directories, classes;
	uint64_t members; /* files seen, of any kind */
	/* Members of a tar that were left out because of a second dot before an image's
	 * extension. */
	uint64_t dotted;
	uint64_t labelless; /* .json files beside images that hold no label */
	uint64_t rule; /* labels_hash of the label rule that it was built for; 0: a single word */
	uint32_t label_type; /* enum label_type; AUTO: it has no samples */
	uint32_t label_width; /* one more than the highest class; for FLOAT and CLASSES, how many */
	uint64_t lines; /* for a manifest: the sum of manifest_mark over the samples' lines */
	/* How a tar ends (enum tar_end), and where that was seen. Earlier releases wrote zeros. */
	uint64_t tail, tail_at;
	/* As digest, of names without sizes, with and without labels: what stays the same when
	 * images are rewritten in place. Zero in indexes of earlier releases. */
	uint64_t digest_names, digest_names_unlabelled;
	/* The digests of the indexes that this one replaced with the same names and labels, the
	 * latest first: states that were taken with them still fit. Only for folders. */
	uint64_t earlier_count;
	struct index_digests {
		uint64_t digest, unlabelled;
	} earlier[INDEX_EARLIER];
	/* From here on for folders only. */
	uint32_t class_order; /* enum class_order */
	/* In version 6 only: a hash of the size and the time of change of the files beside the
	 * shard that the index was made from, too (struct container). 0: none. */
	uint32_t beside;
	/* Images that are in class folders themselves, not in folders below them. */
	uint64_t direct;
	/* The fields whose places are in a tar's index: their field_list_hash, and how many they
	 * are. 0: none. */
	uint64_t fields;
	uint32_t field_count;
	/* In version 6 only: 0, or enum index_packed if some samples or fields are packed. */
	uint32_t packed;
	uint64_t columns; /* column_choice_hash of the columns that were asked for; 0: none */
};

_Static_assert(sizeof(struct index_head) == 512, "index head");

enum index_packed {
	INDEX_PACKED_WHOLE = 1, /* by an earlier release, which had no PACKED_SNAPPY_PART */
	INDEX_PACKED = 2,
};

enum {
	INDEX_E_FOREIGN = 1, /* not one of our indexes: must not be overwritten */
	INDEX_E_OTHER = 2, /* another version or byte order */
	INDEX_E_DAMAGED = 3,
};

/* Reads and checks the head of an index that begins at `base`. `file_size` is the size of the whole
 * file, which must end with the index; 0: unknown. 0, INDEX_E_*, or a negative errno of the read.
 * `ret_crc` identifies exactly these contents. */
int index_head_read(
	int fd, uint64_t base, uint64_t file_size, struct index_head *ret, uint32_t *ret_crc);

/* Entries of the tables, in the order in which they were written. */
struct index_entry {
	int64_t mtime_ns;
	uint32_t size; /* of the text that follows, without a terminating zero */
	/* 'D': a directory, by relative path, "" for the root. 'C': the name of the next class.
	 * 'X': `mtime_ns` is how many files were passed over for the extension in the text (or for
	 * INDEX_PASSED_...). */
	uint32_t kind;
};
_Static_assert(sizeof(struct index_entry) == 16, "index entry");

/* In place of an extension: images whose names begin with a dot; all extensions that came after the
 * first INDEX_PASSED_KINDS in bytewise order. */
#define INDEX_PASSED_HIDDEN "."
#define INDEX_PASSED_OTHERS "..."
enum { INDEX_PASSED_KINDS = 32, INDEX_PASSED_TEXT = 24 };

struct index_table {
	int fd;
	uint64_t at; /* offset of the next page */
	uint64_t page, pages;
	uint64_t left; /* bytes of entries not yet taken */
	size_t used; /* bytes taken of `buffer` */
	uint8_t buffer[INDEX_PAGE];
};
void index_table_init(
	struct index_table *table, int fd, uint64_t base, const struct index_head *head);

/* Takes the next entry and copies its text, zero-terminated, to `text` (room for INDEX_NAME_MAX +
 * 1). 1; 0 at the end; -EIO if the tables are damaged; -errno. */
int index_table_next(struct index_table *table, struct index_entry *ret, char *text);

/* One part of the file while it is written: pages of one kind that are filled one after the
 * other. */
struct index_section {
	int fd;
	uint32_t kind;
	uint64_t base; /* of its first page in `fd` */
	uint64_t first; /* number of its first page */
	uint64_t pages; /* finished */
	size_t used; /* bytes of the page that is being filled; 0: no page is begun */
	size_t buffered; /* finished pages in `buffer`, not yet written */
	uint8_t *buffer;
};

struct index_writer {
	struct index_section records, names, tables;
	/* The caller sets label_type, fields and field_count before the first sample; and kind,
	 * asked, rule, source, shard_*, members, dotted, labelless, lines and tail before
	 * index_writer_finish. */
	struct index_head head;
	uint64_t base;
	uint64_t name_hash, label_hash; /* of what was written last for a record */
	/* The caller sets these before it writes a sample's name: head.field_count of them. */
	struct index_field field[FIELDS_MAX];
	const char *etag; /* the same, in version 9; NULL: none */
	/* Of writing, kept once it is set: the place is at fault, not what is indexed. */
	int error;
};

/* Begins an index in `fd` at byte `base`; `names_fd` and `tables_fd` are empty files for its parts.
 * The descriptors are borrowed until deinit. 0 or -ENOMEM. */
int index_writer_init(
	struct index_writer *writer, int fd, uint64_t base, int names_fd, int tables_fd);
void index_writer_deinit(struct index_writer *writer);

/* Makes it an index of version 6. Before the first sample. */
void index_writer_packed(struct index_writer *writer);

/* Bytes that a name and its label may have together. */
size_t index_writer_room(const struct index_writer *writer);

/* Writes a name and puts its place into the record. 0 or -errno. */
int index_writer_name(
	struct index_writer *writer, const char *name, size_t size, struct index_record *record);

/* The same with a label of `label_size` bytes after the name, for labels that do not fit the
 * record. */
int index_writer_name_label(struct index_writer *writer, const char *name, size_t size,
	const void *label, size_t label_size, struct index_record *record);

/* Adds the next sample, whose record index_writer_name has filled. `key` goes into the digests. 0
 * or -errno. */
int index_writer_add(struct index_writer *writer, const struct index_record *record,
	const char *key, size_t key_size);

/* The same for a sample whose hashes (digest_sample with its label, and with -1) are known. The
 * caller then keeps head.label_width. */
int index_writer_add_hashed(struct index_writer *writer, const struct index_record *record,
	uint64_t hash, uint64_t hash_unlabelled);

/* Remembers the digests of the index with head `old`, which this one replaces, if the names and
 * labels of both are the same; with `unlabelled`, if the names are. Before index_writer_finish. */
void index_writer_replaces(
	struct index_writer *writer, const struct index_head *old, bool unlabelled);

int index_writer_entry(struct index_writer *writer, uint32_t kind, int64_t mtime_ns,
	const char *text, size_t size);

/* Puts the parts together and writes the head; the caller then syncs and renames. `ret_bytes` is
 * the size of the whole index. 0 or -errno. */
int index_writer_finish(struct index_writer *writer, uint64_t *ret_bytes);

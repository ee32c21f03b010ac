/* label_manifest: labels from a CSV or TSV file that names every sample.
 *
 *   path,label        one class (a number or a name) or one number
 *   path,labels       any number of them, separated by ";", or if there is no ";", by blanks
 *   path,x,y,...      K numbers, under any other names; if MULTI_HOT was asked for: 0 or 1 for each
 *                     class, whose name is the column's; if CLASSES was asked for: a class each
 *   no header         the first column is the path; one more column is `label`, several are K
 *   numbers
 *
 * The header is a first line that begins with `path`. The separator is a tab in FILE.tsv and a
 * comma in FILE.csv; in other files it is a tab if the first line has one. In a folder the path is
 * relative to it, or absolute within it; in tars it is a member's name, its key, or SHARD!MEMBER.
 *
 * Opening reads the whole file, for its form, the hash of its contents and the number of lines; and
 * once more for the names of the classes, unless a file of classes numbers them. Looking up a
 * sample needs a table of 16 bytes per line, at most half full. It is an unlinked file that is
 * mapped, so it can be written out, and memory does not grow with the lines (1.3 million take 64
 * MiB of disk while an index is built). At most MANIFEST_LINES. One thread; blocks. */
#pragma once

#include "base/fault.h"
#include "base/progress.h"
#include "labels/label_csv.h"
#include "labels/label_value.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define MANIFEST_LINES (UINT64_C(1) << 32)

enum manifest_form {
	MANIFEST_ONE, /* the second column is one value */
	MANIFEST_LIST, /* the second column holds any number */
	MANIFEST_COLUMNS, /* each column but the first holds one */
	MANIFEST_INDICATORS, /* each column but the first is a class: 0 or 1 */
};

struct manifest_line {
	uint64_t hash; /* of its path */
	uint64_t place; /* the offset where it begins plus one; 0: free */
};

struct manifest {
	/* Called now and then with the bytes read so far, from the beginning of the file in each
	 * pass; may stop it. NULL: no reports. */
	progress_fn *progress;
	void *progress_context;
	bool only; /* samples that no line names are left out */
	const char *path; /* borrowed */
	const char *root; /* of a folder; NULL: tars. Borrowed */
	const struct label_classes *classes; /* borrowed; if it is empty, `names` is used */
	struct label_classes names; /* the manifest's own; for INDICATORS always, by column */
	int fd;
	struct stat opened;
	struct csv *csv;
	char separator;
	bool header;
	enum manifest_form form;
	enum label_type type; /* not AUTO once it is open */
	size_t columns; /* of every line; 0: any number */
	uint32_t width; /* of FLOAT and CLASSES, once it is prepared */
	uint64_t first; /* where the first line after the header begins */
	uint64_t lines, hash;
	uint64_t sum; /* of manifest_mark over all lines */
	struct manifest_line *table; /* NULL: not prepared */
	uint64_t slots;
};

/* A line's part of the sums that show whether each line was used once. Pure. */
uint64_t manifest_mark(uint64_t place);

/* Opens and reads the file. `path`, `root` and `classes` outlive the manifest. Takes a struct that
 * is zeroed except for `progress` and `only`; manifest_close must follow in any case. 0; -EINVAL
 * with "path:line: ..."; -ECANCELED; -errno. */
int manifest_open(struct manifest *manifest, const char *path, const char *root,
	enum label_type asked, const struct label_classes *classes, struct fault *fault);
void manifest_close(struct manifest *manifest);

/* Checks by size and mtime that the file has not changed since it was opened. Called after labels
 * were taken from it. 0; -ESTALE. */
int manifest_unchanged(const struct manifest *manifest, struct fault *fault);

/* Makes the table, if it does not exist, in a file in `folder` (NULL: TMPDIR), and checks every
 * line's label. 0; -EINVAL a line has no valid label, or two lines name the same path; -ESTALE the
 * file changed; -ECANCELED; -errno. */
int manifest_prepare(struct manifest *manifest, const char *folder, struct fault *fault);

/* The names of one sample; NULL for those that it does not have. */
struct manifest_sample {
	const char *shard; /* path of the tar; NULL in a folder */
	const char *name; /* relative path, or member */
	const char *key; /* of a tar's sample; not zero-terminated */
	size_t key_size;
};

/* Finds the sample's label, after manifest_prepare. *ret_place is the place of its line, for
 * manifest_mark. 0; with `only`, 1 if no line names it; -EINVAL if no line or several lines name
 * it, or if its label is not valid, with a fault that names file and line but not the sample;
 * -errno. */
int manifest_find(struct manifest *manifest, const struct manifest_sample *sample,
	struct label_found *ret, uint64_t *ret_place, struct fault *fault);

enum { MANIFEST_FRESH, MANIFEST_AGAIN, MANIFEST_NONE };

/* For finding a mistake, after manifest_prepare: marks the sample's line. MANIFEST_FRESH: it was
 * not marked before; MANIFEST_AGAIN: it was; MANIFEST_NONE: no line names the sample; -EINVAL
 * several do; -errno. */
int manifest_use(
	struct manifest *manifest, const struct manifest_sample *sample, struct fault *fault);

/* Finds the first line that is not marked: 1 with its number and path, 0 if all are marked, or a
 * negative errno. */
int manifest_unused(struct manifest *manifest, uint64_t *ret_line, char *path, size_t room,
	struct fault *fault);

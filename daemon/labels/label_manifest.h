/* label_manifest: labels from a CSV or TSV file that names every sample.
 *
 *   path,label        one class (a number or a name) or one number
 *   path,labels       any number of them, separated by ";", or where there is none, by blanks
 *   path,x,y,...      K numbers, under any other names; of MULTI_HOT, where it is asked for: 0 or 1
 *                     of each class, which is called as its column
 *   no header         the first column is the path; one more is `label`, more are K numbers
 *
 * The header is a first line that begins with `path`. The separator is a tab in FILE.tsv, a comma
 * in FILE.csv, else a tab where the first line holds one. In a folder the path is relative to it,
 * or absolute within it; in tars it is a member's name, its key, or SHARD!MEMBER.
 *
 * Opening reads the whole file: its form, its content's hash, how many lines; and once more for the
 * names of the classes, where no file of classes numbers them. Looking a sample up takes a table of
 * 16 bytes a line, at most half full, in an unlinked file that is mapped: it lies in the page cache
 * and can be written out, so memory does not grow with the lines (1.3 million take 64 MiB of disk
 * while an index is built). MANIFEST_LINES at most. One thread; blocks. */
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
	MANIFEST_COLUMNS, /* all columns but the first hold one each */
	MANIFEST_INDICATORS, /* all columns but the first are classes: 0 or 1 */
};

struct manifest_line {
	uint64_t hash; /* of its path */
	uint64_t place; /* where it begins, and one; 0: free */
};

struct manifest {
	/* Told now and then how much of the file was read, from its beginning each time it is read;
	 * stops it. NULL: nobody watches. */
	progress_fn *progress;
	void *progress_context;
	const char *path; /* borrowed */
	const char *root; /* of a folder; NULL: tars. Borrowed */
	const struct label_classes *classes; /* borrowed; no names: none, or `names` */
	struct label_classes names; /* of the manifest's own; of INDICATORS always, by column */
	int fd;
	struct stat opened;
	struct csv *csv;
	char separator;
	bool header;
	enum manifest_form form;
	enum label_type type; /* not AUTO once it is open */
	size_t columns; /* of every line; 0: any number */
	uint32_t width; /* of FLOAT, once it is prepared */
	uint64_t first; /* where the first line behind the header begins */
	uint64_t lines, hash;
	uint64_t sum; /* of manifest_mark of all lines */
	struct manifest_line *table; /* NULL: not prepared */
	uint64_t slots;
};

/* What the sums are of, that show whether every line was used once. Pure. */
uint64_t manifest_mark(uint64_t place);

/* Opens and reads; `path`, `root` and `classes` outlive it. Takes a struct that is zeroed but for
 * `progress`, good for manifest_close in any case. 0; -EINVAL with "path:line: ..."; -ECANCELED;
 * -errno. */
int manifest_open(struct manifest *manifest, const char *path, const char *root,
	enum label_type asked, const struct label_classes *classes, struct fault *fault);
void manifest_close(struct manifest *manifest);

/* Whether the file still is what was opened, going by its size and mtime: asked after labels were
 * taken out of it. 0; -ESTALE. */
int manifest_unchanged(const struct manifest *manifest, struct fault *fault);

/* Makes the table, in a file in `folder` (NULL: TMPDIR), unless it is there, and looks at every
 * line's label. 0; -EINVAL a label is none, or two lines name the same path; -ESTALE the file
 * changed; -ECANCELED; -errno. */
int manifest_prepare(struct manifest *manifest, const char *folder, struct fault *fault);

/* How one sample may be named; NULL where it has no such name. */
struct manifest_sample {
	const char *shard; /* path of the tar; NULL in a folder */
	const char *name; /* relative path, or member */
	const char *key; /* of a tar's sample; no zero byte behind it */
	size_t key_size;
};

/* The sample's label, after manifest_prepare. *ret_place is of its line, for manifest_mark. 0;
 * -EINVAL no line or several name it, or its label is none: with a fault that names file and line
 * but not the sample; -errno. */
int manifest_find(struct manifest *manifest, const struct manifest_sample *sample,
	struct label_found *ret, uint64_t *ret_place, struct fault *fault);

enum { MANIFEST_FRESH, MANIFEST_AGAIN, MANIFEST_NONE };

/* For finding what is wrong, after manifest_prepare: marks the sample's line. MANIFEST_*: it was
 * not marked before, it was, there is none; -EINVAL several name it; -errno. */
int manifest_use(
	struct manifest *manifest, const struct manifest_sample *sample, struct fault *fault);

/* The first line that is not marked: 1 with its number and path, 0 there is none, negative errno.
 */
int manifest_unused(struct manifest *manifest, uint64_t *ret_line, char *path, size_t room,
	struct fault *fault);

/* The number of the line at `place`, by reading up to it; 0 where that fails. */
uint64_t manifest_line_number(struct manifest *manifest, uint64_t place);

/* labels: a label rule (label_rule.h) with its files opened, ready to be asked about samples.
 *
 * A map of this folder:
 *   label_rule.h             where a stream's labels come from, as its definition says it
 *   labels.[ch]              such a rule with its files opened
 *   label.[ch]               the number in a .cls or .json member
 *   label_json.[ch]          JSON as programs write it, with NaN and long integers
 *   label_path.[ch]          a place in a JSON document, for `labels: {json: PATH}`
 *   label_value.[ch]         one sample's label: a class, a list of classes, or numbers
 *   label_classes.[ch]       names of classes and their numbers
 *   label_manifest.[ch]      a CSV or TSV file that names every sample
 *   label_csv.[ch]           reads records of CSV and TSV files
 *   npy.[ch]                 reads .npy files of sample numbers or weights
 *
 * labels_open reads the files that the rule names, so that the rule's hash covers their contents:
 * an index that was built for other contents is another index. One thread; blocks. */
#pragma once

#include "base/fault.h"
#include "labels/label_classes.h"
#include "labels/label_manifest.h"
#include "labels/label_path.h"
#include "labels/label_rule.h"
#include "labels/label_value.h"

#include <stdint.h>

struct labels;

/* `root` is the absolute path of a folder, or NULL for tars. `progress` is called while a manifest
 * is read. `rule` and `root` outlive the labels. 0; -EINVAL with "labels: ..."; -ECANCELED;
 * -errno. */
int labels_open(const struct label_rule *rule, progress_fn *progress, void *progress_context,
	const char *root, struct labels **ret, struct fault *fault);
void labels_free(struct labels *labels);

/* Covers the rule and the contents of its files; never 0. */
uint64_t labels_hash(const struct labels *labels);
/* The same if the labels in an index depend on the rule; 0 if they are those of a single word and
 * the rule only names the classes. */
uint64_t labels_index_hash(const struct labels *labels);

/* The type of the labels; AUTO: each index has its own. */
enum label_type labels_type(const struct labels *labels);
/* The names of the classes; none if labels are numbers. */
const struct label_classes *labels_classes(const struct labels *labels);
/* NULL if the rule has no manifest. */
struct manifest *labels_manifest(struct labels *labels);
const struct label_rule *labels_rule(const struct labels *labels);

/* Called before the first sample of an index is written: see manifest_prepare. */
int labels_prepare(struct labels *labels, const char *folder, struct fault *fault);
/* Called after the last sample: checks that the files still have the hashed contents. 0;
 * -ESTALE. */
int labels_unchanged(struct labels *labels, struct fault *fault);

/* Takes the label out of a .json member's text, as type `asked`. 0; -EINVAL with a fault that does
 * not name the member; -ENOMEM. */
int labels_from_json(const struct labels *labels, const char *text, size_t size,
	enum label_type asked, struct label_found *ret, struct fault *fault);

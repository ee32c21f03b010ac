/* labels: a label rule (label_rule.h) made ready to be asked about samples.
 *
 * Opening reads the files that the rule names, so that its hash covers what they hold: an index
 * that was built for other contents is another index. One thread; blocks. */
#pragma once

#include "base/fault.h"
#include "labels/label_classes.h"
#include "labels/label_manifest.h"
#include "labels/label_path.h"
#include "labels/label_rule.h"
#include "labels/label_value.h"

#include <stdint.h>

struct labels;

/* `root`: of a folder, absolute; NULL: tars. `progress` is called while a manifest is read. `rule`
 * and `root` outlive the labels. 0; -EINVAL with "labels: ..."; -ECANCELED; -errno. */
int labels_open(const struct label_rule *rule, progress_fn *progress, void *progress_context,
	const char *root, struct labels **ret, struct fault *fault);
void labels_free(struct labels *labels);

/* Of the rule and of what its files hold; never 0. */
uint64_t labels_hash(const struct labels *labels);
/* The same where indexes hold what the rule says of each sample; 0 where they hold what a word
 * does, and the rule only names classes. */
uint64_t labels_index_hash(const struct labels *labels);

/* What labels will be; AUTO: each index says it. */
enum label_type labels_type(const struct labels *labels);
/* The names; none where labels are numbers. */
const struct label_classes *labels_classes(const struct labels *labels);
/* NULL without one. */
struct manifest *labels_manifest(struct labels *labels);
const struct label_rule *labels_rule(const struct labels *labels);

/* Before the first sample of an index that is built: see manifest_prepare. */
int labels_prepare(struct labels *labels, const char *folder, struct fault *fault);
/* Behind the last sample: what samples were told is what the hash says. 0; -ESTALE. */
int labels_unchanged(struct labels *labels, struct fault *fault);

/* The label that a .json member's text holds, taken as `asked`. 0; -EINVAL with a fault that does
 * not name the member; -ENOMEM. */
int labels_from_json(const struct labels *labels, const char *text, size_t size,
	enum label_type asked, struct label_found *ret, struct fault *fault);

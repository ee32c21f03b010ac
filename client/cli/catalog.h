/* catalog: opens a dataset in this process. If it has no index yet, builds one and shows a progress
 * bar.
 *
 * Commands that leave the rest to a daemon use it too: they report what is wrong with a source
 * before they start anything, and the daemon finds a fresh index. Main thread. */
#pragma once

#include "client/cli/cli.h"
#include "dataset/dataset.h"
#include "fetch/fetch.h"

/* The help of --labels. */
#define CATALOG_LABELS                                                         \
	"where labels come from: auto, none, folder, cls, json or a mapping, " \
	"'{manifest: labels.csv}' (auto)"

/* Opens `source` with the labels that --labels names, for a command that reads all of it: the index
 * is made anew if a file has another size than it says. CLI_OK, or the exit code after saying
 * why. */
int catalog_open(const char *source, const char *labels, struct dataset **ret_dataset);
/* The same with a rule, for a command that reads few samples or none: files are not looked at. */
int catalog_open_rule(
	const char *source, const struct label_rule *rule, struct dataset **ret_dataset);

/* "folder of class folders", "flat folder", "tar", "12 tars" */
void catalog_kind(const struct dataset *dataset, char *buffer, size_t room);

/* Memory for a sample's bytes, which grows as needed. Zeroed at first; free it with
 * catalog_bytes_free. */
struct catalog_bytes {
	uint8_t *data; /* 64 readable bytes follow the sample's last byte */
	size_t room;
};
void catalog_bytes_free(struct catalog_bytes *bytes);

/* Reads the whole sample `number`, and its record. 0; an enum fetch_outcome if the sample is broken
 * (the fault says how); or a negative errno with a fault. */
int catalog_read(const struct dataset *dataset, uint64_t number, struct catalog_bytes *bytes,
	struct sample *ret_sample, struct fault *fault);

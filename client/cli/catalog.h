/* catalog: a dataset opened in this process, its index built with a progress bar where there is
 * none yet.
 *
 * Also for commands that let a daemon do the rest: what is wrong with a source is said before
 * anything is started, and the daemon finds a fresh index. */
#pragma once

#include "client/cli/cli.h"
#include "dataset/dataset.h"
#include "fetch/fetch.h"

/* The help of --labels. */
#define CATALOG_LABELS                                                         \
	"where labels come from: auto, none, folder, cls, json or a mapping, " \
	"'{manifest: labels.csv}' (auto)"

/* Opens `source` with labels as --labels says. CLI_OK, or the exit code after saying why. */
int catalog_open(const char *source, const char *labels, struct dataset **ret_dataset);

/* "folder of class folders", "flat folder", "tar", "12 tars" */
void catalog_kind(const struct dataset *dataset, char *buffer, size_t room);

/* A sample's bytes in memory that grows as needed; zeroed at first, freed with catalog_bytes_free.
 */
struct catalog_bytes {
	uint8_t *data; /* 64 readable bytes follow the sample's last */
	size_t room;
};
void catalog_bytes_free(struct catalog_bytes *bytes);

/* Reads sample `number` whole, and its record. 0; an enum fetch_outcome (the sample is broken; the
 * fault says how); a negative errno with a fault. */
int catalog_read(const struct dataset *dataset, uint64_t number, struct catalog_bytes *bytes,
	struct sample *ret_sample, struct fault *fault);

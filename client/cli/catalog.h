/* catalog: opens a dataset in this process. If it has no index yet, builds one and shows a progress
 * bar.
 *
 * Commands that leave the rest to a daemon use it too: they report what is wrong with a source
 * before they start anything, and the daemon finds a fresh index. Main thread. */
#pragma once

#include "client/cli/cli.h"
#include "dataset/dataset.h"
#include "definition/buckets/divide.h"
#include "definition/spec.h"
#include "fetch/fetch.h"

/* The help of --labels. */
#define CATALOG_LABELS                                                         \
	"where labels come from: auto, none, folder, cls, json or a mapping, " \
	"'{manifest: labels.csv}' (auto)"

/* What commands without a recipe take: the texts of these options. */
struct catalog_choice {
	const char *labels, *class_order;
	const char *fields; /* NULL: none */
	const char *image_column, *label_column, *label_offset; /* NULL: not given */
	bool nested;
};

#define CATALOG_CHOICE_DEFAULT                              \
	{                                                   \
		.labels = "auto", .class_order = "bytewise" \
	}

#define CATALOG_CHOICE_OPTIONS(choice)                                                           \
	{"labels", 0, OPTION_TEXT, &(choice).labels, "LABELS", CATALOG_LABELS, 0, 0, NULL},      \
		{"class-order", 0, OPTION_CHOICE, &(choice).class_order, "bytewise|natural",     \
			"numbers of class folders: bytewise, as torchvision's ImageFolder, or "  \
			"natural, as timm (bytewise)",                                           \
			0, 0, NULL},                                                             \
		{"image-column", 0, OPTION_TEXT, &(choice).image_column, "NAME",                 \
			"the column or feature that holds the images (found by its type or "     \
			"name)",                                                                 \
			0, 0, NULL},                                                             \
		{"label-column", 0, OPTION_TEXT, &(choice).label_column, "NAME",                 \
			"the column or feature that holds the labels (found by its type or "     \
			"name)",                                                                 \
			0, 0, NULL},                                                             \
		{"label-offset", 0, OPTION_TEXT, &(choice).label_offset, "N",                    \
			"added to each label of a column: -1 where classes begin with 1 (0)", 0, \
			0, NULL},                                                                \
		{"fields", 0, OPTION_TEXT, &(choice).fields, "LIST",                             \
			"also what is beside each image, by extension: '[txt, json]' (none)", 0, \
			0, NULL},                                                                \
	{                                                                                        \
		"nested", 0, OPTION_FLAG, &(choice).nested, NULL,                                \
			"class folders that are named like splits, or hold folders only, are "   \
			"meant",                                                                 \
			0, 0, NULL                                                               \
	}

/* Opens `source` as the options say, for a command that reads all of it: the index is made anew if
 * a file has another size than it says. CLI_OK, or the exit code after saying why. */
int catalog_open(
	const char *source, const struct catalog_choice *choice, struct dataset **ret_dataset);
/* The fields that the options name. CLI_OK, or the exit code after saying why. */
int catalog_fields(const struct catalog_choice *choice, struct field_list *ret_list);
/* The same as a definition says, for a command that reads few samples or none: files are not looked
 * at. */
int catalog_open_spec(
	const char *source, const struct stream_spec *spec, struct dataset **ret_dataset);

/* divide_sampler, with a line on the terminal while it reads the headers of many images. */
int catalog_divide(struct list_shelf *shelf, const struct dataset *dataset,
	const struct bucket_keys *buckets, struct sampler *sampler, struct list **ret,
	struct fault *fault);

/* "folder of class folders", "flat folder", "tar", "12 tars" */
void catalog_kind(const struct dataset *dataset, char *buffer, size_t room);

/* The first bytes of a field as text for people: one line; what cannot be printed as "?". */
enum { CATALOG_PREVIEW = 72 };
void catalog_preview(const void *bytes, size_t size, char ret[CATALOG_PREVIEW]);

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

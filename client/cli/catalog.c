/* catalog: see catalog.h. */
#include "client/cli/catalog.h"

#include "base/util.h"
#include "client/cli/progress.h"
#include "dataset/field_keys.h"
#include "definition/label_keys.h"
#include "proto/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int catalog_progress(void *context, uint64_t samples, uint64_t bytes, uint64_t total_bytes)
{
	struct progress *progress = context;
	progress->unit = total_bytes ? PROGRESS_BYTES : PROGRESS_ITEMS;
	progress->total = total_bytes;
	progress_update(progress, total_bytes ? bytes : samples, NULL);
	return 0;
}

static int catalog_open_as(
	const char *source, struct dataset_options *options, struct dataset **ret_dataset)
{
	struct progress progress;
	struct fault fault = {{0}};
	progress_begin(&progress, "indexing", PROGRESS_ITEMS, 0, false);
	options->progress = catalog_progress;
	options->progress_context = &progress;
	int r = dataset_open(source, options, ret_dataset, &fault);
	progress_end(&progress);
	if (r < 0)
		return cli_fail(cli_exit_code(r), "%s", fault.text);
	if (*dataset_notice(*ret_dataset))
		cli_note("%s", dataset_notice(*ret_dataset));
	const char *warning;
	for (uint32_t i = 0; (warning = dataset_warning(*ret_dataset, i)); i++)
		cli_note("%s", warning);
	return CLI_OK;
}

int catalog_fields(const struct catalog_choice *choice, struct field_list *ret_list)
{
	struct fault fault = {{0}};
	*ret_list = (struct field_list){.count = 0};
	if (choice->fields && field_keys_parse(choice->fields, "--fields", ret_list, &fault) < 0)
		return cli_fail(CLI_USAGE, "%s", fault.text);
	return CLI_OK;
}

int catalog_divide(struct list_shelf *shelf, const struct dataset *dataset,
	const struct bucket_keys *buckets, struct sampler *sampler, struct list **ret,
	struct fault *fault)
{
	struct progress progress;
	char notice[DIVIDE_NOTICE];
	progress_begin(&progress, "reading headers", PROGRESS_ITEMS, 0, false);
	int r = divide_sampler(
		shelf, dataset, buckets, catalog_progress, &progress, sampler, ret, notice, fault);
	progress_end(&progress);
	if (!r && notice[0])
		cli_note("%s", notice);
	return r;
}

/* The columns that the options name, read as a definition's keys are. */
static int catalog_columns(const struct catalog_choice *choice, struct column_choice *ret)
{
	const struct {
		enum spec_key key;
		const char *text, *origin;
	} keys[] = {
		{SPEC_KEY_image_column, choice->image_column, "--image-column"},
		{SPEC_KEY_label_column, choice->label_column, "--label-column"},
		{SPEC_KEY_label_offset, choice->label_offset, "--label-offset"},
	};
	struct stream_spec spec;
	struct fault fault = {{0}};
	spec_init(&spec);
	for (size_t i = 0; i < UTIL_COUNT(keys); i++)
		if (keys[i].text &&
			spec_set(&spec, keys[i].key, keys[i].text, keys[i].origin, &fault) < 0)
			return cli_fail(CLI_USAGE, "%s", fault.text);
	*ret = spec.columns;
	return CLI_OK;
}

int catalog_open(
	const char *source, const struct catalog_choice *choice, struct dataset **ret_dataset)
{
	struct label_rule rule;
	struct field_list fields;
	struct column_choice columns;
	struct fault fault = {{0}};
	int code = catalog_fields(choice, &fields);
	if (code == CLI_OK)
		code = catalog_columns(choice, &columns);
	if (code != CLI_OK)
		return code;
	if (label_keys_parse(choice->labels, "--labels", &rule, &fault) < 0)
		return cli_fail(CLI_USAGE, "%s", fault.text);
	struct dataset_options options = {.rule = &rule,
		.fields = &fields,
		.columns = &columns,
		.nested = choice->nested,
		.check_sizes = true};
	if (strcmp(choice->class_order, "natural") == 0)
		options.class_order = CLASS_ORDER_NATURAL;
	return catalog_open_as(source, &options, ret_dataset);
}

int catalog_open_spec(
	const char *source, const struct stream_spec *spec, struct dataset **ret_dataset)
{
	struct dataset_options options = {.rule = &spec->labels,
		.fields = &spec->fields,
		.columns = &spec->columns,
		.class_order = spec->class_order,
		.nested = spec->nested};
	return catalog_open_as(source, &options, ret_dataset);
}

void catalog_kind(const struct dataset *dataset, char *buffer, size_t room)
{
	uint32_t shards = dataset_shards(dataset);
	if (dataset_kind(dataset) == DATASET_FOLDER)
		(void)snprintf(buffer, room,
			dataset_label_source(dataset) == DATASET_LABELS_FOLDER
				? "folder of class folders"
			: dataset_label_source(dataset) == DATASET_LABELS_MANIFEST ? "folder"
										   : "flat folder");
	else if (dataset_kind(dataset) == DATASET_TARS && shards > 1)
		(void)snprintf(buffer, room, "%u WebDataset tars", shards);
	else if (shards > 1)
		(void)snprintf(buffer, room, "%u %s files", shards, dataset_kind_name(dataset));
	else
		(void)snprintf(buffer, room, "%s", dataset_kind_name(dataset));
}

void catalog_preview(const void *bytes, size_t size, char ret[CATALOG_PREVIEW])
{
	enum { PREVIEW_BYTES = CATALOG_PREVIEW - 5 };
	char text[PREVIEW_BYTES + 2] = "";
	memcpy(text, bytes, UTIL_MIN(size, sizeof text - 1));
	size_t shown = utf8_cut(text, PREVIEW_BYTES);
	text[shown] = 0;
	const bool good = utf8_is_valid(text);
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f || (!good && (unsigned char)*c > 0x7f))
			*c = *c == '\n' || *c == '\t' ? ' ' : '?';
	(void)snprintf(ret, CATALOG_PREVIEW, "%s%s", text, shown < size ? "..." : "");
}

void catalog_bytes_free(struct catalog_bytes *bytes)
{
	free(bytes->data);
	*bytes = (struct catalog_bytes){0};
}

int catalog_read(const struct dataset *dataset, uint64_t number, struct catalog_bytes *bytes,
	struct sample *ret_sample, struct fault *fault)
{
	enum { CATALOG_SLACK = 64 };
	int r = dataset_sample(dataset, number, ret_sample, fault);
	if (r < 0)
		return r;
	size_t room = (size_t)ret_sample->size + CATALOG_SLACK;
	if (room > bytes->room) {
		uint8_t *grown = realloc(bytes->data, room);
		if (!grown)
			return fault_set(fault, -ENOMEM,
				"no memory for the %u bytes of sample %llu", ret_sample->size,
				(unsigned long long)number);
		bytes->data = grown;
		bytes->room = room;
	}
	r = dataset_read(dataset, ret_sample, bytes->data, bytes->room, fault);
	enum fetch_outcome outcome = fetch_outcome_of(r);
	return r < 0 && outcome ? (int)outcome : r;
}

/* replay: `penstock replay`: makes rows of a batch again, without a daemon.
 *
 * It makes the rows of (seed, epoch, batch), which a stream with that seed serves: order
 * determines the sample, Philox the crop. Or it makes one row from a record: the sample's index,
 * its crop, its flip. Both go through row.h, as in the daemon's workers. A broken sample is
 * replaced, or in evaluation marked, as by the stream; an image that is only too large for a
 * small memory budget is readable here. */
#include "client/cli/cli.h"

#include "base/util.h"
#include "client/cli/catalog.h"
#include "client/cli/draw/picture.h"
#include "client/cli/options.h"
#include "client/cli/recipe.h"
#include "order/course.h"
#include "order/order.h"
#include "proto/jsontext.h"
#include "proto/slots.h"
#include "stream/field.h"
#include "stream/row.h"
#include "stream/stream.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum { REPLAY_ATTEMPTS = 16, REPLAY_LABELS_SHOWN = 16 };

/* How the rows of one group of views are made. */
struct replay_group {
	struct pixel_size size;
	size_t row_bytes;
	struct pixel_recipe pixels;
	struct postprocess postprocess;
	struct postprocessor *postprocessor; /* NULL: the images are the rows */
};

struct replay {
	const char *source, *row, *crop, *folder;
	struct recipe recipe;
	struct recipe_cut cut;
	uint64_t epoch, batch, index, rank, position, view;
	bool flip, flip_vertical, json;
	bool epoch_given, batch_given, index_given, rank_given, position_given, view_given;

	struct order_slice slice; /* the rank's part of the batch */
	struct row_maker maker;
	struct replay_group *group; /* spec_groups of them */
	struct catalog_bytes bytes;
	struct replay_field {
		uint8_t *bytes; /* room for the most that the field may have */
		uint32_t size;
	} field[FIELDS_MAX];
	void *labels; /* of one sample, where a label has several values; otherwise NULL */
	uint8_t *rows; /* of one sample: one per view */
	struct jsontext out;
};

static const struct command replay_command = {
	.name = "replay",
	.operands = "SOURCE",
	.min_operands = 1,
	.max_operands = 1,
	.about = "Makes the rows of a batch again, byte for byte as a stream serves them:\n"
		 "  penstock replay SOURCE --seed S --epoch E --batch B [--row R]\n"
		 "  [--rank R --world-size W, for one rank's slice of a split stream]\n"
		 "or one row from its record:\n"
		 "  penstock replay SOURCE --index I --crop X,Y,W,H [--flip]\n"
		 "  [--position P --view V, if --transforms draw more than crop and flips]\n"
		 "Prints a line for each row, with the CRC-32 of its bytes.",
};

static uint32_t replay_views(const struct replay *replay)
{
	return replay->recipe.spec.shape.views;
}

/* The group of a view. */
static uint32_t replay_group_of(const struct replay *replay, uint64_t view)
{
	uint32_t group = 0;
	for (uint64_t end = 0; group + 1 < spec_groups(&replay->recipe.spec); group++) {
		end += spec_group_views(&replay->recipe.spec, group);
		if (view < end)
			break;
	}
	return group;
}

/* Whether a row depends on draws that its record does not hold. */
static bool replay_draws(const struct replay *replay)
{
	const struct stream_spec *spec = &replay->recipe.spec;
	const uint32_t group = replay_group_of(replay, replay->view);
	struct step_recipe steps;
	spec_steps(spec, group, &steps);
	return steps.count || spec_pixels(spec, group).random_window;
}

static bool replay_is_converted(const struct replay *replay)
{
	const struct shape *shape = &replay->recipe.spec.shape;
	return shape->dtype != SHAPE_UINT8 || shape->layout != SHAPE_NHWC;
}

/* There are two ways to name a row; they cannot be mixed. */
static int replay_judge(const struct replay *replay)
{
	bool drawn = replay->position_given;
	const char *with_index = replay->epoch_given && !drawn ? "epoch"
				 : replay->batch_given         ? "batch"
				 : replay->row                 ? "row"
				 : replay->rank_given          ? "rank"
							       : NULL;
	const char *recorded = replay->crop             ? "crop"
			       : replay->flip           ? "flip"
			       : replay->flip_vertical  ? "flip-vertical"
			       : replay->position_given ? "position"
			       : replay->view_given     ? "view"
							: NULL;
	if (replay->index_given && with_index)
		cli_note("--index names a sample by itself, so --%s cannot be given with it",
			with_index);
	else if (!replay->index_given && recorded)
		cli_note("--%s belongs to a record: give its --index, too", recorded);
	else if (replay->index_given && !replay->crop &&
		 spec_pixels(&replay->recipe.spec, replay_group_of(replay, replay->view)).kind ==
			 PIXEL_RESIZED_CROP)
		cli_note("--index also needs the record's --crop X,Y,W,H, or --eval");
	else if (replay->index_given && !drawn && replay_draws(replay))
		cli_note("--transforms draw more than a crop: --index also needs the record's "
			 "--position P, "
			 "its --view V if there are several, and the --epoch and --seed of its "
			 "batch");
	else if (replay->view >= replay_views(replay))
		cli_note("--view %" PRIu64 " is not below the number of views, which is %" PRIu32
			 ": views count from 0",
			replay->view, replay_views(replay));
	else if (replay->folder && replay_is_converted(replay))
		cli_note("--output writes PNG files of rows with --dtype uint8 --layout NHWC; "
			 "leave one "
			 "of these options out");
	else if (replay->rank >= replay->cut.world_size)
		cli_note("--rank %" PRIu64 " is not below --world-size, which is %" PRIu64
			 ": ranks count from 0",
			replay->rank, replay->cut.world_size);
	else
		return recipe_check_cut(&replay->recipe, &replay->cut);
	return -EINVAL;
}

static int replay_options(struct replay *replay, int argc, char **argv)
{
	const struct option table[] = {
		{"epoch", 'e', OPTION_NUMBER, &replay->epoch, "E", "the epoch, from 0 (0)", 0,
			UINT32_MAX, &replay->epoch_given},
		{"batch", 'B', OPTION_NUMBER, &replay->batch, "B",
			"the batch of that epoch, from 0 (0)", 0, UINT64_MAX, &replay->batch_given},
		{"row", 'r', OPTION_TEXT, &replay->row, "R|all",
			"the row of that batch, from 0 (all)", 0, 0, NULL},
		{"index", 'i', OPTION_NUMBER, &replay->index, "I",
			"one sample of the dataset instead of a batch", 0, UINT64_MAX,
			&replay->index_given},
		{"crop", 'c', OPTION_TEXT, &replay->crop, "X,Y,W,H",
			"with --index: its crop in source pixels (with --eval: the whole image)", 0,
			0, NULL},
		{"flip", 'f', OPTION_FLAG, &replay->flip, NULL,
			"with --index: mirror it left to right", 0, 0, NULL},
		{"flip-vertical", 0, OPTION_FLAG, &replay->flip_vertical, NULL,
			"with --index: turn it upside down", 0, 0, NULL},
		{"position", 0, OPTION_NUMBER, &replay->position, "P",
			"with --index: its position in the epoch's order", 0,
			((uint64_t)1 << 48) - 1, &replay->position_given},
		{"view", 0, OPTION_NUMBER, &replay->view, "V",
			"with --index: which view of it, from 0 (0)", 0, SHAPE_VIEWS_MAX - 1,
			&replay->view_given},
		{"rank", 0, OPTION_NUMBER, &replay->rank, "R",
			"the rank whose slice of the global batch to make (0)", 0, 65535,
			&replay->rank_given},
		RECIPE_CUT_OPTIONS(replay->cut),
		RECIPE_OPTIONS(replay->recipe),
		{"output", 'o', OPTION_TEXT, &replay->folder, "DIR",
			"write each row as a PNG file in this folder", 0, 0, NULL},
		{"json", 'j', OPTION_FLAG, &replay->json, NULL, "print one JSON object", 0, 0,
			NULL},
	};
	const char *operand[OPTIONS_OPERANDS];
	int r = options_parse(&replay_command, table, UTIL_COUNT(table), argc, argv, operand);
	if (r != OPTIONS_OK)
		return r;
	replay->source = operand[0];
	r = recipe_settle(&replay->recipe);
	return r < 0 ? r : replay_judge(replay);
}

static int replay_fail_memory(void)
{
	return cli_fail(CLI_FAILED, "not enough memory for a row");
}

static int replay_number(const char *text, const char *end_at, uint32_t *ret, const char **ret_end)
{
	char *end;
	errno = 0;
	unsigned long value = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : ULONG_MAX;
	if (value > UINT32_MAX || errno || *end != *end_at)
		return -EINVAL;
	*ret = (uint32_t)value;
	*ret_end = end + (*end_at != 0);
	return 0;
}

static int replay_parse_crop(const char *text, struct slots_record *record)
{
	uint32_t *const fields[] = {
		&record->crop_x, &record->crop_y, &record->crop_w, &record->crop_h};
	const char *at = text;
	for (size_t i = 0; i < UTIL_COUNT(fields); i++)
		if (replay_number(at, i + 1 < UTIL_COUNT(fields) ? "," : "", fields[i], &at) < 0)
			return cli_fail(CLI_USAGE,
				"--crop: expected X,Y,W,H, four whole numbers of source pixels, "
				"got "
				"\"%s\"",
				text);
	return CLI_OK;
}

static void replay_print_head(const struct replay *replay)
{
	if (!replay->json)
		(void)printf("%5s %10s %6s %-21s %-5s %-11s %-8s %s\n", "row", "index", "label",
			"crop", "flags", "source", "crc32", "path");
}

static const char *replay_flags(uint32_t flags, char ret_text[8])
{
	static const struct {
		uint32_t flag;
		char letter;
	} letters[] = {{SLOTS_INVALID, 'I'}, {SLOTS_FLIPPED, 'F'}, {SLOTS_FLIPPED_VERTICALLY, 'V'},
		{SLOTS_SUBSTITUTED, 'S'}, {SLOTS_PADDED, 'P'}};
	size_t n = 0;
	for (size_t i = 0; i < UTIL_COUNT(letters); i++)
		if (flags & letters[i].flag)
			ret_text[n++] = letters[i].letter;
	ret_text[n] = 0;
	return n ? ret_text : "-";
}

static void replay_print_row(
	uint64_t row, const struct slots_record *r, uint32_t crc, const char *path)
{
	char crop[48], source[24], flags[8];
	(void)snprintf(
		crop, sizeof crop, "%u,%u,%u,%u", r->crop_x, r->crop_y, r->crop_w, r->crop_h);
	(void)snprintf(source, sizeof source, "%ux%u", r->src_w, r->src_h);
	(void)printf("%5" PRIu64 " %10" PRIu64 " %6" PRId64 " %-21s %-5s %-11s %08x %s\n", row,
		r->index, r->label, crop, replay_flags(r->flags, flags), source, crc, path);
}

/* Once for each sample: its views have the same fields. */
static void replay_print_fields(const struct replay *replay)
{
	const struct field_list *list = &replay->recipe.spec.fields;
	for (uint32_t i = 0; i < list->count; i++) {
		const struct replay_field *field = &replay->field[i];
		char text[CATALOG_PREVIEW];
		catalog_preview(field->bytes, field->size, text);
		(void)printf("%16s .%s: %u bytes, crc32 %08x: %s\n", "", list->at[i].name,
			field->size, (uint32_t)crc32_z(0, field->bytes, field->size), text);
	}
}

static void replay_json_fields(const struct replay *replay, struct jsontext *json)
{
	const struct field_list *list = &replay->recipe.spec.fields;
	if (!list->count)
		return;
	jsontext_object(json, "fields");
	for (uint32_t i = 0; i < list->count; i++) {
		const struct replay_field *field = &replay->field[i];
		char crc[16];
		(void)snprintf(
			crc, sizeof crc, "%08x", (uint32_t)crc32_z(0, field->bytes, field->size));
		jsontext_object(json, list->at[i].name);
		jsontext_u64(json, "bytes", field->size);
		jsontext_string(json, "crc32", crc);
		jsontext_end(json);
	}
	jsontext_end(json);
}

static const struct dataset *replay_first(const struct replay *replay)
{
	return replay->recipe.parts.dataset[0];
}

static bool replay_labels_are_whole(const struct replay *replay)
{
	return dataset_label_type(replay_first(replay)) == LABEL_TYPE_CLASSES;
}

/* Once for each sample: its views have the same label. */
static void replay_print_labels(const struct replay *replay)
{
	if (!replay->labels)
		return;
	const uint32_t count = dataset_label_width(replay_first(replay));
	const uint32_t shown = UTIL_MIN(count, (uint32_t)REPLAY_LABELS_SHOWN);
	(void)printf("%16s labels: ", "");
	for (uint32_t i = 0; i < shown; i++) {
		if (replay_labels_are_whole(replay))
			(void)printf(
				"%s%" PRId64, i ? ", " : "", ((const int64_t *)replay->labels)[i]);
		else
			(void)printf("%s%.9g", i ? ", " : "",
				(double)((const float *)replay->labels)[i]);
	}
	if (shown < count)
		(void)printf(", ... (%u values)", count);
	(void)printf("\n");
}

static void replay_json_labels(const struct replay *replay, struct jsontext *json)
{
	if (!replay->labels)
		return;
	jsontext_array(json, "labels");
	for (uint32_t i = 0; i < dataset_label_width(replay_first(replay)); i++) {
		if (replay_labels_are_whole(replay))
			jsontext_i64(json, NULL, ((const int64_t *)replay->labels)[i]);
		else
			jsontext_shortest(json, NULL, (double)((const float *)replay->labels)[i]);
	}
	jsontext_end(json);
}

static void replay_json_box(
	struct jsontext *json, const char *key, const uint32_t *numbers, int count)
{
	jsontext_array(json, key);
	for (int i = 0; i < count; i++)
		jsontext_u64(json, NULL, numbers[i]);
	jsontext_end(json);
}

static void replay_json_row(struct replay *replay, uint64_t row, const struct slots_record *r,
	uint32_t crc, const char *path)
{
	struct jsontext *json = &replay->out;
	char text[16];
	const uint32_t crop[] = {r->crop_x, r->crop_y, r->crop_w, r->crop_h},
		       size[] = {r->src_w, r->src_h};
	jsontext_object(json, NULL);
	jsontext_u64(json, "row", row);
	jsontext_u64(json, "position", r->position);
	jsontext_u64(json, "view", r->view);
	jsontext_u64(json, "index", r->index);
	jsontext_i64(json, "label", r->label);
	replay_json_box(json, "crop", crop, 4);
	replay_json_box(json, "source_size", size, 2);
	jsontext_bool(json, "flipped", r->flags & SLOTS_FLIPPED);
	jsontext_bool(json, "flipped_vertically", r->flags & SLOTS_FLIPPED_VERTICALLY);
	jsontext_bool(json, "substituted", r->flags & SLOTS_SUBSTITUTED);
	jsontext_bool(json, "invalid", r->flags & SLOTS_INVALID);
	jsontext_bool(json, "padded", r->flags & SLOTS_PADDED);
	(void)snprintf(text, sizeof text, "%08x", crc);
	jsontext_string(json, "crc32", text);
	jsontext_string(json, "path", path);
	replay_json_labels(replay, json);
	replay_json_fields(replay, json);
	jsontext_end(json);
}

static struct replay_group *replay_group(const struct replay *replay, uint32_t view)
{
	return &replay->group[replay_group_of(replay, view)];
}

static uint8_t *replay_row(const struct replay *replay, uint32_t view)
{
	uint8_t *row = replay->rows;
	for (uint32_t before = 0; before < view; before++)
		row += replay_group(replay, before)->row_bytes;
	return row;
}

static int replay_write_row(const struct replay *replay, uint64_t row,
	const struct slots_record *record, uint8_t *pixels)
{
	char path[4400];
	struct fault fault;
	if (replay->index_given)
		(void)snprintf(path, sizeof path, "%s/index-%" PRIu64 ".png", replay->folder,
			record->index);
	else
		(void)snprintf(path, sizeof path,
			"%s/epoch-%" PRIu64 "-batch-%" PRIu64 "-row-%03" PRIu64 ".png",
			replay->folder, replay->epoch, replay->batch, row);
	const struct pixel_size size = replay_group(replay, record->view)->size;
	const struct picture picture = {size.width, size.height, pixels};
	return picture_write(path, PICTURE_PNG, &picture, true, &fault) < 0
		       ? cli_fail(CLI_FAILED, "%s", fault.text)
		       : CLI_OK;
}

/* `number`: among all samples that the stream reads. */
static int replay_read_labels(struct replay *replay, uint64_t number, struct fault *fault)
{
	const struct concat *parts = &replay->recipe.parts;
	struct sampler_pick pick = concat_find(parts, number);
	return replay->labels ? dataset_sample_values(parts->dataset[pick.part], pick.number,
					replay->labels, fault)
			      : 0;
}

/* Prints what the row is. */
static int replay_deliver(
	struct replay *replay, uint64_t row, const struct slots_record *record, uint8_t *pixels)
{
	char path[8300];
	struct fault fault = {{0}};
	uint32_t crc = (uint32_t)crc32_z(0, pixels, replay_group(replay, record->view)->row_bytes);
	if (concat_path(&replay->recipe.parts, record->index, path, sizeof path, &fault) < 0 ||
		replay_read_labels(replay, record->index, &fault) < 0)
		return cli_fail(CLI_FAILED, "%s", fault.text);
	if (replay->json)
		replay_json_row(replay, row, record, crc, path);
	else
		replay_print_row(row, record, crc, cli_tame(path));
	if (!replay->json && (record->view == 0 || replay->index_given)) {
		replay_print_labels(replay);
		replay_print_fields(replay);
	}
	return replay->folder ? replay_write_row(replay, row, record, pixels) : CLI_OK;
}

/* `number`: among all samples that the stream reads. */
static int replay_read(
	struct replay *replay, uint64_t number, struct sample *ret_sample, struct fault *fault)
{
	const struct concat *parts = &replay->recipe.parts;
	struct sampler_pick pick = concat_find(parts, number);
	return catalog_read(
		parts->dataset[pick.part], pick.number, &replay->bytes, ret_sample, fault);
}

/* 0; a positive outcome with its text in `fault`; or a negative errno. */
static int replay_read_fields(struct replay *replay, uint64_t number, struct fault *fault)
{
	const struct concat *parts = &replay->recipe.parts;
	const struct field_list *list = &replay->recipe.spec.fields;
	struct sampler_pick pick = concat_find(parts, number);
	int r = 0;
	for (uint32_t i = 0; r == 0 && i < list->count; i++)
		r = field_read(parts->dataset[pick.part], pick.number, list, i,
			replay->field[i].bytes, &replay->field[i].size, fault);
	return r;
}

/* Makes all views of one sample. 0; a positive outcome of reading or decoding, with its text in
 * `fault`; or a negative errno. */
static int replay_try(struct replay *replay, uint64_t number, struct pixel_key *key,
	struct slots_record *records, struct fault *fault)
{
	struct sample sample;
	const struct slots_record plain = records[0];
	int r = replay_read(replay, number, &sample, fault);
	if (r == 0)
		r = replay_read_fields(replay, number, fault);
	for (uint32_t view = 0; r == 0 && view < replay_views(replay); view++) {
		const struct replay_group *group = replay_group(replay, view);
		records[view] = plain;
		records[view].index = number;
		records[view].label = sample.label;
		records[view].view = key->view = view;
		r = row_make(&replay->maker, replay->bytes.data, sample.size, &group->pixels, key,
			group->postprocessor, replay_row(replay, view), &records[view]);
		if (r > 0)
			(void)fault_set(fault, 0, "%s: %s",
				decode_outcome_name((enum decode_outcome)r),
				decoder_message(replay->maker.decoder));
	}
	return r;
}

/* In evaluation, rows of zeros take the place of a broken sample. */
static int replay_mark(struct replay *replay, uint64_t number, struct slots_record *records)
{
	const struct slots_record plain = records[0];
	struct sample sample;
	struct fault fault;
	struct sampler_pick pick = concat_find(&replay->recipe.parts, number);
	if (dataset_sample(replay->recipe.parts.dataset[pick.part], pick.number, &sample, &fault) <
		0)
		return cli_fail(CLI_FAILED, "%s", fault.text);
	for (uint32_t i = 0; i < FIELDS_MAX; i++)
		replay->field[i].size = 0;
	for (uint32_t view = 0; view < replay_views(replay); view++) {
		memset(replay_row(replay, view), 0, replay_group(replay, view)->row_bytes);
		records[view] = (struct slots_record){.index = number,
			.label = sample.label,
			.flags = SLOTS_INVALID | (plain.flags & SLOTS_PADDED),
			.view = view,
			.position = plain.position};
	}
	return CLI_OK;
}

/* Makes the rows of the sample at this position, and a record for each view. */
static int replay_make(struct replay *replay, uint64_t position, struct slots_record *ret_records)
{
	struct pixel_key key = {.seed = spec_draw_seed(&replay->recipe.spec),
		.position = position,
		.epoch = (uint32_t)replay->epoch};
	uint64_t number = recipe_sample(&replay->recipe, key.epoch, position);
	struct fault fault = {{0}};
	for (uint32_t attempt = 0; attempt <= REPLAY_ATTEMPTS; attempt++) {
		ret_records[0] = (struct slots_record){.position = position,
			.flags = (attempt ? SLOTS_SUBSTITUTED : 0) |
				 (replay->slice.padded ? SLOTS_PADDED : 0)};
		int r = replay_try(replay, number, &key, ret_records, &fault);
		if (r == 0)
			return CLI_OK;
		if (r < 0)
			return r == -ENOMEM ? replay_fail_memory()
					    : cli_fail(CLI_FAILED, "%s", fault.text);
		if (!replay->recipe.spec.train)
			return replay_mark(replay, number, ret_records);
		number = concat_number(
			&replay->recipe.parts, sampler_substitute(&replay->recipe.sampler,
						       key.epoch, position, attempt + 1));
	}
	return cli_fail(CLI_FAILED,
		"the sample at position %" PRIu64
		" and %d substitutes for it are all broken (the last: %s); run `penstock "
		"check` on %s",
		position, REPLAY_ATTEMPTS, fault.text, replay->source);
}

/* With buckets there is one group. Its rows have the size of this recipe from now on. */
static void replay_shape(struct replay *replay, struct pixel_recipe recipe)
{
	struct replay_group *group = &replay->group[0];
	const size_t pixel_bytes =
		group->row_bytes / ((size_t)group->size.height * group->size.width);
	group->pixels = recipe;
	group->size = recipe.size;
	group->row_bytes = (size_t)recipe.size.height * recipe.size.width * pixel_bytes;
}

/* Finds the slice of the rank, and the requested rows of it. */
static int replay_rows(struct replay *replay, uint64_t *ret_first, uint64_t *ret_end)
{
	struct order_epoch epoch =
		recipe_epoch(&replay->recipe, &replay->cut, replay->recipe.sampler.length);
	uint64_t batches = order_batches(&epoch, 0);
	if (recipe_fits_epoch(&epoch, replay->source) != CLI_OK)
		return CLI_USAGE;
	if (replay->batch >= batches)
		return cli_fail(CLI_USAGE,
			"--batch %" PRIu64 " is beyond the epoch's last, %" PRIu64, replay->batch,
			batches - 1);
	const struct course course = course_from(&epoch, replay->epoch, 0);
	const struct course_batch batch =
		course_batch(&course, replay->batch, (uint32_t)replay->rank);
	replay->slice = batch.slice;
	if (epoch.buckets)
		replay_shape(replay, spec_pixels_in(&replay->recipe.spec, 0, batch.bucket));
	uint32_t rows = replay->slice.count * replay_views(replay);
	*ret_first = 0;
	*ret_end = rows;
	if (!replay->row || strcmp(replay->row, "all") == 0)
		return CLI_OK;
	uint32_t row;
	const char *end;
	if (replay_number(replay->row, "", &row, &end) < 0 || row >= rows)
		return cli_fail(CLI_USAGE,
			"--row: expected a whole number from 0 to %u, or all, got \"%s\"", rows - 1,
			replay->row);
	*ret_first = row;
	*ret_end = (uint64_t)row + 1;
	return CLI_OK;
}

static int replay_batch(struct replay *replay)
{
	uint64_t first = 0, end = 0;
	int code = replay_rows(replay, &first, &end);
	if (code == CLI_OK)
		replay_print_head(replay);
	uint32_t views = replay_views(replay);
	struct slots_record records[SHAPE_VIEWS_MAX];
	for (uint64_t row = first; code == CLI_OK && row < end && !ferror(stdout); row++) {
		uint32_t view = (uint32_t)(row % views);
		if (row == first || view == 0)
			code = replay_make(replay, replay->slice.position + row / views, records);
		if (code == CLI_OK)
			code = replay_deliver(
				replay, row, &records[view], replay_row(replay, view));
	}
	return code;
}

/* The size of the source comes from the image: the command line does not give it. */
static int replay_source_size(
	struct replay *replay, const struct sample *sample, struct slots_record *record)
{
	struct decode_info info;
	int r = decoder_begin(replay->maker.decoder, replay->bytes.data, sample->size, &info);
	if (r != DECODE_OK)
		return r;
	decoder_abort(replay->maker.decoder);
	if (replay->recipe.spec.buckets.count)
		replay_shape(replay, recipe_pixels_of(&replay->recipe, info.width, info.height));
	record->src_w = info.width;
	record->src_h = info.height;
	if (!replay->crop) {
		record->crop_w = info.width;
		record->crop_h = info.height;
	}
	return 0;
}

static int replay_record(struct replay *replay)
{
	struct slots_record record = {.index = replay->index,
		.position = replay->position,
		.view = (uint32_t)replay->view,
		.flags = (replay->flip ? SLOTS_FLIPPED : 0) |
			 (replay->flip_vertical ? SLOTS_FLIPPED_VERTICALLY : 0)};
	const struct pixel_key key = {.seed = spec_draw_seed(&replay->recipe.spec),
		.position = record.position,
		.epoch = (uint32_t)replay->epoch,
		.view = record.view};
	const struct replay_group *group = replay_group(replay, record.view);
	struct sample sample;
	struct fault fault = {{0}};
	uint64_t count = concat_samples(&replay->recipe.parts);
	int code = replay->crop ? replay_parse_crop(replay->crop, &record) : CLI_OK;
	if (code == CLI_OK && replay->index >= count)
		code = cli_fail(CLI_USAGE,
			"--index %" PRIu64 " is beyond the dataset's last, %" PRIu64, replay->index,
			count - 1);
	if (code != CLI_OK)
		return code;
	int r = replay_read(replay, replay->index, &sample, &fault);
	if (r == 0)
		r = replay_read_fields(replay, replay->index, &fault);
	if (r)
		return cli_fail(CLI_FAILED, "%s", fault.text);
	record.label = sample.label;
	r = replay_source_size(replay, &sample, &record);
	if (r == 0)
		r = row_make_again(&replay->maker, replay->bytes.data, sample.size, &group->pixels,
			&record, &key, group->postprocessor, replay->rows);
	if (r == -EINVAL && group->pixels.kind == PIXEL_WHOLE)
		return cli_fail(CLI_USAGE,
			"the crop %s is not the whole image, 0,0,%u,%u: these transforms decode "
			"whole images and are drawn again, so leave --crop out",
			replay->crop, record.src_w, record.src_h);
	if (r == -EINVAL)
		return cli_fail(CLI_USAGE, "the crop %s is not inside the image, which is %ux%u",
			replay->crop, record.src_w, record.src_h);
	if (r > 0)
		return cli_fail(CLI_FAILED, "sample %" PRIu64 " (%s) is broken: %s: %s",
			replay->index, sample.name, decode_outcome_name((enum decode_outcome)r),
			decoder_message(replay->maker.decoder));
	if (r < 0)
		return replay_fail_memory();
	replay_print_head(replay);
	return replay_deliver(replay, 0, &record, replay->rows);
}

static int replay_prepare_group(struct replay *replay, uint32_t number, struct fault *fault)
{
	const struct stream_spec *spec = &replay->recipe.spec;
	struct replay_group *group = &replay->group[number];
	group->size = spec_group_size(spec, number);
	group->pixels = spec_pixels(spec, number);
	group->row_bytes = (size_t)group->size.height * group->size.width * 3 *
			   slots_pixel_bytes(spec->shape.dtype + 1);
	int r = postprocess_init(&group->postprocess, spec, number, fault);
	if (!r && postprocess_needed(spec, number))
		r = postprocessor_new(&group->postprocess, &group->postprocessor, fault);
	return r;
}

/* Sets up what making rows needs. */
static int replay_prepare(struct replay *replay)
{
	struct decode_limits limits = decode_limits_default();
	struct fault fault = {{0}};
	const struct stream_spec *spec = &replay->recipe.spec;
	const uint32_t groups = spec_groups(spec);
	int r = 0;
	limits.pixels = spec->max_image_pixels;
	replay->group = calloc(groups, sizeof *replay->group);
	if (!replay->group)
		return replay_fail_memory();
	for (uint32_t i = 0; !r && i < groups; i++)
		r = replay_prepare_group(replay, i, &fault);
	if (!r)
		r = row_maker_init(&replay->maker, &limits, pixel_longer(spec->image_size), &fault);
	if (r < 0)
		return cli_fail(CLI_FAILED, "%s", fault.text);
	size_t bytes = 0;
	for (uint32_t i = 0; i < groups; i++)
		bytes += replay->group[i].row_bytes * spec_group_views(spec, i);
	assert(bytes);
	replay->rows = malloc(bytes);
	bool whole = replay->rows != NULL;
	if (dataset_label_type(replay_first(replay)) != LABEL_TYPE_CLASS) {
		replay->labels = malloc(dataset_label_bytes(replay_first(replay)));
		whole &= replay->labels != NULL;
	}
	for (uint32_t i = 0; i < spec->fields.count; i++) {
		replay->field[i].bytes = malloc(spec->fields.at[i].max);
		whole &= replay->field[i].bytes != NULL;
	}
	return whole ? CLI_OK : replay_fail_memory();
}

static int replay_run(struct replay *replay)
{
	int code = recipe_load_parts(&replay->recipe);
	if (code == CLI_OK)
		code = replay_prepare(replay);
	if (code != CLI_OK)
		return code;
	if (replay->folder && mkdir(replay->folder, 0777) < 0 && errno != EEXIST)
		return cli_fail(CLI_FAILED, "cannot make %s: %s", replay->folder, strerror(errno));
	if (replay->json) {
		jsontext_object(&replay->out, NULL);
		jsontext_array(&replay->out, "rows");
	}
	code = replay->index_given ? replay_record(replay) : replay_batch(replay);
	if (code != CLI_OK || !replay->json)
		return code;
	jsontext_end(&replay->out);
	jsontext_end(&replay->out);
	return cli_print_json(&replay->out);
}

int replay_main(int argc, char **argv)
{
	struct replay replay = {.recipe = RECIPE_DEFAULT, .cut = RECIPE_CUT_DEFAULT};
	int r = replay_options(&replay, argc, argv);
	if (r != OPTIONS_OK)
		return r < 0 ? CLI_USAGE : CLI_OK;
	int code = recipe_open_parts(&replay.recipe, replay.source);
	if (code == CLI_OK)
		code = replay_run(&replay);
	jsontext_free(&replay.out);
	free(replay.rows);
	free(replay.labels);
	for (uint32_t i = 0; i < FIELDS_MAX; i++)
		free(replay.field[i].bytes);
	for (uint32_t i = 0; replay.group && i < spec_groups(&replay.recipe.spec); i++) {
		postprocessor_free(replay.group[i].postprocessor);
		postprocess_deinit(&replay.group[i].postprocess);
	}
	free(replay.group);
	catalog_bytes_free(&replay.bytes);
	row_maker_deinit(&replay.maker);
	recipe_unload(&replay.recipe);
	return code;
}

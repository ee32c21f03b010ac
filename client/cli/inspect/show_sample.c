/* show_sample: see show_sample.h.
 *
 * A column shows what a stream of this recipe gives in that epoch: the draws depend on the sample's
 * position in the order, which is computed. If a sample has no single position (with samplers), its
 * number takes the place of the position. */
#include "client/cli/inspect/show_sample.h"

#include "base/util.h"
#include "client/cli/catalog.h"
#include "client/cli/cli.h"
#include "client/cli/draw/picture.h"
#include "client/cli/inspect/step_sheet.h"
#include "decode/decode.h"
#include "decode/measure.h"
#include "proto/jsontext.h"
#include "stream/field.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Describes the operations of a list, including nested ones. */
struct show_names {
	char text[TRANSFORMS_MAX][STEP_SHEET_TEXT];
	const char *all[TRANSFORMS_MAX];
	uint32_t count;
};

static void show_names(const struct transforms *list, struct show_names *ret)
{
	struct transforms one;
	ret->count = 0;
	for (uint32_t i = 0; i < list->count; i += one.count) {
		one.count = 1 + list->op[i].step.inside;
		memcpy(one.op, &list->op[i], one.count * sizeof one.op[0]);
		ret->all[ret->count] = ret->text[ret->count];
		transforms_text(&one, ret->text[ret->count++], STEP_SHEET_TEXT);
	}
}

static uint32_t show_stages(const struct step_recipe *steps)
{
	uint32_t stages = 0;
	for (uint32_t i = 0; i < steps->count; i += 1 + steps->step[i].inside)
		stages++;
	return stages;
}

/* Whether a sample comes once in each epoch, at a position that can be computed. */
static bool show_is_placed(const struct recipe *recipe, const struct dataset *dataset)
{
	const struct sampler *sampler = &recipe->sampler;
	return sampler->parts == 1 && sampler->repeats == 1 && !sampler->endless &&
	       !sampler->weights && !recipe->spec.indices[0] && !recipe->spec.sampling.split[0] &&
	       sampler->order[0].samples == dataset_count(dataset);
}

static uint64_t show_position(const struct sampler *sampler, uint32_t epoch, uint64_t sample)
{
	return sampler->buckets.count ? sampler_position(sampler, epoch, sample)
				      : order_position(&sampler->order[0], epoch, sample);
}

/* How the sample gets its size: with buckets, that of the bucket of its image. */
static struct pixel_recipe show_head(
	const struct show_sample *ask, uint32_t group, const struct sample *sample)
{
	uint32_t width = 0, height = 0;
	struct fault fault;
	if (!ask->recipe->spec.buckets.count)
		return recipe_group_pixels(ask->recipe, group);
	uint64_t offset;
	cleanup(close_fd) int fd = dataset_sample_open(ask->dataset, sample, &offset, &fault);
	if (fd >= 0)
		(void)measure_image(fd, offset, sample->size, &width, &height);
	return recipe_pixels_of(ask->recipe, width, height);
}

static void show_keys(const struct show_sample *ask, struct pixel_key *ret_key)
{
	bool placed = show_is_placed(ask->recipe, ask->dataset);
	for (uint64_t i = 0; i < ask->draws; i++) {
		uint32_t epoch = (uint32_t)(ask->epoch + i);
		ret_key[i] = (struct pixel_key){.seed = spec_draw_seed(&ask->recipe->spec),
			.position =
				placed ? show_position(&ask->recipe->sampler, epoch, ask->sample)
				       : ask->sample,
			.epoch = epoch,
			.view = (uint32_t)ask->view};
	}
}

/* Prints the first bytes of a sample's fields, or (with `json`) adds them to the object. */
static int show_fields(const struct show_sample *ask, struct jsontext *json)
{
	const struct field_list *list = &ask->recipe->spec.fields;
	struct fault fault = {{0}};
	int r = 0;
	if (json && list->count)
		jsontext_object(json, "fields");
	for (uint32_t i = 0; r == 0 && i < list->count; i++) {
		cleanup(free_ptr) uint8_t *bytes = malloc(list->at[i].max);
		char text[CATALOG_PREVIEW];
		uint32_t size = 0;
		r = bytes ? field_read(ask->dataset, ask->sample, list, i, bytes, &size, &fault)
			  : fault_set(&fault, -ENOMEM, "not enough memory for a field");
		if (r)
			break;
		catalog_preview(bytes, size, text);
		if (json)
			jsontext_string(json, list->at[i].name, text);
		else
			(void)printf("  .%s: %u bytes: %s\n", list->at[i].name, size, text);
	}
	if (json && list->count)
		jsontext_end(json);
	return r ? cli_fail(CLI_FAILED, "%s", fault.text) : CLI_OK;
}

static int show_say(const struct show_sample *ask, const struct canvas *canvas, char *name)
{
	struct jsontext json = {0};
	if (!ask->json) {
		(void)printf("%s: sample %" PRIu64 " (%s), %" PRIu64 " draw%s, %d x %d pixels\n",
			ask->output, ask->sample, cli_tame(name), ask->draws,
			ask->draws == 1 ? "" : "s", canvas->width, canvas->height);
		return show_fields(ask, NULL);
	}
	jsontext_object(&json, NULL);
	jsontext_string(&json, "file", ask->output);
	jsontext_u64(&json, "sample", ask->sample);
	jsontext_string(&json, "name", name);
	jsontext_u64(&json, "epoch", ask->epoch);
	jsontext_u64(&json, "draws", ask->draws);
	jsontext_i64(&json, "width", canvas->width);
	jsontext_i64(&json, "height", canvas->height);
	int code = show_fields(ask, &json);
	jsontext_end(&json);
	return code == CLI_OK ? cli_print_json(&json) : code;
}

static int show_write(const struct show_sample *ask, const struct step_sheet *trace, char *name)
{
	struct canvas canvas;
	struct fault fault = {{0}};
	int code = CLI_OK, r = step_sheet_draw(trace, &canvas, &fault);
	if (r > 0)
		return cli_fail(CLI_FAILED, "sample %" PRIu64 " (%s) is broken: %s", ask->sample,
			cli_tame(name), fault.text);
	if (r == 0) {
		const struct picture picture = {
			(uint32_t)canvas.width, (uint32_t)canvas.height, canvas.rgb};
		r = picture_write(ask->output, PICTURE_PNG, &picture, true, &fault);
		if (r == 0)
			code = show_say(ask, &canvas, name);
		canvas_deinit(&canvas);
	}
	return r < 0 ? cli_fail(CLI_FAILED, "%s", fault.text) : code;
}

static int show_drawn(
	const struct show_sample *ask, struct sample *sample, const struct catalog_bytes *bytes)
{
	char title[256], recipe[RECIPE_TEXT];
	struct pixel_key key[STEP_SHEET_DRAWS];
	struct step_recipe steps;
	const struct stream_spec *spec = &ask->recipe->spec;
	struct show_names names;
	struct transforms list;
	uint32_t group = 0, before = 0;
	for (; ask->view >= before + spec_group_views(spec, group); group++)
		before += spec_group_views(spec, group);
	spec_steps(spec, group, &steps);
	show_names(spec_group_list(spec, group, &list), &names);
	show_keys(ask, key);
	recipe_describe(ask->recipe, recipe, sizeof recipe);
	(void)snprintf(title, sizeof title, "%s   #%" PRIu64 "   epochs %" PRIu64 " to %" PRIu64,
		sample->name, ask->sample, ask->epoch, ask->epoch + ask->draws - 1);
	const char *plain = !ask->recipe->spec.train ? "Resize, crop" : "RandomResizedCrop";
	const struct step_sheet trace = {.title = title,
		.subtitle = recipe,
		.data = bytes->data,
		.size = sample->size,
		.head = show_head(ask, group, sample),
		.steps = &steps,
		.head_name = names.count ? names.all[0] : plain,
		.step_name = names.all + (names.count - show_stages(&steps)),
		.key = key,
		.draws = (unsigned)ask->draws,
		.tile = (unsigned)ask->tile};
	return show_write(ask, &trace, sample->name);
}

int show_sample(const struct show_sample *ask)
{
	struct catalog_bytes bytes = {0};
	struct sample sample;
	struct fault fault = {{0}};
	uint64_t count = dataset_count(ask->dataset);
	if (ask->sample >= count)
		return cli_fail(CLI_USAGE,
			"--sample %" PRIu64 " is beyond the dataset's last, %" PRIu64, ask->sample,
			count - 1);
	if (ask->view >= ask->recipe->spec.shape.views)
		return cli_fail(CLI_USAGE,
			"--view %" PRIu64 " is not below the number of views, which is %" PRIu32
			": views count from 0",
			ask->view, ask->recipe->spec.shape.views);
	int r = catalog_read(ask->dataset, ask->sample, &bytes, &sample, &fault);
	int code =
		r != 0 ? cli_fail(CLI_FAILED, "%s", fault.text) : show_drawn(ask, &sample, &bytes);
	catalog_bytes_free(&bytes);
	return code;
}

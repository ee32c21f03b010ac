/* finish: see finish.h. Made in the thread that opens a stream; run on workers, or in the command's
 * own threads. */
#include "stream/postprocess.h"

#include "augment/erase.h"
#include "base/util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct postprocessor {
	const struct postprocess *finish;
	struct augmenter *augmenter; /* NULL: nothing but erasing */
	uint8_t *image; /* what is converted; NULL: nothing is */
	struct step_plan plan; /* of the row at hand */
};

static bool postprocess_converts(const struct shape *shape)
{
	return shape->dtype != SHAPE_UINT8 || shape->layout != SHAPE_NHWC;
}

static bool postprocess_augments(const struct step_recipe *steps)
{
	for (uint32_t i = 0; i < steps->count; i++)
		if (steps->step[i].kind != STEP_RANDOM_ERASING)
			return true;
	return false;
}

static uint64_t postprocess_image_bytes(uint32_t side)
{
	return (uint64_t)3 * side * side;
}

bool postprocess_needed(const struct stream_spec *spec)
{
	struct step_recipe steps;
	spec_steps(spec, &steps);
	return steps.count || postprocess_converts(&spec->shape);
}

uint64_t postprocess_bytes(const struct stream_spec *spec)
{
	struct step_recipe steps;
	spec_steps(spec, &steps);
	bool converts = postprocess_converts(&spec->shape);
	uint64_t bytes = steps.count || converts ? sizeof(struct postprocessor) : 0;
	if (postprocess_augments(&steps))
		bytes += augmenter_bytes(&steps, spec->image_size);
	if (converts)
		bytes += postprocess_image_bytes(spec->image_size);
	return bytes;
}

static int postprocess_converter(struct postprocess *finish, struct fault *fault)
{
	const struct shape *shape = &finish->shape;
	struct convert_options options = {.dtype = shape->dtype, .layout = shape->layout};
	char sentence[CONVERT_REFUSAL];
	for (int i = 0; i < 3; i++) {
		options.mean[i] = (float)shape->mean.value[i];
		options.std[i] = (float)shape->std.value[i];
	}
	int result = convert_new(&options, &finish->convert);
	if (result == -ENOMEM)
		return fault_set(fault, result, "no memory for converting rows");
	if (result < 0)
		convert_refusal(result, sentence);
	return result < 0 ? fault_set(fault, result, "%s", sentence) : 0;
}

int postprocess_init(
	struct postprocess *finish, const struct stream_spec *spec, struct fault *fault)
{
	*finish = (struct postprocess){.shape = spec->shape, .side = spec->image_size};
	spec_steps(spec, &finish->steps);
	finish->augments = postprocess_augments(&finish->steps);
	return postprocess_converts(&finish->shape) ? postprocess_converter(finish, fault) : 0;
}

void postprocess_deinit(struct postprocess *finish)
{
	free(finish->convert);
	finish->convert = NULL;
}

int postprocessor_new(
	const struct postprocess *finish, struct postprocessor **ret, struct fault *fault)
{
	struct postprocessor *finisher = calloc(1, sizeof *finisher);
	if (!finisher)
		return fault_set(fault, -ENOMEM, "no memory for finishing rows");
	finisher->finish = finish;
	int result = 0;
	if (finish->augments)
		result = augmenter_new(&finish->steps, finish->side, &finisher->augmenter, fault);
	if (!result && finish->convert) {
		finisher->image = malloc(postprocess_image_bytes(finish->side));
		if (!finisher->image)
			result = fault_set(fault, -ENOMEM, "no memory for converting rows");
	}
	if (result < 0)
		postprocessor_free(finisher);
	else
		*ret = finisher;
	return result;
}

void postprocessor_free(struct postprocessor *finisher)
{
	if (!finisher)
		return;
	augmenter_free(finisher->augmenter);
	free(finisher->image);
	free(finisher);
}

uint8_t *postprocessor_image(struct postprocessor *finisher, uint8_t *out)
{
	if (finisher->augmenter)
		return augmenter_image(finisher->augmenter);
	return finisher->image ? finisher->image : out;
}

static void postprocessor_erase(
	struct postprocessor *finisher, const struct pixel_key *key, uint32_t side, uint8_t *out)
{
	const struct erase_row row = {
		.type = (enum slots_pixel_type)(finisher->finish->shape.dtype + 1),
		.layout = (enum slots_pixel_layout)(finisher->finish->shape.layout + 1),
		.width = side,
		.height = side,
	};
	for (uint32_t i = 0; i < finisher->plan.count; i++)
		if (finisher->plan.op[i].kind == OP_ERASE)
			op_erase(&finisher->plan.op[i], &row, key, out);
}

void postprocessor_run(
	struct postprocessor *finisher, const struct pixel_key *key, uint32_t side, uint8_t *out)
{
	const struct postprocess *finish = finisher->finish;
	if (finish->steps.count)
		step_plan(&finish->steps, key, side, side, &finisher->plan);
	if (finisher->augmenter)
		augmenter_run(finisher->augmenter, &finisher->plan, side, side,
			finisher->image ? finisher->image : out);
	if (finisher->image)
		convert_rows(finish->convert, finisher->image, 1, side, side, out);
	if (finish->steps.count)
		postprocessor_erase(finisher, key, side, out);
}

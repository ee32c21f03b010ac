/* postprocess: see postprocess.h. Made in the thread that opens a stream; runs on workers, or in
 * the threads of the command. */
#include "stream/postprocess.h"

#include "augment/erase.h"
#include "base/util.h"
#include "proto/dispatch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct postprocessor {
	const struct postprocess *postprocess;
	struct augmenter *augmenter; /* NULL: no step other than erasing, or a sequence */
	struct sequence *sequence;
	uint8_t *image; /* the image before its conversion; NULL: rows are not converted */
	struct pixel_sink *sink; /* NULL: that of the worker will do */
	struct step_plan plan; /* of the present row */
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

static uint64_t postprocess_image_bytes(struct pixel_size size)
{
	return (uint64_t)3 * size.height * size.width;
}

static bool postprocess_large(struct pixel_size size)
{
	return pixel_longer(size) > POSTPROCESS_SIDE;
}

bool postprocess_needed(const struct stream_spec *spec, uint32_t group)
{
	struct step_recipe steps;
	spec_steps(spec, group, &steps);
	return steps.count || postprocess_converts(&spec->shape) ||
	       postprocess_large(spec_group_size(spec, group));
}

static uint64_t postprocess_group_bytes(const struct stream_spec *spec, uint32_t group)
{
	struct step_recipe steps;
	spec_steps(spec, group, &steps);
	const struct pixel_size size = spec_group_size(spec, group);
	bool converts = postprocess_converts(&spec->shape);
	const bool whole = spec_pixels(spec, group).kind == PIXEL_WHOLE;
	uint64_t bytes = postprocess_needed(spec, group) ? sizeof(struct postprocessor) : 0;
	if (postprocess_large(size) && !whole)
		bytes += pixel_sink_bytes(pixel_longer(size));
	if (whole)
		bytes += sequence_bytes();
	else if (postprocess_augments(&steps))
		bytes += augmenter_bytes(&steps, pixel_longer(size));
	if (converts)
		bytes += postprocess_image_bytes(size);
	return bytes;
}

uint64_t postprocess_bytes(const struct stream_spec *spec)
{
	uint64_t bytes = 0;
	for (uint32_t group = 0; group < spec_groups(spec); group++)
		bytes += postprocess_group_bytes(spec, group);
	return bytes;
}

static int postprocess_converter(struct postprocess *postprocess, struct fault *fault)
{
	const struct shape *shape = &postprocess->shape;
	struct convert_options options = {.dtype = shape->dtype, .layout = shape->layout};
	char sentence[DISPATCH_REFUSAL];
	for (int i = 0; i < 3; i++) {
		options.mean[i] = (float)shape->mean.value[i];
		options.std[i] = (float)shape->std.value[i];
	}
	int result = convert_new(&options, &postprocess->convert);
	if (result == -ENOMEM)
		return fault_set(fault, result, "no memory for converting rows");
	if (result < 0)
		dispatch_refusal(result, sentence);
	return result < 0 ? fault_set(fault, result, "%s", sentence) : 0;
}

int postprocess_init(struct postprocess *postprocess, const struct stream_spec *spec,
	uint32_t group, struct fault *fault)
{
	*postprocess =
		(struct postprocess){.shape = spec->shape, .size = spec_group_size(spec, group)};
	spec_steps(spec, group, &postprocess->steps);
	postprocess->whole = spec_pixels(spec, group).kind == PIXEL_WHOLE;
	postprocess->augments = !postprocess->whole && postprocess_augments(&postprocess->steps);
	return postprocess_converts(&postprocess->shape) ? postprocess_converter(postprocess, fault)
							 : 0;
}

void postprocess_deinit(struct postprocess *postprocess)
{
	free(postprocess->convert);
	postprocess->convert = NULL;
}

int postprocessor_new(
	const struct postprocess *postprocess, struct postprocessor **ret, struct fault *fault)
{
	struct postprocessor *postprocessor = calloc(1, sizeof *postprocessor);
	if (!postprocessor)
		return fault_set(fault, -ENOMEM, "no memory for postprocessing rows");
	postprocessor->postprocess = postprocess;
	int result = 0;
	if (postprocess->whole)
		result = sequence_new(&postprocess->steps, &postprocessor->sequence, fault);
	else if (postprocess_large(postprocess->size))
		result = pixel_sink_new(
			pixel_longer(postprocess->size), &postprocessor->sink, fault);
	if (!result && postprocess->augments)
		result = augmenter_new(&postprocess->steps, pixel_longer(postprocess->size),
			&postprocessor->augmenter, fault);
	if (!result && postprocess->convert) {
		postprocessor->image = malloc(postprocess_image_bytes(postprocess->size));
		if (!postprocessor->image)
			result = fault_set(fault, -ENOMEM, "no memory for converting rows");
	}
	if (result < 0)
		postprocessor_free(postprocessor);
	else
		*ret = postprocessor;
	return result;
}

void postprocessor_free(struct postprocessor *postprocessor)
{
	if (!postprocessor)
		return;
	pixel_sink_free(postprocessor->sink);
	augmenter_free(postprocessor->augmenter);
	sequence_free(postprocessor->sequence);
	free(postprocessor->image);
	free(postprocessor);
}

struct pixel_sink *postprocessor_sink(const struct postprocessor *postprocessor)
{
	return postprocessor->sink;
}

struct sequence *postprocessor_sequence(struct postprocessor *postprocessor)
{
	return postprocessor ? postprocessor->sequence : NULL;
}

uint8_t *postprocessor_image(struct postprocessor *postprocessor, uint8_t *out)
{
	if (postprocessor->augmenter)
		return augmenter_image(postprocessor->augmenter);
	return postprocessor->image ? postprocessor->image : out;
}

static void postprocessor_erase(const struct postprocessor *postprocessor,
	const struct step_plan *plan, const struct pixel_key *key, struct pixel_size size,
	uint8_t *out)
{
	const struct erase_row row = {
		.type = (enum slots_pixel_type)(postprocessor->postprocess->shape.dtype + 1),
		.layout = (enum slots_pixel_layout)(postprocessor->postprocess->shape.layout + 1),
		.width = size.width,
		.height = size.height,
	};
	for (uint32_t i = 0; i < plan->count; i++)
		if (plan->op[i].kind == OP_ERASE)
			op_erase(&plan->op[i], &row, key, out);
}

void postprocessor_run(struct postprocessor *postprocessor, const struct pixel_key *key,
	struct pixel_size size, uint8_t *out)
{
	const struct postprocess *postprocess = postprocessor->postprocess;
	const struct step_plan *plan = postprocessor->sequence
					       ? sequence_ops(postprocessor->sequence)
					       : &postprocessor->plan;
	if (postprocess->steps.count && !postprocessor->sequence)
		step_plan(&postprocess->steps, key, size.width, size.height, &postprocessor->plan);
	if (postprocessor->augmenter)
		augmenter_run(postprocessor->augmenter, &postprocessor->plan, size.width,
			size.height, postprocessor->image ? postprocessor->image : out);
	if (postprocessor->image)
		convert_rows(postprocess->convert, postprocessor->image, 1, size.height, size.width,
			out);
	if (postprocess->steps.count)
		postprocessor_erase(postprocessor, plan, key, size, out);
}

/* step_size: the steps that decide an image's size: torchvision's get_params for the size that the
 * image has at that place of the list, and the op that follows. */
#pragma once

#include "augment/step_draw.h"

void step_resized_crop(struct step_sample *sample, const struct step *step);
void step_resize(struct step_sample *sample, const struct step *step);
void step_center_crop(struct step_sample *sample, const struct step *step);
void step_random_crop(struct step_sample *sample, const struct step *step);
void step_pad(struct step_sample *sample, const struct step *step);
void step_random_resize(struct step_sample *sample, const struct step *step);
void step_scale_jitter(struct step_sample *sample, const struct step *step);
void step_shortest_size(struct step_sample *sample, const struct step *step);
void step_zoom_out(struct step_sample *sample, const struct step *step);
void step_keep_ratio(struct step_sample *sample, const struct step *step);
void step_crop_or_pad(struct step_sample *sample, const struct step *step);

/* torchvision's Resize: the size that an image of this size gets, each side at least 1. */
void step_resized(const struct step *step, uint32_t width, uint32_t height, uint64_t *ret_width,
	uint64_t *ret_height);

/* timm's ResizeKeepRatio: likewise, with these factors of height and width. */
void step_kept_ratio(const struct step *step, uint32_t width, uint32_t height, double down,
	double across, uint64_t *ret_width, uint64_t *ret_height);

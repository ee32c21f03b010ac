/* trace: one sample on its way through a recipe, as a picture: a line for the source, one for what
 * its crop makes, one behind each step; a column for each of several draws. What a step did is
 * written under its picture. Main thread. */
#pragma once

#include "augment/step.h"
#include "base/fault.h"
#include "client/cli/draw/canvas.h"
#include "pixel/pixel.h"
#include "stream/row.h"

#include <stddef.h>
#include <stdint.h>

enum { STEP_SHEET_DRAWS = 32, STEP_SHEET_TEXT = 240 };

struct step_sheet {
	const char *title, *subtitle;
	const uint8_t *data; /* the image's bytes, as row_make takes them */
	size_t size;
	struct pixel_recipe head;
	const struct step_recipe *steps;
	/* "ColorJitter brightness 0.6 to 1.4": of the head, and of each of `steps` that stands in
	 * no other. What follows the first word is written small. */
	const char *head_name;
	const char *const *step_name;
	const struct pixel_key *key; /* of each draw */
	unsigned draws; /* 1 .. STEP_SHEET_DRAWS */
	unsigned tile; /* pixels of a picture's side */
};

/* 0 and a canvas for the caller to free; 1 the image is broken, with a fault that says how; -ENOMEM
 * and other negative errnos with a fault. */
int step_sheet_draw(const struct step_sheet *trace, struct canvas *ret_canvas, struct fault *fault);

/* step_sheet: draws one sample on its way through a recipe: one line for the source, one for the
 * crop, one after each step; one column per draw. The text below an image tells what the step
 * did. Main thread. */
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
	/* "ColorJitter brightness 0.6 to 1.4": for the head, and for each of `steps` that is not
	 * nested in another. The text after the first word is drawn small. */
	const char *head_name;
	const char *const *step_name;
	const struct pixel_key *key; /* of each draw */
	unsigned draws; /* 1 .. STEP_SHEET_DRAWS */
	unsigned tile; /* pixels of an image's side */
};

/* 0 and a canvas that the caller frees; 1: the image is broken, with a fault; -ENOMEM and other
 * negative errnos, with a fault. */
int step_sheet_draw(const struct step_sheet *trace, struct canvas *ret_canvas, struct fault *fault);

/* transforms_timm: timm's strings for its policies, such as "rand-m9-mstd0.5-inc1": read into the
 * fields of a step, and written. Only for the files of transforms. Pure. */
#pragma once

#include "augment/step.h"
#include "base/fault.h"

#include <stddef.h>

enum { TRANSFORMS_TIMM_TEXT = 128 };

/* Reads a string: a policy and, behind dashes, its settings. Whatever timm itself ignores (a
 * setting without a number, a number that int() refuses) is refused, too. Writes the fields of
 * `step` that struct step_timm names, only on success. 0; -EINVAL, and the fault says the position
 * in the string, counted from 1, and what is expected there. */
int transforms_timm_parse(const char *text, size_t size, struct step *step, struct fault *fault);

/* Writes the string; what timm has by default is left out, except for m. Reading it back gives the
 * same step. */
void transforms_timm_text(const struct step *step, char ret[TRANSFORMS_TIMM_TEXT]);

/* The same as numbers, by which two are compared. Returns how many there are. */
enum { TRANSFORMS_TIMM_NUMBERS = 12 };
size_t transforms_timm_numbers(const struct step *step, double ret[TRANSFORMS_TIMM_NUMBERS]);

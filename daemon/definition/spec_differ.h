/* spec_differ: what tells the streams of one dataset apart, in words, for the status. Pure. */
#pragma once

#include "definition/spec.h"

#include <stddef.h>
#include <stdint.h>

/* The keys in which two definitions differ, as bits (1 << SPEC_KEY_seed). Only keys that decide
 * what a batch has count: not the name, the group or the state. */
uint64_t spec_differ(const struct stream_spec *a, const struct stream_spec *b);

/* Writes "eval, 96 px, seed 3": the values that `spec` has under these keys. What `train`
 * implies is left out where `train` is among them. Truncates to the room. Returns `buffer`. */
const char *spec_differ_text(
	const struct stream_spec *spec, uint64_t keys, char *buffer, size_t room);

/* state: a world as a few words. Two worlds with the same words behave the same.
 *
 * Why the number of states is finite, and what that relies on:
 * - Serials are counted from the oldest that anything refers to, and where nothing refers to any
 *   serial of a gap, the gap is shortened to one missing serial. Nothing ever counts across a gap:
 *   the tally compares serials, adds one to those of batches that are in slots, and looks whether
 *   the one before is there.
 * - Readers are sorted: the tally's list and the event loop treat all of them alike.
 * - A reader that needs a batch which the living group has passed is out: it will be refused. */
#pragma once

#include "model/world.h"

enum { STATE_WORDS = 1 + WORLD_READERS };

struct state {
	uint64_t word[STATE_WORDS];
};

/* `ret_order[i]` is the number that reader i has in the state. False when a number does not fit;
 * the bounds of the world are then too large for this form. */
bool state_encode(
	struct world *world, struct state *ret_state, uint8_t ret_order[static WORLD_READERS]);

void state_decode(const struct state *state, const struct config *config, struct world *ret_world);

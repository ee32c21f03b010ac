/* trainer: a well-behaved trainer, over a connection that the model judges, for tests of other
 * events around it. Its stream has number 1. */
#pragma once

#include "model.h"

/* Connects, greets, and asks for a definition of the table. */
void trainer_open(struct model *trainer, struct world *world, int definition);
/* Sends a message and passes it to the model. */
void trainer_say(struct model *trainer, const void *message, size_t size);
/* Releases all batches that it holds. */
void trainer_release(struct model *trainer);
/* Turns and reads until it has received that many batches since it was opened. */
void trainer_read(struct model *trainer, uint64_t batches);

/* model_impl: what the parts of the model (model.h) have from each other. */
#pragma once

#include "model.h"

/* model.c */

/* The daemon may have taken its leases back: their slots may be overwritten. */
void model_let_go(struct model *model);
void model_be_lax(struct model *model);

/* model_got.c */

void model_got(struct model *model, const struct conn_message *message);

/* model_memory.c */

/* Checks a batch that was announced, and notes that the client holds it. */
void model_lease(struct model_stream *s, const struct wire_batch *b);
/* Whether the slot has been filled again. For a trainer that was detached or given up: the message
 * that ended the lease follows the announcement in the same socket. */
bool model_is_overwritten(const struct model_stream *s, const struct wire_batch *b);
/* A leased slot must be unchanged. */
void model_check_held(const struct model_stream *s, uint32_t slot);
/* The same for all that the client holds; then it holds none. A client that does not read does not
 * know what it still holds. */
void model_check_all_held(const struct model *model, struct model_stream *s);
/* Forgets all leases. */
void model_drop_held(struct model_stream *s);
/* Checks all leases, and gives the memory and the number back. */
void model_forget_stream(const struct model *model, struct model_stream *s);

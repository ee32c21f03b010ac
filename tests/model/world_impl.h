/* world_impl: what world.c, check.c and words.c share. No other file includes it. */
#pragma once

#include "model/world.h"

#define WORLD_ENDLESS UINT64_MAX /* the end of a reader that wants all */

/* Notes the first thing that is found wrong. */
void world_fail(struct world *world, const char *what, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* world.c: lists of slots. */
void list_push(struct list *list, uint32_t slot);
uint32_t list_mask(const struct list *list);
/* The slots that the reader was sent and did not send back, a bit each. */
uint32_t reader_reads(const struct reader *r);
bool reader_detached(const struct reader *r);
uint32_t world_members(const struct world *world);
uint32_t reader_in_socket(const struct reader *r);
/* Steps of the daemon. */
bool daemon_assign(struct world *world);
void daemon_filled(struct world *world, uint32_t slot);
void daemon_turn(struct world *world);
bool daemon_over(const struct reader *r);
bool daemon_may_tell_end(const struct world *world);
void daemon_tell_end(struct world *world);
void daemon_reads(struct world *world, struct reader *r);
void daemon_drop(struct world *world, struct reader *r);
void daemon_detach(struct world *world, struct reader *r);
bool daemon_may_detach(const struct world *world, const struct reader *r);
/* Steps of a client and its application. */
void client_reads(struct world *world, struct reader *r);
void client_gives(struct world *world, struct reader *r);
void client_releases(struct world *world, struct reader *r, uint32_t slot);
/* For runs that leave the world as it is. */
void world_copy(struct world *copy, const struct world *world);

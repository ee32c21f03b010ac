/* webp_memory: the memory that libwebp takes, out of a piece that its caller lends it.
 *
 * cmake/PenstockWebp.cmake links libwebp's decoder so that its malloc, calloc and free are the
 * functions below. Nothing is given back before the piece is: libwebp allocates few times for an
 * image. Each thread has a piece of its own. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lends a piece, aligned to 16 bytes, until webp_memory_return. */
void webp_memory_lend(void *memory, uint64_t bytes);
void webp_memory_return(void);

/* Whether the piece did not suffice. */
bool webp_memory_short(void);

/* Called by libwebp only. */
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void __wrap_free(void *memory);

/* tiff_memory: the memory that libtiff and its codecs take, out of a piece that their caller lends
 * them.
 *
 * cmake/PenstockTiff.cmake links libtiff with the static libraries of its codecs so that their
 * malloc, calloc, realloc and free are the functions below. Each thread has a piece of its own. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lends a piece, aligned to 16 bytes, until tiff_memory_return. */
void tiff_memory_lend(void *memory, uint64_t bytes);
void tiff_memory_return(void);

/* Whether the piece did not suffice. */
bool tiff_memory_short(void);

/* Called by libtiff and its codecs only. */
void *tiff_memory_malloc(size_t bytes);
void *tiff_memory_calloc(size_t count, size_t bytes);
void *tiff_memory_realloc(void *memory, size_t bytes);
void tiff_memory_free(void *memory);

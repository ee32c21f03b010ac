/* sheet_png: rows of a batch as a picture and as text.
 *
 * The picture contains its text too, in a text chunk of PNG (iTXt) with the keyword
 * HTTP_SHEET_KEYWORD. So the captions always belong to the picture, and not to the batch after it.
 * Pure, any thread. */
#pragma once

#include "http/http.h"

#include <stddef.h>
#include <stdint.h>

#define HTTP_SHEET_KEYWORD "penstock"

/* A zeroed sheet with room for rows x height x width pixels, in one block for free(). NULL: no
 * memory, or more than HTTP_SHEET_ROWS rows. */
struct http_sheet *http_sheet_new(uint32_t rows, uint32_t height, uint32_t width);

/* How many columns the grid of rows has, which is as square as possible. Rows go from left to
 * right, then down. */
uint32_t http_sheet_columns(const struct http_sheet *sheet);

/* Makes a malloc'ed PNG. 0; -EINVAL (no rows, or larger than a PNG may be); -ENOMEM. */
int http_sheet_png(const struct http_sheet *sheet, uint8_t **ret_png, size_t *ret_bytes);

/* The text, malloc'ed; NULL without memory:
 *
 *   {"stream": 0, "epoch": 2, "batch": 17, "batch_rows": 64, "rows": 36, "columns": 6,
 *    "width": 112, "height": 112, "step": 2,
 *    "images": [{"index": 4711, "label": 3, "class": "n01440764", "flags": ["flipped"]}, ...]}
 *
 * The picture shows `rows` of the batch's `batch_rows` rows, each as `width` x `height` pixels:
 * every `step`-th pixel of what the trainer gets. */
char *http_sheet_json(const struct http_sheet *sheet);

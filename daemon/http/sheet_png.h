/* sheet: rows of a batch as a picture and as text.
 *
 * The picture says itself what it shows: the JSON is in it too, as a text of PNG's (iTXt) under the
 * name HTTP_SHEET_KEYWORD, so that whoever has the picture has the captions of these rows and not
 * of the batch after. Pure, any thread. */
#pragma once

#include "http/http.h"

#include <stddef.h>
#include <stdint.h>

#define HTTP_SHEET_KEYWORD "penstock"

/* Zeroed, with room for rows x height x width pixels behind it: one block, for free(). NULL: no
 * memory, or more than HTTP_SHEET_ROWS rows. */
struct http_sheet *http_sheet_new(uint32_t rows, uint32_t height, uint32_t width);

/* The rows stand in a grid of so many columns, left to right, then down: as square as it goes. */
uint32_t http_sheet_columns(const struct http_sheet *sheet);

/* A malloc'ed PNG. 0, -EINVAL (no row, or larger than a PNG may be), -ENOMEM. */
int http_sheet_png(const struct http_sheet *sheet, uint8_t **ret_png, size_t *ret_bytes);

/* Malloc'ed; NULL when memory is out:
 *
 *   {"stream": 0, "epoch": 2, "batch": 17, "batch_rows": 64, "rows": 36, "columns": 6,
 *    "width": 112, "height": 112, "step": 2,
 *    "images": [{"index": 4711, "label": 3, "class": "n01440764", "flags": ["flipped"]}, ...]}
 *
 * `rows` of the batch's `batch_rows` are shown, each `width` x `height` pixels, every `step`-th of
 * what the trainer gets. */
char *http_sheet_json(const struct http_sheet *sheet);

/* sniff: recognizes a file by its first bytes. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool sniff_jpeg(const uint8_t *data, size_t size);
bool sniff_png(const uint8_t *data, size_t size);

/* What other files look like, for a sentence: "a GIF image", "an empty file", "no known format".
 * Static text. */
const char *sniff_name(const uint8_t *data, size_t size);

/* What a user can do about such a file, as the end of a sentence: "convert it to JPEG or PNG".
 * Static text. */
const char *sniff_advice(const uint8_t *data, size_t size);

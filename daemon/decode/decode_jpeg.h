/* decode_jpeg: decodes JPEGs by libjpeg-turbo, read the way Pillow reads them. */
#pragma once

#include "decode/reader.h"

extern const struct reader decode_jpeg;

/* As decoder_shrink; `self` is the reader's. */
void decode_jpeg_shrink(void *self, uint8_t shrink);

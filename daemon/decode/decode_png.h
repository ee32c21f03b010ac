/* decode_png: decodes PNGs by libpng, judged as Pillow judges them. */
#pragma once

#include "decode/reader.h"

extern const struct reader decode_png;

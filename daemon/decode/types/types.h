/* types: the image types besides JPEG and PNG. decode.c has the table of all of them.
 *
 * A map of this folder:
 *   types.h    this file: one reader for each type
 *   common.h   what the readers share: limits, little-endian numbers, rows to deliver
 *   bmp.c      Windows and OS/2 bitmaps
 *   pnm.c      Netpbm's PBM, PGM and PPM, binary and plain
 *   gif.c      the first frame of a GIF
 *   webp.c     WebP by libwebp, of an animation the first frame
 *   webp_memory.[ch]
 *              the memory that libwebp takes
 *   webp_absent.c
 *              replaces both in builds without libwebp
 *   tiff.c     TIFF: what is not compressed, and the rest by libtiff
 *   tiff_directory.[ch]
 *              what a TIFF file says about its pixels
 *   tiff_rows.[ch]
 *              its samples as red, green and blue
 *   tiff_memory.[ch]
 *              the memory that libtiff takes
 *   tiff_codecs.c
 *              codecs of libtiff that are left out
 *   tiff_absent.c
 *              replaces them in builds without libtiff
 *
 * Pillow 13 is the law for each: the pixels equal Image.open(f).convert("RGB"), and what Pillow
 * refuses is refused. docs/reference/decode-outcomes.md lists the differences. */
#pragma once

#include "decode/reader.h"

extern const struct reader types_bmp, types_pnm, types_gif, types_webp, types_tiff;

/* jpegmem: libjpeg's memory, taken from the decoder's scratch.
 *
 * libjpeg lets an application replace its memory manager. This one hands out scratch in order and
 * takes all of it back at once: no malloc per image, and an image cannot take more than was
 * provided for it. Where an image spills (scratch.h), the arrays of coefficients are in memory only
 * in part. Quantization and Huffman tables have a place of their own. They must outlast the header
 * of an abbreviated stream (one with tables only), but not the file: a file without tables must
 * never use those of the file before it.
 *
 * libjpeg's original manager keeps what jpeg_create_decompress has already taken from it, and frees
 * that at the end. */
#pragma once

#include "decode/scratch.h"

#include <stdbool.h>
#include <stdio.h>

#include <jpeglib.h>

/* At most 4 quantization and 8 Huffman tables of up to 320 bytes. */
enum { JPEGMEM_TABLES_BYTES = 8192 };

struct jpegmem {
	struct jpeg_memory_mgr methods; /* first: libjpeg hands back a pointer to it */
	struct jpeg_memory_mgr *original;
	struct scratch *scratch;
	struct jvirt_barray_control *arrays; /* requested and not yet made */
	size_t image_mark; /* where this image's pieces begin in the scratch's block */
	size_t tables_used;
	uint8_t *tables;
	uint64_t file_end; /* of the arrays in the scratch's file */
	int error; /* the negative errno for which that file could not be used, or 0 */
};

/* Installs the manager in a decompressor that was just created. `scratch` and `tables`
 * (JPEGMEM_TABLES_BYTES, aligned to SCRATCH_ALIGN) outlive it. */
void jpegmem_install(
	struct jpegmem *mem, j_decompress_ptr cinfo, struct scratch *scratch, uint8_t *tables);

/* Call before each file, after the scratch was reset: forgets the last file's tables and pieces. */
void jpegmem_begin(struct jpegmem *mem, j_decompress_ptr cinfo);

/* Call before jpeg_destroy_decompress: puts the original manager back. */
void jpegmem_remove(struct jpegmem *mem, j_decompress_ptr cinfo);

/* The most scratch that jpeg_start_decompress and the rows take, or the least that they can do with
 * where the image spills; valid after jpeg_read_header. */
uint64_t jpegmem_estimate(j_decompress_ptr cinfo, bool spilled);

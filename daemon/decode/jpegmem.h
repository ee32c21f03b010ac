/* jpegmem: libjpeg's memory out of the decoder's scratch.
 *
 * libjpeg lets an application replace its memory manager. This one deals out scratch in order and
 * takes it all back at once: no malloc per image, and an image can take no more than was provided
 * for it. Quantisation and Huffman tables live in a place of their own, because they must outlast
 * the header of an abbreviated stream (tables alone) but not the file: a file without tables must
 * never meet those of the file before it.
 *
 * libjpeg's own manager stays for what jpeg_create_decompress has already taken from it, and frees
 * that at the end. */
#pragma once

#include "decode/scratch.h"

#include <stdio.h>

#include <jpeglib.h>

enum {
	JPEGMEM_TABLES_BYTES = 8192
}; /* at most 4 quantisation and 8 Huffman tables of up to 320 bytes */

struct jpegmem {
	struct jpeg_memory_mgr methods; /* first: libjpeg hands back a pointer to it */
	struct jpeg_memory_mgr *original;
	struct scratch *scratch;
	struct jvirt_barray_control *arrays; /* asked for and not yet made */
	size_t image_mark; /* where this image's pieces begin in the own block */
	size_t tables_used;
	uint8_t *tables;
};

/* Puts the manager into a decompressor just created. `scratch` and `tables` (JPEGMEM_TABLES_BYTES,
 * aligned to SCRATCH_ALIGN) outlive it. */
void jpegmem_install(
	struct jpegmem *mem, j_decompress_ptr cinfo, struct scratch *scratch, uint8_t *tables);

/* Before each file: forgets the last one's tables and pieces. The scratch has been reset. */
void jpegmem_begin(struct jpegmem *mem, j_decompress_ptr cinfo);

/* Before jpeg_destroy_decompress: gives the decompressor its own manager back. */
void jpegmem_remove(struct jpegmem *mem, j_decompress_ptr cinfo);

/* Scratch that jpeg_start_decompress and what follows it take, at most; valid after
 * jpeg_read_header. */
uint64_t jpegmem_estimate(j_decompress_ptr cinfo);

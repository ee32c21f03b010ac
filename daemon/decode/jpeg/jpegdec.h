/* jpegdec: penstock's JPEG decoder for one thread. It puts the parts of this folder together.
 *
 * A map of this folder:
 *   jpegdec.[ch]       the entrance: images in flight, their memory, the order of all steps
 *   jpegdec_*.[ch]     its parts; jpegdec_impl.h has their map
 *   parse.[ch]         the headers
 *   mcu_plan.[ch]      which MCUs a crop needs, and where decoding can enter
 *   unstuff.[ch]       removes the stuffing from entropy-coded bytes
 *   huffman.[ch]       the codes as tables
 *   lane.h             one stream of entropy-coded blocks; the drivers of several side by side
 *   lanes.c            which driver this processor runs
 *   feed.[ch]          gives the lanes their runs
 *   chunk_plan.[ch]    cuts a scan without entry points into chunks, and finds out which are right
 *   chunk_blocks.[ch]  makes blocks out of chunks
 *   entry_points.[ch]  places where decoding can start in a file
 *   entry_pack.[ch]    entry points as bytes that can be kept
 *   checksum.h         by which kept entry points know their file's bytes
 *   blocks.h           the coefficients between the lanes and the planes
 *   planes.[ch]        makes rows of pixels from coefficients
 *   kernels/           the inner loops, once per instruction set
 *   scans/             entropy decoding of files that have several scans; scans.h has its map
 *
 * Several images in flight keep the lanes busy: when a lane has nothing left of its image, the next
 * image is asked for, and when an image's blocks are complete they become rows. Images in flight
 * share memory that the caller provides; each has one piece of it for its unstuffed bytes, tables,
 * runs and blocks. An image that does not fit next to the others waits until they are done. One
 * that does not fit at all is decoded by itself, in bands of rows.
 *
 * If entry points of a file are kept, decoding enters at them, and unstuffs and decodes only what
 * the crop needs. If none are kept but could be, and the file has no restart markers, those up to
 * the crop's last MCU are made on the way. Where a later crop needs MCUs after the last one that is
 * kept, decoding goes on from there, and more are made; if that is most of the file, it begins
 * anew. If one of these ways fails, the next is tried: kept entry points that do not fit are made
 * again, and a file with a fault before a crop's end gets none.
 *
 * With wide vectors, an image without entry points is cut into chunks, which are decoded side by
 * side (chunk_plan.h); where its memory does not suffice for all MCUs up to the crop's last, part
 * by part. If chunks do not lead to the end, for whatever reason, the image is decoded in order, as
 * with narrow vectors; it then delivers its rows from the first one again. When too many images in
 * a row do not get in step, the next ones are decoded in order from the start.
 *
 * A file of several scans (progressive, or one scan per component) is decoded by itself as soon as
 * there is a piece of memory for all its wanted coefficients, between the others' runs. It has no
 * entry points.
 *
 * Every other irregularity is a step back: the image is handed back with the reason, and the rows
 * that it delivered before are right. Belongs to one thread. */
#pragma once

#include "decode/decode.h"
#include "decode/jpeg/parse.h"

struct jpegdec;

struct stages;

struct jpegdec_source {
	/* The next image with its headers and its region, or NULL: none at present. Called while
	 * others are in flight. */
	struct decode_job *(*next)(void *context, struct parse *ret);
	/* All of an image's rows have been delivered, or job->stepback says why not. */
	void (*done)(void *context, struct decode_job *job);
	void *context;
	struct stages *stages; /* the decoder's clock */
	const struct decode_stream *rows; /* whose `start` and `row` are called */
};

/* 0, -ENOMEM, or an error of lanes_choose or planes_new. */
int jpegdec_new(struct jpegdec **ret, struct fault *fault);
void jpegdec_free(struct jpegdec *dec);

/* Bytes that jpegdec_new takes. */
uint64_t jpegdec_bytes(void);

/* Decodes until `next` returns NULL and all images in flight are done. `memory` is aligned to
 * BLOCKS_ALIGN and belongs to the decoder until then. */
void jpegdec_run(
	struct jpegdec *dec, uint8_t *memory, size_t bytes, const struct jpegdec_source *source);

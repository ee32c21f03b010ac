/* own: the own JPEG decoder of one thread: parse, plan, unstuff, lanes and planes put together.
 *
 * Lanes are kept busy by several images in flight: whenever a lane has nothing left of its image,
 * the next one is asked for, and whenever an image's blocks are complete it becomes rows. Images in
 * flight share a stretch of memory that the caller lends; each has one piece of it, which holds its
 * unstuffed bytes, tables, runs and blocks. An image that does not fit beside the others waits
 * until they are done; one that does not fit at all is decoded by itself, in bands.
 *
 * Where checkpoints of a file are kept, it is entered at them, and only what the crop needs of it
 * is unstuffed and decoded. Where none are kept yet but could be, and it has no restart markers, it
 * is decoded through its end once, to make some; MCUs beyond the crop then leave no blocks. What
 * does not work out in one of these ways is tried again in the next: kept checkpoints that do not
 * fit are made anew, and a fault that no crop needs to see leaves the file without any.
 *
 * Every other irregularity is a step back: the image is handed back with the reason, and rows that
 * it had delivered by then are right. Belongs to one thread. */
#pragma once

#include "decode/decode.h"
#include "decode/jpeg/parse.h"

struct jpegdec;

struct stages;

struct jpegdec_source {
	/* The next image with its headers and its region, or NULL: none for now. Called while
	 * others are in flight. */
	struct decode_job *(*next)(void *context, struct parse *ret);
	/* All of an image's rows have been delivered, or job->stepback says why not. */
	void (*done)(void *context, struct decode_job *job);
	void *context;
	struct stages *stages; /* the decoder's clock */
	const struct decode_stream *rows; /* whose `start` and `row` are called */
};

/* 0, -ENOMEM, or what lanes_choose and planes_new may return. */
int jpegdec_new(struct jpegdec **ret, struct fault *fault);
void jpegdec_free(struct jpegdec *own);

/* Bytes that jpegdec_new takes. */
uint64_t jpegdec_bytes(void);

/* Decodes until `next` has none and all images in flight are done. `memory` is aligned to
 * BLOCKS_ALIGN and is the own decoder's until then. */
void jpegdec_run(
	struct jpegdec *own, uint8_t *memory, size_t bytes, const struct jpegdec_source *source);

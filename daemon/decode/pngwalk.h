/* pngwalk: reads a PNG's chunks by Pillow's rules.
 *
 * Pillow has its own PNG reader, stricter than libpng about some chunks (a wrong checksum of any
 * chunk before the pixels, a gAMA that is too short, a compressed text that grows beyond 1 MiB) and
 * laxer about others (checksums of the pixels, order, unknown compression methods). This walk
 * judges the chunks as Pillow 13.0.0 does (src/PIL/PngImagePlugin.py) and hands out the compressed
 * pixels alone; libpng then sees nothing else.
 *
 * Only metadata is ever inflated here, at most PNGWALK_INFLATE_BYTES per file. Pure but for the
 * scratch. */
#pragma once

#include "decode/scratch.h"
#include "decode/sentence.h"

enum {
	PNGWALK_TEXT_BYTES = 1 << 20, /* most that one compressed text or profile may grow to */
	PNGWALK_INFLATE_BYTES =
		64 << 20, /* most for all of them; Pillow limits the texts alone, to the same */
	PNGWALK_PALETTE = 256,
};

struct pngwalk {
	const uint8_t *data;
	size_t size, at; /* `at`: the next chunk, or the end of the current pixel chunk's data */
	uint32_t width, height;
	uint8_t depth, color; /* as in IHDR; a pair that PNG knows */
	bool known; /* an IHDR with such a pair was seen */
	bool interlaced;
	bool palette_seen, transparent_index;
	uint8_t palette[PNGWALK_PALETTE][3];
	uint32_t frames; /* of an animation; 0: a still image */
	bool frame_seen; /* the pixels belong to a frame of it */
	bool frame_partial; /* and that frame is smaller than the image */
	int64_t sequence; /* of the animation's chunks, -1 before the first */
	uint64_t inflated; /* bytes of metadata, so far */
	const uint8_t *pixels; /* what is left of the current pixel chunk */
	size_t pixels_left;
	bool pixels_cut; /* the file ends inside this chunk */
	struct scratch *scratch;
	struct sentence *words;
};

/* Reads up to the first chunk of pixels. An enum decode_outcome. `data` begins with the PNG
 * signature. */
int pngwalk_begin(struct pngwalk *walk, const uint8_t *data, size_t size, struct scratch *scratch,
	struct sentence *words);

/* Steps to the next chunk of pixels, into pixels and pixels_left (which may be 0). An enum
 * decode_outcome: where there is none, the file is truncated. */
int pngwalk_next(struct pngwalk *walk);

/* Judges what follows the pixels, once the last row is out. */
int pngwalk_finish(struct pngwalk *walk);

/* Scratch that pngwalk_begin takes. */
uint64_t pngwalk_scratch_bytes(void);

/* pngwalk: reads a PNG's chunks by Pillow's rules.
 *
 * Pillow has its own PNG reader. It is stricter than libpng about some chunks (a wrong checksum of
 * any chunk before the pixels, a gAMA that is too short, a compressed text that grows beyond 1 MiB)
 * and laxer about others (checksums of the pixels, order, unknown compression methods). This walk
 * judges the chunks as Pillow 13.0.0 does (src/PIL/PngImagePlugin.py) and hands out only the
 * compressed pixels, which is all that libpng sees.
 *
 * Only metadata is inflated here, at most PNGWALK_INFLATE_BYTES per file. Pure except for the
 * scratch. */
#pragma once

#include "decode/scratch.h"
#include "decode/sentence.h"

enum {
	/* The most bytes that one compressed text or profile may grow to, and all of them together.
	 * Pillow's limit for the latter counts only the texts. */
	PNGWALK_TEXT_BYTES = 1 << 20,
	PNGWALK_INFLATE_BYTES = 64 << 20,
	PNGWALK_PALETTE = 256,
};

struct pngwalk {
	const uint8_t *data;
	size_t size, at; /* `at`: the next chunk, or the end of the current pixel chunk's data */
	uint32_t width, height;
	uint8_t depth, color; /* as in IHDR; a pair that PNG allows */
	bool known; /* an IHDR with such a pair was seen */
	bool interlaced;
	bool palette_seen, transparent_index;
	uint8_t palette[PNGWALK_PALETTE][3];
	uint32_t frames; /* of an animation; 0: a still image */
	bool frame_seen; /* the pixels belong to a frame of the animation */
	bool frame_partial; /* and that frame is smaller than the image */
	int64_t sequence; /* of the animation's chunks, -1 before the first */
	uint64_t inflated; /* bytes of metadata, so far */
	const uint8_t *pixels; /* what is left of the current pixel chunk */
	size_t pixels_left;
	bool pixels_cut; /* the file ends inside this chunk */
	struct scratch *scratch;
	struct sentence *sentence;
};

/* Reads up to the first chunk of pixels. Returns an enum decode_outcome. `data` begins with the PNG
 * signature. */
int pngwalk_begin(struct pngwalk *walk, const uint8_t *data, size_t size, struct scratch *scratch,
	struct sentence *sentence);

/* Steps to the next chunk of pixels: sets pixels and pixels_left (which may be 0). Returns an enum
 * decode_outcome; where no such chunk is left, the file is truncated. */
int pngwalk_next(struct pngwalk *walk);

/* Judges the chunks after the pixels, once the last row is out. */
int pngwalk_finish(struct pngwalk *walk);

/* Scratch that pngwalk_begin takes. */
uint64_t pngwalk_scratch_bytes(void);

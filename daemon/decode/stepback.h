/* stepback: why penstock's JPEG decoder leaves an image to libjpeg-turbo.
 *
 * This is not a refusal: libjpeg-turbo then decides whether and how the image decodes. The first
 * irregularity that is found counts. Reasons are counted by number and shown by name; 0 is none. */
#pragma once

enum stepback {
	STEPBACK_NONE = 0,
	STEPBACK_KIND, /* arithmetic, lossless, not 8 bit */
	STEPBACK_COMPONENTS, /* neither 1 nor 3, or unusual sampling */
	STEPBACK_SCAN, /* scans that are missing, repeated, too many or in an unusual order */
	STEPBACK_HEADER, /* something unusual between the first byte and the scan */
	STEPBACK_TABLES, /* a quantizer or a Huffman table that is missing, broken or unusual */
	STEPBACK_CODE, /* bits that are not a code, or a code that 8-bit images do not need */
	STEPBACK_RUN, /* a coefficient beyond the 63rd */
	STEPBACK_RANGE, /* values for which libjpeg-turbo's SIMD and C differ */
	STEPBACK_SHORT, /* the entropy-coded data ends before the last block */
	STEPBACK_RESTART, /* a restart marker is missing, out of order, or misplaced */
	STEPBACK_END, /* something other than the end marker follows the last block */
	STEPBACK_ENTRY_POINT, /* entry points that do not fit the file */
	STEPBACK_SIZE, /* larger than the memory of penstock's decoder */
	STEPBACKS,
};

/* For JSON and metrics, never changed: "kind", "components", ...; "none" for 0. Entry points have
 * the name that they once had, "checkpoint". */
const char *stepback_name(enum stepback reason);
/* For people: what it is in the file, "arithmetic or lossless coding, or not 8 bit". */
const char *stepback_words(enum stepback reason);

/* stepback: why the own JPEG decoder leaves an image to libjpeg-turbo.
 *
 * Not a refusal: libjpeg-turbo then decides whether and how the image decodes. The first
 * irregularity counts. Reasons are counted by number and shown by name; 0 is none. */
#pragma once

enum stepback {
	STEPBACK_NONE = 0,
	STEPBACK_KIND, /* progressive, arithmetic, lossless, not 8 bit */
	STEPBACK_COMPONENTS, /* neither 1 nor 3, or unusual sampling */
	STEPBACK_SCAN, /* not all components in one scan, or not in the frame's order */
	STEPBACK_HEADER, /* anything odd between the first byte and the scan */
	STEPBACK_TABLES, /* a quantiser or a Huffman table that is missing, broken or unusual */
	STEPBACK_CODE, /* bits that are no code, or a code that 8-bit images have no use for */
	STEPBACK_RUN, /* a coefficient beyond the 63rd */
	STEPBACK_RANGE, /* values for which libjpeg-turbo's SIMD and C differ */
	STEPBACK_SHORT, /* entropy-coded data ends before its blocks */
	STEPBACK_RESTART, /* a restart marker missing, out of turn, or where none belongs */
	STEPBACK_END, /* something other than the end marker behind the last block */
	STEPBACK_ENTRY_POINT, /* entry points that do not fit the file */
	STEPBACK_SIZE, /* larger than the own decoder's memory */
	STEPBACKS,
};

const char *stepback_name(enum stepback reason); /* "kind", "components", ...; "none" for 0 */

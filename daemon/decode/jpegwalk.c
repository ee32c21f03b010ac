/* jpegwalk: see jpegwalk.h. One function per kind of segment that Pillow looks into; it receives
 * the segment's payload, all of which is inside the file. */
#include "decode/jpegwalk.h"

#include "decode/exif.h"

#include <string.h>

enum {
	MARKER_SOF0 = 0xc0,
	MARKER_DHT = 0xc4,
	MARKER_JPG = 0xc8,
	MARKER_DAC = 0xcc,
	MARKER_RST0 = 0xd0,
	MARKER_EOI = 0xd9,
	MARKER_SOS = 0xda,
	MARKER_DQT = 0xdb,
	MARKER_DHP = 0xde,
	MARKER_APP0 = 0xe0,
	MARKER_APP1 = 0xe1,
	MARKER_APP2 = 0xe2,
	MARKER_APP13 = 0xed,
	MARKER_APP14 = 0xee,
	MARKER_JPG0 = 0xf0,
	MARKER_JPG13 = 0xfd,
};

struct segment {
	const uint8_t *bytes;
	size_t size;
};

struct walk {
	struct jpegwalk found;
	struct segment exif; /* payload of the first Exif segment */
	unsigned exif_segments;
	bool density; /* a JFIF segment named a density in a known unit */
	int icc_first[2]; /* bytes 12 and 13 of the smallest ICC segment; -1: it ends before them */
	bool icc;
	struct sentence *sentence;
};

static unsigned be16(const uint8_t *p)
{
	return (unsigned)p[0] << 8 | p[1];
}

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)be16(p) << 16 | be16(p + 2);
}

static bool begins(struct segment s, const char *text, size_t length)
{
	return s.size >= length && memcmp(s.bytes, text, length) == 0;
}

static int refuse(struct walk *walk, const char *what)
{
	return sentence_set(walk->sentence, DECODE_E_CORRUPT, "JPEG header: %s", what);
}

static int walk_jfif(struct walk *walk, struct segment s)
{
	if (s.size < 7)
		return refuse(walk, "the JFIF segment ends before its version");
	if (s.size >= 12 && (s.bytes[7] == 1 || s.bytes[7] == 2))
		walk->density = true;
	return DECODE_OK;
}

/* Image resources: "8BIM", code, Pascal name, size, data; name and data are padded to even. A
 * resource that is cut ends the list without an error, unless it ends just before the length of its
 * name. */
static int walk_photoshop(struct walk *walk, struct segment s)
{
	uint64_t at = 14;
	while (at + 4 <= s.size && memcmp(s.bytes + at, "8BIM", 4) == 0) {
		at += 4;
		if (at + 2 > s.size)
			break;
		unsigned code = be16(s.bytes + at);
		at += 2;
		if (at >= s.size)
			return refuse(walk, "a Photoshop resource ends before its name");
		at += 1u + s.bytes[at];
		at += at & 1;
		if (at + 4 > s.size)
			break;
		uint64_t bytes = be32(s.bytes + at);
		at += 4;
		uint64_t left = at < s.size ? s.size - at : 0;
		enum { RESOLUTION = 0x03ed, RESOLUTION_BYTES = 14 };
		if (code == RESOLUTION && (bytes < RESOLUTION_BYTES || left < RESOLUTION_BYTES))
			break;
		at += bytes;
		at += at & 1;
	}
	return DECODE_OK;
}

/* At the frame header Pillow sorts the segments as byte strings and reads the count in the first
 * one. All begin alike, so bytes 12 and 13 decide, and a shorter one comes first. */
static void walk_icc(struct walk *walk, struct segment s)
{
	int key[2] = {s.size > 12 ? s.bytes[12] : -1, s.size > 13 ? s.bytes[13] : -1};
	bool smaller = key[0] < walk->icc_first[0] ||
		       (key[0] == walk->icc_first[0] && key[1] < walk->icc_first[1]);
	if (!walk->icc || smaller)
		memcpy(walk->icc_first, key, sizeof(key));
	walk->icc = true;
}

static int walk_app(struct walk *walk, unsigned marker, struct segment s)
{
	if (marker == MARKER_APP0 && begins(s, "JFIF", 4))
		return walk_jfif(walk, s);
	if (marker == MARKER_APP1 && begins(s, "Exif\0\0", 6)) {
		if (walk->exif_segments++ == 0)
			walk->exif = s;
	} else if (marker == MARKER_APP2 && begins(s, "ICC_PROFILE\0", 12)) {
		walk_icc(walk, s);
	} else if (marker == MARKER_APP13 && begins(s, "Photoshop 3.0\0", 14)) {
		return walk_photoshop(walk, s);
	} else if (marker == MARKER_APP14 && begins(s, "Adobe", 5) && s.size < 7) {
		return refuse(walk, "the Adobe segment ends before its version");
	}
	return DECODE_OK;
}

static int walk_frame(struct walk *walk, struct segment s)
{
	enum { COMPONENTS = 6, COMPONENT_BYTES = 3 };
	if (s.size < COMPONENTS)
		return refuse(walk, "the frame header is too short");
	if (s.bytes[0] != 8)
		return sentence_set(walk->sentence, DECODE_E_UNSUPPORTED,
			"JPEG header: samples of %u bits; only 8 bits are supported", s.bytes[0]);
	walk->found.height = be16(s.bytes + 1);
	walk->found.width = be16(s.bytes + 3);
	walk->found.layers = s.bytes[5];
	if (walk->found.layers != 1 && walk->found.layers != 3 && walk->found.layers != 4)
		return sentence_set(walk->sentence, DECODE_E_UNSUPPORTED,
			"JPEG header: %u components; only 1, 3 and 4 are supported",
			walk->found.layers);
	if (walk->icc && walk->icc_first[1] < 0)
		return refuse(walk, "an ICC profile segment ends before its number");
	walk->icc = false;
	if ((s.size - COMPONENTS) % COMPONENT_BYTES)
		return refuse(walk, "the frame header ends inside a component");
	return DECODE_OK;
}

static int walk_quantization(struct walk *walk, struct segment s)
{
	while (s.size) {
		size_t bytes = 1 + (s.bytes[0] >> 4 ? 2 : 1) * (size_t)64;
		if (s.size < bytes)
			return refuse(walk, "a quantization table is cut");
		s.bytes += bytes;
		s.size -= bytes;
	}
	return DECODE_OK;
}

static bool has_payload(unsigned marker)
{
	return marker != MARKER_JPG && !(marker >= MARKER_RST0 && marker <= MARKER_EOI) &&
	       !(marker >= MARKER_JPG0 && marker <= MARKER_JPG13);
}

static bool is_frame(unsigned marker)
{
	return (marker >= MARKER_SOF0 && marker < MARKER_RST0 && marker != MARKER_DHT &&
		       marker != MARKER_JPG && marker != MARKER_DAC) ||
	       marker == MARKER_DHP;
}

static int walk_segment(struct walk *walk, unsigned marker, struct segment s)
{
	if (is_frame(marker))
		return walk_frame(walk, s);
	if (marker == MARKER_DQT)
		return walk_quantization(walk, s);
	if (marker >= MARKER_APP0 && marker < MARKER_JPG0)
		return walk_app(walk, marker, s);
	return DECODE_OK;
}

/* Finds the next marker at or after *at, skipping fill bytes, stuffed zeros and stray bytes, and
 * returns its code; -1 at the file's end. */
static int next_marker(const uint8_t *data, size_t size, size_t *at)
{
	while (*at < size) {
		const uint8_t *ff = memchr(data + *at, 0xff, size - *at);
		if (!ff)
			break;
		*at = (size_t)(ff - data) + 1;
		while (*at < size && data[*at] == 0xff)
			++*at;
		if (*at == size)
			break;
		unsigned code = data[(*at)++];
		if (code)
			return (int)code;
	}
	*at = size;
	return -1;
}

/* Takes the payload of the segment at *at. A length below 2 counts as an empty payload. */
static int cut_segment(
	struct walk *walk, const uint8_t *data, size_t size, size_t *at, struct segment *ret)
{
	if (size - *at < 2)
		return sentence_set(walk->sentence, DECODE_E_TRUNCATED,
			"JPEG header: the file ends in a segment");
	unsigned length = be16(data + *at);
	*at += 2;
	size_t payload = length > 2 ? length - 2 : 0;
	if (payload > size - *at)
		return sentence_set(walk->sentence, DECODE_E_TRUNCATED,
			"JPEG header: the file ends in a segment");
	*ret = (struct segment){data + *at, payload};
	*at += payload;
	return DECODE_OK;
}

static int walk_finish(struct walk *walk, struct jpegwalk *ret)
{
	if (!walk->density && walk->exif_segments == 1 &&
		exif_density_refused(walk->exif.bytes + 6, walk->exif.size - 6))
		return refuse(walk, "the Exif resolution has fewer than two digits");
	if (walk->found.layers == 0)
		return refuse(walk, "a scan comes before any frame header");
	if (walk->found.width == 0 || walk->found.height == 0)
		return refuse(walk, "the width or height is 0");
	*ret = walk->found;
	return DECODE_OK;
}

int jpegwalk_read(const uint8_t *data, size_t size, struct jpegwalk *ret, struct sentence *sentence)
{
	struct walk walk = {.sentence = sentence};
	size_t at = 2; /* the third byte, FF, begins the first marker */
	for (;;) {
		int marker = next_marker(data, size, &at);
		if (marker < 0)
			return sentence_set(sentence, DECODE_E_TRUNCATED,
				"JPEG header: the file ends before any scan");
		if (marker < MARKER_SOF0)
			return sentence_set(sentence, DECODE_E_CORRUPT,
				"JPEG header: FF %02X is not a marker", (unsigned)marker);
		if (!has_payload((unsigned)marker))
			continue;
		struct segment segment = {0};
		int outcome = cut_segment(&walk, data, size, &at, &segment);
		if (!outcome)
			outcome = walk_segment(&walk, (unsigned)marker, segment);
		if (outcome)
			return outcome;
		if (marker == MARKER_SOS)
			return walk_finish(&walk, ret);
	}
}

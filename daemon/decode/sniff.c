/* sniff: see sniff.h. */
#include "decode/sniff.h"

#include "base/util.h"

#include <string.h>
#include <strings.h>

static bool has(const uint8_t *data, size_t size, size_t at, const char *text, size_t length)
{
	return size >= at + length && memcmp(data + at, text, length) == 0;
}

bool sniff_jpeg(const uint8_t *data, size_t size)
{
	return has(data, size, 0, "\xff\xd8\xff", 3);
}

bool sniff_png(const uint8_t *data, size_t size)
{
	return has(data, size, 0, "\x89PNG\r\n\x1a\n", 8);
}

/* A page or a message, as a failed download leaves it. */
static bool looks_like_markup(const uint8_t *data, size_t size)
{
	size_t at = 0;
	while (at < size && (data[at] == ' ' || (data[at] >= '\t' && data[at] <= '\r')))
		at++;
	static const char *const starts[] = {"<!doctype", "<html", "<?xml", "<head", "<svg"};
	for (size_t i = 0; i < UTIL_COUNT(starts); i++) {
		size_t length = strlen(starts[i]);
		if (size - at >= length &&
			strncasecmp((const char *)data + at, starts[i], length) == 0)
			return true;
	}
	return false;
}

static bool all_zero(const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (data[i])
			return false;
	return true;
}

/* The formats of Netpbm: P1 to P7 (bitmap, gray, color, PAM) and PF, Pf (floats), then a blank. */
static bool looks_like_netpbm(const uint8_t *data, size_t size)
{
	if (size < 3 || data[0] != 'P' || !strchr("1234567Ff", data[1]) || !data[1])
		return false;
	return data[2] == ' ' || (data[2] >= '\t' && data[2] <= '\r') || data[2] == '#';
}

static const char *netpbm_name(uint8_t kind)
{
	switch (kind) {
	case '1':
	case '4':
		return "a PBM image";
	case '2':
	case '5':
		return "a PGM image";
	case '3':
	case '6':
		return "a PPM image";
	default:
		return kind == '7' ? "a PAM image" : "a PFM image";
	}
}

#define CONVERT "convert it to JPEG or PNG"
#define UNPACK "unpack it"
#define REPLACE "download it again, or remove it"

struct known {
	size_t at;
	const char *text;
	size_t length;
	const char *name, *advice;
};

static const struct known *find_known(const uint8_t *data, size_t size)
{
	static const struct known known[] = {
		{0, "GIF8", 4, "a damaged GIF signature", REPLACE},
		{8, "WEBP", 4, "a WebP file without an image", REPLACE},
		{0, "II*\0", 4, "the start of a TIFF image", REPLACE},
		{0, "MM\0*", 4, "the start of a TIFF image", REPLACE},
		{4, "ftypavif", 8, "an AVIF image", CONVERT},
		{4, "ftyphei", 7, "a HEIF image", CONVERT},
		{4, "ftyp", 4, "an MP4 or HEIF file", CONVERT},
		{0, "\0\0\0\x0cjP  ", 8, "a JPEG 2000 image", CONVERT},
		{0, "\0\0\0\x0cJXL ", 8, "a JPEG XL image", CONVERT},
		{0, "\xff\x0a", 2, "a JPEG XL image", CONVERT},
		{0, "8BPS", 4, "a Photoshop image", CONVERT},
		{0, "\xff\xd8", 2, "the start of a JPEG whose third byte is not FF", REPLACE},
		{0, "\x89PNG", 4, "a damaged PNG signature", REPLACE},
		{0, "\x1f\x8b", 2, "a gzip file", UNPACK},
		{0, "BZh", 3, "a bzip2 file", UNPACK},
		{0,
			"\xfd"
			"7zXZ\0",
			6, "an xz file", UNPACK},
		{0, "\x28\xb5\x2f\xfd", 4, "a zstd file", UNPACK},
		{0, "\x04\x22\x4d\x18", 4, "an LZ4 file", UNPACK},
		{0, "PK\3\4", 4, "a zip file", UNPACK},
		{0, "7z\xbc\xaf\x27\x1c", 6, "a 7z archive", UNPACK},
		{0, "%PDF", 4, "a PDF document", CONVERT},
		{0, "version https://git-lfs", 23, "a git-lfs pointer",
			"fetch the files with git lfs pull"},
		{257, "ustar", 5, "a tar archive", UNPACK},
	};
	for (size_t i = 0; i < UTIL_COUNT(known); i++)
		if (has(data, size, known[i].at, known[i].text, known[i].length))
			return &known[i];
	return NULL;
}

const char *sniff_name(const uint8_t *data, size_t size)
{
	const struct known *known = find_known(data, size);
	if (known)
		return known->name;
	if (size == 0)
		return "an empty file";
	if (looks_like_netpbm(data, size))
		return netpbm_name(data[1]);
	if (looks_like_markup(data, size))
		return "a web page or XML";
	return all_zero(data, UTIL_MIN(size, (size_t)512)) ? "zero bytes" : "no known format";
}

const char *sniff_advice(const uint8_t *data, size_t size)
{
	const struct known *known = find_known(data, size);
	if (known)
		return known->advice;
	return looks_like_netpbm(data, size) ? CONVERT : REPLACE;
}

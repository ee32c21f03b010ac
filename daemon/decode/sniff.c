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

const char *sniff_name(const uint8_t *data, size_t size)
{
	static const struct {
		size_t at;
		const char *text;
		size_t length;
		const char *name;
	} known[] = {
		{0, "GIF8", 4, "a GIF image"},
		{8, "WEBP", 4, "a WebP image"},
		{0, "BM", 2, "a BMP image"},
		{0, "II*\0", 4, "a TIFF image"},
		{0, "MM\0*", 4, "a TIFF image"},
		{4, "ftypavif", 8, "an AVIF image"},
		{4, "ftyphei", 7, "a HEIF image"},
		{4, "ftyp", 4, "an MP4 or HEIF file"},
		{0, "\0\0\0\x0cjP  ", 8, "a JPEG 2000 image"},
		{0, "\0\0\0\x0cJXL ", 8, "a JPEG XL image"},
		{0, "\xff\x0a", 2, "a JPEG XL image"},
		{0, "\xff\xd8", 2, "the start of a JPEG whose third byte is not FF"},
		{0, "\x89PNG", 4, "a damaged PNG signature"},
		{0, "\x1f\x8b", 2, "a gzip file"},
		{0, "PK\3\4", 4, "a zip file"},
		{0, "\x28\xb5\x2f\xfd", 4, "a zstd file"},
		{0, "%PDF", 4, "a PDF document"},
		{0, "version https://git-lfs", 23, "a git-lfs pointer"},
		{257, "ustar", 5, "a tar archive"},
	};
	if (size == 0)
		return "an empty file";
	for (size_t i = 0; i < UTIL_COUNT(known); i++)
		if (has(data, size, known[i].at, known[i].text, known[i].length))
			return known[i].name;
	if (looks_like_markup(data, size))
		return "a web page or XML";
	return all_zero(data, UTIL_MIN(size, (size_t)512)) ? "zero bytes" : "no known format";
}

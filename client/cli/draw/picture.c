/* picture: see picture.h. */
#include "client/cli/draw/picture.h"

#include "base/util.h"
#include "client/cli/output.h"

#include <errno.h>
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

static void picture_png_fail(png_structp png, png_const_charp message)
{
	struct fault *words = png_get_error_ptr(png);
	(void)fault_set(words, 0, "%s", message);
	png_longjmp(png, 1);
}

static void picture_png_warn(png_structp png, png_const_charp message)
{
	(void)png;
	(void)message;
}

/* The caller owns everything that must survive a jump out of libpng. */
static int picture_png_rows(
	png_structp png, png_infop info, FILE *file, const struct picture *picture)
{
	if (setjmp(png_jmpbuf(png)))
		return -EIO;
	png_init_io(png, file);
	png_set_IHDR(png, info, picture->width, picture->height, 8, PNG_COLOR_TYPE_RGB,
		PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
	png_write_info(png, info);
	for (uint32_t y = 0; y < picture->height; y++)
		png_write_row(png, picture->rgb + (size_t)y * picture->width * 3);
	png_write_end(png, info);
	return 0;
}

static int picture_png(FILE *file, const struct picture *picture, struct fault *words)
{
	png_structp png = png_create_write_struct(
		PNG_LIBPNG_VER_STRING, words, picture_png_fail, picture_png_warn);
	png_infop info = png ? png_create_info_struct(png) : NULL;
	int r = info ? picture_png_rows(png, info, file, picture) : -ENOMEM;
	int saved = errno;
	png_destroy_write_struct(&png, &info);
	errno = saved;
	return r;
}

static int picture_ppm(FILE *file, const struct picture *picture)
{
	size_t bytes = (size_t)picture->width * picture->height * 3;
	bool done = fprintf(file, "P6\n%u %u\n255\n", picture->width, picture->height) > 0 &&
		    fwrite(picture->rgb, 1, bytes, file) == bytes;
	return done ? 0 : -EIO;
}

int picture_put(FILE *file, const char *name, enum picture_format format,
	const struct picture *picture, struct fault *fault)
{
	struct fault words = {{0}};
	errno = 0;
	int r = format == PICTURE_PNG ? picture_png(file, picture, &words)
				      : picture_ppm(file, picture);
	if (r == 0 && fflush(file) != 0)
		r = -EIO;
	if (r == 0)
		return 0;
	const char *why = errno ? strerror(errno) : words.text[0] ? words.text : "out of memory";
	return fault_set(fault, errno ? -errno : r, "cannot write %s: %s", name, why);
}

struct picture_choice {
	enum picture_format format;
	const struct picture *picture;
};

static int picture_put_choice(
	FILE *file, const char *name, const void *context, struct fault *fault)
{
	const struct picture_choice *choice = context;
	return picture_put(file, name, choice->format, choice->picture, fault);
}

int picture_write(const char *path, enum picture_format format, const struct picture *picture,
	bool replace, struct fault *fault)
{
	const struct picture_choice choice = {format, picture};
	return output_write(path, replace, picture_put_choice, &choice, fault);
}

void picture_compare(const struct picture *picture, uint32_t y, const uint8_t *rgb,
	struct picture_difference *difference)
{
	const uint8_t *other = picture->rgb + (size_t)y * picture->width * 3;
	for (uint32_t x = 0; x < picture->width; x++) {
		unsigned most = 0;
		for (uint32_t c = 3 * x; c < 3 * x + 3; c++) {
			unsigned apart = (unsigned)abs(rgb[c] - other[c]);
			most = UTIL_MAX(most, apart);
		}
		if (most && difference->pixels++ == 0) {
			difference->x = x;
			difference->y = y;
		}
		difference->largest = UTIL_MAX(difference->largest, most);
	}
}

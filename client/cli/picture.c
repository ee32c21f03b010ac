/* picture: see picture.h. */
#include "client/cli/picture.h"

#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

/* All that lives across a jump out of libpng is the caller's. */
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
	const char *why = errno ? strerror(errno) : words.text[0] ? words.text : "no memory left";
	return fault_set(fault, errno ? -errno : r, "cannot write %s: %s", name, why);
}

/* Puts a finished file in its place. */
static int picture_rename(const char *from, const char *to, bool replace)
{
	if (replace)
		return rename(from, to);
	int r = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
	if (r == 0 || (errno != EINVAL && errno != ENOSYS))
		return r;
	/* A file system that cannot do it in one step. */
	if (access(to, F_OK) == 0) {
		errno = EEXIST;
		return -1;
	}
	return rename(from, to);
}

static void picture_permit(int fd)
{
	mode_t mask = umask(0);
	(void)umask(mask);
	(void)fchmod(fd, 0666 & ~mask);
}

static int picture_fail(const char *path, struct fault *fault)
{
	int saved = errno;
	return fault_set(fault, -saved, "cannot write %s: %s", path,
		saved == EEXIST ? "it is there already; give --force to replace it"
				: strerror(saved));
}

static int picture_beside(const char *path, enum picture_format format,
	const struct picture *picture, bool replace, struct fault *fault)
{
	char temporary[PATH_MAX];
	if (snprintf(temporary, sizeof temporary, "%s.XXXXXX", path) >= (int)sizeof temporary)
		return fault_set(
			fault, -ENAMETOOLONG, "cannot write %s: its name is too long", path);
	int fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return picture_fail(path, fault);
	picture_permit(fd);
	FILE *file = fdopen(fd, "wb");
	if (!file) {
		(void)close(fd);
		(void)unlink(temporary);
		return picture_fail(path, fault);
	}
	int r = picture_put(file, path, format, picture, fault);
	if (fclose(file) != 0 && r == 0)
		r = picture_fail(path, fault);
	if (r == 0 && picture_rename(temporary, path, replace) != 0)
		r = picture_fail(path, fault);
	if (r < 0)
		(void)unlink(temporary);
	return r;
}

static int picture_through(const char *path, enum picture_format format,
	const struct picture *picture, struct fault *fault)
{
	FILE *file = fopen(path, "wbe");
	if (!file)
		return picture_fail(path, fault);
	int r = picture_put(file, path, format, picture, fault);
	if (fclose(file) != 0 && r == 0)
		r = picture_fail(path, fault);
	return r;
}

int picture_write(const char *path, enum picture_format format, const struct picture *picture,
	bool replace, struct fault *fault)
{
	struct stat st;
	if (stat(path, &st) != 0)
		return picture_beside(path, format, picture, replace, fault);
	if (!S_ISREG(st.st_mode))
		return picture_through(path, format, picture, fault);
	if (!replace) {
		errno = EEXIST;
		return picture_fail(path, fault);
	}
	cleanup(free_ptr) char *real = realpath(path, NULL);
	return picture_beside(real ? real : path, format, picture, replace, fault);
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

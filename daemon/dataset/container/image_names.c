/* image_names: see image_names.h. */
#include "dataset/container/image_names.h"

#include "base/util.h"
#include "dataset/dataset.h"

#include <stdbool.h>
#include <stddef.h>
#include <strings.h>

static const struct {
	const char *extension;
	uint8_t format;
	bool folder;
} image_names[] = {
	{"jpg", SAMPLE_JPEG, true},
	{"jpeg", SAMPLE_JPEG, true},
	{"png", SAMPLE_PNG, true},
	{"ppm", SAMPLE_OTHER, true},
	{"bmp", SAMPLE_OTHER, true},
	{"pgm", SAMPLE_OTHER, true},
	{"tif", SAMPLE_OTHER, true},
	{"tiff", SAMPLE_OTHER, true},
	{"webp", SAMPLE_OTHER, true},
	{"gif", SAMPLE_OTHER, false},
	{"pbm", SAMPLE_OTHER, false},
	{"pnm", SAMPLE_OTHER, false},
};

static uint8_t image_names_find(const char *extension, bool folder)
{
	for (size_t i = 0; i < UTIL_COUNT(image_names); i++)
		if ((!folder || image_names[i].folder) &&
			!strcasecmp(extension, image_names[i].extension))
			return image_names[i].format;
	return 0;
}

uint8_t image_names_folder(const char *extension)
{
	return image_names_find(extension, true);
}

uint8_t image_names_tar(const char *extension)
{
	return image_names_find(extension, false);
}

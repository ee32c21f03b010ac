/* image_names: the extensions of images. Content decides how a file is decoded; its extension only
 * decides whether it is a sample at all. Pure. */
#pragma once

#include <stdint.h>

/* All of them, for messages. */
#define IMAGE_NAMES_FOLDER ".jpg, .jpeg, .png, .ppm, .bmp, .pgm, .tif, .tiff or .webp"
#define IMAGE_NAMES_TAR "jpg, jpeg, png, ppm, bmp, pgm, tif, tiff, webp, gif, pbm or pnm"

/* The enum sample_format of a file in a folder by its extension, without the dot and in any case;
 * 0: it is not a sample. These are the extensions that torchvision's ImageFolder takes
 * (datasets/folder.py, IMG_EXTENSIONS). */
uint8_t image_names_folder(const char *extension);

/* The same for a member of a tar: also .gif, and .pbm and .pnm, which webdataset decodes
 * (autodecode.py). */
uint8_t image_names_tar(const char *extension);

/* tiff_codecs: the codecs of libtiff that penstock does without, as Pillow's wheel does. They take
 * the place of libtiff's own functions of these names, so that their libraries are not needed. */
#include <tiffio.h>

int TIFFInitLERC(TIFF *tiff, int scheme);
int TIFFInitJBIG(TIFF *tiff, int scheme);
int TIFFInitWebP(TIFF *tiff, int scheme);

int TIFFInitLERC(TIFF *tiff, int scheme)
{
	(void)tiff, (void)scheme;
	return 0;
}

int TIFFInitJBIG(TIFF *tiff, int scheme)
{
	(void)tiff, (void)scheme;
	return 0;
}

int TIFFInitWebP(TIFF *tiff, int scheme)
{
	(void)tiff, (void)scheme;
	return 0;
}

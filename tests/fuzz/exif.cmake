# Exif entries, and the walk over the markers of a JPEG.
penstock_fuzz(exif LINK penstock_decode ROUNDS 100000 NIGHTLY 10000000)

# WebP, TIFF, BMP, PNM and GIF: damaged files, whole and in regions.
penstock_fuzz(types LINK penstock_decode ROUNDS 200000 NIGHTLY 20000000)

# Penstock's PNG decoder against libpng.
penstock_fuzz(pngdec LINK penstock_decode ROUNDS 2000 NIGHTLY 1000000)

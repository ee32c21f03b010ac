# PNGs: valid ones against the pixels that they were made from, others against libpng.
penstock_fuzz(png LINK penstock_decode ROUNDS 20000 NIGHTLY 1000000)

# PNGs: sound ones against what they were made of, others against libpng by itself.
penstock_fuzz(png LINK penstock_decode ROUNDS 20000 NIGHTLY 1000000)

# Exif entries, and the walk over a JPEG's markers.
penstock_fuzz(exif LINK penstock_decode ROUNDS 100000 NIGHTLY 10000000)

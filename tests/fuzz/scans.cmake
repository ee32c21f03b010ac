# Files of several scans, penstock's decoder against libjpeg-turbo.
penstock_fuzz(scans LINK penstock_decode ROUNDS 3000 NIGHTLY 1000000)

# Entry points that were cut off, damaged, made for another file, or forged.
penstock_fuzz(sidecar LINK penstock_decode ROUNDS 20000 NIGHTLY 1000000)

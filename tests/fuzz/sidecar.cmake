# Checkpoints that were cut, spoiled, another file's or forged.
penstock_fuzz(sidecar LINK penstock_decode ROUNDS 20000 NIGHTLY 1000000)

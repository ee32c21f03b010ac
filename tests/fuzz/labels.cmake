# Manifests, CSV records, labels and paths into JSON, names of classes: put together at random as a
# test, and for libFuzzer.
penstock_fuzz(labels LINK penstock_fetch ROUNDS 20000 NIGHTLY 2000000)

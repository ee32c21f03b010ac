# Headers of .npy files: put together at random as a test, and for libFuzzer.
penstock_fuzz(npy LINK penstock_fetch ROUNDS 200000 NIGHTLY 20000000)

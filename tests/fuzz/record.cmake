# The flight recorder's file, and what `penstock why` reads from it.
penstock_fuzz(record LINK penstock_why ROUNDS 20000 NIGHTLY 1000000)

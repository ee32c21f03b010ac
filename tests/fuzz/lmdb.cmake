# LMDB databases of every layout, with lies and damage.
penstock_fuzz(lmdb LINK penstock_fetch ROUNDS 10000 NIGHTLY 1000000)

# Shards of MDS that are made of choices, and damaged.
penstock_fuzz(mds LINK penstock_fetch ROUNDS 20000 NIGHTLY 1000000)

# Tars against a model: members and samples.
penstock_fuzz(tar LINK penstock_fetch ROUNDS 100000 NIGHTLY 10000000)

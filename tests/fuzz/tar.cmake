# Tars against a model: members and samples.
penstock_fuzz(tar LINK penstock_source ROUNDS 100000 NIGHTLY 10000000)

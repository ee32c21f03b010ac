# Indexes that were changed, with checksums that then differ and with forged ones.
penstock_fuzz(index LINK penstock_fetch ROUNDS 60000 NIGHTLY 10000000)

# ZIP files of every layout, with lies and damage.
penstock_fuzz(zip LINK penstock_fetch ZLIB::ZLIB ROUNDS 10000 NIGHTLY 1000000)

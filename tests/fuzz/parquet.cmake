# Parquet files of every layout, with lies and damage.
penstock_fuzz(parquet LINK penstock_fetch ZLIB::ZLIB ROUNDS 8000 NIGHTLY 1000000)

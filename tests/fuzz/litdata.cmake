# Chunks of LitData that are made of choices, beside an index.json, and damaged.
penstock_fuzz(litdata LINK penstock_fetch ROUNDS 20000 NIGHTLY 1000000)

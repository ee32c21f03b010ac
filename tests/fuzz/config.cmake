# Configurations: refused with their place in the file, or accepted and valid.
penstock_fuzz(config LINK penstock_config ROUNDS 10000 NIGHTLY 1000000)

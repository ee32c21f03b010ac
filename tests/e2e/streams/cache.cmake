# The cache of samples.
penstock_e2e(cache cache.py)

# Streams over a subset of a dataset.
penstock_e2e(indices indices.py)

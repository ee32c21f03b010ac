# Streams that are shuffled by blocks.
penstock_e2e(blocks blocks.py)

# Which samples a stream delivers: weights, epoch_length, repeats, split, sources.
penstock_e2e(sampling sampling.py)

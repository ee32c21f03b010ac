# Which samples a stream gives out: weights, epoch_length, repeats, split, sources.
penstock_e2e(sampling sampling.py)

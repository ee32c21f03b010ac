# CIFAR's batches (pickles too) and MNIST's idx files.
penstock_fuzz(arrays LINK penstock_dataset ROUNDS 2000 NIGHTLY 1000000)

# RecordIO files and the .idx files beside them.
penstock_fuzz(recordio LINK penstock_dataset ROUNDS 4000 NIGHTLY 1000000)

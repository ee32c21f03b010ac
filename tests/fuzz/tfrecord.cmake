# TFRecords that are made of choices, and damaged.
penstock_fuzz(tfrecord LINK penstock_fetch ROUNDS 20000 NIGHTLY 1000000)

# Definitions of streams, lists of operations: what is taken is the same again once it is printed.
penstock_fuzz(spec LINK penstock_stream ROUNDS 10000 NIGHTLY 1000000)

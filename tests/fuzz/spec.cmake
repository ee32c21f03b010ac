# Definitions of streams and lists of operations: what is accepted is the same after it was printed
# and read again.
penstock_fuzz(spec LINK penstock_stream ROUNDS 10000 NIGHTLY 1000000)

# States: what is accepted is the same after it was printed and read again, alone and in a request.
penstock_fuzz(state LINK penstock_stream ROUNDS 20000 NIGHTLY 1000000)

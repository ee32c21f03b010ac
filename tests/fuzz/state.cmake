# States: what is taken is the same again once it is printed, alone and in a request.
penstock_fuzz(state LINK penstock_stream ROUNDS 20000 NIGHTLY 1000000)

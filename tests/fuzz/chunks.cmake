# Decoding in chunks against decoding in order and libjpeg's coefficients.
file(GLOB chunks_corpus ${CMAKE_SOURCE_DIR}/../shared/corpus/jpeg/*)
penstock_fuzz(chunks LINK penstock_decode FILES ${chunks_corpus} ROUNDS 1500 NIGHTLY 200000)

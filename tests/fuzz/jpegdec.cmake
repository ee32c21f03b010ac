# The ways of an image through penstock's decoder, in memory of any size, with and without kept
# entry points, against libjpeg-turbo.
file(GLOB jpegdec_corpus ${CMAKE_SOURCE_DIR}/../shared/corpus/jpeg/*)
penstock_fuzz(jpegdec LINK penstock_decode FILES ${jpegdec_corpus} ROUNDS 4500 NIGHTLY 200000)

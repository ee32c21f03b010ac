# Arbitrary bytes, penstock's decoder against libjpeg-turbo: over the corpora as a test, and for
# libFuzzer.
file(GLOB jpeg_corpus ${CMAKE_SOURCE_DIR}/../shared/corpus/jpeg/*)
penstock_fuzz(jpeg LINK penstock_decode FILES ${jpeg_corpus})

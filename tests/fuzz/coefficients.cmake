# The entropy decoder against libjpeg's coefficients: a libFuzzer target, and a test that runs it
# over files.
file(GLOB coefficients_corpus ${CMAKE_SOURCE_DIR}/../shared/corpus/jpeg/*)
penstock_fuzz(coefficients LINK penstock_decode FILES ${coefficients_corpus})

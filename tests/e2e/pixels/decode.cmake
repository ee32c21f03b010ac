# The decoder against Pillow: the odd corpus, real photographs, and PNGs that the test writes
# itself.
add_executable(decode_dump ${CMAKE_CURRENT_LIST_DIR}/decode_dump.c)
target_link_libraries(decode_dump PRIVATE penstock_decode)
penstock_e2e(jpeg_corpus jpeg_corpus.py $<TARGET_FILE:decode_dump> ${CMAKE_SOURCE_DIR}/docs/reference/decode-outcomes.md
	${CMAKE_SOURCE_DIR}/../shared/corpus/jpeg ${PENSTOCK_PHOTOGRAPHS} TIMEOUT 600 PROMISE pixels.jpeg 3600)
penstock_e2e(photographs photographs.py)
penstock_e2e(png_corpus png_corpus.py $<TARGET_FILE:decode_dump> ${CMAKE_SOURCE_DIR}/docs/reference/decode-outcomes.md TIMEOUT 600)
penstock_e2e(types_corpus types_corpus.py $<TARGET_FILE:decode_dump> ${CMAKE_SOURCE_DIR}/docs/reference/decode-outcomes.md TIMEOUT 600)

# The decoder against Pillow: the odd corpus, real photographs, and PNGs that the test writes itself. scripts/test makes
# the interpreter's environment; without Pillow 13.0.0 the tests say so and are skipped.
add_executable(decode_dump ${CMAKE_CURRENT_LIST_DIR}/decode_dump.c)
target_link_libraries(decode_dump PRIVATE penstock_decode)
set(decode_python ${CMAKE_SOURCE_DIR}/.venv/bin/python3)
if(NOT EXISTS ${decode_python})
	find_program(decode_python_found python3)
	set(decode_python ${decode_python_found})
endif()
if(decode_python)
	set(jpeg_corpus ${decode_python} ${CMAKE_CURRENT_LIST_DIR}/jpeg_corpus.py $<TARGET_FILE:decode_dump>
		${CMAKE_SOURCE_DIR}/docs/decode-outcomes.md ${CMAKE_SOURCE_DIR}/../shared/corpus/jpeg ${CMAKE_SOURCE_DIR}/../shared/data/imagenet)
	add_test(NAME e2e.jpeg_corpus COMMAND ${jpeg_corpus})
	penstock_promise(pixels.jpeg 3600 ${jpeg_corpus})
	add_test(NAME e2e.png_corpus COMMAND ${decode_python} ${CMAKE_CURRENT_LIST_DIR}/png_corpus.py
		$<TARGET_FILE:decode_dump> ${CMAKE_SOURCE_DIR}/docs/decode-outcomes.md)
	set_tests_properties(e2e.jpeg_corpus e2e.png_corpus PROPERTIES TIMEOUT 600 LABELS e2e SKIP_RETURN_CODE 77)
endif()

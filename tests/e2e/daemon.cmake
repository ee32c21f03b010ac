# Whole processes: penstockd, trainers (dump_batches), and clients that lie. Python's standard library alone, Pillow where it compares pixels.
add_executable(dump_batches ${CMAKE_CURRENT_LIST_DIR}/dump_batches.c)
target_link_libraries(dump_batches PRIVATE penstock_client z)

find_package(Python3 COMPONENTS Interpreter)
set(penstock_python ${Python3_EXECUTABLE})
if(EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python3)
	set(penstock_python ${CMAKE_SOURCE_DIR}/.venv/bin/python3)
endif()
set(penstock_slow 1)
if(PENSTOCK_SANITIZE)
	set(penstock_slow 4)
endif()
foreach(name serve same_bytes shapes checkpoints pillow_stream decode_fast)
	add_test(NAME e2e.${name} COMMAND ${penstock_python} ${CMAKE_CURRENT_LIST_DIR}/${name}.py)
	set_tests_properties(e2e.${name} PROPERTIES TIMEOUT 900 LABELS e2e SKIP_RETURN_CODE 77
		ENVIRONMENT "PENSTOCK_BIN=${CMAKE_BINARY_DIR}/bin;PENSTOCK_TEST_SLOW=${penstock_slow}")
endforeach()
# Thousands of crops against Pillow, and tens of thousands nightly: for builds that are quick.
if(NOT PENSTOCK_SANITIZE AND NOT PENSTOCK_COVERAGE)
	add_test(NAME e2e.pillow_crops COMMAND ${penstock_python} ${CMAKE_CURRENT_LIST_DIR}/pillow_crops.py)
	set_tests_properties(e2e.pillow_crops PROPERTIES TIMEOUT 1800 LABELS e2e SKIP_RETURN_CODE 77
		ENVIRONMENT "PENSTOCK_BIN=${CMAKE_BINARY_DIR}/bin")
	penstock_promise(pixels.crops 7200 ${penstock_python} ${CMAKE_CURRENT_LIST_DIR}/pillow_crops.py)
endif()

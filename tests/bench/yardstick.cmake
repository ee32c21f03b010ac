# libjpeg-turbo's full decode, by which rates.py divides. It must decode, and must say so where there
# is nothing to decode.
add_executable(yardstick yardstick.c)
target_link_libraries(yardstick PRIVATE PkgConfig::JPEG Threads::Threads)
file(GLOB photographs ${PENSTOCK_PHOTOGRAPHS}/*.JPEG)
if(photographs)
	add_test(NAME bench.yardstick COMMAND yardstick ${PENSTOCK_PHOTOGRAPHS} 2 0.2)
	set_tests_properties(bench.yardstick PROPERTIES TIMEOUT 60 LABELS bench
		PASS_REGULAR_EXPRESSION "\"refused\": 0, \"images_per_s\": [1-9]")
else()
	penstock_skipped(bench.yardstick "there are no photographs (scripts/install-deps gets some)")
endif()
add_test(NAME bench.yardstick_empty COMMAND yardstick ${CMAKE_CURRENT_SOURCE_DIR} 2 0.2)
set_tests_properties(bench.yardstick_empty PROPERTIES TIMEOUT 60 LABELS bench
	PASS_REGULAR_EXPRESSION "no JPEG file in it")

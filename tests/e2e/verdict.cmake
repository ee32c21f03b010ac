# The verdict in a matrix of made bottlenecks, and a disk that is made slow. The library is no part of
# what is tested, so no sanitizer needs to be in it: it would have to be the first that is loaded.
add_library(penstock_throttle MODULE ${CMAKE_CURRENT_LIST_DIR}/throttle.c)
target_compile_options(penstock_throttle PRIVATE -fno-sanitize=all)
target_link_options(penstock_throttle PRIVATE -fno-sanitize=all)
foreach(part idle busy)
	penstock_e2e(verdict.${part} verdict.py test_${part}_* ENVIRONMENT PENSTOCK_THROTTLE=$<TARGET_FILE:penstock_throttle>)
endforeach()
# They measure how busy processors are: nobody else's test may be.
if(TEST e2e.verdict.busy)
	set_tests_properties(e2e.verdict.busy PROPERTIES RUN_SERIAL TRUE)
endif()

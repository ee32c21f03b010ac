# The verdict in a matrix of artificial bottlenecks, with a disk that is slowed down. The preloaded
# library is not under test, so it has no sanitizer, which would have to be loaded first.
add_library(penstock_throttle MODULE ${CMAKE_CURRENT_LIST_DIR}/throttle.c)
target_compile_options(penstock_throttle PRIVATE -fno-sanitize=all)
target_link_options(penstock_throttle PRIVATE -fno-sanitize=all)
foreach(part idle busy)
	penstock_e2e(verdict.${part} verdict.py test_${part}_* ENVIRONMENT PENSTOCK_THROTTLE=$<TARGET_FILE:penstock_throttle>)
endforeach()
# These tests measure how busy the processors are, so no other test may run beside them.
if(TEST e2e.verdict.busy)
	set_tests_properties(e2e.verdict.busy PROPERTIES RUN_SERIAL TRUE)
endif()

# A store that is slow, and one that is gone.
penstock_e2e(verdict.remote verdict_remote.py TIMEOUT 300)

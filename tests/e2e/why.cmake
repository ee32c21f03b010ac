# `penstock why` after real ends. Python's standard library alone.
add_executable(why_doctor ${CMAKE_CURRENT_LIST_DIR}/why_doctor.c)
target_link_libraries(why_doctor PRIVATE penstock_record)
find_package(Python3 COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND AND TARGET penstock)
	set(why_slow 1)
	if(PENSTOCK_SANITIZE)
		set(why_slow 4)
	endif()
	add_test(NAME e2e.why COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/why.py)
	set_tests_properties(e2e.why PROPERTIES TIMEOUT 900 LABELS e2e SKIP_RETURN_CODE 77
		ENVIRONMENT "PENSTOCK_BIN=${CMAKE_BINARY_DIR}/bin;PENSTOCK_TEST_SLOW=${why_slow}")
endif()

# Sanitizers multiply memory, so the promise is kept by the builds without.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND AND NOT PENSTOCK_SANITIZE AND NOT PENSTOCK_COVERAGE)
	add_test(NAME memory.flat COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/memory.py)
	set_tests_properties(memory.flat PROPERTIES LABELS e2e TIMEOUT 300 SKIP_RETURN_CODE 77
		ENVIRONMENT "PENSTOCK_BIN=${CMAKE_BINARY_DIR}/bin")
	penstock_promise(memory.flat 1800 ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/memory.py)
endif()

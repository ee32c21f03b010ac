# Which nvcc CMake takes, what it compiles for, and what it says of the driver: with made-up nvccs.
find_package(Python3 3.9 COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND)
	add_test(NAME cuda.toolkit COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/toolkit.py ${CMAKE_COMMAND})
	set_tests_properties(cuda.toolkit PROPERTIES TIMEOUT 120 LABELS cuda)
endif()

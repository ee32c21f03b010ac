# The smallest consumers, in C and, if a C++ compiler is installed, in C++. They show that the
# header and the library are enough.
add_executable(read_batches read_batches.c)
target_link_libraries(read_batches PRIVATE penstock_client)

include(CheckLanguage)
if(CMAKE_C_COMPILER_ID STREQUAL Clang AND NOT CMAKE_CXX_COMPILER)
	# The sanitizer runtimes of two compilers cannot be mixed.
	find_program(penstock_clangxx clang++)
	if(penstock_clangxx)
		set(CMAKE_CXX_COMPILER ${penstock_clangxx})
	endif()
endif()
check_language(CXX)
if(CMAKE_CXX_COMPILER)
	enable_language(CXX)
	add_executable(read_batches_cpp read_batches.cpp)
	set_target_properties(read_batches_cpp PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
	target_link_libraries(read_batches_cpp PRIVATE penstock_client)
else()
	message(STATUS "C++: no compiler was found: the examples in C++ are skipped")
endif()

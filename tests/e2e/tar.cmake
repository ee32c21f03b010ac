# The members of odd tars against Python's tarfile.
add_executable(tar_list ${CMAKE_CURRENT_LIST_DIR}/tar_list.c)
target_link_libraries(tar_list PRIVATE penstock_source)
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
	add_test(NAME e2e.tar_corpus COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/tar_corpus.py
		$<TARGET_FILE:tar_list> ${CMAKE_SOURCE_DIR}/../shared/corpus/tar)
	set_tests_properties(e2e.tar_corpus PROPERTIES TIMEOUT 300 LABELS e2e SKIP_RETURN_CODE 77)
endif()

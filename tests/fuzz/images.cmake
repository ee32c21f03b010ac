# penstock's decoder against libjpeg-turbo on generated images: some thousands of them as a test,
# any number by hand.
add_executable(fuzz_images fuzz_images.c)
target_link_libraries(fuzz_images PRIVATE penstock_decode)
target_include_directories(fuzz_images PRIVATE ${CMAKE_SOURCE_DIR}/tests)
set(fuzz_files 40000)
if(PENSTOCK_SANITIZE OR PENSTOCK_COVERAGE OR CMAKE_CROSSCOMPILING)
	set(fuzz_files 4000)
endif()
add_test(NAME fuzz.images COMMAND fuzz_images --seed 1 --files ${fuzz_files})
set_tests_properties(fuzz.images PROPERTIES TIMEOUT 120 LABELS fuzz)

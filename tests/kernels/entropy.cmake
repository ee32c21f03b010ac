# Entropy decoding of real files: every driver, fed in every way, against libjpeg; with --bench its rates.
add_executable(kernels_entropy entropy.c)
target_link_libraries(kernels_entropy PRIVATE penstock_decode)
target_include_directories(kernels_entropy PRIVATE ${CMAKE_SOURCE_DIR}/tests)
file(GLOB images ${CMAKE_SOURCE_DIR}/../shared/data/imagenet/*.JPEG)
if(images)
	add_test(NAME kernels.entropy COMMAND kernels_entropy ${images})
	set_tests_properties(kernels.entropy PROPERTIES TIMEOUT 600 LABELS kernels)
endif()

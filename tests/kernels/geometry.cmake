# Small sizes, samplings, entry points and crops: all of them in the nightly tests
# (PENSTOCK_TEST_NIGHTLY=1), few otherwise, fewer in slow builds.
add_executable(kernels_geometry geometry.c)
target_link_libraries(kernels_geometry PRIVATE penstock_decode)
target_include_directories(kernels_geometry PRIVATE ${CMAKE_SOURCE_DIR}/tests)
set(geometry_part --part 4)
if(PENSTOCK_SANITIZE OR PENSTOCK_COVERAGE OR CMAKE_CROSSCOMPILING)
	set(geometry_part --part 17)
endif()
add_test(NAME kernels.geometry COMMAND kernels_geometry ${geometry_part})
set_tests_properties(kernels.geometry PROPERTIES TIMEOUT 1800 LABELS kernels)
penstock_promise(pixels.geometry 7200 kernels_geometry)

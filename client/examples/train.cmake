# A dataset painted with libjpeg, and a small trainer that reads its batches through libpenstock.
add_executable(make_dataset make_dataset.c)
target_link_libraries(make_dataset PRIVATE PkgConfig::JPEG Threads::Threads m)

add_executable(train_cpu train_cpu.c net.c)
target_link_libraries(train_cpu PRIVATE penstock_client m)
# Its arithmetic need not agree between machines, so it may use all of this one.
include(CheckCCompilerFlag)
check_c_compiler_flag(-march=native PENSTOCK_HAVE_MARCH_NATIVE)
target_compile_options(train_cpu PRIVATE -ffast-math -ffp-contract=fast $<$<BOOL:${PENSTOCK_HAVE_MARCH_NATIVE}>:-march=native>)

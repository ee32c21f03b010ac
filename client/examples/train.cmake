# A dataset painted with libjpeg, and a small trainer that reads its batches through libpenstock.
add_executable(make_dataset make_dataset.c)
target_link_libraries(make_dataset PRIVATE PkgConfig::JPEG Threads::Threads m)

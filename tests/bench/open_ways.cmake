# Ways to open, read and close small files: see docs/design/decisions/files-by-descriptor.md.
add_executable(open_ways open_ways.c)
target_link_libraries(open_ways PRIVATE PkgConfig::URING Threads::Threads)
target_include_directories(open_ways PRIVATE ${CMAKE_SOURCE_DIR}/daemon)

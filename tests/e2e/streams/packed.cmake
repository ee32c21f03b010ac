# Samples that a container stores packed, from a made index.
add_executable(packed_make ${CMAKE_CURRENT_LIST_DIR}/packed_make.c)
target_link_libraries(packed_make PRIVATE penstock_dataset ZLIB::ZLIB)
target_include_directories(packed_make PRIVATE ${CMAKE_SOURCE_DIR}/tests)
penstock_e2e(packed packed.py $<TARGET_FILE:packed_make> TIMEOUT 300)

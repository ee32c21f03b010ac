# The members of odd tars against Python's tarfile.
add_executable(tar_list ${CMAKE_CURRENT_LIST_DIR}/tar_list.c)
target_link_libraries(tar_list PRIVATE penstock_fetch)
penstock_e2e(tar_corpus tar_corpus.py $<TARGET_FILE:tar_list> ${CMAKE_SOURCE_DIR}/../shared/corpus/tar TIMEOUT 300)

# A stream from each kind of container against one from a tar of the same images.
penstock_e2e(containers containers.py $<TARGET_FILE:container_list> ${CMAKE_SOURCE_DIR}/tests/containers)

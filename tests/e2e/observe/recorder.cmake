# The flight recorder: a real daemon, its file, and how each process ended.
add_executable(ring_dump ${CMAKE_CURRENT_LIST_DIR}/ring_dump.c)
target_link_libraries(ring_dump PRIVATE penstock_record penstock_proto)
penstock_e2e(recorder recorder.py)

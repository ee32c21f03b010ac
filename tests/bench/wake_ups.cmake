# How long wake-ups take on this machine: see docs/design/decisions/long-turns.md.
add_executable(wake_ups wake_ups.c)
target_link_libraries(wake_ups PRIVATE penstock_base Threads::Threads)
target_include_directories(wake_ups PRIVATE ${CMAKE_SOURCE_DIR}/daemon)

# The daemon in this process against programs of attacking clients, judged by a model. A program is some 150 messages.
add_library(fuzz_wire_parts STATIC wire/world.c wire/model.c)
target_link_libraries(fuzz_wire_parts PUBLIC penstock_serve PkgConfig::JPEG PkgConfig::XXHASH)
target_include_directories(fuzz_wire_parts PUBLIC ${CMAKE_SOURCE_DIR}/tests)
penstock_fuzz(wire LINK fuzz_wire_parts ROUNDS 200 NIGHTLY 66000)

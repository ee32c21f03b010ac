# The daemon in this process against programs of attacking clients, judged by a model. A program has
# about 150 messages.
add_library(fuzz_wire_parts STATIC wire/world.c wire/model.c wire/model_sent.c wire/model_got.c wire/model_memory.c
	wire/trainer.c)
target_link_libraries(fuzz_wire_parts PUBLIC penstock_serve PkgConfig::JPEG PkgConfig::XXHASH)
target_include_directories(fuzz_wire_parts PUBLIC ${CMAKE_SOURCE_DIR}/tests)
penstock_fuzz(wire LINK fuzz_wire_parts ROUNDS 200 NIGHTLY 66000)

# Cases that programs meet once in tens of thousands, and cases that no message causes: each
# separately, in the same world.
if(TARGET penstock_client)
	add_executable(wire_given_up wire/test_given_up.c)
	target_link_libraries(wire_given_up PRIVATE fuzz_wire_parts penstock_client cmocka)
	add_test(NAME wire.given_up COMMAND wire_given_up)
	add_executable(wire_storage wire/test_storage.c)
	target_link_libraries(wire_storage PRIVATE fuzz_wire_parts cmocka)
	target_link_options(wire_storage PRIVATE LINKER:--wrap=open LINKER:--wrap=close LINKER:--wrap=pread)
	add_test(NAME wire.storage COMMAND wire_storage)
	set_tests_properties(wire.given_up wire.storage PROPERTIES TIMEOUT 120)
endif()

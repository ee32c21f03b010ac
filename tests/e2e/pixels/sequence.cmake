# Lists of transforms in any order against Pillow, or against torchvision where the Python has it.
add_executable(sequence_dump ${CMAKE_CURRENT_LIST_DIR}/sequence_dump.c)
target_link_libraries(sequence_dump PRIVATE penstock_stream)
target_include_directories(sequence_dump PRIVATE ${CMAKE_SOURCE_DIR}/tests)
penstock_e2e(sequence_lists sequence_lists.py $<TARGET_FILE:sequence_dump>
	TIMEOUT 600 PROMISE pixels.lists 3600)

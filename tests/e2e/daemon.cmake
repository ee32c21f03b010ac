# Whole processes: penstockd, trainers (dump_batches), and clients that lie.
add_executable(dump_batches ${CMAKE_CURRENT_LIST_DIR}/dump_batches.c)
target_link_libraries(dump_batches PRIVATE penstock_client z)

foreach(name serve same_bytes shapes checkpoints pillow_stream decode_fast)
	penstock_e2e(${name} ${name}.py)
endforeach()
# Thousands of crops against Pillow, and tens of thousands in the nightly tests: only for fast
# builds.
if(NOT PENSTOCK_SANITIZE AND NOT PENSTOCK_COVERAGE)
	penstock_e2e(pillow_crops pillow_crops.py TIMEOUT 1800 PROMISE pixels.crops 7200)
endif()

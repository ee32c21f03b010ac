# What a whole daemon delivers, against Pillow and in fast decoding.
penstock_e2e(pillow_stream pillow_stream.py)
penstock_e2e(decode_fast decode_fast.py)

# Thousands of crops against Pillow, and tens of thousands in the nightly tests: only for fast
# builds.
if(NOT PENSTOCK_SANITIZE AND NOT PENSTOCK_COVERAGE)
	penstock_e2e(pillow_crops pillow_crops.py TIMEOUT 1800 PROMISE pixels.crops 7200)
endif()

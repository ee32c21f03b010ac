# `penstock cache`, on a folder that the test writes.
if(TARGET penstock)
	penstock_e2e(cache_command cache_command.py)
endif()

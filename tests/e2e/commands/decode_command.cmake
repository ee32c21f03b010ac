# `penstock decode` as a user runs it.
if(TARGET penstock)
	penstock_e2e(decode_command decode_command.py TIMEOUT 600)
endif()

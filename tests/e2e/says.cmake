# What status, sheets and logs say of a stream and of what could not be kept.
if(TARGET penstock)
	penstock_e2e(says says.py)
endif()

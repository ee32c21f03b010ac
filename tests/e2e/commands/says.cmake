# What status, sheets and logs say about a stream and about data that could not be kept.
if(TARGET penstock)
	penstock_e2e(says says.py)
endif()

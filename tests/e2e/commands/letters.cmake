# The letters of contact sheets and plots, as the build makes them.
if(TARGET penstock)
	penstock_e2e(letters letters.py ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
endif()

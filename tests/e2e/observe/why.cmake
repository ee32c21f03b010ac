# `penstock why` after processes have really ended.
add_executable(why_doctor ${CMAKE_CURRENT_LIST_DIR}/why_doctor.c)
target_link_libraries(why_doctor PRIVATE penstock_why)
if(TARGET penstock)
	penstock_e2e(why why.py)
endif()

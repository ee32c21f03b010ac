# penstock_headers(RESULT SOURCE DIR...): sets RESULT to the folders in an order in which SOURCE, C
# code, compiles: as given, or reversed; empty if it compiles in neither. A toolkit's folder and the
# folders of packages may contain headers of the same names from different releases, and each header
# needs its neighbors from its own release.
include(CheckCSourceCompiles)
function(penstock_headers result source)
	set(order ${ARGN})
	set(reverse ${ARGN})
	list(REVERSE reverse)
	set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
	set(CMAKE_REQUIRED_QUIET ON)
	set(${result} "" PARENT_SCOPE)
	foreach(name order reverse)
		set(CMAKE_REQUIRED_INCLUDES ${${name}})
		# The hash keeps CMake from using a cached answer for other folders.
		string(SHA1 question "${source};${${name}}")
		check_c_source_compiles("${source}" PENSTOCK_HEADERS_${question})
		if(PENSTOCK_HEADERS_${question})
			set(${result} ${${name}} PARENT_SCOPE)
			return()
		endif()
	endforeach()
endfunction()

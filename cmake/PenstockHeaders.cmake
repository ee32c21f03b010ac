# penstock_headers(RESULT SOURCE DIR...): sets RESULT to the folders in an order in which SOURCE, C code, compiles: as they are, or in reverse.
# Empty: in neither. Folders of one toolkit and of packages beside it may hold headers of the same names and other releases, of which each
# finds what it needs in its own.
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
		# Neither an earlier run's answer nor one for other folders.
		string(SHA1 question "${source};${${name}}")
		check_c_source_compiles("${source}" PENSTOCK_HEADERS_${question})
		if(PENSTOCK_HEADERS_${question})
			set(${result} ${${name}} PARENT_SCOPE)
			return()
		endif()
	endforeach()
endfunction()

# TIFF: libtiff and its codecs as one object, whose memory comes from the daemon's budget.
#
# libtiff and its codecs call malloc, calloc, realloc and free. In an object that is linked from
# their static libraries these calls become calls of daemon/decode/types/tiff_memory.c, and only
# libtiff's functions stay visible: penstock's own libjpeg and zlib are other copies. The libraries
# must be available as .a files: Debian's libtiff-dev has libtiff.a and depends on the others. Codecs
# that Pillow's wheel lacks are left out (tiff_codecs.c). Without the libraries TIFF images are
# refused, and the configuration says so.
option(PENSTOCK_TIFF "Read TIFF images (libtiff.a and the libraries of its codecs)" ON)

# Sets `object` to the path of the object file, or to an empty text.
function(penstock_tiff object)
	set(${object} "" PARENT_SCOPE)
	if(NOT PENSTOCK_TIFF)
		message(STATUS "TIFF: no (PENSTOCK_TIFF=OFF)")
		return()
	endif()
	pkg_check_modules(TIFF QUIET libtiff-4>=4.5)
	if(NOT TIFF_FOUND OR NOT CMAKE_OBJCOPY)
		message(STATUS "TIFF: no (libtiff 4.5 or newer, or objcopy, not found: install libtiff-dev)")
		return()
	endif()
	set(archives "")
	# libtiff-dev's own requirements, in the names that pkg-config gives for a static link.
	foreach(name tiff jpeg z ${TIFF_STATIC_LIBRARIES})
		if(name MATCHES "^(m|pthread|webp|Lerc|jbig)$")
			continue()
		endif()
		find_library(PENSTOCK_TIFF_${name}_LIBRARY NAMES lib${name}.a HINTS ${TIFF_STATIC_LIBRARY_DIRS} ${TIFF_LIBDIR})
		if(NOT PENSTOCK_TIFF_${name}_LIBRARY)
			message(STATUS "TIFF: no (lib${name}.a not found: install libtiff-dev)")
			return()
		endif()
		list(APPEND archives ${PENSTOCK_TIFF_${name}_LIBRARY})
	endforeach()
	list(REMOVE_DUPLICATES archives)
	message(STATUS "TIFF: libtiff ${TIFF_VERSION}")
	set(codecs ${CMAKE_CURRENT_SOURCE_DIR}/types/tiff_codecs.c)
	set(out ${CMAKE_CURRENT_BINARY_DIR}/libtiff.o)
	set(entries TIFFClientOpenExt TIFFClose TIFFComputeStrip TIFFGetField TIFFGetFieldDefaulted TIFFIsCODECConfigured TIFFIsTiled TIFFOpenOptionsAlloc
		TIFFOpenOptionsFree TIFFOpenOptionsSetErrorHandlerExtR TIFFOpenOptionsSetWarningHandlerExtR TIFFRGBAImageBegin
		TIFFRGBAImageEnd TIFFRGBAImageGet TIFFRGBAImageOK TIFFReadEncodedStrip TIFFReadTile TIFFScanlineSize64 TIFFSetField
		TIFFStripSize64 TIFFTileRowSize64 TIFFTileSize64)
	set(undefined ${entries})
	list(TRANSFORM undefined PREPEND -Wl,-u,)
	set(keep ${entries})
	list(TRANSFORM keep PREPEND --keep-global-symbol=)
	set(includes ${TIFF_INCLUDE_DIRS})
	list(TRANSFORM includes PREPEND -I)
	set(renamed "")
	foreach(function malloc calloc realloc free)
		list(APPEND renamed --redefine-sym=${function}=tiff_memory_${function})
	endforeach()
	add_custom_command(OUTPUT ${out} VERBATIM COMMAND_EXPAND_LISTS
		DEPENDS ${archives} ${codecs}
		COMMAND ${CMAKE_C_COMPILER} ${includes} -O2 -fPIC -c -o ${out}.codecs.o ${codecs}
		COMMAND ${CMAKE_C_COMPILER} -r -nostdlib -o ${out}.all.o ${undefined} ${out}.codecs.o
			-Wl,--start-group ${archives} -Wl,--end-group
		COMMAND ${CMAKE_OBJCOPY} ${keep} ${renamed} ${out}.all.o ${out})
	set(${object} ${out} PARENT_SCOPE)
	set(${object}_includes ${TIFF_INCLUDE_DIRS} PARENT_SCOPE)
endfunction()

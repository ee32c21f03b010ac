# WebP: libwebp's decoder as one object, whose memory comes from the daemon's budget.
#
# libwebp calls malloc, calloc and free, and has no hook for them. A linked object of its static
# libraries calls __wrap_malloc, __wrap_calloc and __wrap_free instead
# (daemon/decode/types/webp_memory.c). So the libraries must be there as .a files: Debian's
# libwebp-dev has them. Without them WebP images are refused, and the configuration says so.
option(PENSTOCK_WEBP "Read WebP images (libwebp.a, libwebpdemux.a)" ON)

# Sets `object` to the path of the object file, or to an empty text.
function(penstock_webp object)
	set(${object} "" PARENT_SCOPE)
	if(NOT PENSTOCK_WEBP)
		message(STATUS "WebP: no (PENSTOCK_WEBP=OFF)")
		return()
	endif()
	pkg_check_modules(WEBP QUIET libwebp libwebpdemux)
	find_library(PENSTOCK_WEBP_LIBRARY NAMES libwebp.a HINTS ${WEBP_LIBRARY_DIRS} ${WEBP_LIBDIR})
	find_library(PENSTOCK_WEBPDEMUX_LIBRARY NAMES libwebpdemux.a HINTS ${WEBP_LIBRARY_DIRS} ${WEBP_LIBDIR})
	if(NOT WEBP_FOUND OR NOT PENSTOCK_WEBP_LIBRARY OR NOT PENSTOCK_WEBPDEMUX_LIBRARY)
		message(STATUS "WebP: no (libwebp.a or libwebpdemux.a not found: install libwebp-dev)")
		return()
	endif()
	message(STATUS "WebP: libwebp ${WEBP_libwebp_VERSION}")
	set(out ${CMAKE_CURRENT_BINARY_DIR}/libwebp.o)
	set(entries WebPDecode WebPInitDecoderConfigInternal WebPGetFeaturesInternal WebPDemuxInternal WebPDemuxGetI
		WebPDemuxGetFrame)
	list(TRANSFORM entries PREPEND -Wl,-u,)
	add_custom_command(OUTPUT ${out} VERBATIM
		DEPENDS ${PENSTOCK_WEBP_LIBRARY} ${PENSTOCK_WEBPDEMUX_LIBRARY}
		COMMAND ${CMAKE_C_COMPILER} -r -nostdlib -o ${out} -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=free
			${entries} -Wl,--start-group ${PENSTOCK_WEBPDEMUX_LIBRARY} ${PENSTOCK_WEBP_LIBRARY} -Wl,--end-group)
	set(${object} ${out} PARENT_SCOPE)
endfunction()

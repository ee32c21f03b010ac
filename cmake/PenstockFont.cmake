# The letters of contact sheets and plots. client/cli/draw/make/make_font.c renders DejaVu Sans with
# FreeType while penstock is built; what is installed needs neither. The program runs on the machine
# that builds, so a build for another one compiles it with the machine's own compiler, and never
# with the flags of the build (sanitizers, targets).
set(PENSTOCK_FONT_TABLE "" CACHE FILEPATH
	"font_table.h of another build, for machines without FreeType and DejaVu Sans (client/cli/font_table.h in its build folder)")

# Appends what is missing to penstock_missing.
macro(penstock_needs_font)
	if(PENSTOCK_FONT_TABLE)
		if(NOT EXISTS ${PENSTOCK_FONT_TABLE})
			message(FATAL_ERROR "PENSTOCK_FONT_TABLE: there is no file ${PENSTOCK_FONT_TABLE}; expected font_table.h of another build")
		endif()
	else()
		set(font_pkg_config ${PKG_CONFIG_EXECUTABLE})
		if(CMAKE_TOOLCHAIN_FILE OR CMAKE_CROSSCOMPILING)
			# The toolchain file has set it to the packages of the other machine.
			set(font_pkg_config ${CMAKE_COMMAND} -E env --unset=PKG_CONFIG_LIBDIR ${PKG_CONFIG_EXECUTABLE})
			find_program(PENSTOCK_HOST_CC NAMES cc gcc clang DOC "C compiler for programs that run while penstock is built")
			if(NOT PENSTOCK_HOST_CC)
				list(APPEND penstock_missing "a C compiler for this machine (PENSTOCK_HOST_CC)")
			endif()
		else()
			set(PENSTOCK_HOST_CC ${CMAKE_C_COMPILER})
		endif()
		execute_process(COMMAND ${font_pkg_config} --cflags --libs freetype2
			OUTPUT_VARIABLE font_flags RESULT_VARIABLE font_result ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
		separate_arguments(font_flags)
		if(NOT font_result EQUAL 0)
			list(APPEND penstock_missing freetype2)
		endif()
		foreach(face DejaVuSans DejaVuSans-Bold)
			# Debian, Fedora and RHEL, Arch, openSUSE, Alpine.
			find_file(PENSTOCK_FONT_${face} ${face}.ttf DOC "The font of contact sheets and plots" NO_CMAKE_FIND_ROOT_PATH
				PATHS /usr/share/fonts /usr/local/share/fonts $ENV{HOME}/.local/share/fonts
				PATH_SUFFIXES truetype/dejavu dejavu-sans-fonts TTF truetype dejavu)
			if(NOT PENSTOCK_FONT_${face})
				list(APPEND penstock_missing "the font ${face}.ttf")
			endif()
		endforeach()
	endif()
endmacro()

# penstock_font_table(RET): the path of font_table.h, in this folder's part of the build.
function(penstock_font_table ret)
	set(table ${CMAKE_CURRENT_BINARY_DIR}/font_table.h)
	set(${ret} ${table} PARENT_SCOPE)
	if(PENSTOCK_FONT_TABLE)
		configure_file(${PENSTOCK_FONT_TABLE} ${table} COPYONLY)
		return()
	endif()
	set(source ${CMAKE_CURRENT_SOURCE_DIR}/draw/make/make_font.c)
	set(program ${CMAKE_CURRENT_BINARY_DIR}/make_font)
	set(fonts ${PENSTOCK_FONT_DejaVuSans} ${PENSTOCK_FONT_DejaVuSans-Bold})
	add_custom_command(OUTPUT ${program} DEPENDS ${source} VERBATIM
		COMMENT "Building make_font for this machine"
		COMMAND ${PENSTOCK_HOST_CC} -std=c17 -O1 -Wall -Wextra ${source} -o ${program} ${font_flags})
	# The table becomes visible whole or not at all.
	add_custom_command(OUTPUT ${table} DEPENDS ${program} ${fonts} VERBATIM
		COMMENT "Rendering the letters of font_table.h"
		COMMAND ${program} ${fonts} ${table}.part
		COMMAND ${CMAKE_COMMAND} -E rename ${table}.part ${table})
endfunction()

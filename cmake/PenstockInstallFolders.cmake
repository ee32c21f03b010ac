# Records which folders an installation makes, so that `ninja uninstall` removes these and no others.
# The scripts that CMake writes for `cmake --install` include this file; PenstockUninstall.cmake reads
# the record, BUILD/install_folders.txt: one folder a line, with DESTDIR.

# penstock_missing_folders(RECORD RESULT FOLDER...): those of these folders, and of the folders above
# them, that do not exist. The prefix of the installation completes relative ones. A folder of the
# record that is empty now is taken off it: somebody else made it, because penstock's are not empty
# while it is installed.
function(penstock_missing_folders record result)
	set(made)
	if(EXISTS "${record}")
		file(STRINGS "${record}" before)
		foreach(folder ${before})
			file(GLOB inside "${folder}/*")
			if(inside)
				list(APPEND made "${folder}")
			endif()
		endforeach()
		list(JOIN made "\n" text)
		file(WRITE "${record}" "${text}\n")
	endif()
	set(missing)
	foreach(folder ${ARGN})
		get_filename_component(path "${folder}" ABSOLUTE BASE_DIR "${CMAKE_INSTALL_PREFIX}")
		while(NOT EXISTS "$ENV{DESTDIR}${path}")
			list(APPEND missing "$ENV{DESTDIR}${path}")
			if(path STREQUAL "/")
				break()
			endif()
			get_filename_component(path "${path}" DIRECTORY)
		endwhile()
	endforeach()
	set(${result} "${missing}" PARENT_SCOPE)
endfunction()

# penstock_record_folders(RECORD FOLDER...): adds those of these folders that exist by now.
function(penstock_record_folders record)
	set(made)
	if(EXISTS "${record}")
		file(STRINGS "${record}" made)
	endif()
	foreach(folder ${ARGN})
		if(IS_DIRECTORY "${folder}")
			list(APPEND made "${folder}")
		endif()
	endforeach()
	list(REMOVE_DUPLICATES made)
	list(JOIN made "\n" text)
	file(WRITE "${record}" "${text}\n")
endfunction()

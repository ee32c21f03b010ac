# The photographs that tests compare with Pillow, in one folder: BUILD/photographs. It has those that
# scripts/install-deps gets from packages (.venv/photographs, tests/photographs.py), and those of
# ../shared where a checkout has that beside it. Tests use only this folder (PHOTOGRAPHS in
# tests/e2e/harness.py, PENSTOCK_PHOTOGRAPHS in CMake and in unit tests), and are skipped where it is
# empty.
set(PENSTOCK_PHOTOGRAPHS ${CMAKE_BINARY_DIR}/photographs)

# The files are hard links where the file system allows them: a folder dataset of links would make
# the tests depend on how penstock follows links.
function(penstock_photographs)
	file(GLOB found CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/.venv/photographs/*.JPEG
		${CMAKE_SOURCE_DIR}/../shared/data/imagenet/*.JPEG)
	file(MAKE_DIRECTORY ${PENSTOCK_PHOTOGRAPHS})
	set(names)
	foreach(photograph ${found})
		get_filename_component(name ${photograph} NAME)
		list(APPEND names ${name})
		set(here ${PENSTOCK_PHOTOGRAPHS}/${name})
		# True for links of the same file: they have the same time.
		if(NOT EXISTS ${here} OR NOT ${here} IS_NEWER_THAN ${photograph})
			file(REMOVE ${here})
			file(CREATE_LINK ${photograph} ${here} COPY_ON_ERROR)
		endif()
	endforeach()
	file(GLOB present RELATIVE ${PENSTOCK_PHOTOGRAPHS} ${PENSTOCK_PHOTOGRAPHS}/*)
	list(REMOVE_ITEM present ${names})
	list(TRANSFORM present PREPEND ${PENSTOCK_PHOTOGRAPHS}/)
	if(present)
		file(REMOVE ${present})
	endif()
	list(LENGTH names count)
	if(count EQUAL 0)
		message(STATUS "photographs: none found (scripts/install-deps gets some): the tests that need them are skipped")
	else()
		message(STATUS "photographs: ${count}")
	endif()
endfunction()
penstock_photographs()

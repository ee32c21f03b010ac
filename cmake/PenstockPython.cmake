# The install component `python`: the contents of a wheel. It is installed only if it is asked for
# by name, because pip, not `ninja install`, puts packages where a Python finds them.
#
#   penstock/            the package: its modules, the extension (libpenstock is inside), and
#                        penstockd, which it finds beside itself
#   bin/                 penstock, and a script that runs the package's penstockd; pip: the
#                        scripts' folder
#   share/man/           their man pages; pip: below the data folder
#   LICENSE*, libraries/ pip: `licenses` of the .dist-info. PENSTOCK_LICENSES is a folder with the
#                        licenses of libraries that were linked in
#
# The target python_package builds all of it. The SKBUILD variables are those of scikit-build-core.
set(PENSTOCK_LICENSES "" CACHE PATH "Folder with the licenses of libraries that are linked into a Python wheel")
if(NOT TARGET penstock_python)
	return()
endif()

set(scripts_dir bin)
set(man_dir share/man)
set(license_dir .)
if(SKBUILD)
	set(scripts_dir ${SKBUILD_SCRIPTS_DIR})
	set(man_dir ${SKBUILD_DATA_DIR}/share/man)
	set(license_dir ${SKBUILD_METADATA_DIR}/licenses)
endif()
set(as_python COMPONENT python EXCLUDE_FROM_ALL)

set(python_source ${CMAKE_SOURCE_DIR}/client/python)
file(GLOB_RECURSE modules CONFIGURE_DEPENDS RELATIVE ${python_source}
	${python_source}/penstock/*.py ${python_source}/penstock/*.pyi ${python_source}/penstock/py.typed)
foreach(module ${modules})
	get_filename_component(folder ${module} DIRECTORY)
	install(FILES ${python_source}/${module} DESTINATION ${folder} ${as_python})
endforeach()
install(TARGETS penstock_python LIBRARY DESTINATION penstock ${as_python})
install(TARGETS penstockd RUNTIME DESTINATION penstock ${as_python})
install(TARGETS penstock RUNTIME DESTINATION ${scripts_dir} ${as_python})
configure_file(${python_source}/penstockd.in ${CMAKE_BINARY_DIR}/python_scripts/penstockd @ONLY)
install(PROGRAMS ${CMAKE_BINARY_DIR}/python_scripts/penstockd DESTINATION ${scripts_dir} ${as_python})
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/client/cli/draw/make/LICENSE.DejaVu DESTINATION ${license_dir} ${as_python})
if(PENSTOCK_LICENSES)
	install(DIRECTORY ${PENSTOCK_LICENSES}/ DESTINATION ${license_dir} ${as_python})
endif()

add_custom_target(python_package DEPENDS penstock_python penstockd penstock)
if(TARGET man)
	add_dependencies(python_package man)
	foreach(page ${man_pages})
		get_filename_component(section ${page} DIRECTORY)
		get_filename_component(section ${section} NAME)
		install(FILES ${page} DESTINATION ${man_dir}/${section} ${as_python})
	endforeach()
endif()

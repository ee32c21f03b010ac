# What `cmake --install` installs, and the target that removes it again (`ninja uninstall`).
#
# Component `client` is what building an application needs: libraries, headers, pkg-config file,
# CMake package. Component `python` is the Python package (PenstockPython.cmake). Component `daemon`
# is the rest. Every file finds the others relative to itself, so an installed tree may be moved.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/penstock)
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Every folder that the installs below write to. Before they run, the folders among these that do
# not exist are noted; after they ran, those that exist by then are recorded, and uninstalling removes
# them again.
set(installed_folders ${CMAKE_INSTALL_BINDIR} ${package_dir} ${pkgconfig_dir} ${CMAKE_INSTALL_INCLUDEDIR}/penstock
	${CMAKE_INSTALL_MANDIR}/man1 ${CMAKE_INSTALL_MANDIR}/man5 ${CMAKE_INSTALL_MANDIR}/man8
	${CMAKE_INSTALL_DATADIR}/penstock/grafana ${CMAKE_INSTALL_DATADIR}/penstock/prometheus
	${CMAKE_INSTALL_DATADIR}/penstock/kubernetes/base ${CMAKE_INSTALL_DATADIR}/penstock/kubernetes/sidecar
	${CMAKE_INSTALL_DATADIR}/penstock/kubernetes/daemonset ${CMAKE_INSTALL_DATADIR}/penstock/kubernetes/metrics
	${CMAKE_INSTALL_DATADIR}/penstock/kubernetes/web-identity
	${CMAKE_INSTALL_DOCDIR}/reference ${CMAKE_INSTALL_DOCDIR}/pictures)
foreach(component client daemon)
	install(CODE "
		include(\"${CMAKE_SOURCE_DIR}/cmake/PenstockInstallFolders.cmake\")
		penstock_missing_folders(\"${CMAKE_BINARY_DIR}/install_folders.txt\" penstock_missing
			\"${installed_folders}\")" COMPONENT ${component})
endforeach()

# The prefix follows from the folder of the pkg-config file, unless the library's folder is an
# absolute path.
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
	set(PENSTOCK_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
	set(PENSTOCK_PC_LIBDIR ${CMAKE_INSTALL_LIBDIR})
else()
	file(RELATIVE_PATH up /prefix/${pkgconfig_dir} /prefix)
	string(REGEX REPLACE "/$" "" up ${up})
	set(PENSTOCK_PC_PREFIX "\${pcfiledir}/${up}")
	set(PENSTOCK_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
endif()

if(TARGET penstock_client)
	install(TARGETS penstock_client penstock_client_static EXPORT penstockTargets COMPONENT client
		LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
	install(FILES ${CMAKE_SOURCE_DIR}/include/penstock/penstock.h COMPONENT client
		DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/penstock)

	configure_file(${CMAKE_SOURCE_DIR}/client/lib/penstock.pc.in ${CMAKE_BINARY_DIR}/penstock.pc @ONLY)
	install(FILES ${CMAKE_BINARY_DIR}/penstock.pc DESTINATION ${pkgconfig_dir} COMPONENT client)

	configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/penstockConfig.cmake.in
		${CMAKE_BINARY_DIR}/penstockConfig.cmake INSTALL_DESTINATION ${package_dir}
		NO_SET_AND_CHECK_MACRO)
	# As docs/reference/versions.md promises: a later release only adds.
	write_basic_package_version_file(${CMAKE_BINARY_DIR}/penstockConfigVersion.cmake COMPATIBILITY SameMajorVersion)
	install(FILES ${CMAKE_BINARY_DIR}/penstockConfig.cmake ${CMAKE_BINARY_DIR}/penstockConfigVersion.cmake
		DESTINATION ${package_dir} COMPONENT client)
	install(EXPORT penstockTargets NAMESPACE penstock:: DESTINATION ${package_dir} COMPONENT client)
endif()

# Exported separately, because a distribution may put them into another package. The CMake package
# includes them if they are installed.
if(TARGET penstock_cuda)
	set_target_properties(penstock_cuda PROPERTIES INSTALL_RPATH "$ORIGIN")
	install(TARGETS penstock_cuda EXPORT penstockCudaTargets COMPONENT client LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
	install(FILES ${CMAKE_SOURCE_DIR}/include/penstock/cuda.h COMPONENT client
		DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/penstock)
	configure_file(${CMAKE_SOURCE_DIR}/client/cuda/penstock-cuda.pc.in ${CMAKE_BINARY_DIR}/penstock-cuda.pc @ONLY)
	install(FILES ${CMAKE_BINARY_DIR}/penstock-cuda.pc DESTINATION ${pkgconfig_dir} COMPONENT client)
	install(EXPORT penstockCudaTargets NAMESPACE penstock:: DESTINATION ${package_dir} COMPONENT client)
endif()

install(TARGETS penstockd penstock RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT daemon)

# The man pages: docs/man/NAME.SECTION.scd.
find_program(PENSTOCK_SCDOC scdoc)
file(GLOB man_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/man/*.scd)
if(man_sources AND PENSTOCK_SCDOC)
	set(man_pages)
	foreach(source ${man_sources})
		get_filename_component(page ${source} NAME_WLE)
		string(REGEX MATCH "[0-9]$" section ${page})
		set(output ${CMAKE_BINARY_DIR}/man/man${section}/${page})
		add_custom_command(OUTPUT ${output} DEPENDS ${source} VERBATIM
			COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/man/man${section}
			COMMAND sh -c "\"$1\" <\"$2\" >\"$3.part\" && mv \"$3.part\" \"$3\"" sh ${PENSTOCK_SCDOC} ${source} ${output})
		list(APPEND man_pages ${output})
		install(FILES ${output} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT daemon)
	endforeach()
	add_custom_target(man ALL DEPENDS ${man_pages})
elseif(man_sources)
	message(STATUS "scdoc: not found: the man pages are skipped")
endif()

# The Dockerfile builds from the source, so it is not installed.
install(FILES ${CMAKE_SOURCE_DIR}/config/penstock.yaml ${CMAKE_SOURCE_DIR}/config/compose.yaml
	${CMAKE_SOURCE_DIR}/config/penstock.sbatch DESTINATION ${CMAKE_INSTALL_DATADIR}/penstock COMPONENT daemon)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/config/grafana ${CMAKE_SOURCE_DIR}/config/prometheus ${CMAKE_SOURCE_DIR}/config/kubernetes
	DESTINATION ${CMAKE_INSTALL_DATADIR}/penstock COMPONENT daemon)
install(FILES ${CMAKE_SOURCE_DIR}/docs/reference/metrics.md ${CMAKE_SOURCE_DIR}/docs/reference/page.md
	DESTINATION ${CMAKE_INSTALL_DOCDIR}/reference COMPONENT daemon)
install(FILES ${CMAKE_SOURCE_DIR}/docs/pictures/page.png DESTINATION ${CMAKE_INSTALL_DOCDIR}/pictures COMPONENT daemon)

# systemd does not search the PATH, and --prefix is known only when installing: the path of
# penstockd is written into the units then.
install(CODE "
	get_filename_component(PENSTOCKD \"${CMAKE_INSTALL_BINDIR}/penstockd\" ABSOLUTE
		BASE_DIR \"\${CMAKE_INSTALL_PREFIX}\")
	foreach(service penstockd penstockd-user)
		configure_file(\"${CMAKE_SOURCE_DIR}/config/\${service}.service.in\"
			\"${CMAKE_BINARY_DIR}/\${service}.service\" @ONLY)
	endforeach()" COMPONENT daemon)
install(FILES ${CMAKE_BINARY_DIR}/penstockd.service ${CMAKE_BINARY_DIR}/penstockd-user.service DESTINATION ${CMAKE_INSTALL_DATADIR}/penstock COMPONENT daemon)
if(EXISTS ${CMAKE_SOURCE_DIR}/LICENSE)
	install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT client)
endif()
# The license of the letters that the command contains.
install(FILES ${CMAKE_SOURCE_DIR}/client/cli/draw/make/LICENSE.DejaVu DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT daemon)

foreach(component client daemon)
	install(CODE "
		penstock_record_folders(\"${CMAKE_BINARY_DIR}/install_folders.txt\" \"\${penstock_missing}\")" COMPONENT ${component})
endforeach()

include(PenstockPython)

add_custom_target(uninstall VERBATIM COMMENT "Removing what was installed"
	COMMAND ${CMAKE_COMMAND} -DBUILD=${CMAKE_BINARY_DIR} -P ${CMAKE_SOURCE_DIR}/cmake/PenstockUninstall.cmake)

# penstock_module(NAME LINK ... [WITH FOLDER ...] [WITHOUT FILE ...]): makes the static library
# penstock_NAME from the .c files of this folder and of the folders WITH below it.
function(penstock_module name)
	cmake_parse_arguments(arg "" "" "LINK;WITH;WITHOUT" ${ARGN})
	set(patterns *.c)
	foreach(folder ${arg_WITH})
		list(APPEND patterns ${folder}/*.c)
	endforeach()
	file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${patterns})
	list(REMOVE_ITEM sources ${arg_WITHOUT})
	if(sources)
		add_library(penstock_${name} STATIC ${sources})
		target_include_directories(penstock_${name} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/daemon)
		target_link_libraries(penstock_${name} PUBLIC ${arg_LINK} Threads::Threads)
	else()
		add_library(penstock_${name} INTERFACE)
		target_link_libraries(penstock_${name} INTERFACE ${arg_LINK})
	endif()
endfunction()

# penstock_unit_tests(MODULE [WITHOUT NAME...]): makes a cmocka test, linked only with MODULE, from
# every test_*.c of this folder; not from test_NAME.c of those after WITHOUT.
function(penstock_unit_tests module)
	cmake_parse_arguments(PARSE_ARGV 1 unit "" "" WITHOUT)
	file(GLOB tests CONFIGURE_DEPENDS test_*.c)
	foreach(name ${unit_WITHOUT})
		list(FILTER tests EXCLUDE REGEX "/test_${name}[.]c$")
	endforeach()
	set(limit 120)
	if(PENSTOCK_SANITIZE OR PENSTOCK_COVERAGE OR CMAKE_CROSSCOMPILING)
		set(limit 600)
	endif()
	foreach(source ${tests})
		get_filename_component(name ${source} NAME_WE)
		string(REPLACE "test_" "" short ${name})
		set(target unit_${module}_${short})
		add_executable(${target} ${source})
		target_link_libraries(${target} PRIVATE penstock_${module} cmocka m)
		target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
		# cmocka hands every test a state, which few of them use.
		target_compile_options(${target} PRIVATE -Wno-unused-parameter)
		# Most tests themselves compute little, and optimizing them takes a third of the build's
		# time.
		if(PENSTOCK_SANITIZE AND NOT module MATCHES "^(decode|pixel|augment|fetch)$")
			target_compile_options(${target} PRIVATE -O0)
		endif()
		target_compile_definitions(${target} PRIVATE PENSTOCK_SHARED="${CMAKE_SOURCE_DIR}/../shared"
			PENSTOCK_PHOTOGRAPHS="${PENSTOCK_PHOTOGRAPHS}")
		add_test(NAME unit.${module}.${short} COMMAND ${target})
		set_tests_properties(unit.${module}.${short} PROPERTIES TIMEOUT ${limit} LABELS unit SKIP_RETURN_CODE 77)
	endforeach()
endfunction()

# penstock_promise(NAME SECONDS COMMAND...): adds the test promise.NAME, only for the preset
# `nightly`: a promise of docs/evidence/promises.md, tested in full. It may take this many seconds,
# and prints one line "promise: FIGURES" if the promise holds (harness.promise).
function(penstock_promise name limit)
	set_property(GLOBAL APPEND PROPERTY penstock_promises ${name})
	add_test(NAME promise.${name} CONFIGURATIONS nightly COMMAND ${ARGN})
	set_tests_properties(promise.${name} PROPERTIES LABELS promise TIMEOUT ${limit} SKIP_RETURN_CODE 77
		ENVIRONMENT "PENSTOCK_BIN=${CMAKE_BINARY_DIR}/bin;PENSTOCK_TEST_NIGHTLY=1;PENSTOCK_TEST_SLOW=5")
endfunction()

# penstock_skipped(NAME REASON [PROMISE]): stands in for a test, and for its promise, that needs
# something which this machine lacks. The test is listed by its name and skipped with the reason.
function(penstock_skipped name reason)
	set(command ${CMAKE_COMMAND} -E env sh -c "echo 'skipped: ${reason}'; exit 77")
	add_test(NAME ${name} COMMAND ${command})
	set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
	if(ARGC GREATER 2)
		penstock_promise(${ARGV2} 60 ${command})
	endif()
endfunction()

# penstock_tests_keep_state(): lets the flight recorders of daemons that this folder's tests start
# write into the build tree, not into the user's home. Call it after all tests are added.
function(penstock_tests_keep_state)
	get_property(tests DIRECTORY PROPERTY TESTS)
	if(tests)
		set_tests_properties(${tests} PROPERTIES ENVIRONMENT_MODIFICATION "XDG_STATE_HOME=set:${CMAKE_BINARY_DIR}/state")
	endif()
endfunction()

# Compiles each of proto/convert/convert_*.c in this folder's targets with the instructions that it
# is written for. convert.c chooses which of them run when a converter is made.
function(penstock_convert_kernels)
	if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
		set_source_files_properties(${CMAKE_SOURCE_DIR}/proto/convert/convert_avx2.c PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
		set_source_files_properties(${CMAKE_SOURCE_DIR}/proto/convert/convert_avx512.c
			PROPERTIES COMPILE_OPTIONS "-mavx512f;-mavx512bw;-mavx512vl;-mfma;-mf16c")
	endif()
endfunction()

# penstock_types_for_tests(TARGET): the debugging information of these objects has types as well,
# which the test versions.abi reads out of the library. It changes no instruction. Builds that
# nothing is tested in are without.
function(penstock_types_for_tests target)
	if(BUILD_TESTING AND NOT PENSTOCK_SANITIZE AND NOT PENSTOCK_COVERAGE)
		target_compile_options(${target} PRIVATE -g)
	endif()
endfunction()

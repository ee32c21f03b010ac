# Compiler settings for every target, and the sanitizers of the presets.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
if(NOT CMAKE_BUILD_TYPE)
	set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# Assertions guard invariants and stay in every build.
set(CMAKE_C_FLAGS_RELEASE "-O3 -g1")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g")

add_compile_definitions(_GNU_SOURCE PENSTOCK_VERSION="${PROJECT_VERSION}")
# Set it OFF for compilers that penstock is not tested with: they may have other warnings.
option(PENSTOCK_WERROR "Warnings are errors" ON)
# A fused multiply-add rounds once where Pillow rounds twice, so exact pixels need
# -ffp-contract=off.
add_compile_options(-Wall -Wextra $<$<BOOL:${PENSTOCK_WERROR}>:-Werror> -Wshadow -Wundef -Wvla -Wformat=2 -Wpointer-arith
	# The code cuts sentences that are too long on purpose.
	$<$<C_COMPILER_ID:GNU>:-Wno-format-truncation>
	-fno-strict-aliasing -ffp-contract=off -fvisibility=hidden
	$<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes> $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>)

set(PENSTOCK_SANITIZE "" CACHE STRING "Value of -fsanitize=, empty for none")
if(PENSTOCK_SANITIZE)
	# -g1: the reports need only line numbers, and more takes a tenth of the build's time.
	set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g1")
	add_compile_options(-fsanitize=${PENSTOCK_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
	add_link_options(-fsanitize=${PENSTOCK_SANITIZE})
endif()
option(PENSTOCK_COVERAGE "Instrument for coverage" OFF)
if(PENSTOCK_COVERAGE)
	add_compile_options(--coverage -O0)
	add_link_options(--coverage)
endif()

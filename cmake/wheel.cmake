# Toolchain file of scripts/wheel, which sets these environment variables:
#
#   PENSTOCK_WHEEL_TARGET    a folder whose bin/ has the compiler and its tools
#   PENSTOCK_WHEEL_PREFIX    the libraries, built for the same target. CMake must not find the
#                            machine's own.
#   PENSTOCK_WHEEL_MACHINE   the processor that the wheel is for, if it is not this machine's; the
#                            target's folder then has Python's headers, too
set(CMAKE_C_COMPILER $ENV{PENSTOCK_WHEEL_TARGET}/bin/cc)
set(CMAKE_CXX_COMPILER $ENV{PENSTOCK_WHEEL_TARGET}/bin/c++)
set(CMAKE_AR $ENV{PENSTOCK_WHEEL_TARGET}/bin/ar CACHE FILEPATH "")
set(CMAKE_RANLIB $ENV{PENSTOCK_WHEEL_TARGET}/bin/ranlib CACHE FILEPATH "")
set(CMAKE_PREFIX_PATH $ENV{PENSTOCK_WHEEL_PREFIX})
set(ZLIB_ROOT $ENV{PENSTOCK_WHEEL_PREFIX})
set(ENV{PKG_CONFIG_LIBDIR} $ENV{PENSTOCK_WHEEL_PREFIX}/lib/pkgconfig)
if(NOT "$ENV{PENSTOCK_WHEEL_MACHINE}" STREQUAL "")
	set(CMAKE_SYSTEM_NAME Linux)
	set(CMAKE_SYSTEM_PROCESSOR $ENV{PENSTOCK_WHEEL_MACHINE})
	set(Python3_INCLUDE_DIR $ENV{PENSTOCK_WHEEL_TARGET}/python)
	# The device's code is the same for every machine, and nvcc compiles nothing else.
	set(PENSTOCK_CUDA_CROSSCOMPILING ON)
endif()

# Toolchain file of scripts/wheel, which sets two environment variables:
#
#   PENSTOCK_WHEEL_TARGET   a folder whose bin/ has the compiler and its tools
#   PENSTOCK_WHEEL_PREFIX   the libraries, built for the same target. CMake must not find the
#                           machine's own.
set(CMAKE_C_COMPILER $ENV{PENSTOCK_WHEEL_TARGET}/bin/cc)
set(CMAKE_CXX_COMPILER $ENV{PENSTOCK_WHEEL_TARGET}/bin/c++)
set(CMAKE_AR $ENV{PENSTOCK_WHEEL_TARGET}/bin/ar CACHE FILEPATH "")
set(CMAKE_RANLIB $ENV{PENSTOCK_WHEEL_TARGET}/bin/ranlib CACHE FILEPATH "")
set(CMAKE_PREFIX_PATH $ENV{PENSTOCK_WHEEL_PREFIX})
set(ZLIB_ROOT $ENV{PENSTOCK_WHEEL_PREFIX})
set(ENV{PKG_CONFIG_LIBDIR} $ENV{PENSTOCK_WHEEL_PREFIX}/lib/pkgconfig)

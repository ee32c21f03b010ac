# Toolchain file: builds for 64-bit ARM on a Debian machine of another kind, and runs the result
# under qemu.
#
# It uses Debian's cross compiler and the libraries' arm64 packages, which are installed beside the
# machine's own (scripts/install-deps aarch64). The programs find them in their usual folders, so
# qemu needs no root folder of its own.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)

# pkg-config must not find packages of the machine's own architecture. The second folder holds
# packages that belong to no architecture.
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)

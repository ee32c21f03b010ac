# Toolchain file: builds for 64-bit ARM on a Debian machine of another kind, and runs what was built there under qemu.
#
# Debian's cross compiler, and the libraries' arm64 packages beside the machine's own (scripts/install-deps aarch64). Those lie
# where the programs look for them, so qemu needs no root of its own.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)

# Of the machine's own architecture nothing may be found. The second folder holds what is of none.
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)

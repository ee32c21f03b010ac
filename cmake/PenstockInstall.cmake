# Filled by the client and the man pages: pkg-config file, CMake package, uninstall target.

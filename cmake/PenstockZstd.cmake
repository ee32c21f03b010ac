# Zstandard: libzstd unpacks pages of Parquet files and shards of MDS. Without it these are refused,
# and the configuration says so.
option(PENSTOCK_ZSTD "Read data that is compressed with Zstandard (libzstd)" ON)
if(NOT PENSTOCK_ZSTD)
	message(STATUS "Zstandard: no (PENSTOCK_ZSTD=OFF)")
else()
	pkg_check_modules(ZSTD QUIET IMPORTED_TARGET libzstd)
	if(ZSTD_FOUND)
		message(STATUS "Zstandard: libzstd ${ZSTD_VERSION}")
	else()
		message(STATUS "Zstandard: no (libzstd not found: install libzstd-dev)")
	endif()
endif()

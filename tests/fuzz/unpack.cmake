# What containers store packed: streams of every method, damaged and not.
penstock_fuzz(unpack LINK penstock_unpack ROUNDS 20000 NIGHTLY 1000000)
if(TARGET PkgConfig::ZSTD)
	foreach(target fuzz_unpack_run fuzz_unpack)
		if(TARGET ${target})
			target_compile_definitions(${target} PRIVATE HAVE_ZSTD)
		endif()
	endforeach()
endif()

# Metrics and the page against arbitrary requests. The test controls the server's clock. A case has
# about five requests.
add_library(fuzz_http_parts INTERFACE)
target_link_libraries(fuzz_http_parts INTERFACE penstock_http)
target_link_options(fuzz_http_parts INTERFACE LINKER:--wrap=clock_gettime)
penstock_fuzz(http LINK fuzz_http_parts ROUNDS 1000 NIGHTLY 190000)

# Any bytes as the answer of a web server.
if(penstock_remote)
	penstock_fuzz(http_answer LINK penstock_remote ROUNDS 20000 NIGHTLY 5000000)
else()
	penstock_skipped(fuzz.http_answer "needs libcurl, libcrypto and expat")
endif()

# Any text as a URL.
penstock_fuzz(url LINK penstock_remote ROUNDS 20000 NIGHTLY 5000000)

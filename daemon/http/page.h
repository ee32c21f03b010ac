/* page: the page at `/`. page.cmake makes it from the files in page/ when the daemon is built. It
 * is one document that fetches only /status and /sheet. */
#pragma once

#include <stddef.h>

/* UTF-8, zero-terminated; the size does not count the zero byte. */
extern const char http_page_html[];
extern const size_t http_page_html_size;

/* Its Content-Security-Policy: only this style and this script, by their hashes. */
extern const char http_page_csp[];

/* page: the page at `/`, put together from page/ when the daemon is built (page.cmake).
 *
 * One document that fetches nothing but /status and /sheet. */
#pragma once

#include <stddef.h>

/* UTF-8, zero-terminated; the size is without the zero. */
extern const char http_page_html[];
extern const size_t http_page_html_size;

/* Its Content-Security-Policy: this style and this script by their hashes, and nothing else. */
extern const char http_page_csp[];

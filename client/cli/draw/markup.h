/* markup: text inside XML and HTML, so that a name in a dataset stays text. Any thread; no
 * state. */
#pragma once

#include <stdio.h>

/* Writes `text` as it may appear in content and in quoted attributes of both. The five
 * characters of markup become references. Malformed UTF-8, and characters that XML forbids
 * (control characters, surrogates), become U+FFFD. */
void markup_text(FILE *file, const char *text);

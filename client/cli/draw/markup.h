/* markup: text inside XML and HTML, where what a dataset's names hold must stay text. Any thread;
 * no state. */
#pragma once

#include <stdio.h>

/* Writes `text` so that it is the same text as content and in a quoted attribute of either: the
 * five characters of markup become references; what is no UTF-8, and what XML does not let be
 * (control characters, surrogates), U+FFFD. */
void markup_text(FILE *file, const char *text);

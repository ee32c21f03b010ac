/* page: what bench found, as one HTML file that needs nothing from outside, for light and dark
 * screens and for phones. Main thread. */
#pragma once

#include "base/fault.h"

struct sweep;

/* 0, or a negative errno with a fault. */
int page_save(const struct sweep *sweep, const char *path, struct fault *fault);

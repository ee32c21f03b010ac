/* page: what bench found as a page for people: one HTML file that needs nothing from outside, for
 * light and dark, and for a phone. Main thread. */
#pragma once

#include "base/fault.h"

struct sweep;

/* 0, or a negative errno with a fault. */
int page_save(const struct sweep *sweep, const char *path, struct fault *fault);

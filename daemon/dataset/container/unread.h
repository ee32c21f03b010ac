/* unread: files of formats that penstock does not read, known by their first bytes, and what to do
 * with them. Such a file is not unpacked and nothing in it is executed. Pure. */
#pragma once

#include "base/fault.h"

#include <stddef.h>
#include <stdint.h>

/* -EINVAL with a fault that says what the file is and what to do; 0: it is none of these. `bytes`
 * are its first `size` bytes. */
int unread_fault(const char *path, const uint8_t *bytes, size_t size, struct fault *fault);

/* npy: reads the header of a NumPy .npy file that lists sample numbers or weights.
 *
 * Of the format (numpy/lib/_format_impl.py: magic, version, a Python dict as text, then the values)
 * this accepts versions 1.0, 2.0 and 3.0 with one dimension of little-endian integers, or floats,
 * of 4 or 8 bytes. Anything else is refused with the place where the file says it. Pure functions
 * over the caller's bytes; any thread. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	NPY_PREFIX = 12, /* magic, version and the header's length, at most */
	NPY_TEXT_MAX = 65536, /* of the dict; NumPy writes 118 bytes for one dimension */
};

enum npy_kind { NPY_INTEGERS, NPY_FLOATS };

struct npy {
	uint64_t count; /* values */
	uint32_t data; /* offset of the first */
	uint8_t bytes; /* of each: 4 or 8 */
	bool is_signed;
};

/* Reads the header at the beginning of a file. `bytes` has the first `size` bytes of the file: all
 * of it, or NPY_PREFIX + NPY_TEXT_MAX. 0, or -EINVAL with a fault that does not name the file. */
int npy_parse(const uint8_t *bytes, size_t size, enum npy_kind kind, struct npy *ret,
	struct fault *fault);

/* Converts `count` values to unsigned numbers: negative ones wrap. */
void npy_widen(const struct npy *npy, const uint8_t *bytes, size_t count, uint64_t *ret);
/* The same for floats. */
void npy_reals(const struct npy *npy, const uint8_t *bytes, size_t count, double *ret);

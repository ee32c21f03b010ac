/* dump: for programs that carry out jobs on one image, which a script compares with Pillow's or
 * torchvision's results.
 *
 *   dump.h        the image, and exit codes
 *   dump_plans.h  jobs that are lists of operations
 *
 * Their arguments are RGB_FILE WIDTH HEIGHT: a file of WIDTH x HEIGHT pixels of R, G, B. */
#pragma once

#include "base/fault.h"
#include "base/util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* DUMP_JOB: arguments, the file or a job cannot be read. DUMP_KERNELS: PENSTOCK_KERNELS names
 * kernels that this processor does not have. */
enum { DUMP_FAILED = 1, DUMP_JOB = 2, DUMP_KERNELS = 3 };

struct dump {
	uint8_t *rgb;
	uint32_t width, height;
	size_t bytes;
};

/* Says it, and returns `code`. */
static inline int dump_refuse(int code, const char *what, const char *why)
{
	(void)fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
	return code;
}

/* The exit code where there are no kernels, or no memory. */
static inline int dump_refuse_fault(int rc, const struct fault *fault)
{
	return dump_refuse(
		rc == -ENOTSUP ? DUMP_KERNELS : DUMP_FAILED, "cannot begin", fault->text);
}

/* 0, or the exit code. `rgb` has exactly the size of the image, so that a sanitizer sees a byte too
 * far; the caller frees it. */
static inline int dump_open(struct dump *ret, int argc, char **argv)
{
	struct dump dump = {.width = argc == 4 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0,
		.height = argc == 4 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0};
	dump.bytes = (size_t)3 * dump.width * dump.height;
	if (!dump.bytes)
		return dump_refuse(DUMP_JOB, "usage", "RGB_FILE WIDTH HEIGHT < jobs > images");
	cleanup(close_file) FILE *file = fopen(argv[1], "rb");
	cleanup(free_ptr) uint8_t *rgb = malloc(dump.bytes);
	if (!rgb || !file || fread(rgb, 1, dump.bytes, file) != dump.bytes)
		return dump_refuse(DUMP_JOB, argv[1], "cannot be read");
	*ret = dump;
	ret->rgb = rgb;
	rgb = NULL;
	return 0;
}

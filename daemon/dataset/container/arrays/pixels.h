/* pixels: what CIFAR and MNIST have in common: samples that are pixels of one size without a
 * header, and labels beside them.
 *
 * A map of this folder:
 *   pixels.[ch]            the records of such samples, their labels and class names
 *   container_cifar.c      CIFAR-10 and CIFAR-100, binary and pickled
 *   container_mnist.c      MNIST's idx files
 *   pickle.[ch]            finds arrays and lists in a pickle without unpickling it
 *
 * Blocks. One thread. */
#pragma once

#include "base/fault.h"
#include "dataset/container/container.h"

#include <stddef.h>
#include <stdint.h>

enum { PIXELS_CLASSES_MAX = 1 << 16 };

/* How the samples of a shard are stored. */
struct pixels {
	enum packed_method method; /* PIXELS or PLANES */
	uint16_t width, height;
	uint8_t channels;
	uint64_t first; /* byte of the first pixel */
	uint64_t step; /* bytes from one sample to the next */
	uint32_t classes; /* class names; 0: none, and any label is allowed */
};

/* Adds the next class name. 0; -EINVAL: it is empty, too long or not UTF-8, or there are too many;
 * -errno. `path` is the file that it comes from. */
int pixels_class(const struct index_job *job, struct pixels *pixels, const char *path,
	const uint8_t *name, size_t size, struct fault *fault);

/* Adds sample `row` with its label (-1: it has none; asked for none) and its name (NULL: its row
 * number). `place` is the byte of the label in the file `path`, for faults. 0; -EINVAL: not one of
 * the classes; or as container_sample. */
struct pixels_label {
	int64_t number;
	const char *path;
	uint64_t place;
};
int pixels_sample(const struct index_job *job, const struct pixels *pixels, uint64_t row,
	const struct pixels_label *label, const char *name, struct fault *fault);

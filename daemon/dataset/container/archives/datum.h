/* datum: reads Caffe's Datum (caffe.proto) in a file, without reading its data.
 *
 *   Datum { int32 channels = 1, height = 2, width = 3; bytes data = 4; int32 label = 5;
 *           repeated float float_data = 6; bool encoded = 7 }
 *
 * Strict: a field with another number or type means that it is not a Datum, as protobuf has no
 * magic number. Blocks; any thread. */
#pragma once

#include "dataset/blob.h"

#include <stdbool.h>
#include <stdint.h>

struct datum {
	uint64_t channels, height, width; /* 0: not there */
	uint64_t data_at, data_size; /* bytes of the file */
	bool data, labelled, encoded, floats;
	int64_t label;
};

/* Reads the Datum in bytes [at, at + size) of the file. 1; 0: it is none; -errno. */
int datum_read(const struct blob *blob, uint64_t at, uint64_t size, struct datum *ret);

/* example: reads a tf.Example (tensorflow/core/example/example.proto) in the file, feature by
 * feature, without copying values. It is this protobuf:
 *
 *   Example { Features features = 1 }
 *   Features { map<string, Feature> feature = 1 }, that is, repeated { key = 1, value = 2 }
 *   Feature { oneof { BytesList = 1, FloatList = 2, Int64List = 3 } }
 *   each list { repeated value = 1 }, numbers packed or not
 *
 * Every length is checked against the message that contains it. Fields with other numbers are
 * passed over, as protobuf demands. What no writer of protobufs makes is refused: groups, an entry
 * with two keys or two values, a feature with lists of two types. Blocks. One thread. */
#pragma once

#include "base/fault.h"
#include "dataset/column_choice.h"
#include "dataset/container/window.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum example_type { EXAMPLE_EMPTY, EXAMPLE_BYTES, EXAMPLE_FLOATS, EXAMPLE_INTS };

struct example_feature {
	enum example_type type;
	/* zero-terminated; of a longer name, its beginning, which then equals no column's */
	char name[COLUMN_NAME_MAX + 2];
	size_t name_size;
	uint64_t at, end; /* of its list in the file */
};

/* A message that is being read. */
struct example {
	struct window *window; /* borrowed */
	uint64_t at, end; /* the rest of the Example */
	uint64_t features_at, features_end; /* the rest of its Features */
	const char *wrong; /* what was found instead, if example_next returns -EBADMSG */
	uint64_t wrong_at; /* and at which byte */
};

void example_init(struct example *example, struct window *window, uint64_t at, uint64_t size);

/* 1 and the next feature; 0 after the last one; -EBADMSG if it is not a tf.Example, without a
 * fault: `wrong` says why; other negative errno with a fault, of reading. After an error the
 * example may not be used. */
int example_next(struct example *example, struct example_feature *ret, struct fault *fault);

/* The values of a feature's list. */
struct example_values {
	enum example_type type;
	uint64_t at, end;
	uint64_t packed_end; /* of the packed numbers that are being read; 0: none */
};

void example_values_init(struct example_values *values, const struct example_feature *feature);

/* 1 and the next value; 0; -EBADMSG; as above. Each is for one type of list. */
int example_bytes(struct example *example, struct example_values *values, uint64_t *ret_at,
	uint64_t *ret_size, struct fault *fault);
int example_int(
	struct example *example, struct example_values *values, int64_t *ret, struct fault *fault);
int example_float(
	struct example *example, struct example_values *values, float *ret, struct fault *fault);

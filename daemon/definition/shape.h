/* shape: the form of the rows in a stream's batches: their size in each epoch, the number of
 * rows for each sample, the type of the values and their order. The keys are image_size, dtype,
 * layout, mean and std of a definition (spec.h); views.h reads the number of rows. Pure functions;
 * any thread. */
#pragma once

#include "base/fault.h"
#include "base/text/yaml.h"
#include "batch/extent.h"
#include "pixel/pixel.h"
#include "proto/jsontext.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	SHAPE_SIDE_MAX = PIXEL_SIDE_MAX,
	SHAPE_EPOCHS_MAX = 1024, /* entries of image_size */
	SHAPE_VIEWS_MAX = SLOTS_VIEWS_MAX,
};

/* Numbered as enum penstock_dtype and enum penstock_layout. */
enum shape_dtype { SHAPE_UINT8, SHAPE_FLOAT32, SHAPE_FLOAT16, SHAPE_BFLOAT16 };
enum shape_layout { SHAPE_NHWC, SHAPE_NCHW };

extern const char *const shape_dtype_names[], *const shape_layout_names[];

/* Progressive sizes, each valid from its epoch on; the first epoch is 0. Neighbors differ. */
struct shape_sizes {
	uint32_t count; /* 0: one size in all epochs; otherwise at least 2 different sizes */
	struct {
		uint32_t epoch;
		struct pixel_size size;
	} at[SHAPE_EPOCHS_MAX];
};

/* The numbers that normalize the values of a float dtype; computed in float32. */
struct shape_channels {
	double value[3];
};

struct shape {
	uint32_t views; /* of all groups, as in struct views; default 1 */
	enum shape_dtype dtype; /* default: uint8 */
	enum shape_layout layout; /* default: NHWC */
	struct shape_channels mean, std; /* default: ImageNet's */
	struct shape_sizes sizes;
};

/* The defaults: those of ImageNet. */
#define SHAPE_MEAN                          \
	{                                   \
		{                           \
			0.485, 0.456, 0.406 \
		}                           \
	}
#define SHAPE_STD                           \
	{                                   \
		{                           \
			0.229, 0.224, 0.225 \
		}                           \
	}

/* Reads one number, the side of a square, or a list [height, width]. Messages call it `name`. */
int shape_read_size(const struct yaml_text *text, const yaml_node_t *node, const char *name,
	struct pixel_size *ret, struct fault *fault);

/* Readers for struct yaml_key. The field of shape_read_sizes is a struct shape_sizes. After a
 * successful read it has at least one size, also for a single number; call shape_settle_sizes
 * next. */
int shape_read_sizes(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault);
int shape_read_mean(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault);
int shape_read_std(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault);

/* Returns the largest height and the largest width. A single size is not a schedule: `sizes` is
 * then empty. */
struct pixel_size shape_settle_sizes(struct shape_sizes *sizes);

/* The index of an epoch's size; 0 if there are no sizes. */
uint32_t shape_place(const struct shape_sizes *sizes, uint64_t epoch);
/* The size of an epoch's images: `size` if there are no sizes. */
struct pixel_size shape_size(
	const struct shape_sizes *sizes, uint64_t epoch, struct pixel_size size);

bool shape_sizes_equal(const struct shape_sizes *a, const struct shape_sizes *b);
bool shape_channels_equal(const struct shape_channels *a, const struct shape_channels *b);

/* Writes a number for a square, otherwise [height, width]. */
void shape_json_size(struct jsontext *json, const char *key, struct pixel_size size);
void shape_json_sizes(struct jsontext *json, const char *key, const struct shape_sizes *sizes,
	struct pixel_size size);
/* "224" for a square, otherwise "256 x 128". Returns `buffer`. */
enum { SHAPE_SIZE_TEXT = 32 };
const char *shape_size_text(struct pixel_size size, char buffer[SHAPE_SIZE_TEXT]);
void shape_json_channels(
	struct jsontext *json, const char *key, const struct shape_channels *channels);

/* Adds every value that differs from its default to the hash of the pixels. */
uint64_t shape_hash(const struct shape *shape, uint64_t h);

/* The geometry of batches with images of up to this size and one integer label each. */
struct extent_geometry shape_geometry(
	const struct shape *shape, uint32_t batch_size, struct pixel_size size);

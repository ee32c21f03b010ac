/* shape: what the rows of a stream's batches are: how large in which epoch, how many of a sample,
 * which values in which order.
 *
 * The keys image_size, views, dtype, layout, mean and std of a definition (spec.h), but for the
 * plain ones. Pure functions; any thread. */
#pragma once

#include "base/fault.h"
#include "base/yaml.h"
#include "batch/extent.h"
#include "proto/jsontext.h"

#include <stdbool.h>
#include <stdint.h>

enum { SHAPE_SIDE_MAX = 2048, SHAPE_SIZES_MAX = 16, SHAPE_VIEWS_MAX = SLOTS_VIEWS_MAX };

/* Numbered as enum penstock_dtype and enum penstock_layout. */
enum shape_dtype { SHAPE_UINT8, SHAPE_FLOAT32, SHAPE_FLOAT16, SHAPE_BFLOAT16 };
enum shape_layout { SHAPE_NHWC, SHAPE_NCHW };

extern const char *const shape_dtype_names[], *const shape_layout_names[];

/* Progressive sizes: each from its epoch on, epochs growing from 0. */
struct shape_sizes {
	uint32_t count; /* 0: one size in all epochs; otherwise at least 2, which differ */
	struct {
		uint32_t epoch, side;
	} at[SHAPE_SIZES_MAX];
};

/* What is normalised with, where the dtype is not uint8; used in float32. */
struct shape_channels {
	double value[3];
};

struct shape {
	uint32_t views; /* 1 .. SHAPE_VIEWS_MAX; default 1 */
	enum shape_dtype dtype; /* default: uint8 */
	enum shape_layout layout; /* default: NHWC */
	struct shape_channels mean, std; /* default: ImageNet's */
	struct shape_sizes sizes;
};

/* ImageNet's, the defaults. */
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

/* Readers of struct yaml_key. The field of shape_read_sizes is a struct shape_sizes, which then has
 * at least one: also of a number by itself; shape_settle_sizes comes next. */
int shape_read_sizes(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault);
int shape_read_mean(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault);
int shape_read_std(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault);

/* The largest size of those read; leaves out what changes nothing. */
uint32_t shape_settle_sizes(struct shape_sizes *sizes);

/* Which of them an epoch has; 0 also where there are none. */
uint32_t shape_place(const struct shape_sizes *sizes, uint64_t epoch);
/* The side of an epoch's images: `side` where there are no sizes. */
uint32_t shape_side(const struct shape_sizes *sizes, uint64_t epoch, uint32_t side);

bool shape_sizes_equal(const struct shape_sizes *a, const struct shape_sizes *b);
bool shape_channels_equal(const struct shape_channels *a, const struct shape_channels *b);

void shape_json_sizes(
	struct jsontext *json, const char *key, const struct shape_sizes *sizes, uint32_t side);
void shape_json_channels(
	struct jsontext *json, const char *key, const struct shape_channels *channels);

/* Adds to the hash of what makes pixels whatever is not by default. */
uint64_t shape_hash(const struct shape *shape, uint64_t h);

/* Of batches with images of up to side x side and one whole label each. */
struct extent_geometry shape_geometry(
	const struct shape *shape, uint32_t batch_size, uint32_t side);

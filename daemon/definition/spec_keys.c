/* spec_keys: see spec_keys.h. */
#include "definition/spec_keys.h"

#include "dataset/field_keys.h"
#include "definition/label_keys.h"
#include "definition/spec_state.h"
#include "order/sampler.h"

#include <stddef.h>

static const char *const spec_class_order_names[] = {
	[CLASS_ORDER_BYTEWISE] = "bytewise",
	[CLASS_ORDER_NATURAL] = "natural",
	NULL,
};

static const char *const spec_broken_names[] = {
	[SPEC_BROKEN_SUBSTITUTE] = "substitute",
	[SPEC_BROKEN_MARK] = "mark",
	[SPEC_BROKEN_FAIL] = "fail",
	NULL,
};

static const char *const spec_decode_names[] = {
	[SPEC_DECODE_EXACT] = "exact",
	[SPEC_DECODE_FAST] = "fast",
	NULL,
};

static const char *const spec_share_names[] = {
	[SPEC_SHARE_ALL] = "all",
	[SPEC_SHARE_SPLIT] = "split",
	NULL,
};

static const char *const spec_laggard_names[] = {
	[SPEC_LAGGARD_BLOCK] = "block",
	[SPEC_LAGGARD_DETACH] = "detach",
	NULL,
};

#define SPEC_ROOM(member) .room = sizeof((struct stream_spec *)0)->member
#define SPEC_ROW_NAME(low, high, extra, member) YAML_KEY_NAME, SPEC_ROOM(member)
#define SPEC_ROW_TEXT(low, high, extra, member) YAML_KEY_STRING, SPEC_ROOM(member), .min = (low)
#define SPEC_ROW_U32(low, high, extra, member) YAML_KEY_U32, .min = (low), .max = (high)
#define SPEC_ROW_I32(lowest, highest, extra, member) \
	YAML_KEY_I32, .low = (lowest), .high = (highest)
#define SPEC_ROW_U64(low, high, extra, member) YAML_KEY_U64, .min = (low), .max = (high)
#define SPEC_ROW_REAL(lowest, highest, extra, member) \
	YAML_KEY_DOUBLE, .low = (lowest), .high = (highest)
#define SPEC_ROW_FLAG(low, high, extra, member) YAML_KEY_BOOL
#define SPEC_ROW_WORD(low, high, extra, member) YAML_KEY_ENUM, .names = (extra)
#define SPEC_ROW_NODE(low, high, extra, member) YAML_KEY_NODE, .read = (extra)
#define SPEC_ROW(with, key, type, member, place, low, high, plain, extra, ...) \
	{.name = #key,                                                         \
		.offset = offsetof(struct stream_spec, member),                \
		.kind = SPEC_ROW_##type(low, high, extra, member)},

const struct yaml_key spec_keys[SPEC_KEYS] = {PENSTOCK_KEYS(SPEC_ROW, )};

#define SPEC_WHO(with, name, kind, field, place, low, high, plain, extra, option, who, alike, ...) \
	{SPEC_##who, SPEC_##alike, (plain) != 0},

const struct spec_who spec_who[SPEC_KEYS] = {PENSTOCK_KEYS(SPEC_WHO, )};

_Static_assert((int)SPEC_KEYS <= (int)YAML_KEYS_MAX, "a bit of `given` for each key");
_Static_assert(SAMPLER_LENGTH_MAX == 281474976710656 && SAMPLER_REPEATS == 16 &&
		       SHAPE_SIDE_MAX == 4096 && SHAPE_VIEWS_MAX == 16,
	"the ranges in proto/keys.h");

/* Lists are equal if they have the same effect: one may be written and the other implied. */
bool spec_keys_equal(enum spec_key key, const struct stream_spec *a, const struct stream_spec *b)
{
	switch (key) {
	case SPEC_KEY_sources:
		return sampling_sources_equal(&a->sampling.sources, &b->sampling.sources);
	case SPEC_KEY_buckets:
		return bucket_keys_equal(&a->buckets, &b->buckets);
	case SPEC_KEY_sampling:
		return a->sampling.per_class.classes == b->sampling.per_class.classes &&
		       a->sampling.per_class.each == b->sampling.per_class.each;
	case SPEC_KEY_labels:
		return label_keys_equal(&a->labels, &b->labels);
	case SPEC_KEY_views:
		return views_equal(&a->views, &b->views);
	case SPEC_KEY_fields:
		return field_list_equal(&a->fields, &b->fields);
	case SPEC_KEY_transforms:
		return spec_transform_hash(a) == spec_transform_hash(b);
	case SPEC_KEY_image_size:
		/* With buckets it follows from them. */
		if (a->buckets.count && b->buckets.count)
			return true;
		return pixel_size_equal(a->image_size, b->image_size) &&
		       shape_sizes_equal(&a->shape.sizes, &b->shape.sizes);
	case SPEC_KEY_mean:
		return shape_channels_equal(&a->shape.mean, &b->shape.mean);
	case SPEC_KEY_std:
		return shape_channels_equal(&a->shape.std, &b->shape.std);
	case SPEC_KEY_shuffle:
		return a->shuffle == b->shuffle;
	case SPEC_KEY_window:
		return a->shuffle != SHUFFLE_BLOCKS || a->window == b->window;
	default:
		return yaml_equal(&spec_keys[key], a, b);
	}
}

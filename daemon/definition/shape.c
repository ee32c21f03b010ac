/* shape: see shape.h. */
#include "definition/shape.h"

#include "base/hash.h"
#include "base/util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

_Static_assert((int)SHAPE_UINT8 + 1 == (int)SLOTS_U8 && (int)SHAPE_FLOAT32 + 1 == (int)SLOTS_F32 &&
		       (int)SHAPE_FLOAT16 + 1 == (int)SLOTS_F16 &&
		       (int)SHAPE_BFLOAT16 + 1 == (int)SLOTS_BF16,
	"one order of pixel types");
_Static_assert((int)SHAPE_NHWC + 1 == (int)SLOTS_NHWC && (int)SHAPE_NCHW + 1 == (int)SLOTS_NCHW,
	"one order of layouts");

const char *const shape_dtype_names[] = {
	[SHAPE_UINT8] = "uint8",
	[SHAPE_FLOAT32] = "float32",
	[SHAPE_FLOAT16] = "float16",
	[SHAPE_BFLOAT16] = "bfloat16",
	NULL,
};

const char *const shape_layout_names[] = {[SHAPE_NHWC] = "NHWC", [SHAPE_NCHW] = "NCHW", NULL};

/* ---- sizes ---- */

/* A size from an epoch on, as written. */
struct shape_written {
	uint32_t epoch;
	struct pixel_size size;
};

/* The entries of a mapping, in the order of their epochs, before equal neighbors are merged. */
struct shape_entries {
	uint32_t count;
	struct shape_written at[SHAPE_EPOCHS_MAX];
};

/* Inserts an entry in the order of the epochs; -EINVAL if the epoch already has one. */
static int shape_insert(struct shape_entries *entries, struct shape_written written)
{
	uint32_t i = entries->count;
	for (; i > 0 && entries->at[i - 1].epoch >= written.epoch; i--)
		if (entries->at[i - 1].epoch == written.epoch)
			return -EINVAL;
	memmove(&entries->at[i + 1], &entries->at[i], (entries->count - i) * sizeof entries->at[0]);
	entries->at[i] = written;
	entries->count++;
	return 0;
}

int shape_read_size(const struct yaml_text *text, const yaml_node_t *node, const char *name,
	struct pixel_size *ret, struct fault *fault)
{
	const struct yaml_key side = {name, YAML_KEY_U32, .min = 1, .max = SHAPE_SIDE_MAX};
	uint32_t sides[2] = {0, 0};
	if (node->type != YAML_SEQUENCE_NODE) {
		int result = yaml_read_value(text, node, &side, &sides[0], fault);
		*ret = pixel_square(sides[0]);
		return result;
	}
	const yaml_node_item_t *item = node->data.sequence.items.start;
	if (node->data.sequence.items.top - item != 2)
		return yaml_fault(text, node, fault,
			"%s: expected a whole number from 1 to %d, or a list of two, [height, "
			"width]; got a list of %zu",
			name, SHAPE_SIDE_MAX, (size_t)(node->data.sequence.items.top - item));
	for (int i = 0; i < 2; i++) {
		int result =
			yaml_read_value(text, yaml_node(text, item[i]), &side, &sides[i], fault);
		if (result < 0)
			return result;
	}
	*ret = (struct pixel_size){.height = sides[0], .width = sides[1]};
	return 0;
}

static int shape_read_entry(const struct yaml_text *text, const yaml_node_pair_t *pair,
	struct shape_entries *entries, struct fault *fault)
{
	static const struct yaml_key epoch_key = {"epoch", YAML_KEY_U32, .max = UINT32_MAX};
	const yaml_node_t *at = yaml_node(text, pair->key);
	struct shape_written written = {.epoch = 0};
	int result = yaml_read_value(text, at, &epoch_key, &written.epoch, fault);
	if (!result)
		result = shape_read_size(text, yaml_node(text, pair->value), "size of an epoch",
			&written.size, fault);
	if (result < 0)
		return result;
	if (entries->count == SHAPE_EPOCHS_MAX)
		return yaml_fault(text, at, fault, "expected at most %d epochs", SHAPE_EPOCHS_MAX);
	if (shape_insert(entries, written) < 0)
		return yaml_fault(text, at, fault,
			"epoch %" PRIu32 " is written twice; expected one size for it",
			written.epoch);
	return 0;
}

/* A schedule with an entry for each epoch repeats most sizes: an entry that equals the one before
 * it does not count. */
static void shape_merge(const struct shape_entries *entries, struct shape_sizes *ret)
{
	for (uint32_t i = 0; i < entries->count; i++) {
		const struct shape_written *written = &entries->at[i];
		if (i && pixel_size_equal(written->size, entries->at[i - 1].size))
			continue;
		ret->at[ret->count].epoch = written->epoch;
		ret->at[ret->count++].size = written->size;
	}
}

static int shape_read_mapping(const struct yaml_text *text, const yaml_node_t *node,
	struct shape_sizes *ret, struct fault *fault)
{
	const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
	struct shape_entries entries = {.count = 0};
	struct yaml_text inner = *text;
	inner.within = "image_size";
	int result = 0;
	for (; !result && pair < node->data.mapping.pairs.top; pair++)
		result = shape_read_entry(&inner, pair, &entries, fault);
	if (result < 0)
		return result;
	shape_merge(&entries, ret);
	if (!ret->count || ret->at[0].epoch)
		return yaml_fault(text, node, fault,
			"image_size: expected the size that epoch 0 has among them, as in {0: 128, "
			"16: 192}");
	return 0;
}

int shape_read_sizes(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault)
{
	struct shape_sizes sizes = {.count = 0};
	int result;
	if (node->type == YAML_MAPPING_NODE) {
		result = shape_read_mapping(text, node, &sizes, fault);
	} else {
		sizes.count = 1;
		result = shape_read_size(text, node, "image_size", &sizes.at[0].size, fault);
	}
	if (!result)
		memcpy(field, &sizes, sizeof sizes);
	return result;
}

struct pixel_size shape_settle_sizes(struct shape_sizes *sizes)
{
	struct pixel_size largest = {0, 0};
	for (uint32_t i = 0; i < sizes->count; i++) {
		largest.height = UTIL_MAX(largest.height, sizes->at[i].size.height);
		largest.width = UTIL_MAX(largest.width, sizes->at[i].size.width);
	}
	if (sizes->count == 1)
		*sizes = (struct shape_sizes){.count = 0};
	return largest;
}

uint32_t shape_place(const struct shape_sizes *sizes, uint64_t epoch)
{
	uint32_t place = 0;
	while (place + 1 < sizes->count && sizes->at[place + 1].epoch <= epoch)
		place++;
	return place;
}

struct pixel_size shape_size(
	const struct shape_sizes *sizes, uint64_t epoch, struct pixel_size size)
{
	return sizes->count ? sizes->at[shape_place(sizes, epoch)].size : size;
}

bool shape_sizes_equal(const struct shape_sizes *a, const struct shape_sizes *b)
{
	return a->count == b->count && memcmp(a->at, b->at, a->count * sizeof a->at[0]) == 0;
}

void shape_json_size(struct jsontext *json, const char *key, struct pixel_size size)
{
	if (size.height == size.width) {
		jsontext_u64(json, key, size.height);
		return;
	}
	jsontext_array(json, key);
	jsontext_u64(json, NULL, size.height);
	jsontext_u64(json, NULL, size.width);
	jsontext_end(json);
}

const char *shape_size_text(struct pixel_size size, char buffer[SHAPE_SIZE_TEXT])
{
	if (size.height == size.width)
		(void)snprintf(buffer, SHAPE_SIZE_TEXT, "%" PRIu32, size.height);
	else
		(void)snprintf(
			buffer, SHAPE_SIZE_TEXT, "%" PRIu32 " x %" PRIu32, size.height, size.width);
	return buffer;
}

void shape_json_sizes(struct jsontext *json, const char *key, const struct shape_sizes *sizes,
	struct pixel_size size)
{
	if (!sizes->count) {
		shape_json_size(json, key, size);
		return;
	}
	jsontext_object(json, key);
	for (uint32_t i = 0; i < sizes->count; i++) {
		char epoch[16];
		(void)snprintf(epoch, sizeof epoch, "%" PRIu32, sizes->at[i].epoch);
		shape_json_size(json, epoch, sizes->at[i].size);
	}
	jsontext_end(json);
}

/* ---- values ---- */

static int shape_read_channels(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *bound, struct shape_channels *ret, struct fault *fault)
{
	struct shape_channels channels = {{0}};
	bool list = node->type == YAML_SEQUENCE_NODE;
	const yaml_node_item_t *item = list ? node->data.sequence.items.start : NULL;
	if (!list || node->data.sequence.items.top - item != 3)
		return yaml_fault(text, node, fault,
			"%s: expected a list of three numbers from %g to %g, for red, green and "
			"blue",
			bound->name, bound->low, bound->high);
	for (int i = 0; i < 3; i++) {
		int result = yaml_read_value(
			text, yaml_node(text, item[i]), bound, &channels.value[i], fault);
		if (result < 0)
			return result;
	}
	*ret = channels;
	return 0;
}

int shape_read_mean(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault)
{
	static const struct yaml_key bound = {"mean", YAML_KEY_DOUBLE, .low = -1000, .high = 1000};
	struct shape_channels channels = {{0}};
	int result = shape_read_channels(text, node, &bound, &channels, fault);
	if (result < 0)
		return result;
	for (int i = 0; i < 3; i++)
		if (channels.value[i] > 1)
			return yaml_fault(text, node, fault,
				"mean: expected means of pixels from 0 to 1, got %g; divide mean "
				"and std by 255 if they are of 0 to 255",
				channels.value[i]);
	memcpy(field, &channels, sizeof channels);
	return 0;
}

int shape_read_std(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault)
{
	static const struct yaml_key bound = {"std", YAML_KEY_DOUBLE, .low = 1e-6, .high = 1000};
	return shape_read_channels(text, node, &bound, field, fault);
}

/* Compared as float32, the type that computes with them. */
bool shape_channels_equal(const struct shape_channels *a, const struct shape_channels *b)
{
	for (int i = 0; i < 3; i++)
		if ((float)a->value[i] != (float)b->value[i])
			return false;
	return true;
}

void shape_json_channels(
	struct jsontext *json, const char *key, const struct shape_channels *channels)
{
	jsontext_array(json, key);
	for (int i = 0; i < 3; i++)
		jsontext_shortest(json, NULL, channels->value[i]);
	jsontext_end(json);
}

/* ---- meaning ---- */

static uint64_t shape_hash_number(uint64_t h, const char *what, uint64_t number)
{
	return hash_u64(hash_bytes(h, what, strlen(what)), number);
}

static uint64_t shape_hash_channels(
	uint64_t h, const char *what, const struct shape_channels *channels)
{
	for (int i = 0; i < 3; i++) {
		float value = (float)channels->value[i];
		uint32_t bits;
		memcpy(&bits, &value, sizeof bits);
		h = shape_hash_number(h, what, bits);
	}
	return h;
}

uint64_t shape_hash(const struct shape *shape, uint64_t h)
{
	const struct shape plain = {.views = 1, .mean = SHAPE_MEAN, .std = SHAPE_STD};
	for (uint32_t i = 0; i < shape->sizes.count; i++) {
		h = shape_hash_number(h, "size from epoch", shape->sizes.at[i].epoch);
		h = hash_u64(h, shape->sizes.at[i].size.height);
		/* A square adds nothing more, so that states of before stay valid. */
		if (shape->sizes.at[i].size.width != shape->sizes.at[i].size.height)
			h = shape_hash_number(h, "width", shape->sizes.at[i].size.width);
	}
	if (shape->views != plain.views)
		h = shape_hash_number(h, "views", shape->views);
	if (shape->layout != plain.layout)
		h = shape_hash_number(h, "layout", shape->layout);
	if (shape->dtype == plain.dtype)
		return h;
	h = shape_hash_number(h, "dtype", shape->dtype);
	if (!shape_channels_equal(&shape->mean, &plain.mean))
		h = shape_hash_channels(h, "mean", &shape->mean);
	if (!shape_channels_equal(&shape->std, &plain.std))
		h = shape_hash_channels(h, "std", &shape->std);
	return h;
}

struct extent_geometry shape_geometry(
	const struct shape *shape, uint32_t batch_size, struct pixel_size size)
{
	struct extent_geometry geometry = extent_plain(batch_size, size.height);
	geometry.width = size.width;
	geometry.views = shape->views;
	geometry.pixel_type = (enum slots_pixel_type)(shape->dtype + 1);
	geometry.pixel_layout = (enum slots_pixel_layout)(shape->layout + 1);
	return geometry;
}

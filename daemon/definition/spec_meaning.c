/* spec_meaning: the effect of a definition: how it makes pixels, and the hashes by which a state
 * recognizes it. See spec.h. Pure functions. */
#include "definition/spec.h"

#include "base/hash.h"
#include "base/util.h"
#include "order/order.h"
#include "proto/philox.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

uint32_t spec_groups(const struct stream_spec *spec)
{
	return UTIL_MAX(spec->views.groups, 1u);
}

uint32_t spec_group_views(const struct stream_spec *spec, uint32_t group)
{
	assert(group < spec_groups(spec));
	return spec->views.groups ? spec->views.group[group].count : spec->shape.views;
}

struct pixel_size spec_group_size(const struct stream_spec *spec, uint32_t group)
{
	assert(group < spec_groups(spec));
	return spec->views.groups ? spec->views.group[group].size : spec->image_size;
}

const char *spec_group_name(const struct stream_spec *spec, uint32_t group)
{
	assert(group < spec_groups(spec));
	return spec->views.groups ? spec->views.group[group].name : "";
}

const struct transforms *spec_group_list(
	const struct stream_spec *spec, uint32_t group, struct transforms *room)
{
	assert(group < spec_groups(spec));
	if (!spec->views.groups)
		return &spec->transforms;
	views_transforms(&spec->views, &spec->views.group[group], room);
	return room;
}

static struct pixel_recipe spec_pixels_of(
	const struct stream_spec *spec, uint32_t group, struct pixel_size size)
{
	struct transforms room;
	const struct transforms *list = spec_group_list(spec, group, &room);
	struct pixel_recipe recipe =
		spec->train ? pixel_recipe_train(size) : pixel_recipe_eval(size);
	recipe.filter =
		spec->views.groups ? spec->views.group[group].interpolation : spec->interpolation;
	if (list->count) {
		recipe = transforms_pixels(list);
		const bool several = spec->shape.sizes.count || spec->buckets.count;
		if (several && recipe.kind == PIXEL_RESIZE)
			recipe.resize = size;
		if (several)
			recipe.size = size;
	}
	recipe.fast = spec->decode == SPEC_DECODE_FAST;
	return recipe;
}

struct pixel_recipe spec_pixels(const struct stream_spec *spec, uint32_t group)
{
	return spec_pixels_of(spec, group, spec_group_size(spec, group));
}

struct pixel_recipe spec_pixels_at(const struct stream_spec *spec, uint32_t group, uint64_t epoch)
{
	return spec_pixels_of(
		spec, group, shape_size(&spec->shape.sizes, epoch, spec_group_size(spec, group)));
}

struct pixel_recipe spec_pixels_in(const struct stream_spec *spec, uint32_t group, uint32_t bucket)
{
	assert(group < spec_groups(spec) && bucket < spec->buckets.count);
	return spec_pixels_of(spec, group, spec->buckets.size[bucket]);
}

uint32_t spec_places(const struct stream_spec *spec)
{
	return spec->buckets.count ? spec->buckets.count : UTIL_MAX(spec->shape.sizes.count, 1u);
}

struct pixel_recipe spec_pixels_place(
	const struct stream_spec *spec, uint32_t group, uint32_t place)
{
	return spec->buckets.count ? spec_pixels_in(spec, group, place)
				   : spec_pixels_at(spec, group, spec->shape.sizes.at[place].epoch);
}

const char *spec_call(const struct stream_spec *spec, char *buffer, size_t room)
{
	bool named = spec->name[0];
	(void)snprintf(buffer, room, "stream %s%s%s%s", named ? spec->name : "of ",
		named ? " (" : "", spec->source, named ? ")" : "");
	return buffer;
}

void spec_steps(const struct stream_spec *spec, uint32_t group, struct step_recipe *ret)
{
	struct transforms room;
	const struct transforms *list = spec_group_list(spec, group, &room);
	transforms_steps(list, ret);
	if (transforms_whole(list))
		ret->pixels = spec->max_image_pixels;
}

uint32_t spec_salt(const struct stream_spec *spec)
{
	if (!spec->salt[0])
		return 0;
	uint64_t h = hash_mix(hash_bytes(HASH_SEED, spec->salt, strlen(spec->salt)));
	return (uint32_t)h ? (uint32_t)h : 1;
}

uint64_t spec_draw_seed(const struct stream_spec *spec)
{
	return philox_salted(spec->seed, spec_salt(spec));
}

uint64_t spec_order_hash(const struct stream_spec *spec)
{
	/* The hash does not depend on the dataset: its fingerprint covers the number of samples. */
	const struct order order = {.samples = 1,
		.seed = spec->seed,
		.shuffle = spec->shuffle,
		.window = spec->shuffle == SHUFFLE_BLOCKS ? spec->window : 0};
	uint64_t h = order_hash(&order);
	if (spec->shuffle == SHUFFLE_BLOCKS && spec->blocks_hash)
		h = hash_u64(h, spec->blocks_hash);
	/* Without a subset, the hash is the same as in releases without subsets. */
	if (spec->subset.count)
		h = hash_mix(hash_u64(hash_u64(h, spec->subset.count), spec->subset.hash));
	h = sampling_hash(&spec->sampling, h);
	if (!spec->buckets.count)
		return h;
	/* The batches of an epoch are ordered by their number, which depends on drop_last. */
	h = hash_u64(bucket_keys_hash(&spec->buckets, h), spec->drop_last);
	if (spec->divided.count)
		h = hash_u64(h, spec->divided.hash);
	return hash_mix(h);
}

bool spec_find_blocks(const struct stream_spec *spec, uint64_t order, uint32_t *ret_window)
{
	enum { WINDOWS = 256 };
	struct stream_spec other = *spec;
	other.shuffle = SHUFFLE_BLOCKS;
	for (uint32_t i = 0; i <= WINDOWS; i++) {
		other.window = i ? i : spec->window;
		for (uint32_t power = 0; power <= SHUFFLE_POWERS; power++) {
			other.blocks_hash = power < SHUFFLE_POWERS ? shuffle_power_hash(power)
								   : spec->blocks_hash;
			if (spec_order_hash(&other) == order) {
				*ret_window = other.window;
				return true;
			}
		}
	}
	return false;
}

static uint64_t spec_hash_double(uint64_t h, const char *what, double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof bits);
	return hash_u64(hash_bytes(h, what, strlen(what)), bits);
}

/* Hashes only the values of a list that differ from those of a stream without a list, so that the
 * states of such streams stay valid. */
static uint64_t spec_hash_list(uint64_t h, const struct pixel_recipe *recipe)
{
	const bool crop = recipe->kind == PIXEL_RESIZED_CROP;
	const struct pixel_size square = pixel_square(recipe->size.height);
	const struct pixel_recipe plain =
		crop ? pixel_recipe_train(square) : pixel_recipe_eval(square);
	const struct {
		const char *what;
		double value, plain;
	} numbers[] = {
		{"scale from", recipe->scale[0], plain.scale[0]},
		{"scale to", recipe->scale[1], plain.scale[1]},
		{"ratio from", recipe->ratio[0], plain.ratio[0]},
		{"ratio to", recipe->ratio[1], plain.ratio[1]},
		{"resize", recipe->resize.height, plain.resize.height},
		{"both", recipe->both, plain.both},
		{"wider resize", recipe->resize.width, recipe->resize.height},
		{"width", recipe->size.width, recipe->size.height},
		{"flip", recipe->flip, plain.flip},
		{"flip vertical", recipe->flip_vertical, plain.flip_vertical},
		{"random window", recipe->random_window, plain.random_window},
		{"padding mode", recipe->padding.mode, plain.padding.mode},
		{"padding left", recipe->padding.left, plain.padding.left},
		{"padding top", recipe->padding.top, plain.padding.top},
		{"padding right", recipe->padding.right, plain.padding.right},
		{"padding bottom", recipe->padding.bottom, plain.padding.bottom},
		{"padding if needed", recipe->padding.if_needed, plain.padding.if_needed},
		{"padding red", recipe->padding.fill[0], plain.padding.fill[0]},
		{"padding green", recipe->padding.fill[1], plain.padding.fill[1]},
		{"padding blue", recipe->padding.fill[2], plain.padding.fill[2]},
	};
	for (size_t i = 0; i < UTIL_COUNT(numbers); i++)
		if (numbers[i].value != numbers[i].plain)
			h = spec_hash_double(h, numbers[i].what, numbers[i].value);
	return h;
}

/* Every group but the first: the hash of a stream of one group is that of the plain stream. */
static uint64_t spec_hash_groups(uint64_t h, const struct stream_spec *spec)
{
	struct transforms room;
	for (uint32_t i = 1; i < spec_groups(spec); i++) {
		const struct pixel_recipe recipe = spec_pixels(spec, i);
		h = hash_u64(hash_bytes(h, "group from view", 15), spec_group_views(spec, i - 1));
		h = hash_u64(hash_u64(h, recipe.kind), recipe.size.height);
		if (recipe.filter != WEIGHTS_BILINEAR)
			h = hash_u64(hash_bytes(h, "filter", 6), recipe.filter);
		h = transforms_hash(spec_hash_list(h, &recipe), spec_group_list(spec, i, &room));
	}
	return h;
}

/* Fields decide which samples are broken, and belong to what is delivered. */
static uint64_t spec_hash_fields(uint64_t h, const struct field_list *list)
{
	for (uint32_t i = 0; i < list->count; i++) {
		const struct field *field = &list->at[i];
		h = hash_bytes(hash_bytes(h, "field", 5), field->name, strlen(field->name) + 1);
		h = hash_u64(hash_u64(h, field->max), 2u * field->cut + field->empty);
	}
	return h;
}

uint64_t spec_transform_hash(const struct stream_spec *spec)
{
	static const struct stream_spec plain = SPEC_DEFAULT;
	struct transforms room;
	const struct pixel_recipe recipe = spec_pixels(spec, 0);
	uint64_t h = hash_bytes(HASH_SEED, "transform 1", 11);
	h = hash_u64(h, recipe.kind);
	h = hash_u64(h, recipe.size.height);
	/* The default adds nothing, so that states from releases without this choice stay valid. */
	if (recipe.fast)
		h = hash_bytes(h, "fast", 4);
	if (recipe.filter != WEIGHTS_BILINEAR)
		h = hash_u64(hash_bytes(h, "filter", 6), recipe.filter);
	/* They decide which samples are broken. */
	if (spec->max_image_pixels != plain.max_image_pixels)
		h = hash_u64(hash_bytes(h, "pixels", 6), spec->max_image_pixels);
	if (spec->max_file_bytes != plain.max_file_bytes)
		h = hash_u64(hash_bytes(h, "bytes", 5), spec->max_file_bytes);
	h = transforms_hash(spec_hash_list(h, &recipe), spec_group_list(spec, 0, &room));
	h = spec_hash_groups(h, spec);
	if (spec->salt[0])
		h = hash_u64(hash_bytes(h, "salt", 4), spec_salt(spec));
	h = spec_hash_fields(h, &spec->fields);
	h = bucket_keys_hash(&spec->buckets, h);
	return hash_mix(shape_hash(&spec->shape, h));
}

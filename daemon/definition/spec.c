/* spec: see spec.h; what a definition comes to is in spec_meaning.c, its state in spec_state.c.
 *
 * One table describes the keys; reading, comparing and printing walk it, so that a key cannot be
 * forgotten in one of them. Pure functions over the caller's text: the event loop's thread, and the
 * tools'. */
#include "definition/spec.h"

#include "base/util.h"
#include "base/yaml.h"
#include "definition/label_keys.h"
#include "definition/spec_state.h"
#include "definition/weigh.h"
#include "proto/jsontext.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Places in the table, and bits of `given`. */
enum {
	SPEC_STREAM,
	SPEC_SOURCE,
	SPEC_SOURCES,
	SPEC_SPLIT,
	SPEC_INDICES,
	SPEC_WEIGHTS,
	SPEC_EPOCH_LENGTH,
	SPEC_REPEATS,
	SPEC_BATCH_SIZE,
	SPEC_IMAGE_SIZE,
	SPEC_VIEWS,
	SPEC_DTYPE,
	SPEC_LAYOUT,
	SPEC_MEAN,
	SPEC_STD,
	SPEC_TRAIN,
	SPEC_SHUFFLE,
	SPEC_DROP_LAST,
	SPEC_SEED,
	SPEC_EPOCHS,
	SPEC_PREFETCH,
	SPEC_LABELS,
	SPEC_ON_BROKEN,
	SPEC_MAX_BROKEN,
	SPEC_DECODE,
	SPEC_INTERPOLATION,
	SPEC_TRANSFORMS,
	SPEC_GROUP,
	SPEC_SHARE,
	SPEC_RANK,
	SPEC_WORLD_SIZE,
	SPEC_WAIT_FOR,
	SPEC_LAGGARD,
	SPEC_LAGGARD_TIMEOUT,
	SPEC_STATE,
	SPEC_PIN_MEMORY,
	SPEC_RECONNECT,
	SPEC_KEYS,
};

#define SPEC_BIT(key) ((uint64_t)1 << (key))

/* Keys that say who reads how far, not what the batches are: a client may write them beside
 * `stream:`. */
static const uint64_t spec_reader_keys =
	SPEC_BIT(SPEC_EPOCHS) | SPEC_BIT(SPEC_GROUP) | SPEC_BIT(SPEC_SHARE) | SPEC_BIT(SPEC_RANK) |
	SPEC_BIT(SPEC_WORLD_SIZE) | SPEC_BIT(SPEC_WAIT_FOR) | SPEC_BIT(SPEC_LAGGARD) |
	SPEC_BIT(SPEC_LAGGARD_TIMEOUT) | SPEC_BIT(SPEC_STATE) | SPEC_BIT(SPEC_PIN_MEMORY) |
	SPEC_BIT(SPEC_RECONNECT);

/* Keys that two who share a group need not agree on; of indices and weights it is the content that
 * counts. */
static const uint64_t spec_private_keys =
	SPEC_BIT(SPEC_STREAM) | SPEC_BIT(SPEC_INDICES) | SPEC_BIT(SPEC_WEIGHTS) |
	SPEC_BIT(SPEC_EPOCHS) | SPEC_BIT(SPEC_PREFETCH) | SPEC_BIT(SPEC_GROUP) |
	SPEC_BIT(SPEC_RANK) | SPEC_BIT(SPEC_WAIT_FOR) | SPEC_BIT(SPEC_LAGGARD) |
	SPEC_BIT(SPEC_LAGGARD_TIMEOUT) | SPEC_BIT(SPEC_STATE) | SPEC_BIT(SPEC_PIN_MEMORY) |
	SPEC_BIT(SPEC_RECONNECT);

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

enum { SPEC_WORLD_MAX = 65536 };

#define SPEC_FIELD(member) .offset = offsetof(struct stream_spec, member)
#define SPEC_TEXT_FIELD(member) SPEC_FIELD(member), .room = sizeof((struct stream_spec *)0)->member

static const struct yaml_key spec_keys[SPEC_KEYS] = {
	[SPEC_STREAM] = {"stream", YAML_KEY_NAME, SPEC_TEXT_FIELD(name)},
	[SPEC_SOURCE] = {"source", YAML_KEY_STRING, SPEC_TEXT_FIELD(source), .min = 1},
	[SPEC_INDICES] = {"indices", YAML_KEY_STRING, SPEC_TEXT_FIELD(indices), .min = 1},
	[SPEC_SOURCES] = {"sources", YAML_KEY_NODE, SPEC_FIELD(sampling.sources),
		.read = sampling_read_sources},
	[SPEC_SPLIT] = {"split", YAML_KEY_STRING, SPEC_TEXT_FIELD(sampling.split), .min = 1},
	[SPEC_WEIGHTS] = {"weights", YAML_KEY_STRING, SPEC_TEXT_FIELD(sampling.weights), .min = 1},
	[SPEC_EPOCH_LENGTH] = {"epoch_length", YAML_KEY_U64, SPEC_FIELD(sampling.epoch_length),
		.min = 1, .max = SAMPLER_LENGTH_MAX},
	[SPEC_REPEATS] = {"repeats", YAML_KEY_U32, SPEC_FIELD(sampling.repeats), .min = 1,
		.max = SAMPLER_REPEATS},
	[SPEC_BATCH_SIZE] = {"batch_size", YAML_KEY_U32, SPEC_FIELD(batch_size), .min = 1,
		.max = 65536},
	[SPEC_IMAGE_SIZE] = {"image_size", YAML_KEY_NODE, SPEC_FIELD(shape.sizes),
		.read = shape_read_sizes},
	[SPEC_VIEWS] = {"views", YAML_KEY_U32, SPEC_FIELD(shape.views), .min = 1,
		.max = SHAPE_VIEWS_MAX},
	[SPEC_DTYPE] = {"dtype", YAML_KEY_ENUM, SPEC_FIELD(shape.dtype),
		.names = shape_dtype_names},
	[SPEC_LAYOUT] = {"layout", YAML_KEY_ENUM, SPEC_FIELD(shape.layout),
		.names = shape_layout_names},
	[SPEC_MEAN] = {"mean", YAML_KEY_NODE, SPEC_FIELD(shape.mean), .read = shape_read_mean},
	[SPEC_STD] = {"std", YAML_KEY_NODE, SPEC_FIELD(shape.std), .read = shape_read_std},
	[SPEC_TRAIN] = {"train", YAML_KEY_BOOL, SPEC_FIELD(train)},
	[SPEC_SHUFFLE] = {"shuffle", YAML_KEY_BOOL, SPEC_FIELD(shuffle)},
	[SPEC_DROP_LAST] = {"drop_last", YAML_KEY_BOOL, SPEC_FIELD(drop_last)},
	[SPEC_SEED] = {"seed", YAML_KEY_U64, SPEC_FIELD(seed), .max = UINT64_MAX},
	/* An epoch's number is 32 bits of every random draw's counter. */
	[SPEC_EPOCHS] = {"epochs", YAML_KEY_U64, SPEC_FIELD(epochs), .max = UINT32_MAX},
	[SPEC_PREFETCH] = {"prefetch", YAML_KEY_U32, SPEC_FIELD(prefetch), .min = 2, .max = 64},
	[SPEC_LABELS] = {"labels", YAML_KEY_NODE, SPEC_FIELD(labels), .read = label_keys_read},
	[SPEC_ON_BROKEN] = {"on_broken", YAML_KEY_ENUM, SPEC_FIELD(on_broken),
		.names = spec_broken_names},
	[SPEC_MAX_BROKEN] = {"max_broken", YAML_KEY_DOUBLE, SPEC_FIELD(max_broken), .low = 0,
		.high = 1},
	[SPEC_DECODE] = {"decode", YAML_KEY_ENUM, SPEC_FIELD(decode), .names = spec_decode_names},
	[SPEC_INTERPOLATION] = {"interpolation", YAML_KEY_ENUM, SPEC_FIELD(interpolation),
		.names = weights_filter_names},
	[SPEC_TRANSFORMS] = {"transforms", YAML_KEY_NODE, SPEC_FIELD(transforms),
		.read = transforms_read},
	[SPEC_GROUP] = {"group", YAML_KEY_NAME, SPEC_TEXT_FIELD(group)},
	[SPEC_SHARE] = {"share", YAML_KEY_ENUM, SPEC_FIELD(share), .names = spec_share_names},
	[SPEC_RANK] = {"rank", YAML_KEY_U32, SPEC_FIELD(rank), .max = SPEC_WORLD_MAX - 1},
	[SPEC_WORLD_SIZE] = {"world_size", YAML_KEY_U32, SPEC_FIELD(world_size), .min = 1,
		.max = SPEC_WORLD_MAX},
	[SPEC_WAIT_FOR] = {"wait_for", YAML_KEY_U32, SPEC_FIELD(wait_for), .min = 1, .max = 1024},
	[SPEC_LAGGARD] = {"laggard", YAML_KEY_ENUM, SPEC_FIELD(laggard),
		.names = spec_laggard_names},
	[SPEC_LAGGARD_TIMEOUT] = {"laggard_timeout_s", YAML_KEY_U32, SPEC_FIELD(laggard_timeout_s),
		.min = 1, .max = 86400},
	[SPEC_STATE] = {"state", YAML_KEY_NODE, SPEC_FIELD(state), .read = spec_state_read},
	[SPEC_PIN_MEMORY] = {"pin_memory", YAML_KEY_BOOL, SPEC_FIELD(pin_memory)},
	[SPEC_RECONNECT] = {"reconnect", YAML_KEY_BOOL, SPEC_FIELD(reconnect)},
};

#define SPEC_SCHEME "stream:"

/* Definition
 * ---------------------------------------------------------------------------------------------------
 */

void spec_init(struct stream_spec *ret)
{
	*ret = (struct stream_spec){
		.sampling = {.repeats = 1},
		.batch_size = 64,
		.image_size = 224,
		.shape = shape_default(),
		.train = true,
		.shuffle = true,
		.drop_last = true,
		.prefetch = 4,
		.labels = {.from = DATASET_LABELS_AUTO},
		.on_broken = SPEC_BROKEN_SUBSTITUTE,
		.max_broken = 0.01,
		.world_size = 1,
		.wait_for = 1,
		.laggard_timeout_s = 60,
	};
}

static bool spec_draws(const struct stream_spec *spec)
{
	return spec->sampling.weights[0] || spec->sampling.sources.count;
}

/* What `train` implies where nothing else was written. */
static void spec_imply(struct stream_spec *spec)
{
	if (!(spec->given & SPEC_BIT(SPEC_SHUFFLE)))
		spec->shuffle =
			spec->train || spec->sampling.weights[0] || spec->sampling.sources.count;
	if (!(spec->given & SPEC_BIT(SPEC_DROP_LAST)))
		spec->drop_last = spec->train;
	if (!(spec->given & SPEC_BIT(SPEC_ON_BROKEN)))
		spec->on_broken = spec->train ? SPEC_BROKEN_SUBSTITUTE : SPEC_BROKEN_MARK;
}

/* `source: stream:NAME`, as users write it on a command line, is `stream: NAME`. */
static int spec_unfold(const struct yaml_text *text, const yaml_node_t *node,
	struct stream_spec *spec, struct fault *fault)
{
	const char *name = spec->source + strlen(SPEC_SCHEME);
	const yaml_node_pair_t *pair = yaml_find(text, node, "source");
	if (strncmp(spec->source, SPEC_SCHEME, strlen(SPEC_SCHEME)) != 0)
		return 0;
	if (spec->given & SPEC_BIT(SPEC_STREAM) || !name[0] || strlen(name) >= sizeof spec->name)
		return yaml_fault(text, yaml_node(text, pair->value), fault,
			"source: expected stream:NAME with a name of the daemon's configuration, "
			"and no other stream: "
			"beside it");
	memcpy(spec->name, name, strlen(name) + 1);
	spec->source[0] = 0;
	spec->given ^= SPEC_BIT(SPEC_STREAM) | SPEC_BIT(SPEC_SOURCE);
	return 0;
}

static int spec_check(const struct yaml_text *text, const yaml_node_t *node,
	const struct stream_spec *spec, struct fault *fault)
{
	uint64_t named = SPEC_BIT(SPEC_STREAM) | spec_reader_keys;
	if (!(spec->given &
		    (SPEC_BIT(SPEC_STREAM) | SPEC_BIT(SPEC_SOURCE) | SPEC_BIT(SPEC_SOURCES))))
		return yaml_fault(text, node, fault,
			"source is missing; expected a folder, a tar, a glob or a brace range of "
			"tars");
	if (!(spec->given & SPEC_BIT(SPEC_STREAM)))
		return 0;
	for (size_t i = 0; i < SPEC_KEYS; i++)
		if (spec->given & ~named & SPEC_BIT(i)) {
			const yaml_node_pair_t *pair = yaml_find(text, node, spec_keys[i].name);
			return yaml_fault(text, yaml_node(text, pair->key), fault,
				"%s cannot be written beside stream: the configuration defines "
				"\"%s\"; beside it only "
				"what says who reads how far is allowed: epochs, group, share, "
				"rank, world_size, wait_for, laggard, laggard_timeout_s, state, "
				"pin_memory and reconnect",
				spec_keys[i].name, spec->name);
		}
	return 0;
}

/* Keys that cannot stand beside each other, and why. */
static const struct {
	int key, beside;
	const char *why;
} spec_apart[] = {
	{SPEC_SOURCES, SPEC_SOURCE, "it is written in its place"},
	{SPEC_SOURCES, SPEC_INDICES, "a list numbers the samples of one dataset"},
	{SPEC_SOURCES, SPEC_WEIGHTS, "sources have weights of their own"},
	{SPEC_SPLIT, SPEC_INDICES, "either says which samples there are"},
};

static int spec_check_apart(const struct yaml_text *text, const yaml_node_t *node,
	const struct stream_spec *spec, struct fault *fault)
{
	for (size_t i = 0; i < UTIL_COUNT(spec_apart); i++) {
		int key = spec_apart[i].key, beside = spec_apart[i].beside;
		const yaml_node_pair_t *pair = yaml_find(text, node, spec_keys[key].name);
		if (spec->given & SPEC_BIT(key) && spec->given & SPEC_BIT(beside))
			return yaml_fault(text, yaml_node(text, pair->key), fault,
				"%s cannot be written beside %s: %s; leave one of them out",
				spec_keys[key].name, spec_keys[beside].name, spec_apart[i].why);
	}
	return 0;
}

/* What draws or mixes has no order of its own to keep, and without one the same samples would be
 * repeated in every epoch and the others never come. */
static int spec_check_shuffle(const struct yaml_text *text, const yaml_node_t *node,
	const struct stream_spec *spec, struct fault *fault)
{
	const bool drawn = spec_draws(spec);
	const bool off =
		spec->given & SPEC_BIT(SPEC_SHUFFLE) ? !spec->shuffle : !spec->train && !drawn;
	const char *key = drawn ? "shuffle" : "repeats";
	if (!off || (!drawn && spec->sampling.repeats == 1))
		return 0;
	const yaml_node_t *value = yaml_node(text, yaml_find(text, node, key)->value);
	if (!drawn)
		return yaml_fault(text, value, fault,
			"repeats: expected 1 where samples are not shuffled: the first ones would "
			"come in every epoch, and the others never");
	return yaml_fault(text, value, fault, "shuffle: expected true, or nothing: %s",
		spec->sampling.weights[0] ? "samples that are drawn by weights come in no order"
					  : "samples of several sources are mixed");
}

/* Of several sources `source` is what people are told. */
static int spec_check_sampling(const struct yaml_text *text, const yaml_node_t *node,
	struct stream_spec *spec, struct fault *fault)
{
	struct split split;
	struct fault why = {{0}};
	int result = spec_check_apart(text, node, spec, fault);
	if (!result)
		result = spec_check_shuffle(text, node, spec, fault);
	if (!result && spec->sampling.split[0] && split_parse(spec->sampling.split, &split, &why))
		result = yaml_fault(text, yaml_node(text, yaml_find(text, node, "split")->value),
			fault, "split: %s", why.text);
	if (!result && spec->sampling.sources.count)
		sampling_say_sources(&spec->sampling.sources, spec->source, sizeof spec->source);
	return result;
}

/* A rank is one of how many; the configuration says neither, so `share: split` may stand alone. */
static int spec_check_rank(const struct yaml_text *text, const yaml_node_t *node,
	const struct stream_spec *spec, struct fault *fault)
{
	const uint64_t both = SPEC_BIT(SPEC_RANK) | SPEC_BIT(SPEC_WORLD_SIZE);
	const char *key = spec->given & SPEC_BIT(SPEC_RANK) ? "rank" : "world_size";
	if (!(spec->given & both) ||
		((spec->given & both) == both && spec->rank < spec->world_size))
		return 0;
	const yaml_node_t *value = yaml_node(text, yaml_find(text, node, key)->value);
	if ((spec->given & both) != both)
		return yaml_fault(text, value, fault,
			"%s: expected both rank and world_size beside share: split", key);
	return yaml_fault(text, value, fault,
		"rank: expected a number below world_size, which is %" PRIu32 ", got %" PRIu32,
		spec->world_size, spec->rank);
}

static int spec_check_reconnect(const struct yaml_text *text, const yaml_node_t *node,
	const struct stream_spec *spec, struct fault *fault)
{
	if (spec->reconnect && !spec->state.given)
		return yaml_fault(text, yaml_node(text, yaml_find(text, node, "reconnect")->key),
			fault, "reconnect needs the state that the trainer goes on from");
	return 0;
}

static int spec_check_shape(const struct yaml_text *text, const yaml_node_t *node,
	struct stream_spec *spec, struct fault *fault)
{
	static const size_t floats[] = {SPEC_MEAN, SPEC_STD};
	if (spec->given & SPEC_BIT(SPEC_IMAGE_SIZE))
		spec->image_size = shape_settle_sizes(&spec->shape.sizes);
	for (size_t i = 0; i < UTIL_COUNT(floats); i++) {
		const char *name = spec_keys[floats[i]].name;
		if (spec->given & SPEC_BIT(floats[i]) && spec->shape.dtype == SHAPE_UINT8)
			return yaml_fault(text, yaml_node(text, yaml_find(text, node, name)->key),
				fault,
				"%s says something only with dtype: float32, float16 or bfloat16: "
				"uint8 is not normalised",
				name);
	}
	return 0;
}

/* Whether an operation of the list makes the size, and could make another one as well. */
static bool spec_scales(const struct pixel_recipe *recipe)
{
	return recipe->kind == PIXEL_RESIZED_CROP ||
	       (recipe->kind == PIXEL_RESIZE && recipe->both && !recipe->random_window &&
		       recipe->resize == recipe->image_size);
}

/* What is written into an erased rectangle is in units of the row. */
static int spec_check_erasing(const struct yaml_text *text, const yaml_node_t *node,
	const struct stream_spec *spec, struct fault *fault)
{
	const char *why = transforms_byte_fault(&spec->transforms);
	if (!why || spec->shape.dtype != SHAPE_UINT8)
		return 0;
	const yaml_node_t *list = yaml_node(text, yaml_find(text, node, "transforms")->value);
	/* It stands last. */
	return yaml_fault(
		text, yaml_node(text, list->data.sequence.items.top[-1]), fault, "%s", why);
}

/* Steps that need a certain size get it in all epochs. */
static int spec_check_sides(const struct yaml_text *text, const yaml_node_t *node,
	const struct stream_spec *spec, struct fault *fault)
{
	uint32_t least = transforms_least_side(&spec->transforms);
	for (uint32_t i = 0; i < spec->shape.sizes.count; i++)
		if (spec->shape.sizes.at[i].side < least)
			return yaml_fault(text,
				yaml_node(text, yaml_find(text, node, "image_size")->value), fault,
				"image_size: expected at least %" PRIu32
				" in all epochs, since GaussianBlur's kernel_size reaches so far; "
				"got %" PRIu32,
				least, spec->shape.sizes.at[i].side);
	return 0;
}

/* The list says it all; beside it image_size may say the same again, or which other sizes take its
 * place. */
static int spec_check_transforms(const struct yaml_text *text, const yaml_node_t *node,
	struct stream_spec *spec, struct fault *fault)
{
	if (!(spec->given & SPEC_BIT(SPEC_TRANSFORMS)))
		return 0;
	const struct pixel_recipe recipe = transforms_pixels(&spec->transforms);
	if (spec->given & SPEC_BIT(SPEC_INTERPOLATION))
		return yaml_fault(text,
			yaml_node(text, yaml_find(text, node, "interpolation")->key), fault,
			"interpolation cannot be written beside transforms: it is a parameter of "
			"its operations");
	if (spec->given & SPEC_BIT(SPEC_IMAGE_SIZE) && spec->image_size != recipe.image_size)
		return yaml_fault(text, yaml_node(text, yaml_find(text, node, "image_size")->value),
			fault,
			"image_size: expected %" PRIu32
			", the size that transforms makes, %sor nothing; got %" PRIu32,
			recipe.image_size,
			spec->shape.sizes.count ? "as the largest of all epochs, " : "",
			spec->image_size);
	if (spec->shape.sizes.count && !spec_scales(&recipe))
		return yaml_fault(text, yaml_node(text, yaml_find(text, node, "image_size")->value),
			fault,
			"image_size: the sizes of epochs can take the place of that of "
			"RandomResizedCrop or Resize: {size: [N, N]}, not of a crop's, which would "
			"then show another part of the image; write one size, or another list");
	spec->image_size = recipe.image_size;
	spec->interpolation = recipe.filter;
	int result = spec_check_erasing(text, node, spec, fault);
	return result < 0 ? result : spec_check_sides(text, node, spec, fault);
}

/* Numbers in their place are what other loaders take. */
static int spec_check_weights(
	const struct yaml_text *text, const yaml_node_t *node, struct fault *fault)
{
	size_t size;
	const yaml_node_pair_t *pair = yaml_find(text, node, "weights");
	if (!pair || yaml_scalar(yaml_node(text, pair->value), &size))
		return 0;
	return yaml_fault(text, yaml_node(text, pair->value), fault,
		"weights: expected balanced, or the path of a .npy file with a number for each "
		"sample, as numpy.save writes it; weights of whole datasets belong to sources: "
		"[{source: PATH, weight: NUMBER}, ...]");
}

static int spec_read(const struct yaml_text *text, const yaml_node_t *node, struct stream_spec *ret,
	struct fault *fault)
{
	struct stream_spec spec;
	spec_init(&spec);
	int result = spec_check_weights(text, node, fault);
	if (!result)
		result = yaml_read(text, node, spec_keys, SPEC_KEYS, &spec, &spec.given, fault);
	if (!result)
		result = spec_unfold(text, node, &spec, fault);
	if (!result)
		result = spec_check(text, node, &spec, fault);
	if (!result)
		result = spec_check_sampling(text, node, &spec, fault);
	if (!result)
		result = spec_check_rank(text, node, &spec, fault);
	if (!result)
		result = spec_check_reconnect(text, node, &spec, fault);
	if (!result)
		result = spec_check_shape(text, node, &spec, fault);
	if (!result)
		result = spec_check_transforms(text, node, &spec, fault);
	if (result < 0)
		return result;
	spec_imply(&spec);
	*ret = spec;
	return 0;
}

int spec_parse(const char *text, size_t size, const char *origin, struct stream_spec *ret,
	struct fault *fault)
{
	cleanup(yaml_text) struct yaml_text parsed = {0};
	int result = yaml_load(&parsed, text, size, origin, fault);
	return result < 0 ? result : spec_read(&parsed, parsed.root, ret, fault);
}

int spec_parse_node(void *document, void *node, const char *origin, struct stream_spec *ret,
	struct fault *fault)
{
	/* A shallow copy: the document stays the caller's. */
	struct yaml_text text = {.document = *(yaml_document_t *)document, .origin = origin};
	return spec_read(&text, node, ret, fault);
}

static size_t spec_key_bytes(const struct yaml_key *key)
{
	switch (key->kind) {
	case YAML_KEY_BOOL:
		return sizeof(bool);
	case YAML_KEY_U32:
		return sizeof(uint32_t);
	case YAML_KEY_ENUM:
		return sizeof(int);
	case YAML_KEY_NODE:
		return sizeof(struct spec_state);
	case YAML_KEY_NAME:
		return key->room;
	default:
		return sizeof(uint64_t);
	}
}

void spec_overlay(const struct stream_spec *named, struct stream_spec *spec)
{
	struct stream_spec merged = *named;
	for (size_t i = 0; i < SPEC_KEYS; i++)
		if (spec->given & spec_reader_keys & SPEC_BIT(i))
			memcpy((char *)&merged + spec_keys[i].offset,
				(const char *)spec + spec_keys[i].offset,
				spec_key_bytes(&spec_keys[i]));
	merged.given |= spec->given & spec_reader_keys;
	*spec = merged;
}

/* Whether as many trainers can come as are waited for. */
static int spec_check_wait(const struct stream_spec *spec, struct fault *fault)
{
	if (spec->wait_for > 1 && !spec->group[0] && !spec->name[0])
		return fault_set(fault, -EINVAL,
			"wait_for: %" PRIu32 " trainers cannot come to a stream without a group: "
			"have all of them name one group, or leave wait_for out",
			spec->wait_for);
	if (spec->share == SPEC_SHARE_SPLIT && spec->wait_for > spec->world_size)
		return fault_set(fault, -EINVAL,
			"wait_for: expected at most world_size, which is %" PRIu32 ", got %" PRIu32,
			spec->world_size, spec->wait_for);
	return 0;
}

int spec_check_share(const struct stream_spec *spec, struct fault *fault)
{
	bool ranked = spec->given & SPEC_BIT(SPEC_WORLD_SIZE);
	if (spec->share == SPEC_SHARE_SPLIT && !ranked)
		return fault_set(fault, -EINVAL,
			"share: split needs rank and world_size: a trainer gets the slice of its "
			"rank (libpenstock: set both, or share, which takes RANK and WORLD_SIZE)");
	if (spec->share != SPEC_SHARE_SPLIT && ranked)
		return fault_set(
			fault, -EINVAL, "rank and world_size say something only with share: split");
	return spec_check_wait(spec, fault);
}

bool spec_is_alone(const struct stream_spec *spec)
{
	return spec->share == SPEC_SHARE_SPLIT || (!spec->group[0] && !spec->name[0]);
}

bool spec_has_lists(const struct stream_spec *spec)
{
	const char *weights = spec->sampling.weights;
	return spec->indices[0] || (weights[0] && !weigh_is_balanced(weights));
}

void spec_note_lists(struct stream_spec *spec, const struct sampling_lists *lists)
{
	if (lists->indices)
		spec->subset = (struct spec_subset){lists->indices->count, lists->indices->hash};
	if (lists->weights)
		spec->sampling.weighed =
			(struct sampling_content){lists->weights->count, lists->weights->hash};
}

const char *spec_client_key(const struct stream_spec *spec)
{
	static const int keys[] = {
		SPEC_STATE, SPEC_PIN_MEMORY, SPEC_RECONNECT, SPEC_RANK, SPEC_WORLD_SIZE};
	for (size_t i = 0; i < UTIL_COUNT(keys); i++)
		if (spec->given & SPEC_BIT(keys[i]))
			return spec_keys[keys[i]].name;
	return NULL;
}

/* Lists are the same when they come to the same: one may be written and the other implied. */
static bool spec_equal(size_t key, const struct stream_spec *a, const struct stream_spec *b)
{
	switch (key) {
	case SPEC_SOURCES:
		return sampling_sources_equal(&a->sampling.sources, &b->sampling.sources);
	case SPEC_LABELS:
		return label_keys_equal(&a->labels, &b->labels);
	case SPEC_TRANSFORMS:
		return spec_transform_hash(a) == spec_transform_hash(b);
	case SPEC_IMAGE_SIZE:
		return a->image_size == b->image_size &&
		       shape_sizes_equal(&a->shape.sizes, &b->shape.sizes);
	case SPEC_MEAN:
		return shape_channels_equal(&a->shape.mean, &b->shape.mean);
	case SPEC_STD:
		return shape_channels_equal(&a->shape.std, &b->shape.std);
	default:
		return yaml_equal(&spec_keys[key], a, b);
	}
}

static bool spec_same_weights(const struct sampling *a, const struct sampling *b)
{
	bool file = a->weighed.count || b->weighed.count;
	return file ? a->weighed.count == b->weighed.count && a->weighed.hash == b->weighed.hash
		    : strcmp(a->weights, b->weights) == 0;
}

bool spec_same(const struct stream_spec *a, const struct stream_spec *b, const char **ret_what)
{
	for (size_t i = 0; i < SPEC_KEYS; i++)
		if (!(spec_private_keys & SPEC_BIT(i)) && !spec_equal(i, a, b)) {
			*ret_what = spec_keys[i].name;
			return false;
		}
	if (a->subset.count != b->subset.count || a->subset.hash != b->subset.hash) {
		*ret_what = spec_keys[SPEC_INDICES].name;
		return false;
	}
	if (spec_same_weights(&a->sampling, &b->sampling))
		return true;
	*ret_what = spec_keys[SPEC_WEIGHTS].name;
	return false;
}

/* JSON
 * ---------------------------------------------------------------------------------------------------------
 */

static void spec_json_value(struct jsontext *json, const struct yaml_key *key, const void *field)
{
	switch (key->kind) {
	case YAML_KEY_BOOL:
		jsontext_bool(json, key->name, *(const bool *)field);
		break;
	case YAML_KEY_U32:
		jsontext_u64(json, key->name, *(const uint32_t *)field);
		break;
	case YAML_KEY_U64:
		jsontext_u64(json, key->name, *(const uint64_t *)field);
		break;
	case YAML_KEY_DOUBLE:
		jsontext_shortest(json, key->name, *(const double *)field);
		break;
	case YAML_KEY_ENUM:
		jsontext_string(json, key->name, key->names[*(const int *)field]);
		break;
	case YAML_KEY_NODE:
		if (key->read == transforms_read)
			transforms_json(json, key->name, field);
		else if (key->read == label_keys_read)
			label_keys_json(json, key->name, field);
		else if (key->read == sampling_read_sources)
			sampling_json_sources(json, key->name, field);
		else
			shape_json_channels(json, key->name, field);
		break;
	default:
		jsontext_string(json, key->name, field);
	}
}

/* What the printed definition has: a reference to a named stream has no more than was written, a
 * definition has all but the name, so that either can be read back. */
static bool spec_printed(const struct stream_spec *spec, size_t key)
{
	if (key == SPEC_SOURCES || key == SPEC_SOURCE)
		return (spec->sampling.sources.count > 0) == (key == SPEC_SOURCES) &&
		       spec->source[0];
	if (key == SPEC_EPOCH_LENGTH)
		return spec->sampling.epoch_length;
	if (key == SPEC_REPEATS)
		return spec->sampling.repeats > 1;
	if (key == SPEC_GROUP || key == SPEC_INDICES || key == SPEC_SPLIT || key == SPEC_WEIGHTS)
		return ((const char *)spec + spec_keys[key].offset)[0];
	if (key == SPEC_RANK || key == SPEC_WORLD_SIZE)
		return spec->given & SPEC_BIT(SPEC_WORLD_SIZE);
	if (key == SPEC_MEAN || key == SPEC_STD)
		return spec->shape.dtype != SHAPE_UINT8 &&
		       (spec->source[0] || spec->given & SPEC_BIT(key));
	if (key == SPEC_TRANSFORMS || key == SPEC_INTERPOLATION)
		return (spec->transforms.count > 0) == (key == SPEC_TRANSFORMS) &&
		       (spec->source[0] || spec->given & SPEC_BIT(key));
	if (!spec->source[0])
		return spec->given & SPEC_BIT(key);
	return key != SPEC_STREAM;
}

char *spec_json(const struct stream_spec *spec)
{
	struct jsontext json = {0};
	jsontext_object(&json, NULL);
	for (size_t i = 0; i < SPEC_STATE; i++) {
		if (!spec_printed(spec, i))
			continue;
		if (i == SPEC_IMAGE_SIZE)
			shape_json_sizes(
				&json, spec_keys[i].name, &spec->shape.sizes, spec->image_size);
		else
			spec_json_value(
				&json, &spec_keys[i], (const char *)spec + spec_keys[i].offset);
	}
	if (spec->state.given)
		spec_state_json(&json, &spec->state);
	jsontext_end(&json);
	return json.text.failed ? NULL : json.text.bytes;
}

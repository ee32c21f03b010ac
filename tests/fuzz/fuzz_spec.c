/* Definitions of streams and lists of operations, as clients and configurations write them.
 *
 * The first byte tells what the others are. Expected: no read beyond the given bytes; every
 * refusal names the place; an accepted definition, printed and read again, is the same
 * definition, prints the same, and has the same hashes, also when read through a definition that
 * names it. */
#include "definition/spec.h"

#include "fuzz/drive.h"
#include "fuzz/phrase.h"
#include "fuzz/state_equal.h"
#include "fuzz/want.h"

#include <errno.h>

enum { TEXT_ROOM = 8192 };

static const char origin[] = "fuzz:";

static void want_refusal(int rc, const struct fault *fault)
{
	want(rc == -EINVAL, "refused with another code");
	want(strncmp(fault->text, origin, sizeof origin - 1) == 0, "refused without a place");
}

static int parse(const char *text, size_t size, struct stream_spec *spec)
{
	struct fault fault = {{0}};
	int rc = spec_parse(text, size, "fuzz", spec, &fault);
	if (rc)
		want_refusal(rc, &fault);
	return rc;
}

static void check_ranges(const struct stream_spec *spec)
{
	want(spec->batch_size >= 1 && spec->batch_size <= 65536, "batch_size out of its range");
	want(spec->image_size.height >= 1 && spec->image_size.width >= 1 &&
			pixel_longer(spec->image_size) <= PIXEL_SIDE_MAX,
		"image_size out of its range");
	want(spec->prefetch >= 2 && spec->prefetch <= 64, "prefetch out of its range");
	want(spec->max_broken >= 0 && spec->max_broken <= 1, "max_broken out of its range");
	want(spec->world_size <= 65536, "world_size out of its range");
	want(spec->wait_for >= 1 && spec->wait_for <= 1024, "wait_for out of its range");
	want(strnlen(spec->source, SPEC_TEXT) < SPEC_TEXT &&
			strnlen(spec->group, SPEC_NAME) < SPEC_NAME,
		"a text without an end");
	want(spec->transforms.count <= TRANSFORMS_MAX, "too many operations");
	uint32_t views = 0;
	for (uint32_t i = 0; i < spec_groups(spec); i++) {
		const struct pixel_size size = spec_group_size(spec, i);
		views += spec_group_views(spec, i);
		want(size.height >= 1 && size.height <= spec->image_size.height &&
				size.width >= 1 && size.width <= spec->image_size.width,
			"a group larger than the largest image");
	}
	want(spec->buckets.count <= BUCKETS_MAX && (!spec->buckets.count || spec_groups(spec) <= 1),
		"too many buckets, or groups of views beside them");
	for (uint32_t i = 0; i < spec->buckets.count; i++)
		want(spec->buckets.size[i].height >= 1 && spec->buckets.size[i].width >= 1 &&
				pixel_longer(spec->buckets.size[i]) <= PIXEL_SIDE_MAX,
			"the size of a bucket out of its range");
	want(spec->fields.count <= FIELDS_MAX, "too many fields");
	want(views >= 1 && views <= SLOTS_VIEWS_MAX && views == spec->views.count &&
			views == spec->shape.views,
		"views out of their range");
}

static void check_same(const struct stream_spec *a, const struct stream_spec *b)
{
	static struct step_recipe steps[2];
	const char *what = NULL;
	struct fault fault[2] = {{{0}}, {{0}}};
	want(spec_same(a, b, &what), "it reads back as another definition");
	want(spec_order_hash(a) == spec_order_hash(b), "another order's hash");
	want(spec_transform_hash(a) == spec_transform_hash(b), "another transform's hash");
	want(spec_check_share(a, &fault[0]) == spec_check_share(b, &fault[1]), "another share");
	want(strcmp(fault[0].text, fault[1].text) == 0, "its share is refused differently");
	want(strcmp(a->name, b->name) == 0 && strcmp(a->group, b->group) == 0, "another name");
	want(a->epochs == b->epochs && a->prefetch == b->prefetch && a->wait_for == b->wait_for,
		"other numbers");
	want(state_equal(&a->state, &b->state), "another state");
	want(spec_is_alone(a) == spec_is_alone(b) && spec_has_lists(a) == spec_has_lists(b),
		"another nature");
	want(spec_groups(a) == spec_groups(b), "another number of groups");
	for (uint32_t i = 0; i < spec_groups(a); i++) {
		spec_steps(a, i, &steps[0]);
		spec_steps(b, i, &steps[1]);
		want(steps[0].count == steps[1].count, "other steps");
	}
}

static void try_definition(const char *text, size_t size)
{
	static struct stream_spec spec, again, over;
	if (parse(text, size, &spec))
		return;
	check_ranges(&spec);
	cleanup(free_ptr) char *json = spec_json(&spec);
	want(json != NULL, "it has no printed form");
	want(parse(json, strlen(json), &again) == 0, "its printed form is refused");
	cleanup(free_ptr) char *twice = spec_json(&again);
	want(twice && strcmp(json, twice) == 0, "the second printed form differs");
	check_same(&spec, &again);
	/* Overlaying a definition with itself changes nothing. */
	over = spec;
	spec_overlay(&again, &over);
	check_ranges(&over);
	want(spec_order_hash(&over) == spec_order_hash(&again), "another order when overlaid");
}

static void try_transforms(const char *text, size_t size)
{
	static struct transforms list, again;
	struct fault fault = {{0}};
	char words[64];
	int rc = transforms_parse(text, size, "fuzz", &list, &fault);
	if (rc) {
		want_refusal(rc, &fault);
		return;
	}
	struct jsontext json = {0};
	transforms_json(&json, NULL, &list);
	want(!json.text.failed && json.text.size <= TRANSFORMS_JSON_MAX,
		"a text longer than promised");
	want(transforms_parse(json.text.bytes, json.text.size, "fuzz", &again, &fault) == 0,
		"its printed form is refused");
	want(transforms_hash(1, &list) == transforms_hash(1, &again), "another hash");
	struct jsontext twice = {0};
	transforms_json(&twice, NULL, &again);
	want(!twice.text.failed && strcmp(json.text.bytes, twice.text.bytes) == 0,
		"the second printed form differs");
	jsontext_free(&twice);
	jsontext_free(&json);
	transforms_text(&list, words, sizeof words);
	want(strnlen(words, sizeof words) < sizeof words, "words without an end");
	const struct pixel_size least = transforms_least_size(&list);
	want(least.height >= 1 && least.width >= 1 && pixel_longer(least) <= TRANSFORMS_SIDE_MAX,
		"a size out of its range");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0 || size > TEXT_ROOM)
		return 0;
	char *exact = malloc(size);
	want(exact != NULL, "no memory");
	memcpy(exact, data + 1, size - 1);
	if (data[0] % 2)
		try_transforms(exact, size - 1);
	else
		try_definition(exact, size - 1);
	free(exact);
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
static size_t compose(uint8_t *bytes, size_t room, struct random *random)
{
	struct phrase phrase = {(char *)bytes, 1, room, random};
	bytes[0] = (uint8_t)draw(random, 2);
	if (bytes[0])
		phrase_transforms(&phrase);
	else
		phrase_definition(&phrase, true);
	return phrase.size;
}

const struct drive fuzz_drive = {"fuzz_spec", TEXT_ROOM, compose, NULL};
#endif

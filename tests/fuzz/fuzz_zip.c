/* fuzz_zip: ZIP files made of choices (zip_make.h), true, with numbers that lie, spoiled or cut,
 * and any bytes.
 *
 * The first byte tells what the others are. Expected: a true file is indexed, with the members that
 * it was made of, in ImageFolder's order and with its labels. Any other file is indexed, and every
 * sample that is listed is within the file and can be read or is damaged, and no two of them
 * overlap; or it is refused with a sentence that names it. */
#include "fuzz/drive.h"
#include "fuzz/shard.h"
#include "fuzz/zip_make.h"

#include "base/name_order.h"
#include "base/util.h"

#include <string.h>

enum { INPUT_ROOM = 4096 };

/* The first byte. */
enum {
	HOW_RAW = 1, /* the others are the file */
	HOW_LIE = 2,
	HOW_SPOIL = 4,
	HOW_CUT = 8,
	HOW_UNLABELLED = 16,
};

static struct zip_made made;
static struct {
	unsigned count;
	struct zip_made_member *member[ZIP_MADE_MEMBERS];
	int32_t label[ZIP_MADE_MEMBERS];
} expected;

static void make(uint8_t how, struct recipe *recipe)
{
	if (how & HOW_RAW) {
		made.count = 0;
		made.size = recipe_copy(recipe, made.bytes, INPUT_ROOM);
		return;
	}
	zip_make(&made, recipe, how & HOW_LIE);
	if (how & HOW_SPOIL)
		recipe_spoil(recipe, made.bytes, made.size, 2);
	if ((how & HOW_CUT) && made.size)
		made.size -= recipe_number(recipe, 2) % made.size;
}

/* ---- a true file: what must be found ---- */

static int order(const void *left, const void *right)
{
	const struct zip_made_member *a = *(struct zip_made_member *const *)left;
	const struct zip_made_member *b = *(struct zip_made_member *const *)right;
	/* The names have one to three parts: class, folder, file. */
	char one[3][ZIP_MADE_NAME] = {"", "", ""}, other[3][ZIP_MADE_NAME] = {"", "", ""};
	for (int side = 0; side < 2; side++) {
		char(*parts)[ZIP_MADE_NAME] = side ? other : one;
		const char *name = side ? b->name : a->name, *slash = strrchr(name, '/');
		if (slash) {
			memcpy(parts[0], name, strcspn(name, "/"));
			memcpy(parts[1], name, (size_t)(slash - name));
		}
		(void)strcpy(parts[2], slash ? slash + 1 : name);
	}
	for (int i = 0; i < 3; i++) {
		int found = name_order(one[i], other[i]);
		if (found)
			return found;
	}
	return 0;
}

/* The members that must be samples, in the order that they must have. */
static void expect(void)
{
	int32_t label = -1;
	expected.count = 0;
	for (unsigned i = 0; i < made.count; i++)
		if (made.member[i].image)
			expected.member[expected.count++] = &made.member[i];
	qsort(expected.member, expected.count, sizeof expected.member[0], order);
	for (unsigned i = 0; i < expected.count; i++) {
		const char *name = expected.member[i]->name;
		const size_t part = strcspn(name, "/");
		if (i == 0 || strncmp(name, expected.member[i - 1]->name, part + 1) != 0)
			label++;
		expected.label[i] = name[part] ? label : -1;
	}
}

static void check_true(const struct shard *shard, const struct shard_sample *sample)
{
	const struct zip_made_member *member = expected.member[sample->number];
	const bool labelled = shard->asked != DATASET_LABELS_NONE;
	want(!strcmp(sample->name, member->name), "a sample of another name, or out of order");
	want(sample->record.label == (labelled ? expected.label[sample->number] : -1),
		"a sample with another label");
	want(sample->record.size == member->size, "a sample of another size");
	want(!memcmp(sample->bytes, member->data, member->size), "a sample with other bytes");
}

/* ---- any file ---- */

static void check_any(const struct shard_sample *sample)
{
	static struct {
		uint64_t from, to;
	} range[4096];
	const struct index_record *record = &sample->record;
	const uint64_t i = sample->number;
	want(!strstr(sample->name, "../"), "a name that leads out of the archive");
	if (i >= UTIL_COUNT(range))
		return;
	range[i].from = record->offset;
	range[i].to = record->offset + packed_stored(&record->packed, record->size);
	for (uint64_t j = 0; j < i; j++)
		want(range[j].to <= range[i].from || range[i].to <= range[j].from,
			"samples overlap");
}

static void on_sample(const struct shard *shard, const struct shard_sample *sample)
{
	if (shard->sound)
		check_true(shard, sample);
	check_any(sample);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0 || size > INPUT_ROOM)
		return 0;
	struct recipe recipe = {data, size, 1};
	const uint8_t how = data[0];
	make(how, &recipe);
	const bool sound = !(how & (HOW_RAW | HOW_LIE | HOW_SPOIL | HOW_CUT));
	if (sound)
		expect();
	struct shard shard = {.container = &container_zip,
		.name = "fuzz.zip",
		.bytes = made.bytes,
		.size = made.size,
		.asked = how & HOW_UNLABELLED ? DATASET_LABELS_NONE : DATASET_LABELS_AUTO,
		.sound = sound,
		.count = expected.count,
		.damaged = true,
		.sample = on_sample};
	(void)shard_check(&shard);
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
static size_t compose(uint8_t *input, size_t room, struct random *random)
{
	size_t size = 1 + draw(random, one_in(random, 8) ? 600 : 150);
	(void)room;
	(void)drive_noise(input, size, random);
	input[0] &= one_in(random, 16) ? 0xff : (uint8_t)~HOW_RAW;
	if (one_in(random, 2))
		input[0] &= (uint8_t) ~(HOW_SPOIL | HOW_CUT);
	return size;
}

const struct drive fuzz_drive = {"fuzz_zip", INPUT_ROOM, compose, shard_end};
#endif

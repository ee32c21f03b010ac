/* fuzz_mds: shards of MDS that are made of choices (items_make.h), with descriptions of their
 * columns that fit, lie, or are no JSON. shard.h says what is expected. */
#include "fuzz/drive.h"
#include "fuzz/items_make.h"

#include "base/util.h"

enum { INPUT_ROOM = 512, FAULTS = 12 };

static struct items making;

/* The JSON between the offsets and the items; columns come in the order of their names. */
static void describe(const struct items_layout *layout, const char *image)
{
	const char *label = layout->label_first ? "class" : "label";
	char columns[2][2][64];
	(void)snprintf(columns[0][0], 64, "\"%s\"", label);
	(void)snprintf(columns[0][1], 64, "\"int\"");
	(void)snprintf(columns[1][0], 64, "\"image\"");
	(void)snprintf(columns[1][1], 64, "\"%s\"", image);
	const int one = layout->label_first ? 0 : 1, other = 1 - one;
	int size = snprintf((char *)making.text, sizeof making.text,
		"{\"column_encodings\": [%s, %s%s], \"column_names\": [%s, %s%s], "
		"\"column_sizes\": [%s, %s%s], \"compression\": null, \"format\": \"mds\", "
		"\"hashes\": [], \"size_limit\": 67108864, \"version\": 2}",
		columns[one][1], columns[other][1], layout->note ? ", \"str\"" : "",
		columns[one][0], columns[other][0], layout->note ? ", \"note\"" : "",
		one == 0 ? "8" : "null", one == 0 ? "null" : "8", layout->note ? ", null" : "");
	making.text_size = (size_t)size;
}

/* Changes a byte of the text, or one of its words to another one. */
static void spoil(void)
{
	static const char *const words[][2] = {{"int\"", "pil\""}, {"jpeg", "int8"},
		{"\"mds\"", "\"xds\""}, {"null", "-100"}, {"null", "9999"}, {"[", "{"},
		{"version", "versio"}, {"int\"", "pkl\""}, {"jpeg", "nda:"}, {"image", "label"}};
	const uint8_t how = recipe_byte(&making.faults);
	if (how < 100) {
		const size_t at = recipe_number(&making.faults, 2) % making.text_size;
		making.text[at] = recipe_byte(&making.faults);
	} else {
		const char *const *word = words[how % UTIL_COUNT(words)];
		uint8_t *found = memmem(making.text, making.text_size, word[0], strlen(word[0]));
		if (found)
			memcpy(found, word[1], strlen(word[1]));
	}
	making.damaged = true;
}

static void on_sample(const struct shard *shard, const struct shard_sample *sample)
{
	if (shard->sound)
		shard_place_check(shard, sample, &making.sample[sample->number]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct column_choice columns = {.label_offset = 0};
	struct field_list fields = {.count = 0};
	if (size == 0 || size > INPUT_ROOM)
		return 0;
	const size_t faults = UTIL_MIN(size - 1, (size_t)FAULTS);
	making.faults = (struct recipe){data + 1, faults, 0};
	making.recipe = (struct recipe){data + 1 + faults, size - 1 - faults, 0};
	making.damaged = false;
	static const char *const images[] = {"jpeg", "bytes", "png", "pil", "ndarray"};
	const char *image = images[data[0] / 32 % 5];
	static const enum items_head heads[] = {
		ITEMS_FILE, ITEMS_FILE, ITEMS_FILE, ITEMS_PIL, ITEMS_NDARRAY};
	const struct items_layout layout = {.label_first = data[0] & 1,
		.label_sized = false,
		.note = data[0] & 2,
		.head = heads[data[0] / 32 % 5]};
	describe(&layout, image);
	if ((data[0] & 12) == 12)
		spoil();
	items_make(&making, &layout);
	if (data[0] & 4)
		items_damage(&making);
	if (data[0] & 16 && layout.note)
		fields = (struct field_list){1, {{"note", 16, false, true}}};
	if (layout.head != ITEMS_FILE)
		(void)strcpy(columns.image, "image");
	struct shard shard = {.container = &container_mds,
		.name = "fuzz.mds",
		.bytes = making.file,
		.size = making.size,
		.asked = data[0] & 8 ? DATASET_LABELS_NONE : DATASET_LABELS_AUTO,
		.columns = &columns,
		.fields = &fields,
		.sound = !making.damaged,
		.count = making.count,
		.sample = on_sample};
	(void)shard_check(&shard);
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
static size_t compose(uint8_t *bytes, size_t room, struct random *random)
{
	(void)room;
	return drive_noise(bytes, 2 + FAULTS + draw(random, 60), random);
}

const struct drive fuzz_drive = {"fuzz_mds", INPUT_ROOM, compose, shard_end};
#endif

/* fuzz_litdata: chunks of LitData that are made of choices, with items (items_make.h) or with rows
 * that are stored as Arrow (arrow_make.h), beside an index.json
 * that fits, lies, or is no JSON. shard.h says what is expected. */
#include "fuzz/arrow_make.h"
#include "fuzz/drive.h"
#include "fuzz/items_make.h"

#include "base/util.h"

enum { INPUT_ROOM = 512, FAULTS = 12 };

static struct items making;
static uint8_t json[sizeof making.text];

/* Writes index.json into items->text. */
static void describe(
	const struct items_layout *layout, const char *image, bool dict, bool compressed)
{
	static const char leaf[] =
		"{\\\"type\\\": null, \\\"context\\\": null, \\\"children_spec\\\": []}";
	const char *one = layout->label_first ? "int" : image;
	const char *other = layout->label_first ? image : "int";
	char context[160] = "null";
	if (dict)
		(void)snprintf(context, sizeof context, "\\\"[%s%s]\\\"",
			layout->label_first ? "\\\\\\\"label\\\\\\\", \\\\\\\"image\\\\\\\""
					    : "\\\\\\\"image\\\\\\\", \\\\\\\"label\\\\\\\"",
			layout->note ? ", \\\\\\\"note\\\\\\\"" : "");
	making.text_size = (size_t)snprintf((char *)making.text, sizeof making.text,
		"{\"chunks\": [{\"filename\": \"chunk-0-0.bin\", \"config\": {}}], \"config\": "
		"{\"compression_level\": \"%s\", \"data_format\": [\"%s\", \"%s\"%s], "
		"\"data_spec\": "
		"\"[1, {\\\"type\\\": \\\"builtins.%s\\\", \\\"context\\\": %s, "
		"\\\"children_spec\\\": [%s, %s%s%s]}]\", \"encryption\": null, "
		"\"item_loader\": \"PyTreeLoader\"}, \"updated_at\": \"1\"}",
		compressed ? "sample" : "", one, other, layout->note ? ", \"str\"" : "",
		dict ? "dict" : "tuple", context, leaf, leaf, layout->note ? ", " : "",
		layout->note ? leaf : "");
}

static void spoil(void)
{
	static const char *const words[][2] = {{"int\"", "pil\""},
		{"\"config\": {\"c", "\"confic\": {\"c"}, {"children_spec", "children_spic"},
		{"null}", "true}"}, {"[", "{"}, {"PyTree", "Tokens"}, {"data_spec", "data_spex"},
		{"\\\"", "  "}, {"context", "contest"},
		{"encryption\": null", "encryption\": true"}};
	const uint8_t how = recipe_byte(&making.faults);
	making.damaged = true;
	if (how < 100) {
		const size_t at = recipe_number(&making.faults, 2) % making.text_size;
		making.text[at] = recipe_byte(&making.faults);
	} else if (how < 120) {
		making.text_size = recipe_number(&making.faults, 2) % making.text_size;
	} else {
		const char *const *word = words[how % UTIL_COUNT(words)];
		uint8_t *found = memmem(making.text, making.text_size, word[0], strlen(word[0]));
		if (found)
			memcpy(found, word[1], strlen(word[1]));
	}
}

static void on_sample(const struct shard *shard, const struct shard_sample *sample)
{
	if (shard->sound)
		shard_place_check(shard, sample, &making.sample[sample->number]);
}

/* The same, and its bytes. */
static void on_row(const struct shard *shard, const struct shard_sample *sample)
{
	on_sample(shard, sample);
	want(!shard->sound || sample->record.size < 3 || !memcmp(sample->bytes, "\xff\xd8\xff", 3),
		"a sample that begins with other bytes");
	for (uint32_t i = 3; shard->sound && i < sample->record.size; i++)
		want(sample->bytes[i] == 0x5a, "a sample with other bytes");
}

/* Moves the text that was described to `json`: the chunk itself has none. */
static size_t text_take(void)
{
	const size_t size = making.text_size;
	memcpy(json, making.text, size);
	making.text_size = 0;
	return size;
}

/* Puts `size` bytes as a Zstandard frame with one block that is stored as it is. */
static size_t frame_put(uint8_t *to, const uint8_t *bytes, uint32_t size)
{
	const uint32_t block = size << 3 | 1;
	memcpy(to, "\x28\xb5\x2f\xfd\xa0", 5);
	memcpy(to + 5, &size, 4);
	memcpy(to + 9, &block, 3);
	memcpy(to + 12, bytes, size);
	return 12 + (size_t)size;
}

/* Compresses the items that were made: each, or three at a time. */
static void compress(bool batch)
{
	static uint8_t file[ITEMS_ROOM];
	const uint32_t count = making.count, each = batch ? 3 : 1;
	const uint32_t frames = (count + each - 1) / each;
	const uint32_t head[] = {1, count, each, frames};
	const size_t table = batch ? 24 : 4, list = table + 4 * ((size_t)count + 1);
	size_t at = list + (batch ? 24 * (size_t)frames : 0);
	uint32_t offsets[ITEMS + 1];
	memcpy(offsets, making.file + 4, 4 * ((size_t)count + 1));
	memcpy(file, batch ? "LDFZ01\0" : (const char *)making.file, batch ? 8 : 4);
	memcpy(file + (batch ? 8 : 4), batch ? head : offsets, batch ? sizeof head : 4);
	for (uint32_t i = 0; i < count; i += each) {
		const uint32_t last = UTIL_MIN(i + each, count);
		const uint32_t whole = offsets[last] - offsets[i];
		const size_t size = frame_put(file + at, making.file + offsets[i], whole);
		const uint32_t listed[] = {i, last - i, (uint32_t)at, 0, (uint32_t)size, whole};
		if (batch)
			memcpy(file + list + 24 * (size_t)(i / each), listed, sizeof listed);
		else
			memcpy(file + table + 4 * (size_t)i, &listed[2], 4);
		for (uint32_t k = i; k < last; k++)
			making.sample[k].offset = at;
		at += size;
	}
	for (uint32_t i = 0; batch && i <= count; i++) {
		const uint32_t logical = offsets[i] - offsets[0];
		memcpy(file + table + 4 * (size_t)i, &logical, 4);
	}
	if (!batch)
		memcpy(file + table + 4 * (size_t)count, &(uint32_t){(uint32_t)at}, 4);
	memcpy(making.file, file, at);
	making.size = at;
}

/* Rows that are stored as Arrow. */
static void try_arrow(const uint8_t *data)
{
	struct column_choice columns = {.label_offset = 0};
	struct field_list fields = {.count = 0};
	const struct arrow_layout layout = {.label_first = data[0] & 1,
		.note = data[0] & 2,
		.nested = data[1] & 16,
		.wide = data[1] & 32,
		.list = data[1] & 64,
		.stream = data[1] & 128,
		.packed = data[2] & 1,
		.label = data[2] / 2 % ARROW_LABELS};
	const struct items_layout described = {.label_first = layout.label_first};
	describe(&described, "bytes", true, false);
	if ((data[0] & 12) == 12)
		spoil();
	const size_t json_size = text_take();
	arrow_make(&making, &layout);
	if (data[0] & 4)
		arrow_damage(&making);
	if (data[0] & 16 && layout.note)
		fields = (struct field_list){1, {{"note", 16, false, true}}};
	if (layout.list && data[2] & 128)
		(void)snprintf(columns.label, sizeof columns.label, "list");
	const bool rows = columns.label[0] || layout.label == 4;
	struct shard shard = {.container = &container_litdata,
		.name = "chunk-0-0.bin",
		.beside = "index.json",
		.beside_bytes = json,
		.beside_size = json_size,
		.bytes = making.file,
		.size = making.size,
		.asked = data[0] & 8 ? DATASET_LABELS_NONE : DATASET_LABELS_AUTO,
		.columns = &columns,
		.fields = &fields,
		.sound = !making.damaged && !(rows && !(data[0] & 8)),
		.count = making.count,
		.damaged = true,
		.sample = on_row};
	int rc = shard_check(&shard);
	want(rc == 0 || strstr(shard.fault.text, shard.name), "refused without the chunk's name");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const images[] = {
		"jpeg", "bytes", "image:png", "pil", "tensor", "numpy"};
	struct column_choice columns = {.label_offset = 0};
	struct field_list fields = {.count = 0};
	if (size < 3 || size > INPUT_ROOM)
		return 0;
	const size_t faults = UTIL_MIN(size - 3, (size_t)FAULTS);
	making.faults = (struct recipe){data + 3, faults, 0};
	making.recipe = (struct recipe){data + 3 + faults, size - 3 - faults, 0};
	making.damaged = false;
	if (data[0] & 32) {
		try_arrow(data);
		return 0;
	}
	const bool dict = data[1] & 1;
	const uint32_t kind = data[1] / 2 % 6;
	static const enum items_head heads[] = {
		ITEMS_FILE, ITEMS_FILE, ITEMS_FILE, ITEMS_PIL, ITEMS_TENSOR, ITEMS_NUMPY};
	const struct items_layout layout = {.label_first = data[0] & 1,
		.label_sized = true,
		.note = data[0] & 2,
		.head = heads[kind]};
	const bool packed = data[2] & 1 && layout.head == ITEMS_FILE;
	describe(&layout, images[kind], dict, packed && !(data[2] & 2));
	if ((data[0] & 12) == 12)
		spoil();
	const size_t json_size = text_take();
	items_make(&making, &layout);
	if (packed)
		compress(data[2] & 2);
	if (data[0] & 4)
		items_damage(&making);
	if (data[0] & 16 && layout.note)
		fields = (struct field_list){1, {{"note", 16, false, true}}};
	making.damaged |= fields.count && !dict;
	if (layout.head != ITEMS_FILE)
		(void)snprintf(columns.image, sizeof columns.image, "%s",
			dict                 ? "image"
			: layout.label_first ? "1"
					     : "0");
	struct shard shard = {.container = &container_litdata,
		.name = "chunk-0-0.bin",
		.beside = "index.json",
		.beside_bytes = json,
		.beside_size = json_size,
		.bytes = making.file,
		.size = making.size,
		.asked = data[0] & 8 ? DATASET_LABELS_NONE : DATASET_LABELS_AUTO,
		.columns = &columns,
		.fields = &fields,
		.sound = !making.damaged,
		.count = making.count,
		.damaged = packed,
		.sample = packed ? on_row : on_sample};
	int rc = shard_check(&shard);
	want(rc == 0 || strstr(shard.fault.text, shard.name), "refused without the chunk's name");
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
static size_t compose(uint8_t *bytes, size_t room, struct random *random)
{
	(void)room;
	return drive_noise(bytes, 4 + FAULTS + draw(random, 60), random);
}

const struct drive fuzz_drive = {"fuzz_litdata", INPUT_ROOM, compose, shard_end};
#endif

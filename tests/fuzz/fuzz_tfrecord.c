/* fuzz_tfrecord: TFRecords of tf.Example that are made of choices (recipe.h): features in any
 * order, packed and unpacked numbers, fields that no reader knows, and damage: changed bytes, with
 * checksums that fit and that do not, lengths that lie, and ends that are cut off. shard.h says
 * what is expected. */
#include "base/sum/crc32c.h"

#include "fuzz/drive.h"
#include "fuzz/number.h"
#include "fuzz/recipe.h"
#include "fuzz/shard.h"

#include "base/util.h"

enum { FILE_ROOM = 64 << 10, INPUT_ROOM = 2048, FAULTS = 8, RECORDS = 64, RECORD_ROOM = 2048 };

/* Bytes that grow. */
struct bytes {
	size_t size;
	uint8_t at[RECORD_ROOM];
};

static struct {
	struct recipe recipe, faults; /* choices of what is made, and of the damage to it */
	bool damaged;
	size_t size;
	uint32_t count;
	struct shard_place sample[RECORDS];
	uint8_t file[FILE_ROOM];
} making;

static void put(struct bytes *to, const void *data, size_t size)
{
	if (size > sizeof to->at - to->size) {
		making.damaged = true;
		return;
	}
	memcpy(to->at + to->size, data, size);
	to->size += size;
}

static void put_varint(struct bytes *to, uint64_t value)
{
	uint8_t number[NUMBER_VARINT_MAX];
	put(to, number, number_varint(number, value));
}

static void put_field(struct bytes *to, unsigned field, const struct bytes *value)
{
	put_varint(to, field << 3 | 2);
	put_varint(to, value->size);
	put(to, value->at, value->size);
}

static void put_number(struct bytes *to, unsigned field, unsigned wire, uint64_t value)
{
	uint8_t number[8];
	put_varint(to, field << 3 | wire);
	if (wire == 0)
		put_varint(to, value);
	else
		put(to, number, number_little(number, value, wire == 1 ? 8 : 4));
}

/* A field that a reader of tf.Example passes over. */
static void put_unknown(struct bytes *to)
{
	static const unsigned wires[] = {0, 1, 5};
	const uint8_t how = recipe_byte(&making.recipe);
	if (how > 240)
		put_number(to, 4 + how % 8, wires[how % 3], how * UINT64_C(0x123456789abcd));
}

/* An entry of the map; *ret_at becomes where `list` is in `to`, if not NULL. */
static void put_entry(struct bytes *to, const char *name, unsigned type, const struct bytes *list)
{
	struct bytes feature = {0}, entry = {0}, key = {0};
	put(&key, name, strlen(name));
	put_unknown(&feature);
	put_field(&feature, type, list);
	if (recipe_byte(&making.recipe) & 1) {
		put_field(&entry, 1, &key);
		put_unknown(&entry);
		put_field(&entry, 2, &feature);
	} else {
		put_field(&entry, 2, &feature);
		put_field(&entry, 1, &key);
	}
	put_field(to, 1, &entry);
}

static void put_bytes(struct bytes *to, const char *name, const void *data, size_t size)
{
	struct bytes value = {0}, list = {0};
	put(&value, data, size);
	put_field(&list, 1, &value);
	put_entry(to, name, 1, &list);
}

static void put_ints(struct bytes *to, const char *name, const int64_t *values, unsigned count)
{
	struct bytes list = {0}, packed = {0};
	const bool pack = recipe_byte(&making.recipe) & 1;
	for (unsigned i = 0; i < count; i++)
		if (pack)
			put_varint(&packed, (uint64_t)values[i]);
		else
			put_number(&list, 1, 0, (uint64_t)values[i]);
	if (pack)
		put_field(&list, 1, &packed);
	put_entry(to, name, 3, &list);
}

/* The image of a record, which no other record and no other feature has. */
static size_t image_make(uint8_t *image)
{
	const size_t size = 8 + recipe_byte(&making.recipe);
	memset(image, recipe_byte(&making.recipe), size);
	memcpy(image, "\xff\xd8\xff", 3);
	image[3] = (uint8_t)making.count;
	image[4] = 0xa5;
	return size;
}

static void put_features(struct bytes *to, const uint8_t *image, size_t size, int64_t label)
{
	const uint8_t order = recipe_byte(&making.recipe);
	float scores[3] = {1, 2, 3};
	struct bytes list = {0}, packed = {0};
	for (unsigned i = 0; i < 4; i++)
		switch ((i + order) % 4) {
		case 0:
			put_bytes(to, "image/encoded", image, size);
			break;
		case 1:
			put_ints(to, "image/class/label", &label, 1);
			break;
		case 2:
			put(&packed, scores, sizeof scores);
			put_field(&list, 1, &packed);
			put_entry(to, "scores", 2, &list);
			break;
		default:
			put_bytes(to, "note", "abc", 3);
			put_unknown(to);
		}
}

static uint8_t *find(uint8_t *bytes, size_t size, const uint8_t *image, size_t image_size)
{
	return memmem(bytes, size, image, image_size);
}

static void put_checksum(uint8_t *to, const uint8_t *bytes, size_t size)
{
	const uint32_t crc = crc32c_masked(bytes, size);
	memcpy(to, &crc, sizeof crc);
}

/* Changes a byte of a record. */
static void spoil(struct bytes *record)
{
	const uint8_t how = recipe_byte(&making.recipe);
	if (how < 200 || !record->size)
		return;
	const size_t at = recipe_number(&making.recipe, 2) % record->size;
	record->at[at] = (uint8_t)(record->at[at] ^ (1 + recipe_byte(&making.recipe) % 255));
	if (how > 240)
		record->size -= at % 7 < record->size ? at % 7 : 0;
	making.damaged = true;
}

static void put_record(void)
{
	static struct bytes record, features;
	uint8_t image[300];
	const int64_t label = recipe_byte(&making.recipe);
	const size_t image_size = image_make(image);
	record.size = features.size = 0;
	put_features(&features, image, image_size, label);
	put_unknown(&record);
	put_field(&record, 1, &features);
	spoil(&record);
	const uint64_t size = record.size;
	uint8_t *to = making.file + making.size;
	if (making.count == RECORDS || size + 16 > FILE_ROOM - making.size)
		return;
	memcpy(to, &size, 8);
	put_checksum(to + 8, to, 8);
	memcpy(to + 12, record.at, size);
	put_checksum(to + 12 + size, to + 12, size);
	const uint8_t *found = find(to + 12, size, image, image_size);
	making.sample[making.count++] = (struct shard_place){
		found ? (uint64_t)(found - making.file) : 0, (uint32_t)image_size, label};
	making.size += size + 16;
}

/* Changes the file itself: a byte, a length with or without its checksum, or its end. */
static void damage(void)
{
	const uint8_t how = recipe_byte(&making.faults);
	if (!making.size)
		return;
	making.damaged = true;
	const size_t at = recipe_number(&making.faults, 2) % making.size;
	if (how < 80) {
		making.file[at] =
			(uint8_t)(making.file[at] ^ (1 + recipe_byte(&making.faults) % 255));
	} else if (how < 160) {
		making.size = at;
	} else if (making.size >= 12) {
		(void)recipe_copy(&making.faults, making.file, how & 1 ? 8 : 2);
		if (how & 2)
			put_checksum(making.file + 8, making.file, 8);
	}
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
	making.size = making.count = 0;
	while (!recipe_ends(&making.recipe) && making.size < FILE_ROOM - RECORD_ROOM &&
		making.count < RECORDS)
		put_record();
	if ((data[0] & 33) == 33)
		damage();
	if (data[0] & 2)
		fields = (struct field_list){1, {{"note", 16, false, true}}};
	/* `note` is no image, but index and reader take any bytes that a user names. */
	if (data[0] & 4)
		(void)strcpy(columns.image, data[0] & 8 ? "note" : "image/encoded");
	struct shard shard = {.container = &container_tfrecord,
		.name = "fuzz.tfrecord",
		.bytes = making.file,
		.size = making.size,
		.asked = data[0] & 16 ? DATASET_LABELS_NONE : DATASET_LABELS_AUTO,
		.columns = &columns,
		.fields = &fields,
		.sound = !making.damaged && making.count && (data[0] & 12) != 12,
		.count = making.count,
		.sample = on_sample};
	(void)shard_check(&shard);
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
static size_t compose(uint8_t *bytes, size_t room, struct random *random)
{
	size_t size = 1 + FAULTS + draw(random, one_in(random, 8) ? 400 : 60);
	(void)room;
	(void)drive_noise(bytes, size, random);
	/* Most files are small and have at most one fault, so that it is the fault that is met. */
	for (size_t i = 1 + FAULTS; i < size; i++)
		if (!one_in(random, 6))
			bytes[i] %= 128;
	return size;
}

const struct drive fuzz_drive = {"fuzz_tfrecord", INPUT_ROOM, compose, shard_end};
#endif

/* fuzz_recordio: RecordIO files made of choices (recipe.h) by a writer of this file, with and
 * without an .idx file, sound and damaged.
 *
 * Expected of a sound file: the same samples, with the same names, bytes and labels; of any other:
 * a refusal with a sentence, or samples that are within the file (shard.h). */
#include "fuzz/drive.h"
#include "fuzz/recipe.h"
#include "fuzz/shard.h"

#include "base/util.h"

enum {
	INPUT_ROOM = 4096,
	FILE_ROOM = 256 << 10,
	RECORDS = 64,
	IMAGE_ROOM = 2048,
	TEXT_ROOM = 8192
};

/* The first byte. */
enum { HOW_IDX = 1, HOW_FACES = 2, HOW_ROWS = 4, HOW_DAMAGE = 8, HOW_NONE = 16, HOW_REVERSED = 32 };

static const uint8_t magic[4] = {0x0a, 0x23, 0xd7, 0xce};

struct made {
	size_t at; /* of the record */
	size_t size; /* of the image */
	bool sample;
	float label;
	uint8_t image[IMAGE_ROOM];
};

static struct {
	struct recipe recipe;
	uint8_t how;
	size_t size, idx_size, count;
	uint8_t bytes[FILE_ROOM];
	char idx[TEXT_ROOM];
	struct made record[RECORDS];
	size_t order[RECORDS]; /* the numbers of the samples in the order that is expected */
	size_t samples;
} file;

static void put(const void *bytes, size_t size)
{
	want(size <= FILE_ROOM - file.size, "the file has no room");
	memcpy(file.bytes + file.size, bytes, size);
	file.size += size;
}

static void put_part(uint32_t which, const uint8_t *bytes, size_t size)
{
	const uint32_t coded = which << 29 | (uint32_t)size;
	put(magic, sizeof magic);
	put(&coded, sizeof coded);
	put(bytes, size);
}

/* As dmlc's writer: divides the record at magic numbers. */
static void put_record(const uint8_t *bytes, size_t size)
{
	size_t from = 0;
	for (size_t at = 0; at + 4 <= size; at += 4)
		if (memcmp(bytes + at, magic, sizeof magic) == 0) {
			put_part(from ? 2 : 1, bytes + from, at - from);
			from = at + 4;
		}
	put_part(from ? 3 : 0, bytes + from, size - from);
	put("\0\0\0", (4 - size % 4) % 4);
}

static void put_image(
	struct made *made, uint32_t flag, float label, const float *labels, bool empty)
{
	uint8_t record[24 + 4 * 8 + IMAGE_ROOM] = {0};
	memcpy(record, &flag, 4);
	memcpy(record + 4, &label, 4);
	memcpy(record + 24, labels, flag * sizeof *labels);
	const size_t head = 24 + flag * sizeof *labels;
	/* Only the records of InsightFace that describe others have no image. */
	made->size = 0;
	if (!empty)
		made->size =
			1 + recipe_byte(&file.recipe) * (size_t)(recipe_byte(&file.recipe) % 9);
	made->size = UTIL_MIN(made->size, (size_t)IMAGE_ROOM);
	for (size_t i = 0; i < made->size; i++)
		made->image[i] = (uint8_t)(i * 7 + made->size);
	for (int i = recipe_byte(&file.recipe) % 4; i > 0; i--) {
		const size_t at = recipe_byte(&file.recipe) * (i & 1 ? 4u : 1u);
		if (at + 4 <= made->size)
			memcpy(made->image + at, magic, sizeof magic);
	}
	memcpy(record + head, made->image, made->size);
	made->at = file.size;
	put_record(record, head + made->size);
}

static void make_records(void)
{
	const bool faces = file.how & HOW_FACES, rows = file.how & HOW_ROWS && !faces;
	const uint8_t count = recipe_byte(&file.recipe) % RECORDS;
	const size_t persons = faces ? count / 4 : 0;
	file.size = file.count = 0;
	for (size_t i = 0; i < count; i++) {
		struct made *made = &file.record[file.count++];
		const uint8_t chosen = recipe_byte(&file.recipe);
		float labels[8] = {(float)(chosen % 10), 0.5f, -1};
		made->sample = !faces || (i > 0 && i < count - persons);
		made->label = labels[0];
		if (faces && i == 0)
			labels[0] = (float)(count - persons);
		if (faces && !made->sample)
			put_image(made, 2, 0, labels, true);
		else if (rows)
			put_image(made, 3, 0, labels, false);
		else if (chosen & 64)
			put_image(made, 1, 0, labels, false);
		else
			put_image(made, 0, labels[0], labels, false);
	}
}

static void make_idx(void)
{
	const bool reversed = file.how & HOW_REVERSED && !(file.how & HOW_FACES);
	file.idx_size = file.samples = 0;
	for (size_t i = 0; i < file.count; i++) {
		const size_t number = reversed && file.how & HOW_IDX ? file.count - 1 - i : i;
		if (file.record[number].sample)
			file.order[file.samples++] = number;
		file.idx_size += (size_t)snprintf(file.idx + file.idx_size,
			TEXT_ROOM - file.idx_size, "%zu\t%zu\n", number, file.record[number].at);
	}
}

static void damage(void)
{
	for (int i = 1 + recipe_byte(&file.recipe) % 4; i > 0; i--) {
		const uint8_t how = recipe_byte(&file.recipe);
		const size_t number = recipe_byte(&file.recipe) % UTIL_MAX(file.count, (size_t)1);
		const size_t near = file.count ? file.record[number].at : 0;
		const size_t at = how & 1 ? near + recipe_byte(&file.recipe) % 40
					  : recipe_number(&file.recipe, 2);
		if (how % 8 == 7)
			file.size = UTIL_MIN(file.size, at);
		else if (how % 8 >= 5 && file.idx_size)
			file.idx[at % file.idx_size] = (char)recipe_byte(&file.recipe);
		else if (at < file.size)
			file.bytes[at] ^= recipe_byte(&file.recipe);
	}
}

static void on_sample(const struct shard *shard, const struct shard_sample *sample)
{
	const struct index_record *record = &sample->record;
	char expected[24];
	if (!shard->sound)
		return;
	const size_t number = file.order[sample->number];
	const struct made *made = &file.record[number];
	(void)snprintf(expected, sizeof expected, "%zu", number);
	want(strcmp(sample->name, expected) == 0, "a sample of another name");
	want(record->size == made->size && memcmp(sample->bytes, made->image, made->size) == 0,
		"a sample with other bytes");
	if (!(file.how & (HOW_ROWS | HOW_NONE)) || (file.how & HOW_FACES && !(file.how & HOW_NONE)))
		want(record->label == (int32_t)made->label, "another label");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0 || size > INPUT_ROOM)
		return 0;
	file.recipe = (struct recipe){data + 1, size - 1, 0};
	file.how = data[0];
	make_records();
	make_idx();
	if (file.how & HOW_DAMAGE)
		damage();
	struct shard shard = {.container = &container_recordio,
		.name = "a.rec",
		.beside = file.how & HOW_IDX ? "a.idx" : NULL,
		.bytes = file.bytes,
		.size = file.size,
		.beside_bytes = (const uint8_t *)file.idx,
		.beside_size = file.idx_size,
		.asked = file.how & HOW_NONE ? DATASET_LABELS_NONE : DATASET_LABELS_AUTO,
		.sound = !(file.how & HOW_DAMAGE),
		.count = file.samples,
		.sample = on_sample};
	(void)shard_check(&shard);
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
static size_t compose(uint8_t *bytes, size_t room, struct random *random)
{
	(void)room;
	return drive_noise(bytes, 2 + draw(random, one_in(random, 8) ? 400 : 80), random);
}

const struct drive fuzz_drive = {"fuzz_recordio", INPUT_ROOM, compose, shard_end};
#endif

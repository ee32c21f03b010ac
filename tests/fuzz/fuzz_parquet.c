/* fuzz_parquet: Parquet files made of choices (parquet_make.h), true, with one number that lies,
 * spoiled or cut, and any bytes between a head and an end.
 *
 * The first byte tells what the others are. Expected: a true file is indexed, with the images,
 * names, labels and captions that it was made of. Any other file is indexed, and every sample that
 * is listed is within the file and can be read or is damaged; or it is refused with a sentence that
 * names it. */
#include "fuzz/drive.h"
#include "fuzz/number.h"
#include "fuzz/parquet_make.h"
#include "fuzz/recipe.h"
#include "fuzz/shard.h"

#include "base/util.h"

enum { INPUT_ROOM = 4096 };

/* The first byte. */
enum {
	HOW_RAW = 1, /* the others are the file, but for its footer's size */
	HOW_LIE = 2,
	HOW_SPOIL = 4,
	HOW_CUT = 8,
	HOW_UNLABELLED = 16,
};

static struct made made;
static struct made_plan plan;

static void make_raw(const uint8_t *data, size_t size)
{
	memcpy(made.bytes, "PAR1", 4);
	memcpy(made.bytes + 4, data, size);
	(void)number_little(made.bytes + 4 + size, size, 4);
	memcpy(made.bytes + 8 + size, "PAR1", 4);
	made.size = size + 12;
}

static void make_plan(struct recipe *recipe)
{
	const uint8_t how = recipe_byte(recipe);
	plan = (struct made_plan){
		.rows = 1 + recipe_byte(recipe) % MADE_ROWS,
		.group_rows = 1 + recipe_byte(recipe) % MADE_ROWS,
		.page_rows = 1 + recipe_byte(recipe) % MADE_ROWS,
		.codec = (uint8_t)(how % 3),
		.version = how & 8 ? 2 : 1,
		.dictionary = how & 16,
		.binary = how & 32,
		.list = how & 64,
		.skipped = how & 128,
	};
}

static void make_lie(struct recipe *recipe)
{
	static const int64_t values[] = {-1, 0, 1, 2, 3, 5, 8, 15, 100, 4096, INT16_MAX, INT32_MAX,
		UINT32_MAX, INT64_MAX, INT64_MIN};
	plan.lie = 1 + recipe_byte(recipe) % (LIES - 1);
	plan.lie_at = recipe_byte(recipe) % 8 ? recipe_byte(recipe) % 4 : recipe_byte(recipe);
	const uint8_t which = recipe_byte(recipe);
	plan.lie_value = which < 128 ? values[which % UTIL_COUNT(values)] : which - 128;
}

/* Whether the file is true. */
static bool make(uint8_t how, struct recipe *recipe)
{
	make_plan(recipe);
	if (how & HOW_LIE)
		make_lie(recipe);
	made_file(&made, &plan);
	/* A lie may be what the number would have been. */
	bool honest = !made.lied;
	for (int n = how & HOW_SPOIL ? 1 + recipe_byte(recipe) % 3 : 0; n; n--) {
		const size_t at = (size_t)recipe_number(recipe, 3) % made.size;
		made.bytes[at] ^= (uint8_t)(1 + recipe_byte(recipe) % 255);
		honest = false;
	}
	if (how & HOW_CUT) {
		made.size -= 1 + (size_t)recipe_number(recipe, 2) % made.size;
		honest = false;
	}
	return honest;
}

static void want_bytes(const uint8_t *bytes, uint32_t size, const uint8_t *made_of, uint32_t whole)
{
	want(size == whole && memcmp(bytes, made_of, whole) == 0, "a value has other bytes");
}

static void on_sample(const struct shard *shard, const struct shard_sample *sample)
{
	const struct index_record *record = &sample->record;
	const bool labelled = shard->asked != DATASET_LABELS_NONE;
	const unsigned row = (unsigned)sample->number;
	uint8_t bytes[MADE_VALUE];
	char name[MADE_VALUE + 1] = "";
	if (!shard->sound)
		return;
	want_bytes(sample->bytes, record->size, bytes, made_image(&plan, row, bytes));
	if (plan.binary)
		(void)snprintf(name, sizeof name, "%u", row);
	else
		(void)made_path(&plan, row, (uint8_t *)name);
	want(strcmp(sample->name, plan.binary ? name : name + 2) == 0, "a sample of another name");
	want(sample->field[0].present == made_captioned(row), "a caption is missing, or too many");
	if (made_captioned(row))
		want_bytes(shard_field(shard, sample, 0), sample->field[0].size, bytes,
			made_caption(&plan, row, bytes));
	want(plan.list || record->label == (labelled ? (int32_t)made_label(row) : -1),
		"a sample has another label");
	want(!plan.list || !labelled || record->label_size == (row % 3 ? 8 : 0),
		"a list of classes has another length");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct field_list fields = {
		.count = 1, .at = {{.name = "caption", .max = 64}}};
	struct recipe recipe = {data, size, 0};
	bool honest = false;
	if (size == 0 || size > INPUT_ROOM)
		return 0;
	const uint8_t how = recipe_byte(&recipe);
	const bool raw = how & HOW_RAW;
	if (raw)
		make_raw(data + 1, size - 1);
	else
		honest = make(how, &recipe);
	struct shard shard = {.container = &container_parquet,
		.name = "fuzz.parquet",
		.bytes = made.bytes,
		.size = made.size,
		.asked = how & HOW_UNLABELLED ? DATASET_LABELS_NONE : DATASET_LABELS_AUTO,
		.fields = raw ? NULL : &fields,
		.sound = honest,
		.count = plan.rows,
		.damaged = true,
		.sample = on_sample};
	(void)shard_check(&shard);
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
static size_t compose(uint8_t *bytes, size_t room, struct random *random)
{
	const size_t size = 1 + draw(random, 40);
	(void)room;
	(void)drive_noise(bytes, size, random);
	if (!one_in(random, 16))
		bytes[0] &= (uint8_t)~HOW_RAW;
	/* One fault at a time finds most. */
	if (one_in(random, 2))
		bytes[0] &= (uint8_t) ~(HOW_SPOIL | HOW_CUT);
	return size;
}

const struct drive fuzz_drive = {"fuzz_parquet", INPUT_ROOM, compose, shard_end};
#endif

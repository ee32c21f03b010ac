/* fuzz_parquet: Parquet files made of choices (parquet_make.h), true, with one number that lies,
 * spoiled or cut, and any bytes between a head and an end.
 *
 * The first byte tells what the others are. Expected: a true file is indexed, with the images,
 * names, labels and captions that it was made of. Any other file is indexed, and every sample that
 * is listed is within the file and can be read or is damaged; or it is refused with a sentence that
 * names it. */
#include "dataset/container/container.h"

#include "fuzz/drive.h"
#include "fuzz/parquet_make.h"
#include "fuzz/parquet_run.h"
#include "fuzz/recipe.h"

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
static struct parquet_run run;

static void make_raw(const uint8_t *data, size_t size)
{
	memcpy(made.bytes, "PAR1", 4);
	memcpy(made.bytes + 4, data, size);
	for (int i = 0; i < 4; i++)
		made.bytes[4 + size + (size_t)i] = (uint8_t)(size >> 8 * i);
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

static void check_bytes(const struct index_field *place, const uint8_t *expected, uint32_t size)
{
	uint8_t bytes[MADE_VALUE];
	want(place->size == size, "a value of another size");
	want(parquet_run_bytes(
		     &run, place->offset, place->size, &place->packed, bytes, sizeof bytes) == 0 &&
			memcmp(bytes, expected, size) == 0,
		"a value has other bytes");
}

static void check_true(unsigned row, const struct parquet_run_read *read, bool labelled)
{
	const struct index_record *record = &read->record;
	uint8_t bytes[MADE_VALUE];
	char name[MADE_VALUE + 1] = "";
	check_bytes(
		&(struct index_field){
			.offset = record->offset, .size = record->size, .packed = record->packed},
		bytes, made_image(&plan, row, bytes));
	if (plan.binary)
		(void)snprintf(name, sizeof name, "%u", row);
	else
		(void)made_path(&plan, row, (uint8_t *)name);
	want(strcmp(read->name, plan.binary ? name : name + 2) == 0, "a sample of another name");
	want(read->field[0].present == made_captioned(row), "a caption is missing, or too many");
	if (made_captioned(row))
		check_bytes(&read->field[0], bytes, made_caption(&plan, row, bytes));
	want(plan.list || record->label == (labelled ? (int32_t)made_label(row) : -1),
		"a sample has another label");
	want(!plan.list || !labelled || record->label_size == (row % 3 ? 8 : 0),
		"a list of classes has another length");
}

static void check_any(const struct parquet_run_read *read)
{
	static uint8_t bytes[MADE_ROOM];
	(void)parquet_run_bytes(&run, read->record.offset, read->record.size, &read->record.packed,
		bytes, sizeof bytes);
	if (read->field[0].present)
		(void)parquet_run_bytes(&run, read->field[0].offset, read->field[0].size,
			&read->field[0].packed, bytes, sizeof bytes);
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
	const bool raw = how & HOW_RAW, labelled = !(how & HOW_UNLABELLED);
	if (raw)
		make_raw(data + 1, size - 1);
	else
		honest = make(how, &recipe);
	int rc = parquet_run_index(&run, &container_parquet, "fuzz.parquet",
		labelled ? DATASET_LABELS_AUTO : DATASET_LABELS_NONE, NULL, raw ? NULL : &fields,
		made.bytes, made.size);
	want(rc == 0 || (rc == -EINVAL && strstr(run.fault.text, "fuzz.parquet")),
		"refused with another code");
	want(rc == 0 || !honest, "a true file is refused");
	want(!honest || run.head.samples == plan.rows, "another number of samples");
	for (uint64_t i = 0; rc == 0 && i < run.head.samples; i++) {
		static struct parquet_run_read read;
		parquet_run_sample(&run, i, &read);
		want(labelled || read.record.label == -1, "a label that was not asked for");
		if (honest)
			check_true((unsigned)i, &read, labelled);
		else if (i < MADE_ROWS)
			check_any(&read);
	}
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

const struct drive fuzz_drive = {"fuzz_parquet", INPUT_ROOM, compose, NULL};
#endif

/* fuzz_zip: ZIP files made of choices (zip_make.h), true, with numbers that lie, spoiled or cut,
 * and any bytes.
 *
 * The first byte tells what the others are. Expected: a true file is indexed, with the members that
 * it was made of, in ImageFolder's order and with its labels. Any other file is indexed, and every
 * sample that is listed is within the file and can be read or is damaged, and no two of them
 * overlap; or it is refused with a sentence that names it. */
#include "dataset/container/container.h"

#include "fuzz/archive_run.h"
#include "fuzz/drive.h"
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
static struct archive_run run;
static uint8_t bytes[ZIP_MADE_DATA];

static void make(uint8_t how, struct recipe *recipe)
{
	if (how & HOW_RAW) {
		made.count = 0;
		made.size = recipe_copy(recipe, made.bytes, INPUT_ROOM);
		return;
	}
	zip_make(&made, recipe, how & HOW_LIE);
	for (int i = recipe_byte(recipe) % 4; (how & HOW_SPOIL) && made.size && i >= 0; i--)
		made.bytes[recipe_number(recipe, 2) % made.size] = recipe_byte(recipe);
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

static void check_true(bool labelled)
{
	struct zip_made_member *sorted[ZIP_MADE_MEMBERS];
	struct archive_sample sample;
	int32_t label = -1;
	unsigned count = 0;
	for (unsigned i = 0; i < made.count; i++)
		if (made.member[i].image)
			sorted[count++] = &made.member[i];
	qsort(sorted, count, sizeof sorted[0], order);
	want(run.head.samples == count, "another number of samples");
	for (unsigned i = 0; i < count; i++) {
		const struct zip_made_member *member = sorted[i];
		const char *name = member->name;
		const size_t part = strcspn(name, "/");
		if (i == 0 || strncmp(name, sorted[i - 1]->name, part + 1) != 0)
			label++;
		archive_run_sample(&run, i, &sample);
		want(!strcmp(sample.name, name), "a sample of another name, or out of order");
		want(sample.record.label == (labelled && name[part] ? label : -1),
			"a sample with another label");
		want(sample.record.size == member->size, "a sample of another size");
		want(archive_run_bytes(&run, &sample.record, bytes, sizeof bytes) == 0,
			"a sample cannot be read");
		want(!memcmp(bytes, member->data, member->size), "a sample with other bytes");
	}
}

/* ---- any file ---- */

static void check_any(void)
{
	static struct archive_sample sample;
	static struct {
		uint64_t from, to;
	} range[4096];
	for (uint64_t i = 0; i < run.head.samples; i++) {
		archive_run_sample(&run, i, &sample);
		const struct index_record *record = &sample.record;
		want(!strstr(sample.name, "../"), "a name that leads out of the archive");
		(void)archive_run_bytes(&run, record, bytes, sizeof bytes);
		if (i >= UTIL_COUNT(range))
			continue;
		range[i].from = record->offset;
		range[i].to = record->offset + packed_stored(&record->packed, record->size);
		for (uint64_t j = 0; j < i; j++)
			want(range[j].to <= range[i].from || range[i].to <= range[j].from,
				"samples overlap");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0 || size > INPUT_ROOM)
		return 0;
	struct recipe recipe = {data, size, 1};
	const uint8_t how = data[0];
	const bool true_file = !(how & (HOW_RAW | HOW_LIE | HOW_SPOIL | HOW_CUT));
	make(how, &recipe);
	int rc = archive_run_index(&run, &container_zip, "fuzz.zip",
		how & HOW_UNLABELLED ? DATASET_LABELS_NONE : DATASET_LABELS_AUTO, made.bytes,
		made.size);
	want(rc == 0 || (rc == -EINVAL && strstr(run.fault.text, "fuzz.zip")),
		"refused with another code, or without the name");
	if (true_file && rc < 0)
		(void)fprintf(stderr, "%s\n", run.fault.text);
	want(!true_file || rc == 0, "a true file is refused");
	if (true_file)
		check_true(!(how & HOW_UNLABELLED));
	else if (rc == 0)
		check_any();
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

const struct drive fuzz_drive = {"fuzz_zip", INPUT_ROOM, compose, NULL};
#endif

/* fuzz_index: a valid index is changed and then opened for its shard, as dataset_open does it, and
 * the dataset is asked for everything that it can answer from it.
 *
 * The input chooses one of four indexes (classes in two pages of records, rows of numbers, lists
 * of classes, a folder's) and the changes to it (recipe.h); checksums stay unchanged, or are
 * recomputed, as an attacker would do. Expected: with unchanged checksums, the answers are the
 * same as before, or the index is refused; with forged checksums, every sample is within the
 * shard, names are valid, and paths stay below the folder. Every refusal has a sentence. */
#include "dataset/dataset_open.c" /* NOLINT: only this file uses dataset_sum */

#include "dataset/mtime.h"
#include "fuzz/drive.h"
#include "fuzz/recipe.h"
#include "fuzz/want.h"

#include <sys/mman.h>
#include <zlib.h>

enum { BASES = 4, SAMPLES_MOST = 130, BASE_ROOM = 8 * INDEX_PAGE, INPUT_ROOM = 256 };

static const uint64_t shard_size = 1 << 20;
static const int64_t shard_mtime = 77;
/* each sample's label, if labels are rows of numbers */
static const float numbers[] = {0.5F, -1, 2};

enum { BASE_CLASSES, BASE_FLOAT, BASE_HOT, BASE_FOLDER };

struct base {
	size_t size;
	uint8_t bytes[BASE_ROOM];
	struct labels *labels;
	uint64_t samples, fingerprint;
	struct sample sample[SAMPLES_MOST];
};

static struct base bases[BASES];
static struct label_rule rule = {.from = DATASET_LABELS_PATH, .json = "a.b"};
static int file, root;

/* ---- good indexes ---- */

static void add_sample(struct index_writer *writer, unsigned base, uint32_t number)
{
	static const uint32_t classes[] = {1, 4, 6};
	struct index_record record = {.offset = number * UINT64_C(4096),
		.size = 1000 + number,
		.label = base == BASE_FOLDER  ? (int32_t)number % 2
			 : base == BASE_FLOAT ? -1
					      : (int32_t)number,
		.format = number % 2 ? SAMPLE_PNG : SAMPLE_JPEG};
	char name[32];
	int size = snprintf(name, sizeof name, "%c/%03u.jpg", 'a' + (int)(number % 2), number);
	const bool wide = base == BASE_FLOAT || base == BASE_HOT;
	if (base == BASE_FOLDER)
		record.offset = writer->head.bytes;
	want(index_writer_name_label(writer, name, (size_t)size,
		     base == BASE_HOT ? (const void *)classes : numbers, wide ? sizeof numbers : 0,
		     &record) == 0 &&
			index_writer_add(writer, &record, name, (size_t)size - 4) == 0,
		"no memory");
}

static void write_head(struct index_writer *writer, unsigned base)
{
	struct index_head *head = &writer->head;
	const bool wide = base == BASE_FLOAT || base == BASE_HOT;
	head->version = base == BASE_FOLDER ? INDEX_VERSION_FOLDER : INDEX_VERSION;
	head->kind = base == BASE_FOLDER ? DATASET_FOLDER : DATASET_TARS;
	head->source = base == BASE_FOLDER ? DATASET_LABELS_FOLDER
		       : wide              ? DATASET_LABELS_PATH
					   : DATASET_LABELS_CLS;
	head->asked = wide ? DATASET_LABELS_PATH : DATASET_LABELS_AUTO;
	head->label_type = base == BASE_FLOAT ? LABEL_TYPE_FLOAT
			   : base == BASE_HOT ? LABEL_TYPE_MULTI_HOT
					      : LABEL_TYPE_CLASS;
	head->rule = wide ? labels_index_hash(bases[base].labels) : 0;
	if (wide)
		head->label_width = base == BASE_FLOAT ? 3 : 7;
	if (base != BASE_FOLDER) {
		head->shard_size = shard_size;
		head->shard_mtime_ns = shard_mtime;
	}
}

static void write_tables(struct index_writer *writer)
{
	struct stat st;
	want(fstat(root, &st) == 0, "a folder that cannot be read");
	want(index_writer_entry(writer, 'D', mtime_of(&st), "", 0) == 0 &&
			index_writer_entry(writer, 'C', 0, "a", 1) == 0 &&
			index_writer_entry(writer, 'C', 0, "b", 1) == 0,
		"no memory");
}

static void base_write(unsigned number)
{
	struct base *base = &bases[number];
	struct index_writer writer;
	uint64_t bytes;
	int names = memfd_create("names", MFD_CLOEXEC), tables = memfd_create("t", MFD_CLOEXEC);
	want(index_writer_init(&writer, file, 0, names, tables) == 0, "no memory");
	const uint32_t samples = number == BASE_CLASSES ? SAMPLES_MOST : 5;
	for (uint32_t i = 0; i < samples; i++)
		add_sample(&writer, number, i);
	write_head(&writer, number);
	if (number == BASE_FOLDER)
		write_tables(&writer);
	want(index_writer_finish(&writer, &bytes) == 0 && bytes <= BASE_ROOM, "no memory");
	index_writer_deinit(&writer);
	base->size = bytes;
	want(pread(file, base->bytes, bytes, 0) == (ssize_t)bytes, "no memory");
	(void)close(names);
	(void)close(tables);
}

/* ---- opening ---- */

struct opened {
	struct opening opening;
	struct dataset dataset;
	struct dataset_shard shard;
	struct index_head head;
	struct fault fault;
};

/* Treats the index of the only shard as dataset_open does after it has found the index. 0; negative
 * or FOUND_* if it is refused. */
static int open_index(struct opened *o, unsigned base, uint64_t size)
{
	const bool folder = base == BASE_FOLDER;
	*o = (struct opened){.shard = {.path = "/shard",
				     .size = folder ? 0 : shard_size,
				     .mtime_ns = shard_mtime},
		.dataset = {.kind = folder ? DATASET_FOLDER : DATASET_TARS,
			.container = folder ? &container_folder : &container_tar,
			.shards = 1,
			.label_type = LABEL_TYPE_CLASS,
			.label_width = 1,
			.root_fd = root,
			.scratch_fd = file,
			.shard = &o->shard},
		.opening = {.dataset = &o->dataset,
			.fault = &o->fault,
			.heads = &o->head,
			.labels = bases[base].labels,
			.asked = DATASET_LABELS_AUTO}};
	if (o->opening.labels) {
		o->opening.asked = DATASET_LABELS_PATH;
		o->opening.rule = labels_index_hash(o->opening.labels);
	}
	int rc = size ? opening_examine(&o->opening, 0, file, 0, size) : FOUND_DAMAGED;
	if (rc == FOUND)
		rc = dataset_sum(&o->opening);
	if (rc == FOUND && o->opening.labels)
		rc = dataset_labels_settle(
			&o->dataset, &o->head, o->opening.labels, NULL, &o->fault);
	want(rc >= 0 || o->fault.text[0], "refused without a sentence");
	return rc;
}

/* ---- changes ---- */

/* The limits of numbers, and numbers near them. */
static uint64_t special(struct recipe *recipe)
{
	static const uint64_t values[] = {0, 1, 2, 126, 127, 128, 129, 131, 255, 256, 4080, 4081,
		4095, 4096, 65535, 65536, 65537, INT32_MAX, UINT32_MAX, UINT64_C(1) << 32,
		UINT64_C(1) << 48, (UINT64_C(1) << 48) + 1, INT64_MAX, UINT64_MAX,
		UINT64_C(1) << 20, (UINT64_C(1) << 20) - 4096};
	const uint8_t which = recipe_byte(recipe);
	return values[which % UTIL_COUNT(values)] + (which > 200 ? UINT64_MAX : 0);
}

/* Chooses a place, most often in the head or in the first records, aligned to the width of the
 * field. */
static size_t place(struct recipe *recipe, size_t size, size_t width)
{
	const uint64_t where = recipe_number(recipe, 2);
	size_t page = where >> 13, at = where & 0xfff;
	if (where & 0x1000)
		at = INDEX_PAGE_HEAD + at % 0x100;
	at -= at % width;
	at += page * INDEX_PAGE;
	return at + width <= size ? at : at % (size - width);
}

static size_t change(struct recipe *recipe, uint8_t *bytes, size_t size)
{
	const uint8_t how = recipe_byte(recipe);
	const size_t width = (size_t)1 << (how / 8 % 4);
	if (size < INDEX_PAGE)
		return size;
	const size_t at = place(recipe, size, width);
	uint64_t value;
	switch (how % 8) {
	case 0:
		bytes[at] ^= (uint8_t)(1 << recipe_byte(recipe) % 8);
		break;
	case 1:
		bytes[at] = recipe_byte(recipe);
		break;
	case 2: /* a page in the place of another one */
		memmove(bytes + at / INDEX_PAGE * INDEX_PAGE,
			bytes + recipe_byte(recipe) * INDEX_PAGE % size / INDEX_PAGE * INDEX_PAGE,
			INDEX_PAGE);
		break;
	case 3:
		return how > 240 ? at : size;
	case 4:
		if (how > 240 && size + INDEX_PAGE <= BASE_ROOM)
			return size + (how > 248 ? INDEX_PAGE : 1);
		/* fall through */
	default:
		value = special(recipe);
		memcpy(bytes + at, &value, width);
	}
	return size;
}

static void forge(uint8_t *bytes, size_t size)
{
	for (size_t at = 0; at + INDEX_PAGE <= size; at += INDEX_PAGE) {
		uint32_t crc = (uint32_t)crc32(0, bytes + at + 4, INDEX_PAGE - 4);
		memcpy(bytes + at, &crc, sizeof crc);
	}
}

/* ---- expectations ---- */

static void check_name(const struct dataset *dataset, const char *name)
{
	want(name[0], "an empty name");
	if (dataset->kind != DATASET_FOLDER)
		return;
	want(name[0] != '/' && strcmp(name, "..") != 0 && strncmp(name, "../", 3) != 0 &&
			!strstr(name, "/../"),
		"a path that leaves the folder");
	const size_t size = strlen(name);
	want(size < 3 || strcmp(name + size - 3, "/..") != 0, "a path that leaves the folder");
}

static void check_bounds(const struct dataset *dataset, const struct sample *sample)
{
	const struct dataset_shard *shard = dataset->shard;
	const bool folder = dataset->kind == DATASET_FOLDER;
	const uint64_t end = folder ? shard->bytes : shard->size;
	want(sample->position <= end && sample->size <= end - sample->position,
		"a sample beyond its shard");
	want(folder ? sample->offset == 0 : sample->offset == sample->position,
		"a sample at two places");
	want(sample->label >= -1 && (dataset->labelled || sample->label == -1),
		"not a valid label");
	want(!folder || !dataset->labelled || sample->label < (int64_t)dataset->classes,
		"a class without a name");
	want(sample->format >= SAMPLE_JPEG && sample->format <= SAMPLE_OTHER, "no format");
	check_name(dataset, sample->name);
}

static bool same(const struct sample *a, const struct sample *b)
{
	return a->number == b->number && a->shard == b->shard && a->size == b->size &&
	       a->offset == b->offset && a->position == b->position && a->label == b->label &&
	       a->format == b->format && strcmp(a->name, b->name) == 0;
}

static void check_values(const struct opened *o, uint64_t number, bool forged)
{
	static union {
		int64_t classes[LABEL_WIDTH_MAX];
		float numbers[LABEL_WIDTH_MAX];
	} label;
	const float *values = label.numbers;
	struct fault fault = {{0}};
	if (o->dataset.label_type == LABEL_TYPE_CLASS)
		return;
	want(o->dataset.label_width >= 1 && o->dataset.label_width <= LABEL_WIDTH_MAX,
		"rows of width 0");
	int rc = dataset_sample_values(&o->dataset, number, &label, &fault);
	want(rc == 0 || (rc == -EIO && fault.text[0]), "refused with another code");
	want(rc || forged || o->dataset.label_type != LABEL_TYPE_FLOAT ||
			(values[0] == numbers[0] && values[1] == numbers[1] &&
				values[2] == numbers[2]),
		"another label than before");
	want(rc || forged || o->dataset.label_type != LABEL_TYPE_MULTI_HOT ||
			(values[1] == 1 && values[4] == 1 && values[6] == 1 && values[5] == 0),
		"other classes than before");
	for (uint32_t i = 0; !rc && i < o->dataset.label_width; i++)
		want(o->dataset.label_type != LABEL_TYPE_CLASSES ||
				(label.classes[i] >= 0 && label.classes[i] <= INT32_MAX),
			"a label that is not a class");
}

static void check_sample(
	const struct opened *o, const struct base *base, uint64_t number, bool forged)
{
	static struct sample sample;
	struct fault fault = {{0}};
	int rc = dataset_sample(&o->dataset, number, &sample, &fault);
	want(rc == 0 || (rc == -EIO && fault.text[0]), "refused with another code");
	if (rc)
		return;
	check_bounds(&o->dataset, &sample);
	want(forged || same(&sample, &base->sample[number]), "another sample than before");
	check_values(o, number, forged);
}

static void check(const struct opened *o, const struct base *base, uint64_t drawn, bool forged)
{
	const uint64_t count = o->dataset.count;
	if (!forged)
		want(count == base->samples && o->dataset.fingerprint == base->fingerprint,
			"another dataset than before");
	if (count == 0)
		return;
	const uint64_t asked[] = {0, 1, 126, 127, count - 1, drawn};
	for (size_t i = 0; i < UTIL_COUNT(asked); i++)
		check_sample(o, base, asked[i] % count, forged);
}

static void remember(unsigned number)
{
	struct base *base = &bases[number];
	static struct opened o;
	want(ftruncate(file, (off_t)base->size) == 0 && open_index(&o, number, base->size) == 0,
		"a good index is refused");
	base->samples = o.dataset.count;
	base->fingerprint = o.dataset.fingerprint;
	for (uint64_t i = 0; i < base->samples; i++)
		want(dataset_sample(&o.dataset, i, &base->sample[i], &o.fault) == 0,
			"a sample of a good index is refused");
	check(&o, base, 3, false);
	dataset_classes_free(&o.dataset);
}

static void prepare(void)
{
	char folder[] = "/tmp/penstock-fuzz-XXXXXX";
	file = memfd_create("index", MFD_CLOEXEC);
	want(file >= 0 && mkdtemp(folder), "no memory");
	root = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* nothing can be created in it any more */
	want(root >= 0 && rmdir(folder) == 0, "no folder");
	for (unsigned i = 0; i < BASES; i++) {
		const struct dataset_options options = {.rule = &rule};
		struct fault fault;
		if (i == BASE_FLOAT || i == BASE_HOT)
			want(labels_open(
				     options.rule, NULL, NULL, NULL, &bases[i].labels, &fault) == 0,
				"no rule");
		base_write(i);
		remember(i);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t bytes[BASE_ROOM];
	static struct opened o;
	struct recipe recipe = {data, size, 0};
	if (!file)
		prepare();
	const uint8_t how = recipe_byte(&recipe), drawn = recipe_byte(&recipe);
	const bool forged = how & 4;
	const struct base *base = &bases[how % BASES];
	size_t now = base->size;
	memcpy(bytes, base->bytes, now);
	memset(bytes + now, how & 8 ? 0xff : 0, BASE_ROOM - now);
	while (!recipe_ends(&recipe))
		now = change(&recipe, bytes, now);
	if (forged)
		forge(bytes, now);
	want(pwrite(file, bytes, now, 0) == (ssize_t)now && ftruncate(file, (off_t)now) == 0,
		"no memory");
	if (open_index(&o, how % BASES, now) == 0)
		check(&o, base, drawn, forged);
	dataset_classes_free(&o.dataset);
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
static size_t compose(uint8_t *bytes, size_t room, struct random *random)
{
	size_t size = 2 + draw(random, one_in(random, 8) ? 60 : 12);
	(void)room;
	return drive_noise(bytes, size, random);
}

const struct drive fuzz_drive = {"fuzz_index", INPUT_ROOM, compose, NULL};
#endif

/* fuzz_tar: the reader of headers and the grouping into samples, for tars made of choices
 * (recipe.h) and for any bytes, compared with a model that computes both a second time
 * (tar_model.h).
 *
 * The first byte tells what the others are. Expected: the same members, with the same names, sizes
 * and offsets; refusals, with a sentence, where the model refuses; the same samples, whose bytes
 * are within the file and whose records can be read back from the written index; and either all
 * samples have a label or none has. */
#include "dataset/container/tar.h"

#include "fuzz/drive.h"
#include "fuzz/number.h"
#include "fuzz/recipe.h"
#include "fuzz/shard.h"
#include "fuzz/tar_model.h"
#include "fuzz/want.h"

#include "base/util.h"

#include <errno.h>
#include <string.h>

enum { TAR_ROOM = 64 << 10, INPUT_ROOM = 4096 };

/* The first byte. */
enum {
	HOW_RAW = 1, /* the others are the tar */
	HOW_MEND = 2, /* and blocks that contain "ustar" get a correct checksum */
	HOW_ASKED = 4, /* times an enum dataset_labels */
};

struct making {
	struct recipe recipe;
	size_t size;
	uint8_t bytes[TAR_ROOM];
};

static struct making making;
static int file; /* the tar */
static struct {
	unsigned count;
	struct tar_model_sample sample[TAR_MODEL_MEMBERS];
} grouped; /* by the model */

static void checksum(uint8_t *block)
{
	unsigned sum = 8 * ' ';
	for (int i = 0; i < TAR_BLOCK; i++)
		sum += i < 148 || i > 155 ? block[i] : 0;
	(void)snprintf((char *)block + 148, 8, "%06o", sum);
	block[155] = ' ';
}

static void mend(uint8_t *bytes, size_t size)
{
	for (size_t at = 0; at + TAR_BLOCK <= size; at += TAR_BLOCK)
		if (memcmp(bytes + at + 257, "ustar", 5) == 0)
			checksum(bytes + at);
}

/* ---- a tar made of choices ---- */

/* Adds zeroed blocks for `bytes` bytes; NULL if the file is full. */
static uint8_t *put_blocks(size_t bytes)
{
	size_t padded = util_align(bytes, TAR_BLOCK);
	if (padded > TAR_ROOM - making.size)
		return NULL;
	uint8_t *blocks = making.bytes + making.size;
	memset(blocks, 0, padded);
	making.size += padded;
	return blocks;
}

/* Writes a size as tar programs write it, or as no program should. */
static void put_size(uint8_t *field, uint64_t size)
{
	const uint8_t chosen = recipe_byte(&making.recipe), form = chosen < 230 ? 0 : chosen % 10;
	const unsigned long value = (unsigned long)size;
	if (form < 4) {
		(void)snprintf((char *)field, 12, "%011lo", value);
	} else if (form < 6) {
		(void)snprintf((char *)field, 12, form == 4 ? "%11lo " : " %lo ", value);
	} else if (form == 6) {
		field[0] = 0x80;
		(void)number_big(field + 4, size, 8);
	} else if (form == 7) {
		field[0] = 0x80;
		for (int i = 4; i < 12; i++)
			field[i] = recipe_byte(&making.recipe);
	} else {
		(void)recipe_copy(&making.recipe, field, 12);
	}
}

/* A name made of parts that have a meaning in a tar. */
static size_t put_name(char *to, size_t room)
{
	static const char *const parts[] = {"a", "b", "c", "./", "d/", "e/", ".", "__MACOSX/",
		"long-name-that-fills-a-field-", "\xc3\xa4", "..", "/"};
	static const char *const ends[] = {".jpg", ".cls", ".json", ".png", ".webp", ".JPEG",
		".x.jpg", ".Tif", "", "/", ".txt", ".jpg", ".cls"};
	const uint8_t first = recipe_byte(&making.recipe);
	size_t size = 0, count = first < 192 ? 1 : first % 5 + 1;
	for (size_t i = 0; i <= count; i++) {
		const uint8_t which = recipe_byte(&making.recipe);
		const char *part = i < count ? parts[which % (first < 192 ? 3 : UTIL_COUNT(parts))]
					     : ends[which % UTIL_COUNT(ends)];
		size_t more = UTIL_MIN(strlen(part), room - size);
		memcpy(to + size, part, more);
		size += more;
	}
	return size;
}

static uint8_t *put_header(uint8_t type, uint64_t size)
{
	uint8_t *block = put_blocks(TAR_BLOCK);
	if (!block)
		return NULL;
	memcpy(block + 257, "ustar\00000", 8);
	block[156] = type;
	put_size(block + 124, size);
	return block;
}

static void put_member(void)
{
	static const char types[] = "00000000000000000000\0\0007S125ZLKx";
	const uint8_t how = recipe_byte(&making.recipe);
	const uint8_t type = (uint8_t)types[how % (sizeof types - 1)];
	const uint64_t size = recipe_byte(&making.recipe) * (how & 0x80 ? UINT64_C(9) : 1);
	uint8_t *block = put_header(type, size);
	if (!block)
		return;
	char *name = (char *)block;
	size_t length = put_name(name, 100);
	if (how & 0x40)
		(void)put_name(name + 345, 155);
	if (type == 'S')
		block[482] = recipe_byte(&making.recipe) & 1;
	uint8_t *data = put_blocks(size);
	if (data && length > 4 && memcmp(name + length - 4, ".cls", 4) == 0)
		memcpy(data, "7 \n", UTIL_MIN(size, (uint64_t)3));
	else if (data && length > 5 && memcmp(name + length - 5, ".json", 5) == 0)
		memcpy(data, "{\"label\": 3}", UTIL_MIN(size, (uint64_t)12));
}

static size_t put_record(char *text, size_t room)
{
	static const char *const keys[] = {"path", "size", "GNU.sparse.name", "GNU.sparse.major",
		"mtime", "pat", "GNU.sparse.", "linkpath"};
	char value[128];
	const uint8_t how = recipe_byte(&making.recipe);
	const char *key = keys[how % UTIL_COUNT(keys)];
	if (how & 0x40)
		(void)snprintf(value, sizeof value, "%u", recipe_byte(&making.recipe));
	else
		value[put_name(value, sizeof value - 1)] = 0;
	/* The length includes its own digits, of which there are two or three. */
	size_t rest = strlen(key) + strlen(value) + 3, length = rest + (rest + 2 < 100 ? 2 : 3);
	if (how & 0x80)
		length += recipe_byte(&making.recipe) % 5 - 2u;
	int n = snprintf(text, room, "%zu %s=%s\n", length, key, value);
	return UTIL_MIN((size_t)n, room - 1);
}

static void put_pax(uint8_t type)
{
	char text[1024] = "";
	size_t size = 0;
	for (int records = 1 + recipe_byte(&making.recipe) % 4; records; records--)
		size += put_record(text + size, sizeof text - size);
	if (recipe_byte(&making.recipe) > 250 && size)
		size--;
	if (!put_header(type, size))
		return;
	uint8_t *data = put_blocks(size);
	if (data)
		memcpy(data, text, size);
}

static void put_longname(uint8_t type)
{
	static const size_t sizes[] = {0, 1, 100, 256, 3999, 4000, 4001, 4096};
	const size_t size = sizes[recipe_byte(&making.recipe) % UTIL_COUNT(sizes)];
	if (!put_header(type, size))
		return;
	uint8_t *data = put_blocks(size);
	if (!data)
		return;
	memset(data, 'n', size);
	(void)put_name(
		(char *)data + size - UTIL_MIN(size, (size_t)40), UTIL_MIN(size, (size_t)40));
}

static void put_fault(void)
{
	const uint8_t how = recipe_byte(&making.recipe);
	if (how < 160) {
		uint8_t *data = put_blocks(how % 4 * 200);
		if (data)
			(void)recipe_copy(&making.recipe, data, how % 4 * 200);
	} else if (making.size) {
		size_t at = recipe_number(&making.recipe, 2) % making.size;
		making.bytes[at] ^= recipe_byte(&making.recipe);
	}
}

static void put_any(void)
{
	const uint8_t what = recipe_byte(&making.recipe);
	switch (what % 16) {
	case 0:
	case 1:
		put_pax("xxXg"[what / 16 % 4]);
		break;
	case 2:
		put_longname(what & 16 ? 'K' : 'L');
		break;
	case 3:
		put_fault();
		break;
	case 4:
		if (what > 200)
			(void)put_blocks(TAR_BLOCK);
		break;
	default:
		put_member();
	}
}

static void make(const uint8_t *data, size_t size)
{
	making.recipe = (struct recipe){data, size, 0};
	making.size = 0;
	const uint8_t how = recipe_byte(&making.recipe), cut = recipe_byte(&making.recipe);
	while (!recipe_ends(&making.recipe) && making.size < TAR_ROOM - TAR_BLOCK)
		put_any();
	mend(making.bytes, making.size);
	if (how & 1)
		(void)put_blocks(2 * TAR_BLOCK);
	if (how & 2)
		making.size -= UTIL_MIN(making.size, (size_t)cut * 5);
}

/* ---- expectations ---- */

static int check_list(const struct tar_model *model)
{
	static struct tar_reader reader;
	struct tar_member member;
	struct fault fault = {{0}};
	unsigned count = 0;
	int rc;
	const struct blob blob = {.fd = file};
	tar_init(&reader, &blob, making.size, "fuzz.tar");
	while ((rc = tar_next(&reader, &member, &fault)) > 0) {
		want(count < model->count, "one member too many");
		const struct tar_model_member *m = &model->member[count++];
		want(member.kind == m->kind, "a member of another kind");
		want(member.name_size == m->name_size && !strcmp(member.name, m->name),
			"a member of another name");
		want(member.size == m->size && member.offset == m->offset, "a member elsewhere");
		want(member.size <= making.size && member.offset <= making.size - member.size,
			"a member beyond the file");
	}
	tar_deinit(&reader);
	want(count == model->count, "a member is missing");
	want((rc < 0) == model->refused, "refused, and not by the model, or the reverse");
	want(rc == 0 || (rc == -EINVAL && strstr(fault.text, "fuzz.tar")),
		"refused with another code");
	return rc;
}

static void on_sample(const struct shard *shard, const struct shard_sample *sample)
{
	const struct index_record *record = &sample->record;
	want(sample->number < grouped.count, "one sample too many");
	const struct tar_model_sample *expected = &grouped.sample[sample->number];
	want(record->offset == expected->image->offset && record->size == expected->image->size,
		"a sample elsewhere");
	want(record->format == expected->format, "a sample of another format");
	want(strcmp(sample->name, expected->image->name) == 0, "a sample of another name");
	want(memcmp(sample->bytes, shard->bytes + record->offset, record->size) == 0,
		"a sample with other bytes");
}

static void check_index(const struct tar_model *model, enum dataset_labels asked)
{
	const bool sound = tar_model_group(model, grouped.sample, &grouped.count);
	struct shard shard = {.container = &container_tar,
		.name = "fuzz.tar",
		.bytes = making.bytes,
		.size = making.size,
		.asked = asked,
		.sound = sound && asked == DATASET_LABELS_NONE,
		.count = grouped.count,
		.sample = on_sample};
	int rc = shard_check(&shard);
	want(sound || rc < 0, "accepts samples that the model refuses");
	want(rc < 0 || shard.head.samples == grouped.count, "another number of samples");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct tar_model model;
	if (size == 0 || size > INPUT_ROOM)
		return 0;
	if (data[0] & HOW_RAW) {
		making.size = size - 1;
		memcpy(making.bytes, data + 1, size - 1);
		if (data[0] & HOW_MEND)
			mend(making.bytes, making.size);
	} else {
		make(data + 1, size - 1);
	}
	shard_file(&file, making.bytes, making.size);
	tar_model_list(making.bytes, making.size, &model);
	if (check_list(&model) == 0)
		check_index(&model, data[0] / HOW_ASKED % (DATASET_LABELS_JSON + 1));
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
static size_t compose(uint8_t *bytes, size_t room, struct random *random)
{
	size_t size = 1 + draw(random, one_in(random, 8) ? 400 : 80);
	(void)room;
	(void)drive_noise(bytes, size, random);
	bytes[0] &= one_in(random, 16) ? 0xff : (uint8_t)~HOW_RAW;
	/* Repeated names make samples of several members. */
	for (uint32_t i = draw(random, 8); i; i--)
		size = drive_spoil(bytes, size, room, random);
	return size;
}

const struct drive fuzz_drive = {"fuzz_tar", INPUT_ROOM, compose, shard_end};
#endif

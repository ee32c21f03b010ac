/* fuzz_arrays: batches of CIFAR, binary and pickled, and MNIST's idx files, made of choices
 * (recipe.h), sound and damaged; and pickles of any operations.
 *
 * Expected of a sound file: the same samples, with the same names, pixels and labels; of any other:
 * a refusal with a sentence, or samples that are within the file (shard.h). */
#include "fuzz/drive.h"
#include "fuzz/number.h"
#include "fuzz/recipe.h"
#include "fuzz/shard.h"

#include "base/util.h"

enum { INPUT_ROOM = 4096, FILE_ROOM = 256 << 10, ROWS = 40, SIDE = 32, PLANE = SIDE * SIDE };

/* The first byte: one of these, and times 8: HOW_... */
enum what { WHAT_PICKLE, WHAT_OPERATIONS, WHAT_TEN, WHAT_HUNDRED, WHAT_IDX, WHATS };
enum { HOW_DAMAGE = 1, HOW_COARSE = 2, HOW_NONE = 4, HOW_BESIDE = 8, HOW_FILES = 16 };

struct bytes {
	size_t size;
	uint8_t byte[FILE_ROOM];
};

static struct {
	struct recipe recipe;
	enum what what;
	uint8_t how;
	uint32_t rows, width, height, memo;
	int32_t label[ROWS];
	struct bytes shard, beside;
} file;

static void put(struct bytes *to, const void *bytes, size_t size)
{
	want(size <= FILE_ROOM - to->size, "the file has no room");
	memcpy(to->byte + to->size, bytes, size);
	to->size += size;
}

static void put_byte(struct bytes *to, uint8_t byte)
{
	put(to, &byte, 1);
}

static void put_little(struct bytes *to, uint64_t value, unsigned bytes)
{
	uint8_t number[8];
	put(to, number, number_little(number, value, bytes));
}

static void put_big(struct bytes *to, uint32_t value)
{
	uint8_t number[4];
	put(to, number, number_big(number, value, 4));
}

static uint8_t pixel(uint32_t row, uint32_t at)
{
	return (uint8_t)(row * 31 + at * 7 + at / 256);
}

/* ---- pickles ---- */

static void put_memo(struct bytes *to)
{
	const uint8_t how = recipe_byte(&file.recipe) % 4;
	if (how == 0)
		return;
	put_byte(to, how == 1 ? 'r' : 'q');
	put_little(to, file.memo++ & 0xff, how == 1 ? 4 : 1);
}

static void put_text(struct bytes *to, const void *text, size_t size)
{
	static const struct {
		char op;
		uint8_t bytes;
	} forms[] = {{'U', 1}, {'C', 1}, {(char)0x8c, 1}, {'T', 4}, {'X', 4}, {'B', 4},
		{(char)0x8d, 8}, {(char)0x8e, 8}};
	size_t form = recipe_byte(&file.recipe) % UTIL_COUNT(forms);
	if (size > 255 && form < 3)
		form += 3;
	put_byte(to, (uint8_t)forms[form].op);
	put_little(to, size, forms[form].bytes);
	put(to, text, size);
	put_memo(to);
}

static void put_number(struct bytes *to, uint32_t value)
{
	static const struct {
		char op;
		uint8_t bytes;
	} forms[] = {{'K', 1}, {'M', 2}, {'J', 4}, {(char)0x8a, 4}};
	size_t form = recipe_byte(&file.recipe) % UTIL_COUNT(forms);
	if (value > 255 && form == 0)
		form = 2;
	if (value > UINT16_MAX && form == 1)
		form = 2;
	put_byte(to, (uint8_t)forms[form].op);
	if (forms[form].op == (char)0x8a)
		put_byte(to, 4);
	put_little(to, value, forms[form].bytes);
}

static void put_name(struct bytes *to, const char *text)
{
	put_byte(to, 'c');
	put(to, text, strlen(text));
	put_memo(to);
}

static void put_array(struct bytes *to)
{
	static uint8_t pixels[ROWS * 3 * PLANE];
	const size_t size = (size_t)file.rows * 3 * PLANE;
	for (uint32_t row = 0; row < file.rows; row++)
		for (uint32_t at = 0; at < 3 * PLANE; at++)
			pixels[row * 3 * PLANE + at] = pixel(row, at);
	put_name(to, recipe_byte(&file.recipe) & 1 ? "numpy.core.multiarray\n_reconstruct\n"
						   : "numpy._core.multiarray\n_reconstruct\n");
	put_name(to, "numpy\nndarray\n");
	put(to, "K\0\x85", 3);
	put_text(to, "b", 1);
	put(to, "\x87R(K\1", 5);
	put_memo(to);
	put_number(to, file.rows);
	put_number(to, 3 * PLANE);
	put_byte(to, 0x86);
	put_name(to, "numpy\ndtype\n");
	put_text(to, "u1", 2);
	put(to, "K\0K\1\x87R(K\3", 9);
	put_text(to, "|", 1);
	put(to, "NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89", 18);
	put_text(to, pixels, size);
	put(to, "tb", 2);
}

/* A list in pieces, as Python writes it. */
static void put_list(struct bytes *to, bool names)
{
	const uint32_t piece = 1 + recipe_byte(&file.recipe) % 16;
	char text[32];
	put_byte(to, ']');
	put_memo(to);
	for (uint32_t row = 0; row < file.rows; row++) {
		if (piece > 1 && row % piece == 0)
			put_byte(to, '(');
		if (names)
			put_text(to, text, (size_t)snprintf(text, sizeof text, "file_%u.png", row));
		else
			put_number(to, (uint32_t)file.label[row]);
		if (piece == 1)
			put_byte(to, 'a');
		else if (row % piece == piece - 1 || row + 1 == file.rows)
			put_byte(to, 'e');
	}
}

static void put_entry(unsigned which)
{
	static const char *const keys[] = {"data", "labels", "filenames", "batch_label"};
	const bool hundred = file.how & HOW_COARSE;
	const char *key = which == 1 && hundred ? "coarse_labels" : keys[which];
	put_text(&file.shard, key, strlen(key));
	if (which == 0)
		put_array(&file.shard);
	else if (which == 3)
		put_text(&file.shard, "training batch", 14);
	else
		put_list(&file.shard, which == 2);
}

static void make_pickle(void)
{
	const uint8_t order = recipe_byte(&file.recipe);
	const bool one = order & 128;
	put_byte(&file.shard, 0x80);
	put_byte(&file.shard, 2 + order % 4);
	put_byte(&file.shard, '}');
	put_memo(&file.shard);
	if (!one)
		put_byte(&file.shard, '(');
	for (unsigned i = 0; i < 4; i++) {
		const unsigned which = (i + order) % 4;
		if (which == 2 && !(file.how & HOW_FILES))
			continue;
		put_entry(which);
		if (one)
			put_byte(&file.shard, 's');
	}
	put(&file.shard, one ? "." : "u.", one ? 1 : 2);
}

static void make_operations(void)
{
	static const uint8_t ops[] =
		"(NJKMUTXCB})]aesut\x85\x86\x87\x88\x89\x8a\x8c\x8d\x8e\x93\x94"
		"\x95qrhjcRb.";
	put(&file.shard, "\x80\x04}", 3);
	while (!recipe_ends(&file.recipe) && file.shard.size < FILE_ROOM / 2) {
		const uint8_t byte = recipe_byte(&file.recipe);
		if (byte < 200)
			put_byte(&file.shard, ops[byte % (sizeof ops - 1)]);
		else if (byte < 220)
			put_byte(&file.shard, recipe_byte(&file.recipe));
		else if (byte < 230)
			put_entry(byte % 4);
		else if (byte < 240)
			put_name(&file.shard, byte & 1 ? "numpy\ndtype\n" : "os\nsystem\n");
		else
			put_number(&file.shard, byte);
	}
}

/* ---- binary files ---- */

static void make_binary(bool hundred)
{
	for (uint32_t row = 0; row < file.rows; row++) {
		const bool coarse = file.how & HOW_COARSE;
		if (hundred)
			put_byte(&file.shard, coarse ? (uint8_t)file.label[row] : 7);
		put_byte(&file.shard, hundred && coarse ? 9 : (uint8_t)file.label[row]);
		for (uint32_t at = 0; at < 3 * PLANE; at++)
			put_byte(&file.shard, pixel(row, at));
	}
	/* Names of classes */
	for (int i = 0; i < 100; i++) {
		char text[32];
		put(&file.beside, text,
			(size_t)snprintf(text, sizeof text, i & 1 ? "class %d\r\n" : "%d\n", i));
	}
}

static void make_idx(void)
{
	file.width = 1 + recipe_byte(&file.recipe) % 30;
	file.height = 1 + recipe_byte(&file.recipe) % 30;
	put(&file.shard, "\0\0\x8\3", 4);
	put_big(&file.shard, file.rows);
	put_big(&file.shard, file.height);
	put_big(&file.shard, file.width);
	for (uint32_t row = 0; row < file.rows; row++)
		for (uint32_t at = 0; at < file.width * file.height; at++)
			put_byte(&file.shard, pixel(row, at));
	put(&file.beside, "\0\0\x8\1", 4);
	put_big(&file.beside, file.rows);
	for (uint32_t row = 0; row < file.rows; row++)
		put_byte(&file.beside, (uint8_t)file.label[row]);
}

static void damage(void)
{
	for (int i = 1 + recipe_byte(&file.recipe) % 4; i > 0; i--) {
		const uint8_t how = recipe_byte(&file.recipe);
		struct bytes *bytes = how & 1 ? &file.beside : &file.shard;
		/* Most of a file is pixels: damage is where the structure is. */
		size_t at = recipe_number(&file.recipe, how & 2 ? 2 : 1);
		if (how & 4)
			at = bytes->size - UTIL_MIN(bytes->size, at);
		if (how % 16 == 15)
			bytes->size = UTIL_MIN(bytes->size, at);
		else if (at < bytes->size)
			bytes->byte[at] ^= recipe_byte(&file.recipe);
	}
}

/* ---- expectations ---- */

static void on_sample(const struct shard *shard, const struct shard_sample *sample)
{
	const struct index_record *record = &sample->record;
	const uint32_t number = (uint32_t)sample->number;
	const uint8_t *bytes = sample->bytes;
	char expected[32];
	const bool idx = file.what == WHAT_IDX;
	if (!shard->sound)
		return;
	(void)snprintf(expected, sizeof expected,
		file.what == WHAT_PICKLE && file.how & HOW_FILES ? "file_%u.png" : "%u", number);
	want(strcmp(sample->name, expected) == 0, "a sample of another name");
	const uint32_t width = idx ? file.width : SIDE, height = idx ? file.height : SIDE;
	(void)snprintf(
		expected, sizeof expected, "P%c %5u %5u  255\n", idx ? '5' : '6', width, height);
	want(memcmp(bytes, expected, PACKED_HEADER) == 0, "another header");
	for (uint32_t at = 0; at < width * height * (idx ? 1 : 3); at++)
		want(bytes[PACKED_HEADER + at] == pixel(number, idx ? at : at % 3 * PLANE + at / 3),
			"another pixel");
	want(record->label == (file.how & HOW_NONE ? -1 : file.label[number]), "another label");
}

static void make(void)
{
	static const uint32_t classes[] = {
		[WHAT_PICKLE] = 256, [WHAT_OPERATIONS] = 10, [WHAT_TEN] = 10, [WHAT_IDX] = 256};
	const uint32_t hundred = file.how & HOW_COARSE ? 20 : 100;
	file.rows = 1 + recipe_byte(&file.recipe) % (ROWS - 1);
	file.memo = 0;
	file.shard.size = file.beside.size = 0;
	for (uint32_t row = 0; row < file.rows; row++)
		file.label[row] =
			(int32_t)(recipe_byte(&file.recipe) %
				  (file.what == WHAT_HUNDRED ? hundred : classes[file.what]));
	if (file.what == WHAT_PICKLE)
		make_pickle();
	else if (file.what == WHAT_OPERATIONS)
		make_operations();
	else if (file.what == WHAT_IDX)
		make_idx();
	else
		make_binary(file.what == WHAT_HUNDRED);
	if (file.how & HOW_DAMAGE)
		damage();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = {
		"test_batch", "test_batch", "data_batch_1.bin", "train.bin", "x-images-idx3-ubyte"};
	if (size == 0 || size > INPUT_ROOM)
		return 0;
	file.recipe = (struct recipe){data + 1, size - 1, 0};
	file.what = data[0] % 8 < WHATS ? (enum what)(data[0] % 8) : WHAT_PICKLE;
	file.how = data[0] / 8;
	make();
	const bool coarse = file.how & HOW_COARSE, idx = file.what == WHAT_IDX;
	struct column_choice columns = {.label_offset = 0};
	struct shard shard = {.container = idx ? &container_mnist : &container_cifar,
		.name = names[file.what],
		.bytes = file.shard.byte,
		.size = file.shard.size,
		.beside_bytes = file.beside.byte,
		.beside_size = file.beside.size,
		.asked = file.how & HOW_NONE ? DATASET_LABELS_NONE : DATASET_LABELS_AUTO,
		.columns = &columns,
		.sound = !(file.how & HOW_DAMAGE) && file.what != WHAT_OPERATIONS,
		.count = file.rows,
		.sample = on_sample};
	if (idx)
		shard.beside = "x-labels-idx1-ubyte";
	else if (file.what == WHAT_HUNDRED && file.how & HOW_BESIDE)
		shard.beside = coarse ? "coarse_label_names.txt" : "fine_label_names.txt";
	if (coarse && (file.what == WHAT_PICKLE || file.what == WHAT_HUNDRED))
		(void)strcpy(columns.label, "coarse_labels");
	(void)shard_check(&shard);
	const bool named = shard.beside && !idx && !(file.how & HOW_NONE);
	want(!shard.sound || shard.head.classes == (named ? 100 : 0),
		"another number of class names");
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
static size_t compose(uint8_t *bytes, size_t room, struct random *random)
{
	(void)room;
	return drive_noise(bytes, 2 + draw(random, one_in(random, 8) ? 600 : 120), random);
}

const struct drive fuzz_drive = {"fuzz_arrays", INPUT_ROOM, compose, shard_end};
#endif

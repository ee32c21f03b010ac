/* The flight recorder's file: any bytes, or entries whose checksums are right and whose bodies are
 * anything, read as `penstock why` reads them, and told.
 *
 * The first byte says which. Expected: what is no such file is refused with its name; of the rest
 * every whole entry of a known kind comes back once, in the order of its number; the story claims
 * nothing that it has no words for, and every text in it ends. */
#include "record/ring.h"
#include "record/story.h"

#include "fuzz/drive.h"
#include "fuzz/recipe.h"
#include "fuzz/want.h"

#include <errno.h>
#include <sys/mman.h>
#include <xxhash.h>

enum { FILE_ROOM = 64 << 10, INPUT_ROOM = 8192, HEAD = 16, ENTRIES_MOST = 256 };

/* As ring.c writes it. */
struct entry {
	uint32_t magic;
	uint16_t kind, bytes;
	uint64_t sequence, time_ns, sum;
};

enum { ENTRY_MAGIC = 0x52454350 };

static struct {
	size_t size;
	unsigned known; /* entries of known kinds */
	uint8_t bytes[FILE_ROOM];
} made;

static int file;
static char path[64];

static void put_head(void)
{
	const uint32_t rest[] = {RECORD_VERSION, HEAD};
	memset(made.bytes, 0, sizeof made.bytes);
	memcpy(made.bytes, "PENSTREC", 8);
	memcpy(made.bytes + 8, rest, sizeof rest);
	made.size = HEAD;
	made.known = 0;
}

static uint64_t special(struct recipe *recipe)
{
	static const uint64_t values[] = {0, 1, 2, 3, 9, 15, 137, UINT32_MAX, INT32_MAX, INT64_MAX,
		UINT64_MAX, UINT64_C(1) << 63, 1000000000, UINT64_C(1700000000000000000),
		0x7fc000007fc00000, 0x7f8000007f800000, 0xff800000ff800000, 0x3f8000003f800000};
	const uint8_t which = recipe_byte(recipe);
	return values[which % UTIL_COUNT(values)];
}

/* Numbers mean most at multiples of four. */
static void fill_body(struct recipe *recipe, uint8_t *body, size_t size)
{
	const uint8_t how = recipe_byte(recipe);
	memset(body, how & 0x80 ? how & 0xff : 0, size);
	for (unsigned i = how % 16; i; i--) {
		const uint64_t value = special(recipe);
		const size_t width = recipe_byte(recipe) % 2 ? 8 : 4;
		const size_t at = recipe_number(recipe, 2) % (size - width) & ~(size_t)3;
		memcpy(body + at, &value, width);
	}
	if (how & 0x40)
		(void)recipe_copy(recipe, body, UTIL_MIN(size, (size_t)(how & 0x3f)));
}

/* Which trainer and process, of few, so that they meet again. */
static void fill_names(struct recipe *recipe, struct record *record)
{
	const uint8_t who = recipe_byte(recipe);
	const uint64_t trainer = who % 4;
	const int32_t pid = who / 4 % 8;
	if (record->kind == RECORD_ATTACH) {
		record->body.attach.trainer = trainer;
		record->body.attach.pid = pid;
	} else if (record->kind == RECORD_LEAVE) {
		record->body.leave.trainer = trainer;
		record->body.leave.how = who / 32;
	} else if (record->kind == RECORD_EXIT) {
		record->body.exit.trainer = trainer;
		record->body.exit.pid = pid;
		record->body.exit.known = who / 32 % 2;
	} else if (record->kind == RECORD_TRAINER) {
		record->body.trainer.trainer = trainer;
		record->body.trainer.pid = pid;
	} else if (record->kind == RECORD_START) {
		record->body.start.pid = pid;
	}
}

static void put_entry(struct recipe *recipe)
{
	static struct record record;
	struct entry entry = {.magic = ENTRY_MAGIC};
	const uint8_t kind = recipe_byte(recipe), time = recipe_byte(recipe);
	record.kind = kind < 240 ? 1 + kind % (RECORD_KINDS - 1) : kind;
	fill_body(recipe, (uint8_t *)&record.body, sizeof record.body);
	fill_names(recipe, &record);
	entry.kind = (uint16_t)record.kind;
	entry.bytes = (uint16_t)(time & 1 ? sizeof record.body : 16 + time * (size_t)4);
	entry.sequence = made.known + (time == 200 ? UINT32_MAX : 0);
	entry.time_ns = time < 250 ? UINT64_C(1700000000000000000) + time * UINT64_C(300000000)
				   : special(recipe);
	const size_t size = util_align(sizeof entry + entry.bytes, 8);
	if (size > FILE_ROOM - made.size)
		return;
	uint64_t head = XXH3_64bits(&entry, offsetof(struct entry, sum));
	entry.sum = XXH3_64bits_withSeed(&record.body, entry.bytes, head);
	memcpy(made.bytes + made.size, &entry, sizeof entry);
	memcpy(made.bytes + made.size + sizeof entry, &record.body, entry.bytes);
	made.size += size;
	made.known += record.kind < RECORD_KINDS;
}

/* ---- what is expected ---- */

static void want_text(const char *text, size_t room)
{
	want(strnlen(text, room) < room, "a text without an end");
}

static void check_end(const struct story *story, const struct story_end *end)
{
	want((unsigned)end->cause < STORY_CAUSES && story_cause_name(end->cause), "no such cause");
	want((unsigned)end->sure <= STORY_POSSIBLE && story_sure_name(end->sure), "no such doubt");
	want(end->event >= -1 && end->event < story->events, "no such event");
	want(end->lines <= STORY_LINES, "more lines than there is room for");
	want(end->left <= end->opened && end->closed <= end->left, "more left than came");
	want(end->numbers.gpus <= RECORD_GPUS, "more devices than there is room for");
	want_text(end->sentence, sizeof end->sentence);
	want_text(end->advice, sizeof end->advice);
	want_text(end->numbers.verdict, sizeof end->numbers.verdict);
	for (unsigned i = 0; i < end->lines; i++) {
		want_text(end->line[i].label, sizeof end->line[i].label);
		want_text(end->line[i].text, sizeof end->line[i].text);
	}
	want(!story_matters(end) || end->sentence[0], "what matters has no sentence");
}

static void check_story(const struct record *records, size_t count, uint8_t how)
{
	const struct story_now now = {
		.time_ns = how & 0x20 ? UINT64_C(1700000100000000000) : 0,
		.boot_id = how & 0x40 ? "here" : "",
		.host = "host",
		.daemon_lives = how & 0x80,
	};
	struct story story;
	char text[256];
	want(story_tell(records, count, &now, &story) == 0, "no memory");
	for (size_t i = 0; i < story.count; i++)
		check_end(&story, &story.end[i]);
	for (int event = 0; event < story.events; event++)
		if (story_event(&story, event, text, sizeof text))
			want_text(text, sizeof text);
	(void)story_start(records, count);
	story_free(&story);
}

static void check(uint8_t how, bool sound)
{
	struct record *records = NULL;
	struct fault fault = {{0}};
	size_t count = 0;
	want(pwrite(file, made.bytes, made.size, 0) == (ssize_t)made.size &&
			ftruncate(file, (off_t)made.size) == 0,
		"no memory");
	int rc = ring_read(path, &records, &count, &fault);
	want(rc == 0 || (rc == -EINVAL && strstr(fault.text, path)), "refused otherwise");
	want(!sound || (rc == 0 && count == made.known), "entries that do not come back");
	if (rc)
		return;
	for (size_t i = 0; i < count; i++)
		want(records[i].kind && records[i].kind < RECORD_KINDS &&
				records[i].bytes <= sizeof records->body,
			"an entry of no kind");
	check_story(records, count, how);
	free(records);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct recipe recipe = {data, size, 0};
	if (size > INPUT_ROOM)
		return 0;
	if (!file) {
		file = memfd_create("recorder", MFD_CLOEXEC);
		want(file >= 0, "no memory");
		(void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	}
	const uint8_t how = recipe_byte(&recipe);
	put_head();
	if (how % 8 == 0) {
		made.size = recipe_copy(&recipe, made.bytes, FILE_ROOM);
	} else {
		for (unsigned i = 0; i < ENTRIES_MOST && !recipe_ends(&recipe); i++)
			put_entry(&recipe);
	}
	/* A file that was cut, or of which bytes are not what they were. */
	const bool sound = how % 8 > 1;
	if (how % 8 == 1 && made.size) {
		made.bytes[how * 37u % made.size] ^= how;
		made.size -= how * 11u % made.size;
	}
	check(how, sound);
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
static size_t compose(uint8_t *bytes, size_t room, struct random *random)
{
	size_t size = 1 + draw(random, one_in(random, 8) ? 2000 : 300);
	(void)room;
	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)draw(random, 256);
	return size;
}

int main(int argc, char **argv)
{
	(void)argc;
	return drive_main(&(struct drive){"fuzz_record", INPUT_ROOM, compose}, argv);
}
#endif

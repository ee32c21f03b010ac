/* The flight recorder's file: any bytes, or entries with correct checksums and any bodies, read and
 * explained as by `penstock why`.
 *
 * The first byte tells which. Expected: a file that is not a ring is refused by name; otherwise
 * every complete entry of a known kind is returned once, in the order of the numbers; the story
 * has a sentence for each of its claims, and every text in it is terminated. */
#include "client/cli/watch/why/story.h"
#include "record/ring.h"

#include "fuzz/drive.h"
#include "fuzz/recipe.h"
#include "fuzz/want.h"

#include "base/util.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>
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
	struct entry entry[ENTRIES_MOST]; /* these */
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

static void fill_text(char *to, size_t room, struct recipe *recipe)
{
	static const char *const texts[] = {"timeout -k 5 30s python x.py",
		"timeout --kill-after=1m -s 9 2.5h a", "/usr/bin/timeout inf a",
		"slurmstepd: [1.0]", "failed: no room", "asked: by signal 15 from pid 7",
		"idle: no client for 10 s", "timeout -k", "timeout 1e400d", "failed",
		"asked: ", "python"};
	const uint8_t which = recipe_byte(recipe);
	if (which < 250)
		(void)snprintf(to, room, "%s", texts[which % UTIL_COUNT(texts)]);
	else
		memset(to, which, room);
}

static void fill_exit(struct recipe *recipe, struct record_exit *exit)
{
	static const int32_t statuses[] = {
		0, 9, 11, 15, 24, 0x100, 0x8900, 0x8b, 0xff00, 6, 0x7f, -1};
	const uint8_t how = recipe_byte(recipe);
	exit->known = how % 8 != 0;
	exit->status = statuses[how / 8 % UTIL_COUNT(statuses)];
	exit->oom_kills = how / 128;
	if (how % 2)
		exit->lived_s = exit->cpu_s = recipe_byte(recipe);
}

/* Full devices, so that a trainer may have died of a full device. */
static void fill_gpu(struct recipe *recipe, struct record_gpu *gpu)
{
	const uint8_t how = recipe_byte(recipe);
	gpu->device = how % 10;
	gpu->total = (uint64_t)80 << 30;
	gpu->used = how & 0x80 ? gpu->total - how : recipe_number(recipe, 5);
}

static void fill_attach(struct recipe *recipe, struct record_attach *attach)
{
	fill_text(attach->parent_command, sizeof attach->parent_command, recipe);
	attach->start_ticks = attach->pid;
	attach->deadline_s = recipe_byte(recipe) & 1 ? 1700000010 : 0;
	attach->cpu_limit_s = recipe_byte(recipe) & 1 ? 5 : UINT64_MAX;
}

/* Sets the trainer and the process, of few, so that they occur again, and the kind's own fields. */
static void fill_names(struct recipe *recipe, struct record *record)
{
	const uint8_t who = recipe_byte(recipe);
	const uint64_t trainer = who % 4;
	const int32_t pid = who / 4 % 8;
	switch (record->kind) {
	case RECORD_START:
		record->body.start.pid = pid;
		fill_text(record->body.start.parent_command,
			sizeof record->body.start.parent_command, recipe);
		break;
	case RECORD_ATTACH:
		record->body.attach.trainer = trainer;
		record->body.attach.pid = pid;
		fill_attach(recipe, &record->body.attach);
		break;
	case RECORD_LEAVE:
		record->body.leave.trainer = trainer;
		record->body.leave.how = who / 32;
		break;
	case RECORD_EXIT:
		record->body.exit.trainer = trainer;
		record->body.exit.pid = pid;
		fill_exit(recipe, &record->body.exit);
		break;
	case RECORD_END:
		fill_text(record->body.note.text, sizeof record->body.note.text, recipe);
		break;
	case RECORD_TRAINER:
		record->body.trainer.trainer = trainer;
		record->body.trainer.pid = pid;
		break;
	case RECORD_GPU:
		fill_gpu(recipe, &record->body.gpu);
		break;
	default:
		break;
	}
}

/* Kinds that are frequent in real files are more likely. */
static uint32_t choose_kind(uint8_t kind)
{
	static const uint32_t often[] = {
		RECORD_ATTACH, RECORD_LEAVE, RECORD_EXIT, RECORD_TRAINER, RECORD_GPU, RECORD_END};
	if (kind >= 240)
		return kind;
	return kind & 1 ? often[kind / 2 % UTIL_COUNT(often)] : 1u + kind / 2 % (RECORD_KINDS - 1);
}

static void put_entry(struct recipe *recipe)
{
	static struct record record;
	struct entry entry = {.magic = ENTRY_MAGIC};
	const uint8_t kind = recipe_byte(recipe), time = recipe_byte(recipe);
	record.kind = choose_kind(kind);
	if (kind & 2)
		fill_body(recipe, (uint8_t *)&record.body, sizeof record.body);
	else
		memset(&record.body, 0, sizeof record.body);
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
	if (record.kind < RECORD_KINDS)
		made.entry[made.known++] = entry;
}

/* ---- expectations ---- */

static void want_text(const char *text, size_t room)
{
	want(strnlen(text, room) < room, "a text without an end");
}

static void check_end(const struct story *story, const struct story_end *end)
{
	want((unsigned)end->cause < STORY_CAUSES && story_cause_name(end->cause),
		"an unknown cause");
	want((unsigned)end->sure <= STORY_POSSIBLE && story_sure_name(end->sure),
		"an unknown doubt");
	want(end->event >= -1 && end->event < story->events, "an unknown event");
	want(end->lines <= STORY_LINES, "more lines than fit");
	want(end->left <= end->opened && end->closed <= end->left, "more left than came");
	want(end->numbers.gpus <= RECORD_GPUS, "more devices than fit");
	want_text(end->sentence, sizeof end->sentence);
	want_text(end->advice, sizeof end->advice);
	want_text(end->numbers.verdict, sizeof end->numbers.verdict);
	for (unsigned i = 0; i < end->lines; i++) {
		want_text(end->line[i].label, sizeof end->line[i].label);
		want_text(end->line[i].text, sizeof end->line[i].text);
	}
	want(!story_matters(end) || end->sentence[0], "the cause has no sentence");
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

static int by_sequence(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	return (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

/* Entries come back in the order of their numbers, and texts that are printed are terminated. */
static void check_entries(const struct record *records, size_t count)
{
	qsort(made.entry, count, sizeof made.entry[0], by_sequence);
	for (size_t i = 0; i < count; i++) {
		const struct record *record = &records[i];
		want(record->kind == made.entry[i].kind &&
				record->time_ns == made.entry[i].time_ns &&
				record->bytes == made.entry[i].bytes,
			"entries in another order");
		if (record->kind == RECORD_END || record->kind == RECORD_NOTE)
			want_text(record->body.note.text, RECORD_TEXT);
		if (record->kind == RECORD_ATTACH)
			want_text(record->body.attach.parent_command, RECORD_TEXT);
		if (record->kind == RECORD_START)
			want_text(record->body.start.host, RECORD_NAME);
	}
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
	want(rc == 0 || (rc == -EINVAL && strstr(fault.text, path)), "refused with another code");
	want(!sound || (rc == 0 && count == made.known), "entries are not returned");
	if (rc)
		return;
	if (sound)
		check_entries(records, count);
	for (size_t i = 0; i < count; i++)
		want(records[i].kind && records[i].kind < RECORD_KINDS &&
				records[i].bytes <= sizeof records->body,
			"an entry of an unknown kind");
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
	/* A file that was cut, or in which a byte was changed. */
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
	return drive_noise(bytes, size, random);
}

const struct drive fuzz_drive = {"fuzz_record", INPUT_ROOM, compose, NULL};
#endif

/* story_fixture: made-up records, written entry by entry, and what is asked of the story that they
 * come to. */
#pragma once

#include "client/cli/watch/why/story.h"
#include "record/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define GIB ((uint64_t)1 << 30)
#define SECOND 1000000000ull
#define BEGAN 1700000000ull /* Unix time at which the daemon of these records starts */
#define NONE UINT64_MAX

enum { BOOK = 8192, DAEMON_PID = 812, TRAINER_PID = 4121 };

struct book {
	struct record record[BOOK];
	size_t count;
	struct story_now now;
	struct story story;
	bool told;
};

static const struct record_cgroup container = {
	.used = 15 * GIB, .limit = 16 * GIB, .oom_kills = 3, .path = "/docker/7e"};
static const struct record_cgroup unlimited = {
	.used = 15 * GIB, .limit = NONE, .oom_kills = 3, .path = "/user.slice"};

/* ---- records ---- */

static inline struct record *book_add(struct book *b, enum record_kind kind, double at_s)
{
	assert_true(b->count < BOOK);
	struct record *r = &b->record[b->count++];
	*r = (struct record){.kind = kind, .time_ns = BEGAN * SECOND + (uint64_t)(at_s * 1e9)};
	b->now.time_ns = r->time_ns + SECOND;
	return r;
}

static inline struct book *book_new(void)
{
	struct book *b = test_calloc(1, sizeof *b);
	b->now = (struct story_now){.boot_id = "boot-1", .host = "node7", .daemon_lives = true};
	struct record_start *s = &book_add(b, RECORD_START, 0)->body.start;
	*s = (struct record_start){.pid = DAEMON_PID,
		.start_ticks = 11,
		.budget = 2 * GIB,
		.memory_total = 62 * GIB,
		.boot_id = "boot-1",
		.version = "0.1.0",
		.socket = "/run/s.sock",
		.host = "node7",
		.cpu_limit_s = NONE,
		.cgroup = container};
	return b;
}

static inline struct record_attach *book_attach(
	struct book *b, double at_s, uint64_t trainer, int32_t pid)
{
	struct record_attach *a = &book_add(b, RECORD_ATTACH, at_s)->body.attach;
	*a = (struct record_attach){.trainer = trainer,
		.pid = pid,
		.parent = 1,
		.start_ticks = 100 + (uint64_t)pid,
		.stream = "imagenet",
		.source = "/data/imagenet",
		.batch_size = 256,
		.world_size = 1,
		.command = "python train.py",
		.parent_command = "bash run.sh",
		.cpu_limit_s = NONE,
		.cgroup = container};
	return a;
}

static inline void book_leave(
	struct book *b, double at_s, uint64_t trainer, enum record_leaving how)
{
	struct record_leave *l = &book_add(b, RECORD_LEAVE, at_s)->body.leave;
	*l = (struct record_leave){
		.trainer = trainer, .how = how, .held = 2, .epoch = 3, .batch = 12, .given = 1234};
	if (how == RECORD_DRAINED)
		(void)snprintf(l->text, sizeof l->text, "the daemon ends");
	if (how == RECORD_EXPELLED)
		(void)snprintf(l->text, sizeof l->text, "it held the group up for 30 s");
}

static inline struct record_exit *book_exit(
	struct book *b, double at_s, uint64_t trainer, int status)
{
	struct record_exit *e = &book_add(b, RECORD_EXIT, at_s)->body.exit;
	*e = (struct record_exit){.trainer = trainer,
		.pid = trainer ? TRAINER_PID : DAEMON_PID,
		.known = 1,
		.status = status,
		.lived_s = (uint64_t)at_s,
		.cpu_s = 7,
		.memory = {NONE, NONE, NONE, NONE, NONE},
		.cgroup = container};
	e->cgroup.used = 4 * GIB;
	return e;
}

static inline struct record_trainer *book_trainer(
	struct book *b, double at_s, uint64_t trainer, uint64_t resident)
{
	struct record_trainer *t = &book_add(b, RECORD_TRAINER, at_s)->body.trainer;
	*t = (struct record_trainer){.trainer = trainer,
		.pid = TRAINER_PID,
		.held = 1,
		.slots = 4,
		.epoch = 3,
		.batch = 11,
		.given = 1233,
		.waits = 0.25F,
		.cpu = 1,
		.memory = {resident, resident - GIB / 2, GIB / 2, 0, resident},
		.gpu_bytes = NONE};
	return t;
}

static inline struct record_machine *book_machine(
	struct book *b, double at_s, uint64_t available, const struct record_cgroup *cgroup)
{
	struct record_machine *m = &book_add(b, RECORD_MACHINE, at_s)->body.machine;
	*m = (struct record_machine){.available = available,
		.total = 62 * GIB,
		.swap_free = 0,
		.oom_kills = 3,
		.disk_free = 100 * GIB,
		.cgroup = *cgroup,
		.pressure = {5, 40, 12, 1, -1}};
	return m;
}

static inline void book_daemon(struct book *b, double at_s)
{
	struct record_daemon *d = &book_add(b, RECORD_DAEMON, at_s)->body.daemon;
	*d = (struct record_daemon){.memory = {2 * GIB, GIB, GIB, 0, 2 * GIB},
		.reserved = 2 * GIB - GIB / 10,
		.budget = 2 * GIB,
		.trainers = 1,
		.streams = 1,
		.images_per_s = 3400,
		.verdict = "trainer-bound, 97 %"};
}

static inline void book_end(struct book *b, double at_s, const char *why)
{
	(void)snprintf(book_add(b, RECORD_END, at_s)->body.note.text, RECORD_TEXT, "%s", why);
}

/* One trainer whose memory rises from 3.1 to 11.8 GiB in an hour, with samples each ten seconds. */
static inline void book_hour(struct book *b)
{
	(void)book_attach(b, 1, 1, TRAINER_PID);
	for (int s = 10; s <= 3600; s += 10) {
		book_daemon(b, s);
		(void)book_machine(b, s, 30 * GIB, &container);
		(void)book_trainer(
			b, s, 1, (uint64_t)((3.1 + 8.7 * (s - 10) / 3590.0) * (double)GIB));
	}
}

/* ---- telling ---- */

static inline struct story *book_tell(struct book *b)
{
	if (b->told)
		story_free(&b->story);
	assert_int_equal(story_tell(b->record, b->count, &b->now, &b->story), 0);
	b->told = true;
	return &b->story;
}

static inline const struct story_end *book_find(struct book *b, int32_t pid)
{
	book_tell(b);
	for (size_t i = 0; i < b->story.count; i++)
		if (b->story.end[i].pid == pid)
			return &b->story.end[i];
	fail_msg("pid %d is not in the story", pid);
	return NULL;
}

static inline const struct story_end *expect(struct book *b, int32_t pid, enum story_cause cause,
	enum story_sure sure, const char *begins)
{
	const struct story_end *end = book_find(b, pid);
	if (end->cause != cause || end->sure != sure)
		fail_msg("expected %s (%s), got %s (%s): %s", story_cause_name(cause),
			story_sure_name(sure), story_cause_name(end->cause),
			story_sure_name(end->sure), end->sentence);
	if (strncmp(end->sentence, begins, strlen(begins)) != 0)
		fail_msg("expected \"%s...\", got \"%s\"", begins, end->sentence);
	return end;
}

static inline void book_free(struct book *b)
{
	if (b->told)
		story_free(&b->story);
	test_free(b);
}

static inline const char *line_of(const struct story_end *end, const char *label)
{
	for (unsigned i = 0; i < end->lines; i++)
		if (strcmp(end->line[i].label, label) == 0)
			return end->line[i].text;
	fail_msg("no line \"%s\"", label);
	return "";
}

static inline void contains(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in \"%s\"", part, text);
}

/* Scenarios of the flight recorder: its folder, its file, its process, and the story built from
 * it. */
#include "torture_unit/data.h"
#include "torture_unit/torture.h"

#include "client/cli/watch/why/story.h"
#include "record/ring.h"
#include "record/ring_folder.h"
#include "record/witness.h"

#include <errno.h>
#include <poll.h>
#include <sys/wait.h>
#include <time.h>

static struct record record_of(enum record_kind kind, int i)
{
	struct record record = {
		.kind = kind, .time_ns = UINT64_C(1700000000000000000) + (uint64_t)i};
	if (kind == RECORD_START) {
		record.bytes = sizeof record.body.start;
		record.body.start.pid = 812;
	} else if (kind == RECORD_ATTACH) {
		record.bytes = sizeof record.body.attach;
		record.body.attach = (struct record_attach){.trainer = 1, .pid = 4121};
	} else if (kind == RECORD_EXIT) {
		record.bytes = sizeof record.body.exit;
		record.body.exit =
			(struct record_exit){.trainer = 1, .pid = 4121, .known = 1, .status = 9};
	} else {
		record.bytes = sizeof record.body.trainer;
		record.body.trainer = (struct record_trainer){.trainer = 1, .pid = 4121};
	}
	return record;
}

static const enum record_kind kinds[] = {
	RECORD_START, RECORD_ATTACH, RECORD_TRAINER, RECORD_TRAINER, RECORD_TRAINER, RECORD_EXIT};

/* How many were kept; -1: there is no file. */
static int write_ring(const char *path)
{
	struct ring *ring = NULL;
	struct fault fault = {""};
	int kept = 0;
	int code = ring_create(path, RING_LEAST, &ring, &fault);
	if (code < 0) {
		torture_refused(code, fault.text);
		TORTURE_WANT(access(path, F_OK) < 0);
		return -1;
	}
	for (size_t i = 0; i < UTIL_COUNT(kinds); i++) {
		struct record record = record_of(kinds[i], (int)i);
		kept += ring_append(ring, &record) == 0;
	}
	ring_free(ring);
	return kept;
}

static void run_ring(void)
{
	struct record *records = NULL;
	size_t count = 0;
	struct fault fault = {""};
	torture_on();
	int kept = write_ring(torture_own("a.ring"));
	if (kept < 0)
		return;
	int code = ring_read(torture_own("a.ring"), &records, &count, &fault);
	torture_off();
	if (code < 0)
		torture_refused(code, fault.text);
	else
		TORTURE_WANT(
			(int)count == kept && (torture_struck() || kept == (int)UTIL_COUNT(kinds)));
	free(records);
}

static void make_ring(void)
{
	TORTURE_WANT(write_ring(torture_given("a.ring")) == (int)UTIL_COUNT(kinds));
}

static void run_story(void)
{
	struct record *records = NULL;
	size_t count = 0;
	struct fault fault = {""};
	struct story story;
	struct story_now now = {
		.time_ns = UINT64_C(1700000001000000000), .boot_id = "b", .host = "h"};
	torture_on();
	int code = ring_read(torture_given("a.ring"), &records, &count, &fault);
	if (code < 0) {
		torture_refused(code, fault.text);
		return;
	}
	code = story_tell(records, count, &now, &story);
	torture_off();
	if (code < 0) {
		torture_mute(code);
	} else {
		TORTURE_WANT(story.count == 2 && story.end[0].sentence[0]);
		story_free(&story);
	}
	free(records);
}

static void run_attic(void)
{
	char folder[4096], name[64];
	struct fault fault = {""};
	for (int i = 0; i < 4; i++) {
		(void)snprintf(
			name, sizeof name, "state/recorder-2026010%dT000000Z-%d.ring", i + 1, i);
		fixture_file(torture_room, name, "");
	}
	fixture_file(torture_room, "state/other.ring", "");
	(void)chmod(torture_own("state"), 0700);
	torture_on();
	int code = ring_folder_resolve(torture_own("state"), folder, sizeof folder, &fault);
	if (code == 0)
		code = ring_folder_make(folder, &fault);
	if (code < 0) {
		torture_refused(code, fault.text);
		return;
	}
	ring_folder_tidy(folder, 2);
	torture_off();
	/* Never one too many, nor a newer before an older. */
	TORTURE_WANT(access(torture_own("state/recorder-20260104T000000Z-3.ring"), F_OK) == 0);
	TORTURE_WANT(access(torture_own("state/recorder-20260103T000000Z-2.ring"), F_OK) == 0);
	TORTURE_WANT(access(torture_own("state/other.ring"), F_OK) == 0);
	TORTURE_WANT(torture_struck() ||
		     access(torture_own("state/recorder-20260101T000000Z-0.ring"), F_OK) < 0);
}

/* The witness's process inherits what fails: it must end all the same, and so must this side. */
static void run_witness(void)
{
	struct witness_options options = {
		.folder = torture_own("state"), .bytes = 1 << 20, .keep = 2};
	struct witness *witness = NULL;
	struct fault fault = {""};
	struct record record;
	char how[128] = "";
	torture_on();
	int code = witness_start(&options, &witness, &fault);
	if (code < 0) {
		torture_refused(code, fault.text);
		return;
	}
	struct record start = record_of(RECORD_START, 0);
	witness_tell(witness, &start, -1);
	bool heard = false;
	for (int i = 0; i < 100 && !heard && !witness_gone(witness, how, sizeof how); i++) {
		struct pollfd fd = {.fd = witness_fd(witness), .events = POLLIN};
		(void)poll(&fd, 1, 50);
		while (witness_hear(witness, &record))
			heard |= record.kind == RECORD_START;
	}
	TORTURE_WANT(heard || torture_struck() || how[0]);
	pid_t pid = witness_pid(witness);
	witness_end(witness, "asked");
	torture_off();
	if (pid > 0) {
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
	}
}

const struct torture_scenario torture_record[] = {
	{"record.ring", NULL, run_ring},
	{"record.story", make_ring, run_story},
	{"record.attic", NULL, run_attic},
	{"record.witness", NULL, run_witness},
	{0},
};

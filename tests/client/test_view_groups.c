/* Groups of views: what a program reads of them, and daemons whose OPENED or slots describe them
 * wrongly. */
#include "fake.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { SAMPLES = 2, VIEWS = 5, GROUPS = 2, LIMIT_MS = 5000 };

static const struct fake_shape shape = {.batch_size = SAMPLES,
	.side = 8,
	.slots = 2,
	.batches = 3,
	.first_serial = 1,
	.views = VIEWS};

struct tail {
	struct wire_opened_tail counts;
	struct wire_group group[GROUPS + 1]; /* one more, for a message that is too long */
};

/* What the daemon changes, and what the program gets. */
struct wrong {
	const char *name;
	void (*tail)(struct tail *tail);
	void (*slot)(struct slots_head *head, struct slots_group *groups);
	uint32_t more, less; /* bytes by which the message is longer or shorter */
	bool plain; /* the welcome has no feature */
	const char *sentence; /* NULL: all is right */
};

static struct tail right_tail(void)
{
	return (struct tail){.counts = {.groups = GROUPS},
		.group = {{.views = 2, .height = 8, .width = 8, .name = "global"},
			{.views = 3, .height = 4, .width = 6, .name = "local"}}};
}

static void right_slot(struct slots_head *head, struct slots_group *groups)
{
	groups[0] = (struct slots_group){0, 2, 8, 8, 192, 256};
	groups[1] = (struct slots_group){2, 3, 4, 6, 72, 1024};
	head->groups = GROUPS;
	head->images_offset = groups[0].images_offset;
	for (uint32_t row = 0; row < SAMPLES * 2; row++)
		memset((uint8_t *)head + 256 + row * 192, (int)(1 + row), 192);
	for (uint32_t row = 0; row < SAMPLES * 3; row++)
		memset((uint8_t *)head + 1024 + row * 72, (int)(101 + row), 72);
}

static void welcome(int fd, uint64_t features)
{
	const struct conn_message *message = fake_expect(fd, WIRE_HELLO);
	const struct wire_hello *hello = conn_view(message, WIRE_HELLO, sizeof *hello, 0);
	FAKE_WANT(hello && hello->features & WIRE_FEATURE_GROUPS);
	struct wire_welcome answer = {.head = {.type = WIRE_WELCOME, .request = 1},
		.magic = WIRE_MAGIC,
		.version = 1,
		.pid = getpid(),
		.features = features,
		.text_bytes = 5};
	fake_send(fd, &answer.head, sizeof answer, "0.1.0", 5, -1);
}

static void serve(int fd, const void *argument)
{
	const struct wrong *wrong = argument;
	struct tail tail = right_tail();
	welcome(fd, wrong->plain ? 0 : WIRE_FEATURE_GROUPS);
	struct wire_opened opened = fake_opened_at(fake_expect(fd, WIRE_OPEN), &shape, 0);
	if (wrong->tail)
		wrong->tail(&tail);
	const size_t bytes = sizeof tail.counts + GROUPS * sizeof tail.group[0];
	fake_send(fd, &opened.head, sizeof opened, &tail, bytes + wrong->more - wrong->less, -1);
	struct fake_memory memory = fake_send_memory(fd, &shape);
	struct wire_batch batch = fake_fill(&shape, &memory, 0, 0);
	struct slots_head *head = fake_slot(&memory, 0);
	struct slots_group *groups =
		(struct slots_group *)(void *)((uint8_t *)head + SLOTS_GROUPS_OFFSET);
	right_slot(head, groups);
	if (wrong->slot)
		wrong->slot(head, groups);
	fake_send(fd, &batch.head, sizeof batch, NULL, 0, -1);
	while (fake_receive(fd))
		;
}

/* ---- what a program reads ---- */

static void read_right(const struct penstock_stream *stream, const struct penstock_batch *batch)
{
	struct penstock_view_group group;
	const uint8_t *global = penstock_batch_images(stream, batch, 0),
		      *local = penstock_batch_images(stream, batch, 1);
	FAKE_WANT(penstock_stream_groups(stream) == GROUPS);
	FAKE_WANT(penstock_stream_group(stream, 0, &group) == 0);
	FAKE_WANT(group.first_view == 0 && group.views == 2 && group.height == 8);
	FAKE_WANT(strcmp(group.name, "global") == 0);
	FAKE_WANT(penstock_stream_group(stream, 1, &group) == 0);
	FAKE_WANT(group.first_view == 2 && group.views == 3 && group.height == 4);
	FAKE_WANT(group.width == 6 && strcmp(group.name, "local") == 0);
	FAKE_WANT(penstock_stream_group(stream, GROUPS, &group) == -EINVAL);
	FAKE_WANT(strstr(penstock_error(), "the stream has 2 groups of views") != NULL);
	FAKE_WANT(global == batch->images && global[0] == 1 && global[3 * 192] == 4);
	FAKE_WANT(local != NULL && local[0] == 101 && local[5 * 72 + 71] == 106);
	FAKE_WANT(batch->samples[7].view == 2 && batch->image_bytes == 192);
	FAKE_WANT(penstock_batch_images(stream, batch, GROUPS) == NULL);
}

static void run_one(const void *argument)
{
	const struct wrong *wrong = argument;
	struct fake fake;
	struct penstock_stream *stream = NULL;
	struct penstock_batch batch = {0};
	fake_start(&fake, serve, wrong);
	struct penstock_options options = fake_options(&fake);
	int result = penstock_stream_open(&options, &stream);
	if (result == 0)
		result = penstock_stream_next(stream, &batch, LIMIT_MS);
	if (wrong->sentence) {
		FAKE_WANT(result == -EPROTO);
		FAKE_WANT(strstr(penstock_error(), wrong->sentence) != NULL);
	} else {
		FAKE_WANT(result == 0);
		read_right(stream, &batch);
		struct penstock_batch given = batch;
		FAKE_WANT(penstock_batch_release(stream, &batch) == 0);
		FAKE_WANT(penstock_batch_images(stream, &given, 1) == NULL);
	}
	penstock_stream_close(stream);
	FAKE_WANT(fake_stop(&fake));
}

/* ---- what daemons do wrongly ---- */

#define TAIL(function, change)                  \
	static void function(struct tail *tail) \
	{                                       \
		change;                         \
	}
#define SLOT(function, change)                                                    \
	static void function(struct slots_head *head, struct slots_group *groups) \
	{                                                                         \
		(void)head;                                                       \
		(void)groups;                                                     \
		change;                                                           \
	}

TAIL(no_groups, tail->counts.groups = 0)
TAIL(many_groups, tail->counts.groups = SLOTS_GROUPS_MAX + 1)
TAIL(uncounted_group, tail->counts.groups = GROUPS + 1)
TAIL(fields, tail->counts.fields = 1)
TAIL(no_views, tail->group[1].views = 0)
TAIL(few_views, tail->group[1].views = 2)
TAIL(many_views, tail->group[1].views = UINT32_MAX)
TAIL(no_height, tail->group[1].height = 0)
TAIL(tall, tail->group[1].height = 9)
TAIL(wide, tail->group[1].width = UINT32_MAX)
TAIL(endless_name, memset(tail->group[1].name, 'x', WIRE_NAME))

SLOT(slot_without_groups, head->groups = 0)
SLOT(slot_of_one_group, head->groups = 1)
SLOT(slot_of_many_groups, head->groups = UINT32_MAX)
SLOT(other_first_view, groups[1].first_view = 1)
SLOT(other_views, groups[1].views = 2)
SLOT(other_height, groups[1].height = 6)
SLOT(other_width, groups[1].width = 8)
SLOT(other_row_bytes, groups[1].row_bytes = 73)
SLOT(crooked, groups[1].images_offset = 1025)
SLOT(in_the_head, groups[1].images_offset = 0)
SLOT(beyond, groups[1].images_offset = 1 << 20)
SLOT(far_beyond, groups[1].images_offset = UINT64_MAX - 63)
SLOT(other_place_than_the_head, head->images_offset = 1024)
SLOT(other_size_than_the_head, (head->height = 4, head->row_bytes = 96))

#define OPENED "malformed OPENED"
#define SHAPE "its shape is not that of the stream"
#define OUT "its offsets lead out of the slot"

static const struct wrong wrongs[] = {
	{"right", NULL, NULL, 0, 0, false, NULL},
	{"no groups", no_groups, NULL, 0, GROUPS * sizeof(struct wire_group), false, OPENED},
	{"many groups", many_groups, NULL, 0, 0, false, OPENED},
	{"a group that is not there", uncounted_group, NULL, 0, 0, false, OPENED},
	{"a group that is not counted", NULL, NULL, sizeof(struct wire_group), 0, false, OPENED},
	{"a cut group", NULL, NULL, 0, 8, false, OPENED},
	{"a cut tail", NULL, NULL, 0, GROUPS * sizeof(struct wire_group) + 8, false, OPENED},
	{"fields", fields, NULL, 0, 0, false, OPENED},
	{"groups that were not agreed on", NULL, NULL, 0, 0, true, OPENED},
	{"no views", no_views, NULL, 0, 0, false, OPENED},
	{"few views", few_views, NULL, 0, 0, false, OPENED},
	{"many views", many_views, NULL, 0, 0, false, OPENED},
	{"no height", no_height, NULL, 0, 0, false, OPENED},
	{"tall", tall, NULL, 0, 0, false, OPENED},
	{"wide", wide, NULL, 0, 0, false, OPENED},
	{"endless name", endless_name, NULL, 0, 0, false, OPENED},
	{"a slot without groups", NULL, slot_without_groups, 0, 0, false, SHAPE},
	{"a slot of one group", NULL, slot_of_one_group, 0, 0, false, SHAPE},
	{"a slot of many groups", NULL, slot_of_many_groups, 0, 0, false, SHAPE},
	{"another first view", NULL, other_first_view, 0, 0, false, OUT},
	{"another number of views", NULL, other_views, 0, 0, false, OUT},
	{"another height", NULL, other_height, 0, 0, false, OUT},
	{"another width", NULL, other_width, 0, 0, false, OUT},
	{"other row bytes", NULL, other_row_bytes, 0, 0, false, OUT},
	{"crooked", NULL, crooked, 0, 0, false, OUT},
	{"in the head", NULL, in_the_head, 0, 0, false, OUT},
	{"beyond the slot", NULL, beyond, 0, 0, false, OUT},
	{"far beyond the slot", NULL, far_beyond, 0, 0, false, OUT},
	{"another place than the head's", NULL, other_place_than_the_head, 0, 0, false, OUT},
	{"another size than the head's", NULL, other_size_than_the_head, 0, 0, false, OUT},
};

static void test_groups(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++)
		fake_check(run_one, &wrongs[i], wrongs[i].name);
}

/* A stream without groups, and a program that does not know of them. */
static void serve_plain(int fd, const void *argument)
{
	const struct conn_message *message = fake_expect(fd, WIRE_HELLO);
	const struct wire_hello *hello = conn_view(message, WIRE_HELLO, sizeof *hello, 0);
	FAKE_WANT(hello && !(hello->features & WIRE_FEATURE_GROUPS) == (argument != NULL));
	struct wire_welcome answer = {.head = {.type = WIRE_WELCOME, .request = 1},
		.magic = WIRE_MAGIC,
		.version = 1,
		.pid = getpid(),
		.text_bytes = 5};
	fake_send(fd, &answer.head, sizeof answer, "0.1.0", 5, -1);
	fake_open(fd, &shape);
	struct fake_memory memory = fake_send_memory(fd, &shape);
	fake_send_batch(fd, &shape, &memory, 0, 0);
	while (fake_receive(fd))
		;
}

static void run_plain(const void *old)
{
	struct fake fake;
	struct penstock_view_group group;
	struct penstock_batch batch;
	fake_start(&fake, serve_plain, old);
	struct penstock_options options = fake_options(&fake);
	if (old)
		options.size = offsetof(struct penstock_options, view_groups);
	struct penstock_stream *stream = fake_open_stream(&options);
	FAKE_WANT(penstock_stream_next(stream, &batch, LIMIT_MS) == 0);
	FAKE_WANT(penstock_stream_groups(stream) == 0);
	FAKE_WANT(penstock_stream_group(stream, 0, &group) == -EINVAL);
	FAKE_WANT(strstr(penstock_error(), "not divided into groups") != NULL);
	FAKE_WANT(penstock_batch_images(stream, &batch, 0) == batch.images);
	FAKE_WANT(penstock_batch_images(stream, &batch, 1) == NULL);
	fake_close(&fake, stream);
}

static void test_streams_without_groups(void **state)
{
	(void)state;
	fake_check(run_plain, NULL, "plain");
	fake_check(run_plain, &shape, "old program");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_streams_without_groups),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

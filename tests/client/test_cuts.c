/* The cuts of a stream with buckets: what a state says of them, and daemons whose OPENED describes
 * them wrongly. */
#include "fake.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BEGIN = 2, LIMIT_MS = 5000 }; /* the stream begins with batch 2 of epoch 0 */

static const struct fake_shape shape = {
	.batch_size = 4, .side = 8, .slots = 2, .batches = 4, .epochs = 2, .first_serial = 1};

/* The tail that the daemon sends. */
struct told {
	const char *name;
	struct wire_opened_tail counts;
	struct wire_cut cut[WIRE_CUTS_MAX + 1];
	uint32_t more, less; /* bytes by which the message is longer or shorter */
	uint64_t features; /* in WELCOME, of those that are offered */
	bool right;
};

static void serve(int fd, const void *argument)
{
	const struct told *told = argument;
	fake_welcome_with(fd, told->features);
	struct wire_opened opened = fake_opened_at(fake_expect(fd, WIRE_OPEN), &shape, BEGIN);
	uint8_t bytes[sizeof told->counts + sizeof told->cut + 16] = {0};
	memcpy(bytes, &told->counts, sizeof told->counts);
	memcpy(bytes + sizeof told->counts, told->cut, sizeof told->cut);
	size_t size = sizeof told->counts + told->counts.cuts * sizeof *told->cut;
	fake_send(fd, &opened.head, sizeof opened, bytes, size + told->more - told->less, -1);
	struct fake_memory memory = fake_send_memory(fd, &shape);
	for (uint32_t i = 0; i < 2; i++)
		fake_send_batch(fd, &shape, &memory, i, BEGIN + i);
	while (fake_receive(fd))
		;
}

static void want_cuts(const struct penstock_stream *stream, const char *cuts)
{
	char state[512];
	FAKE_WANT(penstock_stream_state(stream, state, sizeof state) > 0);
	const char *at = strstr(state, "\"cuts\":");
	FAKE_WANT(at && strcmp(at, cuts) == 0);
}

static void run_one(const void *argument)
{
	const struct told *told = argument;
	struct fake fake;
	struct penstock_stream *stream = NULL;
	struct penstock_batch batch;
	fake_start(&fake, serve, told);
	struct penstock_options options = fake_options(&fake);
	int result = penstock_stream_open(&options, &stream);
	if (told->right) {
		FAKE_WANT(result == 0);
		/* The epoch keeps its cuts up to its end; the next one has only the present. */
		want_cuts(stream, "\"cuts\":[[0,2],[8,4]]}");
		FAKE_WANT(penstock_stream_next(stream, &batch, LIMIT_MS) == 0);
		want_cuts(stream, "\"cuts\":[[0,2],[8,4]]}");
		FAKE_WANT(penstock_stream_next(stream, &batch, LIMIT_MS) == 0);
		want_cuts(stream, "\"cuts\":[[0,4]]}");
	} else {
		FAKE_WANT(result == -EPROTO && !stream);
		FAKE_WANT(strstr(penstock_error(), "malformed OPENED") != NULL);
	}
	penstock_stream_close(stream);
	FAKE_WANT(fake_stop(&fake));
}

#define CUTS(number)             \
	{                        \
		.cuts = (number) \
	}
#define BUCKETS WIRE_FEATURE_BUCKETS

static const struct told tolds[] = {
	{"right", CUTS(2), {{0, 2}, {8, 4}}, 0, 0, BUCKETS, true},
	{"not agreed on", CUTS(2), {{0, 2}, {8, 4}}, 0, 0, 0, false},
	{"other features", CUTS(2), {{0, 2}, {8, 4}}, 0, 0, WIRE_FEATURE_FIELDS, false},
	{"a tail without anything", CUTS(0), {{0, 0}}, 0, 0, BUCKETS, false},
	{"too many", CUTS(WIRE_CUTS_MAX + 1),
		{{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 1}, {7, 1}, {8, 4}}, 0, 0,
		BUCKETS, false},
	{"a cut that is not counted", CUTS(1), {{0, 4}}, sizeof(struct wire_cut), 0, BUCKETS,
		false},
	{"a cut that is not there", CUTS(2), {{0, 2}, {8, 4}}, 0, sizeof(struct wire_cut), BUCKETS,
		false},
	{"half a cut", CUTS(2), {{0, 2}, {8, 4}}, 0, 8, BUCKETS, false},
	{"no batch", CUTS(2), {{0, 0}, {8, 4}}, 0, 0, BUCKETS, false},
	{"not from the beginning", CUTS(2), {{1, 2}, {8, 4}}, 0, 0, BUCKETS, false},
	{"twice at one place", CUTS(3), {{0, 2}, {8, 2}, {8, 4}}, 0, 0, BUCKETS, false},
	{"backward", CUTS(3), {{0, 2}, {8, 2}, {6, 4}}, 0, 0, BUCKETS, false},
	{"later than the stream", CUTS(2), {{0, 2}, {9, 4}}, 0, 0, BUCKETS, false},
	{"far later", CUTS(2), {{0, 2}, {UINT64_MAX, 4}}, 0, 0, BUCKETS, false},
	{"another global batch", CUTS(2), {{0, 2}, {8, 5}}, 0, 0, BUCKETS, false},
	{"a huge global batch", CUTS(1), {{0, UINT64_MAX}}, 0, 0, BUCKETS, false},
};

static void test_cuts(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof tolds / sizeof *tolds; i++)
		fake_check(run_one, &tolds[i], tolds[i].name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_cuts)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

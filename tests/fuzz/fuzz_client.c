/* libpenstock against a daemon that lies: sequences of correct and changed messages and of any
 * bytes; real, false and overwritten memory; hang-ups and silence, while an application opens
 * streams, takes and releases batches, asks questions, and continues after lost connections.
 *
 * Expected: exactly the batches that were announced correctly, in order, each once, with the
 * contents that were filled in; none after a message that breaks the protocol; no pointer
 * outside an extent; a sentence with each refusal; no call that exceeds its time limit (only
 * waiting moves the time: liar.h); no release of a batch that is not held; no leaks. */
#include "fuzz/liar/liar.h"

#ifndef PENSTOCK_LIBFUZZER
#include "fuzz/drive.h"
enum { FDS_OTHER = 0 };
#else
enum { FDS_OTHER = 8 }; /* libFuzzer opens files between cases */
#endif

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 64, HELD = 16, FDS_EVERY = 64, LATE_MS = 1200, RECONNECT_MS = 3000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct held {
	struct penstock_batch batch;
	const uint8_t *base;
	size_t bytes;
	uint64_t mark;
	bool sure;
};

static struct held held[HELD];
static unsigned held_count;
static struct penstock_stream_info info;
static uint64_t cases, opened, given, refused, released;

static _Noreturn void wrong(const char *what)
{
	(void)fprintf(stderr, "WRONG: %s (%s)\n", what, penstock_error());
	abort();
}

static void want(bool holds, const char *what)
{
	if (!holds)
		wrong(what);
}

/* ---- batches ---- */

static bool within(const struct held *h, const void *at, uint64_t bytes)
{
	const uint8_t *from = at;
	return from >= h->base && bytes <= h->bytes && (size_t)(from - h->base) <= h->bytes - bytes;
}

/* Reads everything that an application may read. */
static uint64_t sum(const void *at, uint64_t bytes)
{
	const uint8_t *from = at;
	uint64_t total = 0;
	for (uint64_t i = 0; i < bytes; i++)
		total += from[i];
	return total;
}

static void read_all(const struct held *h)
{
	const struct penstock_batch *b = &h->batch;
	uint64_t rows = (uint64_t)info.batch_size * info.views;
	uint64_t values = (uint64_t)info.batch_size * info.label_width;
	const void *labels = b->labels ? (const void *)b->labels : b->label_values;
	uint64_t label_bytes = values * (b->labels ? 8 : 4);
	uint64_t records = rows * sizeof *b->samples;
	want(within(h, b->images, rows * b->image_bytes), "images leave the extent");
	want(within(h, labels, label_bytes), "labels leave the extent");
	want(within(h, b->samples, records), "records leave the extent");
	want(b->count >= 1 && b->count <= info.batch_size, "an impossible number of rows");
	want(b->height >= 1 && b->height <= info.height && b->width >= 1 && b->width <= info.width,
		"an impossible size");
	uint64_t total = sum(b->images, rows * b->image_bytes);
	(void)sum(labels, label_bytes);
	(void)sum(b->samples, records);
	if (h->sure && !liar_is_unsure())
		want(total == rows * b->image_bytes * (h->mark & 0xff),
			"another batch than announced");
}

static void took(struct penstock_stream *stream, const struct penstock_batch *batch)
{
	struct liar_batch *next = liar_next();
	const void *base;
	struct held h = {.batch = *batch};
	given++;
	want(penstock_batch_memory(stream, batch, &base, &h.bytes) == 0, "a batch without memory");
	h.base = base;
	if (!liar_is_unsure()) {
		want(next && next->sound, "a batch that must not be given");
		const struct wire_batch *m = &next->message;
		want(m->serial == batch->serial && m->slot == batch->slot &&
				m->epoch == batch->epoch && m->batch == batch->batch &&
				m->count == batch->count,
			"another batch than the next");
		h.mark = next->mark;
		h.sure = true;
	}
	if (next)
		liar_given();
	read_all(&h);
	if (held_count < HELD)
		held[held_count++] = h;
	else
		want(penstock_batch_release(stream, &h.batch) <= 0, "a release that reports more");
}

static void judge(int result)
{
	if (result < 0) {
		refused++;
		want(penstock_error()[0] != 0, "refused without a sentence");
	}
}

/* ---- the application ---- */

static bool reconnects, over;

static bool is_last_word(int result)
{
	return result == PENSTOCK_END ||
	       (result < 0 && result != -EAGAIN && result != -ETIMEDOUT && result != -EDEADLK);
}

static void step_next(struct penstock_stream *stream)
{
	static const int32_t limits[] = {0, 0, 1, 50, 1000, PENSTOCK_TIMEOUT_DEFAULT};
	int32_t limit = limits[liar_draw(6)];
	struct penstock_batch batch;
	int64_t start = liar_now_ns();
	int result = penstock_stream_next(stream, &batch, limit);
	int64_t took_ms = (liar_now_ns() - start) / 1000000;
	int64_t most = (limit < 0 ? penstock_stream_timeout_ms(stream) : limit) + LATE_MS;
	want(took_ms <= most, "next took longer than it may");
	judge(result);
	want(result <= 0 || result == PENSTOCK_END, "next returns an impossible code");
	want(result != -EAGAIN || limit == 0, "next gave up before its time");
	want(result != -EINTR, "next was interrupted without cause");
	if (result == 0)
		took(stream, &batch);
	over = is_last_word(result);
	if (result == PENSTOCK_END)
		want(liar_ended() || liar_is_unsure(), "the end came unasked");
}

static void step_release(struct penstock_stream *stream)
{
	if (!held_count)
		return;
	unsigned at = liar_draw(HELD) % held_count;
	struct held *h = &held[at];
	read_all(h);
	uint64_t serial = h->batch.serial;
	int result = penstock_batch_release(stream, &h->batch);
	judge(result);
	released++;
	/* It may belong to an earlier connection. */
	want(result == 0 || liar_is_unsure() || liar_broke() || reconnects, "a release failed");
	want(!h->batch.images, "a batch that was released has pointers");
	h->batch.serial = serial;
	want(penstock_batch_release(stream, &h->batch) == -EINVAL, "a batch was released twice");
	held[at] = held[--held_count];
}

static void step_ask(struct penstock_stream *stream)
{
	char *text = NULL;
	int64_t start = liar_now_ns();
	int result;
	switch (liar_draw(5)) {
	case 0:
		result = penstock_stream_classes(stream, &text);
		break;
	case 1:
		result = penstock_stream_path(stream, liar_draw(8), &text);
		break;
	case 2:
		result = penstock_stream_stats(stream, &text);
		break;
	case 3:
		result = penstock_stream_config(stream, &text);
		break;
	default:
		result = penstock_stream_wait(stream, &text);
		break;
	}
	want((liar_now_ns() - start) / 1000000 <= 30000 + LATE_MS, "a question took too long");
	judge(result);
	want(result <= 0 && (result < 0 || text), "an answer without a text");
	if (result == 0)
		(void)strlen(text);
	free(text);
}

static void step_look(struct penstock_stream *stream)
{
	char state[512];
	want(penstock_stream_fd(stream) >= 0, "no descriptor");
	want(penstock_stream_state(stream, state, sizeof state) > 0, "no state");
	for (unsigned i = 0; i < held_count; i++)
		read_all(&held[i]);
}

static void use(struct penstock_stream *stream)
{
	static void (*const steps[])(struct penstock_stream * stream) = {step_next, step_next,
		step_next, step_next, step_release, step_release, step_ask, step_look};
	penstock_stream_info(stream, &info);
	over = false;
	for (unsigned i = 0; i < STEPS && !liar_is_over() && !over; i++)
		steps[liar_draw(8)](stream);
}

/* The last error must stay the last error. */
static void finish(struct penstock_stream *stream)
{
	struct penstock_batch batch;
	int result = 0, again;
	for (unsigned i = 0; i < 4 * STEPS; i++) {
		result = penstock_stream_next(stream, &batch, 1000);
		judge(result);
		if (result == 0)
			took(stream, &batch);
		else if (is_last_word(result))
			break;
		if (held_count)
			step_release(stream);
	}
	want(result != 0 && result != -ETIMEDOUT, "the end of the connection is not seen");
	again = penstock_stream_next(stream, &batch, 0);
	want(again == result || reconnects, "another last error than before");
	if (result == PENSTOCK_END || liar_is_unsure() || reconnects)
		return;
	want(!liar_next() || !liar_next()->sound, "an announced batch was not given");
	want(liar_broke(), "the stream failed without cause");
}

static void let_go(struct penstock_stream *stream)
{
	while (held_count) {
		read_all(&held[held_count - 1]);
		judge(penstock_batch_release(stream, &held[--held_count].batch));
	}
}

static int fds(void)
{
	int n = 0;
	DIR *folder = opendir("/proc/self/fd");
	want(folder != NULL, "/proc/self/fd");
	while (readdir(folder))
		n++;
	(void)closedir(folder);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int quiet;
	struct penstock_options options;
	struct penstock_stream *stream = NULL;
	uint32_t how = size ? data[0] : 0;
	if (!quiet)
		quiet = fds();
	penstock_options_init(&options);
	options.source = "/data";
	options.socket = "/penstock-fuzz.sock";
	options.private_daemon = 0;
	options.timeout_ms = 2000;
	options.pin_memory = how & 1;
	reconnects = how & 2;
	options.reconnect_ms = reconnects ? RECONNECT_MS : 0;
	liar_begin(data + (size ? 1 : 0), size ? size - 1 : 0, options.pin_memory);
	int result = penstock_stream_open(&options, &stream);
	judge(result);
	want(result <= 0, "open returns an impossible code");
	if (result == 0) {
		opened++;
		want(liar_welcomed() || liar_is_unsure(),
			"open succeeded without a correct OPENED");
		use(stream);
		finish(stream);
		let_go(stream);
		penstock_stream_close(stream);
	} else {
		want(liar_broke() || liar_is_strange(), "open failed after a correct OPENED");
	}
	liar_end();
	if (++cases % FDS_EVERY == 0)
		want(fds() <= quiet + FDS_OTHER, "descriptors leak");
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
static size_t compose(uint8_t *bytes, size_t room, struct random *random)
{
	return drive_noise(bytes, 16 + draw(random, (uint32_t)room - 16), random);
}

static void end(void)
{
	(void)printf("%llu cases: %llu streams opened, %llu batches given, %llu released, %llu "
		     "refusals; %llu messages, %llu right and %llu wrong ones, over %llu "
		     "connections\n",
		(unsigned long long)cases, (unsigned long long)opened, (unsigned long long)given,
		(unsigned long long)released, (unsigned long long)refused,
		(unsigned long long)liar_figures.messages, (unsigned long long)liar_figures.right,
		(unsigned long long)liar_figures.wrong,
		(unsigned long long)liar_figures.connections);
}

const struct drive fuzz_drive = {"fuzz_client", 1024, compose, end};
#endif

/* dump_batches: a trainer that writes down what it is given, for the end-to-end tests.
 *
 *   dump_batches KEY=VALUE ...      the fields of struct penstock_options (private= for
 *                                   private_daemon=), and:
 *       batches=N                   stop after N batches (default: at the end of the epochs)
 *       raw=FILE                    append every valid row: the record, then the image's bytes
 *       hold=N                      keep N batches before giving the oldest back
 *       sleep_ms=N                  between batches
 *       die_at=N                    SIGKILL itself after batch N was given
 *       opened=1                    print "opened STATE" before the first batch
 *       choose=N:FILE               after N batches, set_indices(FILE; "all": NULL), up to four
 *                                   times; prints "chose CODE SAMPLES BATCHES SENTENCE"
 *       states=1                    print "state STATE" after every batch
 *       daemon=1                    print "daemon PID" once it is open
 *       path=1                      also ask for the path of the first row's sample
 *
 * Prints one line per batch: epoch batch count crc32(images) crc32(labels) crc32(records) flags,
 * then "state JSON" and "end". Exit codes: 0; 1 after "error CODE SENTENCE". */
#include "penstock/penstock.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

enum { HOLD_MAX = 64 };

struct dump {
	struct penstock_options options;
	uint64_t batches;
	const char *raw;
	unsigned hold, sleep_ms, path, opened, states, daemon, choices;
	struct {
		uint64_t after;
		const char *file;
	} choose[4];
	int64_t die_at;
};

static uint64_t number(const char *text)
{
	return strtoull(text, NULL, 10);
}

static int parse(struct dump *d, const char *key, const char *value)
{
	struct penstock_options *o = &d->options;
#define TEXT(name)                   \
	if (strcmp(key, #name) == 0) \
	return o->name = value, 0
#define NUMBER(name, type)           \
	if (strcmp(key, #name) == 0) \
	return o->name = (type)strtoll(value, NULL, 10), 0
	TEXT(source);
	TEXT(socket);
	TEXT(labels);
	TEXT(on_broken);
	TEXT(group);
	TEXT(state);
	TEXT(daemon_memory);
	TEXT(decode);
	TEXT(interpolation);
	TEXT(transforms);
	TEXT(indices);
	TEXT(share);
	TEXT(laggard);
	NUMBER(batch_size, uint32_t);
	NUMBER(image_size, uint32_t);
	NUMBER(train, int32_t);
	NUMBER(shuffle, int32_t);
	NUMBER(window, uint32_t);
	NUMBER(drop_last, int32_t);
	NUMBER(seed, uint64_t);
	NUMBER(epochs, uint64_t);
	NUMBER(prefetch, uint32_t);
	NUMBER(wait_for, uint32_t);
	NUMBER(timeout_ms, int32_t);
	NUMBER(daemon_threads, uint32_t);
	NUMBER(rank, uint32_t);
	NUMBER(world_size, uint32_t);
	NUMBER(laggard_timeout_s, uint32_t);
	NUMBER(reconnect_ms, int32_t);
	NUMBER(restarts, uint32_t);
	NUMBER(max_image_pixels, uint64_t);
	NUMBER(max_file_bytes, uint64_t);
#undef TEXT
#undef NUMBER
	if (strcmp(key, "private") == 0)
		return o->private_daemon = (int32_t)number(value), 0;
	if (strcmp(key, "max_broken") == 0)
		return o->max_broken = strtod(value, NULL), 0;
	if (strcmp(key, "batches") == 0)
		return d->batches = number(value), 0;
	if (strcmp(key, "raw") == 0)
		return d->raw = value, 0;
	if (strcmp(key, "hold") == 0)
		return d->hold = (unsigned)number(value), 0;
	if (strcmp(key, "sleep_ms") == 0)
		return d->sleep_ms = (unsigned)number(value), 0;
	if (strcmp(key, "opened") == 0)
		return d->opened = (unsigned)number(value), 0;
	if (strcmp(key, "states") == 0)
		return d->states = (unsigned)number(value), 0;
	if (strcmp(key, "path") == 0)
		return d->path = (unsigned)number(value), 0;
	if (strcmp(key, "daemon") == 0)
		return d->daemon = (unsigned)number(value), 0;
	if (strcmp(key, "choose") == 0 && d->choices < 4 && strchr(value, ':')) {
		d->choose[d->choices].after = number(value);
		d->choose[d->choices++].file = strchr(value, ':') + 1;
		return 0;
	}
	if (strcmp(key, "die_at") == 0)
		return d->die_at = (int64_t)number(value), 0;
	return -1;
}

static int fail(int code)
{
	printf("error %d %s\n", code, penstock_error());
	return 1;
}

static unsigned crc(const void *data, size_t size)
{
	return (unsigned)crc32(0, data, (unsigned)size);
}

static void print_batch(const struct penstock_batch *b)
{
	printf("%" PRIu64 " %" PRIu64 " %u %08x %08x %08x %u\n", b->epoch, b->batch, b->count,
		crc(b->images, b->image_bytes * b->count),
		crc(b->labels, sizeof *b->labels * b->count),
		crc(b->samples, sizeof *b->samples * b->count), b->flags);
	fflush(stdout);
}

static void print_state(const struct penstock_stream *stream, const char *what)
{
	char state[512];
	if (penstock_stream_state(stream, state, sizeof state) > 0)
		printf("%s %s\n", what, state);
	fflush(stdout);
}

static int write_raw(const char *path, const struct penstock_batch *b)
{
	FILE *file = fopen(path, "ab");
	if (!file)
		return -1;
	for (uint32_t i = 0; i < b->count; i++) {
		fwrite(&b->samples[i], sizeof b->samples[i], 1, file);
		fwrite((const char *)b->images + b->image_bytes * i, b->image_bytes, 1, file);
	}
	return fclose(file);
}

static void pause_ms(unsigned ms)
{
	struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
	nanosleep(&t, NULL);
}

static void choose(const struct dump *d, struct penstock_stream *stream, uint64_t after)
{
	for (unsigned i = 0; i < d->choices; i++) {
		const char *file = d->choose[i].file;
		struct penstock_stream_info info;
		if (d->choose[i].after != after)
			continue;
		int result =
			penstock_stream_set_indices(stream, strcmp(file, "all") == 0 ? NULL : file);
		penstock_stream_info(stream, &info);
		printf("chose %d %" PRIu64 " %" PRIu64 " %s\n", result, info.samples, info.batches,
			result ? penstock_error() : "");
		fflush(stdout);
	}
}

static int run(struct dump *d, struct penstock_stream *stream)
{
	struct penstock_batch held[HOLD_MAX];
	unsigned count = 0, next = 0;
	int result = 0;
	char *path;
	if (d->daemon) {
		printf("daemon %d\n", penstock_stream_daemon_pid(stream));
		fflush(stdout);
	}
	if (d->opened)
		print_state(stream, "opened");
	for (uint64_t n = 0; !d->batches || n < d->batches; n++) {
		struct penstock_batch batch;
		choose(d, stream, n);
		result = penstock_stream_next(stream, &batch, PENSTOCK_TIMEOUT_DEFAULT);
		if (result)
			break;
		print_batch(&batch);
		if (d->states)
			print_state(stream, "state");
		if (d->die_at >= 0 && n == (uint64_t)d->die_at)
			raise(SIGKILL);
		if (d->raw && write_raw(d->raw, &batch))
			return perror(d->raw), 1;
		if (d->path && penstock_stream_path(stream, batch.samples[0].index, &path) == 0) {
			printf("path %s\n", path);
			free(path);
		}
		pause_ms(d->sleep_ms);
		if (count == d->hold && d->hold) {
			result = penstock_batch_release(stream, &held[next % HOLD_MAX]);
			count--;
			next++;
		}
		if (d->hold)
			held[(next + count++) % HOLD_MAX] = batch;
		else
			result = penstock_batch_release(stream, &batch);
		if (result)
			break;
	}
	if (result < 0)
		return fail(result);
	print_state(stream, "state");
	if (result == PENSTOCK_END)
		printf("end\n");
	return 0;
}

int main(int argc, char **argv)
{
	struct dump d = {.die_at = -1};
	penstock_options_init(&d.options);
	for (int i = 1; i < argc; i++) {
		char *equals = strchr(argv[i], '=');
		if (equals)
			*equals = 0;
		if (!equals || parse(&d, argv[i], equals + 1) || d.hold > HOLD_MAX)
			return fprintf(stderr, "dump_batches: what is %s?\n", argv[i]), 2;
	}
	struct penstock_stream *stream;
	int result = penstock_stream_open(&d.options, &stream);
	if (result)
		return fail(result);
	result = run(&d, stream);
	penstock_stream_close(stream);
	return result;
}

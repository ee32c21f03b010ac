/* drive: see drive.h. In a library, so that a target may have its own main. */
#include "fuzz/drive.h"

#include "base/clock.h"
#include "base/util.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct drive_options {
	uint64_t seed, rounds, seconds;
	const char *folder;
};

/* The current input, for the handler of a finding's signal. */
static struct {
	const char *name;
	const uint8_t *bytes;
	size_t size;
	uint64_t seed;
} drive_now;

static void drive_finding(int signal)
{
	char path[128], text[256];
	(void)signal;
	(void)snprintf(path, sizeof path, "finding-%s-%" PRIu64, drive_now.name, drive_now.seed);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	bool kept =
		fd >= 0 && write(fd, drive_now.bytes, drive_now.size) == (ssize_t)drive_now.size;
	int n = snprintf(text, sizeof text, "%s: a finding: seed %" PRIu64 ", %s\n", drive_now.name,
		drive_now.seed, kept ? path : "and its input cannot be written");
	if (n > 0)
		(void)!write(STDERR_FILENO, text, (size_t)n);
}

/* SA_RESETHAND: the signal then has its default effect. */
static void drive_watch(const char *name)
{
	const struct sigaction action = {
		.sa_handler = drive_finding, .sa_flags = (int)SA_RESETHAND};
	drive_now.name = name;
	(void)sigaction(SIGABRT, &action, NULL);
#if !defined(__has_feature)
	(void)sigaction(SIGSEGV, &action, NULL);
#endif
}

static void drive_try(const uint8_t *bytes, size_t size, uint64_t seed)
{
	drive_now.bytes = bytes;
	drive_now.size = size;
	drive_now.seed = seed;
	(void)LLVMFuzzerTestOneInput(bytes, size);
}

size_t drive_noise(uint8_t *bytes, size_t size, struct random *random)
{
	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)random_64(random);
	return size;
}

size_t drive_spoil(uint8_t *bytes, size_t size, size_t room, struct random *random)
{
	if (size == 0)
		return 0;
	const uint32_t at = draw(random, (uint32_t)size);
	const size_t left = size - at, some = 1 + draw(random, 16), n = UTIL_MIN(left, some);
	switch (draw(random, 6)) {
	case 0:
		bytes[at] ^= (uint8_t)(1u << draw(random, 8));
		return size;
	case 1:
		bytes[at] = (uint8_t)draw(random, 256);
		return size;
	case 2:
		memset(bytes + at, one_in(random, 2) ? 0 : 0xff, n);
		return size;
	case 3: /* removes some bytes */
		memmove(bytes + at, bytes + at + n, left - n);
		return size - n;
	case 4: /* doubles some bytes */
		if (size + n > room)
			return size;
		memmove(bytes + at + n, bytes + at, left);
		return size + n;
	default:
		return one_in(random, 4) ? at : size;
	}
}

static size_t drive_make(const struct drive *drive, uint8_t *bytes, uint64_t seed)
{
	struct random random = {seed};
	size_t size = drive->compose(bytes, drive->room, &random);
	if (one_in(&random, 2))
		for (uint32_t changes = 1 + draw(&random, 4); changes; changes--)
			size = drive_spoil(bytes, size, drive->room, &random);
	return size;
}

static int drive_write(const char *folder, uint64_t seed, const uint8_t *bytes, size_t size)
{
	char path[4096];
	(void)snprintf(path, sizeof path, "%s/%" PRIu64, folder, seed);
	cleanup(close_file) FILE *out = fopen(path, "wb");
	if (out && fwrite(bytes, 1, size, out) == size)
		return 0;
	perror(path);
	return 1;
}

static int drive_file(const struct drive *drive, const char *path)
{
	uint8_t *bytes = malloc(drive->room);
	cleanup(close_file) FILE *in = fopen(path, "rb");
	if (!in || !bytes) {
		perror(path);
		free(bytes);
		return 1;
	}
	drive_try(bytes, fread(bytes, 1, drive->room, in), 0);
	free(bytes);
	return 0;
}

static int drive_rounds(const struct drive *drive, const struct drive_options *options)
{
	const uint64_t start = clock_ns();
	uint8_t *bytes = malloc(drive->room);
	uint64_t done = 0;
	int failed = !bytes;
	for (; !failed && done < options->rounds; done++) {
		size_t size = drive_make(drive, bytes, options->seed + done);
		if (options->folder)
			failed = drive_write(options->folder, options->seed + done, bytes, size);
		else
			drive_try(bytes, size, options->seed + done);
		if (options->seconds && done % 256 == 0 &&
			clock_ns() - start >= options->seconds * UINT64_C(1000000000))
			break;
	}
	free(bytes);
	(void)printf("%s%s: %" PRIu64 " executions, seed %" PRIu64 "; no findings\n",
		getenv("PENSTOCK_TEST_NIGHTLY") ? "promise: " : "", drive->name, done,
		options->seed);
	return failed;
}

static _Noreturn void drive_usage(const char *name)
{
	(void)fprintf(stderr,
		"usage: %s [--seed N] [--rounds N] [--seconds N] [--write FOLDER] [FILE...]\n",
		name);
	exit(2);
}

static uint64_t drive_number(const struct drive *drive, const char *text)
{
	char *end = NULL;
	uint64_t value = text ? strtoull(text, &end, 10) : 0;
	if (!text || end == text || *end)
		drive_usage(drive->name);
	return value;
}

/* Returns the first file. */
static char **drive_options(const struct drive *drive, char **arg, struct drive_options *options)
{
	for (; *arg && strncmp(*arg, "--", 2) == 0; arg += 2) {
		if (strcmp(*arg, "--seed") == 0)
			options->seed = drive_number(drive, arg[1]);
		else if (strcmp(*arg, "--rounds") == 0)
			options->rounds = drive_number(drive, arg[1]);
		else if (strcmp(*arg, "--seconds") == 0)
			options->seconds = drive_number(drive, arg[1]);
		else if (strcmp(*arg, "--write") == 0 && arg[1])
			options->folder = arg[1];
		else
			drive_usage(drive->name);
	}
	return arg;
}

int main(int argc, char **argv)
{
	enum { DAY_S = 86400, ROUNDS = 10000 };
	const struct drive *drive = &fuzz_drive;
	struct drive_options options = {.seed = 1};
	(void)argc;
	if (getenv("PENSTOCK_TEST_NIGHTLY"))
		options.seed = (uint64_t)time(NULL) / DAY_S * UINT64_C(1000000000);
	char **files = drive_options(drive, argv + 1, &options);
	if (!options.rounds)
		options.rounds = options.seconds ? UINT64_MAX : *files ? 0 : ROUNDS;
	drive_watch(drive->name);
	int result = 0;
	for (; *files && !result; files++)
		result = drive_file(drive, *files);
	if (!result && options.rounds)
		result = drive_rounds(drive, &options);
	if (drive->end)
		drive->end();
	return result;
}

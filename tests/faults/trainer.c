/* trainer: see trainer.h.
 *
 *   fault_trainer raw|lib KEY=VALUE ...
 *       socket= out= batches= hold= newest= query= sleep_us= linger= states= rows=
 *       at=STEP occurrence=K do=kill|stop|exit|fork|disconnect|exec
 *       open=JSON                     raw: the text of OPEN; without it, it only connects and
 * greets any other key                 lib: of struct penstock_options
 *
 * Notes: "opened ...", "given EPOCH BATCH POSITION COUNT FLAGS", "batch EPOCH BATCH POSITION COUNT
 * FLAGS IDS BYTES" with hashes of the samples' numbers and of images, labels and records,
 * "row EPOCH POSITION INDEX FLAGS IMAGE", "state JSON", "end", "lost", "error CODE SENTENCE", each
 * followed by the time. Exit codes: enum trainer_exit. */
#include "faults/trainer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

enum { TRAINER_LINE = 4096, TRAINER_CHILD_S = 120 };

static void trainer_die(const char *what)
{
	perror(what);
	exit(TRAINER_USAGE);
}

void trainer_note(const struct trainer *t, const char *format, ...)
{
	char line[TRAINER_LINE];
	struct timespec now;
	va_list arguments;
	va_start(arguments, format);
	int n = vsnprintf(line, sizeof line - 32, format, arguments);
	va_end(arguments);
	if (n < 0 || (size_t)n > sizeof line - 33)
		n = sizeof line - 33;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	n += snprintf(line + n, sizeof line - (size_t)n, " %" PRId64 "\n",
		(int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
	if (write(t->out, line, (size_t)n) != n)
		trainer_die(t->out_path);
}

/* ---- steps ---- */

static void trainer_wait_for_ever(void)
{
	(void)alarm(TRAINER_CHILD_S);
	for (;;)
		(void)pause();
}

/* The child keeps the socket open when the parent has been killed. */
static void trainer_fork(const struct trainer *t)
{
	pid_t pid = fork();
	if (pid < 0)
		trainer_die("fork");
	if (pid == 0)
		trainer_wait_for_ever();
	trainer_note(t, "forked %d", pid);
	(void)raise(SIGKILL);
}

static void trainer_disconnect(const struct trainer *t)
{
	if (t->fd < 0 || close(t->fd))
		trainer_die("disconnect");
	trainer_note(t, "disconnected");
	trainer_wait_for_ever();
}

static void trainer_act(const struct trainer *t)
{
	const char *act = t->act;
	if (strcmp(act, "kill") == 0)
		(void)raise(SIGKILL);
	else if (strcmp(act, "stop") == 0)
		(void)raise(SIGSTOP);
	else if (strcmp(act, "exit") == 0)
		_exit(TRAINER_DONE);
	else if (strcmp(act, "fork") == 0)
		trainer_fork(t);
	else if (strcmp(act, "disconnect") == 0)
		trainer_disconnect(t);
	else if (strcmp(act, "exec") == 0)
		(void)execl("/bin/sleep", "sleep", "120", (char *)NULL);
	else
		trainer_die(act);
}

void trainer_step(struct trainer *t, const char *step)
{
	if (!t->at || strcmp(t->at, step) != 0 || ++t->seen != t->occurrence)
		return;
	trainer_note(t, "at %s", step);
	trainer_act(t);
}

/* ---- batches ---- */

static uint64_t trainer_hash(uint64_t before, const void *data, size_t bytes)
{
	return XXH3_64bits_withSeed(data, bytes, before);
}

static uint64_t trainer_hash_ids(const struct trainer_batch *b)
{
	const struct slots_record *record = (const void *)b->records;
	uint64_t hash = b->count;
	for (uint32_t i = 0; i < b->count; i++)
		hash = trainer_hash(hash, &record[i].index, sizeof record[i].index);
	return hash;
}

static void trainer_note_rows(const struct trainer *t, const struct trainer_batch *b)
{
	const struct slots_record *record = (const void *)b->records;
	for (uint32_t i = 0; i < b->count; i++)
		trainer_note(t, "row %" PRIu64 " %" PRIu64 " %" PRIu64 " %u %016" PRIx64, b->epoch,
			record[i].position, record[i].index, record[i].flags,
			(uint64_t)XXH3_64bits(b->images + i * b->row_bytes, b->row_bytes));
}

void trainer_read(struct trainer *t, const struct trainer_batch *b)
{
	size_t images = b->count * b->row_bytes, half = images / 2;
	trainer_note(t, "given %" PRIu64 " %" PRIu64 " %" PRIu64 " %u %u", b->epoch, b->batch,
		b->position, b->count, b->flags);
	trainer_step(t, "batch-received");
	uint64_t hash = trainer_hash(0, b->images, half);
	trainer_step(t, "reading");
	hash = trainer_hash(hash, b->images + half, images - half);
	hash = trainer_hash(hash, b->labels, b->count * b->label_bytes);
	hash = trainer_hash(hash, b->records, b->count * sizeof(struct slots_record));
	trainer_note(t,
		"batch %" PRIu64 " %" PRIu64 " %" PRIu64 " %u %u %016" PRIx64 " %016" PRIx64,
		b->epoch, b->batch, b->position, b->count, b->flags, trainer_hash_ids(b), hash);
	if (t->rows)
		trainer_note_rows(t, b);
	trainer_step(t, "read");
}

bool trainer_enough(const struct trainer *t, uint64_t given)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	if (!t->batches || given < t->batches)
		return false;
	return !t->linger || poll(&input, 1, 0) != 0;
}

void trainer_pause(const struct trainer *t)
{
	struct timespec pause = {
		(time_t)(t->sleep_us / 1000000), (long)(t->sleep_us % 1000000) * 1000};
	if (t->sleep_us)
		(void)nanosleep(&pause, NULL);
}

/* ---- options ---- */

static bool trainer_number(struct trainer *t, const char *key, const char *value)
{
	const struct {
		const char *key;
		uint64_t *to;
	} numbers[] = {{"occurrence", &t->occurrence}, {"batches", &t->batches}, {"hold", &t->hold},
		{"newest", &t->newest}, {"query", &t->query}, {"sleep_us", &t->sleep_us},
		{"linger", &t->linger}, {"states", &t->states}, {"rows", &t->rows}};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		if (strcmp(numbers[i].key, key) == 0) {
			*numbers[i].to = strtoull(value, NULL, 10);
			return true;
		}
	}
	return false;
}

static bool trainer_text(struct trainer *t, const char *key, const char *value)
{
	const struct {
		const char *key, **to;
	} texts[] = {{"socket", &t->socket}, {"out", &t->out_path}, {"open", &t->open},
		{"at", &t->at}, {"do", &t->act}};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		if (strcmp(texts[i].key, key) == 0) {
			*texts[i].to = value;
			return true;
		}
	}
	return false;
}

static bool trainer_option(struct trainer *t, char *word)
{
	char key[32];
	size_t length = strcspn(word, "=");
	if (!word[length] || length >= sizeof key)
		return false;
	memcpy(key, word, length);
	key[length] = 0;
	const char *value = word + length + 1;
	if (trainer_number(t, key, value) || trainer_text(t, key, value))
		return true;
	if (t->options == TRAINER_OPTIONS)
		return false;
	t->option[t->options++] = word;
	return true;
}

int main(int argc, char **argv)
{
	struct trainer t = {.occurrence = 1, .act = "kill", .fd = -1};
	bool lib = argc > 1 && strcmp(argv[1], "lib") == 0;
	bool good = argc > 1 && (lib || strcmp(argv[1], "raw") == 0);
	for (int i = 2; i < argc; i++)
		good &= trainer_option(&t, argv[i]);
	if (!good || !t.socket || !t.out_path || (!lib && t.options)) {
		(void)fprintf(stderr, "fault_trainer: see the top of trainer.c\n");
		return TRAINER_USAGE;
	}
	t.out = open(t.out_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (t.out < 0)
		trainer_die(t.out_path);
	return lib ? lib_run(&t) : raw_run(&t);
}

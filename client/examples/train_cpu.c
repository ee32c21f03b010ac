/* train_cpu: a small image classifier, trained on the CPU with batches from penstock.
 *
 *   train_cpu SOURCE [--seconds N] [--steps N] [--epochs N] [--checkpoint FILE [--resume]]
 *             [--seed N] [--classes N] [--rate 0.02]
 *
 * Shows how a trainer in plain C uses libpenstock: open, next, train on the shared memory, release;
 * and how a run that was stopped resumes. A checkpoint holds the weights and the loader's state,
 * taken at the same moment, so that the resumed run begins with exactly the batch that comes next.
 * 100 steps end with the same weights, bit for bit, as 60 steps, Ctrl-C, and `--resume` up to 100
 * (on one machine, with one build).
 *
 * If the dataset has no labels, the net learns to tell eight kinds of color, a task that needs
 * none.
 *
 * One thread. It reads a batch only between `next` and `release`. */
#include "net.h"

#include <penstock/penstock.h>

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 64, CLASSES_MAX = 100000, STATE_ROOM = 512, COLORS = 8, LINE_S = 5, WAIT_S = 120 };

struct run {
	struct penstock_options options;
	const char *checkpoint;
	bool resume, unlabeled;
	unsigned classes; /* --classes; 0: as the dataset says */
	double seconds;
	uint64_t seed;
	uint64_t steps; /* step to stop at; 0: never */
	float rate;
	struct net net;
	struct penstock_stream *stream;
	uint64_t step;
	/* Sums over the epoch so far. */
	double loss;
	uint64_t right, rows;
	/* Since the last line was printed. */
	uint64_t rows_before;
	double waited_s, line_s;
	double end_s; /* when --seconds are over, or infinity */
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
	(void)number;
	interrupted = 1;
}

static double now_s(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Ends the process after a failed call into penstock, whose sentence says what to do. */
static void give_up(const char *what)
{
	fprintf(stderr, "train_cpu: %s: %s\n", what, penstock_error());
	exit(1);
}

struct checkpoint_head {
	char magic[8]; /* "TRAINCPU" */
	uint64_t step, rows, right, count;
	double loss;
	uint32_t classes, unlabeled;
	char state[STATE_ROOM];
};

/* Saves weights and loader state. The file is either the old one or the new one, never a part of
 * one. */
static void save(const struct run *run)
{
	struct checkpoint_head head = {.magic = "TRAINCPU",
		.step = run->step,
		.rows = run->rows,
		.right = run->right,
		.count = run->net.count,
		.loss = run->loss,
		.classes = run->net.classes,
		.unlabeled = run->unlabeled};
	char temporary[4096];
	FILE *file;

	if (!run->checkpoint)
		return;
	if (penstock_stream_state(run->stream, head.state, sizeof(head.state)) < 0)
		give_up("cannot read the loader's state");
	(void)snprintf(temporary, sizeof(temporary), "%s.new", run->checkpoint);
	file = fopen(temporary, "we");
	if (!file || fwrite(&head, sizeof(head), 1, file) != 1 ||
		fwrite(run->net.parameters, sizeof(float), run->net.count, file) !=
			run->net.count ||
		fwrite(run->net.momentum, sizeof(float), run->net.count, file) != run->net.count ||
		fflush(file) != 0 || fsync(fileno(file)) != 0 || fclose(file) != 0 ||
		rename(temporary, run->checkpoint) != 0) {
		fprintf(stderr, "train_cpu: cannot write %s: %s\n", temporary, strerror(errno));
		exit(1);
	}
}

static FILE *load_head(const struct run *run, struct checkpoint_head *ret_head)
{
	FILE *file = fopen(run->checkpoint, "re");

	if (!file) {
		fprintf(stderr, "train_cpu: cannot read %s: %s\n", run->checkpoint,
			strerror(errno));
		exit(1);
	}
	if (fread(ret_head, sizeof(*ret_head), 1, file) != 1 ||
		memcmp(ret_head->magic, "TRAINCPU", 8) != 0 ||
		memchr(ret_head->state, 0, STATE_ROOM) == NULL) {
		fprintf(stderr, "train_cpu: %s is not a checkpoint of train_cpu\n",
			run->checkpoint);
		exit(1);
	}
	return file;
}

static void load_weights(struct run *run, const struct checkpoint_head *head, FILE *file)
{
	if (head->classes != run->net.classes || head->count != run->net.count ||
		head->unlabeled != run->unlabeled ||
		fread(run->net.parameters, sizeof(float), run->net.count, file) != run->net.count ||
		fread(run->net.momentum, sizeof(float), run->net.count, file) != run->net.count) {
		fprintf(stderr,
			"train_cpu: %s does not fit this net (it has %u classes, the net has %u)\n",
			run->checkpoint, head->classes, run->net.classes);
		exit(1);
	}
	net_refresh(&run->net);
	run->step = head->step;
	run->rows = run->rows_before = head->rows;
	run->right = head->right;
	run->loss = head->loss;
}

/* Opens the stream, at the checkpoint's state if there is one. */
static void start(struct run *run)
{
	struct penstock_stream_info info;
	struct checkpoint_head head;

	if (run->resume) {
		(void)fclose(load_head(run, &head));
		run->options.state = head.state;
	}
	if (penstock_stream_open(&run->options, &run->stream) < 0)
		give_up("cannot open the stream");
	run->options.state = NULL; /* the library no longer needs it */
	penstock_stream_info(run->stream, &info);
	if (info.height != NET_SIDE || info.width != NET_SIDE || info.channels != 3) {
		fprintf(stderr,
			"train_cpu: %s delivers %u x %u pixels; this net takes %d x %d: set "
			"image_size\n",
			run->options.source, info.width, info.height, NET_SIDE, NET_SIDE);
		exit(1);
	}
	if (run->classes == 0)
		run->classes = info.classes ? info.classes
					    /* Shards do not say how many classes there are; this is
				        * ImageNet's number. */
					    : 1000;
	printf("%" PRIu64 " samples, %" PRIu64 " batches of %u per epoch; ", info.samples,
		info.batches, info.batch_size);
	if (run->resume)
		printf("going on after step %" PRIu64 " with ", head.step);
	printf("batch %" PRIu64 " of epoch %" PRIu64 "\n", info.batch, info.epoch);
	(void)fflush(stdout);
}

/* Makes the net as soon as a batch shows whether there are labels, and fills it from the
 * checkpoint. */
static void prepare(struct run *run, const struct penstock_batch *first)
{
	struct checkpoint_head head;

	run->unlabeled = first->labels[0] < 0;
	if (run->unlabeled) {
		run->classes = COLORS;
		printf("no labels: learning to tell eight kinds of color\n");
	} else {
		printf("learning %u classes\n", run->classes);
	}
	net_init(&run->net, run->classes, run->seed + 1);
	if (run->resume) {
		FILE *file = load_head(run, &head);
		load_weights(run, &head, file);
		(void)fclose(file);
	}
}

/* Which of the eight kinds of color: more red than green, more green than blue, brighter than
 * most. */
static int64_t color_of(const uint8_t *rgb)
{
	uint64_t red = 0, green = 0, blue = 0;

	for (size_t i = 0; i < (size_t)NET_SIDE * NET_SIDE; i++, rgb += 3) {
		red += rgb[0];
		green += rgb[1];
		blue += rgb[2];
	}
	return (red > green) | (green > blue) << 1 |
	       (red + green + blue > 3ull * 110 * NET_SIDE * NET_SIDE) << 2;
}

static void train_on(struct run *run, const struct penstock_batch *batch)
{
	const uint8_t *images = batch->images;

	for (unsigned row = 0; row < batch->count; row++) {
		const uint8_t *rgb = images + (size_t)row * batch->image_bytes;
		int64_t label = run->unlabeled ? color_of(rgb) : batch->labels[row];
		bool right;

		if (label < 0 || label >= (int64_t)run->classes) {
			fprintf(stderr,
				"train_cpu: label %" PRId64
				" is not below %u: set the number of classes with --classes\n",
				label, run->classes);
			exit(1);
		}
		net_take(&run->net, rgb);
		run->loss += net_learn(&run->net, (unsigned)label, &right);
		run->right += right;
		run->rows++;
	}
	net_step(&run->net, run->rate, batch->count);
	run->step++;
}

/* ---- main ---- */

static void print_line(struct run *run, const struct penstock_batch *batch)
{
	double now = now_s(), span = now - run->line_s;

	printf("step %5" PRIu64 "  epoch %3" PRIu64
	       "  loss %5.3f  accuracy %4.1f %%  %5.0f images/s  waited %2.0f %%\n",
		run->step, batch->epoch, run->loss / (double)run->rows,
		100.0 * (double)run->right / (double)run->rows,
		(double)(run->rows - run->rows_before) / span, 100 * run->waited_s / span);
	(void)fflush(stdout);
	run->line_s = now;
	run->waited_s = 0;
	run->rows_before = run->rows;
}

/* The library's sentence begins with the length of its last wait, which was short; the rest says
 * why. */
static void give_up_waiting(double waited_s)
{
	const char *why = strstr(penstock_error(), ": ");

	fprintf(stderr, "train_cpu: no batch within %.1f s%s\n", waited_s, why ? why : "");
	exit(1);
}

/* Waits for a batch in short turns, so that Ctrl-C and the end of --seconds take effect. False when
 * the run is over. */
static bool next_batch(struct run *run, struct penstock_batch *ret_batch)
{
	double begin = now_s(), end = begin + WAIT_S;
	int result;

	if (run->end_s < end)
		end = run->end_s;
	do {
		if (interrupted)
			return false;
		result = penstock_stream_next(run->stream, ret_batch, 250);
	} while (result == -EINTR || (result == -ETIMEDOUT && now_s() < end));
	run->waited_s += now_s() - begin;
	/* --seconds are over, which is not a failure of a run that has learned something. */
	if (result == -ETIMEDOUT && end == run->end_s && run->net.count)
		return false;
	if (result == -ETIMEDOUT)
		give_up_waiting(now_s() - begin);
	if (result < 0)
		give_up("no batch");
	return result == 0;
}

/* At the end of an epoch: prints a line, saves a checkpoint, begins new sums. */
static void end_epoch(struct run *run, const struct penstock_batch *batch)
{
	print_line(run, batch);
	run->loss = 0;
	run->right = run->rows = run->rows_before = 0;
	save(run);
}

static void train(struct run *run)
{
	struct penstock_batch batch;

	run->line_s = now_s();
	run->end_s = run->seconds > 0 ? run->line_s + run->seconds : INFINITY;
	while ((run->steps == 0 || run->step < run->steps) && now_s() < run->end_s &&
		next_batch(run, &batch)) {
		bool last = batch.flags & PENSTOCK_LAST;
		if (run->net.count == 0)
			prepare(run, &batch);
		train_on(run, &batch);
		if (last)
			end_epoch(run, &batch);
		else if (now_s() - run->line_s >= LINE_S)
			print_line(run, &batch);
		if (penstock_batch_release(run->stream, &batch) < 0)
			give_up("cannot release a batch");
	}
	if (run->net.count == 0)
		/* Stopped before the first batch: a checkpoint that exists already stays as it
		 * is. */
		return;
	save(run);
	printf("%s after step %" PRIu64 ", weights %016" PRIx64 "%s%s\n",
		interrupted ? "interrupted" : "done", run->step, net_hash(&run->net),
		run->checkpoint ? ", saved to " : "", run->checkpoint ? run->checkpoint : "");
}

static double number(const char *text, const char *option, double highest)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= 0) || value > highest) {
		fprintf(stderr, "train_cpu: --%s %s: expected a number from 0 to %g\n", option,
			text, highest);
		exit(2);
	}
	return value;
}

static void usage(FILE *file)
{
	fprintf(file, "usage: train_cpu SOURCE [--seconds N] [--steps N] [--epochs N] "
		      "[--checkpoint FILE [--resume]]\n"
		      "                        [--seed N] [--classes N] [--rate 0.02]\n"
		      "Trains a small convolutional net with batches from penstock. SOURCE: a "
		      "folder, tars, or stream:NAME.\n");
}

static void take_option(struct run *run, int option, const char *name, const char *value)
{
	switch (option) {
	case 't':
		run->seconds = number(value, name, 1e9);
		break;
	case 'n':
		run->steps = (uint64_t)number(value, name, 1e15);
		break;
	case 'e':
		run->options.epochs = (uint64_t)number(value, name, 1e9);
		break;
	case 's':
		run->seed = (uint64_t)number(value, name, 1e15);
		break;
	case 'c':
		run->classes = (unsigned)number(value, name, CLASSES_MAX);
		break;
	case 'l':
		run->rate = (float)number(value, name, 10);
		break;
	case 'f':
		run->checkpoint = value;
		break;
	case 'r':
		run->resume = true;
		break;
	case 'h':
		usage(stdout);
		exit(0);
	default:
		usage(stderr);
		exit(2);
	}
}

static void parse(struct run *run, int argc, char **argv)
{
	static const struct option options[] = {{"seconds", required_argument, NULL, 't'},
		{"steps", required_argument, NULL, 'n'}, {"epochs", required_argument, NULL, 'e'},
		{"seed", required_argument, NULL, 's'}, {"classes", required_argument, NULL, 'c'},
		{"rate", required_argument, NULL, 'l'},
		{"checkpoint", required_argument, NULL, 'f'}, {"resume", no_argument, NULL, 'r'},
		{"help", no_argument, NULL, 'h'}, {0}};
	int option, at = 0;

	while ((option = getopt_long(argc, argv, "h", options, &at)) != -1)
		take_option(run, option, options[at].name, optarg);
	if (optind != argc - 1 || (run->resume && !run->checkpoint)) {
		usage(stderr);
		exit(2);
	}
	run->options.source = argv[optind];
}

int main(int argc, char **argv)
{
	struct run run = {.rate = 0.02f};
	struct sigaction action = {.sa_handler = on_signal};

	penstock_options_init(&run.options);
	parse(&run, argc, argv);
	/* A stream of the daemon's configuration has these settings there. */
	if (strncmp(run.options.source, "stream:", 7) != 0) {
		run.options.batch_size = BATCH;
		run.options.image_size = NET_SIDE;
		run.options.seed = run.seed;
	}
	(void)sigaction(SIGINT, &action, NULL);
	(void)sigaction(SIGTERM, &action, NULL);
	start(&run);
	train(&run);
	penstock_stream_close(run.stream);
	net_deinit(&run.net);
	return 0;
}

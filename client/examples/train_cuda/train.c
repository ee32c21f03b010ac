/* train_cuda: an image classifier, trained on a GPU with batches from penstock.
 *
 *   train_cuda SOURCE [--steps N | --epochs 10] [--batch-size 256] [--image-size 224] ...
 *
 * Shows how a trainer in CUDA C uses libpenstock_cuda: open a stream, attach it to a device, and
 * for each batch: next, transform into the network's own memory, targets, release, train.
 * Everything goes into one CUDA stream; the host waits for the device only when it prints a line or
 * writes a checkpoint.
 *
 * A checkpoint holds the network and the loader's state, taken at the same moment. The same command
 * with --resume continues with exactly the batch and the learning rate that come next: 100 steps
 * end with the same weights, bit for bit, as 60 steps, Ctrl-C (or --stop-at 60) and --resume, on
 * the same machine with the same libraries, if those choose the same algorithms (ops_cuda.c).
 *
 * One process, one GPU: processes do not exchange gradients, so RANK and WORLD_SIZE have no effect;
 * the GPU is --device, otherwise LOCAL_RANK, otherwise 0. The program has not run on a GPU yet:
 * docs/guides/train-cuda.md says what has been tested without one.
 *
 * In the line that it prints, `waited` is the share of the time in which the GPU had nothing to do
 * because there was no batch: it was idle while the host waited in penstock_cuda_next, or it waited
 * for a batch's copy. After it come its possible causes: how long penstock_cuda_next waited for the
 * daemon and for the device (a host that is ahead of its GPU waits there for a free buffer, which
 * costs nothing), and how long the GPU waited for copies.
 *
 * A map of this folder:
 *   train.c           this: the training loop
 *   options.[ch]      the command line
 *   schedule.[ch]     the learning rate of each step
 *   checkpoint.[ch]   a checkpoint: the network and the loader's state
 *   net.[ch]          the network
 *   fail.[ch]         ends the process with a sentence
 *   ops.h             the operations of the network
 *   ops_cuda.c        the operations by cuDNN, cuBLAS and kernels.cu
 *   kernels.h, kernels.cu
 *                     CUDA kernels for what the libraries lack
 *
 * tests/e2e/examples has the operations in plain C (train_cuda_host.c), and a program that compares
 * them with the GPU's (train_cuda_self_test). */
#include "checkpoint.h"
#include "fail.h"
#include "options.h"
#include "schedule.h"

#include <penstock/cuda.h>

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LINE_S = 5, WAIT_S = 120, TURN_MS = 250, CLASSES_UNKNOWN = 1000, EPOCHS = 10 };

struct run {
	struct options options;
	struct penstock_stream *stream;
	struct penstock_stream_info info;
	struct penstock_cuda *cuda;
	struct ops *ops;
	struct net *net;
	struct schedule schedule;
	unsigned classes;
	uint64_t step, first_step; /* steps done; steps done when this process began */
	double end_s; /* when --seconds are over, or infinity */
	/* Since the last line was printed. */
	double line_s, idle_s;
	uint64_t line_step, line_images;
	struct penstock_cuda_counters counters;
};

static volatile sig_atomic_t interrupted;

enum purpose { TRAINING, VALIDATION, PURPOSES };

static struct penstock_cuda *attached[PURPOSES]; /* for detach_at_exit */

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
	fail("%s: %s", what, penstock_error());
}

static void detach(enum purpose purpose)
{
	penstock_cuda_detach(attached[purpose]);
	attached[purpose] = NULL;
}

/* Runs however the process ends: an attachment's thread must not meet a driver that is being torn
 * down. */
static void detach_at_exit(void)
{
	detach(VALIDATION);
	detach(TRAINING);
}

/* ---- set-up ---- */

/* A stream of the daemon's configuration has its recipe there. */
static bool is_named(const char *source)
{
	return strncmp(source, "stream:", 7) == 0;
}

static void open_stream(struct run *run, const char *state)
{
	struct penstock_options options;
	const struct options *wanted = &run->options;

	penstock_options_init(&options);
	options.source = wanted->source;
	options.state = state;
	options.pin_memory = 1; /* most GPUs copy directly from the memory only then */
	if (!is_named(options.source)) {
		options.batch_size = (uint32_t)wanted->batch;
		options.image_size = (uint32_t)wanted->image;
		options.seed = (uint64_t)wanted->seed;
	}
	if (penstock_stream_open(&options, &run->stream) < 0)
		give_up("cannot open the stream");
	penstock_stream_info(run->stream, &run->info);
	if (run->info.height != run->info.width || run->info.channels != 3 ||
		run->info.height < NET_SIDE_MIN || run->info.height > NET_SIDE_MAX)
		fail("%s delivers %u x %u pixels; this network takes squares of %d "
		     "to %d: set image_size",
			options.source, run->info.width, run->info.height, NET_SIDE_MIN,
			NET_SIDE_MAX);
}

/* Validation images are not augmented. */
static struct penstock_cuda *attach(
	const struct run *run, struct penstock_stream *stream, enum purpose purpose)
{
	struct penstock_cuda_options options;
	struct penstock_cuda *cuda;

	penstock_cuda_options_init(&options);
	options.device = (int32_t)run->options.device;
	options.prefetch = (uint32_t)run->options.prefetch;
	options.memory = run->options.memory;
	options.dtype = PENSTOCK_CUDA_FLOAT16;
	options.layout = PENSTOCK_CUDA_NHWC;
	if (purpose == TRAINING) {
		options.mixup = run->options.mixup;
		options.cutmix = run->options.cutmix;
	}
	if (penstock_cuda_attach(stream, &options, &cuda) < 0)
		fail("cannot attach the stream to a GPU: %s\n"
		     "train_cuda needs an NVIDIA GPU; train_cpu trains without one",
			penstock_error());
	attached[purpose] = cuda;
	return cuda;
}

/* Sets the steps of the run and of its warm-up, and the highest rate: 0.1 for batches of 256 (Goyal
 * et al., "Accurate, large minibatch SGD", 2017), in proportion for other sizes. */
static void make_schedule(struct run *run)
{
	const struct options *options = &run->options;
	double epochs = options->epochs > 0 ? options->epochs : EPOCHS;
	struct schedule *schedule = &run->schedule;

	schedule->steps = options->steps > 0 ? (uint64_t)options->steps
					     : (uint64_t)epochs * run->info.batches;
	schedule->warmup = options->warmup >= 0 ? (uint64_t)options->warmup : schedule->steps / 20;
	if (schedule->warmup > schedule->steps)
		schedule->warmup = schedule->steps;
	schedule->rate = options->rate >= 0 ? options->rate : 0.1 * run->info.batch_size / 256;
}

static void make_net(struct run *run)
{
	struct net_shape shape = {.batch = run->info.batch_size,
		.side = run->info.height,
		.width = (unsigned)run->options.width,
		.blocks = (unsigned)run->options.blocks};

	run->classes = run->options.classes > 0 ? (unsigned)run->options.classes
		       : run->info.classes > 1  ? run->info.classes
					       /* shards do not say how many there are */
					       : CLASSES_UNKNOWN;
	shape.classes = run->classes;
	run->net = net_new(run->ops, &shape, (uint64_t)run->options.seed + 1);
}

static void print_start(const struct run *run)
{
	struct penstock_cuda_info device = {.size = sizeof(device)};

	if (penstock_cuda_info(run->cuda, &device) < 0)
		give_up("cannot ask the attachment");
	printf("%" PRIu64 " samples, %" PRIu64 " batches of %u per epoch, %u x %u pixels\n"
	       "GPU %d, %s: %u batches of prefetched bytes, %.1f MiB on the device, %.1f MiB "
	       "pinned; %s: %s\n"
	       "%zu parameters, %u classes, %" PRIu64 " steps, %" PRIu64
	       " of them warm-up to rate %g\n",
		run->info.samples, run->info.batches, run->info.batch_size, run->info.width,
		run->info.height, device.device, device.name, device.buffers,
		(double)device.device_bytes / 1048576, (double)device.pinned_bytes / 1048576,
		device.memory == PENSTOCK_CUDA_REGISTERED ? "registered" : "ring", device.why,
		net_parameters(run->net), run->classes, run->schedule.steps, run->schedule.warmup,
		run->schedule.rate);
	printf("%s step %" PRIu64 " with batch %" PRIu64 " of epoch %" PRIu64 "\n",
		run->options.resume ? "going on after" : "beginning at", run->step, run->info.batch,
		run->info.epoch);
	(void)fflush(stdout);
}

static void start_line(struct run *run)
{
	run->counters.size = sizeof(run->counters);
	if (penstock_cuda_counters(run->cuda, &run->counters) < 0)
		give_up("cannot ask the attachment");
	run->line_s = now_s();
	run->idle_s = run->ops->idle_s(run->ops);
	run->line_step = run->step;
	run->line_images = 0;
}

static void start(struct run *run)
{
	struct checkpoint head;
	struct checkpoint_value values[CHECKPOINT_VALUES];
	struct penstock_cuda_info device = {.size = sizeof(device)};

	if (run->options.resume) {
		checkpoint_read(run->options.checkpoint, &head);
		checkpoint_compare(run->options.checkpoint, &head, values,
			options_recipe(&run->options, values));
		run->step = run->first_step = head.step;
	}
	open_stream(run, run->options.resume ? head.state : NULL);
	run->cuda = attach(run, run->stream, TRAINING);
	if (atexit(detach_at_exit) != 0)
		fail("atexit: no memory");
	if (penstock_cuda_info(run->cuda, &device) < 0)
		give_up("cannot ask the attachment");
	run->ops = ops_device_open(device.device);
	make_schedule(run);
	make_net(run);
	if (run->options.resume)
		checkpoint_load(run->options.checkpoint, run->ops, run->net);
	print_start(run);
	start_line(run);
	run->end_s = run->options.seconds > 0 ? run->line_s + run->options.seconds : INFINITY;
}

static void save(struct run *run)
{
	struct checkpoint checkpoint = {.step = run->step, .classes = run->classes};

	/* If nothing was learned, an existing checkpoint stays as it is. */
	if (!run->options.checkpoint || run->step == run->first_step)
		return;
	checkpoint.values = options_recipe(&run->options, checkpoint.value);
	if (penstock_cuda_state(run->cuda, checkpoint.state, sizeof(checkpoint.state)) < 0)
		give_up("cannot read the loader's state");
	checkpoint_save(run->options.checkpoint, run->ops, run->net, &checkpoint);
}

/* ---- a batch ---- */

/* The library's sentence begins with the length of its last wait, which was short; the rest says
 * why. */
static void give_up_waiting(double waited_s)
{
	const char *why = strstr(penstock_error(), ": ");

	fail("no batch within %.1f s%s", waited_s, why ? why : "");
}

/* Waits for a batch in short turns, so that Ctrl-C and `end_s` take effect. False after one of
 * them, and at the stream's end. */
static bool next_batch(struct penstock_cuda *cuda, double end_s,
	struct penstock_cuda_batch *ret_batch, double *ret_waited_s)
{
	double begin = now_s(), patience_s = begin + WAIT_S;
	int result;

	do {
		if (interrupted || now_s() >= end_s)
			return false;
		result = penstock_cuda_next(cuda, ret_batch, TURN_MS);
	} while (result == -EINTR || (result == -ETIMEDOUT && now_s() < patience_s));
	*ret_waited_s = now_s() - begin;
	if (result == -ETIMEDOUT)
		give_up_waiting(*ret_waited_s);
	if (result < 0)
		give_up("no batch");
	return result == 0;
}

static void check_labels(
	const struct run *run, const char *source, const struct penstock_cuda_batch *batch)
{
	for (unsigned row = 0; row < batch->count; row++) {
		int64_t label = batch->host_labels[row];
		if (label >= 0 && label < (int64_t)run->classes)
			continue;
		if (label < 0)
			fail("%s has a sample without a label (row %u of batch %" PRIu64
			     "): a classifier needs one for every sample: folders named after "
			     "the classes, or .cls files in the tars",
				source, row, batch->batch);
		fail("label %" PRId64 " is not below %u: set the number of classes with --classes",
			label, run->classes);
	}
}

/* Makes the device write the batch into the network's memory, and gives the batch back. */
static void take_batch(struct run *run, struct penstock_cuda *cuda,
	struct penstock_cuda_batch *batch, double smoothing)
{
	struct CUstream_st *queue = run->ops->queue;

	if (penstock_cuda_transform(cuda, batch, net_images(run->net), queue) < 0 ||
		penstock_cuda_targets(cuda, batch, run->classes, (float)smoothing,
			net_targets(run->net), queue) < 0)
		give_up("cannot take the batch");
}

static void release(struct run *run, struct penstock_cuda *cuda, struct penstock_cuda_batch *batch)
{
	if (penstock_cuda_release(cuda, batch, run->ops->queue) < 0)
		give_up("cannot release a batch");
}

static void train_on(struct run *run, struct penstock_cuda_batch *batch, double waited_s)
{
	struct ops_sgd how = {.rate = (float)schedule_rate(&run->schedule, run->step),
		.momentum = (float)run->options.momentum,
		.decay = (float)run->options.decay};
	uint32_t count = batch->count;

	check_labels(run, run->options.source, batch);
	run->ops->begin(run->ops, waited_s);
	take_batch(run, run->cuda, batch, run->options.smoothing);
	release(run, run->cuda, batch);
	net_learn(run->net, count);
	net_step(run->net, &how);
	run->ops->end(run->ops);
	run->step++;
	run->line_images += count;
}

/* ---- lines ---- */

static double share(uint64_t ns, double span_s)
{
	return 100 * (double)ns / 1e9 / span_s;
}

static void print_line(struct run *run, uint64_t epoch)
{
	struct penstock_cuda_counters before = run->counters;
	struct ops_metrics metrics;
	double span, idle_s = run->idle_s, began_s = run->line_s;
	uint64_t images = run->line_images, stalled_ns;

	if (run->line_step == run->step)
		return;
	net_take_metrics(run->net, &metrics); /* waits for the device */
	start_line(run);
	span = run->line_s - began_s;
	stalled_ns = run->counters.stalled_ns - before.stalled_ns;
	printf("step %6" PRIu64 "  epoch %3" PRIu64
	       "  loss %6.4f  accuracy %5.1f %%  rate %.5f  %6.0f images/s  waited %4.1f %% "
	       "(daemon %4.1f %%, device %4.1f %%, copies %4.1f %%)\n",
		run->step, epoch, metrics.loss / (double)metrics.rows,
		100.0 * (double)metrics.right / (double)metrics.rows,
		schedule_rate(&run->schedule, run->step - 1), (double)images / span,
		100 * (run->idle_s - idle_s) / span + share(stalled_ns, span),
		share(run->counters.waited_daemon_ns - before.waited_daemon_ns, span),
		share(run->counters.waited_device_ns - before.waited_device_ns, span),
		share(stalled_ns, span));
	(void)fflush(stdout);
	if (!isfinite(metrics.loss))
		fail("the loss is not a number any more at step %" PRIu64
		     ": try a lower --rate or a longer --warmup",
			run->step);
}

static bool line_due(const struct run *run)
{
	if (run->options.every > 0)
		return run->step % (uint64_t)run->options.every == 0;
	return now_s() - run->line_s >= LINE_S;
}

/* ---- validation ---- */

/* A row that the daemon could not decode has no image; it gets no target, so that it does not
 * count. */
static void drop_broken(const struct run *run, const struct penstock_cuda_batch *batch)
{
	size_t bytes = run->classes * sizeof(float);

	for (size_t row = 0; row < batch->count; row++)
		if (batch->samples[row].flags & PENSTOCK_INVALID)
			run->ops->zero(
				run->ops, (char *)net_targets(run->net) + row * bytes, bytes);
}

/* Opens the validation stream: one epoch of batches that fit the network's memory. */
static struct penstock_stream *open_validation(const struct run *run)
{
	struct penstock_options options;
	struct penstock_stream *stream;
	struct penstock_stream_info info;

	penstock_options_init(&options);
	options.source = run->options.validate;
	options.epochs = 1;
	options.pin_memory = 1;
	if (!is_named(options.source)) {
		options.train = 0;
		options.batch_size = run->info.batch_size;
		options.image_size = run->info.height;
	}
	if (penstock_stream_open(&options, &stream) < 0)
		give_up("cannot open the validation stream");
	penstock_stream_info(stream, &info);
	if (info.batch_size == run->info.batch_size && info.height == run->info.height &&
		info.width == run->info.width && info.channels == run->info.channels)
		return stream;
	fail("--validate %s delivers batches of %u, %u x %u pixels; this run has "
	     "%u, %u x %u: they must be equal",
		options.source, info.batch_size, info.width, info.height, run->info.batch_size,
		run->info.width, run->info.height);
}

static void print_validation(const struct run *run)
{
	struct ops_metrics metrics;

	net_take_metrics(run->net, &metrics);
	printf("validation after step %" PRIu64 "  loss %6.4f  accuracy %5.1f %%  of %" PRIu64 "\n",
		run->step, metrics.loss / (double)metrics.rows,
		100.0 * (double)metrics.right / (double)metrics.rows, metrics.rows);
	(void)fflush(stdout);
}

static void validate(struct run *run)
{
	struct penstock_stream *stream = open_validation(run);
	struct penstock_cuda *cuda = attach(run, stream, VALIDATION);
	struct penstock_cuda_batch batch;
	double waited_s;

	while (next_batch(cuda, INFINITY, &batch, &waited_s)) {
		check_labels(run, run->options.validate, &batch);
		take_batch(run, cuda, &batch, 0);
		drop_broken(run, &batch);
		net_score(run->net, batch.count);
		release(run, cuda, &batch);
	}
	if (!interrupted)
		print_validation(run);
	detach(VALIDATION);
	penstock_stream_close(stream);
}

/* ---- main ---- */

/* At the end of an epoch: prints a line, saves a checkpoint, validates. */
static void end_epoch(struct run *run, uint64_t epoch)
{
	print_line(run, epoch);
	save(run);
	if (run->options.validate) {
		validate(run);
		start_line(run);
	}
}

static bool go_on(const struct run *run)
{
	return run->step < run->schedule.steps &&
	       (run->options.stop_at < 0 || run->step < (uint64_t)run->options.stop_at);
}

static void train(struct run *run)
{
	struct penstock_cuda_batch batch;
	double waited_s = 0;
	uint64_t epoch = run->info.epoch;
	bool last = false;

	while (go_on(run) && next_batch(run->cuda, run->end_s, &batch, &waited_s)) {
		epoch = batch.epoch;
		last = batch.flags & PENSTOCK_LAST;
		train_on(run, &batch, waited_s);
		if (last)
			end_epoch(run, epoch);
		else if (line_due(run))
			print_line(run, epoch);
	}
	print_line(run, epoch);
	if (!last)
		save(run);
	if (!last && run->options.validate && run->step >= run->schedule.steps)
		validate(run);
}

static void print_end(struct run *run)
{
	struct ops_scaler scaler;

	net_scaler(run->net, &scaler);
	printf("%s after step %" PRIu64 ", weights %016" PRIx64
	       ", loss scale %g, %u steps skipped for overflow%s%s\n",
		interrupted ? "interrupted" : "done", run->step, net_hash(run->net),
		(double)scaler.scale, scaler.skipped, run->options.checkpoint ? ", saved to " : "",
		run->options.checkpoint ? run->options.checkpoint : "");
}

int main(int argc, char **argv)
{
	struct run run = {0};
	struct sigaction action = {.sa_handler = on_signal};

	options_parse(&run.options, argc, argv);
	(void)sigaction(SIGINT, &action, NULL);
	(void)sigaction(SIGTERM, &action, NULL);
	start(&run);
	train(&run);
	print_end(&run);
	net_free(run.net);
	detach(TRAINING);
	penstock_stream_close(run.stream);
	run.ops->close(run.ops);
	return 0;
}

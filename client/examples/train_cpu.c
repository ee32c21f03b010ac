/* train_cpu: a small image classifier, trained on the CPU with batches from penstock.
 *
 *   train_cpu SOURCE [--seconds N] [--steps N] [--epochs N] [--checkpoint FILE [--resume]] [--seed
 * N] [--classes N]
 *                    [--rate 0.03]
 *
 * Shows what a trainer in plain C does with libpenstock: open, next, train on the shared memory,
 * release; and how a run that stops goes on. A checkpoint holds the weights and the loader's state,
 * taken at the same moment, so that the resumed run begins with exactly the batch that comes next:
 * `--steps 100`, or 60 steps, Ctrl-C and `--resume` up to 100, end with the same weights, bit for
 * bit (on the same machine and build).
 *
 * The net: three 3x3 convolutions of stride 2 with ReLU (32, 64, 128 channels) on 64x64 pixels, the
 * mean over the picture, one linear layer; cross-entropy, SGD with momentum. Where the dataset has
 * no labels it learns to tell by how many quarter turns a picture was rotated (Gidaris et al.,
 * "Unsupervised Representation Learning by Predicting Image Rotations", ICLR 2018).
 *
 * One thread. A batch is looked at only between `next` and `release`. */
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

enum {
	SIDE = 64,
	INPUT_CHANNELS = 4,
	LAYERS = 3,
	BATCH = 64,
	CLASSES_MAX = 100000,
	STATE_ROOM = 512,
	TURNS = 4
};

/* Sixteen lanes that the compiler maps to whatever the machine has. */
typedef float lanes __attribute__((vector_size(64), aligned(4)));
enum { LANES = 16 };

/* ---- the net ---- */

struct layer {
	unsigned in_side, in_channels, out_side, channels;
	unsigned taps; /* inputs of one output: 9 * in_channels */
	float *weight, *bias; /* taps x channels, channels; in net.parameters */
	float *d_weight, *d_bias; /* in net.gradients */
	float *column; /* out_side^2 x taps: each output's inputs in a row */
	float *d_column;
	float *transposed; /* weights as channels x taps, for the way back */
	float *out, *d_out; /* out_side^2 x channels */
};

struct net {
	struct layer layer[LAYERS];
	unsigned classes;
	float *linear, *linear_bias, *d_linear, *d_linear_bias; /* last.channels x classes */
	float *parameters, *gradients, *momentum;
	size_t count; /* of parameters */
	float *input, *mean, *score;
};

static void *zeros(size_t count)
{
	void *memory = calloc(count, sizeof(float));

	if (!memory) {
		fprintf(stderr, "train_cpu: out of memory\n");
		exit(1);
	}
	return memory;
}

/* out (rows x columns) = or += A (rows x inner) * B (inner x columns). A's element (r, i) is at a[r
 * * row_step + i * inner_step], so that it may also be read transposed. Rows are a multiple of 4,
 * columns of LANES. */
static void multiply(unsigned rows, unsigned inner, unsigned columns, const float *a,
	size_t row_step, size_t inner_step, const float *b, float *out, bool add)
{
	for (unsigned r = 0; r < rows; r += 4)
		for (unsigned c = 0; c < columns; c += LANES) {
			lanes sum[4] = {0};
			for (unsigned i = 0; i < inner; i++) {
				lanes factor = *(const lanes *)(b + (size_t)i * columns + c);
				const float *from = a + r * row_step + i * inner_step;
				for (unsigned k = 0; k < 4; k++)
					sum[k] += from[k * row_step] * factor;
			}
			for (unsigned k = 0; k < 4; k++) {
				lanes *to = (lanes *)(out + (size_t)(r + k) * columns + c);
				*to = add ? *to + sum[k] : sum[k];
			}
		}
}

/* Where tap (ky, kx) of output (y, x) reads, or -1 where that is beyond the edge, which counts as
 * zero. */
static long tap_at(const struct layer *layer, unsigned y, unsigned x, unsigned tap)
{
	long in_y = 2 * (long)y + (long)(tap / 3) - 1, in_x = 2 * (long)x + (long)(tap % 3) - 1;
	long side = (long)layer->in_side;

	if (in_y < 0 || in_x < 0 || in_y >= side || in_x >= side)
		return -1;
	return (in_y * side + in_x) * (long)layer->in_channels;
}

static void layer_forward(struct layer *layer, const float *in)
{
	unsigned outputs = layer->out_side * layer->out_side;
	float *column = layer->column;

	for (unsigned y = 0; y < layer->out_side; y++)
		for (unsigned x = 0; x < layer->out_side; x++)
			for (unsigned tap = 0; tap < 9; tap++, column += layer->in_channels) {
				long at = tap_at(layer, y, x, tap);
				if (at < 0)
					memset(column, 0, layer->in_channels * sizeof(float));
				else
					memcpy(column, in + at, layer->in_channels * sizeof(float));
			}
	multiply(outputs, layer->taps, layer->channels, layer->column, layer->taps, 1,
		layer->weight, layer->out, false);
	for (unsigned i = 0; i < outputs * layer->channels; i++) {
		float value = layer->out[i] + layer->bias[i % layer->channels];
		layer->out[i] = value > 0 ? value : 0;
	}
}

/* Adds to the gradients of weights and bias; writes those of the input, where someone wants them.
 */
static void layer_backward(struct layer *layer, float *d_in)
{
	unsigned outputs = layer->out_side * layer->out_side;
	const float *d_column = layer->d_column;

	for (unsigned i = 0; i < outputs * layer->channels; i++) {
		layer->d_out[i] = layer->out[i] > 0 ? layer->d_out[i] : 0;
		layer->d_bias[i % layer->channels] += layer->d_out[i];
	}
	multiply(layer->taps, outputs, layer->channels, layer->column, 1, layer->taps, layer->d_out,
		layer->d_weight, true);
	if (!d_in)
		return;
	multiply(outputs, layer->channels, layer->taps, layer->d_out, layer->channels, 1,
		layer->transposed, layer->d_column, false);
	memset(d_in, 0,
		(size_t)layer->in_side * layer->in_side * layer->in_channels * sizeof(float));
	for (unsigned y = 0; y < layer->out_side; y++)
		for (unsigned x = 0; x < layer->out_side; x++)
			for (unsigned tap = 0; tap < 9; tap++, d_column += layer->in_channels) {
				long at = tap_at(layer, y, x, tap);
				for (unsigned c = 0; at >= 0 && c < layer->in_channels; c++)
					d_in[at + c] += d_column[c];
			}
}

static void layer_init(
	struct layer *layer, unsigned in_side, unsigned in_channels, unsigned channels)
{
	size_t outputs = (size_t)(in_side / 2) * (in_side / 2);

	*layer = (struct layer){.in_side = in_side,
		.in_channels = in_channels,
		.out_side = in_side / 2,
		.channels = channels};
	layer->taps = 9 * in_channels;
	layer->column = zeros(outputs * layer->taps);
	layer->d_column = zeros(outputs * layer->taps);
	layer->transposed = zeros((size_t)layer->taps * channels);
	layer->out = zeros(outputs * channels);
	layer->d_out = zeros(outputs * channels);
}

/* Roughly normal numbers from a linear congruential generator: the sum of four uniform ones. */
static float draw(uint64_t *random)
{
	float sum = 0;

	for (int i = 0; i < 4; i++) {
		*random = *random * 6364136223846793005u + 1442695040888963407u;
		sum += (float)(*random >> 40) / (float)(1u << 24) - 0.5f;
	}
	return sum * 1.7320508f;
}

static void net_init(struct net *net, unsigned classes, uint64_t seed)
{
	static const unsigned channels[LAYERS] = {32, 64, 128};
	unsigned side = SIDE, in_channels = INPUT_CHANNELS;
	size_t at = 0;

	*net = (struct net){.classes = classes};
	for (int i = 0; i < LAYERS; i++, side /= 2) {
		layer_init(&net->layer[i], side, in_channels, channels[i]);
		net->count += (size_t)net->layer[i].taps * channels[i] + channels[i];
		in_channels = channels[i];
	}
	net->count += (size_t)in_channels * classes + classes;
	net->parameters = zeros(net->count);
	net->gradients = zeros(net->count);
	net->momentum = zeros(net->count);
	net->input = zeros((size_t)SIDE * SIDE * INPUT_CHANNELS);
	net->mean = zeros(in_channels);
	net->score = zeros(classes);
	for (int i = 0; i < LAYERS; i++) {
		struct layer *layer = &net->layer[i];
		/* He et al., "Delving Deep into Rectifiers", ICCV 2015: variance 2 / inputs. */
		float scale = sqrtf(2.0f / (float)layer->taps);
		layer->weight = net->parameters + at;
		layer->d_weight = net->gradients + at;
		for (size_t k = 0; k < (size_t)layer->taps * layer->channels; k++, at++)
			net->parameters[at] = scale * draw(&seed);
		layer->bias = net->parameters + at;
		layer->d_bias = net->gradients + at;
		at += layer->channels;
	}
	net->linear = net->parameters + at;
	net->d_linear = net->gradients + at;
	net->linear_bias = net->linear + (size_t)in_channels * classes;
	net->d_linear_bias = net->d_linear + (size_t)in_channels * classes;
}

/* Scores to probabilities less the wanted one, which is the gradient; returns the loss. */
static float softmax_loss(float *score, unsigned classes, unsigned label, bool *ret_right)
{
	float highest = score[0], sum = 0, loss;
	unsigned best = 0;

	for (unsigned c = 1; c < classes; c++)
		if (score[c] > highest) {
			highest = score[c];
			best = c;
		}
	for (unsigned c = 0; c < classes; c++)
		sum += expf(score[c] - highest);
	loss = logf(sum) + highest - score[label];
	for (unsigned c = 0; c < classes; c++)
		score[c] = expf(score[c] - highest) / sum - (c == label ? 1.0f : 0.0f);
	*ret_right = best == label;
	return loss;
}

/* One picture there and back: returns its loss, adds its gradients. */
static float net_learn(struct net *net, unsigned label, bool *ret_right)
{
	struct layer *last = &net->layer[LAYERS - 1];
	unsigned outputs = last->out_side * last->out_side, channels = last->channels;
	const float *in = net->input;
	float loss;

	for (int i = 0; i < LAYERS; i++) {
		layer_forward(&net->layer[i], in);
		in = net->layer[i].out;
	}
	memset(net->mean, 0, channels * sizeof(float));
	for (unsigned i = 0; i < outputs * channels; i++)
		net->mean[i % channels] += last->out[i] / (float)outputs;
	memcpy(net->score, net->linear_bias, net->classes * sizeof(float));
	for (unsigned k = 0; k < channels; k++)
		for (unsigned c = 0; c < net->classes; c++)
			net->score[c] += net->mean[k] * net->linear[k * net->classes + c];
	loss = softmax_loss(net->score, net->classes, label, ret_right);

	for (unsigned k = 0; k < channels; k++) {
		float d_mean = 0;
		for (unsigned c = 0; c < net->classes; c++) {
			d_mean += net->score[c] * net->linear[k * net->classes + c];
			net->d_linear[k * net->classes + c] += net->score[c] * net->mean[k];
		}
		for (unsigned i = 0; i < outputs; i++)
			last->d_out[i * channels + k] = d_mean / (float)outputs;
	}
	for (unsigned c = 0; c < net->classes; c++)
		net->d_linear_bias[c] += net->score[c];
	for (int i = LAYERS - 1; i >= 0; i--)
		layer_backward(&net->layer[i], i > 0 ? net->layer[i - 1].d_out : NULL);
	return loss;
}

/* SGD with momentum 0.9 and weight decay 0.0001 over the mean of `rows` gradients, which are zero
 * afterwards. */
static void net_step(struct net *net, float rate, unsigned rows)
{
	for (size_t i = 0; i < net->count; i++) {
		float gradient = net->gradients[i] / (float)rows + 1e-4f * net->parameters[i];
		net->momentum[i] = 0.9f * net->momentum[i] + gradient;
		net->parameters[i] -= rate * net->momentum[i];
		net->gradients[i] = 0;
	}
}

static void net_transpose(struct net *net)
{
	for (int i = 0; i < LAYERS; i++) {
		struct layer *layer = &net->layer[i];
		for (unsigned k = 0; k < layer->taps; k++)
			for (unsigned c = 0; c < layer->channels; c++)
				layer->transposed[c * layer->taps + k] =
					layer->weight[k * layer->channels + c];
	}
}

static void net_deinit(struct net *net)
{
	for (int i = 0; i < LAYERS; i++) {
		struct layer *layer = &net->layer[i];
		free(layer->column);
		free(layer->d_column);
		free(layer->transposed);
		free(layer->out);
		free(layer->d_out);
	}
	free(net->parameters);
	free(net->gradients);
	free(net->momentum);
	free(net->input);
	free(net->mean);
	free(net->score);
}

/* FNV-1a over the weights: two runs that learned the same show the same number. */
static uint64_t net_hash(const struct net *net)
{
	const unsigned char *bytes = (const unsigned char *)net->parameters;
	uint64_t hash = 0xcbf29ce484222325u;

	for (size_t i = 0; i < net->count * sizeof(float); i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3u;
	return hash;
}

/* ---- the run ---- */

struct run {
	struct penstock_options options;
	const char *checkpoint;
	bool resume, unlabelled;
	unsigned classes; /* as asked for; 0: as the dataset says */
	double seconds;
	uint64_t steps; /* to stop at; 0: never */
	float rate;
	struct net net;
	struct penstock_stream *stream;
	uint64_t step;
	/* of the epoch so far; `waited` and `looked` since the last line printed */
	double loss;
	uint64_t right, rows, rows_before;
	double waited_s, line_s;
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
	uint32_t classes, unlabelled;
	char state[STATE_ROOM];
};

/* Weights and loader state, in a file that is either the old one or the new one, never half of one.
 */
static void save(const struct run *run)
{
	struct checkpoint_head head = {.magic = "TRAINCPU",
		.step = run->step,
		.rows = run->rows,
		.right = run->right,
		.count = run->net.count,
		.loss = run->loss,
		.classes = run->net.classes,
		.unlabelled = run->unlabelled};
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
		fprintf(stderr, "train_cpu: %s is no checkpoint of train_cpu\n", run->checkpoint);
		exit(1);
	}
	return file;
}

static void load_weights(struct run *run, const struct checkpoint_head *head, FILE *file)
{
	if (head->classes != run->net.classes || head->count != run->net.count ||
		head->unlabelled != run->unlabelled ||
		fread(run->net.parameters, sizeof(float), run->net.count, file) != run->net.count ||
		fread(run->net.momentum, sizeof(float), run->net.count, file) != run->net.count) {
		fprintf(stderr, "train_cpu: %s does not fit this net (%u classes there, %u here)\n",
			run->checkpoint, head->classes, run->net.classes);
		exit(1);
	}
	run->step = head->step;
	run->rows = run->rows_before = head->rows;
	run->right = head->right;
	run->loss = head->loss;
}

/* Opens the stream, where the checkpoint says if there is one. */
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
	penstock_stream_info(run->stream, &info);
	if (run->classes == 0)
		run->classes = info.classes
				       ? info.classes
				       : 1000; /* shards do not say how many; ImageNet's number */
	printf("%" PRIu64 " samples, %" PRIu64 " batches of %u per epoch; ", info.samples,
		info.batches, info.batch_size);
	if (run->resume)
		printf("going on after step %" PRIu64 " with ", head.step);
	printf("batch %" PRIu64 " of epoch %" PRIu64 "\n", info.batch, info.epoch);
	(void)fflush(stdout);
}

/* Makes the net once a batch has shown whether there are labels, and fills it from the checkpoint.
 */
static void prepare(struct run *run, const struct penstock_batch *first)
{
	struct checkpoint_head head;

	run->unlabelled = first->labels[0] < 0;
	if (run->unlabelled) {
		run->classes = TURNS;
		printf("no labels: learning by how many quarter turns a picture was rotated\n");
	} else {
		printf("learning %u classes\n", run->classes);
	}
	net_init(&run->net, run->classes, run->options.seed + 1);
	if (run->resume) {
		FILE *file = load_head(run, &head);
		load_weights(run, &head, file);
		(void)fclose(file);
	}
}

/* Bytes of one picture to numbers around zero, turned by `turns` quarters; the fourth channel stays
 * zero and only keeps the rows of `multiply` a multiple of four. */
static void take_picture(struct net *net, const uint8_t *rgb, unsigned turns)
{
	for (unsigned y = 0; y < SIDE; y++)
		for (unsigned x = 0; x < SIDE; x++, rgb += 3) {
			unsigned to_y = y, to_x = x;
			for (unsigned t = 0; t < turns; t++) {
				unsigned old_y = to_y;
				to_y = to_x;
				to_x = SIDE - 1 - old_y;
			}
			float *to = net->input + (size_t)(to_y * SIDE + to_x) * INPUT_CHANNELS;
			for (unsigned c = 0; c < 3; c++)
				to[c] = ((float)rgb[c] - 118) / 60;
		}
}

static void train_on(struct run *run, const struct penstock_batch *batch)
{
	const uint8_t *images = batch->images;

	net_transpose(&run->net);
	for (unsigned row = 0; row < batch->count; row++) {
		unsigned turns =
			run->unlabelled
				? (unsigned)((batch->samples[row].position + batch->epoch) % TURNS)
				: 0;
		int64_t label = run->unlabelled ? (int64_t)turns : batch->labels[row];
		bool right;

		if (label < 0 || label >= (int64_t)run->classes) {
			fprintf(stderr,
				"train_cpu: label %" PRId64
				" is not below %u: say how many classes there are with --classes\n",
				label, run->classes);
			exit(1);
		}
		take_picture(&run->net, images + (size_t)row * batch->image_bytes, turns);
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

	printf("step %6" PRIu64 "   epoch %3" PRIu64
	       "   loss %6.3f   accuracy %5.1f %%   %6.0f images/s   waiting for data %3.0f %%\n",
		run->step, batch->epoch, run->loss / (double)run->rows,
		100.0 * (double)run->right / (double)run->rows,
		(double)(run->rows - run->rows_before) / span, 100 * run->waited_s / span);
	(void)fflush(stdout);
	run->line_s = now;
	run->waited_s = 0;
	run->rows_before = run->rows;
}

/* Waits for a batch in short turns, so that Ctrl-C is heard. False when the run is over. */
static bool next_batch(struct run *run, struct penstock_batch *ret_batch)
{
	double begin = now_s();
	int result;

	do {
		if (interrupted)
			return false;
		result = penstock_stream_next(run->stream, ret_batch, 250);
	} while (result == -EINTR || (result == -ETIMEDOUT && now_s() - begin < 120));
	run->waited_s += now_s() - begin;
	if (result < 0)
		give_up("no batch");
	return result == 0;
}

/* What an epoch's end brings: a line, a checkpoint, sums that begin again. */
static void end_epoch(struct run *run, const struct penstock_batch *batch)
{
	print_line(run, batch);
	run->loss = 0;
	run->right = run->rows = run->rows_before = 0;
	save(run);
}

static void train(struct run *run)
{
	double begin = run->line_s = now_s();
	struct penstock_batch batch;

	while ((run->steps == 0 || run->step < run->steps) &&
		(run->seconds == 0 || now_s() - begin < run->seconds) && next_batch(run, &batch)) {
		bool last = batch.flags & PENSTOCK_LAST;
		if (run->net.count == 0)
			prepare(run, &batch);
		train_on(run, &batch);
		if (last)
			end_epoch(run, &batch);
		else if (now_s() - run->line_s >= 2)
			print_line(run, &batch);
		if (penstock_batch_release(run->stream, &batch) < 0)
			give_up("cannot release a batch");
	}
	if (run->net.count == 0)
		return; /* stopped before the first batch: a checkpoint that is there already stays
			   as it is */
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
		      "                        [--seed N] [--classes N] [--rate 0.03]\n"
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
		run->options.seed = (uint64_t)number(value, name, 1e15);
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
	struct run run = {.rate = 0.03f};
	struct sigaction action = {.sa_handler = on_signal};

	penstock_options_init(&run.options);
	run.options.batch_size = BATCH;
	run.options.image_size = SIDE;
	parse(&run, argc, argv);
	(void)sigaction(SIGINT, &action, NULL);
	(void)sigaction(SIGTERM, &action, NULL);
	start(&run);
	train(&run);
	penstock_stream_close(run.stream);
	net_deinit(&run.net);
	return 0;
}

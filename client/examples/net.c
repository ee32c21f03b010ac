/* net: see net.h. */
#include "net.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUT_CHANNELS = 4 };

/* Sixteen lanes, which the compiler maps to the vectors of the machine. */
typedef float lanes __attribute__((vector_size(64), aligned(4)));
enum { LANES = 16 };

static void *zeros(size_t count)
{
	void *memory = calloc(count, sizeof(float));

	if (!memory) {
		fprintf(stderr, "out of memory for the net\n");
		exit(1);
	}
	return memory;
}

/* out (rows x columns) = or += A (rows x inner) * B (inner x columns). A's element (r, i) is at a[r
 * * row_step + i * inner_step], so that A can also be read transposed. Rows are a multiple of 4,
 * columns a multiple of LANES. */
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

/* The place that tap (ky, kx) of output (y, x) reads, or -1 if it is beyond the edge, which counts
 * as zero. */
static long tap_at(const struct net_layer *layer, unsigned y, unsigned x, unsigned tap)
{
	long in_y = 2 * (long)y + (long)(tap / 3) - 1, in_x = 2 * (long)x + (long)(tap % 3) - 1;
	long side = (long)layer->in_side;

	if (in_y < 0 || in_x < 0 || in_y >= side || in_x >= side)
		return -1;
	return (in_y * side + in_x) * (long)layer->in_channels;
}

static void layer_forward(struct net_layer *layer, const float *in)
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

/* Adds to the gradients of weights and bias. Writes those of the input unless `d_in` is NULL. */
static void layer_backward(struct net_layer *layer, float *d_in)
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
	struct net_layer *layer, unsigned in_side, unsigned in_channels, unsigned channels)
{
	size_t outputs = (size_t)(in_side / 2) * (in_side / 2);

	*layer = (struct net_layer){.in_side = in_side,
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

/* Roughly normal numbers: the sum of four uniform ones from a linear congruential generator. */
static float draw(uint64_t *random)
{
	float sum = 0;

	for (int i = 0; i < 4; i++) {
		*random = *random * 6364136223846793005u + 1442695040888963407u;
		sum += (float)(*random >> 40) / (float)(1u << 24) - 0.5f;
	}
	return sum * 1.7320508f;
}

void net_refresh(struct net *net)
{
	for (int i = 0; i < NET_LAYERS; i++) {
		struct net_layer *layer = &net->layer[i];
		for (unsigned k = 0; k < layer->taps; k++)
			for (unsigned c = 0; c < layer->channels; c++)
				layer->transposed[c * layer->taps + k] =
					layer->weight[k * layer->channels + c];
	}
}

void net_init(struct net *net, unsigned classes, uint64_t seed)
{
	static const unsigned channels[NET_LAYERS] = {32, 64, 128};
	unsigned side = NET_SIDE, in_channels = INPUT_CHANNELS;
	size_t at = 0;

	*net = (struct net){.classes = classes};
	for (int i = 0; i < NET_LAYERS; i++, side /= 2) {
		layer_init(&net->layer[i], side, in_channels, channels[i]);
		net->count += (size_t)net->layer[i].taps * channels[i] + channels[i];
		in_channels = channels[i];
	}
	net->count += (size_t)in_channels * classes + classes;
	net->parameters = zeros(net->count);
	net->gradients = zeros(net->count);
	net->momentum = zeros(net->count);
	net->input = zeros((size_t)NET_SIDE * NET_SIDE * INPUT_CHANNELS);
	net->mean = zeros(in_channels);
	net->score = zeros(classes);
	for (int i = 0; i < NET_LAYERS; i++) {
		struct net_layer *layer = &net->layer[i];
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
	net_refresh(net);
}

/* Turns scores into probabilities minus the wanted ones, which is the gradient. Returns the
 * loss. */
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

float net_look(struct net *net, unsigned label, bool *ret_right)
{
	struct net_layer *last = &net->layer[NET_LAYERS - 1];
	unsigned outputs = last->out_side * last->out_side, channels = last->channels;
	const float *in = net->input;

	for (int i = 0; i < NET_LAYERS; i++) {
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
	return softmax_loss(net->score, net->classes, label, ret_right);
}

float net_learn(struct net *net, unsigned label, bool *ret_right)
{
	struct net_layer *last = &net->layer[NET_LAYERS - 1];
	unsigned outputs = last->out_side * last->out_side, channels = last->channels;
	float loss = net_look(net, label, ret_right);

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
	for (int i = NET_LAYERS - 1; i >= 0; i--)
		layer_backward(&net->layer[i], i > 0 ? net->layer[i - 1].d_out : NULL);
	return loss;
}

/* SGD with momentum 0.9 and weight decay 0.0001 over the mean of the gradients of `images` images,
 * which are zero afterward. */
void net_step(struct net *net, float rate, unsigned images)
{
	for (size_t i = 0; i < net->count; i++) {
		float gradient = net->gradients[i] / (float)images + 1e-4f * net->parameters[i];
		net->momentum[i] = 0.9f * net->momentum[i] + gradient;
		net->parameters[i] -= rate * net->momentum[i];
		net->gradients[i] = 0;
	}
	net_refresh(net);
}

void net_deinit(struct net *net)
{
	for (int i = 0; i < NET_LAYERS; i++) {
		struct net_layer *layer = &net->layer[i];
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

/* FNV-1a over the weights: two runs that learned the same have the same hash. */
uint64_t net_hash(const struct net *net)
{
	const unsigned char *bytes = (const unsigned char *)net->parameters;
	uint64_t hash = 0xcbf29ce484222325u;

	for (size_t i = 0; i < net->count * sizeof(float); i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3u;
	return hash;
}

/* The fourth channel stays zero. It only makes the rows of `multiply` a multiple of four. */
void net_take(struct net *net, const uint8_t *rgb)
{
	for (size_t i = 0; i < (size_t)NET_SIDE * NET_SIDE; i++)
		for (size_t c = 0; c < 3; c++)
			net->input[i * INPUT_CHANNELS + c] = ((float)rgb[3 * i + c] - 118) / 60;
}

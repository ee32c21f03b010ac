/* net: a small convolutional classifier and its gradients, in plain C. It does not depend on
 * penstock.
 *
 * Three 3x3 convolutions of stride 2 with ReLU on NET_SIDE x NET_SIDE pixels, the mean over the
 * image, one linear layer, cross-entropy; SGD with momentum. It takes one image at a time; a step
 * uses the mean of the gradients added since the last step. Every sum is taken in the same order
 * each time, so equal inputs give equal weights, bit for bit. One thread.
 *
 * A map of this folder:
 *   read_batches.c    reads batches and prints what is in them; read_batches.cpp does it in C++
 *   train_cpu.c       trains this network on the CPU, with checkpoints; train_cpu.cpp in C++
 *   net.[ch]          this
 *   make_dataset.c    paints a dataset of three classes, for the demo and the tests
 *   train_cuda/       an image classifier, trained on a GPU */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { NET_SIDE = 64, NET_LAYERS = 3 };

struct net_layer {
	unsigned in_side, in_channels, out_side, channels;
	unsigned taps; /* inputs of one output: 9 * in_channels */
	float *weight, *bias; /* taps x channels, channels; in net.parameters */
	float *d_weight, *d_bias; /* in net.gradients */
	float *column; /* out_side^2 x taps: the inputs of each output in a row */
	float *d_column;
	float *transposed; /* weights as channels x taps, for the backward pass */
	float *out, *d_out; /* out_side^2 x channels */
};

struct net {
	struct net_layer layer[NET_LAYERS];
	unsigned classes;
	float *linear, *linear_bias, *d_linear, *d_linear_bias; /* last.channels x classes */
	float *parameters, *gradients, *momentum;
	size_t count; /* number of parameters */
	float *input, *mean, *score;
};

/* Sets random weights from `seed`. Ends the process if there is no memory. */
void net_init(struct net *net, unsigned classes, uint64_t seed);
void net_deinit(struct net *net);

/* Updates what is derived from the parameters. Call it after changing them from outside; net_step
 * calls it itself. */
void net_refresh(struct net *net);

/* Sets the next image: NET_SIDE x NET_SIDE pixels R, G, B. */
void net_take(struct net *net, const uint8_t *rgb);

/* Runs the net on that image. Returns its loss, and whether its best class is `label`. */
float net_look(struct net *net, unsigned label, bool *ret_right);

/* The same, forward and backward: also adds the image's gradients. */
float net_learn(struct net *net, unsigned label, bool *ret_right);

/* Moves the weights by the mean gradient of `images` images, and sets the gradients to zero. */
void net_step(struct net *net, float rate, unsigned images);

/* FNV-1a over the weights: two runs that learned the same have the same hash. */
uint64_t net_hash(const struct net *net);

#ifdef __cplusplus
}
#endif

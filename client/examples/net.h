/* net: a small convolutional classifier and its gradients, in plain C. Knows nothing of penstock.
 *
 * Three 3x3 convolutions of stride 2 with ReLU on NET_SIDE x NET_SIDE pixels, the mean over the
 * picture, one linear layer, cross-entropy; SGD with momentum. One picture at a time; a step takes
 * the mean of the gradients added since the last. Every sum is taken in the same order each time,
 * so equal inputs give equal weights, bit for bit. One thread. */
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
	float *column; /* out_side^2 x taps: each output's inputs in a row */
	float *d_column;
	float *transposed; /* weights as channels x taps, for the way back */
	float *out, *d_out; /* out_side^2 x channels */
};

struct net {
	struct net_layer layer[NET_LAYERS];
	unsigned classes;
	float *linear, *linear_bias, *d_linear, *d_linear_bias; /* last.channels x classes */
	float *parameters, *gradients, *momentum;
	size_t count; /* of parameters */
	float *input, *mean, *score;
};

/* Random weights from `seed`. Ends the process when memory is out. */
void net_init(struct net *net, unsigned classes, uint64_t seed);
void net_deinit(struct net *net);

/* After the parameters were changed from outside, and by net_step itself: what is derived from
 * them. */
void net_refresh(struct net *net);

/* The picture to learn next: NET_SIDE x NET_SIDE pixels R, G, B. */
void net_take(struct net *net, const uint8_t *rgb);

/* What the net makes of that picture: its loss. */
float net_look(struct net *net, unsigned label, bool *ret_right);

/* That picture there and back: returns its loss, adds its gradients. */
float net_learn(struct net *net, unsigned label, bool *ret_right);

/* Moves the weights by the mean gradient of `pictures` and begins anew. */
void net_step(struct net *net, float rate, unsigned pictures);

/* FNV-1a over the weights: two runs that learned the same show the same number. */
uint64_t net_hash(const struct net *net);

#ifdef __cplusplus
}
#endif

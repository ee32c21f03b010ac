/* net: a residual network (He et al., "Deep residual learning for image recognition", 2015) and how
 * it learns, built on the functions of ops.h. It depends on neither penstock nor CUDA.
 *
 * From NET_LARGE pixels on the stem is theirs for ImageNet: 7 x 7 convolution of stride 2, maximum
 * of 3 x 3 of stride 2; below that, 3 x 3 of stride 1 and no pooling, as they did for CIFAR. Then
 * four stages of `blocks` basic blocks with `width`, 2, 4 and 8 times `width` channels; the first
 * block of every stage except the first halves the side. Then the mean over the image and one
 * linear layer. Width 64 and two blocks make ResNet-18.
 *
 * Weights are float; those of convolutions and of the linear layer have a half copy, which the
 * passes use, and half gradients. Only they have weight decay. All activations of a forward pass
 * are kept for the backward pass.
 *
 * One thread, as in ops.h. */
#pragma once

#include "ops.h"

enum {
	NET_LARGE = 96,
	NET_STAGES = 4,
	NET_BLOCKS_MAX = 32,
	NET_SIDE_MIN = 8,
	NET_SIDE_MAX = 1024,
	NET_PARTS = 4
};

struct net_shape {
	unsigned batch, side, width, blocks, classes;
};

struct net;

/* The parts of a checkpoint: weights, momentum, running means and variances, scaler. */
struct net_part {
	const char *name;
	void *memory; /* on the device */
	size_t bytes;
};

/* Random weights from `seed`. `width` is a multiple of OPS_PACK. */
struct net *net_new(struct ops *ops, const struct net_shape *shape, uint64_t seed);
void net_free(struct net *net);

/* Where the caller puts a batch: half, (batch, side, side, 3); float, (batch, classes). On the
 * device. */
void *net_images(struct net *net);
float *net_targets(struct net *net);

/* Runs the batch forward and backward: gradients, loss and accuracy of its first `count` rows. The
 * images of the other rows are overwritten. */
void net_learn(struct net *net, unsigned count);

/* Moves the weights; leaves them as they are if the gradients overflowed. */
void net_step(struct net *net, const struct ops_sgd *how);

/* Runs the batch forward with the running means: only loss and accuracy. */
void net_score(struct net *net, unsigned count);

/* The sums since the previous call; waits for the device. */
void net_take_metrics(struct net *net, struct ops_metrics *ret_metrics);

void net_scaler(struct net *net, struct ops_scaler *ret_scaler); /* waits for the device */

void net_parts(struct net *net, struct net_part ret_parts[NET_PARTS]);

/* Updates the half copies. Call it after changing the weights from outside. */
void net_refresh(struct net *net);

/* Number of learned values; of the first filter, only three channels count. */
size_t net_parameters(const struct net *net);

#define NET_HASH_BEGIN UINT64_C(0xcbf29ce484222325)

/* Continues FNV-1a over these bytes; `hash` is that of the bytes before, or NET_HASH_BEGIN. */
uint64_t net_hash_bytes(uint64_t hash, const void *bytes, size_t count);

/* The hash of the weights: two runs that learned the same have the same hash. Waits for the
 * device. */
uint64_t net_hash(struct net *net);

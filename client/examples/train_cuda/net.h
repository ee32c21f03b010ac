/* net: a residual network (He et al., "Deep residual learning for image recognition", 2015) and how
 * it learns, over the functions of ops.h; knows neither penstock nor CUDA.
 *
 * From NET_LARGE pixels on the stem is theirs for ImageNet: 7 x 7 convolution of stride 2, greatest
 * of 3 x 3 of stride 2; below that, 3 x 3 of stride 1 and no pooling, as they did for CIFAR. Then
 * four stages of `blocks` basic blocks, `width`, 2, 4 and 8 times `width` channels, the first
 * block of a stage but the first halving the side; the mean over the picture; one linear layer.
 * Width 64 and two blocks make ResNet-18.
 *
 * Weights are float; those of convolutions and of the linear layer have a half copy that the
 * passes use, and half gradients. Weight decay is theirs alone. All activations of a pass stay for
 * the way back.
 *
 * One thread, as of ops.h. */
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

/* What a checkpoint has to hold: weights, momentum, running means and variances, scaler. */
struct net_part {
	const char *name;
	void *memory; /* on the device */
	size_t bytes;
};

/* Random weights from `seed`. `width` is a multiple of OPS_PACK. */
struct net *net_new(struct ops *ops, const struct net_shape *shape, uint64_t seed);
void net_free(struct net *net);

/* Where a batch goes: half, (batch, side, side, 3); float, (batch, classes). On the device. */
void *net_images(struct net *net);
float *net_targets(struct net *net);

/* The batch there and back: gradients, loss and accuracy of its first `count` rows. The others'
 * images are written over. */
void net_learn(struct net *net, unsigned count);

/* Moves the weights; leaves them as they are where the gradients overflowed. */
void net_step(struct net *net, const struct ops_sgd *how);

/* The batch there, with the running means: loss and accuracy alone. */
void net_score(struct net *net, unsigned count);

/* Sums since the call before; waits for the device. */
void net_take_metrics(struct net *net, struct ops_metrics *ret_metrics);

void net_scaler(struct net *net, struct ops_scaler *ret_scaler); /* waits for the device */

void net_parts(struct net *net, struct net_part ret_parts[NET_PARTS]);

/* After the weights were changed from outside: the half copies. */
void net_refresh(struct net *net);

/* Numbers that are learned; of the first filter, three channels. */
size_t net_parameters(const struct net *net);

#define NET_HASH_BEGIN UINT64_C(0xcbf29ce484222325)

/* FNV-1a over these bytes too; `hash`: of those before, or NET_HASH_BEGIN. */
uint64_t net_hash_bytes(uint64_t hash, const void *bytes, size_t count);

/* That of the weights: two runs that learned the same show the same number. Waits. */
uint64_t net_hash(struct net *net);

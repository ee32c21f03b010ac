/* sidecar: a file beside each shard that keeps something small about every sample: the checkpoints
 * at which its bytes can be entered (decode/jpeg/entry_pack.h). What is in it is not looked at here.
 *
 * There is no table, and nothing to allocate: a sample's place follows from its number and from
 * where its bytes begin in the shard, and so does its room, a 48th of its size and a bit. So the
 * file takes at most 256 bytes for each sample and 2.1 % of the data, grows as samples are visited,
 * has holes until then, and costs no memory here. Its head binds it to the samples of the index:
 * with other samples, or of another version, it is begun anew, under another inode, so that whoever
 * reads the old one is not harmed.
 *
 * The same sample always has the same bytes, so processes that write at once write the same.
 * Nothing is synced: a torn write does not check, and is made again. What cannot be written is not
 * kept, which one notice says; reading goes on.
 *
 * It lies as SHARD.ckp beside the shard, or in the cache folder, by the rule for indexes (a
 * folder's always there). No more of them are open at once than lend.h allows. Any thread; a file
 * is opened at the first sidecar_read or sidecar_write of its shard, which then block on storage.
 */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SIDECAR_HEAD = 4096, /* bytes before the first place */
	SIDECAR_LEAST = 256, /* bytes of each room, and a part of the sample's size: */
	SIDECAR_PART = 48,
	SIDECAR_MOST = 16 << 10, /* no room is larger */
};

struct dataset;
struct sidecar;

struct sidecar_place {
	uint32_t shard, room;
	uint64_t offset;
};

/* The place of sample `number`, whose bytes begin at `position` of its shard (dataset_record) and
 * which has `size` of them. Places do not overlap. */
void sidecar_place(const struct dataset *dataset, uint64_t number, uint32_t shard,
	uint64_t position, uint32_t size, struct sidecar_place *ret);

/* For a dataset, which outlives it. 0 or -ENOMEM. */
int sidecar_new(const struct dataset *dataset, struct sidecar **ret);
void sidecar_free(struct sidecar *sidecar);

/* Tells the kernel that a place will soon be read. Does not wait for storage. */
void sidecar_ahead(struct sidecar *sidecar, const struct sidecar_place *place);

/* Copies what is at a place, at most `room` bytes, to `to`; returns how many: 0 where nothing can
 * be read. Zeros where nothing was ever written. */
size_t sidecar_read(
	struct sidecar *sidecar, const struct sidecar_place *place, uint8_t *to, size_t room);

/* Whether sidecar_write to a place can help, as far as is known once its shard was opened: not
 * where the file may only be read, where there is none, and after a write that failed. For whoever
 * would work for what is written. */
bool sidecar_keeps(struct sidecar *sidecar, const struct sidecar_place *place);

/* Puts `size` bytes, at most place->room, there. False: they are not kept. */
bool sidecar_write(struct sidecar *sidecar, const struct sidecar_place *place, const uint8_t *bytes,
	size_t size);

/* True once when something is not kept: a sentence that says where and why. */
bool sidecar_notice(struct sidecar *sidecar, char *ret_text, size_t room);

/* Opens a shard's file as it lies there, for reading, without making or checking it: for who looks
 * at files, not at what is in them. A descriptor, which is the caller's, or -errno. */
int sidecar_peek(const struct dataset *dataset, uint32_t shard);

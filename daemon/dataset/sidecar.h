/* sidecar: a file beside each shard that keeps something small about every sample: the entry points
 * at which decoding can start (decode/jpeg/entry_pack.h). This module does not interpret the
 * contents.
 *
 * The file has no table, and nothing is allocated in it: the place of a sample follows from its
 * number and from where its bytes begin in the shard, and its room is a 48th of its size and a bit.
 * So the file takes at most 256 bytes per sample and 2.1 % of the data, grows as samples are
 * visited, has holes until then, and costs no memory here. Its head ties it to the samples of the
 * index: for other samples, or another version, a new file with another inode replaces it, so that
 * readers of the old file are not harmed.
 *
 * Where a bounded cache (store_bound) does not hold all of a remote dataset, each byte that is kept
 * here is fetched once more in every epoch. Then places have a half to an eighth of that room, so
 * that all of them take at most a SIDECAR_SHARE-th of the bound; where that is not enough, nothing
 * is kept. A file with other room is replaced. In a bounded folder, all places of a file are
 * allocated when it is opened, so that it does not grow beyond what the bound allowed.
 *
 * What is kept for a sample grows, and the last write counts, also of several processes. Nothing is
 * synced or locked: a partial write is detected by its reader, and written again. If something
 * cannot be written, it is not kept, and one notice says so; reading continues.
 *
 * The file is stored as SHARD.ckp beside the shard, or in the cache folder, by the same rule as
 * indexes (for a folder always in the cache folder). Where a manifest chooses the samples it is
 * stored in the cache folder, under a name of its own, so that other choices do not replace it. The
 * number of open files is bounded by index_files.h. Any thread. A file is opened at the first
 * sidecar_read or sidecar_write of its shard, which then block on storage. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SIDECAR_HEAD = 4096, /* bytes before the first place */
	/* A place has room for SIDECAR_LEAST bytes and a SIDECAR_PART-th of the sample's size, */
	SIDECAR_LEAST = 256,
	SIDECAR_PART = 48,
	SIDECAR_MOST = 16 << 10, /* but at most this. */
	SIDECAR_HALVINGS = 3, /* of the room, at most */
	SIDECAR_SHARE = 52, /* of a bound: a little less than what it keeps free for indexes, too */
};

struct dataset;
struct sidecar;

struct sidecar_place {
	uint32_t shard, room;
	uint64_t offset;
};

/* The dataset must outlive it. 0 or -ENOMEM. */
int sidecar_new(const struct dataset *dataset, struct sidecar **ret);
void sidecar_free(struct sidecar *sidecar);

/* The place of sample `number`, which has `size` bytes that begin at `position` of its shard
 * (dataset_record). Places do not overlap. */
void sidecar_place(const struct sidecar *sidecar, uint64_t number, uint32_t shard,
	uint64_t position, uint32_t size, struct sidecar_place *ret);

/* Asks the kernel to read a place ahead. Does not wait for storage. */
void sidecar_ahead(struct sidecar *sidecar, const struct sidecar_place *place);

/* Copies at most `room` bytes of a place to `to` and returns their number: 0 if nothing can be
 * read. A place that was never written holds zeros. */
size_t sidecar_read(
	struct sidecar *sidecar, const struct sidecar_place *place, uint8_t *to, size_t room);

/* Whether sidecar_write to a place may succeed, as far as is known after its shard was opened:
 * false if the file is read-only or does not exist, and after a failed write. For callers that
 * would compute what is written. */
bool sidecar_keeps(struct sidecar *sidecar, const struct sidecar_place *place);

/* Writes `size` bytes, at most place->room, to a place. False: they were not kept. */
bool sidecar_write(struct sidecar *sidecar, const struct sidecar_place *place, const uint8_t *bytes,
	size_t size);

/* True once after something was not kept, with a sentence that says where and why. */
bool sidecar_notice(struct sidecar *sidecar, char *ret_text, size_t room);

/* Opens a shard's existing file for reading, without creating or checking it: for tools that
 * examine files. A descriptor, which the caller closes, or -errno. */
int sidecar_peek(const struct dataset *dataset, uint32_t shard);

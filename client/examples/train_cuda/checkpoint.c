/* Checkpoints. See checkpoint.h. */
#include "checkpoint.h"

#include "fail.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char magic[8] = "TRNCUDA2";

static void fail_write(const char *path)
{
	fail("cannot write %s: %s", path, strerror(errno));
}

/* Returns the hash so far. */
static uint64_t write_part(
	FILE *file, const char *path, struct ops *ops, const struct net_part *part, uint64_t hash)
{
	void *bytes = host_new(1, part->bytes);

	ops->get(ops, bytes, part->memory, part->bytes);
	if (fwrite(bytes, part->bytes, 1, file) != 1)
		fail_write(path);
	hash = net_hash_bytes(hash, bytes, part->bytes);
	free(bytes);
	return hash;
}

/* Makes the new name survive a power failure. Not every file system can do that; this is not an
 * error, because the old checkpoint is complete too. Changes `path`. */
static void sync_folder(char *path)
{
	int folder = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (folder < 0)
		return;
	(void)fsync(folder);
	(void)close(folder);
}

void checkpoint_save(
	const char *path, struct ops *ops, struct net *net, const struct checkpoint *checkpoint)
{
	struct checkpoint head = *checkpoint;
	struct net_part parts[NET_PARTS];
	char temporary[4096];
	uint64_t hash;
	FILE *file;

	if (snprintf(temporary, sizeof(temporary), "%s.new", path) >= (int)sizeof(temporary)) {
		errno = ENAMETOOLONG;
		fail_write(path);
	}
	net_parts(net, parts);
	memcpy(head.magic, magic, sizeof(magic));
	for (unsigned i = 0; i < NET_PARTS; i++)
		head.part_bytes[i] = parts[i].bytes;
	file = fopen(temporary, "we");
	if (!file || fwrite(&head, sizeof(head), 1, file) != 1)
		fail_write(temporary);
	hash = net_hash_bytes(NET_HASH_BEGIN, &head, sizeof(head));
	for (unsigned i = 0; i < NET_PARTS; i++)
		hash = write_part(file, temporary, ops, &parts[i], hash);
	if (fwrite(&hash, sizeof(hash), 1, file) != 1 || fflush(file) != 0 ||
		fsync(fileno(file)) != 0 || fclose(file) != 0 || rename(temporary, path) != 0)
		fail_write(temporary);
	sync_folder(temporary);
}

static FILE *open_head(const char *path, struct checkpoint *ret_checkpoint)
{
	FILE *file = fopen(path, "re");

	if (!file)
		fail("cannot read %s: %s", path, strerror(errno));
	if (fread(ret_checkpoint, sizeof(*ret_checkpoint), 1, file) != 1 ||
		memcmp(ret_checkpoint->magic, magic, sizeof(magic)) != 0 ||
		memchr(ret_checkpoint->state, 0, CHECKPOINT_STATE) == NULL ||
		ret_checkpoint->values > CHECKPOINT_VALUES)
		fail("%s is not a checkpoint of train_cuda", path);
	return file;
}

void checkpoint_read(const char *path, struct checkpoint *ret_checkpoint)
{
	(void)fclose(open_head(path, ret_checkpoint));
}

void checkpoint_compare(const char *path, const struct checkpoint *checkpoint,
	const struct checkpoint_value *values, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		const struct checkpoint_value *theirs = &checkpoint->value[i];
		if (i >= checkpoint->values ||
			strncmp(theirs->name, values[i].name, CHECKPOINT_NAME) != 0)
			fail("%s was written by another version of train_cuda", path);
		if (theirs->value == values[i].value)
			continue;
		fail("%s was written with --%s %.10g, this run has %.10g (-1: not "
		     "given): resume with the same command",
			path, values[i].name, theirs->value, values[i].value);
	}
}

static void read_or_fail(FILE *file, const char *path, const char *what, void *bytes, size_t count)
{
	if (fread(bytes, count, 1, file) == 1)
		return;
	fail("%s ends early, within its %s: it was damaged", path, what);
}

/* Returns the hash so far. */
static uint64_t read_part(
	FILE *file, const char *path, struct ops *ops, const struct net_part *part, uint64_t hash)
{
	void *bytes = host_new(1, part->bytes);

	read_or_fail(file, path, part->name, bytes, part->bytes);
	ops->put(ops, part->memory, bytes, part->bytes);
	hash = net_hash_bytes(hash, bytes, part->bytes);
	free(bytes);
	return hash;
}

void checkpoint_load(const char *path, struct ops *ops, struct net *net)
{
	struct checkpoint head;
	struct net_part parts[NET_PARTS];
	FILE *file = open_head(path, &head);
	uint64_t hash = net_hash_bytes(NET_HASH_BEGIN, &head, sizeof(head)), written;

	net_parts(net, parts);
	for (unsigned i = 0; i < NET_PARTS; i++) {
		if (head.part_bytes[i] == parts[i].bytes)
			continue;
		fail("%s does not fit this network: its %s have %" PRIu64
		     " bytes, this run needs %zu (it has %u classes)",
			path, parts[i].name, head.part_bytes[i], parts[i].bytes, head.classes);
	}
	for (unsigned i = 0; i < NET_PARTS; i++)
		hash = read_part(file, path, ops, &parts[i], hash);
	read_or_fail(file, path, "hash", &written, sizeof(written));
	if (hash != written)
		fail("%s is not what was written (its hash differs): it was "
		     "damaged",
			path);
	(void)fclose(file);
	net_refresh(net);
}

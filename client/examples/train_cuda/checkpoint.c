/* Checkpoints. See checkpoint.h. */
#include "checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char magic[8] = "TRNCUDA1";

static void *host_new(const char *path, size_t bytes)
{
	void *memory = malloc(bytes);

	if (!memory) {
		fprintf(stderr, "train_cuda: %s: no memory on the host\n", path);
		exit(1);
	}
	return memory;
}

static void fail_write(const char *path)
{
	fprintf(stderr, "train_cuda: cannot write %s: %s\n", path, strerror(errno));
	exit(1);
}

static void write_part(FILE *file, const char *path, struct ops *ops, const struct net_part *part)
{
	void *bytes = host_new(path, part->bytes);

	ops->get(ops, bytes, part->memory, part->bytes);
	if (fwrite(bytes, part->bytes, 1, file) != 1)
		fail_write(path);
	free(bytes);
}

void checkpoint_save(
	const char *path, struct ops *ops, struct net *net, const struct checkpoint *checkpoint)
{
	struct checkpoint head = *checkpoint;
	struct net_part parts[NET_PARTS];
	char temporary[4096];
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
	for (unsigned i = 0; i < NET_PARTS; i++)
		write_part(file, temporary, ops, &parts[i]);
	if (fflush(file) != 0 || fsync(fileno(file)) != 0 || fclose(file) != 0 ||
		rename(temporary, path) != 0)
		fail_write(temporary);
}

static FILE *open_head(const char *path, struct checkpoint *ret_checkpoint)
{
	FILE *file = fopen(path, "re");

	if (!file) {
		fprintf(stderr, "train_cuda: cannot read %s: %s\n", path, strerror(errno));
		exit(1);
	}
	if (fread(ret_checkpoint, sizeof(*ret_checkpoint), 1, file) != 1 ||
		memcmp(ret_checkpoint->magic, magic, sizeof(magic)) != 0 ||
		memchr(ret_checkpoint->state, 0, CHECKPOINT_STATE) == NULL ||
		ret_checkpoint->values > CHECKPOINT_VALUES) {
		fprintf(stderr, "train_cuda: %s is no checkpoint of train_cuda\n", path);
		exit(1);
	}
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
			strncmp(theirs->name, values[i].name, CHECKPOINT_NAME) != 0) {
			fprintf(stderr,
				"train_cuda: %s was written by another version of train_cuda\n",
				path);
			exit(1);
		}
		if (theirs->value == values[i].value)
			continue;
		fprintf(stderr,
			"train_cuda: %s was written with --%s %.10g, this run has %.10g (-1: not "
			"given): resume with the same command\n",
			path, values[i].name, theirs->value, values[i].value);
		exit(1);
	}
}

static void read_part(FILE *file, const char *path, struct ops *ops, const struct net_part *part)
{
	void *bytes = host_new(path, part->bytes);

	if (fread(bytes, part->bytes, 1, file) != 1) {
		fprintf(stderr, "train_cuda: %s ends early, within its %s: it was damaged\n", path,
			part->name);
		exit(1);
	}
	ops->put(ops, part->memory, bytes, part->bytes);
	free(bytes);
}

void checkpoint_load(const char *path, struct ops *ops, struct net *net)
{
	struct checkpoint head;
	struct net_part parts[NET_PARTS];
	FILE *file = open_head(path, &head);

	net_parts(net, parts);
	for (unsigned i = 0; i < NET_PARTS; i++) {
		if (head.part_bytes[i] == parts[i].bytes)
			continue;
		fprintf(stderr,
			"train_cuda: %s does not fit this network: its %s have %" PRIu64
			" bytes, %zu are wanted (%u classes there)\n",
			path, parts[i].name, head.part_bytes[i], parts[i].bytes, head.classes);
		exit(1);
	}
	for (unsigned i = 0; i < NET_PARTS; i++)
		read_part(file, path, ops, &parts[i]);
	(void)fclose(file);
	net_refresh(net);
}

/* shard_files: see shard_files.h. Runs with the planner's lock. */
#include "fetch/shard_files.h"

#include "base/hash.h"
#include "base/list.h"
#include "base/util.h"
#include "remote/object.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

enum { FILES_LEAST = 4, FILES_MOST = 512 };

unsigned files_bound(uint64_t nofile)
{
	return (unsigned)UTIL_MIN(
		(uint64_t)FILES_MOST, UTIL_MAX((uint64_t)FILES_LEAST, nofile / 4));
}

int files_init(struct files *files, unsigned bound, files_slot_fn *slot, void *context)
{
	*files = (struct files){.bound = bound, .slot = slot, .context = context};
	files->hash_size = 1;
	while (files->hash_size < 2 * bound)
		files->hash_size *= 2;
	files->file = calloc(bound, sizeof *files->file);
	files->hash = calloc(files->hash_size, sizeof(struct file *));
	if (!files->file || !files->hash) {
		files_deinit(files);
		return -ENOMEM;
	}
	for (unsigned i = bound; i-- > 0;) {
		files->file[i].slot = (int)i;
		files->file[i].fd = -1;
		files->file[i].hash_next = files->free;
		files->free = &files->file[i];
	}
	return 0;
}

static struct file **files_bucket(
	struct files *files, const struct dataset *dataset, uint32_t shard)
{
	uint64_t h = hash_mix((uintptr_t)dataset ^ (uint64_t)shard << 32);
	return &files->hash[h & (files->hash_size - 1)];
}

static void files_unhash(struct files *files, struct file *file)
{
	struct file **at = files_bucket(files, file->dataset, file->shard);
	while (*at && *at != file)
		at = &(*at)->hash_next;
	if (*at)
		*at = file->hash_next;
}

/* Back to FREE; closes the file if it is open. */
static void files_reset(struct files *files, struct file *file)
{
	assert(file->users == 0);
	files_unhash(files, file);
	list_remove(&files->by_age, &file->age);
	if (file->fd >= 0) {
		if (files->slot && file->state == FILE_OPEN)
			files->slot(files->context, file->slot, -1);
		(void)close(file->fd);
	}
	if (file->object)
		remote_object_unref(file->object);
	*file = (struct file){.slot = file->slot, .fd = -1, .hash_next = files->free};
	files->free = file;
}

void files_deinit(struct files *files)
{
	list_each_removable (file, &files->by_age, struct file, age)
		files_reset(files, file);
	free(files->file);
	free(files->hash);
	*files = (struct files){0};
}

struct file *files_find(struct files *files, const struct dataset *dataset, uint32_t shard)
{
	struct file *file = *files_bucket(files, dataset, shard);
	while (file && (file->dataset != dataset || file->shard != shard || file->doomed))
		file = file->hash_next;
	if (file) {
		list_remove(&files->by_age, &file->age);
		list_append(&files->by_age, &file->age);
	}
	return file;
}

bool files_evict(struct files *files)
{
	struct file *file = list_first(&files->by_age, struct file, age);
	while (file && (file->users > 0 || file->state != FILE_OPEN))
		file = list_next(file, age);
	if (!file)
		return false;
	files_reset(files, file);
	return true;
}

struct file *files_claim(struct files *files, const struct dataset *dataset, uint32_t shard,
	const char *path, bool direct)
{
	if (!files->free && !files_evict(files))
		return NULL;
	struct file *file = files->free;
	files->free = file->hash_next;
	*file = (struct file){
		.op = {.kind = FETCH_OP_SHARD,
			.stage = FETCH_OP_OPEN,
			.directory = AT_FDCWD,
			.path = path,
			.direct = direct,
			.align = 1,
			.fd = -1,
			.slot = -1,
			.dataset = dataset,
			.shard = shard},
		.dataset = dataset,
		.shard = shard,
		.state = FILE_OPENING,
		.fd = -1,
		.slot = file->slot,
	};
	struct file **bucket = files_bucket(files, dataset, shard);
	file->hash_next = *bucket;
	*bucket = file;
	list_append(&files->by_age, &file->age);
	return file;
}

bool files_opened(struct files *files, struct file *file, uint64_t now_ns)
{
	const struct fetch_op *op = &file->op;
	assert(file->state == FILE_OPENING && op->stage == FETCH_OP_DONE);
	file->fd = op->fd;
	file->object = op->object;
	if (op->result < 0 || file->doomed) {
		files_reset(files, file);
		return false;
	}
	file->state = FILE_OPEN;
	file->direct = op->direct;
	file->align = op->align;
	file->verified_ns = now_ns;
	if (files->slot && file->fd >= 0)
		files->slot(files->context, file->slot, file->fd);
	return true;
}

void files_abandon(struct files *files, struct file *file)
{
	assert(file->state == FILE_OPENING);
	files_reset(files, file);
}

void files_drop(struct files *files, struct file *file)
{
	assert(file->users > 0);
	if (--file->users == 0 && file->doomed)
		files_reset(files, file);
}

void files_doom(struct files *files, struct file *file)
{
	file->doomed = true;
	if (file->users == 0 && file->state == FILE_OPEN)
		files_reset(files, file);
}

bool files_forget(struct files *files, const struct dataset *dataset)
{
	bool none = true;
	list_each_removable (file, &files->by_age, struct file, age) {
		if (file->dataset != dataset)
			continue;
		none = none && file->users == 0 && file->state == FILE_OPEN;
		files_doom(files, file);
	}
	return none;
}

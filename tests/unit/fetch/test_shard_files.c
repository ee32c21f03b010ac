/* shard_files: the table of open shards stays within its bound, keeps shards that are in use,
 * closes the oldest, and forgets whole datasets. */
#include "fetch/shard_files.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Datasets are only keys here. */
static char dataset_a, dataset_b;
#define A ((const struct dataset *)(const void *)&dataset_a)
#define B ((const struct dataset *)(const void *)&dataset_b)

static int slots[8];

static void note_slot(void *context, int slot, int fd)
{
	assert_ptr_equal(context, slots);
	slots[slot] = fd;
}

/* Opens a shard as the engine would. */
static struct file *open_shard(struct files *files, const struct dataset *dataset, uint32_t shard)
{
	struct file *file = files_claim(files, dataset, shard, "/dev/null", false);
	if (!file)
		return NULL;
	assert_int_equal(file->state, FILE_OPENING);
	assert_ptr_equal(files_find(files, dataset, shard), file);
	file->op.fd = open(file->op.path, O_RDONLY | O_CLOEXEC);
	assert_true(file->op.fd >= 0);
	file->op.stage = FETCH_OP_DONE;
	assert_true(files_opened(files, file, 5));
	assert_int_equal(file->state, FILE_OPEN);
	return file;
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void test_bound(void **state)
{
	assert_int_equal(files_bound(0), 4);
	assert_int_equal(files_bound(64), 16);
	assert_int_equal(files_bound(1024), 256);
	assert_int_equal(files_bound(UINT64_MAX), 512);
}

static void test_oldest_makes_room(void **state)
{
	struct files files;
	assert_int_equal(files_init(&files, 4, note_slot, slots), 0);
	struct file *file[4];
	for (uint32_t i = 0; i < 4; i++) {
		file[i] = open_shard(&files, A, i);
		assert_int_equal(slots[file[i]->slot], file[i]->fd);
	}
	/* 0 becomes the newest; 1 is in use; so 2 is closed. */
	assert_ptr_equal(files_find(&files, A, 0), file[0]);
	file[1]->users = 1;
	int fd = file[2]->fd, slot = file[2]->slot;
	assert_non_null(open_shard(&files, A, 9));
	(void)fd;
	assert_int_not_equal(slots[slot], -1); /* used again by 9 */
	assert_null(files_find(&files, A, 2));
	assert_non_null(files_find(&files, A, 9));
	assert_non_null(files_find(&files, A, 1));
	files_drop(&files, file[1]);
	files_deinit(&files);
	for (int i = 0; i < 4; i++)
		assert_int_equal(slots[i], -1);
}

static void test_all_in_use(void **state)
{
	struct files files;
	assert_int_equal(files_init(&files, 4, NULL, NULL), 0);
	struct file *file[4];
	for (uint32_t i = 0; i < 4; i++) {
		file[i] = open_shard(&files, A, i);
		file[i]->users = 1;
	}
	assert_null(files_claim(&files, B, 0, "/dev/null", false));
	assert_false(files_evict(&files));
	files_drop(&files, file[3]);
	assert_true(files_evict(&files));
	assert_null(files_find(&files, A, 3));
	assert_non_null(open_shard(&files, B, 3));
	for (int i = 0; i < 3; i++)
		files_drop(&files, file[i]);
	files_deinit(&files);
}

static void test_failed_opening(void **state)
{
	struct files files;
	assert_int_equal(files_init(&files, 4, note_slot, slots), 0);
	struct file *file = files_claim(&files, A, 1, "/nowhere", true);
	assert_true(file->op.direct);
	file->op.stage = FETCH_OP_DONE;
	file->op.result = -ENOENT;
	assert_false(files_opened(&files, file, 0));
	assert_null(files_find(&files, A, 1));
	/* Opened, but not the indexed shard: its descriptor is closed. */
	file = files_claim(&files, A, 1, "/dev/null", false);
	int fd = file->op.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	file->op.stage = FETCH_OP_DONE;
	file->op.result = -ESTALE;
	assert_false(files_opened(&files, file, 0));
	assert_false(is_open(fd));
	files_deinit(&files);
}

static void test_doomed_lives_as_long_as_it_is_used(void **state)
{
	struct files files;
	assert_int_equal(files_init(&files, 4, note_slot, slots), 0);
	struct file *old = open_shard(&files, A, 1);
	old->users = 2;
	int fd = old->fd;
	files_doom(&files, old);
	assert_null(files_find(&files, A, 1));
	struct file *new = open_shard(&files, A, 1);
	assert_ptr_not_equal(new, old);
	assert_ptr_equal(files_find(&files, A, 1), new);
	files_drop(&files, old);
	assert_true(is_open(fd));
	files_drop(&files, old);
	assert_false(is_open(fd));
	assert_ptr_equal(files_find(&files, A, 1), new);
	files_deinit(&files);
}

static void test_forget(void **state)
{
	struct files files;
	assert_int_equal(files_init(&files, 8, NULL, NULL), 0);
	(void)open_shard(&files, A, 1);
	struct file *used = open_shard(&files, A, 2);
	struct file *other = open_shard(&files, B, 2);
	struct file *opening = files_claim(&files, A, 3, "/dev/null", false);
	used->users = 1;
	assert_false(files_forget(&files, A));
	files_drop(&files, used);
	assert_false(files_forget(&files, A));
	opening->op.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	opening->op.stage = FETCH_OP_DONE;
	assert_false(files_opened(&files, opening, 0));
	assert_true(files_forget(&files, A));
	assert_null(files_find(&files, A, 1));
	assert_ptr_equal(files_find(&files, B, 2), other);
	files_deinit(&files);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_oldest_makes_room),
		cmocka_unit_test(test_all_in_use),
		cmocka_unit_test(test_failed_opening),
		cmocka_unit_test(test_doomed_lives_as_long_as_it_is_used),
		cmocka_unit_test(test_forget),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

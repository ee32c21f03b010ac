/* fetch, when storage fails: both engines give the same outcome, for the sample at fault and for no
 * other. The hook of fetch_op.h makes the kernel's errors; missing, changed and replaced files are
 * real. */
#include "unit/fetch/fetch_fixture.h"

#include "fetch/fetch_op.h"

#include <glob.h>
#include <stdatomic.h>
#include <zlib.h>

/* What the hook does; set while nothing is in flight. The engines' threads share the counters. */
static struct {
	enum fetch_op_kind kind;
	enum fetch_op_stage stage;
	bool only_direct;
	uint64_t at; /* the byte that a read must cover; UINT64_MAX: any */
	int answer;
	unsigned every; /* give this answer to every n-th such question */
	_Atomic unsigned asked, answered, left;
} plot;

static int hook_plot(struct fetch_op *op)
{
	if (op->kind != plot.kind || op->stage != plot.stage || (plot.only_direct && !op->direct))
		return 0;
	if (plot.at != UINT64_MAX && (op->offset > plot.at || op->offset + op->length <= plot.at))
		return 0;
	if (atomic_fetch_add(&plot.asked, 1) % plot.every != 0)
		return 0;
	if (atomic_load(&plot.left) == 0)
		return 0;
	atomic_fetch_sub(&plot.left, 1);
	atomic_fetch_add(&plot.answered, 1);
	return plot.answer;
}

static int hook_short(struct fetch_op *op)
{
	uint32_t most = op->direct ? 4096 : 1000;
	if (op->stage == FETCH_OP_READ && op->ask > most)
		op->ask = most;
	return 0;
}

static void plot_set(enum fetch_op_kind kind, enum fetch_op_stage stage, int answer)
{
	plot.kind = kind;
	plot.stage = stage;
	plot.answer = answer;
	plot.only_direct = false;
	plot.at = UINT64_MAX;
	plot.every = 1;
	atomic_store(&plot.asked, 0);
	atomic_store(&plot.answered, 0);
	atomic_store(&plot.left, UINT32_MAX);
	fetch_hook_set(hook_plot);
}

static int plot_end(void **state)
{
	fetch_hook_set(NULL);
	return 0;
}

static struct fetch_options options_of(enum fetch_engine engine, enum fetch_io io)
{
	return (struct fetch_options){
		.engine = engine, .io = io, .arena_bytes = 4 << 20, .index_bytes = 1 << 18};
}

/* Where sample `number` begins in its shard. */
static uint64_t offset_of(const struct fixture *fixture, uint64_t number)
{
	struct sample sample;
	assert_int_equal(dataset_sample(fixture->dataset, number, &sample, NULL), 0);
	return sample.offset;
}

/* Reads a whole dataset; every sample except `number` must succeed. Returns the result of that
 * one. */
static int read_but(struct fetch *fetch, const struct fixture *fixture, uint64_t number,
	struct fault *ret_fault)
{
	struct reader reader;
	reader_init(&reader, fetch, fixture, fixture->count);
	reader_all(&reader);
	for (uint64_t i = 0; i < fixture->count; i++)
		if (i != number && reader.items[i].item.result != FETCH_OK)
			fail_msg("sample %llu: %s", (unsigned long long)i,
				reader.items[i].fault.text);
	int result = reader.items[number].item.result;
	*ret_fault = reader.items[number].fault;
	reader_deinit(&reader);
	fetch_forget(fetch, fixture->dataset);
	return result;
}

static void read_well(struct fetch *fetch, const struct fixture *fixture)
{
	struct fault fault;
	assert_int_equal(read_but(fetch, fixture, 0, &fault), FETCH_OK);
}

enum { COUNT = 120, VICTIM = 47, NEXT_SHARD = 60 };

/* Runs `test` for both engines, with tars of two shards and a folder. */
typedef void fault_test(struct fetch *fetch, struct fixture *tars, struct fixture *folder);

static void with_both(fault_test *test, enum fetch_io io)
{
	struct fetch_options options = options_of(FETCH_AUTO, io);
	each_engine (fetch, &options) {
		struct fixture tars, folder;
		fixture_tars(&tars, COUNT, NEXT_SHARD, false);
		fixture_images(&folder, COUNT, false);
		test(fetch, &tars, &folder);
		fetch_hook_set(NULL);
		fetch_forget(fetch, tars.dataset);
		fetch_forget(fetch, folder.dataset);
		fixture_free(&tars);
		fixture_free(&folder);
	}
}

/* The cmocka test test_NAME: NAME with both engines, in each of these ways to read. */
#define BOTH_TEST(name, ...)                                       \
	static void test_##name(void **state)                      \
	{                                                          \
		static const enum fetch_io ways[] = {__VA_ARGS__}; \
		(void)state;                                       \
		for (size_t i = 0; i < UTIL_COUNT(ways); i++)      \
			with_both(name, ways[i]);                  \
	}

/* --- questions that are asked again --- */

static void short_reads(struct fetch *fetch, struct fixture *tars, struct fixture *folder)
{
	fetch_hook_set(hook_short);
	read_well(fetch, tars);
	read_well(fetch, folder);
}

BOTH_TEST(short_reads, FETCH_IO_BUFFERED, FETCH_IO_DIRECT)

static void interrupted(struct fetch *fetch, struct fixture *tars, struct fixture *folder)
{
	static const int answers[] = {-EINTR, -EAGAIN};
	static const enum fetch_op_kind kinds[] = {
		FETCH_OP_PAGE, FETCH_OP_SHARD, FETCH_OP_RANGE, FETCH_OP_FILE};
	for (size_t a = 0; a < UTIL_COUNT(answers); a++)
		for (size_t k = 0; k < UTIL_COUNT(kinds); k++)
			for (int stage = FETCH_OP_OPEN; stage <= FETCH_OP_READ; stage++) {
				plot_set(kinds[k], (enum fetch_op_stage)stage, answers[a]);
				plot.every = 2;
				read_well(fetch, tars);
				read_well(fetch, folder);
				bool opens =
					kinds[k] == FETCH_OP_SHARD || kinds[k] == FETCH_OP_FILE;
				bool reads = kinds[k] != FETCH_OP_SHARD;
				assert_int_equal(
					plot.answered > 0, stage == FETCH_OP_OPEN ? opens : reads);
			}
}

BOTH_TEST(interrupted, FETCH_IO_BUFFERED)

/* A kernel that never gives another answer is not asked for ever. */
static void always_interrupted(struct fetch *fetch, struct fixture *tars, struct fixture *folder)
{
	struct fault fault;
	plot_set(FETCH_OP_RANGE, FETCH_OP_READ, -EINTR);
	plot.at = offset_of(tars, VICTIM);
	/* The same place in the other shard fails too, so only the first shard is read here. */
	tars->count = NEXT_SHARD;
	assert_int_equal(read_but(fetch, tars, VICTIM, &fault), -EINTR);
	assert_non_null(strstr(fault.text, "00000047.jpg"));
	assert_true(plot.answered < 300);
	tars->count = COUNT;
}

BOTH_TEST(always_interrupted, FETCH_IO_BUFFERED)

/* --- one sample at fault, though its neighbors share the read --- */

static void bad_place(struct fetch *fetch, struct fixture *tars, struct fixture *folder)
{
	static const struct {
		int answer, result;
	} cases[] = {{-EIO, FETCH_E_IO}, {-ENODATA, FETCH_E_IO}, {-EUCLEAN, FETCH_E_IO},
		{FETCH_HOOK_EMPTY, FETCH_E_SHORT}, {-EPERM, -EPERM}};
	tars->count = NEXT_SHARD;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		struct fault fault;
		plot_set(FETCH_OP_RANGE, FETCH_OP_READ, cases[i].answer);
		plot.at = offset_of(tars, VICTIM);
		assert_int_equal(read_but(fetch, tars, VICTIM, &fault), cases[i].result);
		assert_non_null(strstr(fault.text, "00000047.jpg"));
		assert_true(plot.answered > 0);
	}
	tars->count = COUNT;
}

BOTH_TEST(bad_place, FETCH_IO_BUFFERED)

static void bad_file(struct fetch *fetch, struct fixture *tars, struct fixture *folder)
{
	static const struct {
		enum fetch_op_stage stage;
		int answer, result;
	} cases[] = {{FETCH_OP_READ, -EIO, FETCH_E_IO}, {FETCH_OP_OPEN, -EIO, FETCH_E_IO},
		{FETCH_OP_OPEN, -ENOENT, FETCH_E_MISSING}, {FETCH_OP_OPEN, -EACCES, -EACCES},
		{FETCH_OP_OPEN, -EMFILE, -EMFILE}, {FETCH_OP_READ, -ESTALE, FETCH_E_MISSING},
		{FETCH_OP_READ, FETCH_HOOK_EMPTY, FETCH_E_SHORT}};
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		struct reader reader;
		plot_set(FETCH_OP_FILE, cases[i].stage, cases[i].answer);
		reader_init(&reader, fetch, folder, 1);
		reader.items[0].item.number = VICTIM;
		reader_all(&reader);
		assert_int_equal(reader.items[0].item.result, cases[i].result);
		assert_non_null(strstr(reader.items[0].fault.text, "c0/00000047.jpg"));
		assert_true(cases[i].answer != -EMFILE ||
			    strstr(reader.items[0].fault.text, "RLIMIT_NOFILE"));
		reader_deinit(&reader);
	}
}

BOTH_TEST(bad_file, FETCH_IO_BUFFERED, FETCH_IO_DIRECT)

/* --- the table of files is full --- */

static void no_more_files(struct fetch *fetch, struct fixture *tars, struct fixture *folder)
{
	struct reader reader;
	/* Each lane closes only its own shards. */
	if (fixture_lanes() > 1)
		return;
	/* One shard is open and idle: it is closed to make room for the other. */
	reader_init(&reader, fetch, tars, NEXT_SHARD);
	reader_all(&reader);
	plot_set(FETCH_OP_SHARD, FETCH_OP_OPEN, -EMFILE);
	atomic_store(&plot.left, 1);
	for (int i = 0; i < NEXT_SHARD; i++)
		reader.items[i].item.number += NEXT_SHARD;
	reader_all(&reader);
	assert_int_equal(plot.answered, 1);
	assert_int_equal(reader.outcome[FETCH_OK], COUNT);
	/* A folder's file takes the room of a shard too. */
	plot_set(FETCH_OP_FILE, FETCH_OP_OPEN, -ENFILE);
	atomic_store(&plot.left, 1);
	read_well(fetch, folder);
	assert_int_equal(plot.answered, 1);
	/* No file can be closed. */
	fetch_forget(fetch, tars->dataset);
	plot_set(FETCH_OP_SHARD, FETCH_OP_OPEN, -EMFILE);
	reader_all(&reader);
	assert_int_equal(reader.negative, NEXT_SHARD);
	assert_int_equal(reader.items[5].item.result, -EMFILE);
	assert_non_null(strstr(reader.items[5].fault.text, "RLIMIT_NOFILE"));
	/* As soon as files are available, all reads succeed. */
	fetch_hook_set(NULL);
	reader_all(&reader);
	assert_int_equal(reader.outcome[FETCH_OK], COUNT + NEXT_SHARD);
	reader_deinit(&reader);
}

BOTH_TEST(no_more_files, FETCH_IO_BUFFERED)

/* --- O_DIRECT refused --- */

static void direct_refused(struct fetch *fetch, struct fixture *tars, struct fixture *folder)
{
	static const struct {
		enum fetch_op_kind kind;
		enum fetch_op_stage stage;
	} cases[] = {{FETCH_OP_SHARD, FETCH_OP_OPEN}, {FETCH_OP_RANGE, FETCH_OP_READ},
		{FETCH_OP_FILE, FETCH_OP_OPEN}, {FETCH_OP_FILE, FETCH_OP_READ}};
	char notice[512];
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		const struct fixture *fixture = cases[i].kind == FETCH_OP_FILE ? folder : tars;
		plot_set(cases[i].kind, cases[i].stage, -EINVAL);
		plot.only_direct = true;
		assert_false(fetch_notice(fetch, notice, sizeof notice));
		read_well(fetch, fixture);
		assert_true(plot.answered > 0);
		assert_true(fetch_notice(fetch, notice, sizeof notice));
		assert_non_null(strstr(notice, "O_DIRECT"));
		assert_non_null(strstr(notice, fixture->root));
	}
}

BOTH_TEST(direct_refused, FETCH_IO_DIRECT)

/* --- the index --- */

static void bad_index(struct fetch *fetch, struct fixture *tars, struct fixture *folder)
{
	const struct fixture *fixtures[] = {tars, folder};
	for (size_t i = 0; i < UTIL_COUNT(fixtures); i++) {
		struct reader reader;
		plot_set(FETCH_OP_PAGE, FETCH_OP_READ, i ? FETCH_HOOK_EMPTY : -EIO);
		reader_init(&reader, fetch, fixtures[i], fixtures[i]->count);
		reader_all(&reader);
		assert_int_equal(reader.negative, fixtures[i]->count);
		assert_int_equal(reader.items[0].item.result, -EIO);
		assert_non_null(strstr(reader.items[0].fault.text, "delete the index"));
		fetch_hook_set(NULL);
		reader_all(&reader);
		assert_int_equal(reader.outcome[FETCH_OK], fixtures[i]->count);
		reader_deinit(&reader);
	}
}

BOTH_TEST(bad_index, FETCH_IO_BUFFERED)

/* The index is damaged on disk after it was opened: the checksum detects it. */
static void damaged_index(struct fetch *fetch, struct fixture *tars, struct fixture *folder)
{
	char path[FIXTURE_PATH + 8];
	struct reader reader;
	fixture_shard_path(tars, 1, path);
	(void)strcat(path, ".idx");
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "?", 1, 4096 + 500), 1);
	assert_int_equal(close(fd), 0);
	reader_init(&reader, fetch, tars, COUNT);
	reader_all(&reader);
	assert_int_equal(reader.outcome[FETCH_OK], NEXT_SHARD);
	assert_int_equal(reader.negative, COUNT - NEXT_SHARD);
	assert_int_equal(reader.items[NEXT_SHARD].item.result, -EIO);
	assert_non_null(strstr(reader.items[NEXT_SHARD].fault.text, ".idx"));
	reader_deinit(&reader);
}

BOTH_TEST(damaged_index, FETCH_IO_BUFFERED)

/* Changes the first name that begins with "c0/" to lead out of the folder, with a right
 * checksum. */
static void forge_name(const char *path)
{
	static uint8_t index[1 << 20];
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	ssize_t size = read(fd, index, sizeof index);
	assert_true(size > 0);
	uint8_t *name = memmem(index, (size_t)size, "c0/", 3);
	assert_non_null(name);
	memcpy(name, "../", 3);
	uint8_t *page = index + (size_t)(name - index) / INDEX_PAGE * INDEX_PAGE;
	uint32_t crc = (uint32_t)crc32(0, page + 4, INDEX_PAGE - 4);
	memcpy(page, &crc, sizeof crc);
	assert_int_equal(pwrite(fd, page, INDEX_PAGE, page - index), INDEX_PAGE);
	assert_int_equal(close(fd), 0);
}

static void forged_name(struct fetch *fetch, struct fixture *tars, struct fixture *folder)
{
	char pattern[FIXTURE_PATH];
	glob_t found;
	struct reader reader;
	(void)snprintf(pattern, sizeof pattern, "%s/cache/*.idx", folder->root);
	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	assert_int_equal(found.gl_pathc, 1);
	forge_name(found.gl_pathv[0]);
	globfree(&found);
	reader_init(&reader, fetch, folder, 1);
	reader_submit(&reader, 0, 1);
	struct fetch_item *bad = reader_one(&reader, 10000);
	assert_non_null(bad);
	assert_int_equal(bad->result, -EIO);
	assert_non_null(strstr(bad->fault->text, "not a path below"));
	reader_deinit(&reader);
}

/* A name in an index cannot lead out of its folder. */
BOTH_TEST(forged_name, FETCH_IO_BUFFERED)

static void no_such_sample(struct fetch *fetch, struct fixture *tars, struct fixture *folder)
{
	struct reader reader;
	reader_init(&reader, fetch, tars, 2);
	reader.items[0].item.number = COUNT;
	reader_submit(&reader, 0, 2);
	reader_take(&reader, 2);
	const struct fetch_item *bad = &reader.items[0].item;
	assert_int_equal(bad->result, -ERANGE);
	assert_non_null(strstr(bad->fault->text, "120"));
	assert_int_equal(reader.outcome[FETCH_OK], 1);
	reader_deinit(&reader);
}

BOTH_TEST(no_such_sample, FETCH_IO_BUFFERED)

/* --- real files that changed after they were indexed --- */

static void folder_changes(struct fetch *fetch, struct fixture *tars, struct fixture *folder)
{
	enum {
		GONE = 4,
		LONGER = 5,
		CUT = 6,
		DIRECTORY = 7,
		DANGLING = 8,
		LINKED = 9,
		EMPTIED = 10,
		SOCKET = 11,
		PIPE = 12
	};
	char path[FIXTURE_PATH], target[FIXTURE_PATH];
	fixture_file_path(folder, GONE, path);
	assert_int_equal(unlink(path), 0);
	fixture_write_file(folder, LONGER, fixture_size(folder, LONGER) + 1);
	fixture_write_file(folder, CUT, fixture_size(folder, CUT) - 1);
	fixture_file_path(folder, DIRECTORY, path);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	fixture_file_path(folder, DANGLING, path);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("nowhere", path), 0);
	fixture_file_path(folder, LINKED, path);
	(void)snprintf(target, sizeof target, "%s/moved", folder->root);
	assert_int_equal(rename(path, target), 0);
	assert_int_equal(symlink(target, path), 0);
	fixture_write_file(folder, EMPTIED, 0);
	fixture_file_path(folder, SOCKET, path);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mknod(path, S_IFSOCK | 0600, 0), 0);
	fixture_file_path(folder, PIPE, path);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);

	struct reader reader;
	reader_init(&reader, fetch, folder, COUNT);
	reader_all(&reader);
	const struct reader_item *items = reader.items;
	assert_int_equal(items[GONE].item.result, FETCH_E_MISSING);
	assert_int_equal(items[LONGER].item.result, FETCH_E_CHANGED);
	assert_int_equal(items[CUT].item.result, FETCH_E_CHANGED);
	assert_int_equal(items[DIRECTORY].item.result, FETCH_E_CHANGED);
	assert_int_equal(items[DANGLING].item.result, FETCH_E_MISSING);
	assert_int_equal(items[EMPTIED].item.result, FETCH_E_CHANGED);
	assert_int_equal(items[SOCKET].item.result, FETCH_E_CHANGED);
	assert_int_equal(items[PIPE].item.result, FETCH_E_CHANGED);
	assert_int_equal(reader.outcome[FETCH_OK], COUNT - 8);
	reader_deinit(&reader);
}

BOTH_TEST(folder_changes, FETCH_IO_BUFFERED, FETCH_IO_DIRECT)

static void read_stale(struct reader *reader, const char *shard)
{
	reader->negative = 0;
	memset(reader->outcome, 0, sizeof reader->outcome);
	reader_all(reader);
	assert_int_equal(reader->outcome[FETCH_OK], NEXT_SHARD);
	assert_int_equal(reader->negative, COUNT - NEXT_SHARD);
	for (int i = NEXT_SHARD; i < COUNT; i++) {
		assert_int_equal(reader->items[i].item.result, -ESTALE);
		assert_non_null(strstr(reader->items[i].fault.text, shard));
	}
}

/* Another file under the shard's name while the old one is open, which is checked once a second. */
static void shard_replaced(struct fetch *fetch, struct fixture *tars, struct fixture *folder)
{
	char path[FIXTURE_PATH], other[FIXTURE_PATH];
	struct reader reader;
	reader_init(&reader, fetch, tars, COUNT);
	reader_all(&reader);
	assert_int_equal(reader.outcome[FETCH_OK], COUNT);
	fixture_shard_path(tars, 1, path);
	(void)snprintf(other, sizeof other, "%s/other", tars->root);
	fixture_write_tar(tars, other, NEXT_SHARD, COUNT - NEXT_SHARD);
	assert_int_equal(rename(other, path), 0);
	(void)usleep(1050000);
	/* Reads that begin at the time of the check still have the old file and its bytes. Later
	 * ones fail. */
	reader_all(&reader);
	assert_true(reader.negative > 0);
	read_stale(&reader, "data-0001.tar");
	/* The path does not exist any more. */
	assert_int_equal(unlink(path), 0);
	read_stale(&reader, "data-0001.tar");
	/* A pipe in its place blocks no thread. */
	assert_int_equal(mkfifo(path, 0600), 0);
	read_stale(&reader, "data-0001.tar");
	reader_deinit(&reader);
}

BOTH_TEST(shard_replaced, FETCH_IO_BUFFERED)

/* Cut off while it is open: detected at once by a read beyond the end. */
static void shard_cut(struct fetch *fetch, struct fixture *tars, struct fixture *folder)
{
	char path[FIXTURE_PATH];
	struct reader reader;
	reader_init(&reader, fetch, tars, COUNT);
	reader_all(&reader);
	fixture_shard_path(tars, 1, path);
	assert_int_equal(truncate(path, (off_t)offset_of(tars, COUNT - 1)), 0);
	reader.items[0].item.number = COUNT - 1;
	reader_submit(&reader, 0, 1);
	reader_take(&reader, 1);
	assert_int_equal(reader.items[0].item.result, -ESTALE);
	assert_non_null(strstr(reader.items[0].fault.text, "data-0001.tar"));
	reader.items[0].item.number = 0;
	read_stale(&reader, "data-0001.tar");
	reader_deinit(&reader);
}

/* Other bytes of the same size are written into a file in place, after the part that a read has and
 * before the part that it gets next: between its first question and its second. */
static struct {
	char path[FIXTURE_PATH];
	uint64_t at; /* the byte of it that the read must cover */
	_Atomic unsigned asked;
} writer;

static int hook_write(struct fetch_op *op)
{
	static const char other[] = "these are not the bytes that were there";
	bool meant = op->kind == FETCH_OP_FILE
			     ? op->need > 4096
			     : op->kind == FETCH_OP_RANGE && op->offset <= writer.at &&
				       op->offset + op->length > writer.at;
	if (!meant || op->stage != FETCH_OP_READ)
		return 0;
	if (op->ask > 4096)
		op->ask = 4096;
	if (op->got == 0 || atomic_fetch_add(&writer.asked, 1) > 0)
		return 0;
	int fd = open(writer.path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || pwrite(fd, other, sizeof other, (off_t)(writer.at + 4096)) < 0)
		abort();
	(void)close(fd);
	return 0;
}

/* The first sample from `number` on that needs at least two questions. */
static uint64_t long_sample(const struct fixture *fixture, uint64_t number)
{
	while (fixture_size(fixture, number) < 3 * 4096)
		number++;
	return number;
}

static void shard_written(struct fetch *fetch, struct fixture *tars, struct fixture *folder)
{
	struct reader reader;
	uint64_t number = long_sample(tars, NEXT_SHARD + 5);
	reader_init(&reader, fetch, tars, COUNT);
	reader_all(&reader);
	assert_int_equal(reader.outcome[FETCH_OK], COUNT);
	fixture_shard_path(tars, 1, writer.path);
	writer.at = offset_of(tars, number);
	atomic_store(&writer.asked, 0);
	fetch_hook_set(hook_write);
	reader.items[0].item.number = number;
	reader_submit(&reader, 0, 1);
	reader_take(&reader, 1);
	assert_true(atomic_load(&writer.asked) > 0);
	assert_int_equal(reader.items[0].item.result, -ESTALE);
	fetch_hook_set(NULL);
	reader.items[0].item.number = 0;
	read_stale(&reader, "data-0001.tar");
	reader_deinit(&reader);
}

BOTH_TEST(shard_written, FETCH_IO_BUFFERED, FETCH_IO_DIRECT)

static void file_written(struct fetch *fetch, struct fixture *tars, struct fixture *folder)
{
	struct reader reader;
	uint64_t number = long_sample(folder, 5);
	reader_init(&reader, fetch, folder, COUNT);
	fixture_file_path(folder, number, writer.path);
	writer.at = 0;
	atomic_store(&writer.asked, 0);
	fetch_hook_set(hook_write);
	reader.items[0].item.number = number;
	reader_submit(&reader, 0, 1);
	reader_take(&reader, 1);
	assert_true(atomic_load(&writer.asked) > 0);
	assert_int_equal(reader.items[0].item.result, FETCH_E_CHANGED);
	fetch_hook_set(NULL);
	reader_deinit(&reader);
}

BOTH_TEST(file_written, FETCH_IO_BUFFERED)

BOTH_TEST(shard_cut, FETCH_IO_BUFFERED, FETCH_IO_DIRECT)

/* The first read of an index page hangs until the test ends it. */
static struct {
	_Atomic bool begun, ends;
} stuck;

static int hook_stuck(struct fetch_op *op)
{
	static const struct timespec nap = {.tv_nsec = 1000000};
	if (op->kind == FETCH_OP_PAGE && !atomic_exchange(&stuck.begun, true))
		while (!atomic_load(&stuck.ends))
			(void)nanosleep(&nap, NULL);
	return 0;
}

struct forgetting {
	struct fetch *fetch;
	const struct dataset *dataset;
	_Atomic bool done;
};

static void *forget(void *argument)
{
	struct forgetting *forgetting = argument;
	fetch_forget(forgetting->fetch, forgetting->dataset);
	atomic_store(&forgetting->done, true);
	return NULL;
}

/* fetch_forget waits for reads in flight of its own dataset, and of no other. */
static void test_forgets_while_another_hangs(void **state)
{
	static const struct timespec nap = {.tv_nsec = 50000000};
	struct fetch_options options = options_of(FETCH_PREAD, FETCH_IO_BUFFERED);
	struct fetch *fetch = fixture_fetch(&options);
	struct fixture tars, folder;
	struct reader reader;
	pthread_t thread;
	fixture_tars(&tars, COUNT, NEXT_SHARD, false);
	fixture_images(&folder, COUNT, false);
	atomic_store(&stuck.begun, false);
	atomic_store(&stuck.ends, false);
	fetch_hook_set(hook_stuck);
	reader_init(&reader, fetch, &tars, COUNT);
	reader_submit(&reader, 0, 1);
	while (!atomic_load(&stuck.begun))
		(void)nanosleep(&nap, NULL);
	fetch_cancel(fetch, &reader.who);
	struct forgetting first = {.fetch = fetch, .dataset = tars.dataset};
	assert_int_equal(pthread_create(&thread, NULL, forget, &first), 0);
	(void)nanosleep(&nap, NULL);
	fetch_forget(fetch, folder.dataset); /* returns, or the test hangs */
	assert_false(atomic_load(&first.done));
	atomic_store(&stuck.ends, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	reader_take(&reader, 1);
	reader_deinit(&reader);
	fetch_hook_set(NULL);
	fetch_free(fetch);
	fixture_free(&tars);
	fixture_free(&folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_forgets_while_another_hangs, plot_end),
		cmocka_unit_test_teardown(test_short_reads, plot_end),
		cmocka_unit_test_teardown(test_interrupted, plot_end),
		cmocka_unit_test_teardown(test_always_interrupted, plot_end),
		cmocka_unit_test_teardown(test_bad_place, plot_end),
		cmocka_unit_test_teardown(test_bad_file, plot_end),
		cmocka_unit_test_teardown(test_no_more_files, plot_end),
		cmocka_unit_test_teardown(test_direct_refused, plot_end),
		cmocka_unit_test_teardown(test_bad_index, plot_end),
		cmocka_unit_test_teardown(test_damaged_index, plot_end),
		cmocka_unit_test_teardown(test_forged_name, plot_end),
		cmocka_unit_test_teardown(test_no_such_sample, plot_end),
		cmocka_unit_test_teardown(test_folder_changes, plot_end),
		cmocka_unit_test_teardown(test_shard_replaced, plot_end),
		cmocka_unit_test_teardown(test_shard_cut, plot_end),
		cmocka_unit_test_teardown(test_shard_written, plot_end),
		cmocka_unit_test_teardown(test_file_written, plot_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

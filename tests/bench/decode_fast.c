/* decode_fast: how far the rows of `decode: fast` are from the exact rows, and their cost.
 *
 * usage: decode_fast FOLDER [DRAWS]
 *
 * For every JPEG below FOLDER (no deeper), row sizes of 224, 112, 56 and 28 pixels and so many
 * random-resized-crops of each (10), the same row is made both ways. Rows are grouped by their size
 * and by how far fast mode shrank the source; a table in Markdown is printed. Where it did not
 * shrink, the rows must be equal, or the program fails.
 *
 * Times are the thread's CPU time, both modes in turns on each image; the whole chain from the
 * file's bytes to the row. They are rough on a machine that others use. */
#include "base/clock.h"
#include "base/util.h"
#include "stream/row.h"

#include <errno.h>
#include <glob.h>
#include <math.h>
#include <string.h>

enum { SIZE_MOST = 224, ROW_BYTES = SIZE_MOST * SIZE_MOST * 3, SLACK = 64 };

static const uint32_t sizes[] = {224, 112, 56, 28};

/* Rows of one size that were shrunk equally. */
struct group {
	uint64_t rows, bytes, sum, squares, exact_ns, fast_ns;
	unsigned most;
	double worst; /* mean square of the worst row */
};

struct bench {
	struct row_maker maker;
	struct group group[UTIL_COUNT(sizes)][DECODE_SHRINK_MAX + 1];
	uint8_t exact[ROW_BYTES], fast[ROW_BYTES];
	unsigned draws;
	uint64_t files;
};

static uint8_t *read_file(const char *path, size_t *ret_size)
{
	cleanup(close_file) FILE *file = fopen(path, "rb");
	if (!file || fseek(file, 0, SEEK_END) != 0)
		return NULL;
	long size = ftell(file);
	rewind(file);
	uint8_t *data = size > 0 ? calloc(1, (size_t)size + SLACK) : NULL;
	if (data && fread(data, 1, (size_t)size, file) != (size_t)size) {
		free(data);
		return NULL;
	}
	*ret_size = (size_t)size;
	return data;
}

static void group_add(struct group *group, const struct bench *bench, size_t bytes)
{
	uint64_t squares = 0;
	for (size_t i = 0; i < bytes; i++) {
		unsigned apart = (unsigned)abs(bench->exact[i] - bench->fast[i]);
		group->sum += apart;
		squares += (uint64_t)apart * apart;
		group->most = UTIL_MAX(group->most, apart);
	}
	group->squares += squares;
	group->worst = fmax(group->worst, (double)squares / (double)bytes);
	group->bytes += bytes;
	group->rows++;
}

/* One row in one mode: its time, or 0 if the image is broken or not a JPEG. */
static uint64_t make(struct bench *bench, const uint8_t *data, size_t size,
	const struct pixel_recipe *recipe, const struct pixel_key *key, uint8_t *out,
	struct slots_record *record)
{
	uint64_t start = clock_thread_cpu_ns();
	if (row_make(&bench->maker, data, size, recipe, key, NULL, out, record) != DECODE_OK)
		return 0;
	return clock_thread_cpu_ns() - start;
}

/* Both modes of one row. False if there is nothing to compare. */
static bool compare(struct bench *bench, const uint8_t *data, size_t size, unsigned which,
	const struct pixel_key *key)
{
	struct pixel_recipe recipe = pixel_recipe_train(pixel_square(sizes[which]));
	struct slots_record record = {0};
	struct pixel_plan plan;
	uint64_t exact_ns = make(bench, data, size, &recipe, key, bench->exact, &record);
	recipe.fast = true;
	uint64_t fast_ns = make(bench, data, size, &recipe, key, bench->fast, &record);
	if (!exact_ns || !fast_ns)
		return false;
	pixel_plan_make(&recipe, key, record.src_w, record.src_h, &plan);
	pixel_plan_shrink(&plan);
	struct group *group = &bench->group[which][plan.shrink];
	group_add(group, bench, (size_t)sizes[which] * sizes[which] * 3);
	group->exact_ns += exact_ns;
	group->fast_ns += fast_ns;
	return true;
}

static void measure(struct bench *bench, const char *path)
{
	size_t size = 0;
	cleanup(free_ptr) uint8_t *data = read_file(path, &size);
	bool jpeg = data && size > 2 && data[0] == 0xff && data[1] == 0xd8;
	for (unsigned which = 0; jpeg && which < UTIL_COUNT(sizes); which++)
		for (unsigned draw = 0; draw < bench->draws; draw++) {
			struct pixel_key key = {
				.seed = 1, .position = bench->files * bench->draws + draw};
			if (!compare(bench, data, size, which, &key))
				return;
		}
	bench->files += jpeg;
}

static double psnr(double mean_square)
{
	return 10 * log10(255.0 * 255.0 / mean_square);
}

static void print_group(uint32_t size, unsigned shrink, const struct group *group)
{
	double mean = (double)group->sum / (double)group->bytes;
	double square = (double)group->squares / (double)group->bytes;
	(void)printf("| %u | 1/%u | %llu |", size, 1u << shrink, (unsigned long long)group->rows);
	if (group->sum)
		(void)printf(" %.2f | %u | %.1f dB | %.1f dB |", mean, group->most, psnr(square),
			psnr(group->worst));
	else
		(void)printf(" 0 | 0 | equal | equal |");
	(void)printf(" %.2f |\n", (double)group->exact_ns / (double)group->fast_ns);
}

/* 1 where rows that were not shrunk differ. */
static int print(const struct bench *bench)
{
	int wrong = 0;
	(void)printf("| row | decoded at | rows | mean difference | largest | PSNR of all | "
		     "PSNR of the worst row | exact time / fast time |\n"
		     "|---|---|---|---|---|---|---|---|\n");
	for (unsigned which = 0; which < UTIL_COUNT(sizes); which++)
		for (unsigned shrink = 0; shrink <= DECODE_SHRINK_MAX; shrink++) {
			const struct group *group = &bench->group[which][shrink];
			if (group->rows)
				print_group(sizes[which], shrink, group);
			wrong |= shrink == 0 && group->sum;
		}
	return wrong;
}

int main(int argc, char **argv)
{
	static struct bench bench = {.draws = 10};
	struct decode_limits limits = decode_limits_default();
	struct fault fault;
	char pattern[4096];
	glob_t files;
	if (argc < 2)
		return fprintf(stderr, "usage: decode_fast FOLDER [DRAWS]\n"), 2;
	if (argc > 2)
		bench.draws = (unsigned)strtoul(argv[2], NULL, 10);
	(void)snprintf(pattern, sizeof(pattern), "%s/*", argv[1]);
	if (glob(pattern, 0, NULL, &files) != 0)
		return printf("decode_fast: no files in %s\n", argv[1]), 77;
	if (row_maker_init(&bench.maker, &limits, SIZE_MOST, &fault) < 0)
		return fprintf(stderr, "decode_fast: %s\n", fault.text), 1;
	for (size_t i = 0; i < files.gl_pathc; i++)
		measure(&bench, files.gl_pathv[i]);
	globfree(&files);
	row_maker_deinit(&bench.maker);
	int wrong = print(&bench);
	if (wrong)
		(void)fprintf(stderr, "decode_fast: rows that were not shrunk differ\n");
	return wrong;
}

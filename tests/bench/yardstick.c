/* The yardstick that rates are divided by: libjpeg-turbo decodes every JPEG below a folder to RGB,
 * in full, with its default settings, again and again, on some threads.
 *
 *     yardstick FOLDER [THREADS [SECONDS]]
 *
 * A loader's rate divided by this one means more than the rate does, because it can be compared
 * with other machines. All files are in memory before the clock starts. Threads take the next file
 * from one counter, so that each file is decoded as often as any other. Files that libjpeg-turbo
 * refuses are found in a first pass that is not timed, and are left out. What is decoded goes into
 * one row's memory, as a loader that crops and resizes at once would use it.
 *
 * Prints one JSON object. Exit status 1: nothing to decode, or a fault. */
#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jpeglib.h>

enum { THREADS_MOST = 1024, OPEN_FOLDERS = 32, RGB = 3 };

struct picture {
	unsigned char *bytes;
	size_t size;
};

/* Filled before the threads start, and only read by them. */
static struct picture *pictures;
static size_t picture_count;
static uint64_t end_ns;

/* The next picture's turn; of all threads. Nothing else is ordered by it. */
static atomic_size_t turn;

struct worker {
	pthread_t thread;
	uint64_t decoded;
};

/* libjpeg-turbo reports errors by calling a function that must not return. */
struct refusal {
	struct jpeg_error_mgr manager;
	jmp_buf back;
};

static uint64_t now_ns(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void die(const char *what, const char *why)
{
	(void)fprintf(stderr, "yardstick: %s: %s\n", what, why);
	exit(1);
}

static void refuse(j_common_ptr common)
{
	struct refusal *refusal = (struct refusal *)common->err;
	longjmp(refusal->back, 1);
}

static void say_nothing(j_common_ptr common)
{
	(void)common;
}

/* Every row of the picture; false if libjpeg-turbo refuses it. */
static bool decode(const struct picture *picture)
{
	struct jpeg_decompress_struct jpeg;
	struct refusal refusal;
	jpeg.err = jpeg_std_error(&refusal.manager);
	refusal.manager.error_exit = refuse;
	refusal.manager.output_message = say_nothing;
	if (setjmp(refusal.back)) {
		jpeg_destroy_decompress(&jpeg);
		return false;
	}
	jpeg_create_decompress(&jpeg);
	jpeg_mem_src(&jpeg, picture->bytes, picture->size);
	(void)jpeg_read_header(&jpeg, TRUE);
	jpeg.out_color_space = JCS_RGB;
	(void)jpeg_start_decompress(&jpeg);
	/* The library allocates the row, and frees it with the rest, also after a refusal. */
	JSAMPARRAY row = jpeg.mem->alloc_sarray(
		(j_common_ptr)&jpeg, JPOOL_IMAGE, jpeg.output_width * RGB, 1);
	while (jpeg.output_scanline < jpeg.output_height)
		(void)jpeg_read_scanlines(&jpeg, row, 1);
	(void)jpeg_finish_decompress(&jpeg);
	jpeg_destroy_decompress(&jpeg);
	return true;
}

static bool is_jpeg(const char *path)
{
	const char *end = strrchr(path, '.');
	return end && (strcasecmp(end, ".jpg") == 0 || strcasecmp(end, ".jpeg") == 0);
}

static int take(const char *path, const struct stat *status, int kind, struct FTW *place)
{
	(void)place;
	if (kind != FTW_F || !is_jpeg(path) || status->st_size <= 0)
		return 0;
	struct picture picture = {
		.bytes = malloc((size_t)status->st_size), .size = (size_t)status->st_size};
	pictures = realloc(pictures, (picture_count + 1) * sizeof *pictures);
	FILE *file = fopen(path, "rbe");
	if (!picture.bytes || !pictures || !file)
		die(path, strerror(errno));
	if (fread(picture.bytes, 1, picture.size, file) != picture.size)
		die(path, "it could not be read in full");
	(void)fclose(file);
	pictures[picture_count++] = picture;
	return 0;
}

/* Leaves out what cannot be decoded; returns how many. */
static size_t sift(void)
{
	size_t kept = 0, all = picture_count;
	for (size_t i = 0; i < all; i++) {
		if (decode(&pictures[i]))
			pictures[kept++] = pictures[i];
		else
			free(pictures[i].bytes);
	}
	picture_count = kept;
	return all - kept;
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	while (now_ns() < end_ns) {
		size_t mine = atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed);
		worker->decoded += decode(&pictures[mine % picture_count]);
	}
	return NULL;
}

/* Images per second of so many threads together. */
static double measure(long threads, double seconds)
{
	static struct worker workers[THREADS_MOST];
	uint64_t begin = now_ns(), decoded = 0;
	end_ns = begin + (uint64_t)(seconds * 1e9);
	for (long i = 0; i < threads; i++) {
		int failed = pthread_create(&workers[i].thread, NULL, work, &workers[i]);
		if (failed)
			die("a thread", strerror(failed));
	}
	for (long i = 0; i < threads; i++) {
		(void)pthread_join(workers[i].thread, NULL);
		decoded += workers[i].decoded;
	}
	return (double)decoded / ((double)(now_ns() - begin) / 1e9);
}

int main(int argc, char **argv)
{
	long threads = argc > 2 ? strtol(argv[2], NULL, 10) : 2;
	double seconds = argc > 3 ? strtod(argv[3], NULL) : 4;
	if (argc < 2 || argc > 4 || threads < 1 || threads > THREADS_MOST || !(seconds > 0)) {
		(void)fputs("usage: yardstick FOLDER [THREADS [SECONDS]]\n", stderr);
		return 2;
	}
	if (nftw(argv[1], take, OPEN_FOLDERS, 0))
		die(argv[1], strerror(errno));
	size_t refused = sift();
	if (!picture_count)
		die(argv[1], "no JPEG file in it that libjpeg-turbo decodes");
	double rate = measure(threads, seconds);
	(void)printf("{\"name\": \"libjpeg-turbo full decode\", \"version\": %d, \"threads\": %ld, "
		     "\"files\": %zu, \"refused\": %zu, \"images_per_s\": %.1f}\n",
		LIBJPEG_TURBO_VERSION_NUMBER, threads, picture_count, refused, rate);
	return 0;
}

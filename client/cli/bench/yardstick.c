/* yardstick: see yardstick.h. */
#include "client/cli/bench/yardstick.h"

#include "base/clock.h"
#include "base/util.h"
#include "client/cli/progress.h"
#include "dataset/dataset.h"
#include "decode/decode.h"
#include "decode/sniff.h"
#include "fetch/fetch.h"
#include "serve/budget.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <jpeglib.h>
/* needs jpeglib.h */
#include <jerror.h>

const char *const yardstick_left_name[YARDSTICK_LEFT] = {
	"not-jpeg", "colour", "broken", "too-large", "unreadable"};

enum {
	YARDSTICK_MEMORY = 1 << 30, /* of one image's coefficients */
	YARDSTICK_SLACK = 64,
	YARDSTICK_GOOD = YARDSTICK_LEFT, /* a file that is not left out */
};

struct yardstick_file {
	const uint8_t *data;
	size_t size;
	uint8_t left; /* enum yardstick_left, or YARDSTICK_GOOD */
};

struct yardstick {
	struct yardstick_files files;
	struct yardstick_file *file; /* files.files of them */
	/* The files' bytes. Forked trainers do not inherit them: they would count as the trainers'
	 * memory. */
	uint8_t *memory;
	size_t room, used;
};

/* What a run's threads share. */
struct yardstick_work {
	struct yardstick *yardstick;
	_Atomic uint64_t next, done; /* relaxed: only counters */
	_Atomic bool failed; /* no memory or no thread: all threads end; relaxed */
	uint64_t end_ns; /* 0: each file once */
};

struct yardstick_thread {
	struct yardstick_work *work;
	pthread_t thread;
	uint8_t *row;
	size_t room;
};

/* ---- one image ---- */

struct yardstick_jpeg {
	struct jpeg_decompress_struct cinfo;
	struct jpeg_error_mgr errors;
	struct jpeg_progress_mgr progress;
	jmp_buf failed;
	enum yardstick_left why;
	unsigned scans;
};

static _Noreturn void yardstick_refuse(struct yardstick_jpeg *jpeg, enum yardstick_left why)
{
	jpeg->why = why;
	longjmp(jpeg->failed, 1);
}

static void yardstick_error(j_common_ptr cinfo)
{
	struct yardstick_jpeg *jpeg = (struct yardstick_jpeg *)(void *)cinfo;
	int code = cinfo->err->msg_code;
	bool memory = code == JERR_OUT_OF_MEMORY || code == JERR_NO_BACKING_STORE;
	yardstick_refuse(jpeg, memory ? YARDSTICK_LARGE : YARDSTICK_BROKEN);
}

static void yardstick_quiet(j_common_ptr cinfo, int level)
{
	(void)cinfo;
	(void)level;
}

/* A few bytes can ask for thousands of scans of a large image. */
static void yardstick_watch(j_common_ptr cinfo)
{
	struct yardstick_jpeg *jpeg = (struct yardstick_jpeg *)(void *)cinfo;
	if (jpeg->cinfo.input_scan_number > (int)jpeg->scans)
		yardstick_refuse(jpeg, YARDSTICK_LARGE);
}

/* Applies the loader's limits, so that both decode the same images. */
static void yardstick_check(struct yardstick_jpeg *jpeg)
{
	struct decode_limits limits = decode_limits_default();
	const struct jpeg_decompress_struct *cinfo = &jpeg->cinfo;
	if (cinfo->jpeg_color_space == JCS_CMYK || cinfo->jpeg_color_space == JCS_YCCK)
		yardstick_refuse(jpeg, YARDSTICK_COLOR);
	if ((uint64_t)cinfo->image_width * cinfo->image_height > limits.pixels)
		yardstick_refuse(jpeg, YARDSTICK_LARGE);
	jpeg->scans = limits.scans;
}

static void yardstick_rows(struct yardstick_jpeg *jpeg, uint8_t *row)
{
	struct jpeg_decompress_struct *cinfo = &jpeg->cinfo;
	while (cinfo->output_scanline < cinfo->output_height)
		(void)jpeg_read_scanlines(cinfo, &row, 1);
	(void)jpeg_finish_decompress(cinfo);
}

static bool yardstick_grow(struct yardstick_thread *thread, size_t room)
{
	if (room <= thread->room)
		return true;
	uint8_t *grown = realloc(thread->row, room);
	if (!grown)
		return false;
	thread->row = grown;
	thread->room = room;
	return true;
}

/* The caller owns everything that must survive a jump out of libjpeg. False: no memory for a
 * row. */
static bool yardstick_jpeg(struct yardstick_thread *thread, struct yardstick_jpeg *jpeg,
	const struct yardstick_file *file)
{
	if (setjmp(jpeg->failed))
		return true;
	jpeg_create_decompress(&jpeg->cinfo);
	jpeg->cinfo.mem->max_memory_to_use = YARDSTICK_MEMORY;
	jpeg->cinfo.progress = &jpeg->progress;
	jpeg_mem_src(&jpeg->cinfo, file->data, (unsigned long)file->size);
	(void)jpeg_read_header(&jpeg->cinfo, TRUE);
	yardstick_check(jpeg);
	jpeg->cinfo.out_color_space = JCS_RGB;
	(void)jpeg_start_decompress(&jpeg->cinfo);
	jpeg->cinfo.progress = NULL; /* all scans are read */
	if (!yardstick_grow(thread, (size_t)jpeg->cinfo.output_width * 3))
		return false;
	yardstick_rows(jpeg, thread->row);
	jpeg->why = (enum yardstick_left)YARDSTICK_GOOD;
	return true;
}

/* Why it is left out, or YARDSTICK_GOOD; negative: no memory for a row. */
static int yardstick_decode(struct yardstick_thread *thread, const struct yardstick_file *file)
{
	struct yardstick_jpeg jpeg = {.why = YARDSTICK_BROKEN,
		.scans = UINT16_MAX,
		.progress = {.progress_monitor = yardstick_watch}};
	jpeg.cinfo.err = jpeg_std_error(&jpeg.errors);
	jpeg.errors.error_exit = yardstick_error;
	jpeg.errors.emit_message = yardstick_quiet;
	bool good = yardstick_jpeg(thread, &jpeg, file);
	jpeg_destroy_decompress(&jpeg.cinfo);
	return good ? (int)jpeg.why : -ENOMEM;
}

/* ---- many, on several threads ---- */

static void *yardstick_take(void *argument)
{
	struct yardstick_thread *thread = argument;
	struct yardstick_work *work = thread->work;
	const struct yardstick *yardstick = work->yardstick;
	uint64_t files = yardstick->files.files;
	/* However short the time is, each thread decodes one file: a rate of 0 is no use. */
	do {
		uint64_t next = atomic_fetch_add_explicit(&work->next, 1, memory_order_relaxed);
		if (!work->end_ns && next >= files)
			break;
		struct yardstick_file *file = &yardstick->file[next % files];
		int r = yardstick_decode(thread, file);
		if (r < 0) {
			atomic_store_explicit(&work->failed, true, memory_order_relaxed);
			break;
		}
		/* In a timed run all files are good, and several threads may decode the same
		 * one. */
		if (!work->end_ns)
			file->left = (uint8_t)r;
		(void)atomic_fetch_add_explicit(&work->done, 1, memory_order_relaxed);
	} while (!atomic_load_explicit(&work->failed, memory_order_relaxed) &&
		 (!work->end_ns || clock_ns() < work->end_ns));
	free(thread->row);
	return NULL;
}

/* 0, or a negative errno with a fault. */
static int yardstick_work(struct yardstick_work *work, unsigned threads, struct fault *fault)
{
	cleanup(free_ptr) struct yardstick_thread *thread = calloc(threads, sizeof *thread);
	if (!thread)
		return fault_set(
			fault, -ENOMEM, "no memory for %u threads of the yardstick", threads);
	unsigned started = 0;
	int r = 0;
	for (; started < threads && r == 0; started += r == 0) {
		thread[started].work = work;
		r = -pthread_create(
			&thread[started].thread, NULL, yardstick_take, &thread[started]);
	}
	if (r < 0)
		atomic_store_explicit(&work->failed, true, memory_order_relaxed);
	for (unsigned i = 0; i < started; i++)
		(void)pthread_join(thread[i].thread, NULL);
	if (r < 0)
		return fault_set(fault, r, "cannot start thread %u of %u of the yardstick: %s",
			started + 1, threads, strerror(-r));
	if (atomic_load_explicit(&work->failed, memory_order_relaxed))
		return fault_set(
			fault, -ENOMEM, "not enough memory to decode an image for --yardstick");
	return 0;
}

int yardstick_run(struct yardstick *yardstick, unsigned threads, double seconds,
	double *ret_images_per_s, struct fault *fault)
{
	uint64_t begin_ns = clock_ns();
	struct yardstick_work work = {
		.yardstick = yardstick, .end_ns = begin_ns + (uint64_t)(seconds * 1e9)};
	int r = yardstick_work(&work, threads, fault);
	if (r < 0)
		return r;
	*ret_images_per_s = (double)atomic_load_explicit(&work.done, memory_order_relaxed) * 1e9 /
			    (double)(clock_ns() - begin_ns);
	return 0;
}

/* ---- the files ---- */

static enum yardstick_left yardstick_judge(int r, const uint8_t *data, size_t size)
{
	if (r < 0)
		return YARDSTICK_UNREADABLE;
	return sniff_jpeg(data, size) ? (enum yardstick_left)YARDSTICK_GOOD : YARDSTICK_NOT_JPEG;
}

/* Takes one sample's file, if it counts. False: there is no room for it. */
static bool yardstick_load(
	struct yardstick *yardstick, const struct dataset *dataset, const struct sample *sample)
{
	struct yardstick_files *files = &yardstick->files;
	size_t needs = (size_t)sample->size + YARDSTICK_SLACK;
	if (needs > yardstick->room - yardstick->used)
		return false;
	uint8_t *data = yardstick->memory + yardstick->used;
	struct fault unreadable;
	int r = dataset_read(dataset, sample, data, sample->size, &unreadable);
	enum yardstick_left left = yardstick_judge(r, data, sample->size);
	files->looked++;
	if (left != (enum yardstick_left)YARDSTICK_GOOD) {
		files->left[left]++;
		return true;
	}
	yardstick->used += needs;
	yardstick->file[files->files++] =
		(struct yardstick_file){.data = data, .size = sample->size, .left = YARDSTICK_GOOD};
	return true;
}

static int yardstick_reserve(
	struct yardstick *yardstick, uint64_t files, uint64_t bytes, struct fault *fault)
{
	yardstick->file = calloc(files, sizeof *yardstick->file);
	yardstick->room = bytes + files * YARDSTICK_SLACK;
	void *memory = mmap(
		NULL, yardstick->room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	yardstick->memory = memory == MAP_FAILED ? NULL : memory;
	if (!yardstick->file || !yardstick->memory)
		return fault_set(fault, -ENOMEM, "no memory for the files of --yardstick");
	(void)madvise(memory, yardstick->room, MADV_DONTFORK);
	return 0;
}

/* Takes all samples, or evenly spread ones that fit into `room`. */
static int yardstick_load_all(struct yardstick *yardstick, const struct dataset *dataset,
	uint64_t room, struct fault *fault)
{
	struct yardstick_files *files = &yardstick->files;
	uint64_t bytes = dataset_bytes(dataset), step = UTIL_MAX((bytes + room - 1) / room, 1u);
	files->samples = dataset_count(dataset);
	/* A step of 1 takes all samples; a larger one takes as many as there is room for. */
	int r = yardstick_reserve(yardstick, files->samples / step + 1,
		step == 1 ? bytes : UTIL_MAX(room, dataset_largest(dataset)), fault);
	cleanup(free_ptr) struct sample *sample = r < 0 ? NULL : malloc(sizeof *sample);
	if (!sample)
		return r < 0 ? r : fault_set(fault, -ENOMEM, "no memory for --yardstick");
	struct progress progress;
	progress_begin(&progress, "reading", PROGRESS_ITEMS, files->samples, false);
	for (uint64_t n = 0; n < files->samples && r == 0; n += step) {
		progress_update(&progress, n, NULL);
		r = dataset_sample(dataset, n, sample, fault);
		if (r == 0 && !yardstick_load(yardstick, dataset, sample))
			break;
	}
	progress_end(&progress);
	return r;
}

/* Drops the files that did not decode. */
static void yardstick_sift(struct yardstick *yardstick)
{
	struct yardstick_files *files = &yardstick->files;
	uint64_t kept = 0;
	for (uint64_t i = 0; i < files->files; i++) {
		struct yardstick_file *file = &yardstick->file[i];
		if (file->left != YARDSTICK_GOOD) {
			files->left[file->left]++;
			continue;
		}
		yardstick->file[kept++] = *file;
		files->bytes += file->size;
	}
	files->files = kept;
}

int yardstick_new(const struct dataset *dataset, uint64_t room, unsigned threads,
	struct yardstick **ret, struct fault *fault)
{
	struct yardstick *yardstick = calloc(1, sizeof *yardstick);
	if (!yardstick)
		return fault_set(fault, -ENOMEM, "no memory for --yardstick");
	room = room ? room : UTIL_MIN(budget_default() / 4, (uint64_t)1 << 30);
	int r = yardstick_load_all(yardstick, dataset, room, fault);
	struct yardstick_work work = {.yardstick = yardstick};
	if (r == 0)
		r = yardstick_work(&work, threads, fault);
	if (r == 0) {
		yardstick_sift(yardstick);
		if (!yardstick->files.files)
			r = fault_set(fault, -ENODATA,
				"--yardstick has nothing to decode: none of %" PRIu64
				" samples is a JPEG that libjpeg-turbo converts to RGB",
				yardstick->files.looked);
	}
	if (r < 0) {
		yardstick_free(yardstick);
		return r;
	}
	*ret = yardstick;
	return 0;
}

void yardstick_free(struct yardstick *yardstick)
{
	if (!yardstick)
		return;
	if (yardstick->memory)
		(void)munmap(yardstick->memory, yardstick->room);
	free(yardstick->file);
	free(yardstick);
}

const struct yardstick_files *yardstick_files(const struct yardstick *yardstick)
{
	return &yardstick->files;
}

/* differ: penstock's decoder against libjpeg-turbo, both through decode.h, many files a second in
 * one process: the outcome and every pixel.
 *
 * A course is a batch of files. libjpeg-turbo decodes each of them whole. Then every kernel set
 * that this processor can run decodes all of them as two streams, each time in another order and
 * with other regions, several images in flight; sometimes one by one. A stream enters at the entry
 * points that the stream before made, also with another kernel set; in between some packs are
 * damaged or replaced by another file's. Where libjpeg-turbo refuses a file, it is asked again for
 * the region only, since a fault after a region need not be noticed.
 *
 * The rule for each file and region: the same outcome, and the same pixels if that is DECODE_OK.
 * One difference is allowed: libjpeg-turbo may refuse a region that penstock's decoder delivers if
 * it is not the whole image, since libjpeg-turbo also reads the data around a crop.
 *
 * Files end before a forbidden page, with the slack that decode.h asks for in between. A finding
 * writes the file, reports how to reproduce it, and aborts. */
#pragma once

#include "decode/decode.h"
#include "decode/jpeg/entry_pack.h"
#include "decode/stepback.h"
#include "fuzz/generate.h"
#include "unit/decode/jpeg/guarded.h"

#include "base/util.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	DIFFER_FILES = 24, /* of a course, at most */
	DIFFER_PIXELS = 1 << 18, /* both decoders refuse larger images */
	DIFFER_SLACK = 64, /* readable bytes after a file (decode.h) */
	DIFFER_KERNELS = 4,
	DIFFER_ROUNDS = 2, /* of each kernel set */
};

struct differ_file {
	struct decode_job job; /* first: a job is its file */
	struct guarded room;
	uint8_t *data;
	size_t size;
	uint64_t seed;
	struct decode_info info;
	int outcome; /* libjpeg-turbo's outcome for the whole image */
	struct decode_region have; /* whose pixels are in rgb */
	uint8_t *rgb;
	int wanted; /* outcome for the requested region */
	uint32_t rows;
	bool done;
	size_t pack_room, pack_size; /* 0: nothing is kept */
	bool pack_true, recalled_true; /* the pack that was made for this file */
	uint8_t pack[ENTRY_PACK_MOST];
};

struct differ {
	struct decoder *library, *own[DIFFER_KERNELS];
	const char *name[DIFFER_KERNELS];
	unsigned kernels, now; /* which */
	struct random random;
	struct differ_file file[DIFFER_FILES], *order[DIFFER_FILES];
	unsigned count, given;
	struct differ_file *rows_of;
	uint64_t files, executions, clean, entered, made, dropped, refused, stepped[STEPBACKS];
};

static inline _Noreturn void differ_fail(
	const struct differ *d, const struct differ_file *f, const char *what)
{
	char path[64];
	(void)snprintf(path, sizeof(path), "finding-%" PRIu64 ".jpg", f->seed);
	FILE *out = fopen(path, "wb");
	if (out) {
		(void)fwrite(f->data, 1, f->size, out);
		(void)fclose(out);
	}
	(void)fprintf(stderr,
		"finding: %s\n  seed %" PRIu64 ", %s (in %s), kernels %s, %u x %u, region %u,%u "
		"to %u,%u, row %u\n  outcome %d, libjpeg-turbo's %d, step back: %s\n",
		what, f->seed, path, out ? "the working folder" : "no file: it cannot be written",
		d->name[d->now], f->info.width, f->info.height, f->job.region.x0, f->job.region.y0,
		f->job.region.x1, f->job.region.y1, f->rows, f->job.outcome, f->wanted,
		stepback_name((enum stepback)f->job.stepback));
	abort();
}

static inline struct decoder *differ_decoder(const char *which, const char *kernels)
{
	struct decode_limits limits = decode_limits_default();
	struct decoder *decoder = NULL;
	struct fault fault;
	limits.pixels = DIFFER_PIXELS;
	limits.scans = 30;
	(void)setenv("PENSTOCK_DECODER", which, 1);
	(void)setenv("PENSTOCK_KERNELS", kernels, 1);
	if (decoder_new(&limits, &decoder, &fault))
		return NULL;
	return decoder;
}

static inline struct differ *differ_new(void)
{
	static const char *const names[DIFFER_KERNELS] = {"c", "avx2", "avx512", "neon"};
	struct differ *d = calloc(1, sizeof(*d));
	assert(d);
	d->library = differ_decoder("libjpeg", "c");
	assert(d->library);
	for (unsigned i = 0; i < DIFFER_KERNELS; i++) {
		d->name[d->kernels] = names[i];
		d->own[d->kernels] = differ_decoder("own", names[i]);
		d->kernels += d->own[d->kernels] != NULL;
	}
	assert(d->kernels);
	for (unsigned i = 0; i < DIFFER_FILES; i++) {
		d->file[i].room = guarded_new(GENERATE_BYTES + DIFFER_SLACK, 1);
		d->file[i].rgb = malloc((size_t)DIFFER_PIXELS * 3);
		assert(d->file[i].rgb);
	}
	return d;
}

static inline void differ_free(struct differ *d)
{
	for (unsigned i = 0; i < DIFFER_FILES; i++) {
		guarded_free(&d->file[i].room);
		free(d->file[i].rgb);
	}
	for (unsigned i = 0; i < d->kernels; i++)
		decoder_free(d->own[i]);
	decoder_free(d->library);
	free(d);
}

/* Adds a file of at most GENERATE_BYTES to the course. */
static inline void differ_add(struct differ *d, const uint8_t *data, size_t size, uint64_t seed)
{
	static const size_t rooms[] = {
		0, 30, 60, ENTRY_PACK_MOST, ENTRY_PACK_MOST, ENTRY_PACK_MOST};
	struct differ_file *f = &d->file[d->count++];
	f->data = f->room.bytes + GENERATE_BYTES - size;
	f->size = size;
	f->seed = seed;
	f->pack_room = rooms[seed % UTIL_COUNT(rooms)];
	f->pack_size = 0;
	memcpy(f->data, data, size);
	memset(f->data + size, (int)(seed & 0xff), DIFFER_SLACK);
}

static inline void differ_keep(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	struct differ_file *f = context;
	size_t width = f->have.x1 - f->have.x0;
	decode_weave(f->rgb + f->rows++ * width * 3, rgb, width);
}

/* Decodes a region by libjpeg-turbo. */
static inline int differ_library(
	struct differ *d, struct differ_file *f, const struct decode_region *region)
{
	int outcome = decoder_begin(d->library, f->data, f->size, &f->info);
	if (outcome) {
		f->info = (struct decode_info){0};
		return outcome;
	}
	f->have = (struct decode_region){0, 0, f->info.width, f->info.height};
	if (region)
		f->have = *region;
	f->rows = 0;
	return decoder_rows(d->library, f->have, false, differ_keep, f);
}

/* Edges of the image and single pixels are drawn more often than by chance. */
static inline void differ_side(struct random *random, uint32_t size, uint32_t *from, uint32_t *to)
{
	*from = 0;
	*to = size;
	switch (draw(random, 4)) {
	case 0:
		break;
	case 1:
		*from = draw(random, size);
		break;
	case 2:
		*to = 1 + draw(random, size);
		break;
	default:
		*from = draw(random, size);
		*to = *from + 1 + draw(random, size - *from);
	}
	if (one_in(random, 6) && *to - *from > 1)
		*to = *from + 1;
}

static inline struct decode_region differ_region(struct differ *d, const struct differ_file *f)
{
	struct decode_region r;
	differ_side(&d->random, f->info.width, &r.x0, &r.x1);
	differ_side(&d->random, f->info.height, &r.y0, &r.y1);
	return r;
}

static inline bool differ_whole(const struct differ_file *f)
{
	const struct decode_region *r = &f->job.region;
	return r->x0 == 0 && r->y0 == 0 && r->x1 == f->info.width && r->y1 == f->info.height;
}

/* Draws the next region of a file, and finds out what is expected. */
static inline void differ_ask(struct differ *d, struct differ_file *f)
{
	f->job = (struct decode_job){
		.data = f->data, .size = f->size, .entry_point_room = f->pack_room};
	f->wanted = f->outcome;
	f->done = false;
	if (f->info.width) {
		f->job.region = differ_region(d, f);
		if (f->outcome) {
			struct decode_region region = f->job.region;
			f->wanted = differ_library(d, f, &region);
		}
	}
	f->rows = 0;
}

static inline void differ_row(
	struct differ *d, struct differ_file *f, const uint8_t *const rgb[DECODE_PLANES])
{
	const struct decode_region *r = &f->job.region, *have = &f->have;
	size_t pitch = (size_t)(have->x1 - have->x0) * 3, bytes = (size_t)(r->x1 - r->x0) * 3;
	if (f->rows >= r->y1 - r->y0)
		differ_fail(d, f, "more rows than the region has");
	const uint8_t *expected =
		f->rgb + (r->y0 + f->rows - have->y0) * pitch + (size_t)(r->x0 - have->x0) * 3;
	bool same = true;
	for (size_t i = 0; i < bytes; i++)
		same &= rgb[i % 3][i / 3] == expected[i];
	if (!f->wanted && !same)
		differ_fail(d, f, "other pixels than libjpeg-turbo's");
	f->rows++;
}

/* An image is done, with the outcome and the step back in its job. */
static inline void differ_judge(struct differ *d, struct differ_file *f)
{
	const struct decode_job *job = &f->job;
	d->executions++;
	d->stepped[job->stepback]++;
	d->clean += !job->outcome && !job->stepback;
	d->refused += job->outcome != 0;
	d->entered += (job->entry_points & DECODE_ENTRY_POINTS_USED) != 0;
	d->made += (job->entry_points & DECODE_ENTRY_POINTS_MADE) != 0;
	d->dropped += (job->entry_points & DECODE_ENTRY_POINTS_DROPPED) != 0;
	if (job->entry_points & DECODE_ENTRY_POINTS_DROPPED && f->recalled_true)
		differ_fail(d, f, "the file's own entry points are dropped");
	if (f->done)
		differ_fail(d, f, "done twice");
	f->done = true;
	if (!job->outcome && f->rows != job->region.y1 - job->region.y0)
		differ_fail(d, f, "fewer rows than the region has");
	bool beside = !job->outcome && !job->stepback && !differ_whole(f);
	if (job->outcome != f->wanted && !beside)
		differ_fail(d, f, "another outcome than libjpeg-turbo's");
}

static inline struct decode_job *differ_next(void *context)
{
	struct differ *d = context;
	return d->given < d->count ? &d->order[d->given++]->job : NULL;
}

static inline void differ_header(
	void *context, struct decode_job *job, const struct decode_info *info)
{
	struct differ_file *f = (struct differ_file *)(void *)job;
	if (info->width != f->info.width || info->height != f->info.height)
		differ_fail(context, f, "another size than libjpeg-turbo's");
}

static inline void differ_start(void *context, struct decode_job *job)
{
	struct differ *d = context;
	d->rows_of = (struct differ_file *)(void *)job;
	d->rows_of->rows = 0;
}

static inline void differ_stream_row(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	struct differ *d = context;
	differ_row(d, d->rows_of, rgb);
}

static inline void differ_done(void *context, struct decode_job *job)
{
	differ_judge(context, (struct differ_file *)(void *)job);
}

static inline size_t differ_recall(void *context, struct decode_job *job, uint8_t *to, size_t room)
{
	struct differ_file *f = (struct differ_file *)(void *)job;
	size_t size = UTIL_MIN(f->pack_size, room);
	(void)context;
	f->recalled_true = f->pack_true;
	memcpy(to, f->pack, size);
	return size;
}

static inline bool differ_keeps(void *context, struct decode_job *job)
{
	(void)context, (void)job;
	return true;
}

static inline bool differ_keep_pack(
	void *context, struct decode_job *job, const uint8_t *pack, size_t size)
{
	struct differ_file *f = (struct differ_file *)(void *)job;
	if (size > job->entry_point_room)
		differ_fail(context, f, "the entry points exceed their room");
	memcpy(f->pack, pack, size);
	f->pack_size = size;
	f->pack_true = true;
	return true;
}

/* Loses, damages, cuts, or replaces some of the kept entry points. */
static inline void differ_spoil(struct differ *d, struct differ_file *f)
{
	const struct differ_file *other = &d->file[draw(&d->random, d->count)];
	if (!f->pack_size || !one_in(&d->random, 8))
		return;
	f->pack_true = false;
	switch (draw(&d->random, 4)) {
	case 0:
		f->pack_size = 0;
		break;
	case 1:
		f->pack_size = draw(&d->random, (uint32_t)f->pack_size);
		break;
	case 2:
		memmove(f->pack, other->pack, other->pack_size);
		f->pack_size = UTIL_MIN(other->pack_size, f->pack_room);
		break;
	default:
		f->pack[draw(&d->random, (uint32_t)f->pack_size)] ^=
			(uint8_t)(1 << draw(&d->random, 8));
	}
}

static inline void differ_shuffle(struct differ *d)
{
	for (unsigned i = d->count; i > 1; i--) {
		unsigned other = draw(&d->random, i);
		struct differ_file *swapped = d->order[i - 1];
		d->order[i - 1] = d->order[other];
		d->order[other] = swapped;
	}
}

static inline void differ_stream(struct differ *d)
{
	const struct decode_stream stream = {
		.next = differ_next,
		.header = differ_header,
		.start = differ_start,
		.row = differ_stream_row,
		.done = differ_done,
		.context = d,
		.recall = differ_recall,
		.keeps = differ_keeps,
		.keep = differ_keep_pack,
	};
	d->given = 0;
	decoder_run(d->own[d->now], &stream);
	for (unsigned i = 0; i < d->count; i++)
		if (!d->file[i].done)
			differ_fail(d, &d->file[i], "never done");
}

static inline void differ_single(struct differ *d, struct differ_file *f)
{
	struct decode_info info;
	f->job.outcome = decoder_begin(d->own[d->now], f->data, f->size, &info);
	d->rows_of = f;
	if (!f->job.outcome)
		f->job.outcome =
			decoder_rows(d->own[d->now], f->job.region, false, differ_stream_row, d);
	/* This call does not tell whether it stepped back; a region next to a fault may do either.
	 */
	differ_judge(d, f);
}

static inline void differ_round(struct differ *d)
{
	for (unsigned i = 0; i < d->count; i++) {
		differ_spoil(d, &d->file[i]);
		differ_ask(d, &d->file[i]);
	}
	differ_shuffle(d);
	if (!one_in(&d->random, 8)) {
		differ_stream(d);
		return;
	}
	for (unsigned i = 0; i < d->count; i++)
		differ_single(d, &d->file[i]);
}

/* Decodes the files that were added in every way, and forgets them. */
static inline void differ_course(struct differ *d, uint64_t seed)
{
	d->random.state = seed;
	for (unsigned i = 0; i < d->count; i++) {
		d->file[i].outcome = differ_library(d, &d->file[i], NULL);
		d->order[i] = &d->file[i];
	}
	for (d->now = 0; d->now < d->kernels; d->now++)
		for (unsigned round = 0; round < DIFFER_ROUNDS; round++)
			differ_round(d);
	d->files += d->count;
	d->count = 0;
}

static inline void differ_report(const struct differ *d, FILE *out)
{
	(void)fprintf(out,
		"%" PRIu64 " files, %" PRIu64 " executions, %" PRIu64 " by penstock's decoder, ",
		d->files, d->executions, d->clean);
	(void)fprintf(out,
		"%" PRIu64 " entered at entry points, %" PRIu64 " made some, %" PRIu64
		" dropped some, ",
		d->entered, d->made, d->dropped);
	(void)fprintf(out, "%" PRIu64 " refused; stepped back:", d->refused);
	for (unsigned i = 1; i < STEPBACKS; i++)
		(void)fprintf(out, " %s %" PRIu64, stepback_name((enum stepback)i), d->stepped[i]);
	(void)fprintf(out, "; no findings\n");
}

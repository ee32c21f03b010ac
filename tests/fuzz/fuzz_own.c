/* Penstock's JPEG decoder without libjpeg: parse, plan, unstuff, lanes, feed, entry points and
 * planes, over generated images (generate.h) and files, by every kernel set.
 *
 *     fuzz_own [--seed N] [--files N] [FILE...]
 *
 * For builds that track every byte's origin (MemorySanitizer: only instrumented code runs here)
 * and for the slack that decode.h asks for: files end 64 bytes before a forbidden page, and the
 * lanes' buffers have exactly the promised length. The decoder's memory has a random size, ends
 * at such a page, and is poisoned before each image, so that images are decoded whole, in bands
 * or not at all. Then the lanes of every driver take dozens of images in flight, in any order,
 * valid ones next to broken ones. Expected: the lanes agree with the reference on which images
 * fail and on all blocks; kernel sets agree on which images step back, and on all pixels of the
 * others; the second visit, with entry points from the first, gives the same pixels again. */
#include "fuzz/generate.h"
#include "unit/decode/jpeg/coefficients.h"
#include "unit/decode/jpeg/guarded.h"

#include "decode/jpeg/entry_pack.h"
#include "decode/jpeg/jpegdec.h"
#include "decode/jpeg/scans/script.h"
#include "decode/stages.h"

#include "base/util.h"

#include <inttypes.h>

#if defined(__has_feature)
#if __has_feature(memory_sanitizer)
#include <sanitizer/msan_interface.h>
#define FORGET(memory, bytes) __msan_poison(memory, bytes)
#endif
#endif
#ifndef FORGET
#define FORGET(memory, bytes) memset(memory, 0xa5, bytes)
#endif

enum {
	KERNELS = 4,
	SLACK = 64,
	FILE_MOST = 1 << 20,
	MEMORY_MOST = 1 << 20,
	PIXELS_MOST = 1 << 18,
	FLIGHT = 48,
};

struct bench {
	struct stages stages;
	struct jpegdec *own[KERNELS];
	const char *name[KERNELS];
	unsigned kernels, now;
	struct random random;
	struct guarded file, memory;
	uint8_t *data;
	size_t size;
	struct parse parse;
	struct decode_job job;
	bool given, check; /* rows are compared, not kept */
	uint32_t rows;
	uint8_t *rgb;
	size_t pack_size;
	uint8_t pack[ENTRY_PACK_MOST];
	uint64_t files, images, stepped, entered, runs, flown;
};

static _Noreturn void fail(const struct bench *b, const char *what)
{
	FILE *out = fopen("finding-own.jpg", "wb");
	if (out) {
		(void)fwrite(b->data, 1, b->size, out);
		(void)fclose(out);
	}
	(void)fprintf(stderr,
		"fuzz_own: %s: file %" PRIu64 " (finding-own.jpg), kernels %s, region %u,%u to "
		"%u,%u, row %u, step back: %s\n",
		what, b->files, b->name[b->now], b->job.region.x0, b->job.region.y0,
		b->job.region.x1, b->job.region.y1, b->rows,
		stepback_name((enum stepback)b->job.stepback));
	abort();
}

static struct bench *bench_new(uint64_t seed)
{
	static const char *const names[KERNELS] = {"c", "avx2", "avx512", "neon"};
	struct bench *b = want(calloc(1, sizeof(*b)));
	struct fault fault;
	for (unsigned i = 0; i < KERNELS; i++) {
		(void)setenv("PENSTOCK_KERNELS", names[i], 1);
		b->name[b->kernels] = names[i];
		b->kernels += jpegdec_new(&b->own[b->kernels], &fault) == 0;
	}
	assert(b->kernels);
	b->random.state = seed;
	b->file = guarded_new(FILE_MOST + SLACK, 1);
	b->memory = guarded_new(MEMORY_MOST, 1);
	b->rgb = want(malloc((size_t)PIXELS_MOST * 3));
	return b;
}

static void bench_free(struct bench *b)
{
	for (unsigned i = 0; i < b->kernels; i++)
		jpegdec_free(b->own[i]);
	guarded_free(&b->file);
	guarded_free(&b->memory);
	free(b->rgb);
	free(b);
}

static struct decode_job *next(void *context, struct parse *ret)
{
	struct bench *b = context;
	if (b->given)
		return NULL;
	b->given = true;
	*ret = b->parse;
	return &b->job;
}

static void done(void *context, struct decode_job *job)
{
	(void)context, (void)job;
}

static void start(void *context, struct decode_job *job)
{
	struct bench *b = context;
	(void)job;
	b->rows = 0;
}

static void row(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	struct bench *b = context;
	size_t width = b->job.region.x1 - b->job.region.x0;
	uint8_t *kept = b->rgb + b->rows++ * width * 3;
	for (size_t i = 0; i < width * 3; i++) {
		uint8_t sample = rgb[i % 3][i / 3];
		if (b->check && kept[i] != sample)
			fail(b, "other pixels than the first kernels'");
		kept[i] = sample;
	}
}

static size_t recall(void *context, struct decode_job *job, uint8_t *to, size_t room)
{
	struct bench *b = context;
	(void)job;
	size_t size = UTIL_MIN(b->pack_size, room);
	memcpy(to, b->pack, size);
	return size;
}

static bool keeps(void *context, struct decode_job *job)
{
	(void)context, (void)job;
	return true;
}

static bool keep(void *context, struct decode_job *job, const uint8_t *pack, size_t size)
{
	struct bench *b = context;
	(void)job;
	memcpy(b->pack, pack, size);
	b->pack_size = size;
	return true;
}

static void run_own(struct bench *b, size_t memory)
{
	const struct decode_stream rows = {.start = start,
		.row = row,
		.context = b,
		.recall = recall,
		.keeps = keeps,
		.keep = keep};
	const struct jpegdec_source source = {
		.next = next, .done = done, .context = b, .rows = &rows, .stages = &b->stages};
	uint8_t *at = b->memory.bytes + MEMORY_MOST - memory;
	FORGET(at, memory);
	b->given = false;
	b->rows = 0;
	b->job = (struct decode_job){.data = b->data,
		.size = b->size,
		.region = b->job.region,
		.entry_point_room = ENTRY_PACK_MOST,
		.scans_most = SCRIPT_SCANS,
		.scans_bytes = FILE_MOST};
	jpegdec_run(b->own[b->now], at, memory, &source);
	b->images++;
	b->stepped += b->job.stepback != 0;
	b->entered += (b->job.entry_points & DECODE_ENTRY_POINTS_USED) != 0;
	if (!b->job.stepback && b->rows != b->job.region.y1 - b->job.region.y0)
		fail(b, "rows are missing");
}

static void draw_region(struct bench *b)
{
	struct decode_region *r = &b->job.region;
	r->x0 = draw(&b->random, b->parse.width);
	r->y0 = draw(&b->random, b->parse.height);
	r->x1 = r->x0 + 1 + draw(&b->random, b->parse.width - r->x0);
	r->y1 = r->y0 + 1 + draw(&b->random, b->parse.height - r->y0);
	if (one_in(&b->random, 3))
		*r = (struct decode_region){0, 0, b->parse.width, b->parse.height};
}

/* The image twice by each kernel set: in memory of any size, and in enough of it. */
static void images(struct bench *b)
{
	bool known = false, sound = false;
	b->pack_size = 0;
	b->check = false;
	draw_region(b);
	for (b->now = 0; b->now < b->kernels; b->now++) {
		if (one_in(&b->random, 3))
			b->pack_size = 0;
		for (int visit = 0; visit < 2; visit++) {
			size_t memory =
				visit ? MEMORY_MOST : 64 * draw(&b->random, MEMORY_MOST / 64);
			run_own(b, memory);
			if (b->job.stepback == STEPBACK_SIZE)
				continue;
			if (known && sound != !b->job.stepback)
				fail(b, "kernels differ in which images step back");
			sound = !b->job.stepback;
			known = true;
			b->check = sound;
		}
	}
	b->now = 0;
}

/* One driver's run of the whole scan, with its buffers before forbidden pages. 0 or an enum
 * stepback. */
static int run_lanes(struct bench *b, const struct lanes *lanes, struct subject *s)
{
	int reason = subject_init(s, (struct file){b->data, b->size}, lanes, NULL, 0, false);
	if (reason)
		return reason;
	size_t bytes = s->found.bytes + LANE_SLACK;
	size_t blocks = s->blocks * BLOCKS_SIZE * sizeof(int16_t);
	struct guarded in = guarded_new(bytes, 1), out = guarded_new(blocks, 1);
	memset(s->bytes + s->found.bytes, 0, LANE_SLACK);
	memcpy(in.bytes, s->bytes, bytes);
	FORGET(out.bytes, blocks);
	s->image.bytes = in.bytes;
	s->image.coefficients = (int16_t *)(void *)out.bytes;
	reason = feed_decode_one(&s->image, lanes);
	if (!reason)
		memcpy(s->coefficients, out.bytes, blocks - BLOCKS_SIZE * sizeof(int16_t));
	guarded_free(&in);
	guarded_free(&out);
	b->runs++;
	return reason;
}

static bool same_blocks(const struct subject *a, const struct subject *b)
{
	size_t mcus = (size_t)a->parse.mcus_across * a->parse.mcus_down;
	for (size_t i = 0; i < mcus; i++)
		if (memcmp(a->coefficients + (size_t)a->where[i] * BLOCKS_SIZE,
			    b->coefficients + (size_t)b->where[i] * BLOCKS_SIZE,
			    a->parse.in_mcu * BLOCKS_SIZE * sizeof(int16_t)) != 0)
			return false;
	return true;
}

static void all_lanes(struct bench *b)
{
	struct subject reference, s;
	int expected = run_lanes(b, &lanes_ref, &reference);
	for (unsigned i = 0; lanes_at(i); i++) {
		int reason = run_lanes(b, lanes_at(i), &s);
		if (!reason != !expected)
			fail(b, "lanes accept an image that the reference refuses, or the reverse");
		if (!reason && !same_blocks(&reference, &s))
			fail(b, "other blocks than the reference's");
		subject_deinit(&s);
	}
	subject_deinit(&reference);
}

static void try_file(struct bench *b, const uint8_t *data, size_t size)
{
	if (size > FILE_MOST)
		return;
	b->data = b->file.bytes + FILE_MOST - size;
	b->size = size;
	memcpy(b->data, data, size);
	memset(b->data + size, 0xff, SLACK);
	b->files++;
	if (parse_read(b->data, size, &b->parse) ||
		(uint64_t)b->parse.width * b->parse.height > PIXELS_MOST)
		return;
	images(b);
	if (!b->parse.several)
		all_lanes(b);
}

/* Images of one flight, by the reference one after the other, and by a driver all at once. */
struct flight {
	struct file file[FLIGHT];
	struct subject reference[FLIGHT], flown[FLIGHT];
	int expected[FLIGHT];
	unsigned order[FLIGHT], count, given, done;
};

static struct feed_image *flight_more(void *context)
{
	struct flight *f = context;
	while (f->given < f->count) {
		struct subject *s = &f->flown[f->order[f->given++]];
		if (!s->reason)
			return &s->image;
	}
	return NULL;
}

static void flight_done(void *context, struct feed_image *image)
{
	struct flight *f = context;
	(void)image;
	f->done++;
}

static void flight_add(struct flight *f, const uint8_t *data, size_t size)
{
	struct file file = {want(calloc(1, size + SLACK)), size};
	struct parse parse;
	memcpy(file.bytes, data, size);
	if (parse_read_single(file.bytes, size, &parse) ||
		(uint64_t)parse.width * parse.height > PIXELS_MOST) {
		free(file.bytes);
		return;
	}
	struct subject *s = &f->reference[f->count];
	f->file[f->count] = file;
	f->expected[f->count] = subject_init(s, file, &lanes_ref, NULL, 0, false);
	if (!f->expected[f->count])
		f->expected[f->count] = feed_decode_one(&s->image, &lanes_ref);
	f->count++;
}

/* Starts the images in a new order, each cut into new runs. */
static void flight_fly(struct bench *b, struct flight *f, const struct lanes *lanes)
{
	struct feed feed = {.more = flight_more, .done = flight_done, .context = f};
	unsigned sound = 0;
	f->given = f->done = 0;
	for (unsigned i = 0; i < f->count; i++) {
		unsigned other = draw(&b->random, i + 1);
		f->order[i] = f->order[other];
		f->order[other] = i;
		sound += !subject_init(
			&f->flown[i], f->file[i], lanes, NULL, draw(&b->random, 3) * 5, false);
	}
	feed_decode(&feed, lanes);
	if (f->done != sound)
		fail(b, "images are lost in flight");
	for (unsigned i = 0; i < f->count; i++) {
		struct subject *s = &f->flown[i];
		int reason = s->reason ? s->reason : s->image.outcome;
		b->data = f->file[i].bytes;
		b->size = f->file[i].size;
		if (!reason != !f->expected[i])
			fail(b, "an image fails in flight and not alone, or the other way "
				"round");
		if (!reason && !same_blocks(&f->reference[i], s))
			fail(b, "other blocks in flight");
		subject_deinit(s);
	}
	b->flown += f->count;
}

static void flight_end(struct bench *b, struct flight *f)
{
	for (unsigned i = 0; lanes_at(i); i++)
		flight_fly(b, f, lanes_at(i));
	for (unsigned i = 0; i < f->count; i++) {
		subject_deinit(&f->reference[i]);
		free(f->file[i].bytes);
	}
	f->count = 0;
}

static void try_seeds(struct bench *b, uint64_t seed, uint64_t files)
{
	struct generate *g = want(calloc(1, sizeof(*g)));
	struct flight *flight = want(calloc(1, sizeof(*flight)));
	for (uint64_t i = 0; i < files; i++) {
		generate(g, seed + i);
		try_file(b, g->bytes, g->size);
		flight_add(flight, g->bytes, g->size);
		if (flight->count == FLIGHT || i + 1 == files)
			flight_end(b, flight);
	}
	free(flight);
	free(g);
}

int main(int argc, char **argv)
{
	uint64_t seed = 1, files = 0;
	int first = 1;
	for (; first + 1 < argc && strncmp(argv[first], "--", 2) == 0; first += 2) {
		uint64_t value = strtoull(argv[first + 1], NULL, 10);
		if (strcmp(argv[first], "--seed") == 0)
			seed = value;
		else if (strcmp(argv[first], "--files") == 0)
			files = value;
		else
			break;
	}
	if (argc == 1 || (first < argc && strncmp(argv[first], "--", 2) == 0)) {
		(void)fprintf(stderr, "usage: fuzz_own [--seed N] [--files N] [FILE...]\n");
		return 2;
	}
	struct bench *b = bench_new(seed);
	for (int i = first; i < argc; i++) {
		struct file file = file_read(argv[i]);
		try_file(b, file.bytes, file.size);
		free(file.bytes);
	}
	try_seeds(b, seed, files);
	(void)printf("%" PRIu64 " files; %" PRIu64 " images, %" PRIu64 " stepped back, %" PRIu64
		     " entered at entry points; lanes: %" PRIu64 " single images, %" PRIu64
		     " in flight; no findings\n",
		b->files, b->images, b->stepped, b->entered, b->runs, b->flown);
	bench_free(b);
	return 0;
}

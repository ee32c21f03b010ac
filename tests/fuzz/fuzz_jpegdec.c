/* Differential fuzzing of the way of an image through penstock's JPEG decoder (decode/jpeg/
 * jpegdec.h), by every driver of lanes, in memory of any size: side by side with other images, in
 * chunks, in parts, in bands, or not at all; with entry points that are kept, that lead to a part
 * of what a crop needs, that are damaged, or of another file. And through decoder_run and
 * decoder_rows of decoders with little scratch.
 *
 * The rule for each job, however it was decoded: it is done once; each of its rows, also one before
 * a step back, has libjpeg-turbo's bytes, in order and without gaps; a file that libjpeg-turbo
 * refuses is not taken, unless the fault is beside a crop. A file that penstock's decoder takes
 * whole in much memory, in order, is taken in any other way, except where it is too large for the
 * memory. Its own entry points are never dropped. After a run, no image is left in the decoder.
 *
 * Drivers that have no gain from chunks are made to decode in chunks, too. The parts need an image
 * of more than two megabytes of coefficients; these have few bits per block, so that they take
 * milliseconds. Everything follows from the input's bytes. */
#include "fuzz/drive.h"
#include "fuzz/generate.h"
#include "fuzz/want.h"
#include "unit/decode/jpeg/guarded.h"

#include "decode/jpeg/jpegdec_impl.h"

#include "base/util.h"

#include <inttypes.h>

enum {
	PIXELS_MOST = 1 << 21,
	LARGE_BLOCKS = 17 << 10, /* more than fit into 2 MiB, so that an image has parts */
	MEMORY_MOST = 6 << 20,
	MEMORY_MUCH = 5 << 20, /* for every file of this target and a band of its blocks */
	WIDTH_FITS = 4000,
	SLACK = 64, /* readable bytes after a file (decode.h) */
	FILES = 2, /* of an input: its own, and sometimes a twin */
	JOBS = 6, /* of a run, at most */
	RUNS = 3,
	DRIVERS = 8,
	DECODERS = 8,
	SCANS = 30,
};

enum way { WAY_ORDER, WAY_CHUNKS, WAY_PARTS, WAY_BANDS, WAY_SCANS, WAYS };

/* A file, and what libjpeg-turbo makes of it. */
struct subject {
	struct guarded room;
	uint8_t *data;
	size_t size;
	struct parse parse;
	bool parsed, sound; /* penstock's decoder takes it whole */
	uint32_t width, height; /* shrunk */
	int whole, outcome; /* libjpeg-turbo's: of the whole image; of the rows that it has here */
	struct decode_region have;
	uint32_t rows;
	uint8_t *plane[DECODE_PLANES];
	size_t pack_room, pack_size; /* 0: nothing is kept */
	bool pack_true; /* the pack was made for this file, and is not damaged */
	uint8_t pack[ENTRY_PACK_MOST];
};

struct attempt {
	struct decode_job job; /* first: a job is its attempt */
	struct subject *subject;
	unsigned done, begun;
	uint32_t rows, left_out; /* left_out: rows that come again */
	enum way way;
	uint32_t mcu, parts; /* of an image in parts */
	bool recalled_true;
};

struct driver {
	char name[24];
	struct jpegdec *dec;
};

static struct {
	struct decoder *library, *decoder[DECODERS];
	struct driver driver[DRIVERS];
	unsigned drivers, decoders;
	struct guarded memory;
	struct permit pool;
	struct stages stages;
	/* What the present input is. */
	struct random random;
	struct subject subject[FILES];
	unsigned subjects;
	uint8_t shrink;
	/* What the present run does. */
	const struct driver *now; /* NULL: a decoder */
	struct attempt attempt[JOBS];
	unsigned count, given;
	size_t bytes;
	struct attempt *rows_of;
	bool keeps;
} all;

static struct {
	uint64_t files, sound, refused, jobs, taken, way[WAYS], more_parts, several_ways, astray;
	uint64_t kept, prefix, made, dropped, size, stepped, shrunk, through;
} figures;

static _Noreturn void fail(const struct attempt *a, const char *what)
{
	static const char *const ways[WAYS] = {"in order", "chunks", "parts", "bands", "scans"};
	const struct decode_job *job = &a->job;
	(void)fprintf(stderr,
		"fuzz_jpegdec: %s: %s, %zu bytes of memory, %u x %u shrunk by %u, region %u,%u to "
		"%u,%u, row %u, begun %u times, last %s, outcome %d, libjpeg-turbo's %d, step back "
		"%s, entry points %u\n",
		what, all.now ? all.now->name : "a decoder", all.bytes, a->subject->width,
		a->subject->height, job->shrink, job->region.x0, job->region.y0, job->region.x1,
		job->region.y1, a->rows, a->begun, ways[a->way], job->outcome, a->subject->outcome,
		stepback_name((enum stepback)job->stepback), job->entry_points);
	abort();
}

static uint32_t height_of(const struct attempt *a)
{
	return a->job.region.y1 - a->job.region.y0;
}

static bool is_whole(const struct attempt *a)
{
	const struct decode_region *r = &a->job.region;
	return !r->x0 && !r->y0 && r->x1 == a->subject->width && r->y1 == a->subject->height;
}

/* Whether an image may have parts. */
static bool is_large(const struct subject *s)
{
	return s->parsed && (uint64_t)s->parse.mcus_across * s->parse.mcus_down * s->parse.in_mcu >=
				    LARGE_BLOCKS;
}

static struct attempt *attempt_of(struct decode_job *job)
{
	return (struct attempt *)(void *)job;
}

/* Which way the decoder has chosen for an image whose rows come next. */
static enum way way_of(const struct decode_job *job)
{
	const struct jpegdec *dec = all.now->dec;
	for (int i = 0; i < JPEGDEC_IMAGES; i++) {
		const struct jpegdec_task *task = &dec->image[i].task;
		if (task->job != job)
			continue;
		if (dec->feed)
			return task->chunks ? WAY_CHUNKS : WAY_ORDER;
		return task->chunks ? WAY_PARTS : WAY_BANDS;
	}
	return WAY_SCANS;
}

static void on_start(void *context, struct decode_job *job)
{
	struct attempt *a = attempt_of(job);
	(void)context;
	if (a->done)
		fail(a, "begun after it was done");
	all.rows_of = a;
	a->rows = a->parts = a->mcu = 0;
	a->begun++;
	if (!all.now)
		return;
	enum way way = way_of(job);
	figures.several_ways += a->begun > 1 && way != a->way;
	a->way = way;
}

static void note_part(struct attempt *a)
{
	uint32_t mcu = all.now->dec->image[0].feed.chunk_place.mcu;
	a->parts += mcu != a->mcu;
	a->mcu = mcu;
}

static void on_row(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	struct attempt *a = all.rows_of;
	const struct subject *s = a->subject;
	const struct decode_region *r = &a->job.region, *have = &s->have;
	(void)context;
	if (a->rows >= height_of(a))
		fail(a, "more rows than the region has");
	if (all.now && a->way == WAY_PARTS)
		note_part(a);
	const uint32_t row = r->y0 + a->rows - have->y0;
	const size_t at = (size_t)row * (have->x1 - have->x0) + (r->x0 - have->x0);
	for (int c = 0; c < DECODE_PLANES && row < s->rows; c++)
		if (memcmp(rgb[c], s->plane[c] + at, r->x1 - r->x0) != 0)
			fail(a, "other pixels than libjpeg-turbo's");
	a->rows++;
}

static void judge_step_back(const struct attempt *a)
{
	const struct decode_job *job = &a->job;
	figures.size += job->stepback == STEPBACK_SIZE;
	figures.stepped += job->stepback != STEPBACK_SIZE;
	if (a->subject->sound && job->stepback != STEPBACK_SIZE)
		fail(a, "steps back from a file that it takes otherwise");
	/* Wide regions may not fit the rows of samples (planes.h). */
	const bool fits = a->subject->width <= WIDTH_FITS && all.bytes >= MEMORY_MUCH;
	if (all.now && job->stepback == STEPBACK_SIZE && fits && !a->subject->parse.several)
		fail(a, "too large, in much memory");
}

static void count(const struct attempt *a)
{
	const struct decode_job *job = &a->job;
	const unsigned used = DECODE_ENTRY_POINTS_USED, made = DECODE_ENTRY_POINTS_MADE;
	figures.jobs++;
	figures.taken += !job->stepback && !job->outcome;
	if (all.now && !job->stepback) {
		figures.way[a->way]++;
		figures.more_parts += a->way == WAY_PARTS && a->parts > 1;
	}
	figures.astray += job->in_order;
	figures.shrunk += job->shrink != 0;
	figures.kept += (job->entry_points & used) != 0;
	figures.made += (job->entry_points & (used | made)) == made;
	figures.prefix += (job->entry_points & (used | made)) == (used | made);
	figures.dropped += (job->entry_points & DECODE_ENTRY_POINTS_DROPPED) != 0;
}

static void on_done(void *context, struct decode_job *job)
{
	struct attempt *a = attempt_of(job);
	(void)context;
	if (a->done++)
		fail(a, "done twice");
	count(a);
	if (job->stepback)
		judge_step_back(a);
	if (job->entry_points & DECODE_ENTRY_POINTS_DROPPED && a->recalled_true)
		fail(a, "the file's own entry points are dropped");
	const bool by_own = !job->stepback && (all.now || !job->outcome);
	/* A fault beside the crop may be noticed or not. */
	const bool beside = by_own && !is_whole(a);
	if (all.now ? by_own && a->subject->outcome && !beside
		    : job->outcome != a->subject->outcome && !beside)
		fail(a, "another outcome than libjpeg-turbo's");
	if ((all.now ? by_own : !job->outcome) && a->rows != height_of(a))
		fail(a, "rows are missing");
	if (all.rows_of == a)
		all.rows_of = NULL;
}

static size_t on_recall(void *context, struct decode_job *job, uint8_t *to, size_t room)
{
	struct attempt *a = attempt_of(job);
	const size_t size = UTIL_MIN(a->subject->pack_size, room);
	(void)context;
	a->recalled_true = a->subject->pack_true;
	memcpy(to, a->subject->pack, size);
	return size;
}

static bool on_keeps(void *context, struct decode_job *job)
{
	(void)context, (void)job;
	return all.keeps;
}

static bool on_keep(void *context, struct decode_job *job, const uint8_t *pack, size_t size)
{
	struct attempt *a = attempt_of(job);
	struct subject *s = a->subject;
	(void)context;
	if (!all.keeps || !size || size > job->entry_point_room)
		fail(a, "keeps what cannot be kept");
	if (one_in(&all.random, 20))
		return false;
	memcpy(s->pack, pack, size);
	s->pack_size = size;
	s->pack_true = true;
	return true;
}

static void on_drop(void *context)
{
	(void)context;
	all.rows_of = NULL;
}

static struct decode_job *on_next(void *context)
{
	(void)context;
	if (all.given == all.count || one_in(&all.random, 9))
		return NULL;
	return &all.attempt[all.given++].job;
}

static void on_header(void *context, struct decode_job *job, const struct decode_info *info)
{
	struct attempt *a = attempt_of(job);
	(void)context;
	if (decode_shrunk(info->width, all.shrink) != a->subject->width ||
		decode_shrunk(info->height, all.shrink) != a->subject->height)
		fail(a, "another size than libjpeg-turbo's");
	job->shrink = all.shrink;
}

static const struct decode_stream stream = {
	on_next, on_header, on_start, on_row, on_done, NULL, on_recall, on_keeps, on_keep, on_drop};

/* As decode.c has it. */
static struct decode_job *next_parsed(void *context, struct parse *ret)
{
	struct decode_job *job = on_next(context);
	if (!job)
		return NULL;
	*ret = attempt_of(job)->subject->parse;
	job->shrink = all.shrink;
	job->scans_most = SCANS;
	job->scans_bytes = job->size;
	return job;
}

/* ---- runs ---- */

static void all_done(void)
{
	for (unsigned i = 0; i < all.count; i++)
		if (all.attempt[i].done != 1)
			fail(&all.attempt[i], "not done");
}

/* What is in the memory before a run does not matter; what is after it stays. */
static uint8_t *lay_memory(void)
{
	uint8_t *memory = all.memory.bytes + MEMORY_MOST - util_align(all.bytes, BLOCKS_ALIGN);
	memset(memory, 0xa5, all.bytes < 1 << 18 ? all.bytes : 1 << 18);
	memset(memory + all.bytes, 0x5a, util_align(all.bytes, BLOCKS_ALIGN) - all.bytes);
	return memory;
}

static void run_driver(void)
{
	const struct jpegdec_source source = {
		.next = next_parsed, .done = on_done, .rows = &stream, .stages = &all.stages};
	struct jpegdec *dec = all.now->dec;
	uint8_t *memory = lay_memory();
	all.given = 0;
	while (all.given < all.count)
		jpegdec_run(dec, memory, all.bytes, &source);
	all_done();
	bool empty = !dec->waiting.job && !dec->again && !dec->feed;
	for (int i = 0; i < JPEGDEC_IMAGES; i++)
		empty &= !dec->image[i].task.job;
	want(empty, "an image is left in the decoder");
	want(dec->astray <= JPEGDEC_ASTRAY_MOST, "more images went astray than are counted");
	for (size_t i = all.bytes; i % BLOCKS_ALIGN; i++)
		want(memory[i] == 0x5a, "wrote after its memory");
}

/* The rows of one job after the other; they never come again there. */
static void run_rows(struct decoder *decoder)
{
	for (unsigned i = 0; i < all.count; i++) {
		struct attempt *a = &all.attempt[i];
		struct decode_info info;
		all.rows_of = a;
		a->job.shrink = all.shrink;
		a->job.outcome = decoder_begin(decoder, a->job.data, a->job.size, &info);
		if (!a->job.outcome && all.shrink)
			decoder_shrink(decoder, all.shrink);
		if (!a->job.outcome)
			a->job.outcome = decoder_rows(decoder, a->job.region, false, on_row, NULL);
		on_done(NULL, &a->job);
	}
}

static void run_decoder(void)
{
	unsigned which = draw(&all.random, all.decoders);
	/* The last decoder has the best kernels, and enough scratch for parts. */
	if (is_large(&all.subject[0]) && one_in(&all.random, 2))
		which = all.decoders - 1;
	struct decoder *decoder = all.decoder[which];
	figures.through += all.count;
	if (one_in(&all.random, is_large(&all.subject[0]) ? 2 : 3)) {
		run_rows(decoder);
		return;
	}
	all.given = 0;
	while (all.given < all.count)
		decoder_run(decoder, &stream);
	all_done();
}

/* ---- what is asked ---- */

/* Edges of the image and single pixels are drawn more often than by chance. */
static void draw_range(uint32_t size, uint32_t *from, uint32_t *to)
{
	struct random *random = &all.random;
	*from = 0;
	*to = size;
	switch (draw(random, 5)) {
	case 0:
		*from = draw(random, size);
		break;
	case 1:
		*to = 1 + draw(random, size);
		break;
	case 2:
		*from = draw(random, size);
		*to = *from + 1 + draw(random, size - *from);
		break;
	default:
		break;
	}
	if (one_in(random, 20))
		*to = *from + 1;
}

static struct decode_region draw_region(const struct subject *s)
{
	struct decode_region r = {0, 0, s->width, s->height};
	if (is_large(s) && !one_in(&all.random, 3))
		return r;
	draw_range(s->width, &r.x0, &r.x1);
	draw_range(s->height, &r.y0, &r.y1);
	return r;
}

/* Just enough for an image in parts: it has tables and lists besides its file and the two
 * megabytes. */
static size_t draw_parts_memory(const struct subject *s)
{
	enum { LISTS = 150 << 10, MORE = 600 << 10 };
	size_t bytes = (2 << 20) + s->size + LISTS + draw(&all.random, MORE);
	return UTIL_MIN(bytes, (size_t)MEMORY_MOST);
}

static size_t draw_memory(const struct subject *s)
{
	struct random *random = &all.random;
	if (is_large(s) && !one_in(random, 4))
		return draw_parts_memory(s);
	switch (draw(random, 4)) {
	case 0: /* too little for most */
		return draw(random, 64 << draw(random, 11));
	case 1: /* for a part of its blocks */
		return UTIL_MIN(s->size + draw(random, 1 << 18), (size_t)MEMORY_MOST);
	case 2:
		return draw_parts_memory(s);
	default:
		return MEMORY_MUCH + draw(random, MEMORY_MOST - MEMORY_MUCH + 1);
	}
}

static void keep_row(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	struct subject *s = context;
	const size_t width = s->have.x1 - s->have.x0;
	for (int c = 0; c < DECODE_PLANES; c++)
		memcpy(s->plane[c] + s->rows * width, rgb[c], width);
	s->rows++;
}

/* Decodes a region by libjpeg-turbo; x1 0: the whole image. */
static int ask_library(struct subject *s, struct decode_region region)
{
	struct decode_info info;
	s->rows = s->width = 0;
	int outcome = decoder_begin(all.library, s->data, s->size, &info);
	if (outcome || info.format != DECODE_JPEG) {
		decoder_abort(all.library);
		return outcome;
	}
	if (all.shrink)
		decoder_shrink(all.library, all.shrink);
	s->width = decode_shrunk(info.width, all.shrink);
	s->height = decode_shrunk(info.height, all.shrink);
	s->have = region.x1 ? region : (struct decode_region){0, 0, s->width, s->height};
	return decoder_rows(all.library, s->have, false, keep_row, s);
}

static void begin(struct attempt *a, struct subject *s, const struct decode_region *region)
{
	*a = (struct attempt){.subject = s,
		.job = {.data = s->data,
			.size = s->size,
			.entry_point_room = s->pack_room,
			.region = *region}};
}

/* Loses, cuts, damages or mixes up what is kept. */
static void spoil(struct subject *s)
{
	struct random *random = &all.random;
	struct subject *other = &all.subject[draw(random, all.subjects)];
	const bool was_true = s->pack_true;
	if (!s->pack_size)
		return;
	s->pack_true = false;
	switch (draw(random, 5)) {
	case 0:
		s->pack_size = 0;
		break;
	case 1:
		s->pack_size = draw(random, (uint32_t)s->pack_size);
		break;
	case 2: /* of another file */
	case 3:
		memmove(s->pack, other->pack, other->pack_size);
		s->pack_size = UTIL_MIN(other->pack_size, s->pack_room);
		s->pack_true = was_true && s == other;
		break;
	default:
		s->pack[draw(random, (uint32_t)s->pack_size)] ^= (uint8_t)(1 << draw(random, 8));
	}
}

/* Jobs for one run. All crops of a file that libjpeg-turbo refuses are the same one, for which it
 * is asked again. */
static void draw_jobs(void)
{
	struct random *random = &all.random;
	struct decode_region same[FILES];
	for (unsigned i = 0; i < all.subjects; i++) {
		struct subject *s = &all.subject[i];
		same[i] = draw_region(s);
		if (s->whole)
			s->outcome = ask_library(s, same[i]);
		if (one_in(random, 6))
			spoil(s);
	}
	all.keeps = !one_in(random, 6);
	all.count = 1 + draw(random, is_large(&all.subject[0]) ? 2 : JOBS);
	for (unsigned i = 0; i < all.count; i++) {
		unsigned which = draw(random, all.subjects);
		struct subject *s = &all.subject[which];
		struct decode_region region = s->whole ? same[which] : draw_region(s);
		begin(&all.attempt[i], s, &region);
		if (one_in(random, 4))
			all.attempt[i].job.entry_point_room = 0;
	}
}

/* Whether penstock's decoder takes it whole: in order, in much memory, by the first driver. */
static void find_sound(struct subject *s)
{
	const struct decode_region whole = {0, 0, s->width, s->height};
	s->sound = false;
	all.now = &all.driver[0];
	all.bytes = MEMORY_MOST;
	all.count = 1;
	begin(&all.attempt[0], s, &whole);
	all.attempt[0].job.entry_point_room = 0;
	run_driver();
	s->sound = !all.attempt[0].job.stepback;
	figures.sound += s->sound;
}

/* Drivers come in pairs: the second one decodes in chunks. */
static const struct driver *draw_driver(void)
{
	unsigned i = draw(&all.random, all.drivers);
	if (is_large(&all.subject[0]) && one_in(&all.random, 2))
		i |= 1;
	return &all.driver[i];
}

static void course(void)
{
	struct random *random = &all.random;
	bool parsed = true;
	for (unsigned i = 0; i < all.subjects; i++)
		parsed &= all.subject[i].parsed;
	if (parsed)
		for (unsigned i = 0; i < all.subjects; i++)
			find_sound(&all.subject[i]);
	/* Sometimes too many images have gone astray before. */
	unsigned astray = one_in(random, 10) ? draw(random, JPEGDEC_ASTRAY_MOST + 1) : 0;
	for (unsigned i = 0; i < all.drivers; i++)
		all.driver[i].dec->astray = astray;
	for (unsigned i = 0; i < RUNS; i++) {
		bool through = !parsed || one_in(random, 4);
		all.now = through ? NULL : draw_driver();
		draw_jobs();
		all.bytes = through ? 0 : draw_memory(all.attempt[0].subject);
		if (through)
			run_decoder();
		else
			run_driver();
	}
}

/* Takes in a file; false: libjpeg-turbo does not read its header. */
static bool take(struct subject *s, const uint8_t *bytes, size_t size)
{
	static const size_t rooms[] = {0, 60, 300, ENTRY_PACK_MOST, ENTRY_PACK_MOST};
	s->data = s->room.bytes + GENERATE_BYTES - size;
	s->size = size;
	memcpy(s->data, bytes, size);
	memset(s->data + size, (int)draw(&all.random, 256), SLACK);
	s->pack_size = 0;
	s->pack_true = s->sound = false;
	s->pack_room = rooms[draw(&all.random, UTIL_COUNT(rooms))];
	s->whole = s->outcome = ask_library(s, (struct decode_region){0});
	s->parsed = s->width && !parse_read(s->data, size, &s->parse);
	return s->width;
}

/* The same file with another bit in its scan: of the same size, with other entry points. */
static bool take_twin(struct subject *twin, const struct subject *s)
{
	uint8_t *copy = malloc(s->size);
	want(copy != NULL, "no memory");
	memcpy(copy, s->data, s->size);
	copy[s->size / 2 + draw(&all.random, (uint32_t)(s->size - s->size / 2))] ^=
		(uint8_t)(1 << draw(&all.random, 8));
	bool takes = take(twin, copy, s->size);
	free(copy);
	return takes;
}

/* ---- preparation ---- */

static void add_driver(const char *kernels, const char *how, bool chunks)
{
	struct jpegdec *dec;
	struct fault fault;
	(void)setenv("PENSTOCK_KERNELS", kernels, 1);
	if (jpegdec_new(&dec, &fault))
		return; /* this processor does not have them */
	const struct lanes *found = dec->chunks ? dec->chunks : dec->chosen;
	dec->chunks = chunks ? found : NULL;
	struct driver *driver = &all.driver[all.drivers++];
	driver->dec = dec;
	(void)snprintf(driver->name, sizeof(driver->name), "%s%s", kernels, how);
}

static struct decoder *new_decoder(const char *which, const char *kernels, uint64_t scratch)
{
	struct decode_limits limits = decode_limits_default();
	struct decoder *decoder = NULL;
	struct fault fault;
	limits.pixels = PIXELS_MOST;
	limits.scans = SCANS;
	limits.scratch = scratch;
	limits.large = &all.pool;
	(void)setenv("PENSTOCK_DECODER", which, 1);
	(void)setenv("PENSTOCK_KERNELS", kernels, 1);
	return decoder_new(&limits, &decoder, &fault) ? NULL : decoder;
}

static void prepare(void)
{
	static const char *const kernels[] = {"c", "avx2", "avx512", "neon"};
	static const uint64_t scratch[] = {1 << 18, (5 << 20) / 2};
	/* Enough for libjpeg-turbo, always. */
	permit_init(&all.pool, 64 << 20);
	for (size_t i = 0; i < UTIL_COUNT(kernels); i++) {
		add_driver(kernels[i], ", in order", false);
		add_driver(kernels[i], ", in chunks", true);
		for (size_t k = 0; k < UTIL_COUNT(scratch); k++) {
			struct decoder *decoder = new_decoder("own", kernels[i], scratch[k]);
			if (decoder)
				all.decoder[all.decoders++] = decoder;
		}
	}
	all.library = new_decoder("libjpeg", "c", DECODER_SCRATCH_LEAST);
	want(all.library && all.drivers && all.decoders, "no decoder");
	all.memory = guarded_new(MEMORY_MOST, 1);
	for (int i = 0; i < FILES; i++) {
		struct subject *s = &all.subject[i];
		s->room = guarded_new(GENERATE_BYTES + SLACK, 1);
		for (int c = 0; c < DECODE_PLANES; c++) {
			s->plane[c] = malloc(PIXELS_MOST);
			want(s->plane[c] != NULL, "no memory");
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!all.library)
		prepare();
	if (size > GENERATE_BYTES)
		return 0;
	all.random.state = 14695981039346656037u; /* FNV-1a */
	for (size_t i = 0; i < size; i++)
		all.random.state = (all.random.state ^ data[i]) * 1099511628211u;
	all.shrink =
		(uint8_t)(one_in(&all.random, 3) ? 1 + draw(&all.random, DECODE_SHRINK_MAX) : 0);
	all.subjects = 1;
	if (!take(&all.subject[0], data, size))
		return 0;
	const bool small = (uint64_t)all.subject[0].width * all.subject[0].height < 1 << 16;
	if (small && one_in(&all.random, 4) && take_twin(&all.subject[1], &all.subject[0]))
		all.subjects = 2;
	figures.files += all.subjects;
	for (unsigned i = 0; i < all.subjects; i++)
		figures.refused += all.subject[i].whole != 0;
	course();
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
/* Coefficients whose sums stay in the range where libjpeg-turbo's SIMD and C agree. */
static void draw_small_values(struct random *random, struct generate_kind *k)
{
	k->size_most = 1 + draw(random, 4);
	k->step_most = 1 + draw(random, 8);
	k->dc_most = 16u << draw(random, 4);
}

/* An image of more blocks than fit into the memory for parts, with few bits each. */
static struct generate_kind draw_large(struct random *random)
{
	struct generate_kind k = draw_kind(random);
	const uint32_t side_x = k.components == 1 ? 8 : 8u * k.h[0];
	const uint32_t side_y = k.components == 1 ? 8 : 8u * k.v[0];
	uint32_t in_mcu = 0;
	for (unsigned i = 0; i < k.components; i++)
		in_mcu += k.components == 1 ? 1 : (uint32_t)k.h[i] * k.v[i];
	const uint32_t mcus = (LARGE_BLOCKS + draw(random, 12 << 10)) / in_mcu + 1;
	/* Rows from a few MCUs to more than a part has. */
	uint32_t across = 1 + draw(random, one_in(random, 6) ? mcus / 2 : 200);
	across = UTIL_MAX(UTIL_MIN(across, 12000 / side_x), 8u);
	k.width = across * side_x - draw(random, 8);
	k.height = ((mcus - 1) / across + 1) * side_y - draw(random, 8);
	k.style = one_in(random, 4) ? BLOCKS_ZEROS : BLOCKS_EMPTY;
	draw_small_values(random, &k);
	k.dc_most = one_in(random, 6) ? 0 : k.dc_most; /* every block may have the same bits */
	k.long_codes = draw(random, 2);
	k.standard = one_in(random, 2);
	k.restart = one_in(random, 20) ? 1 + draw(random, 2 * across) : 0;
	k.faulty = false;
	return k;
}

/* Enough for several chunks. */
static struct generate_kind draw_chunked(struct random *random)
{
	struct generate_kind k = draw_kind(random);
	k.width = 16 + draw(random, 200);
	k.height = 16 + draw(random, 200);
	k.restart = one_in(random, 20) ? 1 + draw(random, 30) : 0;
	k.style = one_in(random, 2) ? BLOCKS_FULL : k.style;
	draw_small_values(random, &k);
	k.faulty = false;
	return k;
}

static size_t compose(uint8_t *bytes, size_t room, struct random *random)
{
	enum { LARGE = 7, CHUNKED = 3 };
	static struct generate g;
	g.random.state = random_64(random);
	if (one_in(&g.random, LARGE))
		g.kind = draw_large(&g.random);
	else if (one_in(&g.random, CHUNKED))
		g.kind = draw_chunked(&g.random);
	else
		g.kind = draw_kind(&g.random);
	generate_file(&g);
	for (unsigned faults = one_in(&g.random, 6) ? 1 + draw(&g.random, 2) : 0; faults; faults--)
		generate_fault(&g);
	size_t size = UTIL_MIN(g.size, room);
	memcpy(bytes, g.bytes, size);
	return size;
}

/* A way that is hardly taken is not tested. */
static void want_share(uint64_t number, const char *what)
{
	if (figures.files <= 500 || number * 200 >= figures.files)
		return;
	(void)fprintf(stderr, "fuzz_jpegdec: only %" PRIu64 " images %s\n", number, what);
	exit(1);
}

static void end(void)
{
	const uint64_t *way = figures.way;
	(void)printf("%" PRIu64 " files, %" PRIu64 " sound, %" PRIu64 " refused; %" PRIu64
		     " jobs (%" PRIu64 " through a decoder, %" PRIu64 " shrunk), %" PRIu64
		     " taken: %" PRIu64 " in flight in order, %" PRIu64 " in chunks, %" PRIu64
		     " in parts (%" PRIu64 " in several), %" PRIu64 " in bands, %" PRIu64
		     " of several scans; ",
		figures.files, figures.sound, figures.refused, figures.jobs, figures.through,
		figures.shrunk, figures.taken, way[WAY_ORDER], way[WAY_CHUNKS], way[WAY_PARTS],
		figures.more_parts, way[WAY_BANDS], way[WAY_SCANS]);
	(void)printf("%" PRIu64 " begun again in another way, %" PRIu64
		     " astray; entry points: %" PRIu64 " used, %" PRIu64 " of them led on, %" PRIu64
		     " made, %" PRIu64 " dropped; stepped back: %" PRIu64 " too large, %" PRIu64
		     " others\n",
		figures.several_ways, figures.astray, figures.kept, figures.prefix, figures.made,
		figures.dropped, figures.size, figures.stepped);
	want_share(way[WAY_ORDER], "in flight in order");
	want_share(way[WAY_CHUNKS], "in chunks");
	want_share(way[WAY_PARTS], "in parts");
	want_share(figures.more_parts, "in several parts");
	want_share(way[WAY_BANDS], "in bands");
	want_share(figures.kept, "with kept entry points");
	want_share(figures.prefix, "beyond kept entry points");
	want_share(figures.dropped, "with entry points that were dropped");
	want_share(figures.size, "too large");
}

const struct drive fuzz_drive = {"fuzz_jpegdec", GENERATE_BYTES, compose, end};
#endif

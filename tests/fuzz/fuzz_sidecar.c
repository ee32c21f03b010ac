/* fuzz_sidecar: entry points as a sidecar may hold them: packs of valid files (generate.h) that
 * were cut off, changed, forged, or belong to another file, and are then used for decoding.
 *
 * The input chooses the kernels, one to four files, the region, and the changes to the packs
 * (recipe.h). Expected: every file decodes, to the same pixels as without entry points, unless
 * its pack was forged with a correct checksum, which only an attacker with write access can do.
 * A file's own pack is never dropped. */
#include "fuzz/differ.h"
#include "fuzz/drive.h"
#include "fuzz/recipe.h"
#include "fuzz/want.h"

#include <xxhash.h>

enum { FILES = 48, JOBS = 4, INPUT_ROOM = 256, PACK_ROOM = 2048 };

struct subject {
	uint8_t *data;
	size_t size, pack_size;
	struct decode_info info;
	uint8_t *rgb; /* of the whole image, without entry points */
	uint8_t pack[PACK_ROOM];
};

struct attempt {
	struct decode_job job; /* first, so that a pointer to the job is one to the attempt */
	const struct subject *subject;
	uint32_t rows;
	bool done, forged, untouched;
	size_t pack_size;
	uint8_t pack[PACK_ROOM];
};

static struct subject subjects[FILES];
static struct attempt attempts[JOBS];
static struct differ *differ; /* its decoders */
static struct {
	unsigned count, given;
	struct attempt *rows_of;
	struct subject *made; /* whose pixels and pack are recorded; NULL: they are judged */
} now;

static struct decode_job *stream_next(void *context)
{
	(void)context;
	return now.given < now.count ? &attempts[now.given++].job : NULL;
}

static void stream_header(void *context, struct decode_job *job, const struct decode_info *info)
{
	(void)context;
	if (!now.made)
		return;
	now.made->info = *info;
	job->region = (struct decode_region){0, 0, info->width, info->height};
}

static void stream_start(void *context, struct decode_job *job)
{
	(void)context;
	now.rows_of = (struct attempt *)(void *)job;
	now.rows_of->rows = 0;
}

static void judge_row(const struct attempt *a, const uint8_t *const rgb[DECODE_PLANES])
{
	const struct decode_region *r = &a->job.region;
	const uint8_t *expected =
		a->subject->rgb + ((size_t)(r->y0 + a->rows) * a->subject->info.width + r->x0) * 3;
	bool same = true;
	for (size_t i = 0; i < (size_t)(r->x1 - r->x0) * 3; i++)
		same &= rgb[i % 3][i / 3] == expected[i];
	want(same || a->forged, "other pixels than without entry points");
}

static void stream_row(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	struct attempt *a = now.rows_of;
	const struct decode_region *r = &a->job.region;
	const size_t width = r->x1 - r->x0;
	(void)context;
	want(a->rows < r->y1 - r->y0, "more rows than the region has");
	if (now.made)
		decode_weave(now.made->rgb + a->rows * width * 3, rgb, width);
	else
		judge_row(a, rgb);
	a->rows++;
}

static void stream_done(void *context, struct decode_job *job)
{
	struct attempt *a = (struct attempt *)(void *)job;
	(void)context;
	a->done = true;
	if (now.made)
		return;
	want(!job->outcome, "refused because of its entry points");
	want(a->rows == job->region.y1 - job->region.y0, "rows are missing");
	want(!a->untouched || !(job->entry_points & DECODE_ENTRY_POINTS_DROPPED),
		"a file's own entry points are dropped");
}

static size_t stream_recall(void *context, struct decode_job *job, uint8_t *to, size_t room)
{
	const struct attempt *a = (const struct attempt *)(void *)job;
	const size_t size = UTIL_MIN(a->pack_size, room);
	(void)context;
	memcpy(to, a->pack, size);
	return size;
}

static bool stream_keeps(void *context, struct decode_job *job)
{
	(void)context, (void)job;
	return true;
}

static bool stream_keep(void *context, struct decode_job *job, const uint8_t *pack, size_t size)
{
	(void)context;
	want(size <= job->entry_point_room, "more entry points than fit");
	if (now.made) {
		memcpy(now.made->pack, pack, size);
		now.made->pack_size = size;
	}
	return true;
}

static void run(struct decoder *decoder, unsigned count, struct subject *made)
{
	static const struct decode_stream stream = {stream_next, stream_header, stream_start,
		stream_row, stream_done, NULL, stream_recall, stream_keeps, stream_keep, NULL};
	now.count = count;
	now.given = 0;
	now.made = made;
	decoder_run(decoder, &stream);
	for (unsigned i = 0; i < count; i++)
		want(attempts[i].done, "never done");
}

static void begin(struct attempt *a, const struct subject *subject)
{
	a->subject = subject;
	a->job = (struct decode_job){
		.data = subject->data, .size = subject->size, .entry_point_room = PACK_ROOM};
	a->rows = 0;
	a->done = a->forged = false;
	a->untouched = true;
	a->pack_size = 0;
}

/* Decodes a file and records its pixels and pack; false: it has no entry points. */
static bool subject_take(struct subject *s, const uint8_t *bytes, size_t size)
{
	s->size = size;
	s->pack_size = 0;
	memcpy(s->data, bytes, size);
	memset(s->data + size, 0, DIFFER_SLACK);
	begin(&attempts[0], s);
	run(differ->own[0], 1, s);
	return !attempts[0].job.outcome && s->pack_size > ENTRY_PACK_HEAD;
}

/* The same file with one bit of its scan flipped: of the same size, with other entry points. */
static bool twin_take(struct subject *s, struct generate *g, struct random *random)
{
	const size_t at = g->size / 2 + draw(random, (uint32_t)(g->size / 2));
	g->bytes[at] ^= (uint8_t)(1 << draw(random, 8));
	return subject_take(s, g->bytes, g->size);
}

static void prepare(void)
{
	struct random random = {1};
	struct generate *g = calloc(1, sizeof *g);
	want(g != NULL, "no memory");
	differ = differ_new();
	for (unsigned i = 0; i < FILES; i++) {
		subjects[i].data = malloc(GENERATE_BYTES + DIFFER_SLACK);
		subjects[i].rgb = malloc((size_t)DIFFER_PIXELS * 3);
		want(subjects[i].data && subjects[i].rgb, "no memory");
	}
	uint64_t seed = 1;
	for (unsigned i = 0; i < FILES; i += 2)
		do
			generate(g, seed++);
		while (!subject_take(&subjects[i], g->bytes, g->size) ||
			!twin_take(&subjects[i + 1], g, &random));
	free(g);
}

static void forge(struct attempt *a)
{
	uint16_t bytes;
	memcpy(&bytes, a->pack + 4, sizeof bytes);
	if (bytes < ENTRY_PACK_HEAD || bytes > a->pack_size)
		return;
	const uint32_t check = (uint32_t)XXH3_64bits(a->pack + 4, bytes - 4u);
	memcpy(a->pack, &check, sizeof check);
	a->forged = true;
}

static void spoil(struct recipe *recipe, struct attempt *a)
{
	const uint8_t how = recipe_byte(recipe);
	const size_t at = recipe_number(recipe, 2) % a->pack_size;
	a->untouched = false;
	switch (how % 8) {
	case 0:
		a->pack_size = at;
		break;
	case 1: /* the checksum of another pack over these codes */
		memcpy(a->pack + 24, recipe->bytes, UTIL_MIN(recipe->size, (size_t)8));
		break;
	case 2:
		a->pack[at % ENTRY_PACK_HEAD] = recipe_byte(recipe);
		break;
	case 3:
		a->pack[at] = recipe_byte(recipe);
		break;
	case 4: /* bytes that are shifted */
		memmove(a->pack + at, a->pack + at / 2, a->pack_size - at);
		break;
	default:
		a->pack[at] ^= (uint8_t)(1 << how / 8 % 8);
	}
}

static void side(struct recipe *recipe, uint32_t size, uint32_t *from, uint32_t *to)
{
	*from = recipe_byte(recipe) % size;
	*to = *from + 1 + recipe_byte(recipe) % (size - *from);
}

static void choose(struct recipe *recipe, struct attempt *a)
{
	const struct subject *subject = &subjects[recipe_byte(recipe) % FILES];
	const uint8_t how = recipe_byte(recipe);
	begin(a, subject);
	side(recipe, subject->info.width, &a->job.region.x0, &a->job.region.x1);
	side(recipe, subject->info.height, &a->job.region.y0, &a->job.region.y1);
	const struct subject *whose =
		how & 0x20 && how & 0x40 ? &subjects[recipe_byte(recipe) % FILES] : subject;
	a->pack_size = whose->pack_size;
	a->untouched = whose == subject;
	memcpy(a->pack, whose->pack, whose->pack_size);
	for (unsigned i = how % 4; i && a->pack_size; i--)
		spoil(recipe, a);
	if (how & 0x80)
		forge(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct recipe recipe = {data, size, 0};
	if (size > INPUT_ROOM)
		return 0;
	if (!differ)
		prepare();
	const uint8_t how = recipe_byte(&recipe);
	unsigned count = 0;
	do
		choose(&recipe, &attempts[count++]);
	while (count < JOBS && !recipe_ends(&recipe));
	run(differ->own[how % differ->kernels], count, NULL);
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
static size_t compose(uint8_t *bytes, size_t room, struct random *random)
{
	size_t size = 1 + draw(random, 60);
	(void)room;
	return drive_noise(bytes, size, random);
}

const struct drive fuzz_drive = {"fuzz_sidecar", INPUT_ROOM, compose, NULL};
#endif

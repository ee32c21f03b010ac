/* geometry: every small size and sampling, with every kind of entry point, cropped everywhere.
 * Penstock's decoder, which may not step back from any of these, gives libjpeg-turbo's pixels.
 *
 *     kernels_geometry           sizes with every residue of an MCU's sides; a minute at most
 *     kernels_geometry --all     all sizes up to 40 x 40; so does PENSTOCK_TEST_NIGHTLY=1
 *     kernels_geometry --part N  every N-th file of the first set, for slow builds
 *
 * Through decode.h: all crops of one file as a stream, by every kernel set, without and with entry
 * points as the daemon keeps them. Through feed.h: the blocks that a crop needs, against libjpeg's,
 * with entry points every 1, 2 and 8 MCUs. */
#include "fuzz/generate.h"
#include "unit/decode/jpeg/coefficients.h"

#include "decode/jpeg/entry_pack.h"

#include "base/util.h"

enum {
	SIDE = 40,
	TINY = 6, /* up to this side: all crops */
	CROPS = 441, /* of 6 x 6 */
	SOME_CROPS = 24,
	KERNELS = 4,
	SAMPLINGS = 14, /* of generate_samplings, those that penstock's decoder takes; then gray */
	RESTARTS = 5, /* none, 1, 2, an MCU row, 5 */
	PACK_ROOM = 4096,
};

struct crop {
	struct decode_job job; /* first: a job is its crop */
	struct decode_region region;
};

struct geometry {
	struct decoder *library, *own[KERNELS];
	struct generate *g;
	struct random random;
	struct decode_info info;
	uint8_t rgb[SIDE * SIDE * 3]; /* libjpeg-turbo's */
	struct crop crop[CROPS];
	unsigned crops, given, kernels, part;
	struct crop *now;
	uint32_t rows;
	size_t pack_size;
	uint8_t pack[PACK_ROOM];
	uint64_t files, executions, entered, numbered;
};

static void fail(const struct geometry *t, const char *what)
{
	const struct generate_kind *k = &t->g->kind;
	(void)fprintf(stderr,
		"kernels_geometry: %s: %u x %u, %u components, %u x %u over %u x %u, a marker "
		"every %u MCUs",
		what, k->width, k->height, k->components, k->h[0], k->v[0], k->h[1], k->v[1],
		k->restart);
	if (t->now)
		(void)fprintf(stderr, ", region %u,%u to %u,%u, row %u, step back: %s",
			t->now->region.x0, t->now->region.y0, t->now->region.x1, t->now->region.y1,
			t->rows, stepback_name((enum stepback)t->now->job.stepback));
	(void)fputc('\n', stderr);
	exit(1);
}

static struct decoder *new_decoder(const char *which, const char *kernels)
{
	struct decode_limits limits = decode_limits_default();
	struct decoder *decoder = NULL;
	struct fault fault;
	(void)setenv("PENSTOCK_DECODER", which, 1);
	(void)setenv("PENSTOCK_KERNELS", kernels, 1);
	return decoder_new(&limits, &decoder, &fault) ? NULL : decoder;
}

static void keep_row(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	struct geometry *t = context;
	decode_weave(t->rgb + (size_t)t->rows++ * t->info.width * 3, rgb, t->info.width);
}

static void whole_by_library(struct geometry *t)
{
	const uint8_t *bytes = t->g->bytes;
	t->rows = 0;
	t->now = NULL;
	int outcome = decoder_begin(t->library, bytes, t->g->size, &t->info);
	struct decode_region all = {0, 0, t->info.width, t->info.height};
	if (!outcome)
		outcome = decoder_rows(t->library, all, true, keep_row, t);
	if (outcome)
		fail(t, decoder_message(t->library));
}

static struct decode_job *next(void *context)
{
	struct geometry *t = context;
	if (t->given == t->crops)
		return NULL;
	struct crop *crop = &t->crop[t->given++];
	crop->job = (struct decode_job){.data = t->g->bytes,
		.size = t->g->size,
		.entry_point_room = PACK_ROOM,
		.region = crop->region};
	return &crop->job;
}

static void header(void *context, struct decode_job *job, const struct decode_info *info)
{
	(void)context, (void)job, (void)info;
}

static void start(void *context, struct decode_job *job)
{
	struct geometry *t = context;
	t->now = (struct crop *)(void *)job;
	t->rows = 0;
}

static void row(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	struct geometry *t = context;
	const struct decode_region *r = &t->now->region;
	const uint8_t *expected = t->rgb + ((size_t)(r->y0 + t->rows) * t->info.width + r->x0) * 3;
	uint8_t got[SIDE * 3];
	decode_weave(got, rgb, r->x1 - r->x0);
	if (memcmp(got, expected, (size_t)(r->x1 - r->x0) * 3) != 0)
		fail(t, "other pixels than libjpeg-turbo's");
	if (++t->rows == r->y1 - r->y0)
		t->numbered++;
}

static void done(void *context, struct decode_job *job)
{
	struct geometry *t = context;
	t->executions++;
	t->entered += (job->entry_points & DECODE_ENTRY_POINTS_USED) != 0;
	t->now = (struct crop *)(void *)job;
	if (job->outcome || job->stepback || job->entry_points & DECODE_ENTRY_POINTS_DROPPED)
		fail(t, "not decoded by penstock's decoder, or entry points dropped");
}

static size_t recall(void *context, struct decode_job *job, uint8_t *to, size_t room)
{
	struct geometry *t = context;
	(void)job;
	assert(t->pack_size <= room);
	memcpy(to, t->pack, t->pack_size);
	return t->pack_size;
}

static bool keeps(void *context, struct decode_job *job)
{
	(void)context, (void)job;
	return true;
}

static bool keep(void *context, struct decode_job *job, const uint8_t *pack, size_t size)
{
	struct geometry *t = context;
	(void)job;
	assert(size <= sizeof(t->pack));
	memcpy(t->pack, pack, size);
	t->pack_size = size;
	return true;
}

/* All crops by every kernel set; the first of a set makes the entry points, the others use them. */
static void crops_by_own(struct geometry *t)
{
	const struct decode_stream stream = {.next = next,
		.header = header,
		.start = start,
		.row = row,
		.done = done,
		.context = t,
		.recall = recall,
		.keeps = keeps,
		.keep = keep};
	for (unsigned i = 0; i < t->kernels; i++) {
		t->given = 0;
		t->pack_size = 0;
		t->numbered = 0;
		decoder_run(t->own[i], &stream);
		if (t->numbered != t->crops)
			fail(t, "rows are missing");
	}
	t->now = NULL;
}

static void all_crops(struct geometry *t)
{
	uint32_t w = t->info.width, h = t->info.height;
	t->crops = 0;
	for (uint32_t x0 = 0; x0 < w; x0++)
		for (uint32_t x1 = x0 + 1; x1 <= w; x1++)
			for (uint32_t y0 = 0; y0 < h; y0++)
				for (uint32_t y1 = y0 + 1; y1 <= h; y1++)
					t->crop[t->crops++].region =
						(struct decode_region){x0, y0, x1, y1};
}

static void some_crops(struct geometry *t)
{
	uint32_t w = t->info.width, h = t->info.height;
	t->crop[0].region = (struct decode_region){0, 0, w, h};
	t->crop[1].region = (struct decode_region){w - 1, h - 1, w, h};
	for (t->crops = 2; t->crops < SOME_CROPS; t->crops++) {
		struct decode_region *r = &t->crop[t->crops].region;
		r->x0 = draw(&t->random, w);
		r->y0 = draw(&t->random, h);
		r->x1 = r->x0 + 1 + draw(&t->random, t->crops % 3 ? w - r->x0 : 1);
		r->y1 = r->y0 + 1 + draw(&t->random, t->crops % 5 ? h - r->y0 : 1);
	}
}

/* One crop's blocks, entered at entry points, against libjpeg's. */
static void enter(const struct geometry *t, struct file file, const struct lanes *lanes,
	const struct entry_point *points, uint32_t count, uint32_t interval,
	const int16_t *expected)
{
	struct subject s;
	if (subject_init(&s, file, lanes, NULL, 0, true))
		fail(t, "not taken as a whole");
	if (subject_enter(&s, lanes, points, count, interval, t->now->region) ||
		feed_decode_one(&s.image, lanes) || subject_differs(&s, expected))
		fail(t, "wrong when entered at entry points");
	subject_deinit(&s);
}

static void crops_by_feed(struct geometry *t)
{
	static const uint32_t intervals[] = {1, 2, 8};
	struct file file = {t->g->bytes, t->g->size};
	struct parse parse;
	if (parse_read_single(file.bytes, file.size, &parse))
		fail(t, "not taken");
	int16_t *expected = want(malloc(image_coefficients(&parse) * sizeof(*expected)));
	if (libjpeg_coefficients(file, &parse, expected))
		fail(t, "libjpeg complains");
	for (size_t i = 0; i < UTIL_COUNT(intervals); i++) {
		uint32_t count;
		struct entry_point *points =
			subject_record(file, lanes_at(0), intervals[i], &count);
		if (!points)
			fail(t, "entry points cannot be recorded");
		for (unsigned lanes = 0; lanes_at(lanes); lanes++) {
			t->now = &t->crop[draw(&t->random, t->crops)];
			enter(t, file, lanes_at(lanes), points, count, intervals[i], expected);
		}
		free(points);
	}
	free(expected);
	t->now = NULL;
}

static void try_file(struct geometry *t)
{
	struct generate_kind *k = &t->g->kind;
	if (t->files++ % t->part)
		return;
	generate_file(t->g);
	memset(t->g->bytes + t->g->size, 0, LANE_SLACK);
	whole_by_library(t);
	if (k->width <= TINY && k->height <= TINY)
		all_crops(t);
	else
		some_crops(t);
	crops_by_own(t);
	if (!k->restart)
		crops_by_feed(t);
}

static struct generate_kind kind_of(unsigned sampling, uint32_t width, uint32_t height)
{
	struct generate_kind k = {.width = width,
		.height = height,
		.components = sampling < SAMPLINGS ? 3 : 1,
		.step_most = 3,
		.size_most = 3,
		.dc_most = 300,
		.standard = true,
		.tables = sampling < SAMPLINGS ? 2 : 1};
	const uint8_t *s = generate_samplings[sampling % SAMPLINGS];
	for (unsigned i = 0; i < 3; i++) {
		k.h[i] = s[i ? 2 : 0];
		k.v[i] = s[i ? 3 : 1];
	}
	return k;
}

static void try_size(struct geometry *t, uint32_t width, uint32_t height)
{
	for (unsigned sampling = 0; sampling <= SAMPLINGS; sampling++)
		for (unsigned restart = 0; restart < RESTARTS; restart++) {
			struct generate_kind k = kind_of(sampling, width, height);
			uint32_t side = k.components == 1 ? 8 : 8u * k.h[0];
			const uint32_t intervals[RESTARTS] = {
				0, 1, 2, (width + side - 1) / side, 5};
			k.restart = intervals[restart];
			t->g->kind = k;
			try_file(t);
		}
}

/* Widths and heights that together have every residue, each with neighbors and small sides. */
static void try_sizes(struct geometry *t, bool all)
{
	static const uint32_t some[] = {1, 2, 7, 16, 33};
	for (uint32_t width = 1; width <= SIDE; width++)
		for (uint32_t height = 1; all && height <= SIDE; height++)
			try_size(t, width, height);
	for (uint32_t side = TINY + 1; !all && side <= SIDE; side++)
		for (size_t i = 0; i < UTIL_COUNT(some); i++) {
			try_size(t, side, (some[i] + side) % SIDE + 1);
			try_size(t, some[i], side);
		}
	for (uint32_t width = 1; !all && width <= TINY; width++)
		for (uint32_t height = 1; height <= TINY; height++)
			try_size(t, width, height);
}

int main(int argc, char **argv)
{
	static const char *const names[KERNELS] = {"c", "avx2", "avx512", "neon"};
	struct geometry *t = want(calloc(1, sizeof(*t)));
	const char *nightly = getenv("PENSTOCK_TEST_NIGHTLY");
	bool all = (argc == 2 && strcmp(argv[1], "--all") == 0) || (nightly && *nightly == '1');
	t->part = argc == 3 && !all && strcmp(argv[1], "--part") == 0 ? (unsigned)atoi(argv[2]) : 1;
	if (!t->part || (argc > 1 && !all && t->part == 1)) {
		(void)fprintf(stderr, "usage: kernels_geometry [--all | --part N]\n");
		return 2;
	}
	t->g = want(calloc(1, sizeof(*t->g)));
	t->library = want(new_decoder("libjpeg", "c"));
	for (unsigned i = 0; i < KERNELS; i++)
		t->kernels += (t->own[t->kernels] = new_decoder("own", names[i])) != NULL;
	try_sizes(t, all);
	(void)printf("%s%llu files, %llu crops decoded by %u kernel sets, %llu of them entered at "
		     "entry points\n",
		all ? "promise: " : "", (unsigned long long)(t->files / t->part),
		(unsigned long long)t->executions, t->kernels, (unsigned long long)t->entered);
	bool empty = !t->kernels || !t->entered;
	for (unsigned i = 0; i < t->kernels; i++)
		decoder_free(t->own[i]);
	decoder_free(t->library);
	free(t->g);
	free(t);
	return empty;
}

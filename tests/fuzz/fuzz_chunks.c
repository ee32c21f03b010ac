/* Differential fuzzing of decoding in chunks (decode/jpeg/chunk_plan.h): a file's scan cut into any
 * number of chunks, by every driver, against the scan decoded in order by the reference, and that
 * against libjpeg's coefficients. What comes out of chunks is the reference's, block for block,
 * with the same entry points; or it is astray. A file that the reference refuses always goes
 * astray. The same in parts, each in few pages.
 *
 * Many files are made so that decoders do not get in step: blocks that all have the same bits,
 * values that look like codes, the same codes for luma and chroma; many have more chunks than
 * blocks, and scans full of stuffing. Then faults in the scan, and its end cut off. */
#include "fuzz/drive.h"
#include "fuzz/generate.h"
#include "unit/decode/jpeg/chunked.h"

#include <inttypes.h>

enum { PIXELS_MOST = 1 << 18, CHUNKS_MOST = 1 << 14, PART_CHUNKS = 200 };

static struct {
	uint64_t files, sound, runs, settled, astray, parts, whole, broken;
} figures;

static _Noreturn void fail(const char *what, const struct lanes *lanes, const struct chunked *c)
{
	(void)fprintf(stderr, "fuzz_chunks: %s: %s: %u chunks, pages of %u MCUs, %u of %u MCUs\n",
		lanes->name, what, c->plan.count, c->plan.page_mcus, c->plan.need, c->plan.mcus);
	abort();
}

static const struct lanes *driver_at(unsigned i)
{
	return i ? lanes_at(i - 1) : &lanes_ref;
}

/* How a file is cut this time. */
struct cut {
	struct decode_region crop;
	bool whole;
	uint32_t interval; /* of entry points */
	uint32_t count, page_mcus;
	uint32_t pages; /* of a part */
};

static struct cut draw_cut(struct random *random, const struct parse *p, uint64_t bits)
{
	struct cut cut = {.whole = one_in(random, 2), .interval = 1 + draw(random, 9)};
	cut.crop = (struct decode_region){0, 0, p->width, p->height};
	if (!cut.whole) {
		cut.crop.x0 = draw(random, p->width);
		cut.crop.y0 = draw(random, p->height);
		cut.crop.x1 = cut.crop.x0 + 1 + draw(random, p->width - cut.crop.x0);
		cut.crop.y1 = cut.crop.y0 + 1 + draw(random, p->height - cut.crop.y0);
	}
	uint64_t blocks = (uint64_t)p->mcus_across * p->mcus_down * p->in_mcu;
	uint64_t counts[] = {0, 1 + draw(random, 8), 1 + draw(random, 100), blocks, 2 * blocks};
	cut.count = (uint32_t)UTIL_MIN(
		UTIL_MIN(counts[draw(random, UTIL_COUNT(counts))], bits), CHUNKS_MOST);
	cut.page_mcus = draw(random, 3) ? 0 : 1 + draw(random, 20);
	cut.pages = 1 + draw(random, 60);
	return cut;
}

static struct entry_point *points_of(const struct parse *p, const struct cut *cut)
{
	return want(calloc(entry_point_count(p, cut->interval), sizeof(struct entry_point)));
}

/* The same in order, by the reference. */
static int in_order(
	struct subject *s, struct file file, const struct cut *cut, struct entry_point *points)
{
	int reason = subject_init(
		s, file, &lanes_ref, &cut->crop, cut->whole ? cut->interval : 0, cut->whole);
	if (reason)
		return reason;
	if (cut->whole)
		subject_records(s, points, cut->interval);
	return feed_decode_one(&s->image, &lanes_ref);
}

static void in_chunks(struct file file, const struct lanes *lanes, const struct cut *cut,
	const struct subject *reference, int reason, const struct entry_point *wanted)
{
	struct subject s;
	struct chunked c;
	if (subject_init(&s, file, lanes, &cut->crop, 0, cut->whole)) {
		subject_deinit(&s);
		return;
	}
	struct entry_point *points = points_of(&s.parse, cut);
	if (cut->whole)
		subject_records(&s, points, cut->interval);
	c = chunked_init(&s, cut->count, cut->page_mcus, cut->whole);
	if (c.plan.bits && chunked_decode(&s, &c, lanes)) {
		size_t count = entry_point_count(&s.parse, cut->interval);
		if (reason)
			fail("takes what the reference refuses", lanes, &c);
		if (!chunked_same(&s, reference))
			fail("other blocks than the reference's", lanes, &c);
		if (cut->whole && memcmp(points, wanted, count * sizeof(*points)) != 0)
			fail("other entry points than the reference's", lanes, &c);
		figures.settled++;
	} else if (!reason) {
		figures.astray++;
	}
	figures.runs++;
	free(points);
	chunked_deinit(&c);
	subject_deinit(&s);
}

/* Part after part, compared with the reference unless that is NULL. False: one goes astray. */
static bool all_parts(struct subject *s, struct chunked *c, const struct lanes *lanes,
	const struct cut *cut, const struct subject *reference)
{
	const uint32_t need = c->plan.need, mcus = c->plan.mcus, across = s->parse.mcus_across;
	const uint32_t end = s->band.mcu_y0 + s->band.rows;
	struct blocks *band = &s->band;
	for (;;) {
		band->rows = end - band->mcu_y0;
		if (!chunked_part(s, c, lanes, cut->pages, need, mcus))
			return false;
		figures.parts++;
		uint32_t mcu = s->image.chunk_place.mcu;
		uint32_t y = mcu == need ? end : UTIL_MAX(mcu / across, band->mcu_y0);
		band->rows = y - band->mcu_y0;
		if (reference && !chunked_same(s, reference))
			fail("other blocks of a part than the reference's", lanes, c);
		band->mcu_y0 = y;
		if (mcu == need)
			return true;
	}
}

static void in_parts(struct file file, const struct lanes *lanes, const struct cut *cut,
	const struct subject *reference, int reason, const struct entry_point *wanted)
{
	struct subject s;
	if (subject_init(&s, file, lanes, &cut->crop, 0, cut->whole)) {
		subject_deinit(&s);
		return;
	}
	struct entry_point *points = points_of(&s.parse, cut);
	if (cut->whole)
		subject_records(&s, points, cut->interval);
	/* Each part cuts what is left anew. */
	uint32_t count = UTIL_MIN(cut->count, (uint32_t)PART_CHUNKS);
	struct chunked c = chunked_init(&s, count, cut->page_mcus, cut->whole);
	if (c.plan.bits && all_parts(&s, &c, lanes, cut, reason ? NULL : reference)) {
		if (reason)
			fail("takes in parts what the reference refuses", lanes, &c);
		size_t all = entry_point_count(&s.parse, cut->interval);
		if (cut->whole && memcmp(points, wanted, all * sizeof(*points)) != 0)
			fail("other entry points of parts than the reference's", lanes, &c);
		figures.whole++;
	} else if (!reason) {
		figures.broken++;
	}
	free(points);
	chunked_deinit(&c);
	subject_deinit(&s);
}

static void check(struct file file, const struct parse *parse, struct random *random)
{
	struct subject reference;
	struct cut cut = draw_cut(random, parse, 8 * (uint64_t)(file.size - parse->scan));
	struct entry_point *points = points_of(parse, &cut);
	int reason = in_order(&reference, file, &cut, points);
	figures.sound += !reason;
	if (!reason && cut.whole) {
		int16_t *expected = want(malloc(image_coefficients(parse) * sizeof(*expected)));
		if (libjpeg_coefficients(file, parse, expected) ||
			subject_differs(&reference, expected)) {
			(void)fprintf(stderr, "fuzz_chunks: the reference is not libjpeg's\n");
			abort();
		}
		free(expected);
	}
	for (unsigned i = 0; driver_at(i); i++) {
		in_chunks(file, driver_at(i), &cut, &reference, reason, points);
		in_parts(file, driver_at(i), &cut, &reference, reason, points);
	}
	subject_deinit(&reference);
	free(points);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct file file = {want(calloc(1, size + 64)), size};
	struct random random = {.state = 14695981039346656037u}; /* FNV-1a */
	struct parse parse;
	memcpy(file.bytes, data, size);
	for (size_t i = 0; i < size; i++)
		random.state = (random.state ^ data[i]) * 1099511628211u;
	if (!parse_read_single(file.bytes, size, &parse) && !parse.restart_mcus &&
		(uint64_t)parse.width * parse.height <= PIXELS_MOST) {
		figures.files++;
		check(file, &parse, &random);
	}
	free(file.bytes);
	return 0;
}

/* Kinds of files in which decoders get out of step, or stay so. */
static struct generate_kind draw_chunks_kind(struct random *random)
{
	struct generate_kind k = draw_kind(random);
	k.width = 16 + draw(random, 200);
	k.height = 16 + draw(random, 200);
	k.restart = one_in(random, 20) ? 1 + draw(random, 30) : 0;
	k.faulty = false;
	switch (draw(random, 6)) {
	case 0: /* every block has the same bits */
		k.style = BLOCKS_EMPTY;
		k.dc_most = 0;
		break;
	case 1: /* luma and chroma have the same codes */
		k.tables = 1;
		break;
	case 2: /* values of ones and zeros: stuffing everywhere */
		k.style = BLOCKS_FULL;
		k.ends = true;
		break;
	case 3: /* codes of nearly the same length */
		k.standard = false;
		k.long_codes = 4;
		break;
	default:
		break;
	}
	return k;
}

static size_t compose(uint8_t *bytes, size_t room, struct random *random)
{
	static struct generate g;
	g.random.state = random_64(random);
	g.kind = draw_chunks_kind(&g.random);
	generate_file(&g);
	for (unsigned faults = draw(random, 3) ? 0 : 1 + draw(random, 2); faults; faults--)
		generate_fault(&g);
	if (one_in(random, 12)) /* truncated, with an end of its own */
		g.size = g.scan + draw(random, (uint32_t)(g.size - g.scan));
	size_t size = UTIL_MIN(g.size, room);
	memcpy(bytes, g.bytes, size);
	return size;
}

static void end(void)
{
	(void)printf("%" PRIu64 " files, %" PRIu64 " of them sound to the crop's end; %" PRIu64
		     " times in chunks: %" PRIu64 " settled, %" PRIu64
		     " astray though sound; in %" PRIu64 " parts: %" PRIu64 " settled, %" PRIu64
		     " astray though sound\n",
		figures.files, figures.sound, figures.runs, figures.settled, figures.astray,
		figures.parts, figures.whole, figures.broken);
	if (figures.sound > 500 && figures.settled < figures.astray) {
		(void)fprintf(stderr, "fuzz_chunks: too many files go astray\n");
		exit(1);
	}
}

const struct drive fuzz_drive = {
	.name = "fuzz_chunks", .room = GENERATE_BYTES, .compose = compose, .end = end};

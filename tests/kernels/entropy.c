/* entropy: the first half of penstock's decoder, over real files.
 *
 *     kernels_entropy FILE...           every driver, fed in every way, gives libjpeg's
 *     coefficients kernels_entropy --bench FILE...   the CPU time of each way, next to
 *     libjpeg-turbo's when it
 *                                       skips all rows but the last
 *
 * Ways: `chain`: no entry points; `entries`: entered at entry points; both of the whole image, or
 * of a crop of 47 % in its middle. `images`: no entry points, many images in flight. Times for
 * `images` include parsing, tables and unstuffing. Files that the decoder leaves to libjpeg are
 * left out. */
#include "unit/decode/jpeg/coefficients.h"

#include "base/ticks.h"
#include "base/util.h"

enum {
	INTERVAL = 8, /* MCUs between entry points */
	SLOTS = 40, /* images in flight */
	SLOT_BLOCKS = 8 << 20, /* bytes of an image's blocks; larger images are left out */
	SLOT_BYTES = 1 << 20, /* the same for the file */
	/* From slot to slot: at a power of two, all lanes would compete for the same cache sets. */
	STRIDE_BLOCKS = SLOT_BLOCKS + 73 * 64,
	STRIDE_BYTES = SLOT_BYTES + 19 * 64,
	STRIDE_TABLES = (2 * BLOCKS_COMPONENTS * 4 << HUFFMAN_VALUE_BITS) + 5 * 64,
	RUNS_MOST = 1 << 18,
	BENCH_ROUNDS = 4, /* of all images in flight, so that the last ones' tail counts little */
};

enum way { CHAIN, ENTRIES, WAYS };
static const char *const way_names[WAYS] = {"chain", "entries"};

struct item {
	const char *path;
	struct file file;
	struct entry_point *points;
	uint32_t point_count;
	uint64_t symbols, bytes; /* of the whole scan, unstuffed */
	int16_t *expected; /* libjpeg's coefficients; NULL with --bench */
};

/* One stretch of memory for each kind of data that lanes use. */
struct desk {
	uint8_t *bytes;
	uint32_t *tables;
	int16_t *coefficients;
	uint32_t *where;
	struct mcu_plan_run *runs;
	struct unstuff_segment *segments;
	struct chunk *chunks;
	uint32_t *marks, *pages;
};

static void desk_free(const struct desk *desk)
{
	free(desk->bytes);
	free(desk->tables);
	free(desk->coefficients);
	free(desk->where);
	free(desk->runs);
	free(desk->segments);
}

struct times {
	uint64_t parse, tables, plan, unstuff, decode; /* ns */
};

static uint64_t lap(uint64_t *since)
{
	uint64_t now = clock_thread_cpu_ns(), time = now - *since;
	*since = now;
	return time;
}

static struct decode_region middle(const struct parse *p, bool crop)
{
	if (!crop)
		return (struct decode_region){0, 0, p->width, p->height};
	uint32_t x = p->width * 35 / 200, y = p->height * 13 / 100;
	return (struct decode_region){x, y, x + UTIL_MAX(p->width * 65 / 100, 1u),
		y + UTIL_MAX(p->height * 73 / 100, 1u)};
}

/* Decodes one image on the desk. *ret_band: where its blocks are. */
static int decode_item(const struct item *item, const struct lanes *lanes, enum way way, bool crop,
	const struct desk *desk, struct times *times, struct blocks *ret_band)
{
	struct parse parse;
	struct huffman huffman;
	size_t run_count, blocks;
	uint64_t since = clock_thread_cpu_ns();
	int reason = parse_read_single(item->file.bytes, item->file.size, &parse);
	times->parse += lap(&since);
	if (!reason)
		reason = huffman_build(&parse, lanes->kind, desk->tables, &huffman);
	times->tables += lap(&since);
	struct mcu_plan_request request = {.entries = 1};
	if (way == ENTRIES)
		request = (struct mcu_plan_request){
			.interval = INTERVAL, .entries = item->point_count};
	mcu_plan_blocks(&parse, middle(&parse, crop), ret_band);
	if (!reason)
		reason = mcu_plan_runs(&parse, ret_band, &request, desk->runs, RUNS_MOST,
			desk->where, &run_count, &blocks);
	times->plan += lap(&since);
	if (reason)
		return reason;
	struct feed_image image = {
		.parse = &parse,
		.huffman = &huffman,
		.runs = desk->runs,
		.run_count = run_count,
		.interval = request.interval,
		.bytes = desk->bytes,
		.segments = desk->segments,
		.segment_count = request.entries,
		.coefficients = desk->coefficients,
	};
	struct unstuff_found found;
	size_t written;
	if (way == ENTRIES) {
		image.entry_points = item->points;
		image.entry_point_count = item->point_count;
		reason = feed_unstuff(&image, lanes->unstuff, item->file.bytes, item->file.size,
			desk->bytes, desk->segments, item->point_count, &written);
	} else {
		reason = unstuff_scan(lanes->unstuff, desk->bytes, item->file.bytes + parse.scan,
			item->file.size - parse.scan, desk->segments, 1, &found);
	}
	times->unstuff += lap(&since);
	if (!reason)
		reason = feed_decode_one(&image, lanes);
	times->decode += lap(&since);
	ret_band->coefficients = desk->coefficients;
	ret_band->where = desk->where;
	return reason;
}

/* An image in flight. */
struct slot {
	struct parse parse;
	struct huffman huffman;
	struct feed_image image;
	struct unstuff_segment segment;
	struct desk desk;
	struct blocks band;
	struct chunk_plan plan;
	const struct item *item;
};

struct flight {
	struct item *items;
	size_t count, rounds, next, done, wrong, astray;
	const struct lanes *lanes;
	bool crop, chunks;
	struct slot slots[SLOTS];
};

static void board_chunks(struct slot *slot, bool crop)
{
	const struct parse *p = &slot->parse;
	const struct blocks *band = &slot->band;
	uint32_t mcus = p->mcus_across * p->mcus_down, need = mcus;
	if (crop)
		need = (band->mcu_y0 + band->rows - 1) * p->mcus_across + band->mcu_x0 +
		       band->columns;
	slot->plan = (struct chunk_plan){
		.chunk = slot->desk.chunks,
		.marks = slot->desk.marks,
		.next_page = slot->desk.pages,
		.bits = slot->segment.bytes * 8,
		.count = chunk_plan_count((uint64_t)slot->segment.bytes * 8, CHUNK_PLAN_BITS),
		.need = need,
		.mcus = mcus,
		.page_mcus = chunk_plan_page_mcus(p->in_mcu),
	};
	slot->plan.pages = chunk_plan_pages(slot->plan.count, need, slot->plan.page_mcus);
	chunk_plan_begin(&slot->plan);
	slot->image.chunks = &slot->plan;
	slot->image.band = band;
	slot->image.where = slot->desk.where;
}

static bool board(struct flight *flight, struct slot *slot, const struct item *item)
{
	struct parse *p = &slot->parse;
	struct unstuff_found found;
	struct mcu_plan_request request = {.entries = 1};
	size_t runs, blocks;
	if (parse_read_single(item->file.bytes, item->file.size, p) ||
		item->file.size > SLOT_BYTES ||
		image_coefficients(p) * sizeof(int16_t) > SLOT_BLOCKS / 2)
		return false;
	mcu_plan_blocks(p, middle(p, flight->crop), &slot->band);
	if (huffman_build(p, flight->lanes->kind, slot->desk.tables, &slot->huffman) ||
		unstuff_scan(flight->lanes->unstuff, slot->desk.bytes, item->file.bytes + p->scan,
			item->file.size - p->scan, &slot->segment, 1, &found) ||
		mcu_plan_runs(p, &slot->band, &request, slot->desk.runs, RUNS_MOST / SLOTS,
			slot->desk.where, &runs, &blocks))
		return false;
	slot->band.coefficients = slot->desk.coefficients;
	slot->band.where = slot->desk.where;
	slot->item = item;
	slot->image = (struct feed_image){
		.parse = p,
		.huffman = &slot->huffman,
		.runs = slot->desk.runs,
		.run_count = runs,
		.bytes = slot->desk.bytes,
		.segments = &slot->segment,
		.segment_count = 1,
		.coefficients = slot->desk.coefficients,
	};
	if (flight->chunks)
		board_chunks(slot, flight->crop);
	return true;
}

static struct feed_image *flight_more(void *context)
{
	struct flight *flight = context;
	struct slot *slot = flight->slots;
	while (slot->item)
		slot++;
	while (flight->next < flight->count * flight->rounds)
		if (board(flight, slot, &flight->items[flight->next++ % flight->count]))
			return &slot->image;
	return NULL;
}

/* Compares the wanted blocks; 0 when they are equal. */
static size_t differs(const struct parse *parse, const struct blocks *band, const int16_t *expected)
{
	struct subject s = {.parse = *parse, .band = *band};
	return expected ? subject_differs(&s, expected) : 0;
}

static void flight_done(void *context, struct feed_image *image)
{
	struct flight *flight = context;
	struct slot *slot = (struct slot *)((char *)image - offsetof(struct slot, image));
	flight->done++;
	if (image->astray)
		flight->astray++;
	else if (image->outcome || differs(&slot->parse, &slot->band, slot->item->expected)) {
		flight->wrong++;
		(void)printf("%s: %s, in flight: %s\n", slot->item->path, flight->lanes->name,
			stepback_name((enum stepback)image->outcome));
	}
	slot->item = NULL;
}

static struct flight *flight_new(struct item *items, size_t count, bool benching)
{
	struct flight *flight = want(calloc(1, sizeof(*flight)));
	uint8_t *tables = aligned((size_t)STRIDE_TABLES * SLOTS);
	uint8_t *bytes = aligned((size_t)STRIDE_BYTES * SLOTS);
	uint8_t *blocks = aligned((size_t)STRIDE_BLOCKS * SLOTS);
	flight->items = items;
	flight->count = count;
	flight->rounds = benching ? BENCH_ROUNDS : 1;
	memset(bytes, 0, (size_t)STRIDE_BYTES * SLOTS);
	for (size_t i = 0; i < SLOTS; i++) {
		flight->slots[i].desk = (struct desk){
			.bytes = bytes + i * STRIDE_BYTES,
			.tables = (uint32_t *)(tables + i * STRIDE_TABLES),
			.coefficients = (int16_t *)(blocks + i * STRIDE_BLOCKS),
			.where = want(malloc(SLOT_BLOCKS / 32)),
			.runs = want(malloc(RUNS_MOST / SLOTS * sizeof(struct mcu_plan_run))),
			.chunks = want(malloc(SLOT_BYTES / 256 * sizeof(struct chunk))),
			.marks = want(malloc(SLOT_BLOCKS / 16)),
			.pages = want(malloc(SLOT_BLOCKS / 32)),
		};
	}
	return flight;
}

static void flight_free(struct flight *flight)
{
	free(flight->slots[0].desk.tables);
	free(flight->slots[0].desk.bytes);
	free(flight->slots[0].desk.coefficients);
	for (size_t i = 0; i < SLOTS; i++) {
		free(flight->slots[i].desk.where);
		free(flight->slots[i].desk.runs);
		free(flight->slots[i].desk.chunks);
		free(flight->slots[i].desk.marks);
		free(flight->slots[i].desk.pages);
	}
	free(flight);
}

/* CPU nanoseconds. */
static uint64_t fly(struct flight *flight, const struct lanes *lanes, bool crop, bool chunks)
{
	struct feed feed = {.more = flight_more, .done = flight_done, .context = flight};
	flight->next = flight->done = 0;
	flight->lanes = lanes;
	flight->crop = crop;
	flight->chunks = chunks;
	flight->astray = 0;
	uint64_t since = clock_thread_cpu_ns();
	feed_decode(&feed, lanes);
	return lap(&since);
}

static void libjpeg_skip(const struct item *item)
{
	struct jpeg_decompress_struct cinfo;
	struct jpeg_error_mgr errors;
	cinfo.err = jpeg_std_error(&errors);
	jpeg_create_decompress(&cinfo);
	jpeg_mem_src(&cinfo, item->file.bytes, item->file.size);
	jpeg_read_header(&cinfo, TRUE);
	jpeg_start_decompress(&cinfo);
	jpeg_skip_scanlines(&cinfo, cinfo.output_height - 1);
	JSAMPROW row = want(malloc((size_t)cinfo.output_width * 3));
	jpeg_read_scanlines(&cinfo, &row, 1);
	free(row);
	jpeg_finish_decompress(&cinfo);
	jpeg_destroy_decompress(&cinfo);
}

/* DC and AC symbols, including the ends of blocks: the unit for ticks per symbol. */
static uint64_t count_symbols(const struct subject *s)
{
	uint64_t symbols = 0;
	size_t mcus = (size_t)s->band.rows * s->band.columns;
	for (size_t b = 0; b < mcus * s->parse.in_mcu; b++) {
		const int16_t *block =
			s->coefficients +
			(s->where[b / s->parse.in_mcu] + b % s->parse.in_mcu) * (size_t)BLOCKS_SIZE;
		int last = 0;
		for (int k = 1; k < BLOCKS_SIZE; k++) {
			if (!block[k])
				continue;
			symbols += 1 + (unsigned)(k - last - 1) / 16;
			last = k;
		}
		symbols += 1 + (last < BLOCKS_SIZE - 1);
	}
	return symbols;
}

/* False for a file that is left to libjpeg. */
static bool prepare(struct item *item, bool bench)
{
	struct subject s;
	item->file = file_read(item->path);
	bool taken = !subject_init(&s, item->file, &lanes_c, NULL, INTERVAL, true) &&
		     !s.parse.restart_mcus;
	if (taken) {
		item->point_count = entry_point_count(&s.parse, INTERVAL);
		item->points = want(calloc(item->point_count, sizeof(*item->points)));
		subject_records(&s, item->points, INTERVAL);
		taken = !feed_decode_one(&s.image, &lanes_c);
	}
	if (taken) {
		taken = entry_point_settle(
			item->file.bytes, item->file.size, item->points, 0, item->point_count);
		item->symbols = count_symbols(&s);
		item->bytes = s.found.bytes;
	}
	if (taken && !bench) {
		item->expected =
			want(malloc(image_coefficients(&s.parse) * sizeof(*item->expected)));
		taken = !libjpeg_coefficients(item->file, &s.parse, item->expected);
	}
	subject_deinit(&s);
	return taken;
}

static void release(struct item *item)
{
	free(item->file.bytes);
	free(item->points);
	free(item->expected);
}

/* Every driver and way over one file; returns how many were wrong. */
static int verify(const struct item *item, const struct desk *desk)
{
	int wrong = 0;
	for (unsigned i = 0; lanes_at(i); i++)
		for (unsigned w = 0; w < 2 * WAYS; w++) {
			struct times unused = {0};
			struct blocks band;
			struct parse parse;
			int reason = decode_item(
				item, lanes_at(i), w % WAYS, w / WAYS, desk, &unused, &band);
			if (!reason &&
				!parse_read_single(item->file.bytes, item->file.size, &parse) &&
				!differs(&parse, &band, item->expected))
				continue;
			(void)printf("%s: %s, %s%s: %s\n", item->path, lanes_at(i)->name,
				way_names[w % WAYS], w / WAYS ? " of a crop" : "",
				stepback_name((enum stepback)reason));
			wrong++;
		}
	return wrong;
}

struct totals {
	size_t images;
	double bytes, symbols, ticks_per_ns;
	double libjpeg_ns; /* per image */
};

static void show(const struct totals *t, const char *name, const char *way, bool crop, double ns)
{
	(void)printf("%-7s %-8s %-5s %7.1f us/image  %6.0f images/s  %5.2f x libjpeg", name, way,
		crop ? "crop" : "whole", ns / 1e3, 1e9 / ns, t->libjpeg_ns / ns);
	if (!crop)
		(void)printf("  %6.2f ticks/symbol %6.0f MB/s",
			ns * t->ticks_per_ns / (t->symbols / (double)t->images),
			t->bytes / (double)t->images / ns * 1e3);
	(void)printf("\n");
}

static void bench_way(const struct item *items, const struct totals *t, const struct lanes *lanes,
	enum way way, bool crop, const struct desk *desk)
{
	struct times sum = {0};
	struct blocks band;
	for (size_t i = 0; i < t->images; i++)
		(void)decode_item(&items[i], lanes, way, crop, desk, &sum, &band);
	double n = (double)t->images;
	show(t, lanes->name, way_names[way], crop, (double)sum.decode / n);
	(void)printf("        parse %.1f, tables %.1f, plan %.1f, unstuff %.1f us/image\n",
		(double)sum.parse / n / 1e3, (double)sum.tables / n / 1e3,
		(double)sum.plan / n / 1e3, (double)sum.unstuff / n / 1e3);
}

static void bench(struct item *items, size_t count, const struct desk *desk, struct flight *flight)
{
	struct totals t = {.images = count, .ticks_per_ns = ticks_per_ns()};
	uint64_t since = clock_thread_cpu_ns();
	for (size_t i = 0; i < count; i++) {
		libjpeg_skip(&items[i]);
		t.bytes += (double)items[i].bytes;
		t.symbols += (double)items[i].symbols;
	}
	t.libjpeg_ns = (double)lap(&since) / (double)count;
	(void)printf("%zu images, %.0f bytes and %.0f symbols each\n", count,
		t.bytes / (double)count, t.symbols / (double)count);
	show(&t, "libjpeg", "skip", false, t.libjpeg_ns);
	for (unsigned i = 0; lanes_at(i); i++) {
		const struct lanes *lanes = lanes_at(i);
		for (unsigned w = 0; w < 2 * WAYS; w++)
			if (w % WAYS != CHAIN || lanes_for(lanes, 1) == lanes)
				bench_way(items, &t, lanes, w % WAYS, w / WAYS, desk);
		for (int way = 0; way < 4; way++) {
			bool chunks = way / 2;
			const struct lanes *by = chunks && lanes->chunks ? lanes->chunks : lanes;
			double ns = (double)fly(flight, by, way % 2, chunks);
			show(&t, lanes->name, chunks ? "chunks" : "images", way % 2,
				ns / (double)flight->done);
			if (chunks)
				(void)printf("        %zu astray\n", flight->astray);
		}
	}
}

int main(int argc, char **argv)
{
	bool benching = argc > 1 && strcmp(argv[1], "--bench") == 0;
	int first = 1 + benching, wrong = 0;
	size_t count = 0, astray = 0;
	struct item *items = want(calloc((size_t)argc, sizeof(*items)));
	struct desk desk = {
		.bytes = aligned(64 << 20),
		.tables = aligned(STRIDE_TABLES),
		.coefficients = aligned(256 << 20),
		.where = aligned(16 << 20),
		.runs = want(malloc(RUNS_MOST * sizeof(struct mcu_plan_run))),
		.segments = aligned(16 << 20),
	};
	memset(desk.bytes, 0, 64 << 20);
	for (int i = first; i < argc; i++) {
		items[count].path = argv[i];
		if (prepare(&items[count], benching))
			count++;
		else
			release(&items[count]);
	}
	struct flight *flight = flight_new(items, count, benching);
	for (size_t i = 0; i < count && !benching; i++)
		wrong += verify(&items[i], &desk);
	for (unsigned i = 0; lanes_at(i) && !benching; i++)
		for (int way = 0; way < 4; way++) {
			const struct lanes *lanes = lanes_at(i);
			if (way / 2 && lanes->chunks)
				lanes = lanes->chunks;
			(void)fly(flight, lanes, way % 2, way / 2);
			astray += flight->astray;
		}
	if (benching)
		bench(items, count, &desk, flight);
	bool failed = wrong || flight->wrong || (argc > first && !count);
	(void)printf("%s%zu of %d files, %zu wrong, %zu times astray in chunks\n",
		getenv("PENSTOCK_TEST_NIGHTLY") && !failed ? "promise: " : "", count, argc - first,
		flight->wrong + (size_t)wrong, astray);
	flight_free(flight);
	for (size_t i = 0; i < count; i++)
		release(&items[i]);
	free(items);
	desk_free(&desk);
	return failed;
}

/* planes_kernels: every table against plain C, on random and extreme values, at every length, at
 * the edge of forbidden pages; and the verdict on odd blocks, against libjpeg-turbo's SIMD and its
 * C.
 *
 *   --bench [FILES]    instead: time per block and per pixel of each table and of libjpeg-turbo,
 *                      over FILES files of ImageNet (200) */
#include "unit/decode/jpeg/planes_images.h"
#include "unit/sparse.h"

#include "decode/jpeg/kernels/planes_kernels.h"

#include "base/ticks.h"

#include <errno.h>
#include <glob.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUND = PLANES_GRAIN, ROW_MOST = 200, PAGE = 4096 };

/* A row of `bytes` that ends at a forbidden page. */
static uint8_t *row_new(size_t bytes)
{
	size_t room = util_align(bytes + PAGE, PAGE);
	uint8_t *base =
		mmap(NULL, room + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(base, MAP_FAILED);
	assert_int_equal(mprotect(base + room, PAGE, PROT_NONE), 0);
	return base + room - bytes;
}

static void row_free(uint8_t *row, size_t bytes)
{
	size_t room = util_align(bytes + PAGE, PAGE);
	assert_int_equal(munmap(row + bytes - room, room + PAGE), 0);
}

static void row_fill(uint8_t *row, size_t bytes, uint32_t *random)
{
	uint32_t kind = random_below(random, 4);
	for (size_t i = 0; i < bytes; i++) {
		uint32_t value = random_next(random);
		row[i] = (uint8_t)(kind == 0 ? (value & 1) * 255 : value >> 8);
	}
}

/* A row kernel under test: outputs of `factor` bytes per sample. */
struct row_call {
	const struct planes_kernels *table;
	int which;
	size_t count;
};

enum { WIDER, BETWEEN_ABOVE, BETWEEN_BELOW, BOTH, PLANAR, ROW_KERNELS };
static const int row_factor[ROW_KERNELS] = {2, 1, 1, 2, 1};

static void row_run(const struct row_call *call, uint8_t *const to[3], uint8_t *const from[3])
{
	const struct planes_kernels *k = call->table;
	const uint8_t *const in[3] = {from[0] + 1, from[1] + 1, from[2] + 1};
	switch (call->which) {
	case WIDER:
		k->wider(to[0], in[0], call->count);
		break;
	case BETWEEN_ABOVE:
	case BETWEEN_BELOW:
		k->between(to[0], in[0], in[1], call->which == BETWEEN_ABOVE ? 1 : 2, call->count);
		break;
	case BOTH:
		k->both(to[0], in[0], in[1], call->count);
		break;
	default:
		k->planar(to, in, call->count);
		break;
	}
}

/* One kernel at one length: the table's bytes equal C's, and the bytes before the row stay. */
static void row_check(struct row_call *call, uint32_t *random)
{
	size_t rounded = util_align(call->count, ROUND), in_bytes = rounded + 2;
	size_t out_bytes = rounded * (size_t)row_factor[call->which];
	uint8_t *from[3], *to[3], *want[3];
	for (int c = 0; c < 3; c++) {
		from[c] = row_new(in_bytes);
		row_fill(from[c], in_bytes, random);
		to[c] = row_new(out_bytes);
		want[c] = row_new(out_bytes);
	}
	row_run(call, to, from);
	row_run(&(struct row_call){&planes_kernels_c, call->which, call->count}, want, from);
	for (int c = 0; c < (call->which == PLANAR ? 3 : 1); c++) {
		assert_memory_equal(to[c], want[c], call->count * (size_t)row_factor[call->which]);
		for (int i = 1; i <= 64; i++)
			assert_int_equal(to[c][-i], 0);
	}
	for (int c = 0; c < 3; c++) {
		row_free(from[c], in_bytes);
		row_free(to[c], out_bytes);
		row_free(want[c], out_bytes);
	}
}

static void rows_of_every_length(void **state)
{
	(void)state;
	uint32_t random = 5;
	for (unsigned i = 0; planes_kernels_at(i); i++)
		for (int which = 0; which < ROW_KERNELS; which++)
			for (size_t count = 1; count <= ROW_MOST; count++)
				row_check(&(struct row_call){planes_kernels_at(i), which, count},
					&random);
}

/* Splitting must not touch a byte outside its rows: here each ends at a forbidden page. */
static void splits_of_every_length(void **state)
{
	(void)state;
	uint32_t random = 6;
	for (unsigned i = 0; planes_kernels_at(i); i++)
		for (size_t count = 1; count <= ROW_MOST; count++) {
			uint8_t *from = row_new(3 * count), *to[3];
			row_fill(from, 3 * count, &random);
			for (int c = 0; c < 3; c++)
				to[c] = row_new(count);
			planes_kernels_at(i)->split(to, from, count);
			for (size_t x = 0; x < 3 * count; x++)
				assert_int_equal(to[x % 3][x / 3], from[x]);
			for (int c = 0; c < 3; c++)
				row_free(to[c], count);
			row_free(from, 3 * count);
		}
}

/* All 2^24 colors. */
static void every_color(void **state)
{
	(void)state;
	static uint8_t y[256], want[3][256], got[3][256];
	for (int i = 0; i < 256; i++)
		y[i] = (uint8_t)i;
	for (unsigned i = 1; planes_kernels_at(i); i++)
		for (uint32_t chroma = 0; chroma < 65536; chroma += sparse()) {
			uint8_t cb[256], cr[256];
			memset(cb, chroma >> 8, sizeof(cb));
			memset(cr, chroma & 255, sizeof(cr));
			const uint8_t *const from[3] = {y, cb, cr};
			planes_kernels_c.planar(
				(uint8_t *const[]){want[0], want[1], want[2]}, from, 256);
			planes_kernels_at(i)->planar(
				(uint8_t *const[]){got[0], got[1], got[2]}, from, 256);
			assert_memory_equal(got, want, sizeof(got));
		}
}

/* Values that encoders make, any values, or the ends of the range. */
static int16_t random_coefficient(uint32_t *random, uint32_t style)
{
	static const int16_t ends[] = {INT16_MIN, INT16_MAX, -1, 1, 0, -32767, 16384, -16384};
	uint32_t value = random_next(random);
	switch (style % 4) {
	case 0:
		return (int16_t)(value % 64) - 32;
	case 1:
		return (int16_t)((int)(value % 2047) - 1023);
	case 2:
		return (int16_t)(uint16_t)(value >> 8);
	default:
		return ends[value % UTIL_COUNT(ends)];
	}
}

/* In zigzag order; `used` coefficients, of which some are 0. */
static void random_block(int16_t block[64], uint32_t *random, uint32_t style)
{
	static const int lengths[] = {0, 1, 2, 9, 10, 11, 16, 17, 32, 33, 63, 64};
	int used = lengths[random_below(random, UTIL_COUNT(lengths))];
	memset(block, 0, 64 * sizeof(*block));
	for (int k = 0; k < used; k++)
		if (random_next(random) % 4)
			block[k] = random_coefficient(random, style);
}

static void set_quant(struct planes_quant *quant, const uint8_t zigzag[64])
{
	quant->fits = true;
	for (int k = 0; k < 64; k++) {
		int limit = zigzag[k] ? INT16_MAX / zigzag[k] : UINT16_MAX;
		quant->step[planes_ready_order[k]] = zigzag[k];
		quant->limit[planes_ready_order[k]] = (uint16_t)limit;
		quant->fits &= limit >= (k ? BLOCKS_AC : BLOCKS_DC);
	}
}

/* For values outside the limits of blocks.h, every product must be checked: `promised` is false. */
static void random_quant(
	struct planes_quant *quant, uint32_t *random, uint32_t style, bool promised)
{
	static const uint32_t most[] = {256, 4, 40, 17};
	uint8_t zigzag[64];
	for (int k = 0; k < 64; k++)
		zigzag[k] = (uint8_t)(random_next(random) % most[style % 4]);
	set_quant(quant, zigzag);
	quant->fits &= promised;
}

enum { BLOCKS_MOST = 9 };

/* Checks the transforms to fewer pixels, with `count` blocks in ready order. Returns whether one
 * was odd. */
static bool smaller_check(const struct planes_kernels *table, const int16_t *const *from,
	size_t count, const struct planes_quant *quant)
{
	static uint8_t pixels[6][64], expected[6][64];
	bool any = false;
	for (int i = 0; i < PLANES_SMALLER; i++) {
		memset(pixels, 0x55, sizeof(pixels));
		memset(expected, 0x55, sizeof(expected));
		bool odd = table->smaller[i](pixels[1] + 8, sizeof(pixels[0]), from, count, quant);
		bool odd_c = planes_kernels_c.smaller[i](
			expected[1] + 8, sizeof(expected[0]), from, count, quant);
		assert_int_equal(odd, odd_c);
		assert_memory_equal(pixels, expected, sizeof(pixels));
		any |= odd;
	}
	return any;
}

/* `count` blocks by one table and by C: same kinds, same order, same pixels, same verdict, and no
 * byte outside them is written. */
static bool blocks_check(
	const struct planes_kernels *table, size_t count, uint32_t *random, unsigned *smaller_odd)
{
	static _Alignas(64) int16_t block[BLOCKS_MOST][64], got[BLOCKS_MOST][64],
		want[BLOCKS_MOST][64];
	static uint8_t pixels[10][128], expected[10][128];
	const int16_t *from[BLOCKS_MOST];
	uint8_t kinds[BLOCKS_MOST + 1] = {0}, kinds_c[BLOCKS_MOST];
	struct planes_quant quant;
	uint32_t style = random_next(random) >> 8;
	for (size_t i = 0; i < count; i++) {
		random_block(block[i], random, style);
		from[i] = block[i];
	}
	random_quant(&quant, random, style / 64, style % 4 < 2);
	memset(got, 0x11, sizeof(got));
	memset(want, 0x11, sizeof(want));
	memset(pixels, 0x22, sizeof(pixels));
	memset(expected, 0x22, sizeof(expected));
	kinds[count] = 0x33;
	table->sort(got, kinds, from, count);
	planes_kernels_c.sort(want, kinds_c, from, count);
	assert_memory_equal(got, want, sizeof(got));
	assert_memory_equal(kinds, kinds_c, count);
	assert_int_equal(kinds[count], 0x33);
	for (size_t i = 0; i < count; i++)
		from[i] = got[i];
	bool odd = table->transform(pixels[1] + 8, sizeof(pixels[0]), from, kinds, count, &quant);
	bool odd_c = planes_kernels_c.transform(
		expected[1] + 8, sizeof(expected[0]), from, kinds, count, &quant);
	assert_int_equal(odd, odd_c);
	assert_memory_equal(pixels, expected, sizeof(pixels));
	*smaller_odd += smaller_check(table, from, count, &quant);
	return odd;
}

static void blocks_of_every_value(void **state)
{
	(void)state;
	uint32_t random = 99;
	for (unsigned i = 1; planes_kernels_at(i); i++) {
		unsigned odd = 0, smaller = 0, runs = 60000 / sparse();
		for (unsigned n = 0; n < runs; n++)
			odd += blocks_check(
				planes_kernels_at(i), 1 + n % BLOCKS_MOST, &random, &smaller);
		/* Both verdicts must occur often enough. */
		assert_in_range(odd, runs / 20, runs - runs / 20);
		assert_in_range(smaller, runs / 20, runs - runs / 20);
	}
}

/* Makes a gray JPEG of `count` blocks side by side, with the caller's coefficients. */
static unsigned long write_blocks(
	unsigned char **ret, int16_t (*blocks)[64], uint32_t count, const uint8_t quant[64])
{
	struct jpeg_compress_struct cinfo;
	struct jpeg_error_mgr errors;
	unsigned long size = 0;
	*ret = NULL;
	cinfo.err = jpeg_std_error(&errors);
	jpeg_create_compress(&cinfo);
	jpeg_mem_dest(&cinfo, ret, &size);
	cinfo.image_width = count * 8;
	cinfo.image_height = 8;
	cinfo.input_components = 1;
	cinfo.in_color_space = JCS_GRAYSCALE;
	jpeg_set_defaults(&cinfo);
	unsigned table[64];
	for (int k = 0; k < 64; k++)
		table[zigzag_to_natural[k]] = quant[k];
	jpeg_add_quant_table(&cinfo, 0, table, 100, FALSE);
	cinfo.optimize_coding = TRUE;
	jvirt_barray_ptr array = cinfo.mem->request_virt_barray(
		(j_common_ptr)&cinfo, JPOOL_IMAGE, TRUE, count, 1, 1);
	jpeg_write_coefficients(&cinfo, &array);
	JBLOCKARRAY row = cinfo.mem->access_virt_barray((j_common_ptr)&cinfo, array, 0, 1, TRUE);
	for (uint32_t i = 0; i < count; i++)
		for (int k = 0; k < 64; k++)
			row[0][i][zigzag_to_natural[k]] = blocks[i][k];
	jpeg_finish_compress(&cinfo);
	jpeg_destroy_compress(&cinfo);
	return size;
}

enum { VERDICT_BLOCKS = 4096 };

/* Decodes by libjpeg-turbo, with its C code if `plain`; in a child process, since libjpeg-turbo
 * reads the variable only once. */
static void child_decode(
	int16_t (*blocks)[64], const uint8_t quant[64], uint8_t *shared, bool plain)
{
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct image image;
		unsigned char *data;
		(void)setenv("JSIMD_FORCENONE", plain ? "1" : "0", 1);
		unsigned long size = write_blocks(&data, blocks, VERDICT_BLOCKS, quant);
		if (!image_read(data, size, 0, false, &image))
			_exit(1);
		for (size_t i = 0; i < (size_t)image.frame.width * 8; i++)
			shared[i] = image.rgb[3 * i];
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* Blocks near and beyond the limits: amplitudes from usual ones to the greatest in a file. */
static void verdict_blocks(int16_t (*blocks)[64], const uint8_t quant[64], uint32_t *random)
{
	for (int i = 0; i < VERDICT_BLOCKS; i++) {
		int used = 1 + (int)random_below(random, i % 2 ? 64 : 6);
		int reach = 100 << random_below(random, 10);
		memset(blocks[i], 0, sizeof(blocks[i]));
		for (int k = 0; k < used; k++) {
			int most = UTIL_MIN(reach / (quant[k] ? quant[k] : 1), 1023);
			blocks[i][k] =
				(int16_t)((int)random_below(random, 2 * (uint32_t)most + 1) - most);
		}
	}
}

/* For blocks that are not odd, libjpeg-turbo's SIMD, its C and these kernels agree. */
static void verdict_check(
	int16_t (*blocks)[64], const uint8_t zigzag[64], unsigned *odd, unsigned *differ)
{
	size_t bytes = VERDICT_BLOCKS * 64;
	uint8_t *shared =
		mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	child_decode(blocks, zigzag, shared, false);
	child_decode(blocks, zigzag, shared + bytes, true);
	struct planes_quant quant;
	set_quant(&quant, zigzag);
	for (size_t i = 0; i < VERDICT_BLOCKS; i++) {
		_Alignas(64) int16_t ready[1][64];
		uint8_t kind, pixels[8][8];
		bool same = true, equal = true;
		planes_kernels_c.sort(ready, &kind, (const int16_t *const[]){blocks[i]}, 1);
		bool is_odd = planes_kernels_block(pixels, ready[0], &quant);
		for (size_t y = 0; y < 8; y++) {
			size_t at = y * VERDICT_BLOCKS * 8 + i * 8;
			same &= memcmp(shared + at, shared + bytes + at, 8) == 0;
			equal &= memcmp(shared + at, pixels[y], 8) == 0;
		}
		assert_true(is_odd || (same && equal));
		*odd += is_odd;
		*differ += !same;
	}
	assert_int_equal(munmap(shared, 2 * bytes), 0);
}

static void verdicts(void **state)
{
	(void)state;
	static _Alignas(64) int16_t blocks[VERDICT_BLOCKS][64];
	unsigned odd = 0, differ = 0;
	uint32_t random = 31;
	for (int round = 0; round < 12; round++) {
		uint8_t quant[64];
		for (int k = 0; k < 64; k++)
			quant[k] = (uint8_t)(1 + random_below(&random, round % 3 ? 255 : 20));
		verdict_blocks(blocks, quant, &random);
		verdict_check(blocks, quant, &odd, &differ);
	}
	print_message("%u blocks: libjpeg-turbo's SIMD and C differ in %u, %u are odd\n",
		12 * VERDICT_BLOCKS, differ, odd);
	assert_true(differ > 0);
	assert_in_range(odd, differ, 12 * VERDICT_BLOCKS * 9 / 10);
}

static void unknown_tables(void **state)
{
	(void)state;
	const struct planes_kernels *table = NULL;
	struct fault fault;
	assert_int_equal(setenv("PENSTOCK_KERNELS", "mmx", 1), 0);
	assert_int_equal(planes_kernels_choose(&table, &fault), -EINVAL);
	assert_null(table);
	assert_non_null(strstr(fault.text, "mmx"));
	for (unsigned i = 0; planes_kernels_at(i); i++) {
		assert_int_equal(setenv("PENSTOCK_KERNELS", planes_kernels_at(i)->name, 1), 0);
		assert_int_equal(planes_kernels_choose(&table, &fault), 0);
		assert_ptr_equal(table, planes_kernels_at(i));
	}
	assert_int_equal(unsetenv("PENSTOCK_KERNELS"), 0);
	assert_int_equal(planes_kernels_choose(&table, &fault), 0);
	assert_non_null(table);
}

/* ---- --bench ---- */

enum { BENCH_TABLES = 3, BENCH_TIMES = 4 };

struct bench_sums {
	double sort, transform, planar; /* ns, of the best of a few */
};

struct bench {
	uint64_t files, blocks, pixels;
	struct bench_sums table[BENCH_TABLES];
	double libjpeg_transform, libjpeg_all;
};

static double bench_best(double best, uint64_t start_ns)
{
	double ns = (double)(clock_ns() - start_ns);
	return best == 0 || ns < best ? ns : best;
}

enum bench_step { STEP_SORT, STEP_BOTH, STEPS };

/* All blocks of the image in the order of memory, a batch at a time, without the ring. */
static void bench_step(const struct planes_kernels *table, const struct image *image,
	const struct planes_quant *quant, enum bench_step step)
{
	enum { BATCH = 32 };
	static _Alignas(64) int16_t sorted[BATCH][64];
	static uint8_t pixels[8][BATCH * 8];
	const struct blocks *b = &image->blocks;
	size_t count = (size_t)b->columns * b->rows * b->in_mcu;
	for (size_t i = 0; i + BATCH <= count; i += BATCH) {
		const int16_t *from[BATCH];
		uint8_t kinds[BATCH];
		for (int j = 0; j < BATCH; j++)
			from[j] = b->coefficients + (i + (size_t)j) * 64;
		table->sort(sorted, kinds, from, BATCH);
		if (step == STEP_SORT)
			continue;
		for (int j = 0; j < BATCH; j++)
			from[j] = sorted[j];
		(void)table->transform(pixels[0], sizeof(pixels[0]), from, kinds, BATCH, quant);
	}
}

static void bench_blocks(
	const struct planes_kernels *table, const struct image *image, struct bench_sums *sums)
{
	struct planes_quant quant;
	set_quant(&quant, image->quant[0]);
	double best[STEPS] = {0};
	for (int i = 0; i < STEPS * BENCH_TIMES; i++) {
		uint64_t start = clock_ns();
		bench_step(table, image, &quant, (enum bench_step)(i % STEPS));
		best[i % STEPS] = bench_best(best[i % STEPS], start);
	}
	sums->sort += best[STEP_SORT];
	sums->transform += best[STEP_BOTH] - best[STEP_SORT];
}

static void bench_drop(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	(void)context, (void)rgb;
}

/* From blocks to rows. */
static double bench_rows(struct planes *planes, const struct image *image)
{
	struct decode_region all = {0, 0, image->frame.width, image->frame.height};
	struct planes_mcus mcus;
	double best = 0;
	for (int i = 0; i < BENCH_TIMES; i++) {
		uint64_t start = clock_ns();
		if (planes_begin(planes, &image->frame, all, &mcus) != 0)
			return 0;
		for (uint32_t y = mcus.y0; y < mcus.y1; y++) {
			(void)planes_blocks(planes, y, &image->blocks);
			planes_rows(planes, bench_drop, NULL);
		}
		best = bench_best(best, start);
	}
	return best;
}

/* One output pass of libjpeg-turbo from coefficients that it has decoded already. */
static double bench_pass(struct jpeg_decompress_struct *cinfo, bool raw)
{
	static uint8_t row[3 * 65536], planes[3][4 * 8][65536 + 64];
	JSAMPROW rows[3][4 * 8], line = row;
	JSAMPARRAY arrays[3] = {rows[0], rows[1], rows[2]};
	for (int c = 0; c < 3; c++)
		for (int y = 0; y < 4 * 8; y++)
			rows[c][y] = planes[c][y];
	uint64_t start = clock_ns();
	(void)jpeg_start_output(cinfo, cinfo->input_scan_number);
	while (cinfo->output_scanline < cinfo->output_height)
		if (raw)
			(void)jpeg_read_raw_data(
				cinfo, arrays, 8 * (JDIMENSION)cinfo->max_v_samp_factor);
		else
			(void)jpeg_read_scanlines(cinfo, &line, 1);
	double ns = (double)(clock_ns() - start);
	(void)jpeg_finish_output(cinfo);
	return ns;
}

static double bench_libjpeg(const uint8_t *data, size_t size, bool raw)
{
	struct jpeg_decompress_struct cinfo;
	struct jpeg_error_mgr errors;
	cinfo.err = jpeg_std_error(&errors);
	jpeg_create_decompress(&cinfo);
	jpeg_mem_src(&cinfo, data, size);
	(void)jpeg_read_header(&cinfo, TRUE);
	cinfo.buffered_image = TRUE;
	cinfo.do_block_smoothing = FALSE;
	cinfo.raw_data_out = raw;
	if (!raw)
		cinfo.out_color_space = JCS_RGB;
	(void)jpeg_start_decompress(&cinfo);
	while (jpeg_consume_input(&cinfo) != JPEG_REACHED_EOI)
		;
	double best = 0;
	for (int i = 0; i < BENCH_TIMES; i++) {
		double ns = bench_pass(&cinfo, raw);
		best = best == 0 || ns < best ? ns : best;
	}
	jpeg_destroy_decompress(&cinfo);
	return best;
}

static void bench_file(struct bench *bench, struct planes *const *planes, const char *path)
{
	struct image image;
	size_t size;
	uint8_t *data = read_file(path, &size);
	if (data && image_read(data, size, 0, false, &image)) {
		const struct blocks *b = &image.blocks;
		bench->files++;
		bench->blocks += (uint64_t)b->columns * b->rows * b->in_mcu;
		bench->pixels += (uint64_t)image.frame.width * image.frame.height;
		for (unsigned i = 0; planes_kernels_at(i) && i < BENCH_TABLES; i++) {
			struct bench_sums *sums = &bench->table[i];
			bench_blocks(planes_kernels_at(i), &image, sums);
			sums->planar += bench_rows(planes[i], &image);
		}
		bench->libjpeg_transform += bench_libjpeg(data, size, true);
		bench->libjpeg_all += bench_libjpeg(data, size, false);
		image_free(&image);
	}
	free(data);
}

static void bench_print(const struct bench *b)
{
	double files = (double)b->files, rate = ticks_per_ns();
	printf("%llu files, %.0f blocks and %.3f MP each\n", (unsigned long long)b->files,
		(double)b->blocks / files, (double)b->pixels / files / 1e6);
	double blocks = (double)b->blocks / rate, pixels = (double)b->pixels / rate;
	printf("%-14s %9s %9s %9s | %10s | %10s\n", "", "sort", "transform", "both", "rows", "all");
	printf("%-14s %29s | %10s | %10s\n", "", "ticks per block", "/pixel", "ms/image");
	for (unsigned i = 0; planes_kernels_at(i) && i < BENCH_TABLES; i++) {
		const struct bench_sums *s = &b->table[i];
		double both = s->sort + s->transform;
		printf("%-14s %9.2f %9.2f %9.2f | %10.3f | %10.4f\n", planes_kernels_at(i)->name,
			s->sort / blocks, s->transform / blocks, both / blocks,
			(s->planar - both) / pixels, s->planar / files / 1e6);
	}
	printf("%-14s %9s %9s %9.2f | %10.3f | %10.4f\n", "libjpeg-turbo", "", "",
		b->libjpeg_transform / blocks, (b->libjpeg_all - b->libjpeg_transform) / pixels,
		b->libjpeg_all / files / 1e6);
}

static int bench_main(unsigned long most)
{
	struct planes *planes[BENCH_TABLES] = {NULL};
	struct bench bench = {0};
	struct fault fault;
	glob_t found;
	if (glob(PENSTOCK_PHOTOGRAPHS "/*.JPEG", 0, NULL, &found) != 0) {
		printf("no files in %s\n", PENSTOCK_PHOTOGRAPHS);
		return 77;
	}
	for (unsigned i = 0; planes_kernels_at(i) && i < BENCH_TABLES; i++) {
		(void)setenv("PENSTOCK_KERNELS", planes_kernels_at(i)->name, 1);
		if (planes_new(&planes[i], &fault) < 0)
			return 1;
	}
	for (size_t i = 0; i < found.gl_pathc && bench.files < most; i++)
		bench_file(&bench, planes, found.gl_pathv[i]);
	bench_print(&bench);
	for (unsigned i = 0; i < BENCH_TABLES; i++)
		planes_free(planes[i]);
	globfree(&found);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_of_every_length),
		cmocka_unit_test(splits_of_every_length),
		cmocka_unit_test(every_color),
		cmocka_unit_test(blocks_of_every_value),
		cmocka_unit_test(verdicts),
		cmocka_unit_test(unknown_tables),
	};
	if (argc > 1 && strcmp(argv[1], "--bench") == 0)
		return bench_main(argc > 2 ? strtoul(argv[2], NULL, 10) : 200);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

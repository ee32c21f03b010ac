/* jpegmem: see jpegmem.h. The contract of the methods is libjpeg's (libjpeg.txt, "Memory
 * management"; the rounding of rows to twice the SIMD alignment is libjpeg-turbo's, whose kernels
 * write up to there). */
#include "decode/jpegmem.h"

#include "base/util.h"
#include "base/whole.h"

#include <jerror.h>
#include <string.h>

/* A whole-image array of coefficient blocks. Rows are cleared at their first access.
 *
 * Where the image spills, the first `kept` rows stay in memory, and the others take turns in a ring
 * of as many rows as libjpeg looks at together. A row that leaves the ring is written to the file.
 * Its sum stays in memory: a file that gives back other bytes is an error, never another image. */
struct jvirt_barray_control {
	JBLOCKARRAY row; /* all rows, or those of the last access where the image spills */
	JDIMENSION blocks, rows, access, cleared;
	struct jvirt_barray_control *next;
	/* Where the image spills: */
	JBLOCKROW block; /* the kept rows, then the ring */
	JDIMENSION kept, ring;
	struct jpegmem_held {
		JDIMENSION row; /* the number of the row, plus 1; 0: none */
		bool changed;
	} * held; /* for each row of the ring */
	uint64_t *sum; /* of each row after the kept ones; 0: it was never written */
	uint64_t file_at; /* where row `kept` is in the file */
};

static struct jpegmem *jpegmem_of(j_common_ptr cinfo)
{
	return (struct jpegmem *)cinfo->mem;
}

static void *take(j_common_ptr cinfo, int pool, size_t bytes)
{
	struct jpegmem *mem = jpegmem_of(cinfo);
	void *piece = NULL;
	if (pool != JPOOL_PERMANENT) {
		piece = scratch_take(mem->scratch, bytes);
	} else if (bytes <= JPEGMEM_TABLES_BYTES - mem->tables_used) {
		piece = mem->tables + mem->tables_used;
		mem->tables_used += util_align(bytes, SCRATCH_ALIGN);
	}
	if (!piece)
		ERREXIT1(cinfo, JERR_OUT_OF_MEMORY, pool);
	return piece;
}

static JSAMPARRAY take_samples(j_common_ptr cinfo, int pool, JDIMENSION samples, JDIMENSION rows)
{
	size_t row_bytes = util_align(samples, SCRATCH_ALIGN);
	JSAMPARRAY row = take(cinfo, pool, rows * sizeof(JSAMPROW));
	uint8_t *bytes = take(cinfo, pool, row_bytes * rows);
	for (JDIMENSION y = 0; y < rows; y++)
		row[y] = bytes + row_bytes * y;
	return row;
}

static JBLOCKARRAY take_blocks(j_common_ptr cinfo, int pool, JDIMENSION blocks, JDIMENSION rows)
{
	JBLOCKARRAY row = take(cinfo, pool, rows * sizeof(JBLOCKROW));
	JBLOCKROW block = take(cinfo, pool, (size_t)blocks * rows * sizeof(JBLOCK));
	for (JDIMENSION y = 0; y < rows; y++)
		row[y] = block + (size_t)blocks * y;
	return row;
}

/* Only color quantization needs these, and it is not used here. */
static jvirt_sarray_ptr request_samples(j_common_ptr cinfo, int pool, boolean zero,
	JDIMENSION samples, JDIMENSION rows, JDIMENSION access)
{
	(void)pool, (void)zero, (void)samples, (void)rows, (void)access;
	ERREXIT(cinfo, JERR_NOT_COMPILED);
	return NULL;
}

static JSAMPARRAY access_samples(j_common_ptr cinfo, jvirt_sarray_ptr array, JDIMENSION start,
	JDIMENSION rows, boolean writable)
{
	(void)array, (void)start, (void)rows, (void)writable;
	ERREXIT(cinfo, JERR_BAD_VIRTUAL_ACCESS);
	return NULL;
}

static jvirt_barray_ptr request_blocks(j_common_ptr cinfo, int pool, boolean zero,
	JDIMENSION blocks, JDIMENSION rows, JDIMENSION access)
{
	(void)zero;
	struct jpegmem *mem = jpegmem_of(cinfo);
	jvirt_barray_ptr array = take(cinfo, pool, sizeof(*array));
	*array = (struct jvirt_barray_control){.blocks = blocks,
		.rows = rows,
		.access = UTIL_MIN(access, rows),
		.next = mem->arrays};
	mem->arrays = array;
	return array;
}

static uint64_t array_bytes(const struct jvirt_barray_control *array)
{
	return (uint64_t)array->rows * array->blocks * sizeof(JBLOCK);
}

/* Rows on either side of those that are looked at. Where libjpeg may smooth, `access` is five times
 * the rows of an MCU, and this is twice them. */
static JDIMENSION access_margin(JDIMENSION access)
{
	return access * 2 / 5;
}

static JDIMENSION access_most(JDIMENSION access)
{
	return access + 2 * access_margin(access);
}

/* The memory beyond the least is divided among the arrays by their sizes. */
static void realize_spilled(j_common_ptr cinfo, struct jvirt_barray_control *array, uint64_t all)
{
	struct jpegmem *mem = jpegmem_of(cinfo);
	double share = (double)array_bytes(array) / (double)all;
	double rows =
		(double)mem->scratch->spare * share / (array->blocks * (double)sizeof(JBLOCK));
	array->kept = (JDIMENSION)UTIL_MIN(rows, (double)array->rows);
	array->ring = UTIL_MIN(array->rows - array->kept, access_most(array->access));
	JDIMENSION spilled = array->rows - array->kept;
	array->row = take(cinfo, JPOOL_IMAGE, access_most(array->access) * sizeof(JBLOCKROW));
	array->block = take(cinfo, JPOOL_IMAGE,
		((size_t)array->kept + array->ring) * array->blocks * sizeof(JBLOCK));
	array->held = take(cinfo, JPOOL_IMAGE, array->ring * sizeof(*array->held));
	array->sum = take(cinfo, JPOOL_IMAGE, spilled * sizeof(*array->sum));
	memset(array->held, 0, array->ring * sizeof(*array->held));
	memset(array->sum, 0, spilled * sizeof(*array->sum));
	array->file_at = mem->file_end;
	mem->file_end += (uint64_t)spilled * array->blocks * sizeof(JBLOCK);
}

static void realize_arrays(j_common_ptr cinfo)
{
	struct jpegmem *mem = jpegmem_of(cinfo);
	uint64_t all = 0;
	mem->file_end = mem->scratch->file_at;
	for (const struct jvirt_barray_control *array = mem->arrays; array; array = array->next)
		all += array_bytes(array);
	for (; mem->arrays; mem->arrays = mem->arrays->next)
		if (mem->scratch->file >= 0)
			realize_spilled(cinfo, mem->arrays, all);
		else
			mem->arrays->row = take_blocks(
				cinfo, JPOOL_IMAGE, mem->arrays->blocks, mem->arrays->rows);
}

static void clear_rows(struct jvirt_barray_control *array, JBLOCKROW first, JDIMENSION until)
{
	for (; array->cleared < until; array->cleared++)
		memset(first + (size_t)array->cleared * array->blocks, 0,
			array->blocks * sizeof(JBLOCK));
}

/* Leaves libjpeg where the file fails. */
static void spilled_failed(j_common_ptr cinfo, int error)
{
	jpegmem_of(cinfo)->error = error;
	ERREXIT(cinfo, JERR_TFILE_WRITE);
}

/* Scans may have nothing but zeros for a row, and be made so to cost much. */
static bool is_zero(const void *row, size_t bytes)
{
	const uint8_t *p = row;
	return p[0] == 0 && memcmp(p, p + 1, bytes - 1) == 0;
}

/* Writes what the ring holds at `held` to its place, if it was changed. */
static void spilled_leave(
	j_common_ptr cinfo, struct jvirt_barray_control *array, struct jpegmem_held *held)
{
	size_t bytes = array->blocks * sizeof(JBLOCK);
	if (!held->row || !held->changed)
		return;
	JDIMENSION at = held->row - 1 - array->kept;
	JBLOCKROW row = array->block + (size_t)(array->kept + (held - array->held)) * array->blocks;
	if (!array->sum[at] && is_zero(row, bytes))
		return;
	int error = whole_write(jpegmem_of(cinfo)->scratch->file, row, bytes,
		array->file_at + (uint64_t)at * bytes);
	if (error)
		spilled_failed(cinfo, error);
	array->sum[at] = scratch_sum(row, bytes);
}

/* Fills a row of the ring. */
static void spilled_fetch(
	j_common_ptr cinfo, const struct jvirt_barray_control *array, JBLOCKROW row, JDIMENSION at)
{
	size_t bytes = array->blocks * sizeof(JBLOCK);
	if (!array->sum[at]) {
		memset(row, 0, bytes);
		return;
	}
	int error = scratch_read_back(jpegmem_of(cinfo)->scratch, row, bytes,
		array->file_at + (uint64_t)at * bytes, array->sum[at]);
	if (error)
		spilled_failed(cinfo, error);
}

static JBLOCKROW spilled_row(
	j_common_ptr cinfo, struct jvirt_barray_control *array, JDIMENSION y, bool writable)
{
	if (y < array->kept)
		return array->block + (size_t)y * array->blocks;
	JDIMENSION at = y - array->kept, slot = at % array->ring;
	struct jpegmem_held *held = &array->held[slot];
	JBLOCKROW row = array->block + (size_t)(array->kept + slot) * array->blocks;
	if (held->row != y + 1) {
		spilled_leave(cinfo, array, held);
		*held = (struct jpegmem_held){0};
		spilled_fetch(cinfo, array, row, at);
		held->row = y + 1;
	}
	held->changed |= writable;
	return row;
}

/* libjpeg-turbo 2.1.5 looks at rows beside those that it asks for, where it smooths: it gets them,
 * too. */
static JBLOCKARRAY access_spilled(j_common_ptr cinfo, struct jvirt_barray_control *array,
	JDIMENSION start, JDIMENSION rows, bool writable)
{
	JDIMENSION margin = writable ? 0 : access_margin(array->access);
	JDIMENSION first = start - UTIL_MIN(start, margin);
	JDIMENSION end = UTIL_MIN(start + rows + margin, array->rows);
	clear_rows(array, array->block, UTIL_MIN(end, array->kept));
	for (JDIMENSION y = first; y < end; y++)
		array->row[y - first] = spilled_row(cinfo, array, y, writable);
	return array->row + (start - first);
}

static JBLOCKARRAY access_blocks(j_common_ptr cinfo, jvirt_barray_ptr array, JDIMENSION start,
	JDIMENSION rows, boolean writable)
{
	if (!array->row || rows > array->rows || start > array->rows - rows ||
		(array->block && rows > array->access)) {
		ERREXIT(cinfo, JERR_BAD_VIRTUAL_ACCESS);
		return NULL; /* not reached: the error leaves by a jump */
	}
	if (array->block)
		return access_spilled(cinfo, array, start, rows, writable);
	for (; array->cleared < start + rows; array->cleared++)
		memset(array->row[array->cleared], 0, array->blocks * sizeof(JBLOCK));
	return array->row + start;
}

/* An abbreviated stream ends its image before the next one begins: its pieces are taken back, and
 * the tables stay. */
static void free_pool(j_common_ptr cinfo, int pool)
{
	struct jpegmem *mem = jpegmem_of(cinfo);
	if (pool != JPOOL_IMAGE)
		return;
	mem->arrays = NULL;
	if (!mem->scratch->borrowed)
		mem->scratch->used = mem->image_mark;
}

static void self_destruct(j_common_ptr cinfo)
{
	(void)cinfo; /* jpegmem_remove comes first */
}

void jpegmem_install(
	struct jpegmem *mem, j_decompress_ptr cinfo, struct scratch *scratch, uint8_t *tables)
{
	*mem = (struct jpegmem){
		.methods =
			{
				.alloc_small = take,
				.alloc_large = take,
				.alloc_sarray = take_samples,
				.alloc_barray = take_blocks,
				.request_virt_sarray = request_samples,
				.request_virt_barray = request_blocks,
				.realize_virt_arrays = realize_arrays,
				.access_virt_sarray = access_samples,
				.access_virt_barray = access_blocks,
				.free_pool = free_pool,
				.self_destruct = self_destruct,
				.max_alloc_chunk = cinfo->mem->max_alloc_chunk,
			},
		.original = cinfo->mem,
		.scratch = scratch,
		.tables = tables,
	};
	cinfo->mem = &mem->methods;
}

void jpegmem_begin(struct jpegmem *mem, j_decompress_ptr cinfo)
{
	for (int i = 0; i < NUM_QUANT_TBLS; i++)
		cinfo->quant_tbl_ptrs[i] = NULL;
	for (int i = 0; i < NUM_HUFF_TBLS; i++)
		cinfo->dc_huff_tbl_ptrs[i] = cinfo->ac_huff_tbl_ptrs[i] = NULL;
	mem->arrays = NULL;
	mem->error = 0;
	mem->tables_used = 0;
	mem->image_mark = mem->scratch->used;
}

void jpegmem_remove(struct jpegmem *mem, j_decompress_ptr cinfo)
{
	cinfo->mem = mem->original;
}

/* Bytes for a plane: the main controller's rows of blocks, with two row groups of context, and the
 * upsampler's rows. */
static uint64_t plane_bytes(j_decompress_ptr cinfo, const jpeg_component_info *plane)
{
	uint64_t row = util_align((uint64_t)plane->width_in_blocks * DCTSIZE, SCRATCH_ALIGN);
	uint64_t upsampled =
		util_align((uint64_t)cinfo->image_width + MAX_SAMP_FACTOR, SCRATCH_ALIGN);
	uint64_t rows = (uint64_t)plane->v_samp_factor * (DCTSIZE + 2);
	enum { POINTERS = 4096 }; /* row pointers, twice for context */
	return rows * row + (uint64_t)cinfo->max_v_samp_factor * upsampled + POINTERS;
}

static uint64_t round_up(uint64_t value, uint64_t to)
{
	return (value + to - 1) / to * to;
}

static uint64_t coefficient_bytes(const jpeg_component_info *plane)
{
	uint64_t columns = round_up(plane->width_in_blocks, (uint64_t)plane->h_samp_factor);
	uint64_t rows = round_up(plane->height_in_blocks, (uint64_t)plane->v_samp_factor);
	return rows * (columns * sizeof(JBLOCK) + sizeof(JBLOCKROW)) + 4 * SCRATCH_ALIGN;
}

/* The same for a component that spills: the ring, for which libjpeg asks for five times the rows of
 * an MCU if it may smooth, and what is kept of each row. */
static uint64_t spilled_bytes(j_decompress_ptr cinfo, const jpeg_component_info *plane)
{
	uint64_t columns = round_up(plane->width_in_blocks, (uint64_t)plane->h_samp_factor);
	uint64_t rows = round_up(plane->height_in_blocks, (uint64_t)plane->v_samp_factor);
	uint64_t access =
		access_most((JDIMENSION)plane->v_samp_factor * (cinfo->progressive_mode ? 5 : 1));
	return access * (columns * sizeof(JBLOCK) + sizeof(JBLOCKROW) +
				sizeof(struct jpegmem_held)) +
	       rows * sizeof(uint64_t) + 5 * SCRATCH_ALIGN;
}

uint64_t jpegmem_estimate(j_decompress_ptr cinfo, bool spilled)
{
	/* Tables derived for up to 8 Huffman codes, conversion and range tables, states: 20 to 40
	 * KiB by measurement. */
	uint64_t bytes = 64 << 10;
	for (int i = 0; i < cinfo->num_components; i++) {
		const jpeg_component_info *plane = &cinfo->comp_info[i];
		bytes += plane_bytes(cinfo, plane);
		if (jpeg_has_multiple_scans(cinfo))
			bytes += spilled ? spilled_bytes(cinfo, plane) : coefficient_bytes(plane);
	}
	return bytes;
}

/* jpegmem: see jpegmem.h. The contract of the methods is libjpeg's (libjpeg.txt, "Memory
 * management"; the rounding of rows to twice the SIMD alignment is libjpeg-turbo's, whose kernels
 * write up to there). */
#include "decode/jpegmem.h"

#include "base/util.h"

#include <jerror.h>
#include <string.h>

/* A whole-image array of coefficient blocks. Rows are cleared at their first access. */
struct jvirt_barray_control {
	JBLOCKARRAY row;
	JDIMENSION blocks, rows, cleared;
	struct jvirt_barray_control *next;
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
	(void)zero, (void)access;
	struct jpegmem *mem = jpegmem_of(cinfo);
	jvirt_barray_ptr array = take(cinfo, pool, sizeof(*array));
	*array = (struct jvirt_barray_control){.blocks = blocks, .rows = rows, .next = mem->arrays};
	mem->arrays = array;
	return array;
}

static void realize_arrays(j_common_ptr cinfo)
{
	struct jpegmem *mem = jpegmem_of(cinfo);
	for (; mem->arrays; mem->arrays = mem->arrays->next)
		mem->arrays->row =
			take_blocks(cinfo, JPOOL_IMAGE, mem->arrays->blocks, mem->arrays->rows);
}

static JBLOCKARRAY access_blocks(j_common_ptr cinfo, jvirt_barray_ptr array, JDIMENSION start,
	JDIMENSION rows, boolean writable)
{
	(void)writable;
	if (!array->row || rows > array->rows || start > array->rows - rows) {
		ERREXIT(cinfo, JERR_BAD_VIRTUAL_ACCESS);
		return NULL; /* not reached: the error leaves by a jump */
	}
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

uint64_t jpegmem_estimate(j_decompress_ptr cinfo)
{
	/* Tables derived for up to 8 Huffman codes, conversion and range tables, states: 20 to 40
	 * KiB by measurement. */
	uint64_t bytes = 64 << 10;
	for (int i = 0; i < cinfo->num_components; i++) {
		bytes += plane_bytes(cinfo, &cinfo->comp_info[i]);
		if (jpeg_has_multiple_scans(cinfo))
			bytes += coefficient_bytes(&cinfo->comp_info[i]);
	}
	return bytes;
}

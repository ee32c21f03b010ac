/* jpegdec_layout: where an image's parts are in its piece of the memory; see jpegdec_impl.h. */
#include "decode/jpeg/jpegdec_impl.h"

#include "base/util.h"

enum {
	JPEGDEC_BAND_RUNS = 4096,
	/* An image that does not fit is decoded in chunks only with so much memory for its blocks,
	 * and its chunks have about so many blocks: lanes would be idle otherwise. */
	JPEGDEC_PARTS_BYTES = 2 << 20,
	JPEGDEC_PARTS_BLOCKS = 512,
	JPEGDEC_PARTS_BITS = 8 << 10, /* of a chunk, at least */
};

static size_t jpegdec_carve(size_t *at, uint64_t bytes)
{
	size_t here = *at;
	*at += (size_t)util_align(bytes, BLOCKS_ALIGN);
	return here;
}

struct jpegdec_layout jpegdec_layout_fixed(
	const struct jpegdec_task *task, const struct lanes *lanes)
{
	struct jpegdec_layout layout = {0};
	size_t at = 0;
	layout.tables = jpegdec_carve(&at, huffman_tables_bytes(&task->parse, lanes->kind));
	layout.points = jpegdec_carve(&at, (uint64_t)task->points * sizeof(struct entry_point));
	layout.segments =
		jpegdec_carve(&at, (uint64_t)task->entries * sizeof(struct unstuff_segment));
	layout.bytes = jpegdec_carve(&at, task->bytes + LANE_SLACK);
	layout.runs = at;
	return layout;
}

/* Adds the parts of a band. */
static void jpegdec_layout_band(
	struct jpegdec_layout *layout, uint64_t mcus, size_t runs, uint64_t blocks)
{
	size_t at = layout->runs;
	layout->run_capacity = runs;
	layout->block_capacity = blocks;
	(void)jpegdec_carve(&at, runs * sizeof(struct mcu_plan_run));
	layout->where = jpegdec_carve(&at, mcus * sizeof(uint32_t));
	layout->coefficients =
		jpegdec_carve(&at, blocks * BLOCKS_SIZE * sizeof(*(struct blocks){0}.coefficients));
	layout->end = at;
}

/* Adds the parts of an image that is decoded in chunks, with so many pages. */
static void jpegdec_layout_chunks(
	struct jpegdec_layout *layout, const struct jpegdec_task *task, uint64_t pages)
{
	const struct blocks *blocks = &task->blocks;
	size_t at = layout->runs;
	uint32_t page_mcus = chunk_plan_page_mcus(task->parse.in_mcu);
	uint64_t stride = chunk_blocks_stride(page_mcus, task->parse.in_mcu);
	layout->page_count = (uint32_t)pages;
	layout->chunks = jpegdec_carve(&at, task->chunks * sizeof(struct chunk));
	layout->marks = jpegdec_carve(&at, pages * page_mcus * sizeof(uint32_t));
	layout->pages = jpegdec_carve(&at, pages * sizeof(uint32_t));
	layout->where =
		jpegdec_carve(&at, (uint64_t)blocks->rows * blocks->columns * sizeof(uint32_t));
	layout->coefficients = jpegdec_carve(
		&at, pages * stride * BLOCKS_SIZE * sizeof(*(struct blocks){0}.coefficients));
	layout->end = at;
}

struct jpegdec_layout jpegdec_layout_whole(
	const struct jpegdec_task *task, const struct lanes *lanes)
{
	const struct blocks *blocks = &task->blocks;
	struct jpegdec_layout layout = jpegdec_layout_fixed(task, lanes);
	if (task->chunks) {
		jpegdec_layout_chunks(&layout, task,
			chunk_plan_pages(task->chunks, task->need,
				chunk_plan_page_mcus(task->parse.in_mcu)));
		return layout;
	}
	jpegdec_layout_band(&layout, (uint64_t)blocks->rows * blocks->columns,
		mcu_plan_runs_most(&task->parse, blocks, &task->request, blocks->rows),
		mcu_plan_blocks_most(&task->parse, blocks, &task->request, blocks->rows));
	return layout;
}

uint32_t jpegdec_layout_bands(
	const struct jpegdec *dec, const struct jpegdec_task *task, struct jpegdec_layout *layout)
{
	enum { BLOCK_BYTES = BLOCKS_SIZE * sizeof(int16_t) };
	/* Each MCU kept has a place of 4 bytes in `where`, and at least one block. */
	size_t taken =
		layout->runs + JPEGDEC_BAND_RUNS * sizeof(struct mcu_plan_run) + 2 * BLOCKS_ALIGN;
	if (dec->bytes <= taken)
		return 0;
	uint64_t blocks = (dec->bytes - taken) / (BLOCK_BYTES + sizeof(uint32_t));
	uint32_t rows = mcu_plan_rows(
		&task->parse, &task->blocks, &task->request, blocks, JPEGDEC_BAND_RUNS);
	jpegdec_layout_band(
		layout, (uint64_t)rows * task->blocks.columns, JPEGDEC_BAND_RUNS, blocks);
	return rows;
}

/* How long the chunks of an image are that is decoded in parts. Those of a smooth image have more
 * blocks than others, and there would be few of them in a part. */
static uint32_t jpegdec_parts_bits(const struct jpegdec_task *task)
{
	const struct parse *parse = &task->parse;
	uint64_t blocks = (uint64_t)parse->mcus_across * parse->mcus_down * parse->in_mcu;
	uint64_t bits = JPEGDEC_PARTS_BLOCKS * 8 * task->bytes / blocks;
	bits = UTIL_MAX(bits, (uint64_t)JPEGDEC_PARTS_BITS);
	return (uint32_t)UTIL_MIN(bits, (uint64_t)CHUNK_PLAN_BITS);
}

bool jpegdec_layout_parts(
	const struct jpegdec *dec, struct jpegdec_task *task, struct jpegdec_layout *layout)
{
	if (!task->chunks)
		return false;
	task->chunk_bits = jpegdec_parts_bits(task);
	task->chunks = chunk_plan_count(8 * task->bytes, task->chunk_bits);
	*layout = jpegdec_layout_fixed(task, dec->chunks);
	jpegdec_layout_chunks(layout, task, 0);
	uint32_t page_mcus = chunk_plan_page_mcus(task->parse.in_mcu);
	size_t page =
		chunk_blocks_stride(page_mcus, task->parse.in_mcu) * BLOCKS_SIZE * sizeof(int16_t) +
		(page_mcus + 1) * sizeof(uint32_t);
	size_t taken = layout->end + 2 * BLOCKS_ALIGN;
	if (dec->bytes < taken + JPEGDEC_PARTS_BYTES)
		return false;
	jpegdec_layout_chunks(layout, task, (dec->bytes - taken) / page);
	return true;
}

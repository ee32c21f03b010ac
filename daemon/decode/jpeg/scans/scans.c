/* scans: see scans.h. */
#include "decode/jpeg/scans/scans.h"

#include "base/choose.h"
#include "decode/jpeg/scans/scan_tables.h"

#include <stdlib.h>
#include <string.h>

static const struct dispatch known = {{
	[DISPATCH_C] = {&scans_c, 0},
	[DISPATCH_AVX2] = DISPATCH_X86(&scans_bmi2, PROCESSOR_AVX2 | PROCESSOR_BMI2),
	[DISPATCH_AVX512] = DISPATCH_X86(&scans_avx512,
		PROCESSOR_BMI2 | PROCESSOR_AVX512F | PROCESSOR_AVX512BW | PROCESSOR_AVX512VL),
}};

/* The table that was chosen, or plain C where that is faster and no table was asked for. */
static const struct scans_kernels *scans_paying(const struct scans_kernels *chosen)
{
#ifdef __x86_64__
	const char *forced = getenv("PENSTOCK_KERNELS");
	if (chosen == &scans_bmi2 && !(forced && *forced) && !scans_bmi2_pays())
		return &scans_c;
#endif
	return chosen;
}

int scans_choose(const struct scans_kernels **ret, struct fault *fault)
{
	const void *table;
	int result = choose_widest(&known, &table, fault);
	if (!result)
		*ret = scans_paying(table);
	return result;
}

/* The bits of each byte in the other order. */
static void reverse_bytes(uint8_t *bytes, size_t size)
{
	const uint64_t one = 0x5555555555555555, two = 0x3333333333333333,
		       four = 0x0f0f0f0f0f0f0f0f;
	for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
		uint64_t w;
		memcpy(&w, bytes + at, sizeof(w));
		w = (w >> 1 & one) | (w & one) << 1;
		w = (w >> 2 & two) | (w & two) << 2;
		w = (w >> 4 & four) | (w & four) << 4;
		memcpy(bytes + at, &w, sizeof(w));
	}
}

static bool is_refining(const struct script_scan *scan)
{
	return scan->first && scan->high;
}

/* Builds the tables that the scan uses, each at its place. */
static int build_tables(struct scans_work *work, uint32_t *tables)
{
	const struct script_scan *scan = work->scan;
	bool progressive = work->parse->progressive;
	for (unsigned i = 0; i < scan->components; i++)
		for (int ac = 0; ac < 2; ac++, tables += 1 << HUFFMAN_VALUE_BITS) {
			const struct parse_code *code = ac ? &scan->ac[i] : &scan->dc[i];
			if (!code->counts)
				continue;
			if (huffman_build_code(code, ac, &work->code[i][ac]))
				return STEPBACK_TABLES;
			if (!ac || !progressive)
				huffman_build_values(code, ac, tables);
			else if (is_refining(scan))
				scan_tables_refine(code, tables);
			else
				scan_tables_first(code, scan->low, tables);
			work->table[i][ac] = tables;
		}
	return 0;
}

/* Unstuffs the scan's bytes. All its segments have to be there. */
static int unstuff_bytes(const struct scans_work *work, unstuff_fn *unstuff, const uint8_t *data,
	uint8_t *bytes, struct unstuff_segment *segments)
{
	const struct script_scan *scan = work->scan;
	size_t size = scan->end - scan->begin, count = work->segment_count;
	struct unstuff_found found;
	int reason =
		unstuff_scan(unstuff, bytes, data + scan->begin, size, segments, count, &found);
	if (reason)
		return reason;
	if (found.segments != count || found.end != size)
		return STEPBACK_RESTART;
	memset(bytes + found.bytes, 0, LANE_SLACK);
	if (is_refining(scan))
		reverse_bytes(bytes, found.bytes);
	return 0;
}

static int decode_scan(const struct scans_kernels *kernels, const struct scans_work *work)
{
	if (work->scan->first == 0)
		return kernels->blocks(work);
	return work->scan->high ? kernels->refine(work) : kernels->first(work);
}

/* Where the blocks of kept rows are, from their row's first one on. */
static void set_columns(const struct parse *parse, const struct scan_plan_component *c, uint32_t h,
	uint32_t *column)
{
	for (uint32_t x = c->x0; x < c->x1; x++)
		column[x - c->x0] =
			((x - c->x0) / h * parse->in_mcu + (x - c->x0) % h) * BLOCKS_SIZE;
}

/* Sets up what all scans have in common. */
static void set_work(const struct parse *parse, const struct scan_plan *plan, uint8_t *memory,
	struct blocks *blocks, struct scans_work *work)
{
	uint32_t *where = (uint32_t *)(void *)(memory + plan->where);
	memset(memory + plan->clear, 0, plan->end - plan->clear);
	for (size_t mcu = 0; mcu < (size_t)blocks->rows * blocks->columns; mcu++)
		where[mcu] = (uint32_t)mcu * parse->in_mcu;
	blocks->where = where;
	blocks->coefficients = (int16_t *)(void *)(memory + plan->coefficients);
	*work = (struct scans_work){.parse = parse,
		.plan = plan,
		.blocks = blocks,
		.coefficients = blocks->coefficients,
		.bytes = memory + plan->bytes,
		.segments = (void *)(memory + plan->segments),
		.nowhere = (int16_t *)(void *)(memory + plan->nowhere)};
	for (unsigned i = 0; i < parse->components; i++) {
		uint32_t *column = (uint32_t *)(void *)(memory + plan->column[i]);
		set_columns(parse, &plan->component[i], parse->component[i].h, column);
		work->column[i] = column;
		if (plan->component[i].refined)
			work->history[i] = (uint64_t *)(void *)(memory + plan->history[i]);
	}
}

int scans_decode(const struct scans_kernels *kernels, unstuff_fn *unstuff, const uint8_t *data,
	const struct parse *parse, const struct script *script, const struct scan_plan *plan,
	uint8_t *memory, struct blocks *blocks)
{
	struct scans_work work;
	set_work(parse, plan, memory, blocks, &work);
	memset(work.nowhere, 0, BLOCKS_SIZE * sizeof(*work.nowhere));
	for (unsigned s = 0; s < script->count; s++) {
		const struct script_scan *scan = &script->scan[s];
		uint64_t mcus = scan_plan_mcus(parse, plan, scan);
		work.scan = scan;
		work.segment_count =
			scan->restart_mcus ? (size_t)((mcus - 1) / scan->restart_mcus + 1) : 1;
		int reason = build_tables(&work, (uint32_t *)(void *)(memory + plan->tables));
		if (!reason)
			reason = unstuff_bytes(&work, unstuff, data, memory + plan->bytes,
				(void *)(memory + plan->segments));
		if (!reason)
			reason = decode_scan(kernels, &work);
		if (reason)
			return reason;
	}
	return 0;
}

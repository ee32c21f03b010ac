/* chunk_blocks: makes an image's blocks out of what lanes decoded in chunks.
 *
 * A page of a complete plan (chunk_plan.h) has MCUs of the image, with DC differences instead of
 * predictions. Here each MCU gets its number, and differences are summed up in the image's order.
 * Pure; any thread. */
#pragma once

#include "decode/jpeg/chunk_plan.h"
#include "decode/jpeg/entry_points.h"

/* From the first block of a page to that of the next: a spare block follows each page. */
static inline size_t chunk_blocks_stride(uint32_t page_mcus, unsigned in_mcu)
{
	return (size_t)page_mcus * in_mcu + 1;
}

/* A place between two MCUs of an image, with the predictions there. */
struct chunk_place {
	uint32_t mcu, bit;
	int32_t dc[BLOCKS_COMPONENTS];
};

struct chunk_blocks {
	const struct parse *parse;
	const struct chunk_plan *plan;
	const struct blocks *band; /* the wanted MCUs */
	int16_t *coefficients; /* the pages */
	uint32_t *where; /* [rows][columns] of the band: number of an MCU's first block */
	/* As in feed.h, of the whole image; those inside the plan's need are recorded. The scan's
	 * start is not: the caller knows it. */
	struct entry_point *record;
	uint32_t record_interval;
};

/* *place: in: where the plan begins; out: where its need ends. 0; STEPBACK_RANGE for a prediction
 * outside the range of 8-bit images; STEPBACK_END where the image's last MCU is followed by more
 * data. */
int chunk_blocks_settle(const struct chunk_blocks *of, struct chunk_place *place);

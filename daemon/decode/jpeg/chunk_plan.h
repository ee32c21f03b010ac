/* chunk_plan: cuts a scan without entry points into chunks that are decoded side by side, and finds
 * out which of what was decoded is right.
 *
 * Huffman codes get in step by themselves: a decoder that starts at any bit, as if an MCU began
 * there, soon stands where one does begin. So each chunk but the first starts at a bit that was
 * chosen by its distance, and is decoded until an MCU ends after its successor's start. It meets
 * its successor if an MCU of the successor begins at exactly that bit: from there on both decode
 * the same, because a place is its bit and its block of the MCU, and both are at block 0. What the
 * successor decoded before that MCU is dropped. A chunk that does not meet goes on, through its
 * successor if need be. The first chunk starts at the scan's first bit, so everything is right that
 * is connected with it by meetings. Nothing else is used.
 *
 * How many MCUs a chunk has is known when it is decoded. So the memory for their blocks comes in
 * pages, which chunks take as they need them; a page is also a run of a lane. The numbers of MCUs
 * follow when all chunks before have met their successors.
 *
 * A plan that does not come to its end (pages run out, a chunk fails or does not get in step) means
 * nothing: the scan may be sound or not. It is then decoded in order.
 *
 * A scan whose blocks do not fit the pages is decoded in parts, each by a plan of its own. Such a
 * plan begins where the part before ended, and may end early (`row`): it begins chunks only while
 * there seem to be pages for them, and when none is left, or the chain of meetings breaks, it is
 * complete as far as the MCUs are connected. The last pages are for the first chunk that is not
 * complete, because nothing after it counts without it.
 *
 * This file sees no bitstream: it hands out runs, and is told where their MCUs ended. Pure; any
 * thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CHUNK_PLAN_BITS = 32 << 10, /* of a chunk: 100 times what half of all take to get in step */
	CHUNK_PLAN_PAGE_BLOCKS = 96, /* of a page, at most */
	CHUNK_PLAN_CHUNKS = 4096,
	CHUNK_PLAN_BYTES = 64 << 20, /* of a scan; bits are counted in 32 bits */
};
#define CHUNK_PLAN_NONE UINT32_MAX

enum chunk_plan_state {
	CHUNK_PLAN_OPEN, /* runs are being decoded, or will be */
	CHUNK_PLAN_COMPLETE,
	CHUNK_PLAN_FAILED,
};

enum chunk_state {
	CHUNK_NOT_BEGUN = 0,
	CHUNK_RUNS, /* has a run, or waits for one */
	CHUNK_RESTS, /* has come to its stop, and may go on */
	CHUNK_OVER, /* cannot go on: its data fails or ends */
};

struct chunk {
	uint32_t from, bit; /* where it starts; where its last complete MCU ends */
	uint32_t stop; /* its run ends after the first MCU that ends after this bit */
	uint32_t mcus; /* complete */
	uint32_t first_page, page; /* the one that is being filled */
	uint32_t seen, seen_page; /* MCUs that begin before its predecessor's place */
	uint32_t before, after; /* the chunks that it may meet; others between them were passed */
	uint32_t meets; /* its successor from which MCU on, or CHUNK_PLAN_NONE */
	uint32_t link; /* of the list of chunks that wait for a run */
	uint32_t extra; /* bits that it went on after its stop the last time */
	uint8_t state, tries;
	bool rested; /* has come to its stop once: from then on its beginning stays */
};

struct chunk_plan {
	/* Set by the caller, as chunk_plan_count and chunk_plan_pages say. */
	struct chunk *chunk;
	uint32_t *marks; /* [pages][page_mcus]: the bit at each MCU's end */
	uint32_t *next_page; /* [pages] */
	uint32_t first, bits; /* where the plan's first MCU begins; of the scan, unstuffed */
	uint32_t count, pages;
	uint32_t need, mcus; /* how many are needed, from the first on; how many there are */
	uint32_t page_mcus;
	/* 0: all MCUs that are needed, or nothing. Otherwise the plan may end early, after a
	 * multiple of so many MCUs; `need` then becomes their number. */
	uint32_t row;
	/* Used by the plan. */
	enum chunk_plan_state state;
	uint32_t begun, limit; /* chunks, and how many may be begun */
	uint32_t used; /* pages */
	uint32_t each; /* pages that a chunk takes, by those that have rested */
	uint32_t waiting; /* the list's first chunk */
	uint32_t running;
	/* The last chunk known to be right, from which of its MCUs on, and that one's number. */
	uint32_t head, head_seen, head_number;
};

/* A run of a lane. A chunk has one at a time. */
struct chunk_plan_run {
	uint32_t chunk, page;
	uint32_t at, mcus; /* the first MCU in the page, and how many */
	uint32_t bit, stop;
};

/* A stretch of MCUs in one page. */
struct chunk_plan_piece {
	uint32_t page, at, mcus;
	uint32_t number; /* the first MCU's, in the image */
};

/* How many chunks of about `each` bits a scan of so many bits has; of how many MCUs a page is, and
 * how many pages suffice for `need` of an image's MCUs, unless chunks go astray for long. */
uint32_t chunk_plan_count(uint64_t bits, uint32_t each);
uint32_t chunk_plan_page_mcus(unsigned in_mcu);
uint32_t chunk_plan_pages(uint32_t chunks, uint32_t need, uint32_t page_mcus);

/* How many chunks are begun for `need` of `mcus` MCUs, if these have bits in proportion. */
uint32_t chunk_plan_share(uint32_t chunks, uint32_t need, uint32_t mcus);

/* Cuts the scan. */
void chunk_plan_begin(struct chunk_plan *plan);

/* The next run. False: none at present. */
bool chunk_plan_next(struct chunk_plan *plan, struct chunk_plan_run *ret);

/* Whether chunk_plan_next has one. */
bool chunk_plan_ready(const struct chunk_plan *plan);

/* A chunk's run has ended at `bit` after so many complete MCUs, whose marks are set, or has failed
 * there. */
void chunk_plan_ended(
	struct chunk_plan *plan, uint32_t number, uint32_t complete, uint64_t bit, bool failed);

/* Walks a complete plan's pieces in the image's order. *walk is zero at first. False: no more. */
struct chunk_plan_walk {
	uint32_t chunk, mcu, page; /* the next one in its chunk, and its page */
	uint32_t number;
	bool begun;
};
bool chunk_plan_walk(
	const struct chunk_plan *plan, struct chunk_plan_walk *walk, struct chunk_plan_piece *ret);

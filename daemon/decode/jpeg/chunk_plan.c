/* chunk_plan: see chunk_plan.h. */
#include "decode/jpeg/chunk_plan.h"

#include "base/util.h"

enum {
	CHUNK_TRIES = 16, /* starts of a chunk whose data fails before it is in step */
	CHUNK_EXTRA =
		512, /* bits that a chunk goes on after its successor's start; then twice that */
	CHUNK_EXTRA_MOST = 1 << 20,
	CHUNK_ALONE = 3 * CHUNK_PLAN_BITS, /* bits that a chunk may go on: one lane is slow */
};

uint32_t chunk_plan_count(uint64_t bits, uint32_t each)
{
	uint64_t count = bits / each;
	return (uint32_t)UTIL_MIN(UTIL_MAX(count, (uint64_t)1), (uint64_t)CHUNK_PLAN_CHUNKS);
}

uint32_t chunk_plan_page_mcus(unsigned in_mcu)
{
	return UTIL_MAX(CHUNK_PLAN_PAGE_BLOCKS / in_mcu, 1u);
}

/* Each chunk leaves a part of its last page empty, and decodes some MCUs twice. */
uint32_t chunk_plan_pages(uint32_t chunks, uint32_t need, uint32_t page_mcus)
{
	uint32_t full = (need - 1) / page_mcus + 1;
	return full + full / 4 + 2 * chunks + 2;
}

uint32_t chunk_plan_share(uint32_t chunks, uint32_t need, uint32_t mcus)
{
	if (need == mcus)
		return chunks;
	uint64_t share = (uint64_t)chunks * need / mcus + 1;
	return (uint32_t)UTIL_MIN(share, (uint64_t)chunks);
}

void chunk_plan_begin(struct chunk_plan *plan)
{
	const uint32_t bits = plan->bits - plan->first;
	plan->each = plan->mcus / plan->count / plan->page_mcus + 2;
	for (uint32_t i = 0; i < plan->count; i++)
		plan->chunk[i] = (struct chunk){
			.from = plan->first + (uint32_t)((uint64_t)bits * i / plan->count),
			.first_page = CHUNK_PLAN_NONE,
			.page = CHUNK_PLAN_NONE,
			.before = i - 1,
			.after = i + 1,
			.meets = CHUNK_PLAN_NONE,
			.extra = CHUNK_EXTRA,
		};
	for (uint32_t i = 0; i < plan->count; i++) {
		struct chunk *chunk = &plan->chunk[i];
		chunk->bit = chunk->from;
		chunk->stop = i + 1 < plan->count ? chunk[1].from + CHUNK_EXTRA : UINT32_MAX;
	}
	plan->state = CHUNK_PLAN_OPEN;
	plan->begun = plan->used = plan->running = 0;
	plan->head = plan->head_seen = plan->head_number = 0;
	plan->waiting = CHUNK_PLAN_NONE;
	plan->limit = chunk_plan_share(plan->count, plan->need, plan->mcus);
}

/* The page after this one (CHUNK_PLAN_NONE: the first) of a chunk; takes one where it has none. */
static uint32_t page_after(struct chunk_plan *plan, struct chunk *chunk, uint32_t page)
{
	uint32_t *next = page == CHUNK_PLAN_NONE ? &chunk->first_page : &plan->next_page[page];
	if (*next == CHUNK_PLAN_NONE && plan->used < plan->pages) {
		*next = plan->used++;
		plan->next_page[*next] = CHUNK_PLAN_NONE;
	}
	return *next;
}

/* MCUs from the plan's first on that are known to be right. */
static uint32_t connected(const struct chunk_plan *plan)
{
	return plan->head_number + (plan->chunk[plan->head].mcus - plan->head_seen);
}

/* Whether the chunk's next run needs one more page. */
static bool needs_page(const struct chunk_plan *plan, const struct chunk *chunk)
{
	if (chunk->mcus % plan->page_mcus)
		return false;
	return (chunk->mcus ? plan->next_page[chunk->page] : chunk->first_page) == CHUNK_PLAN_NONE;
}

/* The first chunk that is not complete: that known to be right, or that which it has to meet. */
static uint32_t first_open(const struct chunk_plan *plan)
{
	const struct chunk *head = &plan->chunk[plan->head];
	return head->state == CHUNK_RUNS ? plan->head : head->after;
}

/* Whether a chunk that waits may have its run now. Where pages are scarce, only the first chunk
 * that is not complete may; and it does not decode alone for more than the plan's first row. */
static bool may_run(const struct chunk_plan *plan, uint32_t number)
{
	if (!plan->row || !needs_page(plan, &plan->chunk[number]) ||
		plan->used + plan->each < plan->pages)
		return true;
	return number == first_open(plan) && plan->used < plan->pages &&
	       (plan->running || connected(plan) < plan->row);
}

/* Whether another chunk may be begun. */
static bool begins(const struct chunk_plan *plan)
{
	if (plan->begun == plan->limit)
		return false;
	/* A chunk that runs has half of its pages, on average. */
	return !plan->row || !plan->begun ||
	       plan->used + 2 * plan->each + plan->running * plan->each / 2 <= plan->pages;
}

/* The first chunk of the list that may have its run, or CHUNK_PLAN_NONE. */
static uint32_t find_waiting(const struct chunk_plan *plan)
{
	uint32_t number = plan->waiting;
	while (number != CHUNK_PLAN_NONE && !may_run(plan, number))
		number = plan->chunk[number].link;
	return number;
}

static void take_waiting(struct chunk_plan *plan, uint32_t number)
{
	uint32_t *link = &plan->waiting;
	while (*link != number)
		link = &plan->chunk[*link].link;
	*link = plan->chunk[number].link;
}

bool chunk_plan_ready(const struct chunk_plan *plan)
{
	return plan->state == CHUNK_PLAN_OPEN &&
	       (find_waiting(plan) != CHUNK_PLAN_NONE || begins(plan));
}

/* The plan cannot go on. It is complete as far as the chain of meetings goes, if it may end early.
 */
static void break_off(struct chunk_plan *plan)
{
	uint32_t right = connected(plan);
	plan->state = CHUNK_PLAN_FAILED;
	if (plan->row && right >= plan->row) {
		plan->need = right - right % plan->row;
		plan->state = CHUNK_PLAN_COMPLETE;
	}
}

bool chunk_plan_next(struct chunk_plan *plan, struct chunk_plan_run *ret)
{
	if (!chunk_plan_ready(plan))
		return false;
	uint32_t number = find_waiting(plan);
	struct chunk *chunk;
	if (number != CHUNK_PLAN_NONE) {
		chunk = &plan->chunk[number];
		take_waiting(plan, number);
	} else {
		number = plan->begun++;
		chunk = &plan->chunk[number];
		chunk->state = CHUNK_RUNS;
	}
	uint32_t at = chunk->mcus % plan->page_mcus;
	if (at == 0)
		chunk->page = page_after(plan, chunk, chunk->mcus ? chunk->page : CHUNK_PLAN_NONE);
	if (chunk->page == CHUNK_PLAN_NONE) {
		plan->state = CHUNK_PLAN_FAILED;
		return false;
	}
	uint32_t mcus = plan->page_mcus - at;
	if (number == plan->head)
		mcus = UTIL_MIN(
			mcus, plan->need - (plan->head_number + chunk->mcus - plan->head_seen));
	*ret = (struct chunk_plan_run){
		.chunk = number,
		.page = chunk->page,
		.at = at,
		.mcus = mcus,
		.bit = chunk->bit,
		.stop = chunk->stop,
	};
	plan->running++;
	return true;
}

static void wait_for_run(struct chunk_plan *plan, uint32_t number)
{
	struct chunk *chunk = &plan->chunk[number];
	chunk->state = CHUNK_RUNS;
	chunk->link = plan->waiting;
	plan->waiting = number;
}

/* Where the next MCU begins that its predecessor may meet. */
static uint32_t seen_bit(const struct chunk_plan *plan, const struct chunk *chunk)
{
	if (chunk->seen == 0)
		return chunk->from;
	uint32_t at = (chunk->seen - 1) % plan->page_mcus;
	return plan->marks[(size_t)chunk->seen_page * plan->page_mcus + at];
}

/* Looks at the next MCU. */
static void see(const struct chunk_plan *plan, struct chunk *chunk)
{
	if (chunk->seen % plan->page_mcus == 0)
		chunk->seen_page =
			chunk->seen ? plan->next_page[chunk->seen_page] : chunk->first_page;
	chunk->seen++;
}

/* Has a chunk that rests meet its successor, go on, or wait for it. */
static void meet(struct chunk_plan *plan, uint32_t number)
{
	struct chunk *chunk = &plan->chunk[number];
	while (chunk->after < plan->count && chunk->meets == CHUNK_PLAN_NONE) {
		struct chunk *after = &plan->chunk[chunk->after];
		if (!after->rested)
			return;
		while (after->seen < after->mcus && seen_bit(plan, after) < chunk->bit)
			see(plan, after);
		uint32_t bit = seen_bit(plan, after);
		if (bit == chunk->bit) {
			chunk->meets = after->seen;
			return;
		}
		if (bit < chunk->bit && after->state == CHUNK_RUNS)
			return;
		if (bit > chunk->bit) {
			if (chunk->state == CHUNK_OVER)
				return;
			chunk->stop = chunk->bit + chunk->extra;
			chunk->extra = UTIL_MIN(2 * chunk->extra, (uint32_t)CHUNK_EXTRA_MOST);
			wait_for_run(plan, number);
			return;
		}
		if (chunk->bit - chunk[1].from > CHUNK_ALONE) {
			chunk->state = CHUNK_OVER;
			return;
		}
		chunk->after = after->after;
		if (chunk->after < plan->count)
			plan->chunk[chunk->after].before = number;
	}
}

/* Follows the meetings from the last chunk known to be right. */
static void advance(struct chunk_plan *plan)
{
	for (;;) {
		const struct chunk *head = &plan->chunk[plan->head];
		uint32_t number = connected(plan);
		if (number >= plan->need) {
			plan->state = CHUNK_PLAN_COMPLETE;
			return;
		}
		if (head->meets == CHUNK_PLAN_NONE) {
			bool next = head->after < plan->count && head->after >= plan->limit;
			if (head->rested && next)
				plan->limit = head->after + 1;
			else if (head->state == CHUNK_OVER &&
				 (head->after >= plan->count || plan->chunk[head->after].rested))
				break_off(plan);
			return;
		}
		plan->head_number = number;
		plan->head_seen = head->meets;
		plan->head = head->after;
	}
}

/* A chunk's data has failed, or ends, at `bit`. Before it is in step that says nothing: it starts
 * again after that. */
static void fall(struct chunk_plan *plan, uint32_t number, uint64_t bit)
{
	struct chunk *chunk = &plan->chunk[number];
	uint64_t from = UTIL_MAX(bit, (uint64_t)chunk->from + 1);
	if (number && !chunk->rested && chunk->tries < CHUNK_TRIES && from < chunk->stop &&
		from < plan->bits) {
		chunk->tries++;
		chunk->from = chunk->bit = (uint32_t)from;
		chunk->mcus = 0;
		wait_for_run(plan, number);
		return;
	}
	chunk->state = CHUNK_OVER;
	chunk->rested = true;
}

void chunk_plan_ended(
	struct chunk_plan *plan, uint32_t number, uint32_t complete, uint64_t bit, bool failed)
{
	struct chunk *chunk = &plan->chunk[number];
	plan->running--;
	if (plan->state != CHUNK_PLAN_OPEN)
		return;
	uint32_t at = chunk->mcus % plan->page_mcus + complete;
	chunk->mcus += complete;
	if (complete)
		chunk->bit = plan->marks[(size_t)chunk->page * plan->page_mcus + at - 1];
	if (failed) {
		fall(plan, number, bit);
	} else if (chunk->bit > chunk->stop) {
		if (!chunk->rested)
			plan->each = (3 * plan->each + chunk->mcus / plan->page_mcus + 4) / 4;
		chunk->state = CHUNK_RESTS;
		chunk->rested = true;
	} else {
		wait_for_run(plan, number);
	}
	if (chunk->state != CHUNK_RUNS)
		meet(plan, number);
	if (chunk->rested && chunk->before < number &&
		plan->chunk[chunk->before].state > CHUNK_RUNS)
		meet(plan, chunk->before);
	advance(plan);
	if (plan->state == CHUNK_PLAN_OPEN && !plan->running && !chunk_plan_ready(plan))
		break_off(plan);
}

bool chunk_plan_walk(
	const struct chunk_plan *plan, struct chunk_plan_walk *walk, struct chunk_plan_piece *ret)
{
	const struct chunk *chunk = &plan->chunk[walk->chunk];
	if (!walk->begun) {
		walk->begun = true;
		walk->page = chunk->first_page;
	}
	while (walk->mcu == chunk->mcus && walk->chunk != plan->head) {
		walk->mcu = chunk->meets;
		walk->chunk = chunk->after;
		chunk = &plan->chunk[walk->chunk];
		walk->page = chunk->first_page;
		for (uint32_t i = walk->mcu / plan->page_mcus; i; i--)
			walk->page = plan->next_page[walk->page];
	}
	if (walk->number == plan->need)
		return false;
	uint32_t at = walk->mcu % plan->page_mcus;
	uint32_t mcus = UTIL_MIN(plan->page_mcus - at, chunk->mcus - walk->mcu);
	mcus = UTIL_MIN(mcus, plan->need - walk->number);
	*ret = (struct chunk_plan_piece){walk->page, at, mcus, walk->number};
	walk->mcu += mcus;
	walk->number += mcus;
	if (walk->mcu % plan->page_mcus == 0 && walk->mcu < chunk->mcus)
		walk->page = plan->next_page[walk->page];
	return true;
}

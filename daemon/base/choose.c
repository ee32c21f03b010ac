/* choose: see choose.h. */
#include "base/choose.h"

#include "base/util.h"

#include <stdlib.h>
#include <string.h>

static int choose_refuse(int code, struct fault *fault)
{
	char sentence[DISPATCH_REFUSAL];
	dispatch_refusal(code, sentence);
	return fault_set(fault, code, "%s", sentence);
}

int choose_widest(const struct dispatch *known, const void **ret, struct fault *fault)
{
	int result = dispatch_widest(known, ret);
	return result < 0 ? choose_refuse(result, fault) : 0;
}

/* A table in a race. */
struct choose_runner {
	const void *table;
	void *course;
	uint64_t best_ns; /* of its fastest lap */
};

/* Lines up the tables that compete, narrowest first, each with a course of its own out of `memory`.
 * Returns how many. */
static unsigned choose_line_up(const struct choose_race *race, uint8_t *memory, size_t bytes,
	struct choose_runner runners[DISPATCH_NAMES])
{
	const void *table;
	unsigned count = 0;
	for (unsigned i = 0; (table = dispatch_at(race->known, i)); i++) {
		void *course = memory + count * bytes;
		if (!race->prepare || race->prepare(course, table))
			runners[count++] = (struct choose_runner){table, course, UINT64_MAX};
	}
	return count;
}

/* One lap each in turn, so that whatever else slows the machine down meets all of them alike. */
static void choose_run(
	const struct choose_race *race, struct choose_runner *runners, unsigned count)
{
	for (unsigned lap = 0; lap < race->laps; lap++)
		for (unsigned i = 0; i < count; i++) {
			struct choose_runner *r = &runners[i];
			uint64_t time = race->lap(r->course, r->table);
			if (lap)
				r->best_ns = UTIL_MIN(r->best_ns, time);
		}
}

/* Only times below the returned one are clearly less than `time`. */
static uint64_t choose_clearly(const struct choose_race *race, uint64_t time)
{
	return race->margin ? time - time / race->margin : time;
}

static const void *choose_winner(const struct choose_race *race)
{
	struct choose_runner runners[DISPATCH_NAMES];
	size_t bytes = util_align(race->course_bytes, race->course_align), all;
	cleanup(free_ptr) void *memory = NULL;
	if (!__builtin_mul_overflow(bytes, (size_t)DISPATCH_NAMES, &all))
		memory = aligned_alloc(race->course_align, all);
	if (!memory)
		return dispatch_at(race->known, 0);
	memset(memory, 0, all);
	unsigned count = choose_line_up(race, memory, bytes, runners);
	if (!count)
		return dispatch_at(race->known, 0);
	choose_run(race, runners, count);
	uint64_t least = UINT64_MAX;
	for (unsigned i = 0; i < count; i++)
		least = UTIL_MIN(least, runners[i].best_ns);
	const struct choose_runner *winner = &runners[count - 1];
	while (choose_clearly(race, winner->best_ns) > least)
		winner--;
	return winner->table;
}

int choose_fastest(struct choose_race *race, const void **ret, struct fault *fault)
{
	const void *table;
	int result = dispatch_forced(race->known, &table);
	if (result < 0)
		return choose_refuse(result, fault);
	if (!table) {
		pthread_mutex_lock(&race->lock);
		if (!race->winner)
			race->winner = choose_winner(race);
		table = race->winner;
		pthread_mutex_unlock(&race->lock);
	}
	*ret = table;
	return 0;
}

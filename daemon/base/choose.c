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

/* Nanoseconds of a table's fastest lap; UINT64_MAX where it does not compete. */
static uint64_t choose_time(const struct choose_race *race, void *course, const void *table)
{
	uint64_t best = UINT64_MAX;
	if (race->prepare && !race->prepare(course, table))
		return best;
	for (unsigned i = 0; i < race->laps; i++) {
		uint64_t time = race->lap(course, table);
		best = i ? UTIL_MIN(best, time) : best;
	}
	return best;
}

static const void *choose_winner(const struct choose_race *race)
{
	const void *winner = dispatch_at(race->known, 0), *table;
	size_t bytes = util_align(race->course_bytes, race->course_align);
	cleanup(free_ptr) void *course = aligned_alloc(race->course_align, bytes);
	if (!course)
		return winner;
	memset(course, 0, bytes);
	uint64_t best = UINT64_MAX;
	for (unsigned i = 0; (table = dispatch_at(race->known, i)); i++) {
		uint64_t time = choose_time(race, course, table);
		if (time < best) {
			best = time;
			winner = table;
		}
	}
	return winner;
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

/* client_place: how much a server is asked at once, when a retry may begin, and how fast it
 * usually answers. Pure: the caller gives the time. */
#include "remote/client/client_impl.h"

#include "base/util.h"

#include <string.h>

enum {
	TOKENS_MAX = 100,
	TOKENS_SECOND = 20, /* retries that each second adds */
	SAMPLES_LEAST = 20,
	SAMPLES_STEP = 16, /* the quantiles are computed after so many more */
	SAMPLES_STEP_LATER = 128, /* and once all places are filled */
	/* How long after a halving a first retry waits as long as any. */
	PLACE_BUSY_S = 2,
	PLACE_HEDGES_MANY = 8, /* saved hedges from which on one begins at the p95 */
};
static const double tokens_answer = 0.2; /* retries that each answer adds */

/* A store that answers a few requests with 503 wants them again, not fewer of them. Whether it
 * wants fewer is decided by Page's cumulative sums (Biometrika 41, 1954): each answer adds the
 * logarithm of how much more likely it is where 20 % are refused than where 5 % are, and the sum
 * never falls below 0. Shares above 11 % let it grow: eight refusals in a row, some 20 answers of
 * which half are refused, or 50 of which 30 % are, reach the bound. Where 5 % are refused, chance
 * reaches it once in 200,000 answers.
 *
 * A refusal comes sooner than a body that was asked for at the same time. Of the requests that run,
 * those that are refused may therefore all be counted first: the bound grows with their number. */
static const double place_refused = 1.386, place_served = -0.172, place_bound = 10,
		    place_usual = 0.05; /* the share of refusals that is usual */

static double place_bound_now(const struct client_place *place)
{
	return place_bound + place_refused * place_usual * place->limit;
}

void client_place_begin(
	struct client_place *place, const char *name, unsigned connections, uint64_t now)
{
	*place = (struct client_place){.limit = connections,
		.tokens = TOKENS_MAX,
		.tokens_ns = now,
		.grown_ns = now,
		.used_ns = now};
	(void)snprintf(place->name, sizeof place->name, "%s", name);
	place->name_size = strlen(place->name);
}

bool client_place_slow_down(struct client_place *place, bool plainly, uint64_t now)
{
	const double bound = place_bound_now(place);
	place->refused = UTIL_MIN(place->refused + place_refused, bound);
	if (place->refused < bound && !plainly)
		return false;
	if (place->halved_ns && now - place->halved_ns < CLIENT_S / 2)
		return false;
	place->halved_ns = now;
	place->grown_ns = now;
	place->useful = false;
	double half = place->limit / 2;
	place->limit = half < 1 ? 1 : half;
	return true;
}

void client_place_grow(struct client_place *place, unsigned connections, uint64_t now)
{
	if (now - place->grown_ns < CLIENT_S / 10)
		return;
	place->grown_ns = now;
	if (!place->useful)
		return;
	place->useful = false;
	double grown = place->limit + UTIL_MAX(connections / 16.0, 1.0);
	place->limit = UTIL_MIN(grown, (double)connections);
}

static int place_compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return x < y ? -1 : x > y;
}

void client_place_first_byte(struct client_place *place, uint64_t ns)
{
	place->refused = UTIL_MAX(place->refused + place_served, 0);
	place->first_us[place->samples++ % PLACE_SAMPLES] =
		(uint32_t)UTIL_MIN(ns / 1000, (uint64_t)UINT32_MAX);
	const unsigned step = place->samples > PLACE_SAMPLES ? SAMPLES_STEP_LATER : SAMPLES_STEP;
	if (place->samples < SAMPLES_LEAST || place->samples % step)
		return;
	uint32_t sorted[PLACE_SAMPLES];
	size_t count = UTIL_MIN(place->samples, (unsigned)PLACE_SAMPLES);
	memcpy(sorted, place->first_us, count * sizeof *sorted);
	qsort(sorted, count, sizeof *sorted, place_compare);
	place->p95_ns = ((uint64_t)sorted[count * 95 / 100] + 1) * 1000;
	place->p99_ns = ((uint64_t)sorted[count * 99 / 100] + 1) * 1000;
}

uint64_t client_place_hedge_ns(const struct client_place *place, double saved)
{
	if (!place->p95_ns)
		return CLIENT_S;
	const double few = 1 - UTIL_MIN(saved, (double)PLACE_HEDGES_MANY) / PLACE_HEDGES_MANY;
	return place->p95_ns + (uint64_t)(2 * few * (double)place->p95_ns);
}

bool client_place_may_hedge(const struct client_place *place, unsigned connections, uint64_t now)
{
	const unsigned limit = (unsigned)place->limit;
	const bool fewer = place->halved_ns && now - place->halved_ns < CLIENT_S;
	return place->running < limit + (fewer ? 0 : UTIL_MAX(connections / 16, 1u));
}

/* Whether failures are rare, so that the next attempt very probably succeeds. A few refusals in a
 * row are usual: until they reach the bound, they say nothing. */
static bool place_is_calm(const struct client_place *place, uint64_t now)
{
	return place->tokens > TOKENS_MAX / 2.0 &&
	       (!place->halved_ns || now - place->halved_ns > PLACE_BUSY_S * (uint64_t)CLIENT_S);
}

uint64_t client_place_stall_ns(const struct client_place *place, uint64_t now)
{
	const uint64_t usual = place->p99_ns * (place_is_calm(place, now) ? 5 : 20);
	if (!usual)
		return 10ull * CLIENT_S;
	return UTIL_MIN(UTIL_MAX(usual, (uint64_t)CLIENT_S), 10ull * CLIENT_S);
}

static uint64_t place_random(uint64_t *random)
{
	uint64_t x = *random;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *random = x;
}

uint64_t client_place_backoff(struct client_place *place, unsigned failures, uint64_t base_ns,
	uint64_t cap_ns, uint64_t *random, uint64_t now)
{
	place->tokens += (double)(now - place->tokens_ns) / CLIENT_S * TOKENS_SECOND;
	place->tokens = UTIL_MIN(place->tokens, (double)TOKENS_MAX);
	place->tokens_ns = now;
	place->tokens -= 1;
	unsigned doublings = failures > 20 ? 20 : failures ? failures - 1 : 0;
	uint64_t bound = UTIL_MIN(base_ns << doublings, cap_ns);
	if (place_is_calm(place, now))
		bound = UTIL_MIN(bound, (base_ns / 16) << 2 * UTIL_MIN(doublings, 8u));
	uint64_t wait = bound ? place_random(random) % bound : 0;
	if (place->tokens < 0) {
		uint64_t more = (uint64_t)(-place->tokens / TOKENS_SECOND * CLIENT_S);
		wait += UTIL_MIN(more, cap_ns);
	}
	return wait;
}

void client_place_failed(struct client_place *place, const char *why, uint64_t now)
{
	if (!place->gone_ns)
		place->gone_ns = now;
	(void)snprintf(place->why, sizeof place->why, "%s", why);
}

void client_place_answered(struct client_place *place, uint64_t now)
{
	place->gone_ns = 0;
	place->worked = true;
	place->useful = true;
	place->used_ns = now;
	place->tokens = UTIL_MIN(place->tokens + tokens_answer, (double)TOKENS_MAX);
}

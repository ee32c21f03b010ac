/* search: see search.h. */
#include "model/search.h"

#include "model/state.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SEARCH_NOBODY UINT32_MAX

struct search {
	const struct config *config;
	FILE *out;
	uint32_t words; /* of a state in this world */
	uint64_t *state; /* `words` each, in the order found */
	uint32_t *parent; /* index of the state before */
	struct event *event; /* and what led here from it */
	uint32_t count, room;
	uint32_t *table; /* hash table of indexes plus 1 */
	uint32_t table_mask;
	/* where the search is: for the path, should the tally assert */
	uint32_t at;
	struct event doing;
	struct search_result result;
};

/* The tally's assertions come here. */
static sigjmp_buf search_aborted;

static void search_on_abort(int signal)
{
	(void)signal;
	siglongjmp(search_aborted, 1);
}

/* ---- the states seen ---- */

static uint64_t search_hash(const struct search *search, const uint64_t *words)
{
	uint64_t hash = 0;
	for (uint32_t i = 0; i < search->words; i++) {
		hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u;
		hash ^= hash >> 29;
	}
	return hash;
}

/* Where the state is in the table, or where it belongs. */
static uint32_t search_place(const struct search *search, const uint64_t *words)
{
	uint32_t place = (uint32_t)search_hash(search, words) & search->table_mask;
	while (search->table[place] &&
		memcmp(search->state + (size_t)(search->table[place] - 1) * search->words, words,
			search->words * sizeof *words) != 0)
		place = (place + 1) & search->table_mask;
	return place;
}

static int search_grow_table(struct search *search, uint32_t size)
{
	uint32_t *table = calloc(size, sizeof *table);
	if (!table)
		return -ENOMEM;
	free(search->table);
	search->table = table;
	search->table_mask = size - 1;
	for (uint32_t i = 0; i < search->count; i++)
		table[search_place(search, search->state + (size_t)i * search->words)] = i + 1;
	return 0;
}

static int search_grow(struct search *search)
{
	uint32_t room = search->room ? 2 * search->room : 1u << 12;
	uint64_t *state = realloc(search->state, (size_t)room * search->words * sizeof *state);
	if (!state)
		return -ENOMEM;
	search->state = state;
	uint32_t *parent = realloc(search->parent, room * sizeof *parent);
	if (!parent)
		return -ENOMEM;
	search->parent = parent;
	struct event *event = realloc(search->event, room * sizeof *event);
	if (!event)
		return -ENOMEM;
	search->event = event;
	search->room = room;
	return search_grow_table(search, 2 * room);
}

/* 1 when it is new, 0 when it was seen; -ENOMEM. */
static int search_add(
	struct search *search, const uint64_t *words, uint32_t parent, struct event event)
{
	if (search->count == search->room && search_grow(search))
		return -ENOMEM;
	uint32_t place = search_place(search, words);
	if (search->table[place])
		return 0;
	search->table[place] = search->count + 1;
	memcpy(search->state + (size_t)search->count * search->words, words,
		search->words * sizeof *words);
	search->parent[search->count] = parent;
	search->event[search->count++] = event;
	return 1;
}

static void search_load(const struct search *search, uint32_t index, struct world *world)
{
	struct state state = {0};
	memcpy(state.word, search->state + (size_t)index * search->words,
		search->words * sizeof state.word[0]);
	state_decode(&state, search->config, world);
}

/* ---- telling ---- */

/* The events from the beginning to state `index`, in `ret_path` when there is room. */
static uint32_t search_path(const struct search *search, uint32_t index, struct event *ret_path)
{
	uint32_t length = 0;
	for (uint32_t i = index; search->parent[i] != SEARCH_NOBODY; i = search->parent[i])
		length++;
	for (uint32_t i = index, at = length; ret_path && at > 0; i = search->parent[i])
		ret_path[--at] = search->event[i];
	return length;
}

struct telling {
	struct world world;
	char names[WORLD_READERS];
};

static void search_tell_state(const struct search *search, const struct telling *telling)
{
	char text[1024];
	world_describe(&telling->world, telling->names, text, sizeof text);
	(void)fprintf(search->out, "        %s\n", text);
}

/* States number their readers anew; people would rather have names that stay. */
static void search_rename(struct telling *telling)
{
	struct state state;
	uint8_t order[WORLD_READERS];
	char names[WORLD_READERS];
	memcpy(names, telling->names, sizeof names);
	(void)state_encode(&telling->world, &state, order);
	for (uint32_t i = 0; i < WORLD_READERS; i++)
		telling->names[order[i]] = names[i];
	state_decode(&state, telling->world.config, &telling->world);
}

static void search_tell_event(
	const struct search *search, const struct telling *telling, struct event event, uint32_t n)
{
	char text[WORLD_TEXT];
	world_describe_event(event, telling->names[event.reader], text, sizeof text);
	(void)fprintf(search->out, "%5u  %s\n", n, text);
}

/* The path to state `search->at`, and `last` after it where there is one. */
static void search_tell(struct search *search, const char *violated, const char *detail,
	const struct event *last, const struct world *end)
{
	uint32_t length = search_path(search, search->at, NULL);
	struct event *path = calloc(length + 1, sizeof *path);
	struct telling telling = {.names = {'A', 'B', 'C'}};
	(void)snprintf(search->result.violated, sizeof search->result.violated, "%s", violated);
	(void)fprintf(search->out, "world %s: \"%s\" does not hold: %s\n", search->config->name,
		violated, detail);
	if (!path)
		return;
	(void)search_path(search, search->at, path);
	world_init(&telling.world, search->config);
	for (uint32_t i = 0; i < length; i++) {
		search_tell_event(search, &telling, path[i], i + 1);
		world_apply(&telling.world, path[i]);
		search_rename(&telling);
		search_tell_state(search, &telling);
	}
	free(path);
	if (last)
		search_tell_event(search, &telling, *last, length + 1);
	if (!end)
		return;
	telling.world = *end;
	search_tell_state(search, &telling);
}

/* ---- searching ---- */

static void search_judge(struct search *search, struct world *world, const struct event *last)
{
	if (world->violated)
		search_tell(search, world->violated, world->detail, last, world);
}

/* One event from state `search->at`. 1 when that is over: something is wrong; -errno. */
static int search_step(struct search *search, struct event event)
{
	struct world world;
	struct state state;
	uint8_t order[WORLD_READERS];
	search->doing = event;
	search->result.transitions++;
	search_load(search, search->at, &world);
	world_apply(&world, event);
	world_check(&world);
	search_judge(search, &world, &event);
	if (world.violated)
		return 1;
	if (!state_encode(&world, &state, order))
		return -ERANGE;
	int added = search_add(search, state.word, search->at, event);
	return added < 0 ? added : 0;
}

static int search_expand(struct search *search)
{
	struct world world;
	struct event events[WORLD_EVENTS];
	search_load(search, search->at, &world);
	search->doing = (struct event){.kind = EVENT_KINDS};
	world_progress(&world);
	search_judge(search, &world, NULL);
	if (world.violated)
		return 1;
	uint32_t count = world_events(&world, events);
	for (uint32_t i = 0; i < count; i++) {
		int result = search_step(search, events[i]);
		if (result)
			return result;
	}
	return 0;
}

static int search_all(struct search *search)
{
	struct world world;
	struct state state;
	uint8_t order[WORLD_READERS];
	uint32_t level_end = 1;
	world_init(&world, search->config);
	if (!state_encode(&world, &state, order))
		return -ERANGE;
	int result = search_add(search, state.word, SEARCH_NOBODY, (struct event){0});
	for (search->at = 0; result >= 0 && search->at < search->count; search->at++) {
		if (search->at == level_end) {
			search->result.depth++;
			level_end = search->count;
		}
		result = search_expand(search);
		if (result == 1)
			return 0;
	}
	return result < 0 ? result : 0;
}

static void search_tell_abort(struct search *search)
{
	bool step = search->doing.kind != EVENT_KINDS;
	search_tell(search, "assert", "the tally finds a step that is not allowed",
		step ? &search->doing : NULL, NULL);
}

static double search_seconds(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int search_run(const struct config *config, FILE *out, struct search_result *ret_result)
{
	struct sigaction action = {.sa_handler = search_on_abort}, before;
	struct search *search = calloc(1, sizeof *search);
	if (!search)
		return -ENOMEM;
	*search = (struct search){.config = config, .out = out, .words = 1 + config->readers};
	double begin = search_seconds();
	volatile int result = 0;
	(void)sigaction(SIGABRT, &action, &before);
	if (sigsetjmp(search_aborted, 1) == 0)
		result = search_all(search);
	else
		search_tell_abort(search);
	(void)sigaction(SIGABRT, &before, NULL);
	search->result.states = search->count;
	search->result.seconds = search_seconds() - begin;
	*ret_result = search->result;
	free(search->state);
	free(search->parent);
	free(search->event);
	free(search->table);
	free(search);
	return result;
}

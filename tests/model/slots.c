/* slots: checks the tally, and what the protocol says of slots and leases, in small worlds.
 *
 *     model_slots                 the worlds that take seconds; PENSTOCK_TEST_NIGHTLY=1: all
 *     model_slots --all           all of them
 *     model_slots --small         the small worlds among them
 *     model_slots --only NAME     one of them
 *     model_slots --flaw NAME     with a flaw of the world (head-late, silent, newest)
 *     model_slots --expect WHAT   succeeds only when WHAT is found not to hold
 *
 * Exit code: 0 all holds (or what was expected was found), 1 not so, 2 usage. */
#include "model/search.h"

#include <stdlib.h>
#include <string.h>

enum size { SIZE_SMALL, SIZE_USUAL, SIZE_NIGHTLY };

struct entry {
	enum size size;
	struct config config;
};

/* Each world tests another aspect; together they test all of them at once with two readers. */
/* clang-format off */
static const struct entry slots_worlds[] = {
	{SIZE_SMALL, {.name = "2x2", .slots = 2, .readers = 2, .wait_for = 1, .room = 2, .ahead = 1,
		.detach = true, .eager = true}},
	{SIZE_SMALL, {.name = "1x2-all", .slots = 1, .readers = 2, .wait_for = 1, .room = 1, .ahead = 2,
		.detach = true, .dies = true, .drains = true, .ends = true}},
	{SIZE_SMALL, {.name = "2x2-all", .slots = 2, .readers = 2, .wait_for = 2, .room = 1, .ahead = 2,
		.detach = true, .dies = true, .drains = true, .ends = true}},
	{SIZE_USUAL, {.name = "3x2", .slots = 3, .readers = 2, .wait_for = 1, .room = 3, .ahead = 1,
		.detach = true, .eager = true}},
	{SIZE_USUAL, {.name = "2x3", .slots = 2, .readers = 3, .wait_for = 3, .room = 2, .ahead = 1,
		.detach = true, .eager = true}},
	{SIZE_NIGHTLY, {.name = "3x2-all", .slots = 3, .readers = 2, .wait_for = 1, .room = 3, .ahead = 2,
		.detach = true, .dies = true, .drains = true, .ends = true}},
	{SIZE_NIGHTLY, {.name = "2x3-block", .slots = 2, .readers = 3, .wait_for = 1, .room = 2, .ahead = 1,
		.dies = true, .drains = true, .ends = true, .eager = true}},
	{SIZE_NIGHTLY, {.name = "2x3-all", .slots = 2, .readers = 3, .wait_for = 2, .room = 1, .ahead = 1,
		.detach = true, .dies = true, .ends = true, .eager = true}},
	{SIZE_NIGHTLY, {.name = "3x3", .slots = 3, .readers = 3, .wait_for = 3, .room = 1,
		.eager = true}},
};
/* clang-format on */

struct options {
	enum size most;
	const char *only, *flaw, *expect;
};

static bool options_flag(struct options *options, const char *argument)
{
	if (strcmp(argument, "--all") == 0)
		options->most = SIZE_NIGHTLY;
	else if (strcmp(argument, "--small") == 0)
		options->most = SIZE_SMALL;
	else
		return false;
	return true;
}

static bool options_take(struct options *options, int argc, char **argv)
{
	const char *nightly = getenv("PENSTOCK_TEST_NIGHTLY");
	*options = (struct options){
		.most = nightly && strcmp(nightly, "1") == 0 ? SIZE_NIGHTLY : SIZE_USUAL};
	for (int i = 1; i < argc; i++) {
		const char **value = strcmp(argv[i], "--only") == 0     ? &options->only
				     : strcmp(argv[i], "--flaw") == 0   ? &options->flaw
				     : strcmp(argv[i], "--expect") == 0 ? &options->expect
									: NULL;
		if (value && i + 1 < argc)
			*value = argv[++i];
		else if (!options_flag(options, argv[i]))
			return false;
	}
	return true;
}

static bool config_flaw(struct config *config, const char *flaw)
{
	if (strcmp(flaw, "head-late") == 0)
		config->flaw_head_late = true;
	else if (strcmp(flaw, "silent") == 0)
		config->flaw_silent = true;
	else if (strcmp(flaw, "newest") == 0)
		config->flaw_newest = true;
	else
		return false;
	return true;
}

/* True when nothing was found. */
static bool slots_search(const struct config *config, struct search_result *ret_result)
{
	int result = search_run(config, stdout, ret_result);
	if (result) {
		(void)fprintf(stderr, "slots: world %s: %s\n", config->name, strerror(-result));
		exit(1);
	}
	(void)printf("world %-12s %u slots, %u readers: %llu states, %llu transitions, depth %u, "
		     "%.1f s%s%s\n",
		config->name, config->slots, config->readers,
		(unsigned long long)ret_result->states, (unsigned long long)ret_result->transitions,
		ret_result->depth, ret_result->seconds, ret_result->violated[0] ? ": " : "",
		ret_result->violated);
	(void)fflush(stdout);
	return !ret_result->violated[0];
}

static bool slots_wanted(const struct options *options, const struct entry *entry)
{
	if (options->only)
		return strcmp(options->only, entry->config.name) == 0;
	return entry->size <= options->most;
}

static int slots_usage(void)
{
	(void)fputs(
		"usage: model_slots [--all | --small | --only WORLD] [--flaw head-late | silent | "
		"newest]\n                   [--expect WHAT]\nworlds:",
		stderr);
	for (size_t i = 0; i < sizeof slots_worlds / sizeof *slots_worlds; i++)
		(void)fprintf(stderr, " %s", slots_worlds[i].config.name);
	(void)fputc('\n', stderr);
	return 2;
}

int main(int argc, char **argv)
{
	struct options options;
	struct search_result result = {0};
	uint64_t states = 0;
	uint32_t searched = 0;
	bool clean = true;
	if (!options_take(&options, argc, argv))
		return slots_usage();
	for (size_t i = 0; clean && i < sizeof slots_worlds / sizeof *slots_worlds; i++) {
		struct config config = slots_worlds[i].config;
		if (!slots_wanted(&options, &slots_worlds[i]))
			continue;
		if (options.flaw && !config_flaw(&config, options.flaw))
			return slots_usage();
		clean = slots_search(&config, &result);
		states += result.states;
		searched++;
	}
	if (!searched)
		return slots_usage();
	if (options.most == SIZE_NIGHTLY && clean && !options.expect)
		(void)printf("promise: %u worlds, %llu states, nothing broken in any\n", searched,
			(unsigned long long)states);
	if (!options.expect)
		return clean ? 0 : 1;
	if (strcmp(result.violated, options.expect) == 0)
		return 0;
	(void)printf(
		"expected \"%s\" to be found wrong, not \"%s\"\n", options.expect, result.violated);
	return 1;
}

/* Scenarios of pack: whatever failed, what lies there is whole, and the same command again makes
 * what it would have made. */
#include "torture_unit/data.h"
#include "torture_unit/torture.h"

#include "base/hash.h"
#include "client/cli/pack/pack.h"

#include <dirent.h>
#include <errno.h>

static struct dataset *open_set(void)
{
	struct dataset_options options = {
		.cache_dir = torture_own("cache"), .index_in_cache = true};
	struct dataset *dataset = NULL;
	struct fault fault = {""};
	if (dataset_open(torture_given("set"), &options, &dataset, &fault) < 0)
		torture_wrong("open: %s", fault.text);
	return dataset;
}

static void note(void *context, const char *text)
{
	(void)context, (void)text;
}

static int pack_into(const struct dataset *dataset, const char *folder, struct pack_result *ret,
	struct fault *fault)
{
	struct pack_options options = {
		.recipe = {.image = {.interval = {.row = true}, .verify = true},
			.shard_bytes = 12000,
			.memory_bytes = PACK_MEMORY_LEAST},
		.threads = 2,
		.note = note};
	struct pattern pattern;
	char text[300];
	(void)snprintf(text, sizeof text, "%s/p-%%02d.tar", folder);
	TORTURE_WANT(pattern_parse(text, &pattern, fault) == 0);
	*ret = (struct pack_result){0};
	return pack_run(dataset, &pattern, &options, ret, fault);
}

static uint64_t hash_file(const char *path)
{
	size_t size;
	uint64_t hash = 1;
	uint8_t *bytes = fixture_read(path, &size);
	for (size_t i = 0; i < size; i++)
		hash = hash_mix(hash ^ bytes[i]);
	free(bytes);
	return hash;
}

/* Every shard NAME in `folder` must equal that of `right`. Returns how many there are. */
static unsigned compare(const char *folder, const char *right)
{
	unsigned shards = 0;
	DIR *dir = opendir(folder);
	const struct dirent *entry;
	while (dir && (entry = readdir(dir))) {
		size_t size = strlen(entry->d_name);
		if (size < 4 || strcmp(entry->d_name + size - 4, ".tar") != 0 ||
			entry->d_name[0] == '.')
			continue;
		shards++;
		char *theirs = fixture_path(right, entry->d_name);
		if (access(theirs, F_OK) < 0 ||
			hash_file(fixture_path(folder, entry->d_name)) != hash_file(theirs))
			torture_wrong("%s is another than it has to be", entry->d_name);
	}
	if (dir)
		(void)closedir(dir);
	return shards;
}

static void make_set(void)
{
	struct pack_result result;
	struct fault fault = {""};
	(void)snprintf(torture_room, sizeof torture_room, "%s", torture_shared);
	data_folder(torture_shared, "set");
	(void)mkdir(torture_given("right"), 0700);
	struct dataset *dataset = open_set();
	int code = pack_into(dataset, torture_given("right"), &result, &fault);
	manifest_deinit(&result.manifest);
	dataset_free(dataset);
	if (code < 0) {
		(void)fprintf(stderr, "%s\n", fault.text);
		_exit(1);
	}
}

static void again(const struct dataset *dataset)
{
	struct pack_result result;
	struct fault fault = {""};
	int code = pack_into(dataset, torture_own("out"), &result, &fault);
	if (code < 0)
		torture_wrong("the same command again: %s", fault.text);
	manifest_deinit(&result.manifest);
	char *right = torture_given("right");
	if (compare(torture_own("out"), right) != compare(right, right))
		torture_wrong("shards are missing");
}

static void run_pack(void)
{
	struct pack_result result;
	struct fault fault = {""};
	struct dataset *dataset = open_set();
	(void)mkdir(torture_own("out"), 0700);
	torture_on();
	int code = pack_into(dataset, torture_own("out"), &result, &fault);
	torture_off();
	if (code < 0)
		torture_refused(code, fault.text);
	TORTURE_WANT(
		code < 0 || (result.manifest.complete && result.manifest.samples == DATA_IMAGES));
	manifest_deinit(&result.manifest);
	(void)compare(torture_own("out"), torture_given("right"));
	again(dataset);
	dataset_free(dataset);
}

/* One that goes on from the middle, where the first shards lie already. */
static void run_resume(void)
{
	struct pack_result result;
	struct fault fault = {""};
	struct dataset *dataset = open_set();
	(void)mkdir(torture_own("out"), 0700);
	TORTURE_WANT(pack_into(dataset, torture_own("out"), &result, &fault) == 0);
	manifest_deinit(&result.manifest);
	torture_on();
	int code = pack_into(dataset, torture_own("out"), &result, &fault);
	torture_off();
	if (code < 0)
		torture_refused(code, fault.text);
	TORTURE_WANT(code < 0 || (result.was_complete && result.manifest.samples == DATA_IMAGES));
	manifest_deinit(&result.manifest);
	again(dataset);
	dataset_free(dataset);
}

const struct torture_scenario torture_pack[] = {
	{"pack.run", make_set, run_pack},
	{"pack.resume", make_set, run_resume},
	{0},
};

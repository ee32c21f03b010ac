/* The manifest: what is written is read back, and what does not fit is refused. */
#include "unit/source_fixture.h"

#include "client/cli/pack/manifest.h"

#include "base/util.h"

#include <errno.h>
#include <stdbool.h>

struct set_up {
	char *folder;
	struct dataset *dataset;
	struct pattern pattern;
	struct recipe recipe;
};

/* Six unlabelled samples, which nobody decodes. */
static int make_set_up(void **state)
{
	static struct set_up set;
	struct dataset_options options = {.cache_dir = NULL};
	struct fault fault = {{0}};
	set = (struct set_up){.folder = fixture_folder()};
	assert_int_equal(mkdir(fixture_path(set.folder, "images"), 0700), 0);
	for (int i = 0; i < 6; i++) {
		char name[32];
		(void)snprintf(name, sizeof name, "images/%d.jpg", i);
		fixture_write(fixture_path(set.folder, name), "12345678", 8);
	}
	options.cache_dir = fixture_path(set.folder, "cache");
	if (dataset_open(fixture_path(set.folder, "images"), &options, &set.dataset, &fault) < 0)
		fail_msg("%s", fault.text);
	assert_int_equal(pattern_parse("out/x-%06d.tar", &set.pattern, &fault), 0);
	set.recipe = (struct recipe){.image = {.interval = {.mcus = 12}, .verify = true},
		.shard_bytes = 1 << 20,
		.memory_bytes = 64 << 20};
	*state = &set;
	return 0;
}

static int drop_set_up(void **state)
{
	struct set_up *set = *state;
	dataset_free(set->dataset);
	fixture_remove(set->folder);
	return 0;
}

/* After a shard of three and a broken one. */
static void fill(const struct set_up *set, struct manifest *manifest)
{
	struct manifest_shard shard = {.name = "x-000000.tar", .samples = 3, .bytes = 10240};
	manifest_begin(manifest, set->dataset, &set->pattern, &set->recipe);
	manifest->next = 4;
	manifest->samples = 3;
	manifest->bytes_in = 24;
	manifest->bytes_out = 20;
	manifest->stored_in = 24;
	manifest->stored_out = 4096;
	manifest->how[IMAGE_TRANSCODED] = 2;
	manifest->how[IMAGE_KEPT_PNG] = 1;
	manifest->renamed = 1;
	manifest->digest = 0x123456789abcdef;
	assert_int_equal(manifest_add_shard(manifest, &shard, NULL), 0);
	assert_int_equal(
		manifest_add_broken(manifest, 2, "/a/\"b\".jpg", "corrupt", "odd\nwords", NULL), 0);
}

static char *filled_text(const struct set_up *set)
{
	struct manifest manifest;
	fill(set, &manifest);
	char *text = manifest_text(&manifest, set->dataset);
	assert_non_null(text);
	manifest_deinit(&manifest);
	return text;
}

static int read_back(
	const struct set_up *set, const char *text, struct manifest *ret, struct fault *fault)
{
	manifest_begin(ret, set->dataset, &set->pattern, &set->recipe);
	return manifest_read(ret, text, strlen(text), "x.pack.json", fault);
}

static void test_round_trip(void **state)
{
	const struct set_up *set = *state;
	struct manifest manifest;
	struct fault fault;
	char *text = filled_text(set);
	assert_int_equal(read_back(set, text, &manifest, &fault), 0);
	char *again = manifest_text(&manifest, set->dataset);
	assert_string_equal(text, again);
	assert_int_equal(manifest.broken_listed, 1);
	assert_string_equal(manifest.broken[0].message, "odd\nwords");
	assert_int_equal(manifest.digest, 0x123456789abcdef);
	manifest_deinit(&manifest);
	free(again);
	free(text);
}

/* `text` with the first `what` replaced. */
static char *changed(const char *text, const char *what, const char *by)
{
	const char *at = strstr(text, what);
	char *copy;
	assert_non_null(at);
	assert_true(asprintf(&copy, "%.*s%s%s", (int)(at - text), text, by, at + strlen(what)) > 0);
	return copy;
}

static void test_damaged(void **state)
{
	const struct set_up *set = *state;
	char *text = filled_text(set);
	static const char *const change[][2] = {
		{"\"penstock_pack\":1", "\"penstock_pack\":2"},
		{"\"penstock_pack\":1", "\"something\":1"},
		{"\"next\":4", "\"next\":5"},
		{"\"next\":4", "\"next\":-4"},
		{"\"next\":4", "\"next\":\"4\""},
		{"\"samples\":3,\"bytes_in\"", "\"samples\":4,\"bytes_in\""},
		{"\"samples\":3,\"bytes\"", "\"samples\":2,\"bytes\""},
		{"\"transcoded\":2", "\"transcoded\":3"},
		{"\"broken_count\":1", "\"broken_count\":0"},
		{"\"complete\":false", "\"complete\":true"},
		{"\"stored_in\":24", "\"stored\":24"},
		{"\"stored_out\":4096", "\"stored_out\":-1"},
		{"\"stored_out\":4096", "\"stored_out\":4097"},
		{"\"renamed\":1", "\"renamed\":3"},
		{"\"digest\":\"0123456789abcdef\"", "\"digest\":\"0123456789abcdee\""},
		{"\"check\":\"", "\"check\":\"0"},
		{"\"digest\":\"0123456789abcdef\"", "\"digest\":\"f123456789abcdef\""},
		{"\"digest\":\"0123456789abcdef\"", "\"digest\":\"123\""},
		{"\"shards\":[", "\"shards\":[3,"},
		{"\"options\":{", "\"options\":3,\"o\":{"},
		{"\"source\":{", "\"source\":null,\"o\":{"},
		{"{", "["},
	};
	for (size_t i = 0; i < UTIL_COUNT(change); i++) {
		struct manifest manifest;
		struct fault fault = {{0}};
		char *bad = changed(text, change[i][0], change[i][1]);
		if (read_back(set, bad, &manifest, &fault) != -EINVAL)
			fail_msg("taken with %s", change[i][1]);
		assert_non_null(strstr(fault.text, "x.pack.json is damaged"));
		manifest_deinit(&manifest);
		free(bad);
	}
	for (size_t size = 0; size + 2 < strlen(text); size++) {
		struct manifest manifest;
		manifest_begin(&manifest, set->dataset, &set->pattern, &set->recipe);
		assert_int_equal(manifest_read(&manifest, text, size, "x", NULL), -EINVAL);
		manifest_deinit(&manifest);
	}
	free(text);
}

static void test_differs(void **state)
{
	const struct set_up *set = *state;
	char *text = filled_text(set);
	static const struct {
		const char *what, *by, *says;
	} cases[] = {
		{"x-%06d.tar", "y-%06d.tar", "the output is x-%06d.tar now and was y-%06d.tar"},
		{"\"max_side\":0", "\"max_side\":400",
			"--max-side is not given now and was 400 then"},
		{"\"12\"", "\"row\"", "--restart-interval is 12 now and was row then"},
		{"\"yes\"", "\"no\"", "--no-verify is not given now and was given then"},
		{"\"memory\":67108864", "\"memory\":1", "--memory is 67108864 now"},
		{"{\"fingerprint\":\"", "{\"fingerprint\":\"0000000000000000\",\"f\":\"",
			"the source's fingerprint is"},
	};
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		struct manifest manifest;
		struct fault fault = {{0}};
		char *other = changed(text, cases[i].what, cases[i].by);
		assert_int_equal(read_back(set, other, &manifest, &fault), -EEXIST);
		if (!strstr(fault.text, cases[i].says))
			fail_msg("expected \"%s\" in \"%s\"", cases[i].says, fault.text);
		manifest_deinit(&manifest);
		free(other);
	}
	free(text);
}

/* A dataset of nothing but broken images makes no endless list. */
static void test_bounded(void **state)
{
	const struct set_up *set = *state;
	struct manifest manifest;
	manifest_begin(&manifest, set->dataset, &set->pattern, &set->recipe);
	for (uint64_t i = 0; i < MANIFEST_BROKEN_MOST + 10; i++)
		assert_int_equal(manifest_add_broken(&manifest, i, "p", "r", "m", NULL), 0);
	assert_int_equal(manifest.broken_count, MANIFEST_BROKEN_MOST + 10);
	assert_int_equal(manifest.broken_listed, MANIFEST_BROKEN_MOST);
	manifest_deinit(&manifest);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_differs),
		cmocka_unit_test(test_bounded),
	};
	return cmocka_run_group_tests(tests, make_set_up, drop_set_up);
}

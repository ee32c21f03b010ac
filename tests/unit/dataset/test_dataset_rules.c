/* dataset: labels of a rule: manifests, paths into .json, files of class names; what an index of
 * them holds, when it is used again, and which combinations are refused. */
#include "labels/label_rule.h"
#include "unit/dataset/dataset_fixture.h"

static struct label_rule json_rule(const char *path, enum label_type type)
{
	struct label_rule rule = {.from = DATASET_LABELS_PATH, .type = type};
	(void)snprintf(rule.json, sizeof rule.json, "%s", path);
	return rule;
}

static struct label_rule manifest_rule(const char *name, enum label_type type)
{
	struct label_rule rule = {.from = DATASET_LABELS_MANIFEST, .type = type};
	(void)snprintf(rule.manifest, sizeof rule.manifest, "%s", in(name));
	return rule;
}

static struct label_rule with_classes(struct label_rule rule, const char *name)
{
	(void)snprintf(rule.classes, sizeof rule.classes, "%s", in(name));
	return rule;
}

static int open_rule(const char *name, const struct label_rule *rule, struct dataset **ret)
{
	const struct dataset_options options = {.cache_dir = cache, .rule = rule};
	fault.text[0] = 0;
	return dataset_open(in(name), &options, ret, &fault);
}

static struct dataset *opens(const char *name, const struct label_rule *rule)
{
	struct dataset *dataset = NULL;
	if (open_rule(name, rule, &dataset) < 0)
		fail_msg("%s", fault.text);
	return dataset;
}

static void refuses(const char *name, const struct label_rule *rule, const char *says)
{
	struct dataset *dataset;
	int rc = open_rule(name, rule, &dataset);
	if (rc != -EINVAL)
		fail_msg("%d where \"%s\" is wrong", rc, says);
	if (!strstr(fault.text, says))
		fail_msg("\"%s\" does not say \"%s\"", fault.text, says);
}

/* Opening again finds the indexes. */
static void is_kept(const char *name, const struct label_rule *rule)
{
	struct dataset *dataset = opens(name, rule);
	assert_int_equal(dataset_indexed_ns(dataset), 0);
	dataset_free(dataset);
}

static int64_t label_of(const struct dataset *dataset, uint64_t number)
{
	struct sample sample;
	assert_int_equal(dataset_sample(dataset, number, &sample, &fault), 0);
	return sample.label;
}

static void has_values(const struct dataset *dataset, uint64_t number, const char *want)
{
	float values[64];
	char text[512] = "";
	assert_true(dataset_label_width(dataset) <= 64);
	if (dataset_sample_values(dataset, number, values, &fault) < 0)
		fail_msg("%s", fault.text);
	for (uint32_t i = 0, at = 0; i < dataset_label_width(dataset); i++)
		at += (uint32_t)sprintf(text + at, "%s%g", i ? " " : "", (double)values[i]);
	assert_string_equal(text, want);
}

/* Four samples: a/1.jpg, a/2.JPEG, a-b/1.png, b/deep/1.jpg, in this order. */
static void manifest(const char *name, const char *a, const char *b, const char *c, const char *d)
{
	char text[512];
	(void)snprintf(text, sizeof text,
		"path,labels\nb/deep/1.jpg,%s\na/2.JPEG,%s\na/1.jpg,%s\na-b/1.png,%s\n", d, b, a,
		c);
	fixture_file(root, name, text);
}

static void test_folder_classes(void **state)
{
	make_classes("set");
	manifest("m.csv", "dog", "cat", "cat", "ant");
	const struct label_rule rule = manifest_rule("m.csv", LABEL_TYPE_CLASS);
	struct dataset *dataset = opens("set", &rule);
	assert_true(dataset_indexed_ns(dataset) > 0);
	assert_int_equal(dataset_count(dataset), 4);
	assert_int_equal(dataset_label_type(dataset), LABEL_TYPE_CLASS);
	assert_int_equal(dataset_label_width(dataset), 1);
	assert_int_equal(dataset_label_source(dataset), DATASET_LABELS_MANIFEST);
	assert_int_equal(dataset_classes(dataset), 3);
	assert_string_equal(dataset_class_name(dataset, 0), "ant");
	assert_string_equal(dataset_class_name(dataset, 2), "dog");
	check(dataset, 0, "a/1.jpg", 2, "a/1.jpg");
	check(dataset, 2, "a-b/1.png", 1, "a-b/1.png");
	check(dataset, 3, "b/deep/1.jpg", 0, "b/deep/1.jpg");
	dataset_free(dataset);
	is_kept("set", &rule);
}

static void test_contents_count(void **state)
{
	make_classes("set");
	const struct label_rule rule = manifest_rule("m.csv", LABEL_TYPE_CLASS);
	manifest("m.csv", "1", "2", "3", "4");
	struct dataset *first = opens("set", &rule), *again = opens("set", &rule);
	assert_true(dataset_same(first, again));
	dataset_free(again);
	manifest("m.csv", "1", "2", "3", "5");
	struct dataset *other = opens("set", &rule);
	assert_true(dataset_indexed_ns(other) > 0);
	assert_int_equal(label_of(other, 3), 5);
	assert_int_equal(label_of(first, 3), 4);
	assert_false(dataset_same(first, other));
	assert_true(dataset_fingerprint(first) != dataset_fingerprint(other));
	dataset_free(other);
	dataset_free(first);
	manifest("m.csv", "1", "2", "3", "4");
	is_kept("set", &rule);
	struct dataset *plain = open_good("set");
	assert_int_equal(label_of(plain, 3), 2);
	dataset_free(plain);
}

static void test_multi_hot(void **state)
{
	make_classes("set");
	manifest("m.csv", "0;3", "3", "", "1;0");
	const struct label_rule rule = manifest_rule("m.csv", LABEL_TYPE_AUTO);
	struct dataset *dataset = opens("set", &rule);
	assert_int_equal(dataset_label_type(dataset), LABEL_TYPE_MULTI_HOT);
	assert_int_equal(dataset_label_width(dataset), 4);
	assert_int_equal(dataset_classes(dataset), 0);
	has_values(dataset, 0, "1 0 0 1");
	has_values(dataset, 1, "0 0 0 1");
	has_values(dataset, 2, "0 0 0 0");
	has_values(dataset, 3, "1 1 0 0");
	assert_int_equal(label_of(dataset, 0), 0);
	assert_int_equal(label_of(dataset, 2), -1);
	assert_int_equal(label_of(dataset, 3), 1);
	struct dataset *same = opens("set", &rule);
	assert_int_equal(dataset_indexed_ns(same), 0);
	assert_int_equal(dataset_fingerprint(same), dataset_fingerprint(dataset));
	has_values(same, 3, "1 1 0 0");
	dataset_free(same);
	dataset_free(dataset);
}

static void test_multi_hot_named(void **state)
{
	make_classes("set");
	fixture_file(root, "names", "cow\nant\nbee\ncat\ndog\n");
	manifest("m.csv", "ant;cat", "bee", "bee", "ant");
	const struct label_rule plain = manifest_rule("m.csv", LABEL_TYPE_AUTO);
	const struct label_rule named = with_classes(plain, "names");
	struct dataset *dataset = opens("set", &plain);
	assert_int_equal(dataset_classes(dataset), 3);
	has_values(dataset, 0, "1 0 1");
	struct dataset *other = opens("set", &named);
	assert_int_equal(dataset_classes(other), 5);
	assert_string_equal(dataset_class_name(other, 4), "dog");
	has_values(other, 0, "0 1 0 1 0");
	assert_true(dataset_fingerprint(dataset) != dataset_fingerprint(other));
	dataset_free(other);
	dataset_free(dataset);
	is_kept("set", &plain);
	is_kept("set", &named);
}

static void test_floats(void **state)
{
	make_classes("set");
	fixture_file(root, "m.tsv",
		"path\tx\ty\na/1.jpg\t1\t2\na/2.JPEG\t-3\t0.25\nb/deep/1.jpg\t0\t1e3\na-b/"
		"1.png\t7\t8\n");
	struct label_rule rule = manifest_rule("m.tsv", LABEL_TYPE_AUTO);
	struct dataset *dataset = opens("set", &rule);
	assert_int_equal(dataset_label_type(dataset), LABEL_TYPE_FLOAT);
	assert_int_equal(dataset_label_width(dataset), 2);
	assert_int_equal(label_of(dataset, 0), -1);
	has_values(dataset, 2, "7 8");
	has_values(dataset, 1, "-3 0.25");
	has_values(dataset, 3, "0 1000");
	dataset_free(dataset);
	is_kept("set", &rule);
	fixture_file(root, "names", "x\ny\n");
	rule = with_classes(rule, "names");
	refuses("set", &rule, "remove classes");
}

static void test_every_sample_once(void **state)
{
	make_classes("set");
	const struct label_rule rule = manifest_rule("m.csv", LABEL_TYPE_AUTO);
	fixture_file(root, "m.csv", "a/1.jpg,0\na/2.JPEG,0\na-b/1.png,0\n");
	refuses("set", &rule, "set/b/deep/1.jpg: none of the 3 lines of");
	fixture_file(
		root, "m.csv", "a/1.jpg,0\na/2.JPEG,0\nc/1.jpg,5\na-b/1.png,0\nb/deep/1.jpg,1\n");
	refuses("set", &rule, "m.csv:3: \"c/1.jpg\" does not name a sample of");
	/* The same again, now with the indexes that were built. */
	refuses("set", &rule, "m.csv:3: \"c/1.jpg\" does not name a sample of");
	fixture_file(
		root, "m.csv", "file,label\na/1.jpg,0\na/2.JPEG,0\na-b/1.png,0\nb/deep/1.jpg,1\n");
	refuses("set", &rule, "its first word must be path");
}

/* `only`: as if the samples that no line names did not exist. */
static void test_only_of_a_folder(void **state)
{
	struct label_rule rule = manifest_rule("m.csv", LABEL_TYPE_CLASS);
	make_classes("set");
	rule.only = true;
	fixture_file(root, "m.csv", "b/deep/1.jpg,7\na/2.JPEG,3\n");
	struct dataset *dataset = opens("set", &rule);
	assert_int_equal(dataset_count(dataset), 2);
	check(dataset, 0, "a/2.JPEG", 3, "a/2.JPEG");
	check(dataset, 1, "b/deep/1.jpg", 7, "b/deep/1.jpg");
	const uint64_t part = dataset_fingerprint(dataset);
	dataset_free(dataset);
	is_kept("set", &rule);
	/* All of them: the dataset without `only`, but an index of its own. */
	manifest("m.csv", "1", "2", "3", "4");
	struct dataset *all = opens("set", &rule);
	rule.only = false;
	struct dataset *plain = opens("set", &rule);
	assert_int_equal(dataset_fingerprint(all), dataset_fingerprint(plain));
	assert_true(dataset_indexed_ns(plain) > 0);
	assert_false(dataset_same(all, plain));
	assert_true(dataset_fingerprint(all) != part);
	dataset_free(all);
	dataset_free(plain);
	/* A folder that has only those files is the same dataset. */
	rule.only = true;
	fixture_file(root, "m.csv", "b/deep/1.jpg,7\na/2.JPEG,3\n");
	(void)unlink(in("set/a/1.jpg"));
	(void)unlink(in("set/a-b/1.png"));
	rule.only = false;
	dataset = opens("set", &rule);
	assert_int_equal(dataset_fingerprint(dataset), part);
	dataset_free(dataset);
}

static void test_only_refused(void **state)
{
	struct label_rule rule = manifest_rule("m.csv", LABEL_TYPE_AUTO);
	make_classes("set");
	rule.only = true;
	fixture_file(root, "m.csv", "a/2.JPEG,3\nc/1.jpg,5\n");
	refuses("set", &rule, "m.csv:2: \"c/1.jpg\" does not name a sample of");
	fixture_file(root, "m.csv", "x/2.JPEG,3\nc/1.jpg,5\n");
	refuses("set", &rule, "m.csv:1: \"x/2.JPEG\" does not name a sample of");
	fixture_file(root, "m.csv", "a/2.JPEG,3\na/2.JPEG,5\n");
	refuses("set", &rule, "appeared before, in line 1");
	fixture_file(root, "m.csv", "a/2.JPEG,3\n");
	rule.only = false;
	refuses("set", &rule, "or say only: true to leave out samples that the file does not name");
}

static void member(struct fixture_tar *tar, const char *key, const char *json)
{
	char name[128];
	(void)snprintf(name, sizeof name, "%s.jpg", key);
	fixture_tar_member(tar, name, key);
	(void)snprintf(name, sizeof name, "%s.json", key);
	if (json)
		fixture_tar_member(tar, name, json);
}

static void tar_of(const char *name, const char *prefix, const char *first, const char *second)
{
	struct fixture_tar tar = {0};
	char key[64];
	(void)snprintf(key, sizeof key, "%s1", prefix);
	member(&tar, key, first);
	(void)snprintf(key, sizeof key, "%s2", prefix);
	member(&tar, key, second);
	fixture_tar_write(&tar, in(name));
}

static void test_json_classes(void **state)
{
	tar_of("s.tar", "k", "{\"a\": {\"id\": 3, \"name\": \"cat\"}}",
		"{\"a\": {\"id\": 1, \"name\": \"dog\"}}");
	const struct label_rule id = json_rule("a.id", LABEL_TYPE_AUTO);
	struct dataset *dataset = opens("s.tar", &id);
	assert_int_equal(dataset_label_type(dataset), LABEL_TYPE_CLASS);
	assert_int_equal(label_of(dataset, 0), 3);
	assert_int_equal(label_of(dataset, 1), 1);
	assert_int_equal(dataset_classes(dataset), 0);
	dataset_free(dataset);
	const struct label_rule name = json_rule("a.name", LABEL_TYPE_AUTO);
	refuses("s.tar", &name, "s.tar!k1.json: \"a.name\": expected a number, found \"cat\"");
	fixture_file(root, "names", "dog\ncat\n");
	const struct label_rule named = with_classes(name, "names");
	dataset = opens("s.tar", &named);
	assert_int_equal(label_of(dataset, 0), 1);
	assert_int_equal(label_of(dataset, 1), 0);
	assert_string_equal(dataset_class_name(dataset, 1), "cat");
	dataset_free(dataset);
	is_kept("s.tar", &id);
	is_kept("s.tar", &named);
	const struct label_rule beyond = with_classes(id, "names");
	refuses("s.tar", &beyond, "s.tar!k1.json: \"a.id\": expected a class from 0 to 1, found 3");
	assert_false(exists("s.tar.idx"));
}

/* A third sample shows which one is odd. */
static void test_json_odd_one_out(void **state)
{
	const struct label_rule rule = json_rule("v", LABEL_TYPE_AUTO);
	struct fixture_tar tar = {0};
	member(&tar, "k1", "{\"v\": 1}");
	member(&tar, "k2", "{\"v\": 2}");
	member(&tar, "k3", "{\"v\": [3]}");
	fixture_tar_write(&tar, in("s.tar"));
	refuses("s.tar", &rule,
		"s.tar!k3.json: its label is a list of classes, but the labels before it are one "
		"class");
	tar = (struct fixture_tar){0};
	member(&tar, "k1", "{\"v\": []}");
	member(&tar, "k2", "{\"v\": []}");
	member(&tar, "k3", "{\"v\": 3}");
	fixture_tar_write(&tar, in("s.tar"));
	refuses("s.tar", &rule,
		"s.tar!k1.jpg: its label is an empty list, but that of k3.jpg is one class");
}

/* JSON as Python writes it is metadata like any other; as a label it is refused with its value. */
static void test_json_of_python(void **state)
{
	const struct label_rule rule = json_rule("v", LABEL_TYPE_AUTO);
	const struct label_rule number = json_rule("v", LABEL_TYPE_FLOAT);
	tar_of("s.tar", "k",
		"{\"v\": 1, \"loss\": NaN, \"hash\": 18446744073709551615, \"all\": "
		"[Infinity, -Infinity]}",
		"\xef\xbb\xbf{\"v\": 2, \"name\": \"\\udce9.jpg\"}");
	struct dataset *dataset = opens("s.tar", &rule);
	assert_int_equal(label_of(dataset, 0), 1);
	assert_int_equal(label_of(dataset, 1), 2);
	dataset_free(dataset);
	tar_of("s.tar", "k", "{\"label\": 7, \"x\": NaN}", "{\"label\": 8, \"x\": 1e999}");
	dataset = open_good("s.tar");
	assert_int_equal(label_of(dataset, 1), 8);
	dataset_free(dataset);
	tar_of("s.tar", "k", "{\"v\": 1}", "{\"v\": NaN}");
	refuses("s.tar", &rule,
		"s.tar!k2.json: \"v\": expected an integer or the name of a class, found NaN");
	refuses("s.tar", &number, "s.tar!k2.json: \"v\": expected numbers, found NaN");
	tar_of("s.tar", "k", "{\"v\": 1}", "{\"v\": 9223372036854775808}");
	refuses("s.tar", &rule,
		"s.tar!k2.json: \"v\": expected an integer or the name of a class, found "
		"9223372036854775808 (a class is an integer from 0 to 2^31-1)");
	tar_of("s.tar", "k", "{\"label\": 1}", "{\"label\": -Infinity}");
	expect_fault("s.tar", -EINVAL,
		"s.tar!k2.json: expected an integer from 0 to 2147483647 under \"label\", found "
		"-Infinity");
}

static void test_json_refused(void **state)
{
	const struct label_rule rule = json_rule("v", LABEL_TYPE_AUTO);
	tar_of("s.tar", "k", "{\"v\": [1, 2]}", "{\"w\": 1}");
	refuses("s.tar", &rule, "s.tar!k2.json: has no \"v\" in the document");
	tar_of("s.tar", "k", "{\"v\": [1, 2]}", NULL);
	refuses("s.tar", &rule, "s.tar!k2.jpg has no .json");
	tar_of("s.tar", "k", "{\"v\": [1, 2]}", "{\"v\": 1}");
	refuses("s.tar", &rule,
		"s.tar!k2.json: its label is one class, but that of k1.jpg, the only sample before "
		"it, is a list of classes: say which with type");
	tar_of("s.tar", "k", "{\"v\": []}", "{\"v\": 1}");
	refuses("s.tar", &rule,
		"s.tar!k1.jpg: its label is an empty list, but that of k2.jpg is one class: give "
		"it "
		"a label, or say which");
	tar_of("s.tar", "k", "{\"v\": []}", "{\"v\": [0.5]}");
	refuses("s.tar", &rule,
		"s.tar!k1.jpg: its label is an empty list, but that of k2.jpg is numbers");
	tar_of("s.tar", "k", "{\"v\": [[1]]}", "{\"v\": [1]}");
	refuses("s.tar", &rule, "s.tar!k1.json: \"v\": expected integers or names of classes");
	tar_of("s.tar", "k", "{\"v\": [1.5, 2]}", "{\"v\": [1.5]}");
	refuses("s.tar", &rule,
		"s.tar!k2.json: its label has 1 numbers, but the labels before it have 2");
	tar_of("s.tar", "k", "{\"v\": [1.5, 2]}", "{\"v\": []}");
	refuses("s.tar", &rule, "s.tar!k2.json: \"v\": expected numbers, found none");
	tar_of("s.tar", "k", "{\"v\": 1}", "{\"v\"");
	refuses("s.tar", &rule, "s.tar!k2.json: is not JSON");
	tar_of("s.tar", "k", "{\"v\": []}", "{\"v\": []}");
	refuses("s.tar", &rule, "classes: FILE");
	const struct label_rule bad = json_rule("v..w", LABEL_TYPE_AUTO);
	refuses("s.tar", &bad, "labels: json: \"v..w\" has an empty part");
	make_classes("set");
	refuses("set", &rule, "is a folder");
}

static void test_shards_agree(void **state)
{
	const struct label_rule rule = json_rule("v", LABEL_TYPE_AUTO);
	tar_of("s-0.tar", "a", "{\"v\": [0]}", "{\"v\": [1]}");
	tar_of("s-1.tar", "b", "{\"v\": [6, 1]}", "{\"v\": []}");
	struct dataset *dataset = opens("s-{0..1}.tar", &rule);
	assert_int_equal(dataset_label_width(dataset), 7);
	has_values(dataset, 0, "1 0 0 0 0 0 0");
	has_values(dataset, 2, "0 1 0 0 0 0 1");
	has_values(dataset, 3, "0 0 0 0 0 0 0");
	dataset_free(dataset);
	is_kept("s-{0..1}.tar", &rule);
	tar_of("s-1.tar", "b", "{\"v\": 1.5}", "{\"v\": 2}");
	refuses("s-{0..1}.tar", &rule,
		"s-0.tar!a1.jpg and the samples after it have lists of classes");
	tar_of("s-0.tar", "a", "{\"v\": [0.5, 1]}", "{\"v\": [1.5, 1]}");
	refuses("s-{0..1}.tar", &rule, "have 2 numbers");
}

static void test_manifest_of_tars(void **state)
{
	tar_of("s-0.tar", "a", NULL, NULL);
	tar_of("s-1.tar", "a", NULL, NULL);
	const struct label_rule rule = manifest_rule("m.csv", LABEL_TYPE_AUTO);
	fixture_file(root, "m.csv", "a1,0\na2.jpg,1\n");
	struct dataset *dataset = opens("s-0.tar", &rule);
	assert_int_equal(label_of(dataset, 1), 1);
	dataset_free(dataset);
	/* The same member in two shards: a line may name only one sample. */
	refuses("s-{0..1}.tar", &rule, "s-1.tar!a1.jpg is the second sample that one line");
	char text[4096];
	(void)snprintf(text, sizeof text, "%s!a1.jpg,5\n%s!a2.jpg,6\n%s!a1.jpg,7\n%s!a2.jpg,8\n",
		in("s-0.tar"), in("s-0.tar"), in("s-1.tar"), in("s-1.tar"));
	fixture_file(root, "m.csv", text);
	dataset = opens("s-{0..1}.tar", &rule);
	for (int i = 0; i < 4; i++)
		assert_int_equal(label_of(dataset, (uint64_t)i), 5 + i);
	dataset_free(dataset);
	is_kept("s-{0..1}.tar", &rule);
}

static void test_only_of_tars(void **state)
{
	struct label_rule rule = manifest_rule("m.csv", LABEL_TYPE_AUTO);
	tar_of("s-0.tar", "a", NULL, NULL);
	tar_of("s-1.tar", "b", NULL, NULL);
	tar_of("s-2.tar", "c", NULL, NULL);
	rule.only = true;
	/* The second shard has none of them. */
	fixture_file(root, "m.csv", "c1,5\nc2.jpg,6\na2,7\n");
	struct dataset *dataset = opens("s-{0..2}.tar", &rule);
	assert_int_equal(dataset_count(dataset), 3);
	assert_int_equal(label_of(dataset, 0), 7);
	assert_int_equal(label_of(dataset, 1), 5);
	assert_int_equal(label_of(dataset, 2), 6);
	dataset_free(dataset);
	is_kept("s-{0..2}.tar", &rule);
	assert_false(exists("s-0.tar.idx"));
}

static void test_classes_alone(void **state)
{
	make_tar("x.tar", 1, 0, 4, "");
	struct label_rule rule = {.from = DATASET_LABELS_AUTO};
	fixture_file(root, "names", "x\ny\nz\n");
	rule = with_classes(rule, "names");
	struct dataset *dataset = opens("x.tar", &rule), *plain = open_good("x.tar");
	assert_int_equal(dataset_classes(dataset), 3);
	assert_string_equal(dataset_class_name(dataset, 1), "y");
	assert_int_equal(dataset_fingerprint(dataset), dataset_fingerprint(plain));
	assert_int_equal(dataset_indexed_ns(plain), 0);
	assert_false(dataset_same(dataset, plain));
	dataset_free(plain);
	dataset_free(dataset);
	fixture_file(root, "names", "x\ny\n");
	refuses("x.tar", &rule, "classes up to 2, but");
	make_tar("none.tar", 0, 0, 4, "");
	refuses("none.tar", &rule, "have no labels that");
	make_classes("set");
	refuses("set", &rule, "has class folders");
	rule.type = LABEL_TYPE_FLOAT;
	refuses("x.tar", &rule, "type needs json or manifest");
}

/* The largest number of values that a page can hold after the name. */
static void test_many_values(void **state)
{
	char name[260] = "flat/", line[16384];
	memset(name + 5, 'n', 200);
	(void)strcpy(name + 205, ".jpg");
	fixture_file(root, name, "x");
	for (int more = 0; more < 2; more++) {
		int count = (INDEX_NAME_ROOM - 204) / 4 + more;
		size_t at = (size_t)sprintf(line, "path,labels\n%s,", name + 5);
		for (int i = 0; i < count; i++)
			at += (size_t)sprintf(line + at, "%d;", i * 3);
		fixture_file(root, "m.csv", line);
		const struct label_rule rule = manifest_rule("m.csv", LABEL_TYPE_AUTO);
		if (more) {
			refuses("flat", &rule,
				"its label has 970 values, but after its name of 204 "
				"bytes there is room for only 969");
			continue;
		}
		struct dataset *dataset = opens("flat", &rule);
		static float values[4096];
		assert_int_equal(dataset_label_width(dataset), (count - 1) * 3 + 1);
		assert_int_equal(dataset_sample_values(dataset, 0, values, &fault), 0);
		for (int i = 0; i < (count - 1) * 3 + 1; i++)
			assert_true(values[i] == (i % 3 == 0 ? 1.0f : 0.0f));
		dataset_free(dataset);
	}
}

/* Another program writes other labels into the file while its samples are looked up. */
static int rewrite(void *context, uint64_t samples, uint64_t bytes, uint64_t total)
{
	if (!*(bool *)context)
		manifest("m.csv", "9", "9", "9", "9");
	*(bool *)context = true;
	return 0;
}

static void test_changed_meanwhile(void **state)
{
	make_classes("set");
	/* Large enough that progress is reported. */
	assert_int_equal(truncate(in("set/a-b/1.png"), 65 << 20), 0);
	manifest("m.csv", "1", "2", "3", "0");
	const struct label_rule rule = manifest_rule("m.csv", LABEL_TYPE_CLASS);
	bool written = false;
	const struct dataset_options options = {.cache_dir = cache,
		.rule = &rule,
		.progress = rewrite,
		.progress_context = &written};
	struct dataset *dataset;
	assert_int_equal(dataset_open(in("set"), &options, &dataset, &fault), -ESTALE);
	assert_true(written);
	assert_non_null(strstr(fault.text, "m.csv changed while it was read"));
	manifest("m.csv", "1", "2", "3", "0");
	dataset = opens("set", &rule);
	assert_true(dataset_indexed_ns(dataset) > 0);
	assert_int_equal(label_of(dataset, 2), 3);
	dataset_free(dataset);
}

/* If no index can be kept, one is built for this opening. */
static void test_without_a_cache(void **state)
{
	make_classes("set");
	manifest("m.csv", "1", "2", "3", "0");
	fixture_file(root, "file", "no folder");
	const struct label_rule rule = manifest_rule("m.csv", LABEL_TYPE_CLASS);
	const struct dataset_options options = {.cache_dir = in("file/below"), .rule = &rule};
	struct dataset *dataset;
	assert_int_equal(dataset_open(in("set"), &options, &dataset, &fault), 0);
	assert_non_null(strstr(dataset_notice(dataset), "temporary file"));
	assert_int_equal(label_of(dataset, 3), 0);
	dataset_free(dataset);
}

int main(void)
{
#define RULE_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		RULE_TEST(test_folder_classes),
		RULE_TEST(test_contents_count),
		RULE_TEST(test_multi_hot),
		RULE_TEST(test_multi_hot_named),
		RULE_TEST(test_floats),
		RULE_TEST(test_every_sample_once),
		RULE_TEST(test_only_of_a_folder),
		RULE_TEST(test_only_refused),
		RULE_TEST(test_only_of_tars),
		RULE_TEST(test_json_classes),
		RULE_TEST(test_json_odd_one_out),
		RULE_TEST(test_json_of_python),
		RULE_TEST(test_json_refused),
		RULE_TEST(test_shards_agree),
		RULE_TEST(test_manifest_of_tars),
		RULE_TEST(test_classes_alone),
		RULE_TEST(test_many_values),
		RULE_TEST(test_changed_meanwhile),
		RULE_TEST(test_without_a_cache),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

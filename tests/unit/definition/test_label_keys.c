/* label_keys: labels as a word and as a mapping, in both ways of writing one; what is refused, and
 * that what is printed reads back the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "definition/label_keys.h"
#include "definition/spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct stream_spec spec;
static struct fault fault;

static int parse(const char *labels)
{
	char text[2048];
	int size = snprintf(text, sizeof text, "{\"source\": \"/s\", \"labels\": %s}", labels);
	fault.text[0] = 0;
	return spec_parse(text, (size_t)size, "request", &spec, &fault);
}

static void takes(const char *labels, enum dataset_labels from, enum label_type type,
	const char *json, const char *manifest, const char *classes)
{
	if (parse(labels) < 0)
		fail_msg("%s", fault.text);
	assert_int_equal(spec.labels.from, from);
	assert_int_equal(spec.labels.type, type);
	assert_string_equal(spec.labels.json, json);
	assert_string_equal(spec.labels.manifest, manifest);
	assert_string_equal(spec.labels.classes, classes);
	struct label_rule first = spec.labels;
	char *printed = spec_json(&spec);
	assert_non_null(printed);
	if (spec_parse(printed, strlen(printed), "printed", &spec, &fault) < 0)
		fail_msg("%s: %s", printed, fault.text);
	free(printed);
	assert_true(label_keys_equal(&first, &spec.labels));
}

static void refuses(const char *labels, const char *says)
{
	assert_int_equal(parse(labels), -EINVAL);
	if (!strstr(fault.text, says) || strncmp(fault.text, "request:", 8) != 0)
		fail_msg("\"%s\" does not say \"%s\"", fault.text, says);
}

static void test_taken(void **state)
{
	(void)state;
	takes("\"auto\"", DATASET_LABELS_AUTO, LABEL_TYPE_AUTO, "", "", "");
	takes("none", DATASET_LABELS_NONE, LABEL_TYPE_AUTO, "", "", "");
	takes("cls", DATASET_LABELS_CLS, LABEL_TYPE_AUTO, "", "", "");
	takes("{\"json\": \"a.b\\\\.c.0\"}", DATASET_LABELS_PATH, LABEL_TYPE_AUTO, "a.b\\.c.0", "",
		"");
	takes("{\"manifest\": \"/m.csv\", \"type\": \"multi_hot\", \"classes\": \"/c\"}",
		DATASET_LABELS_MANIFEST, LABEL_TYPE_MULTI_HOT, "", "/m.csv", "/c");
	takes("{manifest: /m.csv, type: float}", DATASET_LABELS_MANIFEST, LABEL_TYPE_FLOAT, "",
		"/m.csv", "");
	takes("{manifest: /m.csv, type: classes}", DATASET_LABELS_MANIFEST, LABEL_TYPE_CLASSES, "",
		"/m.csv", "");
	takes("{classes: /c}", DATASET_LABELS_AUTO, LABEL_TYPE_AUTO, "", "", "/c");
	takes("\"{manifest: /m.csv, type: class}\"", DATASET_LABELS_MANIFEST, LABEL_TYPE_CLASS, "",
		"/m.csv", "");
	takes("\"{\\\"json\\\": \\\"a\\\"}\"", DATASET_LABELS_PATH, LABEL_TYPE_AUTO, "a", "", "");
}

static void test_refused(void **state)
{
	(void)state;
	refuses("yes", "expected auto, none, folder, cls or json, or a mapping such as {manifest: "
		       "/data/labels.csv}; got \"yes\"");
	refuses("[cls]", "labels");
	refuses("{}", "a mapping with json, manifest or classes");
	refuses("{type: class}", "a mapping with json, manifest or classes");
	refuses("{classes: /c, type: class}", "type needs json or manifest");
	refuses("{json: a, manifest: /m}", "not both");
	refuses("{json: a, only: true}", "labels: only needs manifest beside it");
	refuses("{manifest: /m, only: 2}", "only");
	refuses("{json: ''}", "json");
	refuses("{json: a, type: two_hot}", "class, multi_hot, float or classes");
	refuses("{json: a, label: b}", "label");
	refuses("{manifest: m.csv}", "expected an absolute path, found \"m.csv\"");
	refuses("{json: a, classes: c}", "expected an absolute path, found \"c\"");
	refuses("\"{json: a, manifest: /m}\"", "not both");
	refuses("\"{json: \"", "labels");
	refuses("{json: a, json: b}", "json");
}

static void test_same(void **state)
{
	(void)state;
	static struct stream_spec other;
	const char *what = "";
	assert_int_equal(parse("{manifest: /m, type: class}"), 0);
	other = spec;
	assert_int_equal(parse("\"{type: class, manifest: /m}\""), 0);
	assert_true(spec_same(&spec, &other, &what));
	static const char *const others[] = {"{manifest: /m}", "{manifest: /n, type: class}",
		"{manifest: /m, type: class, only: true}",
		"{manifest: /m, type: class, classes: /c}", "cls", "{json: a, type: class}"};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		assert_int_equal(parse(others[i]), 0);
		assert_false(spec_same(&spec, &other, &what));
		assert_string_equal(what, "labels");
	}
}

static void test_of_tools(void **state)
{
	(void)state;
	static struct label_rule rule;
	assert_int_equal(label_keys_parse("{manifest: m.csv}", "--labels", &rule, &fault), 0);
	assert_string_equal(rule.manifest, "m.csv");
	assert_int_equal(label_keys_parse("json", "--labels", &rule, &fault), 0);
	assert_int_equal(rule.from, DATASET_LABELS_JSON);
	assert_true(label_rule_plain(&rule));
	assert_int_equal(label_keys_parse("", "--labels", &rule, &fault), -EINVAL);
	assert_int_equal(label_keys_parse("{", "--labels", &rule, &fault), -EINVAL);
	assert_non_null(strstr(fault.text, "--labels"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_taken),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_same),
		cmocka_unit_test(test_of_tools),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

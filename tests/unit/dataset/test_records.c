/* TFRecord, MDS, LitData, RecordIO and CIFAR as datasets: fields, other sources of labels, files
 * beside shards. What samples and labels are is compared with the reference readers by
 * tests/containers. */
#include "dataset_fixture.h"

#include "base/sum/crc32c.h"

#include "base/host/roots.h"

#include <fcntl.h>
#include <sys/stat.h>

struct bytes {
	size_t size;
	uint8_t at[512];
};

static void put(struct bytes *to, const void *data, size_t size)
{
	assert_true(size <= sizeof to->at - to->size);
	memcpy(to->at + to->size, data, size);
	to->size += size;
}

/* A field of a protobuf that is bytes; everything here is shorter than 128. */
static struct bytes field(uint8_t number, const void *data, size_t size)
{
	struct bytes to = {0};
	const uint8_t head[] = {(uint8_t)(number << 3 | 2), (uint8_t)size};
	assert_true(size < 128);
	put(&to, head, sizeof head);
	put(&to, data, size);
	return to;
}

/* An entry of a tf.Example whose feature is a list of one value. */
static struct bytes entry(const char *name, uint8_t type, const void *data, size_t size)
{
	const struct bytes value = field(1, data, size);
	const struct bytes list = field(type, value.at, value.size);
	const struct bytes feature = field(2, list.at, list.size);
	struct bytes whole = field(1, name, strlen(name));
	put(&whole, feature.at, feature.size);
	return field(1, whole.at, whole.size);
}

static void put_record(struct bytes *to, const struct bytes *record)
{
	const uint64_t size = record->size;
	const uint32_t length = crc32c_masked((const uint8_t *)&size, 8);
	const uint32_t data = crc32c_masked(record->at, record->size);
	put(to, &size, 8);
	put(to, &length, 4);
	put(to, record->at, record->size);
	put(to, &data, 4);
}

/* Two records: an image "one" with label 0, and "second" with label 1 and a note. */
static void make_tfrecord_of(const char *name, const char *label_name)
{
	struct bytes file = {0};
	for (uint8_t i = 0; i < 2; i++) {
		const char *image = i ? "\xff\xd8\xffsecond" : "\xff\xd8\xffone";
		struct bytes features = entry("image", 1, image, strlen(image));
		const struct bytes label = entry(label_name, 3, &i, 1);
		const struct bytes note = entry("note", 1, "a note", 6);
		put(&features, label.at, label.size);
		if (i)
			put(&features, note.at, note.size);
		const struct bytes record = field(1, features.at, features.size);
		put_record(&file, &record);
	}
	fixture_write(in(name), file.at, file.size);
}

static void make_tfrecord(const char *name)
{
	make_tfrecord_of(name, "label");
}

static void make_mds(const char *name)
{
	static const char config[] =
		"{\"column_encodings\": [\"jpeg\", \"int\", \"str\"], \"column_names\": "
		"[\"image\", \"label\", \"note\"], \"column_sizes\": [null, 8, null], "
		"\"format\": \"mds\", \"version\": 2}";
	const uint32_t begin = 12 + sizeof config - 1;
	const uint32_t head[] = {1, begin, begin + 8 + 6 + 8 + 5};
	const uint32_t sizes[] = {6, 5};
	const uint64_t label = 3;
	struct bytes file = {0};
	put(&file, head, sizeof head);
	put(&file, config, sizeof config - 1);
	put(&file, sizes, sizeof sizes);
	put(&file, "\xff\xd8\xffone", 6);
	put(&file, &label, sizeof label);
	put(&file, "hello", 5);
	fixture_write(in(name), file.at, file.size);
}

static void expect_field(const char *name, const char *named, uint64_t sample, const char *text)
{
	struct field_list fields = {.count = 1, .at = {{.max = 64, .empty = true}}};
	(void)strcpy(fields.at[0].name, named);
	const struct dataset_options options = {.cache_dir = cache, .fields = &fields};
	struct dataset *dataset = NULL;
	char data[64];
	uint32_t size;
	bool longer;
	if (dataset_open(in(name), &options, &dataset, &fault) < 0)
		fail_msg("%s", fault.text);
	int rc = dataset_field_read(dataset, sample, &fields, 0, data, &size, &longer, &fault);
	assert_int_equal(rc, text ? 0 : DATASET_E_NONE);
	if (text) {
		assert_int_equal(size, strlen(text));
		assert_memory_equal(data, text, size);
	}
	dataset_free(dataset);
}

static void refuse_field(const char *name, const char *named, const char *part)
{
	struct field_list fields = {.count = 1, .at = {{.max = 64}}};
	(void)strcpy(fields.at[0].name, named);
	const struct dataset_options options = {.cache_dir = cache, .fields = &fields};
	struct dataset *dataset = NULL;
	assert_int_equal(dataset_open(in(name), &options, &dataset, &fault), -EINVAL);
	if (!strstr(fault.text, part))
		fail_msg("\"%s\" does not say \"%s\"", fault.text, part);
}

static void test_fields(void **state)
{
	make_tfrecord("x.tfrecord");
	expect_field("x.tfrecord", "note", 1, "a note");
	expect_field("x.tfrecord", "note", 0, NULL);
	refuse_field("x.tfrecord", "label",
		"the feature label holds numbers, which a TFRecord does not store as plain bytes");
	make_mds("x.mds");
	expect_field("x.mds", "note", 0, "hello");
	refuse_field("x.mds", "caption",
		"has no column caption (fields): its columns are image (jpeg), label (int), note "
		"(str)");
}

static void test_labels(void **state)
{
	struct dataset *dataset = NULL;
	make_tfrecord("x.tfrecord");
	make_mds("x.mds");
	expect_labels(
		"x.tfrecord", DATASET_LABELS_CLS, -EINVAL, "is read as TFRecord, whose labels");
	expect_labels("x.mds", DATASET_LABELS_FOLDER, -EINVAL, "is read as MDS, whose labels");
	assert_int_equal(open_labels("x.mds", DATASET_LABELS_NONE, &dataset), 0);
	assert_false(dataset_labelled(dataset));
	dataset_free(dataset);
	const struct label_rule rule = {.from = DATASET_LABELS_MANIFEST, .type = LABEL_TYPE_CLASS};
	struct label_rule named = rule;
	fixture_file(root, "labels.csv", "path,label\n0,7\n1,5\n");
	(void)snprintf(named.manifest, sizeof named.manifest, "%s", in("labels.csv"));
	const struct dataset_options options = {.cache_dir = cache, .rule = &named};
	if (dataset_open(in("x.tfrecord"), &options, &dataset, &fault) < 0)
		fail_msg("%s", fault.text);
	struct sample sample;
	assert_int_equal(dataset_sample(dataset, 1, &sample, &fault), 0);
	assert_int_equal(sample.label, 5);
	dataset_free(dataset);
}

static void expect_class(const char *name, uint32_t count, const char *class)
{
	struct dataset *dataset = open_good(name);
	assert_int_equal(dataset_classes(dataset), count);
	if (count)
		assert_string_equal(dataset_class_name(dataset, 1), class);
	dataset_free(dataset);
}

/* TensorFlow Datasets' names of classes: taken from beside the shard only, and again when they
 * change. */
static void test_class_names(void **state)
{
	assert_int_equal(mkdir(in("d"), 0755), 0);
	make_tfrecord("d/x.tfrecord");
	expect_class("d/x.tfrecord", 0, NULL);
	fixture_file(root, "d/label.labels.txt", "cat\ndog\n");
	expect_class("d/x.tfrecord", 2, "dog");
	fixture_file(root, "d/label.labels.txt", "cat\nhorse\nbird\n");
	expect_class("d/x.tfrecord", 3, "horse");
	fixture_file(root, "d/label.labels.txt", "only one");
	expect_fault("d/x.tfrecord", -EINVAL,
		"its label is 1, but label.labels.txt beside the file names only 1 classes");
	fixture_file(root, "d/label.labels.txt", "\xff\xfe,");
	expect_fault("d/x.tfrecord", -EINVAL, "is not UTF-8 text");
	/* A link to a file outside the roots. */
	assert_int_equal(unlink(in("d/label.labels.txt")), 0);
	fixture_file(root, "secret", "a\nb\nc\nd\n");
	assert_int_equal(symlink("../secret", in("d/label.labels.txt")), 0);
	assert_int_equal(roots_add(in("d"), &fault), 0);
	expect_fault("d/x.tfrecord", -EACCES, "label.labels.txt");
	roots_clear();
}

static struct dataset *open_columns(const char *name, const struct column_choice *columns)
{
	const struct dataset_options options = {.cache_dir = cache, .columns = columns};
	struct dataset *dataset = NULL;
	if (dataset_open(in(name), &options, &dataset, &fault) < 0)
		fail_msg("%s", fault.text);
	return dataset;
}

/* The same for a label that is not looked for by itself. */
static void test_class_names_asked(void **state)
{
	static const char *const names[] = {"cat\ndog\n", "cat\nhorse\nbird\n"};
	const struct column_choice columns = {.label = "the/kind"};
	make_tfrecord_of("x.tfrecord", "the/kind");
	for (uint32_t i = 0; i < 2; i++) {
		fixture_file(root, "the-kind.labels.txt", names[i]);
		struct dataset *dataset = open_columns("x.tfrecord", &columns);
		assert_int_equal(dataset_classes(dataset), 2 + i);
		dataset_free(dataset);
	}
}

/* A decimal label that no integer holds. */
static void test_label_too_large(void **state)
{
	static const char config[] =
		"{\"column_encodings\": [\"jpeg\", \"str_int\"], \"column_names\": [\"image\", "
		"\"label\"], \"column_sizes\": [null, null], \"format\": \"mds\", \"version\": 2}";
	const uint32_t begin = 12 + sizeof config - 1;
	const uint32_t head[] = {1, begin, begin + 8 + 6 + 19};
	const uint32_t sizes[] = {6, 19};
	struct bytes file = {0};
	put(&file, head, sizeof head);
	put(&file, config, sizeof config - 1);
	put(&file, sizes, sizeof sizes);
	put(&file, "\xff\xd8\xffone9999999999999999999", 6 + 19);
	fixture_write(in("x.mds"), file.at, file.size);
	expect_fault("x.mds", -EINVAL, "is not a decimal integer of at most 64 bits");
}

/* Lines of an .idx file that all name one record of many parts. */
static void test_recordio_lines(void **state)
{
	uint32_t words[3 * 2 + 6] = {0xced7230a, 1u << 29 | 24, 0, 0, 0, 0, 0, 0, 0xced7230a,
		2u << 29, 0xced7230a, 3u << 29};
	char lines[256];
	size_t used = 0;
	fixture_write(in("x.rec"), words, sizeof words);
	/* There is room for 6 parts, of which 2 are counted for each line. */
	for (int i = 0; i < 4; i++) {
		struct dataset *dataset = NULL;
		used += (size_t)snprintf(lines + used, sizeof lines - used, "%d\t0\n", i);
		fixture_file(root, "x.idx", lines);
		if (i == 3)
			break;
		dataset = open_good("x.rec");
		assert_int_equal(dataset_count(dataset), i + 1);
		dataset_free(dataset);
	}
	expect_fault("x.rec", -EINVAL,
		"x.idx: byte 12: the records that the lines up to this one name have more parts");
}

/* ---- CIFAR ---- */

static void expect_cifar(int32_t offset, uint32_t classes, const char *first, int64_t label)
{
	const struct column_choice columns = {.label_offset = offset};
	struct dataset *dataset = open_columns("data_batch_1.bin", &columns);
	struct sample sample;
	assert_int_equal(dataset_classes(dataset), classes);
	if (classes)
		assert_string_equal(dataset_class_name(dataset, 0), first);
	assert_int_equal(dataset_sample(dataset, 0, &sample, &fault), 0);
	assert_int_equal(sample.label, label);
	dataset_free(dataset);
}

/* The names move with the labels. */
static void test_cifar_offset(void **state)
{
	static uint8_t record[1 + 3072] = {2};
	fixture_write(in("data_batch_1.bin"), record, sizeof record);
	fixture_file(root, "batches.meta.txt", "plane\ncar\nbird\n");
	expect_cifar(0, 3, "plane", 2);
	expect_cifar(-1, 2, "car", 1);
	expect_cifar(1, 0, NULL, 3);
}

/* The largest label that a pickle can have, and an offset. */
static void test_cifar_largest(void **state)
{
	static const char before[] =
		"\x80\x02}(U\x04"
		"datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01"
		"b\x87R(K\x01K\x01M\x00\x0c\x86"
		"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff"
		"\xff\xffK\x00tb\x89T\x00\x0c\x00\x00";
	static const char after[] = "tbU\x06labels](\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"
				    "eu.";
	static uint8_t bytes[sizeof before - 1 + 3072 + sizeof after - 1];
	const struct column_choice columns = {.label_offset = 1};
	const struct dataset_options options = {.cache_dir = cache, .columns = &columns};
	struct dataset *dataset = NULL;
	memcpy(bytes, before, sizeof before - 1);
	memcpy(bytes + sizeof before - 1 + 3072, after, sizeof after - 1);
	fixture_write(in("batch"), bytes, sizeof bytes);
	assert_int_equal(dataset_open(in("batch"), &options, &dataset, &fault), -EINVAL);
	if (!strstr(fault.text, "expected a class from 0 to 2147483647, found 9223372036854775807"))
		fail_msg("%s", fault.text);
}

/* An index.json that would take gigabytes of memory. */
static void test_index_json_values(void **state)
{
	enum { OBJECTS = 1 << 20 };
	static const char head[] = "{\"version\": 2, \"shards\": [";
	char *text = malloc(sizeof head + 3 * (size_t)OBJECTS + 8);
	assert_non_null(text);
	size_t at = (size_t)sprintf(text, "%s", head);
	for (size_t i = 0; i < OBJECTS; i++, at += 3)
		memcpy(text + at, "{},", 3);
	strcpy(text + at, "{}]}");
	assert_int_equal(mkdir(in("values"), 0755), 0);
	fixture_file(root, "values/index.json", text);
	free(text);
	expect_fault("values", -EINVAL, "more than 4194304 values");
}

/* index.json and its shards may not be links that lead out of the roots either. */
static void test_index_json(void **state)
{
	char json[512];
	struct stat st;
	assert_int_equal(mkdir(in("d"), 0755), 0);
	make_mds("d/x.mds");
	assert_int_equal(stat(in("d/x.mds"), &st), 0);
	(void)snprintf(json, sizeof json,
		"{\"version\": 2, \"shards\": [{\"format\": \"mds\", \"version\": 2, \"samples\": "
		"1, \"raw_data\": {\"basename\": \"x.mds\", \"bytes\": %lld}, \"zip_data\": "
		"null}]}",
		(long long)st.st_size);
	fixture_file(root, "d/index.json", json);
	struct dataset *dataset = open_good("d");
	assert_int_equal(dataset_count(dataset), 1);
	dataset_free(dataset);
	assert_int_equal(rename(in("d/x.mds"), in("x.mds")), 0);
	assert_int_equal(symlink("../x.mds", in("d/x.mds")), 0);
	assert_int_equal(roots_add(in("d"), &fault), 0);
	expect_fault("d", -EACCES, "x.mds");
	roots_clear();
	dataset = open_good("d");
	dataset_free(dataset);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_fields, setup, teardown),
		cmocka_unit_test_setup_teardown(test_index_json_values, setup, teardown),
		cmocka_unit_test_setup_teardown(test_labels, setup, teardown),
		cmocka_unit_test_setup_teardown(test_class_names, setup, teardown),
		cmocka_unit_test_setup_teardown(test_class_names_asked, setup, teardown),
		cmocka_unit_test_setup_teardown(test_label_too_large, setup, teardown),
		cmocka_unit_test_setup_teardown(test_recordio_lines, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cifar_offset, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cifar_largest, setup, teardown),
		cmocka_unit_test_setup_teardown(test_index_json, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

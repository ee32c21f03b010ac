/* container_cifar: CIFAR-10 and CIFAR-100 as their site ships them.
 *
 *   data_batch_1.bin to _5.bin, test_batch.bin   a label of one byte, then 32 x 32 pixels as a
 *                                                plane of red, of green and of blue
 *   train.bin, test.bin                          the same with two labels, coarse and fine
 *   data_batch_1 to _5, test_batch; train, test  Python's pickles: `data` is an array of such
 *                                                planes, `labels` (or `fine_labels` and
 *                                                `coarse_labels`) and `filenames` are lists
 *
 * Pickles are never unpickled (pickle.h). The file of any name that begins as a pickled dict is
 * taken for a batch, and refused if it is not one; the binary files are known by their names.
 *
 * A folder stands for its training batches in the order of torchvision's train=True; the test batch
 * is a file to be named. Labels: those of CIFAR-100 are the fine ones, as in torchvision, unless
 * the label column is "coarse_labels". Class names come from batches.meta, meta, batches.meta.txt,
 * fine_label_names.txt or coarse_label_names.txt beside the batch, if they exist. A sample's name
 * is its file name in the pickle, or else its row. */
#include "dataset/container/arrays/pixels.h"

#include "base/util.h"
#include "dataset/container/arrays/pickle.h"
#include "dataset/container/beside.h"
#include "dataset/container/window.h"
#include "proto/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

enum { SIDE = 32, PIXEL_BYTES = 3 * SIDE * SIDE };

static const struct pixels planes = {
	.method = PACKED_PLANES, .width = SIDE, .height = SIDE, .channels = 3, .step = PIXEL_BYTES};

/* What the site's files are called. */
enum variant { VARIANT_NONE, VARIANT_10, VARIANT_100 };

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static enum variant binary_variant(const char *path)
{
	const char *name = base_name(path);
	const size_t size = strlen(name);
	if (!strcmp(name, "train.bin") || !strcmp(name, "test.bin"))
		return VARIANT_100;
	const bool batch = !strncmp(name, "data_batch_", 11) && size == 16 && name[11] >= '0' &&
			   name[11] <= '9' && !strcmp(name + 12, ".bin");
	return batch || !strcmp(name, "test_batch.bin") ? VARIANT_10 : VARIANT_NONE;
}

/* Many programs name a file train.bin: the first two records must have labels that exist. */
static bool is_hundred(const struct container_probe *probe)
{
	for (size_t at = 0; at < 2 * (PIXEL_BYTES + 2) && at + 1 < probe->head_size;
		at += PIXEL_BYTES + 2)
		if (probe->head[at] >= 20 || probe->head[at + 1] >= 100)
			return false;
	return probe->head_size > 0;
}

static bool cifar_sniff(const struct container_probe *probe)
{
	if (pickle_begins(probe->head, probe->head_size))
		return true;
	const enum variant variant = binary_variant(probe->path);
	return variant == VARIANT_10 || (variant == VARIANT_100 && is_hundred(probe));
}

/* ---- which label ---- */

/* One kind of label: its key, and the files that name its classes. */
struct label_kind {
	const char *key, *meta, *meta_key, *text;
};

static const struct label_kind kinds[] = {
	{"labels", "batches.meta", "label_names", "batches.meta.txt"},
	{"fine_labels", "meta", "fine_label_names", "fine_label_names.txt"},
	{"coarse_labels", "meta", "coarse_label_names", "coarse_label_names.txt"},
};
enum { KIND_LABELS, KIND_FINE, KIND_COARSE, KINDS };

static int column_fault(const struct index_job *job, const char *what, const char *named,
	const char *expected, struct fault *fault)
{
	return fault_set(fault, -EINVAL, "%s has no %s \"%s\": expected %s", job->path, what, named,
		expected);
}

/* Finds the kind that was asked for; KINDS: none was. `has` says which there are. */
static int kind_asked(
	const struct index_job *job, const bool has[KINDS], size_t *ret, struct fault *fault)
{
	const char *image = job->columns->image, *label = job->columns->label;
	if (image[0] && strcmp(image, "data") != 0)
		return column_fault(job, "column of images", image, "data", fault);
	for (*ret = 0; *ret < KINDS; ++*ret)
		if (has[*ret] && strcmp(kinds[*ret].key, label) == 0)
			return 0;
	if (label[0])
		return column_fault(job, "labels", label,
			has[KIND_FINE] ? "fine_labels or coarse_labels" : "labels", fault);
	return 0;
}

/* ---- class names ---- */

/* Names from a pickled list. */
static int names_pickled(const struct index_job *job, const struct label_kind *kind,
	const struct beside *beside, struct pixels *pixels, struct fault *fault)
{
	struct pickle_dict dict;
	struct pickle_cursor cursor;
	struct pickle_value item;
	struct window window;
	window_init(&window, &beside->blob, beside->path, beside->size);
	int rc = pickle_scan(&window, &dict, fault);
	const struct pickle_value *list = rc == 0 ? pickle_find(&dict, kind->meta_key) : NULL;
	if (rc == 0 && (!list || list->type != PICKLE_LIST || list->items != PICKLE_ITEMS_TEXTS))
		rc = fault_set(fault, -EINVAL,
			"%s has no list of names \"%s\": copy it again from where it came from, or "
			"remove it to do without names",
			beside->path, kind->meta_key);
	if (rc == 0)
		pickle_cursor_init(&cursor, &window, list);
	while (rc == 0 && (rc = pickle_next(&cursor, &item, fault)) > 0) {
		const uint8_t *name = NULL;
		const size_t size = (size_t)UTIL_MIN(item.size, UINT64_C(1) + INDEX_NAME_MAX);
		rc = window_get(&window, item.at, size, "the name of a class", &name, fault);
		if (rc == 0)
			rc = pixels_class(job, pixels, beside->path, name, size, fault);
	}
	window_deinit(&window);
	return rc;
}

/* Names from lines of text. */
static int names_text(const struct index_job *job, const struct beside *beside,
	struct pixels *pixels, struct fault *fault)
{
	struct window window;
	uint64_t at = 0;
	int rc = 0;
	window_init(&window, &beside->blob, beside->path, beside->size);
	while (rc == 0 && at < beside->size) {
		const size_t room =
			(size_t)UTIL_MIN(beside->size - at, UINT64_C(2) + INDEX_NAME_MAX);
		const uint8_t *text = NULL;
		rc = window_get(&window, at, room, "the name of a class", &text, fault);
		if (rc < 0)
			break;
		const uint8_t *end = memchr(text, '\n', room);
		size_t size = end ? (size_t)(end - text) : room;
		at += size + (end ? 1 : 0);
		size -= size && text[size - 1] == '\r';
		/* The site's file ends with an empty line. */
		if (size)
			rc = pixels_class(job, pixels, beside->path, text, size, fault);
	}
	window_deinit(&window);
	return rc;
}

/* Adds the names of the classes, if the file that has them exists. */
static int names_take(const struct index_job *job, const struct label_kind *kind, bool pickled,
	struct pixels *pixels, struct fault *fault)
{
	struct beside beside;
	if (job->asked != DATASET_LABELS_AUTO)
		return 0;
	int rc = beside_open(job->path, pickled ? kind->meta : kind->text, &beside, fault);
	if (rc == 0)
		rc = pickled ? names_pickled(job, kind, &beside, pixels, fault)
			     : names_text(job, &beside, pixels, fault);
	beside_close(&beside);
	return UTIL_MIN(rc, 0);
}

/* ---- binary files ---- */

static int binary_rows(const struct index_job *job, struct pixels *pixels, uint64_t place,
	uint32_t most, struct fault *fault)
{
	struct window window;
	int rc = 0;
	window_init(&window, job->blob, job->path, job->size);
	for (uint64_t row = 0; rc >= 0 && row < job->size / pixels->step; row++) {
		struct pixels_label label = {
			.path = job->path, .place = row * pixels->step + place};
		const uint8_t *value = NULL;
		rc = window_get(&window, label.place, 1, "a label", &value, fault);
		if (rc < 0)
			break;
		label.number = *value;
		if (label.number >= most)
			rc = fault_set(fault, -EINVAL,
				"%s: byte %" PRIu64 ": found the label %" PRId64
				", expected a class from 0 to %u: the file is damaged or is not "
				"one of CIFAR's; copy it again from where it came from",
				job->path, label.place, label.number, most - 1);
		else
			rc = pixels_sample(job, pixels, row, &label, NULL, fault);
	}
	window_deinit(&window);
	return UTIL_MIN(rc, 0);
}

static int binary_index(const struct index_job *job, struct fault *fault)
{
	static const uint32_t classes[] = {
		[KIND_LABELS] = 10, [KIND_FINE] = 100, [KIND_COARSE] = 20};
	const bool hundred = binary_variant(job->path) == VARIANT_100;
	const bool has[KINDS] = {!hundred, hundred, hundred};
	struct pixels pixels = planes;
	size_t kind;
	int rc = kind_asked(job, has, &kind, fault);
	if (rc < 0)
		return rc;
	if (kind == KINDS)
		kind = hundred ? KIND_FINE : KIND_LABELS;
	pixels.first = hundred ? 2 : 1;
	pixels.step += pixels.first;
	if (job->size % pixels.step)
		return fault_set(fault, -EINVAL,
			"%s: byte %" PRIu64 ": a record has %" PRIu64 " bytes, but the file ends "
			"after %" PRIu64 " of them: it is damaged or was cut off; copy it again "
			"from where it came from",
			job->path, job->size - job->size % pixels.step, pixels.step,
			job->size % pixels.step);
	rc = names_take(job, &kinds[kind], false, &pixels, fault);
	return rc < 0 ? rc
		      : binary_rows(job, &pixels, kind == KIND_FINE ? 1 : 0, classes[kind], fault);
}

/* ---- pickles ---- */

/* The lists that go with the array, each read through a window of its own. */
struct batch {
	struct window window, label_window, name_window;
	struct pickle_dict dict;
	struct pickle_cursor labels, names;
	bool labelled, named;
	uint64_t count;
};

static bool is_list(const struct pickle_value *value, enum pickle_items items)
{
	return value && value->type == PICKLE_LIST && (value->items == items || !value->size);
}

static int array_take(const struct index_job *job, struct batch *batch, struct pixels *pixels,
	struct fault *fault)
{
	const struct pickle_value *data = pickle_find(&batch->dict, "data");
	if (!data || data->type != PICKLE_ARRAY)
		return fault_set(fault, -EINVAL,
			"%s is a pickle without an array of bytes \"data\": it is not a batch as "
			"CIFAR's site ships them; penstock never unpickles: write the images into "
			"class folders or a tar",
			job->path);
	if (data->columns != PIXEL_BYTES)
		return fault_set(fault, -EINVAL,
			"%s: byte %" PRIu64 ": the rows of \"data\" have %u bytes, but an image of "
			"CIFAR has %d (3 planes of 32 x 32): write other images into class folders "
			"or a tar",
			job->path, data->at, data->columns, PIXEL_BYTES);
	pixels->first = data->at;
	batch->count = data->rows;
	return 0;
}

static int lengths_fault(const struct index_job *job, const struct batch *batch, const char *key,
	uint64_t found, struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"%s: \"data\" has %" PRIu64 " images, but \"%s\" has %" PRIu64 " items: the file "
		"is damaged, copy it again from where it came from",
		job->path, batch->count, key, found);
}

static int batch_labels(const struct index_job *job, struct batch *batch, struct pixels *pixels,
	struct fault *fault)
{
	bool has[KINDS];
	size_t kind;
	for (size_t i = 0; i < KINDS; i++)
		has[i] = pickle_find(&batch->dict, kinds[i].key);
	int rc = kind_asked(job, has, &kind, fault);
	if (rc < 0 || job->asked != DATASET_LABELS_AUTO)
		return rc;
	if (kind == KINDS)
		kind = has[KIND_LABELS] ? KIND_LABELS : KIND_FINE;
	const struct pickle_value *list = pickle_find(&batch->dict, kinds[kind].key);
	if (!is_list(list, PICKLE_ITEMS_NUMBERS))
		return fault_set(fault, -EINVAL,
			"%s has no list of whole numbers \"%s\": ask for labels: none (--labels "
			"none), or name another column of labels",
			job->path, kinds[kind].key);
	if (list->size != batch->count)
		return lengths_fault(job, batch, kinds[kind].key, list->size, fault);
	pickle_cursor_init(&batch->labels, &batch->label_window, list);
	batch->labelled = true;
	return names_take(job, &kinds[kind], true, pixels, fault);
}

static int batch_names(const struct index_job *job, struct batch *batch, struct fault *fault)
{
	const struct pickle_value *list = pickle_find(&batch->dict, "filenames");
	if (!is_list(list, PICKLE_ITEMS_TEXTS))
		return 0;
	if (list->size != batch->count)
		return lengths_fault(job, batch, "filenames", list->size, fault);
	pickle_cursor_init(&batch->names, &batch->name_window, list);
	batch->named = true;
	return 0;
}

/* The next file name: *ret is NULL if it cannot be a sample's name. */
static int name_next(struct batch *batch, char *text, const char **ret, struct fault *fault)
{
	struct pickle_value item;
	const uint8_t *bytes = NULL;
	*ret = NULL;
	int rc = pickle_next(&batch->names, &item, fault);
	if (rc <= 0 || item.size > INDEX_NAME_MAX)
		return UTIL_MIN(rc, 0);
	rc = window_get(
		&batch->name_window, item.at, (size_t)item.size, "a file name", &bytes, fault);
	if (rc < 0)
		return rc;
	memcpy(text, bytes, (size_t)item.size);
	text[item.size] = 0;
	if (text[0] && text[0] != '/' && strlen(text) == item.size && utf8_is_valid(text))
		*ret = text;
	return 0;
}

static int batch_rows(const struct index_job *job, struct batch *batch, const struct pixels *pixels,
	struct fault *fault)
{
	char text[INDEX_NAME_MAX + 1];
	int rc = 0;
	for (uint64_t row = 0; rc >= 0 && row < batch->count; row++) {
		struct pickle_value item = {0};
		const char *name = NULL;
		rc = batch->labelled ? pickle_next(&batch->labels, &item, fault) : 0;
		if (rc >= 0 && batch->named)
			rc = name_next(batch, text, &name, fault);
		const struct pixels_label label = {item.number, job->path, batch->labels.at};
		if (rc >= 0)
			rc = pixels_sample(
				job, pixels, row, batch->labelled ? &label : NULL, name, fault);
	}
	return UTIL_MIN(rc, 0);
}

static int pickled_index(const struct index_job *job, struct fault *fault)
{
	struct pixels pixels = planes;
	cleanup(free_ptr) struct batch *batch = calloc(1, sizeof *batch);
	if (!batch)
		return fault_set(fault, -ENOMEM, "no memory to index %s", job->path);
	window_init(&batch->window, job->blob, job->path, job->size);
	window_init(&batch->label_window, job->blob, job->path, job->size);
	window_init(&batch->name_window, job->blob, job->path, job->size);
	int rc = pickle_scan(&batch->window, &batch->dict, fault);
	if (rc == 0)
		rc = array_take(job, batch, &pixels, fault);
	if (rc == 0)
		rc = batch_labels(job, batch, &pixels, fault);
	if (rc == 0)
		rc = batch_names(job, batch, fault);
	if (rc == 0)
		rc = batch_rows(job, batch, &pixels, fault);
	window_deinit(&batch->window);
	window_deinit(&batch->label_window);
	window_deinit(&batch->name_window);
	return rc;
}

static int cifar_index(const struct index_job *job, struct fault *fault)
{
	struct window window;
	const uint8_t *head = NULL;
	window_init(&window, job->blob, job->path, job->size);
	const size_t size = (size_t)UTIL_MIN(job->size, UINT64_C(12));
	int rc = container_begin(job, "a batch of CIFAR", fault);
	if (rc == 0)
		rc = window_get(&window, 0, size, "its head", &head, fault);
	const bool pickled = rc == 0 && pickle_begins(head, size);
	window_deinit(&window);
	if (rc < 0)
		return rc;
	return pickled ? pickled_index(job, fault) : binary_index(job, fault);
}

/* All of them, because which one is read depends on the columns. */
static int cifar_beside(
	const char *path, const struct column_choice *columns, uint32_t *ret, struct fault *fault)
{
	int rc = 0;
	(void)columns;
	for (size_t i = 0; i < KINDS && rc == 0; i++) {
		rc = beside_state(ret, path, kinds[i].meta, fault);
		if (rc == 0)
			rc = beside_state(ret, path, kinds[i].text, fault);
	}
	return rc;
}

/* ---- folders ---- */

static bool file_in(int fd, const char *name)
{
	struct stat st;
	return fstatat(fd, name, &st, 0) == 0 && S_ISREG(st.st_mode);
}

static int batch_add(
	const char *folder, const char *name, struct source_paths *paths, struct fault *fault)
{
	char *path = NULL;
	if (asprintf(&path, "%s/%s", folder, name) < 0)
		path = NULL;
	return source_paths_add(paths, path, fault);
}

/* The five batches of CIFAR-10: 1; 0: the folder has none. */
static int batches_add(const char *folder, int fd, const char *end, struct source_paths *paths,
	struct fault *fault)
{
	enum { BATCHES = 5 };
	char name[BATCHES][24];
	size_t count = 0;
	for (size_t i = 0; i < BATCHES; i++) {
		(void)snprintf(name[i], sizeof name[i], "data_batch_%zu%s", i + 1, end);
		count += file_in(fd, name[i]);
	}
	for (size_t i = 0; count && i < BATCHES; i++) {
		if (!file_in(fd, name[i]))
			return fault_set(fault, -EINVAL,
				"%s has %zu of the %d batches of CIFAR-10, %s is missing: unpack "
				"the archive of its site again, or name the batches that you mean",
				folder, count, BATCHES, name[i]);
		int rc = batch_add(folder, name[i], paths, fault);
		if (rc < 0)
			return rc;
	}
	return count > 0;
}

static int cifar_expand(const char *folder, int fd, struct source_paths *paths, struct fault *fault)
{
	int rc = batches_add(folder, fd, "", paths, fault);
	if (rc == 0)
		rc = batches_add(folder, fd, ".bin", paths, fault);
	if (rc != 0)
		return rc;
	const char *train = file_in(fd, "train") && file_in(fd, "meta") ? "train"
			    : file_in(fd, "train.bin") && file_in(fd, "fine_label_names.txt")
				    ? "train.bin"
				    : NULL;
	if (!train)
		return 0;
	rc = batch_add(folder, train, paths, fault);
	return rc < 0 ? rc : 1;
}

static int cifar_empty(const struct container_empty *empty, struct fault *fault)
{
	return fault_set(fault, -EINVAL, "%s%s: it has no images", empty->path,
		empty->shards > 1 ? " and the files after it" : "");
}

const struct container container_cifar = {
	.name = "CIFAR",
	.sniff = cifar_sniff,
	.expand = cifar_expand,
	.columns = true,
	.labels = 1 << DATASET_LABELS_NONE | 1 << DATASET_LABELS_MANIFEST |
		  1 << DATASET_LABELS_COLUMN,
	.joint = "!",
	.naming = "an image's file name or row, or SHARD!NAME",
	.index = cifar_index,
	.empty = cifar_empty,
	.beside = cifar_beside,
};

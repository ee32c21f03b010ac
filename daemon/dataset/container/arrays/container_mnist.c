/* container_mnist: images in the idx files of MNIST, and of the datasets that have its form, as
 * EMNIST, Fashion-MNIST and KMNIST.
 *
 * An idx file has two zero bytes, the type of its values (8: uint8), the number of its dimensions,
 * each dimension as a big-endian number of 4 bytes, and the values. Images have three dimensions:
 * how many, rows, columns. Their labels are in a file of one dimension whose name has "labels-idx1"
 * where that of the images has "images-idx3", or ".idx1" for ".idx3". A sample's name is its row.
 *
 * A folder stands for its training images, as torchvision's train=True; the test images are a file
 * to be named. Files that end with .gz, as the sites ship them, must be unpacked first: samples are
 * read in place. */
#include "dataset/container/arrays/pixels.h"

#include "base/util.h"
#include "dataset/container/beside.h"
#include "dataset/container/window.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

enum { IDX_BYTES = 8, IDX_IMAGES = 3, IDX_LABELS = 1, IDX_HEAD = 4, IDX_HEAD_IMAGES = 16 };

static const char ending[] = "-ubyte", ending_packed[] = "-ubyte.gz";

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static bool ends_with(const char *text, const char *end)
{
	const size_t size = strlen(text), tail = strlen(end);
	return size >= tail && strcmp(text + size - tail, end) == 0;
}

/* Two zeros, a type from 8 to 14, one to four dimensions: few other files begin so; of these, the
 * name or the size decides. */
static bool mnist_sniff(const struct container_probe *probe)
{
	const uint8_t *head = probe->head;
	if (ends_with(probe->path, ending_packed))
		return probe->head_size >= 2 && head[0] == 0x1f && head[1] == 0x8b;
	if (probe->head_size < IDX_HEAD || head[0] || head[1] || head[2] != IDX_BYTES)
		return false;
	return head[3] == IDX_IMAGES ||
	       (head[3] >= 1 && head[3] <= 4 && ends_with(probe->path, ending));
}

/* The name of the file of labels: 1; 0: the name of the images does not tell. */
static int labels_name(const char *path, char *ret, size_t room)
{
	static const char *const pairs[][2] = {
		{"images-idx3", "labels-idx1"}, {"images.idx3", "labels.idx1"}};
	const char *name = base_name(path);
	for (size_t i = 0; i < UTIL_COUNT(pairs); i++) {
		const char *at = strstr(name, pairs[i][0]);
		if (!at)
			continue;
		const int n = snprintf(ret, room, "%.*s%s%s", (int)(at - name), name, pairs[i][1],
			at + strlen(pairs[i][0]));
		return n > 0 && (size_t)n < room;
	}
	return 0;
}

static uint32_t big_endian(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
	       bytes[3];
}

/* The images' header. */
static int images_head(const struct index_job *job, struct window *window, struct pixels *ret,
	uint64_t *ret_count, struct fault *fault)
{
	const uint8_t *head = NULL;
	int rc = window_get(window, 0, IDX_HEAD, "the header of an idx file", &head, fault);
	if (rc < 0)
		return rc;
	if (head[0] == 0x1f && head[1] == 0x8b)
		return fault_set(fault, -EINVAL,
			"%s is compressed with gzip, but samples are read in place: unpack it and "
			"the file of its labels first (gunzip -k %s)",
			job->path, base_name(job->path));
	if (head[3] == IDX_LABELS)
		return fault_set(fault, -EINVAL,
			"%s: byte 3: found an idx file of one dimension, which holds labels: name "
			"the file of the images (images-idx3)",
			job->path);
	if (head[0] || head[1] || head[2] != IDX_BYTES || head[3] != IDX_IMAGES)
		return fault_set(fault, -EINVAL,
			"%s: byte 0: found type %u and %u dimensions, expected those of images: "
			"type 8 (uint8) and 3 dimensions (how many, rows, columns)",
			job->path, head[2], head[3]);
	rc = window_get(window, 0, IDX_HEAD_IMAGES, "the header of an idx file", &head, fault);
	if (rc < 0)
		return rc;
	const uint64_t count = big_endian(head + 4);
	const uint32_t rows = big_endian(head + 8), columns = big_endian(head + 12);
	if (!rows || !columns || rows > UINT16_MAX || columns > UINT16_MAX)
		return fault_set(fault, -EINVAL,
			"%s: byte 8: found images of %u rows and %u columns, expected 1 to %u of "
			"each: the file is damaged, copy it again from where it came from",
			job->path, rows, columns, UINT16_MAX);
	const uint64_t each = (uint64_t)rows * columns, found = job->size - IDX_HEAD_IMAGES;
	if (count > UINT64_MAX / each || count * each != found)
		return fault_set(fault, -EINVAL,
			"%s: byte 4: the header says %" PRIu64 " images of %u times %u, which have "
			"%" PRIu64 " bytes, but %" PRIu64 " follow: the file is damaged or was cut "
			"off; copy it again from where it came from",
			job->path, count, rows, columns, count * each, found);
	*ret = (struct pixels){.method = PACKED_PIXELS,
		.width = (uint16_t)columns,
		.height = (uint16_t)rows,
		.channels = 1,
		.first = IDX_HEAD_IMAGES,
		.step = each};
	*ret_count = count;
	return 0;
}

/* The file of labels. */
struct labels_file {
	struct beside beside;
	struct window window;
	bool present;
};

static int labels_head(const struct index_job *job, struct labels_file *labels, uint64_t count,
	struct fault *fault)
{
	const struct beside *beside = &labels->beside;
	const uint8_t *head = NULL;
	int rc = window_get(&labels->window, 0, 8, "the header of an idx file", &head, fault);
	if (rc < 0)
		return rc;
	if (head[0] || head[1] || head[2] != IDX_BYTES || head[3] != IDX_LABELS)
		return fault_set(fault, -EINVAL,
			"%s: byte 0: found type %u and %u dimensions, expected those of labels: "
			"type 8 (uint8) and 1 dimension",
			beside->path, head[2], head[3]);
	const uint64_t found = big_endian(head + 4);
	if (found != count || beside->size != 8 + count)
		return fault_set(fault, -EINVAL,
			"%s: byte 4: the header says %" PRIu64 " labels, and the file has %" PRIu64
			" bytes, but %s has %" PRIu64 " images, whose labels have %" PRIu64
			" bytes with their header: one of the files is damaged or belongs to "
			"another dataset",
			beside->path, found, beside->size, job->path, count, 8 + count);
	return 0;
}

static int labels_open_beside(const struct index_job *job, struct labels_file *labels,
	uint64_t count, struct fault *fault)
{
	char name[NAME_MAX + 1];
	labels->beside.blob = BLOB_OF(-1);
	labels->present = false;
	if (job->asked != DATASET_LABELS_AUTO || !labels_name(job->path, name, sizeof name))
		return 0;
	int rc = beside_open(job->path, name, &labels->beside, fault);
	if (rc == BESIDE_E_NONE)
		return fault_set(fault, -EINVAL,
			"%s: its labels should be in %s, which does not exist: copy that file "
			"there (unpacked with gunzip), or ask for labels: none (--labels none)",
			job->path, labels->beside.path);
	if (rc < 0)
		return rc;
	window_init(
		&labels->window, &labels->beside.blob, labels->beside.path, labels->beside.size);
	labels->present = true;
	return labels_head(job, labels, count, fault);
}

static int samples_write(const struct index_job *job, const struct pixels *pixels, uint64_t count,
	struct labels_file *labels, struct fault *fault)
{
	int rc = 0;
	for (uint64_t row = 0; rc >= 0 && row < count; row++) {
		struct pixels_label label = {.path = labels->beside.path, .place = 8 + row};
		const uint8_t *value = NULL;
		if (labels->present) {
			rc = window_get(&labels->window, label.place, 1, "a label", &value, fault);
			if (rc < 0)
				return rc;
			label.number = *value;
		}
		rc = pixels_sample(job, pixels, row, labels->present ? &label : NULL, NULL, fault);
	}
	return UTIL_MIN(rc, 0);
}

static int mnist_index(const struct index_job *job, struct fault *fault)
{
	struct labels_file labels = {.beside = {.blob = BLOB_OF(-1)}};
	struct pixels pixels;
	struct window window;
	uint64_t count = 0;
	window_init(&window, job->blob, job->path, job->size);
	int rc = container_begin(job, "an idx file of MNIST", fault);
	if (rc == 0)
		rc = images_head(job, &window, &pixels, &count, fault);
	window_deinit(&window);
	if (rc == 0)
		rc = labels_open_beside(job, &labels, count, fault);
	if (rc == 0)
		rc = samples_write(job, &pixels, count, &labels, fault);
	if (labels.present)
		window_deinit(&labels.window);
	beside_close(&labels.beside);
	return rc;
}

static int mnist_beside(
	const char *path, const struct column_choice *columns, uint32_t *ret, struct fault *fault)
{
	char name[NAME_MAX + 1];
	(void)columns;
	return labels_name(path, name, sizeof name) ? beside_state(ret, path, name, fault) : 0;
}

/* A folder with the training images: those are meant. */
static int mnist_expand(const char *folder, int fd, struct source_paths *paths, struct fault *fault)
{
	static const char *const names[] = {
		"train-images-idx3-ubyte", "train-images.idx3-ubyte", "train-images-idx3-ubyte.gz"};
	struct stat st;
	for (size_t i = 0; i < UTIL_COUNT(names); i++) {
		char *path = NULL;
		if (fstatat(fd, names[i], &st, 0) < 0 || !S_ISREG(st.st_mode))
			continue;
		if (asprintf(&path, "%s/%s", folder, names[i]) < 0)
			path = NULL;
		int rc = source_paths_add(paths, path, fault);
		return rc < 0 ? rc : 1;
	}
	return 0;
}

static int mnist_empty(const struct container_empty *empty, struct fault *fault)
{
	return fault_set(fault, -EINVAL, "%s%s: its header says that it has no images", empty->path,
		empty->shards > 1 ? " and the files after it" : "");
}

const struct container container_mnist = {
	.name = "MNIST idx",
	.sniff = mnist_sniff,
	.expand = mnist_expand,
	.labels = 1 << DATASET_LABELS_NONE | 1 << DATASET_LABELS_MANIFEST |
		  1 << DATASET_LABELS_COLUMN,
	.joint = "!",
	.naming = "an image's row, or SHARD!ROW",
	.index = mnist_index,
	.empty = mnist_empty,
	.beside = mnist_beside,
};

/* torture_data: file operations that the tests of this folder repeat thousands of times, in one
 * process.
 *
 *   torture_data dump SOURCE CACHE [MANIFEST]
 *       prints a line for each sample: number shard offset size label name crc32-of-bytes
 *   torture_data flip SOURCE CACHE INDEX STEP [MANIFEST] flips each STEP-th byte of INDEX, as a
 *       whole (XOR 0xff) and by one bit: all samples must be the
 *       same, or an error must name the index and say what to do. Prints "FLIPS same SAME refused
 *       REFUSED".
 *   torture_data rings FILE COUNT
 *       writes a flight recorder's file with COUNT entries, note n saying "n" and more
 *
 * Exit codes: 0; 1 with a sentence. */
#include "base/util.h"
#include "dataset/dataset.h"
#include "labels/label_rule.h"
#include "record/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

struct torture {
	const char *source;
	struct dataset_options options;
	struct label_rule rule;
};

static int torture_die(const char *what, const char *why)
{
	(void)fprintf(stderr, "%s: %s\n", what, why);
	return 1;
}

static int dump_open(struct torture *t, struct dataset **ret, struct fault *fault)
{
	fault->text[0] = 0;
	return dataset_open(t->source, &t->options, ret, fault);
}

static int dump_sample(
	const struct dataset *dataset, uint64_t number, FILE *out, bool bytes, struct fault *fault)
{
	struct sample sample;
	int rc = dataset_sample(dataset, number, &sample, fault);
	if (rc < 0)
		return rc;
	cleanup(free_ptr) uint8_t *data = bytes ? malloc(sample.size + 1u) : NULL;
	if (bytes)
		rc = data ? dataset_read(dataset, &sample, data, sample.size, fault) : -ENOMEM;
	if (rc < 0)
		return rc;
	(void)fprintf(out, "%" PRIu64 " %" PRIu32 " %" PRIu64 " %" PRIu32 " %" PRId64 " %d %s",
		number, sample.shard, sample.offset, sample.size, sample.label, sample.format,
		sample.name);
	if (bytes)
		(void)fprintf(out, " %08lx", crc32(0, data, sample.size));
	(void)fputc('\n', out);
	return 0;
}

static int dump_values(
	const struct dataset *dataset, uint64_t number, FILE *out, struct fault *fault)
{
	const uint32_t width = dataset_label_width(dataset);
	if (dataset_label_type(dataset) == LABEL_TYPE_CLASS)
		return 0;
	const bool whole = dataset_label_type(dataset) == LABEL_TYPE_CLASSES;
	cleanup(free_ptr) void *values = calloc(1, dataset_label_bytes(dataset));
	int rc = values ? dataset_sample_values(dataset, number, values, fault) : -ENOMEM;
	for (uint32_t i = 0; rc == 0 && i < width; i++)
		(void)fprintf(out, " %a",
			whole ? (double)((int64_t *)values)[i] : (double)((float *)values)[i]);
	return rc;
}

/* Prints everything that a dataset answers. */
static int dump_all(const struct dataset *dataset, FILE *out, bool bytes, struct fault *fault)
{
	(void)fprintf(out, "%" PRIu64 " %016" PRIx64 " %u\n", dataset_count(dataset),
		dataset_fingerprint(dataset), dataset_classes(dataset));
	for (uint32_t i = 0; i < dataset_classes(dataset); i++)
		(void)fprintf(out, "class %s\n", dataset_class_name(dataset, i));
	int rc = 0;
	for (uint64_t i = 0; rc == 0 && i < dataset_count(dataset); i++) {
		rc = dump_sample(dataset, i, out, bytes, fault);
		if (rc == 0)
			rc = dump_values(dataset, i, out, fault);
	}
	return rc;
}

static int dump(struct torture *t)
{
	struct dataset *dataset;
	struct fault fault;
	int rc = dump_open(t, &dataset, &fault);
	if (rc < 0)
		return torture_die(t->source, fault.text);
	rc = dump_all(dataset, stdout, true, &fault);
	const char *notice = dataset_notice(dataset);
	if (*notice)
		(void)fprintf(stderr, "notice: %s\n", notice);
	dataset_free(dataset);
	return rc < 0 ? torture_die(t->source, fault.text) : 0;
}

/* ---- flips ---- */

/* Everything that the dataset answers, as an allocated text; NULL with a fault if something was
 * refused. */
static char *flip_look(struct torture *t, struct fault *fault)
{
	struct dataset *dataset;
	char *text = NULL;
	size_t size;
	if (dump_open(t, &dataset, fault) < 0)
		return NULL;
	FILE *out = open_memstream(&text, &size);
	int rc = out ? dump_all(dataset, out, false, fault) : -ENOMEM;
	if (out)
		(void)fclose(out);
	dataset_free(dataset);
	if (rc == 0)
		return text;
	free(text);
	return NULL;
}

static int flip_load(const char *path, uint8_t **ret, size_t *ret_size)
{
	cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	*ret_size = (size_t)st.st_size;
	*ret = malloc(*ret_size);
	return *ret && read(fd, *ret, *ret_size) == st.st_size ? 0 : -EIO;
}

static int flip_store(const char *path, const uint8_t *bytes, size_t size)
{
	/* The file may have been replaced meanwhile: it is written again. */
	(void)unlink(path);
	cleanup(close_fd) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	return fd >= 0 && write(fd, bytes, size) == (ssize_t)size ? 0 : -EIO;
}

static bool flip_is_told(const char *text, const char *index)
{
	return strstr(text, index) && strstr(text, "delete the index");
}

/* 0 the same, 1 refused, -1 neither. */
static int flip_one(struct torture *t, const char *index, const char *expected, size_t at)
{
	struct fault fault;
	cleanup(free_ptr) char *got = flip_look(t, &fault);
	if (got ? strcmp(got, expected) == 0 : flip_is_told(fault.text, index))
		return !got;
	(void)fprintf(stderr, "byte %zu of %s flipped: %s\n", at, index,
		got ? "other samples" : fault.text);
	return -1;
}

static int flip(struct torture *t, const char *index, size_t step)
{
	struct fault fault;
	cleanup(free_ptr) uint8_t *bytes = NULL;
	size_t size = 0, counts[2] = {0};
	cleanup(free_ptr) char *expected = flip_look(t, &fault);
	if (!expected)
		return torture_die(t->source, fault.text);
	if (flip_load(index, &bytes, &size) < 0)
		return torture_die(index, "cannot be read");
	uint64_t random = 88172645463325252u;
	for (size_t i = 0; i < size; i += step) {
		for (int whole = 0; whole < 2; whole++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			uint8_t mask = whole ? 0xff : (uint8_t)(1u << random % 8);
			bytes[i] ^= mask;
			int rc = flip_store(index, bytes, size);
			bytes[i] ^= mask;
			if (rc == 0)
				rc = flip_one(t, index, expected, i);
			if (rc < 0)
				return torture_die(index, "a flip was not seen");
			counts[rc]++;
		}
	}
	if (flip_store(index, bytes, size) < 0 || flip_one(t, index, expected, size) != 0)
		return torture_die(index, "not the same at the end");
	(void)printf("%zu same %zu refused %zu\n", counts[0] + counts[1], counts[0], counts[1]);
	return 0;
}

/* ---- the recorder's ---- */

static int rings(const char *path, unsigned count)
{
	struct ring *ring;
	struct fault fault = {""};
	if (ring_create(path, RING_LEAST, &ring, &fault) < 0)
		return torture_die(path, fault.text);
	for (unsigned i = 0; i < count; i++) {
		struct record record = {.time_ns = i + 1,
			.kind = i % 3 ? RECORD_MACHINE : RECORD_NOTE,
			.bytes = sizeof record.body};
		if (i % 3)
			record.body.machine.available = record.body.machine.total = i;
		else
			(void)snprintf(record.body.note.text, sizeof record.body.note.text, "%u%*s",
				i, (int)(i % 150), ".");
		/* ring_append reports a full disk, which is no reason to stop. */
		if (ring_append(ring, &record) < 0)
			(void)fprintf(stderr, "entry %u is not kept\n", i);
	}
	ring_free(ring);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	bool flips = strcmp(what, "flip") == 0;
	int manifest = flips ? 6 : 4;
	if (strcmp(what, "rings") == 0 && argc == 4)
		return rings(argv[2], (unsigned)strtoul(argv[3], NULL, 10));
	if (argc < manifest || argc > manifest + 1 || (!flips && strcmp(what, "dump") != 0))
		return torture_die("torture_data",
			"dump SOURCE CACHE | flip SOURCE CACHE INDEX STEP | rings FILE COUNT");
	struct torture t = {.source = argv[2], .options = {.cache_dir = argv[3]}};
	if (argc > manifest) {
		t.rule.from = DATASET_LABELS_MANIFEST;
		(void)snprintf(t.rule.manifest, sizeof t.rule.manifest, "%s", argv[manifest]);
		t.options.rule = &t.rule;
	}
	return flips ? flip(&t, argv[4], strtoul(argv[5], NULL, 10)) : dump(&t);
}

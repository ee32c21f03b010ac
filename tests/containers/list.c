/* list: opens a dataset as the daemon does and prints what is in it, for tests/containers/run.py.
 *
 *   container_list CACHE [--image-column NAME] [--label-column NAME] [--label-offset NUMBER]
 *       [--labels none] [--bytes FOLDER] SOURCE
 *
 * The first line is an object with the kind, the classes, the fingerprint and the type of the
 * labels. Each further line is a sample: its name, size, the CRC-32 of its bytes, and its label (a
 * number, a list of numbers, or null). With --bytes, FOLDER/000007 gets the bytes of sample 7.
 * Exits with 1 and the fault's sentence if something fails. */
#include "base/util.h"
#include "dataset/dataset.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static void text_print(const char *text)
{
	(void)putchar('"');
	for (const char *c = text; *c; c++) {
		if (*c == '"' || *c == '\\')
			(void)printf("\\%c", *c);
		else if ((unsigned char)*c < ' ')
			(void)printf("\\u%04x", (unsigned)(unsigned char)*c);
		else
			(void)putchar(*c);
	}
	(void)putchar('"');
}

static void head_print(const struct dataset *dataset)
{
	static const char *const types[] = {"auto", "class", "multi_hot", "float", "classes"};
	(void)printf(
		"{\"kind\": \"%s\", \"samples\": %llu, \"fingerprint\": %llu, \"type\": \"%s\", "
		"\"classes\": ",
		dataset_kind_name(dataset), (unsigned long long)dataset_count(dataset),
		(unsigned long long)dataset_fingerprint(dataset),
		types[dataset_label_type(dataset)]);
	for (uint32_t i = 0; i < dataset_classes(dataset); i++) {
		(void)printf("%s", i ? ", " : "[");
		text_print(dataset_class_name(dataset, i));
	}
	(void)printf("%s}\n", dataset_classes(dataset) ? "]" : "null");
}

static int values_print(const struct dataset *dataset, uint64_t number, struct fault *fault)
{
	const uint32_t width = dataset_label_width(dataset);
	const bool whole = dataset_label_type(dataset) == LABEL_TYPE_CLASSES;
	cleanup(free_ptr) void *values = malloc(dataset_label_bytes(dataset));
	int rc = values ? dataset_sample_values(dataset, number, values, fault) : -ENOMEM;
	for (uint32_t i = 0; rc == 0 && i < width; i++) {
		(void)printf("%s", i ? ", " : "[");
		if (whole)
			(void)printf("%lld", (long long)((const int64_t *)values)[i]);
		else
			(void)printf("%.9g", (double)((const float *)values)[i]);
	}
	(void)printf("]");
	return rc;
}

static int bytes_write(
	const char *folder, uint64_t number, const void *bytes, size_t size, struct fault *fault)
{
	char path[4096];
	(void)snprintf(path, sizeof path, "%s/%06llu", folder, (unsigned long long)number);
	FILE *file = fopen(path, "wb");
	const bool written = file && fwrite(bytes, 1, size, file) == size;
	if (!file || fclose(file) != 0 || !written)
		return fault_set(fault, -EIO, "%s cannot be written", path);
	return 0;
}

static int sample_print(
	const struct dataset *dataset, uint64_t number, const char *folder, struct fault *fault)
{
	struct sample sample;
	int rc = dataset_sample(dataset, number, &sample, fault);
	if (rc < 0)
		return rc;
	cleanup(free_ptr) uint8_t *bytes = malloc((size_t)sample.size + 1);
	rc = bytes ? dataset_read(dataset, &sample, bytes, sample.size, fault) : -ENOMEM;
	if (rc == 0 && folder)
		rc = bytes_write(folder, number, bytes, sample.size, fault);
	if (rc < 0)
		return rc;
	(void)printf("{\"name\": ");
	text_print(sample.name);
	(void)printf(", \"size\": %u, \"crc32\": %lu, \"label\": ", sample.size,
		crc32(0, bytes, sample.size));
	if (!dataset_labelled(dataset))
		(void)printf("null");
	else if (dataset_label_type(dataset) == LABEL_TYPE_CLASS)
		(void)printf("%lld", (long long)sample.label);
	else
		rc = values_print(dataset, number, fault);
	(void)printf("}\n");
	return rc;
}

/* Reads the options, which all have a value, and returns the source; NULL: one is wrong. */
static const char *arguments_read(char **argv, struct dataset_options *options,
	struct column_choice *columns, const char **ret_folder)
{
	options->cache_dir = argv[1];
	options->index_in_cache = true;
	options->columns = columns;
	for (argv += 2; argv[0] && argv[1]; argv += 2) {
		if (!strcmp(argv[0], "--image-column"))
			(void)snprintf(columns->image, sizeof columns->image, "%s", argv[1]);
		else if (!strcmp(argv[0], "--label-column"))
			(void)snprintf(columns->label, sizeof columns->label, "%s", argv[1]);
		else if (!strcmp(argv[0], "--label-offset"))
			columns->label_offset = (int32_t)strtol(argv[1], NULL, 10);
		else if (!strcmp(argv[0], "--bytes"))
			*ret_folder = argv[1];
		else if (!strcmp(argv[0], "--labels") && !strcmp(argv[1], "none"))
			options->labels = DATASET_LABELS_NONE;
		else
			return NULL;
	}
	return argv[0];
}

int main(int argc, char **argv)
{
	struct column_choice columns = {.label_offset = 0};
	struct dataset_options options = {.labels = DATASET_LABELS_AUTO};
	struct dataset *dataset = NULL;
	struct fault fault = {0};
	const char *folder = NULL;
	const char *source = argc > 2 ? arguments_read(argv, &options, &columns, &folder) : NULL;
	if (!source) {
		(void)fprintf(stderr, "container_list CACHE [OPTION VALUE]... SOURCE\n");
		return 2;
	}
	int rc = dataset_open(source, &options, &dataset, &fault);
	if (rc == 0)
		head_print(dataset);
	for (uint64_t i = 0; rc == 0 && i < dataset_count(dataset); i++)
		rc = sample_print(dataset, i, folder, &fault);
	dataset_free(dataset);
	if (rc < 0)
		(void)fprintf(stderr, "%s\n", fault.text);
	return rc < 0;
}

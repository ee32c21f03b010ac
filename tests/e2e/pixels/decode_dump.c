/* decode_dump: prints what the decoder makes of files, for comparing with Pillow.
 *
 *   decode_dump [--region x0,y0,x1,y1] [--rows-only] [--pixels N] [--repeat N] [-v] FILE...
 *   find . -name '*.jpg' | decode_dump
 *
 * One line per file: outcome, width, height, CRC-32 of the RGB bytes, path. A file is judged whole
 * unless --rows-only. A region that does not fit into the image is cut to it. Files lie in memory
 * of exactly the slack that the decoder is promised, so that a sanitizer sees a read beyond it. */
#include "decode/decode.h"

#include "base/util.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum { SLACK = 64 };

struct options {
	struct decode_region region;
	bool has_region, rows_only, verbose;
	unsigned repeat;
	struct decode_limits limits;
};

struct sum {
	uint32_t width;
	uLong crc;
};

static void add_row(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	struct sum *sum = context;
	static uint8_t woven[3 * DECODE_SIDE_MAX];
	decode_weave(woven, rgb, sum->width);
	sum->crc = crc32(sum->crc, woven, sum->width * 3);
}

static uint8_t *read_file(const char *path, size_t *ret_size)
{
	cleanup(close_file) FILE *file = fopen(path, "rb");
	struct stat stat;
	if (!file || fstat(fileno(file), &stat) != 0)
		return NULL;
	size_t size = (size_t)stat.st_size;
	uint8_t *data = malloc(size + SLACK);
	if (!data || fread(data, 1, size, file) != size) {
		free(data);
		return NULL;
	}
	memset(data + size, 0xff, SLACK);
	*ret_size = size;
	return data;
}

static struct decode_region cut_region(
	const struct options *options, const struct decode_info *info)
{
	struct decode_region all = {0, 0, info->width, info->height};
	if (!options->has_region)
		return all;
	struct decode_region r = options->region;
	r.x1 = UTIL_MIN(r.x1, all.x1);
	r.y1 = UTIL_MIN(r.y1, all.y1);
	r.x0 = UTIL_MIN(r.x0, r.x1 - 1);
	r.y0 = UTIL_MIN(r.y0, r.y1 - 1);
	return r;
}

static int dump(struct decoder *decoder, const struct options *options, const char *path)
{
	size_t size = 0;
	cleanup(free_ptr) uint8_t *data = read_file(path, &size);
	if (!data) {
		(void)fprintf(stderr, "decode_dump: %s: %s\n", path, strerror(errno));
		return 1;
	}
	struct decode_info info = {0};
	struct sum sum = {0};
	int outcome = 0;
	for (unsigned i = 0; i < options->repeat; i++) {
		outcome = decoder_begin(decoder, data, size, &info);
		if (outcome)
			break;
		struct decode_region region = cut_region(options, &info);
		sum = (struct sum){region.x1 - region.x0, crc32(0, NULL, 0)};
		outcome = decoder_rows(decoder, region, !options->rows_only, add_row, &sum);
	}
	if (outcome < 0)
		return 1;
	(void)printf("%s %" PRIu32 " %" PRIu32 " %08lx %s\n",
		decode_outcome_name((enum decode_outcome)outcome), info.width, info.height,
		outcome ? 0 : sum.crc, path);
	if (options->verbose && outcome)
		(void)printf("# %s\n", decoder_message(decoder));
	return 0;
}

static int parse_region(const char *text, struct options *options)
{
	struct decode_region *r = &options->region;
	options->has_region = true;
	int fields = sscanf(text, "%" SCNu32 ",%" SCNu32 ",%" SCNu32 ",%" SCNu32, &r->x0, &r->y0,
		&r->x1, &r->y1);
	return fields == 4 && r->x0 < r->x1 && r->y0 < r->y1 ? 0 : -1;
}

/* Returns the index of the first file, or -1. */
static int parse(int argc, char **argv, struct options *options)
{
	int i = 1;
	for (; i < argc && argv[i][0] == '-'; i++) {
		bool has_value = i + 1 < argc;
		if (strcmp(argv[i], "--rows-only") == 0)
			options->rows_only = true;
		else if (strcmp(argv[i], "-v") == 0)
			options->verbose = true;
		else if (strcmp(argv[i], "--region") == 0 && has_value &&
			 parse_region(argv[i + 1], options) == 0)
			i++;
		else if (strcmp(argv[i], "--repeat") == 0 && has_value)
			options->repeat = (unsigned)strtoul(argv[++i], NULL, 10);
		else if (strcmp(argv[i], "--pixels") == 0 && has_value)
			options->limits.pixels = strtoull(argv[++i], NULL, 10);
		else
			return -1;
	}
	return i;
}

static int dump_list(struct decoder *decoder, const struct options *options)
{
	char path[4096];
	int failed = 0;
	while (fgets(path, sizeof(path), stdin)) {
		path[strcspn(path, "\n")] = 0;
		failed |= dump(decoder, options, path);
	}
	return failed;
}

int main(int argc, char **argv)
{
	struct options options = {.repeat = 1, .limits = decode_limits_default()};
	int first = parse(argc, argv, &options);
	if (first < 0) {
		(void)fprintf(stderr,
			"usage: decode_dump [--region x0,y0,x1,y1] [--rows-only] [--pixels N] "
			"[--repeat N] [-v] [FILE...]\n");
		return 2;
	}
	struct fault fault;
	struct decoder *decoder = NULL;
	if (decoder_new(&options.limits, &decoder, &fault)) {
		(void)fprintf(stderr, "%s\n", fault.text);
		return 1;
	}
	int failed = first == argc ? dump_list(decoder, &options) : 0;
	for (int i = first; i < argc; i++)
		failed |= dump(decoder, &options, argv[i]);
	decoder_free(decoder);
	return failed;
}

/* Differential fuzzing of penstock's decoder with generated images (generate.h, differ.h).
 *
 *     fuzz_images [--seed N] [--files N] [--seconds N]      until either limit; reports each minute
 *     fuzz_images --write FOLDER [--seed N] [--files N]     writes the files, for fuzz_jpeg
 *     fuzz_images --show FILE...                            other files, for instance a finding
 *
 * The seed of a finding makes that file again. A finding that needs other images in flight takes
 * the --seed and --files of the whole run. One thread; run several with seeds far apart. */
#include "fuzz/differ.h"

#include "base/clock.h"

enum { MINUTE_S = 60 };

struct options {
	uint64_t seed, files, seconds;
	const char *folder;
	bool show;
};

static void write_file(const char *folder, uint64_t seed, const struct generate *g)
{
	char path[4096];
	(void)snprintf(path, sizeof(path), "%s/%" PRIu64 ".jpg", folder, seed);
	cleanup(close_file) FILE *out = fopen(path, "wb");
	if (!out || fwrite(g->bytes, 1, g->size, out) != g->size) {
		perror(path);
		exit(1);
	}
}

static void write_corpus(const struct options *options, struct generate *g)
{
	for (uint64_t i = 0; i < options->files; i++) {
		generate(g, options->seed + i);
		write_file(options->folder, options->seed + i, g);
	}
}

static void fuzz(const struct options *options, struct differ *d, struct generate *g)
{
	uint64_t start = clock_ns(), said = 0, seed = options->seed;
	struct random random = {seed};
	for (uint64_t left = options->files; left;) {
		uint64_t any = 1 + draw(&random, DIFFER_FILES), batch = UTIL_MIN(left, any);
		uint64_t first = seed;
		for (uint64_t i = 0; i < batch; i++, seed++) {
			generate(g, seed);
			differ_add(d, g->bytes, g->size, seed);
		}
		differ_course(d, first);
		left -= batch;
		uint64_t seconds = (clock_ns() - start) / 1000000000;
		if (options->seconds && seconds >= options->seconds)
			break;
		if (seconds / MINUTE_S > said) {
			said = seconds / MINUTE_S;
			differ_report(d, stderr);
		}
	}
	differ_report(d, stdout);
}

static void show(struct differ *d, char **paths)
{
	static uint8_t bytes[GENERATE_BYTES];
	for (; *paths; paths++) {
		cleanup(close_file) FILE *in = fopen(*paths, "rb");
		if (!in) {
			perror(*paths);
			exit(1);
		}
		size_t size = fread(bytes, 1, sizeof(bytes), in);
		for (unsigned i = 0; i < 50; i++) {
			differ_add(d, bytes, size, i);
			differ_course(d, i);
		}
	}
	differ_report(d, stdout);
}

static _Noreturn void usage(void)
{
	(void)fprintf(stderr,
		"usage: fuzz_images [--seed N] [--files N] [--seconds N] [--write FOLDER]\n"
		"       fuzz_images --show FILE...\n");
	exit(2);
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t value = text ? strtoull(text, &end, 10) : 0;
	if (!text || end == text || *end)
		usage();
	return value;
}

/* Returns the first operand. */
static char **parse_options(char **arg, struct options *options)
{
	for (; *arg && !options->show; arg += 2) {
		if (strcmp(*arg, "--seed") == 0)
			options->seed = number(arg[1]);
		else if (strcmp(*arg, "--files") == 0)
			options->files = number(arg[1]);
		else if (strcmp(*arg, "--seconds") == 0)
			options->seconds = number(arg[1]);
		else if (strcmp(*arg, "--write") == 0 && arg[1])
			options->folder = arg[1];
		else if (strcmp(*arg, "--show") == 0 && arg[1])
			options->show = true;
		else
			usage();
	}
	return options->show ? arg - 1 : arg;
}

int main(int argc, char **argv)
{
	(void)argc;
	struct options options = {.seed = 1, .files = UINT64_MAX};
	char **paths = parse_options(argv + 1, &options);
	if (!options.show && options.files == UINT64_MAX && (options.folder || !options.seconds))
		options.files = 1000;
	struct generate *g = calloc(1, sizeof(*g));
	struct differ *d = differ_new();
	assert(g);
	if (options.folder)
		write_corpus(&options, g);
	else if (options.show)
		show(d, paths);
	else
		fuzz(&options, d, g);
	differ_free(d);
	free(g);
	return 0;
}

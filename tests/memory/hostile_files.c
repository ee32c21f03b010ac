/* hostile_files: writes one of the files of tests/bench/hostile.h.
 *
 *     hostile_files KIND WIDTH HEIGHT SCANS FILE */
#include "bench/hostile.h"

#include <stdio.h>

static int write_file(const char *path, const struct hostile *file)
{
	FILE *out = fopen(path, "wb");
	if (!out)
		return -1;
	size_t written = fwrite(file->bytes, 1, file->size, out);
	return fclose(out) || written != file->size ? -1 : 0;
}

int main(int argc, char **argv)
{
	unsigned kind = 0;
	while (argc == 6 && kind < HOSTILE_KINDS && strcmp(argv[1], hostile_names[kind]) != 0)
		kind++;
	if (argc != 6 || kind == HOSTILE_KINDS) {
		(void)fputs("usage: hostile_files KIND WIDTH HEIGHT SCANS FILE\n", stderr);
		return 2;
	}
	struct hostile file =
		hostile_make((enum hostile_kind)kind, (unsigned)strtoul(argv[2], NULL, 10),
			(unsigned)strtoul(argv[3], NULL, 10), (unsigned)strtoul(argv[4], NULL, 10));
	int result = write_file(argv[5], &file);
	if (result)
		perror(argv[5]);
	free(file.bytes);
	return result ? 1 : 0;
}

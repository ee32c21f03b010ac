/* packed_make: a shard of samples that are stored packed, with its index, for packed.py.
 *
 *   packed_make OUT.tfrecord METHOD GROUP CLASSES FILE...
 *
 * METHOD is an enum packed_method, or "all" for each in turn; GROUP files are packed together. */
#include "packed_shard.h"

#include <stdint.h>

enum { GROUP_MOST = 64, METHODS = PACKED_SNAPPY + 1 };

static bool append(uint8_t **bytes, size_t *used, const char *path, uint32_t *ret_size)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint8_t *grown = NULL;
	bool good = fd >= 0 && fstat(fd, &st) == 0 &&
		    (grown = realloc(*bytes, *used + (size_t)st.st_size + 1));
	if (grown)
		*bytes = grown;
	good = good && read(fd, *bytes + *used, (size_t)st.st_size) == st.st_size;
	if (good) {
		*ret_size = (uint32_t)st.st_size;
		*used += (size_t)st.st_size;
	}
	if (fd >= 0)
		(void)close(fd);
	return good;
}

int main(int argc, char **argv)
{
	struct packed_shard shard;
	if (argc < 6)
		return 2;
	const int method = strcmp(argv[2], "all") ? atoi(argv[2]) : METHODS;
	const int group = UTIL_MIN(atoi(argv[3]), (int)GROUP_MOST);
	uint8_t *bytes = NULL;
	bool good = packed_shard_begin(&shard, argv[1], NULL);
	for (int first = 5, round = 0; good && first < argc; first += group, round++) {
		uint32_t sizes[GROUP_MOST];
		size_t used = 0;
		const int count = UTIL_MIN(group, argc - first);
		for (int i = 0; good && i < count; i++)
			good = append(&bytes, &used, argv[first + i], &sizes[i]);
		good = good &&
		       packed_shard_group(&shard,
			       (enum packed_method)(method < METHODS ? method : round % METHODS),
			       bytes, sizes, (unsigned)count, (unsigned)atoi(argv[4]));
	}
	free(bytes);
	return good && packed_shard_end(&shard) ? 0 : 1;
}

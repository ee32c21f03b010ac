/* tar_list: prints the members of a tar as the source stage sees them, for tar_corpus.py.
 *
 *   file <TAB> NAME <TAB> SIZE <TAB> OFFSET     and "sparse", "other" instead of "file"
 *
 * Bytes of NAME outside printable ASCII, and backslashes, are written \xNN. Ends with 1 and the
 * fault on stderr when the tar is cut, damaged or none. */
#include "dataset/container/tar.h"

#include "base/util.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

static void print_name(const char *name, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		unsigned char c = (unsigned char)name[i];
		if (c < ' ' || c > '~' || c == '\\')
			(void)printf("\\x%02x", c);
		else
			(void)putchar(c);
	}
}

static int list(struct tar_reader *reader)
{
	static const char *const kinds[] = {
		[TAR_FILE] = "file", [TAR_SPARSE] = "sparse", [TAR_OTHER] = "other"};
	struct tar_member member;
	struct fault fault;
	int rc;
	while ((rc = tar_next(reader, &member, &fault)) > 0) {
		(void)printf("%s\t", kinds[member.kind]);
		print_name(member.name, member.name_size);
		(void)printf("\t%llu\t%llu\n", (unsigned long long)member.size,
			(unsigned long long)member.offset);
	}
	if (rc < 0)
		(void)fprintf(stderr, "%s\n", fault.text);
	return rc < 0;
}

int main(int argc, char **argv)
{
	cleanup(close_fd) int fd = argc == 2 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0) {
		(void)fprintf(stderr, "usage: tar_list FILE.tar\n");
		return 2;
	}
	static struct tar_reader reader;
	const struct blob blob = {.fd = fd};
	tar_init(&reader, &blob, (uint64_t)st.st_size, argv[1]);
	int rc = list(&reader);
	tar_deinit(&reader);
	return rc;
}

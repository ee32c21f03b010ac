/* input: see input.h. */
#include "client/cli/inspect/input.h"

#include "base/size.h"
#include "base/util.h"
#include "dataset/container/tar.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

void input_free(struct input *input)
{
	free(input->data);
	*input = (struct input){0};
}

static int input_too_large(const char *name, uint64_t limit, struct fault *fault)
{
	char most[16];
	return fault_set(fault, -EFBIG,
		"%s has more than %s, which is too much for one image; give more --memory: the "
		"file "
		"may take a quarter of it",
		name, size_format(limit, most, sizeof most));
}

static int input_no_memory(const char *name, struct fault *fault)
{
	return fault_set(fault, -ENOMEM, "not enough memory for the bytes of %s", name);
}

/* Reads to the end, whatever size the file reports: a pipe reports none. */
static int input_drain(
	int fd, const char *name, uint64_t limit, struct input *ret, struct fault *fault)
{
	size_t room = 0, size = 0;
	cleanup(free_ptr) uint8_t *data = NULL;
	for (;;) {
		if (size + INPUT_SLACK >= room) {
			room = room ? room * 2 : 1 << 18;
			uint8_t *grown = realloc(data, room);
			if (!grown)
				return input_no_memory(name, fault);
			data = grown;
		}
		ssize_t n = read(fd, data + size, room - size - INPUT_SLACK);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fault_set(
				fault, -errno, "cannot read %s: %s", name, strerror(errno));
		if (n == 0)
			break;
		size += (size_t)n;
		if (size > limit)
			return input_too_large(name, limit, fault);
	}
	memset(data + size, 0, INPUT_SLACK);
	ret->data = data;
	ret->size = size;
	data = NULL;
	return 0;
}

static int input_file(const char *path, uint64_t limit, struct input *ret, struct fault *fault)
{
	/* Waits for the writer of a pipe, as for standard input. */
	struct stat st;
	cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return fault_set(fault, -errno, "cannot read %s: %s", path, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return fault_set(fault, -EISDIR,
			"%s is a folder; name the images in it, or run `penstock check` on it",
			path);
	return input_drain(fd, path, limit, ret, fault);
}

static int input_member_bytes(struct tar_reader *reader, const struct tar_member *member,
	const char *name, uint64_t limit, struct input *ret, struct fault *fault)
{
	if (member->kind != TAR_FILE)
		return fault_set(fault, -EINVAL, "%s is not a regular file in the tar", name);
	if (member->size > limit)
		return input_too_large(name, limit, fault);
	cleanup(free_ptr) uint8_t *data = calloc(1, (size_t)member->size + INPUT_SLACK);
	if (!data)
		return input_no_memory(name, fault);
	int r = tar_read(reader, member->offset, data, (size_t)member->size, fault);
	if (r < 0)
		return fault_prefix(fault, r, "%s", name);
	ret->data = data;
	ret->size = (size_t)member->size;
	data = NULL;
	return 0;
}

static int input_find(
	struct tar_reader *reader, const char *wanted, struct tar_member *ret, struct fault *fault)
{
	size_t size = strlen(wanted);
	int r;
	while ((r = tar_next(reader, ret, fault)) > 0)
		if (ret->name_size == size && memcmp(ret->name, wanted, size) == 0)
			return 0;
	return r < 0 ? r : fault_set(fault, -ENOENT, "%s has no member %s", reader->path, wanted);
}

/* The first `shard` bytes of the name are the path of the shard; takes its first member of that
 * name. */
static int input_member(
	const char *name, size_t shard, uint64_t limit, struct input *ret, struct fault *fault)
{
	cleanup(free_ptr) char *path = strndup(name, shard);
	cleanup(free_ptr) struct tar_reader *reader = calloc(1, sizeof *reader);
	if (!path || !reader)
		return input_no_memory(name, fault);
	cleanup(close_blob) struct blob blob = {0};
	int opened = blob_open(path, &blob, fault);
	if (opened < 0)
		return opened;
	struct tar_member member;
	tar_init(reader, &blob, blob.size, path);
	int r = input_find(reader, name + shard + 1, &member, fault);
	if (r == 0)
		r = input_member_bytes(reader, &member, name, limit, ret, fault);
	tar_deinit(reader);
	return r;
}

/* Where the path of the shard ends; 0: it does not name a member. */
static size_t input_shard(const char *name)
{
	struct stat st;
	for (const char *mark = strchr(name, '!'); mark; mark = strchr(mark + 1, '!')) {
		cleanup(free_ptr) char *path = strndup(name, (size_t)(mark - name));
		if (path && stat(path, &st) == 0 && S_ISREG(st.st_mode))
			return (size_t)(mark - name);
	}
	return 0;
}

int input_read(const char *name, uint64_t limit, struct input *ret, struct fault *fault)
{
	struct input input = {0};
	struct stat st;
	size_t shard = 0;
	int r;
	if (strcmp(name, "-") == 0) {
		r = input_drain(STDIN_FILENO, "standard input", limit, &input, fault);
	} else {
		if (lstat(name, &st) < 0)
			shard = input_shard(name);
		r = shard ? input_member(name, shard, limit, &input, fault)
			  : input_file(name, limit, &input, fault);
	}
	if (r < 0)
		input_free(&input);
	else
		*ret = input;
	return r;
}

/* The file that a name is read from. False: it does not exist. */
static bool input_stat(const char *name, struct stat *ret)
{
	if (strcmp(name, "-") == 0)
		return fstat(STDIN_FILENO, ret) == 0;
	size_t shard = lstat(name, ret) < 0 ? input_shard(name) : 0;
	cleanup(free_ptr) char *path = shard ? strndup(name, shard) : NULL;
	return stat(path ? path : name, ret) == 0;
}

bool input_is(const char *name, const struct stat *file)
{
	struct stat st;
	return input_stat(name, &st) && st.st_ino == file->st_ino && st.st_dev == file->st_dev;
}

const char *input_base(const char *name, char *buffer, size_t room)
{
	struct stat st;
	if (strcmp(name, "-") == 0)
		name = "stdin";
	if (lstat(name, &st) < 0) {
		size_t shard = input_shard(name);
		name += shard ? shard + 1 : 0;
	}
	const char *slash = strrchr(name, '/');
	(void)snprintf(buffer, room, "%s", slash ? slash + 1 : name);
	char *dot = strrchr(buffer, '.');
	if (dot && dot != buffer)
		*dot = 0;
	return buffer;
}

/* cut: kills a program at the n-th operation on files below a folder, and logs the operations until
 * then.
 *
 *   LD_PRELOAD=bin/libpenstock_cut.so CUT_ROOT=/folder CUT_STATE=/file CUT_AT=17 penstock pack ...
 *
 *   CUT_ROOT      an absolute path: only files below it count; files without a name (O_TMPFILE,
 *                 unlinked) never do
 *   CUT_STATE     a file of at least CUT_STATE_BYTES zeros, shared by all processes: the number of
 *                 operations so far (uint64_t)
 *   CUT_AT        SIGKILL instead of the n-th operation, counted from 1; 0 or unset: never
 *   CUT_HALF=1    if the n-th operation is a write, half of it is done first
 *   CUT_NOT=WORD  files whose path contains WORD do not count
 *   CUT_LOG       each operation is appended here, to compute what a disk holds that loses
 *                 everything that was not synced: "create INODE PATH", "write INODE OFFSET SIZE"
 *                 followed by the
 *                 bytes, "size INODE SIZE", "rename FROM\tTO", "unlink PATH", "mkdir PATH", "sync
 *                 INODE", "syncdir INODE", each followed by a newline
 *
 * These operations count: creating a file or a folder, write, pwrite, ftruncate, fallocate, rename,
 * unlink, fsync. Any thread; one lock.
 *
 * NOLINTBEGIN(readability-inconsistent-declaration-parameter-name,bugprone-macro-parentheses) */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CUT_STATE_BYTES = 4096, CUT_EXIT = 128 + SIGKILL };

static struct {
	pthread_mutex_t lock;
	pthread_once_t once;
	const char *root, *not ;
	size_t root_size;
	_Atomic uint64_t *count;
	uint64_t at;
	bool half;
	int log;
} cut = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT, .log = -1};

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void cut_begin(void)
{
	const char *state = getenv("CUT_STATE"), *at = getenv("CUT_AT"), *half = getenv("CUT_HALF"),
		   *log = getenv("CUT_LOG");
	cut.not = getenv("CUT_NOT");
	if (!state || !getenv("CUT_ROOT"))
		return;
	int fd = REAL(open)(state, O_RDWR | O_CLOEXEC);
	void *mapped =
		fd < 0 ? MAP_FAILED
		       : mmap(NULL, CUT_STATE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mapped == MAP_FAILED)
		abort();
	(void)close(fd);
	cut.count = mapped;
	cut.at = at ? strtoull(at, NULL, 10) : 0;
	cut.half = half && *half == '1';
	if (log)
		cut.log = REAL(open)(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	cut.root = getenv("CUT_ROOT");
	cut.root_size = strlen(cut.root);
}

static void log_bytes(const void *bytes, size_t size)
{
	if (cut.log >= 0 && REAL(write)(cut.log, bytes, size) != (ssize_t)size)
		abort();
}

static void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void log_line(const char *format, ...)
{
	char line[2 * PATH_MAX + 64];
	va_list args;
	va_start(args, format);
	int n = vsnprintf(line, sizeof line, format, args);
	va_end(args);
	log_bytes(line, (size_t)n);
}

static bool is_below(const char *path)
{
	pthread_once(&cut.once, cut_begin);
	return cut.root && strncmp(path, cut.root, cut.root_size) == 0 &&
	       path[cut.root_size] == '/' && !(cut.not &&strstr(path, cut.not ));
}

/* Writes the absolute path of a name relative to a folder. */
static bool path_of(int folder, const char *name, char *ret)
{
	char link[64];
	if (name[0] == '/')
		return snprintf(ret, PATH_MAX, "%s", name) < PATH_MAX;
	if (folder == AT_FDCWD)
		(void)snprintf(link, sizeof link, "/proc/self/cwd");
	else
		(void)snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
	ssize_t n = readlink(link, ret, PATH_MAX);
	return n > 0 && n < PATH_MAX &&
	       snprintf(ret + n, (size_t)(PATH_MAX - n), "/%s", name) < PATH_MAX - n;
}

/* Whether it is a file or a folder below CUT_ROOT that has a name. */
static bool fd_counts(int fd, struct stat *ret_stat)
{
	char path[PATH_MAX], link[64];
	int error = errno;
	(void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof path - 1);
	path[n < 0 ? 0 : n] = 0;
	bool counts = is_below(path) && fstat(fd, ret_stat) == 0 && ret_stat->st_nlink > 0 &&
		      (S_ISREG(ret_stat->st_mode) || S_ISDIR(ret_stat->st_mode));
	errno = error;
	return counts;
}

/* Counts an operation; true: it is the n-th. Holds the lock until cut_done. */
static bool cut_here(void)
{
	(void)pthread_mutex_lock(&cut.lock);
	return atomic_fetch_add(cut.count, 1) + 1 == cut.at;
}

/* A confined daemon may not send signals, so it exits as if killed. Nothing is flushed either way.
 */
static void cut_end(void)
{
	(void)kill(getpid(), SIGKILL);
	_exit(CUT_EXIT);
}

static void cut_done(void)
{
	(void)pthread_mutex_unlock(&cut.lock);
}

static uint64_t inode_of(const char *path)
{
	struct stat st;
	return lstat(path, &st) == 0 ? st.st_ino : 0;
}

/* ---- making ---- */

static int made(int fd, const char *path)
{
	if (fd >= 0)
		log_line("create %" PRIu64 " %s\n", inode_of(path), path);
	cut_done();
	return fd;
}

/* Whether O_CREAT makes a file; an existing file is only opened, or truncated. */
static bool will_make(int folder, const char *name, int flags, char *path)
{
	struct stat st;
	int error = errno;
	bool makes = (flags & O_CREAT) && (flags & O_TMPFILE) != O_TMPFILE &&
		     path_of(folder, name, path) && is_below(path) && lstat(path, &st) < 0;
	errno = error;
	return makes;
}

#define CUT_OPEN(function, folder, parameters, arguments)                  \
	int function parameters                                            \
	{                                                                  \
		char path[PATH_MAX];                                       \
		mode_t mode = 0;                                           \
		if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) { \
			va_list args;                                      \
			va_start(args, flags);                             \
			mode = va_arg(args, mode_t);                       \
			va_end(args);                                      \
		}                                                          \
		if (!will_make(folder, name, flags, path))                 \
			return REAL(function) arguments;                   \
		if (cut_here())                                            \
			cut_end();                                         \
		return made(REAL(function) arguments, path);               \
	}

CUT_OPEN(open, AT_FDCWD, (const char *name, int flags, ...), (name, flags, mode))
CUT_OPEN(open64, AT_FDCWD, (const char *name, int flags, ...), (name, flags, mode))
CUT_OPEN(openat, at, (int at, const char *name, int flags, ...), (at, name, flags, mode))
CUT_OPEN(openat64, at, (int at, const char *name, int flags, ...), (at, name, flags, mode))

/* The name is not known in advance. */
static int make_temporary(char *template, int flags)
{
	char path[PATH_MAX];
	if (!path_of(AT_FDCWD, template, path) || !is_below(path))
		return REAL(mkostemp)(template, flags);
	if (cut_here())
		cut_end();
	int fd = REAL(mkostemp)(template, flags);
	return made(fd, template);
}

int mkostemp(char *template, int flags)
{
	return make_temporary(template, flags);
}

int mkostemp64(char *template, int flags)
{
	return make_temporary(template, flags);
}

int mkdir(const char *name, mode_t mode)
{
	char path[PATH_MAX];
	struct stat st;
	if (!path_of(AT_FDCWD, name, path) || !is_below(path) || lstat(path, &st) == 0)
		return REAL(mkdir)(name, mode);
	if (cut_here())
		cut_end();
	int r = REAL(mkdir)(name, mode);
	if (r == 0)
		log_line("mkdir %s\n", path);
	cut_done();
	return r;
}

/* ---- writing ---- */

static ssize_t write_at(int fd, const void *bytes, size_t size, off_t offset, bool here)
{
	struct stat st;
	if (!fd_counts(fd, &st))
		return here ? REAL(write)(fd, bytes, size) : REAL(pwrite)(fd, bytes, size, offset);
	bool last = cut_here();
	if (here)
		offset = fcntl(fd, F_GETFL) & O_APPEND ? st.st_size : lseek(fd, 0, SEEK_CUR);
	if (last && !cut.half)
		cut_end();
	if (last)
		size /= 2;
	ssize_t n = here ? REAL(write)(fd, bytes, size) : REAL(pwrite)(fd, bytes, size, offset);
	if (last)
		cut_end();
	if (n > 0) {
		log_line("write %" PRIu64 " %" PRId64 " %zd\n", (uint64_t)st.st_ino,
			(int64_t)offset, n);
		log_bytes(bytes, (size_t)n);
		log_bytes("\n", 1);
	}
	cut_done();
	return n;
}

ssize_t write(int fd, const void *bytes, size_t size)
{
	return write_at(fd, bytes, size, 0, true);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
	return write_at(fd, bytes, size, offset, false);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t offset)
{
	return write_at(fd, bytes, size, offset, false);
}

/* glibc writes its buffer without calling write. */
int fclose(FILE *file)
{
	struct stat st;
	size_t pending = __fpending(file);
	if (!pending || !fd_counts(fileno(file), &st))
		return REAL(fclose)(file);
	if (cut_here()) {
		if (cut.half && REAL(write)(fileno(file), file->_IO_write_base, pending / 2) < 0)
			abort();
		cut_end();
	}
	log_line("write %" PRIu64 " %" PRId64 " %zu\n", (uint64_t)st.st_ino, (int64_t)st.st_size,
		pending);
	log_bytes(file->_IO_write_base, pending);
	log_bytes("\n", 1);
	int r = REAL(fclose)(file);
	cut_done();
	return r;
}

/* Makes the call; if it counts and succeeds, logs a line. */
#define CUT_DO(counts, call, ...)      \
	if (!(counts))                 \
		return call;           \
	if (cut_here())                \
		cut_end();             \
	int r = call;                  \
	if (r == 0)                    \
		log_line(__VA_ARGS__); \
	cut_done();                    \
	return r

#define CUT_FD(fd, ...) \
	struct stat st; \
	CUT_DO(fd_counts(fd, &st), __VA_ARGS__)

int ftruncate(int fd, off_t size)
{
	CUT_FD(fd, REAL(ftruncate)(fd, size), "size %" PRIu64 " %" PRId64 "\n", (uint64_t)st.st_ino,
		(int64_t)size);
}

int ftruncate64(int fd, off64_t size)
{
	CUT_FD(fd, REAL(ftruncate64)(fd, size), "size %" PRIu64 " %" PRId64 "\n",
		(uint64_t)st.st_ino, (int64_t)size);
}

int fallocate(int fd, int mode, off_t offset, off_t size)
{
	CUT_FD(fd, REAL(fallocate)(fd, mode, offset, size), "size %" PRIu64 " %" PRId64 "\n",
		(uint64_t)st.st_ino, (int64_t)(offset + size));
}

int fallocate64(int fd, int mode, off64_t offset, off64_t size)
{
	CUT_FD(fd, REAL(fallocate64)(fd, mode, offset, size), "size %" PRIu64 " %" PRId64 "\n",
		(uint64_t)st.st_ino, (int64_t)(offset + size));
}

int fsync(int fd)
{
	CUT_FD(fd, REAL(fsync)(fd), "%s %" PRIu64 "\n", S_ISDIR(st.st_mode) ? "syncdir" : "sync",
		(uint64_t)st.st_ino);
}

/* ---- names ---- */

int rename(const char *from, const char *to)
{
	char a[PATH_MAX], b[PATH_MAX];
	CUT_DO(path_of(AT_FDCWD, from, a) && path_of(AT_FDCWD, to, b) && is_below(b),
		REAL(rename)(from, to), "rename %s\t%s\n", a, b);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
	char a[PATH_MAX], b[PATH_MAX];
	CUT_DO(path_of(from_folder, from, a) && path_of(to_folder, to, b) && is_below(b),
		REAL(renameat)(from_folder, from, to_folder, to), "rename %s\t%s\n", a, b);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
	char a[PATH_MAX], b[PATH_MAX];
	CUT_DO(path_of(from_folder, from, a) && path_of(to_folder, to, b) && is_below(b),
		REAL(renameat2)(from_folder, from, to_folder, to, flags), "rename %s\t%s\n", a, b);
}

int unlink(const char *name)
{
	char path[PATH_MAX];
	CUT_DO(path_of(AT_FDCWD, name, path) && is_below(path) && inode_of(path),
		REAL(unlink)(name), "unlink %s\n", path);
}

int unlinkat(int folder, const char *name, int flags)
{
	char path[PATH_MAX];
	CUT_DO(path_of(folder, name, path) && is_below(path) && inode_of(path),
		REAL(unlinkat)(folder, name, flags), "unlink %s\n", path);
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name,bugprone-macro-parentheses) */

/* attacker: a trainer that follows the protocol, and then tries every way it knows to change the
 * memory that it was given, or to take it from others.
 *
 *   fault_attacker SOCKET DEFINITION
 *
 * It holds every batch of its stream, so that the daemon writes nowhere in the extent, and
 * checks all bytes, the size and the seals after each attempt. It makes each attempt on the
 * received descriptor and on the same memory, reopened for writing, as its owner may do. It
 * prints a line for each attempt with its result; the last line counts them. Exit 0: all were
 * refused or harmless; 1: one succeeded; 2: it could not begin. It may run as root, for which
 * the kernel refuses less. */
#include "proto/conn.h"
#include "proto/slots.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/fs.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x0020
#endif
#ifndef MADV_COLD
#define MADV_COLD 20
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum { ATTACKER_PAGE = 4096 };

/* The attacked memory, and its contents before the attack. */
struct target {
	int fd; /* the descriptor under attack */
	const char *how; /* it came by */
	uint8_t *map; /* of the descriptor, shared and read-only */
	size_t bytes;
	int seals;
	uint64_t sum;
	struct iovec foreign; /* memory of our own, full of 0xa5 */
	int file, pipe[2]; /* with the same bytes in them */
};

/* 0 or more: the kernel allowed it; -errno. */
typedef int attempt_fn(struct target *t);

static int outcome(long result)
{
	return result < 0 ? -errno : 0;
}

/* ---- writing with a system call ---- */

static int try_write(struct target *t)
{
	return outcome(write(t->fd, t->foreign.iov_base, ATTACKER_PAGE));
}

static int try_pwrite(struct target *t)
{
	return outcome(pwrite(t->fd, t->foreign.iov_base, ATTACKER_PAGE, 0));
}

static int try_writev(struct target *t)
{
	return outcome(writev(t->fd, &t->foreign, 1));
}

static int try_pwritev2(struct target *t)
{
	return outcome(pwritev2(t->fd, &t->foreign, 1, 0, 0));
}

static int try_append(struct target *t)
{
	if (fcntl(t->fd, F_SETFL, O_APPEND) < 0)
		return -errno;
	int result = outcome(write(t->fd, t->foreign.iov_base, ATTACKER_PAGE));
	(void)fcntl(t->fd, F_SETFL, 0);
	return result;
}

static int try_sendfile(struct target *t)
{
	off_t at = 0;
	return outcome(sendfile(t->fd, t->file, &at, ATTACKER_PAGE));
}

static int try_copy_file_range(struct target *t)
{
	off_t from = 0, to = 0;
	return outcome(copy_file_range(t->file, &from, t->fd, &to, ATTACKER_PAGE, 0));
}

static int try_clone(struct target *t)
{
	return outcome(ioctl(t->fd, FICLONE, t->file));
}

static int try_splice(struct target *t)
{
	if (write(t->pipe[1], t->foreign.iov_base, ATTACKER_PAGE) != ATTACKER_PAGE)
		return -EIO;
	loff_t at = 0;
	int result = outcome(splice(t->pipe[0], NULL, t->fd, &at, ATTACKER_PAGE, 0));
	char drain[ATTACKER_PAGE];
	if (result)
		(void)!read(t->pipe[0], drain, sizeof drain);
	return result;
}

/* Splices its page into a pipe and writes to it there, as Linux allowed until 5.16
 * (CVE-2022-0847). */
static int try_dirty_pipe(struct target *t)
{
	loff_t at = 0;
	char drain[2 * ATTACKER_PAGE];
	if (splice(t->fd, &at, t->pipe[1], NULL, 1, 0) != 1)
		return -errno;
	int result = outcome(write(t->pipe[1], t->foreign.iov_base, 64));
	(void)!read(t->pipe[0], drain, sizeof drain);
	return result;
}

static int try_vmsplice_gift(struct target *t)
{
	struct iovec part = {.iov_base = t->map, .iov_len = ATTACKER_PAGE};
	char drain[2 * ATTACKER_PAGE];
	if (vmsplice(t->pipe[1], &part, 1, SPLICE_F_GIFT) != ATTACKER_PAGE)
		return -errno;
	int result = outcome(write(t->pipe[1], t->foreign.iov_base, 64));
	(void)!read(t->pipe[0], drain, sizeof drain);
	return result;
}

/* A pipe whose other end writes into the mapping. */
static int try_vmsplice_out(struct target *t)
{
	struct iovec part = {.iov_base = t->map, .iov_len = ATTACKER_PAGE};
	char drain[ATTACKER_PAGE];
	if (write(t->pipe[1], t->foreign.iov_base, ATTACKER_PAGE) != ATTACKER_PAGE)
		return -EIO;
	int result = outcome(vmsplice(t->pipe[0], &part, 1, 0));
	if (result)
		(void)!read(t->pipe[0], drain, sizeof drain);
	return result;
}

static int try_read_into(struct target *t)
{
	return outcome(pread(t->file, t->map, ATTACKER_PAGE, 0));
}

static int try_process_vm(struct target *t)
{
	struct iovec part = {.iov_base = t->map, .iov_len = 64};
	return outcome(process_vm_writev(getpid(), &t->foreign, 1, &part, 1, 0));
}

/* A debugger may write where the process may not, except to a mapping that can never be written. */
static int try_proc_mem(struct target *t)
{
	int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int result = outcome(pwrite(fd, t->foreign.iov_base, 64, (off_t)(uintptr_t)t->map));
	(void)close(fd);
	return result;
}

/* The child's result: 0, or an errno. */
static int child_result(pid_t child)
{
	int status;
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return -ECHILD;
	return -WEXITSTATUS(status);
}

static int try_ptrace(struct target *t)
{
	pid_t child = fork();
	if (child == 0) {
		(void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		(void)raise(SIGSTOP);
		_exit(0);
	}
	int status;
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
		return -ECHILD;
	int result = outcome(ptrace(PTRACE_POKEDATA, child, t->map, (void *)0x5a5a5a5a));
	(void)kill(child, SIGKILL);
	(void)waitpid(child, &status, 0);
	return result;
}

/* ---- io_uring ---- */

static int ring_result(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;
	int result = io_uring_submit_and_wait(ring, 1);
	if (result < 0 || io_uring_peek_cqe(ring, &cqe))
		return result < 0 ? result : -EIO;
	result = cqe->res < 0 ? cqe->res : 0;
	io_uring_cqe_seen(ring, cqe);
	return result;
}

static int try_ring_write(struct target *t)
{
	struct io_uring ring;
	int result = io_uring_queue_init(4, &ring, 0);
	if (result)
		return result;
	io_uring_prep_write(io_uring_get_sqe(&ring), t->fd, t->foreign.iov_base, ATTACKER_PAGE, 0);
	result = ring_result(&ring);
	io_uring_queue_exit(&ring);
	return result;
}

static int try_ring_punch(struct target *t)
{
	struct io_uring ring;
	int result = io_uring_queue_init(4, &ring, 0);
	if (result)
		return result;
	io_uring_prep_fallocate(io_uring_get_sqe(&ring), t->fd,
		FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, ATTACKER_PAGE);
	result = ring_result(&ring);
	io_uring_queue_exit(&ring);
	return result;
}

/* The mapping as a buffer that a device would write to. */
static int try_ring_buffer(struct target *t)
{
	struct io_uring ring;
	struct iovec part = {.iov_base = t->map, .iov_len = ATTACKER_PAGE};
	int result = io_uring_queue_init(4, &ring, 0);
	if (result)
		return result;
	result = io_uring_register_buffers(&ring, &part, 1);
	if (result == 0) {
		io_uring_prep_read_fixed(
			io_uring_get_sqe(&ring), t->file, t->map, ATTACKER_PAGE, 0, 0);
		result = ring_result(&ring);
	}
	io_uring_queue_exit(&ring);
	return result;
}

/* ---- its size and its holes ---- */

static int try_truncate_0(struct target *t)
{
	return outcome(ftruncate(t->fd, 0));
}

static int try_truncate_less(struct target *t)
{
	return outcome(ftruncate(t->fd, (off_t)t->bytes - ATTACKER_PAGE));
}

static int try_truncate_more(struct target *t)
{
	return outcome(ftruncate(t->fd, (off_t)t->bytes + ATTACKER_PAGE));
}

static int try_open_truncate(struct target *t)
{
	char path[40];
	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", t->fd);
	int fd = open(path, O_RDWR | O_TRUNC | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	(void)close(fd);
	return 0;
}

static int allocate(const struct target *t, int mode, off_t at, off_t bytes)
{
	return outcome(fallocate(t->fd, mode, at, bytes));
}

static int try_punch(struct target *t)
{
	return allocate(t, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, ATTACKER_PAGE);
}

static int try_zero(struct target *t)
{
	return allocate(t, FALLOC_FL_ZERO_RANGE, 0, ATTACKER_PAGE);
}

static int try_collapse(struct target *t)
{
	return allocate(t, FALLOC_FL_COLLAPSE_RANGE, 0, ATTACKER_PAGE);
}

static int try_insert(struct target *t)
{
	return allocate(t, FALLOC_FL_INSERT_RANGE, 0, ATTACKER_PAGE);
}

static int try_extend(struct target *t)
{
	return allocate(t, 0, (off_t)t->bytes, ATTACKER_PAGE);
}

static int try_extend_unseen(struct target *t)
{
	return allocate(t, FALLOC_FL_KEEP_SIZE, (off_t)t->bytes, 16 * ATTACKER_PAGE);
}

static int try_allocate_again(struct target *t)
{
	return allocate(t, 0, 0, (off_t)t->bytes);
}

/* ---- mappings ---- */

static int try_map_write(struct target *t)
{
	void *map = mmap(NULL, t->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	memset(map, 0xa5, ATTACKER_PAGE);
	(void)munmap(map, t->bytes);
	return 0;
}

static int try_map_validate(struct target *t)
{
	void *map = mmap(NULL, t->bytes, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE, t->fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	(void)munmap(map, t->bytes);
	return 0;
}

static int try_map_execute(struct target *t)
{
	void *map = mmap(NULL, t->bytes, PROT_READ | PROT_EXEC, MAP_SHARED, t->fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	(void)munmap(map, t->bytes);
	return 0;
}

static int try_protect(struct target *t)
{
	return outcome(mprotect(t->map, t->bytes, PROT_READ | PROT_WRITE));
}

/* A private view, which no other process sees. */
static int try_map_private(struct target *t)
{
	uint8_t *map = mmap(NULL, t->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, t->fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	memset(map, 0xa5, t->bytes);
	(void)munmap(map, t->bytes);
	return 0;
}

static int try_remap(struct target *t)
{
	void *map = mremap(t->map, t->bytes, 2 * t->bytes, MREMAP_MAYMOVE);
	if (map == MAP_FAILED)
		return -errno;
	t->map = mremap(map, 2 * t->bytes, t->bytes, 0); /* beyond the end is nothing */
	return 0;
}

static int try_remap_pages(struct target *t)
{
	void *map = mmap(NULL, 4 * ATTACKER_PAGE, PROT_READ, MAP_SHARED, t->fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	int result = outcome(syscall(SYS_remap_file_pages, map, ATTACKER_PAGE, 0, 1, 0));
	(void)munmap(map, 4 * ATTACKER_PAGE);
	return result;
}

static int try_lock(struct target *t)
{
	int result = outcome(mlock(t->map, t->bytes));
	(void)munlock(t->map, t->bytes);
	return result;
}

#define TRY_ADVICE(name, advice)                                   \
	static int try_##name(struct target *t)                    \
	{                                                          \
		return outcome(madvise(t->map, t->bytes, advice)); \
	}

TRY_ADVICE(remove, MADV_REMOVE)
TRY_ADVICE(free, MADV_FREE)
TRY_ADVICE(dontneed, MADV_DONTNEED)
TRY_ADVICE(cold, MADV_COLD)
TRY_ADVICE(pageout, MADV_PAGEOUT)
TRY_ADVICE(collapse_advice, MADV_COLLAPSE)
TRY_ADVICE(populate_write, MADV_POPULATE_WRITE)
TRY_ADVICE(mergeable, MADV_MERGEABLE)
TRY_ADVICE(hugepage, MADV_HUGEPAGE)
TRY_ADVICE(wipe, MADV_WIPEONFORK)

/* Root may do this, since it takes memory from the machine; no other user may. */
static int try_poison(struct target *t)
{
	if (geteuid() == 0)
		return -EPERM;
	return outcome(madvise(t->map, ATTACKER_PAGE, MADV_HWPOISON));
}

static int try_process_madvise(struct target *t)
{
	struct iovec part = {.iov_base = t->map, .iov_len = t->bytes};
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (pidfd < 0)
		return -errno;
	int result = outcome(syscall(SYS_process_madvise, pidfd, &part, 1, MADV_PAGEOUT, 0));
	(void)close(pidfd);
	return result;
}

static int try_userfault(struct target *t)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1 /* user mode only */);
	if (fd < 0)
		return -errno;
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register region = {.range = {.start = (uintptr_t)t->map, .len = t->bytes},
		.mode = UFFDIO_REGISTER_MODE_MISSING};
	int result = outcome(ioctl(fd, UFFDIO_API, &api));
	if (!result)
		result = outcome(ioctl(fd, UFFDIO_REGISTER, &region));
	region.mode = UFFDIO_REGISTER_MODE_WP;
	if (result)
		(void)ioctl(fd, UFFDIO_REGISTER, &region);
	struct uffdio_copy copy = {.dst = (uintptr_t)t->map,
		.src = (uintptr_t)t->foreign.iov_base,
		.len = ATTACKER_PAGE};
	if (ioctl(fd, UFFDIO_COPY, &copy) == 0)
		result = 0;
	(void)close(fd);
	return result;
}

/* ---- seals, modes, locks ---- */

#define TRY_SEAL(name, seal)                                       \
	static int try_seal_##name(struct target *t)               \
	{                                                          \
		return outcome(fcntl(t->fd, F_ADD_SEALS, (seal))); \
	}

/* The missing seals would stop the daemon's own writes. */
TRY_SEAL(write, F_SEAL_WRITE)
TRY_SEAL(exec, F_SEAL_EXEC)
TRY_SEAL(seal, F_SEAL_SEAL)
TRY_SEAL(all, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)

static int try_mode(struct target *t)
{
	return outcome(fchmod(t->fd, 0));
}

static int try_owner(struct target *t)
{
	return geteuid() == 0 ? -EPERM : outcome(fchown(t->fd, 0, 0));
}

static int try_times(struct target *t)
{
	return outcome(futimens(t->fd, NULL));
}

static int try_attribute(struct target *t)
{
	return outcome(fsetxattr(t->fd, "user.attack", "x", 1, 0));
}

static int try_flags(struct target *t)
{
	int flags = FS_APPEND_FL;
	return geteuid() == 0 ? -EPERM : outcome(ioctl(t->fd, FS_IOC_SETFLAGS, &flags));
}

static int try_flock(struct target *t)
{
	int result = outcome(flock(t->fd, LOCK_EX | LOCK_NB));
	(void)flock(t->fd, LOCK_UN);
	return result;
}

static int try_record_lock(struct target *t)
{
	struct flock lock = {.l_type = F_WRLCK};
	return outcome(fcntl(t->fd, F_OFD_SETLK, &lock));
}

static int try_lease(struct target *t)
{
	int result = outcome(fcntl(t->fd, F_SETLEASE, F_RDLCK));
	(void)fcntl(t->fd, F_SETLEASE, F_UNLCK);
	return result;
}

static int try_write_lease(struct target *t)
{
	int result = outcome(fcntl(t->fd, F_SETLEASE, F_WRLCK));
	(void)fcntl(t->fd, F_SETLEASE, F_UNLCK);
	return result;
}

static int try_pipe_size(struct target *t)
{
	return outcome(fcntl(t->fd, F_SETPIPE_SZ, 4096));
}

static int try_direct(struct target *t)
{
	int result = outcome(fcntl(t->fd, F_SETFL, O_DIRECT));
	(void)fcntl(t->fd, F_SETFL, 0);
	return result;
}

static int try_link(struct target *t)
{
	char path[64];
	(void)snprintf(path, sizeof path, "/tmp/penstock-attack-%d", getpid());
	int result = outcome(linkat(t->fd, "", AT_FDCWD, path, AT_EMPTY_PATH));
	(void)unlink(path);
	return result;
}

static int try_execute(struct target *t)
{
	char *const none[] = {NULL};
	pid_t child = fork();
	if (child == 0) {
		(void)syscall(SYS_execveat, t->fd, "", none, none, AT_EMPTY_PATH);
		_exit(errno);
	}
	return child_result(child);
}

static int try_advise(struct target *t)
{
	return -posix_fadvise(t->fd, 0, 0, POSIX_FADV_DONTNEED);
}

static int try_sync_range(struct target *t)
{
	return outcome(sync_file_range(t->fd, 0, 0, SYNC_FILE_RANGE_WRITE));
}

/* A device that hands out pages of a memfd for writing. Newer kernels check the seals first, and
 * the administrator decides who may open it. */
static int try_udmabuf(struct target *t)
{
	struct {
		uint32_t memfd, flags;
		uint64_t offset, size;
	} create = {.memfd = (uint32_t)t->fd, .size = ATTACKER_PAGE};
	int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	if (device < 0)
		return -errno;
	int result = -errno, buffer = ioctl(device, _IOW('u', 0x42, create), &create);
	if (buffer >= 0) {
		void *map =
			mmap(NULL, ATTACKER_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, buffer, 0);
		result = map == MAP_FAILED ? -errno : 0;
		if (map != MAP_FAILED) {
			memset(map, 0xa5, 64);
			(void)munmap(map, ATTACKER_PAGE);
		}
		(void)close(buffer);
	}
	(void)close(device);
	return result;
}

static const struct attempt {
	const char *name;
	attempt_fn *make;
	bool must_fail; /* otherwise it may succeed if it changes nothing */
} attempts[] = {
	{"write", try_write, true},
	{"pwrite", try_pwrite, true},
	{"writev", try_writev, true},
	{"pwritev2", try_pwritev2, true},
	{"write, appending", try_append, true},
	{"sendfile", try_sendfile, true},
	{"copy_file_range", try_copy_file_range, true},
	{"FICLONE", try_clone, true},
	{"splice", try_splice, true},
	{"write to its page in a pipe", try_dirty_pipe, false},
	{"vmsplice, gift", try_vmsplice_gift, false},
	{"vmsplice from a pipe", try_vmsplice_out, true},
	{"read into the mapping", try_read_into, true},
	{"process_vm_writev", try_process_vm, true},
	{"/proc/self/mem", try_proc_mem, true},
	{"ptrace of a child", try_ptrace, true},
	{"io_uring write", try_ring_write, true},
	{"io_uring fallocate", try_ring_punch, true},
	{"io_uring buffer", try_ring_buffer, true},
	{"ftruncate to 0", try_truncate_0, true},
	{"ftruncate, smaller", try_truncate_less, true},
	{"ftruncate, larger", try_truncate_more, true},
	{"open with O_TRUNC", try_open_truncate, true},
	{"punch a hole", try_punch, true},
	{"zero a range", try_zero, true},
	{"collapse a range", try_collapse, true},
	{"insert a range", try_insert, true},
	{"fallocate beyond the end", try_extend, true},
	{"fallocate beyond the end, unseen", try_extend_unseen, true},
	{"fallocate what is there", try_allocate_again, false},
	{"mmap for writing", try_map_write, true},
	{"mmap for writing, validated", try_map_validate, true},
	{"mmap for executing", try_map_execute, false},
	{"mprotect", try_protect, true},
	{"mmap, private", try_map_private, false},
	{"mremap", try_remap, false},
	{"remap_file_pages", try_remap_pages, false},
	{"mlock", try_lock, false},
	{"MADV_REMOVE", try_remove, true},
	{"MADV_FREE", try_free, true},
	{"MADV_DONTNEED", try_dontneed, false},
	{"MADV_COLD", try_cold, false},
	{"MADV_PAGEOUT", try_pageout, false},
	{"MADV_COLLAPSE", try_collapse_advice, false},
	{"MADV_POPULATE_WRITE", try_populate_write, true},
	{"MADV_MERGEABLE", try_mergeable, false},
	{"MADV_HUGEPAGE", try_hugepage, false},
	{"MADV_WIPEONFORK", try_wipe, true},
	{"MADV_HWPOISON", try_poison, true},
	{"process_madvise", try_process_madvise, false},
	{"userfaultfd", try_userfault, true},
	{"seal against writing", try_seal_write, true},
	{"seal against executing", try_seal_exec, true},
	{"seal against sealing", try_seal_seal, true},
	{"all seals", try_seal_all, true},
	{"fchmod", try_mode, false},
	{"fchown", try_owner, true},
	{"futimens", try_times, false},
	{"fsetxattr", try_attribute, false},
	{"FS_IOC_SETFLAGS", try_flags, false},
	{"flock", try_flock, false},
	{"record lock", try_record_lock, false},
	{"read lease", try_lease, false},
	{"write lease", try_write_lease, false},
	{"F_SETPIPE_SZ", try_pipe_size, true},
	{"O_DIRECT", try_direct, false},
	{"linkat", try_link, true},
	{"execveat", try_execute, true},
	{"posix_fadvise", try_advise, false},
	{"sync_file_range", try_sync_range, false},
	{"udmabuf", try_udmabuf, true},
};

/* ---- judging ---- */

static uint64_t sum_of(const uint8_t *bytes, size_t size)
{
	uint64_t sum = 0xcbf29ce484222325u, word;
	for (size_t i = 0; i + sizeof word <= size; i += sizeof word) {
		memcpy(&word, bytes + i, sizeof word);
		sum = (sum ^ word) * 0x100000001b3u;
	}
	return sum;
}

/* The fault of the memory; NULL: it is unchanged. */
static const char *damage(const struct target *t)
{
	struct stat status;
	if (fstat(t->fd, &status) || (size_t)status.st_size != t->bytes)
		return "its size is another";
	if (status.st_blocks * 512 < (off_t)t->bytes)
		return "it has a hole";
	if (fcntl(t->fd, F_GET_SEALS) != t->seals)
		return "its seals are others";
	if (sum_of(t->map, t->bytes) != t->sum)
		return "its bytes are others";
	return NULL;
}

static bool attempt_gave_way(const struct attempt *attempt, struct target *t)
{
	int result = attempt->make(t);
	const char *broken = damage(t);
	if (!broken && attempt->must_fail && result >= 0)
		broken = "it was let through";
	printf("%s %s on %s: %s%s%s\n", broken ? "BAD" : "ok", attempt->name, t->how,
		result < 0 ? strerrorname_np(-result) : "let through, harmless", broken ? ", " : "",
		broken ? broken : "");
	return broken != NULL;
}

static unsigned attack(struct target *t)
{
	unsigned bad = 0;
	t->map = mmap(NULL, t->bytes, PROT_READ, MAP_SHARED, t->fd, 0);
	if (t->map == MAP_FAILED) {
		printf("BAD mmap on %s: %s\n", t->how, strerror(errno));
		return 1;
	}
	t->sum = sum_of(t->map, t->bytes);
	for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++)
		bad += attempt_gave_way(&attempts[i], t);
	(void)munmap(t->map, t->bytes);
	return bad;
}

/* ---- the trainer ---- */

static struct conn_message message;

__attribute__((noreturn)) static void give_up(const char *what)
{
	printf("cannot begin: %s\n", what);
	exit(2);
}

static const void *expect(int fd, enum wire_type type, size_t bytes)
{
	if (conn_receive(fd, false, &message))
		give_up("hung up");
	if (message.head.type == WIRE_ERROR)
		give_up((const char *)message.bytes + sizeof(struct wire_error));
	const void *got =
		type == WIRE_WELCOME ? message.bytes : conn_view(&message, type, bytes, 0);
	if (message.head.type != (uint32_t)type || !got)
		give_up("another message than the protocol says");
	return got;
}

static void say(int fd, struct wire_head *head, size_t bytes, const char *text)
{
	if (conn_send(fd, false, head, bytes, text, text ? strlen(text) : 0, -1))
		give_up("cannot send");
}

/* Opens a stream and holds all its batches: nothing writes to the extent from then on. */
static struct target become_trainer(int fd, const char *definition)
{
	struct wire_hello hello = {.head = {.type = WIRE_HELLO, .request = 1},
		.magic = WIRE_MAGIC,
		.version_min = 1,
		.version_max = 1};
	struct wire_open open_message = {.head = {.type = WIRE_OPEN, .request = 2, .stream = 1},
		.text_bytes = (uint32_t)strlen(definition)};
	say(fd, &hello.head, sizeof hello, NULL);
	(void)expect(fd, WIRE_WELCOME, sizeof(struct wire_welcome));
	say(fd, &open_message.head, sizeof open_message, definition);
	const struct wire_opened *opened = expect(fd, WIRE_OPENED, sizeof *opened);
	uint32_t slots = opened->slots;
	const struct wire_extent *extent = expect(fd, WIRE_EXTENT, sizeof *extent);
	struct target t = {.fd = message.fd, .how = "what came", .bytes = extent->bytes};
	t.seals = fcntl(t.fd, F_GET_SEALS);
	if (t.fd < 0 || t.seals < 0)
		give_up("no memfd came");
	while (slots--)
		(void)expect(fd, WIRE_BATCH, sizeof(struct wire_batch));
	return t;
}

static void prepare(struct target *t)
{
	t->foreign = (struct iovec){.iov_base = malloc(ATTACKER_PAGE), .iov_len = ATTACKER_PAGE};
	/* On the same file system as the memory; otherwise the kernel refuses copying for
	 * another reason. */
	t->file = memfd_create("attacker", MFD_CLOEXEC);
	if (!t->foreign.iov_base || t->file < 0 || pipe2(t->pipe, O_CLOEXEC))
		give_up("no memory");
	memset(t->foreign.iov_base, 0xa5, ATTACKER_PAGE);
	if (write(t->file, t->foreign.iov_base, ATTACKER_PAGE) != ATTACKER_PAGE)
		give_up("no file");
}

/* The same memory, opened in another way: its owner may open it for writing, unless its mode or
 * another process's /proc forbids it. */
static unsigned attack_through(const struct target *came, const char *how, const char *path)
{
	struct target t = *came;
	t.how = how;
	t.fd = open(path, O_RDWR | O_CLOEXEC);
	if (t.fd < 0) {
		printf("ok open %s for writing: %s\n", how, strerrorname_np(errno));
		return 0;
	}
	unsigned bad = attack(&t);
	(void)close(t.fd);
	return bad;
}

int main(int argc, char **argv)
{
	char path[64];
	int fd;
	if (argc != 3)
		give_up("usage: fault_attacker SOCKET DEFINITION");
	if (conn_connect(argv[1], &fd))
		give_up("cannot connect");
	(void)signal(SIGPIPE, SIG_IGN);
	struct target t = become_trainer(fd, argv[2]);
	prepare(&t);
	(void)snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), t.fd);
	unsigned bad = attack_through(&t, "it opened anew", path);
	bad += attack(&t);
	printf("%zu attempts, %u gave way\n", 2 * sizeof attempts / sizeof *attempts, bad);
	free(t.foreign.iov_base);
	return bad ? 1 : 0;
}

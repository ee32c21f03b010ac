/* table: see table.h. The lists come from reading which calls the daemon and its libraries make,
 * and from running the tests with the filter. libseccomp leaves out calls that the architecture
 * does not have. */
#include "confine/table.h"

#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <linux/prctl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
	__has_feature(memory_sanitizer)
#define TABLE_SANITIZER
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TABLE_SANITIZER
#endif

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

/* Operations of io_uring_register (linux/io_uring.h): opening a shard updates the table of files,
 * and liburing unregisters the ring's descriptor at the end. The highest bit says that the ring is
 * given by its registered number. */
enum { TABLE_FILES_UPDATE = 6, TABLE_UNREGISTER_RING_FDS = 21 };
#define TABLE_REGISTER_MASK 0x7fffffffu

/* The flags of clone for new namespaces: some are possible for threads. */
#define TABLE_NAMESPACES                                                               \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
		CLONE_NEWPID | CLONE_NEWNET)

/* Reading and writing, files, memory, threads, this process and its children, time, sockets that
 * exist, waiting. */
static const int table_both[] = {SCMP_SYS(read), SCMP_SYS(pread64), SCMP_SYS(readv),
	SCMP_SYS(preadv), SCMP_SYS(preadv2), SCMP_SYS(write), SCMP_SYS(pwrite64), SCMP_SYS(writev),
	SCMP_SYS(pwritev), SCMP_SYS(lseek), SCMP_SYS(close), SCMP_SYS(close_range), SCMP_SYS(fsync),
	SCMP_SYS(fdatasync), SCMP_SYS(ftruncate), SCMP_SYS(fallocate), SCMP_SYS(flock),
	SCMP_SYS(dup), SCMP_SYS(dup2), SCMP_SYS(dup3), SCMP_SYS(open), SCMP_SYS(openat),
	SCMP_SYS(stat), SCMP_SYS(fstat), SCMP_SYS(lstat), SCMP_SYS(newfstatat), SCMP_SYS(statx),
	SCMP_SYS(statfs), SCMP_SYS(fstatfs), SCMP_SYS(access), SCMP_SYS(faccessat),
	SCMP_SYS(faccessat2), SCMP_SYS(readlink), SCMP_SYS(readlinkat), SCMP_SYS(getdents64),
	SCMP_SYS(getcwd), SCMP_SYS(mkdir), SCMP_SYS(mkdirat), SCMP_SYS(rmdir), SCMP_SYS(unlink),
	SCMP_SYS(unlinkat), SCMP_SYS(rename), SCMP_SYS(renameat), SCMP_SYS(renameat2),
	SCMP_SYS(umask), SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise),
	SCMP_SYS(msync), SCMP_SYS(membarrier), SCMP_SYS(futex), SCMP_SYS(set_robust_list),
	SCMP_SYS(get_robust_list), SCMP_SYS(rseq), SCMP_SYS(set_tid_address), SCMP_SYS(gettid),
	SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity),
	SCMP_SYS(getcpu), SCMP_SYS(restart_syscall), SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(sigaltstack), SCMP_SYS(getpid),
	SCMP_SYS(getppid), SCMP_SYS(getuid), SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid),
	SCMP_SYS(getrusage), SCMP_SYS(getrlimit), SCMP_SYS(uname), SCMP_SYS(sysinfo),
	SCMP_SYS(times), SCMP_SYS(getrandom), SCMP_SYS(wait4), SCMP_SYS(waitid),
	SCMP_SYS(pidfd_open), SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres),
	SCMP_SYS(gettimeofday), SCMP_SYS(time), SCMP_SYS(nanosleep), SCMP_SYS(clock_nanosleep),
	SCMP_SYS(connect), SCMP_SYS(sendto), SCMP_SYS(sendmsg), SCMP_SYS(recvfrom),
	SCMP_SYS(recvmsg), SCMP_SYS(getsockopt), SCMP_SYS(setsockopt), SCMP_SYS(poll),
	SCMP_SYS(ppoll), SCMP_SYS(select), SCMP_SYS(pselect6), SCMP_SYS(epoll_create1),
	SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait), SCMP_SYS(eventfd2),
	SCMP_SYS(pipe2)};

/* What the daemon needs in addition. */
static const int table_daemon[] = {SCMP_SYS(fadvise64), SCMP_SYS(readahead), SCMP_SYS(sendfile),
	SCMP_SYS(link), SCMP_SYS(linkat), SCMP_SYS(mlock), SCMP_SYS(mlock2), SCMP_SYS(munlock),
	SCMP_SYS(memfd_create), SCMP_SYS(signalfd4), SCMP_SYS(timerfd_create),
	SCMP_SYS(timerfd_settime), SCMP_SYS(accept), SCMP_SYS(accept4), SCMP_SYS(shutdown),
	SCMP_SYS(getsockname), SCMP_SYS(getpeername), SCMP_SYS(io_uring_enter),
	SCMP_SYS(inotify_init1), SCMP_SYS(inotify_add_watch), SCMP_SYS(inotify_rm_watch)};

/* What the witness needs in addition, to set itself up after it is confined, and for NVIDIA's
 * library, which maps code and uses ioctl on its devices. */
static const int table_witness[] = {SCMP_SYS(ioctl), SCMP_SYS(mmap), SCMP_SYS(mprotect),
	SCMP_SYS(prctl), SCMP_SYS(sched_setaffinity), SCMP_SYS(sched_getparam),
	SCMP_SYS(sched_getscheduler)};

#ifdef TABLE_SANITIZER
/* What sanitizers need: LeakSanitizer clones a process that traces and stops all threads, and
 * reports start a symbolizer. */
static const int table_sanitizer[] = {SCMP_SYS(clone), SCMP_SYS(fork), SCMP_SYS(vfork),
	SCMP_SYS(execve), SCMP_SYS(kill), SCMP_SYS(tkill), SCMP_SYS(tgkill), SCMP_SYS(personality),
	SCMP_SYS(pipe), SCMP_SYS(rt_sigtimedwait), SCMP_SYS(rt_sigsuspend), SCMP_SYS(arch_prctl),
	SCMP_SYS(process_vm_readv), SCMP_SYS(getdents)};

/* The same, instead of the cases below. */
static const int table_sanitizer_daemon[] = {SCMP_SYS(ptrace), SCMP_SYS(prctl), SCMP_SYS(mmap),
	SCMP_SYS(mprotect), SCMP_SYS(ioctl), SCMP_SYS(prlimit64), SCMP_SYS(sched_setaffinity)};
#else
/* Other programs, other processes. */
static const int table_refused_plain[] = {SCMP_SYS(execve), SCMP_SYS(fork), SCMP_SYS(vfork),
	SCMP_SYS(ptrace), SCMP_SYS(kill), SCMP_SYS(tkill), SCMP_SYS(personality),
	SCMP_SYS(process_vm_readv)};
#endif

/* Calls that would reach beyond the process. */
static const int table_refused[] = {SCMP_SYS(execveat), SCMP_SYS(io_uring_setup),
	SCMP_SYS(process_vm_writev), SCMP_SYS(pidfd_getfd), SCMP_SYS(pidfd_send_signal),
	SCMP_SYS(kcmp), SCMP_SYS(mount), SCMP_SYS(umount2), SCMP_SYS(move_mount),
	SCMP_SYS(open_tree), SCMP_SYS(fsopen), SCMP_SYS(fsconfig), SCMP_SYS(fsmount),
	SCMP_SYS(fspick), SCMP_SYS(mount_setattr), SCMP_SYS(pivot_root), SCMP_SYS(chroot),
	SCMP_SYS(unshare), SCMP_SYS(setns), SCMP_SYS(bpf), SCMP_SYS(perf_event_open),
	SCMP_SYS(userfaultfd), SCMP_SYS(keyctl), SCMP_SYS(add_key), SCMP_SYS(request_key),
	SCMP_SYS(init_module), SCMP_SYS(finit_module), SCMP_SYS(delete_module),
	SCMP_SYS(kexec_load), SCMP_SYS(kexec_file_load), SCMP_SYS(reboot), SCMP_SYS(swapon),
	SCMP_SYS(swapoff), SCMP_SYS(acct), SCMP_SYS(quotactl), SCMP_SYS(syslog), SCMP_SYS(iopl),
	SCMP_SYS(ioperm), SCMP_SYS(modify_ldt), SCMP_SYS(name_to_handle_at),
	SCMP_SYS(open_by_handle_at), SCMP_SYS(setuid), SCMP_SYS(setgid), SCMP_SYS(setreuid),
	SCMP_SYS(setregid), SCMP_SYS(setresuid), SCMP_SYS(setresgid), SCMP_SYS(setgroups),
	SCMP_SYS(setfsuid), SCMP_SYS(setfsgid), SCMP_SYS(capset), SCMP_SYS(chown), SCMP_SYS(fchown),
	SCMP_SYS(lchown), SCMP_SYS(fchownat), SCMP_SYS(chmod), SCMP_SYS(fchmodat), SCMP_SYS(mknod),
	SCMP_SYS(mknodat), SCMP_SYS(setxattr), SCMP_SYS(lsetxattr), SCMP_SYS(fsetxattr),
	SCMP_SYS(seccomp), SCMP_SYS(sethostname), SCMP_SYS(setdomainname), SCMP_SYS(settimeofday),
	SCMP_SYS(clock_settime), SCMP_SYS(adjtimex), SCMP_SYS(bind), SCMP_SYS(listen),
	SCMP_SYS(remap_file_pages), SCMP_SYS(shmget), SCMP_SYS(shmat)};

/* libcurl wakes its thread that looks up names by a pair of sockets. */
static const int table_refused_alone[] = {SCMP_SYS(socketpair)};

/* The C library sends questions for IPv4 and IPv6 addresses at once. */
static const int table_online[] = {SCMP_SYS(sendmmsg), SCMP_SYS(recvmmsg)};

#define YES SCMP_ACT_ALLOW
#define NO SCMP_ACT_ERRNO(EPERM)

const struct table_list table_lists[] = {
	{TABLE_BOTH, YES, table_both, UTIL_COUNT(table_both)},
	{TABLE_DAEMON, YES, table_daemon, UTIL_COUNT(table_daemon)},
	{TABLE_WITNESS, YES, table_witness, UTIL_COUNT(table_witness)},
#ifdef TABLE_SANITIZER
	{TABLE_BOTH, YES, table_sanitizer, UTIL_COUNT(table_sanitizer)},
	{TABLE_DAEMON, YES, table_sanitizer_daemon, UTIL_COUNT(table_sanitizer_daemon)},
#else
	{TABLE_BOTH, NO, table_refused_plain, UTIL_COUNT(table_refused_plain)},
#endif
	{TABLE_BOTH, NO, table_refused, UTIL_COUNT(table_refused)},
	{TABLE_ALONE, NO, table_refused_alone, UTIL_COUNT(table_refused_alone)},
	{TABLE_ONLINE, YES, table_online, UTIL_COUNT(table_online)},
};
const size_t table_list_count = UTIL_COUNT(table_lists);

#define EQUAL(name, who, action, at, value)       \
	{                                         \
		who, action, SCMP_SYS(name),      \
		{                                 \
			at, SCMP_CMP_EQ, value, 0 \
		}                                 \
	}
#define ONLY(name, at, value) EQUAL(name, TABLE_DAEMON, YES, at, value)
#define FCNTL(action, command) EQUAL(fcntl, TABLE_BOTH, action, 1, command)
#define MASK(name, who, action, at, mask, value)            \
	{                                                   \
		who, action, SCMP_SYS(name),                \
		{                                           \
			at, SCMP_CMP_MASKED_EQ, mask, value \
		}                                           \
	}

const struct table_case table_cases[] = {
	/* Sockets of this machine, for the journal and systemd. The listening ones exist
	 * already. */
	{TABLE_BOTH, YES, SCMP_SYS(socket), {0, SCMP_CMP_EQ, AF_UNIX, 0}},
	{TABLE_ALONE, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), {0, SCMP_CMP_NE, AF_UNIX, 0}},
	/* Servers, and those that know their addresses. Neither raw packets nor the kernel's own
	 * sockets: without AF_NETLINK, getaddrinfo takes IPv4 and IPv6 to be there. */
	{TABLE_ONLINE, YES, SCMP_SYS(socket), {0, SCMP_CMP_EQ, AF_INET, 0}},
	{TABLE_ONLINE, YES, SCMP_SYS(socket), {0, SCMP_CMP_EQ, AF_INET6, 0}},
	{TABLE_ONLINE, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket),
		{0, SCMP_CMP_GT, AF_INET6, 0}},
	{TABLE_ONLINE, YES, SCMP_SYS(socketpair), {0, SCMP_CMP_EQ, AF_UNIX, 0}},
	{TABLE_ONLINE, NO, SCMP_SYS(socketpair), {0, SCMP_CMP_NE, AF_UNIX, 0}},
	/* F_SETOWN and F_SETSIG are refused: with them a change to a file could send any signal to
	 * any process of the same user. */
	FCNTL(YES, F_DUPFD),
	FCNTL(YES, F_DUPFD_CLOEXEC),
	FCNTL(YES, F_GETFD),
	FCNTL(YES, F_SETFD),
	FCNTL(YES, F_GETFL),
	FCNTL(YES, F_SETFL),
	FCNTL(YES, F_GETLK),
	FCNTL(YES, F_SETLK),
	FCNTL(YES, F_SETLKW),
	FCNTL(YES, F_OFD_GETLK),
	FCNTL(YES, F_OFD_SETLK),
	FCNTL(YES, F_OFD_SETLKW),
	/* The time of an open file, not of a path: when an object of the cache was last read. */
	EQUAL(utimensat, TABLE_BOTH, YES, 1, 0),
	FCNTL(YES, F_ADD_SEALS),
	FCNTL(YES, F_GET_SEALS),
	FCNTL(NO, F_SETOWN),
	FCNTL(NO, F_SETOWN_EX),
	FCNTL(NO, F_SETSIG),
	/* Only the limits of the process itself. */
	EQUAL(prlimit64, TABLE_WITNESS, YES, 0, 0),
	/* Where a stream's memory is allocated, as a preference. */
	ONLY(set_mempolicy, 0, MPOL_PREFERRED),
	/* No set-uid bits. */
	MASK(fchmod, TABLE_BOTH, YES, 1, 07000, 0),
	ONLY(io_uring_register, 1, TABLE_FILES_UPDATE),
	MASK(io_uring_register, TABLE_DAEMON, YES, 1, TABLE_REGISTER_MASK,
		TABLE_UNREGISTER_RING_FDS),
#ifndef TABLE_SANITIZER
	/* Threads, but not processes. (clone3 has its flags in memory, where a filter cannot read
	 * them. It gets ENOSYS, and the C library falls back to clone.) */
	MASK(clone, TABLE_BOTH, YES, 0, CLONE_THREAD | TABLE_NAMESPACES, CLONE_THREAD),
	MASK(clone, TABLE_BOTH, NO, 0, CLONE_THREAD, 0),
	/* No new code. */
	MASK(mmap, TABLE_DAEMON, YES, 2, PROT_EXEC, 0),
	MASK(mmap, TABLE_DAEMON, NO, 2, PROT_EXEC, PROT_EXEC),
	MASK(mprotect, TABLE_DAEMON, YES, 2, PROT_EXEC, 0),
	MASK(mprotect, TABLE_DAEMON, NO, 2, PROT_EXEC, PROT_EXEC),
	ONLY(prctl, 0, PR_SET_NAME),
	ONLY(prctl, 0, PR_GET_NAME),
	ONLY(prctl, 0, PR_GET_DUMPABLE),
	ONLY(prctl, 0, PR_GET_NO_NEW_PRIVS),
	ONLY(prctl, 0, PR_SET_VMA), /* malloc names its mappings */
	/* Whether a file is a terminal, and how many bytes can be read. */
	ONLY(ioctl, 1, TCGETS),
	ONLY(ioctl, 1, FIONREAD),
	ONLY(ioctl, 1, FIONBIO),
	/* Limits may be read, not set. */
	ONLY(prlimit64, 2, 0),
#endif
};
const size_t table_case_count = UTIL_COUNT(table_cases);

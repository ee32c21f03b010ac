"""Rows: limits of resources, and system calls that are forbidden or not there."""
import errno
import resource

from matrix import NOBODY, Row

ACTIONS = ("daemon", "private", "bench", "check", "pack", "python")  # NumPy itself dies of 128 MiB

EPERM, ENOSYS, EACCES = errno.EPERM, errno.ENOSYS, errno.EACCES
RING = "io_uring_setup,io_uring_enter,io_uring_register"
# What Docker's default profile leaves out of the calls that x86-64 and 64-bit ARM have, for a container without capabilities.
DOCKER = ("syslog,uselib,ustat,sysfs,vhangup,pivot_root,_sysctl,chroot,acct,settimeofday,mount,umount2,swapon,swapoff,reboot,sethostname,"
          "setdomainname,iopl,ioperm,create_module,init_module,delete_module,get_kernel_syms,query_module,quotactl,nfsservctl,"
          "lookup_dcookie,clock_settime,mbind,set_mempolicy,get_mempolicy,kexec_load,add_key,request_key,keyctl,migrate_pages,unshare,"
          "move_pages,perf_event_open,fanotify_init,open_by_handle_at,setns,kcmp,finit_module,kexec_file_load,bpf,userfaultfd,open_tree,"
          "move_mount,fsopen,fsconfig,fsmount,fspick,pidfd_getfd,process_madvise,mount_setattr,quotactl_fd,set_mempolicy_home_node")
# Before 2020 the profile did not know these, and said EPERM where a kernel without them says ENOSYS.
DOCKER_OLD = DOCKER + ",close_range,openat2,faccessat2,epoll_pwait2,pidfd_open,clone3,rseq,membarrier,memfd_secret,landlock_create_ruleset"


def limit(name, value):
    return f"limit={int(getattr(resource, 'RLIMIT_' + name))}:{value}"


def deny(number, calls):
    return f"deny={number}:{calls}"


MEMLOCK = Row("RLIMIT_MEMLOCK 0, an ordinary user", proof="grep -q '^Max locked memory *0 *0 ' /proc/self/limits && test $(id -u) = 12345", launch=(limit("MEMLOCK", 0),), user=NOBODY, ci=("daemon",))
ROWS = [
    Row("RLIMIT_MEMLOCK 0, root", launch=(limit("MEMLOCK", 0),)),
    MEMLOCK,
    Row("io_uring forbidden by seccomp (EPERM)", launch=(deny(EPERM, RING),), log="io_uring is forbidden here", ci=("daemon", "private", "python")),
    Row("io_uring forbidden by seccomp (EACCES)", launch=(deny(EACCES, RING),), log="io_uring is forbidden here"),
    Row("no io_uring (ENOSYS), as podman's profile answers", launch=(deny(ENOSYS, RING),), log="io_uring is hidden here by seccomp", ci=("daemon",)),
    Row("io_uring_register alone forbidden", launch=(deny(EPERM, "io_uring_register"),)),
    Row("io_uring_enter alone forbidden", launch=(deny(EPERM, "io_uring_enter"),)),
    Row("io_uring forbidden, reader: io_uring asked for", launch=(deny(EPERM, RING),), daemon=("--reader", "io_uring"), only=("daemon",),
        says={"daemon": "io_uring is forbidden here .*seccomp or kernel.io_uring_disabled"}),
    Row("Docker's default profile", launch=(deny(EPERM, DOCKER + "," + RING), deny(ENOSYS, "clone3"), "namespaces=1"),
        ci=("daemon", "private", "bench", "check", "pack", "python")),
    Row("Docker's default profile, an ordinary user", launch=(deny(EPERM, DOCKER + "," + RING), deny(ENOSYS, "clone3"), "namespaces=1"),
        user=NOBODY),
    Row("Docker's profile of 2019 on a new kernel", launch=(deny(EPERM, DOCKER_OLD + "," + RING),),
        says={"*": "?clone3|thread"}),
    Row("a kernel of 2019: 25 calls are missing", launch=(deny(ENOSYS, RING + ",pidfd_open,pidfd_send_signal,pidfd_getfd,openat2,epoll_pwait2,"
        "close_range,clone3,faccessat2,process_madvise,rseq,landlock_create_ruleset,landlock_add_rule,landlock_restrict_self,"
        "futex_waitv,memfd_secret,quotactl_fd,mount_setattr,process_mrelease,set_mempolicy_home_node,cachestat,fchmodat2"),),
        ci=("daemon", "private", "python")),
    *(Row(f"no {call} (ENOSYS)", launch=(deny(ENOSYS, call),)) for call in (
        "pidfd_open", "statx", "openat2", "epoll_pwait2", "close_range", "clone3", "copy_file_range", "faccessat2", "rseq", "membarrier",
        "preadv2", "mlock,mlock2", "sched_setaffinity,sched_getaffinity", "sched_setscheduler,sched_setattr,setpriority",
        "set_mempolicy,get_mempolicy,mbind", "madvise", "fadvise64", "sync_file_range", "renameat2", "getrandom", "sysinfo",
        "inotify_init1", "syncfs,sync", "utimensat", "getcpu", "uname", "socketpair")),
    *(Row(f"no {call} (ENOSYS)", launch=(deny(ENOSYS, call),), says={a: words for a in ("daemon", "private", "bench", "python")}) for call, words in (
        ("signalfd4", "signalfd.*Function not implemented"), ("timerfd_create,timerfd_settime", "timerfd.*Function not implemented"),
        ("eventfd2", "Function not implemented"), ("epoll_create1", "epoll.*Function not implemented"),
        ("fallocate", "fallocate.*Function not implemented"), ("prlimit64", "core_files: on allows them"), ("prctl", "no_new_privs.*allow it"))),
    Row("prctl forbidden (EPERM)", launch=(deny(EPERM, "prctl"),), says={a: "no_new_privs.*allow it" for a in ("daemon", "private", "bench", "python")}),
    Row("no locks: flock (ENOSYS)", launch=(deny(ENOSYS, "flock"),), says={"check": "?lock", "*": "lock.*Function not implemented"}),
    Row("no locks: flock (ENOLCK), as on NFS without lockd", launch=(deny(errno.ENOLCK, "flock"),), says={"check": "?lock", "*": "lock.*No locks available"}, ci=("daemon",)),
    Row("no memfd_create (ENOSYS)", launch=(deny(ENOSYS, "memfd_create"),), says={a: "memfd_create" for a in ("daemon", "private", "bench", "python")},
        ci=("daemon",)),
    *(Row(f"{call} forbidden (EPERM)", launch=(deny(EPERM, call),)) for call in (
        "pidfd_open", "statx", "close_range", "copy_file_range", "madvise", "fadvise64", "sched_setaffinity", "mlock,mlock2",
        "setsid", "kill,tgkill,tkill")),
    Row("fchmod and its kin forbidden (EPERM)", launch=(deny(EPERM, "fchmod,fchmodat,chmod"),), only=("daemon", "private", "bench", "python"),
        says={"*": "cannot listen on .*Operation not permitted"}),
    *(Row(f"RLIMIT_NOFILE {n}", launch=(limit("NOFILE", n),), ci=("daemon", "private") if n == 64 else ()) for n in (256, 64, 32)),
    *(Row(f"RLIMIT_NOFILE {n}", launch=(limit("NOFILE", n),), ci=("daemon", "private") if n == 16 else (),
          says={"check": "?ulimit -n", "pack": "?ulimit -n|[Tt]oo many open files", "*": "ulimit -n"}) for n in (24, 16, 12, 8)),
    *(Row(f"RLIMIT_AS {n} MiB", launch=(limit("AS", n << 20),), says={"*": "?memory|thread|address"}, only=ACTIONS[:5] if n < 192 else ACTIONS) for n in (64, 128, 192, 256, 512, 1024, 4096)),
    *(Row(f"RLIMIT_DATA {n} MiB", launch=(limit("DATA", n << 20),), says={"*": "?memory|thread"}) for n in (16, 64, 128, 256)),
    *(Row(f"RLIMIT_NPROC {n}, an ordinary user", launch=(limit("NPROC", n),), user=NOBODY, says={"*": "?thread|process|RLIMIT_NPROC"}) for n in (1, 2, 4, 8, 64)),
    *(Row(f"RLIMIT_FSIZE {n}", launch=(limit("FSIZE", n),), says={"*": "RLIMIT_FSIZE|[Ff]ile too large|ulimit -f"}, ci=("private", "pack") if not n else ())
      for n in (0, 4096)),
    Row("RLIMIT_STACK 64 KiB", launch=(limit("STACK", 64 << 10),), says={"python": "?ulimit -s", "*": "RLIMIT_STACK.*ulimit -s"}, ci=("private",)),
    Row("RLIMIT_STACK 256 KiB", launch=(limit("STACK", 256 << 10),), says={"*": "RLIMIT_STACK.*ulimit -s"}),
    *(Row(f"RLIMIT_STACK {n} MiB", launch=(limit("STACK", n << 20),)) for n in (1, 1024)),
    Row("RLIMIT_STACK unlimited", launch=(limit("STACK", (1 << 64) - 1),)),
    Row("RLIMIT_CORE 0, RLIMIT_MSGQUEUE 0, RLIMIT_SIGPENDING 0, RLIMIT_LOCKS 0",
        launch=(limit("CORE", 0), limit("MSGQUEUE", 0), limit("SIGPENDING", 0), "limit=10:0")),
    Row("RLIMIT_CPU 60 s", launch=(limit("CPU", 60),)),
]

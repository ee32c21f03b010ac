"""Rows: what a process inherits, variables that mean nothing, namespaces, clocks."""
import os
import signal
import time

from harness import BIN
from matrix import Row

NAMESPACE = "--fork --kill-child"
PID = f"-p {NAMESPACE} --mount-proc"


def stop_and_go(daemon):
    """As a laptop that is closed: the daemon is stopped for a while, again and again, while it is read."""
    if os.fork() == 0:
        for _ in range(3):
            time.sleep(0.05)
            os.kill(daemon.pid, signal.SIGSTOP)
            time.sleep(1.5)
            os.kill(daemon.pid, signal.SIGCONT)
        os._exit(0)


def cgroup(shell):
    """In a cgroup of its own, version 1; `shell` sets it up with $v1 its folder's name."""
    return ('test -d /sys/fs/cgroup/memory || { echo "no cgroups of version 1"; exit 125; }\nv1=penstock-environment-$$\n' + shell)


def in_cgroup(controller, **settings):
    lines = [f'at=/sys/fs/cgroup/{controller}/penstock-environment-$$', 'mkdir "$at" || { echo "no cgroup can be made"; exit 125; }']
    lines += [f'echo {value} >"$at/{controller}.{name}"' for name, value in settings.items()]
    return "\n".join([*lines, 'echo $$ >"$at/cgroup.procs"'])


GARBAGE = {"RANK": "x", "WORLD_SIZE": "0", "LOCAL_RANK": "-1", "LOCAL_WORLD_SIZE": "1e9"}
ROWS = [
    Row("stdin closed", launch=("close=0",), ci=("daemon",)),
    Row("stdin, stdout and stderr closed for the daemon", launch=("close=0", "close=1", "close=2"), only=("daemon",), trainer_outside=True),
    Row("stdout full", launch=(), shell="exec >/dev/full", only=("check", "bench"), says={"*": "[Nn]o space left"}, ci=("check",)),
    Row("stdout closed", launch=("close=1",), only=("check", "bench"), says={"*": "[Bb]ad file|stdout|standard output"}),
    Row("stderr full", shell="exec 2>/dev/full", trainer_outside=False),
    Row("umask 0777", proof="test $(umask) = 0777", shell="umask 0777", says={"*": "?[Pp]ermission"}),
    Row("umask 0000", shell="umask 0"),
    *(Row(f"{name} ignored", launch=(f"ignore={int(number)}",)) for name, number in (
        ("SIGCHLD", signal.SIGCHLD), ("SIGPIPE", signal.SIGPIPE), ("SIGTERM and others", signal.SIGTERM), ("SIGALRM", signal.SIGALRM))),
    *(Row(f"{name} blocked", launch=(f"block={int(number)}",)) for name, number in (
        ("SIGCHLD", signal.SIGCHLD), ("SIGTERM", signal.SIGTERM), ("SIGINT", signal.SIGINT), ("SIGALRM", signal.SIGALRM), ("SIGPIPE", signal.SIGPIPE))),
    Row("every signal blocked", launch=tuple(f"block={n}" for n in range(1, 65) if n not in (32, 33)), ci=("private",)),
    Row("500 inherited descriptors", launch=("fds=500",)),
    Row("60 inherited descriptors of RLIMIT_NOFILE 64", launch=("limit=7:64", "fds=58"), says={"*": "?ulimit -n|open files"}),
    Row("argv[0] empty", launch=("argv0=",), only=("daemon", "private", "check", "pack", "bench")),
    Row("personality ADDR_NO_RANDOMIZE", launch=("personality=0x0040000",)),
    Row("personality READ_IMPLIES_EXEC", launch=("personality=0x0400000",)),
    Row("oom_score_adj 1000", shell="echo 1000 >/proc/self/oom_score_adj"),
    Row("nice 19, SCHED_IDLE", shell='set -- nice -n 19 chrt -i 0 "$@"'),
    Row("one processor", proof="test $(nproc) = 1", shell='set -- taskset -c 0 "$@"', ci=("daemon",)),
    Row("LC_ALL with a decimal comma", env={"LC_ALL": "de_DE.UTF-8", "LC_NUMERIC": "de_DE.UTF-8", "LANG": "de_DE"}),
    Row("LC_ALL of no locale", env={"LC_ALL": "xx_YY.garbage"}),
    Row("TERM unknown", env={"TERM": "no-such-terminal"}, only=("check", "bench", "pack")),
    Row("RANK, WORLD_SIZE and LOCAL_RANK are no numbers", env=GARBAGE, trainer=("share=split",), says={a: "RANK|WORLD_SIZE" for a in ("private", "python", "daemon")}, ci=("private",)),
    Row("RANK beyond WORLD_SIZE", env={"RANK": "7", "WORLD_SIZE": "4"}, trainer=("share=split",), says={a: "RANK|rank" for a in ("private", "python", "daemon")}),
    Row("RANK without WORLD_SIZE", env={"RANK": "0"}, says={"*": "?RANK|WORLD_SIZE"}),
    Row("PENSTOCKD names nothing", env={"PENSTOCKD": "/no/such/penstockd"}, only=("private", "python", "bench"), says={"*": "PENSTOCKD names /no/such/penstockd"}),
    Row("PENSTOCKD names a folder", env={"PENSTOCKD": "/tmp"}, only=("private", "python"), says={"*": "PENSTOCKD names /tmp"}),
    Row("PENSTOCKD names another program", env={"PENSTOCKD": "/bin/false"}, only=("private", "python", "bench"), says={"*": "/bin/false.*ended (at once|with 1)"}),
    Row("PENSTOCK_DECODER means nothing", env={"PENSTOCK_DECODER": "quantum"}, says={"*": "?PENSTOCK_DECODER"}),
    Row("PENSTOCK_KERNELS means nothing", env={"PENSTOCK_KERNELS": "avx9000"}, says={"*": "?PENSTOCK_KERNELS"}),
    Row("PENSTOCK_JOB with control characters, 4,000 bytes", env={"PENSTOCK_JOB": "a\nb\x01" * 1000}, only=("private", "python")),
    Row("MASTER_ADDR and MASTER_PORT mean nothing", env={"MASTER_ADDR": "...", "MASTER_PORT": "x"}, only=("private", "python")),
    Row("SLURM_JOB_END_TIME means nothing", env={"SLURM_JOB_END_TIME": "tomorrow", "SLURM_JOB_ID": "x"}),
    Row("MALLOC_ARENA_MAX=1, MALLOC_PERTURB_, GLIBC_TUNABLES", env={"MALLOC_ARENA_MAX": "1", "MALLOC_PERTURB_": "170", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}),
    Row("NOTIFY_SOCKET and WATCHDOG_USEC mean nothing", env={"NOTIFY_SOCKET": "/nowhere/notify", "WATCHDOG_USEC": "x", "WATCHDOG_PID": "1", "LISTEN_FDS": "99", "LISTEN_PID": "1"}),
    Row("JOURNAL_STREAM means nothing", env={"JOURNAL_STREAM": "x:y"}),

    Row("the wall clock jumps by hours, twenty times a second", env={"LD_PRELOAD": str(BIN / "libenvironment_clock.so")},
        proof="test $(for i in 1 2 3 4 5 6 7 8; do date +%F-%H; sleep 0.06; done | sort -u | wc -l) -gt 2", ci=("daemon",)),
    Row("CLOCK_MONOTONIC begins at 0", unshare=f"-T {NAMESPACE} --monotonic -{int(time.monotonic()) - 1} --boottime -{int(time.monotonic()) - 1}"),
    Row("CLOCK_MONOTONIC is of 50 years", unshare=f"-T {NAMESPACE} --monotonic 1577880000 --boottime 1577880000"),
    Row("the daemon is stopped for seconds", only=("daemon",), during=stop_and_go),

    Row("a PID namespace of its own", unshare=PID, ci=("private",)),
    Row("the daemon in a PID namespace, the trainer outside", unshare=PID, only=("daemon",), trainer_outside=True),
    Row("a PID namespace, /proc of the other one", unshare=f"-p {NAMESPACE}"),
    Row("PID 1 does not reap", unshare=PID, shell='run() { "$@"; }\nset -- sh -c \'"$@"; code=$?; exit $code\' sh "$@"', only=("private", "bench", "check", "pack", "python")),
    Row("a network namespace without lo", unshare="-n", ci=("daemon",)),
    Row("a network namespace without lo, --http 9471", unshare="-n", daemon=("--http", "127.0.0.1:9471"), only=("daemon",)),
    Row("a user namespace: this user alone", unshare="-U"),
    Row("a user namespace: root inside", unshare="-U -r", ci=("private",)),
    Row("the daemon in a user namespace, the trainer outside", unshare="-U", only=("daemon",), trainer_outside=True),
    Row("IPC, UTS and cgroup namespaces", unshare="-i -u -C"),
    Row("no /proc", unshare="-m", shell="umount -l /proc", says={"private": "?/proc|PENSTOCKD", "python": "?/proc|PENSTOCKD", "bench": "?/proc|PENSTOCKD"}, ci=("daemon", "check")),
    Row("/proc is an empty folder of 0 bytes", unshare="-m", shell="mount -t tmpfs -o ro none /proc", says={"private": "?/proc|PENSTOCKD", "python": "?/proc|PENSTOCKD", "bench": "?/proc|PENSTOCKD"}),
    Row("/proc with hidepid=2", unshare="-m", shell="mount -o remount,hidepid=2 /proc || mount -t proc -o hidepid=2 proc /proc", user=12345),
    Row("/proc/sys, meminfo and self/cgroup masked", unshare="-m", shell="mount -t tmpfs none /proc/sys; mount --bind /dev/null /proc/meminfo; mount --bind /dev/null /proc/self/cgroup; "
        "mount --bind /dev/null /proc/self/mountinfo || true"),
    Row("no /sys", unshare="-m", shell="umount -l /sys"),
    Row("/sys/fs/cgroup is empty", unshare="-m", shell="mount -t tmpfs none /sys/fs/cgroup"),

    Row("cgroup v1: half a processor", shell=in_cgroup("cpu", cfs_period_us=100000, cfs_quota_us=50000), ci=("daemon",)),
    Row("cgroup v1: 10 % of a processor, in periods of 10 ms", shell=in_cgroup("cpu", cfs_period_us=10000, cfs_quota_us=1000), only=("daemon", "check")),
    Row("cgroup v1: 256 MiB of memory", shell=in_cgroup("memory", limit_in_bytes="256M")),
    Row("cgroup v1: 64 MiB of memory, a budget of 128 MiB", shell=in_cgroup("memory", limit_in_bytes="64M"), says={"*": "?memory|limit"}, ci=("daemon",)),
    Row("cgroup v1: 40 MiB of memory", shell=in_cgroup("memory", limit_in_bytes="40M"), only=("daemon", "private", "check", "pack"), says={"*": "?memory|limit"}),
    Row("cgroup v1: one processor", shell=in_cgroup("cpuset", cpus=0, mems=0)),
    Row("cgroup v1: 30 processes", shell=in_cgroup("pids", max=30)),
    Row("cgroup v1: 8 processes", shell=in_cgroup("pids", max=8), says={"*": "?pids|process|thread"}),
    Row("cgroup v1: 3 processes", shell=in_cgroup("pids", max=3), only=("daemon", "private", "check", "pack"), says={"*": "?pids|process|thread"}),
]

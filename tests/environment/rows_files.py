"""Rows: file systems, folders, the variables that name them, users."""
import os

from matrix import NOBODY, Row

SPACE = "[Nn]o space left|[Dd]isk quota"
READ_ONLY = "[Rr]ead-only"
STARTERS = ("private", "python")  # whoever finds the socket's folder by the environment
EMPTY_DEV = "mount -t tmpfs none /dev\nmknod -m 666 /dev/urandom c 1 9\n"


def read_only(*writable):
    """All that is mounted becomes read-only, but for these folders of the row."""
    kept = "".join(f'mount --bind "$home/{name}" "$home/{name}"\n' for name in writable)
    return 'mount --bind "$home" "$home"\n' + kept + 'for at in "$home" /tmp /dev/shm /; do mount -o remount,bind,ro "$at" 2>/dev/null || true; done\n' + \
        'if touch /tmp/.w "$home/.w" 2>/dev/null; then echo "the tree cannot be made read-only"; exit 125; fi'


def full(name):
    """A folder of the row on a disk without a byte left."""
    return f'mount -t tmpfs -o size=64k,mode=0700 none "$home/{name}"\ncat /dev/zero >"$home/{name}/.fill" 2>/dev/null || true'


def someone_elses(cell):
    os.chown(cell.home / "run", 4242, 4242)


def chmod(name, mode):
    return lambda cell: (cell.home / name).chmod(mode)


def long_folder(cell):
    (cell.home / "run" / ("r" * 100)).mkdir(mode=0o700)


def take_away(name):
    return lambda cell: (cell.home / name).rmdir()


def a_file(name):
    def prepare(cell):
        (cell.home / name).rmdir()
        (cell.home / name).write_text("no folder")
    return prepare


ROWS = [
    Row("/dev/shm of 64 MiB", unshare="-m", proof="test $(df --output=size /dev/shm | tail -1) = 65536", shell="mount -t tmpfs -o size=64M none /dev/shm", ci=("daemon",)),
    Row("/dev/shm of 4 KiB", unshare="-m", shell="mount -t tmpfs -o size=4k none /dev/shm", ci=("private",)),
    Row("/dev/shm read-only", unshare="-m", shell="mount -t tmpfs -o ro none /dev/shm"),
    Row("/dev with null and urandom alone", unshare="-m", shell=EMPTY_DEV + "mknod -m 666 /dev/null c 1 3"),
    Row("no /dev/null", unshare="-m", shell=EMPTY_DEV, says={"private": "/dev/null", "python": "/dev/null", "bench": "/dev/null"}),
    Row("a read-only root, folders of the user can be written", unshare="-m", shell=read_only("run", "cache", "state", "tmp", "out"),
        ci=("daemon", "check", "pack")),
    Row("a read-only root, the socket's folder alone can be written", unshare="-m", shell=read_only("run"),
        says={"*": "index of .* cannot be written .*" + READ_ONLY}, only=("private", "bench", "check", "pack", "python"), ci=("private",)),
    Row("everything read-only", unshare="-m", proof='! touch "$1/run/x" 2>/dev/null', shell=read_only(), says={"*": READ_ONLY}, only=("private", "bench", "pack", "python", "check"),
        ci=("private", "pack")),
    Row("a full disk: cache", unshare="-m", proof='! head -c 5000 /dev/zero 2>/dev/null >"$1/cache/x"', shell=full("cache"), ci=("daemon",)),
    Row("a full disk: state", unshare="-m", shell=full("state")),
    Row("a full disk: temporary folder", unshare="-m", shell=full("tmp"), says={"bench": "?" + SPACE, "pack": "?" + SPACE}),
    Row("a full disk: what is packed", unshare="-m", shell=full("out"), only=("pack",), says={"pack": "has 0 B free.*make room"}, ci=("pack",)),
    Row("a full disk: everything but the dataset", unshare="-m", shell="\n".join(full(n) for n in ("cache", "state", "tmp", "out", "run")),
        says={"*": "?" + SPACE}),
    Row("TMPDIR is not there", env={"TMPDIR": "{home}/nowhere"}, says={"bench": "?nowhere"}),
    Row("TMPDIR is not there, no XDG_RUNTIME_DIR", env={"TMPDIR": "{home}/nowhere", "XDG_RUNTIME_DIR": None}, only=("private", "python", "bench"),
        says={"bench": "?nowhere", "*": "nowhere.*(cannot be made|No such file)"}, ci=("private",)),
    Row("TMPDIR is a file", env={"TMPDIR": "{home}/tmp"}, prepare=a_file("tmp"), says={"bench": "?tmp"}),
    Row("TMPDIR relative", env={"TMPDIR": "tmp"}),
    Row("TMPDIR relative, no XDG_RUNTIME_DIR", env={"TMPDIR": "tmp", "XDG_RUNTIME_DIR": None}, says={a: "?absolute|relative" for a in ("private", "python", "bench")}),
    Row("TMPDIR empty, XDG_RUNTIME_DIR empty", env={"TMPDIR": "", "XDG_RUNTIME_DIR": ""}, only=("check", "pack")),
    Row("XDG_RUNTIME_DIR is not there", env={"XDG_RUNTIME_DIR": "{home}/nowhere"}, ci=("private",)),
    Row("XDG_RUNTIME_DIR not set", env={"XDG_RUNTIME_DIR": None}),
    Row("XDG_RUNTIME_DIR is a file", prepare=a_file("run"), only=("private", "bench", "python"), says={"*": "?run"}),
    Row("XDG_RUNTIME_DIR somebody else's", prepare=someone_elses, only=STARTERS),
    Row("XDG_RUNTIME_DIR open to all", prepare=chmod("run", 0o777), only=STARTERS),
    Row("XDG_RUNTIME_DIR cannot be written, an ordinary user", prepare=chmod("run", 0o500), user=NOBODY, only=STARTERS),
    Row("XDG_RUNTIME_DIR on another file system", unshare="-m", shell='mount -t tmpfs -o mode=0700 none "$home/run"', only=("private", "bench", "check", "pack", "python")),
    Row("XDG_RUNTIME_DIR too long for a socket", prepare=long_folder, env={"XDG_RUNTIME_DIR": "{home}/run/" + "r" * 100}, only=("private", "python", "bench"),
        says={"private": "longer than|too long", "python": "longer than|too long", "bench": "?long"}, ci=("private",)),
    Row("XDG_RUNTIME_DIR relative", env={"XDG_RUNTIME_DIR": "run"}, only=("private", "python", "bench", "check", "pack"),
        says={"private": "?absolute|relative", "python": "?absolute|relative", "bench": "?absolute|relative"}),
    Row("PENSTOCK_SOCKET's folder is open to others", env={"PENSTOCK_SOCKET": "{home}/tmp/s.sock"}, prepare=chmod("tmp", 0o755), only=STARTERS,
        says={"*": "open to others, or not yours"}, ci=("private",)),
    Row("PENSTOCK_SOCKET's folder is not there", env={"PENSTOCK_SOCKET": "{home}/a/b/s.sock"}, only=STARTERS, says={"*": "a/b cannot be made"}),
    Row("PENSTOCK_SOCKET relative", env={"PENSTOCK_SOCKET": "s.sock"}, only=STARTERS, says={"*": "absolute|open to others"}),
    Row("PENSTOCK_SOCKET names a file", env={"PENSTOCK_SOCKET": "{home}/data/README"}, prepare=lambda c: ((c.home / "data").chmod(0o700), (c.home / "data/README").write_text("x"))
        and None, only=STARTERS, says={"*": "README"}),
    Row("HOME not set", env={"HOME": None}),
    Row("HOME not set, no XDG_CACHE_HOME, no XDG_STATE_HOME", env={"HOME": None, "XDG_CACHE_HOME": None, "XDG_STATE_HOME": None}, ci=("daemon",)),
    Row("HOME is not there", env={"HOME": "/proc/nonexistent", "XDG_CACHE_HOME": None, "XDG_STATE_HOME": None}),
    Row("HOME is not there, an ordinary user without an entry in passwd", env={"HOME": "/proc/nonexistent", "XDG_CACHE_HOME": None, "XDG_STATE_HOME": None},
        user=NOBODY, ci=("daemon", "private", "bench", "check", "pack", "python")),
    Row("HOME empty, no XDG_CACHE_HOME", env={"HOME": "", "XDG_CACHE_HOME": None, "XDG_STATE_HOME": None}),
    Row("HOME cannot be written, an ordinary user", env={"XDG_CACHE_HOME": None, "XDG_STATE_HOME": None}, prepare=chmod("home", 0o500), user=NOBODY),
    Row("HOME is a file", env={"XDG_CACHE_HOME": None, "XDG_STATE_HOME": None}, prepare=a_file("home")),
    Row("HOME relative", env={"HOME": "home", "XDG_CACHE_HOME": None, "XDG_STATE_HOME": None}),
    Row("nobody's environment: no variable at all", env={n: None for n in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "PATH", "LANG", "USER",
        "LOGNAME", "SHELL", "TERM", "PWD")}, only=("daemon", "check", "pack")),
    Row("XDG_CACHE_HOME cannot be written, an ordinary user", prepare=chmod("cache", 0o500), user=NOBODY, ci=("daemon",)),
    Row("XDG_CACHE_HOME is a file", prepare=a_file("cache")),
    Row("XDG_CACHE_HOME relative", env={"XDG_CACHE_HOME": "cache"}),
    Row("XDG_STATE_HOME cannot be written, an ordinary user", prepare=chmod("state", 0o500), user=NOBODY),
    Row("XDG_STATE_HOME is a file", prepare=a_file("state")),
    Row("XDG_STATE_HOME relative", env={"XDG_STATE_HOME": "state"}),
    Row("the working folder was deleted", launch=(), shell='mkdir "$home/gone"; cd "$home/gone"; rmdir "$home/gone"', ci=("private",)),
    Row("the working folder was deleted, a relative source", shell='mkdir "$home/gone"; cd "$home/gone"; rmdir "$home/gone"', source="data",
        says={"private": "working folder", "daemon": "working folder", "bench": "working folder|data", "check": "data", "pack": "data", "python": "data|working folder"}),
    Row("the working folder cannot be read, an ordinary user", shell='cd "$home/home"; chmod 0 "$home/home"', user=NOBODY),
    Row("chroot with the programs and the dataset alone", unshare="-m",
        shell='for at in usr lib lib64 bin; do mkdir -p "$home/root/$at"; mount --rbind /$at "$home/root/$at"; done\n'
              'mkdir -p "$home/root/dev" "$home/root/$home" "$home/root/tmp"; mount --rbind "$home" "$home/root/$home"\n'
              'programs=$(dirname "$(command -v "$1")"); mkdir -p "$home/root/$programs"; mount --rbind "$programs" "$home/root/$programs"\n'
              'mknod -m 666 "$home/root/dev/null" c 1 3; mknod -m 666 "$home/root/dev/urandom" c 1 9; set -- chroot "$home/root" "$@"',
        only=("daemon", "private", "bench", "check", "pack"), says={}),
]

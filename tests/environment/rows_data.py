"""Rows: datasets that lie oddly, and file systems under them."""
import os
import shutil
import socket
import stat
from pathlib import Path

from matrix import Row


def first(path):
    return sorted(p for p in path.rglob("*") if p.is_file())[0]


def moved(name):
    """The dataset under another name."""
    def tamper(path):
        target = os.path.join(os.fsencode(path.parent), name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.rename(path, target)
        return target
    return tamper


def deep(path):
    """A path of some 3,900 bytes."""
    at = os.open(path.parent, os.O_RDONLY)
    names = []
    while len(os.fsencode(path.parent)) + sum(len(n) + 1 for n in names) < 3700:
        name = "d" * 200
        os.mkdir(name, dir_fd=at)
        below = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
        names.append(name)
    os.close(at)
    target = os.path.join(os.fsencode(path.parent), *(n.encode() for n in names), b"data")
    os.rename(path, target)
    return target


def add(make):
    """Something beside the pictures of a class, that is none."""
    def tamper(path):
        make(first(path).parent)
    return tamper


def a_socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        here = os.getcwd()
        os.chdir(path.parent)
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)


def a_device(path):
    os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero: it never ends


def mtimes(seconds):
    def tamper(path):
        for at in [path, *path.rglob("*")]:
            os.utime(at, (seconds, seconds))
    return tamper


def in_place_of(make):
    """What was a picture is none any more: it is broken, and counted."""
    def tamper(path):
        gone = first(path)
        gone.unlink()
        make(gone)
    return tamper


def sparse(path):
    """Tails of zeroes that take no room."""
    for at in path.rglob("*"):
        if at.is_file():
            with open(at, "rb+") as file:
                size = at.stat().st_size
                file.truncate(size + (1 << 20))
                file.truncate(size)


def linked(path):
    """Each picture a hard link to one elsewhere."""
    store = path.parent / "store"
    store.mkdir()
    for number, at in enumerate(sorted(p for p in path.rglob("*") if p.is_file())):
        at.rename(store / str(number))
        os.link(store / str(number), at)


def symlinked(path):
    """The classes and the pictures are symbolic links."""
    store = path.parent / "store"
    path.rename(store)
    path.mkdir()
    for folder in sorted(p for p in store.iterdir() if p.is_dir()):
        (path / folder.name).symlink_to(folder)


BROKEN = "penstock check found|broken"
OVERLAY = 'mkdir "$home/up" "$home/work" "$home/over" "$home/layers"\nmount -t tmpfs none "$home/layers"\nmkdir "$home/layers/up" "$home/layers/work"\n'
ROWS = [
    Row("a path with spaces and quotes", dataset=moved(b"my \"own\" 'photos' $HOME"), ci=("daemon", "check")),
    Row("a path with a newline", dataset=moved(b"two\nlines")),
    Row("a path with UTF-8", dataset=moved("снимки-写真-🐈".encode())),
    Row("a path that is not UTF-8", dataset=moved(b"latin-\xe9\xff"), says={a: "not UTF-8" for a in ("daemon", "private", "python", "bench")}, ci=("private",)),
    Row("a path with glob characters", dataset=moved(b"a[b]*c?{d,e}"), says={"*": "?no |match|brace|glob"}),
    Row("a path of 3,900 bytes", dataset=deep, says={"*": "?too long|longer"}),
    Row("a path of 5,000 bytes", source="/" + "x/" * 2500, says={"bench": "does not exist", "*": "4095"}),
    Row("a path with a trailing slash, dots and doubled slashes", source="{home}/.//data/../data///"),
    Row("a dataset that is not there", source="{home}/nothing", says={"*": "nothing"}, ci=("private", "check", "pack", "bench", "python")),
    Row("a dataset without a picture", dataset=lambda path: shutil.rmtree(path) or path.mkdir(), says={"*": "data"}),
    Row("a dataset that is a FIFO", dataset=lambda path: shutil.rmtree(path) or os.mkfifo(path), says={"*": "data"}),
    Row("a dataset that is /dev/zero", source="/dev/zero", says={"*": "/dev/zero"}),
    Row("a dataset that is /proc", source="/proc/self", says={"*": "proc"}),
    Row("a tar that is a FIFO", dataset=lambda path: os.mkfifo(path.parent / "a.tar") or os.fsencode(path.parent / "a.tar"), says={"*": "a.tar"}),
    Row("a FIFO beside the pictures", dataset=add(lambda folder: os.mkfifo(folder / "pipe.jpg")), ci=("daemon", "check"), says={"*": "?pipe.jpg"}),
    Row("a socket beside the pictures", dataset=add(lambda folder: a_socket(folder / "socket.jpg")), says={"*": "?socket.jpg"}),
    Row("a device beside the pictures", dataset=add(lambda folder: a_device(folder / "zero.jpg")), says={"*": "?zero.jpg"}),
    Row("a folder named like a picture", dataset=add(lambda folder: (folder / "folder.jpg").mkdir())),
    Row("a symbolic link to itself beside the pictures", dataset=add(lambda folder: (folder / "loop.jpg").symlink_to("loop.jpg")), says={"*": "?loop.jpg"}, log="loop.jpg", broken=True),
    Row("a symbolic link to nothing beside the pictures", dataset=add(lambda folder: (folder / "gone.jpg").symlink_to("nowhere.jpg")), says={"*": "?gone.jpg"}, log="gone.jpg", broken=True),
    Row("a class folder that links to the dataset", dataset=lambda path: (path / "again").symlink_to(path), says={"*": "?again"}),
    Row("empty folders within the classes", dataset=add(lambda folder: (folder / "empty").mkdir())),
    Row("hidden files and .DS_Store beside the pictures", dataset=add(lambda folder: (folder / ".DS_Store").write_text("x") and (folder / "Thumbs.db").write_text("x"))),
    Row("mtimes of 1970", dataset=mtimes(0), ci=("daemon",)),
    Row("mtimes before 1970", dataset=mtimes(-86400 * 365)),
    Row("mtimes of the year 2100", dataset=mtimes(4102444800), ci=("daemon",)),
    Row("sparse files that were cut back", dataset=sparse),
    Row("hard links", dataset=linked),
    Row("symbolic links to classes", dataset=symlinked),
    Row("a read-only mount of the dataset", unshare="-m", shell='mount --bind "$home/data" "$home/data"; mount -o remount,bind,ro "$home/data"', ci=("daemon",)),
    Row("a dataset on tmpfs", unshare="-m", shell='mkdir "$home/t"; cp -a "$home/data/." "$home/t"; mount -t tmpfs none "$home/data"; cp -a "$home/t/." "$home/data"; rm -r "$home/t"'),
    Row("a dataset on tmpfs, io: direct", unshare="-m", only=("daemon",), daemon=("--io", "direct"),
        shell='mkdir -p "$home/t"; test -e "$home/t/done" || cp -a "$home/data/." "$home/t"; mount -t tmpfs none "$home/data"; cp -a "$home/t/." "$home/data"'),
    Row("io: direct", only=("daemon",), daemon=("--io", "direct"), ci=("daemon",)),
    Row("a bind mount of the dataset", unshare="-m", shell='mkdir -p "$home/bound"; mount --bind "$home/data" "$home/bound"', source="{home}/bound"),
    Row("a dataset on overlayfs, in the lower layer", unshare="-m", source="{home}/over",
        shell=OVERLAY.replace("mkdir ", "mkdir -p ") + 'mount -t overlay -o lowerdir="$home/data",upperdir="$home/layers/up",workdir="$home/layers/work" none "$home/over"', ci=("daemon",)),
    Row("a dataset on overlayfs, in the upper layer, io: direct", unshare="-m", source="{home}/over", only=("daemon",), daemon=("--io", "direct"),
        shell=OVERLAY.replace("mkdir ", "mkdir -p ") + 'mkdir -p "$home/empty"; mount -t overlay -o lowerdir="$home/empty",upperdir="$home/layers/up",workdir="$home/layers/work" none "$home/over"\n'
        'cp -a "$home/data/." "$home/over"'),
    Row("a dataset on overlayfs without an upper layer", unshare="-m", source="{home}/over",
        shell=OVERLAY.replace("mkdir ", "mkdir -p ") + 'mkdir -p "$home/empty"; mount -t overlay -o lowerdir="$home/data:$home/empty" none "$home/over"'),
    Row("a dataset that nobody may read, an ordinary user", user=12345, dataset=lambda path: path.chmod(0), says={"*": "[Pp]ermission denied"}, ci=("private", "check")),
    Row("a class that nobody may read, an ordinary user", user=12345, dataset=lambda path: first(path).parent.chmod(0), says={"*": "[Pp]ermission denied"}),
]

"""Simulates a power failure: records what a program does to files (cut.c), and after each of these operations makes a disk that has lost
what was not synced, in the ways in which disks do. The contents of such a disk must never be taken for more than they are.

Three disks for each moment. On all three, a file has the bytes that it had when it was last synced.
  zeros    names are as they were created and changed; a file has its size, with zeros where nothing was synced
  short    the same, but a file ends where the synced part ends
  names    names too are as they were when their folder was last synced
Not simulated: partly written sectors, disks that report a sync that they did not do, and files with newer bytes in one place and older
ones in another, which checksums detect (flips.py)."""
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from kills import NIGHTLY, SLOW, check_pack, cut, figures, kept, pack_command, rows_of, run, say  # noqa: E402
from harness import Daemon, folder, make_dataset, promise, run_tests, tool  # noqa: E402

KINDS = ("zeros", "short", "names")


def operations(log):
    """(kind, words, bytes) of each line of cut.c's log."""
    data, at = log.read_bytes(), 0
    while at < len(data):
        end = data.index(b"\n", at)
        kind, _, rest = data[at:end].decode(errors="surrogateescape").partition(" ")
        at = end + 1
        if kind == "write":
            size = int(rest.rsplit(" ", 1)[1])
            yield kind, rest, data[at:at + size]
            at += size + 1
        else:
            yield kind, rest, b""


class Disk:
    """What was done, and how much of it would be there."""

    def __init__(self):
        self.now, self.synced = {}, {}  # inode -> bytes
        self.names, self.names_synced = {}, {}  # path -> inode; None: a folder
        self.inodes = {}  # of folders that were there before, by what syncdir says: learnt from names

    def do(self, kind, rest, data):
        if kind == "create":
            inode, path = rest.split(" ", 1)
            self.names[path], self.now[inode] = inode, b""
            self.synced[inode] = b""
        elif kind == "mkdir":
            self.names[rest] = None
        elif kind == "write":
            inode, offset, _ = rest.split()
            old, offset = self.now.get(inode, b""), int(offset)
            self.now[inode] = old[:offset].ljust(offset, b"\0") + data + old[offset + len(data):]
        elif kind == "size":
            inode, size = rest.split()
            self.now[inode] = self.now.get(inode, b"")[:int(size)].ljust(int(size), b"\0")
        elif kind == "sync":
            self.synced[rest] = self.now.get(rest, b"")
        elif kind == "syncdir":
            self.names_synced = dict(self.names)  # as if of all folders: there is one that matters
        elif kind == "rename":
            a, b = rest.split("\t")
            self.names[b] = self.names.pop(a)
        elif kind == "unlink":
            self.names.pop(rest, None)
        else:
            raise AssertionError(kind)

    def lay(self, kind, root, where):
        """Makes the files below `where` that were below `root`."""
        names = self.names_synced if kind == "names" else self.names
        for path, inode in names.items():
            to = where / Path(path).relative_to(root)
            if inode is None:
                to.mkdir(parents=True, exist_ok=True)
                continue
            to.parent.mkdir(parents=True, exist_ok=True)
            data = self.synced[inode]
            to.write_bytes(data.ljust(len(self.now[inode]), b"\0") if kind == "zeros" else data)


def moments(log, most):
    """(how many steps were done, the disk then) at up to `most` of them."""
    steps = list(operations(log))
    wanted = {i * len(steps) // most for i in range(most)} | {len(steps)} if most < len(steps) else set(range(len(steps) + 1))
    disk = Disk()
    for i, step in enumerate(steps):
        if i in wanted:
            yield i, disk
        disk.do(*step)
    yield len(steps), disk


def few(little):
    return 10**6 if NIGHTLY else little if SLOW == 1 else 2


def copy_source(home, where):
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir()
    for name in ("tars", "images"):
        (where / name).mkdir()
        for path in (home / "made" / name).rglob("*"):
            to = where / name / path.relative_to(home / "made" / name)
            if path.is_dir():
                to.mkdir()
            else:
                shutil.copy2(path, to)
        for path in [home / "made" / name, *(p for p in (home / "made" / name).rglob("*") if p.is_dir())]:
            shutil.copystat(path, where / name / path.relative_to(home / "made" / name))


def forget(where):
    for path in [p for p in where.rglob("*") if p.is_file() and p.suffix not in (".tar", ".jpg")]:
        path.unlink()


def test_indexes():
    """Of tars and of a folder."""
    lost = cases = 0
    with folder() as home:
        (home / "made").mkdir()
        make_dataset(home / "made/images", per_class=12, min_side=16, max_side=24)
        make_dataset(home / "made/tars", per_class=12, tars=True, per_shard=12, min_side=16, max_side=24)
        for source in ("tars/*.tar", "images"):
            work, log = home / "work", home / "log"
            copy_source(home, work)
            log.write_bytes(b"")

            def look():
                return run([tool("torture_data"), "dump", work / source, work / "cache"], cut(home, work))

            want = run([tool("torture_data"), "dump", work / source, work / "cache"], cut(home, work, log=log)).stdout
            assert want.count("\n") > 36
            for at, disk in moments(log, few(6)):
                for kind in KINDS:
                    copy_source(home, work)
                    disk.lay(kind, work, work)
                    for directory in [work / "images", *(p for p in (work / "images").rglob("*") if p.is_dir())]:
                        shutil.copystat(home / "made" / directory.relative_to(work), directory)
                    found = [p for p in work.rglob("*.idx")]
                    assert all(p.stat().st_size % 4096 == 0 and p.stat().st_size and p.read_bytes()[16:24] != bytes(8) for p in found), (at, kind)
                    lost += not found
                    again = look()
                    assert (again.returncode, again.stdout) == (0, want), (source, at, kind, again)
                    cases += 1
    say(f"indexes: {cases} disks, {lost} of them without any: the same samples")


def test_packs():
    cases = 0
    with folder() as home:
        images = make_dataset(home / "images", per_class=24, min_side=64, max_side=120)
        out, log = home / "out", home / "log"
        out.mkdir()
        log.write_bytes(b"")
        assert run(pack_command(home, images, out), cut(home, out, log=log)).returncode == 0
        whole = kept(out)
        for at, disk in moments(log, few(8)):
            for kind in KINDS:
                shutil.rmtree(out)
                out.mkdir()
                disk.lay(kind, out, out)
                check_pack(out, whole, (at, kind))
                again = run(pack_command(home, images, out), cut(home, out))
                assert again.returncode == 0, (at, kind, again)
                assert kept(out) == whole, (at, kind)
                cases += 1
    say(f"packs: {cases} disks: what has a shard's name is whole, and the pack goes on to the same bytes")


def test_a_recorders_file():
    cases = 0
    with folder() as home:
        out, log = home / "out", home / "log"
        out.mkdir()
        log.write_bytes(b"")
        assert run([tool("torture_data"), "rings", out / "a.ring", 120], cut(home, out, log=log)).returncode == 0
        whole = run([tool("ring_dump"), out / "a.ring"], None).stdout.splitlines()
        for at, disk in moments(log, few(12)):
            for kind in KINDS:
                for path in out.iterdir():
                    path.unlink()
                disk.lay(kind, out, out)
                if not (out / "a.ring").exists():
                    continue
                got = subprocess.run([tool("ring_dump"), str(out / "a.ring")], capture_output=True, text=True, check=False)
                assert got.returncode == 0 or "a.ring" in got.stderr, got
                assert set(got.stdout.splitlines()) <= set(whole), (at, kind)
                cases += 1
    say(f"a recorder's file: {cases} disks: no entry that was not written")


def test_entry_points():
    """Nothing is synced: a file may be all zeros, or hold some places and not others."""
    cases = 0
    with folder() as home:
        (home / "made").mkdir()
        make_dataset(home / "made/images", per_class=2, min_side=90, max_side=140)
        make_dataset(home / "made/tars", per_class=8, tars=True, per_shard=100, min_side=90, max_side=140)
        work, log = home / "work", home / "steps"
        copy_source(home, work)
        log.write_bytes(b"")
        source = work / "tars/*.tar"
        with Daemon(home, "--threads", "1", "--recorder", "off", environment=cut(home, work, log=log)) as daemon:
            want = rows_of(daemon.socket, source)
        for at, disk in moments(log, few(4)):
            for kind in KINDS[:2]:
                copy_source(home, work)
                disk.lay(kind, work, work)
                with Daemon(home, "--threads", "1", "--recorder", "off") as daemon:
                    assert [rows_of(daemon.socket, source) for _ in range(2)] == [want, want], (at, kind)
                    assert "entry points of" not in daemon.text(), (at, kind, "a lost head is made again")
                cases += 1
    say(f"entry points: {cases} disks: the same rows")


def test_z_figures():
    assert not NIGHTLY or len(figures) == 4, figures
    promise("power lost: " + "; ".join(figures))


if __name__ == "__main__":
    run_tests(globals())

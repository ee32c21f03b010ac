"""Data that is removed, cut, replaced, overwritten or unreadable while a stream reads it. A row without a flag is the
undisturbed image of its sample (or the new image, if a file of a folder was replaced by one of the same size); the other
rows are flagged and counted, or the stream ends with a sentence that names the file. The daemon lives on and serves others.
tests/inject makes EIO."""
import contextlib
import io
import itertools
import os
import shutil
import sys
import tarfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "inject"))
from faults import NIGHTLY, seeded
from harness import AS_NOBODY, NOBODY, SLOW, Daemon, Link, Refused, Skip, folder, make_dataset, promise, run_tests, tool, tools_for, wait_until

PER_SHARD, SHARDS = 16, 3
COUNT = PER_SHARD * SHARDS
ROOM = 4096  # bytes of each member of the tars: its image, and zeros
KEYS = {"batch_size": 4, "image_size": 16, "prefetch": 3, "train": False, "shuffle": True, "drop_last": False, "epochs": 0}
SUBSTITUTED, INVALID = 2, 8
ENGINES = [("io_uring", "buffered"), ("pread", "buffered"), ("io_uring", "direct"), ("pread", "direct")]
figures = {"changes": 0, "rows": 0, "flagged": 0, "ended": 0}
tally = []


# ---- what is read ----

def jpegs(home):
    """JPEGs of about the same size."""
    make_dataset(home / "made", per_class=(COUNT + 8) // 2, classes=2, min_side=32, max_side=40)
    found = [p.read_bytes() for p in sorted((home / "made").rglob("*.jpg"))]
    shutil.rmtree(home / "made")
    assert len(found) == COUNT + 8 and all(len(data) < ROOM for data in found)
    return found


def write_tar(path, some):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for i, data in enumerate(some):
            info = tarfile.TarInfo(f"{i:04}.jpg")
            info.size = ROOM
            tar.addfile(info, io.BytesIO(data.ljust(ROOM, b"\0")))


def write_tars(where, some):
    where.mkdir()
    for s in range(SHARDS):
        write_tar(where / f"x-{s}.tar", some[s * PER_SHARD:(s + 1) * PER_SHARD])
    return where / "x-*.tar"


def write_folder(where, some):
    """All of one size, so that any may be replaced by any."""
    for i, data in enumerate(some[:COUNT]):
        path = where / "ab"[i % 2] / f"{i:04}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.ljust(ROOM, b"\0"))
    return where


class Rows:
    """A stream, row by row, against what each sample may be."""

    def __init__(self, link, source, want, **keys):
        self.stream = link.open(source=source, seed=3, **{**KEYS, **keys})
        self.want, self.flagged, self.rows, self.sentence = want, 0, 0, None

    def read(self, batches):
        """Reads on; False: the stream has ended with a sentence."""
        try:
            for _ in range(batches):
                batch = self.stream.next()
                for row in self.stream.rows(batch):
                    self.rows += 1
                    self.flagged += bool(row.flags & (SUBSTITUTED | INVALID))
                    if not row.flags & INVALID:
                        assert row.content in self.want[row.index], f"sample {row.index} at {row.position}, flags {row.flags}: other pixels"
                self.stream.release(batch)
        except Refused as refused:
            self.sentence = refused.sentence
        return self.sentence is None

    def close(self):
        figures["rows"] += self.rows
        figures["flagged"] += self.flagged
        figures["ended"] += self.sentence is not None
        if self.sentence is None:
            self.stream.close()
        else:
            self.stream.forget()  # or its memory would count as held


def contents(socket, source):
    """Sample -> the hashes that its row may have, of a dataset that nothing happens to."""
    with Link(socket) as link:
        stream = link.open(source=source, seed=3, **{**KEYS, "epochs": 1})
        return {row.index: {row.content} for _, rows in stream.read() for row in rows}


# ---- what happens to a shard ----

OF_SAMPLE = 512  # a member's header


def shard_truncate(size):
    return lambda path, other: os.truncate(path, size)


def shard_rename(path, other):
    os.rename(shutil.copy(other, path.with_suffix(".new")), path)


def shard_rename_smaller(path, other):
    new = path.with_suffix(".new")
    new.write_bytes(other.read_bytes()[:5 * (ROOM + 512)] + bytes(1024))
    os.rename(new, path)


def shard_in_place(path, other):
    data = other.read_bytes()
    assert len(data) == path.stat().st_size
    with open(path, "r+b", buffering=0) as file:
        file.write(data)


def shard_in_place_slowly(path, other):
    data = other.read_bytes()
    with open(path, "r+b", buffering=0) as file:
        for at in range(0, len(data), 1500):
            file.seek(at)
            file.write(data[at:at + 1500])


def shard_emptied_and_written(path, other):
    path.write_bytes(other.read_bytes())


def shard_grown(path, other):
    with open(path, "ab") as file:
        file.write(bytes(10240))


# name -> (what is done, whether the stream must end: with the cache off, in time)
SHARD = {
    "cut to nothing": (shard_truncate(0), True),
    "cut in a header": (shard_truncate(7 * (ROOM + 512) + 100), True),
    "cut in a sample": (shard_truncate(7 * (ROOM + 512) + OF_SAMPLE + 700), True),
    "deleted": (lambda path, other: path.unlink(), True),
    "replaced by one of the same size": (shard_rename, True),
    "replaced by a smaller one": (shard_rename_smaller, True),
    "overwritten in place": (shard_in_place, True),
    "overwritten bit by bit": (shard_in_place_slowly, True),
    "emptied and written again": (shard_emptied_and_written, True),
    "grown": (shard_grown, True),
    "of no rights": (lambda path, other: path.chmod(0), False),
    "replaced by a folder": (lambda path, other: (path.unlink(), path.mkdir()), True),
    "replaced by a pipe": (lambda path, other: (path.unlink(), os.mkfifo(path)), True),
    "a link to nothing": (lambda path, other: (path.unlink(), path.symlink_to("nowhere")), True),
}


def file_in_place(path, other):
    with open(path, "r+b", buffering=0) as file:
        for at in range(0, ROOM, 512):
            file.seek(at)
            file.write(other[at:at + 512])


def file_rename(path, other):
    path.with_suffix(".new").write_bytes(other)
    os.rename(path.with_suffix(".new"), path)


# name -> (what is done, whether the new image may be shown, whether rows are flagged)
FILE = {
    "deleted": (lambda path, other: path.unlink(), False, True),
    "cut to nothing": (lambda path, other: os.truncate(path, 0), False, True),
    "cut": (lambda path, other: os.truncate(path, 700), False, True),
    # The index is made anew: the image is the same, with more zeros behind it.
    "grown": (lambda path, other: os.truncate(path, ROOM + 700), False, False),
    "replaced by one of the same size": (file_rename, True, False),
    "replaced by one of another size": (lambda path, other: file_rename(path, other[:-1]), True, False),
    "rewritten with another size": (lambda path, other: path.write_bytes(other[:-1]), True, False),
    "overwritten in place": (file_in_place, True, False),
    "replaced by a folder": (lambda path, other: (path.unlink(), path.mkdir()), False, True),
    "replaced by a pipe": (lambda path, other: (path.unlink(), os.mkfifo(path)), False, True),
    "a link to nothing": (lambda path, other: (path.unlink(), path.symlink_to("nowhere")), False, True),
    "a link to itself": (lambda path, other: (path.unlink(), path.symlink_to(path.name)), False, True),
    "its folder moved away": (lambda path, other: path.parent.rename(path.parent.with_name("gone")), False, True),
}


class Ground:
    """A daemon over datasets of which each change gets copies."""

    def __init__(self, home, engine, *options, user=None, environment=None):
        self.home, self.number = home, itertools.count()
        some = jpegs(home)
        self.some = some
        write_tars(home / "tars", some)
        write_tars(home / "others", some[5:] + some[:5])  # the same layout, other images
        write_folder(home / "images", some)
        for path in [home, *home.rglob("*")]:
            os.utime(path, (1600000000, 1600000000))
        prefix = []
        if user is not None and os.geteuid() == 0:
            for path in [home, *home.rglob("*")]:
                os.chown(path, user, user)
            prefix = AS_NOBODY
        self.user = user
        self.daemon = Daemon(home, "--threads", "2", "--reader", engine[0], "--io", engine[1], *options, prefix=prefix, environment=environment)
        self.link = Link(self.daemon.socket)
        self.want = {kind: contents(self.daemon.socket, source) for kind, source in (("tars", home / "tars/x-*.tar"), ("images", home / "images"))}
        assert all(len(w) == COUNT for w in self.want.values())
        if engine[1] == "direct" and any("refuses O_DIRECT" in n for n in self.daemon.status()["notices"]):
            self.close()
            raise Skip("the file system of the temporary folder refuses O_DIRECT")

    def copy(self, kind):
        """With its index, which stays good: times are kept."""
        where = self.home / f"{kind}-{next(self.number)}"
        shutil.copytree(self.home / kind, where)
        if self.user is not None and os.geteuid() == 0:
            for path in [where, *where.rglob("*")]:
                os.chown(path, self.user, self.user)
        return where

    def still_good(self):
        """Others are served as before."""
        assert contents(self.daemon.socket, self.home / "tars/x-*.tar") == self.want["tars"]

    def close(self):
        self.link.close()
        code = self.daemon.stop()
        assert code == 0, f"penstockd ended with {code}:\n{self.daemon.text()[-4000:]}"


@contextlib.contextmanager
def ground(engine, *options, **keys):
    with folder() as home:
        made = Ground(home, engine, *options, **keys)
        try:
            yield made
        finally:
            made.close()


def change_shard(g, name, cached=False):
    change, ends = SHARD[name]
    where = g.copy("tars")
    rows = Rows(g.link, where / "x-*.tar", g.want["tars"])
    assert rows.read(2 * COUNT // 4 if cached else 2)
    change(where / "x-1.tar", g.home / "others/x-1.tar")
    end = time.monotonic() + 30 * SLOW
    while rows.read(COUNT // 4) and time.monotonic() < end and (ends and not cached or rows.rows < 8 * COUNT):
        pass
    rows.close()
    figures["changes"] += 1
    if ends and not cached:
        assert rows.sentence, f"{name}: the stream goes on after {rows.rows} rows"
    if rows.sentence:
        assert "x-1.tar" in rows.sentence and len(rows.sentence) > 40, f"{name}: {rows.sentence}"
    # Opened again it is what it is now, or refused with a word; never a mixture.
    other = contents(g.daemon.socket, g.home / "others/x-*.tar") if "in place" in name or "again" in name or "bit by bit" in name else None
    try:
        again = contents(g.daemon.socket, where / "x-*.tar")
        if other:
            assert all(again[i] == other[i] for i in range(PER_SHARD, 2 * PER_SHARD)), "opened again, the new images are shown"
    except Refused as refused:
        assert "x-1.tar" in refused.sentence, refused
    return rows


def change_file(g, name, policy):
    change, new, flagged = FILE[name]
    where = g.copy("images")
    victim = 9
    path, other = where / "ab"[victim % 2] / f"{victim:04}.jpg", g.some[COUNT + 3].ljust(ROOM, b"\0")
    order = sorted(f"{'ab'[i % 2]}/{i:04}" for i in range(COUNT))
    index = order.index(f"b/{victim:04}")
    want = {k: set(v) for k, v in g.want["images"].items()}
    if new:
        fresh = g.copy("images")
        (fresh / "b" / f"{victim:04}.jpg").write_bytes(other)
        now, = contents(g.daemon.socket, fresh)[index]
        assert now not in want[index]
        want[index].add(now)
    most = 1.0 if policy != "fail" else 0.01
    rows = Rows(g.link, where, want, on_broken=policy, max_broken=most)
    assert rows.read(2)
    change(path, other)
    rows.read(4 * COUNT // 4)
    rows.close()
    figures["changes"] += 1
    if policy == "fail" and flagged:
        assert rows.sentence and ("ab"[victim % 2] + "/" in rows.sentence or f"{victim:04}.jpg" in rows.sentence), (name, rows.sentence)
    else:
        assert rows.sentence is None, (name, rows.sentence)
        assert bool(rows.flagged) == flagged, f"{name}: {rows.flagged} of {rows.rows} rows are flagged"
    return rows


def some_of(names, random, share):
    return list(names) if NIGHTLY else sorted(random.sample(sorted(names), share))


def run_shards(engine, share):
    random = seeded(f"data/{engine}")
    with ground(engine, "--cache", "off") as g:
        for name in some_of(set(SHARD) - {"of no rights"}, random, share) * (5 if NIGHTLY else 1):
            change_shard(g, name)
        g.still_good()
    tally.append(engine)


def run_files(engine, share):
    random = seeded(f"data/files/{engine}")
    with ground(engine, "--cache", "off") as g:
        for name in some_of(FILE, random, share) * (3 if NIGHTLY else 1):
            for policy in ("substitute", "mark", "fail") if NIGHTLY else (random.choice(("substitute", "mark", "fail")),):
                change_file(g, name, policy)
        g.still_good()
    tally.append(engine)


def test_shards():
    run_shards(ENGINES[0], 6)


def test_shards_by_threads():
    run_shards(ENGINES[1], 3)


def test_shards_direct():
    run_shards(ENGINES[2], 3)


def test_shards_direct_by_threads():
    run_shards(ENGINES[3], 2)


def test_files():
    run_files(ENGINES[0], 8)


def test_files_by_threads():
    run_files(ENGINES[1], 4)


def test_files_direct():
    run_files(ENGINES[2], 3)


def test_shards_that_are_cached():
    """The cache holds the dataset as it was when it was opened: the stream goes on, with the old images only."""
    random = seeded("data/cached")
    with ground(ENGINES[0], "--cache", "on") as g:
        for name in some_of(set(SHARD) - {"of no rights"}, random, 3):
            rows = change_shard(g, name, cached=True)
            assert rows.sentence is None, f"{name}: {rows.sentence}"
    tally.append("cached")


def test_rights_taken_away():
    """As an unprivileged user: files that are open are read on; a file that must be opened is an error that names it."""
    user = NOBODY if os.geteuid() == 0 else os.geteuid()
    with tools_for(NOBODY) if os.geteuid() == 0 else contextlib.nullcontext(), ground(ENGINES[0], "--cache", "off", user=user) as g:
        rows = change_shard(g, "of no rights")
        assert rows.sentence is None or "x-1.tar" in rows.sentence, rows.sentence
        where = g.copy("tars")
        (where / "x-1.tar").chmod(0)
        rows = Rows(g.link, where / "x-*.tar", g.want["tars"])
        with contextlib.suppress(Refused):
            rows.stream.opened()
            raise AssertionError("a shard that cannot be opened is no part of a dataset")
        assert "x-1.tar" in rows.stream.refusal.sentence and "Permission denied" in rows.stream.refusal.sentence, rows.stream.refusal.sentence
        where = g.copy("images")
        rows = Rows(g.link, where, g.want["images"], on_broken="mark", max_broken=1.0)
        assert rows.read(2)
        (where / "b/0009.jpg").chmod(0)
        rows.read(COUNT)
        assert rows.sentence is None and rows.flagged or "0009.jpg" in rows.sentence, (rows.sentence, rows.flagged)
    tally.append("rights")


def test_more_than_max_broken():
    """A share of missing files ends the stream with a sentence that says how many of how many, and of which kind."""
    with ground(ENGINES[0], "--cache", "off") as g:
        where = g.copy("images")
        rows = Rows(g.link, where, g.want["images"], on_broken="substitute", max_broken=0.1)
        assert rows.read(2)
        for i in range(0, COUNT, 3):
            (where / "ab"[i % 2] / f"{i:04}.jpg").unlink()
        assert not rows.read(10 * COUNT), "it ends"
        assert "max_broken" in rows.sentence or "broken" in rows.sentence, rows.sentence
        rows.close()
        g.still_good()
    tally.append("max_broken")


# ---- EIO ----

def inject_of(home):
    if not Path(tool("libpenstock_inject.so")).exists():
        raise Skip("libpenstock_inject.so is not built")
    import inject
    return inject.Inject(home / "inject", "penstockd")


def eio(g, inject, call, effect, path, source, want, **keys):
    """One call fails, then all of them; the rows that come are right. Returns the stream's rows."""
    got = []
    for persistent in (False, True):
        inject.disarm()
        before = inject.failed()
        inject.arm(call, effect, first=1 + 3 * len(got), persistent=persistent, path=path)
        rows = Rows(g.link, source, want, **keys)
        try:
            rows.read(4 * COUNT // 4)
        finally:
            inject.disarm()
        rows.failed = inject.failed() - before
        figures["changes"] += 1
        with contextlib.suppress(AssertionError):
            rows.close()
        got.append(rows)
    return got


def test_storage_errors():
    """EIO, short reads and ends of files at any read: of data, of indexes, of entry points."""
    with folder() as home:
        inject = inject_of(home)
        with contextlib.ExitStack() as stack:
            stack.callback(inject.close)
            for engine, call in ((ENGINES[1], "pread"), (ENGINES[0], "completion_read")) if NIGHTLY or SLOW == 1 else ((ENGINES[1], "pread"),):
                (home / engine[0]).mkdir()
                g = Ground(home / engine[0], engine, "--cache", "off", environment=inject.environment())
                inject.check()
                try:
                    for effect in ("EIO", "short", "zero", "EUCLEAN") if NIGHTLY else ("EIO", "short", "zero"):
                        for path, kind in ((".tar", "tars"), (".jpg", "images"), (".idx", "tars"), (".ckp", "tars")):
                            if call != "pread" and path == ".ckp":
                                continue
                            where = g.copy(kind)
                            source = where / "x-*.tar" if kind == "tars" else where
                            for rows in eio(g, inject, call, effect, path if call == "pread" else "", source, g.want[kind], on_broken="mark", max_broken=1.0):
                                assert rows.failed, f"no {call} of {path} was made to fail"
                                refusal = rows.sentence or (rows.stream.refusal and rows.stream.refusal.sentence)
                                assert not refusal or any(w in refusal for w in (".tar", "images-", ".idx")), refusal
                    inject.disarm()
                    g.still_good()
                finally:
                    g.close()
    tally.append("storage")


def test_a_folder_that_cannot_be_listed():
    with folder() as home:
        inject = inject_of(home)
        with contextlib.ExitStack() as stack:
            stack.callback(inject.close)
            (home / "one").mkdir()
            g = Ground(home / "one", ENGINES[1], "--cache", "off", environment=inject.environment())
            try:
                for call, effect in (("readdir", "EIO"), ("opendir", "EMFILE"), ("stat", "EIO")):
                    for first in range(1, 40 if NIGHTLY else 6):
                        where = g.copy("images")
                        inject.arm(call, effect, first=first)
                        with contextlib.suppress(Refused):
                            with Link(g.daemon.socket) as link:
                                stream = link.open(source=where, seed=3, **{**KEYS, "epochs": 1})
                                try:
                                    got = {row.index: {row.content} for _, rows in stream.read() for row in rows if not row.flags}
                                    assert stream.info.samples == COUNT, f"{call} {first}: a folder listed in part is no smaller dataset"
                                    assert all(got[i] == g.want["images"][i] for i in got)
                                except Refused as refused:
                                    assert str(where) in refused.sentence or "penstock" in refused.sentence, refused.sentence
                                    raise
                        inject.disarm()
                        figures["changes"] += 1
                        assert contents(g.daemon.socket, where) == g.want["images"], "it works again"
            finally:
                g.close()
    tally.append("listing")


def test_z_figures():
    assert not NIGHTLY or len(tally) == 12, tally
    promise("data under the reader: {changes} changes and errors, {rows} rows compared, {flagged} of them flagged, {ended} streams ended with "
            "a sentence: no other pixels".format(**figures))


if __name__ == "__main__":
    run_tests(globals())

"""Sends kill -9 while a file is written, at each operation on it: index, entry points, packed shards and their manifest, flight recorder,
quarantine. A partial file is never taken for a complete one, and the next process gives the result that it would have given."""
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from harness import LIMIT, NIGHTLY, SLOW, Daemon, Link, Refused, HungUp, folder, make_dataset, promise, run_tests, tool, wait_until  # noqa: E402

SEED = int(os.environ.get("PENSTOCK_TEST_SEED", "5"))
SMALL = {"batch_size": 8, "image_size": 24, "drop_last": False}
figures = []


def points(wanted, little):
    """How many points of a kind are tried."""
    return wanted if NIGHTLY else little if SLOW == 1 else max(3, little // 4)


def say(text):
    figures.append(text)
    print(f"    {text}", flush=True)


def cut(home, root, at=0, half=False, log=None, but=None):
    """The environment of a program that ends at its `at`-th thing done below `root`; counted in home/cut."""
    state = home / "cut"
    state.write_bytes(bytes(4096))
    environment = {**os.environ, "XDG_CACHE_HOME": str(home / "cache"), "XDG_STATE_HOME": str(home / "state"), "TMPDIR": tempfile.gettempdir(),
                   "LD_PRELOAD": tool("libpenstock_cut.so"), "CUT_ROOT": str(root), "CUT_STATE": str(state), "CUT_AT": str(at),
                   "CUT_HALF": "1" if half else "0", "ASAN_OPTIONS": "verify_asan_link_order=0"}
    if but:
        environment["CUT_NOT"] = but
    if log:
        environment["CUT_LOG"] = str(log)
    return environment


def was_killed(code):
    return code in (-signal.SIGKILL, 128 + signal.SIGKILL)


def counted(home):
    return int.from_bytes((home / "cut").read_bytes()[:8], "little")


def chosen(count, most):
    """At most so many points of 1 .. count, the first and the last among them, spread evenly; each with a word whether a write is cut."""
    all_ = [(n, half) for n in range(1, count + 1) for half in (False, True)]
    if len(all_) <= most:
        return all_
    return [all_[i * (len(all_) - 1) // (most - 1)] for i in range(most)]


def run(command, environment, **keys):
    return subprocess.run([str(c) for c in command], env=environment, capture_output=True, text=True, timeout=4 * LIMIT, check=False,
                          stdin=subprocess.DEVNULL, **keys)


def leftovers(*folders):
    return [p for f in folders for p in Path(f).rglob("*") if ".tmp-" in p.name or p.name.endswith(".part")]


# ---- indexes ----

def index_kills(home, name, source, where):
    """An index is built by torture_data, which is ended at each of its steps."""
    command = [tool("torture_data"), "dump", source, home / "cache"]

    def forget():
        for path in [*where.rglob("*.idx*"), *(home / "cache").rglob("*.idx*")]:
            path.unlink()

    forget()
    whole = run(command, cut(home, home))
    assert whole.returncode == 0, whole
    count, killed, torn = counted(home), 0, 0
    most = points(200, 30)
    picked = chosen(count, most)
    for at, half in picked * (-(-most // len(picked)) if NIGHTLY else 1):
        forget()
        died = run(command, cut(home, home, at, half))
        killed += was_killed(died.returncode)
        torn += bool(leftovers(home))
        for path in [*where.rglob("*.idx"), *(home / "cache").rglob("*.idx")]:
            assert path.stat().st_size % 4096 == 0 and path.read_bytes()[16:24] != bytes(8), f"{at}: what has the name is whole"
        again = run(command, cut(home, home))
        assert (again.returncode, again.stdout) == (0, whole.stdout), f"{name}, killed at {at}: {again}"
        assert not leftovers(home), f"{name}, killed at {at}: {leftovers(home)}"
    say(f"{name}: killed {killed} times at {len(picked)} points of {count} steps ({torn} left a temporary file, which the next start removed)")
    assert killed and torn


def test_index_of_a_tar():
    with folder() as home:
        make_dataset(home / "tars", per_class=20, tars=True, per_shard=20, min_side=16, max_side=24)
        index_kills(home, "indexes of 3 tars", home / "tars/*.tar", home / "tars")


def test_index_of_a_folder():
    with folder() as home:
        make_dataset(home / "images", per_class=20, min_side=16, max_side=24)
        index_kills(home, "a folder's index", home / "images", home / "images")


# ---- a daemon: indexes, entry points ----

def rows_of(socket, source, **keys):
    with Link(socket) as link:
        stream = link.open(source=source, epochs=2, **{**SMALL, **keys})
        return [tuple(r) for _, rows in stream.read() for r in rows]


def test_daemon_indexes_and_entry_points():
    with folder() as top:
        home = top / "data"  # without the daemon's log and recorder
        home.mkdir()
        make_dataset(home / "tars", per_class=8, tars=True, per_shard=12, min_side=90, max_side=140)
        make_dataset(home / "images", per_class=8, min_side=90, max_side=140)
        sources = [home / "tars/*.tar", home / "images"]
        options = ("--threads", "2")

        def forget():
            shutil.rmtree(home / "cache", ignore_errors=True)
            for path in (home / "tars").iterdir():
                if path.suffix != ".tar":
                    path.unlink()

        def read(daemon):
            return [rows_of(daemon.socket, s) for s in sources]

        def steps(at=0, half=False):
            return {**cut(top, home, at, half), "XDG_CACHE_HOME": str(home / "cache")}

        plain = {"XDG_CACHE_HOME": str(home / "cache")}
        forget()
        with Daemon(top, *options, environment=steps()) as daemon:
            want = read(daemon)
        count, killed = counted(top), 0
        picked = chosen(count, points(200, 8))
        draw = random.Random(SEED)
        for at, half in picked:
            forget()
            daemon = Daemon(top, *options, environment=steps(at, half), expect_start=False)
            with contextlib.suppress(Refused, HungUp, OSError, AssertionError):
                wait_until(lambda: daemon.listens() or daemon.process.poll() is not None, "the daemon")
                read(daemon)
            wait_until(lambda: daemon.process.poll() is not None or counted(top) < at, "its end")
            killed += was_killed(daemon.process.poll())
            daemon.stop(signal.SIGKILL)
            with Daemon(top, *options, environment=plain) as after:
                assert read(after) == want, f"killed at {at}"
            assert not leftovers(home / "cache", home / "tars"), (at, leftovers(home / "cache", home / "tars"))
        for _ in range(points(60, 2)):  # and at any time
            forget()
            daemon = Daemon(top, *options, environment=plain)
            reader = subprocess.Popen([tool("dump_batches"), f"socket={daemon.socket}", f"source={sources[0]}", "private=0", "image_size=24",
                                       "batch_size=8", "epochs=2"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(draw.uniform(0, 0.06 * SLOW))
            daemon.stop(signal.SIGKILL)
            reader.wait()
            with Daemon(top, *options, environment=plain) as after:
                assert read(after) == want
    say(f"a daemon's indexes and entry points: killed at {killed} of about {count} steps, and {points(60, 2)} times at any moment")
    assert killed


# ---- packs ----

def pack_command(home, images, out):
    return [tool("penstock"), "pack", images, out / "x-%03d.tar", "--shard-size", "64K", "--threads", "1", "--json"]


def kept(out):
    return {p.name: p.read_bytes() for p in out.iterdir() if p.suffix in (".tar", ".json")}


def check_pack(out, whole, at):
    """What a kill left: each tar that has its name is one of the whole pack's, and the manifest is whole."""
    for path in out.glob("*.tar"):
        assert path.read_bytes() == whole[path.name], f"killed at {at}: {path.name} has its name and is not whole"
    if (out / "x.pack.json").exists():
        record = json.loads((out / "x.pack.json").read_text())
        assert all(s["name"] in whole for s in record["shards"])


def test_packs():
    with folder() as home:
        images = make_dataset(home / "images", per_class=24, min_side=64, max_side=120)
        out = home / "out"
        out.mkdir()
        first = run(pack_command(home, images, out), cut(home, out))
        assert first.returncode == 0, first
        count, whole, killed, twice = counted(home), kept(out), 0, 0
        assert len(whole) > 3
        picked = chosen(count, points(200, 20))
        for at, half in picked:
            shutil.rmtree(out)
            out.mkdir()
            died = run(pack_command(home, images, out), cut(home, out, at, half))
            killed += was_killed(died.returncode)
            check_pack(out, whole, at)
            if at % 3 == 0:  # and the one that goes on, too
                twice += run(pack_command(home, images, out), cut(home, out, at // 3 + 1, half)).returncode in (-signal.SIGKILL, 137)
                check_pack(out, whole, at)
            again = run(pack_command(home, images, out), cut(home, out))
            assert again.returncode == 0, (at, again)
            assert kept(out) == whole and not leftovers(out), f"killed at {at}: {sorted(p.name for p in out.iterdir())}"
    say(f"packs: killed {killed} times, of {count} steps, {twice} of them again when they went on: the same shards, byte for byte")
    assert killed


# ---- the flight recorder's file ----

NOTE = re.compile(r"\d+ *\.")


def test_recorders_file():
    with folder() as home:
        out = home / "out"
        out.mkdir()
        command = [tool("torture_data"), "rings", out / "a.ring", 400]
        assert run(command, cut(home, out)).returncode == 0
        count, killed, none = counted(home), 0, 0
        whole = run([tool("ring_dump"), out / "a.ring"], None).stdout.splitlines()
        assert len(whole) == 400
        for at, half in chosen(count, points(400, 40)):
            for path in out.iterdir():
                path.unlink()
            killed += run(command, cut(home, out, at, half)).returncode in (-signal.SIGKILL, 137)
            got = run([tool("ring_dump"), out / "a.ring"], None)
            assert got.returncode == 0 or got.stderr, (at, got)
            lines = got.stdout.splitlines()
            assert lines == whole[:len(lines)] and len(lines) >= at - 5, f"killed at {at}: {len(lines)} entries, all that were written"
            none += got.returncode != 0
        say(f"a recorder's file: killed at {killed} of {count} steps: all entries before it are read ({none} times there was no head yet)")
        assert killed


def test_recorders_of_daemons():
    """The witness is killed while it writes; the daemon goes on, and the next one starts beside what is left."""
    most, killed = points(25, 3), 0
    with folder() as home:
        make_dataset(home / "images", per_class=4, min_side=16, max_side=24)
        with Daemon(home, "--threads", "1") as daemon:
            want = rows_of(daemon.socket, home / "images")
        for at in range(1, most + 1):
            daemon = Daemon(home, "--threads", "1", environment=cut(home, home / "state", at, at % 2 == 0))
            with contextlib.ExitStack() as stack:
                stack.callback(daemon.stop)
                assert rows_of(daemon.socket, home / "images") == want, "with its recorder killed"
                wait_until(lambda: counted(home) >= at, "the point")
                assert daemon.process.poll() is None, "a daemon outlives its recorder"
                assert rows_of(daemon.socket, home / "images") == want
            killed += counted(home) >= at
            why = run([tool("penstock"), "why"], {**os.environ, "XDG_STATE_HOME": str(home / "state")})
            assert why.returncode in (0, 1) and (why.stdout or why.stderr.startswith("penstock: ")), why
    say(f"recorders of daemons: {killed} killed while they wrote; the daemon went on, why reads or says why not")


# ---- quarantine ----

def test_quarantine():
    with folder() as home:
        images = make_dataset(home / "images", per_class=10, min_side=16, max_side=24)
        broken = sorted(images.rglob("*.jpg"))[::4]
        for path in broken:
            path.write_bytes(path.read_bytes()[:60])
        keys = {"max_broken": 1.0}
        file = home / "cache/penstock/quarantine.tsv"
        with Daemon(home, "--threads", "1", environment=cut(home, home / "cache", but=".ckp")) as daemon:
            want = rows_of(daemon.socket, images, **keys)
            wait_until(lambda: file.exists() and file.read_text().count("\n") == len(broken), "the file")
        line = re.compile(r"[^\t\n]+\t[^\t\n]+\t[^\t\n]+")
        assert all(line.fullmatch(text) for text in file.read_text().splitlines())
        killed = 0
        count = counted(home)
        for at, half in chosen(count, points(100, 6)):
            shutil.rmtree(home / "cache")
            daemon = Daemon(home, "--threads", "1", environment=cut(home, home / "cache", at, half, but=".ckp"), expect_start=False)
            with contextlib.suppress(Refused, HungUp, OSError, AssertionError):
                wait_until(lambda: daemon.listens() or daemon.process.poll() is not None, "the daemon")
                rows_of(daemon.socket, images, **keys)
            with contextlib.suppress(AssertionError):  # the file is written when the stream has ended; a run may take a step less
                wait_until(lambda: daemon.process.poll() is not None, "its end", 2 * SLOW)
            killed += was_killed(daemon.process.poll())
            daemon.stop(signal.SIGKILL)
            before = file.read_text() if file.exists() else ""
            with Daemon(home, "--threads", "1") as daemon:
                assert rows_of(daemon.socket, images, **keys) == want
                wait_until(lambda: file.exists() and file.read_text()[len(before):].count("\n") >= len(broken), "the file")
            text = file.read_text()
            assert text.startswith(before), "what was there stays"
            new = text[len(before):]
            new = new[new.index("\n") + 1:] if before and not before.endswith("\n") else new  # the line that was cut stands alone
            assert len(new.splitlines()) == len(broken) and all(line.fullmatch(t) for t in new.splitlines()), (before[-200:], new)
    say(f"quarantine: killed {killed} times: no line is lost in one that was cut")
    assert killed


def test_z_figures():
    assert not NIGHTLY or len(figures) == 7, figures
    promise("; ".join(figures))


if __name__ == "__main__":
    run_tests(globals())

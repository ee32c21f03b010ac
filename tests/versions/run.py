#!/usr/bin/env python3
"""Release 0.1 beside this build: trainers of one with daemons of the other, states, indexes and entry points of before, an upgrade and a
way back in mid-epoch, and the binary interface of libpenstock. docs/reference/versions.md says what must hold.

    PENSTOCK_BIN=build/release/bin tests/versions/run.py FOLDER [TEST...]

Builds 0.1 from its commit in FOLDER, once. Skipped where the repository's history is missing. A trainer is dump_batches: the program of
each release with its own libpenstock, and 0.1's with this build's libpenstock."""
import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

OLD = Path(sys.argv.pop(1)).resolve()
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))

import abi  # pylint: disable=wrong-import-position
import harness  # pylint: disable=wrong-import-position
from harness import Daemon, Skip, folder, make_dataset, rows, wait_until  # pylint: disable=wrong-import-position

COMMIT = "82b300507ce5bb80cf4489942718ffaf95d86124"  # the last one of 0.1
TARGETS = ("penstockd", "penstock", "dump_batches", "make_dataset")
NEW = harness.BIN
KEYS = {"image_size": 40, "batch_size": 8, "train": 1, "epochs": 2, "seed": 9, "max_broken": 0, "on_broken": "fail"}


def run(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, f"{command[0]}: {done.stdout[-4000:]}"
    return done.stdout


def build_old():
    """The programs of 0.1; returns their folder."""
    source, build = OLD / "source", OLD / "build"
    if subprocess.run(["git", "-C", ROOT, "cat-file", "-e", COMMIT], stderr=subprocess.DEVNULL).returncode:
        raise Skip(f"this copy has no history: commit {COMMIT[:8]} is not in it")
    if not (source / "CMakeLists.txt").exists():
        source.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(["git", "-C", ROOT, "archive", COMMIT], stdout=subprocess.PIPE, check=True)
        subprocess.run(["tar", "-x", "-C", source], input=archive.stdout, check=True)
    run("cmake", "-G", "Ninja", "-S", source, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_TESTING=ON", "-DPENSTOCK_CUDA=OFF")
    run("cmake", "--build", build, "--target", *TARGETS)
    return build / "bin"


@contextlib.contextmanager
def programs(place):
    """Inside, daemons and trainers are those of this folder."""
    before, harness.BIN = harness.BIN, place
    try:
        yield
    finally:
        harness.BIN = before


def rows_of(daemon, trainer, **keys):
    with programs(trainer):
        return rows(daemon.batches(**{**KEYS, **keys}))


@contextlib.contextmanager
def daemon_of(place, home, **options):
    with programs(place):
        daemon = Daemon(home, **options)
    with daemon:
        yield daemon


def sources(home):
    make_dataset(home / "tars", tars=True)
    make_dataset(home / "folder", per_class=12)
    return str(home / "tars/*.tar"), str(home / "folder")


def same(one, other):
    assert one and one == other, f"{len(one)} and {len(other)} rows: {[pair for pair in zip(one, other) if pair[0] != pair[1]][:3]}"


def each_pair(home):
    """Daemons and trainers of both releases; the rows of this build's."""
    for place in (NEW, OLD_BIN):
        with daemon_of(place, home) as daemon:
            yield daemon


def test_trainers_and_daemons():
    """Either release's trainer has the same rows from either release's daemon."""
    with folder() as home:
        for source in sources(home):
            wanted = None
            for daemon in each_pair(home):
                for trainer in (NEW, OLD_BIN):
                    found = rows_of(daemon, trainer, source=source)
                    wanted = wanted or found
                    same(wanted, found)


def test_library_replaced():
    """A program of 0.1 runs with this build's libpenstock."""
    with folder() as home:
        source = sources(home)[0]
        with daemon_of(NEW, home) as daemon:
            wanted = rows_of(daemon, NEW, source=source)
            daemon.environment["LD_LIBRARY_PATH"] = str(NEW.parent / "lib")
            said = subprocess.run(["ldd", OLD_BIN / "dump_batches"], env=daemon.environment, stdout=subprocess.PIPE, text=True, check=True).stdout
            if str(OLD) in said:  # its RUNPATH comes after LD_LIBRARY_PATH; an RPATH would come before
                raise Skip("0.1's program takes its own library in any case")
            same(wanted, rows_of(daemon, OLD_BIN, source=source))


def test_states():
    """A state of one release, in mid-epoch, is read by the other: exactly the rest comes."""
    with folder() as home:
        source = sources(home)[0]
        with daemon_of(NEW, home) as daemon:
            whole = rows_of(daemon, NEW, source=source)
        for first, second in ((OLD_BIN, NEW), (NEW, OLD_BIN)):
            with daemon_of(first, home) as daemon, programs(first):
                lines = daemon.batches(**{**KEYS, "source": source, "batches": 5})
            state = [line for line in lines if line.startswith("state ")][-1][len("state "):]
            with daemon_of(second, home) as daemon:
                same(whole[5:], rows_of(daemon, second, source=source, state=state))


def test_files():
    """Indexes and entry points that one release made serve the other, or are made anew."""
    for first, second in ((OLD_BIN, NEW), (NEW, OLD_BIN)):
        with folder() as home:
            for source in sources(home):
                with daemon_of(first, home) as daemon:
                    wanted = rows_of(daemon, first, source=source)
                with daemon_of(second, home) as daemon:
                    same(wanted, rows_of(daemon, second, source=source))


def test_upgraded_in_mid_epoch():
    """A daemon that is replaced by one of the other release: its trainer, of either release, goes on with the next batch."""
    for trainer in (OLD_BIN, NEW):
        for first, second in ((OLD_BIN, NEW), (NEW, OLD_BIN)):
            with folder() as home:
                source = sources(home)[0]
                keys = {**KEYS, "source": source, "epochs": 6}
                with daemon_of(NEW, home) as daemon:
                    wanted = rows_of(daemon, NEW, **keys)
                with programs(first):
                    daemon = Daemon(home)
                with programs(trainer):
                    reader = daemon.trainer(**{**keys, "sleep_ms": 20, "reconnect_ms": 60000})
                while len(rows(reader.seen)) < 9:
                    assert reader.line()
                daemon.process.kill()
                daemon.stop()
                with daemon_of(second, home):
                    same(wanted, rows(reader.finish()))


def test_status_and_command():
    """Either release's command asks either release's daemon."""
    with folder() as home:
        for daemon in each_pair(home):
            for place in (NEW, OLD_BIN):
                with programs(place):
                    assert wait_until(daemon.status, "an answer")["pid"] == daemon.process.pid


def library_of(source, build):
    """libpenstock of a tree of 0.1, with types in its debugging information."""
    run("cmake", "-G", "Ninja", "-S", source, "-B", build, "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DBUILD_TESTING=OFF", "-DPENSTOCK_CUDA=OFF")
    run("cmake", "--build", build, "--target", "penstock_client")
    return build / "lib/libpenstock.so"


def edited(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{path} has {text.count(old)} times {old!r}"
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_binary_interface():
    """What 0.1's commit makes is what tests/versions/release-0.1 describes, and this build's libpenstock fits it."""
    abi.require()
    recorded = abi.HERE / "release-0.1/libpenstock.abi"
    with folder() as home:
        old, new = home / "old.abi", home / "new.abi"
        old.write_text(abi.describe(library_of(OLD / "source", OLD / "types"), OLD / "source/include/penstock"))
        for one, other in ((old, recorded), (recorded, old)):
            abi.check(one, other, "the description of release 0.1")
        new.write_text(abi.describe(NEW.parent / "lib/libpenstock.so"))
        abi.check(old, new, "release 0.1")


def test_broken_interface():
    """The same comparison refuses libraries of 0.1 whose sources were broken: a moved field, and a function that is not exported."""
    abi.require()
    breaks = (("include/penstock/penstock.h", "uint64_t epoch, batch; /* its name", "uint64_t batch, epoch; /* its name"),
              ("client/lib/libpenstock.map", "penstock_*;", "penstock_[!v]*;"))
    with folder() as home:
        old, new = home / "old.abi", home / "new.abi"
        old.write_text(abi.describe(library_of(OLD / "source", OLD / "types"), OLD / "source/include/penstock"))
        for name, before, after in breaks:
            shutil.copytree(OLD / "source", home / "source")
            edited(home / "source" / name, before, after)
            new.write_text(abi.describe(library_of(home / "source", home / "build"), home / "source/include/penstock"))
            said = abi.verdict(old, new)
            assert said, f"{name}, {after!r}: not found"
            print(f"{name}: {after}: found")
            shutil.rmtree(home / "source")
            shutil.rmtree(home / "build")


def test_whole():
    """The tests before hold: what they are of, for scripts/nightly."""
    harness.promise(f"release 0.1 ({COMMIT[:8]}) and this one: trainers, daemons, libraries, states, indexes, upgrades both ways, binary interface")


if __name__ == "__main__":
    try:
        OLD_BIN = build_old()
    except Skip as why:
        print(f"skipped: {why}")
        sys.exit(77)
    os.environ.pop("PENSTOCK_SOCKET", None)
    harness.run_tests(globals())

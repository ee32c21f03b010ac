"""Disks that are full under indexes, checkpoints, the quarantine file, the log and the flight recorder: each goes on without, and says so
once, or ends with a sentence that names file, cause and what to do; nothing half-written is used later, and with room again it works again."""
import contextlib
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "inject"))
from faults import NIGHTLY
from harness import SLOW, Daemon, Link, Refused, Skip, folder, make_dataset, promise, run_tests, tool, wait_until

SMALL = {"batch_size": 8, "image_size": 24, "drop_last": False, "epochs": 2}
FULL = "No space left on device"
figures = []


@contextlib.contextmanager
def disk(home, name="disk", size="1m"):
    """A separate file system of that many bytes."""
    where = home / name
    where.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(where)],
                                           capture_output=True, check=False).returncode:
        raise Skip("no tmpfs can be mounted here")
    try:
        yield where
    finally:
        subprocess.run(["umount", "-l", str(where)], check=True)


def fill(where, leave=0):
    """Takes all the room but about `leave` bytes; returns the file to unlink to get it back."""
    ballast = where / "ballast"
    with open(ballast, "wb", buffering=0) as file:
        with contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
    if leave:
        os.truncate(ballast, max(0, ballast.stat().st_size - leave))
    return ballast


def rows_of(socket, source, **keys):
    with Link(socket) as link:
        stream = link.open(source=source, **{**SMALL, **keys})
        return [tuple(r) for _, rows in stream.read() for r in rows]


def leftovers(*folders):
    return [p for f in folders for p in Path(f).rglob("*") if ".tmp-" in p.name]


def said(daemon, words):
    return sum(words in line for line in daemon.text().splitlines())


def plain(home, **keys):
    """Datasets, and their rows in a daemon that has room enough; its cache is deleted."""
    make_dataset(home / "images", per_class=14, min_side=60, max_side=100, **keys)
    (home / "plain").mkdir()
    with Daemon(home / "plain", "--threads", "1") as daemon:
        return rows_of(daemon.socket, home / "images")


def tar_of(home, where):
    subprocess.run(["tar", "--sort=name", "-C", str(home / "images"), "-cf", str(where / "x.tar"), "."], check=True)
    with Daemon(home / "plain", "--threads", "1") as daemon:
        (home / "away").mkdir(exist_ok=True)
        subprocess.run(["cp", "-p", str(where / "x.tar"), str(home / "away/x.tar")], check=True)
        return rows_of(daemon.socket, home / "away/x.tar")


def test_indexes_and_checkpoints():
    with folder() as home, disk(home, "data", "2m") as data, disk(home, "cachedisk", "1m") as cache, disk(home, "tmp", "1m") as tmp:
        images = plain(home)
        want = tar_of(home, data)
        source = data / "x.tar"
        environment = {"XDG_CACHE_HOME": str(cache), "TMPDIR": str(tmp)}
        stuffed = fill(data)
        with Daemon(home, "--threads", "1", environment=environment) as daemon:
            assert rows_of(daemon.socket, source) == want
            assert list((cache / "penstock").glob("*.idx")) and not (data / "x.tar.idx").exists(), "in the cache folder"
        for path in (cache / "penstock").iterdir():
            path.unlink()
        ballast = [fill(cache), fill(tmp, 300 << 10)]
        with Daemon(home, "--threads", "1", environment=environment) as daemon:
            for _ in range(3):
                assert rows_of(daemon.socket, source) == want, "in a temporary file"
                assert rows_of(daemon.socket, home / "images") == images
            assert said(daemon, " in a temporary file") in range(1, 7) and said(daemon, FULL) > 0, daemon.text()
            wait_until(lambda: said(daemon, "entry points of"), "the log's word")
            assert not leftovers(data, cache) and not (data / "x.tar.idx").exists()
            # And none at all, once the temporary files of those streams are gone.
            wait_until(lambda: not daemon.status()["streams"], "the streams to go")
            ballast.append(tmp / "more")
            (tmp / "more").touch()
            with open(tmp / "more", "wb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(bytes(4096))
            try:
                rows_of(daemon.socket, source)
                raise AssertionError("an index out of nothing")
            except Refused as refused:
                for words in (str(source), FULL, "free disk space", str(cache)):
                    assert words in refused.sentence, (words, refused.sentence)
            for path in [stuffed, *ballast]:
                path.unlink()
            assert rows_of(daemon.socket, source) == want and (data / "x.tar.idx").exists(), "with room again"
            assert (data / "x.tar.ckp").exists() and not leftovers(data, cache)
    figures.append("indexes: beside, cache folder and TMPDIR full in turn")


def test_checkpoints_that_find_no_room():
    with folder() as home, disk(home, "cachedisk", "1m") as cache:
        images = plain(home)
        with Daemon(home, "--threads", "1", environment={"XDG_CACHE_HOME": str(cache)}) as daemon:
            assert rows_of(daemon.socket, home / "images", epochs=1) == images[:len(images) // 2]
            sidecar, = (cache / "penstock").glob("*.ckp")
            sidecar.unlink()
        ballast = fill(cache, 8192)
        with Daemon(home, "--threads", "1", environment={"XDG_CACHE_HOME": str(cache)}) as daemon:
            for _ in range(2):
                assert rows_of(daemon.socket, home / "images") == images
            wait_until(lambda: said(daemon, "entry points of"), "the log's word")
            assert FULL in daemon.text()
        ballast.unlink()
        before = said(daemon, "entry points of")
        with Daemon(home, "--threads", "1", environment={"XDG_CACHE_HOME": str(cache)}) as daemon:
            assert rows_of(daemon.socket, home / "images") == images, "what was written in part is no checkpoint"
            assert rows_of(daemon.socket, home / "images") == images
        assert before == said(daemon, "entry points of") >= 1, daemon.text()
    figures.append("checkpoints: a sidecar that is written in part")


def test_quarantine_and_log():
    with folder() as home, disk(home, "cachedisk", "1m") as cache:
        plain(home)
        broken = sorted((home / "images").rglob("*.jpg"))[::2]
        for path in broken:
            path.write_bytes(path.read_bytes()[:50])
        keys = {"max_broken": 1.0, "on_broken": "mark", "epochs": 1}
        log = cache / "penstockd.log"
        with Daemon(home, "--threads", "1", "--log-file", log, environment={"XDG_CACHE_HOME": str(cache)}) as daemon:
            want = rows_of(daemon.socket, home / "images", **keys)
            file = cache / "penstock/quarantine.tsv"
            wait_until(lambda: file.exists() and file.read_text().count("\n") == len(broken), "the quarantine file")
            # So full that a line is cut.
            with open(file, "a") as more:
                more.write("# " + "x" * (4096 - file.stat().st_size % 4096 - 60 - 3) + "\n")
            ballast = fill(cache)
            before, cut = file.read_text(), log.read_text()
            for _ in range(2):
                assert rows_of(daemon.socket, home / "images", **keys) == want, "nobody's rows depend on it"
            wait_until(lambda: any("quarantine" in n for n in daemon.status()["notices"]), "the notice")
            assert file.read_text().startswith(before)
            ballast.unlink()
            whole = file.read_text()
            assert rows_of(daemon.socket, home / "images", **keys) == want
            # The line that was cut is ended first.
            wait_until(lambda: file.read_text()[len(whole):].lstrip("\n").count("\n") >= len(broken), "the quarantine file with room again")
            lines = file.read_text()[len(whole):].lstrip("\n").splitlines()
            assert len(lines) == len(broken) and all(line.count("\t") == 2 for line in lines), lines
            assert log.read_text().startswith(cut)
            rows_of(daemon.socket, home / "images", **keys)
        assert len(log.read_text()) > len(cut), "the log goes on with room again"
    figures.append("quarantine file and log")


def test_recorder():
    """Without room the daemon says so and goes on without the file; with room later, the next daemon writes it."""
    with folder() as home, disk(home, "statedisk", "1m") as state:
        images = plain(home)
        environment = {"XDG_STATE_HOME": str(state)}
        for _ in range(2):
            with Daemon(home, "--threads", "1", environment=environment) as daemon:
                assert rows_of(daemon.socket, home / "images") == images
                wait_until(lambda: said(daemon, "recorder"), "the log's word")
                assert FULL in daemon.text() or "MiB" in daemon.text(), daemon.text()
            assert not list(state.rglob("*.ring")), "nothing half-made is left"
        subprocess.run(["mount", "-o", "remount,size=20m", str(state)], check=True)
        with Daemon(home, "--threads", "1", environment=environment) as daemon:
            assert rows_of(daemon.socket, home / "images") == images
            wait_until(lambda: (daemon.status()["recorder"] or {}).get("writes"), "the recorder")
    figures.append("recorder")


def test_any_write_of_index_and_checkpoints():
    """Injection: each kind of call fails once, or from some point on, with each error of a full disk."""
    if not Path(tool("libpenstock_inject.so")).exists():
        raise Skip("libpenstock_inject.so is not built")
    import inject as injection
    cases = failed = 0
    calls = ("pwrite", "write", "fsync", "rename", "mkostemp", "open", "fallocate", "fchmod", "mkdir", "flock")
    effects = ("ENOSPC", "EDQUOT", "EFBIG", "EIO", "EROFS") if NIGHTLY else ("ENOSPC",)
    with folder() as home:
        images = plain(home)
        inject = injection.Inject(home / "inject", "penstockd")
        (home / "set").mkdir()
        want = tar_of(home, home / "set")
        with contextlib.ExitStack() as stack:
            stack.callback(inject.close)
            daemon = stack.enter_context(Daemon(home, "--threads", "1", environment=inject.environment()))
            inject.check()

            def forget():
                for path in [*(home / "set").iterdir(), *(home / "cache/penstock").glob("*")]:
                    if path.suffix != ".tar":
                        path.unlink()

            for effect in effects:
                for call in calls:
                    for persistent in (False, True):
                        for first in range(1, 40 if NIGHTLY else 3):
                            forget()
                            inject.arm(call, effect, first=first, persistent=persistent, path=home / "set")
                            inject.arm(call, effect, first=first, persistent=persistent, path=home / "cache", rule=1)
                            before = inject.failed()
                            got = []
                            for source, expected in ((home / "set/x.tar", want), (home / "images", images)):
                                try:
                                    got.append(rows_of(daemon.socket, source))
                                    assert got[-1] == expected, f"{call} {first} {effect}: other rows"
                                except Refused as refused:
                                    assert call == "open" and any(w in refused.sentence for w in ("x.tar", "images", ".idx")), (call, refused)
                            inject.disarm()
                            cases += 1
                            failed += inject.failed() - before
                            assert call in ("open", "rename") or not leftovers(home / "set", home / "cache"), (call, first, leftovers(home))
                            more = inject.failed() > before
                            assert rows_of(daemon.socket, home / "set/x.tar") == want
                            assert list((home / "set").glob("*.idx")) or list((home / "cache/penstock").glob("*.idx"))
                            if not more:
                                break
    assert failed > 20
    figures.append(f"{cases} cases of injected errors, {failed} calls that failed")


def test_any_write_of_a_pack():
    """It ends with a sentence that names the file and says to run it again; run again, it makes what it would have made."""
    if not Path(tool("libpenstock_inject.so")).exists():
        raise Skip("libpenstock_inject.so is not built")
    cases = failed = 0
    with folder() as home:
        images = make_dataset(home / "images", per_class=24, min_side=64, max_side=120)
        out = home / "out"
        command = [tool("penstock"), "pack", str(images), str(out / "x-%03d.tar"), "--shard-size", "64K", "--threads", "1", "--json"]
        plain_environment = {**os.environ, "XDG_CACHE_HOME": str(home / "cache")}

        def pack(rule=None):
            environment = dict(plain_environment)
            if rule:
                environment |= {"LD_PRELOAD": tool("libpenstock_inject.so"), "PENSTOCK_INJECT": rule, "PENSTOCK_INJECT_PATH": str(out),
                                "PENSTOCK_INJECT_PROGRAM": "penstock", "PENSTOCK_INJECT_LOG": str(home / "injected")}
            return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

        def contents():
            return {p.name: p.read_bytes() for p in out.iterdir()}

        out.mkdir()
        assert pack().returncode == 0
        whole = contents()
        for effect in ("ENOSPC", "EDQUOT", "EIO") if NIGHTLY else ("ENOSPC",):
            for call in ("write", "fsync", "rename", "open", "unlink"):
                for first in range(1, 60 if NIGHTLY else 4 if SLOW == 1 else 2):
                    for path in out.iterdir():
                        path.unlink()
                    (home / "injected").unlink(missing_ok=True)
                    answer = pack(f"{call}:{first}:{effect}")
                    cases += 1
                    if not (home / "injected").exists():
                        assert answer.returncode == 0
                        break
                    failed += 1
                    if answer.returncode:
                        assert answer.returncode in (1, 2) and str(out) in answer.stderr, (call, first, answer)
                        assert effect == "EIO" or call != "write" or "run the same command again" in answer.stderr, (call, first, answer)
                    assert all(p.read_bytes() == whole[p.name] for p in out.glob("*.tar")), f"{call} {first}: what has its name is whole"
                    again = pack()
                    assert again.returncode == 0 and contents() == whole, (call, first, effect, again.stderr, sorted(contents()))
    assert failed > 4
    figures.append(f"{cases} packs with an injected error")


def test_z_figures():
    assert not NIGHTLY or len(figures) == 6, figures
    promise("full disks: " + "; ".join(figures) + ": the same rows or a sentence, nothing half-written, and it works again")


if __name__ == "__main__":
    run_tests(globals())

"""Checkpoints kept beside the indexes: the same bytes when they are made, used, damaged, foreign, or not there; nothing that lies in
their place does harm."""
import json
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import LIMIT, PHOTOGRAPHS, Daemon, Skip, folder, make_dataset, photographs, rows, run_tests, tool, wait_until
from same_bytes import tar_of

KEYS = {"image_size": 64, "batch_size": 16, "seed": 7, "drop_last": 0}
HEAD = 4096  # bytes of a sidecar's head


def served(home, source, *options, epochs=2, daemon_keys=None, **keys):
    home.mkdir(exist_ok=True)
    with Daemon(home, *options, **(daemon_keys or {})) as daemon:
        lines = daemon.batches(source=source, epochs=epochs, **{**KEYS, **keys})
        assert lines[-1] == "end", lines[-1]
        return rows(lines)


def counts(home, source, done, *options):
    """What became of the checkpoints, once `done` says so of it; epochs go on until then."""
    with Daemon(home, *options) as daemon:
        trainer = daemon.trainer(source=source, **KEYS)
        trainer.line()

        def look():
            for _ in range(20):
                trainer.line()
            streams = daemon.status()["streams"]
            found = streams[0]["checkpoints"] if streams and "checkpoints" in streams[0] else None
            return found if found and done(found) else None
        try:
            return wait_until(look, "the checkpoints")
        finally:
            trainer.kill()


def complete(home, source):
    """`penstock check --index` makes those that are left; then the file depends on the images alone. What it reports of them."""
    done = subprocess.run([tool("penstock"), "check", str(source), "--index", "--json"], capture_output=True, timeout=LIMIT,
                          env={**os.environ, "XDG_CACHE_HOME": str(home / "cache")})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["checkpoints"]


def sidecar(home, source):
    """The one file that keeps them."""
    beside = source.with_name(source.name + ".ckp")
    if beside.exists():
        return beside
    found = list((home / "cache/penstock").glob("*.ckp"))
    assert len(found) == 1, found
    return found[0]


def dataset(home):
    return make_dataset(home / "images", per_class=30)


def test_same_bytes_with_and_without():
    with folder() as home:
        source = dataset(home)
        tar_of(source, home / "images.tar")
        reference = served(home / "off", source, "--no-entry-points")
        assert not list((home / "off").glob("cache/penstock/*.ckp"))
        for where in (source, home / "images.tar"):
            name = "d" if where is source else "t"
            for run in range(2):
                for threads in (1, 2, 4):
                    got = served(home / f"{name}{threads}", where, "--threads", threads)
                    assert got == reference, f"{where}, {threads} threads, run {run}"
        for threads in (1, 2, 4):
            complete(home / f"d{threads}", source)
        contents = {sidecar(home / f"d{threads}", source).read_bytes() for threads in (1, 2, 4)}
        assert len(contents) == 1, "the same dataset gives the same complete sidecar"
        assert (home / "images.tar.ckp").exists() and not list((home / "t1").glob("cache/penstock/*.ckp"))


def test_made_and_used():
    """Each file's are made up to where a crop ends, and more where a later one ends further down: less and less often."""
    with folder() as home:
        source = dataset(home)
        first = counts(home, source, lambda c: c["used"] > 300)
        images = len(places_of(source))
        assert images > 80 and images <= first["made"] < 3 * images and first["dropped"] == 0, first
        again = counts(home, source, lambda c: c["used"] > 300)
        assert again["made"] < first["made"] / 2 and again["dropped"] == 0, (first, again)
        checked = complete(home, source)
        assert 0 < checked["made"] < images and checked["made"] + checked["kept"] == images, (checked, images)
        again = counts(home, source, lambda c: c["used"] > 200)
        assert again["made"] == 0 and again["dropped"] == 0, again
        off = counts(home, source, lambda c: True, "--no-entry-points")
        assert off == {"used": 0, "made": 0, "dropped": 0}, off


def test_switched_off_in_the_configuration():
    with folder() as home:
        source = dataset(home)
        (home / "off").mkdir()
        served(home / "off", source, daemon_keys={"config": "entry_points: off\n"})
        assert not list((home / "off").glob("cache/penstock/*.ckp"))


def test_old_names():
    """Old names of the option and of the key work, and the log names each in one line."""
    option = "--no-checkpoints is the old name of --no-entry-points; use the new name"
    key = "penstock.yaml:1:1: checkpoints is the old name of entry_points; use the new name"
    for options, config, told in ((("--no-checkpoints",), None, option), ((), "checkpoints: off\n", key)):
        with folder() as home, Daemon(home, *options, config=config) as daemon:
            assert daemon.status()["checkpoints"] is False
            assert daemon.text().count("is the old name of") == daemon.text().count(told) == 1, daemon.text()
            if config:
                daemon.process.send_signal(signal.SIGHUP)
                wait_until(lambda: daemon.text().count(told) == 2, "the log of a reload")
    both = subprocess.run([tool("penstockd"), "--no-entry-points", "--no-checkpoints"], capture_output=True, text=True, timeout=LIMIT)
    assert both.returncode == 2 and "is the old name of --no-entry-points, and both are given" in both.stderr, both


def damages(data, places):
    """(name, what the sidecar is instead)"""
    draw = random.Random(5)
    yield "empty", b""
    yield "cut in the head", data[:30]
    yield "no places", data[:HEAD]
    yield "cut", data[:len(data) // 2]
    for at in range(0, 56, 5):
        yield f"head byte {at}", data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1:]
    for bit in range(4):
        flipped = bytearray(data)
        for place in places:
            flipped[place + draw.randrange(32)] ^= 1 << (bit * 2)
        yield f"bits {bit}", bytes(flipped)
    moved = bytearray(data)
    for place, other in zip(places, places[1:]):
        moved[place:place + 300] = data[other:other + 300].ljust(300, b"\0")
    yield "blobs of others", bytes(moved)
    yield "noise", data[:HEAD] + draw.randbytes(len(data) - HEAD)
    yield "ones", data[:HEAD] + b"\xff" * (len(data) - HEAD)
    yield "longer", data + draw.randbytes(9999)


def places_of(source):
    """Where the sidecar keeps those of each file that has some, by its documented rule. Progressive ones have none."""
    position, places = 0, []
    files = sorted(source.rglob("*.jpg"), key=lambda p: (p.parent.name, p.name))
    for number, file in enumerate(files):
        if b"\xff\xc2" not in file.read_bytes():
            places.append(HEAD + number * 256 + position // 48)
        position += file.stat().st_size
    return places


def packs(data, places):
    """What is kept at each place, without what lies behind it."""
    found = [data[place:place + struct.unpack_from("<IHHI", data, place)[1]] for place in places]
    assert all(len(pack) >= 32 for pack in found), "a pack of at least a head"
    return found


def test_damage_changes_no_pixel():
    with folder() as home:
        source = dataset(home)
        reference = served(home / "off", source, "--no-entry-points")
        served(home, source)
        complete(home, source)
        path, places = sidecar(home, source), places_of(source)
        data = path.read_bytes()
        kept = packs(data, places)
        for name, instead in damages(data, places):
            path.write_bytes(instead)
            assert served(home, source) == reference, name
            # Without its first eight bytes it could be anybody's file, and is left alone.
            if instead[:8] in (data[:8], b""):
                assert len(packs(path.read_bytes(), places)) == len(kept), f"{name}: made anew"
                complete(home, source)
                assert packs(path.read_bytes(), places) == kept, f"{name}: complete"


def test_an_image_replaced_in_place():
    with folder() as home:
        source = dataset(home)
        served(home, source)
        path = sidecar(home, source)
        before = path.read_bytes()
        # Another quality of the least bits: the same size, other pixels, and the folder's time as it was.
        for file in sorted(source.rglob("*.jpg"))[::7]:
            data = bytearray(file.read_bytes())
            middle = data.index(b"\xff\xda") + 20 + (len(data) - data.index(b"\xff\xda")) // 3
            while data[middle] == 0xff or data[middle - 1] == 0xff or data[middle] ^ 4 == 0xff:
                middle += 1
            data[middle] ^= 4
            times = file.stat()
            with open(file, "r+b") as there:
                there.write(data)
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        reference = served(home / "off", source, "--no-entry-points")
        assert served(home, source) == reference
        assert path.read_bytes() != before, "theirs are made anew"


def test_another_dataset_of_the_same_name():
    with folder() as home:
        source = dataset(home)
        tar_of(source, home / "images.tar")
        served(home, home / "images.tar")
        old = (home / "images.tar.ckp").read_bytes()
        other = make_dataset(home / "other", per_class=30, seed=9)
        tar_of(other, home / "images.tar")
        reference = served(home / "off", home / "images.tar", "--no-entry-points")
        assert served(home, home / "images.tar") == reference
        assert (home / "images.tar.ckp").read_bytes()[:56] != old[:56]


def test_what_is_not_ours_is_left_alone():
    with folder() as home:
        source = dataset(home)
        tar_of(source, home / "images.tar")
        (home / "images.tar.ckp").write_text("my own notes")
        reference = served(home / "off", source, "--no-entry-points")
        assert served(home, home / "images.tar") == reference
        assert (home / "images.tar.ckp").read_text() == "my own notes"
        assert len(list((home / "cache/penstock").glob("*.ckp"))) == 1


def log_sentence(home):
    return [line for line in (home / "log").read_text().splitlines() if "entry points of" in line]


def notice_after(home, source, **keys):
    """Serves until the daemon has said what it cannot keep; its sentences."""
    with Daemon(home) as daemon:
        trainer = daemon.trainer(source=source, **{**KEYS, **keys})

        def look():
            for _ in range(20):
                trainer.line()
            return log_sentence(home)
        try:
            said = wait_until(look, "a sentence")
            time.sleep(1.5)
            assert log_sentence(home) == said, "said once"
            return said
        finally:
            trainer.kill()


def test_nowhere_to_keep_them():
    with folder() as home:
        source = dataset(home)
        reference = served(home / "off", source, "--no-entry-points")
        served(home, source)  # the index is there
        path = sidecar(home, source)
        path.unlink()
        path.mkdir()
        said = notice_after(home, source)
        assert len(said) == 1 and str(source) in said[0] and "cannot be kept" in said[0], said
        found = counts(home, source, lambda c: True)
        assert found == {"used": 0, "made": 0, "dropped": 0}, f"nothing is made in vain: {found}"
        assert served(home, source) == reference


def test_no_room_for_them():
    with folder() as home:
        source = dataset(home)
        reference = served(home / "off", source, "--no-entry-points")
        served(home, source)
        path = sidecar(home, source)
        path.unlink()
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        # The daemon inherits it. Its log, its index and its shared memory are smaller.
        limit = 24 << 10
        little = {"image_size": 16, "batch_size": 2, "prefetch": 2}
        small = served(home / "off", source, "--no-entry-points", **little)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            said = notice_after(home, source, **little)
            assert served(home, source, **little) == small
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert len(said) == 1 and "cannot be written" in said[0], said
        assert path.stat().st_size <= limit
        assert served(home, source) == reference, "and they are made when there is room"
        assert path.stat().st_size > limit


def test_read_only():
    if os.geteuid() == 0:
        raise Skip("permissions bind everybody but root")
    with folder() as home:
        source = dataset(home)
        tar_of(source, home / "images.tar")
        reference = served(home, home / "images.tar")
        path = home / "images.tar.ckp"
        path.chmod(0o444)
        found = counts(home, home / "images.tar", lambda c: c["used"] > 100)
        assert found["made"] == 0 and served(home, home / "images.tar") == reference
        path.chmod(0o644)
        with open(path, "r+b") as there:
            there.seek(HEAD)
            there.write(b"\0" * 9000)
        path.chmod(0o444)
        said = notice_after(home, home / "images.tar")
        assert len(said) == 1 and "cannot be written" in said[0], said
        assert served(home, home / "images.tar") == reference


def test_two_daemons_at_once():
    with folder() as home:
        source = dataset(home)
        reference = served(home / "off", source, "--no-entry-points", epochs=4)
        (home / "a").mkdir()
        (home / "b").mkdir()
        shared = {"XDG_CACHE_HOME": str(home / "cache")}
        with Daemon(home / "a", environment=shared) as a, Daemon(home / "b", environment=shared) as b:
            trainers = [d.trainer(source=source, epochs=4, **KEYS) for d in (a, b)]
            for trainer in trainers:
                assert rows(trainer.finish()) == reference
        served(home / "alone", source)
        for place in (home, home / "alone"):
            complete(place, source)
        assert sidecar(home, source).read_bytes() == sidecar(home / "alone", source).read_bytes()


def test_killed_while_they_are_made():
    with folder() as home:
        source = dataset(home)
        reference = served(home / "off", source, "--no-entry-points")
        for attempt in range(6):
            with folder() as place:
                daemon = Daemon(place)
                trainer = daemon.trainer(source=source, **KEYS)
                for _ in range(1 + attempt // 2):
                    trainer.line()
                assert daemon.stop(signal.SIGKILL) == -signal.SIGKILL
                trainer.kill()
                assert served(place, source) == reference, attempt


def test_bench_and_check_report():
    files = photographs()
    with folder() as home:
        environment = {**os.environ, "XDG_CACHE_HOME": str(home / "cache")}

        def say(*command):
            done = subprocess.run([tool("penstock"), *command, "--json"], env=environment, capture_output=True, timeout=LIMIT)
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)
        checked = say("check", str(PHOTOGRAPHS), "--index")["checkpoints"]
        assert checked["made"] > 0.9 * len(files) and checked["kept"] == 0, checked
        again = say("check", str(PHOTOGRAPHS), "--index")["checkpoints"]
        assert again == {"made": 0, "kept": checked["made"], "needless": checked["needless"]}, again
        assert checked["made"] + checked["needless"] == len(files), checked
        assert "checkpoints" not in say("check", str(PHOTOGRAPHS), "--index-only")
        first = say("bench", str(PHOTOGRAPHS), "--seconds", "1", "--batch-size", "25")
        assert first["checkpoints"]["made"] == 0 and first["checkpoints"]["used"] > 100, first["checkpoints"]
        off = say("bench", str(PHOTOGRAPHS), "--seconds", "1", "--no-entry-points")
        assert off["checkpoints"] == {"used": 0, "made": 0, "dropped": 0}, off["checkpoints"]
        kept = sidecar(home, PHOTOGRAPHS)
        total = sum(p.stat().st_size for p in files)
        both = subprocess.run([tool("penstock"), "check", str(PHOTOGRAPHS), "--index", "--index-only"], env=environment,
                              capture_output=True, text=True, timeout=LIMIT)
        assert both.returncode == 2 and "--index" in both.stderr, both
        assert kept.stat().st_size <= HEAD + len(files) * 256 + total / 48 + 16384, kept.stat().st_size


if __name__ == "__main__":
    run_tests(globals())

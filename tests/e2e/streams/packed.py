#!/usr/bin/env python3
"""Samples that a container stores packed: the rows of a stream, what the commands say and how damage ends are those of the same samples in
a tar, for every method, reader, number of threads and budget. The shard and its index are made (packed_make.c), so no container is needed."""
import functools
import io
import json
import os
import random
import re
import subprocess
import sys
import tarfile
import tempfile
import atexit
import shutil
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import BUCKETS, LIMIT, Daemon, Link, folder, make_dataset, rows, run_tests, tool
from shapes import stream_of

MAKE = sys.argv.pop(1)
CLASSES = 3
KEYS = {"image_size": 64, "batch_size": 16, "seed": 7}
METHODS = {"deflate": 1, "gzip": 2, "Snappy": 3, "all": "all"}


@functools.cache
def images():
    """Files of images in their order, and a tar of them; made once."""
    home = Path(tempfile.mkdtemp(prefix="penstock-test-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    small = sorted(make_dataset(home / "small", per_class=25).rglob("*.jpg"))
    large = sorted(make_dataset(home / "large", per_class=2, min_side=900, max_side=1200, seed=5).rglob("*.jpg"))
    files = small[:40] + large + small[40:]
    return files, tar_of(files, home / "images.tar")


def tar_of(files, path):
    with tarfile.open(path, "w") as tar:
        for number, file in enumerate(files):
            for name, data in ((f"{number:06d}.jpg", file.read_bytes()), (f"{number:06d}.cls", b"%d" % (number % CLASSES))):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return path


def pack(path, files, method="all", group=7):
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([MAKE, path, str(METHODS[method]), str(group), str(CLASSES), *files], check=True, timeout=LIMIT)
    return path


def served(home, source, *options, epochs=2, **keys):
    home.mkdir(exist_ok=True, parents=True)
    with Daemon(home, *options) as daemon:
        lines = daemon.batches(source=source, epochs=epochs, **{**KEYS, **keys})
        status = daemon.status()
    assert lines[-1] == "end", lines[-1]
    return rows(lines), status


def penstock(*arguments, code=0):
    answer = subprocess.run([tool("penstock"), *map(str, arguments)], capture_output=True, text=True, timeout=LIMIT)
    assert answer.returncode == code, (arguments, answer.returncode, answer.stdout[-2000:], answer.stderr[-2000:])
    return answer.stdout


def damage(path, at, size=40):
    """Overwrites bytes; the file's time stays, so that its index does."""
    st = path.stat()
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(random.Random(at).randbytes(size))
    os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))


def quarantined(home, reason):
    """Numbers of the samples that are listed with a reason."""
    lines = (home / "cache/penstock/quarantine.tsv").read_text().splitlines()
    return {int(re.search(r"!(\d{6})", line)[1]) for line in lines if reason in line}


def test_rows_are_those_of_a_tar():
    files, tar = images()
    with folder() as home:
        want, _ = served(home / "tar", tar)
        assert len(want) == 2 * (len(files) // 16)
        for method in ("Snappy", "all"):
            for group in (1, 7) if method == "all" else (7,):
                source = pack(home / f"{method}-{group}/a.tfrecord", files, method, group)
                for number, options in enumerate((("--threads", 2), ("--threads", 4, "--reader", "pread", "--io", "direct"))):
                    got, status = served(home / f"{method}-{group}-{number}", source, *options)
                    assert got == want, (method, group, options)
        for name, options in (("little", ("--memory", "48M", "--threads", 1)), ("cached", ("--cache", "on")), ("plain", ("--no-entry-points",))):
            got, _ = served(home / name, source, *options)
            assert got == want, name
        views, other = (stream_of(home / f"views-{number}", options=("--threads", "2"), source=where, batch_size=8, image_size=48, views=3, epochs=1)
                        for number, where in enumerate((source, tar)))
        assert views == other and len(views) == 3 * (len(files) // 8 * 8)


def test_samples_that_fit_nowhere():
    """A JPEG may have any bytes after its end: one unpacks to far more than it stores, one is also stored in many bytes."""
    files, _ = images()
    with folder() as home:
        tails = {"zeros": bytes(20 << 20), "noise": random.Random(1).randbytes(10 << 20), "some": bytes(6 << 20)}
        some = list(files[:20])
        for name, tail in tails.items():
            path = home / f"{name}.jpg"
            path.write_bytes(files[0].read_bytes() + tail)
            some += [path] * 2
        tar = tar_of(some, home / "a.tar")
        source = pack(home / "packed/a.tfrecord", some, "deflate", 1)
        want, _ = served(home / "tar", tar, batch_size=4, epochs=1)
        for memory, threads in (("48M", 1), ("1G", 3)):
            got, _ = served(home / memory, source, "--memory", memory, "--threads", threads, batch_size=4, epochs=1)
            assert got == want, memory
        (home / "refused").mkdir()
        with Daemon(home / "refused") as daemon:
            lines = daemon.batches(source=source, epochs=1, max_file_bytes=15 << 20, on_broken="mark", max_broken=1, **{**KEYS, "batch_size": 4})
        assert lines[-1] == "end"
        assert sorted(quarantined(home / "refused", "too-large")) == [20, 21], "those whose own bytes are more, not whose stored bytes are"


def test_damage_is_a_broken_sample():
    files, _ = images()
    with folder() as home:
        source = pack(home / "packed/a.tfrecord", files, "gzip", 1)
        damage(source, 200)
        damage(source, source.stat().st_size - 2000)
        report = json.loads(penstock("check", source, "--json", code=1))
        assert [b["index"] for b in report["broken"]] == [0, len(files) - 1], report["broken"]
        assert all(b["reason"] == "unpack" and "compressed bytes (gzip)" in b["message"] for b in report["broken"]), report["broken"]
        (home / "daemon").mkdir()
        with Daemon(home / "daemon") as daemon:
            lines = daemon.batches(source=source, epochs=1, on_broken="mark", **KEYS, drop_last=0)
            assert lines[-1] == "end", lines
            assert sorted(quarantined(home / "daemon", "unpack")) == [0, len(files) - 1]
            sentence = daemon.trainer(source=source, epochs=1, on_broken="fail", **KEYS, drop_last=0).error()
        assert "(unpack: " in sentence and str(source) in sentence and "damaged" in sentence, sentence


def test_a_shard_that_is_replaced_ends_the_stream():
    files, _ = images()
    with folder() as home:
        source = pack(home / "packed/a.tfrecord", files, "Snappy", 7)
        (home / "daemon").mkdir()
        with Daemon(home / "daemon", "--cache", "off") as daemon:
            trainer = daemon.trainer(source=source, epochs=200, prefetch=2, **KEYS)
            trainer.line()
            os.truncate(source, source.stat().st_size // 2)
            sentence = trainer.error()
        assert str(source) in sentence and ("changed after the dataset was opened" in sentence or "replaced or cut off" in sentence), sentence


def test_buckets():
    """A confined daemon measures packed images, too."""
    files, tar = images()
    keys = {"batch_size": 4, "buckets": [[64, 96], [96, 64], [64, 64]], "epochs": 1}
    with folder() as home:
        source = pack(home / "packed/a.tfrecord", files, "all", 7)
        got = []
        for name, where in (("a", source), ("b", tar)):
            (home / name).mkdir()
            with Daemon(home / name) as daemon, Link(daemon.socket, features=BUCKETS) as link:
                got.append([row for _, batch in link.open(source=where, **keys).read() for row in batch])
        assert got[0] == got[1] and len(got[0]) > 60


def test_commands():
    files, tar = images()
    with folder() as home:
        source = pack(home / "packed/a.tfrecord", files, "all", 5)
        reports = [json.loads(penstock("check", where, "--index", "--json")) for where in (source, tar)]
        assert not reports[0]["broken"], reports[0]
        made = [report["checkpoints"]["made"] + report["checkpoints"]["kept"] for report in reports]
        assert made[0] == made[1] and reports[0]["checkpoints"]["made"], reports
        shown = json.loads(penstock("show", source, "--sample", 3, "-o", home / "sheet.png", "--json"))
        assert (home / "sheet.png").stat().st_size > 1000, shown
        for arguments in ((), ("--buckets", "[[64, 96], [96, 64]]")):
            penstock("plan", source, "--batch-size", 4, "--json", *arguments)
        arguments = ("--seed", 5, "--epoch", 0, "--batch", 2, "--batch-size", 16, "--image-size", 64, "--json")
        one, other = (json.loads(penstock("replay", where, *arguments)) for where in (source, tar))
        assert [r["crc32"] for r in one["rows"]] == [r["crc32"] for r in other["rows"]]
        sizes = []
        for name, where in (("a", source), ("b", tar)):
            penstock("pack", where, home / f"{name}-%06d.tar")
            with tarfile.open(home / f"{name}-000000.tar") as packed:
                sizes.append([packed.extractfile(m).read() for m in packed.getmembers()])
        assert sizes[0] == sizes[1] and len(sizes[0]) == 2 * len(files), (len(sizes[0]), len(files))


if __name__ == "__main__":
    run_tests(globals())

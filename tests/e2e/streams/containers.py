#!/usr/bin/env python3
"""A stream from each kind of container (tests/containers) gives the rows of a tar that has the same images and labels, also after the
daemon was killed and the stream resumed; what the commands say of a container; which sources are refused."""
import io
import json
import lzma
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import LIMIT, Daemon, Link, Refused, Skip, folder, run_tests, tool

LIST, FIXTURES = sys.argv.pop(1), Path(sys.argv.pop(1))
KEYS = {"image_size": 24, "batch_size": 2, "seed": 5, "epochs": 3, "max_broken": 0, "on_broken": "fail"}

# One source of each kind at least; compressed ones, and those whose images are raw pixels.
SOURCES = {
    "parquet/default.parquet": {}, "parquet/split-*.parquet": {}, "parquet/snappy-1-dictionary.parquet": {}, "parquet/zstd-2.parquet": {},
    "parquet/choose.parquet": {"image_column": "back", "label_column": "fine", "label_offset": -1},
    "zip/classes.zip": {}, "zip/deflated.zip": {}, "lmdb/caffe": {}, "lmdb/gray.bin": {}, "mds/jpeg": {"label_offset": 4},
    "mds/pixels": {"image_column": "p"}, "litdata/dict": {}, "tfrecord/train-*-of-00002": {"label_offset": -1}, "tfrecord/tfds": {},
    "recordio/classes.rec": {}, "cifar/cifar-10-batches-py": {}, "cifar/cifar-100-binary": {"label_column": "coarse_labels"},
    "mnist/MNIST/raw": {},
}


ZSTANDARD = [name for name in SOURCES if "zstd" in name]


def lacks_zstandard():
    """Whether the build has no libzstd."""
    said = subprocess.run([tool("penstock"), "--version"], capture_output=True, text=True, check=True, timeout=LIMIT).stdout
    return "Zstandard" not in said[said.index("unpacks: "):]


def fixtures(home):
    """A copy of the fixtures; those that are committed compressed are unpacked."""
    at = home / "fixtures"
    shutil.copytree(FIXTURES, at)
    for packed in at.rglob("*.xz"):
        packed.with_suffix("").write_bytes(lzma.decompress(packed.read_bytes()))
    return at


def listed(home, source, options=(), code=0):
    run = subprocess.run([LIST, home / "cache", *(str(word) for key, value in dict(options).items()
                                                  for word in (f"--{key.replace('_', '-')}", value)), source],
                         capture_output=True, text=True, timeout=LIMIT)
    assert run.returncode == code, (source, run.returncode, run.stderr)
    return [json.loads(line) for line in run.stdout.splitlines()] if code == 0 else run.stderr


def tar_of(home, number, source, options):
    """The path of a tar with the same images and labels in the same order, and the number of samples."""
    path, images = home / f"{number}.tar", home / f"images-{number}"
    images.mkdir()
    _, *samples = listed(home, source, {**options, "bytes": images})
    with tarfile.open(path, "w") as tar:
        for place, sample in enumerate(samples):
            members = [("png", (images / f"{place:06d}").read_bytes())]
            if sample["label"] is not None:
                members.append(("cls", b"%d" % sample["label"]))
            for extension, data in members:
                info = tarfile.TarInfo(f"{place:06d}.{extension}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return path, len(samples)


def rows(got):
    return [row for _, some in got for row in some]


def test_rows_and_resume():
    with folder() as home:
        at = fixtures(home)
        lacking = ZSTANDARD if lacks_zstandard() else []
        if lacking:
            print(f"without {', '.join(lacking)}: this build has no libzstd")
        sources = [(str(at / name), options) for name, options in SOURCES.items() if name not in lacking]
        tars = [tar_of(home, number, *source) for number, source in enumerate(sources)]
        want, begun = [], []
        daemon = Daemon(home, "--memory", "1G")
        with Link(daemon.socket) as link:
            for (source, options), (tar, samples) in zip(sources, tars):
                stream = link.open(source=tar, **KEYS)
                whole = rows(stream.read())
                stream.close()
                assert len(whole) == 3 * (samples // 2 * 2), (source, len(whole), samples)
                want.append(whole)
                # The first epoch and a batch of the second, where there is one.
                stream = link.open(source=source, **options, **KEYS)
                got = stream.read(samples // 2 + 1)
                assert rows(got) == whole[:2 * len(got)], source
                begun.append((2 * len(got), stream.state(got[-1][0])))
                stream.close()
        assert daemon.stop(signal.SIGKILL) == -signal.SIGKILL
        with Daemon(home, "--memory", "1G") as daemon, Link(daemon.socket) as link:
            for (source, options), whole, (done, state) in zip(sources, want, begun):
                stream = link.open(source=source, state=state, **options, **KEYS)
                assert rows(stream.read()) == whole[done:], source
                stream.close()


def penstock(home, *arguments):
    run = subprocess.run([tool("penstock"), *map(str, arguments)], capture_output=True, text=True, timeout=LIMIT)
    assert run.returncode == 0, (arguments, run.stdout[-1000:], run.stderr[-2000:])
    return json.loads(run.stdout)


def test_commands():
    with folder() as home:
        at = fixtures(home)
        for number, name in enumerate(("parquet/snappy-1-dictionary.parquet", "zip/deflated.zip", "mds/jpeg", "parquet/choose.parquet")):
            source, options = at / name, SOURCES[name]
            columns = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", value)]
            tar, samples = tar_of(home, number, source, options)
            report = penstock(home, "check", source, *columns, "--json")
            assert report["samples"] == samples and not report["broken"], report
            plan = penstock(home, "plan", source, *columns, "--batch-size", 2, "--json")
            assert plan["samples"] == samples, plan
            penstock(home, "show", source, *columns, "--sample", 1, "-o", home / f"{number}.png", "--json")
            one, other = (penstock(home, "replay", where, *more, "--seed", 3, "--epoch", 1, "--batch", 1, "--batch-size", 2, "--image-size", 24,
                                   "--json") for where, more in ((source, columns), (tar, ())))
            assert [row["crc32"] for row in one["rows"]] == [row["crc32"] for row in other["rows"]], name


def test_without_zstandard():
    if not lacks_zstandard():
        raise Skip("this build has libzstd")
    with folder() as home:
        at = fixtures(home)
        with Daemon(home, "--memory", "1G") as daemon, Link(daemon.socket) as link:
            for name in ZSTANDARD:
                try:
                    link.open(source=str(at / name), **KEYS).read()
                except Refused as refused:
                    assert f"{at / name}: byte " in refused.sentence, refused.sentence
                    assert "Zstandard, and this penstock was built without libzstd: build it with libzstd-dev" in refused.sentence, refused.sentence
                else:
                    raise AssertionError(f"{name} was read without libzstd")


def test_refused():
    unread = {"a.h5": (b"\x89HDF\r\n\x1a\n", "is an HDF5 file"), "a.sqfs": (b"hsqs", "mount it"), "a.rar": (b"Rar!\x1a\x07\0", "unpack it"),
              "a.feather": (b"ARROW1\0\0", "save the dataset as Parquet"), "a.pkl": (b"\x80\4\x95", "never unpickled"),
              "a.npy": (b"\x93NUMPY\1\0", "is a NumPy array"), "a.tar.gz": (b"\x1f\x8b\x08", "gunzip"),
              "a.array_record": (bytes.fromhex("83af70d10d884a3f"), "ArrayRecord"), "a.beton": (b"\2\0\3\0", "a dataset of FFCV")}
    with folder() as home:
        at = fixtures(home)
        for name, (data, says) in unread.items():
            (home / name).write_bytes(data.ljust(1024, b"\0"))
            assert says in listed(home, home / name, code=1), (name, listed(home, home / name, code=1))
        for source, options, says in (
                (f"{{{at}/tar/shard.tar,{at}/zip/classes.zip}}", {}, "shard.tar (WebDataset tar) and "),
                (f"{{{at}/zip/classes.zip,{at}/tar/shard.tar}}", {}, "are of different kinds"),
                (f"{{{at}/zip/classes.zip,{at}/zip/train.zip}}", {}, 'differ: class 0 is "a" in the first and "n1" in the second'),
                (at / "zip/classes.zip", {"image_column": "x"}, "it has no columns: leave out image_column"),
                (at / "mds/jpeg", {"label_offset": -1}, "label")):
            assert says in listed(home, source, options, code=1), (source, listed(home, source, options, code=1))
        # With the index of each at hand, too: an index says of which kind it is.
        for name in ("tar/shard.tar", "zip/classes.zip"):
            listed(home, at / name)
        assert "are of different kinds" in listed(home, f"{{{at}/tar/shard.tar,{at}/zip/classes.zip}}", code=1)


if __name__ == "__main__":
    run_tests(globals())

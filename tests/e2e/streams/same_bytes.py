"""Same seed, same bytes: for 1, 2 and 4 threads, io_uring and pread, buffered and direct, folder and tar, alone and in company, with any number of
slots and in every run."""
import subprocess
import sys
import tarfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import Daemon, folder, make_dataset, rows, run_tests, tool


def tar_of(source, path):
    """A tar of the folder's files in their order in the folder, labels as .cls: the same keys, the same order."""
    classes = sorted(p.name for p in source.iterdir())
    files = sorted((p for p in source.rglob("*.jpg")), key=lambda p: (p.parent.name, p.name))
    with tarfile.open(path, "w") as tar:
        for file in files:
            name = file.relative_to(source)
            tar.add(file, arcname=str(name))
            label = path.with_suffix(".cls")
            label.write_text(str(classes.index(name.parts[0])))
            tar.add(label, arcname=str(name.with_suffix(".cls")))
            label.unlink()


def digest(home, source, options=(), **keys):
    home.mkdir(exist_ok=True)
    with Daemon(home, *options) as daemon:
        lines = daemon.batches(source=source, image_size=64, batch_size=16, epochs=2, seed=7, **keys)
        assert lines[-1] == "end", lines[-1]
        return rows(lines)


def test_threads_readers_and_sources_give_the_same_bytes():
    with folder() as home:
        source = make_dataset(home / "images", per_class=30)
        tar_of(source, home / "images.tar")
        reference = digest(home / "r", source, ("--threads", 1, "--reader", "pread", "--io", "buffered"))
        assert len(reference) == 2 * (90 // 16)
        assert len({line.split()[3] for line in reference}) == len(reference), "every batch must have bytes of its own"
        n = 0
        for threads in (1, 2, 4):
            for reader in ("io_uring", "pread"):
                for where in (source, home / "images.tar"):
                    n += 1
                    got = digest(home / str(n), where, ("--threads", threads, "--reader", reader))
                    assert got == reference, f"{threads} threads, {reader}, {where}"
        for io in ("direct", "buffered"):
            for reader in ("io_uring", "pread"):
                n += 1
                assert digest(home / str(n), home / "images.tar", ("--reader", reader, "--io", io)) == reference, f"{io} {reader}"
        assert digest(home / "slots", source, prefetch=9) == reference, "slots"
        assert digest(home / "little", source, ("--memory", "48M")) == reference, "memory"


def test_another_seed_or_epoch_gives_other_bytes():
    with folder() as home:
        source = make_dataset(home / "images", per_class=30)
        with Daemon(home) as daemon:
            runs = [daemon.batches(source=source, image_size=64, batch_size=16, epochs=2, seed=seed) for seed in (0, 1)]
            half = len(rows(runs[0])) // 2
            assert rows(runs[0]) != rows(runs[1])
            assert [r.split()[3:] for r in rows(runs[0])[:half]] != [r.split()[3:] for r in rows(runs[0])[half:]]


def test_replay_makes_the_served_rows_again():
    with folder() as home:
        source = make_dataset(home / "images", per_class=30)
        raw = home / "raw"
        with Daemon(home) as daemon:
            daemon.batches(source=source, image_size=64, batch_size=16, batches=3, seed=5, raw=raw)
        import json
        import struct
        import zlib
        data = raw.read_bytes()
        size = 64 + 64 * 64 * 3
        replayed = json.loads(subprocess.run([tool("penstock"), "replay", str(source), "--seed", "5", "--epoch", "0", "--batch", "2",
                                              "--batch-size", "16", "--image-size", "64", "--json"], capture_output=True, check=True).stdout)
        for i, row in enumerate(replayed["rows"]):
            at = (32 + i) * size
            index, label = struct.unpack_from("<Qq", data, at)
            assert row["index"] == index and row["label"] == label, row
            assert int(row["crc32"], 16) == zlib.crc32(data[at + 64:at + size]), row


if __name__ == "__main__":
    run_tests(globals())

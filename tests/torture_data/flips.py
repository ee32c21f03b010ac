"""Flips every byte of an index, as a whole and by one bit: the samples are the same as before, or an error names the index and says what to
do. Flips every byte of the entry points, of a flight recorder's file and of a pack's manifest: no wrong pixel and no crash."""
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from harness import CLOSE, LIMIT, NIGHTLY, SLOW, Daemon, Link, folder, make_dataset, message, promise, run_tests, tool  # noqa: E402

STEP = 1 if NIGHTLY else 41 if SLOW == 1 else 211  # each how manyeth byte
SMALL = {"batch_size": 16, "image_size": 24, "drop_last": False}
figures = []


def say(text):
    figures.append(text)
    print(f"    {text}", flush=True)


def torture(*arguments, code=0):
    done = subprocess.run([tool("torture_data"), *map(str, arguments)], capture_output=True, text=True, timeout=40 * LIMIT, check=False)
    assert done.returncode == code, f"torture_data {arguments}: {done.returncode} {done.stderr[-2000:]}"
    return done.stdout


def flip(source, cache, index, *more):
    torture("dump", source, cache, *more)
    index = index() if callable(index) else index
    torture("dump", source, cache, *more)
    flips, same, refused = map(int, torture("flip", source, cache, index, STEP, *more).split()[::2])
    assert flips == same + refused and flips >= 2 * (index.stat().st_size // STEP), (flips, same, refused)
    return flips, same, refused, index.stat().st_size


def told(what, answer):
    flips, same, refused, size = answer
    say(f"{what} of {size} bytes: {flips} flips, {same} the same, {refused} refused with a word")
    assert refused > 0, "pages that are read late are refused"


def test_an_index_of_a_tar():
    with folder() as home:
        make_dataset(home / "tars", per_class=50, tars=True, per_shard=1000, min_side=16, max_side=24)
        tar, = (home / "tars").glob("*.tar")
        told("a tar's index", flip(tar, home / "cache", Path(f"{tar}.idx")))


def test_an_index_of_a_folder():
    with folder() as home:
        make_dataset(home / "images", per_class=50, min_side=16, max_side=24)
        told("a folder's index", flip(home / "images", home / "cache", lambda: next((home / "cache").glob("*.idx"))))


def test_an_index_with_labels_of_a_manifest():
    with folder() as home:
        make_dataset(home / "images", per_class=20, min_side=16, max_side=24)
        files = sorted((home / "images").rglob("*.jpg"))
        lines = [f"{f.relative_to(home / 'images')},{i % 7};{7 + i % 3}" for i, f in enumerate(files)]
        (home / "labels.csv").write_text("path,labels\n" + "\n".join(lines) + "\n")
        told("an index with rows of labels", flip(home / "images", home / "cache", lambda: next((home / "cache").glob("*labels*.idx")),
                                                  home / "labels.csv"))


# ---- in a daemon ----

def rows_of(link, source, seed=0):
    """Every row of an epoch: (position, content) in order; the record has the sample's number and flags."""
    stream = link.open(source=source, seed=seed, epochs=1, **SMALL)
    try:
        return [(r.position, r.flags, r.index, r.content) for _, rows in stream.read() for r in rows]
    finally:
        stream.forget()  # its memory would count as held, and so would that of one that has ended with an error
        link.send(message(CLOSE, stream=stream.number))


def damages(random_, data, step, begin=0):
    for at in range(begin, len(data), step):
        for mask in (0xff, 1 << random_.randrange(8)):
            yield at, mask


def test_indexes_by_a_daemon():
    """The same of whole daemons, of bytes here and there."""
    random_ = random.Random(7)
    refused = same = 0
    with folder() as home:
        make_dataset(home / "images", per_class=50, min_side=16, max_side=24)
        make_dataset(home / "tars", per_class=50, tars=True, per_shard=1000, min_side=16, max_side=24)
        sources = [home / "images", home / "tars/*.tar"]
        with Daemon(home, "--threads", "1", "--no-entry-points", "--cache", "off") as daemon:
            with Link(daemon.socket) as link:
                want = [rows_of(link, s) for s in sources]
                indexes = [next((home / "cache").rglob("*.idx")), next((home / "tars").glob("*.idx"))]
                for source, expected, index in zip(sources, want, indexes):
                    data = index.read_bytes()
                    for _ in range(400 if NIGHTLY else 8):
                        at, mask = random_.randrange(len(data)), random_.choice((0xff, 1 << random_.randrange(8)))
                        index.unlink()
                        index.write_bytes(data[:at] + bytes([data[at] ^ mask]) + data[at + 1:])
                        try:
                            assert rows_of(link, source) == expected, f"byte {at} of {index} ^ {mask}"
                            same += 1
                        except Exception as error:
                            if type(error).__name__ != "Refused":
                                raise
                            assert index.name in str(error) and "delete the index" in str(error), error
                            refused += 1
                        index.unlink(missing_ok=True)
                        for extra in (home / "cache").rglob("*.idx"):
                            extra.unlink()
                        index.write_bytes(data)
                        assert rows_of(link, source) == expected, "with the index as it was"
    say(f"indexes by a daemon: {same + refused} flips, {same} the same, {refused} refused with a word")


def test_entry_points():
    """Each byte of every sample's place and of the head: the rows are those without entry points."""
    random_ = random.Random(8)
    rounds = 0
    with folder() as home:
        make_dataset(home / "tars", per_class=6, tars=True, per_shard=1000, min_side=90, max_side=160)
        tar, = (home / "tars").glob("*.tar")
        sidecar = Path(f"{tar}.ckp")
        with Daemon(home, "--threads", "1", "--no-entry-points", "--cache", "off") as daemon, Link(daemon.socket) as link:
            want = rows_of(link, tar)
        with Daemon(home, "--threads", "1", "--cache", "off") as daemon, Link(daemon.socket) as link:
            for _ in range(2):
                assert rows_of(link, tar) == want
            data = sidecar.read_bytes()
            places = [i for i in range(4096, len(data), 8) if data[i:i + 8].strip(b"\0")]
            assert len(places) > 20, "some were written"
            # A packs' beginnings are not known here: each byte that is not zero, some of each at once where their distance is a place's
            # room and more, so that each sample meets one.
            filled = [i for i in range(4096, len(data)) if data[i]]
            groups = 512  # larger than a small sample's room
            for offset in range(0, groups, 1 if NIGHTLY else 16 if SLOW == 1 else 64):
                for mask in (0xff, 1 << random_.randrange(8)):
                    flipped = bytearray(data)
                    for i in filled:
                        if i % groups == offset:
                            flipped[i] ^= mask
                    with open(sidecar, "r+b") as file:
                        file.write(flipped)
                    assert rows_of(link, tar) == want, f"bytes {offset} + {groups} n flipped by {mask}"
                    rounds += 1
        for at in range(0, 64, 1 if NIGHTLY else 9):
            flipped = bytearray(data)
            flipped[at] ^= 0xff
            sidecar.write_bytes(flipped)
            with Daemon(home, "--threads", "1", "--cache", "off") as daemon, Link(daemon.socket) as link:
                assert rows_of(link, tar) == want, f"byte {at} of the head"
            rounds += 1
    say(f"entry points of {len(data)} bytes: {rounds} rounds, {len(filled)} bytes in use: the rows of none")


def command(home, *arguments):
    environment = {**os.environ, "XDG_CACHE_HOME": str(home / "cache"), "XDG_STATE_HOME": str(home / "state")}
    return subprocess.run([tool("penstock"), *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=4 * LIMIT, check=False)


def test_a_recorders_file():
    """why reads what is left, or says that it is no such file; ring_dump never shows an entry that was not written."""
    random_ = random.Random(9)
    with folder() as home:
        with Daemon(home, "--threads", "1") as daemon:
            make_dataset(home / "images", per_class=4, min_side=16, max_side=24)
            with Link(daemon.socket) as link:
                rows_of(link, home / "images")
                while not (daemon.status()["recorder"] or {}).get("writes"):
                    pass
        ring, = (home / "state/penstock").glob("*.ring")
        data = ring.read_bytes()
        used = [i for i in range(len(data)) if data[i]]
        dump = subprocess.run([tool("ring_dump"), str(ring)], capture_output=True, text=True, check=True).stdout
        entries = set(dump.splitlines())
        assert len(entries) > 3
        picked = used if NIGHTLY else used[::97] if SLOW == 1 else used[::391]
        read = refused = 0
        for i in picked:
            ring.write_bytes(data[:i] + bytes([data[i] ^ 0xff]) + data[i + 1:])
            got = subprocess.run([tool("ring_dump"), str(ring)], capture_output=True, text=True, check=False)
            assert got.returncode in (0, 1), (i, got)
            assert got.returncode == 0 and set(got.stdout.splitlines()) <= entries or got.stderr, (i, got)
            read, refused = read + (got.returncode == 0), refused + (got.returncode == 1)
            if i in picked[::25] or i < 16:
                why = command(home, "why")
                assert why.returncode in (0, 1) and (why.stdout or why.stderr.startswith("penstock: ")), (i, why)
    say(f"a recorder's file: {len(picked)} bytes flipped: {read} read without the entry, {refused} refused with a word")


def test_a_packs_manifest():
    """A pack that goes on from a damaged manifest makes what it would have made, or refuses; what it made before is never overwritten."""
    random_ = random.Random(10)
    resumed = refused = 0
    with folder() as home:
        images = make_dataset(home / "images", per_class=24, min_side=64, max_side=120)
        out = home / "out"
        out.mkdir()
        arguments = ("pack", images, out / "x-%03d.tar", "--shard-size", "64K", "--json")
        assert command(home, *arguments).returncode == 0
        whole = {p.name: p.read_bytes() for p in out.iterdir() if p.suffix in (".tar", ".json")}
        path, last = out / "x.pack.json", max(n for n in whole if n.endswith(".tar"))
        # As it was before the last shard: the journal of a pack that was killed.
        record = json.loads(whole[path.name])
        assert len(record["shards"]) > 2 and record["complete"]
        data = whole[path.name].replace(b'"complete": true', b'"complete": false').replace(b'"complete":true', b'"complete":false')
        assert data != whole[path.name]
        picked = range(0, len(data), 1 if NIGHTLY else 41 if SLOW == 1 else 211)
        for i in picked:
            for mask in (0xff, 1 << random_.randrange(8)):
                for stale in out.iterdir():
                    if stale.name not in whole:
                        stale.unlink()
                path.write_bytes(data[:i] + bytes([data[i] ^ mask]) + data[i + 1:])
                answer = command(home, *arguments)
                tars = {p.name: p.read_bytes() for p in out.glob("*.tar")}
                assert tars == {n: b for n, b in whole.items() if n.endswith(".tar")}, f"byte {i} ^ {mask}: the shards stay"
                if answer.returncode == 0:
                    assert path.read_bytes() == whole[path.name], f"byte {i} ^ {mask}: the manifest is what it would have been"
                    resumed += 1
                else:
                    assert answer.returncode in (1, 2) and answer.stderr.startswith("penstock: "), (i, answer)
                    refused += 1
        shutil.rmtree(out)
    say(f"a pack's manifest of {len(data)} bytes: {resumed + refused} flips: {resumed} went on, {refused} refused with a word")
    assert refused > resumed


def test_z_figures():
    assert not NIGHTLY or len(figures) == 7, figures
    promise("; ".join(figures))


if __name__ == "__main__":
    run_tests(globals())

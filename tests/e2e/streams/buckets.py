"""buckets: every batch has one shape, that of its images; what comes does not depend on batch size, ranks or threads; states go on exactly in
the middle of an epoch at others; pixels are Pillow's; plan, state and replay say the same; bad input."""
import contextlib
import errno
import itertools
import json
import math
import random
import struct
import subprocess
import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import BUCKETS, LAST, PADDED, Daemon, Link, Skip, folder, make_dataset, run_tests, tool
from shapes import made
from stream_checks import refused

SAMPLES = 60
SIZES = [[32, 24], [28, 28], [24, 32], [16, 40]]


@contextlib.contextmanager
def served(*options, tars=False):
    with folder() as home:
        source = make_dataset(home / "images", classes=3, per_class=20, min_side=32, max_side=90, tars=tars)
        with Daemon(home, *(options or ("--threads", "2"))) as daemon:
            yield home, daemon, f"{source}/*.tar" if tars else source


def bucket_of(row, sizes=SIZES):
    """By the record's size of the source: the nearest ratio in log; the first of equal ones."""
    width, height = struct.unpack_from("<II", row.record, 32)
    return min(range(len(sizes)), key=lambda b: (abs(math.log(width / height) - math.log(sizes[b][1] / sizes[b][0])), b))


def batches_of(stream, limit=None):
    """[(batch, rows)], each checked: one shape, that of its samples."""
    stream.opened()
    got = []
    while limit is None or len(got) < limit:
        batch = stream.next()
        if batch is None:
            break
        rows = made(stream, batch, placed=False)
        size = {(row.height, row.width) for row in rows}
        assert len(size) == 1 and [list(size.pop())] == [SIZES[bucket_of(rows[0])]]
        assert len({bucket_of(row) for row in rows}) == 1
        got.append((batch, rows))
        stream.release(batch)
    return got


def state_after(stream, batch):
    """As libpenstock writes it."""
    state = stream.state(batch)
    whole = [[0, stream.info.batch_size * stream.info.world_size]]
    return {**state, "cuts": stream.cuts if state["epoch"] == stream.info.epoch else whole}


def real(batches):
    return [row for _, rows in batches for row in rows if not row.flags & PADDED]


def by_bucket(rows):
    """The rows of each bucket, in the order in which they came: that of their positions."""
    found = {b: [row for row in rows if bucket_of(row) == b] for b in range(len(SIZES))}
    return found


def read_ranks(daemon, world_size, limit=None, **keys):
    """[[(batch, rows)] of each rank], read in step; the streams stay open until the caller leaves."""
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(Link(daemon.socket, features=BUCKETS)) for _ in range(world_size)]
        shared = {"group": f"g{next(NUMBERS)}", "share": "split", "world_size": world_size} if world_size > 1 else {}
        streams = [link.open(**keys, **shared, **({"rank": r} if shared else {})) for r, link in enumerate(links)]
        got = [batches_of(stream, limit) for stream in streams]
        states = [state_after(stream, batches[-1][0]) for stream, batches in zip(streams, got) if batches]
        return got, states


NUMBERS = itertools.count()


def check_steps(ranks):
    """At each step all ranks have batches of one shape and the same name."""
    assert len({len(batches) for batches in ranks}) == 1
    for step in zip(*ranks):
        assert len({(batch.epoch, batch.batch, batch.flags, rows[0].height, rows[0].width) for batch, rows in step}) == 1


def test_each_batch_has_one_shape_and_each_sample_comes_once():
    with served() as (_, daemon, source):
        keys = dict(source=source, buckets=SIZES, seed=3, epochs=2)
        plain = None
        for world_size, batch_size, drop_last in ((1, 1, False), (1, 4, False), (1, 5, True), (2, 3, False), (3, 2, True)):
            ranks, _ = read_ranks(daemon, world_size, batch_size=batch_size, drop_last=drop_last, **keys)
            check_steps(ranks)
            whole = world_size * batch_size
            for epoch in (0, 1):
                rows = [row for batches in ranks for row in real(batches) if row.epoch == epoch]
                counts = {b: len(rows) for b, rows in by_bucket(rows).items()}
                if plain is None:
                    plain, sizes = {}, counts
                plain.setdefault(epoch, {row.position: row for row in rows})
                assert len({row.index for row in rows}) == len(rows)
                for row in rows:
                    assert row == plain[epoch][row.position], "a sample's row depends on neither batch size nor ranks"
                assert counts == {b: n - n % whole if drop_last else n for b, n in sizes.items()}
                batches = [batch for batch, _ in ranks[0] if batch.epoch == epoch]
                assert len(batches) == sum(n // whole if drop_last else -(-n // whole) for n in sizes.values())
                assert [batch.batch for batch in batches] == list(range(len(batches)))
                order = [rows[0].height for batch, rows in ranks[0] if batch.epoch == epoch]
                assert len(batches) < 12 or order != sorted(order, key=order.index), "the shapes are mixed"
        assert all(sizes.values()) and sum(sizes.values()) == SAMPLES
        first, second = ([plain[e][p].index for p in sorted(plain[e])] for e in (0, 1))
        assert first != second and sorted(first) == sorted(second) == list(range(SAMPLES))
        # Evaluation: in order, one bucket after the other, short batches at the end of each.
        with Link(daemon.socket, features=BUCKETS) as link:
            got = batches_of(link.open(source=source, buckets=SIZES, train=False, batch_size=7, epochs=1))
            for b, rows in by_bucket(real(got)).items():
                assert [row.index for row in rows] == sorted(row.index for row in rows)
            assert [bucket_of(rows[0]) for _, rows in got] == sorted(bucket_of(rows[0]) for _, rows in got)
            assert sorted(row.index for row in real(got)) == list(range(SAMPLES))


def test_states_go_on_at_other_batch_sizes_ranks_and_threads():
    """18 chains of three runs, each with its own batch size, world size and number of threads: the rest of the epoch is what an undisturbed
    stream would still deliver, bucket by bucket in its order, and the next epoch is whole."""
    with folder() as home:
        source = make_dataset(home / "images", classes=3, per_class=20, min_side=32, max_side=90)
        with contextlib.ExitStack() as stack:
            daemons = []
            for threads in (1, 2, 3):
                (home / str(threads)).mkdir()
                daemons.append(stack.enter_context(Daemon(home / str(threads), "--threads", threads)))
            for drop_last, shuffle in ((False, True), (True, True), (False, False)):
                keys = dict(source=source, buckets=SIZES, seed=5, drop_last=drop_last, shuffle=shuffle, epochs=2)
                one, _ = read_ranks(daemons[0], 1, batch_size=1, **keys)
                order = {e: by_bucket([row for row in real(one[0]) if row.epoch == e]) for e in (0, 1)}
                for turn in range(6):
                    chain = random.Random(f"{drop_last} {shuffle} {turn}")
                    state, seen = {}, {b: [] for b in range(len(SIZES))}
                    for run in range(3):
                        world_size, batch_size = chain.choice((1, 1, 2, 3)), chain.randrange(1, 6)
                        limit = chain.randrange(1, 5) if run < 2 else None
                        ranks, states = read_ranks(daemons[(turn + run) % 3], world_size, limit, batch_size=batch_size, **keys, **state)
                        check_steps(ranks)
                        for step in zip(*ranks):
                            for batch, rows in step:
                                for row in rows:
                                    if batch.epoch == 0 and not row.flags & PADDED:
                                        seen[bucket_of(row)].append(row)
                        assert len({json.dumps({**each, "position": 0}) for each in states}) == 1, "all ranks have one state"
                        state = {"state": states[0]}
                        if states[0]["epoch"] > 0:
                            break
                    for b, rows in seen.items():
                        whole = world_size * batch_size
                        assert rows == order[0][b][:len(rows)], (turn, b, "in the order of the bucket, nothing lost or twice")
                        assert len(order[0][b]) - len(rows) < (whole if drop_last else 1), (turn, b, state)
                    if limit is None:
                        rows = sorted((row for batches in ranks for row in real(batches) if row.epoch == 1), key=lambda row: row.position)
                        left = {b: len(n) - len(n) % (whole if drop_last else 1) for b, n in order[1].items()}
                        assert by_bucket(rows) == {b: order[1][b][:n] for b, n in left.items()}


def test_a_run_that_stops_goes_on_with_the_same_batches():
    with served() as (_, daemon, source):
        keys = dict(source=source, buckets=SIZES, seed=8, batch_size=4, epochs=2, drop_last=False)
        with Link(daemon.socket, features=BUCKETS) as link:
            stream = link.open(**keys)
            all_rows = batches_of(stream)
            for at in range(len(all_rows)):
                again = link.open(**keys, state=state_after(stream, all_rows[at][0]))
                rest = batches_of(again)
                again.close()
                assert [rows for _, rows in rest] == [rows for _, rows in all_rows[at + 1:]], at
                assert [(b.epoch, b.batch, b.position) for b, _ in rest] == [(b.epoch, b.batch, b.position) for b, _ in all_rows[at + 1:]]


def test_pixels_are_pillows():
    try:
        import numpy
        from PIL import Image
        import PIL
    except ImportError as missing:
        raise Skip(f"{missing} (scripts/install-deps makes a virtual environment with Pillow and numpy)")
    if int(PIL.__version__.split(".")[0]) < 13:
        raise Skip(f"Pillow {PIL.__version__} resizes in another order than 13")
    with served() as (_, daemon, source):
        files = sorted(source.rglob("*.jpg"))
        lists = {"train": {}, "resize": {"transforms": [{"Resize": {"size": [9, 9]}}]}, "evaluation": {"train": False}}
        for name, keys in lists.items():
            with Link(daemon.socket, features=BUCKETS) as link:
                for row in real(batches_of(link.open(source=source, buckets=SIZES, batch_size=6, epochs=1, drop_last=False, **keys))):
                    x, y, w, h = struct.unpack_from("<IIII", row.record, 16)
                    image = Image.open(files[row.index]).convert("RGB").crop((x, y, x + w, y + h))
                    height, width = row.height, row.width
                    if name == "evaluation":
                        big = [int(side * 256 / 224) for side in (height, width)]
                        if height == width:
                            short, long = sorted(image.size)
                            big = [big[0] if w >= h else int(big[0] * h / w), big[0] if w <= h else int(big[0] * w / h)]
                        top, left = (int(round((a - b) / 2.0)) for a, b in zip(big, (height, width)))
                        image = image.resize(big[::-1], Image.BILINEAR).crop((left, top, left + width, top + height))
                    else:
                        image = image.resize((width, height), Image.BILINEAR)
                    if row.flags & 1:
                        image = image.transpose(Image.FLIP_LEFT_RIGHT)
                    assert numpy.asarray(image).tobytes() == row.pixels, (name, row.index)


def command(*arguments, code=0):
    done = subprocess.run([tool("penstock"), *map(str, arguments)], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return json.loads(done.stdout) if "--json" in arguments and code == 0 else done.stdout + done.stderr


def test_commands_say_what_comes():
    with served(tars=True) as (home, daemon, source):
        keys = dict(source=source, buckets=SIZES, seed=4, batch_size=4, drop_last=True)
        options = ["--buckets", json.dumps(SIZES), "--seed", 4, "-b", 4]
        with Link(daemon.socket, features=BUCKETS) as link:
            stream = link.open(**keys, epochs=2)
            got = batches_of(stream)
            info = stream.info
            first = [(batch, rows) for batch, rows in got if batch.epoch == 0]
            told = command("plan", source, *options, "--json")
            assert told["batches"] == info.batches == len(first) and told["samples_used"] == info.epoch_samples == 4 * len(first)
            assert [[b["height"], b["width"]] for b in told["buckets"]] == SIZES and sum(b["samples"] for b in told["buckets"]) == SAMPLES
            sizes = [(rows[0].height, rows[0].width) for _, rows in first]
            assert [b["batches"] for b in told["buckets"]] == [sizes.count(tuple(size)) for size in SIZES]
            assert told["ranks"][0]["first_samples"] == [row.index for row in first[0][1][:3]]
            assert "32 x 24" in command("plan", source, *options)
            # Memory: a slot is as large as the largest shape needs, not as a square around all of them.
            assert told["memory"]["slot_bytes"] <= 4096 * -(-(4096 + 4 * (28 * 28 * 3 + 64 + 8) + 200) // 4096)
            state = state_after(stream, first[2][0])
            (home / "taken").write_text(json.dumps(state))
            told = command("state", home / "taken", source, *options, "--json")
            assert told["fits"] and told["next"]["batch"] == 3 and told["next"]["bucket"] == list(sizes[3]) and told["cuts"] == [[0, 4]]
            assert told["next"]["ranks"][0]["first_sample"] == first[3][1][0].index
            other = command("state", home / "taken", source, *options[:-2], "-b", 3, "--json")
            assert other["fits"] and not other["next"]["aligned"] and other["next"]["samples_left"] <= SAMPLES - 12
            assert command("plan", source, *options, "--state", home / "taken", "--json")["from"]["batches_left"] == len(first) - 3
            for number in (0, 3, len(first) - 1):
                told = command("replay", source, *options, "--epoch", 0, "--batch", number, "--json")["rows"]
                assert [int(row["crc32"], 16) for row in told] == [zlib.crc32(row.pixels) for row in first[number][1]]
            row = first[0][1][0]
            box = ",".join(map(str, struct.unpack_from("<IIII", row.record, 16)))
            told = command("replay", source, *options, "--index", row.index, "--crop", box, *(["--flip"] if row.flags & 1 else []), "--json")
            assert int(told["rows"][0]["crc32"], 16) == zlib.crc32(row.pixels)
            (shown,) = [s for s in daemon.status()["streams"]]
            assert shown["buckets"] == SIZES and sum(shown["bucket_samples"]) == SAMPLES
            # What CONFIG says opens the same.
            again = link.open(**{**json.loads(stream.query(6)), "epochs": 1})
            assert [rows for _, rows in batches_of(again)] == [rows for _, rows in first]


def test_subsets_repeats_and_groups():
    with served() as (home, daemon, source):
        keys = dict(source=source, buckets=SIZES, seed=2, batch_size=3, epochs=1, drop_last=False)
        with Link(daemon.socket, features=BUCKETS) as link:
            split = real(batches_of(link.open(**keys, split="[:50%]")))
            rest = real(batches_of(link.open(**keys, split="[50%:]")))
            assert sorted(row.index for row in split + rest) == list(range(SAMPLES))
            twice = real(batches_of(link.open(**keys, repeats=2)))
            for rows in by_bucket(twice).values():
                for i in range(0, len(rows) - 1, 2):
                    assert rows[i].index == rows[i + 1].index
        with Link(daemon.socket, features=BUCKETS) as one, Link(daemon.socket, features=BUCKETS) as other:
            streams = [link.open(**{**keys, "epochs": 2}, group="both", wait_for=2) for link in (one, other)]
            ours = [[], []]
            for _ in range(2 * 20):  # in turn: a batch stays until both have released it
                for got, stream in zip(ours, streams):
                    got += batches_of(stream, 1)
            assert [rows for _, rows in ours[0]] == [rows for _, rows in ours[1]] and len(ours[0]) >= 2 * 20


def test_bad_input():
    with served() as (home, daemon, source):
        many = [[100, 100 + i] for i in range(65)]
        cases = [
            ({"buckets": []}, "expected 1 to 64 sizes", "got 0"), ({"buckets": many}, "got 65"),
            ({"buckets": 224}, "expected a list of sizes"), ({"buckets": {"a": 1}}, "expected a list of sizes"),
            ({"buckets": [[32, 24], [64, 48]]}, "64 x 48", "32 x 24", "leave one of them out"),
            ({"buckets": [[0, 24]]}, "size of a bucket", "from 1 to"), ({"buckets": [[32, 24, 3]]}, "a list of two"),
            ({"buckets": [["a", 24]]}, "size of a bucket"), ({"buckets": [[32.5, 24]]}, "size of a bucket"),
            ({"buckets": [[100000, 24]]}, "size of a bucket", "100000"), ({"image_size": 32}, "beside image_size"),
            ({"weights": "balanced"}, "beside weights"), ({"epoch_length": 30}, "beside epoch_length"),
            ({"sampling": {"classes": 2, "per_class": 2}}, "beside sampling"), ({"views": [{"count": 1}, {"count": 2}]}, "groups of views"),
            ({"transforms": [{"Resize": {"size": 40}}, {"CenterCrop": {"size": 32}}]}, "not of a crop"),
            ({"transforms": [{"RandomResizedCrop": {"size": 99}}, {"GaussianBlur": {"kernel_size": 51}}]}, "GaussianBlur"),
            ({"batch_size": 61}, "each bucket has", "fewer than one batch"),
        ]
        with Link(daemon.socket, features=BUCKETS) as link:
            for keys, *words in cases:
                with refused(errno.EINVAL, *words):
                    link.open(**{"source": source, "buckets": SIZES, "batch_size": 4, **keys}).opened()
            mixed = [{"source": str(source), "weight": 1}, {"source": str(source), "weight": 2}]
            with refused(errno.EINVAL, "beside sources"):
                link.open(sources=mixed, buckets=SIZES).opened()
            # Buckets that no sample fits are a warning with counts.
            stream = link.open(source=source, buckets=[*SIZES, [500, 2]], batch_size=4)
            stream.opened()
            assert any("500 x 2 (0)" in sentence for sentence in json.loads(stream.query(2))["warnings"])
            keys = dict(source=source, buckets=SIZES, batch_size=4, drop_last=False)
            stream = link.open(**keys)
            state = state_after(stream, batches_of(stream, 3)[-1][0])
            for change, code, *words in (
                    ({"cuts": [[0, 5]]}, errno.ESTALE, "position 12", "with the cuts"), ({"position": 13}, errno.ESTALE, "position 13"),
                    ({"cuts": [[4, 4]]}, errno.ESTALE, "cuts"), ({"cuts": []}, errno.EINVAL, "1 to 8 cuts"),
                    ({"cuts": [[0, 4]] * 9}, errno.EINVAL, "1 to 8 cuts"), ({"cuts": [[0, 0]]}, errno.EINVAL, "global batch"),
                    ({"cuts": [[0]]}, errno.EINVAL, "[position, global batch]"), ({"cuts": "x"}, errno.EINVAL, "1 to 8 cuts"),
                    ({"position": 4 * 1000}, errno.ESTALE, "position 4000")):
                with refused(code, *words):
                    link.open(**keys, state={**state, **change}).opened()
            bare = {key: value for key, value in state.items() if key != "cuts"}
            with refused(errno.ESTALE, "with the cuts"):
                link.open(**keys, state=bare).opened()
            for change in ({"drop_last": True}, {"buckets": SIZES[:3]}, {"shuffle": False}):
                with refused(errno.ESTALE, "another order"):
                    link.open(**{**keys, **change}, state=state).opened()
            plain = {"source": source, "batch_size": 4, "drop_last": False, "image_size": 32}
            with refused(errno.ESTALE, "order"):
                link.open(**plain, state=state).opened()
            other = link.open(**plain)
            other.opened()
            with refused(errno.ESTALE, "no buckets"):
                link.open(**plain, state={**other.state(other.next()), "cuts": [[0, 4]]}).opened()
        with Link(daemon.socket) as old, refused(errno.ENOTSUP, "does not know"):
            old.open(source=source, buckets=SIZES).opened()


def test_the_ninth_cut_of_an_epoch_is_refused():
    with served() as (_, daemon, source), Link(daemon.socket, features=BUCKETS) as link:
        keys = dict(source=source, buckets=SIZES, drop_last=False)
        state = {}
        for run in range(8):
            stream = link.open(**keys, batch_size=1 + run % 2, **state)
            state = {"state": state_after(stream, batches_of(stream, 1)[0][0])}
            assert len(state["state"]["cuts"]) == run + 1
            stream.close()
        with refused(errno.ESTALE, "7 times already", "global batch of 2"):
            link.open(**keys, batch_size=1, **state).opened()
        assert batches_of(link.open(**keys, batch_size=2, **state, epochs=1))


def test_broken_images_and_images_without_a_size():
    """A substitute comes from the same bucket; an image without a size counts as a square, and a warning says so."""
    with folder() as home:
        source = make_dataset(home / "images", classes=3, per_class=20, min_side=32, max_side=90)
        files = sorted(source.rglob("*.jpg"))
        data = files[7].read_bytes()
        files[7].write_bytes(data[:len(data) // 2])
        files[11].write_bytes(b"no image")
        with Daemon(home) as daemon, Link(daemon.socket, features=BUCKETS) as link:
            stream = link.open(source=source, buckets=SIZES, batch_size=3, epochs=1, drop_last=False, max_broken=0.1)
            rows = real(batches_of(stream))
            broken = [row for row in rows if row.flags & 2]
            assert len(rows) == SAMPLES and len(broken) == 2 and 11 not in [row.index for row in rows]
            assert any("1 of the dataset's images have no size" in text for text in json.loads(stream.query(2))["warnings"])


if __name__ == "__main__":
    run_tests(globals())

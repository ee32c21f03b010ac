"""`shuffle: blocks`. What comes is compared with order_model.py: epochs, ranks, subsets, splits, sources, repeats, states at other sizes,
states of other windows, and definitions that are refused."""
import contextlib
import ctypes
import errno
import functools
import json
import mmap
import os
import random
import sys
import tarfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from command_line import refuse, run
from harness import CONFIG, STREAM, Daemon, Link, Skip, folder, make_dataset, run_tests, wait_until
from order_model import block_size, blocks_of, mixed_by, place, split_of
from stream_checks import check_rank, npy, plan, refused, shown

SAMPLES = 45
TINY = {"image_size": 12}


def make_large(path, size=3 << 20):
    """Images with so many bytes each, nearly all of which are holes behind the image: blocks of four."""
    make_dataset(path, classes=3, per_class=SAMPLES // 3, min_side=16, max_side=24)
    for file in path.rglob("*.jpg"):
        os.truncate(file, size)
    return path


@contextlib.contextmanager
def served(*options, **keys):
    with folder() as home:
        source = make_large(home / "images")
        with Daemon(home, "--threads", "2", *options, **keys) as daemon:
            yield home, daemon, source


@functools.lru_cache(maxsize=None)
def ordered(*args):
    return [at for group in blocks_of(*args) for at in group]


def epoch(window, seed, number, numbers=None, block=4, part=0):
    numbers = list(range(SAMPLES)) if numbers is None else sorted(numbers)
    return [numbers[at] for at in ordered(len(numbers), block, window, seed, number, part)]


def expected(epochs, *args, **keys):
    return {(e, p): sample for e in range(epochs) for p, sample in enumerate(epoch(args[0], args[1], e, *args[2:], **keys))}


def read(link, **keys):
    stream = link.open(**{"drop_last": False, "shuffle": "blocks", **TINY, **keys})
    stream.opened()
    got = stream.read()
    stream.close()
    return got


def test_epochs_are_shuffled_within_a_window():
    assert block_size(SAMPLES, SAMPLES * (3 << 20)) == 4
    with served() as (_, daemon, source), Link(daemon.socket) as link:
        for window in (1, 5, None, 65536):
            keys = {} if window is None else {"window": window}
            stream = link.open(source=source, seed=7, epochs=2, batch_size=8, drop_last=False, shuffle="blocks", **keys, **TINY)
            info, got = stream.opened(), stream.read()
            assert info.shuffle == 1 and shown(got) == expected(2, window or 16, 7), window
            told = json.loads(stream.query(CONFIG))
            assert (told["shuffle"], told["window"]) == ("blocks", window or 16), told
            assert json.loads(stream.query(STREAM))["samples"] == SAMPLES
            stream.close()
            for number in range(2):
                assert sorted(sample for (e, _), sample in shown(got).items() if e == number) == list(range(SAMPLES))


def test_a_state_resumes_anywhere_at_any_size():
    with served() as (_, daemon, source):
        keys = dict(source=source, seed=5, epochs=2, window=3)
        want = expected(2, 3, 5)
        with Link(daemon.socket) as link:
            table = {(batch.epoch, batch.position): rows[0] for batch, rows in read(link, batch_size=1, **keys)}
            assert {at: row.index for at, row in table.items()} == want
            stream = link.open(batch_size=7, shuffle="blocks", drop_last=False, **keys, **TINY)
            batches = stream.read()
            for batch, _ in random.Random(1).sample(batches, 3):
                state = stream.state(batch)
                tail = {at: row for at, row in table.items() if at >= (state["epoch"], state["position"])}
                for size in (1, 5):
                    rest = read(link, batch_size=size, state=state, **keys)
                    assert shown(rest) == {at: row.index for at, row in tail.items()}, state
                # The same bytes, too.
                content = {(batch.epoch, row.position): row.content for batch, rows in rest for row in rows}
                assert content == {at: row.content for at, row in tail.items()}, state
        for world_size, size in ((2, 4), (3, 2)):
            with contextlib.ExitStack() as stack:
                links = [stack.enter_context(Link(daemon.socket)) for _ in range(world_size)]
                streams = [link.open(group=f"w{world_size}", share="split", rank=r, world_size=world_size, batch_size=size, drop_last=False,
                                     shuffle="blocks", **keys, **TINY) for r, link in enumerate(links)]
                for rank, stream in enumerate(streams):
                    check_rank(stream.read(), 2 * [plan(world_size, size, False, samples=SAMPLES)], rank, table)


def test_subsets_keep_neighbors_together():
    draw = random.Random(3)
    indices = draw.sample(range(SAMPLES), 30) + [7, 7]
    with served() as (home, daemon, source), Link(daemon.socket) as link:
        for kind in ("<i8", "<u4"):
            got = read(link, source=source, seed=2, epochs=2, batch_size=6, window=2, indices=npy(home / "few.npy", indices, kind))
            assert shown(got) == expected(2, 2, 2, indices)
        got = read(link, source=source, seed=2, epochs=1, batch_size=6, window=2, indices=npy(home / "up.npy", sorted(indices)))
        assert shown(got) == expected(1, 2, 2, indices)
        got = read(link, source=source, seed=2, epochs=2, batch_size=6, window=2, split="[:60%]")
        assert shown(got) == expected(2, 2, 2, split_of(SAMPLES, 0, 27))
        # Each sample twice in a row; and epochs of another length go on where the last one ended.
        got = shown(read(link, source=source, seed=2, epochs=1, batch_size=6, window=2, repeats=2))
        assert [got[0, p] for p in range(SAMPLES)] == [epoch(2, 2, 0)[p // 2] for p in range(SAMPLES)]
        got = list(shown(read(link, source=source, seed=2, epochs=3, batch_size=10, window=2, epoch_length=30)).values())
        assert got == (epoch(2, 2, 0) + epoch(2, 2, 1))[:90]


def test_each_source_has_windows_of_its_own():
    with served() as (home, daemon, source), Link(daemon.socket) as link:
        other = make_dataset(home / "other", classes=3, per_class=20, min_side=16, max_side=24, seed=4)
        weights = [{"source": str(source), "weight": 2}, {"source": str(other), "weight": 1}]
        got = shown(read(link, sources=weights, seed=9, epochs=2, batch_size=15, window=2, epoch_length=90))
        orders = [lambda number: epoch(2, 9, number), lambda number: epoch(2, 9, number, range(60), block=64, part=1)]
        want = {(e, p): mixed_by(orders, [2, 1], 9, 90, e, p) for e in range(2) for p in range(90)}
        assert got == {at: sample + (SAMPLES if part else 0) for at, (part, sample) in want.items()}


def test_states_of_other_orders():
    with served() as (home, daemon, source), Link(daemon.socket) as link:
        keys = dict(source=source, seed=1, batch_size=4, **TINY)

        def state_of(**order):
            stream = link.open(epochs=1, **keys, **order)
            stream.opened()
            batch = stream.read(2)[-1][0]
            state = stream.state(batch)
            stream.close()
            return state

        full, three = state_of(), state_of(shuffle="blocks", window=3)
        assert state_of(shuffle=True) == full and state_of(shuffle="full") == full and full["order"] != three["order"]
        for state, order, words in ((three, {}, "another order (shuffle)"), (full, {"shuffle": "blocks"}, "another order (shuffle)"),
                                    (three, {"shuffle": False}, "another order (shuffle)"),
                                    (three, {"shuffle": "blocks"}, "another order (window)")):
            with refused(errno.ESTALE, words):
                link.open(state=state, **keys, **order).opened()
        options = ["--seed", 1, "-b", 4, "--image-size", 12, "--shuffle", "blocks"]
        got = json.loads(run(home, "state", json.dumps(three), source, *options, "--window", 3, "--json")[0])
        assert got["fits"] and (got["shuffle"], got["window"]) == (True, 3), got
        assert got["next"]["ranks"][0]["first_sample"] == epoch(3, 1, 0)[8], got
        text = " ".join(run(home, "state", json.dumps(three), source, *options, code=1)[0].split())
        assert "shuffled in a window of 3 blocks" in text and "open the stream with shuffle blocks and window 3" in text, text
        # Without a source: the sizes that a block may have are tried.
        text = " ".join(run(home, "state", json.dumps(three))[0].split())
        assert "shuffled in a window of 3 blocks, seed 1" in text, text


def test_commands_take_it():
    with folder() as home:
        source = make_large(home / "images")
        options = ["--shuffle", "blocks", "--window", 2, "--seed", 4, "-b", 5, "--image-size", 12]
        want = epoch(2, 4, 0)
        rows = json.loads(run(home, "replay", source, *options, "--batch", 2, "--json")[0])["rows"]
        assert [row["index"] for row in rows] == want[10:15]
        got = json.loads(run(home, "plan", source, *options, "-W", 2, "--json")[0])
        assert (got["shuffle"], got["window"]) == (True, 2) and got["ranks"][1]["first_samples"] == want[5:8]
        assert "shuffled in a window of 2 blocks" in " ".join(run(home, "plan", source, *options)[0].split())
        with Daemon(home, "--threads", "1", config=f"streams:\n  train:\n    source: {source}\n    shuffle: blocks\n    window: 2\n    seed: 4\n"
                                                     "    image_size: 12\n    batch_size: 5\n") as daemon:
            lines = daemon.batches(source="stream:train", batches=1)
            assert lines, lines
            told = daemon.status()["streams"]
            assert all(stream["window"] == 2 and stream["shuffle"] is True for stream in told), told
        for args, says in ((["--shuffle", "some"], ["shuffle: expected true, false, full (the same as true) or blocks, got \"some\""]),
                           (["--window", 3], ["--window needs shuffle: blocks"]),
                           (["--shuffle", "full", "--window", 3], ["--window needs shuffle: blocks"]),
                           (["--shuffle", "blocks", "--window", 0], ["--window: expected a whole number from 1 to 65536"]),
                           (["--shuffle", "blocks", "--window", 65537], ["--window: expected a whole number from 1 to 65536"]),
                           (["--shuffle", "blocks", "--weights", "balanced"], ["--shuffle: expected true, or nothing, beside --weights"]),
                           (["--shuffle", "blocks", "--sampling", "{classes: 2, per_class: 2}", "-b", 4], ["beside --sampling"]),
                           (["--shuffle", "blocks", "--buckets", "[[8, 12], [12, 8]]"], ["beside buckets"])):
            refuse(home, "plan", source, *args, code=2, says=says)


# ---- reading ahead ----

def resident(path, ranges):
    """The share of these bytes of a file that the page cache has."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
    libc.mincore.argtypes, libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p], [ctypes.c_void_p, ctypes.c_size_t]
    size = os.path.getsize(path)
    pages = ctypes.create_string_buffer((size + 4095) // 4096)
    with open(path, "rb") as file:
        at = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
        assert at and libc.mincore(at, size, pages) == 0
        libc.munmap(at, size)
    wanted = [page for begin, end in ranges for page in range(begin // 4096, end // 4096)]
    return sum(pages.raw[page] & 1 for page in wanted) / len(wanted)


def forget(path):
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def test_blocks_are_read_ahead():
    """The blocks that are open are in the page cache as a whole, although single samples of them were read."""
    with folder() as home:
        images = make_large(home / "images", size=1 << 20)
        tar = home / "all.tar"
        with tarfile.open(tar, "w") as archive:
            for file in sorted(images.rglob("*.jpg")):
                archive.add(file, file.relative_to(images))
        forget(tar)
        if resident(tar, [(0, os.path.getsize(tar))]) > 0.1:
            raise Skip("this file system keeps pages that nobody needs")
        block, each = block_size(SAMPLES, SAMPLES << 20), os.path.getsize(tar) // SAMPLES
        assert block == 16
        with Daemon(home, "--threads", "1", "--io", "buffered") as daemon, Link(daemon.socket) as link:
            run(home, "check", tar)
            for window, least, most in ((1, 0.9, 1.0), (None, 0, 0.6)):
                forget(tar)
                order = dict(shuffle="blocks", window=window) if window else {}
                stream = link.open(source=tar, seed=3, epochs=1, batch_size=4, prefetch=2, **order, **TINY)
                stream.opened()
                stream.read(1)
                # Period 0 and the one after it; of the third block only what it needs for now.
                first = sum((blocks_of(SAMPLES, block, 1, 3, 0)[:2]), [])
                spans = [(min(p) * each, (max(p) + 1) * each) for p in blocks_of(SAMPLES, block, 1, 3, 0)[:2]]
                if window:
                    wait_until(lambda: resident(tar, spans) > least, f"the blocks of {len(first)} samples to be read")
                else:
                    assert resident(tar, [(0, os.path.getsize(tar))]) < most
                stream.close()


# ---- plan ----

def runs(samples, most, gap=0):
    """Requests and samples that these read: neighbors are one, up to so many; blocks end them."""
    requests = read = 0
    begin = end = None
    for sample in samples:
        if begin is None or sample - end > gap or sample + 1 - begin > most:
            requests, read = requests + 1, read + (end - begin if begin is not None else 0)
            begin = sample
        end = sample + 1
    return requests, read + (end - begin if begin is not None else 0)


def simulated(periods_of, samples, batch_size, world, nodes, room, block, most, epochs):
    """What node 0 reads in the first epoch and in the last, of so many, with a cache of `room` samples: requests, samples, hits. It reads
    of each block what it needs when the block is opened; a block that is open at the beginning and again at the end is read twice."""
    cache, told, used = set(), [], samples - samples % (batch_size * world)
    for epoch in range(epochs):
        requests = read = hits = position = 0
        visits, last = {}, {}
        for number, period in enumerate(periods_of(epoch)):
            mine = [sample for at, sample in enumerate(period, position)
                    if at < used and at % (batch_size * world) // batch_size // (world // nodes) == 0]
            position += len(period)
            hits += sum(sample in cache for sample in mine)
            for b in {sample // block for sample in period}:
                turn, before = last.get(b, (0, number))
                last[b] = turn + (number - before > 20), number
            for sample in mine:
                if sample not in cache:
                    visits.setdefault((sample // block, last[sample // block][0]), []).append(sample)
        for missing in visits.values():
            r, n = runs(sorted(missing), most)
            requests, read = requests + r, read + n
            # What does not fit any more is not kept.
            cache.update(missing[:max(room - len(cache), 0)])
        told.append((requests, read, hits))
    return told[0], told[-1]


def test_plan_counts_what_nodes_read():
    samples, size, seed = 1000, 600 << 10, 3
    with folder() as home:
        source = make_dataset(home / "images", classes=2, per_class=samples // 2, min_side=16, max_side=17)
        for file in source.rglob("*.jpg"):
            os.truncate(file, size)
        block, most = 16, (8 << 20) // size
        assert block == block_size(samples, samples * size)
        orders = {(window, e): blocks_of(samples, block, window, seed, e) for window in (4, 1) for e in range(3)}
        full = [[[place(samples, seed, e, p)] for p in range(samples)] for e in range(3)]
        for window, nodes, share in ((4, 1, 0.5), (4, 2, 0.25), (1, 4, 0), (4, 1, 2)):
            args = ["--shuffle", "blocks", "--window", window, "--seed", seed, "-b", 4, "-W", 4, "--nodes", nodes]
            cached = ["--cache-size", str(int(samples * size * share))] if share else []
            got = json.loads(run(home, "plan", source, *args, *cached, "--json")[0])["reads"]
            assert (got["nodes"], got["window"], got["block_samples"], got["blocks"]) == (nodes, window, block, 63), got
            for name, of, alone in (("full", lambda e: full[e], 1), ("by_blocks", lambda e: orders[window, e], block)):
                first, last = simulated(of, samples, 4, 4, nodes, int(samples * share), alone, most, 3)
                for key, (requests, read, hits) in (("first", first), ("later", last)):
                    told = got[name][key]
                    assert told["samples"] == sum(at % 16 // 4 // (4 // nodes) == 0 for at in range(992)), told
                    assert told["egress_bytes"] == told["bytes"] * nodes
                    # First epochs are exact but for what drop_last leaves out of a run; later ones are expectations, which do not
                    # know of the few blocks that were open when the cache was full.
                    close = 0.03 if key == "first" else 0.15
                    for mine, model in ((told["requests"], requests), (told["bytes"] / size, read), (told["hits"], hits)):
                        assert abs(mine - model) <= close * max(model, 100), (window, nodes, share, name, key, told, (requests, read, hits))
            if nodes == 1 and share == 0.5:
                assert got["by_blocks"]["first"]["requests"] < got["full"]["first"]["requests"] / 6
        text = " ".join(run(home, "plan", source, "--nodes", 2, "-W", 4, "-b", 4, "--cache-size", "100M")[0].split())
        assert "full 496 requests, 290.6 MiB a node; later epochs" in text and "from the cache window 16" in text, text
        assert "requests" not in run(home, "plan", source, "-b", 4)[0]
        got = json.loads(run(home, "plan", source, "-b", 4, "--repeats", 2, "--json")[0])["reads"]
        assert got["full"] is None and got["by_blocks"] is None
        got = json.loads(run(home, "plan", source, "-b", 4, "--weights", "balanced", "--json")[0])["reads"]
        assert got["full"]["first"]["requests"] == 1000 and got["by_blocks"] is None and got["window"] == 0
        for args, says in ((["--nodes", 3, "-W", 4], "--nodes 3 does not divide the --world-size of 4"),
                           (["--nodes", 8, "-W", 4], "--nodes 8 does not divide"), (["--nodes", 0], "--nodes: expected"),
                           (["--nodes", 2, "-W", 4, "--ranks-per-node", 2], "cannot both be"),
                           (["--cache-size", "lots"], "--cache-size: expected"), (["--cache-size", 0], "--cache-size: expected")):
            refuse(home, "plan", source, *args, code=2, says=[says])


if __name__ == "__main__":
    run_tests(globals())

"""weights, epoch_length, repeats, split, sources: what comes is compared with order_model.py; states, ranks, late joiners, memory,
broken samples, bad input."""
import array
import contextlib
import errno
import json
import random
import shutil
import struct
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from command_line import environment, refuse, run
from harness import CLASSES, CLOSE, CONFIG, PATH, SLOW, STREAM, Daemon, Link, Raw, folder, make_dataset, message, open_stream, run_tests, wait_until
from order_model import alias, drawn, endless, mixed, of_class, place, quotas, split_of, substitute, SUBSTITUTE
from stream_checks import SUBSTITUTED, check_rank, npy, plan, refused, reserved, shown

SAMPLES = 60
TINY = {"image_size": 12}


@contextlib.contextmanager
def served(*options, **keys):
    with folder() as home:
        source = make_dataset(home / "images", classes=3, per_class=20, min_side=32, max_side=64)
        with Daemon(home, "--threads", "2", *options, **keys) as daemon:
            yield home, daemon, source


def by_position(model, length, epochs):
    return {(e, p): model(e, p) for e in range(epochs) for p in range(length)}


def read(link, **keys):
    stream = link.open(**keys)
    stream.opened()
    got = stream.read()
    stream.close()
    return got


def check_resumes(daemon, model, length, epochs, every=False, **keys):
    """World sizes 1, 2 and 3 see one global sequence, and so does whoever goes on from any batch of it; `every`: from every place."""
    want = by_position(model, length, epochs)
    keys = dict(epochs=epochs, drop_last=False, **TINY, **keys)
    with Link(daemon.socket) as link:
        got = read(link, batch_size=1, **keys)
        table = {(batch.epoch, batch.position): rows[0] for batch, rows in got}
        assert {at: row.index for at, row in table.items()} == want
        states = link.open(batch_size=1 if every else 7, **keys)
        batches = states.read()
        for batch, _ in batches if every else random.Random(length).sample(batches, 4):
            state = states.state(batch)
            tail = {at: index for at, index in want.items() if at >= (state["epoch"], state["position"])}
            assert shown(read(link, batch_size=5, state=state, **keys)) == tail, state
    for world_size in (2, 3):
        with contextlib.ExitStack() as stack:
            links = [stack.enter_context(Link(daemon.socket)) for _ in range(world_size)]
            streams = [link.open(group=f"w{world_size}", share="split", rank=r, world_size=world_size, batch_size=4, **keys)
                       for r, link in enumerate(links)]
            for rank, stream in enumerate(streams):
                check_rank(stream.read(), epochs * [plan(world_size, 4, False, samples=length)], rank, table)
    return table


def labels_of(stream, batch):
    memory, stride = stream.extents[batch.extent]
    *_, labels, _, _ = stream.head(batch)
    return list(struct.unpack_from(f"<{batch.count}q", memory, batch.slot * stride + labels))


# ---- epoch_length, repeats ----

def test_epoch_length_goes_on_where_the_epoch_before_ended():
    with served() as (_, daemon, source):
        for length in (25, 150):
            check_resumes(daemon, lambda e, p: endless(SAMPLES, 3, length, e, p), length, 3, length == 25, source=source, seed=3,
                          epoch_length=length)
        with Link(daemon.socket) as link:
            got = shown(read(link, source=source, epoch_length=45, epochs=4, shuffle=False, batch_size=9, **TINY))
            assert list(got.values()) == [i % SAMPLES for i in range(180)], "in order it goes on too"
            info = link.open(source=source, epoch_length=45, batch_size=10, **TINY).opened()
            assert (info.samples, info.epoch_samples, info.batches) == (45, 40, 4)


def test_repeats():
    with served() as (_, daemon, source):
        def model(epoch, position):
            return place(SAMPLES, 8, epoch, position // 3)
        table = check_resumes(daemon, model, SAMPLES, 3, source=source, seed=8, repeats=3)
        same = sum(table[0, p].content == table[0, p + 1].content for p in range(0, SAMPLES, 3))
        assert same == 0, "each time with other draws"
        # DeiT's RASampler deals the same places out in turn: the global batches are the same, the ranks' parts are not.
        ours = [table[0, p].index for p in range(SAMPLES)]
        for world_size, batch_size in ((2, 5), (3, 4)):
            size = world_size * batch_size
            for step in range(SAMPLES // size):
                deit = [ours[rank::world_size][step * batch_size:(step + 1) * batch_size] for rank in range(world_size)]
                assert sorted(sum(deit, [])) == sorted(ours[step * size:(step + 1) * size]) and deit[0] != ours[step * size:][:batch_size]
        with Link(daemon.socket) as link:
            got = shown(read(link, source=source, seed=8, repeats=2, epoch_length=33, epochs=3, batch_size=3, **TINY))
            assert got == by_position(lambda e, p: endless(SAMPLES, 8, 33, e, p, 2), 33, 3)


# ---- sampling ----

PK = {"classes": 3, "per_class": 4}


def per_class_model(labels, seed, length, classes=3, per_class=4, numbers=None):
    numbers = list(range(len(labels))) if numbers is None else numbers
    by_class = [[i for i in numbers if labels[i] == label] for label in sorted({labels[i] for i in numbers})]
    rows = classes * per_class
    return lambda e, p: of_class(by_class, seed, classes, per_class, e * (length // rows) + p // rows, p % rows)


@contextlib.contextmanager
def uneven(*options):
    """Five classes of 2, 3, 5, 9 and 9 images: 28."""
    with folder() as home:
        source = make_dataset(home / "images", classes=5, per_class=9, min_side=32, max_side=64)
        for name, left in zip(sorted(source.iterdir()), (2, 3, 5, 9, 9)):
            for file in sorted(name.iterdir())[left:]:
                file.unlink()
        labels = [label for label, name in enumerate(sorted(source.iterdir())) for _ in name.iterdir()]
        with Daemon(home, "--threads", "2", *options) as daemon:
            yield home, daemon, source, labels


def test_sampling_delivers_classes():
    with uneven() as (home, daemon, source, labels):
        want = by_position(per_class_model(labels, 9, 24), 24, 6)
        keys = dict(source=source, seed=9, sampling=PK, epochs=6, **TINY)
        with Link(daemon.socket) as link:
            info = link.open(batch_size=12, **keys).opened()
            assert (info.samples, info.batches) == (24, 2), "28 samples are 2 blocks of 12"
            stream = link.open(batch_size=12, **keys)
            batches = stream.read()
            assert shown(batches) == want
            for batch, rows in batches:
                of = [labels[row.index] for row in rows]
                assert all(len(set(of[i:i + 4])) == 1 for i in (0, 4, 8)) and len(set(of)) == 3, of
                for label in set(of):
                    mine = [row.index for row in rows if labels[row.index] == label]
                    assert len(set(mine)) == min(labels.count(label), 4), "distinct, if the class has as many"
            table = {(b.epoch, b.position + i): row for b, rows in batches for i, row in enumerate(rows)}
            # From every place, at another multiple, of other numbers of ranks.
            for batch, _ in batches:
                state = stream.state(batch)
                for batch_size in (12, 24):
                    tail = [at for at in want if at >= (state["epoch"], state["position"])]
                    got = shown(read(link, batch_size=batch_size, state=state, **keys))
                    assert all(want[at] == index for at, index in got.items()), (state, batch_size)
                    assert batch_size > 12 or sorted(got) == tail
        for world_size in (2,):
            with contextlib.ExitStack() as stack:
                links = [stack.enter_context(Link(daemon.socket)) for _ in range(world_size)]
                streams = [link.open(group=f"pk{world_size}", share="split", rank=r, world_size=world_size, batch_size=12, **keys)
                           for r, link in enumerate(links)]
                for rank, stream in enumerate(streams):
                    for batch, rows in stream.read():
                        of = [labels[row.index] for row in rows]
                        assert len(of) == 12 and len(set(of)) == 3
                        at = batch.position
                        assert [row.index for row in rows] == [want[batch.epoch, at + i] for i in range(12)], (rank, at)
                        assert all(row.content == table[batch.epoch, at + i].content for i, row in enumerate(rows))


def test_sampling_takes_the_first_of_several_labels():
    """Labels such as (identity, camera): the same order as with the first label only, through a state and the commands too."""
    with uneven() as (home, daemon, source, labels), Link(daemon.socket) as link:
        files = sorted(file.relative_to(source) for file in source.rglob("*.jpg"))
        pairs = home / "pairs.csv"
        pairs.write_text("path,pid,camid\n" + "".join(f"{file},{9 - label},{i % 5}\n" for i, (file, label) in enumerate(zip(files, labels))))
        several = {"manifest": str(pairs), "type": "classes"}
        turned = [9 - label for label in labels]
        want = by_position(per_class_model(turned, 9, 24), 24, 4)
        keys = dict(source=source, seed=9, sampling=PK, epochs=4, labels=several, batch_size=12, **TINY)
        stream = link.open(**keys)
        batches = stream.read()
        assert shown(batches) == want
        state = stream.state(batches[2][0])
        tail = {at: index for at, index in want.items() if at >= (state["epoch"], state["position"])}
        assert shown(read(link, state=state, **keys)) == tail
        text, _ = run(home, "plan", source, "--sampling", "{classes: 3, per_class: 4}", "-b", "12", "--seed", "9", "--json",
                      "--labels", json.dumps(several))
        assert json.loads(text)["ranks"][0]["first_samples"] == [want[0, p] for p in range(3)]
        # Balanced weights count the first label too.
        few = [0, 1, 2, 3, 4, 5, 6]
        table = alias([1 / [labels[i] for i in few].count(labels[i]) for i in few])
        got = shown(read(link, weights="balanced", indices=npy(home / "few.npy", few), epoch_length=100, epochs=1,
                         **{key: value for key, value in keys.items() if key not in ("sampling", "epochs", "batch_size")}, batch_size=10))
        assert got == by_position(lambda e, p: few[drawn(table, 9, e, p)], 100, 1)


def test_sampling_of_a_part():
    with uneven() as (home, daemon, source, labels), Link(daemon.socket) as link:
        keys = dict(source=source, seed=1, sampling={"classes": 2, "per_class": 3}, batch_size=6, **TINY)
        few = [0, 1, 5, 6, 7, 20, 21, 22, 23, 26, 27]
        got = shown(read(link, indices=npy(home / "few.npy", few), epochs=3, **keys))
        assert got == by_position(per_class_model(labels, 1, 6, 2, 3, few), 6, 3)
        part = split_of(28, 0, 14)
        got = shown(read(link, split="[:50%]", epochs=3, epoch_length=30, **keys))
        assert got == by_position(per_class_model(labels, 1, 30, 2, 3, part), 30, 3)
        # Fewer samples than one block: they repeat.
        got = shown(read(link, indices=npy(home / "two.npy", [0, 2]), epochs=1, **keys))
        assert sorted(got.values()) == [0, 0, 0, 2, 2, 2]


def test_sampling_replaces_by_the_class():
    with uneven() as (home, daemon, source, labels), Link(daemon.socket) as link:
        files = sorted(source.rglob("*.jpg"))
        files[20].write_bytes(b"no image")
        got = read(link, source=source, seed=9, sampling=PK, batch_size=12, epochs=16, max_broken=1, **TINY)
        model = per_class_model(labels, 9, 24)
        replaced = 0
        for batch, rows in got:
            for i, row in enumerate(rows):
                want = model(batch.epoch, batch.position + i)
                if want == 20:
                    replaced += 1
                    assert row.index != 20 and labels[row.index] == labels[20] and row.flags & SUBSTITUTED
                    assert row.index not in [other.index for j, other in enumerate(rows) if j != i], "one that the block does not have"
                else:
                    assert row.index == want
        assert replaced > 3


def test_sampling_counts_its_table():
    with uneven() as (home, daemon, source, labels), Link(daemon.socket) as link:
        def lines():
            return [line["bytes"] for line in daemon.status()["memory"]["lines"] if "classes" in line["name"]]
        keys = dict(source=source, **TINY)
        a = link.open(batch_size=12, sampling=PK, **keys)
        a.opened()
        b = link.open(batch_size=24, seed=5, sampling={"classes": 4, "per_class": 2}, **keys)
        b.opened()
        assert lines() == [28 * 4 + (5 + 2) * 8], "one table for all streams of these samples"
        a.close()
        b.close()
        wait_until(lambda: not lines(), "the table to be freed")


def test_sampling_refuses():
    with uneven() as (home, daemon, source, labels), Link(daemon.socket) as link:
        keys = dict(source=source, batch_size=64, **TINY)
        pk = {"classes": 8, "per_class": 8}
        with refused(errno.EINVAL, "sampling: classes is 8, but the samples have only 5 classes: lower it"):
            link.open(sampling=pk, **keys).opened()
        with refused(errno.EINVAL, "sampling: classes is 2, but the samples have only 1 class: lower it"):
            link.open(sampling={"classes": 2, "per_class": 32}, indices=npy(home / "one.npy", [0, 1]), **keys).opened()
        with refused(errno.EINVAL, "sampling needs labels, and the dataset has none"):
            link.open(sampling=pk, labels="none", **keys).opened()
        hot = home / "hot.csv"
        hot.write_text("path,labels\n" + "".join(f"{file.relative_to(source)},0;1\n" for file in sorted(source.rglob("*.jpg"))))
        with refused(errno.EINVAL, "sampling needs labels that are one class each"):
            link.open(sampling=pk, labels={"manifest": str(hot)}, **keys).opened()
        with refused(errno.EINVAL, "expected a batch_size that is a multiple of classes x per_class = 3 x 4 = 12, got 64"):
            link.open(sampling=PK, **keys).opened()
        keys.update(batch_size=12, sampling=PK)
        stream = link.open(**keys)
        stream.opened()
        state = stream.state(stream.next())
        stream.close()
        with refused(errno.ESTALE, "order"):
            link.open(**{**keys, "sampling": {"classes": 4, "per_class": 3}}, state=state).opened()
        with refused(errno.ESTALE, "order (another subset: indices; or shuffle, weights, epoch_length, repeats, split, sampling, buckets or sources)"):
            link.open(**{key: value for key, value in keys.items() if key != "sampling"}, state=state).opened()
        with refused(errno.ESTALE, "the state's position 7 is not a multiple of classes x per_class = 12"):
            link.open(state={**state, "position": 7}, **keys).opened()
        plain = ["plan", source, "--sampling", "{classes: 3, per_class: 4}"]
        refuse(home, *plain, says="--sampling: expected a --batch-size that is a multiple of classes x per_class = 3 x 4 = 12, got 64")
        plain += ["-b", "12"]
        refuse(home, *plain, "--no-drop-last", says="--no-drop-last cannot be given with --sampling")
        refuse(home, *plain, "--no-shuffle", says="--no-shuffle cannot be given with --sampling")
        refuse(home, *plain, "--weights", "balanced", says="--sampling cannot be written beside --weights")


# ---- weights ----

def test_weights_from_a_file():
    draw = random.Random(4)
    weights = [draw.choice((0, 1, 2, 0.125, 30)) for _ in range(SAMPLES)]
    with served() as (home, daemon, source):
        table = alias(weights)
        path = npy(home / "w.npy", weights, "<f8")
        check_resumes(daemon, lambda e, p: drawn(table, 5, e, p), SAMPLES, 2, source=source, seed=5, weights=str(path))
        with Link(daemon.socket) as link:
            keys = dict(source=source, seed=5, batch_size=100, **TINY)
            got = shown(read(link, weights=path, epoch_length=5000, epochs=2, **keys))
            assert got == by_position(lambda e, p: drawn(table, 5, e, p), 5000, 2)
            count = [list(got.values()).count(i) for i in range(SAMPLES)]
            chi = sum((c - 1e4 * w / sum(weights)) ** 2 / (1e4 * w / sum(weights)) for c, w in zip(count, weights) if w)
            assert chi < 99.6 and all(c == 0 for c, w in zip(count, weights) if not w), chi  # 0.001 of 59 degrees of freedom
            # Of a subset there is one for each of its places; float32 is as good.
            few, four = npy(home / "few.npy", [7, 50, 7, 9]), npy(home / "four.npy", [1, 2, 3, 4], "<f4")
            got = shown(read(link, weights=four, indices=few, epoch_length=300, epochs=1, **keys))
            assert got == by_position(lambda e, p: (7, 50, 7, 9)[drawn(alias([1, 2, 3, 4]), 5, e, p)], 300, 1)
            got = shown(read(link, weights=four, indices=few, epoch_length=300, repeats=3, epochs=1, **keys))
            assert got == by_position(lambda e, p: (7, 50, 7, 9)[drawn(alias([1, 2, 3, 4]), 5, e, p // 3)], 300, 1)
            # In evaluation too, where nothing is shuffled by itself.
            assert len(shown(read(link, weights=path, train=False, epochs=1, **keys))) == SAMPLES


def test_balanced_classes():
    with folder() as home:
        source = make_dataset(home / "images", classes=4, per_class=16, min_side=32, max_side=64)
        files = sorted(source.rglob("*.jpg"))
        for file in files[2:16] + files[17:31]:
            file.unlink()
        labels = [int(file.parent != files[0].parent) + sum(file.parent > other for other in {f.parent for f in files[16:]})
                  for file in sorted(source.rglob("*.jpg"))]
        weights = [1 / labels.count(label) for label in labels]
        table = alias(weights)
        with Daemon(home, "--threads", "1") as daemon, Link(daemon.socket) as link:
            keys = dict(source=source, seed=2, batch_size=100, **TINY)
            got = read(link, weights="balanced", epoch_length=4000, epochs=1, **keys)
            assert shown(got) == by_position(lambda e, p: drawn(table, 2, e, p), 4000, 1)
            classes = [labels[row.index] for _, rows in got for row in rows]
            assert all(900 < classes.count(label) < 1100 for label in range(4)), "6 standard deviations is 164"
            plain = read(link, weights="balanced", epochs=1, **{**keys, "batch_size": 4})
            assert len(shown(plain)) == len(labels)
            # A subset is balanced in itself.
            few = [0, 1, 2, 3, 4, 5, 6]
            want = alias([1 / [labels[i] for i in few].count(labels[i]) for i in few])
            got = shown(read(link, weights="balanced", indices=npy(home / "few.npy", few), epoch_length=100, epochs=1, **keys))
            assert got == by_position(lambda e, p: few[drawn(want, 2, e, p)], 100, 1)
            with refused(errno.EINVAL, "balanced needs labels"):
                link.open(labels="none", weights="balanced", **keys).opened()
            floats = home / "floats.csv"
            floats.write_text("path,x,y\n" + "".join(f"{file.relative_to(source)},0.5,2\n" for file in sorted(source.rglob("*.jpg"))))
            rows = {"manifest": str(floats), "type": "float"}
            assert link.open(labels=rows, **{**keys, "batch_size": 4}).opened().samples == len(labels)
            with refused(errno.EINVAL, "balanced needs labels that are one class each"):
                link.open(labels=rows, weights="balanced", **keys).opened()


def test_tables_are_shared_and_charged():
    weights = array.array("d", [1 + i % 7 for i in range(1_000_000)])
    with served() as (home, daemon, source), Link(daemon.socket) as link:
        keys = dict(source=source, batch_size=2, prefetch=2, **TINY)
        start = reserved(daemon)
        link.open(**keys).opened()
        each = reserved(daemon) - start
        path, same = npy(home / "a.npy", weights, "<f8"), npy(home / "b.npy", weights, "<f8")
        few = npy(home / "few.npy", [i % SAMPLES for i in range(len(weights))])
        streams = [link.open(weights=p, indices=few, seed=s, **keys) for s, p in enumerate((path, same, path))]
        for stream in streams:
            stream.opened()
        assert reserved(daemon) == start + 4 * each + 8 * len(weights) + 4 * len(weights)
        lines = [line["bytes"] for line in daemon.status()["memory"]["lines"] if line["name"].startswith("weights of")]
        assert lines == [8 * len(weights)]
        for stream in streams:
            stream.close()
        wait_until(lambda: reserved(daemon) == start + each, "the table's memory to return")
        balanced = [link.open(weights="balanced", **{**keys, "seed": s}) for s in range(2)]
        for stream in balanced:
            stream.opened()
        assert reserved(daemon) == start + 3 * each + 8 * SAMPLES


def resident(daemon):
    """Bytes of anonymous memory that the daemon has, as the kernel counts them."""
    with open(f"/proc/{daemon.process.pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon:"))


def test_ten_million_weights_take_what_the_ledger_says():
    count = 10_000_000
    with served("--memory", "512M") as (home, daemon, source), Link(daemon.socket) as link:
        path = npy(home / "many.npy", array.array("d", [1.0, 2.0, 0.0, 5.0] * (count // 4)), "<f8")
        few = npy(home / "few.npy", array.array("i", [7]) * count, "<i4")
        keys = dict(source=source, batch_size=2, prefetch=2, **TINY)
        link.open(**keys).next()
        before, held = resident(daemon), reserved(daemon)
        stream = link.open(weights=path, indices=few, **keys)
        stream.opened()
        more, charged = resident(daemon) - before, reserved(daemon) - held
        assert 12 * count <= charged < 12 * count + (1 << 20), charged
        if SLOW == 1:  # a sanitizer's own memory is not the daemon's
            assert more < charged + (4 << 20), (more, charged)
        assert stream.next().count == 2
    with served("--memory", "64M") as (home, daemon, source), Link(daemon.socket) as link:
        keys = dict(source=source, batch_size=2, prefetch=2, **TINY)
        start = reserved(daemon)
        path = npy(home / "many.npy", array.array("f", bytes(4 * count)), "<f4")
        with refused(errno.ENOMEM, path, "10000000 weights need 76.3 MiB (8 bytes each)", "start penstockd with --memory"):
            link.open(weights=path, **keys).opened()
        assert reserved(daemon) == start and link.open(**keys).next().count == 2


# ---- split ----

def test_splits_of_one_source():
    with served() as (_, daemon, source):
        with Link(daemon.socket) as link:
            keys = dict(source=source, train=False, epochs=1, batch_size=7, **TINY)

            def of(split):
                return list(shown(read(link, split=split, **keys)).values())
            cases = {"[:90%]": (0, 54), "[90%:]": (54, 60), "[:7]": (0, 7), "[7:-3]": (7, 57), "[-3:]": (57, 60), "[25%:75%]": (15, 45),
                     "[:12.5%]": (0, 8), "[12.5%:]": (8, 60), "[-2.5%:]": (58, 60), "[:1_0]": (0, 10)}
            for split, (start, end) in cases.items():
                assert of(split) == split_of(SAMPLES, start, end), split
            assert sorted(of("[:90%]") + of("[90%:]")) == list(range(SAMPLES))
            assert of("[:]") == of("[0:100%]") == list(range(SAMPLES)), "all of it, in its own order"
            whole, plain = link.open(split="[:]", **keys).opened(), link.open(**keys).opened()
            part = link.open(split="[:90%]", **keys).opened()
            assert whole.order == plain.order != part.order and part.fingerprint == plain.fingerprint
            assert (part.samples, part.epoch_samples) == (54, 54)
        chosen = split_of(SAMPLES, 0, 54)
        check_resumes(daemon, lambda e, p: chosen[place(54, 6, e, p)], 54, 2, source=source, seed=6, split="[:90%]")
        check_resumes(daemon, lambda e, p: chosen[endless(54, 6, 40, e, p)], 40, 2, source=source, seed=6, split="[:90%]", epoch_length=40)


def test_splits_by_name():
    with folder() as home:
        root = home / "data [1]"
        root.mkdir()
        make_dataset(root / "train", classes=2, per_class=10, min_side=32, max_side=64)
        make_dataset(home / "val", classes=2, per_class=3, min_side=32, max_side=64, tars=True, per_shard=4)
        shards = sorted((home / "val").glob("*.tar"))
        assert len(shards) == 2
        (root / "val").mkdir()
        for number, shard in enumerate(shards):
            shutil.copy(shard, root / "val" / f"{number}.tar")
            shutil.copy(shard, root / f"test-{number}.tar")
        with Daemon(home, "--threads", "1") as daemon, Link(daemon.socket) as link:
            keys = dict(source=root, train=False, epochs=1, batch_size=3, **TINY)
            assert link.open(split="train", **keys).opened().fingerprint == link.open(**{**keys, "source": root / "train"}).opened().fingerprint
            tars = link.open(**{**keys, "source": home / "val" / "*.tar"}).opened().fingerprint
            for name in ("val", "test"):
                stream = link.open(split=name, **keys)
                assert stream.opened().fingerprint == tars and stream.info.samples == 6
                assert f"{name}" in stream.query(PATH, 0)
            assert list(shown(read(link, split="train[50%:]", **keys)).values()) == split_of(20, 10, 20)
            for split, code, words in (("dev", errno.ENOENT, ["\"dev\" is not in", "dev-*.tar"]), ("dev[:3]", errno.ENOENT, ["dev"]),
                                       ("train[:21]", errno.EINVAL, ["lies beyond", "20 samples"]),
                                       ("train[-21:]", errno.EINVAL, ["lies beyond"]),
                                       ("train[:1%]", errno.EINVAL, ["has no samples", "from 0 to 0"]),
                                       ("train[5:5]", errno.EINVAL, ["has no samples"])):
                with refused(code, *words):
                    link.open(split=split, **keys).opened()
            with refused(errno.EINVAL, "leave the name out"):
                link.open(split="train[:3]", **{**keys, "source": shards[0]}).opened()


# ---- sources ----

def two_sources(home):
    one = make_dataset(home / "one", classes=3, per_class=10, min_side=32, max_side=64)
    other = make_dataset(home / "other", classes=3, per_class=4, min_side=32, max_side=64, seed=5)
    return one, other


def test_sources_are_mixed_exactly():
    with folder() as home:
        one, other = two_sources(home)
        sources = [{"source": str(one), "weight": 0.75}, {"source": str(other), "weight": 0.25}]
        sizes, weights = (30, 12), (0.75, 0.25)
        assert quotas(weights) == [750, 250]

        def model(length):
            def at(epoch, position):
                part, number = mixed(sizes, weights, 7, length, epoch, position)
                return (0, 30)[part] + number
            return at
        with Daemon(home, "--threads", "2") as daemon, Link(daemon.socket) as link:
            check_resumes(daemon, model(42), 42, 3, sources=sources, seed=7)
            check_resumes(daemon, model(50), 50, 2, True, sources=sources, seed=7, epoch_length=50)
            keys = dict(sources=sources, seed=7, batch_size=100, **TINY)
            got = shown(read(link, epoch_length=1000, epochs=2, **keys))
            assert got == by_position(model(1000), 1000, 2)
            for epoch in range(2):
                assert sum(i < 30 for (e, _), i in got.items() if e == epoch) == 750
            got = read(link, epoch_length=100, epochs=1, **keys)
            stream = link.open(**{**keys, "batch_size": 4})
            assert (stream.opened().samples, stream.info.epoch_samples) == (42, 40)
            assert json.loads(stream.query(STREAM))["samples"] == 42
            config = json.loads(stream.query(CONFIG))
            assert config["sources"] == sources and "source" not in config
            assert str(one) in stream.query(PATH, 29) and str(other) in stream.query(PATH, 30) and str(other) in stream.query(PATH, 41)
            with refused(errno.EINVAL, "the dataset has 42"):
                stream.query(PATH, 42)
            assert len(stream.query(CLASSES).split()) == 3
            # The rows are those that each dataset's own stream would make: labels, sizes, checkpoints of its own.
            batch = stream.next()
            assert labels_of(stream, batch) == [row.index // 10 if row.index < 30 else (row.index - 30) // 4 for row in stream.rows(batch)]
            assert len(list(home.rglob("*.ckp"))) == 2, "each dataset keeps checkpoints of its own"
            again = read(link, epoch_length=100, epochs=1, **keys)
            assert [rows for _, rows in again] == [rows for _, rows in got]
            plain = link.open(source=one, **{k: v for k, v in keys.items() if k != "sources"} | {"batch_size": 3}).opened()
            assert plain.fingerprint != stream.info.fingerprint
            turned = link.open(**{**keys, "sources": sources[::-1], "batch_size": 3}).opened()
            assert turned.fingerprint != stream.info.fingerprint
            # A split is of each of them.
            halves = read(link, split="[:50%]", epoch_length=200, epochs=1, **keys)
            assert {row.index for _, rows in halves for row in rows} == set(split_of(30, 0, 15)) | {30 + i for i in split_of(12, 0, 6)}


def test_broken_samples_are_replaced_from_their_own_source():
    with folder() as home:
        one, other = two_sources(home)
        for broken in sorted(other.rglob("*.jpg"))[:3]:
            broken.write_bytes(broken.read_bytes()[:200])
        sources = [{"source": str(one), "weight": 1}, {"source": str(other), "weight": 1}]
        with Daemon(home, "--threads", "1") as daemon, Link(daemon.socket) as link:
            got = read(link, sources=sources, seed=1, epoch_length=200, epochs=1, batch_size=20, max_broken=1, **TINY)
            replaced = 0
            for _, rows in got:
                for row in rows:
                    part, number = mixed((30, 12), (1, 1), 1, 200, 0, row.position)
                    attempt = 0
                    while part == 1 and number < 3:
                        attempt += 1
                        number = substitute(12, 1, 0, row.position, attempt)
                    assert row.index == (0, 30)[part] + number and bool(row.flags & SUBSTITUTED) == bool(attempt), row
                    replaced += bool(attempt)
            assert replaced > 10
            broken = str(sorted(other.rglob("*.jpg"))[0])
            wait_until(lambda: any(broken in file.read_text() for file in home.rglob("quarantine.tsv")), "its line in the quarantine file")


def test_broken_samples_are_replaced_by_the_same_weights():
    weights = [0] * 20 + [1] * 20 + [3] * 20
    with served() as (home, daemon, source), Link(daemon.socket) as link:
        files = sorted(source.rglob("*.jpg"))
        for sample in (25, 45, 46):
            files[sample].write_bytes(files[sample].read_bytes()[:200])
        table = alias(weights)
        got = read(link, source=source, weights=npy(home / "w.npy", weights, "<f8"), seed=9, repeats=2, epoch_length=400, epochs=1,
                   batch_size=20, max_broken=1, **TINY)
        replaced = 0
        for _, rows in got:
            for row in rows:
                want, attempt = drawn(table, 9, 0, row.position // 2), 0
                while want in (25, 45, 46):
                    attempt += 1
                    want = drawn(table, 9, 0, row.position // 2, SUBSTITUTE, attempt)
                assert row.index == want and bool(row.flags & SUBSTITUTED) == bool(attempt), row
                replaced += bool(attempt)
        assert replaced > 10


def test_sources_must_agree_on_labels():
    with folder() as home:
        one, other = two_sources(home)
        flat, two = home / "flat", make_dataset(home / "two", classes=2, per_class=3, min_side=32, max_side=64)
        flat.mkdir()
        shutil.copy(next(one.rglob("*.jpg")), flat / "x.jpg")
        renamed = home / "renamed"
        shutil.copytree(other, renamed)
        first = sorted(renamed.iterdir())[0]
        first.rename(renamed / (first.name + "_"))
        tars = make_dataset(home / "tars", classes=3, per_class=4, min_side=32, max_side=64, tars=True)
        with Daemon(home, "--threads", "1") as daemon, Link(daemon.socket) as link:
            def of(*paths):
                return [{"source": str(path)} for path in paths]
            for paths, words in (((one, flat), ["has labels and", "flat has none"]), ((flat, one), ["has labels and", "flat has none"]),
                                 ((one, two), ["3 class names", "has 2"]), ((one, other, renamed), ["class 0 is", "labels: none"]),
                                 ((one, tars / "*.tar"), ["3 class names", "has 0"])):
                with refused(errno.EINVAL, "sources", "mean the same by a label", *words):
                    link.open(sources=of(*paths), **TINY, batch_size=2).opened()
            assert link.open(sources=of(one, flat, two), labels="none", **TINY, batch_size=2).next().count == 2
            with refused(errno.ENOENT, "nowhere"):
                link.open(sources=of(one, home / "nowhere"), **TINY).opened()


# ---- who agrees ----

def test_states_and_groups_of_another_sampler_are_refused():
    with served() as (home, daemon, source), Link(daemon.socket) as link:
        weights, others = npy(home / "w.npy", [1] * SAMPLES, "<f8"), npy(home / "v.npy", [1] * 59 + [2], "<f8")
        same = npy(home / "same.npy", [1] * SAMPLES, "<f4")
        keys = dict(source=source, batch_size=4, **TINY)
        samplers = [{}, {"weights": weights}, {"weights": others}, {"weights": "balanced"}, {"epoch_length": 50}, {"epoch_length": 60}, {"repeats": 2},
                    {"split": "[:90%]"}, {"split": "[:80%]"}, {"split": "[:54]"}]
        states = []
        for sampler in samplers:
            stream = link.open(**sampler, **keys)
            states.append(stream.state(stream.next()))
            stream.close()
        assert len({state["order"] for state in states}) == len(samplers)
        for sampler, state in zip(samplers, states):
            assert link.open(**sampler, state=state, **keys).next().position == 4
            for other in samplers:
                if other != sampler:
                    with refused(errno.ESTALE, "another order"):
                        link.open(**other, state=state, **keys).opened()
        with refused(errno.ESTALE, "it had none of weights, epoch_length, repeats, split, sampling and sources"):
            link.open(repeats=2, state=states[0], **keys).opened()
        assert link.open(weights=same, state=states[1], **keys).next().position == 4, "another file of the same"
        assert link.open(weights=weights, group="g", **keys).opened() and link.open(weights=same, group="g", **keys).opened()
        for other in ({"weights": others}, {"weights": "balanced"}, {}):
            with refused(errno.EBUSY, "another weights"):
                link.open(**other, group="g", **keys).opened()
        assert link.open(repeats=2, group="r", **keys).opened()
        with refused(errno.EBUSY, "another repeats"):
            link.open(repeats=3, group="r", **keys).opened()


def test_late_joiners_and_threads_change_nothing():
    with folder() as home:
        one, other = two_sources(home)
        sources = [{"source": str(one), "weight": 2}, {"source": str(other), "weight": 1}]
        keys = dict(sources=sources, seed=3, epochs=3, batch_size=6, repeats=2, **TINY)
        pixels = []
        for threads in ("1", "3"):
            with Daemon(home, "--threads", threads) as daemon:
                with Link(daemon.socket) as link:
                    whole = read(link, **keys)
                with Link(daemon.socket) as first, Link(daemon.socket) as late:
                    stream = first.open(group="g", **keys)
                    for _ in range(2):
                        stream.release(stream.next())
                    joined = late.open(group="g", **keys)
                    start = joined.opened()
                    batch = joined.next()
                    want = [rows for b, rows in whole if (b.epoch, b.batch) == (start.epoch, start.batch)]
                    assert (batch.epoch, batch.batch) == (start.epoch, start.batch) and [joined.rows(batch)] == want
                pixels.append(whole)
        assert pixels[0] == pixels[1]


def test_ranks_share_a_table_whatever_their_files_are_called():
    weights = [1.0 + i % 3 for i in range(SAMPLES)]
    with served() as (home, daemon, source), contextlib.ExitStack() as stack:
        table = alias(weights)
        keys = dict(source=source, seed=4, epochs=1, drop_last=False, batch_size=5, **TINY)
        start = reserved(daemon)
        for group, kinds in (("files", ("<f8", "<f4", "<f8")), ("balanced", (None,) * 3)):
            links = [stack.enter_context(Link(daemon.socket)) for _ in kinds]
            streams = [link.open(weights=npy(home / f"{rank}.npy", weights, kind) if kind else "balanced", group=group, share="split", rank=rank,
                                 world_size=3, **keys) for rank, (link, kind) in enumerate(zip(links, kinds))]
            for stream in streams:
                stream.opened()
            lines = [line["bytes"] for line in daemon.status()["memory"]["lines"] if "weights of" in line["name"]]
            assert lines.count(8 * SAMPLES) == len(lines) == (1 if group == "files" else 2), lines
            got = {}
            for stream in streams:
                got.update(shown(stream.read()))
            want = table if group == "files" else alias([1 / 20] * SAMPLES)
            assert got == by_position(lambda e, p, want=want: drawn(want, 4, e, p), SAMPLES, 1)
        for link in links:
            link.close()
        stack.close()
        wait_until(lambda: reserved(daemon) == start, "all memory to return")


def test_named_streams_have_samplers():
    with folder() as home:
        one, other = two_sources(home)
        weights = npy(home / "w.npy", [float(i) for i in range(30)], "<f8")
        config = f"""streams:
  drawn: {{source: {one}, weights: {weights}, epoch_length: 77, image_size: 12, batch_size: 7}}
  mixed:
    sources: [{{source: {one}, weight: 2}}, {{source: {other}}}]
    repeats: 2
    image_size: 12
    batch_size: 6
  tail: {{source: {home}, split: "one[-10%:]", image_size: 12, batch_size: 3}}
"""
        with Daemon(home, "--threads", "1", config=config) as daemon, Link(daemon.socket) as link:
            table = alias([float(i) for i in range(30)])
            assert shown(read(link, stream="drawn", epochs=2)) == by_position(lambda e, p: drawn(table, 0, e, p), 77, 2)

            def model(epoch, position):
                part, number = mixed((30, 12), (2, 1), 0, 42, epoch, position, 2)
                return (0, 30)[part] + number
            assert shown(read(link, stream="mixed", epochs=2)) == by_position(model, 42, 2)
            tail = split_of(30, 27, 30)
            assert shown(read(link, stream="tail", epochs=1)) == by_position(lambda e, p: tail[place(3, 0, e, p)], 3, 1)
            with refused(errno.EINVAL, "repeats cannot be written beside stream"):
                link.open(stream="tail", repeats=2).opened()
            env = environment(home, PENSTOCK_SOCKET=daemon.socket)
            first = sorted(path.relative_to(one) for path in one.rglob("*.jpg"))[0]
            got = json.loads(run(home, "show", "stream:tail", "--sample", 0, "--draws", 1, "-o", home / "tail.png", "--json", env=env)[0])
            assert got["name"] == str(first), got
            got = json.loads(run(home, "show", "stream:mixed", "--rows", 6, "-o", home / "mixed.png", "--json", env=env)[0])
            assert got["rows"] == 6 and (home / "mixed.png").stat().st_size > 0, got
            refuse(home, "show", "stream:mixed", "--sample", 3, says=["--sample shows one dataset", "mixes 2"], env=env)


def test_who_leaves_while_a_table_is_made():
    """The file is read, and classes are counted, for nobody: what that took returns, and others go on."""
    with served("--memory", "256M") as (home, daemon, source):
        weights = npy(home / "w.npy", array.array("d", [1.0, 0.5] * 1_500_000), "<f8")
        few = npy(home / "few.npy", array.array("i", range(SAMPLES)) * 50_000, "<i4")
        start = reserved(daemon)
        for sampler in ({"weights": str(weights), "indices": str(few)}, {"weights": "balanced", "indices": str(few)}):
            text = json.dumps({"source": str(source), "batch_size": 2, "prefetch": 2, **TINY, **sampler})
            for wait in (0, 0.05, 0.2):
                gone = Raw(daemon.socket)
                gone.send(open_stream(text))
                time.sleep(wait)
                gone.close()
            closing = Raw(daemon.socket)
            closing.send(open_stream(text, 1, 2))
            closing.send(message(CLOSE, stream=2))
            closing.close()
        with Link(daemon.socket) as link:
            assert link.open(source=source, batch_size=2, prefetch=2, **TINY).next().count == 2
        wait_until(lambda: reserved(daemon) == start and not daemon.status()["streams"], "what they left to be cleared away")


# ---- bad input ----

def test_balanced_is_no_file_to_wait_for():
    """Those who name one file take turns; two who ask for balanced classes, of other lists, need not."""
    with served("--memory", "8G") as (home, daemon, source), Link(daemon.socket) as link, Link(daemon.socket) as other:
        many = 1_000_000_000
        header = f"{{'descr': '<i4', 'fortran_order': False, 'shape': ({many},)}}\n".encode()
        long = home / "long.npy"
        long.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        with open(long, "r+b") as file:
            file.seek(10 + len(header) + 4 * (many - 1))
            file.write(struct.pack("<i", -1)) # refused at its end
        keys = dict(source=source, weights="balanced", batch_size=2, **TINY)
        slow = link.open(indices=long, **keys)
        daemon.status()  # behind it
        other.open(indices=npy(home / "few.npy", range(9), "<i4"), **keys).opened()
        slow.pending()
        assert not slow.refusal


def test_bad_weights_are_refused_in_words():
    with served() as (home, daemon, source), Link(daemon.socket) as link:
        keys = dict(source=source, batch_size=2, **TINY)
        path = home / "w.npy"
        (home / "text.npy").write_text("1\n2\n")
        good = [1.0] * SAMPLES
        nan, infinite = float("nan"), float("inf")
        cases = [
            (lambda: home / "none.npy", errno.ENOENT, ["No such file", "must be able to read the file"]),
            (lambda: home / "text.npy", errno.EINVAL, ["not a .npy file", "asarray(weights"]),
            (lambda: home, errno.EINVAL, ["not a regular file: expected a .npy file of weights"]),
            (lambda: npy(path, range(SAMPLES)), errno.EINVAL, ["<i8", "expected little-endian floats (<f8 or <f4)"]),
            (lambda: npy(path, good, "<f8", shape=(30, 2)), errno.EINVAL, ["2 dimensions"]),
            (lambda: npy(path, [], "<f8"), errno.EINVAL, ["is empty"]),
            (lambda: npy(path, good, "<f8", cut=5), errno.EINVAL, ["cut off or damaged"]),
            (lambda: npy(path, [1, nan, 1], "<f8"), errno.EINVAL, ["[1] is nan", "0 or more"]),
            (lambda: npy(path, [1, 1, infinite], "<f4"), errno.EINVAL, ["[2] is inf"]),
            (lambda: npy(path, [-0.5] + good[1:], "<f8"), errno.EINVAL, ["[0] is -0.5"]),
            (lambda: npy(path, [0] * SAMPLES, "<f8"), errno.EINVAL, ["all of its 60 weights are 0"]),
            (lambda: npy(path, good[1:], "<f8"), errno.EINVAL, ["has 59 weights", "60 samples to draw from"]),
        ]
        for make, code, words in cases:
            bad = make()
            with refused(code, f"weights: {bad}", *words):
                link.open(weights=bad, **keys).opened()
        with refused(errno.EINVAL, "has 60 weights", "54 samples"):
            link.open(weights=npy(path, good, "<f8"), split="[:90%]", **keys).opened()
        assert link.open(weights=path, **keys).next().count == 2, "and the connection lives on"


def test_bad_keys_are_refused_with_their_place():
    with served() as (home, daemon, source), Link(daemon.socket) as link:
        keys = dict(source=str(source), **TINY)
        pair = [{"source": "a"}, {"source": "b"}]
        cases = [
            ({"epoch_length": 0}, ["epoch_length: expected", "1"]),
            ({"repeats": 0}, ["repeats: expected"]), ({"repeats": 17}, ["repeats: expected", "16"]),
            ({"repeats": 2, "shuffle": False}, ["repeats: expected 1 where samples are not shuffled"]),
            ({"repeats": 2, "train": False}, ["repeats: expected 1"]),
            ({"weights": "balanced", "shuffle": False}, ["shuffle: expected true, or nothing", "drawn by weights"]),
            ({"weights": ""}, ["weights"]), ({"weights": []}, ["weights"]),
            ({"split": "[:10%]", "indices": "/x.npy"}, ["split cannot be written beside indices"]),
            ({"split": ""}, ["split"]), ({"split": "a/b"}, ["split:", "character 2", "the name of a folder"]),
            ({"split": ".."}, ["the name of a folder"]), ({"split": "train[10%"}, ["character 10", "a colon"]),
            ({"split": "train[:10%"}, ["a closing bracket"]), ({"split": "train[:x]"}, ["character 8", "a number of samples or percent"]),
            ({"split": "train[:1.5]"}, ["a percent sign"]), ({"split": "train[:101%]"}, ["at most 100 percent"]),
            ({"split": "train[:10%]+test"}, ["nothing after it", "train[:90%]"]),
            ({"split": "train+test"}, ["the name of a folder"]), ({"split": "[:1.1234567%]"}, ["at most six digits"]),
            ({"split": "[:999999999999999999]"}, ["2^48"]),
            ({"sources": pair}, ["sources cannot be written beside source"]),
        ]
        for bad, words in cases:
            with refused(errno.EINVAL, "open request:1:", *words):
                link.open(**keys, **bad).opened()
        lists = [
            ([], ["expected 2 to 16 of them, got 0"]), (pair[:1], ["write it as source"]), (pair * 9, ["got 18"]), ("a", ["expected a list"]),
            ([1, 2], ["expected {source: PATH"]), ([{"weight": 1}, {"source": "b"}], ["source is missing"]),
            ([{"source": "a", "weight": 0}, {"source": "b"}], ["weight: expected a number above 0"]),
            ([{"source": "a", "weight": -1}, {"source": "b"}], ["weight"]), ([{"source": "a", "height": 0}, {"source": "b"}], ["height"]),
            ([{"source": "a", "weight": 0.0001}, {"source": "b"}], ["none of 1000 samples would be of a"]),
            ([{"source": "stream:a"}, {"source": "b"}], ["not streams of a configuration"]),
            ([{"source": "a" * 3000}] * 6, ["16384"]),
        ]
        for bad, words in lists:
            with refused(errno.EINVAL, "open request:1:", *words):
                link.open(sources=bad, **TINY).opened()
        for beside, words in (({"indices": "/x.npy"}, ["beside indices"]), ({"weights": "balanced"}, ["beside weights"]),
                              ({"shuffle": False}, ["shuffle: expected true", "mixed"])):
            with refused(errno.EINVAL, *words):
                link.open(sources=pair, **TINY, **beside).opened()


# ---- the command ----

def test_commands_follow_the_sampler():
    with folder() as home:
        source = make_dataset(home / "images", classes=3, per_class=20, min_side=32, max_side=64)
        weights = [1 + i % 5 for i in range(SAMPLES)]
        path = npy(home / "w.npy", weights, "<f8")
        table = alias(weights)
        common = ["--image-size", 12, "-b", 4, "--seed", 3]
        cases = [(["--weights", path, "--epoch-length", 500], 500, lambda e, p: drawn(table, 3, e, p)),
                 (["--repeats", 3], 60, lambda e, p: place(60, 3, e, p // 3)),
                 (["--epoch-length", 50], 50, lambda e, p: endless(60, 3, 50, e, p)),
                 (["--split", "[10%:]"], 54, lambda e, p: split_of(60, 6, 60)[place(54, 3, e, p)]),
                 (["--sampling", {"classes": 2, "per_class": 2}], 60, per_class_model([i // 20 for i in range(60)], 3, 60, 2, 2))]
        with Daemon(home, "--threads", "1") as daemon:
            for options, length, model in cases:
                got = json.loads(run(home, "replay", source, *common, *options, "--epoch", 2, "--batch", 1, "--json")[0])["rows"]
                assert [row["index"] for row in got] == [model(2, p) for p in range(4, 8)], options
                got = json.loads(run(home, "plan", source, *common, *options, "-W", 2, "--json")[0])
                assert (got["samples"], got["batches"]) == (length, length // 8)
                assert got["ranks"][1]["first_samples"] == [model(0, p) for p in range(4, 7)]
                keys = {name.replace("-", "_").lstrip("_"): value for name, value in zip(options[::2], options[1::2])}
                with Link(daemon.socket) as link:
                    stream = link.open(source=source, batch_size=4, seed=3, image_size=12, **keys)
                    state = json.dumps(stream.state(stream.next()))
                got = json.loads(run(home, "state", state, source, *common, *options, "--json")[0])
                assert got["differs"] == [] and got["next"]["ranks"][0]["first_sample"] == model(0, 4), got
                out, _ = run(home, "state", state, source, *common, code=1)
                assert "other weights, epoch_length, repeats, split, sampling or sources" in " ".join(out.split()), out
        one, other = two_sources(home)
        pair = json.dumps([{"source": str(one), "weight": 3}, {"source": str(other), "weight": 1}])

        def model(position):
            part, number = mixed((30, 12), (3, 1), 3, 42, 0, position)
            return (0, 30)[part] + number
        got = json.loads(run(home, "plan", pair, *common, "-W", 2, "--json")[0])
        assert got["samples"] == 42 and got["ranks"][1]["first_samples"] == [model(p) for p in range(4, 7)]
        rows = json.loads(run(home, "replay", pair, *common, "--batch", 1, "--json")[0])["rows"]
        assert [row["index"] for row in rows] == [model(p) for p in range(4, 8)]
        assert all(str(one if row["index"] < 30 else other) in row["path"] for row in rows)
        with Daemon(home, "--threads", "1") as daemon, Link(daemon.socket) as link:
            stream = link.open(sources=json.loads(pair), batch_size=4, seed=3, image_size=12)
            state = json.dumps(stream.state(stream.next()))
        got = json.loads(run(home, "state", state, pair, *common, "--json")[0])
        assert got["differs"] == [] and got["next"]["ranks"][0]["first_sample"] == model(4), got
        assert "2 datasets: 42 samples" in run(home, "plan", pair, *common)[0]
        refuse(home, "plan", "[{source: x}]", says=["SOURCE:1:1", "write it as source"])
        refuse(home, "plan", pair, "--weights", path, says="weights of their own")
        refuse(home, "bench", pair, says="this command reads one dataset")
        refuse(home, "plan", pair, "--no-shuffle", says="--no-shuffle cannot be given with several sources")
        refuse(home, "plan", source, "--weights", path, "--no-shuffle", says="--no-shuffle cannot be given with --weights")
        refuse(home, "plan", source, "--repeats", 2, "--eval", says="--repeats: expected 1 where samples are not shuffled")
        refuse(home, "plan", source, "--split", "[:9", says=["--split", "a closing bracket"])
        refuse(home, "plan", source, "--split", "[:9]", "--indices", path, says="--split cannot be written beside --indices")
        refuse(home, "bench", source, "--repeats", 2, "--yardstick", says="--repeats cannot be given; leave one out")
        refuse(home, "state", state, "--weights", path, says="--weights belongs to the stream")
        refuse(home, "bench", "stream:x", "--repeats", 2, says="--repeats cannot be given")


if __name__ == "__main__":
    run_tests(globals())

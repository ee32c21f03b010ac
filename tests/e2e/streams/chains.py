"""Chains of runs: each stops after some batches, and the next one goes on from its state at another batch size, world size and number of
threads. Every batch of every rank has the rows that PROTOCOL.md says, and each row is that of an undisturbed stream: the pixels of every group
of views, labels, fields, indices, substitutes. 18 chains each of streams with groups of views and of streams with fields."""
import collections
import contextlib
import io
import itertools
import random
import struct
import sys
import tarfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import FIELDS, GROUPS, NIGHTLY, PADDED, Daemon, Link, folder, make_dataset, promise, run_tests
from stream_checks import SUBSTITUTED, plan

EPOCHS, RUNS = 2, 3
CHAINS = 10 if NIGHTLY else 1  # times 18
INVALID = 8
THREADS = (1, 2, 3)
NUMBERS = itertools.count()
BYTES = {1: 1, 2: 4, 3: 2, 4: 2}

# A sample of a batch. `content` is all that does not depend on the batch: records without PADDED, label, images, fields.
Sample = collections.namedtuple("Sample", "position padded flags index content")

GLOBAL = [{"RandomResizedCrop": {"size": 24, "scale": [0.4, 1], "interpolation": "bicubic"}}, "RandomHorizontalFlip",
          {"RandomApply": {"p": 0.8, "transforms": [{"ColorJitter": {"brightness": 0.4, "hue": 0.1}}]}}]
LOCAL = [{"RandomResizedCrop": {"size": [12, 16], "scale": [0.05, 0.4]}}, "RandomHorizontalFlip", {"RandomGrayscale": {"p": 0.5}}]
MULTI_CROP = [{"transforms": GLOBAL, "count": 2, "name": "global"}, {"transforms": LOCAL, "count": 4, "name": "local"},
              {"image_size": [20, 14], "name": "whole"}]
ANY_ORDER = [{"transforms": ["RandomHorizontalFlip", {"Pad": {"padding": 2}}, {"Resize": {"size": 20}}, {"RandomCrop": {"size": 16}}], "count": 2},
             {"transforms": LOCAL, "count": 2}]


def groups_of(stream, memory, at):
    """(first view, views, bytes of a row, offset) of each group of views; one for all views where the stream has no groups."""
    if not stream.groups:
        row_bytes, images = struct.unpack_from("<QQ", memory, at + 88)
        return [(0, stream.info.views, row_bytes, images)]
    groups = []
    for number, (views, height, width, _) in enumerate(stream.groups):
        first, count, *size, row_bytes, images = struct.unpack_from("<4I2Q", memory, at + 192 + 32 * number)
        assert (count, *size, row_bytes) == (views, height, width, height * width * 3 * BYTES[stream.info.pixel_type])
        groups.append((first, count, row_bytes, images))
    return groups


def samples_of(stream, batch):
    """The samples of a batch."""
    memory, stride = stream.extents[batch.extent]
    at, info = batch.slot * stride, stream.info
    *_, labels, records, _ = stream.head(batch)
    groups = groups_of(stream, memory, at)
    tables = struct.unpack_from("<Q", memory, at + 136)[0]
    assert bool(tables) == bool(stream.fields)
    fields = [struct.unpack_from("<QQQ", memory, at + tables + 32 * i) for i in range(len(stream.fields))]
    assert [most for most, _, _ in fields] == [most for most, _ in stream.fields]
    samples = []
    for i in range(batch.count):
        content, flags = [bytes(memory[at + labels + 8 * i:at + labels + 8 * i + 8])], 0
        for view in range(info.views):
            record = memory[at + records + 64 * (i * info.views + view):][:64]
            index, = struct.unpack_from("<Q", record)
            flags, number, position = struct.unpack_from("<IIQ", record, 40)
            assert (number, position) == (view, batch.position + i) or flags & PADDED
            content += [record[:40], flags & ~PADDED, record[44:]]
        for first, views, row_bytes, images in groups:
            begin = at + images + row_bytes * i * views
            content.append(memory[begin:begin + row_bytes * views])
        for most, data, lengths in fields:
            length, = struct.unpack_from("<I", memory, at + lengths + 4 * i)
            begin = at + data + -(-most // 8) * 8 * i
            content.append(memory[begin:begin + length])
        samples.append(Sample(position, bool(flags & PADDED), flags & ~PADDED, index, tuple(content)))
    return samples


def read_ranks(daemon, features, world_size, limit, **keys):
    """[(batch, samples)] of each rank, at most `limit` batches, and the state after them."""
    with contextlib.ExitStack() as stack:
        shared = {"group": f"g{next(NUMBERS)}", "share": "split", "world_size": world_size} if world_size > 1 else {}
        ranks, states = [], []
        streams = [stack.enter_context(Link(daemon.socket, features)).open(**keys, **shared, **({"rank": rank} if shared else {}))
                   for rank in range(world_size)]
        for stream in streams:
            stream.opened()
            got, batch = [], None
            while len(got) != limit and (read := stream.next()) is not None:
                batch = read
                got.append((batch, samples_of(stream, batch)))
                stream.release(batch)
            ranks.append(got)
            states.append(stream.state(batch))
        assert all(state == states[0] for state in states), "all ranks have one state"
        return ranks, states[0]


def check_run(ranks, world_size, batch_size, drop_last, epoch, position, limit, table):
    """Every batch has the samples of its place, and each of these is the undisturbed stream's. How many were padded."""
    padded, count = 0, len({position for _, position in table})
    wanted = [(at, batch) for at in range(epoch, EPOCHS)
              for batch in plan(world_size, batch_size, drop_last, position if at == epoch else 0, count)][:limit]
    for rank, got in enumerate(ranks):
        assert [(batch.epoch, [(sample.position, sample.padded) for sample in samples]) for batch, samples in got] == \
            [(at, batch[rank]) for at, batch in wanted], (rank, world_size, batch_size)
        for batch, samples in got:
            for sample in samples:
                padded += sample.padded
                assert sample._replace(padded=False) == table[batch.epoch, sample.position], (rank, world_size, batch_size, sample.position)
    return padded


def check_chains(home, features, cases):
    """18 chains: six of each of three cases (keys, the flags that some of its samples have)."""
    padded, runs = 0, 0
    with contextlib.ExitStack() as stack:
        daemons = []
        for threads in THREADS:
            (home / str(threads)).mkdir()
            daemons.append(stack.enter_context(Daemon(home / str(threads), "--threads", threads)))
        for case, (sources, flags, keys) in enumerate(cases):
            keys = {"seed": 5, "epochs": EPOCHS, "max_broken": 1, **keys}
            for number, source in enumerate(sources):
                (whole,), _ = read_ranks(daemons[0], features, 1, None, source=source, **{**keys, "drop_last": False}, batch_size=1)
                table = {(batch.epoch, sample.position): sample for batch, samples in whole for sample in samples}
                assert len(table) == len(whole) == EPOCHS * (1 + max(position for _, position in table))
                assert {sample.flags & (SUBSTITUTED | INVALID) for sample in table.values()} == {0, flags}
                for turn in range(number, 6 * CHAINS, len(sources)):
                    chain = random.Random(f"{case} {turn}")
                    state, at = {}, (0, 0)
                    for run in range(RUNS):
                        world_size, batch_size = chain.choice((1, 1, 2, 3)), chain.randrange(1, 7)
                        limit = chain.randrange(1, 7) if run < RUNS - 1 else None
                        ranks, after = read_ranks(daemons[(turn + run) % 3], features, world_size, limit, source=source, batch_size=batch_size,
                                                  **keys, **state)
                        padded += check_run(ranks, world_size, batch_size, keys["drop_last"], *at, limit, table)
                        runs += 1
                        state, at = {"state": after}, (after["epoch"], after["position"])
                        if at[0] == EPOCHS:
                            break
                    assert at == (EPOCHS, 0), "the chain reached the end"
    assert padded, "some rank had no sample left and repeated one"
    return runs


def images_of(home):
    """31 samples in class folders, of which two are broken."""
    source = make_dataset(home / "images", classes=4, per_class=8, min_side=24, max_side=60)
    files = sorted(source.rglob("*.jpg"))
    files.pop().unlink()
    files[7].write_bytes(b"\xff\xd8 this was a picture")
    files[19].write_bytes(files[19].read_bytes()[:200])
    return source, files


def test_groups_of_views():
    with folder() as home:
        source, _ = images_of(home)
        runs = check_chains(home, GROUPS, (
            ([source], SUBSTITUTED, {"views": MULTI_CROP, "drop_last": False}),
            ([source], SUBSTITUTED, {"views": ANY_ORDER, "drop_last": True, "dtype": "float16", "layout": "NCHW"}),
            ([source], INVALID, {"views": [{"image_size": 24, "count": 2}, {"image_size": [12, 16]}], "drop_last": False, "train": False})))
        promise(f"{runs} runs with groups of views equal the undisturbed stream")


def with_fields(home):
    """The samples as a folder and as a tar, with a txt and an npy beside each; one sample lacks its txt, one has a txt that is too long."""
    source, files = images_of(home)
    for number, file in enumerate(files):
        if number != 11:
            file.with_suffix(".txt").write_bytes(b"x" * 65 if number == 23 else f"caption {number}".encode() + b"\xff" * (number % 5))
        head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({number % 3 + 1},), }}".ljust(117).encode() + b"\n"
        file.with_suffix(".npy").write_bytes(b"\x93NUMPY\x01\0" + struct.pack("<H", len(head)) + head + struct.pack("<f", number) * (number % 3 + 1))
    classes = sorted({file.parent.name for file in files})
    with tarfile.open(home / "all.tar", "w") as tar:
        for number, file in enumerate(files):
            members = {"jpg": file.read_bytes(), "cls": str(classes.index(file.parent.name)).encode(),
                       **{kind: file.with_suffix(f".{kind}").read_bytes() for kind in ("txt", "npy") if file.with_suffix(f".{kind}").exists()}}
            for kind in sorted(members, reverse=bool(number % 2)):  # fields in front of their image and after it
                info = tarfile.TarInfo(f"{file.parent.name}/{file.stem}.{kind}")
                info.size = len(members[kind])
                tar.addfile(info, io.BytesIO(members[kind]))
    return [source, home / "all.tar"], files


def test_fields():
    with folder() as home:
        sources, files = with_fields(home)
        strict = [{"name": "txt", "max": 64}, {"name": "npy", "max": 256}]
        loose = [{"name": "npy", "max": 256}, {"name": "txt", "max": 9, "long": "cut", "missing": "empty"}]
        small = {"image_size": 16}
        cases = ((sources, SUBSTITUTED, {**small, "fields": strict, "drop_last": False}),
                 (sources, SUBSTITUTED, {"views": MULTI_CROP[1:], "fields": loose, "drop_last": True}),
                 (sources, INVALID, {**small, "fields": strict, "drop_last": False, "train": False}))
        # What an undisturbed stream delivers is what the files hold.
        (home / "undisturbed").mkdir()
        with Daemon(home / "undisturbed") as daemon:
            for source in sources:
                for fields, broken in ((strict, {7, 11, 19, 23}), (loose, {7, 19})):
                    (got,), _ = read_ranks(daemon, FIELDS, 1, None, source=source, batch_size=4, epochs=1, max_broken=1, train=False, **small,
                                           fields=fields)
                    samples = [sample for _, samples in got for sample in samples]
                    assert {sample.index for sample in samples if sample.flags & INVALID} == broken
                    for sample in samples:
                        values = dict(zip([field["name"] for field in fields], sample.content[-2:]))
                        if sample.index not in broken:
                            text = files[sample.index].with_suffix(".txt")
                            text = text.read_bytes() if text.exists() else b""
                            assert values["txt"] == (text if fields is strict else text[:9]), sample.index
                            assert values["npy"] == files[sample.index].with_suffix(".npy").read_bytes(), sample.index
        runs = check_chains(home, GROUPS | FIELDS, cases)
        promise(f"{runs} runs with fields equal the undisturbed stream")


if __name__ == "__main__":
    run_tests(globals())

"""What rows are: several views of a sample, other values and layouts, sizes that follow the epoch, and steps behind the resampling. The same bytes
whoever makes them; values against numpy; each size against a stream of that size alone; `penstock replay` makes all of them again."""
import collections
import errno
import json
import struct
import subprocess
import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import SLOW, Daemon, Link, Refused, Skip, folder, make_dataset, run_tests, tool, wait_until

# All families of steps: drawn orders, policies, colors, filters, warps, a mix of chains, erasing.
HEAVY = [{"RandomResizedCrop": {"size": 48, "scale": [0.2, 1], "interpolation": "random"}}, "RandomHorizontalFlip",
         {"RandomApply": {"p": 0.8, "transforms": [{"ColorJitter": {"brightness": 0.4, "contrast": 0.4, "saturation": 0.2, "hue": 0.1}}]}},
         {"RandomGrayscale": {"p": 0.2}}, {"RandomApply": {"p": 0.5, "transforms": [{"GaussianBlur": {"kernel_size": 5}}]}},
         {"RandomSolarize": {"threshold": 128, "p": 0.2}}, {"RandAugment": {"num_ops": 2, "magnitude": 9}}, "AugMix",
         {"TimmAutoAugment": {"config": "rand-m9-mstd0.5-inc1"}}, {"GaussianBlur": {"radius": [0.1, 2.0]}},
         {"RandomAffine": {"degrees": 10, "translate": [0.1, 0.1], "shear": 5}}, {"RandomErasing": {"p": 0.5}}]
MARKED, SUBSTITUTED = 8, 2

Made = collections.namedtuple("Made", "epoch position view flags index label height width record pixels")


def need_numpy():
    try:
        import numpy
    except ImportError as missing:
        raise Skip(f"{missing} (scripts/install-deps makes a virtual environment with numpy)")
    return numpy


def made(stream, batch, placed=True):
    """The rows of a batch, checked as PROTOCOL.md tells a client to."""
    memory, stride = stream.extents[batch.extent]
    at, info = batch.slot * stride, stream.info
    _, epoch, _, _, count, images, labels, records, row_bytes = stream.head(batch)
    height, width, channels, pixel_type, layout = struct.unpack_from("<IIIII", memory, at + 56)
    views, = struct.unpack_from("<I", memory, at + 128)
    assert (views, channels, pixel_type, layout) == (info.views, 3, info.pixel_type, info.pixel_layout)
    assert 1 <= height <= info.height and 1 <= width <= info.width
    assert row_bytes == height * width * 3 * {1: 1, 2: 4, 3: 2, 4: 2}[pixel_type]
    assert images + row_bytes * info.batch_size * views <= labels and labels + 8 * info.batch_size <= records
    assert records + 64 * info.batch_size * views <= stride
    rows = []
    for i in range(count * views):
        record = memory[at + records + 64 * i:at + records + 64 * i + 64]
        index, label = struct.unpack_from("<Qq", record)
        flags, view, position = struct.unpack_from("<IIQ", record, 40)
        assert view == i % views and (not placed or position == batch.position + i // views), (i, view, position)
        assert label == struct.unpack_from("<q", memory, at + labels + 8 * (i // views))[0]
        begin = at + images + row_bytes * i
        rows.append(Made(epoch, position, view, flags, index, label, height, width, record, memory[begin:begin + row_bytes]))
    for i in range(count * views, info.batch_size * views):
        begin = at + images + row_bytes * i
        assert not any(memory[begin:begin + row_bytes]), "a row that is none shows something"
    return rows


def read(stream, batches=None):
    rows = []
    stream.opened()
    while batches is None or batches > 0:
        batch = stream.next()
        if batch is None:
            break
        rows += made(stream, batch)
        stream.last = batch
        stream.release(batch)
        batches = None if batches is None else batches - 1
    return rows


def stream_of(home, source, options=(), **keys):
    """All rows of a stream of a daemon of its own."""
    home.mkdir(exist_ok=True)
    with Daemon(home, *options) as daemon, Link(daemon.socket) as link:
        return read(link.open(source=source, **keys))


def test_threads_readers_and_slots_make_the_same_rows_of_a_heavy_recipe():
    with folder() as home:
        source = make_dataset(home / "images", per_class=12)
        keys = {"batch_size": 5, "epochs": 2, "seed": 11, "transforms": HEAVY, "views": 2}
        reference = stream_of(home / "r", source, ("--threads", 1, "--reader", "pread"), **keys)
        assert len(reference) == 2 * 7 * 5 * 2
        assert len({row.pixels for row in reference}) > 0.95 * len(reference), "views and epochs differ in what was drawn"
        for n, (threads, options, more) in enumerate(((4, (), {}), (3, ("--reader", "pread"), {"prefetch": 2}),
                                                      (4, ("--no-entry-points",), {"prefetch": 9}))):
            got = stream_of(home / str(n), source, ("--threads", threads, *options), **keys, **more)
            assert got == reference, f"{threads} threads {options} {more}"


def test_the_first_view_is_what_one_view_alone_is():
    with folder() as home:
        source = make_dataset(home / "images", per_class=12)
        with Daemon(home) as daemon, Link(daemon.socket) as link:
            for transforms in ({}, {"transforms": HEAVY}):
                keys = {"source": source, "batch_size": 4, "epochs": 1, "seed": 3, "image_size": 48, **transforms}
                one, three = read(link.open(**keys)), read(link.open(**keys, views=3))
                assert one == [row for row in three if row.view == 0]
                for view in (1, 2):
                    same = sum(a.record[16:40] == b.record[16:40] for a, b in zip(one, (row for row in three if row.view == view)))
                    assert same < len(one) / 4, "the views of a sample are crops of their own"


def test_rectangles_have_the_size_that_was_asked_for():
    """(height, width) of the rows, of each epoch and of a list, with the same crops as squares; replayed, and resumed."""
    with folder() as home:
        source = make_dataset(home / "images", per_class=12)
        with Daemon(home) as daemon:
            lists = [{"RandomCrop": {"size": [40, 24], "padding": 4, "pad_if_needed": True}}, "RandomHorizontalFlip", {"RandAugment": {}},
                     {"RandomErasing": {"p": 0.5}}]
            for keys, sizes in (({"image_size": [64, 32]}, [(64, 32)] * 2),
                                ({"image_size": [32, 64], "views": 2, "dtype": "float16", "layout": "NCHW"}, [(32, 64)] * 2),
                                ({"image_size": [48, 24], "train": False, "dtype": "bfloat16"}, [(48, 24)] * 2),
                                ({"image_size": {0: [64, 32], 1: [24, 48]}}, [(64, 32), (24, 48)]),
                                ({"image_size": [4096, 8]}, [(4096, 8)] * 2),  # larger than a worker's own sink
                                ({"image_size": [8, 4096], "train": False}, [(8, 4096)] * 2),
                                ({"transforms": lists}, [(40, 24)] * 2),
                                ({"transforms": [{"Resize": {"size": [48, 20]}}, *HEAVY[1:]]}, [(48, 20)] * 2)):
                keys = {"batch_size": 5, "seed": 9, **keys}
                views = keys.get("views", 1)
                with Link(daemon.socket) as link:
                    stream = link.open(source=source, epochs=2, drop_last=True, **keys)
                    rows = read(stream)
                    info = stream.info
                    assert (info.height, info.width) == tuple(max(side) for side in zip(*sizes)), keys
                    assert [{(row.height, row.width) for row in rows if row.epoch == epoch} for epoch in (0, 1)] == [{size} for size in sizes]
                    again = replayed(source, keys, "--epoch", 1, "--batch", 2) if not isinstance(keys.get("image_size"), dict) else []
                    wanted = [row for row in rows if row.epoch == 1][2 * 5 * views:][:len(again)]
                    assert [int(row["crc32"], 16) for row in again] == [zlib.crc32(row.pixels) for row in wanted], keys
                    half = link.open(source=source, epochs=2, drop_last=True, **keys)
                    read(half, 4)
                    rest = read(link.open(source=source, epochs=2, drop_last=True, **keys, state=half.state(half.last)))
                    assert rest == rows[-len(rest):], keys
            with Link(daemon.socket) as link:
                # The draws do not depend on the size: the same crops as a square's.
                square, tall = (read(link.open(source=source, batch_size=5, epochs=1, seed=9, image_size=size)) for size in (64, [64, 32]))
                assert [row.record for row in square] == [row.record for row in tall]
                shown = {json.dumps(group["image_size"]) for group in daemon.status()["streams"]}
                assert shown >= {"[64, 32]", "64"}, shown
                refuses(link, errno.EINVAL, "image_size", "[height, width]", source=source, image_size=[64, 32, 3])
                refuses(link, errno.EINVAL, "image_size", "1 to 4096", source=source, image_size=[64, 0])


def test_a_salt_changes_the_draws_and_not_the_order():
    with folder() as home:
        source = make_dataset(home / "images", per_class=12)
        with Daemon(home) as daemon, Link(daemon.socket) as link:
            keys = {"source": source, "batch_size": 4, "epochs": 2, "seed": 3, "transforms": HEAVY}
            plain, a, b = (read(link.open(**keys, **salt)) for salt in ({}, {"salt": "a"}, {"salt": "b"}))
            for one, other in ((plain, a), (plain, b), (a, b)):
                assert [(row.epoch, row.position, row.index, row.label) for row in one] == \
                    [(row.epoch, row.position, row.index, row.label) for row in other]
                same = sum(x.record[16:40] == y.record[16:40] for x, y in zip(one, other))
                assert same < len(one) / 4, "streams with other salts draw crops of their own"
            again = replayed(source, {"batch_size": 4, "seed": 3, "transforms": HEAVY, "salt": "a"}, "--epoch", 1, "--batch", 2)
            assert [int(row["crc32"], 16) for row in again] == [zlib.crc32(row.pixels) for row in a if row.epoch == 1][8:12]
            # A state without a salt goes on with the same samples and the salted draws.
            stream = link.open(**keys)
            read(stream, 5)
            rest = read(link.open(**keys, salt="a", state=stream.state(stream.last)))
            assert rest == a[-len(rest):] and rest[0].position == 20
            shared = link.open(**keys, group="g", salt="a")
            shared.opened()
            assert [group.get("salt") for group in daemon.status()["streams"] if group["group"] == "g"] == ["a"]
            refuses(link, errno.EBUSY, "salt", **keys, group="g")
            refuses(link, errno.EINVAL, "salt", **keys, salt="x" * 128)
            refuses(link, errno.EINVAL, "salt", **keys, salt=["x"])
            refuses(link, errno.EINVAL, "salt", **keys, salt="")


def converted(np, pixels, side, dtype, layout):
    """What torchvision's ToTensor and Normalize give, in the stream's dtype and layout."""
    x = np.frombuffer(pixels, np.uint8).reshape(side, side, 3)
    if dtype != "uint8":
        mean, std = np.float32([0.5, 0.25, 0.125]), np.float32([0.3, 0.2, 0.7])
        x = (x.astype(np.float32) / np.float32(255) - mean) / std
    if dtype == "float16":
        x = x.astype(np.float16)
    if dtype == "bfloat16":
        bits = x.view(np.uint32)
        x = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return np.ascontiguousarray(x if layout == "NHWC" else x.transpose(2, 0, 1)).tobytes()


def test_values_are_those_of_numpy():
    np = need_numpy()
    with folder() as home:
        source = make_dataset(home / "images", per_class=6)
        # Without erasing, which is done to the values.
        for name, transforms in (("plain", {}), ("steps", {"transforms": HEAVY[:-1]})):
            keys = {"batch_size": 4, "epochs": 1, "seed": 5, "image_size": 48, **transforms}
            plain = stream_of(home / name, source, **keys)
            for dtype in ("uint8", "float32", "float16", "bfloat16"):
                for layout in ("NHWC", "NCHW"):
                    floats = {} if dtype == "uint8" else {"mean": [0.5, 0.25, 0.125], "std": [0.3, 0.2, 0.7]}
                    for kernels in ({}, {"PENSTOCK_KERNELS": "c"}):
                        with Daemon(home / name, environment=kernels) as daemon, Link(daemon.socket) as link:
                            got = read(link.open(source=source, **keys, dtype=dtype, layout=layout, **floats))
                        assert [row.record for row in got] == [row.record for row in plain]
                        for a, b in zip(got, plain):
                            assert a.pixels == converted(np, b.pixels, 48, dtype, layout), (name, dtype, layout, kernels)


def test_what_is_erased_has_its_value_in_each_dtype():
    np = need_numpy()
    erasing = [{"RandomResizedCrop": {"size": 40}}, {"RandomErasing": {"p": 1, "value": [1, 2, 3]}}]
    with folder() as home:
        source = make_dataset(home / "images", per_class=4)
        with Daemon(home) as daemon, Link(daemon.socket) as link:
            keys = {"source": source, "batch_size": 4, "epochs": 1, "seed": 5}
            whole = read(link.open(**keys, transforms=erasing[:1], dtype="float32"))
            gone = read(link.open(**keys, transforms=erasing, dtype="float32"))
            planar = read(link.open(**keys, transforms=erasing, dtype="float32", layout="NCHW"))
            erased = 0
            for a, b, c in zip(whole, gone, planar):
                a, b = (np.frombuffer(row.pixels, np.float32).reshape(40, 40, 3) for row in (a, b))
                c = np.frombuffer(c.pixels, np.float32).reshape(3, 40, 40).transpose(1, 2, 0)
                assert (b == c).all()
                differ = (a != b).any(axis=2)
                assert (b[differ] == [1, 2, 3]).all()
                erased += differ.sum()
            assert 0.02 < erased / (len(whole) * 1600) < 0.4


def test_sizes_follow_the_epoch_and_states_go_on_in_the_middle_of_each():
    sizes = {0: 40, 1: 72, 3: 56}
    with folder() as home:
        source = make_dataset(home / "images", per_class=10)
        with Daemon(home, "--threads", 4) as daemon, Link(daemon.socket) as link:
            for more in ({}, {"transforms": [{"RandomResizedCrop": {"size": 72}}, "RandomVerticalFlip", {"RandAugment": {}}], "dtype": "float16"}):
                keys = {"source": source, "batch_size": 4, "epochs": 4, "seed": 9, "views": 2, **more}
                stream = link.open(**keys, image_size=sizes)
                info = stream.opened()
                assert (info.height, info.width, info.views) == (72, 72, 2)
                states, rows = [], []
                while batch := stream.next():
                    rows.append(made(stream, batch))
                    states.append(stream.state(batch))
                    stream.release(batch)
                stream.close()
                assert [batch[0].height for batch in rows] == [side for side in (40, 72, 72, 56) for _ in range(7)]
                for at in (2, 6, 10, 20, 24, 26):
                    again = link.open(**keys, image_size=sizes, state=states[at])
                    assert read(again) == [row for batch in rows[at + 1:] for row in batch], f"after batch {at}"
                    again.close()
                # Each epoch is as in a stream of that size alone.
                for epoch, side in enumerate((40, 72, 72, 56)):
                    alone = dict(keys)
                    if more:
                        alone["transforms"] = [{"RandomResizedCrop": {"size": side}}, *more["transforms"][1:]]
                    stream = link.open(**alone, image_size=side)
                    assert [row for row in read(stream) if row.epoch == epoch] == [row for batch in rows[7 * epoch:7 * epoch + 7] for row in batch]
                    stream.close()


def test_ranks_of_a_split_group_share_out_samples_with_all_their_views():
    with folder() as home:
        source = make_dataset(home / "images", per_class=10)
        with Daemon(home) as daemon:
            keys = {"source": source, "epochs": 2, "seed": 4, "views": 3, "transforms": HEAVY, "image_size": 48, "drop_last": False}
            with Link(daemon.socket) as link:
                alone = {(row.epoch, row.position, row.view): row for row in read(link.open(**keys, batch_size=6))}
            with Link(daemon.socket) as zero, Link(daemon.socket) as one:
                ranks = [link.open(**keys, batch_size=3, group="g", share="split", rank=rank, world_size=2)
                         for rank, link in enumerate((zero, one))]
                got = [row for stream in ranks for row in read(stream)]
            assert len(got) == len(alone) == 2 * 30 * 3
            assert {(row.epoch, row.position, row.view): row for row in got} == alone


def break_some(source, every=5):
    files = sorted(source.rglob("*.jpg"))
    for file in files[::every]:
        file.write_bytes(b"\xff\xd8 this was a picture")
    return len(files[::every])


def test_a_broken_sample_is_broken_in_all_its_views():
    with folder() as home:
        source = make_dataset(home / "images", per_class=10)
        broken = break_some(source)
        with Daemon(home) as daemon, Link(daemon.socket) as link:
            keys = {"source": source, "batch_size": 5, "epochs": 1, "seed": 4, "views": 3, "transforms": HEAVY, "max_broken": 1}
            for dtype in ("uint8", "float32"):
                rows = read(link.open(**keys, on_broken="mark", dtype=dtype))
                marked = [row for row in rows if row.flags & MARKED]
                assert len(marked) == 3 * broken
                assert not any(any(row.pixels) for row in marked), "zero bytes in any dtype"
                assert all(any(row.pixels) for row in rows if not row.flags & MARKED)
            rows = read(link.open(**keys, on_broken="substitute"))
            by_sample = collections.defaultdict(list)
            for row in rows:
                by_sample[row.position].append(row)
            assert sum(bool(views[0].flags & SUBSTITUTED) for views in by_sample.values()) >= broken
            for views in by_sample.values():
                assert len({(row.index, row.label, row.flags & SUBSTITUTED) for row in views}) == 1
                assert [row.view for row in views] == [0, 1, 2]


def refuses(link, code, *words, **keys):
    try:
        link.open(**keys).opened()
    except Refused as refusal:
        assert refusal.code == -code and all(word in refusal.sentence for word in words), (refusal.code, refusal.sentence)
    else:
        raise AssertionError(f"{keys} was opened")


def memory_of(pid):
    """What the kernel says that the process has taken at most, less what it shares with all programs."""
    with open(f"/proc/{pid}/status") as file:
        status = dict(line.split(":", 1) for line in file)
    return int(status["VmHWM"].split()[0]) << 10


def test_workers_images_and_wide_rows_are_within_the_budget():
    with folder() as home:
        source = make_dataset(home / "images", per_class=6, min_side=200, max_side=400)
        budget = 192 << 20
        big = [{"RandomResizedCrop": {"size": 512}}, *HEAVY[1:]]
        with Daemon(home, "--threads", 4, "--memory", "192M") as daemon, Link(daemon.socket) as link:
            free = daemon.status()["memory"]["reserved"]
            keys = {"source": source, "transforms": big, "views": 2, "dtype": "float32", "seed": 1, "epochs": 1}
            refuses(link, errno.ENOMEM, "batch_size", "would fit", **keys, batch_size=18)
            stream = link.open(**keys, batch_size=3)
            stream.opened()
            memory = daemon.status()["memory"]
            row = 512 * 512 * 3
            # Slots, and for each of four workers four images (steps, mix, conversion) at the very least.
            assert memory["reserved"] - free >= stream.info.slots * 3 * 2 * row * 4 + 4 * 4 * row, memory
            assert memory["reserved"] <= budget
            rows = read(stream)
            assert len(rows) == 6 * 3 * 2
            if SLOW == 1:  # a sanitizer's own memory is not the daemon's
                assert memory_of(daemon.process.pid) <= budget, "measured from outside"
            stream.close()
            wait_until(lambda: daemon.status()["memory"]["reserved"] <= free, "what the stream had to be returned")


def options_of(keys):
    """A stream's keys as the command's options."""
    options = []
    for key, value in keys.items():
        text = json.dumps(value) if isinstance(value, list) else str(value)
        options += ["--eval"] if key == "train" else [f"--{key.replace('_', '-')}", text]
    return options


def replayed(source, keys, *more, code=0):
    answer = subprocess.run([tool("penstock"), "replay", str(source), *options_of(keys), *map(str, more), "--json"], capture_output=True, text=True,
                            timeout=600)
    assert answer.returncode == code, answer.stderr
    return json.loads(answer.stdout)["rows"] if code == 0 else answer.stderr


def test_replay_makes_all_of_it_again():
    padded = [{"RandomCrop": {"size": 64, "padding": 8, "pad_if_needed": True, "padding_mode": "reflect"}}, "RandomHorizontalFlip",
              {"TrivialAugmentWide": {}}, {"RandomErasing": {"p": 0.7, "value": 1}}]
    with folder() as home:
        source = make_dataset(home / "images", per_class=10)
        break_some(source)
        with Daemon(home) as daemon, Link(daemon.socket) as link:
            for keys in ({"transforms": HEAVY, "views": 2}, {"transforms": HEAVY, "views": 3, "dtype": "float16", "layout": "NCHW"},
                         {"transforms": padded, "dtype": "float32", "mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25]},
                         {"transforms": padded, "views": 2}, {"train": False, "dtype": "bfloat16", "image_size": 48}, {"image_size": 40, "layout": "NCHW"}):
                keys = {"batch_size": 5, "seed": 21, **keys}
                views = keys.get("views", 1)
                served = read(link.open(source=source, **keys, epochs=2, max_broken=1))
                for epoch, batch in ((0, 0), (1, 3)):
                    again = replayed(source, keys, "--epoch", epoch, "--batch", batch)
                    assert len(again) == 5 * views
                    wanted = [row for row in served if row.epoch == epoch][batch * 5 * views:][:5 * views]
                    for row, got in zip(wanted, again):
                        assert (got["position"], got["view"], got["index"], got["label"]) == (row.position, row.view, row.index, row.label)
                        assert (got["substituted"], got["invalid"]) == (bool(row.flags & SUBSTITUTED), bool(row.flags & MARKED))
                        assert int(got["crc32"], 16) == zlib.crc32(row.pixels), (keys, got)
                    assert replayed(source, keys, "--epoch", epoch, "--batch", batch, "--row", 5 * views - 1) == again[-1:]
                    # One row from what its record says.
                    row = next(row for row in reversed(wanted) if not row.flags & MARKED)
                    crop = ",".join(map(str, struct.unpack_from("<4I", row.record, 16)))
                    flips = [option for bit, option in ((1, "--flip"), (16, "--flip-vertical")) if row.flags & bit]
                    alone, = replayed(source, keys, "--index", row.index, "--crop", crop, *flips, "--epoch", epoch, "--position", row.position,
                                      "--view", row.view)
                    assert int(alone["crc32"], 16) == zlib.crc32(row.pixels), (keys, alone)
        said = replayed(source, {"transforms": HEAVY}, "--index", 1, "--crop", "0,0,20,20", code=2)
        assert "--position" in said, said
        said = replayed(source, {"dtype": "float32"}, "--output", home / "png", code=2)
        assert "--dtype uint8" in said, said
        assert "dtype" in replayed(source, {"mean": [0, 0, 0]}, code=2)
        assert "three numbers" in replayed(source, {"dtype": "float32", "std": [1, 2]}, code=2)
        assert "--index" in replayed(source, {}, "--position", 3, code=2)


def test_a_group_agrees_on_shapes():
    with folder() as home:
        source = make_dataset(home / "images")
        with Daemon(home) as daemon, Link(daemon.socket) as link:
            base = {"source": source, "group": "g", "batch_size": 4}
            link.open(**base, image_size={0: 32, 2: 48}, views=2, dtype="float16").opened()
            refuses(link, errno.EBUSY, "views", **base, image_size={0: 32, 2: 48}, dtype="float16")
            refuses(link, errno.EBUSY, "dtype", **base, image_size={0: 32, 2: 48}, views=2, dtype="float32")
            refuses(link, errno.EBUSY, "image_size", **base, image_size={0: 32, 3: 48}, views=2, dtype="float16")
            refuses(link, errno.EBUSY, "mean", **base, image_size={0: 32, 2: 48}, views=2, dtype="float16", mean=[0, 0, 0])
            refuses(link, errno.EINVAL, "image_size", "epoch 0", **base, image_size={1: 32})
            refuses(link, errno.EINVAL, "views", "1 to 16", **base, views=17)


if __name__ == "__main__":
    run_tests(globals())

"""Groups of views: each row is that of a plain stream of the group's recipe with as many views, byte for byte: in any dtype, with resuming at
other batch sizes, threads and world sizes, from `penstock replay`; what a slot's head and records say; what the daemon refuses."""
import errno
import json
import struct
import subprocess
import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import GROUPS, SLOW, Daemon, Link, Refused, folder, make_dataset, run_tests, tool
from shapes import HEAVY, break_some, options_of, read, replayed

GLOBAL = [{"RandomResizedCrop": {"size": 48, "scale": [0.4, 1], "interpolation": "bicubic"}}, "RandomHorizontalFlip",
          {"RandomApply": {"p": 0.8, "transforms": [{"ColorJitter": {"brightness": 0.4, "hue": 0.1}}]}}, {"RandomGrayscale": {"p": 0.2}}]
LOCAL = [{"RandomResizedCrop": {"size": [24, 32], "scale": [0.05, 0.4]}}, "RandomHorizontalFlip", {"RandomSolarize": {"threshold": 128, "p": 0.5}}]
CENTER = [{"Resize": {"size": 40}}, {"RandomCrop": {"size": 36, "padding": 2}}]
# A group as written, and the keys of a plain stream that makes its images.
MULTI_CROP = [({"transforms": GLOBAL, "count": 2}, {"transforms": GLOBAL}),
              ({"transforms": LOCAL, "count": 5}, {"transforms": LOCAL}),
              ({"transforms": CENTER}, {"transforms": CENTER}),
              ({"image_size": [20, 28], "interpolation": "box", "count": 2}, {"image_size": [20, 28], "interpolation": "box"})]
BYTES = {1: 1, 2: 4, 3: 2, 4: 2}


def rows_of(stream, batch):
    """(position, view, record, height, width, pixels) of each row of a batch, checked as PROTOCOL.md tells a client to."""
    memory, stride = stream.extents[batch.extent]
    at, info = batch.slot * stride, stream.info
    _, epoch, _, _, count, images, labels, records, row_bytes = stream.head(batch)
    views, groups = struct.unpack_from("<II", memory, at + 128)
    assert views == info.views == sum(group[0] for group in stream.groups) and groups == len(stream.groups)
    found, first, end = {}, 0, images
    for number, (count_of, height, width, _) in enumerate(stream.groups):
        group = struct.unpack_from("<4I2Q", memory, at + 192 + 32 * number)
        assert group[:4] == (first, count_of, height, width) and group[4] == height * width * 3 * BYTES[info.pixel_type], group
        assert group[5] % 64 == 0 and group[5] >= end, "groups do not overlap"
        if number == 0:
            assert (images, row_bytes) == (group[5], group[4]) and struct.unpack_from("<II", memory, at + 56) == (height, width)
        end = group[5] + group[4] * info.batch_size * count_of
        for sample in range(info.batch_size):
            for view in range(count_of):
                begin = at + group[5] + group[4] * (sample * count_of + view)
                found[sample, first + view] = height, width, memory[begin:begin + group[4]]
        first += count_of
    assert end <= labels
    rows = []
    for sample in range(info.batch_size):
        for view in range(views):
            record = memory[at + records + 64 * (sample * views + view):][:64]
            if sample >= count:
                assert not any(found[sample, view][2]), "a row that is none shows something"
                continue
            assert struct.unpack_from("<IQ", record, 44) == (view, batch.position + sample)
            rows.append((epoch, batch.position + sample, view, record, *found[sample, view]))
    return rows


def groups_read(stream, batches=None):
    stream.opened()
    rows = []
    while batches != 0 and (batch := stream.next()) is not None:
        rows += rows_of(stream, batch)
        stream.last = batch
        stream.release(batch)
        batches = None if batches is None else batches - 1
    return rows


def check_against_plain(link, plain_link, keys, groups):
    """Every group's rows against a plain stream's of as many views."""
    views = sum(group.get("count", 1) for group, _ in groups)
    rows = groups_read(link.open(**keys, views=[group for group, _ in groups]))
    first = 0
    for group, plain in groups:
        count = group.get("count", 1)
        wanted = [(row.epoch, row.position, row.view, row.record, row.height, row.width, row.pixels)
                  for row in read(plain_link.open(**keys, **plain, views=views)) if first <= row.view < first + count]
        assert [row for row in rows if first <= row[2] < first + count] == wanted, group
        first += count
    assert len(rows) and len(rows) % views == 0
    return rows


def test_rows_are_those_of_plain_streams():
    with folder() as home:
        source = make_dataset(home / "images", per_class=6)
        break_some(source)
        with Daemon(home, "--threads", "2") as daemon, Link(daemon.socket, GROUPS) as link, Link(daemon.socket) as plain:
            for more in ({"max_broken": 1}, {"max_broken": 1, "dtype": "float16", "layout": "NCHW", "decode": "fast"},
                         {"max_broken": 1, "train": False, "drop_last": False, "batch_size": 5}):
                check_against_plain(link, plain, {"source": source, "batch_size": 4, "epochs": 1, "seed": 7, "prefetch": 2, **more}, MULTI_CROP)
            heavy = [({"transforms": HEAVY, "count": 2, "name": "a"}, {"transforms": HEAVY}),
                     ({"image_size": 32, "count": 1, "name": "b"}, {"image_size": 32})]
            check_against_plain(link, plain, {"source": source, "batch_size": 4, "epochs": 1, "seed": 7, "max_broken": 1, "dtype": "float32"}, heavy)


def test_large_images_are_decoded_once_for_all_views():
    """Entry points of images of which a crop needs a part are used once for all views; a budget without room for that gives the same rows."""
    with folder() as home:
        source = make_dataset(home / "images", per_class=4, classes=2, min_side=700, max_side=900)
        keys = {"source": source, "batch_size": 4, "epochs": 1, "seed": 5, "prefetch": 2}
        found = []
        for number, options in enumerate((("--threads", "2"), ("--threads", "1", "--memory", "40M"))):
            (home / str(number)).mkdir()
            with Daemon(home / str(number), *options) as daemon, Link(daemon.socket, GROUPS) as link, Link(daemon.socket) as plain:
                found.append(check_against_plain(link, plain, keys, MULTI_CROP))
                stream = link.open(**keys, views=[group for group, _ in MULTI_CROP])
                assert groups_read(stream) == found[-1], "with entry points as without"
                stats = json.loads(stream.query(2))
                decoded = stats["checkpoints"]["used"]
                assert decoded <= 8 * 4 if number == 0 else decoded >= 8 * 8, (number, stats["checkpoints"])
        assert found[0] == found[1]


def test_a_list_of_one_group_is_the_number():
    with folder() as home:
        source = make_dataset(home / "images", per_class=6)
        keys = {"source": source, "batch_size": 4, "epochs": 1, "seed": 7}
        with Daemon(home) as daemon, Link(daemon.socket, GROUPS) as link, Link(daemon.socket) as plain:
            for group, same in (({"image_size": 40}, {"image_size": 40}), ({"transforms": LOCAL}, {"transforms": LOCAL})):
                stream, number = link.open(**keys, views=[{**group, "count": 3}]), plain.open(**keys, **same, views=3)
                assert [row[3:] for row in groups_read(stream)] == [(row.record, row.height, row.width, row.pixels) for row in read(number)]
                assert stream.info.transform == number.info.transform and stream.info.order == number.info.order
            # A group takes what it does not write from the stream.
            for top, groups in (({"transforms": LOCAL}, [{"count": 2}, {"transforms": GLOBAL}]), ({"image_size": 40}, [{"count": 2}, {"image_size": 20}]),
                                ({"interpolation": "box"}, [{"image_size": 16}, {"image_size": 20, "interpolation": "bilinear"}])):
                spelled = json.loads(json.dumps(groups))
                for group in spelled:
                    if "transforms" not in group:
                        group.update({key: value for key, value in top.items() if key not in group})
                streams = [link.open(**keys, **top, views=groups), link.open(**keys, views=spelled)]
                assert groups_read(streams[0]) == groups_read(streams[1])
                assert streams[0].info.transform == streams[1].info.transform


def test_resume_at_other_sizes_threads_and_worlds():
    with folder() as home:
        source = make_dataset(home / "images", per_class=9, classes=2)
        keys = {"source": source, "seed": 3, "epochs": 2, "drop_last": False, "views": [group for group, _ in MULTI_CROP]}
        with Daemon(home, "--threads", "2") as daemon, Link(daemon.socket, GROUPS) as link:
            whole = groups_read(link.open(**keys, batch_size=4))
            stream = link.open(**keys, batch_size=4)
            begun = groups_read(stream, 3)
            state = stream.state(stream.last)
            stream.close()
        assert whole[:len(begun)] == begun
        for number, (threads, batch_size, world) in enumerate(((1, 5, 1), (3, 2, 3), (2, 3, 2), (1, 4, 1))):
            (home / str(number)).mkdir()
            with Daemon(home / str(number), "--threads", threads) as daemon:
                rest = []
                for rank in range(world):
                    ranked = {"share": "split", "rank": rank, "world_size": world, "group": f"g{number}"} if world > 1 else {}
                    with Link(daemon.socket, GROUPS) as link:
                        rest += groups_read(link.open(**keys, batch_size=batch_size, **ranked, state=state))
                # A rank beyond the last samples repeats one, and says so.
                rest = sorted({row[:3]: row for row in rest if not struct.unpack_from("<I", row[3], 40)[0] & 4}.values(), key=lambda row: row[:3])
                assert rest == whole[len(begun):], (threads, batch_size, world)


def test_replay_and_the_command():
    with folder() as home:
        source = make_dataset(home / "images", per_class=8)
        break_some(source)
        groups = [{**group, "name": f"g{number}"} for number, (group, _) in enumerate(MULTI_CROP)]
        keys = {"batch_size": 5, "seed": 9, "views": groups}
        with Daemon(home) as daemon, Link(daemon.socket, GROUPS) as link:
            stream = link.open(source=source, epochs=1, max_broken=1, **keys)
            rows = groups_read(stream)
            assert [group[3] for group in stream.groups] == ["g0", "g1", "g2", "g3"]
            for batch in range(2):
                again = replayed(source, keys, "--batch", batch)
                assert [int(row["crc32"], 16) for row in again] == [zlib.crc32(row[6]) for row in rows[batch * 50:batch * 50 + 50]]
                assert [row["view"] for row in again] == list(range(10)) * 5
            row = again[3]  # by its record
            one = replayed(source, {"views": groups, "seed": 9}, "--index", row["index"], "--position", row["position"], "--view", 3, "--crop",
                           ",".join(map(str, row["crop"])), *(["--flip"] if row["flipped"] else []), "--epoch", 0)
            assert one[0]["crc32"] == row["crc32"]
            assert "--view 10 is not below the number of views, which is 10" in replayed(source, keys, "--index", 0, "--view", 10, "--position", 0,
                                                                                           "--crop", "0,0,8,8", code=2)
            status = daemon.status()["streams"]
            config = json.loads(stream.query(6))
            assert [group["name"] for group in config["views"]] == ["g0", "g1", "g2", "g3"] and "transforms" not in config
            opened = link.open(**{key: value for key, value in config.items() if key != "epochs"}, epochs=1)
            assert groups_read(opened, 1) == rows[:50], "the definition that the daemon tells opens the same stream"
            assert status[0]["views"] == 10 and len(status[0]["view_groups"]) == 4 and status[0]["image_size"] == 48
        options = options_of(keys)
        sheet = subprocess.run([tool("penstock"), "show", str(source), *options, "--rows", "10", "-o", str(home / "sheet.png"), "--json"],
                               capture_output=True, text=True, timeout=120)
        assert sheet.returncode == 0 and json.loads(sheet.stdout)["rows"] == 10, sheet.stderr
        sample = subprocess.run([tool("penstock"), "show", str(source), *options, "--sample", "1", "--view", "4", "-o", str(home / "one.png")],
                                capture_output=True, text=True, timeout=120)
        assert sample.returncode == 0 and (home / "one.png").stat().st_size, sample.stderr
        plan = json.loads(subprocess.run([tool("penstock"), "plan", str(source), *options, "--json"], capture_output=True, text=True, check=True,
                                         timeout=120).stdout)
        assert [group["count"] for group in plan["view_groups"]] == [2, 5, 1, 2]


def test_what_is_refused():
    two = [{"image_size": 32, "count": 2}, {"image_size": 16}]
    erasing = [{"RandomResizedCrop": {"size": 16}}, {"RandomErasing": {"value": 0.5}}]
    bad = [
        ({"views": 0}, "views: expected a whole number from 1 to 16"),
        ({"views": 17}, "views: expected a whole number from 1 to 16"),
        ({"views": []}, "views: expected a whole number from 1 to 16, or a list of groups"),
        ({"views": {"a": {"count": 1}}}, "views: expected a whole number from 1 to 16, or a list of groups"),
        ({"views": [3]}, "views[0]: expected each group as a mapping with transforms, image_size, interpolation, count and name"),
        ({"views": [{"size": 16}]}, "views[0]: unknown key"),
        ({"views": [{"count": 0}]}, "views[0]: count: expected a whole number from 1 to 16"),
        ({"views": [{"count": 17}]}, "views[0]: count: expected a whole number from 1 to 16"),
        ({"views": [{"count": 9}, {"count": 8}]}, "expected at most 16 views of a sample, of all groups together; this group makes them 17"),
        ({"views": [{"count": 1}] * 17}, "expected at most 16 views"),
        ({"views": [{"image_size": 0}]}, "image_size: expected a whole number from 1 to"),
        ({"views": [{"image_size": {0: 16, 2: 32}}]}, "image_size: expected one size for all epochs: the size of a group of views cannot change"),
        ({"views": [{"name": "a"}, {"name": "a"}]}, 'two groups have the name "a"'),
        ({"views": [{"name": "a"}, {"count": 2}]}, "expected names for all groups or for none: group 2 has no name"),
        ({"views": [{"name": ""}]}, "name: expected"),
        ({"views": [{"name": "a" * 64}]}, "name: expected"),
        ({"views": [{"transforms": LOCAL, "image_size": 16}]}, "image_size: expected 24 x 32, the size that transforms makes, or nothing; got 16"),
        ({"views": [{"transforms": LOCAL, "interpolation": "box"}]}, "interpolation cannot be written beside transforms"),
        ({"views": [{"transforms": ["Nothing"]}]}, "Nothing"),
        ({"views": [{"transforms": []}]}, "transforms: expected a list of operations"),
        ({"views": [{"interpolation": "cubic"}]}, "interpolation: expected"),
        ({"views": two, "image_size": {0: 32, 1: 16}}, "image_size: expected one size for all epochs beside groups of views"),
        ({"views": two, "image_size": 64}, "image_size has no effect beside views, where every group has its own"),
        ({"views": [{"transforms": LOCAL}], "transforms": GLOBAL}, "transforms has no effect beside views"),
        ({"views": [{"transforms": LOCAL}], "interpolation": "box"}, "interpolation has no effect beside views"),
        ({"views": [{"image_size": 16}], "transforms": LOCAL}, "views[0] has the image_size 16 and takes the stream's transforms, which make 24 x 32"),
        ({"views": [{"interpolation": "box"}], "transforms": LOCAL}, "views[0] has an interpolation and takes the stream's transforms"),
        ({"views": [{"transforms": GLOBAL}, {"transforms": erasing}]}, "views[1]:"),
        ({"views": [{"transforms": [GLOBAL[0], *[HEAVY[2]] * 14]}] * 12}, "the lists of all groups together are too long; expected fewer operations"),
    ]
    with folder() as home:
        source = make_dataset(home / "images", per_class=4)
        with Daemon(home, "--memory", "96M") as daemon, Link(daemon.socket, GROUPS) as link, Link(daemon.socket) as old:
            for keys, wanted in bad:
                try:
                    link.open(source=source, batch_size=2, **keys).opened()
                except Refused as refused:
                    assert refused.code == -errno.EINVAL and wanted in refused.sentence, (keys, refused.sentence)
                    assert "open request:1:" in refused.sentence, refused.sentence
                else:
                    raise AssertionError(f"{keys} was not refused")
            try:
                link.open(source=source, batch_size=64, drop_last=False, views=[{"image_size": 224, "count": 8, "name": "a"}, {"image_size": 96, "count": 8, "name": "b"}]).opened()
            except Refused as refused:
                assert refused.code == -errno.ENOMEM, refused.sentence
                assert "a stream of batch_size 64 at a 8 x 224 px + b 8 x 96 px needs at least" in refused.sentence, refused.sentence
                assert "would fit" in refused.sentence, refused.sentence
            else:
                raise AssertionError("the budget did not count the groups")
            try:
                old.open(source=source, batch_size=2, views=two).opened()
            except Refused as refused:
                assert refused.code == -errno.ENOTSUP and "divided into groups, which the trainer's libpenstock" in refused.sentence, refused.sentence
            else:
                raise AssertionError("a client that does not know groups got one")
            assert groups_read(link.open(source=source, batch_size=2, epochs=1, views=two)), "the connection goes on"
            # Trainers of one group must agree on the groups of views.
            link.open(source=source, batch_size=2, epochs=1, group="x", views=two).opened()
            try:
                link.open(source=source, batch_size=2, epochs=1, group="x", views=[two[1], two[0]]).opened()
            except Refused as refused:
                assert refused.code == -errno.EBUSY and "views" in refused.sentence, refused.sentence
            else:
                raise AssertionError("another definition joined the group")


if __name__ == "__main__":
    run_tests(globals())

"""labels: manifests of folders and of tars, paths into .json, files of classes: classes, multi-hot rows and rows of numbers as the
slots hold them, compared with what was written down; two settings of one source at once; indexes that serve again; refusals."""
import array
import contextlib
import errno
import io
import json
import random
import struct
import sys
import tarfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from command_line import refuse, run
from harness import CLASSES, CONFIG, INVALID, PATH, STREAM, Daemon, Link, folder, make_dataset, run_tests
from stream_checks import npy, refused

I64, F32 = 1, 2
TINY = {"image_size": 12, "epochs": 1, "drop_last": False}
ADJECTIVES = ["small", "red", "old man", "été", "x"]


@contextlib.contextmanager
def served(*options, **keys):
    with folder() as home:
        source = make_dataset(home / "images", classes=3, per_class=20, min_side=32, max_side=48)
        paths = sorted((str(p.relative_to(source)) for p in source.rglob("*.*")), key=str.encode)
        with Daemon(home, "--threads", "2", *options, **keys) as daemon:
            yield home, daemon, source, paths


def manifest(path, rows, header=None, separator=","):
    """In an order of its own: which line is of which sample, the path alone says."""
    lines = [separator.join(str(cell) for cell in row) for row in rows]
    random.Random(7).shuffle(lines)
    path.write_text("\n".join(([separator.join(header)] if header else []) + lines) + "\n", encoding="utf-8")
    return path


def label_rows(stream, batch):
    """Of each row of the slot, those without a sample too: a number, or a list of float32."""
    info = stream.info
    memory, stride = stream.extents[batch.extent]
    *_, at, _, _ = stream.head(batch)
    at += batch.slot * stride
    if info.label_type == I64 and info.label_width == 1:
        return list(struct.unpack_from(f"<{info.batch_size}q", memory, at))
    flat = struct.unpack_from(f"<{info.batch_size * info.label_width}{'q' if info.label_type == I64 else 'f'}", memory, at)
    return [list(flat[i:i + info.label_width]) for i in range(0, len(flat), info.label_width)]


def read(link, **keys):
    """{sample: label} of an epoch, after OPENED's fields; what has no sample must be blank."""
    stream = link.open(**{**TINY, "batch_size": 7, **keys})
    info = stream.opened()
    labels = {}
    while (batch := stream.next()) is not None:
        rows = label_rows(stream, batch)
        for row, label in zip(stream.rows(batch), rows):
            labels[row.index] = label
        blank = (-1 if info.label_type == I64 else 0.0) if info.label_width == 1 and info.label_type == I64 else \
            [-1 if info.label_type == I64 else 0.0] * info.label_width
        assert rows[batch.count:] == [blank] * (info.batch_size - batch.count), "rows without a sample"
        stream.release(batch)
    classes = stream.query(CLASSES).splitlines()
    stream.close()
    return info, labels, classes


def read_named(link, name):
    stream = link.open(stream=name, epochs=1)
    info = stream.opened()
    labels = {}
    while (batch := stream.next()) is not None:
        labels.update(zip((r.index for r in stream.rows(batch)), label_rows(stream, batch)))
        stream.release(batch)
    return info, labels


def expect(link, want, label_type, width, classes=(), **keys):
    info, labels, names = read(link, **keys)
    assert (info.label_type, info.label_width) == (label_type, width), (info.label_type, info.label_width)
    assert labels == dict(enumerate(want)), labels
    assert names == list(classes) and info.classes == len(classes), names
    return info


def hot(classes, width):
    return [1.0 if c in classes else 0.0 for c in range(width)]


def float32(values):
    return list(array.array("f", values))


def indexes(home):
    return {p.name: p.stat().st_mtime_ns for p in (home / "cache").rglob("*.idx")}


# ---- folders ----

def test_folder_with_classes():
    with served() as (home, daemon, source, paths):
        words = [ADJECTIVES[i * 7 % 5] for i in range(60)]
        file = manifest(home / "m.csv", zip(paths, words), ["path", "label"])
        names = sorted(set(words), key=str.encode)
        with Link(daemon.socket) as link:
            expect(link, [names.index(w) for w in words], I64, 1, names, source=source, labels={"manifest": str(file)})
            listed = home / "classes.txt"
            listed.write_text("\n".join([*ADJECTIVES, "never"]) + "\n", encoding="utf-8")
            expect(link, [ADJECTIVES.index(w) for w in words], I64, 1, [*ADJECTIVES, "never"], source=source,
                   labels={"manifest": str(file), "classes": str(listed)})
            numbers = manifest(home / "n.tsv", zip(paths, range(100, 160)), separator="\t")
            expect(link, range(100, 160), I64, 1, source=source, labels=json.dumps({"manifest": str(numbers)}))
            expect(link, [i // 20 for i in range(60)], I64, 1, [p.name for p in sorted(source.iterdir())], source=source)


def test_folder_with_lists():
    with served() as (home, daemon, source, paths):
        lists = [sorted(random.Random(i).sample(range(30), i % 5)) for i in range(60)]
        width = max(max(classes, default=0) for classes in lists) + 1
        file = manifest(home / "m.csv", [(p, ";".join(map(str, c))) for p, c in zip(paths, lists)], ["path", "labels"])
        want = [hot(c, width) for c in lists]
        with Link(daemon.socket) as link:
            expect(link, want, F32, width, source=source, labels={"manifest": str(file)})
            expect(link, want, F32, width, source=source, labels={"manifest": str(file)}, train=False)
            stream = link.open(source=source, labels={"manifest": str(file)}, batch_size=60, shuffle=False, **TINY)
            batch = stream.next()
            memory, stride = stream.extents[batch.extent]
            records = stream.head(batch)[7] + batch.slot * stride
            firsts = [struct.unpack_from("<q", memory, records + 64 * i + 8)[0] for i in range(60)]
            assert firsts == [c[0] if c else -1 for c in lists], firsts
            stream.close()
            words = [[ADJECTIVES[c % 5] for c in classes[:2] if c % 5 != classes[0] % 5 or c == classes[0]] for classes in lists]
            listed = home / "classes.txt"
            listed.write_text("\r\n".join(ADJECTIVES), encoding="utf-8")
            file = manifest(home / "w.csv", [(p, ";".join(w) + ";") for p, w in zip(paths, words)], ["path", "labels"])
            expect(link, [hot([ADJECTIVES.index(x) for x in w], 5) for w in words], F32, 5, ADJECTIVES, source=source,
                   labels={"manifest": str(file), "classes": str(listed)})


def test_folder_with_numbers():
    with served() as (home, daemon, source, paths):
        rows = [[i * 0.1, -i, 1e-3 * i * i] for i in range(60)]
        file = manifest(home / "m.csv", [(p, *r) for p, r in zip(paths, rows)], ["path", "x", "y", "z"])
        absolute = manifest(home / "a.csv", [(source / p, *r) for p, r in zip(paths, rows)])
        with Link(daemon.socket) as link:
            for each in (file, absolute):
                expect(link, map(float32, rows), F32, 3, source=source, labels={"manifest": str(each)})
            one = manifest(home / "one.csv", zip(paths, range(60)), ["path", "label"])
            expect(link, [[float(i)] for i in range(60)], F32, 1, source=source, labels={"manifest": str(one), "type": "float"})


def test_folder_with_indicators():
    with served() as (home, daemon, source, paths):
        names = ["is_dog", "is_cat", "both words"]
        rows = [[i % 2, (i // 2) % 2, int(i % 5 == 0)] for i in range(60)]
        file = manifest(home / "m.csv", [(p, *r) for p, r in zip(paths, rows)], ["path", *names])
        said = {"manifest": str(file), "type": "multi_hot"}
        want = [[float(x) for x in row] for row in rows]
        with Link(daemon.socket) as link:
            hot_print = expect(link, want, F32, 3, names, source=source, labels=said).fingerprint
            assert expect(link, want, F32, 3, source=source, labels={"manifest": str(file)}).fingerprint != hot_print, "numbers"
            listed = home / "classes.txt"
            listed.write_text("\n".join(["never", *reversed(names)]), encoding="utf-8")
            expect(link, [[0.0, *reversed(row)] for row in want], F32, 4, ["never", *reversed(names)], source=source,
                   labels={**said, "classes": str(listed)})
            file.write_text(file.read_text().replace(",1,", ",7,", 1))
            with refused(errno.EINVAL, "m.csv:", '"is_', "expected 0 or 1", 'found "7"', "labels, as cat;dog"):
                link.open(source=source, labels=said).opened()


# ---- tars ----

def tars(home, source, paths, document):
    """Three tars of the folder's images, each with a .json; what `document` says of sample i."""
    for shard in range(3):
        with tarfile.open(home / f"s-{shard}.tar", "w") as tar:
            for i in range(shard, 60, 3):
                tar.add(source / paths[i], f"k{i:02}.jpg")
                data = document(i) if isinstance(document(i), bytes) else json.dumps(document(i)).encode()
                member = tarfile.TarInfo(f"k{i:02}.json")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    order = [i for shard in range(3) for i in range(shard, 60, 3)]
    return str(home / "s-{0..2}.tar"), order


def test_tars():
    with served() as (home, daemon, source, paths):
        lists = [random.Random(i).sample(range(12), i % 4) for i in range(60)]
        glob, order = tars(home, source, paths, lambda i: {
            "a": {"id": i, "name": ADJECTIVES[i % 5], "all": lists[i], "x": [i / 7, 2], "some.dot": [{"v": -i / 3}]}})
        listed = home / "classes.txt"
        listed.write_text("\n".join(ADJECTIVES), encoding="utf-8")
        width = max(max(c, default=0) for c in lists) + 1
        with Link(daemon.socket) as link:
            expect(link, order, I64, 1, source=glob, labels={"json": "a.id"})
            expect(link, [i % 5 for i in order], I64, 1, ADJECTIVES, source=glob, labels={"json": "a.name", "classes": str(listed)})
            expect(link, [hot(lists[i], width) for i in order], F32, width, source=glob, labels={"json": "a.all"})
            expect(link, [float32([i / 7, 2]) for i in order], F32, 2, source=glob, labels={"json": "a.x"})
            expect(link, [float32([-i / 3]) for i in order], F32, 1, source=glob, labels={"json": r"a.some\.dot.0.v", "type": "float"})
            file = manifest(home / "m.csv", [(f"k{i:02}" + ".jpg" * (i % 2), i * 3) for i in range(60)])
            expect(link, [i * 3 for i in order], I64, 1, source=glob, labels={"manifest": str(file)})
            with refused(errno.EINVAL, "s-0.tar!k00.json", '"a.name"', "classes: FILE"):
                link.open(source=glob, labels={"json": "a.name"}).opened()
            with refused(errno.EINVAL, "k00.json", 'has no "b" in a'):
                link.open(source=glob, labels={"json": "a.b"}).opened()


def test_ragged_and_missing():
    with served() as (home, daemon, source, paths):
        glob, _ = tars(home, source, paths, lambda i: {"v": [0.5] * (3 if i == 31 else 2), "w": [1] if i == 30 else 1} if i != 32 else {})
        with Link(daemon.socket) as link:
            with refused(errno.EINVAL, "s-1.tar!k31.json", "3 numbers", "have 2"):
                link.open(source=glob, labels={"json": "v"}).opened()
            with refused(errno.EINVAL, "s-0.tar!k30.json", "a list of classes", "type: class"):
                link.open(source=glob, labels={"json": "w"}).opened()
            with refused(errno.EINVAL, "s-2.tar!k32.json", 'no "w"'):
                link.open(source=glob, labels={"json": "w", "type": "multi_hot"}).opened()
            short = manifest(home / "short.csv", [(p, 1) for p in paths[:-1]])
            with refused(errno.EINVAL, paths[-1], "none of the 59 lines", "short.csv"):
                link.open(source=source, labels={"manifest": str(short)}).opened()
            more = home / "more.csv"
            more.write_text("".join(f"{p},1\n" for p in ["nobody.jpg", *paths]))
            with refused(errno.EINVAL, 'more.csv:1: "nobody.jpg"', "does not name a sample"):
                link.open(source=source, labels={"manifest": str(more)}).opened()
            more.write_text("".join(f"{p},1.5\n" for p in paths) + "x,y,z\n")
            with refused(errno.EINVAL, "more.csv:61: expected 2 columns, found 3"):
                link.open(source=source, labels={"manifest": str(more)}).opened()
            for wrong, words in (({"manifest": "m.csv"}, "absolute path"), ({"json": "a", "manifest": "/m"}, "not both"),
                                 ({"type": "float"}, "labels"), ({"json": "a", "type": "vector"}, "multi_hot"), ({"yaml": "x"}, "yaml"),
                                 ({}, "labels"), ("nothing", "nothing"), ({"json": ""}, "json"), ({"manifest": "/no/such.csv"}, "/no/such.csv")):
                code = errno.ENOENT if "/no/such.csv" in words else errno.EINVAL
                with refused(code, words):
                    link.open(source=source, labels=wrong).opened()


def test_only_what_a_manifest_names():
    """Two choices of one source at the same time; numbers, splits and states are those of the samples that are left."""
    with served() as (home, daemon, source, paths):
        draw = random.Random(3)
        chosen = sorted(draw.sample(range(60), 24))
        rest = [i for i in range(60) if i not in chosen]
        files = [manifest(home / f"{name}.csv", [(paths[i], i * 2) for i in part]) for name, part in (("train", chosen), ("val", rest))]
        labels = [{"manifest": str(file), "only": True} for file in files]
        with Link(daemon.socket) as link:
            for rule, part in zip(labels, (chosen, rest)):
                info = expect(link, [i * 2 for i in part], I64, 1, source=source, labels=rule)
                assert info.samples == len(part)
            kept = indexes(home)
            for rule, part in zip(labels, (chosen, rest)):
                expect(link, [i * 2 for i in part], I64, 1, source=source, labels=rule)
            assert indexes(home) == kept, "each choice has its own index"
            assert len(list((home / "cache").rglob("*.ckp"))) == 2, "and its own entry points"
            halves = [read(link, source=source, labels=labels[0], split=split)[1] for split in ("[:50%]", "[50%:]")]
            assert sorted([*halves[0], *halves[1]]) == list(range(24)) and {**halves[0], **halves[1]} == {n: i * 2 for n, i in enumerate(chosen)}
            few = npy(home / "few.npy", [0, 5, 23])
            assert read(link, source=source, labels=labels[0], indices=str(few))[1] == {n: chosen[n] * 2 for n in (0, 5, 23)}
            with refused(errno.EINVAL, "[0] is 24, but the dataset has 24 samples"):
                link.open(source=source, labels=labels[0], indices=str(npy(home / "far.npy", [24]))).opened()
            stream = link.open(**TINY, batch_size=4, source=source, labels=labels[0])
            state = stream.state(stream.next())
            path = stream.query(PATH, 23)
            assert path.endswith(paths[chosen[23]]), path
            with refused(errno.ESTALE, "another dataset"):
                link.open(**TINY, batch_size=4, source=source, labels=labels[1], state=state).opened()
            glob, order = tars(home, source, paths, lambda i: {})
            of_tars = manifest(home / "t.csv", [(f"k{i:02}", i) for i in chosen])
            expect(link, [i for i in order if i in chosen], I64, 1, source=glob, labels={"manifest": str(of_tars), "only": True})
            with refused(errno.EINVAL, "only needs manifest beside it"):
                link.open(source=source, labels={"json": "a", "only": True}).opened()
        told = json.loads(run(home, "check", source, "--labels", json.dumps(labels[0]), "--json")[0])
        assert told["samples"] == 24
        rows = json.loads(run(home, "replay", source, "--labels", json.dumps(labels[0]), "--eval", "-b", 24, "--batch", 0, "--json")[0])["rows"]
        assert [row["label"] for row in rows] == [i * 2 for i in chosen]


def test_rows_of_classes():
    """type: classes: int64, each row as it was written, from manifests and from .json; ranks, resumes, uneven rows."""
    with served() as (home, daemon, source, paths):
        rows = [[i % 3, 1000 + i, i % 3] for i in range(60)]
        lists = manifest(home / "l.csv", [(p, ";".join(map(str, row))) for p, row in zip(paths, rows)], ["path", "labels"])
        columns = manifest(home / "c.tsv", [(p, *row) for p, row in zip(paths, rows)], ["path", "color", "id", "again"], "\t")
        bare = manifest(home / "b.csv", [(p, *row) for p, row in zip(paths, rows)])
        names = [[ADJECTIVES[i % 5], ADJECTIVES[i // 5 % 5]] for i in range(60)]
        named = manifest(home / "n.csv", [(p, *row) for p, row in zip(paths, names)], ["path", "size", "color"])
        order = sorted(ADJECTIVES, key=str.encode)
        with Link(daemon.socket) as link:
            for file in (lists, columns, bare):
                expect(link, rows, I64, 3, source=source, labels={"manifest": str(file), "type": "classes"})
            rule = {"manifest": str(named), "type": "classes"}
            expect(link, [[order.index(word) for word in row] for row in names], I64, 2, order, source=source, labels=rule)
            listed = home / "classes.txt"
            listed.write_text("\n".join(ADJECTIVES) + "\n", encoding="utf-8")
            expect(link, [[ADJECTIVES.index(word) for word in row] for row in names], I64, 2, ADJECTIVES, source=source,
                   labels={**rule, "classes": str(listed)})
            # replay shows all values, also of rows of numbers.
            for form, values in (("classes", rows), ("float", [[i / 8, -i, 0.1] for i in range(60)])):
                file = manifest(home / f"{form}.csv", [(p, *row) for p, row in zip(paths, values)], ["path", "a", "b", "c"])
                options = ["replay", source, "--batch-size", 6, "--image-size", 12, "--labels", json.dumps({"manifest": str(file), "type": form})]
                shown = json.loads(run(home, *options, "--json")[0])["rows"]
                assert len(shown) == 6 and all(float32(row["labels"]) == float32(values[row["index"]]) for row in shown), shown
                assert form != "classes" or [row["label"] for row in shown] == [row["labels"][0] for row in shown]
                lines = [line.strip() for line in run(home, *options)[0].splitlines() if "labels: " in line]
                assert lines[0] == f"labels: {', '.join(f'{value:.9g}' for value in float32(shown[0]['labels']))}" and len(lines) == 6, lines
            assert "labels" not in json.loads(run(home, "replay", source, "--batch-size", 6, "--json")[0])["rows"][0]
            one = manifest(home / "one.csv", [(p, i) for i, p in enumerate(paths)], ["path", "label"])
            expect(link, range(60), I64, 1, source=source, labels={"manifest": str(one), "type": "classes"})
            glob, which = tars(home, source, paths, lambda i: {"a": rows[i], "b": rows[i][:2 + (i == 33)], "c": []})
            expect(link, [rows[i] for i in which], I64, 3, source=glob, labels={"json": "a", "type": "classes"})
            for key, words in (("b", ("s-0.tar!k33.json", "its label has 3 classes, but the labels before it have 2")),
                               ("c", ("k00.json", "expected classes, found none"))):
                with refused(errno.EINVAL, *words):
                    link.open(source=glob, labels={"json": key, "type": "classes"}).opened()
            uneven = home / "uneven.csv"
            uneven.write_text("path,labels\n" + "".join(f"{p},{'1;2' if i != 7 else '1;2;3'}\n" for i, p in enumerate(paths)))
            with refused(errno.EINVAL, "uneven.csv:9: expected 2 classes, as in the first line, found 3"):
                link.open(source=source, labels={"manifest": str(uneven), "type": "classes"}).opened()
            uneven.write_text("".join(f"{p},1{',2' * (i != 7)}\n" for i, p in enumerate(paths)))
            with refused(errno.EINVAL, "uneven.csv:8: expected 3 columns, found 2"):
                link.open(source=source, labels={"manifest": str(uneven), "type": "classes"}).opened()
            uneven.write_text("path,x,y\n" + "".join(f"{p},1,{2 - 3 * (i == 7)}\n" for i, p in enumerate(paths)))
            with refused(errno.EINVAL, "uneven.csv:9: expected a class from 0 to 2147483647, found -1"):
                link.open(source=source, labels={"manifest": str(uneven), "type": "classes"}).opened()
            # Ranks and states: each sample keeps its row.
            keys = dict(source=source, labels={"manifest": str(lists), "type": "classes"}, seed=4, **TINY)
            stream = link.open(batch_size=7, **keys)
            first = stream.next()
            assert label_rows(stream, first) == [rows[row.index] for row in stream.rows(first)]
            rest = link.open(batch_size=9, state=stream.state(first), **keys)
            while (batch := rest.next()) is not None:
                got = label_rows(rest, batch)
                assert got[:batch.count] == [rows[row.index] for row in rest.rows(batch)]
                rest.release(batch)
        Path(source, paths[3]).write_bytes(b"broken")
        with Link(daemon.socket) as link:
            expect(link, rows, I64, 3, source=source, labels=keys["labels"], train=False)
        told = json.loads(run(home, "check", source, "--labels", json.dumps(rule), "--json", code=1)[0])
        assert (told["label_type"], told["label_width"]) == ("classes", 2)
        out, _ = run(home, "check", source, "--labels", json.dumps(rule), code=1)
        assert "2 of 5 classes: " in out, out
        refuse(home, "pack", source, home / "t-%06d.tar", "--labels", json.dumps(rule), says="pack writes one class (.cls)")


# ---- indexes ----

def test_settings_side_by_side():
    """Two streams of one source with other labels, at the same time, and again: nobody builds anew what the other has built."""
    with served() as (home, daemon, source, paths):
        one = manifest(home / "one.csv", [(p, i % 4) for i, p in enumerate(paths)])
        more = manifest(home / "more.csv", [(p, f"{i % 3};{3 + i % 2}") for i, p in enumerate(paths)], ["path", "labels"])
        with Link(daemon.socket) as link:
            streams = [link.open(source=source, labels={"manifest": str(file)}, batch_size=60, **TINY) for file in (one, more)]
            prints = {stream.opened().fingerprint for stream in streams}
            batches = [stream.next() for stream in streams]
            rows = [dict(zip((r.index for r in s.rows(b)), label_rows(s, b))) for s, b in zip(streams, batches)]
            assert rows[0] == {i: i % 4 for i in range(60)}
            assert rows[1] == {i: hot([i % 3, 3 + i % 2], 5) for i in range(60)}
            built = indexes(home)
            assert len(prints) == 2 and len([n for n in built if ".labels-" in n]) == 2, built
            for _ in range(2):
                read(link, source=source, labels={"manifest": str(one)})
                read(link, source=source, labels={"manifest": str(more)})
            assert indexes(home) == built
            config = json.loads(streams[1].query(CONFIG))
            assert config["labels"] == {"manifest": str(more)}, config["labels"]
            state = streams[1].state()
            with refused(errno.ESTALE, "dataset"):
                link.open(source=source, labels={"manifest": str(one)}, batch_size=60, state=state, **TINY).opened()
        daemon.stop()
        with Daemon(home) as again, Link(again.socket) as link:
            read(link, source=source, labels={"manifest": str(more)})
            assert indexes(home) == built, "found by another process too"


def test_group_and_ranks():
    with served() as (home, daemon, source, paths):
        file = manifest(home / "m.csv", [(p, f"{i % 3} {3 + i % 2}") for i, p in enumerate(paths)], ["path", "labels"])
        labels = {"manifest": str(file)}
        with contextlib.ExitStack() as stack:
            links = [stack.enter_context(Link(daemon.socket)) for _ in range(2)]
            streams = [link.open(source=source, labels=labels, group="g", share="split", rank=r, world_size=2, batch_size=8, **TINY)
                       for r, link in enumerate(links)]
            seen = {}
            for stream in streams:
                while (batch := stream.next()) is not None:
                    seen.update(zip((r.index for r in stream.rows(batch)), label_rows(stream, batch)))
                    stream.release(batch)
            assert seen == {i: hot([i % 3, 3 + i % 2], 5) for i in range(60)}
            with refused(errno.EBUSY, "another labels"):
                links[0].open(source=source, labels="none", group="g", share="split", rank=1, world_size=2, batch_size=8, **TINY).opened()


def test_ranks_read_the_same_labels():
    """A manifest, or a sample, that is replaced between the openings of two ranks of one job."""
    with served() as (home, daemon, source, paths), Link(daemon.socket) as first, Link(daemon.socket) as second:
        file = home / "m.csv"

        def label(shift):
            other = home / "new.csv"
            manifest(other, [(p, (i + shift) % 3) for i, p in enumerate(paths)], ["path", "label"])
            other.rename(file)

        def rank(link, number, group, **keys):
            return link.open(source=source, group=group, share="split", rank=number, world_size=2, batch_size=8, **keys, **TINY)

        label(0)
        keys = {"labels": {"manifest": str(file)}}
        one = rank(first, 0, "g", **keys)
        one.opened()
        label(1)
        with refused(errno.EBUSY, "rank 1 of group g finds other samples or labels", "start all ranks again"):
            rank(second, 1, "g", **keys).opened()
        label(0)
        assert rank(second, 1, "g", **keys).opened().fingerprint == one.info.fingerprint, "what it was before will do"
        label(1)
        assert rank(first, 0, "again", **keys).opened() and rank(second, 1, "again", **keys).opened(), "a job that begins now reads what there is now"
        assert rank(first, 0, "files").opened()
        (source / paths[0]).unlink()
        with refused(errno.EBUSY, "rank 1 of group files finds other samples or labels"):
            rank(second, 1, "files").opened()


def check_cached(reader):
    with served("--cache", "on", "--reader", reader) as (home, daemon, source, paths):
        rows = [[i * 0.5, -i] for i in range(60)]
        file = manifest(home / "m.csv", [(p, *r) for p, r in zip(paths, rows)], ["path", "x", "y"])
        with Link(daemon.socket) as link:
            stream = link.open(source=source, labels={"manifest": str(file)}, batch_size=6, **{**TINY, "epochs": 4})
            while (batch := stream.next()) is not None:
                for row, label in zip(stream.rows(batch), label_rows(stream, batch)):
                    assert label == float32(rows[row.index]), (row, label)
                stream.release(batch)
            # Two who read the same samples at once: one read serves both.
            streams = [link.open(source=source, labels={"manifest": str(file)}, batch_size=60, **TINY) for _ in range(3)]
            for stream in streams:
                batch = stream.next()
                got = dict(zip((r.index for r in stream.rows(batch)), label_rows(stream, batch)))
                assert got == {i: float32(r) for i, r in enumerate(rows)}


def test_cached_samples_keep_their_labels():
    for reader in ("auto", "pread"):
        check_cached(reader)


def test_broken_samples_keep_their_labels():
    with served() as (home, daemon, source, paths):
        (source / paths[11]).write_bytes(b"no image")
        file = manifest(home / "m.csv", [(p, i, 1) for i, p in enumerate(paths)], ["path", "x", "y"])
        with Link(daemon.socket) as link:
            stream = link.open(source=source, labels={"manifest": str(file)}, batch_size=60, on_broken="mark", max_broken=1, **TINY)
            batch = stream.next()
            for row, label in zip(stream.rows(batch), label_rows(stream, batch)):
                assert label == [float(row.index), 1.0] and bool(row.flags & INVALID) == (row.index == 11), (row, label)


# ---- tools, configuration ----

def test_tools():
    with served() as (home, _, source, paths):
        file = manifest(home / "m.csv", [(p, ADJECTIVES[i % 5]) for i, p in enumerate(paths)], ["path", "label"])
        many = manifest(home / "many.csv", [(p, f"{i % 3};{3 + i % 2}") for i, p in enumerate(paths)], ["path", "labels"])
        mapping, hot_mapping = f"{{manifest: {file}}}", f"{{manifest: {many}}}"
        out, _ = run(home, "check", source, "--labels", mapping)
        assert "5 classes: old man, red, small, x, été" in " ".join(out.split()), out
        got = json.loads(run(home, "check", source, "--labels", hot_mapping, "--json")[0])
        assert (got["label_type"], got["label_width"], got["classes"]) == ("multi_hot", 5, 0), got
        run(home, "plan", source, "-b", 8, "--labels", hot_mapping)
        done, _ = run(home, "bench", source, "--labels", "{manifest: many.csv}", "--seconds", 0.2, "--threads", 1, "--memory", "64M", "-b", 8,
                      "--image-size", 12, "--json", cwd=home)
        assert json.loads(done)["images"] > 0, "a path from where it was started"
        refuse(home, "pack", source, home / "p-%06d.tar", "--labels", hot_mapping, says=["one class", "--labels none"])
        run(home, "pack", source, home / "p-%06d.tar", "--labels", mapping)
        with tarfile.open(home / "p-000000.tar") as tar:
            assert tar.extractfile("".join(paths[1].rsplit(".", 1)[:1]) + ".cls").read() == b"1"
        packed = json.loads(run(home, "check", home / "p-*.tar", "--labels", f"{{classes: {home}/p.pack.json}}", "--json")[0])
        plain = json.loads(run(home, "check", home / "p-*.tar", "--json")[0])
        assert (packed["classes"], plain["classes"], packed["fingerprint"]) == (5, 0, plain["fingerprint"]), "names alone"
        got = json.loads(run(home, "check", home / "p-*.tar", "--labels", hot_mapping, "--json")[0])
        assert (got["label_type"], got["label_width"]) == ("multi_hot", 5), "a folder's manifest is that of its tars too"
        refuse(home, "check", source, "--labels", "bogus", says=["--labels", "auto"])
        refuse(home, "check", source, "--labels", "{manifest: none.csv}", says="none.csv")


def test_passed_over():
    """What is no sample for its extension is counted; images among it are told of."""
    with folder() as home:
        source = make_dataset(home / "images", classes=2, per_class=2, min_side=32, max_side=48)
        one = next(source.iterdir())
        out, err = run(home, "check", source)
        assert "passed over" not in out + err, (out, err)
        (one / "a.avif").write_bytes(b"RIFF")
        out, err = run(home, "check", source)
        assert "passed over" not in out, ("the warning lists all of them", out)
        assert f"1 file of {source} was passed over for its extension (1 .avif): " in err, err
        (one / "a.avif").unlink()
        for name in ("a.gif", "b.AVIF", "notes.txt", "plain", ".hidden.gif"):
            (one / name).write_bytes(b"GIF89a")
        for _ in range(2):  # built, and found again
            out, err = run(home, "check", source)
            assert "passed over  4 files with an extension that images do not have: 1 without one, 1 .avif, 1 .gif, 1 .txt" in out, out
            assert f"3 files of {source} were passed over for their extensions (1 without one, 1 .avif, 1 .gif)" in err, err
        got = json.loads(run(home, "check", source, "--json")[0])
        assert (got["samples"], got["passed_over"]) == (4, 4), got
        assert got["passed_over_extensions"] == "1 without one, 1 .avif, 1 .gif, 1 .txt" and len(got["warnings"]) == 1, got
        assert "passed over for their extensions" in got["warnings"][0], got
        # A stream's description and the daemon's log have the same sentence.
        with Daemon(home) as daemon, Link(daemon.socket) as link:
            stream = link.open(source=source, **{**TINY, "batch_size": 2})
            stream.opened()
            assert json.loads(stream.query(STREAM))["warnings"] == got["warnings"]
            assert got["warnings"][0] in daemon.text(), daemon.text()


def test_training_without_labels_is_warned_of():
    """In the stream's description, which Python turns into a warning, and in the daemon's log; not if none were asked for."""
    with served() as (home, daemon, source, paths):
        flat = sorted(source.iterdir())[0]
        with Link(daemon.socket) as link:
            for keys, classes, warned in (({"source": source}, 3, False), ({"source": flat}, 0, True), ({"source": flat, "train": False}, 0, False),
                                          ({"source": flat, "labels": "none"}, 0, False)):
                stream = link.open(**TINY, batch_size=7, **keys)
                stream.opened()
                stats = json.loads(stream.query(STREAM))
                assert stats["classes"] == classes and len(stats["warnings"]) == warned, (keys, stats)
                if warned:
                    assert str(flat) in stats["warnings"][0] and "have no labels" in stats["warnings"][0]
                stream.close()
        assert daemon.text().count("have no labels") == 1, daemon.text()


def test_configured():
    with folder() as home:
        source = make_dataset(home / "images", classes=2, per_class=4, min_side=32, max_side=48)
        paths = sorted(str(p.relative_to(source)) for p in source.rglob("*.*"))
        file = manifest(home / "m.csv", [(p, i, 0.5) for i, p in enumerate(paths)])
        config = f"streams:\n  a:\n    source: {source}\n    labels:\n      manifest: {file}\n    batch_size: 8\n"
        with Daemon(home, config=config) as daemon, Link(daemon.socket) as link:
            info, labels = read_named(link, "a")
            assert info.label_width == 2 and labels == {i: [float(i), 0.5] for i in range(8)}, labels


if __name__ == "__main__":
    run_tests(globals())

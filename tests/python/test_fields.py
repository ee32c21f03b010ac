"""fields=: the bytes beside each image, from folders and tars, with every form of the argument;
substitutes, marked and padded rows, ranks, states, and what wrong fields get."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import unittest
import unittest.mock
import zipfile
from pathlib import Path
from typing import Any, Iterator

import support  # first: it skips the tests if NumPy is not installed
from support import penstock

import numpy as np


def caption(number: int) -> bytes:
    return f"caption {number}: {'é' * (number % 7)}".encode()


def token(number: int) -> Any:
    return np.arange(6, dtype=np.float32).reshape(2, 3) + number


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def beside(number: int) -> "dict[str, bytes]":
    return {"txt": caption(number), "npy": npy(token(number)), "meta.json": b"{}" * (number % 5)}


def images(root: Path) -> "list[Path]":
    return sorted(path for path in root.rglob("*.jpg"))


def make_folder(name: str) -> Path:
    """A copy of the folder of images, with fields beside each: they are numbered as the samples
    are."""
    root = support.folder / name
    if not root.exists():
        shutil.copytree(support.dataset(), root)
        for number, path in enumerate(images(root)):
            for extension, data in beside(number).items():
                path.with_name(f"{path.stem}.{extension}").write_bytes(data)
    return root


def make_tar(name: str) -> Path:
    """The same samples as a tar; some of the fields are in front of the image."""
    path = support.folder / f"{name}.tar"
    if not path.exists():
        root = make_folder(name)
        classes = sorted(entry.name for entry in root.iterdir())
        with tarfile.open(path, "w") as tar:
            for number, image in enumerate(images(root)):
                members = {**beside(number), "jpg": image.read_bytes(),
                           "cls": str(classes.index(image.parent.name)).encode()}
                for extension in sorted(members):
                    info = tarfile.TarInfo(f"{image.parent.name}/{image.stem}.{extension}")
                    info.size = len(members[extension])
                    tar.addfile(info, io.BytesIO(members[extension]))
    return path


def sources() -> "list[str]":
    return [str(make_folder("good")), str(make_tar("good"))]


def loader(source: str, fields: Any, **arguments: Any) -> Any:
    base = {"batch_size": 8, "image_size": 32, "seed": 4, "framework": "numpy", "fields": fields, "on_event": lambda _: None}
    return penstock.Loader(source, **{**base, **arguments})


def indices(batch: Any, views: int = 1) -> "list[int]":
    return [int(index) for index in batch.samples["index"][::views]]


def stream(source: Any, epochs: int = 1) -> "Iterator[tuple[Any, ...]]":
    for _ in range(epochs):
        for batch in source.batches():
            yield batch.epoch, batch.batch, indices(batch, source.views), batch.fields["txt"]


class Delivered(unittest.TestCase):
    def test_bytes(self) -> None:
        for path in sources():
            with loader(path, ["txt", "meta.json"], train=False) as source:
                seen = 0
                for batch in source.batches():
                    self.assertEqual(list(batch.fields), ["txt", "meta.json"])
                    self.assertEqual(batch.fields["txt"], [caption(i) for i in indices(batch)])
                    self.assertEqual(batch.fields["meta.json"], [b"{}" * (i % 5) for i in indices(batch)])
                    self.assertEqual(len(batch.fields["txt"]), batch.count)
                    seen += batch.count
                self.assertEqual(seen, len(source.dataset))
                told = source.stats()["fields"]
                self.assertEqual(told["names"], ["txt", "meta.json"])
                self.assertGreaterEqual(told["bytes"], sum(len(caption(i)) for i in range(seen)))

    def test_iteration(self) -> None:
        for path in sources():
            with loader(path, "txt") as source:
                for number, (pixels, labels, fields) in enumerate(source):
                    self.assertEqual((len(pixels), len(labels), len(fields["txt"])), (8, 8, 8))
                self.assertEqual(number + 1, len(source))
                one, two, three = next(source.batches())
                self.assertEqual(len(three["txt"]), 8)
            with loader(path, None) as source:
                self.assertEqual(len(next(iter(source))), 2)
                batch = next(source.batches())
                self.assertEqual((batch.fields, len(list(batch))), ({}, 2))

    def test_pixels_unchanged(self) -> None:
        for path in sources():
            with loader(path, "txt") as fielded, loader(path, None) as plain:
                for one, other in zip(fielded.batches(), plain.batches()):
                    np.testing.assert_array_equal(one.images, other.images)
                    np.testing.assert_array_equal(one.labels, other.labels)
                self.assertEqual(fielded.state_dict()["fingerprint"], plain.state_dict()["fingerprint"])

    def test_as(self) -> None:
        fields = {"txt": {"as": "str", "max": 64}, "npy": {"as": "numpy"}}
        for path in sources():
            with loader(path, fields, views=2) as source:
                for batch in source.batches():
                    shown = indices(batch, 2)
                    self.assertEqual(batch.fields["txt"], [caption(i).decode() for i in shown])
                    np.testing.assert_array_equal(batch.fields["npy"], [token(i) for i in shown])
                    self.assertEqual(batch.fields["npy"].dtype, np.float32)

    def test_zero_copy(self) -> None:
        with loader(sources()[1], ["txt", {"name": "npy", "as": "numpy"}], zero_copy=True) as source:
            batch = next(source.batches())
            texts = batch.fields["txt"]
            self.assertTrue(all(isinstance(text, memoryview) and text.readonly for text in texts))
            self.assertEqual([bytes(text) for text in texts], [caption(i) for i in indices(batch)])
            np.testing.assert_array_equal(batch.fields["npy"], [token(i) for i in indices(batch)])
            del batch, texts

    def test_cut(self) -> None:
        for path in sources():
            with loader(path, [{"name": "txt", "max": 9, "long": "cut"}], train=False) as source:
                for batch in source.batches():
                    self.assertEqual(batch.fields["txt"], [caption(i)[:9] for i in indices(batch)])


class Resumed(unittest.TestCase):
    def test_states(self) -> None:
        """A state continues with another batch size, other threads of the daemon and other ranks."""
        for path in sources():
            with loader(path, "txt") as source:
                whole = [pair for _, _, shown, texts in stream(source, 2) for pair in zip(shown, texts)]
            for size, taken in ((4, 3), (12, 1), (6, 7)):
                with loader(path, "txt", drop_last=False, batch_size=size) as first:
                    batches = first.batches()
                    head = [pair for _ in range(taken) for b in [next(batches)] for pair in zip(indices(b), b.fields["txt"])]
                    state = first.state_dict()
                self.assertEqual(head, whole[: len(head)])
                with loader(path, "txt", batch_size=5, drop_last=False, state=state) as second:
                    tail = [pair for _, _, shown, texts in stream(second) for pair in zip(shown, texts)]
                with loader(path, "txt", drop_last=False) as source:
                    epoch = [pair for _, _, shown, texts in stream(source) for pair in zip(shown, texts)]
                self.assertEqual(head + tail, epoch)

    def test_ranks(self) -> None:
        """Each rank gets the fields of its rows; the last batches of evaluation are padded."""
        for path in sources():
            seen: "dict[int, bytes]" = {}
            for rank in range(3):
                with loader(path, "txt", train=False, rank=rank, world_size=3, group="fields", batch_size=7) as source:
                    for batch in source.batches():
                        for index, text in zip(indices(batch), batch.fields["txt"]):
                            self.assertEqual(text, caption(index))
                            seen[index] = text
            self.assertEqual(len(seen), 60)


class Broken(unittest.TestCase):
    def source(self, name: str, kind: str) -> str:
        """A dataset in which sample 7 has no txt, that of sample 9 is long, and image 11 is broken."""
        root = make_folder(f"broken-{name}")
        files = images(root)
        (files[7].with_suffix(".txt")).unlink(missing_ok=True)
        (files[9].with_suffix(".txt")).write_bytes(b"x" * 5000)
        files[11].write_bytes(b"no image")
        if kind == "folder":
            return str(root)
        path = support.folder / f"broken-{name}.tar"
        with tarfile.open(path, "w") as tar:
            for file in sorted(root.rglob("*.*")):
                tar.add(file, arcname=str(file.relative_to(root)))
        return str(path)

    def test_substituted(self) -> None:
        for kind in ("folder", "tar"):
            with loader(self.source("substituted", kind), "txt", max_broken=0.2) as source:
                flagged = set()
                for batch in source.batches():
                    shown = indices(batch)
                    self.assertEqual(batch.fields["txt"], [caption(i) for i in shown])
                    self.assertFalse({7, 9, 11} & set(shown))
                    flagged |= {int(row["position"]) for row in batch.samples if row["flags"] & penstock.SUBSTITUTED}
                self.assertGreaterEqual(len(flagged), 2)
                broken = source.stats()["broken"]
                self.assertGreaterEqual(broken["field-missing"] + broken["field-too-long"], 1)

    def test_marked(self) -> None:
        for kind in ("folder", "tar"):
            with loader(self.source("marked", kind), "txt", train=False, max_broken=0.2) as source:
                for batch in source.batches():
                    for row, text in zip(batch.samples, batch.fields["txt"]):
                        if row["index"] in (7, 9, 11):
                            self.assertTrue(row["flags"] & penstock.INVALID)
                            self.assertEqual(text, b"")
                        else:
                            self.assertEqual((text, int(row["flags"])), (caption(int(row["index"])), 0))
                broken = source.stats()["broken"]
                self.assertGreaterEqual(min(broken["field-missing"], broken["field-too-long"]), 1)

    def test_sentences(self) -> None:
        for kind in ("folder", "tar"):
            path = self.source("sentences", kind)
            for index, part in ((7, r"has no \.txt beside it.*missing"), (9, r"more than 4096 bytes.*max")):
                with self.assertRaisesRegex(penstock.Error, rf"sample {index} is broken \(field-.*{part}"):
                    with loader(path, "txt", train=False, on_broken="fail", indices=[1, index, 2]) as source:
                        list(source)

    def test_empty(self) -> None:
        for kind in ("folder", "tar"):
            fields = [{"name": "txt", "missing": "empty", "long": "cut"}, {"name": "none", "missing": "empty"}]
            with loader(self.source("empty", kind), fields, train=False, max_broken=0.2) as source:
                for batch in source.batches():
                    for row, text, none in zip(batch.samples, batch.fields["txt"], batch.fields["none"]):
                        expected = {7: b"", 9: b"x" * 4096, 11: b""}
                        self.assertEqual(text, expected.get(int(row["index"]), caption(int(row["index"]))))
                        self.assertEqual(none, b"")

    def test_not_utf8_and_not_npy(self) -> None:
        root = make_folder("odd")
        files = images(root)
        files[3].with_suffix(".txt").write_bytes(b"caf\xe9")
        files[4].with_suffix(".npy").write_bytes(b"no array")
        files[5].with_suffix(".npy").write_bytes(npy(np.zeros(4)))
        files[6].with_suffix(".npy").write_bytes(npy(np.array([{}], dtype=object)))
        files[7].with_suffix(".npy").write_bytes(npy(token(7))[:-1])
        with self.assertRaisesRegex(penstock.Error, r"fields\['txt'\]: the \.txt of sample 3 is not UTF-8"):
            with loader(str(root), {"txt": {"as": "str"}}, train=False) as source:
                list(source)
        for index, shape in ((8, b"(1e999,)"), (9, b"(0, 2305843009213693952)"), (10, b"(" * 2000)):
            header = b"{'descr': '<f4', 'fortran_order': False, 'shape': %s}" % shape
            files[index].with_suffix(".npy").write_bytes(b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header)
        odd = ((8, "is not a .npy file"), (9, "too (big|large)|has the shape"), (10, "is not a .npy file"))
        for index, part in (*odd, (4, "is not a .npy file"), (5, "has the shape"), (6, "Python objects"), (7, "raise its max")):
            with self.assertRaisesRegex(penstock.Error, rf"fields\['npy'\]: the \.npy of sample {index} .*{part}"):
                with loader(str(root), {"npy": {"as": "numpy"}}, train=False, indices=[1, index, 2]) as source:
                    list(source)

    def test_rewritten(self) -> None:
        """Files beside images may be rewritten while the stream reads them."""
        root = make_folder("rewritten")
        with loader(str(root), "txt", train=False, batch_size=4, prefetch=2) as source:
            batches = source.batches()
            next(batches)
            for number, path in enumerate(images(root)):
                path.with_suffix(".txt").write_bytes(caption(number) + b", rewritten")
            for batch in batches:
                for index, text in zip(indices(batch), batch.fields["txt"]):
                    self.assertIn(text, (caption(index), caption(index) + b", rewritten"))
            for batch in source.batches():
                self.assertEqual(batch.fields["txt"], [caption(i) + b", rewritten" for i in indices(batch)])


    def test_images_rewritten(self) -> None:
        """Samples whose images have another size than the index says are read again, with their fields."""
        root = make_folder("renewed")
        with loader(str(root), "txt", batch_size=4, prefetch=2) as source:
            batches = source.batches()
            next(batches)
            for number, path in enumerate(images(root)):
                path.write_bytes(path.read_bytes() + bytes(100))
                path.with_suffix(".txt").write_bytes(caption(number) + b"!")
            for batch in batches:
                for index, text in zip(indices(batch), batch.fields["txt"]):
                    self.assertIn(text, (caption(index), caption(index) + b"!"))
                self.assertFalse((batch.samples["flags"] & penstock.SUBSTITUTED).any())
            for batch in source.batches():
                self.assertEqual(batch.fields["txt"], [caption(i) + b"!" for i in indices(batch)])
            self.assertEqual(source.stats()["broken"], {})

    def test_large_fields_beside_large_images(self) -> None:
        """An image that has all memory for large files does not wait for a field that needs it."""
        path, side = support.folder / "both.tar", 1000
        with tarfile.open(path, "w") as tar:
            for number in range(4):
                for extension, data in (("jpg", b"P6 %d %d 255\n" % (side, side) + bytes(3 * side * side)), ("bin", bytes([number]) * 3000000)):
                    info = tarfile.TarInfo(f"{number}.{extension}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
        support.stop_daemons()
        with loader(str(path), {"bin": {"max": 3 << 20}}, train=False, batch_size=1, memory="64M", threads=2, prefetch=2, labels="none",
                    timeout=20) as source:
            found = [batch.fields["bin"][0] for batch in source.batches()]
        support.stop_daemons()
        self.assertTrue(found == [bytes([number]) * 3000000 for number in range(4)])

    def test_views_without_room_to_share(self) -> None:
        """Views that are decoded apart, because there is no memory to keep a decoded image and no
        folder for a temporary file, have the fields that they have otherwise."""
        path, side = support.folder / "large.tar", 2504
        with tarfile.open(path, "w") as tar:
            for number in range(3):
                bitmap = bytes(i * (number + 7) >> 9 & 0xff for i in range(side // 8 * side))
                for extension, data in (("jpg", b"P4 %d %d\n" % (side, side) + bitmap), ("txt", caption(number))):
                    info = tarfile.TarInfo(f"{number}.{extension}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
        no_folder = support.folder / "no-folder"
        no_folder.touch()
        steps = [{"RandomResizedCrop": {"size": 16, "scale": [0.9, 1]}}]
        found = []
        cache = os.environ["XDG_CACHE_HOME"]
        for place in (cache, str(no_folder)):
            support.stop_daemons()
            with unittest.mock.patch.dict(os.environ, XDG_CACHE_HOME=place):
                made = loader(str(path), "txt", batch_size=3, image_size=16, transforms=steps, views=2, labels="none", memory="128M",
                              threads=1)
                with made:
                    found.append([(batch.fields["txt"], [bytes(view) for view in batch.images]) for batch in made.batches()])
        support.stop_daemons()
        self.assertEqual(sorted(found[0][0][0]), [caption(number) for number in range(3)])
        self.assertEqual(found[0], found[1])


class Refused(unittest.TestCase):
    def test_arguments(self) -> None:
        wrong: "list[tuple[Any, str]]" = [
            (7, "fields: expected a list of extensions"),
            (b"txt", "fields: expected a list of extensions"),
            ([7], "fields: a name: expected a string"),
            ([""], "fields: a name"),
            (["a/b"], "without slashes"),
            (["a b"], "without slashes and spaces"),
            ([".txt"], "without the dot"),
            (["x" * 64], "without the dot"),
            (["jpg"], "other than those of images"),
            (["mask.PNG"], "other than those of images"),
            (["txt", "txt"], "each name once, got 'txt' twice"),
            ([f"f{i}" for i in range(9)], "at most 8, got 9"),
            ([{"max": 3}], "got a dict without name"),
            ([["txt"]], "fields: a name: expected a string"),
            ({"txt": 4096}, r"fields\['txt'\]: expected a dict"),
            ({"txt": {"most": 3}}, r"fields\['txt'\]: expected the keys max, long, missing and as, got 'most'"),
            ({"txt": {"max": 0}}, r"fields\['txt'\]: max: expected a whole number from 1 to 16777216, got 0"),
            ({"txt": {"max": 2**24 + 1}}, "from 1 to 16777216, got 16777217"),
            ({"txt": {"max": "4K"}}, "max: expected a whole number"),
            ({"txt": {"long": "no"}}, "long: expected one of 'error', 'cut', got 'no'"),
            ({"txt": {"missing": None}}, "missing: expected one of 'error', 'empty', got None"),
            ({"txt": {"as": "json"}}, "as: expected one of 'bytes', 'str', 'numpy', got 'json'"),
        ]
        for fields, part in wrong:
            with self.subTest(fields=fields), self.assertRaisesRegex((TypeError, ValueError), part):
                loader(sources()[0], fields)

    def test_unknown_name(self) -> None:
        for path in sources():
            with self.assertRaisesRegex(penstock.Error, r"no sample that was looked at has a \.text beside its image"):
                loader(path, ["txt", "text"])

    def test_kind_without_fields(self) -> None:
        folder = Path(sources()[0])
        path = folder.parent / "good.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for image in sorted(folder.rglob("*.jpg")):
                archive.write(image, image.relative_to(folder))
        with self.assertRaisesRegex(penstock.Error, r"fields: samples of ZIP \(.* is the first\) have none: expected a folder or tars"):
            loader(str(path), ["txt"])

    def test_budget(self) -> None:
        """The slots of a stream are counted before it opens."""
        support.stop_daemons()
        with self.assertRaisesRegex(penstock.Error, "needs at least .* of the memory budget"):
            loader(sources()[0], {"txt": {"max": 16 << 20}}, memory="256M", batch_size=32)
        support.stop_daemons()


if __name__ == "__main__":
    support.main()

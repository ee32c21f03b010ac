"""The order of a folder's samples is that of torchvision's ImageFolder, whatever the names."""

from __future__ import annotations

import os
import unittest
import warnings
from pathlib import Path
from typing import Any

import folder_order
import numpy as np
import support
from support import penstock

from penstock import naming  # noqa: E402


def image() -> bytes:
    return sorted(Path(support.dataset()).rglob("*.jpg"))[0].read_bytes()


def seen(source: Path, **keys: Any) -> "list[tuple[bytes, int]]":
    with penstock.Loader(source, batch_size=64, image_size=8, train=False, framework="numpy", max_broken=1.0, **keys) as loader:
        labels = [int(label) for _, labels in loader for label in labels]
        return [(os.fsencode(loader.path(number)), label) for number, label in enumerate(labels)]


def named(samples: "list[tuple[str, int]]") -> "list[tuple[bytes, int]]":
    return [(os.fsencode(path), label) for path, label in samples]


class FolderOrder(unittest.TestCase):
    maxDiff = None

    def test_image_folder(self) -> None:
        for seed in range(4):
            root = support.folder / f"tree-{seed}"
            folder_order.make(root, image(), seed)
            want = named(folder_order.image_folder(root))
            self.assertGreater(len(want), 200)
            self.assertEqual(seen(root), want)
            # Without labels the samples are in the same places.
            self.assertEqual([path for path, _ in seen(root, labels="none")], [path for path, _ in want])

    def test_natural(self) -> None:
        for seed in range(4):
            root = support.folder / f"natural-{seed}"
            folder_order.make(root, image(), seed)
            self.assertEqual(seen(root, class_order="natural"), named(folder_order.image_folder(root, natural=True)))
        with self.assertRaisesRegex(penstock.ArgumentError, "class_order.*natural"):
            penstock.Loader(root, class_order="Natural order")
        with self.assertRaisesRegex(penstock.Error, "class_order: expected nothing"):
            penstock.Loader(root, class_order="natural", labels="none")

    def test_nested(self) -> None:
        root = support.folder / "parent"
        for name in ("train/a/x.jpg", "train/b/x.jpg", "val/a/x.jpg"):
            (root / name).parent.mkdir(parents=True)
            (root / name).write_bytes(image())
        with self.assertRaisesRegex(penstock.DatasetError, "did you mean .*/parent/train.*nested"):
            penstock.Loader(root, batch_size=1)
        with penstock.Loader(root, batch_size=1, nested=True) as loader:
            self.assertEqual(loader.classes, ["train", "val"])
        (root / "train/a/x.gif").write_bytes(b"RIFF")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with penstock.Loader(root / "train", batch_size=1) as loader:
                stats = loader.stats()
        self.assertEqual(stats["classes"], 2)
        self.assertEqual(len(stats["warnings"]), 1)
        self.assertRegex(stats["warnings"][0], r"1 file of .*/train was passed over for its extension \(1 \.gif\)")

    def test_samples_by_path(self) -> None:
        for natural in (False, True):
            root = support.folder / f"paths-{natural}"
            folder_order.make(root, image(), 5)
            keys: Any = {"class_order": "natural"} if natural else {}
            paths = [path for path, _ in folder_order.image_folder(root, natural)]
            # Every number is found, whatever the names: below the folder, whole, as bytes.
            names = [os.path.relpath(path, root) for path in paths]
            some: "list[Any]" = [names[7], Path(paths[3]), os.fsencode(names[9]), "./" + names[3], *names[20:]]
            want = [7, 3, 9, 3, *range(20, len(names))]
            with penstock.Loader(root, batch_size=1, indices=some, train=False, image_size=8, framework="numpy", max_broken=1.0, **keys) as loader:
                self.assertEqual([int(row["index"]) for batch in loader.batches() for row in batch.samples], want)
            # A sample without weight is never drawn. (A link to nothing is broken: another sample takes its place.)
            one, other, third = [number for number, path in enumerate(paths) if os.path.exists(path)][5:8]
            weights = {name: float(number in (one, other)) for number, name in enumerate(names)}
            with penstock.Loader(root, batch_size=8, weights=weights, image_size=8, framework="numpy", max_broken=1.0, **keys) as loader:
                self.assertEqual({int(row["index"]) for batch in loader.batches() for row in batch.samples}, {one, other})
            chosen = {names[third]: 1.0, names[4]: 0.0}
            with penstock.Loader(root, batch_size=8, indices=[names[4], names[third]], weights=chosen, epoch_length=16, image_size=8,
                                 framework="numpy", max_broken=1.0, **keys) as loader:
                self.assertEqual({int(row["index"]) for batch in loader.batches() for row in batch.samples}, {third})

    def test_links_that_multiply(self) -> None:
        root = support.folder / "multiplied"
        for number in range(30):
            (root / str(number)).mkdir(parents=True)
            for name in ("left", "right"):
                (root / str(number) / name).symlink_to(f"../{number + 1}", target_is_directory=True)
        (root / "30").mkdir()
        (root / "30" / "one.jpg").write_bytes(image())
        for keys in ({"indices": ["30/one.jpg"]}, {"weights": {"30/one.jpg": 1}}):
            arguments: "dict[str, Any]" = {"source": root, "batch_size": 1, **keys}
            with self.subTest(keys), self.assertRaisesRegex(penstock.DatasetError, "a folder that links lead to more than 100 times"):
                penstock.Loader(**arguments)

    def test_wrong_paths(self) -> None:
        root = support.folder / "wrong"
        for name in ("cat/first.jpg", "cat/second.jpg", "dog/third.jpg"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(image())
        tar = Path(support.dataset(tars=True)) / "*.tar"
        every = {"cat/first.jpg": 1, "cat/second.jpg": 1, "dog/third.jpg": 1}
        for keys, says in (
            ({"indices": ["cat/frist.jpg"]}, r"indices\[0\]: cat/frist.jpg is not a sample of .*/wrong: did you mean cat/first.jpg"),
            ({"indices": ["cat/first.jpg", "elsewhere"]}, r"indices\[1\]: elsewhere is not a sample of .*: expected a path below it, such as cat/first.jpg"),
            ({"indices": ["cat/first.jpg", 1]}, r"indices\[1\]: expected a path, got 1"),
            ({"weights": {**every, "cat/secnd.jpg": 1}}, "weights: cat/secnd.jpg is not a sample of .*did you mean cat/second.jpg"),
            ({"weights": {"cat/first.jpg": 1}}, "2 of 3 samples have no weight, the first is cat/second.jpg"),
            ({"weights": {**every, "dog/third.jpg": -1}}, r"weights\['dog/third.jpg'\]: expected a finite number, 0 or more, got -1"),
            ({"weights": {**every, "dog/third.jpg": "1"}}, r"weights\['dog/third.jpg'\]: expected a finite number, 0 or more, got '1'"),
            ({"indices": np.array(["cat/first.jpg", "cat"])}, r"indices\[1\]: cat is not a sample"),
            ({"indices": {"cat/first.jpg"}}, "or a list of paths of a folder's samples; got set"),
            ({"salt": "\ud800"}, r"salt: expected a string that can be encoded, got '\\ud800'"),
            ({"source": "\ud800"}, r"source: expected a string that can be encoded, got '\\ud800'"),
            ({"weights": every, "split": "[:50%]"}, "not of a split"),
            ({"indices": ["a"], "source": tar}, "is not one"),
            ({"indices": ["a"], "source": [(root, 1), (root, 2)]}, "a mix of several"),
        ):
            with self.subTest(keys), self.assertRaisesRegex((penstock.ArgumentError, penstock.ArgumentTypeError), says):
                penstock.Loader(**{"source": root, "batch_size": 1, **keys})
        with self.assertRaisesRegex(penstock.DatasetError, "changed while its paths were looked up: 4 samples"):
            naming.check(4, 3)

    def test_flat(self) -> None:
        root = support.folder / "flat-tree"
        folder_order.make(root, image(), 9, flat=True)
        self.assertEqual([path for path, _ in seen(root)], [os.fsencode(path) for path in folder_order.walk(str(root))])


if __name__ == "__main__":
    support.main()

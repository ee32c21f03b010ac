"""The order of a folder's samples is that of torchvision's ImageFolder, whatever the names."""

from __future__ import annotations

import os
import unittest
import warnings
from pathlib import Path
from typing import Any

import folder_order
import support
from support import penstock


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
        (root / "train/a/x.webp").write_bytes(b"RIFF")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with penstock.Loader(root / "train", batch_size=1) as loader:
                stats = loader.stats()
        self.assertEqual(stats["classes"], 2)
        self.assertEqual(len(stats["warnings"]), 1)
        self.assertRegex(stats["warnings"][0], r"1 file of .*/train was passed over for its extension \(1 \.webp\)")

    def test_flat(self) -> None:
        root = support.folder / "flat-tree"
        folder_order.make(root, image(), 9, flat=True)
        self.assertEqual([path for path, _ in seen(root)], [os.fsencode(path) for path in folder_order.walk(str(root))])


if __name__ == "__main__":
    support.main()

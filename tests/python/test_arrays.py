"""CIFAR, MNIST and RecordIO through a loader: the pixels and labels that their reference readers found, and an exact resume.

The fixtures and what torchvision and MXNet found in them are in tests/containers (run.py there compares the bytes of the samples; this
file compares the pixels of batches)."""

from __future__ import annotations

import json
import shutil
import unittest
import zlib
from pathlib import Path
from typing import Any

import numpy
import support
from support import penstock

CONTAINERS = Path(__file__).resolve().parents[1] / "containers"


def fixtures(name: str) -> tuple[Path, dict[str, Any]]:
    """A copy of a container's fixtures, so that no index is written into the source tree."""
    folder = support.folder / name
    if not folder.exists():
        shutil.copytree(CONTAINERS / name, folder)
    return folder, json.loads((folder / "expected.json").read_text(encoding="utf-8"))


def loader(source: Path, size: int, **options: Any) -> Any:
    transforms = [{"Resize": {"size": size}}, {"CenterCrop": {"size": size}}]
    return penstock.Loader(str(source), batch_size=2, shuffle=False, drop_last=False, transforms=transforms, dtype="uint8",
                           framework="numpy", **options)


class Arrays(unittest.TestCase):
    def check(self, container: str, entry: str, size: int, gray: bool, **options: Any) -> None:
        folder, expected = fixtures(container)
        found = []
        with loader(folder / entry.split(" #")[0], size, **options) as batches:
            if expected[entry]["classes"]:
                self.assertEqual(list(batches.classes), expected[entry]["classes"])
            for images, labels in batches:
                for image, label in zip(numpy.moveaxis(numpy.asarray(images), 1, 3), numpy.asarray(labels)):
                    if gray:
                        self.assertTrue((image == image[:, :, :1]).all())
                        image = image[:, :, 0]
                    header = b"P%d %5d %5d  255\n" % (5 if gray else 6, size, size)
                    found.append((zlib.crc32(header + numpy.ascontiguousarray(image).tobytes()), int(label)))
        self.assertEqual(found, [(sample["crc32"], sample["label"]) for sample in expected[entry]["samples"]])

    def test_cifar(self) -> None:
        self.check("cifar", "cifar-10-batches-py", 32, False)
        self.check("cifar", "cifar-10-batches-bin", 32, False)
        self.check("cifar", "cifar-100-python", 32, False)
        self.check("cifar", "cifar-100-python #coarse", 32, False, label_column="coarse_labels")

    def test_mnist(self) -> None:
        self.check("mnist", "MNIST/raw", 28, True)
        self.check("mnist", "EMNIST/raw/emnist-letters-train-images-idx3-ubyte", 28, True)

    def test_recordio(self) -> None:
        folder, expected = fixtures("recordio")
        # The images of the last file are divided into several parts.
        for entry in ("classes.rec", "faces.rec", "divided.rec"):
            with loader(folder / entry, 8) as batches:
                labels = [int(label) for _, labels in batches for label in numpy.asarray(labels)]
            self.assertEqual(labels, [sample["label"] for sample in expected[entry]["samples"]])
        with loader(folder / "rows.rec", 8) as batches:
            rows = [[float(value) for value in row] for _, rows in batches for row in numpy.asarray(rows)]
        self.assertEqual(rows, [sample["label"] for sample in expected["rows.rec"]["samples"]])

    def test_resume(self) -> None:
        folder, _ = fixtures("cifar")

        def opened() -> Any:
            return penstock.Loader(str(folder / "cifar-10-batches-py"), batch_size=1, image_size=24, seed=3, dtype="uint8", framework="numpy")

        def drawn(batches: Any) -> list[bytes]:
            return [numpy.ascontiguousarray(images).tobytes() + numpy.asarray(labels).tobytes() for images, labels in batches]

        with opened() as batches:
            whole = drawn(batches)
        with opened() as batches:
            first = []
            for images, labels in batches:
                first += drawn([(images, labels)])
                if len(first) == 2:
                    break
            state = batches.state_dict()
        with opened() as batches:
            batches.load_state_dict(state)
            rest = drawn(batches)
        self.assertEqual((len(whole), len(first)), (5, 2))
        self.assertEqual(first + rest, whole)


if __name__ == "__main__":
    support.main()

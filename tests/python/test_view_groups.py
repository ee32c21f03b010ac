"""views=[...] and views={...}: groups of views, each with its own transforms, size and count."""

from __future__ import annotations

import json
import unittest
from typing import Any

import support  # first: it skips the tests if NumPy is not installed
from support import penstock

import numpy as np

LARGE = [{"RandomResizedCrop": {"size": 32, "scale": [0.4, 1.0]}}, "RandomHorizontalFlip"]
SMALL = [{"RandomResizedCrop": {"size": [16, 24], "scale": [0.1, 0.4]}}, "RandomHorizontalFlip", {"RandomSolarize": {"threshold": 100}}]
CROPS = [{"transforms": LARGE, "count": 2}, {"transforms": SMALL, "count": 3}]


def loader(**arguments: Any) -> Any:
    base = {"batch_size": 8, "seed": 4, "framework": "numpy", "dtype": "uint8", "views": CROPS}
    return penstock.Loader(support.dataset(), **{**base, **arguments})


def shapes(images: Any) -> "list[tuple[int, ...]]":
    return [tuple(image.shape) for image in images]


class Groups(unittest.TestCase):
    def test_each_view_is_that_of_a_loader_of_its_own(self) -> None:
        """A view draws by its number, whatever the other groups are."""
        with loader() as crops, loader(views=2, transforms=LARGE) as large, loader(views=5, transforms=SMALL) as small:
            self.assertEqual(crops.views, 5)
            for batch, two, five in zip(crops.batches(), large.batches(), small.batches()):
                self.assertEqual(shapes(batch.images), [(8, 3, 32, 32)] * 2 + [(8, 3, 16, 24)] * 3)
                for made, wanted in zip(batch.images, (*two.images, *five.images[2:])):
                    np.testing.assert_array_equal(made, wanted)
                np.testing.assert_array_equal(batch.labels, two.labels)
                self.assertEqual(batch.samples["view"].tolist(), list(range(5)) * 8)
                self.assertEqual(batch.valid.tolist(), [True] * 8)

    def test_names(self) -> None:
        named = {"global": CROPS[0], "local": {"transforms": SMALL}}
        with loader(views=named) as source, loader(views=[CROPS[0], {"transforms": SMALL}]) as listed:
            (images, _), (plain, _) = next(iter(source)), next(iter(listed))
        self.assertEqual(list(images), ["global", "local"])
        self.assertEqual(shapes(images["global"]), [(8, 3, 32, 32)] * 2)
        for made, wanted in zip((*images["global"], images["local"]), plain):
            np.testing.assert_array_equal(made, wanted)

    def test_forms(self) -> None:
        """Every way out of shared memory gives the same pixels."""
        with loader() as source:
            wanted = [np.array(image) for image in next(iter(source))[0]]
        with loader(zero_copy=True) as source:
            images = next(iter(source))[0]
            for made, pixels in zip(images, wanted):
                np.testing.assert_array_equal(made, pixels)
                self.assertFalse(made.flags.writeable)
            del images, made
        with loader(channels_last=False) as source:
            images = next(iter(source))[0]
            self.assertEqual(images[4].strides[1:], (16 * 24, 24, 1))
            np.testing.assert_array_equal(images[4], wanted[4])
        with loader(dtype="float32", mean=(0, 0, 0), std=(1, 1, 1)) as source:
            np.testing.assert_array_equal(next(iter(source))[0][2], wanted[2].astype(np.float32) / np.float32(255))

    def test_conversions_in_the_groups(self) -> None:
        half = ["ToTensor", {"Normalize": {"mean": [0.5] * 3, "std": [0.5] * 3}}]
        views = [{"transforms": LARGE + half}, {"transforms": SMALL + half, "count": 2}]
        with loader(views=views, dtype=None) as source, loader(views=views, dtype="float32", mean=[0.5] * 3, std=[0.5] * 3) as same:
            made, wanted = next(iter(source))[0], next(iter(same))[0]
        self.assertEqual(made[0].dtype, np.float32)
        for one, other in zip(made, wanted):
            np.testing.assert_array_equal(one, other)

    def test_sizes(self) -> None:
        """Without transforms of its own, a group has those that `train` or the loader's list says."""
        with loader(views=[{"image_size": 24}, {"image_size": (16, 12), "count": 2}]) as source:
            self.assertEqual(shapes(next(iter(source))[0]), [(8, 3, 24, 24)] + [(8, 3, 16, 12)] * 2)
        with loader(views=[{"transforms": ["RandomResizedCrop"], "image_size": 20}, {}], image_size=40) as source:
            self.assertEqual(shapes(next(iter(source))[0]), [(8, 3, 20, 20), (8, 3, 40, 40)])
        with loader(views=[{}, {"transforms": SMALL}], transforms=LARGE) as source:
            self.assertEqual(shapes(next(iter(source))[0]), [(8, 3, 32, 32), (8, 3, 16, 24)])
        sized = ["RandomResizedCrop", "RandomHorizontalFlip"]
        with loader(views=[{"image_size": 20}, {"image_size": (16, 12)}, {}], transforms=sized, image_size=40) as source:
            self.assertEqual(shapes(next(iter(source))[0]), [(8, 3, 20, 20), (8, 3, 16, 12), (8, 3, 40, 40)])

    def test_resumes_within_an_epoch(self) -> None:
        with loader() as source:
            whole = [images for images, _ in source]
        for size in (4, 8):
            with loader() as source:
                iterator = iter(source)
                next(iterator), next(iterator)
                state = json.loads(json.dumps(source.state_dict()))
            with loader(batch_size=size, state=state) as source:
                rest = [images for images, _ in source]
            self.assertEqual(len(rest), (60 - 16) // size)
            for view in range(5):
                made = np.concatenate([images[view] for images in rest])
                wanted = np.concatenate([images[view] for images in whole[2:]])
                np.testing.assert_array_equal(made[: len(wanted)], wanted)

    def test_short_batch(self) -> None:
        with loader(train=False) as source:
            self.assertEqual([len(images[4]) for images, _ in source], [8] * 7 + [4])


class Refused(unittest.TestCase):
    def refused(self, sentence: str, error: Any = ValueError, **arguments: Any) -> None:
        with self.subTest(sentence), self.assertRaisesRegex(error, sentence):
            loader(**arguments).close()

    def test_groups(self) -> None:
        for views, sentence in (
            ([], r"views: expected a number, or at least one group .*, got \[\]$"),
            ({}, "views: expected a number, or at least one group"),
            ([LARGE], r"views\[0\]: expected a dict"),
            ([{"transform": LARGE}], r"views\[0\]: there is no key 'transform': did you mean 'transforms'\?"),
            ([{"transforms": LARGE, 3: 4}], r"views\[0\]: there is no key 3"),
            ([{"transforms": LARGE, "count": 0}], r"views\[0\]\['count'\]: expected a whole number from 1 to 16"),
            ([{"transforms": LARGE, "count": True}], r"views\[0\]\['count'\]: expected a whole number"),
            ([{"transforms": LARGE, "count": 9}, {"transforms": SMALL, "count": 8}], "17 views together, and a sample can have 16"),
            ([{"transforms": ["RandomFlip"]}], r"views\[0\]\['transforms'\]"),
            ([{"transforms": LARGE, "image_size": 16}], r"views\[0\]: image_size is 16, but its transforms produce images of size 32"),
            ([{"image_size": "16"}], r"views\[0\]\['image_size'\]"),
            ([{"transforms": LARGE, "interpolation": 3}], r"views\[0\]\['interpolation'\]"),
            ([{"transforms": LARGE, "name": "a"}, {"transforms": SMALL, "name": "a"}], "a"),
            ([{"transforms": LARGE, "name": "a"}, {"transforms": SMALL}], "name"),
            ({"a": {"transforms": LARGE, "name": "b"}}, r"views\['a'\]: its name is the key 'a'"),
            ({3: {"transforms": LARGE}}, "views: expected names of groups as keys, got 3"),
            (0, "views: expected a whole number from 1 to 16"),
            (17, "views: expected a whole number from 1 to 16"),
            ("two", "views: expected a whole number"),
        ):
            self.refused(sentence, views=views)

    def test_arguments_without_effect(self) -> None:
        self.refused("image_size has no effect beside views", image_size=64)
        self.refused("transforms has no effect beside views", transforms=LARGE)
        self.refused("image_size: expected one size for all epochs", image_size={0: 32, 1: 64})

    def test_what_cannot_be_in_a_group(self) -> None:
        floats = ["ToTensor", {"Normalize": {"mean": [0.5] * 3, "std": [0.5] * 3}}]
        self.refused("views\\[0\\]\\['transforms'\\]|RandomErasing after ToTensor", dtype=None,
                     views=[{"transforms": [*LARGE, *floats, "RandomErasing"]}])
        self.refused("MixUp and CutMix cannot be in a group", dtype=None,
                     views=[{"transforms": [*LARGE, *floats, {"MixUp": {"num_classes": 3}}]}])
        self.refused("functions cannot be in a group", views=[{"transforms": [*LARGE, lambda row: row]}])
        self.refused("mixup and cutmix cannot be combined with groups of views", mixup=0.2, dtype="float32")
        self.refused("all views of a loader have one dtype", dtype=None,
                     views=[{"transforms": [*LARGE, "ToTensor"]}, {"transforms": [*SMALL, *floats]}])


if __name__ == "__main__":
    support.main()

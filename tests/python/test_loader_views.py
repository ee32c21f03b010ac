"""zero_copy=True: views of the daemon's memory, which cannot be written to, and hold
their slot while they exist."""

from __future__ import annotations

import copy
import pickle
import unittest
from typing import Any, Callable

import support  # first: it skips the tests if NumPy is not installed
from support import penstock

import numpy as np


def loader(**arguments: Any) -> Any:
    base = {"batch_size": 8, "image_size": 32, "seed": 2, "zero_copy": True}
    return penstock.Loader(support.dataset(), **{**base, **arguments})


class Views(unittest.TestCase):
    def test_same_as_copies(self) -> None:
        with loader() as views, loader(zero_copy=False, framework="numpy", dtype="uint8") as copies:
            for view, owned in zip(views.batches(), copies.batches()):
                self.assertEqual((view.images.shape, view.images.dtype), ((8, 3, 32, 32), np.uint8))
                self.assertEqual(view.images.strides, owned.images.strides)
                self.assertIsInstance(view.images, np.ndarray)
                np.testing.assert_array_equal(view.images, owned.images)
                np.testing.assert_array_equal(view.labels, owned.labels)
                np.testing.assert_array_equal(view.samples, owned.samples)
                self.assertFalse(
                    view.images.flags.writeable or view.labels.flags.writeable or view.samples.flags.writeable
                )

    def test_salt(self) -> None:
        with loader() as plain, loader(salt="teacher") as salted:
            for one, other in zip(plain.batches(), salted.batches()):
                self.assertEqual(one.samples["index"].tolist(), other.samples["index"].tolist())
                self.assertTrue((np.asarray(one.images) != np.asarray(other.images)).any())
        for wrong in ("", "x" * 128):
            with self.assertRaisesRegex(ValueError, "salt"):
                loader(salt=wrong)
        with self.assertRaisesRegex(TypeError, "salt"):
            loader(salt=7)

    def test_short_batch(self) -> None:
        with loader(train=False) as source:
            self.assertEqual([len(images) for images, _ in source], [8] * 7 + [4])

    def test_writing(self) -> None:
        with loader() as source:
            batch = next(source.batches())
            images, labels = batch.images, batch.labels
            before = images.copy()

            def set_record() -> None:
                batch.samples["label"] = 3

            def add(array: Any) -> None:
                array += 1

            writings: "list[Callable[[], Any]]" = [
                lambda: images.__setitem__(0, 0),
                lambda: images[0].__setitem__(..., 0),
                lambda: images[:, 1:].__setitem__(0, 0),
                lambda: add(images),
                lambda: add(labels),
                lambda: np.add(images, 1, out=images),
                lambda: np.add.at(labels, [0], 1),
                lambda: images.fill(0),
                lambda: labels.sort(),
                lambda: labels.partition(2),
                lambda: labels.put([0], [1]),
                lambda: labels.byteswap(inplace=True),
                lambda: images.setflags(write=True),
                lambda: np.copyto(images, 0),
                lambda: np.put(labels, [0], [1]),
                lambda: np.place(labels, labels > 0, [0]),
                lambda: np.putmask(labels, labels > 0, 0),
                lambda: np.clip(images, 0, 1, out=images),
                set_record,
            ]
            for number, write in enumerate(writings):
                with (
                    self.subTest(number),
                    self.assertRaisesRegex(penstock.ReadOnlyError, "cannot be written to: make a copy"),
                ):
                    write()
            with self.assertRaises(ValueError):
                images.flat[0] = 1
            np.testing.assert_array_equal(images, before)

    def test_dlpack(self) -> None:
        """torch would treat it as writable memory, and the first write would kill the process."""
        with loader() as source:
            images = next(source.batches()).images
            with self.assertRaisesRegex(penstock.ReadOnlyError, "of DLPack may write to it: pass a copy"):
                np.from_dlpack(images)
            self.assertIn("dltensor", repr(images.__dlpack__(copy=True)))
            np.testing.assert_array_equal(np.from_dlpack(images.copy()), images)

    def test_computing(self) -> None:
        """Results made from a view are ordinary arrays that belong to the user."""
        with loader() as source:
            images, labels = next(iter(source))
            makings = [
                images + 1,
                images.astype(np.float32),
                images.copy(),
                np.array(images),
                copy.copy(images),
                copy.deepcopy(images),
                pickle.loads(pickle.dumps(images)),
                np.stack([images, images]),
                np.concatenate([labels, labels]),
                np.sort(labels),
                np.bincount(labels),
                images.byteswap(),
            ]
            for number, made in enumerate(makings):
                with self.subTest(number):
                    self.assertIs(type(made), np.ndarray)
                    made[...] = 0
            self.assertGreater(images.max(), 0)
            self.assertEqual(images.mean(), np.asarray(images).mean())

    def test_lifetime(self) -> None:
        """A part of a batch holds all of it; the bytes stay unchanged, also after the loader is
        gone."""
        source = loader()
        row = next(iter(source))[0][3, 1]
        before = row.copy()
        for _ in range(3):
            for images, _ in source:
                pass
        np.testing.assert_array_equal(row, before)
        source.close()
        del images
        np.testing.assert_array_equal(row, before)

    def test_all_held(self) -> None:
        with loader(prefetch=3) as source:
            iterator = iter(source)
            held = [next(iterator) for _ in range(3)]
            with self.assertRaisesRegex(penstock.HeldError, "all 3 batches .* held by zero-copy views"):
                next(iterator)
            held.clear()
            self.assertEqual(len([1 for _ in iterator]), 4, "it goes on when they are given back")

    def test_nothing_is_left(self) -> None:
        loader().close()
        with support.nothing_left("views"):
            with loader() as source:
                kept = [images for images, _ in zip(source, range(3))]
            kept.clear()
            del source

    def test_does_not_go_with(self) -> None:
        wrong: "dict[str, Any]" = {
            "dtype": "float32",
            "framework": "torch",
            "device": "cuda",
            "mean": [0, 0, 0],
            "std": [1, 1, 1],
            "channels_last": False,
            "transforms": [{"RandomResizedCrop": {"size": 32}}, "ToTensor"],
        }
        for name, value in wrong.items():
            with (
                self.subTest(name),
                self.assertRaisesRegex(penstock.ArgumentError, f"{name} cannot be combined with zero_copy=True"),
            ):
                loader(**{name: value})
        loader(dtype="uint8", framework="numpy", device="cpu").close()


if __name__ == "__main__":
    support.main()

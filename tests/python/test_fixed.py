"""Assignments to a loader and its dataset that would change nothing raise, and name the argument;
subclasses have attributes of their own."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import mock

import support  # first: it skips the tests if NumPy is not installed
from support import penstock


def arguments(**more: Any) -> Any:
    return {"source": support.dataset(), "batch_size": 8, "image_size": 32, "framework": "numpy", **more}


class Loaders(unittest.TestCase):
    def refused(self, made: Any, name: str, advice: str) -> None:
        with self.subTest(name), self.assertRaises(penstock.AssignmentError) as caught:
            setattr(made, name, 0)
        self.assertIsInstance(caught.exception, AttributeError)
        self.assertEqual(str(caught.exception), f"{type(made).__name__}.{name} cannot be assigned, because it would change nothing: {advice}")

    def test_arguments(self) -> None:
        with penstock.Loader(**arguments()) as made:
            for name in penstock.loader._defaults():
                self.refused(made, name, f"pass {name}= to the constructor of a new loader")

    def test_facts(self) -> None:
        with penstock.Loader(**arguments()) as made:
            for name, advice in (("epoch", "call set_epoch()"), ("dataset", "create a loader with another source"),
                                 ("closed", "call close()"), ("remaining", "it is a fact about the stream"),
                                 ("classes", "pass labels= to the constructor")):
                self.refused(made, name, advice)

    def test_others(self) -> None:
        unknown = "a loader has no such attribute; a subclass may have attributes of its own"
        with penstock.Loader(**arguments()) as made:
            for name, advice in (
                ("num_workers", "not needed: penstock's daemon chooses its number of threads; to set it, use threads="),
                ("mixup_alpha", "use mixup="),
                ("batchsize", "pass batch_size= to the constructor of a new loader"),
                ("mixup_enabled", unknown),
                ("foo", unknown),
            ):
                self.refused(made, name, advice)
            made._private = 3
            self.assertEqual(made._private, 3)
            with mock.patch.object(made, "stats", lambda: {"samples": 7}):  # a method, as a test replaces it
                self.assertEqual(made.samples, 7)

    def test_dataset(self) -> None:
        with penstock.Loader(**arguments()) as made:
            for name, advice in (("transform", r"pass transforms=\[...\] to the loader"), ("target_transform", "pass labels="),
                                 ("targets", "pass labels="), ("samples", "indices= or split="), ("indices", "pass indices="),
                                 ("anything", "only describes what the daemon reads")):
                with self.subTest(name), self.assertRaisesRegex(penstock.AssignmentError, rf"loader.dataset.{name} cannot be .*{advice}"):
                    setattr(made.dataset, name, print)
            self.assertEqual(len(made.dataset), 60)


class Subclasses(unittest.TestCase):
    def test_own_attributes(self) -> None:
        class Mine(penstock.Loader):  # type: ignore[misc,name-defined]
            labels = "of the class"

            def __init__(self, mixup: float, **more: Any) -> None:
                self.group = "before"  # before Loader's constructor, and with the name of an argument
                super().__init__(**more)
                self.mixup = mixup
                self.name = "mine"

            def later(self) -> None:
                self.cutmix = 1.0

            @property
            def weights(self) -> int:
                return self._weights

            @weights.setter
            def weights(self, value: int) -> None:
                self._weights = value

        with Mine(0.3, **arguments()) as made:
            made.later()
            self.assertEqual((made.group, made.mixup, made.name, made.cutmix), ("before", 0.3, "mine", 1.0))
            made.mixup, made.labels, made.weights, made.anything = 0.4, "other", 5, 6
            self.assertEqual((made.mixup, made.labels, made.weights, made.anything), (0.4, "other", 5, 6))
            for name in ("transforms", "batch_size", "decode"):  # not its own
                with self.assertRaisesRegex(penstock.AssignmentError, f"Mine.{name} cannot be assigned.*pass {name}="):
                    setattr(made, name, 1)
            with self.assertRaisesRegex(penstock.AssignmentError, "call set_epoch"):
                made.epoch = 3
            self.assertEqual(sum(1 for _ in made), 7)

    def test_named(self) -> None:
        class Mine(penstock.Stream):  # type: ignore[misc,name-defined]
            pass

        self.assertTrue(issubclass(Mine, penstock.Loader))
        with self.assertRaisesRegex(penstock.ArgumentTypeError, "Mine has no argument|Stream has no argument"):
            Mine("small", batch_size=3)


if __name__ == "__main__":
    support.main()

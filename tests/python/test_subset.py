"""Subsets: what is written, once, and where; what is refused, and in which words."""

from __future__ import annotations

import array
import contextlib
import os
import subprocess
import sys
import time
import unittest
from pathlib import Path
from typing import Any, Iterator
from unittest import mock

import support  # first: it creates the folders of HOME and XDG_CACHE_HOME

import numpy as np

from penstock import Loader, errors, subset

MONTH_S = 30 * 24 * 3600


class Tensor:
    """A stand-in for torch's tensors, with the attributes that subset uses."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, which: slice) -> Tensor:
        return Tensor(self.values[which])

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        return self.values if dtype is None else self.values.astype(dtype)


class Subset:
    """A stand-in for torch.utils.data.Subset."""

    def __init__(self) -> None:
        self.dataset, self.indices = list(range(10)), [3, 1]

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        return index


@contextlib.contextmanager
def environment(**names: str | None) -> Iterator[None]:
    with mock.patch.dict(os.environ):
        for name, value in names.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        yield


class Forms(unittest.TestCase):
    def check(self, indices: Any, expected: list[int], samples: int | None = None) -> None:
        path = subset.save(indices, samples)
        written = np.load(path, allow_pickle=False)
        self.assertEqual(written.ndim, 1)
        self.assertIn(written.dtype.str, ("<u4", "<u8"))
        self.assertEqual(written.tolist(), expected)
        self.assertEqual(path, subset.save(expected), "equal content is one file, whatever it was said with")

    def test_forms(self) -> None:
        for indices in (
            [3, 1, 4, 1],
            (3, 1, 4, 1),
            array.array("q", [3, 1, 4, 1]),
            np.array([3, 1, 4, 1]),
            np.array([3, 1, 4, 1], ">i2"),
            np.array([3, 9, 1, 9, 4, 9, 1, 9], np.uint8)[::2],
            Tensor([3, 1, 4, 1]),
            [np.int32(3), np.uint8(1), 4, 1],
            Subset().dataset[3:4] + [1, 4, 1],
        ):
            with self.subTest(type(indices).__name__):
                self.check(indices, [3, 1, 4, 1])
                self.check(indices, [3, 1, 4, 1], 5)

    def test_ranges(self) -> None:
        for indices in (range(5), range(3, 100, 7), range(10, -1, -1), range(9, 0, -4), range(2**33, 2**33 + 3)):
            with self.subTest(indices):
                self.check(indices, list(indices))

    def test_masks(self) -> None:
        mask = [True, False, False, True, True]
        for indices in (mask, np.array(mask), Tensor(mask)):
            self.check(indices, [0, 3, 4])
            self.check(indices, [0, 3, 4], 5)

    def test_large_numbers(self) -> None:
        self.check([0, 2**32 - 1], [0, 2**32 - 1])
        self.check([0, 2**32], [0, 2**32])
        self.check([2**63], [2**63])
        with open(subset.save([0, 2**32 - 1]), "rb") as file:
            self.assertEqual(len(file.read()), 128 + 2 * 4, "four bytes where they do")

    def test_refused(self) -> None:
        cases: list[tuple[Any, int | None, str]] = [
            ([], None, "at least one sample"),
            (range(0), None, "at least one sample"),
            (np.empty(0), None, "at least one sample"),
            ([False, False], None, "is True: expected at least one"),
            ([1.0, 2.0], None, "float64"),
            (np.array([1.5], np.float32), None, "float32"),
            (Tensor([1.5]), None, "float64"),
            (["1"], None, "str"),
            ([1, None], None, "object"),
            ([2**70], None, "object"),
            (range(2**70, 2**70 + 2), None, "do not fit into 64 bits"),
            ([[1, 2], [3, 4]], None, "shape (2, 2)"),
            (np.array(3), None, "shape ()"),
            ([[1], [2, 3]], None, "list"),
            ("123", None, "str"),
            (b"123", None, "bytes"),
            ({1, 2}, None, "set"),
            ({1: 2}, None, "dict"),
            (7, None, "int"),
            (None, None, "NoneType"),
            ((i for i in range(3)), None, "generator"),
            (Subset(), None, ".indices"),
            ([4, 5, -1], None, "indices[2] is -1"),
            ([4, 5, -1], 10, "numbered from 0 to 9"),
            ([4, 10, 3, 11], 10, "indices[3] is 11"),
            (np.array([3, 10], np.uint64), 10, "indices[1] is 10"),
            ([True] * 9, 10, "10 samples, got 9 bools"),
            (np.ones(11, bool), 10, "one bool for each of the dataset's 10 samples"),
        ]
        before = sorted(os.listdir(os.path.dirname(subset.save([1]))))
        for indices, samples, words in cases:
            with self.subTest(words):
                with self.assertRaises(errors.ArgumentError) as caught:
                    subset.save(indices, samples)
                self.assertIn("indices", str(caught.exception))
                self.assertIn(words, str(caught.exception))
        self.assertEqual(before, sorted(os.listdir(os.path.dirname(subset.save([1])))), "nothing was written")


class Files(unittest.TestCase):
    def test_place(self) -> None:
        cache = os.environ["XDG_CACHE_HOME"]
        path = subset.save([1, 2, 3])
        self.assertEqual(os.path.dirname(path), os.path.join(cache, "penstock", "indices"))
        self.assertEqual(os.stat(os.path.dirname(path)).st_mode & 0o077, 0)
        home, temporary = support.folder / "other-home", support.folder / "other-tmp"
        home.mkdir()
        temporary.mkdir()
        with environment(XDG_CACHE_HOME=None, HOME=str(home)):
            self.assertTrue(subset.save([1, 2, 3]).startswith(f"{home}/.cache/penstock/indices/"))
        with environment(XDG_CACHE_HOME="relative", HOME=str(home)):
            self.assertTrue(subset.save([1, 2, 3]).startswith(f"{home}/.cache/penstock/indices/"))
        blocked = support.folder / "blocked"
        blocked.write_text("a file where a folder should be")
        with environment(XDG_CACHE_HOME=str(blocked)), mock.patch("tempfile.tempdir", str(temporary)):
            self.assertTrue(subset.save([1, 2, 3]).startswith(f"{temporary}/penstock-{os.getuid()}/indices/"))
        with environment(XDG_CACHE_HOME=str(blocked)), mock.patch("tempfile.tempdir", str(blocked)):
            with self.assertRaises(errors.ArgumentError) as caught:
                subset.save([1, 2, 3])
        self.assertIn("set XDG_CACHE_HOME", str(caught.exception))
        self.assertIn(str(blocked), str(caught.exception))

    def test_written_once(self) -> None:
        path = subset.save(range(1000))
        os.utime(path, (1, 1))
        first = os.stat(path)
        self.assertEqual(subset.save(list(range(1000))), path)
        self.assertEqual(os.stat(path).st_ino, first.st_ino)
        self.assertLess(time.time() - os.stat(path).st_mtime, 3600, "it counts as used")

    def test_damaged_is_written_again(self) -> None:
        path = Path(subset.save(range(500)))
        good = path.read_bytes()
        for damage in (b"", good[:-1], good[:-1] + bytes([good[-1] ^ 1]), good + b"x"):
            path.write_bytes(damage)
            self.assertEqual(subset.save(range(500)), str(path))
            self.assertEqual(path.read_bytes(), good)

    def test_unused_are_removed(self) -> None:
        folder = Path(os.path.dirname(subset.save([77])))
        old, kept, left, other = folder / "old.npy", folder / "kept.npy", folder / ".new-left.npy", folder / "note.txt"
        for path, age in ((old, MONTH_S + 60), (kept, MONTH_S - 3600), (left, MONTH_S + 60), (other, MONTH_S + 60)):
            path.write_bytes(b"")
            os.utime(path, (time.time() - age, time.time() - age))
        subset.save([78])
        self.assertEqual([path.exists() for path in (old, kept, left, other)], [False, True, False, True])
        self.assertFalse([path for path in folder.glob(".new-*")], "nothing half written")
        kept.unlink()
        other.unlink()

    def test_a_full_disk_is_said(self) -> None:
        folder = os.path.dirname(subset.save([1]))
        with mock.patch("os.replace", side_effect=OSError(28, "No space left on device")):
            with self.assertRaises(errors.ArgumentError) as caught:
                subset.save([90, 91])
        self.assertIn("No space left on device", str(caught.exception))
        self.assertFalse(list(Path(folder).glob(".new-*")))

    def test_many_at_once(self) -> None:
        """Ranks that start together name the same file, which is always complete."""
        code = "from penstock import subset; print(subset.save(range(0, 400000, 2)))"
        ranks = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(6)]
        paths = {rank.communicate()[0] for rank in ranks}
        self.assertEqual([rank.returncode for rank in ranks], [0] * 6)
        (path,) = paths
        self.assertEqual(np.load(path.strip()).tolist(), list(range(0, 400000, 2)))


class Masks(unittest.TestCase):
    """A mask has the dataset's length, which is known when the stream is open."""

    def test_length(self) -> None:
        mask = np.zeros(60, bool)
        mask[[4, 50]] = True
        plain = {"train": False, "device": "cpu", "framework": "numpy", "batch_size": 4}
        with Loader(support.dataset(), indices=mask, **plain) as loader:
            (batch,) = loader.batches()
            self.assertEqual(list(batch.samples["index"]), [4, 50])
        for wrong in (mask[:59], np.append(mask, False), list(mask) + [False]):
            with self.assertRaises(errors.ArgumentError) as caught:
                Loader(support.dataset(), indices=wrong, **plain)
            self.assertIn(f"each of the dataset's 60 samples, got {len(wrong)} bools", str(caught.exception))

    def test_what_is_a_mask(self) -> None:
        masks = ([True, False], 2), (np.ones(3, bool), 3), (Tensor([True] * 4), 4)
        for indices, length in (*masks, ([1, 0], None), (range(3), None)):
            self.assertEqual(subset.mask_length(indices), length)
        subset.check_mask(None, 5)
        subset.check_mask(5, 5)


if __name__ == "__main__":
    support.main()

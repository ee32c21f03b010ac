"""Functions of the user at the end of transforms: what they get, what they may return, which draws they
have, on how many threads they run, and what a loop sees when one fails."""

from __future__ import annotations

import errno
import functools
import threading
import time
import unittest
from typing import Any, Callable
from unittest import mock

import support  # first: it skips the tests if NumPy is not installed
from support import penstock

import numpy as np

CROP = [{"RandomResizedCrop": {"size": 32}}, "RandomHorizontalFlip"]
SEVEN = {"batch_size": 8, "image_size": 32, "framework": "numpy", "seed": 5}


def loader(*functions: Any, **arguments: Any) -> Any:
    transforms = arguments.pop("transforms", [*CROP, *functions])
    return penstock.Loader(support.dataset(), transforms=transforms, **{**SEVEN, **arguments})


def batches(*functions: Any, count: int = 3, **arguments: Any) -> "list[Any]":
    with loader(*functions, **arguments) as made:
        iterator = made.batches()
        return [next(iterator) for _ in range(count)]


def inverted(row: Any) -> Any:
    return 255 - row


def noisy(row: Any, generator: Any) -> Any:
    row[...] = generator.integers(0, 256, row.shape, np.uint8)
    return row


class Rows(unittest.TestCase):
    def test_what_a_function_gets(self) -> None:
        seen: "list[Any]" = []

        def keep(row: Any) -> Any:
            seen.append((row.shape, row.dtype, row.flags.writeable, row.copy()))
            return row

        (batch,) = batches(keep, count=1, dtype="uint8", map_threads=1)
        (plain,) = batches(count=1, dtype="uint8")
        for (shape, dtype, writable, row), want in zip(seen, plain.images):
            self.assertEqual((shape, dtype, writable), ((32, 32, 3), np.uint8, True))
            np.testing.assert_array_equal(row.transpose(2, 0, 1), want)
        np.testing.assert_array_equal(batch.images, plain.images)
        self.assertEqual(len(seen), 8)

    def test_normalized_afterward(self) -> None:
        """In every dtype and order: what the library makes of the changed row."""
        for keys in ({}, {"dtype": "float16"}, {"channels_last": False}, {"mean": (0, 0, 0), "std": (1, 1, 1)}, {"views": 2}):
            raw, made = batches(dtype="uint8", views=keys.get("views", 1)), batches(inverted, **keys)
            plain = batches(**keys)
            for pixels, batch, other in zip(raw, made, plain):
                views = (pixels.images, batch.images, other.images) if "views" in keys else ((pixels.images,), (batch.images,), (other.images,))
                for before, after, without in zip(*views):
                    table = {}
                    for channel in range(3):  # the normalization of each value, from the loader without functions
                        table.update({(channel, v): f for v, f in zip(before[:, channel].flat, without[:, channel].flat)})
                    known = [(i, v, f) for i in range(3) for v, f in zip(255 - before[:, i].reshape(-1), after[:, i].reshape(-1)) if (i, v) in table]
                    self.assertGreater(len(known), 1000)
                    self.assertTrue(all(table[i, v] == f for i, v, f in known))

    def test_several_in_turn(self) -> None:
        def brighter(image: Any) -> Any:
            return image.astype(np.int32) + 7  # another dtype: the next function gets it

        def clipped(image: Any) -> Any:
            self.assertEqual(image.dtype, np.int32)
            return np.clip(image, 0, 255).astype(np.uint8)

        for made, plain in zip(batches(brighter, clipped, dtype="uint8"), batches(dtype="uint8")):
            np.testing.assert_array_equal(made.images, np.minimum(plain.images.astype(int) + 7, 255))

    def test_forms(self) -> None:
        class Flip:
            def __call__(self, row: Any) -> Any:
                return row[:, ::-1]

        def shifted(row: Any, by: int) -> Any:
            return np.roll(row, by, 0)

        plain = batches(dtype="uint8")
        for function, want in ((Flip(), lambda x: x[..., ::-1]), (lambda row: row[::-1], lambda x: x[:, :, ::-1]), (np.flipud, lambda x: x[:, :, ::-1]),
                               (functools.partial(shifted, by=3), lambda x: np.roll(x, 3, 2)), ([inverted, [inverted]], lambda x: x)):
            for made, other in zip(batches(function, dtype="uint8"), plain):
                np.testing.assert_array_equal(made.images, want(other.images))

    def test_before_conversions_and_mixing(self) -> None:
        tail = ["ToTensor", {"Normalize": {"mean": [0.5] * 3, "std": [0.5] * 3}}, ("RandomErasing", {"p": 1, "value": 9})]
        listed, said = [*CROP, inverted, *tail], {"mean": [0.5] * 3, "std": [0.5] * 3}
        for made, plain in zip(batches(transforms=listed, mixup=0), batches(inverted, **said)):
            erased = made.images == 9
            self.assertTrue(erased.any(axis=(1, 2, 3)).all())
            np.testing.assert_array_equal(made.images[~erased], plain.images[~erased])
        for made, plain in zip(batches(inverted, mixup=1.0), batches(inverted)):
            self.assertEqual(made.labels.shape, (8, 3))
            self.assertFalse((made.images == plain.images).all())

    def test_broken_rows_stay_zero(self) -> None:
        import pathlib
        import shutil

        broken = support.folder / "broken"
        shutil.copytree(support.dataset(), broken)
        sorted(pathlib.Path(broken).rglob("*.jpg"))[2].write_bytes(b"\xff\xd8\xff")
        with penstock.Loader(broken, transforms=[{"Resize": {"size": [32, 32]}}, inverted], train=False, dtype="uint8", max_broken=1, **SEVEN) as made:
            batch = next(made.batches())
        self.assertEqual(batch.valid.tolist(), [True, True, False] + [True] * 5)
        self.assertEqual([bool(image.any()) for image in batch.images], batch.valid.tolist())

    def test_sizes_by_epoch_and_kept_batches(self) -> None:
        shapes: "set[Any]" = set()

        def note(row: Any) -> Any:
            shapes.add(row.shape)
            return row

        with loader(note, image_size={0: 16, 1: 32}) as made:
            kept = [[(images, images.copy()) for images, _ in made] for _ in range(2)]
        self.assertEqual(shapes, {(16, 16, 3), (32, 32, 3)})
        for images, was in sum(kept, []):
            np.testing.assert_array_equal(images, was)


class Draws(unittest.TestCase):
    def test_follow_from_the_place(self) -> None:
        """The same on any number of threads, after a resume, with another batch size and other ranks; other draws with another
        salt, seed, epoch and view."""
        whole = batches(noisy, count=6, dtype="uint8", map_threads=1)
        by_position = {int(p): image for batch in whole for p, image in zip(batch.samples["position"], batch.images)}
        for batch in batches(noisy, count=6, dtype="uint8", map_threads=5):
            for position, image in zip(batch.samples["position"], batch.images):
                np.testing.assert_array_equal(image, by_position[int(position)])
        with loader(noisy, dtype="uint8") as made:
            iterator = iter(made)
            next(iterator), next(iterator)
            state = made.state_dict()
        with loader(noisy, dtype="uint8", batch_size=4, rank=1, world_size=2, state=state) as made:
            for batch in made.batches():
                for position, image in zip(batch.samples["position"], batch.images):
                    self.assertGreaterEqual(position, 16)
                    if int(position) in by_position:
                        np.testing.assert_array_equal(image, by_position[int(position)])
        first = whole[0].images
        self.assertEqual(len({image.tobytes() for image in first}), 8)
        two = batches(noisy, count=1, dtype="uint8", views=2)[0].images
        np.testing.assert_array_equal(two[0], first)
        others = [two[1], batches(noisy, count=1, dtype="uint8", salt="b")[0].images, batches(noisy, count=1, dtype="uint8", seed=6)[0].images]
        with loader(noisy, dtype="uint8") as made:
            made.set_epoch(1)
            others.append(next(iter(made))[0])
        for other in others:
            self.assertGreater((first != other).mean(), 0.9)

    def test_which_functions_get_a_generator(self) -> None:
        kinds: "list[Any]" = []

        def optional(row: Any, p: float = 0.5) -> Any:
            kinds.append(p)
            return row

        def by_name(row: Any, p: float = 0.5, *, rng: Any = None) -> Any:
            kinds.append((p, type(rng)))
            return row

        def anything(*args: Any, **more: Any) -> Any:
            kinds.append((len(args), more))
            return args[0]

        def second(row: Any, draw: Any, /) -> Any:
            kinds.append(type(draw))
            return row

        batches(optional, by_name, anything, second, count=1, batch_size=1, map_threads=1)
        self.assertEqual(kinds, [0.5, (0.5, np.random.Generator), (1, {}), np.random.Generator])


class Threads(unittest.TestCase):
    def test_several(self) -> None:
        names: "set[str]" = set()
        meet = threading.Barrier(4, timeout=60)

        def note(row: Any) -> Any:
            names.add(threading.current_thread().name)
            meet.wait()  # only four rows at a time get beyond it
            return row

        before = threading.active_count()
        with loader(note, map_threads=4) as made:
            next(iter(made))
            self.assertEqual(len(names), 4)
            self.assertEqual(sum(name.startswith("penstock-map") for name in names), 3)
        support.wait_until(lambda: threading.active_count() == before, "the end of the threads")
        names.clear()
        meet = threading.Barrier(1)
        with loader(note, map_threads=1) as made:
            next(iter(made))
        self.assertEqual(names, {threading.main_thread().name})

    def test_default(self) -> None:
        from penstock.functions import running

        for usable, want in ((1, 1), (3, 3), (64, 4)):
            with mock.patch("os.sched_getaffinity", lambda _: range(usable)):
                self.assertEqual(running.default_threads(), want)
        refused = mock.patch("os.sched_getaffinity", side_effect=OSError(errno.ENOSYS, "not implemented"))
        with refused, mock.patch("os.cpu_count", lambda: 3):
            self.assertEqual(running.default_threads(), 3)

    def test_refusals(self) -> None:
        for value, error, said in ((0, "ArgumentError", "map_threads: expected a whole number from 1 to 1024"), ("2", "ArgumentTypeError", "map_threads"),
                                   (1.5, "ArgumentTypeError", "map_threads"), (True, "ArgumentTypeError", "map_threads")):
            with self.subTest(value), self.assertRaisesRegex(getattr(penstock, error), said):
                loader(inverted, map_threads=value)
        with self.assertRaisesRegex(penstock.ArgumentError, "map_threads has a meaning only with functions .*threads= is for the daemon"):
            loader(map_threads=2)


class Refused(unittest.TestCase):
    def refused(self, said: str, *transforms: Any, **keys: Any) -> None:
        with self.subTest(said), self.assertRaisesRegex(penstock.ArgumentError, said):
            loader(transforms=list(transforms), **keys)

    def test_places(self) -> None:
        crop = CROP[0]
        self.refused(r"transforms\[2\]: RandomHorizontalFlip comes after inverted: .*put functions after all operations", crop, inverted, "RandomHorizontalFlip")
        self.refused(r"transforms\[0\]\[1\]: Grayscale comes after a lambda", [lambda row: row, "Grayscale"], crop)
        self.refused(r"transforms\[2\]: RandomErasing comes after inverted", crop, inverted, "RandomErasing", "ToTensor")
        self.refused(r"transforms\[2\]: inverted comes after ToTensor, .*tensors \(3, height, width\): put it before, .*images = f\(images\)",
                     crop, "ToTensor", inverted)
        self.refused(r"transforms\[1\]: inverted comes after ToImage", "ToImage", inverted, crop)
        self.refused(r"transforms\[1\]: RandomApply\[0\]: inverted is inside another transform, .*def f\(row, generator\)", crop,
                     {"RandomApply": {"transforms": [inverted]}})
        self.refused("contains nothing that gives all images the same size", inverted)
        self.refused("transforms: functions cannot be combined with zero_copy=True", crop, inverted, zero_copy=True)

    def test_functions(self) -> None:
        crop = CROP[0]
        self.refused(r"transforms\[1\]: a lambda has no parameters: expected a function of a row, or of a row and a generator .*functools.partial",
                     crop, lambda: None)
        self.refused("a lambda has the parameters a, b, c: expected", crop, lambda a, b, c: a)
        self.refused("f has the parameters row, strength: expected", crop, self.keyword())
        self.refused(r"transforms\[1\]: inverted is a class|transforms\[1\]: Flip is a class, not a transform: write Flip\(...\)", crop, type("Flip", (), {}))
        self.refused(r"transforms\[1\]: an object of builtins.int is not a transform", crop, 3)
        named = type("GaussianBlur", (), {"__call__": lambda self, row: row})()
        self.refused("has the name of an operation of torchvision, but is another class: .*wrap it in a function of a row", crop, named)

    @staticmethod
    def keyword() -> "Callable[..., Any]":
        def f(row: Any, *, strength: float) -> Any:
            return row

        return f

    def test_named_streams(self) -> None:
        with self.assertRaisesRegex(penstock.ArgumentTypeError, "transforms"):
            penstock.Stream("small", transforms=[inverted])


class Failing(unittest.TestCase):
    def fails(self, said: str, function: Any, cause: Any = None, **keys: Any) -> None:
        with self.subTest(said), loader(function, **keys) as made, support.nothing_left():
            with self.assertRaisesRegex(penstock.TransformError, rf"transforms\[2\]: .*{said}.*; row 0.* of batch 0 of epoch 0 is sample \d+ \(/.*jpg\)") as caught:
                next(iter(made))
            self.assertIsInstance(caught.exception.__cause__, cause or type(None))
            self.assertIsInstance(caught.exception, RuntimeError)

    def test_returns(self) -> None:
        like = r"expected an array like the row, of shape \(32, 32, 3\) and dtype uint8"
        self.fails(r"a lambda returned None \(it must return the row, also if it changes it in place\): " + like, lambda row: None)
        self.fails(r"returned an array of shape \(3, 32, 32\) and dtype uint8: " + like, lambda row: row.transpose(2, 0, 1))
        self.fails(r"returned an array of shape \(32, 32, 3\) and dtype float64: " + like, lambda row: row / 2)
        self.fails(r"returned an array of shape \(16, 32, 3\)", lambda row: row[::2])
        self.fails("returned an object of str: " + like, lambda row: "row")

        class Odd:
            def __array__(self, *_: Any, **__: Any) -> Any:
                raise OSError("no array")

        self.fails("returned an object of Odd, which NumPy cannot read", lambda row: Odd(), OSError)

    def test_raises(self) -> None:
        def bad(row: Any) -> Any:
            raise KeyError("mine")

        self.fails("bad raised KeyError: 'mine'", bad, KeyError)
        self.fails("bad raised KeyError: 'mine'", bad, KeyError, views=2, map_threads=3)
        self.fails("raised StopIteration", lambda row: next(iter(())), StopIteration)
        with loader(bad) as made:
            try:
                next(iter(made))
            except penstock.TransformError as error:
                assert error.__cause__ is not None and error.__cause__.__traceback__ is not None
                frames = error.__cause__.__traceback__
                while frames.tb_next is not None:
                    frames = frames.tb_next
                self.assertEqual(frames.tb_frame.f_code.co_name, "bad")

    def test_the_first_row_whatever_the_threads(self) -> None:
        (plain,) = batches(count=1, dtype="uint8")
        wrong = [plain.images[i].transpose(1, 2, 0).tobytes() for i in (3, 6)]

        def two(row: Any) -> Any:
            if row.tobytes() in wrong:
                raise ValueError("it")
            if row.tobytes() == plain.images[2].tobytes():
                time.sleep(0.05)
            return row

        for threads in (1, 2, 8):
            with loader(two, map_threads=threads) as made, self.assertRaisesRegex(penstock.TransformError, f"row 3 of batch 0 .* sample {plain.samples['index'][3]} "):
                next(iter(made))

    def test_goes_on(self) -> None:
        """The failed batch is left out, once; the next ones come, in this loop and in the next one."""
        calls = {"left": 0}

        def sometimes(row: Any) -> Any:
            calls["left"] -= 1
            if calls["left"] == 0:
                raise ValueError("now")
            return row

        whole = batches(count=7)
        for how in ("iterator", "for", "state"):
            with self.subTest(how), loader(sometimes, map_threads=1) as made:
                calls["left"] = 8 * 2 + 3
                iterator = made.batches()
                got = [next(iterator), next(iterator)]
                state = made.state_dict()
                with self.assertRaisesRegex(penstock.TransformError, "batch 2 of epoch 0"):
                    next(iterator)
                if how == "state":  # the state from before the failure contains the batch
                    made.load_state_dict(state)
                    self.assertEqual(made.state_dict()["position"], 16)
                got += iterator if how == "iterator" else made.batches()
                self.assertEqual([batch.batch for batch in got], [0, 1, *((2,) if how == "state" else ()), 3, 4, 5, 6])
                for batch in got:
                    np.testing.assert_array_equal(batch.images, whole[batch.batch].images)
                self.assertEqual(next(made.batches()).epoch, 1)

    def test_last_batch(self) -> None:
        calls = {"left": 7 * 8}

        def last(row: Any) -> Any:
            calls["left"] -= 1
            if calls["left"] == 0:
                raise ValueError("now")
            return row

        with loader(last, map_threads=1) as made:
            iterator = iter(made)
            for _ in range(6):
                next(iterator)
            with self.assertRaises(penstock.TransformError):
                next(iterator)
            self.assertEqual(list(iterator), [])
            self.assertEqual(next(made.batches()).epoch, 1)

    def test_ctrl_c_loses_nothing(self) -> None:
        calls = {"left": 8 + 3}

        def pressed(row: Any) -> Any:
            calls["left"] -= 1
            if calls["left"] == 0:
                raise KeyboardInterrupt
            return row

        whole = batches(count=2)
        with loader(pressed, map_threads=1) as made:
            iterator = made.batches()
            next(iterator)
            with self.assertRaises(KeyboardInterrupt):
                next(iterator)
            batch = next(iterator)
            self.assertEqual(batch.batch, 1)
            np.testing.assert_array_equal(batch.images, whole[1].images)

    def test_threads_end_before_the_error(self) -> None:
        """An exception that ends one thread's part is raised when no thread writes rows any more."""
        from penstock.functions.reading import read
        from penstock.functions.running import Runner

        ended: "list[int]" = []

        def leave(row: Any) -> Any:
            if row[0, 0, 0] == 1:
                raise SystemExit
            if row[0, 0, 0] == 2:
                time.sleep(0.3)
                ended.append(2)
            return row

        rows = np.zeros((3, 2, 2, 3), np.uint8)
        rows[:] = np.arange(3, dtype=np.uint8).reshape(3, 1, 1, 1)
        samples = np.zeros(3, [("position", np.uint64), ("view", np.uint32)])
        runner = Runner([read(leave, "transforms[0]")], 3, 0, 0)
        with self.assertRaises(SystemExit):
            runner.apply(rows, samples, np.zeros(3, bool), 0)
        self.assertEqual(ended, [2])
        runner.close()


if __name__ == "__main__":
    support.main()

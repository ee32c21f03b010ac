"""What a loader says when it opens its stream: what the daemon remarks on the samples, and threads=
and memory= that a running daemon does not follow; and what it knows of classes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import unittest
import warnings
from pathlib import Path
from typing import Any, Iterator
from unittest import mock

import support  # first: it skips the tests if NumPy is not installed
from support import penstock

from penstock import _penstock, checks, joined


def loader(source: Any = None, **arguments: Any) -> Any:
    base = {"batch_size": 8, "image_size": 32, "framework": "numpy"}
    return penstock.Loader(support.dataset() if source is None else source, **{**base, **arguments})


@contextlib.contextmanager
def warned() -> "Iterator[list[str]]":
    texts: "list[str]" = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield texts
    texts += [str(warning.message) for warning in caught]
    assert all(Path(warning.filename).name == Path(__file__).name for warning in caught), [w.filename for w in caught]
    assert all(warning.category is UserWarning for warning in caught), texts


def flat() -> Path:
    folder = support.folder / "flat"
    if not folder.exists():
        folder.mkdir()
        for number, path in enumerate(sorted(Path(support.dataset()).rglob("*.jpg"))[:20]):
            shutil.copy(path, folder / f"{number:03}.jpg")
    return folder


class Samples(unittest.TestCase):
    def test_no_labels(self) -> None:
        with warned() as texts, loader(flat()) as made:
            self.assertIn("20 samples, no labels, 2 batches of 8", repr(made))
            self.assertIsNone(made.num_classes)
            next(iter(made))
            made.set_epoch(3)
            next(iter(made))  # opened again
            made.load_state_dict(made.state_dict())
        self.assertEqual(len(texts), 1, texts)
        self.assertRegex(texts[0], r'^the samples of .*/flat have no labels, .*: say with `labels` .*, or `labels="none"` if none are meant$')
        for more in ({"train": False}, {"labels": "none"}):
            with warned() as texts, loader(flat(), **more) as made:
                self.assertIn(", no labels, ", repr(made))
            self.assertEqual(texts, [])

    def test_each_sentence_once_for_each_loader(self) -> None:
        said = ["one: 3 files (.txt) were passed over", "two"]
        before = _penstock.Stream

        class Stream:
            def __init__(self, options: Any) -> None:
                self._stream = before(options)

            def stats(self) -> str:
                return json.dumps({**json.loads(self._stream.stats()), "warnings": said})

            def __getattr__(self, name: str) -> Any:
                return getattr(self._stream, name)

        for _ in range(2):
            with mock.patch.object(_penstock, "Stream", Stream), warned() as texts:
                made = penstock.Loader.__new__(penstock.Loader)
                with mock.patch.object(penstock.Loader, "_make_reader", side_effect=KeyError):
                    for _ in range(2):
                        with self.assertRaises(KeyError):
                            penstock.Loader.__init__(made, support.dataset(), batch_size=8, image_size=32, framework="numpy")
                        with self.assertRaises(KeyError):
                            made._open(None)
            self.assertEqual(texts, said * 2)

    def test_an_older_daemon(self) -> None:
        """Its description has no warnings."""
        before = json.loads

        def without(text: Any, **more: Any) -> Any:
            read = before(text, **more)
            for key in ("warnings", "classes", "labelled"):
                read.pop(key, None) if isinstance(read, dict) else None
            return read

        with mock.patch.object(json, "loads", without), warned() as texts, loader(flat()) as made:
            self.assertEqual(len(made), 2)
        self.assertEqual(texts, [])

    def test_classes(self) -> None:
        with warned() as texts, loader() as made:
            self.assertEqual(made.num_classes, 3)
            self.assertIn("60 samples of 3 classes, 7 batches of 8", repr(made))
        with loader(mixup=1.0, num_classes=10) as made:
            self.assertEqual(made.num_classes, 10)
        with loader(f"{support.dataset(tars=True)}/*.tar") as made:  # numbers in .cls, without names
            self.assertEqual((made.classes, made.num_classes), ([], None))
            self.assertIn("60 samples, 7 batches of 8", repr(made))
        one = support.folder / "one"
        shutil.copytree(Path(support.dataset()) / "beach", one / "beach")
        with loader(one) as made:
            self.assertIn("20 samples of 1 class, ", repr(made))
        self.assertEqual(texts, [])


def has_run(daemon: Any) -> None:
    """Waits until a loader can tell that the daemon is not one that was started for it."""
    support.wait_until(lambda: json.loads(_penstock.daemon_status(str(daemon.socket)))["uptime_s"] > 1, "a second of the daemon")


class Joined(unittest.TestCase):
    def test_threads_and_memory(self) -> None:
        home = support.folder / "running"
        home.mkdir()
        with support.harness.Daemon(home, "--threads", 2, "--memory", "256M") as daemon:
            where = rf"the daemon that was already running \(pid {daemon.process.pid}, at {daemon.socket}\) has "
            for given, said in (
                ({"threads": 3}, rf"threads=3 has no effect: {where}threads=2 and keeps it. To change that, run `penstock stop`"),
                ({"memory": "1G"}, rf'memory="1G" has no effect: {where}memory="256M" and keeps it'),
                ({"threads": 1, "memory": 512 << 20},
                 rf'threads=1 and memory="536870912" have no effect: {where}threads=2 and memory="256M" and keeps them'),
            ):
                with warned() as texts, loader(socket=daemon.socket, **given) as made:
                    next(iter(made))
                    made.set_epoch(5)
                    next(iter(made))  # opened again, by the same daemon
                self.assertEqual(len(texts), 1, texts)
                self.assertRegex(texts[0], f"^{said}")
            for given in ({}, {"threads": 2}, {"memory": "256M"}, {"memory": 256 << 20}, {"memory": "0.25GiB", "threads": 2}):
                with warned() as texts:
                    loader(socket=daemon.socket, **given).close()
                self.assertEqual(texts, [])

    def test_memory_that_does_not_suffice(self) -> None:
        home = support.folder / "small"
        home.mkdir()
        large = {"train": False, "batch_size": 512, "image_size": 1024}
        with support.harness.Daemon(home, "--memory", "256M") as daemon, warned() as texts:
            has_run(daemon)
            with self.assertRaises(penstock.MemoryLimitError) as caught:
                loader(socket=daemon.socket, memory="8G", threads=1, **large)
            with self.assertRaises(penstock.MemoryLimitError) as plain:
                loader(socket=daemon.socket, **large)
        self.assertRegex(str(caught.exception), rf'; memory="8G" has no effect: .*\(pid {daemon.process.pid}, .*has memory="256M" and keeps it')
        self.assertEqual(caught.exception.code, plain.exception.code)
        self.assertNotIn("has no effect", str(plain.exception))
        self.assertNotIn("--memory", str(plain.exception))
        self.assertRegex(
            str(plain.exception),
            rf"would fit; the daemon that was already running \(pid {daemon.process.pid}, at {daemon.socket}\) has 256M: "
            r'run `penstock stop` and create the loader again with memory="\d+M"$',
        )
        for error in (caught.exception, plain.exception):
            self.assertNotIn("pass memory=", str(error))
        self.assertEqual(texts, [])

    def test_memory_that_others_use(self) -> None:
        home = support.folder / "shared"
        home.mkdir()
        with support.harness.Daemon(home, "--memory", "256M") as daemon, loader(socket=daemon.socket):
            has_run(daemon)
            with self.assertRaisesRegex(penstock.MemoryLimitError, "has 256M: close its other loaders, or run `penstock stop` and"):
                loader(socket=daemon.socket, train=False, batch_size=512, image_size=1024)

    def test_memory_of_a_daemon_that_the_loader_started(self) -> None:
        large = {"train": False, "batch_size": 512, "image_size": 1024, "memory": "192M", "threads": 1}
        with self.assertRaisesRegex(penstock.MemoryLimitError, r'would fit; or pass memory="\d+M" or more$'):
            loader(socket=support.folder / "first" / "s.sock", **large)

    def test_its_own_daemon(self) -> None:
        """A loader that starts the daemon gets what it asks for, also from the next one."""
        socket = support.folder / "own" / "s.sock"
        with warned() as texts, loader(socket=socket, threads=1, memory="192M", on_event=lambda event: None) as made:
            self.assertEqual(made.stats()["threads"], 1)
            next(iter(made))
        self.assertEqual(texts, [])
        with warned() as texts, loader(socket=socket, threads=1, memory="192M") as made:
            it = iter(made)
            next(it)
            os.kill(made._stream.daemon_pid, signal.SIGKILL)
            list(it)
        self.assertEqual(["is gone, and another one" in text for text in texts], [True], texts)

    def test_memory_too_small_for_a_daemon(self) -> None:
        for threads, fewer in ((1, ""), (2, ", or fewer threads=")):
            with self.assertRaises(penstock.DaemonMemoryError) as caught:
                loader(socket=support.folder / "none" / "s.sock", threads=threads, memory="20M")
            self.assertRegex(
                str(caught.exception),
                rf'^memory: 20.0 MiB is too small for {threads} decoding threads?: pass memory="\d+M" or more{fewer}$',
            )
            self.assertIsInstance(caught.exception, penstock.MemoryLimitError)
            self.assertIsInstance(caught.exception, penstock.DaemonError)
            self.assertNotEqual(caught.exception.code, 0)

    def test_sizes(self) -> None:
        for size, count in (("1", 1), ("4K", 4096), ("1.5M", 3 << 19), ("2g", 2 << 30), ("1TiB", 1 << 40), ("7KB", 7168), ("12B", 12)):
            self.assertEqual(checks.bytes_of(size), count)
        for size in ("1.5", "", "M", "4 G", "-1", "1e3", "\u0665"):
            self.assertIsNone(checks.bytes_of(size))
        for count, size in ((1 << 30, "1G"), (3 << 29, "1.5G"), (1000, "1000"), (123456789, "117.7M")):
            self.assertEqual(joined._size(count), size)

    def test_no_answer(self) -> None:
        """A daemon that is gone when it is asked, and one that another took the place of."""
        options = {"daemon_threads": 7, "socket": str(support.folder / "nobody")}
        self.assertIsNone(joined.told(options))
        with mock.patch.object(joined, "_status", lambda _: {"pid": 5, "threads": 2, "socket": "s"}):
            self.assertIsNone(joined.told(options, 4))
            self.assertRegex(joined.told(options, 5) or "", r"pid 5, at s\) has threads=2")


if __name__ == "__main__":
    support.main()

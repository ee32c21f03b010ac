"""on_event= and the warnings: a daemon that was replaced, broken samples, a trainer that was
detached, another verdict; and callbacks that fail, iterate, or end the program."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import shutil
import signal
import threading
import unittest
import warnings
from pathlib import Path
from typing import Any, Iterator
from unittest import mock

import support  # first: it skips the tests if NumPy is not installed
from support import penstock

import numpy as np
from penstock import events


def loader(source: Any = None, **arguments: Any) -> Any:
    base = {"batch_size": 8, "image_size": 32, "framework": "numpy", "seed": 4}
    return penstock.Loader(support.dataset() if source is None else source, **{**base, **arguments})


@functools.lru_cache(None)
def broken() -> str:
    """60 samples, of which sample 3 and sample 27 are broken."""
    source = support.folder / "broken"
    shutil.copytree(support.dataset(), source)
    for name in ("beach/beach_00003.jpg", "bricks/bricks_00007.jpg"):
        (source / name).write_bytes(b"no JPEG at all")
    return str(source)


@contextlib.contextmanager
def warned() -> "Iterator[list[warnings.WarningMessage]]":
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def kinds(told: "list[Any]") -> "list[str]":
    return [event.kind for event in told]


class Daemons(unittest.TestCase):
    def test_replaced(self) -> None:
        told: "list[Any]" = []
        with loader(on_event=told.append, batch_size=2) as source, warned() as caught:
            it = source.batches()
            seen, pids = [next(it)], [source._stream.daemon_pid]
            for _ in range(2):
                os.kill(pids[-1], signal.SIGKILL)
                while source._stream.replaced[0] < len(pids):
                    seen.append(next(it))
                pids.append(source._stream.daemon_pid)
            seen += it
            self.assertEqual([batch.batch for batch in seen], list(range(30)))
        self.assertEqual(kinds(told), ["daemon_restarted"] * 2)
        for event, gone, came in zip(told, pids, pids[1:]):
            self.assertEqual((event.details["gone_pid"], event.details["pid"]), (gone, came))
            self.assertEqual(event.details["epoch"], 0)
            self.assertIn(f"the daemon (pid {gone}) is gone, and another one (pid {came}) goes on with epoch 0, batch", str(event))
        self.assertEqual(len(caught), 1, "one warning, whatever the number of daemons")
        self.assertRegex(str(caught[0].message), rf"^the daemon \(pid {pids[0]}\) is gone.*once for each loader, and on_event=")
        self.assertEqual(Path(caught[0].filename).name, Path(__file__).name)

    def test_nothing_to_tell(self) -> None:
        told: "list[Any]" = []
        with warned() as caught, loader(on_event=told.append) as source:
            self.assertEqual((len(list(source)), source._stream.replaced), (7, (0, 0, 0)))
            next(iter(source))
            source.set_epoch(9)  # the stream is opened again, by the same daemon
            next(iter(source))
        self.assertEqual((told, caught), ([], []))

    def test_after_an_error(self) -> None:
        """The library gave up, and the next iteration opens the stream at another daemon."""
        told: "list[Any]" = []
        with loader(reconnect=0, on_event=told.append) as source, warned():
            it = iter(source)
            next(it)
            first = source._stream.daemon_pid
            os.kill(first, signal.SIGKILL)
            with self.assertRaises(penstock.DaemonError):
                list(it)
            self.assertEqual(told, [])
            list(source)
            self.assertEqual(kinds(told), ["daemon_restarted"])
            self.assertEqual((told[0].details["gone_pid"], told[0].details["pid"]), (first, source._stream.daemon_pid))


class Samples(unittest.TestCase):
    def test_substituted(self) -> None:
        for views in (1, 2):
            told: "list[Any]" = []
            with loader(broken(), max_broken=0.5, views=views, batch_size=4, on_event=told.append) as source, warned() as caught:
                batches = list(source.batches()) + list(source.batches())
            wanted = []
            for batch in batches:
                records = batch.samples[::views]
                rows = np.flatnonzero(records["flags"] & penstock.SUBSTITUTED)
                if rows.size:
                    wanted.append({"epoch": batch.epoch, "batch": batch.batch, "rows": rows.tolist(),
                                   "positions": records["position"][rows].tolist(), "indices": records["index"][rows].tolist()})
            self.assertEqual([dict(event.details) for event in told], wanted)
            self.assertEqual(sum(len(event.details["rows"]) for event in told), 4, "two samples in two epochs")
            self.assertEqual(set(kinds(told)), {"sample_substituted"})
            self.assertEqual(len(caught), 1)
            self.assertRegex(str(caught[0].message), r"^a broken sample was replaced by another \(epoch 0, batch \d+, row \d\): `penstock "
                             r"check SOURCE` names the broken files, and stats\(\)\[.broken.\] counts them.*once for each loader")

    def test_invalid(self) -> None:
        for more in ({}, {"zero_copy": True}):
            told: "list[Any]" = []
            with loader(broken(), max_broken=0.5, train=False, on_event=told.append, **more) as source, warned() as caught:
                for _ in source:
                    pass
            self.assertEqual([(event.kind, event.details["batch"], event.details["rows"]) for event in told],
                             [("sample_invalid", 0, [3]), ("sample_invalid", 3, [3])])
            self.assertEqual(len(caught), 1)
            self.assertRegex(str(caught[0].message), r"^a broken sample is a row of zeros, flagged INVALID \(epoch 0, batch 0, row 3\)")

    def test_sentences(self) -> None:
        records = np.zeros(12, dtype=penstock.batch.SAMPLE)
        records["flags"][:11] = penstock.SUBSTITUTED
        told = mock.Mock(samples=records.tobytes(), epoch=2, batch=5)
        event, = events._batch_events(told)
        self.assertEqual(str(event), "11 broken samples were replaced by others (epoch 2, batch 5, rows 0, 1, 2, 3, 4, 5, 6, 7, ...)")
        records["flags"][11] = penstock.INVALID
        told.samples = records
        self.assertEqual(kinds(events._batch_events(told)), ["sample_substituted", "sample_invalid"])
        told.samples = records[:0]
        self.assertEqual(events._batch_events(told), [])


class Others(unittest.TestCase):
    def test_detached(self) -> None:
        home = support.folder / "detached"
        home.mkdir()
        told: "list[Any]" = []
        with support.harness.Daemon(home) as daemon:
            group = {"socket": daemon.socket, "share": "all", "group": "slow", "laggard": "detach", "laggard_timeout": 1}
            with loader(**group, on_event=told.append, zero_copy=True) as slow, loader(**group) as other:
                it = iter(slow)
                held = [next(it)]
                thread = threading.Thread(target=lambda: [next(i) for i in [iter(other)] for _ in range(6)])
                thread.start()
                thread.join()
                del held
                with self.assertRaises(penstock.DetachedError) as caught:
                    for _ in it:
                        pass
        self.assertEqual(kinds(told), ["detached"])
        self.assertEqual((str(told[0]), told[0].details["code"]), (str(caught.exception), caught.exception.code))

    def test_verdict(self) -> None:
        told: "list[Any]" = []
        asked = 0

        def stats(self: Any) -> str:
            nonlocal asked
            asked += 1
            if asked == 4:
                raise penstock.DaemonError("gone")
            kind = ["unknown", "trainer", "trainer", None, "cpu", "unknown", "cpu"][asked - 1]
            remedy = "try --threads 4, in Python threads=4" if kind == "cpu" else ""
            return json.dumps({"verdict": f"it is {kind}", "remedy": remedy, "bottleneck": {"kind": kind, "share": 0.75}})

        with mock.patch.object(events, "_VERDICT_S", 0.0), loader(on_event=told.append) as source:
            with mock.patch.object(type(source), "_stream_stats", stats):
                self.assertEqual(sum(1 for _ in source), 7)
        self.assertEqual(asked, 7)
        self.assertEqual(kinds(told), ["verdict_changed"] * 2)
        self.assertEqual([str(event) for event in told], ["it is trainer", "it is cpu: try threads=4"])
        self.assertEqual(dict(told[1].details), {"bottleneck": "cpu", "before": "trainer", "share": 0.75, "verdict": "it is cpu",
                                                  "remedy": "try threads=4"})
        # Without a callback nobody is asked, and not more often than every few seconds.
        with mock.patch.object(penstock.Loader, "_stream_stats", side_effect=AssertionError):
            with mock.patch.object(events, "_VERDICT_S", 0.0), loader() as source:
                list(source)
            with loader(on_event=told.append) as source:
                list(source)

    def test_the_daemon_s_verdict(self) -> None:
        told: "list[Any]" = []
        with mock.patch.object(events, "_VERDICT_S", 0.0), loader(on_event=told.append, batch_size=2) as source:
            support.wait_until(lambda: list(source) and told, "a verdict")
        self.assertEqual(told[0].kind, "verdict_changed")
        self.assertGreater(len(str(told[0])), 10)


class Callbacks(unittest.TestCase):
    def test_a_logger(self) -> None:
        logger = logging.getLogger("penstock.test")
        with loader(broken(), max_broken=0.5, on_event=logger.warning) as source, warned():
            with self.assertLogs(logger, "WARNING") as logs:
                list(source)
        self.assertRegex(logs.output[0], "a broken sample was replaced by another")
        self.assertRegex(repr(penstock.Event("k", "s", {"a": 1})), r"Event\(kind='k', sentence='s', details=\{'a': 1\}\)")

    def test_wrong_ones(self) -> None:
        for wrong in (3, "print", [print]):
            with self.assertRaisesRegex(penstock.ArgumentTypeError, "on_event: expected a function that takes one penstock.Event"):
                loader(on_event=wrong)

    def test_thread_and_time(self) -> None:
        """In the iterating thread, without the loader's lock, before the loop gets the batch."""
        seen: "list[Any]" = []

        def on_event(event: Any) -> None:
            free: "list[bool]" = []

            def take() -> None:
                with source._lock:
                    free.append(True)

            other = threading.Thread(target=take)
            other.start()
            other.join()
            seen.append((threading.get_ident(), event.details["batch"], free, source.state_dict()["position"], source.stats()["samples"]))

        with loader(broken(), max_broken=0.5, train=False, on_event=on_event) as source, warned():
            for batch in source.batches():
                seen.append(batch.batch)
        me = threading.get_ident()
        self.assertEqual(seen, [(me, 0, [True], 8, 60), 0, 1, 2, (me, 3, [True], 32, 60), 3, 4, 5, 6, 7])

    def test_one_that_fails(self) -> None:
        def on_event(event: Any) -> None:
            calls.append(event)
            raise ZeroDivisionError("of the callback")

        calls: "list[Any]" = []
        with loader(broken(), max_broken=0.5, train=False, on_event=on_event) as source, warned() as caught:
            self.assertEqual([batch.batch for batch in source.batches()], list(range(8)))
        self.assertEqual(len(calls), 2, "it is still called")
        failures = [warning for warning in caught if warning.category is RuntimeWarning]
        self.assertEqual(len(failures), 1)
        self.assertRegex(str(failures[0].message), r"on_event raised ZeroDivisionError: of the callback \(.*test_events.py, line \d+\) when it "
                         "was called with 'sample_invalid': the loader goes on")

    def test_one_that_ends_the_loop(self) -> None:
        """SystemExit, or a failure where warnings are errors: no batch is lost."""
        for error, category in ((SystemExit(3), SystemExit), (ValueError("x"), RuntimeWarning)):
            left = [error]

            def on_event(event: Any) -> None:
                if left:
                    raise left.pop()

            with loader(broken(), max_broken=0.5, train=False, on_event=on_event) as source, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                warnings.simplefilter("error", RuntimeWarning)
                it = source.batches()
                with self.assertRaises(category):
                    next(it)
                self.assertEqual(source.state_dict()["position"], 0)
                self.assertEqual([batch.batch for batch in it], list(range(8)))

    def test_one_that_iterates(self) -> None:
        def on_event(event: Any) -> None:
            for ask in (lambda: next(it), lambda: next(iter(source)), lambda: next(source.batches())):
                try:
                    ask()
                except penstock.IteratorError as error:
                    refused.append(str(error))

        refused: "list[str]" = []
        with loader(broken(), max_broken=0.5, train=False, on_event=on_event) as source, warned():
            it = source.batches()
            self.assertEqual([batch.batch for batch in it], list(range(8)))
        self.assertEqual(len(refused), 6)
        self.assertRegex(refused[0], "on_event asks the loader that called it for batches")

    def test_one_that_closes(self) -> None:
        with loader(broken(), max_broken=0.5, train=False, on_event=lambda event: source.close()) as source, warned():
            it = iter(source)
            images, _ = next(it)
            self.assertEqual(images.shape, (8, 3, 32, 32))
            with self.assertRaises(penstock.ClosedError):
                next(it)

    def test_named_streams_too(self) -> None:
        home = support.folder / "named"
        home.mkdir()
        keys = [f"source: {broken()}", "batch_size: 6", "image_size: 32", "train: false", "max_broken: 0.5"]
        told: "list[Any]" = []
        with support.harness.Daemon(home, config="\n    ".join(["streams:\n  small:", *keys]) + "\n") as daemon, warned():
            with penstock.Stream("small", socket=daemon.socket, framework="numpy", dtype="uint8", on_event=told.append) as stream:
                list(stream)
        self.assertEqual(kinds(told), ["sample_invalid"] * 2)


if __name__ == "__main__":
    support.main()

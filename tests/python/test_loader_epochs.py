"""Epochs and states: what follows the end, `break`, an error and Ctrl-C; resuming in the middle,
also with other batches."""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import unittest
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import support
from support import penstock

import numpy as np


def loader(source: Any = None, **arguments: Any) -> Any:
    base = {"batch_size": 8, "image_size": 32, "framework": "numpy", "dtype": "uint8", "seed": 9}
    return penstock.Loader(source or support.dataset(), **{**base, **arguments})


def names(batches: Any) -> "list[tuple[int, int]]":
    return [(batch.epoch, batch.batch) for batch in batches]


def positions(batches: Any) -> "list[tuple[int, int, bytes]]":
    """Each row by epoch and position, with its pixels."""
    return [
        (batch.epoch, int(batch.samples["position"][i]), batch.images[i].tobytes())
        for batch in batches
        for i in range(batch.count)
    ]


def whole(epoch: int) -> "list[tuple[int, int]]":
    return [(epoch, batch) for batch in range(7)]


class Epochs(unittest.TestCase):
    def test_one_after_another(self) -> None:
        with loader() as source:
            self.assertEqual((len(source), source.remaining, source.epoch), (7, 7, 0))
            self.assertEqual(names(source.batches()), whole(0))
            self.assertEqual((len(source), source.remaining, source.epoch), (7, 7, 1))
            self.assertEqual(sum(1 for _ in source), 7)
            self.assertEqual(names(source.batches()), whole(2))

    def test_within(self) -> None:
        with loader() as source:
            left = []
            for _ in source:
                left.append((source.remaining, source.epoch, len(source)))
            self.assertEqual(left, [(n, 0, 7) for n in range(6, -1, -1)])

    def test_break(self) -> None:
        """The rest of the epoch is skipped; after the last batch, nothing is left to skip."""
        with loader() as source:
            for _ in source:
                break
            self.assertEqual((source.epoch, source.remaining), (0, 6))
            self.assertEqual(names(source.batches()), whole(1))
            for number, _ in enumerate(source):
                if number == 6:
                    break
            self.assertEqual((source.epoch, source.remaining), (2, 0))
            self.assertEqual(names(source.batches()), whole(3))

    def test_same_bytes_after_break(self) -> None:
        with loader() as straight, loader() as left:
            list(straight.batches())
            for _ in left:
                break
            self.assertEqual(positions(straight.batches()), positions(left.batches()))

    def test_begun_and_not_read(self) -> None:
        with loader() as source:
            iter(source)
            self.assertEqual(names(source.batches()), whole(0))

    def test_set_epoch(self) -> None:
        with loader() as source:
            source.set_epoch(0)
            self.assertEqual(names(source.batches()), whole(0))
            source.set_epoch(1)
            self.assertEqual(names(source.batches()), whole(1))
            source.set_epoch(5)
            self.assertEqual((source.epoch, source.state_dict()["epoch"]), (5, 5))
            self.assertEqual(names(source.batches()), whole(5))
            for _ in source:
                break
            source.set_epoch(7)
            self.assertEqual(names(source.batches()), whole(7))
            for _ in source:
                break
            source.set_epoch(8)
            self.assertEqual(names(source.batches()), whole(8))

    def test_set_epoch_within(self) -> None:
        """It sets the epoch of the next iteration, not of the current one."""
        with loader() as source:
            seen = []
            for batch in source.batches():
                source.set_epoch(4)
                seen.append(batch)
            self.assertEqual(names(seen), whole(0))
            self.assertEqual(names(source.batches()), whole(4))

    def test_set_epoch_once_it_has_begun(self) -> None:
        """A framework calls iter() first, and says then which epoch it is."""
        with loader() as source:
            for epoch in range(3):
                it = source.batches()
                source.set_epoch(epoch)
                self.assertEqual(names(it), whole(epoch))
                self.assertEqual(source.state_dict()["epoch"], epoch + 1)
            it = source.batches()
            source.set_epoch(9)  # another one: after this
            source.set_epoch(3)
            self.assertEqual(names(it) + names(source.batches()), whole(3) + whole(4))
            it = source.batches()
            next(it)
            source.set_epoch(5)  # again
            self.assertEqual(len(names(it)), 6)
            self.assertEqual(names(source.batches()), whole(5))

    def test_start_epoch_without_a_state(self) -> None:
        def pixels(start: int, call: bool) -> "list[bytes]":
            with loader(dtype="uint8") as source:
                taken = []
                for epoch in range(start, 4):
                    if call:
                        source.set_epoch(epoch)
                    taken.append(b"".join(images.tobytes() for images, _ in source))
                return taken

        straight = pixels(0, False)
        self.assertEqual(pixels(0, True), straight)
        self.assertEqual(pixels(2, True), straight[2:])
        self.assertEqual(pixels(2, False), straight[:2], "epoch 0 again: what the documentation warns of")

    def test_set_epoch_wrong(self) -> None:
        with loader() as source:
            for bad in (-1, 2**32):
                with self.assertRaisesRegex(penstock.ArgumentError, "set_epoch: epoch: expected a whole number from 0"):
                    source.set_epoch(bad)
            with self.assertRaises(TypeError):
                source.set_epoch("1")

    def test_two_iterators(self) -> None:
        with loader() as source:
            older = iter(source)
            next(older)
            newer = source.batches()
            with self.assertRaisesRegex(penstock.IteratorError, "newer iterator"):
                next(older)
            self.assertEqual(names(newer), whole(1))
            with self.assertRaises(StopIteration):
                next(newer)
            with self.assertRaises(penstock.IteratorError):
                next(older)

    def test_evaluation_again(self) -> None:
        with loader(train=False) as source:
            for epoch in range(3):
                self.assertEqual(names(source.batches()), [(epoch, batch) for batch in range(8)])


class States(unittest.TestCase):
    def test_is_json(self) -> None:
        with loader() as source:
            before = source.state_dict()
            self.assertEqual((before["version"], before["seed"], before["epoch"], before["position"]), (1, 9, 0, 0))
            self.assertEqual(json.loads(json.dumps(before)), before)
            it = iter(source)
            next(it)
            next(it)
            self.assertEqual(source.state_dict(), {**before, "position": 16})
            list(it)
            self.assertEqual(source.state_dict(), {**before, "epoch": 1})

    def test_every_place(self) -> None:
        """After the middle of an epoch come its rest and then whole epochs, with the same bytes."""
        with loader() as source:
            straight = positions(source.batches()) + positions(source.batches())
        for given in (0, 1, 4, 6, 7):
            with loader() as source:
                it = source.batches()
                first = [next(it) for _ in range(given)]
                state = source.state_dict()
            with loader() as source:
                source.load_state_dict(state)
                left = 7 - given if given < 7 else 7
                self.assertEqual((source.remaining, len(source)), (left, 7))
                rest = positions(source.batches())
                self.assertEqual(len(rest), 8 * left)
                self.assertEqual(positions(first) + rest, straight[: 8 * given + len(rest)], given)
                if given < 7:
                    self.assertEqual(positions(source.batches()), straight[56:])

    def test_another_batch_size(self) -> None:
        with loader(train=False) as source:
            it = source.batches()
            first = [next(it) for _ in range(3)]
            state = source.state_dict()
            everything = positions(first) + positions(it)
        for size, left in ((5, 8), (7, 6), (36, 1), (64, 1)):
            with loader(train=False, batch_size=size) as source:
                source.load_state_dict(state)
                self.assertEqual((source.epoch, source.remaining), (0, left))
                batches = list(source.batches())
                self.assertEqual(len(batches), left)
                self.assertEqual(positions(first) + positions(batches), everything)
                self.assertEqual(len(list(source)), -(-60 // size))
        with loader(batch_size=7) as source:
            source.load_state_dict({**source.state_dict(), "position": 24})
            self.assertEqual(source.remaining, 5)
            self.assertEqual(sum(1 for _ in source), 5)

    def test_too_little_left(self) -> None:
        """With drop_last, a rest that is too short for a batch is dropped, even if it comes
        first."""
        with loader(batch_size=50) as source:
            source.load_state_dict({**source.state_dict(), "position": 48})
            self.assertEqual((source.epoch, source.remaining), (1, 1))
            self.assertEqual(names(source.batches()), [(1, 0)])

    def test_while_iterating(self) -> None:
        with loader() as source:
            it = source.batches()
            seen = [next(it)]
            state = source.state_dict()
            seen += [next(it), next(it)]
            source.load_state_dict(state)
            with self.assertRaisesRegex(penstock.IteratorError, r"load_state_dict\(\) moved"):
                next(it)
            again = list(source.batches())
            self.assertEqual(names(again), whole(0)[1:])
            self.assertEqual(positions(again)[:16], positions(seen)[8:])

    def test_with_set_epoch(self) -> None:
        """`for epoch in range(state's, n): set_epoch(epoch)` also resumes in the middle."""
        with loader() as source:
            source.load_state_dict({**source.state_dict(), "epoch": 3, "position": 40})
            source.set_epoch(3)
            self.assertEqual(names(source.batches()), [(3, 5), (3, 6)])
            source.set_epoch(4)
            self.assertEqual(names(source.batches()), whole(4))

    def test_at_once(self) -> None:
        with loader() as source:
            state = {**source.state_dict(), "epoch": 2, "position": 48}
        for form in (state, json.dumps(state)):
            with loader(state=form) as source:
                self.assertEqual(names(source.batches()), [(2, 6)])
        # As load_state_dict says it.
        for other, begins in (
            ({"seed": 10}, "the state belongs to another seed: its seed is 10, and the loader's is 9"),
            ({"fingerprint": "0" * 16}, f"the state belongs to another dataset: its fingerprint is {'0' * 16}, and the loader's is {state['fingerprint']}"),
            ({"order": "f" * 16}, "the state belongs to another order .*: its order is f{16}, and the loader's is [0-9a-f]{16}: create the loader with"),
        ):
            with self.assertRaisesRegex(penstock.StateError, f"^{begins}"):
                loader(state={**state, **other})

    def test_does_not_fit(self) -> None:
        with loader() as source:
            good = source.state_dict()
            it = source.batches()
            next(it)
            cases = {
                "of type NoneType": None,
                "of type list": [good],
                "^the state has no version: expected a state that state_dict": {},
                "^the state has no version, but its key 'loader' contains a state: expected a state that state_dict": {"loader": good, "epoch": 1},
                "has no order, seed: expected": {key: good[key] for key in good if key not in ("order", "seed")},
                "is not JSON": "epoch 3",
                r"^the state is 'state.json', a path: .*json.load\(open\(path\)\)": "state.json",
                r"^the state is PosixPath\('run/a.pt'\), a path: ": Path("run/a.pt"),
                "has version 2": {**good, "version": 2},
                "another seed: its seed is 10, and the loader's is 9": {**good, "seed": 10},
                "another dataset": {**good, "fingerprint": "0" * 16},
                "another order": {**good, "order": "f" * 16},
                "fingerprint is 'nonsense'": {**good, "fingerprint": "nonsense"},
                "position is -8": {**good, "position": -8},
                "epoch is 1.5": {**good, "epoch": 1.5},
                "position is 9223372036854775808: no epoch": {**good, "position": 2**63},
                "position is a value of type int": {**good, "position": 10**5000},
                "position 1000 is past": {**good, "position": 1000},
            }
            for sentence, state in cases.items():
                with self.subTest(sentence), self.assertRaisesRegex(penstock.StateError, sentence):
                    source.load_state_dict(state)
            self.assertEqual(source.state_dict()["position"], 8)
            self.assertEqual(names(it), whole(0)[1:], "a state that was refused has moved the loader")

    def test_another_transform_warns(self) -> None:
        with loader(image_size=40) as source:
            state = {**source.state_dict(), "position": 16}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with loader() as source:
                source.load_state_dict(state)
                self.assertEqual(names(source.batches()), whole(0)[2:])
            with loader(state=state):
                pass
        self.assertEqual(len(caught), 2)
        for warning in caught:
            self.assertIn("other transforms", str(warning.message))


def shown(batches: Any) -> "list[tuple[int, int]]":
    """(epoch, sample) of each row."""
    return [(batch.epoch, int(index)) for batch in batches for index in batch.samples["index"]]


class Indices(unittest.TestCase):
    """set_indices: the samples of the following epochs."""

    few, mask = [3, 40, 41, 7, 7, 12, 59, 0, 22, 23], [i % 3 == 0 for i in range(60)]

    def fresh(self, indices: Any, epoch: int, **arguments: Any) -> "list[tuple[int, int]]":
        """What a loader that has these indices from the beginning shows in that epoch."""
        with loader(indices=indices, **arguments) as source:
            source.set_epoch(epoch)
            return shown(source.batches())

    def test_between_epochs(self) -> None:
        with loader() as source:
            first = shown(source.batches())
            source.set_indices(self.few)
            self.assertEqual((len(source), len(source.dataset), source.epoch, source.remaining, source.samples), (1, 10, 1, 1, 60))
            self.assertEqual(shown(source.batches()), self.fresh(self.few, 1))
            self.assertEqual(shown(source.batches()), self.fresh(self.few, 2))
            source.set_indices(np.array(self.mask))
            self.assertEqual(shown(source.batches()), self.fresh(self.mask, 3))
            paths = [source.path(i)[len(support.dataset()) + 1:] for i in (5, 4, 30, 31, 32, 33, 34, 35)]
            source.set_indices(paths)
            self.assertEqual(sorted(index for _, index in shown(source.batches())), [4, 5, 30, 31, 32, 33, 34, 35])
            source.set_indices(None)
            self.assertEqual(shown(source.batches()), self.fresh(None, 5))
            self.assertEqual(len(first), 56)
        with loader() as source:  # before anything was read
            source.set_indices(self.few)
            self.assertEqual(shown(source.batches()), self.fresh(self.few, 0))
            iterator = source.batches()  # begun, but without a batch
            source.set_indices(self.mask)
            self.assertEqual(shown(iterator), self.fresh(self.mask, 1))

    def test_within_an_epoch(self) -> None:
        """The epoch keeps its samples; the next one has the new ones, after its end and after `break`."""
        with loader() as source:
            seen = []
            for batch in source.batches():
                seen.append(batch)
                if len(seen) == 2:
                    source.set_indices(self.mask)
                    state = source.state_dict()
            self.assertEqual(shown(seen), self.fresh(None, 0))
            self.assertEqual(shown(source.batches()), self.fresh(self.mask, 1))
            with loader(state=state) as again:
                self.assertEqual(shown(again.batches()), shown(seen[2:]))
        with loader() as source:
            next(iter(source))
            source.set_indices(self.mask)
            self.assertEqual(len(source), 7)
            self.assertEqual(shown(source.batches()), self.fresh(self.mask, 1))

    def test_states(self) -> None:
        with loader() as source:
            sum(1 for _ in source)
            source.set_indices(self.mask)
            before = source.state_dict()
            got = [next(source.batches())]
            within = source.state_dict()
            self.assertEqual((before["epoch"], before["position"], within["position"]), (1, 0, 8))
        whole_epoch = self.fresh(self.mask, 1)
        self.assertEqual(shown(got), whole_epoch[:8])
        for batch_size in (8, 4):
            with loader(indices=self.mask, state=within, batch_size=batch_size, drop_last=False) as again:
                self.assertEqual(shown(again.batches()), self.fresh(self.mask, 1, drop_last=False)[8:])
        with loader(indices=self.mask, state=before) as again:
            self.assertEqual(shown(again.batches()), whole_epoch)
        with loader() as again:
            with self.assertRaisesRegex(penstock.StateError, "another order .*indices"):
                again.load_state_dict(within)
            again.set_indices(self.mask)
            again.load_state_dict(before)
            self.assertEqual(shown(again.batches()), whole_epoch)
            iterator = again.batches()
            next(iterator)
            again.set_indices(self.few)  # not begun yet
            with self.assertRaisesRegex(penstock.StateError, "another order"):
                again.load_state_dict(within)

    def test_refused(self) -> None:
        with loader() as source:
            sum(1 for _ in source)
            for wrong, sentence in (([60], r"indices\[0\] is 60, but samples are numbered from 0 to 59"), ([], "indices is empty"),
                                    ([True] * 59, "a mask with one bool for each of the dataset's 60 samples, got 59"),
                                    (["no/such.jpg"], r"indices\[0\]: no/such.jpg is not a sample of"), (3, "indices: expected"),
                                    ([1, 2], "fewer than one batch of 8")):
                with self.assertRaisesRegex(penstock.ArgumentError, sentence):
                    source.set_indices(wrong)
                self.assertEqual((len(source), source.epoch), (7, 1))
            self.assertEqual(shown(source.batches()), self.fresh(None, 1))
        with loader(weights=[1] * 60) as source, self.assertRaisesRegex(penstock.ArgumentError, "has 60 weights, but there are 20"):
            source.set_indices(self.mask)
        with loader(split="[:50%]") as source, self.assertRaisesRegex(penstock.ArgumentError, "split cannot be written beside indices"):
            source.set_indices(self.few)
        with loader(group="same", share="all") as source, self.assertRaisesRegex(penstock.GroupError, "read the same batches"):
            source.set_indices(self.few)

    def test_ranks(self) -> None:
        """Both ranks choose the same samples; together they show what one rank shows."""
        ranks = [loader(batch_size=4, rank=rank, world_size=2, group="choosers") for rank in range(2)]
        threads_of = [rank.batches() for rank in ranks]
        for iterator in threads_of:
            self.assertEqual(sum(1 for _ in iterator), 7)
        for rank in ranks:
            rank.set_indices(self.mask)
        iterators = [rank.batches() for rank in ranks]
        seen = [batch for pair in zip(*iterators) for batch in pair]
        self.assertEqual(shown(seen), self.fresh(self.mask, 1))
        for rank in ranks:
            rank.close()

    def test_balanced_and_per_class(self) -> None:
        with loader(sampling={"classes": 2, "per_class": 4}) as source:
            sum(1 for _ in source)
            source.set_indices(range(20, 60))
            self.assertEqual(shown(source.batches()), self.fresh(range(20, 60), 1, sampling={"classes": 2, "per_class": 4}))


class Ranks(unittest.TestCase):
    def test_split(self) -> None:
        """Two ranks each read half of what one rank reads; one rank can resume from the state of
        either of them, and the other way round."""
        with loader(batch_size=16, train=False) as source:
            straight = positions(source.batches())
        ranks = [loader(train=False, rank=rank, world_size=2, group="halves") for rank in range(2)]
        iterators = [rank.batches() for rank in ranks]
        seen = [[next(it) for it in iterators] for _ in range(2)]
        self.assertEqual(positions(batch for pair in seen for batch in pair), straight[:32])
        states = [rank.state_dict() for rank in ranks]
        self.assertEqual(states[0], states[1])
        self.assertEqual((ranks[0].world_size, ranks[1].rank, len(ranks[0]), ranks[0].remaining), (2, 1, 4, 2))
        # `break` in both: they meet again in the next epoch.
        again = [names(rank.batches()) for rank in ranks]
        self.assertEqual(again, [[(1, batch) for batch in range(4)]] * 2)
        for rank in ranks:
            rank.close()
        with loader(batch_size=10, train=False, state=states[1]) as one:
            self.assertEqual(positions(one.batches()), straight[32:])

    def test_environment(self) -> None:
        def ranks(variables: "dict[str, str]", **arguments: Any) -> "tuple[int, int, int]":
            with mock.patch.dict(os.environ, variables), loader(**arguments) as source:
                return source.rank, source.world_size, len(source)

        self.assertEqual(ranks({"RANK": "1", "WORLD_SIZE": "3"}), (1, 3, 2))
        self.assertEqual(ranks({"RANK": "0", "WORLD_SIZE": "1"}), (0, 1, 7))
        self.assertEqual(ranks({"RANK": "1", "WORLD_SIZE": "3"}, share="all"), (0, 1, 7))
        self.assertEqual(ranks({"RANK": "1", "WORLD_SIZE": "3"}, rank=4, world_size=5), (4, 5, 1))
        self.assertEqual(ranks({"RANK": "1", "WORLD_SIZE": "3"}, rank=0, world_size=1), (0, 1, 7))
        with self.assertRaisesRegex(penstock.ArgumentError, "the environment variable RANK is 'x': expected a number"):
            ranks({"RANK": "x", "WORLD_SIZE": "3"})
        with self.assertRaisesRegex(penstock.ArgumentError, "variable WORLD_SIZE is set and RANK is not, .*pass rank= and world_size="):
            ranks({"WORLD_SIZE": "3"})


class Groups(unittest.TestCase):
    def test_break_in_one(self) -> None:
        """Both get the same batches; a loader that leaves by break skips only its own rest, and
        meets the other one in the next epoch."""
        both = [loader(group="pair", share="all", wait_for=2) for _ in range(2)]
        seen: "list[list[tuple[int, int]]]" = [[], []]

        def read(which: int) -> None:
            for _ in range(3):
                for batch in both[which].batches():
                    seen[which].append((batch.epoch, batch.batch))
                    if which == 0 and batch.batch == 2:
                        break

        readers = [threading.Thread(target=read, args=(which,)) for which in range(2)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(support.LIMIT)
        self.assertEqual(seen[0], [(epoch, batch) for epoch in range(3) for batch in range(3)])
        self.assertEqual(seen[1], [(epoch, batch) for epoch in range(3) for batch in range(7)])
        with self.assertRaisesRegex(penstock.GroupError, "the next epoch of this loader is 3"):
            both[1].set_epoch(1)
        both[1].set_epoch(3)
        with self.assertRaisesRegex(penstock.GroupError, "begun with another state"):
            both[0].load_state_dict({**both[0].state_dict(), "epoch": 1, "position": 8})
        for source in both:
            source.close()

    def test_alone(self) -> None:
        """A group without other trainers can be left: nothing is read and dropped."""
        with loader(share="all") as source:
            for _ in source:
                break
            self.assertEqual(names(source.batches()), whole(1))
            source.set_epoch(6)
            self.assertEqual(names(source.batches()), whole(6))

    def test_detached(self) -> None:
        options = {"group": "slow", "share": "all", "laggard": "detach", "laggard_timeout": 1, "wait_for": 2}
        slow, quick = loader(zero_copy=True, **options), loader(**options)
        told: "list[int]" = []
        reader = threading.Thread(target=lambda: told.extend(len(list(quick)) for _ in range(3)))
        reader.start()
        iterator = iter(slow)
        held = [next(iterator) for _ in range(slow._info["slots"])]
        reader.join(support.LIMIT)
        self.assertEqual(told, [7, 7, 7], "the quick one goes on")
        held.clear()
        with self.assertRaisesRegex(penstock.DetachedError, "detached.*, raise laggard_timeout, or"):
            next(iterator)
        slow.close()
        quick.close()


class Troubles(unittest.TestCase):
    def stop(self, source: Any) -> int:
        """Stops the daemon and returns its pid."""
        pid = int(source._stream.daemon_pid)
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(self.go_on, pid)
        return pid

    @staticmethod
    def go_on(pid: int) -> None:
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass

    def test_timeout(self) -> None:
        with loader(timeout=0.4) as source:
            it = source.batches()
            seen = [next(it)]
            pid = self.stop(source)
            with self.assertRaisesRegex(penstock.WaitTimeoutError, "no batch within 0.4 s") as caught:
                for _ in range(50):
                    seen += it
                    it = source.batches()
            self.assertIsInstance(caught.exception, TimeoutError)
            self.go_on(pid)
            # Nothing was skipped: a new iteration also continues where the error came.
            before = len(seen)
            seen += source.batches()
            self.assertGreater(len(seen), before)
            seen += source.batches()
            wanted = [(epoch, batch) for epoch in range(20) for batch in range(7)][: len(seen)]
            self.assertEqual(names(seen), wanted)

    def test_interrupt(self) -> None:
        """Ctrl-C while it waits, with Python's own handler."""
        with loader() as source:
            it = source.batches()
            seen = [next(it)]
            pid = self.stop(source)
            timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
            timer.start()
            with self.assertRaises(KeyboardInterrupt):
                while True:
                    for batch in it:
                        seen.append(batch)
                    it = source.batches()
            timer.join()
            self.go_on(pid)
            seen += it
            self.assertEqual(names(seen), [(epoch, batch) for epoch in range(20) for batch in range(7)][: len(seen)])
            self.assertEqual(len(list(source)), 7)

    def test_interrupts_anywhere(self) -> None:
        """Ctrl-C at many places: no batch is lost, none is delivered twice."""
        seen: "list[Any]" = []
        with loader() as source:
            it = source.batches()
            stop = threading.Event()

            def disturb() -> None:
                while not stop.wait(0.003):
                    os.kill(os.getpid(), signal.SIGINT)

            class Disturbed(Exception):
                pass

            armed = [False]

            def handler(*_: Any) -> None:
                if armed[0]:
                    raise Disturbed

            old = signal.signal(signal.SIGINT, handler)
            disturber = threading.Thread(target=disturb)
            disturber.start()
            interrupts = 0
            try:
                while len(seen) < 140:
                    batch = None
                    try:
                        armed[0] = True
                        batch = next(it)
                        armed[0] = False
                    except Disturbed:
                        armed[0] = False
                        interrupts += 1
                    except StopIteration:
                        armed[0] = False
                        it = source.batches()
                    if batch is not None:
                        seen.append(batch)
            finally:
                armed[0] = False
                stop.set()
                disturber.join()
                signal.signal(signal.SIGINT, old)
        self.assertGreater(interrupts, 0)
        self.assertEqual(names(seen), [(epoch, batch) for epoch in range(20) for batch in range(7)])

    @unittest.skipIf(sys.version_info < (3, 10), "this Python looks for signals also where nothing is called")
    def test_interrupted_at_each_step(self) -> None:
        """Ctrl-C at every instruction of next(), one after the other: the loop gets every batch
        exactly once."""
        # A function of C, so that the traced code sees the signal when it checks for signals.
        interrupt = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.py_object, ctypes.py_object)(
            ("PyErr_SetInterrupt", ctypes.pythonapi))
        package = str(Path(penstock.__file__).parent)
        left = 0

        def count(frame: Any, event: str, argument: Any) -> Any:
            nonlocal left
            if not frame.f_code.co_filename.startswith(package):
                return None
            frame.f_trace_lines, frame.f_trace_opcodes = False, True
            if event == "opcode":
                left -= 1
                if left == 0:
                    return interrupt
            return count

        class Interrupted(Exception):
            pass

        def handler(_: int, frame: Any) -> None:
            nonlocal left
            if frame.f_code is count.__code__:
                left = 1  # the tracing code saw the signal, and not the traced code: try again
            elif left <= 0 and armed:
                left = sys.maxsize
                raise Interrupted

        old = signal.signal(signal.SIGINT, handler)
        seen: "list[Any]" = []
        armed = False
        step = interrupts = since = 0
        try:
            with loader(batch_size=2, image_size=16) as source:
                it = source.batches()
                while since < 20:
                    step += 1
                    left, batch = step, None
                    try:
                        armed = True
                        sys.settrace(count)
                        for batch in it:
                            break
                    except Interrupted:
                        since = -1
                        interrupts += 1
                    finally:
                        armed = False
                        sys.settrace(None)
                    since += 1
                    if batch is not None:
                        seen.append(batch)
                    elif since:
                        it = source.batches()
        finally:
            signal.signal(signal.SIGINT, old)
        self.assertGreater(interrupts, 20)
        self.assertEqual(names(seen), [(epoch, batch) for epoch in range(100) for batch in range(30)][: len(seen)])

    def test_daemon_killed(self) -> None:
        """Another daemon is started, and the next batch comes."""
        with loader() as source:
            it = source.batches()
            seen = [next(it), next(it)]
            first = source._stream.daemon_pid
            os.kill(first, signal.SIGKILL)
            seen += it
            self.assertEqual(names(seen), whole(0))
            self.assertNotEqual(source._stream.daemon_pid, first)
            self.assertEqual(names(source.batches()), whole(1))

    def test_daemon_killed_and_asked(self) -> None:
        """A question fails with the error that the daemon is gone and what to do; the loop still
        continues."""
        with loader() as source:
            it = source.batches()
            seen = [next(it)]
            os.kill(source._stream.daemon_pid, signal.SIGKILL)
            with self.assertRaisesRegex(penstock.DaemonError, "the next iteration of this loader goes on with the next batch"):
                while True:
                    source.stats()
            seen += it
            self.assertEqual(names(seen), whole(0))
            self.assertEqual(source.stats()["samples"], 60)

    def test_daemon_killed_too_often(self) -> None:
        with loader(restarts=1) as source:
            it = source.batches()
            seen = [next(it)]
            os.kill(source._stream.daemon_pid, signal.SIGKILL)
            seen += [next(it) for _ in range(5)]
            os.kill(source._stream.daemon_pid, signal.SIGKILL)
            with self.assertRaisesRegex(penstock.DaemonError, r"restarted 1 time, as often as restarts= allows, and is gone again"):
                while True:
                    seen += it
                    it = source.batches()
            self.assertEqual(names(seen), [(epoch, batch) for epoch in range(2) for batch in range(7)][: len(seen)])

    def test_daemon_killed_for_good(self) -> None:
        with loader(reconnect=0) as source, loader() as straight:
            it = source.batches()
            seen = [next(it)]
            os.kill(source._stream.daemon_pid, signal.SIGKILL)
            with self.assertRaises(penstock.DaemonError) as caught:
                seen += it
            self.assertIsInstance(caught.exception, ConnectionError)
            place = source.state_dict()["position"] // 8
            self.assertEqual(names(source.batches()), whole(0)[place:], "a new iteration opens the stream again")
            self.assertEqual(names(straight.batches()), whole(0))

    def test_another_process(self) -> None:
        """Two processes use the daemon of one job, and one of them is killed."""
        code = (
            "import os, penstock, sys\n"
            f"l = penstock.Loader({support.dataset()!r}, batch_size=8, image_size=32, framework='numpy')\n"
            "next(iter(l)); print(l._stream.daemon_pid, flush=True); sys.stdin.read()"
        )
        with loader() as source:
            next(iter(source))
            child = subprocess.Popen(
                [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            assert child.stdout is not None and child.stdin is not None
            child.stdout.readline()
            child.kill()
            child.wait()
            child.stdin.close()
            child.stdout.close()
            self.assertEqual(sum(1 for _ in source), 7)


class Rewritten(unittest.TestCase):
    """Images of a folder that are rewritten in place: the samples stay the same, so a loop goes on, and its state fits."""

    def test_loop_and_state(self) -> None:
        source = support.folder / "rewritten"
        shutil.copytree(support.dataset(), source)

        def rewrite() -> None:
            for path in source.rglob("*.jpg"):
                path.write_bytes(path.read_bytes() + b"\0")  # the same pixels in a file of another size

        with loader(source) as before:
            whole = positions(before.batches())
        with loader(source) as first:
            batches = first.batches()
            head = positions(itertools.islice(batches, 2))
            state = first.state_dict()
            rewrite()
            self.assertEqual(head + positions(batches), whole)
        with loader(source) as second:
            self.assertNotEqual(second.state_dict()["fingerprint"], state["fingerprint"])
            second.load_state_dict(state)
            self.assertEqual(positions(second.batches()), whole[2 * 8 :])
            second.load_state_dict({**state, "position": 0})
            self.assertEqual(positions(second.batches()), whole)
            with self.assertRaisesRegex(penstock.StateError, "another dataset"):
                second.load_state_dict({**state, "fingerprint": "0123456789abcdef"})


if __name__ == "__main__":
    support.main()

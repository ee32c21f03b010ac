"""What the tests of frameworks share: a job that is started again after a kill, and what its runs were given.

192 images, 24 in a global batch: 8 steps in an epoch, whatever the number of ranks.

PENSTOCK_FRAMEWORKS_ROUNDS: how many kills each case has; 20 in scripts/nightly, otherwise one. PENSTOCK_TEST_SEED: where."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path
from typing import Any, Callable, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "python"))

import support  # noqa: E402
from support import penstock  # noqa: E402

EXAMPLES = HERE.parents[1] / "client/python/examples"
NIGHTLY = os.environ.get("PENSTOCK_TEST_NIGHTLY") == "1"
ROUNDS = int(os.environ.get("PENSTOCK_FRAMEWORKS_ROUNDS", "20" if NIGHTLY else "1"))
GLOBAL, EPOCHS, SEED = 24, 2, 0
PER_CLASS, SAMPLES = 64, 192
STEPS = SAMPLES // GLOBAL * EPOCHS
CHECKPOINT = 3  # steps between two checkpoints: not a divisor of an epoch's 8
PAUSE = 0.1  # seconds that a step takes until something is killed
LIMIT = 4 * support.LIMIT
CHANCE = os.environ.get("PENSTOCK_TEST_SEED") or str(time.time_ns() % 2**32)
chance = random.Random(CHANCE)
killed = 0


class Line(NamedTuple):
    """A batch of one rank."""

    epoch: int
    positions: "list[int]"
    rows: "list[int]"

    @property
    def place(self) -> "tuple[int, int]":
        return self.epoch, self.positions[0]


class Rank(NamedTuple):
    began: int
    rank: int
    world_size: int
    met: str
    pid: int
    lines: "list[Line]"


def dataset() -> str:
    return support.dataset(per_class=PER_CLASS)


@functools.lru_cache(maxsize=None)
def order() -> "list[list[int]]":
    """[epoch][position]: the sample, as one process reads it."""
    with penstock.Loader(dataset(), batch_size=GLOBAL, image_size=32, seed=SEED, dtype="uint8", framework="numpy", device="cpu",
                         rank=0, world_size=1) as loader:
        return [[int(row) for batch in loader.batches() for row in batch.samples["index"]] for _ in range(EPOCHS)]


def runs(records: Path) -> "list[list[Rank]]":
    """The runs of a job, in the order in which they began: what each of their ranks was given."""
    ranks = []
    for path in records.glob("*.*.*.*.*"):
        began, rank, world_size, met, pid = path.name.split(".")
        lines = [Line(**json.loads(line)) for line in path.read_text().splitlines() if line.endswith("}")]
        ranks.append(Rank(int(began), int(rank), int(world_size), met, int(pid), lines))
    found: "list[list[Rank]]" = []
    for one in sorted(ranks):
        # The ranks of a run met at one port, which a later run may have again.
        last = next((run for run in reversed(found) if run[0].met == one.met), None)
        if last is None or any(other.rank == one.rank for other in last):
            found.append([one])
        else:
            last.append(one)
    return found


def check(test: unittest.TestCase, records: Path, sizes: "list[int]") -> "list[tuple[int, int]]":
    """Every sample of every epoch exactly once, at the place that it has for one process: of each run, what came before the
    checkpoint with which the next run began. Returns where each run began."""
    all_runs = runs(records)
    test.assertEqual([len(ranks) for ranks in all_runs], sizes, "runs, by their numbers of ranks")
    for ranks in all_runs:
        test.assertEqual(sorted(rank.rank for rank in ranks), list(range(ranks[0].world_size)))
    begins = [min(rank.lines[0].place for rank in ranks if rank.lines) for ranks in all_runs]
    test.assertEqual(begins[0], (0, 0))
    found: "list[dict[int, int]]" = [{} for _ in range(EPOCHS)]
    for ranks, end in zip(all_runs, [*begins[1:], (EPOCHS, 0)]):
        for line in (line for rank in ranks for line in rank.lines):
            if line.place < end:
                for position, row in zip(line.positions, line.rows):
                    test.assertNotIn(position, found[line.epoch], f"epoch {line.epoch}: position {position} came twice")
                    found[line.epoch][position] = row
    for epoch in range(EPOCHS):
        test.assertEqual([found[epoch].get(position) for position in range(SAMPLES)], order()[epoch], f"epoch {epoch}")
    return begins


def step_of(place: "tuple[int, int]") -> int:
    """How many steps came before it."""
    return (place[0] * SAMPLES + place[1]) // GLOBAL


def checkpoint_before(step: int, first: int = 0) -> int:
    """The last step, up to this one, after which a run of the examples that began with step `first` saves: every CHECKPOINT steps of
    the run, and at the end of an epoch."""
    return max((saved for saved in range(first, max(step, first) + 1) if (saved - first) % CHECKPOINT == 0 or saved * GLOBAL % SAMPLES == 0))


def rounds() -> "list[list[int]]":
    """For each job, after which steps it is killed, up to four times: anywhere in both epochs, also before the first
    checkpoint."""
    return [sorted(chance.sample(range(2, STEPS), min(4, ROUNDS - first))) for first in range(0, ROUNDS, 4)]


class Job:
    """A program that runs ranks, in a session of its own, with a folder for its records."""

    def __init__(self, home: Path) -> None:
        self.home, self.records = home, home / "records"
        self.records.mkdir(parents=True)
        self.count = 0

    def start(self, *command: Any, **environment: str) -> "subprocess.Popen[bytes]":
        self.count += 1
        variables = {**os.environ, "RECORDS": str(self.records), "PAUSE": str(PAUSE), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore",
                     "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(HERE), str(EXAMPLES)]), **environment}
        with open(self.home / f"output-{self.count}", "wb") as output:
            self.process = subprocess.Popen([str(part) for part in command], env=variables, cwd=self.home,
                                            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        return self.process

    def said(self) -> str:
        return (self.home / f"output-{self.count}").read_text(errors="replace")[-6000:]

    def until(self, holds: "Callable[[], Any]", what: str, limit: float = LIMIT) -> Any:
        end = time.monotonic() + limit
        while True:
            value = holds()
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"waited {limit:.0f} s for {what}: {self.said()}")
            time.sleep(0.02)

    def under_way(self, step: int, world_size: int, number: int) -> "list[Rank]":
        """Waits until all ranks of the run with that number, from 0, were given the batch of a step."""

        def there() -> "list[Rank]":
            if self.process.poll() is not None:
                raise AssertionError(f"the job ended before step {step}: {self.said()}")
            last = runs(self.records)[number:]
            good = len(last) == 1 and len(last[0]) == world_size and all(
                rank.lines and step_of(rank.lines[-1].place) >= step - 1 for rank in last[0])
            return last[0] if good else []

        return list(self.until(there, f"step {step} of run {number}"))

    def kill(self, *pids: int, last: bool = True) -> None:
        """At any moment of the step that runs now. `last`: the next run need not wait to be killed."""
        global killed
        time.sleep(chance.random() * PAUSE)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed += 1
        if last:
            (self.records / "killed").touch()

    def end(self, limit: float = LIMIT) -> int:
        """The exit status."""
        try:
            return self.process.wait(limit)
        except subprocess.TimeoutExpired:
            said = self.said()
            self.stop()
            raise AssertionError(f"the job did not end in {limit:.0f} s: {said}") from None

    def stop(self) -> None:
        """Whatever of it is left."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(30)


class Case(unittest.TestCase):
    """A test that runs jobs: `self.job(name)` makes one and ends it with the test."""

    def job(self, name: str) -> Job:
        home = support.folder / f"{self.id().rsplit('.', 1)[1]}-{name}"
        job = Job(home)
        self.addCleanup(lambda: hasattr(job, "process") and job.stop())
        return job

    def same_weights(self, one: "dict[str, Any]", other: "dict[str, Any]") -> None:
        import torch

        self.assertEqual(list(one), list(other))
        for name in one:
            self.assertTrue(torch.equal(one[name], other[name]), f"{name} differs from that of the run without a kill")


def main(promise: str) -> None:
    """Runs the tests, and says how much was killed."""
    print(f"PENSTOCK_TEST_SEED={CHANCE}", flush=True)
    result = unittest.main(module="__main__", exit=False, verbosity=2).result
    support.stop_daemons()
    skipped = len(result.skipped)
    for test, reason in result.skipped:
        print(f"skipped {test}: {reason}")
    if result.wasSuccessful():
        print(f"{'promise: ' if NIGHTLY else ''}{promise}: {killed} kills, every sample of every epoch once and in order", flush=True)
    sys.exit(1 if not result.wasSuccessful() else 77 if result.testsRun == skipped else 0)

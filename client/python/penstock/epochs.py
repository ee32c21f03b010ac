"""The position of the loop, and which of its iterators is current: the rules of epochs, without a
daemon.

    for epoch in range(n):
        loader.set_epoch(epoch)
        for images, labels in loader: ...

The next epoch follows an iteration that runs to its end, and also one that the user leaves by
`break`. After a state was loaded, the next iteration resumes in the middle of its epoch, once. The
same holds after an iteration that penstock ended with an error: batches that were not delivered are
not skipped. Only `at` says what comes next; the reader of the stream moves the stream there if the
stream is elsewhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Optional

from .errors import ArgumentError, IteratorError
from .state import State

__all__ = ["Epochs", "Turn"]


class Turn:
    """One iteration: from iter() to the end of the epoch, or to the next iter()."""

    __slots__ = ("ended", "epoch", "failed", "given", "successor")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.given = False  # whether it has delivered at least one batch
        self.ended = False  # whether it has raised StopIteration
        self.failed = False  # whether an error of penstock ended it, and not the user
        self.successor = ""  # why another iteration has replaced it


class Epochs:
    """Has no lock of its own: the loader's lock protects it."""

    def __init__(self, at: State) -> None:
        self.at = at  # the position before the next batch
        self._turn: Optional[Turn] = None
        self._wanted: Optional[int] = None  # by set_epoch, for the iteration after the current one

    def _live(self) -> Optional[Turn]:
        """The current iteration. One that was left by `break` looks the same."""
        return self._turn if self._turn is not None and not self._turn.ended else None

    @property
    def epoch(self) -> int:
        turn = self._live()
        return turn.epoch if turn is not None else self.at.epoch

    def is_finished(self, turn: Turn) -> bool:
        """Whether its last batch was delivered."""
        return turn.ended or (turn.given and self.at.epoch > turn.epoch)

    @property
    def finished(self) -> bool:
        """Whether the epoch's last batch was delivered and the loop has not asked for more."""
        turn = self._live()
        return turn is not None and self.is_finished(turn)

    def _upcoming(self) -> State:
        """Where a new iteration would begin without set_epoch."""
        turn = self._live()
        left = turn is not None and turn.given and not turn.failed and not self.is_finished(turn)
        return self.at.at_epoch(self.at.epoch + 1) if left else self.at

    @property
    def upcoming(self) -> int:
        """The epoch that the next iteration would begin without set_epoch."""
        return self._upcoming().epoch

    def _drop_turn(self, why: str) -> None:
        if self._turn is not None:
            self._turn.successor = why
        self._turn = None

    def begin(self) -> Turn:
        at = self._upcoming()
        if self._wanted is not None and self._wanted != at.epoch:
            at = at.at_epoch(self._wanted)
        turn = Turn(at.epoch)
        self._drop_turn("a newer iterator of the same loader was started")
        self.at, self._turn, self._wanted = at, turn, None
        return turn

    def check(self, turn: Turn) -> None:
        if turn.successor:
            raise IteratorError(
                f"this iterator has ended: {turn.successor}. A loader has one iterator at a time; to read the same "
                "data twice at the same time, create a second loader"
            )

    def give(self, turn: Turn, epoch: int, after: State, before: list[Any]) -> None:
        """Marks a batch as delivered to the loop. The last assignment does it: Ctrl-C may come
        before each assignment. `before` receives the values that undo it: at, after, turn.given,
        turn.epoch."""
        before[:] = self.at, after, turn.given, turn.epoch
        turn.epoch = epoch
        turn.failed = False
        turn.given = True
        self.at = after

    def lose(self, turn: Turn, after: State) -> None:
        """A batch was read and cannot be delivered: the next one comes next, also in a new
        iteration."""
        turn.given = turn.failed = True
        self.at = after

    def skip(self, samples: int, cuts: Optional[tuple[tuple[int, int], ...]]) -> None:
        """Moves an iteration that has delivered no batch onward by that many samples of all
        ranks. `cuts`: those of an epoch from its beginning, if the stream has buckets."""
        self.at = replace(self.at, position=self.at.position + samples, cuts=self.at.cuts or cuts)

    def end(self, turn: Turn) -> None:
        turn.ended = True
        if self._wanted is not None and self._wanted != self.at.epoch:
            self.at = self.at.at_epoch(self._wanted)
        self._wanted = None

    def set_epoch(self, epoch: int) -> None:
        if epoch < 0 or epoch >= 2**32:
            raise ArgumentError(f"set_epoch({epoch}): expected the number of an epoch, 0 to {2**32 - 1}")
        turn = self._live()
        if turn is not None:
            # A framework may begin the iteration before it says which epoch it is.
            begun = not turn.given and turn.epoch == epoch
            self._wanted = None if begun else epoch
        elif epoch != self.at.epoch:
            self.at = self.at.at_epoch(epoch)

    def wants_other_epoch(self, epoch: int) -> bool:
        """Whether set_epoch(epoch) would skip batches that come next."""
        return epoch != self.upcoming

    @property
    def is_between(self) -> bool:
        """Whether the next batch is the first of an epoch, and no iteration was left within one."""
        turn = self._live()
        left = turn is not None and turn.given and not self.is_finished(turn)
        return not left and self.at.position == 0

    def rebase(self, at: State) -> None:
        """The stream has another order from the upcoming epoch on, which `at` begins."""
        self.at = at

    def moved(self, at: State) -> None:
        """The stream was opened and begins at `at`. That is later than asked for if the rest of the
        epoch was too short for a batch."""
        self.at = at
        turn = self._live()
        if turn is not None and not turn.given:
            turn.epoch = at.epoch

    def load(self, at: State) -> None:
        """The next iteration begins at `at`."""
        self.at = at
        self._wanted = None
        self._drop_turn("load_state_dict() moved the loader: start a new iterator")

"""Where the loop is, and which of its iterators is the live one: the rules of epochs, without a daemon.

    for epoch in range(n):
        for images, labels in loader: ...

An iteration that runs to its end, and one that is left by `break`, are followed by the next epoch; after a state was
loaded the next iteration resumes once, in the middle. So is one that penstock itself ended with an error: what was not
given is not skipped. `at` is the one truth of what comes next; whoever reads the stream moves the stream there where it
is elsewhere.
"""

from __future__ import annotations

from typing import Any, Optional

from .errors import ArgumentError, IteratorError
from .state import State

__all__ = ["Epochs", "Turn"]


class Turn:
    """One iteration: from iter() to the epoch's end, or to the next iter()."""

    __slots__ = ("ended", "epoch", "failed", "given", "successor")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.given = False  # at least one batch
        self.ended = False  # the loop was told so
        self.failed = False  # by an error of ours: not left by the user
        self.successor = ""  # why another one counts now


class Epochs:
    """Not locked: the loader's lock covers it."""

    def __init__(self, at: State) -> None:
        self.at = at  # before the batch that comes next
        self._turn: Optional[Turn] = None
        self._wanted: Optional[int] = None  # set_epoch's, for the iteration after the live one

    def _live(self) -> Optional[Turn]:
        """The iteration under way, as far as can be known: one that was left by `break` looks the same."""
        return self._turn if self._turn is not None and not self._turn.ended else None

    @property
    def epoch(self) -> int:
        turn = self._live()
        return turn.epoch if turn is not None else self.at.epoch

    def is_finished(self, turn: Turn) -> bool:
        """Its last batch was given."""
        return turn.ended or (turn.given and self.at.epoch > turn.epoch)

    @property
    def finished(self) -> bool:
        """The epoch's last batch was given, and the loop has not asked for more."""
        turn = self._live()
        return turn is not None and self.is_finished(turn)

    def _upcoming(self) -> State:
        """Where an iteration that began now would begin, were it not for set_epoch."""
        turn = self._live()
        left = turn is not None and turn.given and not turn.failed and not self.is_finished(turn)
        return self.at.at_epoch(self.at.epoch + 1) if left else self.at

    @property
    def upcoming(self) -> int:
        """The epoch that the next iteration begins, were it not for set_epoch."""
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
        self._drop_turn("a newer iterator of the same loader was begun")
        self.at, self._turn, self._wanted = at, turn, None
        return turn

    def check(self, turn: Turn) -> None:
        if turn.successor:
            raise IteratorError(
                f"this iterator is over: {turn.successor}. One loader has one iterator at a time; make a second loader "
                "to read the same data twice at once"
            )

    def give(self, turn: Turn, epoch: int, after: State, before: list[Any]) -> None:
        """A batch goes to the loop. It counts as given with the last assignment: Ctrl-C may come before each. `before`
        takes what makes it not given again: at, after, turn.given, turn.epoch."""
        before[:] = self.at, after, turn.given, turn.epoch
        turn.epoch = epoch
        turn.failed = False
        turn.given = True
        self.at = after

    def end(self, turn: Turn) -> None:
        turn.ended = True
        if self._wanted is not None and self._wanted != self.at.epoch:
            self.at = self.at.at_epoch(self._wanted)
        self._wanted = None

    def set_epoch(self, epoch: int) -> None:
        if epoch < 0 or epoch >= 2**32:
            raise ArgumentError(f"set_epoch({epoch}): expected an epoch's number from 0 to {2**32 - 1}")
        if self._live() is not None:
            self._wanted = epoch
        elif epoch != self.at.epoch:
            self.at = self.at.at_epoch(epoch)

    def wants_other_epoch(self, epoch: int) -> bool:
        """Whether set_epoch(epoch) would leave out batches that come next."""
        return epoch != self.upcoming

    def moved(self, at: State) -> None:
        """The stream was opened, and begins here: further on where too little was left of an epoch for a batch."""
        self.at = at
        turn = self._live()
        if turn is not None and not turn.given:
            turn.epoch = at.epoch

    def load(self, at: State) -> None:
        """The next iteration begins there."""
        self.at = at
        self._wanted = None
        self._drop_turn("load_state_dict() moved its loader: begin a new one")

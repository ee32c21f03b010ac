"""What happens to a stream besides its batches: Event, which `on_event=` gets, and the warnings that
a user without `on_event` sees.

A Watch collects events while the loader's lock is held, and delivers them without the lock, in the
thread that iterates, before the loop gets the batch that they belong to. An exception of the
callback therefore never interrupts the reading of a batch: an Exception becomes a warning, and
training goes on; KeyboardInterrupt, SystemExit and a warning that is an error end the iteration as
Ctrl-C does, and the batch is read again.
"""

from __future__ import annotations

import collections
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Deque, Optional

import numpy as np

from . import notation
from .batch import INVALID, SAMPLE, SUBSTITUTED, Told
from .checks import shown
from .errors import ArgumentTypeError, DetachedError, IteratorError

__all__ = ["Event", "Watch", "warn"]

_VERDICT_S = 5.0  # how often a loader with a callback asks the daemon for its verdict
_ONCE = "this warning comes once for each loader, and on_event= reports every case"


@dataclass(frozen=True)
class Event:
    """What `on_event=` is called with. str() is the sentence, so `on_event=logger.warning` works.

    `kind` is one of these; `details` has the keys named here:

    daemon_restarted    the daemon was gone, and another one goes on with the next batch: gone_pid,
                        pid (0: in a pid namespace that this process cannot see), epoch, batch
    sample_substituted  broken samples of a batch were replaced by others: epoch, batch, rows,
                        positions, indices (of the samples that are shown)
    sample_invalid      broken samples of an evaluation batch are rows of zeros: epoch, batch, rows,
                        positions
    detached            this trainer was detached from its group; DetachedError follows: code
    verdict_changed     another stage holds up training: bottleneck, before, share, verdict, remedy
                        (may be empty). Looked up at most every five seconds"""

    kind: str
    sentence: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.sentence


def _is_ours(name: Any) -> bool:
    return isinstance(name, str) and (name == "penstock" or name.startswith("penstock."))


def warn(text: str, category: "type[Warning]" = UserWarning) -> None:
    """Warns at the line of the program that called the package, however deep this is."""
    level, frame = 1, sys._getframe(1)
    while _is_ours(frame.f_globals.get("__name__")) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level + 1)


def _listed(numbers: Any) -> str:
    listed = [int(number) for number in numbers]
    return ", ".join(map(str, listed[:8])) + (", ..." if len(listed) > 8 else "")


def _batch_events(told: Told) -> "list[Event]":
    """The events about a batch's samples. A sample has a record for each view."""
    samples: Any = told.samples
    records = np.frombuffer(samples, SAMPLE) if isinstance(samples, bytes) else np.asarray(samples)
    flags = records["flags"]
    if not (flags & (SUBSTITUTED | INVALID)).any():
        return []
    views = int(records["view"].max()) + 1
    found = []
    for flag, kind in ((SUBSTITUTED, "sample_substituted"), (INVALID, "sample_invalid")):
        rows = np.flatnonzero((flags[::views] & flag) != 0)
        if not rows.size:
            continue
        chosen = records[::views][rows]
        details = {
            "epoch": told.epoch,
            "batch": told.batch,
            "rows": rows.tolist(),
            "positions": chosen["position"].tolist(),
        }
        one = rows.size == 1
        what = f"{'a' if one else rows.size} broken sample{' was' if one else 's were'} replaced by {'another' if one else 'others'}"
        if flag == SUBSTITUTED:
            details["indices"] = chosen["index"].tolist()
        else:
            what = f"{'a' if one else rows.size} broken sample{' is a row' if one else 's are rows'} of zeros, flagged INVALID"
        where = f"epoch {told.epoch}, batch {told.batch}, row{'' if one else 's'} {_listed(rows)}"
        found.append(Event(kind, f"{what} ({where})", details))
    return found


class Watch:
    """`callback` is `on_event`, or None."""

    def __init__(self, callback: Any) -> None:
        if callback is not None and not callable(callback):
            raise ArgumentTypeError(
                f"on_event: expected a function that takes one penstock.Event, such as logger.warning, got {shown(callback)}"
            )
        self._callback: Optional[Callable[[Event], Any]] = callback
        self._events: Deque[Event] = collections.deque()
        self._warned: "set[str]" = set()
        self._telling: "set[int]" = set()  # threads in which the callback runs
        self._bottleneck = "unknown"
        self._asked = time.monotonic()

    # ---- with the loader's lock ----

    def _add(self, event: Event, warning: Optional[str] = None) -> None:
        self._events.append(event)
        if warning is not None and event.kind not in self._warned:
            self._warned.add(event.kind)
            warn(f"{warning}; {_ONCE}")

    def restarted(self, gone_pid: int, pid: int, epoch: int, batch: int) -> None:
        gone, came = (f" (pid {number})" if number > 0 else "" for number in (gone_pid, pid))
        sentence = (
            f"the daemon{gone} is gone, and another one{came} goes on with epoch {epoch}, batch {batch}: no batch was "
            "lost; `penstock why` says how the first one ended"
        )
        details = {"gone_pid": gone_pid, "pid": pid, "epoch": epoch, "batch": batch}
        self._add(Event("daemon_restarted", sentence, details), sentence)

    def batch(self, told: Told) -> None:
        for event in _batch_events(told):
            self._add(event, f"{event.sentence}: `penstock check SOURCE` names the broken files, and stats()[\"broken\"] counts "
                      "them by reason")

    def detached(self, error: DetachedError) -> None:
        self._add(Event("detached", str(error), {"code": error.code}))

    def wants_verdict(self) -> bool:
        """Whether it is time to ask for the daemon's verdict."""
        now = time.monotonic()
        if self._callback is None or now - self._asked < _VERDICT_S:
            return False
        self._asked = now
        return True

    def verdict(self, stats: Mapping[str, Any]) -> None:
        told = stats.get("bottleneck", {})
        kind = told.get("kind", "unknown")
        if kind in ("unknown", self._bottleneck):
            return
        verdict, remedy = str(stats.get("verdict", "")), notation.python(str(stats.get("remedy", "")))
        details = {
            "bottleneck": kind,
            "before": self._bottleneck,
            "share": told.get("share", 0.0),
            "verdict": verdict,
            "remedy": remedy,
        }
        self._bottleneck = kind
        self._add(Event("verdict_changed", f"{verdict}: {remedy}" if remedy else verdict, details))

    # ---- without it ----

    def check(self) -> None:
        """IteratorError if the callback itself asks for batches: it would take the loop's."""
        if threading.get_ident() in self._telling:
            raise IteratorError(
                "on_event asks the loader that called it for batches, which are the loop's: use another loader, or do "
                "it after the event"
            )

    def _failed(self, error: Exception, event: Event) -> None:
        if "on_event" in self._warned:
            return
        self._warned.add("on_event")
        trace, where = error.__traceback__, ""
        while trace is not None:
            where = f" ({trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno})"
            trace = trace.tb_next
        warn(
            f"on_event raised {type(error).__name__}: {error}{where} when it was called with {event.kind!r}: the loader "
            "goes on, and calls it for further events; this warning comes once for each loader",
            RuntimeWarning,
        )

    def _call(self, callback: Callable[[Event], Any], event: Event) -> None:
        try:
            callback(event)
        except Exception as error:
            self._failed(error, event)

    def deliver(self) -> None:
        """Calls the callback, in this thread. An event whose call ends with KeyboardInterrupt or
        the like counts as delivered."""
        if not self._events:
            return
        me = threading.get_ident()
        if self._callback is None:
            self._events.clear()
            return
        if me in self._telling:
            return
        self._telling.add(me)
        try:
            while self._events:
                self._call(self._callback, self._events.popleft())
        finally:
            self._telling.discard(me)

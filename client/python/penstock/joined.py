"""`threads=` and `memory=` of a loader that joins a daemon which is already running: the daemon keeps
its own, and the user learns which daemon has what. A stream that does not fit its memory is told
what helps there: memory= of another loader does not."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any, Optional

from . import _penstock, checks, errors

__all__ = ["explain", "told"]

_ADVICE = re.compile(r'(?:\bor )?\bpass (?P<size>memory="[^"]*") or more')  # notation.py has made it of the daemon's
_UPTIME_S = 0.06  # the status rounds to tenths of a second


def _size(count: int) -> str:
    """The size as the user would write it: exact, if that is short."""
    for unit in "TGMK":
        if count >= checks.UNITS[unit]:
            value = count / checks.UNITS[unit]
            return f"{value:.4g}{unit}"
    return str(count)


def _status(options: Mapping[str, Any]) -> "dict[str, Any]":
    """The status of the daemon that the options lead to; empty if it does not answer: the stream
    reports that itself."""
    try:
        status: "dict[str, Any]" = json.loads(_penstock.daemon_status(options.get("socket")))
        return status
    except errors.Error:
        return {}


def _differences(options: Mapping[str, Any], status: Mapping[str, Any]) -> "list[tuple[str, str]]":
    """What the loader was passed, and what the daemon has instead."""
    threads, memory = options.get("daemon_threads"), options.get("daemon_memory")
    has_threads, has_memory = status.get("threads"), status.get("memory", {}).get("budget")
    found = []
    if threads is not None and has_threads is not None and threads != has_threads:
        found.append((f"threads={threads}", f"threads={has_threads}"))
    if memory is not None and has_memory is not None and abs((checks.bytes_of(memory) or 0) - has_memory) > 1:
        found.append((f'memory="{memory}"', f'memory="{_size(has_memory)}"'))
    return found


def told(options: Mapping[str, Any], pid: int = 0, only: str = "") -> Optional[str]:
    """A sentence if the running daemon has other threads or memory than the options ask for.
    `pid`: the stream's daemon, if it is known. `only`: the argument that it is about."""
    if options.get("daemon_threads") is None and options.get("daemon_memory") is None:
        return None
    status = _status(options)
    if pid > 0 and status.get("pid") not in (None, pid):
        return None  # another daemon has taken its place meanwhile
    found = [(asked, has) for asked, has in _differences(options, status) if asked.startswith(only)]
    if not found:
        return None
    asked, has = (" and ".join(parts) for parts in zip(*found))
    return (
        f"{asked} {'has' if len(found) == 1 else 'have'} no effect: the daemon that was already running (pid "
        f"{status.get('pid')}, at {status.get('socket')}) has {has} and keeps "
        f"{'it' if len(found) == 1 else 'them'}. To change that, run `penstock stop` and create the loader again, or "
        "pass socket= with a path in a folder of its own"
    )


def _ran_before(status: Mapping[str, Any], began: float) -> bool:
    """Whether the daemon started before `began`, of time.monotonic()."""
    uptime, budget = status.get("uptime_s"), status.get("memory", {}).get("budget")
    return uptime is not None and budget is not None and uptime > time.monotonic() - began + _UPTIME_S


def _remedy(advice: str, status: Mapping[str, Any]) -> str:
    others = "close its other loaders, or " if status.get("streams") else ""
    return (
        f"the daemon that was already running (pid {status.get('pid')}, at {status.get('socket')}) has "
        f"{_size(status['memory']['budget'])}: {others}run `penstock stop` and create the loader again with {advice}"
    )


def explain(error: errors.Error, options: Mapping[str, Any], began: float) -> errors.Error:
    """The error; if it is about memory that a running daemon does not have, it says so. `began`: when
    the stream was asked for, of time.monotonic(): the daemon may have been started for it."""
    if not isinstance(error, errors.MemoryLimitError) or isinstance(error, errors.DaemonError):
        return error
    sentence, advice, more = str(error), _ADVICE.search(str(error)), told(options, only="memory")
    if more is not None:
        needs = sentence.replace('pass memory="', 'memory="')
        sentence = f"{needs}; {more}"
    elif advice is not None:
        status = _status(options)
        if not _ran_before(status, began):
            return error
        sentence = f"{sentence[: advice.start()]}{_remedy(advice['size'], status)}{sentence[advice.end() :]}"
    made = errors.MemoryLimitError(sentence)
    made.code = error.code
    return made

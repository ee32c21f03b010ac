"""Shared by the tests of the examples: their folder, a dataset, and how to run them."""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import support

FOLDER = Path(__file__).resolve().parents[2] / "client/python/examples"


def pictures() -> str:
    """192 images of three classes: three batches of 64."""
    return support.dataset(per_class=64)


def run(name: str, *arguments: Any, launcher: Any = (), **environment: str) -> str:
    """Runs an example to its end. Returns its output."""
    command = [sys.executable, *launcher, str(FOLDER / name), *map(str, arguments)]
    answer = subprocess.run(command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, timeout=2 * support.LIMIT)
    said = answer.stdout[-6000:]
    assert answer.returncode == 0, f"{name} {arguments} ended with {answer.returncode}: {said}"
    return answer.stdout


def run_here(name: str, *arguments: Any) -> str:
    """The same in this process, which has already imported the slow modules."""
    said = io.StringIO()
    signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)}
    try:
        with mock.patch.object(sys, "argv", [name, *map(str, arguments)]), contextlib.redirect_stdout(said):
            runpy.run_path(str(FOLDER / name), run_name="__main__")
    finally:
        for number, handler in signals.items():
            signal.signal(number, handler)
    return said.getvalue()


def weights(text: str) -> str:
    found = re.search(r"after step (\d+, weights [0-9a-f]{8})", text)
    assert found, text
    return found[1]

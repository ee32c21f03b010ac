"""What the tests of the examples share: their folder, a dataset, running them, the blocks of docs/guides/migrating.md."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import runpy
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any
from unittest import mock

import harness
import support

FOLDER = Path(__file__).resolve().parents[2] / "client/python/examples"
MIGRATING = Path(__file__).resolve().parents[2] / "docs/guides/migrating.md"
_BLOCK = re.compile(r"^ *```python ([a-z ]+)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def pictures() -> str:
    """192 images of three classes: three batches of 64."""
    return support.dataset(per_class=64)


def blocks(mark: str) -> "list[tuple[int, str]]":
    """(line, code) of those blocks that are marked so, and with nothing else."""
    text = MIGRATING.read_text(encoding="utf-8")
    marked = [found for found in _BLOCK.finditer(text) if found[1] == mark]
    return [(text.count("\n", 0, found.start()) + 1, textwrap.dedent(found[2])) for found in marked]


@functools.lru_cache(maxsize=None)
def _place() -> str:
    """A folder with what the blocks name."""
    place = support.folder / "place"
    (place / "imagenet").mkdir(parents=True)
    for name in ("train", "val"):
        (place / "imagenet" / name).symlink_to(pictures())
    shards = harness.make_dataset(place / "made", per_class=64, tars=True, per_shard=96)
    (place / "shards").mkdir()
    for number, path in enumerate(sorted(Path(shards).glob("*.tar"))):
        path.rename(place / f"shards/train-{number:06d}.tar")
    return str(place)


def run_block(line: int, code: str) -> None:
    """Where what it names is to be found. Its loaders are closed by then: nothing else refers to them."""
    before = os.getcwd()
    os.chdir(_place())
    try:
        exec(compile("\n" * line + code, str(MIGRATING), "exec"), {"__name__": "__main__"})
    finally:
        os.chdir(before)


def run(name: str, *arguments: Any, launcher: Any = (), **environment: str) -> str:
    """Runs an example to its end. What it said."""
    command = [sys.executable, *launcher, str(FOLDER / name), *map(str, arguments)]
    answer = subprocess.run(command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, timeout=2 * support.LIMIT)
    said = answer.stdout[-6000:]
    assert answer.returncode == 0, f"{name} {arguments} ended with {answer.returncode}: {said}"
    return answer.stdout


def run_here(name: str, *arguments: Any) -> str:
    """The same in this process, which has imported already what takes long to import."""
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

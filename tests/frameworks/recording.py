"""Runs an example as it stands, with loaders that write which samples they give.

    recording.py ARGUMENT...     EXAMPLE names the example

RECORDS names a folder. Each training loader opens a file there, whose name has the time, the rank, the number of ranks,
the port at which they met, and the pid; each batch that its loop gets is a line of it. PAUSE: how many seconds
each batch takes, until the folder has a file `killed`: so a test has time to kill a rank at a step."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import penstock

_Loader = penstock.Loader


def install(folder: str, pause: float) -> None:
    """From now on, penstock.Loader is a loader that writes what it gives."""
    records = Path(folder)

    class Recorded(_Loader):
        def _noted(self, batches: Any, give: Callable[[Any], Any]) -> Iterator[Any]:
            for batch in batches:
                line = {"epoch": batch.epoch, "positions": batch.samples["position"].tolist(), "rows": batch.samples["index"].tolist()}
                self._log.write(json.dumps(line) + "\n")
                self._log.flush()
                if not (records / "killed").exists():
                    time.sleep(pause)
                yield give(batch)

        def __init__(self, *arguments: Any, **keys: Any) -> None:
            super().__init__(*arguments, **keys)
            met = os.environ.get("MASTER_PORT", str(os.getpid()))
            name = f"{time.time_ns()}.{self.rank}.{self.world_size}.{met}.{os.getpid()}"
            self._log = open(records / name, "w", encoding="ascii") if keys.get("train", True) else None

        def __iter__(self) -> Any:
            return self._noted(super().batches(), lambda batch: (batch.images, batch.labels)) if self._log else super().__iter__()

    penstock.Loader = Recorded  # type: ignore[misc]


if __name__ == "__main__":
    install(os.environ["RECORDS"], float(os.environ.get("PAUSE", "0")))
    # Lightning starts the other ranks by sys.argv, of which runpy would change the first.
    example = Path(os.environ["EXAMPLE"])
    exec(compile(example.read_text(encoding="utf-8"), str(example), "exec"))

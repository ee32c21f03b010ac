"""Runs client/python/examples/ray_train.py as it stands; its workers write which samples their loaders give.

    ray_driver.py ARGUMENT...

See recording.py for RECORDS and PAUSE."""

from __future__ import annotations

import os
from typing import Any

import ray_train

RECORDS, PAUSE = os.environ["RECORDS"], float(os.environ["PAUSE"])


def recorded(config: "dict[str, Any]") -> None:
    """In a worker, where the example's own function is called."""
    import ray_train
    import recording

    recording.install(RECORDS, PAUSE)
    ray_train.train_loop(config)


if __name__ == "__main__":
    ray_train.train_loop = recorded
    ray_train.main()

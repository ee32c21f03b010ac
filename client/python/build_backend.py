"""The build backend of pyproject.toml: scikit-build-core's, which also refuses what cannot work with a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from scikit_build_core.build import (
    build_editable,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

_SOURCE = Path(__file__).resolve().parents[2] / "CMakeLists.txt"

if not _SOURCE.is_file():
    raise SystemExit(
        f"penstock: {_SOURCE} is not there: the package is built from the whole repository, whose folder client/python "
        "this has to be. Clone the repository and run `pip install ./client/python` in it."
    )


def build_sdist(*_: object, **__: object) -> NoReturn:
    """A source distribution could hold this folder alone, and the daemon that the package carries lies above it."""
    raise SystemExit(
        "penstock: there is no source distribution: it could not hold the daemon, which lies outside of client/python. "
        "Build a wheel from the repository: `pip wheel ./client/python`, `python -m build --wheel client/python`, or "
        "scripts/wheel for one that runs on older systems too."
    )

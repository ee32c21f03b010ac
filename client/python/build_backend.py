"""The build backend: scikit-build-core's, with clear errors for what cannot work."""

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
        f"penstock: {_SOURCE} does not exist: the package can only be built in the folder client/python of the whole "
        "repository. Clone the repository and run `pip install ./client/python` in it."
    )


def build_sdist(*_: object, **__: object) -> NoReturn:
    """Refuses: a source distribution could contain only this folder, and the daemon's source is
    outside of it."""
    raise SystemExit(
        "penstock: a source distribution cannot be built, because it could not contain the daemon's source, which is "
        "outside of client/python. scripts/release makes one of the whole repository. Or build a wheel: `pip wheel "
        "./client/python`, `python -m build --wheel client/python`, or scripts/wheel for one that also runs on older systems."
    )

"""Samples of a folder by their paths: for indices=["cat/1.jpg", ...] and weights={"cat/1.jpg": 2.0}.

The daemon numbers samples. A folder's samples have the order of torchvision's ImageFolder
(daemon/dataset/container/folder.h), so this module finds their numbers by walking the folder in that order.
The loader compares the number of samples with the daemon's when it has opened the stream.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

import numpy as np

from .checks import nearest, shown
from .errors import ArgumentError, ArgumentTypeError, DatasetError

__all__ = ["Named", "check", "named", "numbers", "weights"]

# daemon/dataset/container/image_names.c has the same.
_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
_LINKS = 100  # FOLDER_LINKS_MAX of daemon/dataset/container/folder.h
_NEAR = 20_000  # as many paths as "did you mean" looks through


class Named:
    """The samples of a folder and their numbers."""

    def __init__(self, root: str, natural: bool) -> None:
        self.root = root
        self.number = {path: number for number, path in enumerate(_walk(root, natural))}

    def find(self, argument: str, path: Any) -> int:
        """The number of a sample, which is named by its path below the folder, or by the whole path."""
        if not isinstance(path, (str, bytes, os.PathLike)):
            raise ArgumentTypeError(f"{argument}: expected a path, got {shown(path)}")
        text = os.fsdecode(path)
        below = os.path.relpath(text, self.root) if os.path.isabs(text) else os.path.normpath(text)
        number = self.number.get(below)
        if number is None:
            raise ArgumentError(f"{argument}: {text} is not a sample of {self.root}{self._meant(below)}")
        return number

    def _meant(self, below: str) -> str:
        folder = os.path.dirname(below)
        names = [path for path in self.number if os.path.dirname(path) == folder] or list(self.number)
        near = nearest(below, names[:_NEAR], 0.6)
        return f": did you mean {near[0]}?" if near else f": expected a path below it, such as {next(iter(self.number), 'a/1.jpg')}"


def _natural(name: str) -> "list[int | str]":
    """timm's natural_key; base/name_order.c has the same. Each letter is made lower by itself."""
    parts = re.split(r"(\d+)", "".join(letter.lower() for letter in name))
    return [int(part) if place % 2 else part for place, part in enumerate(parts)]


def _is_left_out(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"


def _files(folder: str, names: Sequence[str]) -> Iterator[str]:
    for name in sorted(names):
        if name.lower().endswith(_EXTENSIONS) and not _is_left_out(name):
            yield os.path.join(folder, name)


class _Links:
    """How often folders were entered through links. Links in linked folders multiply: the walk would not end."""

    def __init__(self) -> None:
        self._entered: "dict[tuple[int, int], int]" = {}
        self._linked: "set[str]" = set()

    def enter(self, place: str) -> None:
        """DatasetError if links lead to the folder too often. The folder above it was entered before."""
        if os.path.dirname(place) not in self._linked and not os.path.islink(place):
            return
        self._linked.add(place)
        status = os.stat(place)
        key = status.st_dev, status.st_ino
        self._entered[key] = self._entered.get(key, 0) + 1
        if self._entered[key] > _LINKS:
            raise DatasetError(
                f"source: {place} is a folder that links lead to more than {_LINKS} times: each time its images are samples "
                "again, and links in linked folders multiply; remove links"
            )


def _below(folder: str, links: _Links) -> Iterator[str]:
    """The images of a folder and of the folders below it, as sorted(os.walk(...)) has them."""
    found = []
    for place, folders, names in os.walk(folder, followlinks=True, onerror=_raise):
        links.enter(place)
        folders[:] = [name for name in folders if not _is_left_out(name)]
        found.append((place, names))
    for place, names in sorted(found):
        yield from _files(place, names)


def _raise(error: OSError) -> None:
    raise error


def _walk(root: str, natural: bool) -> Iterator[str]:
    links = _Links()
    try:
        with os.scandir(root) as entries:
            found = [(entry.name, entry.is_dir()) for entry in entries]
        classes = sorted(name for name, is_folder in found if is_folder and not _is_left_out(name))
        if natural:
            classes.sort(key=_natural)
        paths = list(_files(root, [name for name, is_folder in found if not is_folder]))
        for name in classes:
            paths.extend(_below(os.path.join(root, name), links))
    except OSError as error:
        raise DatasetError(f"source: {error.filename} cannot be read: {error.strerror}") from error
    return (os.path.relpath(path, root) for path in paths)


def named(argument: str, source: Any, mixture: Optional[str], given: Mapping[str, Any]) -> Named:
    """The samples that paths in `argument` may name."""
    split = given["split"]
    advice = "pass numbers, in the order in which loader.path(number) names the samples"
    if mixture is not None:
        raise ArgumentError(f"{argument}: paths name samples of one folder, and source is a mix of several: {advice}")
    if split is not None:
        raise ArgumentError(f"{argument}: paths name samples of a whole folder, not of a split: name its folder as the source, or {advice}")
    labels = given["labels"]
    if isinstance(labels, Mapping) and labels.get("only"):
        raise ArgumentError(
            f"{argument}: paths name samples of a whole folder, and labels={{..., \"only\": True}} leaves out some of them: "
            f"write those that you want into the manifest, or {advice}"
        )
    root = os.path.abspath(source)
    if not os.path.isdir(root):
        raise ArgumentError(f"{argument}: paths name samples of a folder, and {source} is not one: {advice}")
    return Named(root, given["class_order"] == "natural")


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, bytes, os.PathLike))


def are_paths(indices: Any) -> bool:
    """Whether `indices` is a list or an array of paths."""
    listed = isinstance(indices, (list, tuple)) or isinstance(indices, np.ndarray) and indices.ndim == 1
    return listed and len(indices) > 0 and _is_path(indices[0])


def numbers(samples: Named, indices: Sequence[Any]) -> "list[int]":
    return [samples.find(f"indices[{place}]", path) for place, path in enumerate(indices)]


def _weight(path: Any, weight: Any) -> float:
    try:
        number = math.nan if isinstance(weight, (str, bytes, bool)) else float(weight)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise ArgumentError(f"weights[{shown(path)}]: expected a finite number, 0 or more, got {shown(weight)}")
    return number


def weights(samples: Named, by_path: Mapping[Any, Any], chosen: "Optional[list[int]]") -> "list[float]":
    """One weight for each sample, or for each of the chosen ones; the dict must have all of them."""
    found: dict[int, float] = {}
    for path, weight in by_path.items():
        found[samples.find("weights", path)] = _weight(path, weight)
    paths = list(samples.number)
    wanted = range(len(paths)) if chosen is None else chosen
    missing = [number for number in wanted if number not in found]
    if missing:
        raise ArgumentError(
            f"weights: {len(missing)} of {len(wanted)} samples have no weight, the first is {paths[missing[0]]}: give each one, 0 "
            "for samples that are never drawn"
        )
    return [found[number] for number in wanted]


def check(seen: "Optional[int]", samples: "Optional[int]") -> None:
    """DatasetError if the daemon sees another number of samples than the paths were looked up in."""
    if seen is not None and seen != samples:
        raise DatasetError(
            f"source: the folder changed while its paths were looked up: {seen} samples were found, and the daemon has "
            f"{samples}; open it again when no other program writes there"
        )

"""Turns the argument `source` into the text that the daemon expands: a path, a glob, a brace range
or stream:NAME. Several sources with weights become the daemon's list of datasets.

The daemon does not accept lists of tar files, but it accepts braces. A list of tar files becomes
their common beginning and end with the rest in braces, so that even a thousand shards fit into a
request.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from . import checks
from .errors import ArgumentError, ArgumentTypeError, SourceNotFoundError

__all__ = ["STREAM", "mixture", "pattern", "shown", "stream_name"]

STREAM = "stream:"
_MOST_BYTES = 4095  # of a pattern: daemon/dataset/source.h, SPEC_TEXT_MAX
_MOST_MIXED = 16  # datasets: daemon/order/sampler.h, SAMPLER_PARTS
_URL = re.compile(r"(?:s3|gs|hf|https?)://")  # the daemon reads these
_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|pipe:")  # and others, these
_HUB = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*\Z")  # org/name
_DOWNLOAD = "hf download ORG/NAME --repo-type dataset --local-dir FOLDER"
_EXPECTED = (
    "source: expected a folder, a file (tar, Parquet, TFRecord, ZIP, ...), a glob (train-*.tar), a brace range "
    "(train-{000000..000146}.tar), a URL of these, stream:NAME, a list of files, or a list of pairs (source, weight)"
)


def stream_name(source: Any) -> Optional[str]:
    """The NAME in "stream:NAME"; None if `source` is not of this form."""
    return source[len(STREAM) :] if isinstance(source, str) and source.startswith(STREAM) else None


def _path(source: Any) -> str:
    if not isinstance(source, (str, os.PathLike)):
        root = getattr(source, "root", None)  # of torchvision's datasets
        advice = ": pass its .root" if isinstance(root, (str, os.PathLike)) else ""
        if callable(getattr(source, "to_parquet", None)):  # a Dataset of Hugging Face
            advice = ': save it with .to_parquet("train.parquet"), and pass that path'
        raise ArgumentTypeError(f"{_EXPECTED}; got {type(source).__name__}{advice}")
    path = os.fspath(source)
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if not path:
        raise ArgumentError(f"{_EXPECTED}; got an empty string")
    if "\0" in path:
        raise ArgumentError(f"{_EXPECTED}; got a path that contains a zero byte")
    checks.encodable("source", path)
    if _URL.match(path):
        return path
    if _ELSEWHERE.match(path) and not os.path.lexists(path):
        raise ArgumentError(
            f"source: {path} is neither a path nor a URL that penstock reads (s3://, gs://, hf://, https://, http://): "
            "download the data, or mount it, and pass its path"
        )
    if _HUB.match(path) and not os.path.lexists(path.split("/")[0]):
        raise SourceNotFoundError(
            f"source: {path} does not exist in {os.getcwd()}; if it is a dataset of the Hugging Face Hub, download it "
            f"({_DOWNLOAD}), and pass the path of its files, such as FOLDER/data/train-*.parquet"
        )
    return os.path.expanduser(path) if path.startswith("~") and not os.path.lexists(path) else path


def _absolute(path: str) -> str:
    return path if _URL.match(path) else os.path.abspath(path)


def _edges(paths: "list[str]") -> "tuple[str, str]":
    """The common beginning of the paths, and the common end of the rest."""
    front = os.path.commonprefix(paths)
    shortest = min(len(path) for path in paths) - len(front)
    back = os.path.commonprefix([path[::-1] for path in paths])[::-1]
    back = back[len(back) - min(len(back), shortest) :]
    return front, back


def _consecutive(middles: "list[str]") -> bool:
    digits = all(middle.isascii() and middle.isdigit() for middle in middles)
    same = len({len(middle) for middle in middles}) == 1
    return digits and same and all(int(b) == int(a) + 1 for a, b in zip(middles, middles[1:]))


def _digits_back(front: str) -> str:
    """Without the digits at its end, which belong to the number: 00{8..9} would be another
    range."""
    return front.rstrip("0123456789")


def _braces(paths: "list[str]") -> str:
    front, back = _edges(paths)
    whole = _digits_back(front)
    tail = back.lstrip("0123456789")
    numbers = [path[len(whole) : len(path) - len(tail)] for path in paths]
    if _consecutive(numbers):
        return f"{whole}{{{numbers[0]}..{numbers[-1]}}}{tail}"
    middles = [path[len(front) : len(path) - len(back)] for path in paths]
    return f"{front}{{{','.join(middles)}}}{back}"


def _list(sources: Sequence[Any]) -> str:
    if not sources:
        raise ArgumentError(f"{_EXPECTED}; got an empty list")
    paths = [_path(source) for source in sources]
    for path in paths:
        if stream_name(path) is not None:
            raise ArgumentError(
                f"source: a list cannot contain {path}: the daemon's configuration defines the sources of a stream; "
                "pass it alone"
            )
        if len(paths) > 1 and set(path) & set("{},"):
            raise ArgumentError(
                f"source: a list cannot contain {path}, because its name has a brace or a comma and the list becomes a "
                "brace pattern; use a glob instead"
            )
    folders = [path for path in paths if os.path.isdir(path)]
    if folders and len(paths) > 1:
        raise ArgumentError(
            f"source: {folders[0]} is a folder, but a list may contain only files: to mix several datasets, pass "
            f"pairs with weights, as in [({folders[0]!r}, 0.5), ...]"
        )
    return paths[0] if len(paths) == 1 else _braces([_absolute(path) for path in paths])


def pattern(source: Any) -> str:
    """The text for options.source."""
    text = _list(source) if isinstance(source, (list, tuple)) else _path(source)
    size = len(os.fsencode(text))
    if size > _MOST_BYTES:
        raise ArgumentError(
            f"source: this list becomes a pattern of {size} bytes, and at most {_MOST_BYTES} are allowed: use a glob "
            "or a brace range, or link the files into one folder"
        )
    return text


def _pairs(source: Any) -> Optional[list[tuple[Any, Any]]]:
    """(source, weight) of each dataset; None if there are no weights."""
    if isinstance(source, Mapping):
        return list(source.items())
    if not isinstance(source, (list, tuple)) or not source:
        return None
    paired = [isinstance(item, (list, tuple)) and len(item) == 2 and checks.is_number(item[1]) for item in source]
    if not any(paired):
        return None
    if not all(paired):
        bad = source[paired.index(False)]
        raise ArgumentError(f"{_EXPECTED}; got a list of pairs that contains {checks.shown(bad)}")
    return [(item[0], item[1]) for item in source]


def _part(source: Any, weight: Any) -> "dict[str, Any]":
    text = pattern(source)
    if stream_name(text) is not None:
        raise ArgumentError(f"source: {text} cannot be mixed with other sources: pass its folder or files instead")
    expected = f"a weight above 0 for {text}"
    value = checks.finite("source", weight, expected)
    if value <= 0:
        raise ArgumentError(f"source: expected {expected}, got {checks.shown(weight)}")
    return {"source": checks.unicode("source", _absolute(text)), "weight": int(value) if value == int(value) else value}


def mixture(source: Any) -> Optional[str]:
    """The text for options.sources; None if `source` is one dataset."""
    pairs = _pairs(source)
    if pairs is None:
        return None
    if not pairs:
        raise ArgumentError(f"{_EXPECTED}; got an empty dict")
    if len(pairs) > _MOST_MIXED:  # thousands of them would not even fit into the request
        raise ArgumentError(
            f"source: expected 2 to {_MOST_MIXED} datasets to mix, got {len(pairs)}: pass files with the same "
            "weight as one dataset, by a list, a glob or a brace range"
        )
    return json.dumps([_part(one, weight) for one, weight in pairs])


def shown(mixture: str) -> str:
    """The result of `mixture`, for people."""
    return ", ".join(f"{part['source']} ({part['weight']})" for part in json.loads(mixture))

"""Turns the argument `labels`, a word or a dict that says where labels come from, into the stream's
option."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Optional

from . import checks
from .errors import ArgumentError, ArgumentTypeError

__all__ = ["WORDS", "option"]

WORDS = ("auto", "none", "folder", "cls", "json")
_KEYS = ("json", "manifest", "type", "classes", "only")
_TYPES = ("class", "multi_hot", "float", "classes")
_EXPECTED = (
    f"labels: expected one of {', '.join(repr(word) for word in WORDS)}, or a dict such as "
    '{"manifest": "labels.csv", "type": "multi_hot"}, with the keys ' + ", ".join(_KEYS)
)


def _path(key: str, value: Any) -> str:
    if not isinstance(value, (str, os.PathLike)):
        raise ArgumentTypeError(f"labels[{key!r}]: expected the path of a file, got {checks.shown(value)}")
    name = f"labels[{key!r}]"
    return checks.unicode(name, os.path.abspath(os.path.expanduser(checks.text(name, os.fsdecode(value)))))


def _mapping(labels: Mapping[Any, Any]) -> str:
    unknown = [key for key in labels if key not in _KEYS]
    if unknown:
        raise ArgumentError(f"{_EXPECTED}; got the key {checks.shown(unknown[0])}")
    if len({"json", "manifest"} & set(labels)) != 1 and set(labels) != {"classes"}:
        raise ArgumentError(
            f'{_EXPECTED}; the dict must have either "json" (a path within each sample\'s .json) or "manifest" (a CSV '
            'or TSV file), or only "classes"'
        )
    if "only" in labels and "manifest" not in labels:
        raise ArgumentError("labels['only'] needs \"manifest\" beside it: it leaves out the samples that the manifest does not name")
    told: "dict[str, str | bool]" = {}
    for key, value in labels.items():
        if key == "type":
            told[key] = checks.choice("labels['type']", value, _TYPES)
        elif key == "only":
            told[key] = checks.flag("labels['only']", value)
        elif key == "json":
            told[key] = checks.text("labels['json']", value)
        else:
            told[key] = _path(key, value)
    return json.dumps(told)


def option(labels: Any) -> Optional[str]:
    """The stream's option; None for the daemon's default."""
    if labels is None or (isinstance(labels, str) and labels == "auto"):
        return None
    if isinstance(labels, Mapping):
        return _mapping(labels)
    if not isinstance(labels, str):
        raise ArgumentTypeError(f"{_EXPECTED}; got {checks.shown(labels)}")
    if labels not in WORDS:
        raise ArgumentError(f"{_EXPECTED}; got {checks.shown(labels)}")
    return labels

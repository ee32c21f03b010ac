"""Assignments to a loader, its dataset or its samplers that would change nothing: they raise, and
name the argument to pass instead.

    loader.mixup = 0                # the stream was opened with the arguments of the constructor
    loader.dataset.transform = f    # the daemon decodes and transforms
    loader.sampler.rank = 1

Subclasses may have attributes of their own, whatever their names: those that they define in their
class, that their own methods set, or that are not arguments of a loader.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

from ..checks import nearest
from ..errors import AssignmentError
from . import unknown

__all__ = ["check", "refuse_dataset", "refuse_sampler"]

# Facts about the stream that look like arguments, and what changes them.
_FACTS = {
    "epoch": "call set_epoch()",
    "dataset": "create a loader with another source",
    "samples": "create a loader with another source, split= or indices=",
    "classes": "pass labels= to the constructor",
    "class_to_idx": "pass labels= to the constructor",
    "closed": "call close()",
}

_DATASET = {
    "transform": "pass transforms=[...] to the loader",
    "transforms": "pass transforms=[...] to the loader",
    "target_transform": "change the labels in the loop, or pass labels= to the loader",
    "targets": "pass labels= to the loader",
    "labels": "pass labels= to the loader",
    "classes": "pass labels= to the loader",
    "class_to_idx": "pass labels= to the loader",
    "samples": "pass another source, indices= or split= to the loader",
    "imgs": "pass another source, indices= or split= to the loader",
    "indices": "pass indices= to the loader, or call loader.set_indices()",
    "root": "create a loader with another source",
    "loader": "the daemon decodes images; pass decode= to the loader",
}

_SAMPLER = {
    "epoch": "call loader.set_epoch()",
    "num_replicas": "pass world_size= to the loader",
    "rank": "pass rank= to the loader",
    "sampler": "pass shuffle=, indices= or weights= to the loader",
    **{name: f"pass {name}= to the loader" for name in ("batch_size", "drop_last", "shuffle", "seed")},
}


def _is_ours(kind: type) -> bool:
    return kind.__module__.split(".")[0] == "penstock" or kind is object


def _is_own_method(loader: Any, frame: FrameType) -> bool:
    """Whether the assignment is in a method of the loader's class: its first argument is the
    loader."""
    code = frame.f_code
    return code.co_argcount > 0 and frame.f_locals.get(code.co_varnames[0]) is loader


def check(loader: Any, name: str, known: Sequence[str]) -> None:
    """AssignmentError if assigning the attribute would change nothing. `known` are the arguments of
    the constructor. Called by __setattr__."""
    kind = type(loader)
    owner = next((base for base in kind.__mro__ if name in vars(base)), None)
    if name in vars(loader) or (owner is not None and not _is_ours(owner)):
        return
    if not _is_ours(kind) and _is_own_method(loader, sys._getframe(2)):
        return
    found = None if owner is None else vars(owner)[name]
    if owner is not None and not isinstance(found, property):
        return  # a method that is replaced, as in a test, is replaced
    what = f"{kind.__name__}.{name} cannot be assigned, because it would change nothing: "
    if name in known:
        raise AssignmentError(f"{what}pass {name}= to the constructor of a new loader")
    if found is not None:
        advice = _FACTS.get(name) or unknown.instead(name) or "it is a fact about the stream"
        raise AssignmentError(what + advice)
    if not _is_ours(kind):
        return
    advice = unknown.instead(name)
    near = nearest(name, known, 0.8)
    advice = advice or (f"pass {near[0]}= to the constructor of a new loader" if near else None)
    raise AssignmentError(what + (advice or "a loader has no such attribute; a subclass may have attributes of its own"))


def refuse_dataset(name: str) -> None:
    advice = _DATASET.get(name, "the dataset only describes what the daemon reads")
    raise AssignmentError(f"loader.dataset.{name} cannot be assigned, because it would change nothing: {advice}")


def refuse_sampler(which: str, name: str) -> None:
    advice = _SAMPLER.get(name, "it only describes how the daemon divides an epoch")
    raise AssignmentError(f"loader.{which}.{name} cannot be assigned, because it would change nothing: {advice}")

"""The position of a loop: the small JSON object that a checkpoint keeps, checked before it is used.

penstock_stream_state writes the same object (proto/PROTOCOL.md, State), so the command, C trainers
and Python can exchange states. `position` counts samples of the epoch's global order, of all ranks
together. Therefore a run with another batch size or another number of ranks can continue from it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Optional

from .checks import shown
from .errors import StateError

__all__ = ["State"]

_EXPECTED = "expected a state that state_dict() returned"
_READ_IT = "read it first and pass the state that it contains, as of json.load(open(path)) or torch.load(path)"
_FILES = (".json", ".pt", ".pth", ".ckpt")
_HASHES = ("fingerprint", "order", "transform")
_NUMBERS = ("seed", "epoch", "position")
_EPOCHS = 2**32  # the daemon numbers epochs with 32 bits
_SAMPLES = 2**48  # the most samples that an epoch can have
_CUTS = 8  # the most cuts that an epoch can have


def _hash(value: Any, key: str) -> str:
    if not isinstance(value, str) or len(value) != 16 or not set(value) <= set("0123456789abcdef"):
        raise StateError(f"the state's {key} is {shown(value)}: {_EXPECTED}, in which it has 16 hexadecimal digits")
    return value


def _number(value: Any, key: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**64:
        raise StateError(f"the state's {key} is {shown(value)}: {_EXPECTED}, in which it is a whole number, 0 or more")
    if key == "epoch" and value >= _EPOCHS:
        raise StateError(f"the state's epoch is {value}: epochs are numbered from 0 to {_EPOCHS - 1}")
    if key == "position" and value > _SAMPLES:
        raise StateError(f"the state's position is {value}: no epoch has more than {_SAMPLES} samples")
    return value


def _cuts(value: Any) -> Optional[tuple[tuple[int, int], ...]]:
    if value is None:
        return None
    good = isinstance(value, (list, tuple)) and 1 <= len(value) <= _CUTS
    if not good or not all(isinstance(cut, (list, tuple)) and len(cut) == 2 for cut in value):
        raise StateError(f"the state's cuts are {shown(value)}: {_EXPECTED}, in which they are pairs of whole numbers")
    return tuple((_number(cut[0], "position"), _number(cut[1], "global batch")) for cut in value)


def _within(checkpoint: Mapping[Any, Any]) -> str:
    """For a message, if a whole checkpoint was passed: the keys under which it contains states."""
    states = {"version", "fingerprint"}
    keys = [key for key, value in checkpoint.items() if isinstance(value, Mapping) and states <= value.keys()]
    return f", but its key {', '.join(map(shown, keys))} contains a state" if keys else ""


@dataclass(frozen=True)
class State:
    """Immutable. `fingerprint`, `order` and `seed` must equal the stream's; `transform` may
    differ."""

    fingerprint: str
    order: str
    transform: str
    seed: int
    epoch: int
    position: int
    #: Of a stream with buckets: from which positions on the epoch is cut into global batches of which size.
    cuts: Optional[tuple[tuple[int, int], ...]] = None

    @classmethod
    def parse(cls, text: str) -> State:
        """Reads JSON text from the stream or the user."""
        try:
            return cls.read(json.loads(text))
        except (ValueError, RecursionError) as error:
            if isinstance(error, StateError):
                raise
            if not text.lstrip().startswith(("{", "[")) and text.lower().endswith(_FILES):
                raise StateError(f"the state is {shown(text)}, a path: {_READ_IT}") from None
            raise StateError(f"the state is not JSON ({error}): {_EXPECTED}") from None

    @classmethod
    def read(cls, value: Any) -> State:
        """Reads the state that a user passes: a dict, or its JSON. Unknown keys are ignored."""
        if isinstance(value, (str, bytes)):
            return cls.parse(value if isinstance(value, str) else value.decode("utf-8", "replace"))
        if isinstance(value, os.PathLike):
            raise StateError(f"the state is {shown(value)}, a path: {_READ_IT}")
        if not isinstance(value, Mapping):
            raise StateError(f"the state is of type {type(value).__name__}: {_EXPECTED}")
        first = next((key for key in ("version", "fingerprint") if key not in value), None)
        if first == "version" or (first and _within(value)):
            raise StateError(f"the state has no {first}{_within(value)}: {_EXPECTED}")
        missing = [key for key in (*_HASHES, *_NUMBERS) if key not in value]
        if missing:
            raise StateError(f"the state has no {', '.join(missing)}: {_EXPECTED}")
        if value["version"] != 1 or isinstance(value["version"], bool):
            raise StateError(
                f"the state has version {shown(value['version'])}: this release of penstock reads version 1"
            )
        fingerprint, order, transform = (_hash(value[key], key) for key in _HASHES)
        seed, epoch, position = (_number(value[key], key) for key in _NUMBERS)
        return cls(fingerprint, order, transform, seed, epoch, position, _cuts(value.get("cuts")))

    def as_dict(self) -> dict[str, Any]:
        told = {"version": 1, **asdict(self)}
        if self.cuts is None:
            del told["cuts"]
        else:
            told["cuts"] = [list(cut) for cut in self.cuts]
        return told

    def text(self) -> str:
        return json.dumps(self.as_dict(), separators=(",", ":"))

    def at_epoch(self, epoch: int) -> State:
        """The position before the first batch of `epoch`."""
        return replace(self, epoch=epoch, position=0, cuts=None)

    def same_place(self, other: State) -> bool:
        return (self.epoch, self.position) == (other.epoch, other.position)

    def check_fits(self, stream: State, earlier: Collection[str] = ()) -> None:
        """StateError if the state belongs to another stream. `earlier`: fingerprints that its dataset had before images
        were rewritten in place, which changes pixels and not samples."""
        what = {
            "fingerprint": "another dataset",
            "seed": "another seed",
            "order": "another order (shuffle, indices, weights, repeats, ...)",
        }
        for key, belongs in what.items():
            mine, its = getattr(self, key), getattr(stream, key)
            if mine != its and not (key == "fingerprint" and mine in earlier):
                raise StateError(
                    f"the state belongs to {belongs}: its {key} is {mine}, and the loader's is {its}. Create the "
                    "loader with the arguments that it had when the state was taken, or begin without a state"
                )

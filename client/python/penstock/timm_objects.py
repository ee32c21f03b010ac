"""Reads objects of timm (pytorch-image-models): what timm's create_transform returns.

Objects are recognized by module and class, and their attributes are read; timm itself is never
imported. The daemon's TimmAutoAugment takes a string, so an object's operations are compared with
those that each string stands for (timm 1.0.31); an object that no string makes is refused.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any, Optional

from .errors import ArgumentError

__all__ = ["is_timm", "parameters"]

# Classes whose attributes have the names of the daemon's parameters, and the daemon's operations.
_SAME = {
    "RandomResizedCropAndInterpolation": "RandomResizedCrop",
    "ResizeKeepRatio": "ResizeKeepRatio",
    "CenterCropOrPad": "CenterCropOrPad",
    "RandomCropOrPad": "RandomCropOrPad",
    "MaybeToTensor": "ToTensor",
    "MaybePILToTensor": "PILToTensor",
    "ToNumpy": "PILToTensor",
}
_POLICIES = ("RandAugment", "AutoAugment", "AugMixAugment")

_ENHANCED = ("Color", "Contrast", "Brightness", "Sharpness")
_FIRST = ("AutoContrast", "Equalize", "Invert", "Rotate")
_LAST = ("ShearX", "ShearY", "TranslateXRel", "TranslateYRel")
_PLAIN = (*_FIRST, "Posterize", "Solarize", "SolarizeAdd", *_ENHANCED, *_LAST)
_INCREASING = (
    *_FIRST, "PosterizeIncreasing", "SolarizeIncreasing", "SolarizeAdd", *(f"{name}Increasing" for name in _ENHANCED), *_LAST
)
_AUGMIX = (
    "AutoContrast", "ColorIncreasing", "ContrastIncreasing", "BrightnessIncreasing", "SharpnessIncreasing", "Equalize", "Rotate",
    "PosterizeIncreasing", "SolarizeIncreasing", *_LAST,
)
_THREE = ("SolarizeIncreasing", "Desaturate", "GaussianBlur")
# Operations with their weights, by the end of the string.
_WEIGHTED = {
    "-tweights": {
        "Rotate": 3, "ShearX": 2, "ShearY": 2, "TranslateXRel": 1, "TranslateYRel": 1, "ColorIncreasing": 0.25,
        "SharpnessIncreasing": 0.25, "AutoContrast": 0.25, "SolarizeIncreasing": 0.05, "SolarizeAdd": 0.05,
        "ContrastIncreasing": 0.05, "BrightnessIncreasing": 0.05, "Equalize": 0.05, "PosterizeIncreasing": 0.05, "Invert": 0.05,
    },
    "-t3aw": {
        **dict.fromkeys(_THREE, 6), "Rotate": 3, "ShearX": 2, "ShearY": 2, "PosterizeIncreasing": 1, "AutoContrast": 1,
        "ColorIncreasing": 1, "SharpnessIncreasing": 1, "ContrastIncreasing": 1, "BrightnessIncreasing": 1, "Equalize": 1, "Invert": 1,
    },
}
# CRC-32 of the policies' operations, see _fingerprint.
_AUTO = {0x5B4C11ED: "v0", 0xC4DAB387: "v0r", 0xA019B41A: "original", 0x44B5FB8B: "originalr", 0xCB1FFFC5: "3a"}

_INSTEAD = '; to choose a policy yourself, write {"TimmAutoAugment": {"config": "rand-m9-mstd0.5-inc1"}}'


def is_timm(item: Any) -> bool:
    kind = type(item)
    if kind.__module__ == "timm.data.auto_augment":
        return kind.__name__ in _POLICIES
    if kind.__module__ == "timm.data.random_erasing":
        return kind.__name__ == "RandomErasing"
    return kind.__module__ == "timm.data.transforms" and kind.__name__ in _SAME


def parameters(item: Any, where: str) -> "tuple[str, Optional[dict[str, Any]]]":
    """The daemon's operation for an object, and its parameters; None: the attributes that have
    their names. Raises ArgumentError."""
    name = type(item).__name__
    if name in _SAME:
        return _SAME[name], None
    at = f"{where}: {name}"
    if name == "RandomErasing":
        return name, _erasing(item, at)
    return "TimmAutoAugment", _policy(item, name, at)


def _refuse(at: str, what: str) -> ArgumentError:
    return ArgumentError(f"{at}{what}")


def _erasing(item: Any, at: str) -> "dict[str, Any]":
    if item.rand_color:
        raise _refuse(at, ".mode: 'rand' is not supported: write mode='const' (zeros) or 'pixel' (noise)")
    if item.min_count != 1 or item.max_count != 1:
        raise _refuse(at, f".max_count: {item.max_count!r} is not supported: write max_count=1, for one rectangle an image")
    if item.num_splits > 1:
        raise _refuse(at, f".num_splits: {item.num_splits!r} is not supported: leave it out")
    ratio = [float(f"{math.exp(value):.12g}") for value in item.log_aspect_ratio]
    return {
        "p": item.probability,
        "scale": [item.min_area, item.max_area],
        "ratio": ratio,
        "value": "random" if item.per_pixel else 0,
    }


def _number(value: float) -> str:
    """As timm's strings have it: without an exponent."""
    return f"{float(value):.12f}".rstrip("0").rstrip(".")


def _common(ops: Sequence[Any], at: str) -> Any:
    """The first operation. All operations that timm makes of a string are alike but for their names
    and, in AutoAugment, their magnitudes and probabilities."""
    def told(op: Any) -> Any:
        pct = op.hparams.get("translate_pct")
        return op.magnitude_std, op.magnitude_max, repr(op.kwargs.get("fillcolor")), repr(op.kwargs.get("resample")), pct

    if not ops:
        raise _refuse(at, " has no operations")
    if any(told(op) != told(ops[0]) for op in ops):
        raise _refuse(at, f" has operations with different hparams, which no string of timm stands for{_INSTEAD}")
    return ops[0]


def _alike(ops: Sequence[Any], at: str) -> None:
    if any((op.magnitude, op.prob) != (ops[0].magnitude, ops[0].prob) for op in ops):
        raise _refuse(at, f" has operations with different magnitudes or probabilities, which no string of timm stands for{_INSTEAD}")
    if float(ops[0].magnitude) != int(ops[0].magnitude):
        raise _refuse(at, f": expected a whole magnitude, as in timm's strings, got {ops[0].magnitude!r}")


def _set_of(item: Any, names: "tuple[str, ...]", at: str) -> str:
    """The end of the string that says what RandAugment draws from."""
    if item.choice_weights is None:
        for end, known in (("", _PLAIN), ("-inc1", _INCREASING), ("-t3a", _THREE)):
            if names == tuple(known):
                return end
    for end, weighted in _WEIGHTED.items():
        if item.choice_weights is not None and names == tuple(weighted):
            total = sum(weighted.values())
            if all(abs(given - weight / total) < 1e-9 for given, weight in zip(item.choice_weights, weighted.values())):
                return end
    raise _refuse(at, f" draws from other operations than those of timm's strings: {', '.join(names)}{_INSTEAD}")


def _fingerprint(policy: Any) -> int:
    text = ";".join(",".join(f"{op.name} {float(op.prob)} {float(op.magnitude)}" for op in ops) for ops in policy)
    return zlib.crc32(text.encode())


def _auto(item: Any, at: str) -> "tuple[Any, str]":
    op = _common([op for ops in item.policy for op in ops], at)
    name = _AUTO.get(_fingerprint(item.policy))
    if name is None:
        raise _refuse(at, f" has another policy than v0, v0r, original, originalr and 3a{_INSTEAD}")
    return op, name + (f"-mstd{_number(op.magnitude_std)}" if op.magnitude_std else "")


def _rand(item: Any, at: str) -> "tuple[Any, str]":
    op = _common(item.ops, at)
    _alike(item.ops, at)
    std = 101 if math.isinf(op.magnitude_std) else op.magnitude_std
    config = f"rand-m{int(op.magnitude)}-n{item.num_layers}-p{_number(op.prob)}"
    config += (f"-mstd{_number(std)}" if std else "") + (f"-mmax{op.magnitude_max}" if op.magnitude_max else "")
    return op, config + _set_of(item, tuple(op.name for op in item.ops), at)


def _augmix(item: Any, at: str) -> "tuple[Any, str]":
    op = _common(item.ops, at)
    _alike(item.ops, at)
    names = tuple(op.name for op in item.ops)
    if names != _AUGMIX or op.prob != 1 or op.magnitude_max:
        raise _refuse(at, f" has other operations than those of timm's strings: {', '.join(names)}{_INSTEAD}")
    config = f"augmix-m{int(op.magnitude)}" + ("" if math.isinf(op.magnitude_std) else f"-mstd{_number(op.magnitude_std)}")
    return op, config + f"-w{item.width}-d{max(item.depth, 0)}-a{_number(item.alpha)}-b{int(bool(item.blended))}"


def _policy(item: Any, name: str, at: str) -> "dict[str, Any]":
    op, config = {"RandAugment": _rand, "AutoAugment": _auto, "AugMixAugment": _augmix}[name](item, at)
    return {
        "config": config,
        "interpolation": op.kwargs["resample"],
        "fill": op.kwargs["fillcolor"],
        "translate_pct": op.hparams.get("translate_pct", 0.45),
    }

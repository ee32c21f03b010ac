"""What a user passes as `Loader(transforms=[...])`, taken apart: what the daemon does, and what the loader does last.

The daemon crops, resizes and flips; turning its uint8 pixels into normalised floats is the loader's. Torchvision's
objects, of `torchvision.transforms` and of its `v2`, are known by their module and class, and what they say is read from
their attributes: torchvision itself is never imported. Anything else is refused here by a sentence that says how it is
applied to the batch instead; an image is never quietly treated otherwise than was asked for. Pixels are those that
torchvision makes of PIL images, also where the list begins with ToImage (of tensors it makes others, by a step of 1).

Numbers, and the order of the daemon's operations, are judged by the daemon (penstock.yaml(5), transforms), which has the
only table of what is allowed: its refusal reaches the user as an ArgumentError too.
"""

from __future__ import annotations

import difflib
import json
import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, Optional

from .errors import ArgumentError
from .mixing import Erase, Mix

__all__ = ["Plan", "plan"]


@dataclass(frozen=True)
class Plan:
    """What a list of transforms comes to.

    `json` is options.transforms; None: what `train` implies. `size` is the side of the images that the list makes, None
    where nothing was given or it cannot be told. `dtype` is "uint8", "float32", "float16" or "bfloat16", None: the list does
    not say (the loader's default). `mean` and `std` belong to floats, per channel, as (x / 255 - mean) / std, computed in
    float32 and rounded once to what is shorter; None: the list does not make floats. `erase` is RandomErasing behind
    Normalize, `mix` v2.MixUp and v2.CutMix at the end: the loader does them to batches (mixing.py).
    """

    json: Optional[str] = None
    mean: Optional[tuple[float, float, float]] = None
    std: Optional[tuple[float, float, float]] = None
    dtype: Optional[str] = None
    size: Optional[int] = None
    erase: Optional[Erase] = None
    mix: Optional[Mix] = None


def plan(transforms: Any) -> Plan:
    """Takes `transforms` apart. None, or an object, a name, or a list of those. Raises ArgumentError."""
    if transforms is None:
        return Plan()
    reader = _Reader()
    reader.take(transforms, "transforms")
    return reader.plan()


# What the daemon does, and the parameters that are read of each.
_OPERATIONS: dict[str, tuple[str, ...]] = {
    "RandomResizedCrop": ("size", "scale", "ratio", "interpolation", "antialias"),
    "Resize": ("size", "interpolation", "antialias"),
    "CenterCrop": ("size",),
    "RandomHorizontalFlip": ("p",),
    "RandomVerticalFlip": ("p",),
}

# What torchvision's objects have besides, and the value that leaves it out.
_UNUSED: dict[str, dict[str, Any]] = {"Resize": {"max_size": None}}

# What the loader does, for messages and for our own names.
_CONVERSIONS: dict[str, tuple[str, ...]] = {
    "ToTensor": (),
    "ToImage": (),
    "PILToTensor": (),
    "ToPureTensor": (),
    "ToDtype": ("dtype", "scale"),
    "ConvertImageDtype": ("dtype",),
    "Normalize": ("mean", "std"),
}

# Of torchvision, and done anyway: images are RGB.
_NOTHING = ("Identity", "RGB")

_DTYPES = ("uint8", "float32", "float16", "bfloat16")
_FILTERS = ("bilinear", "bicubic", "box", "hamming", "lanczos", "nearest")

# InterpolationMode.NEAREST_EXACT is Pillow's NEAREST too; numbers are Pillow's own.
_FILTER_ALIASES: dict[Any, str] = {
    "nearest-exact": "nearest",
    0: "nearest",
    1: "lanczos",
    2: "bilinear",
    3: "bicubic",
    4: "box",
    5: "hamming",
}

_SUPPORTED = (
    ", ".join(_OPERATIONS)
    + "; behind them "
    + ", ".join(_CONVERSIONS)
    + "; Compose, and the transforms() of torchvision's weights for classification"
)


def _is_torchvision(item: Any) -> bool:
    module = type(item).__module__
    return module == "torchvision.transforms" or module.startswith("torchvision.transforms.")


def _refuse(where: str, what: str) -> ArgumentError:
    return ArgumentError(f"{where}: {what}")


def _unsupported(item: Any, where: str) -> ArgumentError:
    """For what cannot be read at all. The line of code works on the tensor that the loader yields."""
    kind = type(item)
    if isinstance(item, type):
        return _refuse(where, f"{item.__name__} is a class, not a transform: write {item.__name__}(...)")
    if _is_torchvision(item):
        what = f"{kind.__module__}.{kind.__name__} is not supported"
        line = f"images = v2.{kind.__name__}(...)(images)"
    elif callable(item):
        name = getattr(item, "__name__", "") or f"an object of {kind.__module__}.{kind.__qualname__}"
        what = f"{'a lambda' if name == '<lambda>' else name} cannot be run in the daemon"
        line = "images = f(images)"
    else:
        what = f"an object of {kind.__module__}.{kind.__qualname__} is no transform"
        return _refuse(where, f"{what}; supported are {_SUPPORTED}")
    return _refuse(where, f"{what}; {_on_the_batch(line)}")


def _on_the_batch(line: str) -> str:
    return (
        f"supported are {_SUPPORTED}. Apply it to the batch instead: leave it out of transforms, and in the loop write "
        f"`{line}` (from torchvision.transforms import v2; torchvision draws once for the whole batch, and "
        'changes of colour want pixels that are not normalised: dtype="uint8")'
    )


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise _refuse(where, f"expected a number, got {value!r}")
    return float(value)


def _pair(value: Any, where: str) -> list[float]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence) or len(value) != 2:
        raise _refuse(where, f"expected two numbers, the least and the most, got {value!r}")
    return [_number(part, where) for part in value]


def _side(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise _refuse(where, f"expected a whole number of pixels, or (height, width), got {value!r}")
    return int(value)


def _size(value: Any, where: str) -> Any:
    """An int stays one: Resize(232) means the shorter side, Resize((232, 232)) both. A list of one is an int to
    torchvision."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        return _side(value, where)
    sides = [_side(part, where) for part in value]
    if len(sides) == 1:
        return sides[0]
    if len(sides) != 2:
        raise _refuse(where, f"expected a whole number of pixels, or (height, width), got {value!r}")
    return sides


def _interpolation(value: Any, where: str) -> str:
    name = getattr(value, "value", value)
    if not isinstance(name, bool) and isinstance(name, (str, int)):
        name = _FILTER_ALIASES.get(name, name)
    if name not in _FILTERS:
        raise _refuse(where, f"expected one of {', '.join(_FILTERS)}, got {value!r}")
    return str(name)


def _antialias(value: Any, where: str) -> bool:
    """Images are resized as Pillow does it, which is always with antialiasing: torchvision's None and "warn" mean that for
    them."""
    if value is None or value is True or value == "warn":
        return True
    raise _refuse(
        where,
        f"{value!r} is not supported: images are always resized with antialiasing, as torchvision does with PIL images; "
        "write antialias=True, or crop and resize the batch instead: `images = v2.Resize(size, antialias=False)(images)`",
    )


_VALUES: dict[str, Callable[[Any, str], Any]] = {
    "size": _size,
    "scale": _pair,
    "ratio": _pair,
    "interpolation": _interpolation,
    "antialias": _antialias,
    "p": _number,
}


def _dtype(value: Any, where: str) -> str:
    """A torch.dtype, a NumPy one, or its name."""
    name = str(getattr(value, "name", None) or value)
    name = name[len("torch.") :] if name.startswith("torch.") else name
    if name not in _DTYPES:
        raise _refuse(
            where,
            f"expected one of {', '.join(_DTYPES)}, got {value!r}; convert the batch instead: `images = images.to(...)`",
        )
    return name


def _channels(value: Any, where: str) -> tuple[float, float, float]:
    """Three numbers, or one for all channels; lists, tuples, arrays, tensors."""
    listed = value.tolist() if hasattr(value, "tolist") else value
    parts = [listed] if isinstance(listed, numbers.Real) else listed
    if isinstance(parts, (str, bytes)) or not isinstance(parts, Iterable):
        raise _refuse(where, f"expected three numbers, one per channel, got {value!r}")
    read = [_number(part, where) for part in parts]
    if len(read) == 1:
        read *= 3
    if len(read) != 3:
        raise _refuse(where, f"expected three numbers, one per channel, got {len(read)}: images have three channels")
    return read[0], read[1], read[2]


class _Reader:
    """Walks the list. Where it stands: images (Pillow's, or uint8 tensors of the same values), floats of 0 to 1, or
    normalised floats."""

    def __init__(self) -> None:
        self.operations: list[dict[str, dict[str, Any]]] = []
        self.dtype: Optional[str] = None
        self.mean: Optional[tuple[float, float, float]] = None
        self.std: Optional[tuple[float, float, float]] = None
        self.size: Optional[int] = None

    def plan(self) -> Plan:
        if not self.operations:
            raise ArgumentError(
                "transforms has nothing that makes all images one size: begin with RandomResizedCrop(224), or with "
                "Resize(256) and CenterCrop(224); or leave transforms out for what `train` implies"
            )
        mean, std = self.mean, self.std
        if self._floats() and mean is None:
            mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
        return Plan(json.dumps(self.operations), mean, std, self.dtype, self.size)

    def _floats(self) -> bool:
        return self.dtype not in (None, "uint8")

    def take(self, item: Any, where: str) -> None:
        if isinstance(item, str):
            self._own(item, {}, where)
        elif isinstance(item, Mapping):
            self._mapping(item, where)
        elif isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) and isinstance(item[1], Mapping):
            self._own(item[0], item[1], where)
        elif isinstance(item, (list, tuple)):
            self._all(item, where)
        else:
            self._object(item, where)

    def _all(self, items: Iterable[Any], where: str) -> None:
        for i, item in enumerate(items):
            self.take(item, f"{where}[{i}]")

    def _mapping(self, item: Mapping[Any, Any], where: str) -> None:
        if len(item) != 1:
            raise _refuse(where, f'expected one operation, such as {{"CenterCrop": {{"size": 224}}}}, got {len(item)}')
        ((name, parameters),) = item.items()
        if parameters is not None and not isinstance(parameters, Mapping):
            raise _refuse(f"{where}: {name}", f"expected a mapping of its parameters, got {parameters!r}")
        self._own(name, parameters or {}, where)

    def _own(self, name: Any, parameters: Mapping[str, Any], where: str) -> None:
        known = _OPERATIONS.get(name) if isinstance(name, str) else None
        if known is None and isinstance(name, str):
            known = _CONVERSIONS.get(name)
        if known is None:
            near = difflib.get_close_matches(str(name), (*_OPERATIONS, *_CONVERSIONS), n=1, cutoff=0.85)
            if near:
                raise _refuse(where, f"there is no {name!r}: did you mean {near[0]!r}?")
            raise _refuse(where, f"{name!r} is not supported; {_on_the_batch(f'images = v2.{name}(...)(images)')}")
        for key in parameters:
            if key not in known:
                what = f"its parameters are {', '.join(known)}" if known else "it has no parameters"
                raise _refuse(f"{where}: {name}", f"there is no parameter {key!r}; {what}")
        if name in _OPERATIONS:
            self._operation(name, parameters, where)
        else:
            self._convert(name, parameters, where)

    def _object(self, item: Any, where: str) -> None:
        name, module = type(item).__name__, type(item).__module__
        if name == "Sequential" and module.startswith("torch.nn."):
            self._all(item, where)
        elif not _is_torchvision(item):
            raise _unsupported(item, where)
        elif name == "Compose":
            self._all(item.transforms, where)
        elif name == "ImageClassification":
            self._preset(item, where)
        elif name in _OPERATIONS:
            self._operation(name, self._attributes(item, name, where), where)
        elif name in _CONVERSIONS:
            self._convert(name, {key: getattr(item, key) for key in _CONVERSIONS[name] if hasattr(item, key)}, where)
        elif name not in _NOTHING:
            raise _unsupported(item, where)

    @staticmethod
    def _attributes(item: Any, name: str, where: str) -> dict[str, Any]:
        for key, value in _UNUSED.get(name, {}).items():
            if getattr(item, key, value) != value:
                line = f"images = v2.{name}(..., {key}={getattr(item, key)!r})(images)"
                raise _refuse(f"{where}: {name}.{key}", f"{getattr(item, key)!r} is not supported; {_on_the_batch(line)}")
        return {key: getattr(item, key) for key in _OPERATIONS[name] if hasattr(item, key)}

    def _preset(self, item: Any, where: str) -> None:
        """What torchvision's weights evaluate with: an nn.Module with its own names for it all."""
        resize = {"size": item.resize_size, "interpolation": item.interpolation, "antialias": item.antialias}
        self._operation("Resize", resize, where)
        self._operation("CenterCrop", {"size": item.crop_size}, where)
        self._convert("ConvertImageDtype", {"dtype": "float32"}, where)
        self._convert("Normalize", {"mean": item.mean, "std": item.std}, where)

    def _operation(self, name: str, parameters: Mapping[str, Any], where: str) -> None:
        if "interpolation" in _OPERATIONS[name] and self._floats():
            raise _refuse(
                where, f"{name} comes after a conversion to floats; put it before: images are resized as Pillow resizes them"
            )
        values = {key: _VALUES[key](value, f"{where}: {name}.{key}") for key, value in parameters.items()}
        self.operations.append({name: values})
        size = values.get("size")
        if size is None:
            return
        if isinstance(size, int):
            size = [size, size] if name != "Resize" else [0, 1]
        self.size = size[0] if size[0] == size[1] else None

    def _convert(self, name: str, parameters: Mapping[str, Any], where: str) -> None:
        if name == "Normalize":
            self._normalize(parameters, where)
        elif name in ("ToDtype", "ConvertImageDtype"):
            self._to_dtype(name, parameters, where)
        elif name == "ToTensor":
            self._become("float32", name, where)
        elif not self._floats():
            self.dtype = "uint8"

    def _to_dtype(self, name: str, parameters: Mapping[str, Any], where: str) -> None:
        at = f"{where}: {name}"
        if "dtype" not in parameters and name == "ToDtype":
            raise _refuse(at, "dtype is missing")
        dtype = _dtype(parameters.get("dtype", "float32"), f"{at}.dtype")
        scaled = name == "ConvertImageDtype" or parameters.get("scale", False) is True
        if dtype != "uint8" and not scaled and not self._floats():
            raise _refuse(
                f"{at}.scale",
                "expected scale=True, so that floats are 0 to 1; for floats of 0 to 255 leave it out and write "
                f"`images = images.to(torch.{dtype})` in the loop",
            )
        self._become(dtype, name, where)

    def _become(self, dtype: str, name: str, where: str) -> None:
        if dtype == "uint8" and self._floats():
            raise _refuse(where, f"{name} to uint8 comes after a conversion to floats; leave either out")
        self.dtype = dtype

    def _normalize(self, parameters: Mapping[str, Any], where: str) -> None:
        for key in ("mean", "std"):
            if key not in parameters:
                raise _refuse(f"{where}: Normalize", f"{key} is missing")
        if not self._floats():
            raise _refuse(
                where,
                "Normalize needs floats of 0 to 1: put ToTensor() before it, or v2.ToDtype(torch.float32, scale=True)",
            )
        if self.mean is not None:
            raise _refuse(where, "Normalize is there twice; merge the two")
        mean = _channels(parameters["mean"], f"{where}: Normalize.mean")
        std = _channels(parameters["std"], f"{where}: Normalize.std")
        if 0.0 in std:
            raise _refuse(f"{where}: Normalize.std", "expected three numbers other than 0")
        self.mean, self.std = mean, std

"""Splits `Loader(transforms=[...])` into the daemon's part and the loader's part.

The daemon crops, resizes, and changes colors and shapes. The loader converts its uint8 pixels into
normalized floats and does what follows: RandomErasing after ToTensor or Normalize, MixUp and
CutMix. Objects of `torchvision.transforms` and of its `v2` are recognized by module and class, and
their attributes are read; torchvision itself is never imported. Anything else is refused here, and
the error says what to write instead (advice.py): penstock never silently does something else than
the list says. A sizing operation without a size gets the loader's image_size. Pixels are those that
torchvision produces from PIL images, even if the list begins with ToImage (torchvision's results
for tensors differ by at most 1).

The daemon checks numbers and the order of its operations (penstock.yaml(5), transforms), because it
has the only table of what is allowed. The user gets its refusal as an ArgumentError too.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, Optional, Tuple

import numpy as np

from . import advice, checks, timm_objects
from .errors import ArgumentError
from .functions import reading
from .functions.reading import Function
from .mixing import MOST_CLASSES, Erase, Mix

__all__ = ["Plan", "plan"]


@dataclass(frozen=True)
class Plan:
    """The result of reading a list of transforms.

    `json` is options.transforms; None: `train` decides. `size` is (height, width) of the images that
    the list produces, or None if there is no list or the size is unknown. `dtype` is "uint8",
    "float32", "float16" or "bfloat16", or None if the list does not say (the loader's default).
    `mean` and `std`, per channel, are for floats: (x / 255 - mean) / std, computed in float32 and
    rounded once to a shorter type; None: the list does not produce floats. `erase` is RandomErasing
    after ToTensor or Normalize, and `mix` is MixUp and CutMix at the end: the loader applies both
    to batches (mixing.py). The daemon does RandomErasing of uint8, which is in `json`. `functions`
    are the user's; the loader applies them to each row before the conversion (functions/).
    """

    json: Optional[str] = None
    mean: Optional[tuple[float, float, float]] = None
    std: Optional[tuple[float, float, float]] = None
    dtype: Optional[str] = None
    size: Optional[Tuple[int, int]] = None
    erase: Optional[Erase] = None
    mix: Optional[Mix] = None
    functions: Tuple[Function, ...] = ()


def plan(transforms: Any, size: Optional[Tuple[int, int]] = None, where: str = "transforms") -> Plan:
    """Reads `transforms`: None, an object, a name, or a list of those. `size` is (height, width)
    for sizing operations that have none; None: they are the daemon's to refuse. Raises
    ArgumentError."""
    if transforms is None:
        return Plan()
    reader = _Reader(size)
    try:
        reader.take(transforms, where)
        return reader.plan()
    except RecursionError:
        raise ArgumentError(
            "transforms: lists are nested too deeply, or a list contains itself: write one flat list"
        ) from None


# The daemon's operations, with the parameters that are read: those that give images a size, which
# is the loader's if it is left out; those that change it otherwise; flips; and the others.
_SIZINGS: dict[str, tuple[str, ...]] = {
    "RandomResizedCrop": ("size", "scale", "ratio", "interpolation", "antialias"),
    "Resize": ("size", "interpolation", "antialias", "max_size"),
    "CenterCrop": ("size",),
    "RandomCrop": ("size", "padding", "pad_if_needed", "fill", "padding_mode"),
    "CenterCropOrPad": ("size", "fill", "padding_mode"),
    "RandomCropOrPad": ("size", "fill", "padding_mode"),
}
_RESIZINGS: dict[str, tuple[str, ...]] = {
    "Pad": ("padding", "fill", "padding_mode"),
    "RandomResize": ("min_size", "max_size", "interpolation", "antialias"),
    "ScaleJitter": ("target_size", "scale_range", "interpolation", "antialias"),
    "RandomShortestSize": ("min_size", "max_size", "interpolation", "antialias"),
    "RandomZoomOut": ("fill", "side_range", "p"),
    "ResizeKeepRatio": (
        "size", "longest", "interpolation", "random_scale_prob", "random_scale_range", "random_scale_area",
        "random_aspect_prob", "random_aspect_range",
    ),
}
_FLIPS: dict[str, tuple[str, ...]] = {"RandomHorizontalFlip": ("p",), "RandomVerticalFlip": ("p",)}
_STEPS: dict[str, tuple[str, ...]] = {
    "ColorJitter": ("brightness", "contrast", "saturation", "hue"),
    "Grayscale": ("num_output_channels",),
    "RandomGrayscale": ("p",),
    "GaussianBlur": ("kernel_size", "sigma", "radius"),
    "RandomSolarize": ("threshold", "p"),
    "RandomPosterize": ("bits", "p"),
    "RandomEqualize": ("p",),
    "RandomAutocontrast": ("p",),
    "RandomInvert": ("p",),
    "RandomAdjustSharpness": ("sharpness_factor", "p"),
    "RandomAffine": ("degrees", "translate", "scale", "shear", "interpolation", "fill", "center"),
    "RandomRotation": ("degrees", "interpolation", "expand", "center", "fill"),
    "RandomPerspective": ("distortion_scale", "p", "interpolation", "fill"),
    "RandAugment": ("num_ops", "magnitude", "num_magnitude_bins", "interpolation", "fill"),
    "TrivialAugmentWide": ("num_magnitude_bins", "interpolation", "fill"),
    "AutoAugment": ("policy", "interpolation", "fill"),
    "AugMix": ("severity", "mixture_width", "chain_depth", "alpha", "all_ops", "interpolation", "fill"),
    "ThreeAugment": (),
    "TimmAutoAugment": ("config", "interpolation", "fill", "translate_pct"),
}
_OPERATIONS: dict[str, tuple[str, ...]] = {
    **_SIZINGS,
    **_RESIZINGS,
    **_FLIPS,
    **_STEPS,
    "RandomErasing": ("p", "scale", "ratio", "value"),
}

# Transforms that contain others.
_HOLDERS: dict[str, tuple[str, ...]] = {
    "RandomApply": ("transforms", "p"),
    "RandomChoice": ("transforms", "p"),
    "RandomOrder": ("transforms",),
}

# The loader's operations on whole batches, which come last.
_MIXES: dict[str, tuple[str, ...]] = {"MixUp": ("alpha", "num_classes"), "CutMix": ("alpha", "num_classes")}

# An operation without effect, for a list that must not be empty.
_NOTHING_AT_ALL: dict[str, dict[str, Any]] = {"RandomHorizontalFlip": {"p": 0.0}}

# The name of an item that is a function of the user, which the loader runs.
_FUNCTION = "a function"

# Conversions, which the loader does.
_CONVERSIONS: dict[str, tuple[str, ...]] = {
    "ToTensor": (),
    "ToImage": (),
    "PILToTensor": (),
    "ToPureTensor": (),
    "ToDtype": ("dtype", "scale"),
    "ConvertImageDtype": ("dtype",),
    "Normalize": ("mean", "std"),
}

# Transforms of torchvision without effect here: images are always RGB.
_NOTHING = ("Identity", "RGB")

_MOST_FLOAT = 3.4028234663852886e38  # FLT_MAX

_DTYPES = ("uint8", "float32", "float16", "bfloat16")
_FILTERS = ("bilinear", "bicubic", "box", "hamming", "lanczos", "nearest", "random")

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

def _is_torchvision(item: Any) -> bool:
    module = type(item).__module__
    return module == "torchvision.transforms" or module.startswith("torchvision.transforms.")


def _is_derived(item: Any) -> bool:
    """Whether its class, or one that it is derived from, is torchvision's: v2's transforms pass
    arrays of NumPy on without a change and without an error."""
    return any(kind.__module__.startswith("torchvision.transforms") for kind in type(item).__mro__)


def _refuse(where: str, what: str) -> ArgumentError:
    return ArgumentError(f"{where}: {what}")


def _unsupported(item: Any, where: str) -> ArgumentError:
    """The error for an object that cannot be read. It says what to write instead."""
    kind = type(item)
    if isinstance(item, type):
        return _refuse(where, f"{item.__name__} is a class, not a transform: write {item.__name__}(...)")
    if _is_torchvision(item):
        what = f"{kind.__module__}.{kind.__name__} is not supported"
        return _refuse(where, f"{what}: {advice.instead(kind.__name__) or advice.LISTED}")
    elif kind.__module__ == "timm.data.transforms" and advice.instead(kind.__name__):
        return _refuse(where, f"{kind.__module__}.{kind.__name__} is not supported: {advice.instead(kind.__name__)}")
    elif kind.__name__ in (*_OPERATIONS, *_HOLDERS, *_CONVERSIONS, *_MIXES):
        name = f"{kind.__module__}.{kind.__qualname__}"
        own = f'("{kind.__name__}", {{...}})'
        return _refuse(
            where,
            f"{name} has the name of an operation of torchvision, but is another class: if it does the same, write "
            f"torchvision's or {own}; otherwise wrap it in a function of a row, a uint8 array (height, width, 3), at the end: "
            "def f(row): ...",
        )
    elif _is_derived(item):
        return _refuse(
            where,
            f"{kind.__module__}.{kind.__qualname__} is derived from a transform of torchvision, which takes PIL images or "
            "tensors: wrap it in a function of a row, a uint8 array (height, width, 3), at the end: "
            "lambda row: np.asarray(t(PIL.Image.fromarray(row)))",
        )
    return _refuse(where, f"an object of {kind.__module__}.{kind.__qualname__} is not a transform; {advice.LISTED}")


def _number(value: Any, where: str) -> float:
    try:
        if not isinstance(value, bool) and isinstance(value, numbers.Real) and math.isfinite(value):
            return float(value)
    except OverflowError:  # an int that no float can hold
        pass
    raise _refuse(where, f"expected a number, got {checks.shown(value)}")


def _probability(value: Any, where: str) -> float:
    read = _number(value, where)
    if not 0 <= read <= 1:
        raise _refuse(where, f"expected a probability from 0 to 1, got {value!r}")
    return read


def _pair(value: Any, where: str) -> list[float]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence) or len(value) != 2:
        raise _refuse(where, f"expected two numbers, minimum and maximum, got {value!r}")
    return [_number(part, where) for part in value]


def _side(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise _refuse(where, f"expected a whole number of pixels, or (height, width), got {value!r}")
    return int(value)


def _size(value: Any, where: str) -> Any:
    """An int stays an int: Resize(232) means the shorter side, Resize((232, 232)) both sides. For
    torchvision, a list with one number is an int."""
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
    if isinstance(value, (tuple, list)):
        # timm's "random": a pair of torchvision's or of Pillow's filters.
        parts = sorted(_interpolation(part, where) for part in value)
        name = "random" if parts == ["bicubic", "bilinear"] else value
    if not isinstance(name, bool) and isinstance(name, (str, int)):
        name = _FILTER_ALIASES.get(name, name)
    if not isinstance(name, str) or name not in _FILTERS:
        raise _refuse(where, f"expected one of {', '.join(_FILTERS)}, got {value!r}")
    return str(name)


def _antialias(value: Any, where: str) -> bool:
    """Images are resized as in Pillow, which always uses antialiasing. torchvision's None and
    "warn" mean that for PIL images."""
    if value is None or value is True or value == "warn":
        return True
    raise _refuse(
        where,
        f"{value!r} is not supported: penstock always resizes with antialiasing, like torchvision with PIL images; "
        'write antialias=True (with interpolation="nearest" no pixels are averaged)',
    )


def _scalar(value: Any) -> Any:
    """A number, a flag or a word as JSON has it; None for anything else."""
    if isinstance(value, (bool, str)):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if isinstance(value, numbers.Real) and math.isfinite(value) else None


def _plain(value: Any, where: str) -> Any:
    """Numbers, flags, words, and lists of those. The daemon checks what is allowed. An enum member
    counts as its value."""
    value = value.tolist() if hasattr(value, "tolist") else value
    value = value.value if isinstance(value, enum.Enum) else value
    listed = isinstance(value, (list, tuple))
    parts = [_scalar(part) for part in (value if listed else [value])]
    if None in parts:
        raise _refuse(where, f"expected a number, a list of numbers or a word, got {value!r}")
    return parts if listed else parts[0]


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _fill(value: Any, where: str) -> Any:
    """v2 keeps whole numbers as int or as float. A list with one number is a number."""
    if isinstance(value, Mapping):
        raise _refuse(where, f"expected one number or three, got {value!r}: penstock has images only")
    read = _plain(value, where)
    parts = [_whole(part) for part in (read if isinstance(read, list) else [read])]
    return parts[0] if len(parts) == 1 else parts


def _sigma(value: Any, where: str) -> Any:
    """For torchvision, a list with one number means a range of that number."""
    read = _plain(value, where)
    return read[0] if isinstance(read, list) and len(read) == 1 else read


def _value(value: Any, where: str) -> Any:
    """RandomErasing.value: v2 stores "random" as None."""
    return "random" if value is None or value == "random" else _fill(value, where)


# Readers of parameters, by operation and parameter or by parameter; _plain reads all others.
_VALUES: dict[str, Callable[[Any, str], Any]] = {
    "size": _size,
    "RandomResizedCrop.scale": _pair,
    "RandomResizedCrop.ratio": _pair,
    "RandomErasing.scale": _pair,
    "RandomErasing.ratio": _pair,
    "ResizeKeepRatio.size": _size,
    "target_size": _size,
    "scale_range": _pair,
    "side_range": _pair,
    "random_scale_range": _pair,
    "random_aspect_range": _pair,
    "interpolation": _interpolation,
    "antialias": _antialias,
    "p": _number,
    "RandomChoice.p": _plain,
    "fill": _fill,
    "sigma": _sigma,
    "value": _value,
}

# Parameters for which None has a meaning.
_NONES = ("antialias", "value")


def _values(name: str, parameters: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The parameters as JSON. For the other parameters, None means the default."""
    read = {}
    for key, value in parameters.items():
        reader = _VALUES.get(f"{name}.{key}") or _VALUES.get(key) or _plain
        if value is not None or key in _NONES:
            read[key] = reader(value, f"{where}: {name}.{key}")
    return read


def _dtype(value: Any, where: str) -> str:
    """Reads a dtype of torch or NumPy, or its name."""
    name = str(getattr(value, "name", None) or value)
    name = name[len("torch.") :] if name.startswith("torch.") else name
    if name not in _DTYPES:
        raise _refuse(
            where,
            f"expected one of {', '.join(_DTYPES)}, got {value!r}; convert the batch instead: `images = "
            "images.to(...)`",
        )
    return name


def _channels(value: Any, where: str) -> tuple[float, float, float]:
    """Reads three numbers, or one for all channels, from a list, tuple, array or tensor."""
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


def _attributes(item: Any, name: str, known: Sequence[str], where: str) -> dict[str, Any]:
    """The parameters of an object of torchvision."""
    read = {key: getattr(item, key) for key in known if hasattr(item, key)}
    if name == "RandomCrop" and ".v2" in type(item).__module__ and isinstance(read.get("padding"), list):
        left, right, top, bottom = read["padding"]  # v2's attribute has another order than its parameter
        read["padding"] = [left, top, right, bottom]
    return read


def _check_parameters(name: str, known: Sequence[str], parameters: Mapping[Any, Any], where: str) -> None:
    for key in parameters:
        if key not in known:
            what = f"its parameters are {', '.join(known)}" if known else "it has no parameters"
            raise _refuse(f"{where}: {name}", f"there is no parameter {key!r}; {what}")


def _known(name: Any) -> Optional[Sequence[str]]:
    """The names of an operation's parameters; None if there is no such operation."""
    for table in (_OPERATIONS, _HOLDERS, _CONVERSIONS, _MIXES):
        if isinstance(name, str) and name in table:
            return table[name]
    return None


def _is_sequence(item: Any) -> bool:
    """Whether the item is a sequence of transforms, which are applied one after the other."""
    kind = type(item)
    sequential = kind.__name__ in ("Sequential", "ModuleList") and kind.__module__.startswith("torch.nn.")
    return sequential or isinstance(item, list) or (_is_torchvision(item) and kind.__name__ == "Compose")


def _is_pair(item: Any) -> bool:
    """Whether the item is a name with parameters: ("CenterCrop", {"size": 224})."""
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) and isinstance(item[1], Mapping)


@dataclass(frozen=True)
class _Item:
    """One transform: its name, which is known, and its parameters, as they were passed."""

    name: str
    parameters: Mapping[str, Any]
    where: str


def _single(item: Mapping[Any, Any], where: str) -> "tuple[Any, Mapping[str, Any]]":
    """The name and the parameters in {"CenterCrop": {"size": 224}}."""
    if len(item) != 1:
        raise _refuse(where, f'expected one operation, such as {{"CenterCrop": {{"size": 224}}}}, got {len(item)}')
    ((name, parameters),) = item.items()
    if parameters is not None and not isinstance(parameters, Mapping):
        raise _refuse(f"{where}: {name}", f"expected a dict of its parameters, got {parameters!r}")
    return name, parameters or {}


def _named(name: Any, parameters: Mapping[str, Any], where: str) -> _Item:
    known = _known(name)
    if known is None:
        near = checks.nearest(str(name), (*_OPERATIONS, *_HOLDERS, *_CONVERSIONS, *_MIXES), 0.85)
        told = advice.instead(str(name))
        if near and told is None:
            raise _refuse(where, f"there is no {name!r}: did you mean {near[0]!r}?")
        raise _refuse(where, f"{checks.shown(name)} is not supported: {told or advice.LISTED}")
    _check_parameters(name, known, parameters, where)
    return _Item(name, parameters, where)


def _of_timm(item: Any, where: str) -> _Item:
    name, read = timm_objects.parameters(item, where)
    if read is None:
        read = _attributes(item, name, _known(name) or (), where)
    return _Item(name, read, where)


def _function(item: Any) -> Optional[Callable[..., Any]]:
    """The function that the item is, or that torchvision's Lambda holds; None if it is none of these."""
    kind = type(item)
    if _is_torchvision(item):
        every = getattr(item, "types", (object,)) == (object,)
        return item.lambd if kind.__name__ == "Lambda" and every and callable(item.lambd) else None
    ours = kind.__module__ == "timm.data.transforms" and advice.instead(kind.__name__)
    named = kind.__name__ in (*_OPERATIONS, *_HOLDERS, *_CONVERSIONS, *_MIXES)
    return None if ours or named or isinstance(item, type) or _is_derived(item) or not callable(item) else item


def _object(item: Any, where: str) -> Optional[_Item]:
    """Reads an object. None if it has no effect."""
    name = type(item).__name__
    if timm_objects.is_timm(item):
        return _of_timm(item, where)
    known = _known(name)
    copied = advice.copied(item)
    if copied:
        raise _refuse(where, copied)
    function = _function(item)
    if function is not None:
        return _Item(_FUNCTION, {"function": function}, where)
    if not _is_torchvision(item) or (known is None and name not in _NOTHING):
        raise _unsupported(item, where)
    return None if known is None else _Item(name, _attributes(item, name, known, where), where)


def _items(given: Any, where: str) -> "Iterable[_Item]":
    """All transforms in a list and in the lists within it."""
    if _is_sequence(given) or (isinstance(given, tuple) and not _is_pair(given)):
        listed = given.transforms if type(given).__name__ == "Compose" else given
        for i, item in enumerate(listed):
            yield from _items(item, f"{where}[{i}]")
    elif isinstance(given, str):
        yield _named(given, {}, where)
    elif isinstance(given, Mapping):
        yield _named(*_single(given, where), where)
    elif isinstance(given, tuple):
        yield _named(given[0], given[1], where)
    elif _is_torchvision(given) and type(given).__name__ == "ImageClassification":
        yield from _preset(given, where)
    else:
        item = _object(given, where)
        if item is not None:
            yield item


def _preset(item: Any, where: str) -> "Iterable[_Item]":
    """Reads the transforms() of torchvision's weights: an nn.Module with its own attribute
    names."""
    resize = {"size": item.resize_size, "interpolation": item.interpolation, "antialias": item.antialias}
    yield _Item("Resize", resize, where)
    yield _Item("CenterCrop", {"size": item.crop_size}, where)
    yield _Item("ConvertImageDtype", {"dtype": "float32"}, where)
    yield _Item("Normalize", {"mean": item.mean, "std": item.std}, where)


def _members(item: _Item) -> "list[tuple[list[_Item], str]]":
    """The contents of an operation that contains others: for each of its transforms, a list of
    items, which may be empty, and where it is."""
    given = item.parameters.get("transforms")
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise _refuse(f"{item.where}: {item.name}.transforms", f"expected a list of transforms, got {given!r}")
    places = [(part, f"{item.where}: {item.name}[{i}]") for i, part in enumerate(given)]
    return [(list(_items(part, where)), where) for part, where in places]


def _operation(item: _Item) -> dict[str, dict[str, Any]]:
    """The operation in the form that the daemon reads."""
    if item.name not in _HOLDERS:
        return {item.name: _values(item.name, item.parameters, item.where)}
    one_each = item.name != "RandomApply"  # the contents of a Compose are applied together
    held: list[dict[str, dict[str, Any]]] = []
    for parts, where in _members(item):
        inner = [_inner(part) for part in parts]
        if one_each and len(inner) != 1:
            together = {"RandomApply": {"transforms": inner, "p": 1.0}}
            inner = [together if inner else _NOTHING_AT_ALL]
        held += inner
    others = {key: value for key, value in item.parameters.items() if key != "transforms"}
    return {item.name: {"transforms": held, **_values(item.name, others, item.where)}}


def _inner(item: _Item) -> dict[str, dict[str, Any]]:
    if item.name == _FUNCTION:
        name = reading.name_of(item.parameters["function"])
        raise _refuse(
            item.where,
            f"{name} is inside another transform, which the daemon applies, and functions run in this process: put it at the "
            "end of the list, and let it draw whether it does anything: def f(row, generator): ...",
        )
    if item.name in _CONVERSIONS or item.name in _MIXES:
        raise _refuse(
            item.where, f"{item.name} cannot be inside another transform, because it applies to all images or to none"
        )
    return _operation(item)


def _resizes(operation: Mapping[str, Any]) -> bool:
    """Whether the size behind it is the daemon's to find out."""
    ((name, parameters),) = operation.items()
    held = parameters.get("transforms", ())
    return name in (*_SIZINGS, *_RESIZINGS) or bool(parameters.get("expand")) or any(map(_resizes, held))


def _holds_mixes(item: _Item) -> bool:
    return any(part.name in _MIXES for parts, _ in _members(item) for part in parts)


def _mix_classes(value: Any, where: str) -> int:
    classes = 0 if isinstance(value, bool) or not isinstance(value, numbers.Integral) else int(value)
    if not 1 <= classes <= MOST_CLASSES:
        raise _refuse(where, f"expected a whole number from 1 to {MOST_CLASSES}, got {value!r}")
    return classes


def _mix(item: _Item) -> Mix:
    """Reads MixUp, CutMix, or an operation that contains them."""
    if item.name in _MIXES:
        at = f"{item.where}: {item.name}"
        alpha = _number(item.parameters.get("alpha", 1.0), f"{at}.alpha")
        if not 0.01 <= alpha <= 100:
            raise _refuse(f"{at}.alpha", f"expected the alpha of a Beta distribution, 0.01 to 100, got {alpha!r}")
        classes = item.parameters.get("num_classes")
        if classes is not None:
            classes = _mix_classes(classes, f"{at}.num_classes")
        return Mix(mixup=alpha, classes=classes) if item.name == "MixUp" else Mix(cutmix=alpha, classes=classes)
    members = _members(item)
    if any(part.name not in _MIXES for parts, _ in members for part in parts) or any(len(parts) > 1 for parts, _ in members):
        raise _refuse(item.where, f"{item.name} may contain either MixUp and CutMix, or other transforms, but not both")
    if item.name == "RandomChoice":
        return _choice_of_mixes(item, [parts[0] if parts else None for parts, _ in members])
    if len(members) != 1:
        raise _refuse(
            item.where, f"{item.name} may contain one of MixUp and CutMix; to draw one of the two, write RandomChoice"
        )
    made = _mix(members[0][0][0])
    p = _probability(item.parameters.get("p", 0.5), f"{item.where}: RandomApply.p") if item.name == "RandomApply" else 1.0
    return dataclasses.replace(made, prob=p)


def _choice_of_mixes(item: _Item, members: "list[Optional[_Item]]") -> Mix:
    given = item.parameters.get("p")
    chances = [1.0] * len(members) if given is None else given.tolist() if hasattr(given, "tolist") else given
    at = f"{item.where}: RandomChoice.p"
    if not isinstance(chances, (list, tuple)) or len(chances) != len(members):
        raise _refuse(at, f"expected {len(members)} numbers, got {chances!r}")
    likely = {"MixUp": 0.0, "CutMix": 0.0}
    if min(_number(chance, at) for chance in chances) < 0:
        raise _refuse(at, f"expected numbers, 0 or more, got {chances!r}")
    total, made = sum(chances), Mix()
    for member, chance in zip(members, chances):
        if member is None:
            continue
        if likely[member.name]:
            raise _refuse(item.where, f"RandomChoice contains {member.name} twice; leave one out")
        read = _mix(member)
        if made.classes is not None and read.classes is not None and made.classes != read.classes:
            raise _refuse(
                member.where, f"num_classes is {read.classes} here, but {made.classes} before: make them equal"
            )
        likely[member.name] = chance / total if total > 0 else 0.0
        made = dataclasses.replace(
            made,
            mixup=made.mixup or read.mixup,
            cutmix=made.cutmix or read.cutmix,
            classes=read.classes if made.classes is None else made.classes,
        )
    mixed = likely["MixUp"] + likely["CutMix"]
    if mixed <= 0:
        raise _refuse(at, f"expected at least one number above 0, got {chances!r}")
    return dataclasses.replace(made, prob=min(mixed, 1.0), switch=likely["CutMix"] / mixed)


def _normalized(erase: Erase, mean: Sequence[float], std: Sequence[float], where: str) -> Erase:
    """The same erasing for an image that is normalized first: its value on the other scale."""
    if erase.random:
        raise _refuse(
            where,
            'Normalize comes after RandomErasing with value="random": put Normalize first, because noise is not '
            'normalized',
        )
    with np.errstate(over="ignore"):  # like pixels: each operation in float32
        values = (np.array(erase.value, np.float32) - np.array(mean, np.float32)) / np.array(std, np.float32)
    if not np.isfinite(values).all():
        raise _refuse(
            where,
            f"RandomErasing.value before it is {max(erase.value)!r}, which a float32 cannot hold once it is "
            "normalized: use a smaller value",
        )
    red, green, blue = values.tolist()
    return dataclasses.replace(erase, value=(red, green, blue))


class _Reader:
    """Walks the list. It is always at one of three stages: images (of Pillow, or uint8 tensors with
    the same values), floats from 0 to 1, or normalized floats."""

    def __init__(self, wanted: Optional[Tuple[int, int]]) -> None:
        self._wanted = wanted
        self.operations: list[dict[str, dict[str, Any]]] = []
        self.dtype: Optional[str] = None
        self.mean: Optional[tuple[float, float, float]] = None
        self.std: Optional[tuple[float, float, float]] = None
        self.size: Optional[Tuple[int, int]] = None
        self.erase: Optional[Erase] = None
        self.mix: Optional[Mix] = None
        self.functions: "list[Function]" = []
        self._converted: Optional[str] = None  # the first conversion in the list

    def plan(self) -> Plan:
        if not self.operations:
            raise ArgumentError(
                "transforms contains nothing that gives all images the same size: begin with RandomResizedCrop(224), "
                "or with Resize(256) and CenterCrop(224); or leave transforms out, and train= decides"
            )
        mean, std = self.mean, self.std
        if self._floats() and mean is None:
            mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
        return Plan(json.dumps(self.operations), mean, std, self.dtype, self.size, self.erase, self.mix, tuple(self.functions))

    def _floats(self) -> bool:
        return self.dtype not in (None, "uint8")

    def take(self, given: Any, where: str) -> None:
        items = list(_items(given, where))
        for item, after in zip(items, [*items[1:], None]):
            self._one(self._sized_item(item, after))

    def _sized_item(self, item: _Item, after: Optional[_Item]) -> _Item:
        """The item, with a size if it is a sizing operation without one. Before a crop, Resize
        leaves the crop what it cuts off: as in evaluation before CenterCrop, nothing before
        RandomCrop."""
        given = item.parameters.get("size") is not None or item.parameters.get("max_size") is not None
        if self._wanted is None or item.name not in _SIZINGS or given:
            return item
        height, width = self._wanted
        size: Any = height if height == width else [height, width]
        if item.name == "Resize" and after is not None and after.name in ("CenterCrop", "RandomCrop"):
            crop = after.parameters.get("size")
            crop = size if crop is None else _size(crop, f"{after.where}: {after.name}.size")
            sides = crop if isinstance(crop, list) else [crop, crop]
            if after.name == "CenterCrop":
                sides = [side * 256 // 224 for side in sides]
            # If the crop is a square, one number: Resize gives it to the shorter side, so the
            # image keeps its proportions.
            size = sides if sides[0] != sides[1] else sides[0]
        elif item.name == "Resize":
            size = [height, width]
        return dataclasses.replace(item, parameters={**item.parameters, "size": size})

    def _one(self, item: _Item) -> None:
        if self.mix is not None:
            raise _refuse(item.where, f"{item.name} comes after MixUp or CutMix, which must come last")
        if item.name == _FUNCTION:
            self._function(item)
        elif item.name in _MIXES or (item.name in _HOLDERS and _holds_mixes(item)):
            self.mix = _mix(item)
        elif item.name in _CONVERSIONS:
            self._convert(item.name, item.parameters, item.where)
        elif item.name == "RandomErasing" and self._floats():
            self._erase(item)
        else:
            self._operation(item)

    def _function(self, item: _Item) -> None:
        function = reading.read(item.parameters["function"], item.where)
        if self._converted is not None:
            raise _refuse(
                item.where,
                f"{function.name} comes after {self._converted}, where torchvision passes tensors (3, height, width): put it "
                "before, where it gets each row as a uint8 array (height, width, 3); or apply it to the batch in the loop: "
                "`images = f(images)`",
            )
        self.functions.append(function)

    def _operation(self, item: _Item) -> None:
        if self.functions:
            raise _refuse(
                item.where,
                f"{item.name} comes after {self.functions[-1].name}: the daemon applies {item.name}, and functions run in this "
                "process when the daemon is done: put functions after all operations",
            )
        if self._floats() and item.name not in (*_FLIPS, "CenterCrop"):
            what = "resizes images" if item.name in (*_SIZINGS, *_RESIZINGS) else "applies it"
            raise _refuse(
                item.where,
                f"{item.name} comes after a conversion to floats: put it before, because the daemon {what} as Pillow "
                "does, on uint8 pixels",
            )
        if self.erase is not None:
            raise _refuse(item.where, f"{item.name} comes after RandomErasing, which must come last")
        self.operations.append(_operation(item))
        if item.name in _SIZINGS:
            self._sized(item.name, self.operations[-1][item.name].get("size"))
        elif _resizes(self.operations[-1]):
            self.size = None

    def _sized(self, name: str, size: Any) -> None:
        if isinstance(size, int):
            size = [size, size] if name != "Resize" else None
        self.size = None if size is None else (size[0], size[1])

    def _erase(self, item: _Item) -> None:
        values = _values(item.name, item.parameters, item.where)
        if self.erase is not None:
            raise _refuse(item.where, "RandomErasing appears twice; leave one out")
        value = values.get("value", 0)
        random = value == "random"
        at = f"{item.where}: RandomErasing"
        channels = (0.0, 0.0, 0.0) if random else _channels(value, f"{at}.value")
        if max(map(abs, channels)) > _MOST_FLOAT:
            raise _refuse(f"{at}.value", f"expected a number that a float32 can hold, got {value!r}")
        scale, ratio = values.get("scale", (0.02, 0.33)), values.get("ratio", (0.3, 3.3))
        if not 0 <= scale[0] <= scale[1] <= 1:
            raise _refuse(
                f"{at}.scale",
                f"expected two shares of the area from 0 to 1, the smaller first, got {scale!r}",
            )
        if not 0 < ratio[0] <= ratio[1]:
            raise _refuse(f"{at}.ratio", f"expected two numbers above 0, the smaller first, got {ratio!r}")
        p = _probability(values.get("p", 0.5), f"{at}.p")
        self.erase = Erase(p, (scale[0], scale[1]), (ratio[0], ratio[1]), channels, random)

    def _convert(self, name: str, parameters: Mapping[str, Any], where: str) -> None:
        self._converted = self._converted or name
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
                "expected scale=True, so that floats are from 0 to 1; for floats from 0 to 255, leave the conversion "
                f"out and write `images = images.to(torch.{dtype})` in the loop",
            )
        self._become(dtype, name, where)

    def _become(self, dtype: str, name: str, where: str) -> None:
        if dtype == "uint8" and self._floats():
            raise _refuse(where, f"{name} to uint8 comes after a conversion to floats; leave one of them out")
        self.dtype = dtype

    def _normalize(self, parameters: Mapping[str, Any], where: str) -> None:
        for key in ("mean", "std"):
            if key not in parameters:
                raise _refuse(f"{where}: Normalize", f"{key} is missing")
        if not self._floats():
            raise _refuse(
                where,
                "Normalize needs floats from 0 to 1: put ToTensor() or v2.ToDtype(torch.float32, scale=True) before it",
            )
        if self.mean is not None:
            raise _refuse(where, "Normalize appears twice; merge the two")
        mean = _channels(parameters["mean"], f"{where}: Normalize.mean")
        std = _channels(parameters["std"], f"{where}: Normalize.std")
        if 0.0 in std:
            raise _refuse(f"{where}: Normalize.std", "expected three numbers other than 0")
        self.mean, self.std = mean, std
        if self.erase is not None:
            self.erase = _normalized(self.erase, mean, std, where)

"""Turns the arguments of Loader into the options of the stream and the form of its batches.

Everything that can be checked without the daemon is checked here, before a daemon is started.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Optional, Tuple

from . import checks, devices, environment, fields, frameworks, labelling, mixing, naming, sources, subset, transforms, weighing
from ._penstock import KEYS
from .errors import ArgumentError, ArgumentTypeError, DatasetError, Error
from .functions.reader import Functions
from .functions.running import default_threads
from .grouped import reading as groups

__all__ = ["FOREVER", "Opening", "Output", "explain", "read"]

FOREVER = -2  # PENSTOCK_FOREVER
_IMAGENET_MEAN = (0.485, 0.456, 0.406)
_IMAGENET_STD = (0.229, 0.224, 0.225)
_DTYPES = ("float32", "float16", "bfloat16", "uint8")
# Values of the daemon's own defaults, which no request repeats.
_PLAIN = {"decode": "exact", "interpolation": "bilinear", "repeats": 1, "views": 1, "class_order": "bytewise", "nested": 0, "label_offset": 0}
_U32, _U64 = 2**32 - 1, 2**64 - 1
_MOST = 4096  # pixels of a side

# Arguments that must have a value: the loader refuses None, by which other libraries mean something
# else (no batches, a random seed).
_NEEDED = ("batch_size", "train", "seed", "repeats", "views")

# Keys of a stream that the loader reads itself: its own arguments of these names mean something else
# or more.
_ELSEWHERE = ("dtype", "layout", "mean", "std", "share", "source", "sources")

# The arguments that define the batches of a stream. The daemon's configuration defines them for
# "stream:NAME", so such a loader does not take them.
DEFINING = ("threads", "memory", "map_threads") + tuple(
    name for name, (_, _, who, *_) in KEYS.items() if who == "DEFINITION" and name not in _ELSEWHERE
)


@dataclass(frozen=True)
class Output:
    """The form in which batches are delivered. `cuda` is the device's name in torch, None for the
    CPU; `jax` is JAX's device. `said` names those of dtype, mean, std and channels_last that the
    user passed: they must fit a stream whose images the daemon has already converted."""

    framework: str
    zero_copy: bool
    dtype: str
    channels_last: bool
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    cuda: Optional[str]
    jax: Any
    mixing: Optional[mixing.Mixing] = None
    said: "tuple[str, ...]" = ()
    functions: Optional[Functions] = None


@dataclass(frozen=True)
class Opening:
    """`options` are the fields of struct penstock_options. `shared`: other trainers get the same
    batches, in a group with its own pace. `group`: the name that the user passed. `mask`: the
    length of `indices` if it is a mask. `listed`: the number of samples in which paths in `indices`
    or `weights` were looked up."""

    options: dict[str, Any]
    output: Output
    source: str
    shared: bool
    group: Optional[str]
    mask: Optional[int] = None
    listed: Optional[int] = None
    kinds: "Mapping[str, str]" = field(default_factory=dict)  # of the fields: "bytes", "str" or "numpy"


def _dtype(value: Any) -> str:
    """Reads a name, or an object of torch or NumPy for it."""
    name = getattr(value, "name", None) or getattr(value, "__name__", None) or value
    name = name if isinstance(name, str) else checks.shown(name)
    name = name[len("torch.") :] if name.startswith("torch.") else name
    if name not in _DTYPES:
        raise ArgumentError(
            f"dtype: expected one of {', '.join(repr(word) for word in _DTYPES)}, got {checks.shown(value)}; for any "
            "other dtype, convert the batch in the loop"
        )
    return name


# ---- the stream ----


def _maybe(options: dict[str, Any], key: str, value: Any) -> None:
    if value is not None:
        options[key] = value


def _shuffle(key: str, value: Any) -> int:
    """False, True (or "full") and "blocks", as struct penstock_options numbers them."""
    words = ("full", "blocks")
    if isinstance(value, str) and value in words:
        return 1 + words.index(value)
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return int(value)
    raise ArgumentTypeError(f"{key}: expected True, False, 'full' or 'blocks', got {checks.shown(value)}")


def _value(key: str, value: Any) -> Any:
    """The option for an argument that proto/keys.h describes completely."""
    kind, option, _, words, low, high = KEYS[key]
    if kind == "WORD":
        return checks.choice(key, value, words.split("|"))
    if option == "SHUFFLE":
        return _shuffle(key, value)
    if option in ("FLAG", "SWITCH"):
        return int(checks.flag(key, value))
    if option in ("U32", "I32", "U64", "VIEWS"):
        return checks.number(key, value, low, high)
    if option == "REAL":
        # In the struct, 0 means the default. 1e-12 becomes 0 when it is written with nine digits.
        return checks.fraction(key, value) or 1e-12
    return checks.text(key, value)


def _keys(given: Mapping[str, Any], wanted: str) -> dict[str, Any]:
    """The options for all keys of `wanted` ("DEFINITION" or "READER") that are given or must be."""
    options: dict[str, Any] = {}
    for key, (_, option, who, *_) in KEYS.items():
        simple = option in ("U32", "I32", "U64", "REAL", "FLAG", "SWITCH", "SHUFFLE", "TEXT", "VIEWS") and key not in _ELSEWHERE
        if simple and who == wanted and (key in _NEEDED or given.get(key) is not None):
            value = _value(key, given[key])
            if _PLAIN.get(key) != value:
                options[key] = value
    return options


_Size = Tuple[int, int]  # height, width


def _size(where: str, value: Any) -> _Size:
    """A side, or (height, width): any sequence, an array or a tensor of two whole numbers."""
    sides = checks.listed(value)
    if isinstance(sides, (str, bytes)) or not isinstance(sides, Sequence):
        side = checks.number(where, value, 1, _MOST)
        return side, side
    if len(sides) != 2:
        raise ArgumentError(f"{where}: expected one whole number, such as 224, or (height, width), got {checks.shown(value)}")
    height, width = (checks.number(where, side, 1, _MOST) for side in sides)
    return height, width


def _shown(size: _Size) -> str:
    return str(size[0] if size[0] == size[1] else size)


def _largest(sizes: Iterable[_Size]) -> _Size:
    heights, widths = zip(*sizes)
    return max(heights), max(widths)


def _json(size: _Size) -> Any:
    return size[0] if size[0] == size[1] else list(size)


def _sizes(value: Mapping[Any, Any], made: Optional[_Size]) -> str:
    """The size of images by epoch, for options.image_sizes."""
    if not value:
        raise ArgumentError("image_size: expected a size from epoch 0 on, such as {0: 128, 16: 192}, got {}")
    sizes = {
        checks.number("image_size: an epoch", epoch, 0, _U32): _size(f"image_size[{epoch}]", size)
        for epoch, size in value.items()
    }
    if 0 not in sizes:
        raise ArgumentError(f"image_size: expected a size from epoch 0 on, got {checks.shown(dict(value))}")
    largest = _largest(sizes.values())
    epochs = sorted(sizes)
    # A schedule may name each epoch. The daemon is told only where the size changes.
    changes = [epoch for last, epoch in zip([None, *epochs], epochs) if last is None or sizes[last] != sizes[epoch]]
    if made is not None and made != largest:
        raise ArgumentError(
            f"image_size: transforms produces images of size {_shown(made)}, but the largest size of all epochs is "
            f"{_shown(largest)}: write the largest size in transforms; the other sizes replace it in their epochs"
        )
    return json.dumps({str(epoch): _json(sizes[epoch]) for epoch in changes})


_BUCKETS = "buckets: expected a list of sizes (height, width), such as [(256, 192), (224, 224), (192, 256)]"


def _bucket_sizes(value: Any) -> list[_Size]:
    """The shapes, one of which every batch has."""
    told = checks.listed(value)
    if isinstance(told, (str, bytes)) or not isinstance(told, Sequence):
        raise ArgumentTypeError(f"{_BUCKETS}, got {checks.shown(value)}")
    if not 1 <= len(told) <= 64:
        raise ArgumentError(f"{_BUCKETS}, 1 to 64 of them, got {len(told)}")
    sizes = [_size(f"buckets[{place}]", size) for place, size in enumerate(told)]
    for place, size in enumerate(sizes):
        for other in sizes[:place]:
            if size[0] * other[1] == other[0] * size[1]:
                raise ArgumentError(
                    f"buckets: {size} has the ratio of width to height that {other} has, so which of them a sample "
                    "belongs to is open: leave one of them out"
                )
    return sizes


def _buckets(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """The stream's option `buckets`."""
    sizes = _bucket_sizes(given["buckets"])
    if not _is_default(given["image_size"], defaults["image_size"]):
        raise ArgumentError("buckets: the buckets say the sizes: leave image_size out")
    return json.dumps(sizes)


def _size_of(given: Mapping[str, Any], default: Any, made: Optional[_Size]) -> Optional[_Size]:
    """The size of images. If transforms contains it, image_size is not needed. None: the daemon
    finds out what transforms makes."""
    size = _size("image_size", given["image_size"])
    if made is None and given["transforms"] is not None and size == (default, default):
        return None
    if made is None or made == size or not 1 <= min(made) <= max(made) <= _MOST:
        return size  # the daemon checks transforms
    if size != (default, default):
        raise ArgumentError(
            f"image_size is {_shown(size)}, but transforms produces images of size {_shown(made)}: leave image_size out"
        )
    return made


def _wanted(given: Mapping[str, Any]) -> Optional[_Size]:
    """The size for operations of transforms that have none: the largest, if it changes with the
    epoch or the bucket. None if image_size or buckets is wrong, which is reported later."""
    value = given["image_size"]
    sizes = list(value.values()) if isinstance(value, Mapping) else [value]
    try:
        if given["buckets"] is not None:
            return _largest(_bucket_sizes(given["buckets"]))
        return _largest([_size("image_size", size) for size in sizes])
    except (TypeError, ValueError):
        return None


def _definition(
    given: Mapping[str, Any], defaults: Mapping[str, Any], plan: transforms.Plan, grouped: Optional[groups.Groups]
) -> dict[str, Any]:
    options = _keys(given if grouped is None else {**given, "views": 1}, "DEFINITION")
    if grouped is not None:
        options["view_groups"] = grouped.json
    if given["buckets"] is not None:
        options["buckets"] = _buckets(given, defaults)
    elif grouped is not None and (grouped.sized or _is_default(given["image_size"], defaults["image_size"])):
        pass  # the groups have sizes; the daemon's own default is for one that has none
    elif isinstance(given["image_size"], Mapping):
        options["image_sizes"] = _sizes(given["image_size"], plan.size)
    else:
        size = _size_of(given, defaults["image_size"], plan.size)
        if size is None:
            pass
        elif size[0] == size[1]:
            options["image_size"] = size[0]
        else:
            options["image_sizes"] = json.dumps(size)
    _maybe(options, "labels", labelling.option(given["labels"]))
    _maybe(options, "fields", fields.option(given["fields"]))
    if grouped is None or not grouped.listed:
        _maybe(options, "transforms", plan.json)
    if given["indices"] is not None:
        options["indices"] = subset.save(given["indices"])
    if given["weights"] is not None:
        options["weights"] = weighing.option(given["weights"])
    if given["sampling"] is not None:
        options["sampling"] = weighing.per_class(given["sampling"], options.get("batch_size", given["batch_size"]))
    if given["threads"] is not None:
        options["daemon_threads"] = checks.number("threads", given["threads"], 1, 1024)
    if given["memory"] is not None:
        options["daemon_memory"] = checks.size("memory", given["memory"])
    return options


def _numbered(given: Mapping[str, Any], source: Any, mixture: Optional[str]) -> "tuple[Mapping[str, Any], Optional[int]]":
    """The arguments with numbers in place of paths in `indices` and `weights`, and the number of
    samples in which these were looked up."""
    indices, weights = given["indices"], given["weights"]
    listed, weighed = naming.are_paths(indices), isinstance(weights, Mapping)
    if not listed and not weighed:
        return given, None
    samples = naming.named("indices" if listed else "weights", source, mixture, given)
    if listed:
        indices = naming.numbers(samples, indices)
    if weighed:
        chosen = None if indices is None else subset.chosen(indices, len(samples.number))
        weights = naming.weights(samples, weights, chosen)
    return {**given, "indices": indices, "weights": weights}, len(samples.number)


# The arguments that with_indices needs beside the indices.
KEPT = ("source", "split", "class_order", "labels", "weights")


def with_indices(opening: Opening, given: Mapping[str, Any], indices: Any, samples: int) -> Opening:
    """The opening of the same stream with other indices. `given` has the arguments KEPT, and `samples` is the number of
    samples of the dataset."""
    if sources.stream_name(opening.source) is not None:
        raise ArgumentError(
            f"set_indices: the daemon's configuration says which samples {opening.source!r} has: change it there, or pass "
            "a folder or tar files as source"
        )
    numbered, listed = _numbered({**given, "indices": indices}, opening.source, sources.mixture(given["source"]))
    options = {key: value for key, value in opening.options.items() if key != "indices"}
    if numbered["indices"] is not None:
        options["indices"] = subset.save(numbered["indices"], samples)
    if isinstance(given["weights"], Mapping):
        options["weights"] = weighing.option(numbered["weights"])
    return replace(opening, options=options, mask=None, listed=listed)


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (isinstance(value, (int, str)) and bool(value == default))


def _check_named(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    said = [key for key in DEFINING if not _is_default(given[key], defaults[key])]
    if said:
        raise ArgumentError(
            f"{', '.join(said)} {'belongs' if len(said) == 1 else 'belong'} to the named stream: leave "
            f"{'it' if len(said) == 1 else 'them'} out, change the daemon's configuration, which defines "
            f"{given['source']!r}, or pass a folder or tar files as source"
        )


def _socket(value: Any) -> str:
    if not isinstance(value, (str, os.PathLike)):
        raise ArgumentTypeError(f"socket: expected a path, got {checks.shown(value)}")
    return checks.text("socket", os.fsdecode(value))


def _readers(given: Mapping[str, Any], named: Optional[str]) -> dict[str, Any]:
    """The rank and the group of this trainer."""
    options: dict[str, Any] = {}
    share = None if given["share"] is None else _value("share", given["share"])
    rank = None if given["rank"] is None else checks.number("rank", given["rank"], 0, _U32)
    world_size = None if given["world_size"] is None else checks.number("world_size", given["world_size"], 1, 65536)
    shared = named is not None or given["group"] is not None
    for key, value in environment.ranks(share, rank, world_size, shared)._asdict().items():
        _maybe(options, key, value)
    options.update(_keys(given, "READER"))
    if given["laggard_timeout"] is not None:
        options["laggard_timeout_s"] = checks.number("laggard_timeout", given["laggard_timeout"], 1, 86400)
    return options


def _daemon(given: Mapping[str, Any]) -> dict[str, Any]:
    """Where the daemon is, and what happens when it is gone."""
    options: dict[str, Any] = {
        "timeout_ms": checks.seconds("timeout", given["timeout"], FOREVER),
        "private_daemon": int(checks.flag("private_daemon", given["private_daemon"])),
    }
    restarts = None if given["restarts"] is None else checks.number("restarts", given["restarts"], 0, _U32)
    if given["reconnect"] != 0 and restarts != 0:
        options["reconnect_ms"] = checks.seconds("reconnect", given["reconnect"], FOREVER)
        options["restarts"] = restarts or 0  # in the struct, 0 means no limit: here None
    if given["socket"] is not None:
        options["socket"] = _socket(given["socket"])
    return options


# ---- the output ----


def _without_a_copy(given: Mapping[str, Any], plan: transforms.Plan, dtype: Optional[str], device: str) -> Output:
    mixing.read(given, None, None)  # checks their values too
    wrong = {
        "dtype": dtype not in (None, "uint8"),
        "framework": given["framework"] not in ("auto", "numpy"),
        "device": device not in ("auto", "cpu"),
        "mean": given["mean"] is not None,
        "std": given["std"] is not None,
        "channels_last": not given["channels_last"],
        "transforms": plan.dtype not in (None, "uint8"),
        **{key: given[key] for key in ("mixup", "cutmix", "label_smoothing")},
        "transforms: functions": plan.functions,
        "transforms: RandomErasing, MixUp and CutMix": plan.erase is not None or plan.mix is not None,
    }
    for key, bad in wrong.items():
        if bad:
            raise ArgumentError(
                f"{key} cannot be combined with zero_copy=True, which delivers read-only NumPy views of the daemon's "
                "memory (uint8, rows of pixels): leave it out, or use zero_copy=False"
            )
    zero, one = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    said = () if dtype is None else ("dtype",)
    return Output("numpy", True, "uint8", True, zero, one, None, None, None, said)


def _normalization(given: Mapping[str, Any], plan: transforms.Plan, dtype: str) -> "tuple[Any, Any]":
    mean, std = checks.channels("mean", given["mean"]), checks.channels("std", given["std"])
    if dtype == "uint8" and (mean or std):
        raise ArgumentError(
            'mean and std need floats, and dtype="uint8" delivers raw pixels: leave mean and std out, or use '
            'dtype="float32"'
        )
    if dtype == "uint8" and plan.dtype not in (None, "uint8"):
        raise ArgumentError(
            f'dtype="uint8" delivers raw pixels, but transforms converts them to {plan.dtype}: leave dtype out, or '
            'remove '
            "ToTensor, ToDtype and Normalize from transforms"
        )
    return mean or plan.mean or _IMAGENET_MEAN, std or plan.std or _IMAGENET_STD


def _map_threads(value: Any, plan: transforms.Plan) -> int:
    if value is None:
        return default_threads()
    threads = checks.number("map_threads", value, 1, 1024)
    if not plan.functions:
        raise ArgumentError(
            "map_threads has a meaning only with functions in transforms, which run in this process: leave it out; "
            "threads= is for the daemon"
        )
    return threads


def _output(given: Mapping[str, Any], plan: transforms.Plan) -> Output:
    framework = checks.choice("framework", given["framework"], ("auto", "torch", "numpy", "jax"))
    dtype = None if given["dtype"] is None else _dtype(given["dtype"])
    threads = _map_threads(given["map_threads"], plan)
    channels_last = checks.flag("channels_last", given["channels_last"])
    device = devices.read(given["device"])
    if checks.flag("zero_copy", given["zero_copy"]):
        return _without_a_copy(given, plan, dtype, device)
    dtype = dtype or plan.dtype or "float32"
    mean, std = _normalization(given, plan, dtype)
    made = mixing.read(given, plan.erase, plan.mix)
    if made is not None and dtype == "uint8" and made.of_floats:
        raise ArgumentError(
            'mixup, cutmix and RandomErasing after Normalize need floats, but dtype="uint8" delivers raw pixels: leave '
            'them out, or use dtype="float32"'
        )
    framework = frameworks.choose(framework)
    functions = Functions(plan.functions, threads) if plan.functions else None
    cuda, jax = None, None
    if framework == "torch":
        cuda = devices.torch_cuda(device)
    elif framework == "jax":
        jax = devices.jax_device(device)
    elif device.startswith("cuda"):
        raise ArgumentError(
            f"device={device!r} needs PyTorch or JAX, because NumPy's arrays are in the CPU's memory: install one of "
            'them, or use device="cpu"'
        )
    said = tuple(key for key in ("dtype", "mean", "std") if given[key] is not None)
    said += () if channels_last else ("channels_last",)
    return Output(framework, False, dtype, channels_last, mean, std, cuda, jax, made, said, functions)


# ---- refusals ----

_PLACE = re.compile(r"^open request:\d+:\d+: ")
_LIMITS = re.compile(r"\bmax_(clients|streams)\b")


def explain(error: Error, options: Mapping[str, Any]) -> Error:
    """Rewrites a refusal of the library or the daemon for a user who knows neither the protocol nor
    the files to which `indices` and `weights` were written (notation.py has done the rest). A text
    that begins with a path is about the source and not about an argument: it becomes a
    DatasetError."""
    sentence = _PLACE.sub("", str(error))
    for key in ("indices", "weights"):
        path = options.get(key)
        if path is not None and path != weighing.BALANCED:
            sentence = sentence.replace(f"{key}: {path}", key).replace(path, f"the list of {key}")
    if error.code == errno.EBUSY and _LIMITS.search(sentence):
        sentence += (
            ". To change it, start penstockd yourself with --config FILE (see penstock.yaml(5)): a daemon that the "
            "loader starts has the default. A loader counts until you call close() or delete every reference to it"
        )
    source = error.code == errno.EINVAL and sentence.startswith("/")
    told = (DatasetError if source else type(error))(sentence)
    told.code = error.code
    return told


def _is_shared(options: Mapping[str, Any], named: Optional[str]) -> bool:
    share = options.get("share")
    met = named is not None or "group" in options or (share == "all" and environment.has_job())
    return share != "split" and met


def read(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> Opening:
    """`given`: all arguments by name; `defaults`: their default values."""
    mixture = sources.mixture(given["source"])
    source = sources.pattern(given["source"]) if mixture is None else sources.shown(mixture)
    named = sources.stream_name(source)
    listed = None
    if named is None:
        given, listed = _numbered(given, source, mixture)
    plan = transforms.plan(given["transforms"], _wanted(given))
    grouped = None
    if groups.is_groups(given["views"]):
        grouped = groups.read(given["views"], given["transforms"], _wanted(given), _size)
    read_from = {"source": source} if mixture is None else {"sources": mixture}
    options = {**read_from, **_daemon(given), **_readers(given, named)}
    if named is None:
        options.update(_definition(given, defaults, plan, grouped))
    else:
        _check_named(given, defaults)
        options["private_daemon"] = 0  # a private daemon has no configuration that defines streams
    output = _output(given, plan if grouped is None else grouped.plan)
    if grouped is not None:
        groups.check_mixing(output.mixing)
    if output.cuda is not None:
        options["pin_memory"] = 1
    mask = None if given["indices"] is None else subset.mask_length(given["indices"])
    made = fields.kinds(given["fields"])
    return Opening(options, output, source, _is_shared(options, named), options.get("group"), mask, listed, made)

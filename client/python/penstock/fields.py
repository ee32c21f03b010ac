"""What is delivered beside each image: the argument `fields`, and the values that a batch has.

The daemon delivers bytes: the members of a tar with the image's key, or the files of a folder with
its path, that have another extension. They are turned into str or arrays here, in the trainer's
process.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from . import checks
from .batch import SAMPLE
from .errors import ArgumentError, ArgumentTypeError, DatasetError

if TYPE_CHECKING:
    from ._penstock import Batch

__all__ = ["Fields", "kinds", "option"]

_KINDS = ("bytes", "str", "numpy")
_MOST, _MOST_BYTES = 8, 16 << 20
_EXPECTED = (
    'fields: expected a list of extensions, such as ["txt", "json"], in which a dict says more, '
    '{"name": "txt", "max": 1024, "long": "cut"}; or one dict, {"txt": {"max": 1024}}'
)


def _name(value: Any) -> str:
    name = checks.text("fields: a name", value)
    if len(name.encode(errors="surrogateescape")) > 63 or name[0] == "." or name[-1] == "." or ".." in name:
        raise ArgumentError(f"fields: expected an extension without the dot before it, such as 'txt', got {name!r}")
    if "/" in name or any(character <= " " or character == "\x7f" for character in name):
        raise ArgumentError(f"fields: expected an extension without slashes and spaces, such as 'txt', got {name!r}")
    if name.rpartition(".")[2].lower() in ("jpg", "jpeg", "png"):
        raise ArgumentError(f"fields: expected an extension other than those of images (jpg, jpeg, png), got {name!r}")
    return checks.unicode("fields", name)


def _entry(name: Any, said: Any) -> "dict[str, Any]":
    """One field; `said` is what a dict says about it."""
    name = _name(name)
    where = f"fields[{name!r}]"
    if said is None:
        said = {}
    if not isinstance(said, Mapping):
        raise ArgumentTypeError(f'{where}: expected a dict, such as {{"max": 1024, "long": "cut"}}, got {checks.shown(said)}')
    unknown = [key for key in said if key not in ("max", "long", "missing", "as")]
    if unknown:
        raise ArgumentError(f"{where}: expected the keys max, long, missing and as, got {checks.shown(unknown[0])}")
    entry: "dict[str, Any]" = {"name": name}
    if "max" in said:
        entry["max"] = checks.number(f"{where}: max", said["max"], 1, _MOST_BYTES)
    if "long" in said:
        entry["long"] = checks.choice(f"{where}: long", said["long"], ("error", "cut"))
    if "missing" in said:
        entry["missing"] = checks.choice(f"{where}: missing", said["missing"], ("error", "empty"))
    entry["as"] = checks.choice(f"{where}: as", said.get("as", "bytes"), _KINDS)
    return entry


def _entries(fields: Any) -> "list[dict[str, Any]]":
    if isinstance(fields, str):
        entries = [_entry(fields, None)]
    elif isinstance(fields, Mapping):
        entries = [_entry(name, said) for name, said in fields.items()]
    elif isinstance(fields, Iterable) and not isinstance(fields, (bytes, bytearray)):
        entries = []
        for field in fields:
            if isinstance(field, Mapping):
                if "name" not in field:
                    raise ArgumentError(f"{_EXPECTED}; got a dict without name: {checks.shown(dict(field))}")
                entries.append(_entry(field["name"], {key: said for key, said in field.items() if key != "name"}))
            else:
                entries.append(_entry(field, None))
    else:
        raise ArgumentTypeError(f"{_EXPECTED}; got {checks.shown(fields)}")
    names = [entry["name"] for entry in entries]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ArgumentError(f"fields: expected each name once, got {twice[0]!r} twice")
    if len(names) > _MOST:
        raise ArgumentError(f"fields: expected at most {_MOST}, got {len(names)}")
    return entries


def option(fields: Any) -> Optional[str]:
    """The stream's option; None for no fields."""
    entries = [] if fields is None else _entries(fields)
    told = [{key: value for key, value in entry.items() if key != "as"} for entry in entries]
    return json.dumps(told) if told else None


def kinds(fields: Any) -> "dict[str, str]":
    """What each field becomes, by name."""
    return {} if fields is None else {entry["name"]: entry["as"] for entry in _entries(fields)}


class _Header:
    """The header of a .npy file: what follows it."""

    def __init__(self, header: bytes) -> None:
        try:
            said = ast.literal_eval(header.decode("latin1"))
            self.dtype = np.dtype(said["descr"])
            self.shape = tuple(int(side) for side in said["shape"])
            self.order = "F" if said["fortran_order"] else "C"
            self.count = math.prod(self.shape)  # of any size: NumPy's product would wrap around
        except (ValueError, SyntaxError, TypeError, KeyError, OverflowError, RecursionError, MemoryError):
            raise ValueError("is not a .npy file") from None
        if self.dtype.hasobject or self.dtype.itemsize == 0 or min(self.shape, default=0) < 0:
            raise ValueError("holds Python objects, which are not read")


class _Arrays:
    """Makes one array of a batch's .npy files, which must have one shape. Files of one dataset have
    the same header, which is read once."""

    def __init__(self) -> None:
        self._last: "tuple[bytes, Optional[_Header]]" = b"", None

    def _header(self, data: Any) -> "tuple[_Header, int]":
        head = bytes(data[:12])
        if len(head) < 12 or head[:6] != b"\x93NUMPY" or head[6] not in (1, 2, 3):
            raise ValueError("is not a .npy file")
        at = 10 if head[6] == 1 else 12
        end = at + int.from_bytes(head[8:at], "little")
        text = bytes(data[at:end])
        last, header = self._last
        if header is None or text != last:
            header = _Header(text)
            self._last = text, header
        return header, end

    def one(self, data: Any) -> Any:
        header, at = self._header(data)
        if len(data) - at < header.count * header.dtype.itemsize:
            raise ValueError(f"has {len(data)} bytes, fewer than its header says: raise its max")
        array = np.frombuffer(data, header.dtype, header.count, at)
        return array.reshape(header.shape, order=header.order)  # type: ignore[call-overload]

    def all(self, values: "list[Any]", fail: Any) -> Any:
        """Rows of samples that have no such file are zeros."""
        made: Any = None
        for number, value in enumerate(values):
            if len(value) == 0:
                continue
            try:
                row = self.one(value)
                if made is None:
                    made = np.zeros((len(values), *row.shape), row.dtype)
            except ValueError as error:
                fail(number, error)
            if row.shape != made.shape[1:] or row.dtype != made.dtype:
                fail(
                    number,
                    f"has the shape {row.shape} of {row.dtype}, and those before it {made.shape[1:]} of {made.dtype}: for "
                    'arrays of different shapes, leave out "as" and use numpy.load on the bytes',
                )
            made[number] = row
        return np.zeros((len(values), 0), np.uint8) if made is None else made


class Fields:
    """Reads the fields of batches. `kinds` says what each becomes; those that it does not name stay
    bytes."""

    def __init__(self, names: "list[str]", kinds: "Mapping[str, str]" = {}) -> None:
        self.names = names
        self._kinds = [kinds.get(name, "bytes") for name in names]
        self._arrays = [_Arrays() for _ in names]

    def _failing(self, batch: Batch, name: str, rows: int) -> Any:
        samples = np.frombuffer(bytes(batch.view("samples")), SAMPLE)["index"]

        def fail(number: int, why: object) -> None:
            index = samples[number * (len(samples) // rows)]
            raise DatasetError(f"fields[{name!r}]: the .{name} of sample {index} {why}")

        return fail

    def _texts(self, values: "list[Any]", fail: Any) -> "list[str]":
        texts = []
        for number, value in enumerate(values):
            try:
                texts.append(str(value, "utf-8"))
            except UnicodeDecodeError as error:
                fail(number, f'is not UTF-8 ({error.reason} at byte {error.start}): leave out "as" and decode the bytes')
        return texts

    def read(self, batch: Batch, copy: bool = True) -> "Optional[dict[str, Any]]":
        """By name; None if the stream has none. Without `copy`, bytes are memoryviews that keep the
        batch."""
        if not self.names:
            return None
        read: "dict[str, Any]" = {}
        for number, name in enumerate(self.names):
            values = batch.field(number, copy)
            if self._kinds[number] == "str":
                read[name] = self._texts(values, self._failing(batch, name, len(values)))
            elif self._kinds[number] == "numpy":
                read[name] = self._arrays[number].all(values, self._failing(batch, name, len(values)))
            else:
                read[name] = values
        return read

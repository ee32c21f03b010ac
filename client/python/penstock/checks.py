"""Checks of single arguments. Each check returns the value in the form that the rest of the package
uses, or raises an ArgumentError that names the argument, what is allowed, and what was passed.

The daemon checks what only it can know: how large a batch may be with its memory, whether a folder
is a dataset.
"""

from __future__ import annotations

import difflib
import math
import operator
import os
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Optional

from .errors import ArgumentError, ArgumentTypeError

__all__ = ["UNITS", "bytes_of", "channels", "choice", "encodable", "finite", "flag", "fraction", "is_number", "listed", "nearest", "number", "seconds", "shown", "size", "text", "unicode"]

_LEAST_BYTES, _MOST_BYTES = 2**20, 2**50
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGT]?)(?:I?B)?", re.ASCII)


def shown(value: Any) -> str:
    """Like repr(), but it shortens a long text and never fails. repr() itself fails for integers of
    thousands of digits."""
    try:
        text = repr(value)
    except Exception:
        return f"a value of type {type(value).__name__} that has no repr()"
    return text if len(text) <= 200 else f"{text[:200]}..."


def nearest(word: str, names: Sequence[str], cutoff: float) -> list[str]:
    """The names that were probably meant by `word`, the nearest first. Case does not count."""
    lower = {name.lower(): name for name in reversed(names)}
    return [lower[near] for near in difflib.get_close_matches(word.lower(), list(lower), n=3, cutoff=cutoff)]


def number(name: str, value: Any, least: int, most: int) -> int:
    """A whole number."""
    expected = f"{name}: expected a whole number from {least} to {most}"
    try:
        if isinstance(value, bool):
            raise TypeError
        whole = operator.index(value)
    except TypeError:
        raise ArgumentTypeError(f"{expected}, got {shown(value)}") from None
    if not least <= whole <= most:
        raise ArgumentError(f"{expected}, got {shown(whole)}")
    return whole


def flag(name: str, value: Any) -> bool:
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return bool(value)
    raise ArgumentTypeError(f"{name}: expected True or False, got {shown(value)}")


def choice(name: str, value: Any, allowed: Sequence[str]) -> str:
    listed = ", ".join(repr(word) for word in allowed)
    if not isinstance(value, str):
        raise ArgumentTypeError(f"{name}: expected one of {listed}, got {shown(value)}")
    if value not in allowed:
        raise ArgumentError(f"{name}: expected one of {listed}, got {shown(value)}")
    return value


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ArgumentTypeError(f"{name}: expected a string, got {shown(value)}")
    if not value or "\0" in value:
        raise ArgumentError(
            f"{name}: expected a string that is not empty and contains no zero byte, got {shown(value)}"
        )
    encodable(name, value)
    return value


def encodable(name: str, value: str) -> None:
    """Refuses half of a surrogate pair that does not stand for a byte of a path."""
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        raise ArgumentError(f"{name}: expected a string that can be encoded, got {shown(value)}") from None


def unicode(name: str, path: str) -> str:
    """Checks that JSON can hold the path."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise ArgumentError(
            f"{name}: the path {shown(path)} is not UTF-8, and penstock writes requests in UTF-8: rename the file, or "
            "pass a symbolic link to it"
        ) from None
    return path


def finite(name: str, value: Any, expected: str) -> float:
    try:
        if isinstance(value, (bool, str, bytes)):
            raise TypeError
        real = float(value)
    except OverflowError:
        real = math.inf
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"{name}: expected {expected}, got {shown(value)}") from None
    if not math.isfinite(real):
        raise ArgumentError(f"{name}: expected {expected}, got {shown(value)}")
    return real


def is_number(value: Any) -> bool:
    """Whether it is an int or a float of Python or NumPy."""
    return not isinstance(value, (bool, str, bytes)) and (hasattr(value, "__float__") or hasattr(value, "__index__"))


def fraction(name: str, value: Any) -> float:
    real = finite(name, value, "a number from 0 to 1")
    if not 0 <= real <= 1:
        raise ArgumentError(f"{name}: expected a number from 0 to 1, got {shown(value)}")
    return real


def seconds(name: str, value: Any, forever: int) -> int:
    """Seconds as milliseconds; `forever` for None."""
    if value is None:
        return forever
    expected = "seconds, above 0 and at most 2,000,000, or None for no limit"
    real = finite(name, value, expected)
    if not 0 < real <= 2_000_000:
        raise ArgumentError(f"{name}: expected {expected}, got {shown(value)}")
    return max(1, round(real * 1000))


def bytes_of(size: str) -> Optional[int]:
    """The bytes of a size as the daemon reads it: "512M", "1.5GiB"; None if it is none."""
    found = _SIZE.fullmatch(size.strip().upper())
    if found is None or ("." in found.group(1) and not found.group(2)):
        return None
    return int(Fraction(found.group(1)) * UNITS[found.group(2)])


def size(name: str, value: Any) -> str:
    """Bytes, or text such as "512M" or "4G", as text that the daemon reads."""
    expected = f'{name}: expected a number of bytes, or a size such as "512M" or "4G", from "1M" to "1024T"'
    if isinstance(value, bool) or (not isinstance(value, str) and not hasattr(value, "__index__")):
        raise ArgumentTypeError(f"{expected}, got {shown(value)}")
    # Numbers of thousands of digits cannot be made text.
    whole = bytes_of(value[:100]) if isinstance(value, str) else operator.index(value)
    if whole is None or not _LEAST_BYTES <= whole <= _MOST_BYTES:
        raise ArgumentError(f"{expected}, got {shown(value)}")
    return value.strip() if isinstance(value, str) else str(whole)


def listed(value: Any) -> Any:
    """An array or a tensor as lists of Python's numbers."""
    return value.tolist() if hasattr(value, "tolist") else value


def channels(name: str, value: Any) -> Optional[tuple[float, float, float]]:
    """Three numbers, one for each channel."""
    if value is None:
        return None
    expected = "three numbers, for red, green and blue, on the scale of pixels from 0 to 1"
    parts = listed(value)
    if isinstance(parts, (str, bytes)) or not isinstance(parts, Sequence):
        raise ArgumentTypeError(f"{name}: expected {expected}, got {shown(value)}")
    if len(parts) != 3:
        raise ArgumentError(f"{name}: expected {expected}, got {len(parts)}: {shown(value)}")
    red, green, blue = (finite(name, part, expected) for part in parts)
    if name == "std" and 0.0 in (red, green, blue):
        raise ArgumentError(f"std: expected three numbers other than 0, got {shown(value)}")
    if name == "mean" and max(red, green, blue) > 1:
        advice = "divide mean and std by 255 if they are for pixels from 0 to 255"
        raise ArgumentError(f"mean: expected {expected}, got {shown(value)}; {advice}")
    return red, green, blue

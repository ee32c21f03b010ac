"""Reads a function of transforms=[...]: anything that can be called, and torchvision's Lambda.

A function is called with a row, or with a row and a generator. The generator is passed if the
function has a second positional parameter without a default, or a parameter named `generator` or
`rng`. Python's own functions without a signature are called with the row.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional

from ..errors import ArgumentError

__all__ = ["Function", "name_of", "read"]

_GENERATORS = ("generator", "rng")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class Function:
    """`where` is its place in the list, for errors. `generator`: None, "" if the generator is its
    second argument, or the name of the parameter."""

    call: Callable[..., Any]
    where: str
    name: str
    generator: Optional[str] = None

    def apply(self, row: Any, generator: Callable[[], Any]) -> Any:
        if self.generator is None:
            return self.call(row)
        if self.generator:
            return self.call(row, **{self.generator: generator()})
        return self.call(row, generator())


def name_of(function: Any) -> str:
    """For messages: "a lambda", "blur", "an object of module.Class"."""
    name = getattr(function, "__name__", "")
    if isinstance(name, str) and name:
        return "a lambda" if name == "<lambda>" else name
    kind = type(function)
    return f"an object of {kind.__module__}.{kind.__qualname__}"


def _generator(function: Any, where: str) -> Optional[str]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    positional = [p for p in parameters if p.kind in _POSITIONAL]
    named = [p for p in parameters if p.name in _GENERATORS and p.kind is not p.POSITIONAL_ONLY and p is not parameters[0]]
    takes_row = positional or any(p.kind is p.VAR_POSITIONAL for p in parameters)
    allowed = positional[:1] + (named[:1] or positional[1:2])
    if not takes_row or any(p not in allowed for p in needed):
        told = f"the parameters {', '.join(p.name for p in parameters)}" if parameters else "no parameters"
        raise ArgumentError(
            f"{where}: {name_of(function)} has {told}: expected a function of a row, or of a "
            "row and a generator (def f(row, generator)); set other parameters with functools.partial"
        )
    if named:
        return named[0].name
    return "" if len(positional) > 1 and positional[1].default is inspect.Parameter.empty else None


def read(function: Callable[..., Any], where: str) -> Function:
    """Raises ArgumentError if it cannot be called with a row, or with a row and a generator."""
    return Function(function, where, name_of(function), _generator(function, where))

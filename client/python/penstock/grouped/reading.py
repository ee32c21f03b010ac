"""Reads `Loader(views=...)` where it is a list or a dict of groups.

Each group is a mapping with the keys `transforms`, `image_size`, `interpolation`, `count` and
`name`. Its transforms are read as the loader's own (transforms.py). All groups deliver one dtype
with one normalization, because it is the loader that converts; what a batch mixes, and functions of
the user, cannot be in a group.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Optional, Tuple

from .. import checks, transforms
from ..errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from ..mixing import Mixing

__all__ = ["KEYS", "MOST", "Groups", "check_mixing", "is_groups", "read"]

MOST = 16  # views of a sample, over all groups: SLOTS_VIEWS_MAX
KEYS = ("transforms", "image_size", "count", "name", "interpolation")

_Size = Tuple[int, int]  # height, width


@dataclass(frozen=True)
class Groups:
    """`json` is options.view_groups. `plan` says what all groups have in common: dtype, mean and
    std. `listed`: it contains the loader's own transforms, and `sized`: the loader's image_size; the
    daemon need not get them again."""

    json: str
    plan: transforms.Plan
    listed: bool
    sized: bool


def is_groups(value: Any) -> bool:
    """Whether `views` is meant as groups: anything that is not a number."""
    return isinstance(value, Mapping) or (isinstance(value, Sequence) and not isinstance(value, (str, bytes)))


def _entries(views: Any) -> "list[tuple[str, Mapping[str, Any]]]":
    """Where each group is written, and the group. In a dict, the key is the group's name."""
    if isinstance(views, Mapping):
        found = []
        for name, group in views.items():
            where = f"views[{name!r}]"
            if not isinstance(name, str):
                raise ArgumentTypeError(f"views: expected names of groups as keys, got {checks.shown(name)}")
            if isinstance(group, Mapping) and "name" in group:
                raise ArgumentError(f"{where}: its name is the key {name!r}: leave 'name' out")
            found.append((where, {**_mapping(where, group), "name": name}))
    else:
        found = [(f"views[{i}]", _mapping(f"views[{i}]", group)) for i, group in enumerate(views)]
    if not found:
        raise ArgumentError(
            f'views: expected a number, or at least one group such as {{"transforms": [...], "count": 8}}, got {checks.shown(views)}'
        )
    return found


def _mapping(where: str, group: Any) -> Mapping[str, Any]:
    if not isinstance(group, Mapping):
        raise ArgumentTypeError(
            f'{where}: expected a dict such as {{"transforms": [...], "count": 8}}, got {checks.shown(group)}'
        )
    for key in group:
        if key not in KEYS:
            near = checks.nearest(str(key), KEYS, 0.6)
            meant = f": did you mean {near[0]!r}?" if near else f"; a group has {', '.join(KEYS)}"
            raise ArgumentError(f"{where}: there is no key {key!r}{meant}")
    return group


def _same(plans: "list[tuple[str, transforms.Plan]]") -> transforms.Plan:
    """What the groups have in common. A group without a conversion leaves it to the others."""
    first: "Optional[tuple[str, transforms.Plan]]" = None
    for where, plan in plans:
        if plan.dtype is None:
            continue
        if first is None:
            first = where, plan
        elif (plan.dtype, plan.mean, plan.std) != (first[1].dtype, first[1].mean, first[1].std):
            raise ArgumentError(
                f"{where}: its transforms make {_made(plan)}, and those of {first[0]} make {_made(first[1])}: all views of "
                "a loader have one dtype and one normalization, so write the same ToTensor and Normalize in each group"
            )
    return transforms.Plan() if first is None else transforms.Plan(mean=first[1].mean, std=first[1].std, dtype=first[1].dtype)


def _made(plan: transforms.Plan) -> str:
    return str(plan.dtype) if plan.mean is None else f"{plan.dtype} with mean {plan.mean} and std {plan.std}"


def _check(where: str, plan: transforms.Plan) -> None:
    held = {
        "functions": bool(plan.functions),
        "RandomErasing after ToTensor or Normalize": plan.erase is not None,
        "MixUp and CutMix": plan.mix is not None,
    }
    advice = {
        "functions": "apply them to the group's tensors in the loop",
        "RandomErasing after ToTensor or Normalize": "put RandomErasing before the conversion, where the daemon erases",
        "MixUp and CutMix": "mix the group's tensors in the loop",
    }
    for what, bad in held.items():
        if bad:
            raise ArgumentError(f"{where}: {what} cannot be in a group of views: {advice[what]}")


def check_mixing(mixing: "Optional[Mixing]") -> None:
    if mixing is not None and mixing.of_floats:
        raise ArgumentError(
            "mixup and cutmix cannot be combined with groups of views: leave them out, and mix the tensors of a group in the loop"
        )


def read(
    views: Any, common: Any, wanted: Optional[_Size], size_of: Callable[[str, Any], _Size]
) -> Groups:
    """`common` are the loader's own transforms, which are those of groups without transforms: each
    such group gets them with its own size. `wanted` is the loader's image_size, for groups without a
    size. `size_of(where, value)` reads an image_size. Raises ArgumentError."""
    groups: "list[dict[str, Any]]" = []
    plans: "list[tuple[str, transforms.Plan]]" = []
    listed = sized = False
    for where, given in _entries(views):
        own = given.get("transforms") is not None
        given = {**given, "transforms": given["transforms"] if own else common}
        place = f"{where}['transforms']" if own else "transforms"
        group: "dict[str, Any]" = {}
        size = None if given.get("image_size") is None else size_of(f"{where}['image_size']", given["image_size"])
        if given.get("transforms") is not None:
            plan = transforms.plan(given["transforms"], size or wanted, place)
            _check(where, plan)
            plans.append((where, plan))
            group["transforms"] = json.loads(plan.json or "[]")
            listed = listed or not own
            sized = sized or (size is None and transforms.plan(given["transforms"], None, place).json != plan.json)
            if size is not None and plan.size not in (None, size):
                raise ArgumentError(
                    f"{where}: image_size is {_shown(size)}, but its transforms produce images of size {_shown(plan.size or size)}: "
                    "leave image_size out"
                )
        if size is not None:
            group["image_size"] = size[0] if size[0] == size[1] else list(size)
        if given.get("interpolation") is not None:
            group["interpolation"] = checks.text(f"{where}['interpolation']", given["interpolation"])
        if given.get("count") is not None:
            group["count"] = checks.number(f"{where}['count']", given["count"], 1, MOST)
        if given.get("name") is not None:
            group["name"] = checks.text(f"{where}['name']", given["name"])
        groups.append(group)
    made = sum(group.get("count", 1) for group in groups)
    if made > MOST:
        raise ArgumentError(f"views: the groups have {made} views together, and a sample can have {MOST}")
    bare = any("transforms" not in group and "image_size" not in group for group in groups)
    return Groups(json.dumps(groups), _same(plans), listed, sized and not bare)


def _shown(size: _Size) -> str:
    return str(size[0] if size[0] == size[1] else size)

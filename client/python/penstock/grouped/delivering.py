"""The images of each group, as the tensors that the user gets: a tuple with a tensor for each view,
in the order of the views, or, if the groups have names, a dict of names. In the dict, a group of one
view is a tensor, and a group of several is a tuple of tensors."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional, Protocol

from .._penstock import Pool, fill_images

if TYPE_CHECKING:
    from .._penstock import Batch, Converter, Stream
    from ..frameworks import Arrays

__all__ = ["Group", "Images", "arranged", "flattened", "groups_of", "images_of", "like", "split"]


@dataclass(frozen=True)
class Group:
    views: int
    height: int
    width: int
    name: str


def groups_of(stream: Stream) -> "list[Group]":
    """The groups of a stream; empty if its views are not divided."""
    return [Group(*described) for described in stream.groups]


def split(images: Any, views: int) -> "tuple[Any, ...]":
    """Rows of several views, which are next to each other, as a tuple with an array for each view."""
    return tuple(images[view::views] for view in range(views))


def arranged(groups: "list[Group]", made: "list[tuple[Any, ...]]") -> Any:
    """The tuple or the dict that the user gets, of the views of each group."""
    if groups[0].name:
        return {group.name: views if group.views > 1 else views[0] for group, views in zip(groups, made)}
    return tuple(view for views in made for view in views)


def flattened(images: Any) -> "tuple[Any, ...]":
    """All tensors of a batch's images, however they are arranged."""
    if isinstance(images, dict):
        return tuple(view for views in images.values() for view in flattened(views))
    return images if isinstance(images, tuple) else (images,)


def like(images: Any, tensors: Iterable[Any]) -> Any:
    """The tensors, arranged as `images` is."""
    left = iter(tensors)
    if isinstance(images, dict):
        return {name: like(views, itertools.islice(left, len(flattened(views)))) for name, views in images.items()}
    return tuple(left) if isinstance(images, tuple) else next(left)


class Images(Protocol):
    """How the images of a batch leave shared memory, in blocks of memory that are used again."""

    def take(self) -> Any: ...
    def fill(self, batch: Batch, blocks: Any, converter: Optional[Converter]) -> None: ...
    def deliver(self, arrays: Arrays, blocks: Any, count: int, height: int, width: int) -> Any: ...


def images_of(stream: Stream, pixel_bytes: int, keep: int) -> Images:
    """`pixel_bytes` are those of a converted pixel; `keep` is how many unused blocks are kept."""
    groups, info = groups_of(stream), stream.info
    if groups:
        return Grouped(groups, info["batch_size"] * pixel_bytes, keep)
    return Undivided(info, pixel_bytes, keep)


class Undivided:
    """All views have one size: they share a block, whose rows are next to each other by sample."""

    def __init__(self, info: "dict[str, int]", pixel_bytes: int, keep: int) -> None:
        self._views = info["views"]
        rows = info["batch_size"] * self._views
        self._pool = Pool(rows * info["height"] * info["width"] * pixel_bytes, keep)

    def take(self) -> Any:
        return self._pool.take()

    def fill(self, batch: Batch, blocks: Any, converter: Optional[Converter]) -> None:
        """While the batch is held."""
        if converter is None:
            fill_images(batch, blocks)
        else:
            converter.images(batch, blocks)

    def deliver(self, arrays: Arrays, blocks: Any, count: int, height: int, width: int) -> Any:
        rows = arrays.images(blocks, count * self._views, height, width)
        return rows if self._views == 1 else split(rows, self._views)


class Grouped:
    """A block for each group."""

    def __init__(self, groups: "list[Group]", batch_bytes: int, keep: int) -> None:
        self._groups = groups
        self._pools = [Pool(batch_bytes * group.views * group.height * group.width, keep) for group in groups]

    def take(self) -> Any:
        return [pool.take() for pool in self._pools]

    def fill(self, batch: Batch, blocks: Any, converter: Optional[Converter]) -> None:
        """While the batch is held."""
        for number, block in enumerate(blocks):
            if converter is None:
                fill_images(batch, block, number)
            else:
                converter.images(batch, block, number)

    def deliver(self, arrays: Arrays, blocks: Any, count: int, height: int, width: int) -> Any:
        """The sizes are the groups' own."""
        made = []
        for group, block in zip(self._groups, blocks):
            rows = arrays.images(block, count * group.views, group.height, group.width)
            made.append(split(rows, group.views))
        return arranged(self._groups, made)

"""loader.dataset: what programs ask of torchvision's ImageFolder, as far as it can be answered.

A loader holds no list of samples. `samples` and `targets` ask the daemon, which reads its index, when
they are first asked for; the loader keeps the list. That takes some 10 us and 200 bytes for
each sample: 13 s and 250 MB for 1.28 million.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import ArgumentTypeError, DaemonError
from . import fixed
from .sampler import Place

if TYPE_CHECKING:
    from ..loader import Loader

__all__ = ["Dataset", "refuse_number"]


def refuse_number() -> NoReturn:
    """For users who put a loader, or its dataset, into a DataLoader, which asks for samples by
    number."""
    raise ArgumentTypeError(
        "a loader yields whole batches in its own order and cannot return a sample by number: write `for images, "
        "labels in loader`, without a DataLoader; loader.path(index) returns the path of a sample"
    )


_ESCAPES = re.compile(r"\\(.)")


def _sample(line: str, kind: Callable[[str], Any], one: bool) -> "tuple[str, Any]":
    """The path and the label in a line of the daemon's answer. The path may have escapes."""
    label, path = line.split(" ", 1)
    if "\\" in path:
        path = _ESCAPES.sub(lambda found: "\n" if found[1] == "n" else found[1], path)
    return path, kind(label) if one else [kind(value) for value in label.split(",")]


def _listed(loader: Loader) -> "list[tuple[str, Any]]":
    """The path and the label of each sample."""
    listed: "list[tuple[str, Any]]" = []
    floats = bool(loader._info["label_type"])
    one = not floats and loader._info["label_width"] == 1
    while len(listed) < loader.samples:
        with loader._lock:
            lines = loader._ask().samples(len(listed))
        found = [_sample(line, float if floats else int, one) for line in lines.split("\n")[:-1]]
        if not found:
            raise DaemonError(f"the daemon listed {len(listed)} of {loader.samples} samples and no more")
        listed += found
    return listed


class Dataset:
    """The dataset as `len(loader.dataset)` and the like describe it. It has the number of an
    epoch's samples, the classes, and the paths and labels of all samples; it does not have the
    images."""

    _loader: Loader

    def __init__(self, loader: Loader) -> None:
        object.__setattr__(self, "_loader", loader)

    def __setattr__(self, name: str, value: object) -> None:
        fixed.refuse_dataset(name)

    def __repr__(self) -> str:
        return f"<penstock: the dataset of {self._loader!r}>"

    def __len__(self) -> int:
        """The number of samples of an epoch, of all ranks."""
        return self._loader._info["samples"]

    def __getitem__(self, index: object) -> NoReturn:
        refuse_number()

    def __getitems__(self, place: object) -> Any:
        """For a DataLoader whose batch_sampler is the loader's: reads the batch that a Place names."""
        if not isinstance(place, Place):
            refuse_number()
        return self._loader._read_at(place)

    @property
    def classes(self) -> list[str]:
        """The names of the classes, by label."""
        return self._loader.classes

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The label of each class name."""
        return self._loader.class_to_idx

    @property
    def samples(self) -> "list[tuple[str, Any]]":
        """(path, label) of each sample, by the numbers that batch.samples["index"] and indices=
        have, also of samples that `indices` leaves out. A label is an int, -1 for none, or a list of
        its values. The first access asks the daemon, and the loader then keeps the list."""
        loader = self._loader
        if loader._listed is None:
            loader._listed = _listed(loader)
        return loader._listed

    @property
    def imgs(self) -> "list[tuple[str, Any]]":
        """ImageFolder's other name of `samples`."""
        return self.samples

    @property
    def targets(self) -> "list[Any]":
        """The label of each sample, as in `samples`."""
        return [label for _, label in self.samples]

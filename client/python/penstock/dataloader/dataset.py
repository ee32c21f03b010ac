"""loader.dataset: what programs ask of torchvision's ImageFolder, as far as it can be answered.

A loader holds no list of samples. `samples` and `targets` walk the folder, as ImageFolder does, when
they are first asked for; the loader keeps the list. That takes some 5 us and 150 bytes for each
sample: 6 s and 190 MB for 1.28 million.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import ArgumentError, ArgumentTypeError, DatasetError
from ..naming import Named
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


def _walk(loader: Loader, name: str) -> "list[tuple[str, int]]":
    """The path and the label of each of the folder's samples."""
    opening = loader._opening
    given = opening.options
    labels = given.get("labels", "auto")
    root = os.path.abspath(str(given.get("source", "")))
    why = (
        "the daemon's configuration defines the stream" if given.get("source", "").startswith("stream:")
        else "the source is a mix of several" if "source" not in given
        else "the source is not a folder" if not os.path.isdir(root)
        else "split= chooses a part of the folder" if "split" in given
        else "labels= names another source of labels" if labels not in ("auto", "folder")
        else "the folder has no class folders" if not loader.classes
        else ""
    )
    if why:
        raise ArgumentError(
            f"loader.dataset.{name} can be listed only if the source is a folder of class folders that give the labels, "
            f'and {why}: loader.path(index) returns the path of a sample, and batch.samples["index"] and batch.labels '
            "say what a row is"
        )
    samples = Named(root, given.get("class_order") == "natural")
    numbers = loader.class_to_idx
    found = [numbers.get(path.split(os.sep, 1)[0], -1) for path in samples.number]
    if len(found) != loader.samples or -1 in found:
        raise DatasetError(
            f"loader.dataset.{name}: the folder has changed since the loader was opened: {len(found)} images are in it, "
            f"and the loader has {loader.samples} samples; create a new loader"
        )
    return [(os.path.join(root, path), label) for path, label in zip(samples.number, found)]


class Dataset:
    """The dataset as `len(loader.dataset)` and the like describe it. It has the number of an
    epoch's samples, the classes, and, for a folder of class folders, the paths and labels of all
    samples; it does not have the images."""

    _loader: Loader

    def __init__(self, loader: Loader) -> None:
        object.__setattr__(self, "_loader", loader)

    def __setattr__(self, name: str, value: object) -> None:
        fixed.refuse_dataset(name)

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
    def samples(self) -> "list[tuple[str, int]]":
        """(absolute path, label) of each sample, by the numbers that batch.samples["index"] and
        indices= have, also of samples that `indices` leaves out. The first access walks the folder,
        and the loader then keeps the list."""
        loader = self._loader
        if loader._listed is None:
            loader._listed = _walk(loader, "samples")
        return loader._listed

    @property
    def imgs(self) -> "list[tuple[str, int]]":
        """ImageFolder's other name of `samples`."""
        return self.samples

    @property
    def targets(self) -> "list[int]":
        """The label of each sample, as in `samples`."""
        return [label for _, label in self.samples]

"""loader.sampler and loader.batch_sampler: they say how an epoch is divided, and do not know samples.

The daemon decides which samples a batch has, so neither can list numbers of samples. The batch
sampler yields a Place for each batch. Programs pass places on to loader.dataset, which reads the
batch: so accelerate.skip_first_batches works, which makes a DataLoader of loader.dataset and a
part of loader.batch_sampler.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import ArgumentTypeError
from . import fixed

if TYPE_CHECKING:
    from ..loader import Loader

__all__ = ["BatchSampler", "Place", "Sampler"]


def _refuse() -> NoReturn:
    raise ArgumentTypeError(
        "the daemon decides which samples a batch has, so this loader has no list of their numbers: read "
        'batch.samples["index"] of `for batch in loader.batches()`; the loader divides an epoch among ranks by itself, '
        "by rank= and world_size=, and takes no sampler from outside"
    )


class Sampler:
    """Says what a DistributedSampler says, and passes set_epoch on to the loader. It cannot be
    iterated."""

    _loader: Loader

    def __init__(self, loader: Loader) -> None:
        object.__setattr__(self, "_loader", loader)

    def __setattr__(self, name: str, value: object) -> None:
        fixed.refuse_sampler("sampler", name)

    def __len__(self) -> int:
        """The number of this rank's rows in an epoch."""
        return self._loader._rows()

    def __iter__(self) -> Iterator[int]:
        _refuse()

    def set_epoch(self, epoch: int) -> None:
        self._loader.set_epoch(epoch)

    @property
    def epoch(self) -> int:
        return self._loader.epoch

    @property
    def num_replicas(self) -> int:
        return self._loader.world_size

    @property
    def rank(self) -> int:
        return self._loader.rank

    @property
    def drop_last(self) -> bool:
        return self._loader.drop_last

    @property
    def shuffle(self) -> bool:
        return bool(self._loader._info["shuffle"])

    def __repr__(self) -> str:
        return f"<penstock: the sampler of {self._loader!r}>"


class Place:
    """Names a batch of an iteration by its number, from 0. len() is batch_size."""

    __slots__ = ("iteration", "number", "rows")

    def __init__(self, iteration: Any, number: int, rows: int) -> None:
        self.iteration = iteration
        self.number = number
        self.rows = rows

    def __len__(self) -> int:
        return self.rows

    def __iter__(self) -> Iterator[int]:
        _refuse()

    def __repr__(self) -> str:
        return f"<penstock: batch {self.number}>"


class BatchSampler:
    """Yields a Place for each batch of the next epoch. Iterating it begins the epoch."""

    _loader: Loader

    def __init__(self, loader: Loader) -> None:
        object.__setattr__(self, "_loader", loader)

    def __setattr__(self, name: str, value: object) -> None:
        fixed.refuse_sampler("batch_sampler", name)

    @property
    def sampler(self) -> Sampler:
        return self._loader.sampler

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Place]:
        loader = self._loader
        iteration = iter(loader)
        first = len(loader) - loader.remaining  # 0, or after a state was loaded, the batches before it
        return (Place(iteration, number, loader.batch_size) for number in range(first, len(loader)))

    @property
    def batch_size(self) -> int:
        return self._loader.batch_size

    @property
    def drop_last(self) -> bool:
        return self._loader.drop_last

    def __repr__(self) -> str:
        return f"<penstock: the batch sampler of {self._loader!r}>"

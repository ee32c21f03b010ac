"""Arguments that other loaders have and this one does not: what to use instead, for each name.

A user of torch's DataLoader, or one who misspells a name, learns the right argument from the error.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Optional

from ..checks import nearest
from ..errors import ArgumentTypeError

__all__ = ["instead", "refuse"]

_INSTEAD = {
    "num_workers": "not needed: penstock's daemon chooses its number of threads; to set it, use threads=",
    "pin_memory": "not needed: memory is pinned if device= is a CUDA device",
    "pin_memory_device": "not needed: use device=; memory is pinned for it",
    "prefetch_factor": "use prefetch= for the number of batches that may be ready ahead (default 4)",
    "persistent_workers": "not needed: the daemon lives as long as the loader, over all epochs",
    "sampler": "the daemon shuffles: use shuffle= and seed=; indices= or split= for a subset; weights= instead of a "
    "WeightedRandomSampler; sampling= instead of a RandomIdentitySampler; rank= and world_size= (or torchrun) instead of a DistributedSampler",
    "batch_sampler": "use batch_size=, shuffle=, drop_last= and indices=",
    "collate_fn": "batches are (images, labels); process whole batches in the loop",
    "worker_init_fn": "there are no worker processes in Python; all randomness follows from seed=",
    "generator": "all randomness follows from seed=",
    "multiprocessing_context": "there are no worker processes in Python",
    "in_order": "batches always come in order",
    "dataset": "pass the folder or the tar files: Loader(source, ...)",
    "mixup_alpha": "use mixup=",
    "cutmix_alpha": "use cutmix=",
    "smoothing": "use label_smoothing=",
    "num_samples": "use epoch_length=",
    "num_instances": 'use sampling={"classes": P, "per_class": K}',
    "replacement": "weights= draws with replacement; without weights each sample comes once",
    "ra_reps": "use repeats=",
    "root": "pass the folder as the first argument: Loader(source, ...)",
    "path": "pass the path as the first argument: Loader(source, ...)",
    "transform": "use transforms=[...] with torchvision's objects or their names; without it, train= decides",
    "target_transform": "labels are those of the dataset; change them in the loop",
    "epochs": "a loader has no last epoch: write `for epoch in range(n): for images, labels in loader: ...`",
    "num_epochs": "a loader has no last epoch: write `for epoch in range(n): for images, labels in loader: ...`",
    "num_threads": "use threads=",
    "device_id": 'use device="cuda:N"',
    "num_shards": "use world_size=",
    "shard_id": "use rank=",
    "num_replicas": "use world_size=",
    "size": "use image_size=",
    "resize": "use image_size=, or transforms= with a Resize",
    "img_size": "use image_size=",
    "workers": "use threads=, of penstock's daemon; by default it chooses",
    "bs": "use batch_size=",
    "augment": "use transforms=[...] with torchvision's objects or their names; without it, train= decides",
    "resolution": "use image_size=",
    "random_shuffle": "use shuffle=",
    "order": "use shuffle=",
    "distributed": "ranks come from RANK and WORLD_SIZE, which torchrun sets, or from rank= and world_size=",
    "batches_ahead": "use prefetch=",
    "normalize": "use mean= and std=, or dtype='uint8' for raw pixels",
}


def instead(name: str) -> Optional[str]:
    """What to use in place of an argument that other loaders have."""
    return _INSTEAD.get(name) or _INSTEAD.get(name.lower())


def _close(name: str, known: "list[str]") -> str:
    near = nearest(name, known, 0.6)
    if near:
        return f"did you mean {' or '.join(word + '=' for word in near)}?"
    return "help(penstock.Loader) and docs/reference/python.md describe its arguments"


def refuse(callee: str, names: Iterable[str], known: "list[str]", defined: "Container[str]" = ()) -> None:
    """Raises ArgumentTypeError for `names`, arguments that `callee` does not know, if there are
    any. `defined` are the arguments that the daemon's configuration sets instead."""
    unknown = list(names)
    if not unknown:
        return
    there = "the daemon's configuration sets it, for all trainers that open the stream"
    told = [
        f"{callee} has no argument {name!r}: {there if name in defined else instead(name) or _close(name, known)}"
        for name in unknown
    ]
    raise ArgumentTypeError("; ".join(told))

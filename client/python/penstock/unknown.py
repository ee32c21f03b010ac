"""Arguments that other loaders have and this one has not: what to do instead, for each by name.

A user who comes from torch's DataLoader, or misspells a name, learns it from the error, not from a search.
"""

from __future__ import annotations

import difflib
from collections.abc import Container, Iterable

from .errors import ArgumentTypeError

__all__ = ["refuse"]

_INSTEAD = {
    "num_workers": "penstock's daemon has threads=, and chooses it itself; num_workers is not needed",
    "pin_memory": "memory is pinned where device= is a CUDA device; pin_memory is not needed",
    "pin_memory_device": "say where batches go with device=; memory is pinned as it needs",
    "prefetch_factor": "say with prefetch= how many batches may be ready ahead (default 4)",
    "persistent_workers": "the daemon lives as long as the loader, over all epochs; persistent_workers is not needed",
    "sampler": "the daemon shuffles itself: use shuffle= and seed=, indices= or split= for a subset, weights= in the place of "
    "a WeightedRandomSampler, and rank= and world_size= (or torchrun) in that of a DistributedSampler",
    "batch_sampler": "use batch_size=, shuffle=, drop_last= and indices=",
    "collate_fn": "batches come as (images, labels); what is to be done to a whole batch belongs into the loop",
    "worker_init_fn": "there are no workers in Python; randomness follows from seed= alone",
    "generator": "randomness follows from seed= alone",
    "multiprocessing_context": "there are no worker processes in Python",
    "in_order": "batches always come in order",
    "dataset": "pass the folder or the tars themselves: Loader(source, ...)",
    "mixup_alpha": "use mixup=",
    "cutmix_alpha": "use cutmix=",
    "smoothing": "use label_smoothing=",
    "num_samples": "use epoch_length=",
    "replacement": "weights= draws with replacement; without weights each sample comes once",
    "ra_reps": "use repeats=",
    "root": "pass the folder as the first argument: Loader(source, ...)",
    "path": "pass the path as the first argument: Loader(source, ...)",
    "transform": "pass transforms=[...], torchvision's objects or their names; or leave it out for what train= implies",
    "target_transform": "labels come as the dataset has them; change them in the loop",
    "epochs": "a loader does not end: write `for epoch in range(n): for images, labels in loader: ...`",
    "num_epochs": "a loader does not end: write `for epoch in range(n): for images, labels in loader: ...`",
    "num_threads": "use threads=",
    "device_id": 'use device="cuda:N"',
    "num_shards": "use world_size=",
    "shard_id": "use rank=",
    "num_replicas": "use world_size=",
    "size": "use image_size=",
    "resolution": "use image_size=",
    "random_shuffle": "use shuffle=",
    "order": "use shuffle=",
    "distributed": "ranks are taken from the environment as torchrun sets it, or from rank= and world_size=",
    "batches_ahead": "use prefetch=",
    "normalize": "use mean= and std=, or dtype='uint8' for raw pixels",
}


def _close(name: str, known: "list[str]") -> str:
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    return f"did you mean {' or '.join(word + '=' for word in near)}?" if near else f"it has {', '.join(known)}"


def refuse(callee: str, names: Iterable[str], known: "list[str]", defined: "Container[str]" = ()) -> None:
    """Raises for the arguments that `callee` was given and does not know, if there are any; of them `defined` are those that the
    daemon's configuration says."""
    unknown = list(names)
    if not unknown:
        return
    there = "the daemon's configuration says it, for all who open the stream"
    told = [
        f"{callee} has no argument {name!r}: {there if name in defined else _INSTEAD.get(name) or _close(name, known)}"
        for name in unknown
    ]
    raise ArgumentTypeError("; ".join(told))

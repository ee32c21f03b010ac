"""penstock: batches of decoded, augmented images, made by a daemon of its own beside the training process.

    import penstock
    loader = penstock.Loader("out/train-*.tar", batch_size=256, image_size=224, train=True, seed=0)
    for epoch in range(90):
        for images, labels in loader: ...

A map of the package:

    loader.py       Loader: epochs, states, what is known of the stream
    named.py        Stream: one that the running daemon's configuration defines
    epochs.py       the rules of epochs and iterators; state.py: what a checkpoint keeps
    arguments.py    all arguments together; checks.py: one; sources.py: source; environment.py: ranks;
                    devices.py: device; unknown.py: those of other loaders
    transforms.py   transforms=; mixing.py: mixup=, cutmix= and their like; labelling.py: labels=
    subset.py       indices=; weighing.py: weights=; kept.py: the files that the daemon reads both from
    readers.py      from shared memory to the user's own, on the CPU; cuda.py: on a device
    frameworks.py   torch's, NumPy's and JAX's arrays; views.py: read-only ones, for zero_copy
    batch.py        what batches() yields; errors.py: all that is raised
    _penstock       compiled: libpenstock
"""

from __future__ import annotations

from . import errors
from ._penstock import VERSION as __version__
from .batch import FLIPPED, FLIPPED_VERTICALLY, INVALID, PADDED, SUBSTITUTED, Batch
from .errors import *  # noqa: F403
from .loader import Loader
from .named import Stream

__all__ = [
    "FLIPPED",
    "FLIPPED_VERTICALLY",
    "INVALID",
    "PADDED",
    "SUBSTITUTED",
    "Batch",
    "Loader",
    "Stream",
    "__version__",
    *errors.__all__,
]

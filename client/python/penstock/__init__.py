"""penstock: batches of decoded, augmented images, which a daemon makes beside the training process.

    import penstock
    loader = penstock.Loader('out/train-*.tar', batch_size=256, image_size=224, train=True, seed=0)
    for epoch in range(90):
        loader.set_epoch(epoch)
        for images, labels in loader: ...

A map of this folder:

  __init__.py       the public names
  loader.py         Loader: epochs, states, and what it knows of its stream
  named.py          Stream: a stream that the running daemon's configuration defines
  epochs.py         the rules of epochs and iterators
  state.py          the state that a checkpoint keeps
  arguments.py      all arguments together: the options of the stream, and the output
  checks.py         checks of single arguments
  sources.py        source=
  environment.py    ranks
  nodes.py          whether all nodes of a job read the same dataset
  devices.py        device=
  transforms.py     transforms=
  advice.py         what to write in place of transforms that the daemon does not have
  timm_objects.py   transforms that are objects of timm
  mixing.py         mixup=, cutmix=, label_smoothing= and the like
  labelling.py      labels=
  fields.py         fields=, and the fields of a batch
  subset.py         indices=
  weighing.py       weights=
  naming.py         paths in indices= and weights=
  kept.py           the files from which the daemon reads indices and weights
  readers.py        from shared memory to the user's arrays, on the CPU
  cuda.py           from shared memory to tensors on a CUDA device
  frameworks.py     the arrays of torch, NumPy and JAX
  views.py          read-only NumPy arrays, for zero_copy=True
  batch.py          Batch, which batches() yields
  events.py         Event, which on_event= gets; warnings
  joined.py         threads= and memory= that a running daemon does not follow
  functions/        functions of the user in transforms=
  dataloader/       what programs that were written for torch's DataLoader look for
  grouped/          views in groups, each with its own transforms and size
  errors.py         every exception that penstock raises
  notation.py       sentences of the daemon in Python's notation

The extension _penstock, compiled from ../src, contains libpenstock; _penstock.pyi describes it.
"""

from __future__ import annotations

try:
    from ._penstock import VERSION as __version__
except ImportError as error:  # half an installation, or one for another machine
    _folder = __file__.rpartition("/")[0]
    _what = f"is missing in {_folder}" if isinstance(error, ModuleNotFoundError) else f"in {_folder} cannot be loaded: {error}"
    raise ImportError(f"the extension penstock._penstock {_what}; install penstock again for this Python and this machine") from error

from . import errors
from .batch import FLIPPED, FLIPPED_VERTICALLY, INVALID, PADDED, SUBSTITUTED, Batch
from .errors import *  # noqa: F403
from .events import Event
from .loader import Loader
from .named import Stream

__all__ = [
    "FLIPPED",
    "FLIPPED_VERTICALLY",
    "INVALID",
    "PADDED",
    "SUBSTITUTED",
    "Batch",
    "Event",
    "Loader",
    "Stream",
    "__version__",
    *errors.__all__,
]

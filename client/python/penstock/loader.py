"""The loader: a stream of the daemon as an object that is iterated once for each epoch.

Two positions are kept apart. `Epochs.at` is the position of the loop: after the last batch that it
was given. The reader's state is the position of the stream. The loader compares them before each
batch; if they differ, it closes the stream and opens it again at `at`. `break`, set_epoch and
load_state_dict work by this one rule, and by this rule Ctrl-C never loses a batch: a batch that was
read but did not reach the loop is read again.

In a group that shares its batches (share="all"), the other trainers continue at their own pace, and
a stream cannot be moved: there the loader reads the rest of an epoch and drops it.

Threads: calls take turns. fork(): the child's loader cannot be used. It raises ForkError before it
touches the lock, which another thread may have held.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, Callable, NoReturn, Optional, Tuple, Union

from . import _penstock, arguments, checks, cuda, environment, errors, frameworks, joined, naming, nodes, notation
from . import readers, sources, subset
from .batch import Batch, Told, Yielded
from .dataloader import fixed
from .dataloader import unknown as unknown_arguments
from .dataloader.dataset import Dataset, refuse_number
from .dataloader.sampler import BatchSampler, Place, Sampler
from .epochs import Epochs, Turn
from .events import Watch, warn
from .fields import Fields
from .grouped import reading as groups
from .state import State

__all__ = ["Loader"]

_NOT_OVER = (errors.WaitTimeoutError, errors.HeldError, errors.TransformError)  # errors that do not end the stream


class _Iteration:
    """The iterator that iter() and batches() return."""

    __slots__ = ("_give", "_loader", "_turn")

    def __init__(self, loader: Loader, turn: Turn, give: Callable[[Yielded], Any]) -> None:
        self._loader = loader
        self._turn = turn
        self._give = give

    def __iter__(self) -> _Iteration:
        return self

    def __next__(self) -> Any:
        before: list[Any] = []
        try:
            return self._loader._next(self._turn, self._give, before)
        except BaseException:
            # Ctrl-C came after give() and before the return: the loop did not get the batch. No
            # function is called here, so that a signal cannot interrupt this.
            if before:
                epochs, turn = self._loader._epochs, self._turn
                at, after, given, epoch = before
                if epochs.at is after:
                    epochs.at, turn.given, turn.epoch = at, given, epoch
            raise


def _as_it_is(batch: Any) -> Any:
    return batch


def _pair(given: Yielded) -> Tuple[Any, ...]:
    fields = given[2].fields
    return given[:2] if fields is None else (given[0], given[1], fields)


def _batch(given: Yielded) -> Batch:
    return Batch(*given)


@functools.lru_cache(None)
def _defaults() -> dict[str, Any]:
    parameters = inspect.signature(Loader.__init__).parameters.values()
    return {p.name: p.default for p in parameters if p.name not in ("self", "unknown")}


class Loader:
    """Batches of a dataset: `for images, labels in loader`, once for each epoch.

    docs/reference/python.md, in penstock's repository, describes every argument. None means that
    `train` or the environment decides.

    source          a folder, a tar file, a glob, a brace range or a list of tar files,
                    files or a folder of another kind (Parquet, TFRecord, MDS, LitData, ZIP,
                    LMDB, RecordIO, CIFAR, MNIST), or "stream:NAME" of the running daemon; or several with weights:
                    [(source, weight), ...]
    batch_size      samples for each rank
    image_size      pixels of a side, or (height, width); or {epoch: size}, for one that changes
    train           True: RandomResizedCrop and flip, shuffled, without the short last batch.
                    False: Resize and CenterCrop, in order, with the short last batch
    shuffle, drop_last
                    override what `train` implies; shuffle="blocks" shuffles within a window of
                    blocks, so that storage is read in large pieces
    window          blocks of 8 to 16 MiB that shuffle="blocks" has open at once; default: 16
    seed            the same seed gives the same bytes
    transforms      torchvision's transforms, instead of what `train` implies:
                    [v2.RandomResizedCrop(176), "RandomHorizontalFlip"]; functions of your own
                    come after them
    threads, memory
                    of the daemon, if this loader starts it: memory="4G"
    rank, world_size, share
                    this trainer's part of each global batch; default: torchrun's variables
    dtype           "float32", "float16", "bfloat16", "uint8"
    mean, std       for pixels from 0 to 1; default: ImageNet's
    device          "cpu", "cuda", "cuda:1"; "auto": CUDA if torch finds a device
    zero_copy       read-only NumPy views of the daemon's memory, uint8
    indices         the samples of an epoch: numbers, a mask of bools, or paths in the folder
    map_threads     threads that run functions of `transforms`; default: the CPUs, at most 4
    salt            a text: other draws (crops, flips, mixing) than loaders of the same seed
    split           a part of the dataset: "train[:90%]"
    weights         how often each sample is drawn: "balanced", numbers, {path: number}, or a .npy file
    sampling        {"classes": 16, "per_class": 4}: each batch has that many distinct classes, and
                    that many samples of each; of several labels the first is the class
    buckets         [(256, 192), (224, 224), (192, 256)], in place of image_size: each batch has one
                    of these shapes, by the aspect ratios of its images
    epoch_length    samples of an epoch
    repeats         how often in a row each sample comes, each time with new transforms
    views           images made of each sample; above 1, `images` is a tuple of that many tensors.
                    Or groups of views, each with its own transforms and size:
                    [{"transforms": [...], "count": 2}, {"transforms": [...], "count": 8}]
    mixup, cutmix   alphas; labels become float32, (batch_size, num_classes). They,
                    mix_prob, mix_switch and label_smoothing may change with the epoch:
                    {0: 0.8, 280: 0}
    mix_prob, mix_switch
                    how often a batch is mixed, and how often CutMix does it if both are on
    num_classes     the width of soft labels; default: the dataset's classes
    label_smoothing
                    0 to 1; labels become float32, (batch_size, num_classes)
    timeout         seconds that a batch may take; None: no limit
    reconnect       seconds that the loader waits for a daemon that is gone; None: no limit
    prefetch        batches that may exist at once, in the daemon and in trainers
    fields          what comes beside each image, by extension: ["txt", "json"]; then
                    `for images, labels, fields in loader`, fields["txt"] a list of bytes
    labels          where labels come from: "auto", "none", "folder", "cls", "json",
                    {"manifest": "labels.csv", "type": "multi_hot"}
    image_column, label_column
                    of Parquet, MDS, LitData, TFRecord: which column (feature) has the images and
                    which the labels; default: found by type or name. Of CIFAR-100: coarse_labels
    label_offset    added to each label of a column: -1 where classes begin with 1
    class_order     of class folders: "bytewise", as ImageFolder; "natural", as timm
    nested          True: class folders that are named like splits (train, val), or hold folders
                    only, are meant
    on_broken       "substitute", "mark", "fail"
    max_broken      the share of broken images at which the loader fails
    max_image_pixels, max_file_bytes
                    larger images and larger files are broken
    decode          "exact", "fast"
    interpolation   "bilinear", "bicubic", "box", "hamming", "lanczos", "nearest", "random"
    channels_last   the order in memory; the shape is always (batch_size, 3, height, width)
    framework       "torch", "numpy", "jax"; "auto": torch if it is installed, else NumPy
    group, wait_for, laggard, laggard_timeout
                    trainers that share their batches
    socket          the daemon's socket
    private_daemon  whether the loader may start a daemon
    restarts        how often it may start the daemon again
    state           where to begin: a state that state_dict() returned
    on_event        a function that is called with each penstock.Event: logger.warning"""

    def __init__(
        self,
        source: Any,
        batch_size: int = 64,
        image_size: Any = 224,
        train: bool = True,
        seed: int = 0,
        shuffle: Union[bool, str, None] = None,
        drop_last: Optional[bool] = None,
        transforms: Any = None,
        threads: Optional[int] = None,
        memory: Any = None,
        rank: Optional[int] = None,
        world_size: Optional[int] = None,
        share: Optional[str] = None,
        dtype: Any = None,
        device: Any = "auto",
        zero_copy: bool = False,
        indices: Any = None,
        timeout: Optional[float] = 120,
        *,
        salt: Optional[str] = None,
        map_threads: Optional[int] = None,
        prefetch: Optional[int] = None,
        window: Optional[int] = None,
        split: Optional[str] = None,
        weights: Any = None,
        sampling: Any = None,
        buckets: Any = None,
        epoch_length: Optional[int] = None,
        repeats: int = 1,
        views: Any = 1,
        mixup: Union[float, Mapping[int, float], None] = None,
        cutmix: Union[float, Mapping[int, float], None] = None,
        mix_prob: Union[float, Mapping[int, float]] = 1.0,
        mix_switch: Union[float, Mapping[int, float]] = 0.5,
        num_classes: Optional[int] = None,
        label_smoothing: Union[float, Mapping[int, float]] = 0.0,
        labels: Any = "auto",
        fields: Any = None,
        image_column: Optional[str] = None,
        label_column: Optional[str] = None,
        label_offset: int = 0,
        class_order: str = "bytewise",
        nested: bool = False,
        on_broken: Optional[str] = None,
        max_broken: Optional[float] = None,
        max_image_pixels: Optional[int] = None,
        max_file_bytes: Optional[int] = None,
        decode: str = "exact",
        interpolation: str = "bilinear",
        mean: Any = None,
        std: Any = None,
        channels_last: bool = True,
        framework: str = "auto",
        group: Optional[str] = None,
        wait_for: Optional[int] = None,
        laggard: Optional[str] = None,
        laggard_timeout: Optional[int] = None,
        socket: Any = None,
        private_daemon: bool = True,
        restarts: Optional[int] = 3,
        reconnect: Optional[float] = 30,
        state: Any = None,
        on_event: Any = None,
        **unknown: NoReturn,  # NoReturn: type checkers reject them
    ) -> None:
        given = dict(locals())  # all arguments by name: no other variable is defined yet
        self._reader: Optional[readers.Reader] = None
        self._closed = False
        unknown_arguments.refuse(type(self).__name__, unknown, self._known())
        self._owner = os.getpid()
        self._lock = threading.RLock()
        self._opening = arguments.read(given, _defaults())
        self._given = {key: given[key] for key in arguments.KEPT}
        self._next_opening: Optional[arguments.Opening] = None  # by set_indices, for the next epoch
        self._watch = Watch(on_event)
        self._warn_of_ranks(given)
        self._info: dict[str, int] = {}
        self._began: Any = None  # the state at which the stream was opened last
        self._samples: Optional[int] = None
        self._classes: Optional[list[str]] = None
        self._listed: Optional[list[tuple[str, Any]]] = None  # dataset.samples, once it was asked for
        self._config: Optional[dict[str, Any]] = None
        self._opened = 0  # how often the stream was opened
        self._told: Optional[Tuple[str, State]] = None  # the reader's last state: text, parsed
        self._over = False  # whether the stream has ended with an error
        self._labelled = True
        self._told_at_opening: set[str] = set()  # sentences that the user was warned with
        self._pid = self._gone_pid = 0  # of the stream's daemon; of one that reopening did not find again
        self._replaced = 0  # how many daemons the library has replaced
        begin = None if state is None else State.read(state)
        self._open(begin)
        self._epochs = Epochs(self._here())
        try:
            nodes.compare(self._opening.options, self._epochs.at)
        except errors.GroupError:
            self.close()
            raise
        if begin is not None:
            self._warn_of_transform(begin)

    @classmethod
    def _known(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name not in ("self", "unknown")]

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_"):
            fixed.check(self, name, list(_defaults()))
        super().__setattr__(name, value)

    def _warn_of_ranks(self, given: Mapping[str, Any]) -> None:
        """Warns if the ranks are those of srun or mpirun, which also start processes that are no
        ranks."""
        said = any(given[name] is not None for name in ("rank", "world_size", "share", "group"))
        found = None if said or sources.stream_name(given["source"]) is not None else environment.launcher()
        if found is not None:
            warn(
                f"this process reads as rank {found.rank} of {found.world_size}, because {found.whose} started "
                f"{found.world_size} processes and nothing else says which rank this is. To say so, pass "
                f'rank=int(os.environ["{found.rank_variable}"]), world_size=int(os.environ["{found.size_variable}"]), or '
                "create the loader after init_process_group(); if every process is to read everything, pass rank=0, "
                "world_size=1"
            )

    # ---- the stream ----

    def _options(self, state: Optional[State]) -> dict[str, Any]:
        options = dict(self._opening.options)
        if state is not None:
            options["state"] = state.text()
        # Ranks that open again meet in a new group, because the old one still has ranks that have
        # not left yet.
        if self._opened and self._opening.group is not None and not self._opening.shared:
            options["group"] = f"{self._opening.group}/{self._opened}"
        return options

    def _check_converted(self, info: "dict[str, int]") -> None:
        """ArgumentError if the daemon has converted the images, and not to what the user asked
        for."""
        output = self._opening.output
        dtype, last = readers.DTYPES[info["dtype"]], info["layout"] == 0
        wrong = [name for name in output.said if name in ("mean", "std")]
        wrong += ["dtype"] if "dtype" in output.said and output.dtype != dtype else []
        wrong += ["channels_last"] if "channels_last" in output.said and output.channels_last != last else []
        if wrong:
            raise errors.ArgumentError(
                f"{', '.join(wrong)}: the daemon's configuration already says that the images of "
                f"{self._opening.source!r} are {dtype} {'in rows of pixels' if last else 'in planes'}: leave the "
                "argument out, or change the configuration"
            )
        if dtype == "uint8" and output.mixing is not None and output.mixing.of_floats:
            raise errors.ArgumentError(
                "mixup, cutmix and RandomErasing need floats, but the daemon's configuration says that the images of "
                f"{self._opening.source!r} are uint8 in planes: leave them out, or remove layout or dtype from the "
                "configuration"
            )

    def _make_arrays(self, dtype: str, channels_last: bool, converted: bool) -> frameworks.Arrays:
        output = self._opening.output
        if output.framework == "torch":
            return frameworks.TorchArrays(dtype, channels_last)
        if output.framework == "jax":
            return frameworks.JaxArrays(dtype, output.jax, converted and channels_last)
        return frameworks.NumpyArrays(dtype, channels_last)

    def _make_reader(self, stream: _penstock.Stream) -> readers.Reader:
        output, info = self._opening.output, stream.info
        if stream.groups:
            groups.check_mixing(output.mixing)
        if output.mixing is not None and not info["label_type"]:
            output.mixing.check_labelled(self._labelled)
        fields = Fields(stream.fields, self._opening.kinds)
        converted = bool(info["dtype"] or info["layout"])
        if converted:
            self._check_converted(info)
        if output.zero_copy:
            return readers.ViewReader(stream, fields)
        if converted:
            dtype, channels_last = readers.DTYPES[info["dtype"]], info["layout"] == 0
        else:
            dtype, channels_last = output.dtype, output.channels_last
        if output.cuda is not None:
            self._classes, self._config = stream.classes(), json.loads(stream.config())
            if converted:
                raise errors.ArgumentError(
                    f"device: the daemon's configuration says that the images of {self._opening.source!r} are {dtype}, "
                    "and a "
                    'CUDA device takes only uint8 in rows of pixels: use device="cpu" and images.to(...), or remove '
                    'dtype and '
                    "layout from the configuration"
                )
            one_size = not isinstance(self._config.get("image_size"), dict) and "buckets" not in self._config
            return cuda.CudaReader(
                stream,
                output.cuda,
                dtype,
                output.mean,
                output.std,
                channels_last,
                output.mixing,
                one_size,
                output.functions,
                fields,
            )
        arrays = self._make_arrays(dtype, channels_last, converted)
        converter = None
        if not converted:
            converter = _penstock.Converter(dtype, arrays.channels_last, output.mean, output.std)
        return readers.OwnedReader(stream, arrays, converter, dtype, output.mixing, output.functions, fields)

    def _open(self, state: Optional[State]) -> None:
        began = time.monotonic()
        try:
            stream = _penstock.Stream(self._options(state))
        except errors.Error as error:
            options = self._opening.options
            raise nodes.explain(joined.explain(arguments.explain(error, options), options, began), options) from None
        self._opened += 1
        try:
            stats, pid = self._describe(stream), stream.daemon_pid
            self._labelled = bool(stats.get("labelled", True))
            if self._opening.mask is not None:
                subset.check_mask(self._opening.mask, stats["samples"])
            # A stream that has ended already tells nothing of itself.
            naming.check(self._opening.listed, stats.get("samples", self._opening.listed))
            self._warn_of_opening(stats.get("warnings", []), pid)
            reader = self._make_reader(stream)
        except BaseException:
            stream.close()
            raise
        if self._pid > 0 and pid not in (0, self._pid):
            self._gone_pid = self._pid
        self._pid, self._replaced = pid, 0
        self._stream = stream
        self._began = State.parse(stream.state())
        self._info = stream.info
        self._over = False
        # Last, and not where an interrupt closes the stream: until here, the loader has none.
        self._reader = reader

    def _describe(self, stream: _penstock.Stream) -> "dict[str, Any]":
        """The stream's description; empty if the stream has already ended with an error, which is
        the first batch's error."""
        try:
            stats: dict[str, Any] = json.loads(stream.stats())
            return stats
        except errors.Error:
            if self._opening.mask is not None:
                raise
            return {}

    def _warn_of_opening(self, sentences: "list[str]", pid: int) -> None:
        """Warns of what the daemon says about the samples, and of a daemon that does not follow
        threads= and memory=: of each once."""
        told = joined.told(self._opening.options, pid) if pid != self._pid else None
        for sentence in [*map(notation.python, sentences), *([] if told is None else [told])]:
            if sentence not in self._told_at_opening:
                self._told_at_opening.add(sentence)
                warn(sentence)

    def _shut(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _open_again(self) -> readers.Reader:
        at = self._epochs.at
        self._shut()
        try:
            self._open(at)
        except errors.GroupError:
            if not self._opening.shared:
                raise
            self._open(None)
        assert self._reader is not None
        if not self._opening.shared:
            self._epochs.moved(self._here())
        return self._reader

    def _here(self) -> State:
        """The position of the stream. It is asked before and after each batch, so the text is often
        the same as last time, and is not parsed again."""
        assert self._reader is not None
        text = self._reader.state()
        if self._told is None or self._told[0] != text:
            self._told = text, State.parse(text)
        return self._told[1]

    def _settle(self) -> readers.Reader:
        """Moves the stream to the position of the loop."""
        reader = self._reader if self._reader is not None else self._open_again()
        if not self._here().same_place(self._epochs.at):
            if self._opening.shared:
                self._pass(reader)
            else:
                reader = self._open_again()
        return reader

    def _pass(self, reader: readers.Reader) -> None:
        """Reads and drops the batches that the loop skipped, because other trainers share them."""
        at = self._epochs.at
        here = self._here()
        while (here.epoch, here.position) < (at.epoch, at.position):
            reader.next(-1)
            here = self._here()
        if not here.same_place(at):
            warn(
                f"the group is at epoch {here.epoch}, sample {here.position}, and this loader was at epoch {at.epoch}, "
                f"sample {at.position}: only the other trainers got the samples in between"
            )
            self._epochs.moved(here)

    # ---- whether it can be used ----

    def _check(self) -> None:
        if self._owner != os.getpid():
            raise errors.ForkError(
                f"this loader belongs to process {self._owner} and cannot be used in its forked child {os.getpid()}: "
                "create a loader in each process"
            )
        if self._closed:
            raise errors.ClosedError("this loader was closed: create a new one")

    # ---- iterating ----

    def _begin(self, give: Callable[[Yielded], Any]) -> _Iteration:
        self._check()
        self._watch.check()
        with self._lock:
            if self._over:
                self._shut()
            turn = self._epochs.begin()
            if self._next_opening is not None and self._epochs.at.position == 0:
                self._choose(self._next_opening)
            return _Iteration(self, turn, give)

    def __iter__(self) -> Iterator[Tuple[Any, ...]]:
        """Iterates over the next epoch, or, after a state was loaded, over the rest of its epoch. Yields
        (images, labels); with fields=, (images, labels, fields)."""
        return self._begin(_pair)

    def batches(self) -> Iterator[Batch]:
        """Like iter(), but yields Batch objects, which also have samples, fields, valid (the rows that
        count in a metric), epoch, batch, last and count."""
        return self._begin(_batch)

    def _read(self, turn: Turn) -> Optional[Yielded]:
        try:
            given = self._settle().next(-1)
        except errors.Error as error:
            turn.failed = True
            self._over = not isinstance(error, _NOT_OVER)
            if isinstance(error, errors.TransformError):
                self._epochs.lose(turn, self._here())
            if isinstance(error, errors.DetachedError):
                self._watch.detached(error)
            raise
        if given is not None:
            self._look(given[2])
        return given

    def _look(self, told: Told) -> None:
        """Collects what happened until this batch."""
        count, gone_pid, pid = self._stream.replaced
        if count != self._replaced or self._gone_pid:
            pid = pid if count else self._pid
            self._watch.restarted(self._gone_pid or gone_pid, pid, told.epoch, told.batch)
            self._warn_of_opening([], pid)  # the other daemon may have other threads and memory
            self._pid, self._replaced, self._gone_pid = pid, count, 0
        self._watch.batch(told)
        if self._watch.wants_verdict():
            # A daemon that does not answer now is the next batch's error.
            with contextlib.suppress(errors.Error):
                self._watch.verdict(json.loads(self._stream_stats()))

    def _stream_stats(self) -> str:
        assert self._reader is not None
        return self._reader.stats()

    def _next(self, turn: Turn, give: Callable[[Yielded], Any], before: list[Any]) -> Any:
        self._watch.check()
        try:
            made = self._take(turn, give, before)
        except errors.DetachedError:
            self._watch.deliver()
            raise
        self._watch.deliver()
        return made

    def _take(self, turn: Turn, give: Callable[[Yielded], Any], before: list[Any]) -> Any:
        self._check()
        with self._lock:
            self._check()
            self._epochs.check(turn)
            given = None if self._epochs.is_finished(turn) else self._read(turn)
            if given is None:
                self._epochs.end(turn)
                raise StopIteration
            made, after = give(given), self._here()
            self._epochs.give(turn, given[2].epoch, after, before)
            return made

    def _read_at(self, place: Place) -> Any:
        """The batch that a place of the batch sampler names. Batches before the first one that is
        read are skipped, and not decoded."""
        iteration = place.iteration
        if not isinstance(iteration, _Iteration) or iteration._loader is not self:
            raise errors.ArgumentTypeError("the place belongs to the batch sampler of another loader")
        with self._lock:
            self._check()
            turn = iteration._turn
            self._epochs.check(turn)
            due = len(self) - self.remaining
            if place.number != due and (turn.given or place.number < due):
                raise errors.IteratorError(
                    f"batch {place.number} was asked for, and batch {due} comes next: batches of a loader come in order, and "
                    "only the first ones of an epoch can be skipped. A program that divides batches among processes "
                    "(as accelerate's prepare_data_loader does) must not be given the loader, which divides an epoch "
                    "by itself: pass rank= and world_size="
                )
            whole = self._info["batch_size"] * self._info["world_size"]
            self._epochs.skip((place.number - due) * whole, ((0, whole),) if self._bucketed() else None)
        return next(iteration)

    # ---- epochs and states ----

    def __len__(self) -> int:
        """The number of batches of a full epoch, for each rank."""
        return self._info["batches"]

    def __getitem__(self, index: object) -> NoReturn:
        refuse_number()

    @property
    def epoch(self) -> int:
        """The current epoch, also after `break`. After the end of an epoch: the next one."""
        return self._epochs.epoch

    @property
    def remaining(self) -> int:
        """The number of batches that are left in this epoch."""
        if self._epochs.finished:
            return 0
        whole = self._info["batch_size"] * self._info["world_size"]
        position = self._epochs.at.position
        if self._bucketed():
            return len(self) - self._batch_number(whole)
        if position % whole == 0:
            return len(self) - position // whole
        # The loop continues from a state of another batch size.
        left = self._info["samples"] - position
        return left // whole if self._definition()["drop_last"] else -(-left // whole)

    def _bucketed(self) -> bool:
        """Whether the stream has buckets: only then its states have cuts."""
        return self._began.cuts is not None

    def _batch_number(self, whole: int) -> int:
        """With buckets: the number of the next batch. An epoch that continues with another global batch counts its
        batches back from its end, as the daemon does."""
        at, began = self._epochs.at, self._began
        if at.cuts is not None and at.epoch == began.epoch:
            return self._info["batch"] + (at.position - began.position) // whole
        return at.position // whole

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next iteration. Epochs follow each other by themselves, but a new
        loader begins at epoch 0: call it in every loop, so that a script which resumes at an epoch
        without a state reads that epoch. It changes nothing if the epoch comes next anyway, if a
        state within it was loaded, or if an iteration of it has begun and delivered no batch."""
        self._check()
        with self._lock:
            epoch = checks.number("set_epoch: epoch", epoch, 0, 2**32 - 1)
            if self._opening.shared and self._epochs.wants_other_epoch(epoch):
                raise errors.GroupError(
                    f"set_epoch({epoch}), but the next epoch of this loader is {self._epochs.upcoming}, and the other "
                    "trainers of its group read that one: for trainers with different epochs, create loaders without "
                    "a group"
                )
            self._epochs.set_epoch(epoch)

    def set_indices(self, indices: Any) -> None:
        """Sets the samples of the following epochs: numbers, a mask of bools or paths, as the argument `indices`; None: all
        samples. Call it between epochs. Within an epoch, and after a `break`, it takes effect when the next epoch begins.
        A state continues only with the indices that its epoch has. With several ranks, call it in each, with the same
        indices."""
        self._check()
        with self._lock:
            if self._opening.shared:
                raise errors.GroupError(
                    "set_indices: other trainers of the group read the same batches: for samples of your own, create a "
                    "loader without a group"
                )
            opening = arguments.with_indices(self._opening, self._given, indices, self.samples)
            if self._epochs.is_between:
                self._choose(opening)
            else:
                self._next_opening = opening

    def _choose(self, opening: arguments.Opening) -> None:
        """Opens the stream with other indices at the beginning of the upcoming epoch. If the daemon refuses, the loader
        continues with the indices that it had."""
        before, at = self._opening, self._epochs.at
        self._next_opening = self._config = None
        self._shut()
        self._opening = opening
        try:
            self._open(None)
        except BaseException:
            self._opening = before
            raise
        # Only the stream knows the hash of its order.
        self._epochs.rebase(self._here().at_epoch(at.epoch))
        if at.epoch:
            self._shut()  # the daemon would make batches of epoch 0

    def state_dict(self) -> dict[str, Any]:
        """The position after the last batch that the loop got, as a small dict that JSON can
        hold."""
        return self._epochs.at.as_dict()

    def load_state_dict(self, state: Any) -> None:
        """Continues at `state` with the next iteration. The state may come from a run with another
        batch size or another number of ranks."""
        self._check()
        with self._lock:
            wanted = State.read(state)
            if self._next_opening is not None:
                self._choose(self._next_opening)
            try:
                wanted.check_fits(self._epochs.at, self._earlier(wanted))
            except errors.StateError as error:
                raise nodes.explain(error, self._opening.options) from None
            self._warn_of_transform(wanted)
            self._go_to(wanted)
            self._epochs.load(self._here())

    def _earlier(self, wanted: State) -> list[str]:
        """The fingerprints that the dataset had before images were rewritten in place. Its samples
        are the same."""
        if wanted.fingerprint == self._epochs.at.fingerprint:
            return []
        found: list[str] = json.loads(self._ask().stats()).get("earlier_fingerprints", [])
        return found

    def _go_to(self, wanted: State) -> None:
        """Moves the stream. If the daemon refuses, the loop's position does not change, and the
        next batch opens the stream there again."""
        if self._reader is None or self._over or not self._here().same_place(wanted):
            self._shut()
            self._open(wanted)

    def _warn_of_transform(self, state: State) -> None:
        if state.transform != self._epochs.at.transform:
            warn(
                "the state was taken with other transforms (image_size, train, salt, ...): the samples stay the "
                "same, but their pixels differ"
            )

    # ---- facts about the stream ----

    def _ask(self) -> readers.Reader:
        self._check()
        return self._reader if self._reader is not None else self._open_again()

    @property
    def classes(self) -> list[str]:
        """The names of the classes, by label; empty if the dataset has none."""
        if self._classes is None:
            self._check()
            with self._lock:
                self._ask()
                self._classes = self._stream.classes()
        return list(self._classes)

    @property
    def class_to_idx(self) -> dict[str, int]:
        return {name: label for label, name in enumerate(self.classes)}

    @property
    def num_classes(self) -> Optional[int]:
        """The number of classes: num_classes, if it was passed, else the number of class names. None
        if neither is known."""
        mixing = self._opening.output.mixing
        given = None if mixing is None else mixing.mix.classes
        return given or self._info["classes"] or None

    def _definition(self) -> dict[str, Any]:
        if self._config is None:
            self._check()
            with self._lock:
                self._ask()
                self._config = json.loads(self._stream.config())
        return self._config

    @property
    def samples(self) -> int:
        """The number of the dataset's samples, regardless of `indices`. An epoch has
        len(loader.dataset) samples."""
        if self._samples is None:
            self._samples = int(self.stats()["samples"])
        return self._samples

    @property
    def dataset(self) -> Dataset:
        """For `len(loader.dataset)` and `loader.dataset.classes`."""
        return Dataset(self)

    @property
    def sampler(self) -> Sampler:
        """For programs that call loader.sampler.set_epoch(epoch) or len(loader.sampler)."""
        return Sampler(self)

    @property
    def batch_sampler(self) -> BatchSampler:
        """For accelerate.skip_first_batches, and programs that ask for len(loader.batch_sampler)."""
        return BatchSampler(self)

    @property
    def collate_fn(self) -> Callable[[Any], Any]:
        """Returns the batch as it is."""
        return _as_it_is

    @property
    def num_workers(self) -> int:
        """0: the daemon decodes, and no worker processes of Python exist."""
        return 0

    @property
    def prefetch_factor(self) -> None:
        """None: worker processes of Python would have it. prefetch= is the daemon's."""

    @property
    def worker_init_fn(self) -> None:
        """None, as with num_workers=0."""

    @property
    def generator(self) -> None:
        """None: all randomness follows from seed=."""

    @property
    def timeout(self) -> int:
        """0: DataLoader's, which is for worker processes of Python. timeout= is the daemon's."""
        return 0

    @property
    def pin_memory(self) -> bool:
        """False: batches are on `device` already, so no program needs to pin them."""
        return False

    @property
    def drop_last(self) -> bool:
        """Whether a short last batch is left out."""
        return bool(self._definition()["drop_last"])

    def _rows(self) -> int:
        """The number of rows that an epoch has for this rank, PADDED ones included."""
        samples = [self._info["samples"]]
        if self._bucketed():
            samples = json.loads(self._ask().stats())["bucket_samples"]
        return sum(map(self._rows_of, samples))

    def _rows_of(self, samples: int) -> int:
        """The same of so many samples that make batches by themselves: of all, or of a bucket."""
        info = self._info
        world, rank = info["world_size"], info["rank"]
        left = samples % (info["batch_size"] * world)
        rows: int = samples // (info["batch_size"] * world) * info["batch_size"]
        if left == 0 or self.drop_last:
            return rows
        return rows + max(left // world + (rank < left % world), 1)

    @property
    def batch_size(self) -> int:
        return self._info["batch_size"]

    @property
    def image_size(self) -> Union[int, Tuple[int, int]]:
        """The side of images, or (height, width) if they are not squares; the largest if it changes
        with the epoch."""
        height, width = self._info["height"], self._info["width"]
        return height if height == width else (height, width)

    @property
    def views(self) -> int:
        return self._info["views"]

    @property
    def rank(self) -> int:
        return self._info["rank"]

    @property
    def world_size(self) -> int:
        return self._info["world_size"]

    def path(self, index: int) -> str:
        """The path of sample `index`: the absolute path of a file, or SHARD!MEMBER."""
        self._check()
        index = checks.number("path: index", index, 0, 2**64 - 1)
        with self._lock:
            return self._ask().path(index)

    def stats(self) -> dict[str, Any]:
        """The daemon's counters for this stream: verdict, remedy, bottleneck, rate, broken images
        by reason, ..."""
        self._check()
        with self._lock:
            stats: dict[str, Any] = json.loads(self._ask().stats())
            return stats

    # ---- its life ----

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Closes the stream. Batches that the user keeps stay valid. A second call does nothing."""
        if self._owner != os.getpid():
            self._closed = True
            return
        with self._lock:
            self._closed = True
            self._shut()

    def __enter__(self) -> Loader:
        self._check()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # No other thread can use the object any more, so the lock is not needed.
        if getattr(self, "_reader", None) is not None:
            self._shut()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise errors.CopyError(
            "a loader belongs to the process that created it and cannot be copied or pickled: create one in each "
            "process, and pass its arguments or its state_dict() instead"
        )

    def __repr__(self) -> str:
        if self._closed or not self._info:
            return f"<penstock.{type(self).__name__} {self._opening.source}: closed>"
        at, classes = self._epochs.at, self._info["classes"]
        labels = ", no labels" if not self._labelled else f" of {classes} class{'' if classes == 1 else 'es'}" if classes else ""
        return (
            f"<penstock.{type(self).__name__} {self._opening.source}: {self._info['samples']} "
            f"sample{'' if self._info['samples'] == 1 else 's'}{labels}, {len(self)} "
            f"batch{'' if len(self) == 1 else 'es'} of {self.batch_size}, at epoch {at.epoch}, sample {at.position}>"
        )

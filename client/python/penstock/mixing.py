"""Operations on whole batches of floats: MixUp, CutMix, erasing, soft labels; also by epoch.

libpenstock draws them from the seed, the epoch and the position, so that a resumed run draws the
same. They are done in the loader's memory, never in the daemon's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any, Callable, Optional

from . import checks
from .errors import ArgumentError

__all__ = ["MOST_CLASSES", "Erase", "Mix", "Mixing", "read"]

MOST_CLASSES = 2**24  # float32 has all whole numbers up to this one


@dataclass(frozen=True)
class Erase:
    """RandomErasing after Normalize; `value` is on the scale of normalized pixels."""

    p: float = 0.5
    scale: tuple[float, float] = (0.02, 0.33)
    ratio: tuple[float, float] = (0.3, 3.3)
    value: tuple[float, float, float] = (0.0, 0.0, 0.0)
    random: bool = False  # noise instead of `value`


@dataclass(frozen=True)
class Mix:
    """v2.MixUp and v2.CutMix. `mixup` and `cutmix` are alphas, 0 for off. `prob` is how often a
    batch is mixed, and `switch` how often CutMix does it if both are on."""

    mixup: float = 0.0
    cutmix: float = 0.0
    prob: float = 1.0
    switch: float = 0.5
    classes: Optional[int] = None


@dataclass(frozen=True)
class Change:
    """What is done from `epoch` on. Without a dict among the arguments, the only one is for epoch
    0."""

    epoch: int
    mixup: float
    cutmix: float
    prob: float
    switch: float
    smoothing: float


@dataclass(frozen=True)
class Mixing:
    """All operations on a batch. Without `mix.classes`, soft labels have the dataset's classes."""

    mix: Mix
    erase: Optional[Erase]
    smoothing: float
    later: "tuple[Change, ...]" = ()  # what changes after epoch 0, by epoch

    @property
    def soft(self) -> bool:
        """Whether labels are distributions: in all epochs, if they are in any."""
        return any(change.mixup or change.cutmix or change.smoothing for change in self.changes)

    @property
    def of_floats(self) -> bool:
        """Whether images change, and not only labels."""
        return self.erase is not None or any(change.mixup or change.cutmix for change in self.changes)

    @property
    def changes(self) -> "tuple[Change, ...]":
        mix = self.mix
        return (Change(0, mix.mixup, mix.cutmix, mix.prob, mix.switch, self.smoothing), *self.later)

    @property
    def smooths(self) -> bool:
        return any(change.smoothing for change in self.changes)

    def smoothing_in(self, epoch: int) -> float:
        return next(change.smoothing for change in reversed(self.changes) if change.epoch <= epoch)

    def drawn(self) -> "dict[str, Any]":
        """The arguments of Mixer and of Cuda."""
        mix, erase = self.mix, self.erase or Erase(p=0.0)
        return {
            "epochs": [astuple(change) for change in self.later],
            "mixup": mix.mixup,
            "cutmix": mix.cutmix,
            "mix": mix.prob,
            "mix_switch": mix.switch,
            "erase": erase.p,
            "erase_scale": erase.scale,
            "erase_ratio": erase.ratio,
            "erase_value": erase.value,
            "erase_random": erase.random,
        }

    def check_labelled(self, labelled: bool) -> None:
        """ArgumentError if the dataset has no labels: soft labels would be zeros, and the loss
        would always be 0."""
        if self.soft and not labelled:
            raise ArgumentError(
                "the dataset has no labels, and mixup, cutmix and label_smoothing need labels: use class folders, "
                ".cls or "
                '.json members, or labels={"manifest": "labels.csv"} (and not labels="none"); or leave mixup, cutmix '
                'and '
                "label_smoothing out"
            )

    def classes_of(self, info: Mapping[str, int]) -> int:
        """The width of the stream's soft labels; 0 if labels are not changed. ArgumentError if the
        width is unknown or contradicts num_classes."""
        given, width = self.mix.classes, info["label_width"]
        if not self.soft:
            return 0
        if not info["label_type"] and width > 1:
            raise ArgumentError(
                f"mixup, cutmix and label_smoothing need labels with one class each, and this dataset has {width} classes for "
                'each sample ("type": "classes"): leave them out, or mix and smooth in the loop'
            )
        if info["label_type"]:
            if self.smooths:
                raise ArgumentError(
                    "label_smoothing needs labels with one class each, and this dataset has multi-hot or float "
                    "labels: leave label_smoothing out, and smooth the labels in the loop"
                )
            if given not in (None, width):
                raise ArgumentError(
                    f"num_classes is {given}, but the dataset's labels have {width} floats each: leave num_classes out"
                )
            return width
        if given is None and not info["classes"]:
            raise ArgumentError(
                "num_classes: the dataset's labels are numbers without class names: pass the number of classes as "
                "num_classes"
            )
        return given or info["classes"]


def _alpha(name: str, value: Any) -> float:
    if value is None:
        return 0.0
    expected = "0 or None for off, or the alpha of a Beta distribution, 0.01 to 100"
    alpha = checks.finite(name, value, expected)
    if alpha != 0 and not 0.01 <= alpha <= 100:
        raise ArgumentError(f"{name}: expected {expected}, got {checks.shown(value)}")
    return alpha


_LAST_EPOCH = 2**32 - 1
_MOST_CHANGES = 65_536  # MIXPLAN_EPOCHS_MOST


def _by_epoch(name: str, value: Any, read_one: Callable[[str, Any], float]) -> "dict[int, float]":
    """The values of an argument from epoch 0 on: of a number, or of a dict {epoch: number}."""
    if not isinstance(value, Mapping):
        return {0: read_one(name, value)}
    read = {
        checks.number(f"{name}: an epoch", epoch, 0, _LAST_EPOCH): read_one(f"{name}[{checks.shown(epoch)}]", one)
        for epoch, one in value.items()
    }
    if 0 not in read:
        raise ArgumentError(f"{name}: expected a value from epoch 0 on, such as {{0: 0.8, 280: 0}}, got {checks.shown(dict(value))}")
    return read


class _Schedule:
    """The arguments that may change with the epoch."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.values = {
            "mixup": _by_epoch("mixup", given["mixup"], _alpha),
            "cutmix": _by_epoch("cutmix", given["cutmix"], _alpha),
            "prob": _by_epoch("mix_prob", given["mix_prob"], checks.fraction),
            "switch": _by_epoch("mix_switch", given["mix_switch"], checks.fraction),
            "smoothing": _by_epoch("label_smoothing", given["label_smoothing"], checks.fraction),
        }

    def ever(self, name: str) -> bool:
        return any(self.values[name].values())

    def changes(self, mix: Optional[Mix]) -> "list[Change]":
        """What is done from which epoch on. `mix` comes from transforms and holds in all epochs."""
        values = dict(self.values)
        if mix is not None:
            constant = {"mixup": mix.mixup, "cutmix": mix.cutmix, "prob": mix.prob, "switch": mix.switch}
            values.update({name: {0: value} for name, value in constant.items()})
        made: "list[Change]" = []
        current = {name: by_epoch[0] for name, by_epoch in values.items()}
        for epoch in sorted(set().union(*values.values())):
            current.update({name: by_epoch[epoch] for name, by_epoch in values.items() if epoch in by_epoch})
            change = Change(epoch, **current)
            if not made or replace(change, epoch=made[-1].epoch) != made[-1]:
                made.append(change)
        if len(made) > _MOST_CHANGES:
            raise ArgumentError(
                f"mixup, cutmix and the like change in {len(made)} epochs: expected at most {_MOST_CHANGES} changes; epochs with "
                "the values of the one before do not count"
            )
        return made


def _said(given: Mapping[str, Any], schedule: _Schedule) -> Optional[Mix]:
    mixes = schedule.ever("mixup") or schedule.ever("cutmix")
    classes = given["num_classes"]
    if classes is not None:
        classes = checks.number("num_classes", classes, 1, MOST_CLASSES)
    usual = {"prob": ("mix_prob", {0: 1.0}), "switch": ("mix_switch", {0: 0.5})}
    for key, (name, value) in usual.items():
        if not mixes and schedule.values[key] != value:
            raise ArgumentError(
                f"{name} has a meaning only with mixup or cutmix: pass one of them too, or leave {name} out"
            )
    first = {key: schedule.values[key][0] for key in ("mixup", "cutmix", "prob", "switch")}
    return Mix(**first, classes=classes) if mixes or classes is not None else None


def read(given: Mapping[str, Any], erase: Optional[Erase], listed: Optional[Mix]) -> Optional[Mixing]:
    """Reads the arguments. `erase` and `listed` come from transforms=[...]. None: batches are not
    changed."""
    schedule = _Schedule(given)
    said = _said(given, schedule)
    if listed is not None and (schedule.ever("mixup") or schedule.ever("cutmix")):
        raise ArgumentError("mixup, cutmix: transforms already contains MixUp or CutMix: use one or the other")
    mix = listed or said or Mix()
    if listed is not None and said is not None:
        if listed.classes not in (None, said.classes):
            raise ArgumentError(
                f"num_classes is {said.classes}, but num_classes in transforms is {listed.classes}: leave one of them "
                "out"
            )
        mix = replace(listed, classes=said.classes)
    first, *later = schedule.changes(listed)
    made = Mixing(mix, erase, first.smoothing, tuple(later))
    if mix.classes is not None and not made.soft:
        raise ArgumentError(
            "num_classes has a meaning only with mixup, cutmix or label_smoothing, which make soft labels: pass one "
            "of them too, or leave num_classes out"
        )
    return made if made.soft or erase is not None else None

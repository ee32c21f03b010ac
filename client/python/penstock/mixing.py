"""Operations on whole batches of floats: MixUp, CutMix, erasing, soft labels.

libpenstock draws them from the seed, the epoch and the position, so that a resumed run draws the
same. They are done in the loader's memory, never in the daemon's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Optional

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
class Mixing:
    """All operations on a batch. Without `mix.classes`, soft labels have the dataset's classes."""

    mix: Mix
    erase: Optional[Erase]
    smoothing: float

    @property
    def soft(self) -> bool:
        """Whether labels become distributions."""
        return bool(self.mix.mixup or self.mix.cutmix or self.smoothing)

    @property
    def of_floats(self) -> bool:
        """Whether images change, and not only labels."""
        return bool(self.mix.mixup or self.mix.cutmix or self.erase)

    def drawn(self) -> "dict[str, Any]":
        """The arguments of Mixer and of Cuda."""
        mix, erase = self.mix, self.erase or Erase(p=0.0)
        return {
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
        if info["label_type"]:
            if self.smoothing:
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


def _said(given: Mapping[str, Any]) -> Optional[Mix]:
    mixup, cutmix = _alpha("mixup", given["mixup"]), _alpha("cutmix", given["cutmix"])
    prob = checks.fraction("mix_prob", given["mix_prob"])
    switch = checks.fraction("mix_switch", given["mix_switch"])
    classes = given["num_classes"]
    if classes is not None:
        classes = checks.number("num_classes", classes, 1, MOST_CLASSES)
    if not (mixup or cutmix) and (prob != 1 or switch != 0.5):
        name = "mix_prob" if prob != 1 else "mix_switch"
        raise ArgumentError(
            f"{name} has a meaning only with mixup or cutmix: pass one of them too, or leave {name} out"
        )
    if mixup or cutmix or classes is not None:
        return Mix(mixup, cutmix, prob, switch, classes)
    return None


def read(given: Mapping[str, Any], erase: Optional[Erase], listed: Optional[Mix]) -> Optional[Mixing]:
    """Reads the arguments. `erase` and `listed` come from transforms=[...]. None: batches are not
    changed."""
    said = _said(given)
    if listed is not None and said is not None and (said.mixup or said.cutmix):
        raise ArgumentError("mixup, cutmix: transforms already contains MixUp or CutMix: use one or the other")
    smoothing = checks.fraction("label_smoothing", given["label_smoothing"])
    mix = listed or said or Mix()
    if listed is not None and said is not None:
        if listed.classes not in (None, said.classes):
            raise ArgumentError(
                f"num_classes is {said.classes}, but num_classes in transforms is {listed.classes}: leave one of them "
                "out"
            )
        mix = replace(listed, classes=said.classes)
    made = Mixing(mix, erase, smoothing)
    if mix.classes is not None and not made.soft:
        raise ArgumentError(
            "num_classes has a meaning only with mixup, cutmix or label_smoothing, which make soft labels: pass one "
            "of them too, or leave num_classes out"
        )
    return made if made.soft or erase is not None else None

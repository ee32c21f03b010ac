"""What is done to whole batches after they were made floats: MixUp, CutMix, erasing, soft labels.

Drawn by libpenstock from seed, epoch and position, so that a run goes on alike wherever and whenever; mixed in the
loader's own memory, never in the daemon's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Optional

from . import checks
from .errors import ArgumentError

__all__ = ["MOST_CLASSES", "Erase", "Mix", "Mixing", "read"]

MOST_CLASSES = 2**24  # what a float can count


@dataclass(frozen=True)
class Erase:
    """RandomErasing behind Normalize; `value` is of normalised pixels."""

    p: float = 0.5
    scale: tuple[float, float] = (0.02, 0.33)
    ratio: tuple[float, float] = (0.3, 3.3)
    value: tuple[float, float, float] = (0.0, 0.0, 0.0)
    random: bool = False  # noise, in the place of `value`


@dataclass(frozen=True)
class Mix:
    """v2.MixUp and v2.CutMix: alphas, 0 for off; how often a batch is mixed, and then by CutMix where both are on."""

    mixup: float = 0.0
    cutmix: float = 0.0
    prob: float = 1.0
    switch: float = 0.5
    classes: Optional[int] = None


@dataclass(frozen=True)
class Mixing:
    """All of it. `soft`: labels are distributions; `classes` None: as many as the dataset has."""

    mix: Mix
    erase: Optional[Erase]
    smoothing: float

    @property
    def soft(self) -> bool:
        return bool(self.mix.mixup or self.mix.cutmix or self.smoothing)

    @property
    def of_floats(self) -> bool:
        """Whether images are changed, and not labels alone."""
        return bool(self.mix.mixup or self.mix.cutmix or self.erase)

    def drawn(self) -> "dict[str, Any]":
        """For Mixer and Cuda alike."""
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
        """ArgumentError: soft labels of a dataset that has none would be zeros, and the loss 0 whatever is learnt."""
        if self.soft and not labelled:
            raise ArgumentError(
                "the dataset has no labels, and mixup, cutmix and label_smoothing need them: give it class folders, .cls or "
                '.json members, or labels={"manifest": "labels.csv"}, and leave labels="none" out where it is said; or leave '
                "all three out"
            )

    def classes_of(self, info: Mapping[str, int]) -> int:
        """Width of the soft labels of a stream; 0 where they stay as they are. ArgumentError: it cannot be told, or is
        said otherwise."""
        given, width = self.mix.classes, info["label_width"]
        if not self.soft:
            return 0
        if info["label_type"]:
            if self.smoothing:
                raise ArgumentError(
                    "label_smoothing is for labels that are one class each, and those of this dataset are multi-hot or floats: "
                    "leave it out, and smooth them in the loop"
                )
            if given not in (None, width):
                raise ArgumentError(f"num_classes is {given}, and the dataset's labels have {width} floats: leave it out")
            return width
        if given is None and not info["classes"]:
            raise ArgumentError(
                "num_classes: the dataset's labels are numbers, without names to be counted: say how many classes there are"
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
        raise ArgumentError(f"{name} says something only with mixup or cutmix: give one of them too")
    if mixup or cutmix or classes is not None:
        return Mix(mixup, cutmix, prob, switch, classes)
    return None


def read(given: Mapping[str, Any], erase: Optional[Erase], listed: Optional[Mix]) -> Optional[Mixing]:
    """`erase` and `listed` are what transforms=[...] says. None: batches stay as they are."""
    said = _said(given)
    if listed is not None and said is not None and (said.mixup or said.cutmix):
        raise ArgumentError("mixup, cutmix: transforms has MixUp or CutMix already: leave out one of them")
    smoothing = checks.fraction("label_smoothing", given["label_smoothing"])
    mix = listed or said or Mix()
    if listed is not None and said is not None:
        if listed.classes not in (None, said.classes):
            raise ArgumentError(f"num_classes is {said.classes}, and that of transforms is {listed.classes}: leave out one")
        mix = replace(listed, classes=said.classes)
    made = Mixing(mix, erase, smoothing)
    if mix.classes is not None and not made.soft:
        raise ArgumentError(
            "num_classes is for soft labels, which mixup, cutmix and label_smoothing make: give one of them, or leave it out"
        )
    return made if made.soft or erase is not None else None

"""Transforms that the daemon does not have: what to write instead, by name.

Some work on the batch that the loader yields. The others would do something else there, or nothing
at all: they get advice of their own.
"""

from __future__ import annotations

import re
from typing import Any, Optional

__all__ = ["LISTED", "copied", "instead", "on_the_batch"]

LISTED = "docs/reference/python.md, Transforms, lists what is supported"

# Transforms of torchvision that work on a whole batch. tests/python/torch_transforms.py tries them.
ON_BATCHES = (
    "ElasticTransform",
    "GaussianNoise",
    "JPEG",
    "LinearTransformation",
    "RandomChannelPermutation",
    "RandomPhotometricDistort",
)

_CROPS = (
    "let transforms make a larger size, and crop the batch in the loop: `crops = v2.{}(size)(images)` (from "
    "torchvision.transforms import v2)"
)
_BOXES = "it is for boxes, masks, key points or videos, and samples have images and labels only: leave it out"

_INSTEAD = {
    "FiveCrop": _CROPS.format("FiveCrop"),
    "TenCrop": _CROPS.format("TenCrop"),
    "RandomPad": "write {\"RandomCropOrPad\": {\"size\": 224}}, which pads images that are smaller at a random place",
    "TrimBorder": "write {\"CenterCrop\": {\"size\": 224}}",
    "Solarization": "write {\"RandomSolarize\": {\"threshold\": 128, \"p\": 0.2}}",
    "gray_scale": "write {\"RandomGrayscale\": {\"p\": 0.2}}",
    "ToPILImage": "leave it out: transforms begin with PIL images, and the loader yields arrays",
    "Lambda": "put the function itself, or Lambda(f), at the end of the list",
    "RandomIoUCrop": _BOXES,
    "ClampBoundingBoxes": _BOXES,
    "ClampKeyPoints": _BOXES,
    "ConvertBoundingBoxFormat": _BOXES,
    "SanitizeBoundingBoxes": _BOXES,
    "SanitizeKeyPoints": _BOXES,
    "SetClampingMode": _BOXES,
    "UniformTemporalSubsample": _BOXES,
}


_THREE = '; for DeiT III\'s RandomChoice of gray_scale, Solarization and GaussianBlur write "ThreeAugment"'


def copied(item: Any) -> Optional[str]:
    """What to write for an object of a class that trainers bring in their own files, for PIL images:
    DINO's utils.py, DeiT's augment.py and the many copies of both. None for other objects."""
    kind = type(item)
    had = vars(item) if hasattr(item, "__dict__") else {}
    p = had.get("prob", had.get("p", 1.0))
    if kind.__name__ == "GaussianBlur" and {"radius_min", "radius_max"} <= set(had):
        blur = f'{{"GaussianBlur": {{"radius": [{had["radius_min"]}, {had["radius_max"]}]}}}}'
        line = f'{{"RandomApply": {{"transforms": [{blur}], "p": {p}}}}}'
    elif kind.__name__ == "Solarization" and set(had) == {"p"}:
        line = f'torchvision\'s RandomSolarize(128, p={p}) or {{"RandomSolarize": {{"threshold": 128, "p": {p}}}}}'
    elif kind.__name__ == "gray_scale" and set(had) == {"p", "transf"}:
        line = f'torchvision\'s RandomGrayscale(p={p}) or {{"RandomGrayscale": {{"p": {p}}}}}'
    else:
        return None
    return (
        f"{kind.__module__}.{kind.__qualname__} is not torchvision's, and takes PIL images: if it is DINO's or DeiT's, write "
        f"{line}{_THREE}"
    )


def on_the_batch(line: str) -> str:
    return (
        f"apply it to the batch instead: leave it out of transforms, and in the loop write `{line}` "
        "(from torchvision.transforms import v2; torchvision draws once for the whole batch, and color transforms need "
        'pixels that are not normalized: dtype="uint8")'
    )


# The first words of timm's policies: "rand-m9-mstd0.5-inc1", "augmix-m5-w4-d2", "original".
_TIMM_POLICY = re.compile(r"(rand|augmix|original|originalr|v0|v0r|3a)(-|$)")


def instead(name: str) -> Optional[str]:
    """What works in place of a transform that the daemon does not have; None if nothing is known of
    this name."""
    if _TIMM_POLICY.match(name):
        return f'a policy of timm is written {{"TimmAutoAugment": {{"config": {name!r}}}}}'
    if name in ON_BATCHES:
        return on_the_batch(f"images = v2.{name}(...)(images)")
    return _INSTEAD.get(name)

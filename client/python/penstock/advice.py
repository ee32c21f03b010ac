"""Transforms that the daemon does not have: what to write instead, by name.

Some work on the batch that the loader yields. The others would do something else there, or nothing
at all: they get advice of their own.
"""

from __future__ import annotations

from typing import Optional

__all__ = ["LISTED", "instead", "on_the_batch"]

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


def on_the_batch(line: str) -> str:
    return (
        f"apply it to the batch instead: leave it out of transforms, and in the loop write `{line}` "
        "(from torchvision.transforms import v2; torchvision draws once for the whole batch, and color transforms need "
        'pixels that are not normalized: dtype="uint8")'
    )


def instead(name: str) -> Optional[str]:
    """What works in place of a transform that the daemon does not have; None if nothing is known of
    this name."""
    if name in ON_BATCHES:
        return on_the_batch(f"images = v2.{name}(...)(images)")
    return _INSTEAD.get(name)

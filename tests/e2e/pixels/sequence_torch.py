"""The operations of sequence_model.py by torchvision's functions on PIL images. Raises ImportError without torchvision."""

import torch  # noqa: F401: its absence is found here
from torchvision.transforms import InterpolationMode, functional as F

from sequence_model import Pillow, Unsure

MODES = {mode.value: mode for mode in InterpolationMode}


class Torch(Pillow):
    @staticmethod
    def resize(image, height, width, filter):
        return F.resize(image, [height, width], MODES[filter])

    @staticmethod
    def pad(image, left, top, right, bottom, mode, fill):
        return F.pad(image, [left, top, right, bottom], fill, mode)

    @staticmethod
    def crop(image, top, left, height, width):
        return F.crop(image, top, left, height, width)

    @staticmethod
    def rotate(image, angle, filter, expand, center, fill):
        return F.rotate(image, angle, MODES[filter], expand, center, fill)

    @staticmethod
    def affine(image, angle, translate, scale, shear, filter, fill, center):
        return F.affine(image, angle, translate, scale, shear, MODES[filter], fill, center)

    @staticmethod
    def perspective(image, starts, ends, filter, fill):
        if min(image.size) < 100:  # docs/evidence/measured/transforms.md says how torchvision's solver differs there
            raise Unsure
        try:
            return F.perspective(image, starts, ends, MODES[filter], fill)
        except torch._C._LinAlgError:  # corners of tiny images that no map has: penstock leaves the image alone
            return image

    @staticmethod
    def jitter(image, which, amount):
        return (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)[which](image, amount)

    @staticmethod
    def sharpness(image, factor):
        return F.adjust_sharpness(image, factor)

    @staticmethod
    def solarize(image, threshold):
        return F.solarize(image, threshold)

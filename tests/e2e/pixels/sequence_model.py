"""What a list of transforms makes of a PIL image: torchvision's (and timm's) operations in their written order, with draws
from Philox. A model apart from the C code: it knows nothing about heads, sinks and crops that decoders leave out.

Steps are [(name, parameters)], as in a definition. `Pillow` does the operations with Pillow and NumPy; `Torch` calls
torchvision's functions on PIL images, and timm's."""

import math

import numpy as np
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

from pixel_pillow import pad_expected, philox_draw

FILTERS = {name: Image.Resampling[name.upper()] for name in ("nearest", "bilinear", "bicubic", "box", "hamming", "lanczos")}
NUMBERS = {"RandomResizedCrop": 3, "RandomHorizontalFlip": 4, "RandomVerticalFlip": 9, "RandomCrop": 10, "ColorJitter": 11,
           "RandomGrayscale": 12, "GaussianBlur": 13, "RandomSolarize": 14, "RandomPosterize": 15, "RandomEqualize": 16,
           "RandomAutocontrast": 17, "RandomInvert": 18, "RandomAdjustSharpness": 19, "RandomAffine": 20,
           "RandomRotation": 21, "RandomPerspective": 22, "RandomApply": 28, "RandomChoice": 29, "RandomOrder": 30,
           "RandomResize": 60, "ScaleJitter": 61, "RandomShortestSize": 62, "RandomZoomOut": 63, "ResizeKeepRatio": 64,
           "RandomCropOrPad": 65}
SIDE_MAX = 32767


class TooSmall(Exception):
    pass


class Unsure(Exception):
    """What torchvision makes of it is not the same everywhere."""


class Pillow:
    """Operations with every parameter known."""

    @staticmethod
    def resize(image, height, width, filter):
        return image.resize((width, height), FILTERS[filter])

    @staticmethod
    def pad(image, left, top, right, bottom, mode, fill):
        return pad_expected(image, left, top, right, bottom, mode, fill)

    @staticmethod
    def crop(image, top, left, height, width):
        return image.crop((left, top, left + width, top + height))

    @staticmethod
    def rotate(image, angle, filter, expand, center, fill):
        return image.rotate(angle, FILTERS[filter], expand, center, fillcolor=fill)

    @staticmethod
    def jitter(image, which, amount):
        return (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)[which](image).enhance(amount)

    @staticmethod
    def sharpness(image, factor):
        return ImageEnhance.Sharpness(image).enhance(factor)

    @staticmethod
    def solarize(image, threshold):
        return ImageOps.solarize(image, threshold)


def pair(size):
    return tuple(size) if isinstance(size, list) else (size, size)


def color(fill):
    return tuple(fill) if isinstance(fill, list) else (fill,) * 3


def sides(padding):
    if isinstance(padding, int):
        return (padding,) * 4
    return tuple(padding) if len(padding) == 4 else (padding[0], padding[1]) * 2


def shorter(width, height, size, longest=None):
    """torchvision's _compute_resized_output_size."""
    short, long = (width, height) if width <= height else (height, width)
    if size is None:
        new_short, new_long = int(longest * short / long), longest
    else:
        new_short, new_long = size, int(size * long / short)
        if longest is not None and new_long > longest:
            new_short, new_long = int(longest * new_short / new_long), longest
    return (new_short, new_long) if width <= height else (new_long, new_short)


class Model:
    def __init__(self, key, backend=Pillow):
        self.seed, self.epoch, self.position, self.view = key
        self.do = backend

    # ---- draws

    def words(self, step, number):
        name, _, same, _ = step
        return philox_draw(self.seed, self.epoch, self.position, NUMBERS[name], self.view << 12 | same << 8 | number)

    @staticmethod
    def unit(high, low=0):
        return ((high << 32 | low) >> 11) * 2.0**-53

    @staticmethod
    def below(high, low, bound):
        return (high << 32 | low) * bound >> 64

    def between(self, word, least, most):
        return least + self.unit(word) * (most - least)

    def happens(self, step, p):
        word = self.words(step, 0)
        return self.unit(word[0], word[1]) < p

    # ---- operations that size images

    def RandomResizedCrop(self, image, step, size, scale=(0.08, 1), ratio=(3 / 4, 4 / 3), interpolation="bilinear"):
        width, height = image.size
        box = None
        for attempt in range(10):
            word = self.words(step, attempt)
            area = width * height * self.between(word[0], *scale)
            aspect = math.exp(self.between(word[1], math.log(ratio[0]), math.log(ratio[1])))
            w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if 0 < w <= width and 0 < h <= height:
                box = word[2] * (height - h + 1) >> 32, word[3] * (width - w + 1) >> 32, h, w
                break
        if not box:
            w, h = width, height
            if width / height < min(ratio):
                h = max(round(w / min(ratio)), 1)
            elif width / height > max(ratio):
                w = max(round(h * max(ratio)), 1)
            box = (height - h) // 2, (width - w) // 2, h, w
        return self.do.resize(self.do.crop(image, *box), *pair(size), interpolation)

    def Resize(self, image, step, size=None, interpolation="bilinear", max_size=None):
        width, height = (size[1], size[0]) if isinstance(size, list) else shorter(*image.size, size, max_size)
        return self.do.resize(image, max(height, 1), max(width, 1), interpolation)

    def CenterCrop(self, image, step, size):
        return self.center(image, *pair(size), "constant", (0, 0, 0))

    def CenterCropOrPad(self, image, step, size, fill=0, padding_mode="constant"):
        return self.center(image, *pair(size), padding_mode, color(fill))

    def center(self, image, height, width, mode, fill):
        missing = [max(width - image.width, 0), max(height - image.height, 0)]
        if any(missing):
            image = self.do.pad(image, missing[0] // 2, missing[1] // 2, (missing[0] + 1) // 2, (missing[1] + 1) // 2, mode,
                                fill)
        top, left = int(round((image.height - height) / 2.0)), int(round((image.width - width) / 2.0))
        return self.do.crop(image, top, left, height, width)

    def RandomCrop(self, image, step, size, padding=0, pad_if_needed=False, fill=0, padding_mode="constant"):
        height, width = pair(size)
        fill, word = color(fill), self.words(step, 0)
        if any(sides(padding)):
            image = self.do.pad(image, *sides(padding), padding_mode, fill)
        across, down = max(width - image.width, 0), max(height - image.height, 0)
        if (across or down) and not pad_if_needed:
            raise TooSmall
        if across:
            image = self.do.pad(image, across, 0, across, 0, padding_mode, fill)
        if down:
            image = self.do.pad(image, 0, down, 0, down, padding_mode, fill)
        top = self.below(word[0], word[1], image.height - height + 1)
        left = self.below(word[2], word[3], image.width - width + 1)
        return self.do.crop(image, top, left, height, width)

    def RandomCropOrPad(self, image, step, size, fill=0, padding_mode="constant"):
        (height, width), word, fill = pair(size), self.words(step, 0), color(fill)
        top = self.below(word[0], word[1], abs(image.height - height) + 1)
        left = self.below(word[2], word[3], abs(image.width - width) + 1)
        down, across = max(height - image.height, 0), max(width - image.width, 0)
        if across or down:
            before = left if across else 0, top if down else 0
            image = self.do.pad(image, *before, across - before[0], down - before[1], padding_mode, fill)
        return self.do.crop(image, 0 if down else top, 0 if across else left, height, width)

    def Pad(self, image, step, padding, fill=0, padding_mode="constant"):
        return self.do.pad(image, *sides(padding), padding_mode, color(fill))

    def RandomResize(self, image, step, min_size, max_size, interpolation="bilinear"):
        word = self.words(step, 0)
        size = min_size + self.below(word[0], word[1], max_size - min_size)
        return self.Resize(image, step, size, interpolation)

    @staticmethod
    def rand(word):
        """torch.rand(1)"""
        return np.float32(word >> 8) * np.float32(2.0**-24)

    def float_between(self, word, least, most):
        return np.float32(least) + self.rand(word) * np.float32(most - least)

    def ScaleJitter(self, image, step, target_size, scale_range=(0.1, 2.0), interpolation="bilinear"):
        target = pair(target_size)
        scale = self.float_between(self.words(step, 0)[0], *scale_range)
        ratio = np.float32(min(target[1] / image.height, target[0] / image.width)) * scale
        width, height = int(np.float32(image.width) * ratio), int(np.float32(image.height) * ratio)
        return self.do.resize(image, max(height, 1), max(width, 1), interpolation)

    def RandomShortestSize(self, image, step, min_size, max_size=None, interpolation="bilinear"):
        word = self.words(step, 0)
        choices = min_size if isinstance(min_size, list) else [min_size]
        ratio = choices[self.below(word[0], word[1], len(choices))] / min(image.size)
        if max_size is not None:
            ratio = min(ratio, max_size / max(image.size))
        width, height = int(image.width * ratio), int(image.height * ratio)
        return self.do.resize(image, max(height, 1), max(width, 1), interpolation)

    def RandomZoomOut(self, image, step, fill=0, side_range=(1, 4), p=0.5):
        if not self.happens(step, p):
            return image
        word = self.words(step, 1)
        ratio = self.float_between(word[0], *side_range)
        across = int(np.float32(image.width) * ratio) - image.width
        down = int(np.float32(image.height) * ratio) - image.height
        left, top = int(np.float32(across) * self.rand(word[1])), int(np.float32(down) * self.rand(word[2]))
        return self.do.pad(image, left, top, across - left, down - top, "constant", color(fill))

    def ResizeKeepRatio(self, image, step, size, longest=0.0, interpolation="bilinear", random_scale_prob=0.0,
                        random_scale_range=(0.85, 1.05), random_scale_area=False, random_aspect_prob=0.0,
                        random_aspect_range=(0.9, 1.11)):
        height, width = pair(size)
        ratios = image.height / height, image.width / width
        ratio = max(ratios) * longest + min(ratios) * (1.0 - longest)
        factor = (1.0, 1.0)
        word = self.words(step, 0)
        if self.unit(word[0], word[1]) < random_scale_prob:
            scale = self.between(word[2], *random_scale_range)
            factor = (1.0 / math.sqrt(scale) if random_scale_area else scale,) * 2
        word = self.words(step, 1)
        if self.unit(word[0], word[1]) < random_aspect_prob:
            aspect = math.sqrt(math.exp(self.between(word[2], *(math.log(a) for a in random_aspect_range))))
            factor = factor[0] / aspect, factor[1] * aspect
        down, across = (max(round(side * f / ratio), 1) for side, f in zip((image.height, image.width), factor))
        return self.do.resize(image, down, across, interpolation)

    # ---- operations that turn and warp

    def RandomHorizontalFlip(self, image, step, p=0.5):
        return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if self.happens(step, p) else image

    def RandomVerticalFlip(self, image, step, p=0.5):
        return image.transpose(Image.Transpose.FLIP_TOP_BOTTOM) if self.happens(step, p) else image

    def RandomRotation(self, image, step, degrees, interpolation="nearest", expand=False, center=None, fill=0):
        least, most = degrees if isinstance(degrees, list) else (-degrees, degrees)
        angle = self.between(self.words(step, 0)[0], least, most)
        return self.do.rotate(image, angle, interpolation, expand, center, color(fill))

    def RandomAffine(self, image, step, degrees, translate=(0, 0), scale=(1, 1), shear=(0, 0, 0, 0), interpolation="nearest",
                     fill=0, center=None):
        least, most = degrees if isinstance(degrees, list) else (-degrees, degrees)
        first, second = self.words(step, 0), self.words(step, 1)
        move = []
        for word, share, side in zip(first[1:3], translate, image.size):
            most_of_side = share * side
            move.append(int(round(self.between(word, -most_of_side, most_of_side))))
        return self.do.affine(image, self.between(first[0], least, most), move, self.between(first[3], *scale),
                              [self.between(second[0], *shear[:2]), self.between(second[1], *shear[2:])], interpolation,
                              color(fill), center)

    def RandomPerspective(self, image, step, distortion_scale=0.5, p=0.5, interpolation="bilinear", fill=0):
        if not self.happens(step, p):
            return image
        w, h = image.size
        first, second = self.words(step, 1), self.words(step, 2)

        def corner(word, side, far):
            count = int(distortion_scale * (side // 2)) + 1
            return (word * count >> 32) + (side - count if far else 0)

        ends = [[corner(first[0], w, 0), corner(first[1], h, 0)], [corner(first[2], w, 1), corner(first[3], h, 0)],
                [corner(second[0], w, 1), corner(second[1], h, 1)], [corner(second[2], w, 0), corner(second[3], h, 1)]]
        starts = [[0, 0], [w - 1, 0], [w - 1, h - 1], [0, h - 1]]
        return self.do.perspective(image, starts, ends, interpolation, color(fill))

    # ---- operations on colors and neighbors

    def ColorJitter(self, image, step, brightness=None, contrast=None, saturation=None, hue=None):
        order, number = [0, 1, 2, 3], self.words(step, 0)[0] * 24 >> 32
        for i in range(4, 1, -1):
            order[number % i], order[i - 1] = order[i - 1], order[number % i]
            number //= i
        word = self.words(step, 1)
        for which in order:
            given = (brightness, contrast, saturation, hue)[which]
            if given is None:
                continue
            if not isinstance(given, list):
                given = (-given, given) if which == 3 else (max(0, 1 - given), 1 + given)
            image = self.do.jitter(image, which, self.between(word[which], *given))
        return image

    def Grayscale(self, image, step, num_output_channels=3):
        return image.convert("L").convert("RGB")

    def RandomGrayscale(self, image, step, p=0.1):
        return self.Grayscale(image, step) if self.happens(step, p) else image

    def RandomInvert(self, image, step, p=0.5):
        return ImageOps.invert(image) if self.happens(step, p) else image

    def RandomPosterize(self, image, step, bits, p=0.5):
        return ImageOps.posterize(image, bits) if self.happens(step, p) else image

    def RandomSolarize(self, image, step, threshold, p=0.5):
        return self.do.solarize(image, threshold) if self.happens(step, p) else image

    def RandomEqualize(self, image, step, p=0.5):
        return ImageOps.equalize(image) if self.happens(step, p) else image

    def RandomAutocontrast(self, image, step, p=0.5):
        return ImageOps.autocontrast(image) if self.happens(step, p) else image

    def RandomAdjustSharpness(self, image, step, sharpness_factor, p=0.5):
        return self.do.sharpness(image, sharpness_factor) if self.happens(step, p) else image

    def GaussianBlur(self, image, step, kernel_size=None, sigma=(0.1, 2.0), radius=None):
        word = self.words(step, 0)
        if radius is not None:
            least, most = radius if isinstance(radius, list) else (radius, radius)
            return image.filter(ImageFilter.GaussianBlur(self.between(word[0], least, most)))
        if kernel_size >= 2 * min(image.size):
            raise TooSmall
        return self.do.blur(image, kernel_size, self.between(word[0], *sigma))

    # ---- lists

    def RandomApply(self, image, step, p=0.5):
        return self.run(image, step[3]) if self.happens(step, p) else image

    def RandomOrder(self, image, step):
        order = list(step[3])
        for i in range(1, len(order)):
            word = self.words(step, i)
            other = self.below(word[0], word[1], i + 1)
            order[i], order[other] = order[other], order[i]
        return self.run(image, order)

    def RandomChoice(self, image, step, p=None):
        steps = step[3]
        chances = [x / sum(p) for x in p] if p else [1.0 / len(steps)] * len(steps)
        word, chosen = self.words(step, 0), 0
        left = self.unit(word[0], word[1])
        for i, chance in enumerate(chances):
            if chance <= 0:
                continue
            chosen = i
            if left < chance:
                break
            left -= chance
        return self.run(image, [steps[chosen]])

    def run(self, image, steps):
        for step in steps:
            image = getattr(self, step[0])(image, step, **step[1])
        return image


def numbered(steps, seen):
    """[(name, parameters, how many of its kind come before it, steps within)]"""
    result = []
    for item in steps:
        (name, parameters), = item.items() if isinstance(item, dict) else ((item, {}),)
        same = seen[name] = seen.get(name, -1) + 1
        parameters = dict(parameters)
        within = numbered(parameters.pop("transforms", []), seen)
        result.append((name, parameters, same, within))
    return result


def expected(image, steps, key, backend=Pillow):
    """Raises TooSmall."""
    return Model(key, backend).run(image, numbered(steps, {}))

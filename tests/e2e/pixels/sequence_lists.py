"""Lists of transforms in any order, byte for byte: random lists against Pillow, or against torchvision where a Python has it.

usage: sequence_lists.py SEQUENCE_DUMP [LISTS [SEED]] [--torchvision]

Each list is run on images of several sizes, square and not, and as penstock's rows are made: by themselves, together, and again
from their record. Exit code 77 (skipped) where Pillow 13.0.0 or NumPy is missing."""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import NIGHTLY, promise
from pillow13 import import_pillow

np, PIL = import_pillow(venv="--torchvision" not in sys.argv)
from PIL import Image

from sequence_model import Pillow, TooSmall, Unsure, expected

BACKEND = Pillow
if "--torchvision" in sys.argv:
    from sequence_torch import Torch as BACKEND

WARPS = ("nearest", "bilinear", "bicubic")
RESIZES = ("nearest", "bilinear", "bicubic", "box", "hamming", "lanczos")
MODES = ("constant", "edge", "reflect", "symmetric")
SIZES = ((1, 1), (5, 17), (64, 48), (133, 200), (250, 97), (224, 224), (40, 300), (301, 263))
LISTS = NIGHTLY and 1000 or 60


class Lists:
    """Random lists, nearly all of which end in one size."""

    def __init__(self, seed):
        self.r = random.Random(seed)

    def side(self, least=1, most=260):
        return self.r.randint(least, most)

    def size(self, **limits):
        side = self.side(**limits)
        return side if self.r.random() < 0.4 else [side, self.side(**limits)]

    def p(self):
        return self.r.choice((0, 0.3, 0.5, 0.8, 1))

    def fill(self):
        return self.r.choice((0, 255, 77, [1, 120, 250]))

    def padding(self):
        some = [self.r.choice((0, 1, 7, 40)) for _ in range(4)]
        return self.r.choice((some[0], some[:2], some))

    def range(self, least, most):
        return sorted(round(self.r.uniform(least, most), 3) for _ in range(2))

    def closing(self):
        """Gives every image one size."""
        r = self.r
        return r.choice((
            lambda: {"CenterCrop": {"size": self.size()}},
            lambda: {"CenterCropOrPad": {"size": self.size(), "fill": self.fill(), "padding_mode": r.choice(MODES)}},
            lambda: {"RandomCropOrPad": {"size": self.size(), "fill": self.fill(), "padding_mode": r.choice(MODES)}},
            lambda: {"Resize": {"size": [self.side(), self.side()], "interpolation": r.choice(RESIZES)}},
            lambda: {"RandomResizedCrop": {"size": self.size(), "scale": self.range(0.1, 1), "ratio": self.range(0.5, 2),
                                           "interpolation": r.choice(RESIZES)}},
            lambda: {"RandomCrop": {"size": self.size(), "padding": self.padding(), "pad_if_needed": r.random() < 0.8,
                                    "fill": self.fill(), "padding_mode": r.choice(MODES)}},
        ))()

    def sizing(self):
        """Changes the size."""
        r = self.r
        return r.choice((
            self.closing,
            lambda: {"Resize": {"size": self.side(), "interpolation": r.choice(RESIZES)}},
            lambda: {"Resize": {"size": self.side(most=150), "max_size": self.side(least=151, most=300)}},
            lambda: {"Resize": {"max_size": self.side()}},
            lambda: {"Pad": {"padding": self.padding(), "fill": self.fill(), "padding_mode": r.choice(MODES)}},
            lambda: {"RandomResize": {"min_size": self.side(most=99), "max_size": self.side(least=100)}},
            lambda: {"ScaleJitter": {"target_size": [self.side(least=30), self.side(least=30)],
                                     "scale_range": self.range(0.2, 1.6)}},
            lambda: {"RandomShortestSize": {"min_size": [self.side() for _ in range(3)]}},
            lambda: {"RandomShortestSize": {"min_size": self.side(), "max_size": self.side()}},
            lambda: {"RandomZoomOut": {"fill": self.fill(), "side_range": [1, r.choice((1.1, 2, 3))], "p": self.p()}},
            lambda: {"ResizeKeepRatio": {"size": self.size(), "longest": r.choice((0, 0.4, 1)),
                                         "interpolation": r.choice(RESIZES), "random_scale_prob": self.p(),
                                         "random_scale_area": r.random() < 0.5, "random_aspect_prob": self.p()}},
            lambda: {"RandomRotation": {"degrees": r.choice((30, [-90, -90], [90, 90], [180, 180], [0, 360])), "expand": True,
                                        "interpolation": r.choice(WARPS), "fill": self.fill()}},
        ))()

    def keeping(self):
        """Does not change the size."""
        r = self.r
        some = [
            lambda: {"RandomHorizontalFlip": {"p": self.p()}},
            lambda: {"RandomVerticalFlip": {"p": self.p()}},
            lambda: {"RandomRotation": {"degrees": r.choice((30, [90, 90], [0, 360])), "interpolation": r.choice(WARPS),
                                        "fill": self.fill(), **r.choice(({}, {"center": [3, 20]}))}},
            lambda: {"ColorJitter": {"brightness": 0.4, "contrast": [0.5, 1.7], "saturation": 0.3}},
            lambda: {"Grayscale": {"num_output_channels": 3}},
            lambda: {"RandomGrayscale": {"p": self.p()}},
            lambda: {"RandomInvert": {"p": self.p()}},
            lambda: {"RandomPosterize": {"bits": r.randint(1, 8), "p": self.p()}},
            lambda: {"RandomSolarize": {"threshold": r.choice((0, 100, 255)), "p": self.p()}},
            lambda: {"RandomEqualize": {"p": self.p()}},
            lambda: {"RandomAutocontrast": {"p": self.p()}},
            lambda: {"RandomAdjustSharpness": {"sharpness_factor": r.choice((0, 2)), "p": self.p()}},
            lambda: {"GaussianBlur": {"radius": self.range(0, 3)}},
        ]
        if BACKEND is not Pillow:
            some += [
                lambda: {"RandomAffine": {"degrees": 40, "translate": [0.2, 0.1], "scale": [0.5, 1.5],
                                          "shear": [-10, 10, -5, 5], "interpolation": r.choice(WARPS), "fill": self.fill()}},
                lambda: {"RandomPerspective": {"distortion_scale": 0.5, "p": self.p(), "interpolation": r.choice(WARPS),
                                               "fill": self.fill()}},
                lambda: {"ColorJitter": {"hue": 0.2, "brightness": 0.1}},
            ]
        return r.choice(some)()

    def containing(self, depth):
        r = self.r
        within = [self.any(depth + 1) for _ in range(r.randint(1, 3))]
        return r.choice((
            lambda: {"RandomApply": {"transforms": within, "p": self.p()}},
            lambda: {"RandomOrder": {"transforms": within}},
            lambda: {"RandomChoice": {"transforms": within}},
            lambda: {"RandomChoice": {"transforms": within, "p": [r.randint(1, 9) for _ in within]}},
        ))()

    def any(self, depth=0):
        chance = self.r.random()
        if chance < 0.25 and depth < 2:
            return self.containing(depth)
        return self.sizing() if chance < 0.6 else self.keeping()

    def list(self):
        steps = [self.any() for _ in range(self.r.randint(0, 5))] + [self.closing()]
        steps += [self.keeping() for _ in range(self.r.randint(0, 2))]
        return steps


def make_images(folder):
    """Noise on a slope, as PNG: {path: image}."""
    r, images = np.random.default_rng(5), {}
    for width, height in SIZES:
        slope = np.add.outer(np.linspace(0, 120, height), np.linspace(0, 80, width))[:, :, None] * (1, 0.7, 0.4)
        pixels = (slope + r.integers(0, 56, (height, width, 3))).astype(np.uint8)
        path = pathlib.Path(folder, f"{width}x{height}.png")
        images[path] = Image.fromarray(pixels)
        images[path].save(path)
    return images


class Dump:
    """Answers of SEQUENCE_DUMP: (outcome, sentence or image)."""

    def __init__(self, program, jobs, **environment):
        lines = "".join(f"{' '.join(map(str, key))} {int(fast)} {path} {json.dumps(steps)}\n"
                        for key, fast, path, steps in jobs)
        self.data = subprocess.run([program], input=lines.encode(), stdout=subprocess.PIPE, check=True,
                                   env={**os.environ, **environment}).stdout
        self.at = 0

    def line(self):
        end = self.data.index(b"\n", self.at)
        text, self.at = self.data[self.at:end].decode(), end + 1
        return text

    def answer(self):
        outcome, width, height, whole = self.line().split()
        width, height = int(width), int(height)
        if outcome != "ok":
            return outcome, self.line()
        pixels = np.frombuffer(self.data, np.uint8, 3 * width * height, self.at).reshape(height, width, 3)
        self.at += pixels.size
        return whole, pixels


def blurs(steps):
    return "kernel_size" in json.dumps(steps)


def check(path, image, key, steps, answer, counts):
    what = f"{path.name} {key} {json.dumps(steps)}"
    outcome, got = answer
    assert outcome != "refused" or "expected at most" in got, f"{what}: {got}"
    counts[outcome] = counts.get(outcome, 0) + 1
    if outcome == "refused":
        return
    try:
        wanted = np.asarray(expected(image, steps, key, BACKEND))
    except TooSmall:
        assert outcome == "too-small", f"{what}: {outcome}, expected too-small"
        return
    except Unsure:
        counts["unsure"] = counts.get("unsure", 0) + 1
        return
    assert outcome in "01", f"{what}: {outcome}: {got}"
    assert wanted.shape == got.shape, f"{what}: {got.shape}, expected {wanted.shape}"
    if not np.array_equal(wanted, got):
        wrong = np.argwhere((wanted != got).any(axis=2))
        y, x = wrong[0]
        raise AssertionError(f"{what}: {len(wrong)} pixels differ, the first at {x},{y}: {got[y, x]}, expected {wanted[y, x]}")


def test_random_lists(program, count, seed=1):
    lists, counts = Lists(seed), {}
    with tempfile.TemporaryDirectory() as folder:
        images = make_images(folder)
        paths = list(images)
        jobs = []
        for i in range(count):
            steps = lists.list()
            for path in lists.r.sample(paths, 3):
                jobs.append(((seed + 1, i % 7, 1000 * i, i % 3), False, path, steps))
        dump = Dump(program, jobs)
        for key, _, path, steps in jobs:
            check(path, images[path], key, steps, dump.answer(), counts)
        assert dump.at == len(dump.data)
    print(f"{count} lists (seed {seed}, {BACKEND.__name__}) on 3 images each: {counts.get('1', 0)} rows of whole images, "
          f"{counts.get('0', 0)} of a leading crop, too small {counts.get('too-small', 0)}, "
          f"refused {counts.get('refused', 0)}, not compared {counts.get('unsure', 0)}")
    promise(f"{count} lists")
    assert counts.get("1", 0) > count and counts.get("refused", 0) < count / 5


def test_memory(program):
    """Images beyond a worker's own memory: the same rows from any pool, and from files where that is too small; and from
    tiles, where a resize makes more than a sink does at once."""
    steps = [{"RandomHorizontalFlip": {"p": 1}}, {"RandomRotation": {"degrees": [90, 90], "expand": True}},
             {"Resize": {"size": 640, "interpolation": "bicubic"}}, {"CenterCrop": {"size": [64, 600]}}]
    with tempfile.TemporaryDirectory() as folder:
        pixels = np.random.default_rng(6).integers(0, 256, (1100, 2600, 3), np.uint8)
        path, spilled = pathlib.Path(folder, "large.png"), pathlib.Path(folder, "spilled")
        Image.fromarray(pixels).save(path, compress_level=1)
        wanted = np.asarray(expected(Image.fromarray(pixels), steps, (1, 0, 0, 0)))
        for environment in ({}, {"SEQUENCE_POOL": "1000000000"}, {"SEQUENCE_POOL": "4194304", "SEQUENCE_SPILL": str(spilled)},
                            {"SEQUENCE_SIDE": "100"}):
            outcome, got = Dump(program, [((1, 0, 0, 0), False, path, steps)], **environment).answer()
            assert outcome == "1" and np.array_equal(wanted, got), environment
        assert spilled.is_dir() and not list(spilled.iterdir()), "a file in the folder of spilled images, without a name"


if __name__ == "__main__":
    program, *numbers = [argument for argument in sys.argv[1:] if argument != "--torchvision"]
    test_memory(program)
    test_random_lists(program, *(int(number) for number in numbers or [LISTS]))

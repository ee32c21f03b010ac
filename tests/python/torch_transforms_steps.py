"""Every operation of transforms through the whole daemon, against torchvision on PIL images: the
same bytes, GaussianBlur within 1.

The random draws of an operation are fixed: a probability of 1, or a range of one value. The values
are multiples of 2^-k, because torchvision draws in float32, which cannot represent 1.3. Draws that
cannot be fixed (the places of RandomCrop and RandomErasing) must be one of the possible ones."""

from __future__ import annotations

import itertools
import unittest
from typing import Any, Optional

import support
from support import penstock

support.require("torch", "torchvision", "PIL")

import PIL  # noqa: E402
import torch  # noqa: E402
from torchvision import transforms as v1  # noqa: E402
from torchvision.transforms import functional, v2  # noqa: E402

PILLOW = int(PIL.__version__.split(".")[0])
MODES = [v1.InterpolationMode(name) for name in ("nearest", "bilinear", "bicubic")]
SIZE, PHOTOGRAPHS = 72, 12


def pictures() -> "list[tuple[str, list[Any]]]":
    """Sources with their samples, in order: made images, and photographs if there are any."""
    source = support.dataset(per_class=2)
    made = [PIL.Image.open(path).convert("RGB") for path in sorted(map(str, support.Path(source).rglob("*.*")))]
    sources = [(source, made)]
    files = support.photographs()
    if files:
        chosen = files[:: len(files) // PHOTOGRAPHS][:PHOTOGRAPHS]
        sources.append((str(support.PHOTOGRAPHS), [PIL.Image.open(path).convert("RGB") for path in chosen]))
    return sources


def served(source: str, transforms: Any, **keys: Any) -> "list[torch.Tensor]":
    """Rows of the images, unconverted."""
    options = {"batch_size": 6, "framework": "torch", "device": "cpu", "dtype": "uint8", "train": False, **keys}
    if source == str(support.PHOTOGRAPHS):
        count = len(support.photographs())
        options["indices"] = list(range(0, count, count // PHOTOGRAPHS))[:PHOTOGRAPHS]
    with penstock.Loader(source, transforms=transforms, **options) as loader:
        return [image.clone() for images, _ in loader for image in images]


def sizing(kind: Any) -> "list[Any]":
    return [kind.Resize(SIZE + 8), kind.CenterCrop(SIZE)]


def pinned(kind: Any) -> "list[Any]":
    """A few cases of every operation, without random draws."""
    steps = [
        *[kind.ColorJitter(**{key: (factor, factor)}) for key in ("brightness", "contrast", "saturation")
          for factor in (0.0, 0.375, 1.25, 3.5)],
        *[kind.ColorJitter(hue=(factor, factor)) for factor in (-0.5, -0.1875, 0.0625, 0.5)],
        kind.Grayscale(3), kind.RandomGrayscale(1.0),
        *[kind.RandomSolarize(threshold, 1.0) for threshold in (0, 100, 128, 255)],
        *[kind.RandomPosterize(bits, 1.0) for bits in (1, 4, 7)],
        kind.RandomEqualize(1.0), kind.RandomAutocontrast(1.0), kind.RandomInvert(1.0),
        *[kind.RandomAdjustSharpness(factor, 1.0) for factor in (0.0, 0.5, 2.0)],
        *[kind.RandomRotation((angle, angle), interpolation=mode) for angle in (-33, 17) for mode in MODES],
        *[kind.RandomRotation((angle, angle)) for angle in (0, 90, 180, 270, 360, -90)],
        kind.RandomRotation((17, 17), center=(10, 20), fill=(9, 100, 255)), kind.RandomRotation((45, 45), fill=128),
        *[kind.RandomAffine((12, 12), scale=(1.25, 1.25), shear=(5, 5), interpolation=mode, fill=7) for mode in MODES],
        *[kind.RandomAffine((-20, -20), scale=(0.75, 0.75), shear=(5, 5, -7, -7), interpolation=mode, fill=(1, 2, 3)) for mode in MODES],
        kind.RandomAffine((30, 30), center=(3, 60)), kind.RandomAffine((0, 0)), kind.RandomAffine((0, 0), shear=(40, 40)),
        kind.RandomHorizontalFlip(1.0), kind.RandomVerticalFlip(1.0),
    ]
    return steps


@unittest.skipIf(PILLOW < 13, f"Pillow {PIL.__version__} resizes in another order than 13")
class Steps(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.sources = pictures()
        if len(cls.sources) == 1:
            print("no photographs (scripts/install-deps gets some): only made images")

    def check(self, wanted: "list[Any]", transforms: Any, within: int = 0) -> None:
        """`wanted` are v1's objects, which work on PIL images; `transforms` is passed to the
        daemon."""
        pipeline = v1.Compose([*wanted, v1.PILToTensor()])
        for source, images in self.sources:
            made = served(source, transforms)
            self.assertEqual(len(made), len(images))
            for number, (row, image) in enumerate(zip(made, images)):
                far = int((row.int() - pipeline(image).int()).abs().max())
                self.assertLessEqual(far, within, f"{transforms[-1]}: image {number} of {source} is {far} away")

    def test_every_operation(self) -> None:
        for ours, theirs in zip(pinned(v2), pinned(v1)):
            with self.subTest(step=theirs):
                self.check([*sizing(v1), theirs], [*sizing(v2), ours])

    def test_sizes_anywhere(self) -> None:
        """Operations that change sizes, before and after others."""
        def lists(kind: Any) -> "list[list[Any]]":
            return [
                [kind.Pad((1, 2, 3, 4), fill=7), kind.Resize(32, max_size=60), kind.CenterCrop(48)],
                [kind.Resize(40), kind.RandomRotation((90, 90), expand=True), kind.CenterCrop((24, 32))],
                [kind.RandomHorizontalFlip(1.0), kind.Resize(60), kind.Pad(5, padding_mode="reflect"), kind.CenterCrop(64)],
                [kind.Resize((32, 48)), kind.RandomInvert(1.0), kind.Pad(4)]]

        for wanted, ours in zip(lists(v1), lists(v2)):
            with self.subTest(ours=ours):
                self.check(wanted, wanted)
                self.check(wanted, ours)

    def test_timm(self) -> None:
        """timm's evaluation, in each of its ways."""
        try:
            from timm.data import create_transform
        except ImportError:
            self.skipTest("no timm")
        for size, mode in ((64, None), (64, "border"), (64, "squash"), ((96, 48), None)):
            made = create_transform(size, crop_mode=mode, use_prefetcher=True).transforms
            with self.subTest(size=size, mode=mode):
                self.check(made[:-1], made)

    def test_blur(self) -> None:
        for kernel, sigma in ((3, 0.125), (5, 1.25), (23, 2.0), ((3, 9), 4.0), (1, 1.0), (2 * SIZE - 1, 30.0)):
            for kind in (v1, v2):
                steps = [*sizing(kind), kind.GaussianBlur(kernel, (sigma, sigma))]
                with self.subTest(step=steps[-1]):
                    self.check([*sizing(v1), v1.GaussianBlur(kernel, (sigma, sigma))], steps, within=1)

    def test_perspective_that_moves_nothing(self) -> None:
        """penstock does not change the image. torchvision's matrix has values such as 1e-17 instead
        of zeros, which differ between processors, and its filters truncate fractions: within 1."""
        for side, mode, kind in itertools.product((15, SIZE), MODES, (v1, v2)):
            sized, steps = [v1.Resize((side, side))], [kind.Resize((side, side)), kind.RandomPerspective(0.0, 1.0, interpolation=mode)]
            with self.subTest(side=side, step=steps[-1]):
                self.check(sized, steps)
                self.check([*sized, v1.RandomPerspective(0.0, 1.0, interpolation=mode)], steps, within=1)

    def test_operations_within_others(self) -> None:
        def inner(kind: Any) -> "list[Any]":
            return [kind.RandomInvert(1.0), kind.RandomSolarize(90, 1.0)]

        for kind in (v1, v2):
            for ours, theirs in (
                    (kind.RandomApply(inner(kind), 1.0), inner(v1)), (kind.RandomApply(inner(kind), 0.0), []),
                    (kind.RandomChoice([kind.RandomPosterize(2, 1.0), kind.Compose(inner(kind))], p=[0.0, 1.0]), inner(v1)),
                    (kind.RandomChoice([kind.RandomPosterize(2, 1.0), kind.RandomGrayscale(1.0)], p=[1.0, 0.0]), [v1.RandomPosterize(2, 1.0)]),
                    (kind.RandomOrder([kind.RandomApply(inner(kind), 1.0)]), inner(v1))):
                with self.subTest(ours=ours):
                    self.check([*sizing(v1), *theirs], [*sizing(kind), ours])

    def test_orders(self) -> None:
        """Both orders of two operations occur, and no other."""
        two = [v1.RandomInvert(1.0), v1.RandomSolarize(90, 1.0)]
        seen = set()
        for source, images in self.sources:
            for row, image in zip(served(source, [*sizing(v1), v1.RandomOrder(two)]), images):
                possible = {i: v1.Compose([*sizing(v1), *order, v1.PILToTensor()])(image) for i, order in enumerate((two, two[::-1]))}
                equal = {i for i, tensor in possible.items() if torch.equal(row, tensor)}
                self.assertTrue(equal)
                seen |= equal
        self.assertEqual(seen, {0, 1})

    def test_several(self) -> None:
        """In the written order, after a flip that the resampling does and before one that it does
        not do."""
        for kind in (v1, v2):
            self.check(
                [*sizing(v1), v1.RandomHorizontalFlip(1.0), v1.RandomRotation((17, 17)), v1.RandomVerticalFlip(1.0), v1.ColorJitter((1.5, 1.5))],
                [*sizing(kind), kind.RandomHorizontalFlip(1.0), kind.RandomRotation((17, 17)), kind.RandomVerticalFlip(1.0),
                 kind.ColorJitter((1.5, 1.5))])

    def test_crops(self) -> None:
        for kind in (v1, v2):
            for theirs, ours in (([v1.CenterCrop(300)], [kind.CenterCrop(300)]),
                                 ([v1.Resize(40), v1.CenterCrop(72)], [kind.Resize(40), kind.CenterCrop(72)]),
                                 ([v1.Resize((64, 64)), v1.RandomCrop(64)], [kind.Resize((64, 64)), kind.RandomCrop(64)])):
                with self.subTest(ours=ours):
                    self.check(theirs, ours)

    def test_random_crops(self) -> None:
        """Each row is one of the possible crops of a resized image with padding."""
        side, padding = 32, [2, 1, 3, 4]
        for mode, fill in (("constant", 0), ("constant", (7, 8, 9)), ("edge", 0), ("reflect", 0), ("symmetric", 0)):
            for kind in (v1, v2):
                places = set()
                steps = [kind.Resize((side, side)), kind.RandomCrop(side, padding, fill=fill, padding_mode=mode)]
                for source, images in self.sources:
                    for row, image in zip(served(source, steps), images):
                        padded = functional.pad(image.resize((side, side), PIL.Image.BILINEAR), padding, fill, mode)
                        places.add(self.place(row, functional.pil_to_tensor(padded), side))
                self.assertNotIn(None, places, steps[-1])
                self.assertGreater(len(places), 3)

    @staticmethod
    def place(row: torch.Tensor, padded: torch.Tensor, side: int) -> "Optional[tuple[int, int]]":
        for top, left in itertools.product(range(padded.shape[1] - side + 1), range(padded.shape[2] - side + 1)):
            if torch.equal(row, padded[:, top:top + side, left:left + side]):
                return top, left
        return None

    def test_erasing(self) -> None:
        """The difference is one rectangle of the value, with an allowed area and ratio."""
        plain = v1.Compose([*sizing(v1), v1.PILToTensor()])
        color = torch.tensor([3, 141, 59], dtype=torch.uint8)[:, None, None]
        boxes = set()
        for kind in (v1, v2):
            steps = [*sizing(kind), kind.PILToTensor(), kind.RandomErasing(1.0, scale=(0.1, 0.2), ratio=(0.5, 2.0), value=(3, 141, 59))]
            for source, images in self.sources:
                for row, image in zip(served(source, steps), images):
                    whole = plain(image)
                    erased = (row == color).all(dim=0)
                    rows, columns = erased.any(dim=1).nonzero().flatten(), erased.any(dim=0).nonzero().flatten()
                    top, left, bottom, right = (int(x) for x in (rows[0], columns[0], rows[-1] + 1, columns[-1] + 1))
                    wanted = whole.clone()
                    wanted[:, top:bottom, left:right] = color
                    self.assertTrue(torch.equal(row, wanted))
                    height, width = bottom - top, right - left
                    self.assertTrue(0.09 < height * width / SIZE**2 < 0.22 and 0.45 < height / width < 2.2, (height, width))
                    boxes.add((top, left, height, width))
            self.check(sizing(v1), [*sizing(kind), kind.PILToTensor(), kind.RandomErasing(0.0)])
        self.assertGreater(len(boxes), 3)

    def test_what_is_drawn_is_the_same_again(self) -> None:
        """Every random operation: the same rows again, other rows with another seed, and the usual
        shape."""
        for step in ([v2.RandAugment()], [v2.TrivialAugmentWide()], [v2.AutoAugment()], [v2.AugMix()], ["ThreeAugment"],
                     [v2.ColorJitter(0.4, 0.4, 0.4, 0.1)], [v2.RandomPerspective(p=1)], [v2.RandomAffine(30, (0.2, 0.2))],
                     [v2.ToImage(), v2.RandomErasing(1.0)], [v2.RandomChoice([v2.RandomInvert(1.0), v2.RandomEqualize(1.0)])]):
            with self.subTest(step=step):
                source = self.sources[0][0]
                once, again, other = (served(source, [*sizing(v2), *step], seed=seed) for seed in (5, 5, 6))
                self.assertTrue(all(torch.equal(a, b) for a, b in zip(once, again)))
                self.assertFalse(all(torch.equal(a, b) for a, b in zip(once, other)))
                self.assertEqual({tuple(row.shape) for row in once}, {(3, SIZE, SIZE)})


if __name__ == "__main__":
    support.main()

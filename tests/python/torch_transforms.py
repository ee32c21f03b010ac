"""Loader(transforms=...) with torchvision's own objects, v1 and v2: the tensors are those of torchvision's PIL pipeline, bit for bit: of
evaluation all, of training once the recorded crop and flip are given."""

from __future__ import annotations

import json
import unittest
import warnings
from typing import Any

import support
from support import penstock

support.require("torch", "torchvision", "PIL")

import PIL  # noqa: E402
import torch  # noqa: E402
import torchvision  # noqa: E402
from penstock.transforms import plan  # noqa: E402
from torchvision import transforms as v1  # noqa: E402
from torchvision.transforms import functional, v2  # noqa: E402

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
PILLOW = int(PIL.__version__.split(".")[0])
BICUBIC = v1.InterpolationMode.BICUBIC
need_pillow = unittest.skipIf(PILLOW < 13, f"Pillow {PIL.__version__} resizes in another order than 13")


def evaluation(kind: Any, size: int = 48, crop: int = 40, interpolation: Any = v1.InterpolationMode.BILINEAR) -> "list[Any]":
    return [kind.Resize(size, interpolation=interpolation), kind.CenterCrop(crop)]


def tensors(kind: Any) -> "list[Any]":
    if kind is v1:
        return [v1.ToTensor(), v1.Normalize(MEAN, STD)]
    return [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]


def loader(source: str, **keys: Any) -> Any:
    return penstock.Loader(source, **{"batch_size": 8, "framework": "torch", "device": "cpu", **keys})


def rows(source: str, **keys: Any) -> "list[torch.Tensor]":
    with loader(source, train=False, **keys) as made:
        return [image for images, _ in made for image in images]


class Read(unittest.TestCase):
    """What a torchvision object says is what is asked of the daemon."""

    def test_every_object(self) -> None:
        crop = {"size": [176, 176], "scale": [0.08, 1.0], "ratio": [0.75, 4 / 3], "interpolation": "bilinear", "antialias": True}
        for kind in (v1, v2):
            for item, name, said in (
                    (kind.RandomResizedCrop(176), "RandomResizedCrop", crop),
                    (kind.RandomResizedCrop((176, 176), scale=(0.35, 1), ratio=(1, 1), interpolation=BICUBIC), "RandomResizedCrop",
                     {**crop, "scale": [0.35, 1.0], "ratio": [1.0, 1.0], "interpolation": "bicubic"}),
                    (kind.Resize(232), "Resize", {"size": 232, "interpolation": "bilinear", "antialias": True}),
                    (kind.Resize((232, 232), antialias=True), "Resize",
                     {"size": [232, 232], "interpolation": "bilinear", "antialias": True}),
                    (kind.CenterCrop(224), "CenterCrop", {"size": [224, 224]}),
                    (kind.RandomHorizontalFlip(), "RandomHorizontalFlip", {"p": 0.5}),
                    (kind.RandomVerticalFlip(0.25), "RandomVerticalFlip", {"p": 0.25})):
                with self.subTest(kind=kind.__name__, item=item):
                    self.assertEqual(json.loads(plan([item]).json or ""), [{name: said}])

    def test_every_conversion(self) -> None:
        crop = v2.RandomResizedCrop(8)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # v2.ToTensor is deprecated
            older = v2.ToTensor()
        for steps, dtype in (([v1.ToTensor()], "float32"), ([older], "float32"), ([v2.ToImage()], "uint8"),
                             ([v1.PILToTensor()], "uint8"), ([v2.PILToTensor(), v2.ToPureTensor()], "uint8"),
                             ([v1.PILToTensor(), v1.ConvertImageDtype(torch.float16)], "float16"),
                             ([v2.ToImage(), v2.ToDtype(torch.bfloat16, scale=True)], "bfloat16"),
                             ([v2.RGB(), v2.Identity()], None)):
            with self.subTest(steps=steps):
                made = plan(v2.Compose([crop, *steps]))
                self.assertEqual(made.dtype, dtype)
        for kind in (v1, v2):
            made = plan(kind.Compose([kind.Compose([crop]), *tensors(kind)]))
            self.assertEqual((made.mean, made.std, made.size), (tuple(MEAN), tuple(STD), 8))
        made = plan(torch.nn.Sequential(v1.CenterCrop(8), v1.ConvertImageDtype(torch.float32)))
        self.assertEqual((made.size, made.dtype), (8, "float32"))

    def test_all_others_are_refused_by_name(self) -> None:
        crop = v1.RandomResizedCrop(8)
        for item in (v1.ColorJitter(0.4), v2.ColorJitter(0.4), v1.RandomErasing(), v2.RandAugment(), v1.AutoAugment(),
                     v2.GaussianBlur(3), v1.RandomApply([v1.RandomHorizontalFlip()]), v2.RandomChoice([v2.RGB()]), v1.Grayscale(),
                     v1.Lambda(lambda image: image), v2.MixUp(num_classes=3), v1.RandomCrop(4, padding=1), v1.FiveCrop(2)):
            name = type(item).__name__
            with self.subTest(item=name), self.assertRaises(penstock.ArgumentError) as caught:
                plan([crop, item])
            sentence = str(caught.exception)
            self.assertIn(f".{name} is not supported", sentence)
            self.assertIn(f"`images = v2.{name}(...)(images)`", sentence)
        for item, what in ((v1.Resize(8, antialias=False), "Resize.antialias: False"), (v2.Resize(8, max_size=9), "Resize.max_size: 9"),
                           (v1.RandomResizedCrop(8, antialias=False), "RandomResizedCrop.antialias: False"),
                           (v2.Resize(8, interpolation=v2.InterpolationMode.NEAREST, max_size=20), "max_size: 20")):
            with self.subTest(what=what), self.assertRaisesRegex(penstock.ArgumentError, f"{what} is not supported"):
                plan([item])

    def test_what_is_advised_works(self) -> None:
        """The line of code of a refusal, on a batch of the loader's."""
        with loader(support.dataset(), transforms=[v1.RandomResizedCrop(16)], dtype="uint8") as made:
            images = next(iter(made))[0]
        changed = v2.ColorJitter(0.4)(images)
        self.assertEqual((changed.shape, changed.dtype), (images.shape, torch.uint8))


@need_pillow
class Equal(unittest.TestCase):
    def check(self, source: str, pipeline: "list[Any]", **keys: Any) -> None:
        """All rows of a dataset against torchvision's ImageFolder with the same objects, of v1, which work on PIL images."""
        folder = torchvision.datasets.ImageFolder(source, v1.Compose(pipeline))
        made = rows(source, **keys)
        self.assertEqual(len(made), len(folder))
        for row, (image, _) in zip(made, folder):
            self.assertEqual(row.dtype, image.dtype)
            self.assertTrue(torch.equal(row, image))

    def test_evaluation(self) -> None:
        for interpolation in (v1.InterpolationMode.BILINEAR, BICUBIC):
            pipeline = evaluation(v1, interpolation=interpolation)
            for kind in (v1, v2):
                with self.subTest(kind=kind.__name__, interpolation=interpolation):
                    self.check(support.dataset(), [*pipeline, *tensors(v1)],
                               transforms=[*evaluation(kind, interpolation=interpolation), *tensors(kind)])
        self.check(support.dataset(), [*pipeline, v1.ToTensor()], transforms=v1.Compose([*pipeline, v1.ToTensor()]))
        self.check(support.dataset(), [*pipeline, v1.PILToTensor()], transforms=[*pipeline, v1.PILToTensor()])

    def test_both_sides(self) -> None:
        steps = [v1.Resize((40, 40)), v1.RandomVerticalFlip(p=1.0), *tensors(v1)]
        self.check(support.dataset(), steps, transforms=steps)

    def test_what_weights_evaluate_with(self) -> None:
        weights = torchvision.models.ResNet50_Weights.IMAGENET1K_V2.transforms()
        self.check(support.dataset(per_class=4), [weights], transforms=weights)

    def test_photographs(self) -> None:
        if not support.IMAGENET.is_dir():
            self.skipTest(f"{support.IMAGENET} is not there")
        steps = [*evaluation(v1, 232, 224), *tensors(v1)]
        pipeline, files = v1.Compose(steps), sorted(support.IMAGENET.iterdir(), key=lambda path: path.stem.encode())
        wanted, seen = list(range(0, len(files), 10)), []
        with loader(str(support.IMAGENET), train=False, transforms=steps, indices=wanted) as made:
            for batch in made.batches():
                for index, image in zip(batch.samples["index"], batch.images):
                    seen.append(int(index))
                    picture = PIL.Image.open(files[index]).convert("RGB")
                    self.assertTrue(torch.equal(image, pipeline(picture)), files[index])
        self.assertEqual(seen, wanted)

    def test_training(self) -> None:
        """The crop that was drawn, and the flips, by torchvision's own functions."""
        source = support.dataset()
        files = [path for path, _ in torchvision.datasets.ImageFolder(source).samples]
        tail = v1.Compose(tensors(v1))
        for kind in (v1, v2):
            steps = [kind.RandomResizedCrop(40, scale=(0.35, 1.0), interpolation=BICUBIC), kind.RandomHorizontalFlip(),
                     kind.RandomVerticalFlip(0.25), *tensors(kind)]
            flags_seen = set()
            with loader(source, seed=5, transforms=steps, batch_size=12) as made:
                for batch in made.batches():
                    for sample, image in zip(batch.samples, batch.images):
                        picture = PIL.Image.open(files[int(sample["index"])]).convert("RGB")
                        box = [int(sample[f"crop_{key}"]) for key in ("y", "x", "h", "w")]
                        picture = functional.resized_crop(picture, *box, [40, 40], BICUBIC)
                        flags = int(sample["flags"])
                        picture = functional.hflip(picture) if flags & penstock.FLIPPED else picture
                        picture = functional.vflip(picture) if flags & penstock.FLIPPED_VERTICALLY else picture
                        self.assertTrue(torch.equal(image, tail(picture)))
                        flags_seen.add(flags)
            self.assertEqual(flags_seen, {0, 1, 16, 17})


if __name__ == "__main__":
    support.main()

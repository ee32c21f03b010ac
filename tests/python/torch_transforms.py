"""Loader(transforms=...) with torchvision's own objects, v1 and v2: the tensors are those of
torchvision's PIL pipeline, bit for bit; in training, for the recorded crop and flip."""

from __future__ import annotations

import json
import re
import unittest
import warnings
from typing import Any

import support
from support import penstock

support.require("torch", "torchvision", "PIL")

import PIL  # noqa: E402
import torch  # noqa: E402
import torchvision  # noqa: E402
from penstock import advice, transforms  # noqa: E402
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
    """The daemon is asked for exactly what torchvision's object says."""

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

    def test_timm(self) -> None:
        """What timm's create_transform returns, for its strings."""
        try:
            from timm.data import create_transform
        except ImportError:
            self.skipTest("no timm")
        for config in ("rand-m9-n2-p0.5-mstd0.5-inc1", "rand-m10-n3-p0.9-mstd101-tweights", "rand-m10-n2-p0.5-mmax30-t3aw", "rand-m7-n2-p0.5-t3a",
                       "augmix-m5-w4-d2-a1-b0", "augmix-m3-mstd0.5-w3-d0-a0.5-b1", "original", "originalr-mstd0.5", "v0", "v0r", "3a"):
            with self.subTest(config):
                made = plan(create_transform((256, 128), is_training=True, auto_augment=config, interpolation="random", re_prob=0.25, re_mode="pixel"))
                crop, flip, policy, *jitter = json.loads(made.json or "")
                self.assertEqual(crop["RandomResizedCrop"]["interpolation"], "random")
                self.assertEqual(policy, {"TimmAutoAugment": {"config": config, "interpolation": "random", "fill": [124, 116, 104],
                                                              "translate_pct": 0.3 if config.startswith("augmix") else 0.45}})
                self.assertEqual((made.size, made.dtype, made.erase and made.erase.random), ((256, 128), "float32", True))
                self.assertEqual([*jitter], [step for step in jitter if "ColorJitter" in step])
        for options, names in (({}, ["Resize", "CenterCrop"]), ({"crop_mode": "border"}, ["ResizeKeepRatio", "CenterCropOrPad"]),
                               ({"is_training": True, "train_crop_mode": "rkrr", "hflip": 0, "color_jitter": None},
                                ["ResizeKeepRatio", "RandomCropOrPad"])):
            made = plan(create_transform(224, **options))
            self.assertEqual([name for step in json.loads(made.json or "") for name in step], names)
            self.assertEqual(made.size, (224, 224))

    def test_every_step(self) -> None:
        near = {"interpolation": "nearest"}
        for kind in (v1, v2):
            inner, said = [kind.RandomInvert(), kind.RandomGrayscale()], [{"RandomInvert": {"p": 0.5}}, {"RandomGrayscale": {"p": 0.1}}]
            for item, values in (
                    (kind.ColorJitter(0.5, (1, 2), 0, 0.25), {"brightness": [0.5, 1.5], "contrast": [1.0, 2.0], "hue": [-0.25, 0.25]}),
                    (kind.Grayscale(3), {"num_output_channels": 3}), (kind.RandomGrayscale(), {"p": 0.1}),
                    (kind.GaussianBlur(23), {"kernel_size": [23, 23], "sigma": [0.1, 2.0]}),
                    (kind.GaussianBlur((3, 5), 1.5), {"kernel_size": [3, 5], "sigma": [1.5, 1.5]}),
                    (kind.RandomSolarize(128), {"threshold": 128, "p": 0.5}), (kind.RandomPosterize(4, 1), {"bits": 4, "p": 1}),
                    (kind.RandomEqualize(), {"p": 0.5}), (kind.RandomAutocontrast(), {"p": 0.5}), (kind.RandomInvert(), {"p": 0.5}),
                    (kind.RandomAdjustSharpness(2), {"sharpness_factor": 2, "p": 0.5}),
                    (kind.RandomAffine(15, (0.1, 0.2), (0.5, 2), 10, fill=3, center=(1, 2)),
                     {"degrees": [-15, 15], "translate": [0.1, 0.2], "scale": [0.5, 2], "shear": [-10, 10], "fill": 3, "center": [1, 2], **near}),
                    (kind.RandomRotation((3, 4), fill=(1, 2, 3)), {"degrees": [3, 4], "expand": False, "fill": [1, 2, 3], **near}),
                    (kind.RandomPerspective(), {"distortion_scale": 0.5, "p": 0.5, "interpolation": "bilinear", "fill": 0}),
                    (kind.RandAugment(), {"num_ops": 2, "magnitude": 9, "num_magnitude_bins": 31, **near}),
                    (kind.TrivialAugmentWide(), {"num_magnitude_bins": 31, **near}),
                    (kind.AutoAugment(kind.AutoAugmentPolicy.SVHN), {"policy": "svhn", **near}),
                    (kind.AugMix(), {"severity": 3, "mixture_width": 3, "chain_depth": -1, "alpha": 1.0, "all_ops": True,
                                     "interpolation": "bilinear"}),
                    (kind.RandomErasing(value="random"), {"p": 0.5, "scale": [0.02, 0.33], "ratio": [0.3, 3.3], "value": "random"}),
                    (kind.RandomErasing(value=(1, 2, 3)), {"p": 0.5, "scale": [0.02, 0.33], "ratio": [0.3, 3.3], "value": [1, 2, 3]}),
                    (kind.RandomApply(inner, 0.8), {"transforms": said, "p": 0.8}),
                    (kind.RandomApply(torch.nn.ModuleList(inner)), {"transforms": said, "p": 0.5}),
                    (kind.RandomChoice(inner, p=[0.25, 0.75]), {"transforms": said, "p": [0.25, 0.75]}),
                    (kind.RandomOrder(inner), {"transforms": said})):
                with self.subTest(kind=kind.__name__, item=item):
                    self.assertEqual(json.loads(plan([kind.CenterCrop(8), item]).json or "")[1], {type(item).__name__: values})
            for padding, listed in ((4, [4] * 4), ((1, 2), [1, 2, 1, 2]), ((1, 2, 3, 4), [1, 2, 3, 4])):
                made = json.loads(plan([kind.RandomCrop(32, padding, True, 5, "reflect")]).json or "")[0]["RandomCrop"]
                sides = made.pop("padding")
                sides = [sides] * 4 if isinstance(sides, int) else (sides * 2)[:4]
                self.assertEqual((sides, made), (listed, {"size": [32, 32], "pad_if_needed": True, "fill": 5, "padding_mode": "reflect"}))

    def test_what_is_done_to_batches(self) -> None:
        floats = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
        erase = plan([v2.CenterCrop(8), *floats, v2.RandomErasing(0.25, value="random")]).erase
        assert erase is not None
        self.assertEqual((erase.p, erase.random, erase.scale), (0.25, True, (0.02, 0.33)))
        chosen = v2.RandomChoice([v2.MixUp(alpha=0.5, num_classes=3), v2.CutMix(num_classes=3)], p=[1, 3])
        mix = plan([v2.CenterCrop(8), *floats, chosen]).mix
        assert mix is not None
        self.assertEqual((mix.mixup, mix.cutmix, mix.prob, mix.switch, mix.classes), (0.5, 1.0, 1.0, 0.75, 3))

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
            self.assertEqual((made.mean, made.std, made.size), (tuple(MEAN), tuple(STD), (8, 8)))
        made = plan(torch.nn.Sequential(v1.CenterCrop(8), v1.ConvertImageDtype(torch.float32)))
        self.assertEqual((made.size, made.dtype), ((8, 8), "float32"))

    def test_functions(self) -> None:
        """Lambda of v1 and v2 is its function; subclasses of torchvision's transforms are refused, because v2's pass arrays
        on unchanged."""

        class Mine(v2.Transform):
            pass

        def f(row: Any) -> Any:
            return row

        crop = v1.RandomResizedCrop(8)
        for item in (v1.Lambda(f), v2.Lambda(f), f):
            self.assertIs(plan([crop, item, *tensors(v1)]).functions[0].call, f)
        for item, said in ((Mine(), "Mine is derived from a transform of torchvision"), (v2.Lambda(f, torch.Tensor), "Lambda is not supported")):
            with self.assertRaisesRegex(penstock.ArgumentError, said):
                plan([crop, item])

    def test_all_others_are_refused_by_name(self) -> None:
        crop = v1.RandomResizedCrop(8)
        for item in (v1.FiveCrop(2), v1.TenCrop(2), v2.RandomPhotometricDistort(),
                     v2.ElasticTransform(), v1.ElasticTransform(), v2.RandomIoUCrop(),
                     v2.RandomChannelPermutation(), v2.GaussianNoise(), v2.JPEG(50),
                     v1.LinearTransformation(torch.eye(3), torch.zeros(3))):
            name = type(item).__name__
            with self.subTest(item=name), self.assertRaises(penstock.ArgumentError) as caught:
                plan([crop, item])
            sentence = str(caught.exception)
            self.assertIn(f".{name} is not supported: {advice.instead(name)}", sentence)
            self.assertEqual(f"`images = v2.{name}(...)(images)`" in sentence, name in advice.ON_BATCHES)
        for item, what in ((v1.Resize(8, antialias=False), "Resize.antialias: False"),
                           (v1.RandomResizedCrop(8, antialias=False), "RandomResizedCrop.antialias: False")):
            with self.subTest(what=what), self.assertRaisesRegex(penstock.ArgumentError, f"{what} is not supported"):
                plan([item])

    def test_what_is_advised_works(self) -> None:
        """The line of code in an error works on a batch of the loader."""
        with loader(support.dataset(), transforms=[v1.RandomResizedCrop(32)], dtype="uint8") as made:
            images = next(iter(made))[0]
        floats = (images[:, :, :8, :8] / 255).contiguous()
        whitened = v2.LinearTransformation(torch.eye(3 * 8 * 8), torch.zeros(3 * 8 * 8))
        tried = {"ElasticTransform": (v2.ElasticTransform(), images), "GaussianNoise": (v2.GaussianNoise(), floats),
                 "JPEG": (v2.JPEG(50), images), "LinearTransformation": (whitened, floats),
                 "RandomChannelPermutation": (v2.RandomChannelPermutation(), images),
                 "RandomPhotometricDistort": (v2.RandomPhotometricDistort(p=1.0), images)}
        self.assertEqual(set(tried), set(advice.ON_BATCHES))
        for name, (item, batch) in tried.items():
            with self.subTest(name):
                changed = item(batch)
                self.assertEqual((changed.shape, changed.dtype), (batch.shape, batch.dtype))
        for item, count in ((v2.FiveCrop(8), 5), (v2.TenCrop(8), 10)):
            self.assertEqual([tuple(crop.shape) for crop in item(images)], [(8, 3, 8, 8)] * count)
        self.assertEqual(torch.nn.functional.pad(images, (4, 4, 4, 4)).shape, (8, 3, 40, 40))

    def test_advice_for_all_names(self) -> None:
        """Each transform of this torchvision is supported, or has advice that the loader accepts."""
        others = {"AutoAugmentPolicy", "InterpolationMode", "Compose", "Transform"}
        for module in (v1, v2):
            for name in sorted(name for name, kind in vars(module).items() if isinstance(kind, type) and name[0].isupper()):
                known = transforms._known(name) is not None or name in transforms._NOTHING or name in others
                with self.subTest(name):
                    self.assertNotEqual(known, advice.instead(name) is not None)
        advised = [json.loads(found) for told in advice._INSTEAD.values() for found in re.findall(r'\{"[A-Z]\w+": \{.*?\}\}', told)
                   for found in [found.replace("True", "true")]]
        self.assertGreater(len(advised), 1)
        for step in advised:
            name = next(iter(step))
            steps = [step] if name in transforms._SIZINGS else ["RandomResizedCrop", step]
            steps += ["CenterCrop"] if name == "Resize" else []
            with self.subTest(step=step):
                loader(support.dataset(), transforms=steps).close()


@need_pillow
class Equal(unittest.TestCase):
    def check(self, source: str, pipeline: "list[Any]", **keys: Any) -> None:
        """All rows of a dataset against torchvision's ImageFolder with the same objects, of v1,
        which work on PIL images."""
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
        files = support.photographs()
        if not files:
            self.skipTest("no photographs: scripts/install-deps gets some")
        steps = [*evaluation(v1, 232, 224), *tensors(v1)]
        pipeline = v1.Compose(steps)
        wanted, seen = list(range(0, len(files), 10)), []
        with loader(str(support.PHOTOGRAPHS), train=False, transforms=steps, indices=wanted) as made:
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

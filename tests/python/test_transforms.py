"""Loader(transforms=...): torchvision's objects, here by stand-ins of the same names and attributes, and our own names become what the
daemon does and what the loader does; what cannot be is refused by name. With torchvision itself: torch_transforms.py."""

from __future__ import annotations

import enum
import json
import unittest
from typing import Any

import support
from support import penstock

import numpy as np
from penstock.transforms import plan

IMAGENET_MEAN, IMAGENET_STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


class InterpolationMode(enum.Enum):
    """As torchvision has it."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    LANCZOS = "lanczos"


class Dtype:
    """A torch.dtype prints as its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


def stand_in(name: str, module: str = "torchvision.transforms.transforms", **attributes: Any) -> Any:
    kind = type(name, (), {"__module__": module, "__call__": lambda self, image: image})
    made = kind()
    for key, value in attributes.items():
        setattr(made, key, value)
    return made


def resized_crop(size: Any = (176, 176), **changes: Any) -> Any:
    return stand_in("RandomResizedCrop", **{"size": size, "scale": (0.08, 1.0), "ratio": (3.0 / 4.0, 4.0 / 3.0),
                                            "interpolation": InterpolationMode.BILINEAR, "antialias": True, **changes})


def resize(size: Any, **changes: Any) -> Any:
    return stand_in("Resize", **{"size": size, "interpolation": InterpolationMode.BILINEAR, "max_size": None, "antialias": True,
                                 **changes})


def v2(name: str, **attributes: Any) -> Any:
    return stand_in(name, "torchvision.transforms.v2._some", **attributes)


def compose(*steps: Any) -> Any:
    return stand_in("Compose", transforms=list(steps))


def to_tensor() -> Any:
    return stand_in("ToTensor")


def normalize(mean: Any = IMAGENET_MEAN, std: Any = IMAGENET_STD) -> Any:
    return stand_in("Normalize", mean=mean, std=std, inplace=False)


def operations(transforms: Any) -> Any:
    made = plan(transforms)
    assert made.json is not None
    return json.loads(made.json)


class Taken(unittest.TestCase):
    def test_nothing(self) -> None:
        self.assertEqual(plan(None), penstock.transforms.Plan())
        self.assertIsNone(plan(None).json)

    def test_what_torchvision_trains_with(self) -> None:
        made = plan([resized_crop(), stand_in("RandomHorizontalFlip", p=0.5), to_tensor(), normalize()])
        self.assertEqual(json.loads(made.json or ""), [
            {"RandomResizedCrop": {"size": [176, 176], "scale": [0.08, 1.0], "ratio": [0.75, 4 / 3], "interpolation": "bilinear",
                                   "antialias": True}},
            {"RandomHorizontalFlip": {"p": 0.5}}])
        self.assertEqual((made.size, made.dtype), (176, "float32"))
        self.assertEqual((made.mean, made.std), (tuple(IMAGENET_MEAN), tuple(IMAGENET_STD)))

    def test_sizes(self) -> None:
        for size, said, side in ((176, 176, 176), ([176], 176, 176), ((176, 176), [176, 176], 176), (np.int64(9), 9, 9)):
            with self.subTest(size=size):
                made = plan(resized_crop(size))
                self.assertEqual(json.loads(made.json or "")[0]["RandomResizedCrop"]["size"], said)
                self.assertEqual(made.size, side)
        # One number is the shorter side: what the list makes is only known with the crop.
        self.assertIsNone(plan(resize(232)).size)
        self.assertIsNone(plan(resize([232])).size)
        self.assertEqual(plan(resize((160, 160))).size, 160)
        self.assertEqual(plan([resize(232), stand_in("CenterCrop", size=(224, 224))]).size, 224)

    def test_interpolations(self) -> None:
        for mode, said in ((InterpolationMode.NEAREST, "nearest"), (InterpolationMode.NEAREST_EXACT, "nearest"),
                           (InterpolationMode.BICUBIC, "bicubic"), (InterpolationMode.LANCZOS, "lanczos"), (2, "bilinear"),
                           (1, "lanczos"), ("box", "box")):
            with self.subTest(mode=mode):
                self.assertEqual(operations(resized_crop(interpolation=mode))[0]["RandomResizedCrop"]["interpolation"], said)

    def test_antialias(self) -> None:
        for value in (True, None, "warn"):
            self.assertIs(operations(resized_crop(antialias=value))[0]["RandomResizedCrop"]["antialias"], True)
        older = resized_crop()
        del older.antialias  # torchvision before 0.12
        self.assertNotIn("antialias", operations(older)[0]["RandomResizedCrop"])

    def test_nested(self) -> None:
        flat = [resized_crop(), v2("RandomVerticalFlip", p=0.25), to_tensor()]
        sequential = stand_in("Sequential", "torch.nn.modules.container")
        type(sequential).__iter__ = lambda self: iter(flat[1:])
        for nested in (compose(*flat), [compose(flat[0]), [compose(*flat[1:])]], (flat[0], compose(compose(), sequential))):
            self.assertEqual(plan(nested), plan(flat))

    def test_own_names(self) -> None:
        said = [{"RandomResizedCrop": {"size": 64, "scale": [0.25, 1.0]}}, {"RandomHorizontalFlip": {}}]
        for own in ([("RandomResizedCrop", {"size": 64, "scale": (0.25, 1)}), "RandomHorizontalFlip"],
                    [{"RandomResizedCrop": {"size": 64, "scale": [0.25, 1.0]}}, {"RandomHorizontalFlip": None}]):
            self.assertEqual(operations(own), said)
        self.assertEqual(operations(("CenterCrop", {"size": 3})), [{"CenterCrop": {"size": 3}}])
        made = plan([*said, "ToTensor", ("Normalize", {"mean": 0.5, "std": [0.25]})])
        self.assertEqual((made.mean, made.std), ((0.5,) * 3, (0.25,) * 3))
        self.assertEqual(plan([*said, {"ToDtype": {"dtype": "float16", "scale": True}}]).dtype, "float16")

    def test_the_transforms_of_weights(self) -> None:
        preset = stand_in("ImageClassification", "torchvision.transforms._presets", crop_size=[224], resize_size=[232],
                          mean=IMAGENET_MEAN, std=IMAGENET_STD, interpolation=InterpolationMode.BICUBIC, antialias=True)
        made = plan(preset)
        self.assertEqual(json.loads(made.json or ""), [
            {"Resize": {"size": 232, "interpolation": "bicubic", "antialias": True}}, {"CenterCrop": {"size": 224}}])
        self.assertEqual((made.size, made.dtype, made.mean), (224, "float32", tuple(IMAGENET_MEAN)))

    def test_dtypes(self) -> None:
        def floats(name: str, scale: bool = True) -> Any:
            return v2("ToDtype", dtype=Dtype(f"torch.{name}"), scale=scale)

        image, zero, one = v2("ToImage"), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
        for steps, dtype, normalised in (
                ([], None, None), ([v2("RGB"), v2("Identity")], None, None),
                ([image], "uint8", None), ([stand_in("PILToTensor"), v2("ToPureTensor")], "uint8", None),
                ([image, floats("uint8")], "uint8", None), ([image, floats("uint8", False)], "uint8", None),
                ([to_tensor()], "float32", zero), ([to_tensor(), image], "float32", zero),
                ([image, floats("float32")], "float32", zero), ([image, floats("bfloat16")], "bfloat16", zero),
                ([stand_in("PILToTensor"), stand_in("ConvertImageDtype", dtype=Dtype("torch.float16"))], "float16", zero),
                ([to_tensor(), normalize(), floats("float16", False)], "float16", tuple(IMAGENET_MEAN)),
                ([image, floats("float32"), normalize(np.array(IMAGENET_MEAN))], "float32", tuple(IMAGENET_MEAN))):
            with self.subTest(steps=[type(step).__name__ for step in steps]):
                made = plan([resized_crop(), *steps])
                self.assertEqual((made.dtype, made.mean), (dtype, normalised))
                self.assertEqual(made.std, None if normalised is None else one if normalised == zero else tuple(IMAGENET_STD))

    def test_tensors_are_flipped_and_resized_too(self) -> None:
        """v2's usual order: ToImage first."""
        made = plan([v2("ToImage"), resized_crop(), v2("ToDtype", dtype=Dtype("torch.float32"), scale=True),
                     v2("RandomHorizontalFlip", p=1.0), normalize()])
        self.assertEqual([list(step)[0] for step in json.loads(made.json or "")], ["RandomResizedCrop", "RandomHorizontalFlip"])


class Refused(unittest.TestCase):
    def refused(self, transforms: Any, *sentences: str) -> None:
        with self.assertRaises(penstock.ArgumentError) as caught:
            plan(transforms)
        for sentence in sentences:
            self.assertIn(sentence, str(caught.exception))

    def test_operations_that_are_not_there(self) -> None:
        crop = resized_crop()
        for item, name in ((v2("ColorJitter", brightness=0.4), "torchvision.transforms.v2._some.ColorJitter is not supported"),
                           (stand_in("RandomErasing"), "torchvision.transforms.transforms.RandomErasing is not supported"),
                           ("ColorJitter", "'ColorJitter' is not supported"), (("RandAugment", {}), "'RandAugment' is not supported")):
            short = item if isinstance(item, str) else item[0] if isinstance(item, tuple) else type(item).__name__
            with self.subTest(name=name):
                self.refused([crop, item], f"transforms[1]: {name}", "supported are RandomResizedCrop, Resize, CenterCrop",
                             "Apply it to the batch instead", f"`images = v2.{short}(...)(images)`")

    def test_functions_and_other_things(self) -> None:
        class MyCrop(type(resized_crop())):  # type: ignore[misc]
            __module__ = "__main__"

        self.refused([lambda image: image], "transforms[0]: a lambda cannot be run in the daemon", "`images = f(images)`")
        self.refused([json.dumps], "transforms[0]: dumps cannot be run in the daemon")
        self.refused([MyCrop()], "MyCrop cannot be run in the daemon")
        self.refused([type(resized_crop())], "RandomResizedCrop is a class, not a transform: write RandomResizedCrop(...)")
        self.refused(7, "transforms: an object of builtins.int is no transform")
        self.refused([None], "transforms[0]: an object of builtins.NoneType is no transform")
        self.refused(compose(resized_crop(), compose(v2("AutoAugment"))), "transforms[1][0]: ", "AutoAugment is not supported")
        self.refused([{"CenterCrop": {"size": 1}, "Resize": {"size": 1}}], "expected one operation", "got 2")
        self.refused([{"CenterCrop": 3}], "transforms[0]: CenterCrop: expected a mapping of its parameters, got 3")
        self.refused([{3: {}}], "3 is not supported")
        self.refused(["RandomResizedcrop"], "transforms[0]: there is no 'RandomResizedcrop': did you mean 'RandomResizedCrop'?")

    def test_parameters(self) -> None:
        for item, sentence in (
                (resize(3, max_size=5), "Resize.max_size: 5 is not supported"),
                (resize(3, antialias=False), "Resize.antialias: False is not supported"),
                (resize("x"), "Resize.size: expected a whole number of pixels, or (height, width), got 'x'"),
                (resize(2.5), "Resize.size: expected a whole number"),
                (resize((1, 2, 3)), "Resize.size: expected a whole number"),
                (resize(True), "Resize.size: expected a whole number"),
                (resized_crop(scale=0.5), "RandomResizedCrop.scale: expected two numbers, the least and the most, got 0.5"),
                (resized_crop(ratio=(1, "2")), "RandomResizedCrop.ratio: expected a number, got '2'"),
                (resized_crop(scale=(0.1, float("nan"))), "RandomResizedCrop.scale: expected a number, got nan"),
                (resized_crop(interpolation="cubic"), "RandomResizedCrop.interpolation: expected one of bilinear, bicubic"),
                (resized_crop(interpolation=True), "RandomResizedCrop.interpolation: expected one of"),
                (stand_in("RandomHorizontalFlip", p="often"), "RandomHorizontalFlip.p: expected a number, got 'often'"),
                (("CenterCrop", {"width": 3}), "CenterCrop: there is no parameter 'width'; its parameters are size"),
                (("ToTensor", {"size": 3}), "ToTensor: there is no parameter 'size'; it has no parameters")):
            with self.subTest(sentence=sentence):
                self.refused([item], "transforms[0]: ", sentence)

    def test_order_and_normalisation(self) -> None:
        floats = v2("ToDtype", dtype=Dtype("torch.float32"), scale=True)
        crop = resized_crop()
        for steps, sentence in (
                ([], "transforms has nothing that makes all images one size"),
                ([to_tensor(), normalize()], "transforms has nothing that makes all images one size"),
                ([crop, normalize()], "transforms[1]: Normalize needs floats of 0 to 1: put ToTensor() before it"),
                ([crop, v2("ToImage"), normalize()], "transforms[2]: Normalize needs floats"),
                ([crop, to_tensor(), normalize(), normalize()], "transforms[3]: Normalize is there twice"),
                ([crop, to_tensor(), normalize((1, 2))], "Normalize.mean: expected three numbers, one per channel, got 2"),
                ([crop, to_tensor(), normalize(std="x")], "Normalize.std: expected three numbers"),
                ([crop, to_tensor(), normalize(std=(1, 0, 1))], "Normalize.std: expected three numbers other than 0"),
                ([crop, "ToTensor", ("Normalize", {"mean": 0.5})], "transforms[2]: Normalize: std is missing"),
                ([crop, "ToDtype"], "transforms[1]: ToDtype: dtype is missing"),
                ([crop, v2("ToDtype", dtype=Dtype("torch.float32"), scale=False)], "ToDtype.scale: expected scale=True"),
                ([crop, v2("ToDtype", dtype=Dtype("torch.float64"), scale=True)], "ToDtype.dtype: expected one of uint8, float32"),
                ([crop, floats, v2("ToDtype", dtype=Dtype("torch.uint8"), scale=True)], "to uint8 comes after a conversion to floats"),
                ([to_tensor(), crop], "transforms[1]: RandomResizedCrop comes after a conversion to floats; put it before"),
                ([floats, resize(3)], "transforms[1]: Resize comes after a conversion to floats")):
            with self.subTest(sentence=sentence):
                self.refused(steps, sentence)


class Loaded(unittest.TestCase):
    """The same lists through the daemon."""

    def test_shapes_and_values(self) -> None:
        steps = [("Resize", {"size": 40}), ("CenterCrop", {"size": 32})]
        with penstock.Loader(support.dataset(), batch_size=4, train=False, framework="numpy", transforms=steps, dtype="uint8") as loader:
            bytes_ = next(iter(loader))[0].copy()
        self.assertEqual((bytes_.shape, bytes_.dtype), ((4, 3, 32, 32), np.uint8))
        for tail, want in (
                (["ToImage"], bytes_), (["ToTensor"], bytes_.astype(np.float32) / 255),
                (["ToTensor", ("Normalize", {"mean": 0.5, "std": 0.25})], (bytes_.astype(np.float32) / np.float32(255) - np.float32(0.5)) /
                 np.float32(0.25)),
                ([("ToDtype", {"dtype": "float16", "scale": True})], (bytes_.astype(np.float32) / 255).astype(np.float16))):
            with penstock.Loader(support.dataset(), batch_size=4, train=False, framework="numpy", transforms=steps + tail) as loader:
                images = next(iter(loader))[0]
                self.assertEqual(images.dtype, want.dtype)
                np.testing.assert_array_equal(images, want)

    def test_the_daemon_refuses(self) -> None:
        for steps, sentence in (
                ([("RandomResizedCrop", {"size": 32, "scale": (0.5, 2)})], "RandomResizedCrop: scale: expected a number from 0 to 1"),
                (["RandomHorizontalFlip"], "RandomHorizontalFlip cannot come first"),
                ([("RandomResizedCrop", {"size": (32, 48)})], "expected height and width to be the same"),
                ([("Resize", {"size": 32})], "images would differ in size"),
                (["RandomResizedCrop"], "size is missing")):
            with self.subTest(sentence=sentence), self.assertRaises(penstock.ArgumentError) as caught:
                penstock.Loader(support.dataset(), batch_size=4, framework="numpy", transforms=steps)
            self.assertIn(sentence, str(caught.exception))


if __name__ == "__main__":
    support.main()

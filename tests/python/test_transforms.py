"""Loader(transforms=...): the daemon's part and the loader's part of lists of torchvision's objects
(here stand-ins with the same names and attributes) and of names; what is not supported is refused
by name. torch_transforms.py tests torchvision itself."""

from __future__ import annotations

import enum
import json
import math
import unittest
from typing import Any

import support
from support import penstock

import numpy as np
from penstock import timm_objects
from penstock.mixing import Erase
from penstock.transforms import plan

IMAGENET_MEAN, IMAGENET_STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


class InterpolationMode(enum.Enum):
    """Like torchvision's."""

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
        self.assertEqual((made.size, made.dtype), ((176, 176), "float32"))
        self.assertEqual((made.mean, made.std), (tuple(IMAGENET_MEAN), tuple(IMAGENET_STD)))

    def test_sizes(self) -> None:
        for size, said, side in ((176, 176, 176), ([176], 176, 176), ((176, 176), [176, 176], 176), (np.int64(9), 9, 9)):
            with self.subTest(size=size):
                made = plan(resized_crop(size))
                self.assertEqual(json.loads(made.json or "")[0]["RandomResizedCrop"]["size"], said)
                self.assertEqual(made.size, (side, side))
        # One number is the shorter side: only the crop makes the size known.
        self.assertIsNone(plan(resize(232)).size)
        self.assertIsNone(plan(resize([232])).size)
        self.assertEqual(plan(resize((160, 160))).size, (160, 160))
        self.assertEqual(plan(resize((256, 128))).size, (256, 128))
        self.assertEqual(plan([resize(232), stand_in("CenterCrop", size=(224, 224))]).size, (224, 224))

    def test_sizes_that_are_filled_in(self) -> None:
        """image_size is the size of a sizing operation that has none."""
        for steps, said in (
                (["RandomResizedCrop"], [{"RandomResizedCrop": {"size": 64}}]),
                ([("RandomResizedCrop", {"scale": (0.5, 1)}), "RandomHorizontalFlip"],
                 [{"RandomResizedCrop": {"scale": [0.5, 1.0], "size": 64}}, {"RandomHorizontalFlip": {}}]),
                ([{"RandomResizedCrop": {"size": None}}], [{"RandomResizedCrop": {"size": 64}}]),
                (["CenterCrop"], [{"CenterCrop": {"size": 64}}]),
                ([{"RandomCrop": {"padding": 4}}], [{"RandomCrop": {"padding": 4, "size": 64}}]),
                (["Resize"], [{"Resize": {"size": [64, 64]}}]),
                (["Resize", "RandomInvert"], [{"Resize": {"size": [64, 64]}}, {"RandomInvert": {}}]),
                (["Resize", "CenterCrop"], [{"Resize": {"size": 73}}, {"CenterCrop": {"size": 64}}]),
                (["Resize", ("CenterCrop", {"size": (224, 224)})], [{"Resize": {"size": 256}}, {"CenterCrop": {"size": [224, 224]}}]),
                ([{"Resize": {"size": 80}}, "CenterCrop"], [{"Resize": {"size": 80}}, {"CenterCrop": {"size": 64}}]),
                (["Resize", "RandomCrop"], [{"Resize": {"size": 64}}, {"RandomCrop": {"size": 64}}]),
                ([("RandomResizedCrop", {"size": 32})], [{"RandomResizedCrop": {"size": 32}}])):
            with self.subTest(steps=steps):
                made = plan(steps, (64, 64))
                self.assertEqual(json.loads(made.json or ""), said)
                side = 224 if steps[-1] == ("CenterCrop", {"size": (224, 224)}) else 32 if "32" in str(steps) else 64
                self.assertEqual(made.size, (side, side))
        self.assertEqual(operations(["RandomResizedCrop"]), [{"RandomResizedCrop": {}}])
        for steps, said in (
                (["RandomResizedCrop"], [{"RandomResizedCrop": {"size": [256, 128]}}]),
                (["Resize"], [{"Resize": {"size": [256, 128]}}]),
                (["Resize", "CenterCrop"], [{"Resize": {"size": [292, 146]}}, {"CenterCrop": {"size": [256, 128]}}]),
                (["Resize", "RandomCrop"], [{"Resize": {"size": [256, 128]}}, {"RandomCrop": {"size": [256, 128]}}])):
            with self.subTest(steps=steps):
                made = plan(steps, (256, 128))
                self.assertEqual((json.loads(made.json or ""), made.size), (said, (256, 128)))

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
        self.assertEqual((made.size, made.dtype, made.mean), ((224, 224), "float32", tuple(IMAGENET_MEAN)))

    def test_dtypes(self) -> None:
        def floats(name: str, scale: bool = True) -> Any:
            return v2("ToDtype", dtype=Dtype(f"torch.{name}"), scale=scale)

        image, zero, one = v2("ToImage"), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
        for steps, dtype, normalized in (
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
                self.assertEqual((made.dtype, made.mean), (dtype, normalized))
                self.assertEqual(made.std, None if normalized is None else one if normalized == zero else tuple(IMAGENET_STD))

    def test_tensors_are_flipped_and_resized_too(self) -> None:
        """v2's usual order: ToImage first."""
        made = plan([v2("ToImage"), resized_crop(), v2("ToDtype", dtype=Dtype("torch.float32"), scale=True),
                     v2("RandomHorizontalFlip", p=1.0), normalize()])
        self.assertEqual([list(step)[0] for step in json.loads(made.json or "")], ["RandomResizedCrop", "RandomHorizontalFlip"])


class Policy(enum.Enum):
    """Like torchvision's."""

    CIFAR10 = "cifar10"


class Steps(unittest.TestCase):
    """The operations after the one that gives the size."""

    def said(self, item: Any) -> Any:
        made = operations([("CenterCrop", {"size": 8}), item])
        self.assertEqual(len(made), 2)
        return made[1]

    def test_attributes(self) -> None:
        near, linear = InterpolationMode.NEAREST, InterpolationMode.BILINEAR
        for name, attributes, said in (
                ("ColorJitter", {"brightness": (0.6, 1.4), "contrast": None, "saturation": [1, 2], "hue": (-0.1, 0.1)},
                 {"brightness": [0.6, 1.4], "saturation": [1, 2], "hue": [-0.1, 0.1]}),
                ("Grayscale", {"num_output_channels": 3}, {"num_output_channels": 3}),
                ("RandomGrayscale", {"p": 0.1}, {"p": 0.1}),
                ("GaussianBlur", {"kernel_size": (3, 5), "sigma": (0.1, 2.0)}, {"kernel_size": [3, 5], "sigma": [0.1, 2.0]}),
                ("GaussianBlur", {"kernel_size": [3, 3], "sigma": [1.5]}, {"kernel_size": [3, 3], "sigma": 1.5}),
                ("RandomSolarize", {"threshold": 128, "p": 0.5}, {"threshold": 128, "p": 0.5}),
                ("RandomPosterize", {"bits": np.int64(4), "p": 1}, {"bits": 4, "p": 1.0}),
                ("RandomEqualize", {"p": 0.5}, {"p": 0.5}), ("RandomAutocontrast", {"p": 0.5}, {"p": 0.5}),
                ("RandomInvert", {"p": 0.5}, {"p": 0.5}),
                ("RandomAdjustSharpness", {"sharpness_factor": 2, "p": 0.5}, {"sharpness_factor": 2, "p": 0.5}),
                ("RandomAffine", {"degrees": [-15.0, 15.0], "translate": (0.1, 0.2), "scale": None, "shear": None, "interpolation": near,
                                  "fill": 0.0, "center": None},
                 {"degrees": [-15.0, 15.0], "translate": [0.1, 0.2], "interpolation": "nearest", "fill": 0}),
                ("RandomRotation", {"degrees": [-3.0, 3.0], "interpolation": linear, "expand": False, "center": (1, 2.5),
                                    "fill": [1.0, 2.0, 3.0]},
                 {"degrees": [-3.0, 3.0], "interpolation": "bilinear", "expand": False, "center": [1, 2.5], "fill": [1, 2, 3]}),
                ("RandomPerspective", {"distortion_scale": 0.5, "p": 0.5, "interpolation": linear, "fill": (7,)},
                 {"distortion_scale": 0.5, "p": 0.5, "interpolation": "bilinear", "fill": 7}),
                ("RandAugment", {"num_ops": 2, "magnitude": 9, "num_magnitude_bins": 31, "interpolation": near, "fill": None},
                 {"num_ops": 2, "magnitude": 9, "num_magnitude_bins": 31, "interpolation": "nearest"}),
                ("TrivialAugmentWide", {"num_magnitude_bins": 31, "interpolation": near, "fill": None},
                 {"num_magnitude_bins": 31, "interpolation": "nearest"}),
                ("AutoAugment", {"policy": Policy.CIFAR10, "interpolation": near, "fill": None},
                 {"policy": "cifar10", "interpolation": "nearest"}),
                ("AugMix", {"severity": 3, "mixture_width": 3, "chain_depth": -1, "alpha": 1.0, "all_ops": True, "interpolation": linear,
                            "fill": None},
                 {"severity": 3, "mixture_width": 3, "chain_depth": -1, "alpha": 1.0, "all_ops": True, "interpolation": "bilinear"}),
                ("RandomErasing", {"p": 0.25, "scale": (0.02, 0.33), "ratio": (0.3, 3.3), "value": 0, "inplace": True},
                 {"p": 0.25, "scale": [0.02, 0.33], "ratio": [0.3, 3.3], "value": 0}),
                ("RandomErasing", {"value": [127.0]}, {"value": 127}), ("RandomErasing", {"value": None}, {"value": "random"})):
            for module in ("torchvision.transforms.transforms", "torchvision.transforms.v2._some"):
                with self.subTest(name=name, module=module):
                    self.assertEqual(self.said(stand_in(name, module, **attributes)), {name: said})
                    self.assertEqual(self.said((name, {key: value for key, value in attributes.items() if key != "inplace"})), {name: said})
        self.assertEqual(self.said("ThreeAugment"), {"ThreeAugment": {}})

    def test_random_crops(self) -> None:
        plain = {"size": (32, 32), "pad_if_needed": False, "fill": 0, "padding_mode": "constant"}
        said = {**plain, "size": [32, 32]}
        for padding, read in ((None, None), (4, 4), ((1, 2), [1, 2]), ([1, 2, 3, 4], [1, 2, 3, 4])):
            more = {} if read is None else {"padding": read}
            self.assertEqual(operations(stand_in("RandomCrop", padding=padding, **plain)), [{"RandomCrop": {**said, **more}}])
        # v2's attribute is left, right, top, bottom; its parameter is left, top, right, bottom.
        made = plan(v2("RandomCrop", padding=[1, 3, 2, 4], **plain))
        self.assertEqual(json.loads(made.json or "")[0]["RandomCrop"]["padding"], [1, 2, 3, 4])
        self.assertEqual(made.size, (32, 32))

    def test_what_holds_others(self) -> None:
        invert, equalize, nothing = {"RandomInvert": {"p": 0.5}}, {"RandomEqualize": {}}, {"RandomHorizontalFlip": {"p": 0.0}}
        both = compose(stand_in("RandomInvert", p=0.5), "RandomEqualize")
        modules = stand_in("ModuleList", "torch.nn.modules.container")
        type(modules).__iter__ = lambda self: iter(["RandomEqualize"])
        together = {"RandomApply": {"transforms": [invert, equalize], "p": 1.0}}
        for item, said in (
                (stand_in("RandomApply", transforms=[both], p=0.8), {"RandomApply": {"transforms": [invert, equalize], "p": 0.8}}),
                (stand_in("RandomApply", transforms=modules, p=1), {"RandomApply": {"transforms": [equalize], "p": 1.0}}),
                (v2("RandomChoice", transforms=[both, "RandomEqualize", v2("Identity")], p=[0.25, 0.25, 0.5]),
                 {"RandomChoice": {"transforms": [together, equalize, nothing], "p": [0.25, 0.25, 0.5]}}),
                (stand_in("RandomChoice", transforms=["RandomEqualize"], p=None), {"RandomChoice": {"transforms": [equalize]}}),
                (v2("RandomOrder", transforms=[("RandomApply", {"transforms": ["RandomEqualize"]}), both]),
                 {"RandomOrder": {"transforms": [{"RandomApply": {"transforms": [equalize]}}, together]}})):
            with self.subTest(said=said):
                self.assertEqual(self.said(item), said)

    def test_timm(self) -> None:
        crop = stand_in("RandomResizedCropAndInterpolation", "timm.data.transforms", size=(176, 176), scale=(0.1, 1.0), ratio=(1.0, 1.0),
                        interpolation=InterpolationMode.BICUBIC)
        made = plan([crop, stand_in("MaybeToTensor", "timm.data.transforms"), normalize()])
        self.assertEqual(json.loads(made.json or ""), [{"RandomResizedCrop": {
            "size": [176, 176], "scale": [0.1, 1.0], "ratio": [1.0, 1.0], "interpolation": "bicubic"}}])
        self.assertEqual((made.dtype, made.mean), ("float32", tuple(IMAGENET_MEAN)))
        crop.interpolation = (InterpolationMode.BILINEAR, InterpolationMode.BICUBIC)
        self.assertEqual(operations(crop)[0]["RandomResizedCrop"]["interpolation"], "random")
        crop.interpolation = (InterpolationMode.BILINEAR, InterpolationMode.LANCZOS)
        with self.assertRaisesRegex(penstock.ArgumentError, r"transforms\[0\]: RandomResizedCrop.interpolation: expected one of bilinear, "):
            plan([crop])

    def test_sizes_anywhere(self) -> None:
        """Operations that change sizes, in any order. The size that the list makes is known where an operation says it."""
        near = {"interpolation": InterpolationMode.NEAREST, "antialias": True}
        for item, said in (
                (stand_in("Pad", padding=[1, 2, 3, 4], fill=0, padding_mode="edge"), {"padding": [1, 2, 3, 4], "fill": 0, "padding_mode": "edge"}),
                (v2("RandomResize", min_size=30, max_size=40, **near), {"min_size": 30, "max_size": 40}),
                (v2("ScaleJitter", target_size=(32, 24), scale_range=(0.5, 2), **near), {"target_size": [32, 24], "scale_range": [0.5, 2.0]}),
                (v2("RandomShortestSize", min_size=[24, 28], max_size=None, **near), {"min_size": [24, 28]}),
                (v2("RandomZoomOut", fill=(1, 2, 3), side_range=(1.0, 4.0), p=0.5), {"fill": [1, 2, 3], "side_range": [1.0, 4.0], "p": 0.5}),
                (resize(3, max_size=5), {"size": 3, "max_size": 5}),
                (v2("RandomRotation", degrees=[90.0, 90.0], expand=True), {"degrees": [90.0, 90.0], "expand": True}),
                (stand_in("ResizeKeepRatio", "timm.data.transforms", size=(8, 8), longest=1.0, random_aspect_range=(0.9, 1.1)),
                 {"size": [8, 8], "longest": 1.0, "random_aspect_range": [0.9, 1.1]})):
            name = type(item).__name__
            with self.subTest(name):
                made = operations([resized_crop(), item])[1]
                self.assertEqual({key: made[name][key] for key in said}, said)
                self.assertIsNone(plan([resized_crop(), item]).size)
                self.assertIsNone(plan([resized_crop(), ("RandomApply", {"transforms": [item]})]).size)
                self.assertEqual(plan([item, ("CenterCropOrPad", {"size": (16, 8)}), "RandomInvert"]).size, (16, 8))
        self.assertEqual(json.loads(plan(["Pad", "RandomCropOrPad"], (16, 8)).json or ""), [{"Pad": {}}, {"RandomCropOrPad": {"size": [16, 8]}}])
        self.assertEqual(json.loads(plan([("Resize", {"max_size": 9}), "CenterCrop"], (8, 8)).json or ""),
                         [{"Resize": {"max_size": 9}}, {"CenterCrop": {"size": 8}}])

    def test_timm_policies(self) -> None:
        def op(name: str, magnitude: float = 9, prob: float = 0.5, **hparams: Any) -> Any:
            made = stand_in("AugmentOp", "timm.data.auto_augment", magnitude=magnitude, prob=prob, hparams=hparams,
                            magnitude_std=hparams.get("magnitude_std", 0), magnitude_max=hparams.get("magnitude_max"),
                            kwargs={"fillcolor": (124, 116, 104), "resample": (2, 3)})
            made.name = name
            return made

        def rand(names: Any, weights: Any = None, **values: Any) -> Any:
            return stand_in("RandAugment", "timm.data.auto_augment", ops=[op(name, **values) for name in names], num_layers=2,
                            choice_weights=weights)

        three = ("SolarizeIncreasing", "Desaturate", "GaussianBlur")
        said = {"interpolation": "random", "fill": [124, 116, 104], "translate_pct": 0.45}
        weighted = timm_objects._WEIGHTED["-t3aw"]
        shares = np.array([*weighted.values()]) / 33
        augmix = stand_in("AugMixAugment", "timm.data.auto_augment", width=4, depth=-1, alpha=1.0, blended=False,
                          ops=[op(name, 5, 1.0, magnitude_std=float("inf"), translate_pct=0.3) for name in timm_objects._AUGMIX])
        auto = stand_in("AutoAugment", "timm.data.auto_augment",
                        policy=[[op("Solarize", 5, 1.0)], [op("Desaturate", 10, 1.0)], [op("GaussianBlurRand", 10, 1.0)]])
        for item, config, pct in (
                (rand(timm_objects._INCREASING, magnitude_std=0.5), "rand-m9-n2-p0.5-mstd0.5-inc1", 0.45),
                (rand(timm_objects._PLAIN, magnitude_std=float("inf"), magnitude_max=30), "rand-m9-n2-p0.5-mstd101-mmax30", 0.45),
                (rand(three, prob=0.25), "rand-m9-n2-p0.25-t3a", 0.45), (rand(weighted, shares), "rand-m9-n2-p0.5-t3aw", 0.45),
                (augmix, "augmix-m5-w4-d0-a1-b0", 0.3), (auto, "3a", 0.45)):
            with self.subTest(config):
                self.assertEqual(self.said(item), {"TimmAutoAugment": {"config": config, **said, "translate_pct": pct}})
        mixed = rand(three)
        mixed.ops[1].kwargs = {**mixed.ops[1].kwargs, "fillcolor": 0}
        for item, sentence in (
                (rand(["Invert"]), "RandAugment draws from other operations than those of timm's strings: Invert; to choose"),
                (rand(weighted), "RandAugment draws from other operations"), (rand(weighted, shares[::-1]), "RandAugment draws from other"),
                (rand([]), "RandAugment has no operations"), (mixed, "RandAugment has operations with different hparams"),
                (rand(three, magnitude=9.5), "RandAugment: expected a whole magnitude, as in timm's strings, got 9.5"),
                (stand_in("AutoAugment", "timm.data.auto_augment", policy=[[op("Invert")]]), "AutoAugment has another policy than v0, v0r")):
            with self.subTest(sentence), self.assertRaisesRegex(penstock.ArgumentError, rf"transforms\[1\]: {sentence}"):
                plan([resized_crop(), item])

    def test_timm_erasing(self) -> None:
        def erasing(**changes: Any) -> Any:
            return stand_in("RandomErasing", "timm.data.random_erasing", **{
                "probability": 0.25, "min_area": 0.02, "max_area": 1 / 3, "log_aspect_ratio": (math.log(0.3), math.log(1 / 0.3)), "min_count": 1,
                "max_count": 1, "num_splits": 0, "rand_color": False, "per_pixel": True, **changes})

        made = plan([resized_crop(), stand_in("MaybeToTensor", "timm.data.transforms"), normalize(), erasing()]).erase
        self.assertEqual(made, Erase(0.25, (0.02, 1 / 3), (0.3, 3.33333333333), (0.0, 0.0, 0.0), True))
        for changes, sentence in (({"rand_color": True}, ".mode: 'rand' is not supported"), ({"max_count": 3}, ".max_count: 3 is not supported"),
                                  ({"num_splits": 2}, ".num_splits: 2 is not supported")):
            with self.assertRaisesRegex(penstock.ArgumentError, f"RandomErasing{sentence}"):
                plan([resized_crop(), erasing(**changes)])

    def test_blurs_of_pillow(self) -> None:
        self.assertEqual(self.said(("GaussianBlur", {"radius": (0.1, 2.0)})), {"GaussianBlur": {"radius": [0.1, 2.0]}})
        blur = stand_in("GaussianBlur", "utils", prob=0.5, radius_min=0.1, radius_max=2.0)
        with self.assertRaises(penstock.ArgumentError) as caught:
            plan([resized_crop(), blur])
        self.assertIn('write {"RandomApply": {"transforms": [{"GaussianBlur": {"radius": [0.1, 2.0]}}], "p": 0.5}}', str(caught.exception))

    def test_policies_by_their_strings(self):
        """timm's aa= strings are configurations of one operation."""
        for config in ("rand-m9-mstd0.5-inc1", "augmix-m5-w4-d2", "original", "originalr-mstd0.5", "v0", "3a"):
            with self.assertRaises(penstock.ArgumentError) as caught:
                penstock.Loader("/nowhere", transforms=["RandomResizedCrop", config])
            self.assertIn(f'{config!r} is not supported: a policy of timm is written {{"TimmAutoAugment": {{"config": {config!r}}}}}', str(caught.exception))

    def test_classes_of_dino_and_deit(self) -> None:
        """They take PIL images, so they cannot be functions of a row: the error says what to write, and that is read."""
        three = 'for DeiT III\'s RandomChoice of gray_scale, Solarization and GaussianBlur write "ThreeAugment"'
        gray = stand_in("gray_scale", "augment", p=1.0, transf=stand_in("Grayscale", num_output_channels=3))
        solar = stand_in("Solarization", "utils", p=0.2)
        blur = stand_in("GaussianBlur", "augment", prob=1.0, radius_min=0.1, radius_max=2.0)
        for item, name, written in (
                (gray, "augment.gray_scale", '{"RandomGrayscale": {"p": 1.0}}'),
                (solar, "utils.Solarization", '{"RandomSolarize": {"threshold": 128, "p": 0.2}}'),
                (blur, "augment.GaussianBlur", '{"RandomApply": {"transforms": [{"GaussianBlur": {"radius": [0.1, 2.0]}}], "p": 1.0}}')):
            choice = stand_in("RandomChoice", transforms=[item, item], p=None)
            for given, where in ((item, "transforms[1]"), (choice, "transforms[1]: RandomChoice[0]")):
                with self.subTest(name=name, where=where), self.assertRaises(penstock.ArgumentError) as caught:
                    plan([resized_crop(), given, to_tensor()])
                said = str(caught.exception)
                self.assertTrue(said.startswith(f"{where}: {name} is not torchvision's, and takes PIL images"), said)
                self.assertIn(written, said)
                self.assertIn(three, said)
            self.assertEqual(self.said(json.loads(written)), json.loads(written))
        for name, written in (("Solarization", '{"RandomSolarize"'), ("gray_scale", '{"RandomGrayscale"')):
            with self.assertRaisesRegex(penstock.ArgumentError, f"'{name}' is not supported: write {written}"):
                plan([resized_crop(), name])
        # Another class of that name is a function of a row, as before.
        self.assertEqual(len(plan([resized_crop(), stand_in("Solarization", "mine", threshold=3)]).functions), 1)

    def test_erasing(self) -> None:
        """The daemon erases uint8, and the loader erases floats, on the scale of its input."""
        erasing = v2("RandomErasing", p=0.25, scale=(0.1, 0.2), ratio=(0.5, 2.0), value=[0.25], inplace=False)
        floats, crop = v2("ToDtype", dtype=Dtype("torch.float32"), scale=True), resized_crop()
        made = plan([crop, v2("ToImage"), ("RandomErasing", {"value": 9}), floats, normalize()])
        self.assertEqual(json.loads(made.json or "")[1], {"RandomErasing": {"value": 9}})
        self.assertIsNone(made.erase)
        for steps, value in (([floats, erasing], (0.25,) * 3), ([floats, normalize(), erasing], (0.25,) * 3),
                             ([floats, erasing, normalize(0.5, 0.5)], (-0.5,) * 3),
                             ([to_tensor(), normalize(), ("RandomErasing", {"value": "random"})], None)):
            with self.subTest(steps=steps):
                made = plan([crop, *steps])
                self.assertEqual(len(json.loads(made.json or "")), 1)
                assert made.erase is not None
                self.assertEqual((made.erase.value, made.erase.random), (value or (0.0,) * 3, value is None))
        made = plan([crop, floats, erasing])
        self.assertEqual(made.erase, penstock.mixing.Erase(0.25, (0.1, 0.2), (0.5, 2.0), (0.25,) * 3))
        self.assertEqual(plan([crop, floats, "RandomErasing"]).erase, penstock.mixing.Erase())

    def test_mixing(self) -> None:
        mix = penstock.mixing.Mix
        up, cut = v2("MixUp", alpha=0.8, num_classes=10), v2("CutMix", alpha=1.0, num_classes=10)
        for item, said in (
                (up, mix(mixup=0.8, classes=10)), (cut, mix(cutmix=1.0, classes=10)), ("MixUp", mix(mixup=1.0)),
                (("CutMix", {"alpha": 0.5}), mix(cutmix=0.5)),
                (v2("RandomChoice", transforms=[up, cut]), mix(0.8, 1.0, 1.0, 0.5, 10)),
                (v2("RandomChoice", transforms=[cut, up], p=[0.75, 0.25]), mix(0.8, 1.0, 1.0, 0.75, 10)),
                (v2("RandomChoice", transforms=[up, cut, v2("Identity")], p=[1, 1, 2]), mix(0.8, 1.0, 0.5, 0.5, 10)),
                (v2("RandomApply", transforms=[cut], p=0.25), mix(0.0, 1.0, 0.25, 0.5, 10))):
            with self.subTest(said=said):
                made = plan([resized_crop(), to_tensor(), normalize(), item])
                self.assertEqual(made.mix, said)
                self.assertEqual(len(json.loads(made.json or "")), 1)


class Refused(unittest.TestCase):
    def refused(self, transforms: Any, *sentences: str) -> str:
        with self.assertRaises(penstock.ArgumentError) as caught:
            plan(transforms)
        for sentence in sentences:
            self.assertIn(sentence, str(caught.exception))
        return str(caught.exception)

    def test_operations_that_are_not_there(self) -> None:
        crop = resized_crop()
        boxes, crops = "it is for boxes, masks, key points or videos", "`crops = v2.FiveCrop(size)(images)`"
        line = "apply it to the batch instead: leave it out of transforms, and in the loop write `images = v2.{}(...)(images)`"
        for item, name, told in (
                (v2("RandomIoUCrop"), "torchvision.transforms.v2._some.RandomIoUCrop", boxes),
                (v2("RandomPhotometricDistort"), "torchvision.transforms.v2._some.RandomPhotometricDistort", line),
                (stand_in("FiveCrop"), "torchvision.transforms.transforms.FiveCrop", crops),
                (stand_in("Newest"), "torchvision.transforms.transforms.Newest", "docs/reference/python.md, Transforms, lists"),
                (stand_in("RandomPad", "timm.data.transforms"), "timm.data.transforms.RandomPad",
                 'write {"RandomCropOrPad": {"size": 224}}'),
                ("ElasticTransform", "'ElasticTransform'", line), (("GaussianNoise", {}), "'GaussianNoise'", line),
                ("TrimBorder", "'TrimBorder'", '{"CenterCrop": {"size": 224}}'),
                ("Newest", "'Newest'", "docs/reference/python.md, Transforms, lists what is supported")):
            short = item if isinstance(item, str) else item[0] if isinstance(item, tuple) else type(item).__name__
            with self.subTest(name=name):
                said = self.refused([crop, item], f"transforms[1]: {name} is not supported: ", told.format(short) if told is line else told)
                self.assertNotIn("RandomPerspective", said)  # the list of all names
                self.assertEqual("apply it to the batch" in said, told is line)

    def test_depth(self) -> None:
        within: "list[Any]" = []
        within.append(within)
        self.refused(within, "transforms: lists are nested too deeply")
        deep: Any = "RandomInvert"
        for _ in range(5000):
            deep = {"RandomApply": {"transforms": [deep]}}
        self.refused([resized_crop(), deep], "transforms: lists are nested too deeply")

    def test_functions_and_other_things(self) -> None:
        class MyCrop(type(resized_crop())):  # type: ignore[misc]
            __module__ = "__main__"

        self.refused([lambda image: image], "transforms contains nothing that gives all images the same size")
        self.refused([MyCrop()], "MyCrop is derived from a transform of torchvision", "lambda row: np.asarray(t(PIL.Image.fromarray(row)))")
        self.refused([stand_in("GaussianBlur", "augment")], "transforms[0]: augment.GaussianBlur has the name of an operation of "
                     "torchvision, but is another class", 'or ("GaussianBlur", {...})', "wrap it in a function of a row")
        self.refused([stand_in("RandomErasing", "random_erasing")], "random_erasing.RandomErasing has the name")
        self.refused([type(resized_crop())], "RandomResizedCrop is a class, not a transform: write RandomResizedCrop(...)")
        self.refused(7, "transforms: an object of builtins.int is not a transform")
        self.refused([None], "transforms[0]: an object of builtins.NoneType is not a transform")
        self.refused(compose(resized_crop(), compose(v2("RandomIoUCrop"))), "transforms[1][0]: ", "RandomIoUCrop is not supported")
        self.refused([{"CenterCrop": {"size": 1}, "Resize": {"size": 1}}], "expected one operation", "got 2")
        self.refused([{"CenterCrop": 3}], "transforms[0]: CenterCrop: expected a dict of its parameters, got 3")
        self.refused([{3: {}}], "3 is not supported")
        self.refused(["3Augment"], "'3Augment' is not supported: docs/reference/python.md, Transforms, lists")
        self.refused(["ColourJitter"], "transforms[0]: there is no 'ColourJitter': did you mean 'ColorJitter'?")
        for wrong in ("RandomResizedcrop", "randomresizedcrop", "RANDOMRESIZECROP"):
            self.refused([wrong], f"transforms[0]: there is no {wrong!r}: did you mean 'RandomResizedCrop'?")

    def test_parameters(self) -> None:
        for item, sentence in (
                (resize(3, antialias=False), "Resize.antialias: False is not supported"),
                (resize("x"), "Resize.size: expected a whole number of pixels, or (height, width), got 'x'"),
                (resize(2.5), "Resize.size: expected a whole number"),
                (resize((1, 2, 3)), "Resize.size: expected a whole number"),
                (resize(True), "Resize.size: expected a whole number"),
                (resized_crop(scale=0.5), "RandomResizedCrop.scale: expected two numbers, minimum and maximum, got 0.5"),
                (resized_crop(ratio=(1, "2")), "RandomResizedCrop.ratio: expected a number, got '2'"),
                (resized_crop(scale=(0.1, float("nan"))), "RandomResizedCrop.scale: expected a number, got nan"),
                (resized_crop(interpolation="cubic"), "RandomResizedCrop.interpolation: expected one of bilinear, bicubic"),
                (resized_crop(interpolation=True), "RandomResizedCrop.interpolation: expected one of"),
                (stand_in("RandomHorizontalFlip", p="often"), "RandomHorizontalFlip.p: expected a number, got 'often'"),
                (v2("RandomAffine", degrees=[1.0, None]), "RandomAffine.degrees: expected a number, a list of numbers or a word, got"),
                (v2("RandomAffine", degrees={}), "RandomAffine.degrees: expected a number, a list of numbers or a word, got {}"),
                (v2("RandomAffine", degrees=float("inf")), "RandomAffine.degrees: expected a number"),
                (v2("RandomRotation", fill={"others": 0}), "RandomRotation.fill: expected one number or three, got {'others': 0}"),
                (v2("RandAugment", interpolation="cubic"), "RandAugment.interpolation: expected one of bilinear, bicubic"),
                (stand_in("RandomApply", transforms=3, p=0.5), "RandomApply.transforms: expected a list of transforms, got 3"),
                (("RandomApply", {"p": 0.5}), "RandomApply.transforms: expected a list of transforms, got None"),
                (("RandomApply", {"transforms": "RandomInvert"}), "RandomApply.transforms: expected a list of transforms"),
                (("RandomChoice", {"transforms": ["ColorJitters"]}), "RandomChoice[0]: there is no 'ColorJitters'"),
                (stand_in("RandomOrder", transforms=[lambda image: image]), "RandomOrder[0]: a lambda is inside another transform"),
                (("RandomApply", {"transforms": [("RandomInvert", {"q": 1})]}), "RandomApply[0]: RandomInvert: there is no parameter 'q'"),
                (("RandomApply", {"transforms": ["ToTensor"]}), "RandomApply[0]: ToTensor cannot be inside another transform"),
                (("CenterCrop", {"width": 3}), "CenterCrop: there is no parameter 'width'; its parameters are size"),
                (("ToTensor", {"size": 3}), "ToTensor: there is no parameter 'size'; it has no parameters")):
            with self.subTest(sentence=sentence):
                self.refused([item], "transforms[0]: ", sentence)

    def test_order_and_normalization(self) -> None:
        floats = v2("ToDtype", dtype=Dtype("torch.float32"), scale=True)
        crop = resized_crop()
        for steps, sentence in (
                ([], "transforms contains nothing that gives all images the same size"),
                ([to_tensor(), normalize()], "transforms contains nothing that gives all images the same size"),
                ([crop, normalize()], "transforms[1]: Normalize needs floats from 0 to 1: put ToTensor()"),
                ([crop, v2("ToImage"), normalize()], "transforms[2]: Normalize needs floats"),
                ([crop, to_tensor(), normalize(), normalize()], "transforms[3]: Normalize appears twice"),
                ([crop, to_tensor(), normalize((1, 2))], "Normalize.mean: expected three numbers, one per channel, got 2"),
                ([crop, to_tensor(), normalize(std="x")], "Normalize.std: expected three numbers"),
                ([crop, to_tensor(), normalize(std=(1, 0, 1))], "Normalize.std: expected three numbers other than 0"),
                ([crop, "ToTensor", ("Normalize", {"mean": 0.5})], "transforms[2]: Normalize: std is missing"),
                ([crop, "ToDtype"], "transforms[1]: ToDtype: dtype is missing"),
                ([crop, v2("ToDtype", dtype=Dtype("torch.float32"), scale=False)], "ToDtype.scale: expected scale=True"),
                ([crop, v2("ToDtype", dtype=Dtype("torch.float64"), scale=True)], "ToDtype.dtype: expected one of uint8, float32"),
                ([crop, floats, v2("ToDtype", dtype=Dtype("torch.uint8"), scale=True)], "to uint8 comes after a conversion to floats"),
                ([to_tensor(), crop], "transforms[1]: RandomResizedCrop comes after a conversion to floats: put it before"),
                ([floats, resize(3)], "transforms[1]: Resize comes after a conversion to floats"),
                ([crop, floats, v2("ColorJitter")], "transforms[2]: ColorJitter comes after a conversion to floats: put it before"),
                ([crop, floats, "RandomErasing", "RandomErasing"], "transforms[3]: RandomErasing appears twice"),
                ([crop, floats, "RandomErasing", "RandomHorizontalFlip"], "transforms[3]: RandomHorizontalFlip comes after RandomErasing"),
                ([crop, floats, v2("RandomErasing", value=None), normalize()], "transforms[3]: Normalize comes after RandomErasing with"),
                ([crop, floats, ("RandomErasing", {"value": [1, 2]})], "RandomErasing.value: expected three numbers"),
                ([crop, "MixUp", "RandomInvert"], "transforms[2]: RandomInvert comes after MixUp or CutMix, which must come last"),
                ([crop, ("MixUp", {"num_classes": 2.5})], "MixUp.num_classes: expected a whole number"),
                ([crop, ("CutMix", {"alpha": "x"})], "CutMix.alpha: expected a number"),
                ([crop, ("MixUp", {"num_classes": -5})], "MixUp.num_classes: expected a whole number from 1 to 16777216, got -5"),
                ([crop, ("MixUp", {"num_classes": 2**32 + 3})], "MixUp.num_classes: expected a whole number from 1 to 16777216"),
                ([crop, ("MixUp", {"num_classes": 0})], "MixUp.num_classes: expected a whole number from 1 to 16777216, got 0"),
                ([crop, ("MixUp", {"alpha": 0})], "MixUp.alpha: expected the alpha of a Beta distribution, 0.01 to 100, got 0.0"),
                ([crop, ("CutMix", {"alpha": 1000})], "CutMix.alpha: expected the alpha of a Beta distribution"),
                ([crop, ("RandomApply", {"transforms": ["MixUp"], "p": 2})], "transforms[1]: RandomApply.p: expected a probability"),
                ([crop, ("RandomChoice", {"transforms": ["MixUp", "CutMix"], "p": [-1, 2]})], "RandomChoice.p: expected numbers, 0 or more"),
                ([crop, floats, ("RandomErasing", {"p": 5})], "transforms[2]: RandomErasing.p: expected a probability from 0 to 1, got 5"),
                ([crop, floats, ("RandomErasing", {"scale": [0.5, 0.1]})], "RandomErasing.scale: expected two shares of the area"),
                ([crop, floats, ("RandomErasing", {"ratio": [0, 1]})], "RandomErasing.ratio: expected two numbers above 0"),
                ([crop, floats, ("RandomErasing", {"value": 1e300})], "RandomErasing.value: expected a number that a float32 can hold"),
                ([crop, floats, ("RandomErasing", {"p": 10**400})], "RandomErasing.p: expected a number, got 1000"),
                ([crop, floats, ("RandomErasing", {"value": 10**400})], "RandomErasing.value: expected"),
                ([crop, floats, ("RandomErasing", {"value": 3e38}), normalize()], "which a float32 cannot hold once it is normalized"),
                ([crop, ("RandomChoice", {"transforms": ["MixUp", "CutMix"], "p": [10**400, 1]})], "RandomChoice.p: expected a number"),
                ([crop, ("RandomChoice", {"transforms": ["MixUp", "RandomInvert"]})], "RandomChoice may contain either MixUp and CutMix, or other"),
                ([crop, ("RandomChoice", {"transforms": ["MixUp", "MixUp"]})], "RandomChoice contains MixUp twice"),
                ([crop, ("RandomChoice", {"transforms": ["MixUp", "CutMix"], "p": [1]})], "RandomChoice.p: expected 2 numbers, got [1]"),
                ([crop, ("RandomChoice", {"transforms": ["MixUp", "CutMix"], "p": [0, 0]})], "at least one number above 0"),
                ([crop, ("RandomApply", {"transforms": ["MixUp", "CutMix"]})], "RandomApply may contain one of MixUp and CutMix"),
                ([crop, ("RandomChoice", {"transforms": [("MixUp", {"num_classes": 2}), ("CutMix", {"num_classes": 3})]})],
                 "num_classes is 3 here, but 2 before")):
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

    def test_sizes_that_are_filled_in(self) -> None:
        def first(**arguments: Any) -> Any:
            with penstock.Loader(support.dataset(), batch_size=4, framework="numpy", dtype="uint8", **arguments) as loader:
                return next(iter(loader))[0].copy()

        np.testing.assert_array_equal(first(image_size=64, transforms=["RandomResizedCrop", "RandomHorizontalFlip"]), first(image_size=64))
        np.testing.assert_array_equal(first(image_size=64, train=False, transforms=["Resize", "CenterCrop"]),
                                      first(image_size=64, train=False))
        self.assertEqual(first(transforms=["RandomResizedCrop"]).shape, (4, 3, 224, 224))
        with penstock.Loader(support.dataset(), batch_size=4, framework="numpy", image_size={0: 32, 1: 48},
                             transforms=["RandomResizedCrop"]) as loader:
            self.assertEqual([next(iter(loader))[0].shape[2] for _ in range(2)], [32, 48])

    def test_the_daemon_refuses(self) -> None:
        crop = ("CenterCrop", {"size": 32})
        for steps, sentence in (
                ([("RandomResizedCrop", {"size": 32, "scale": (0.5, 2)})], "RandomResizedCrop: scale: expected a number from 0 to 1"),
                (["RandomHorizontalFlip"], "no operation gives all images one size"),
                ([crop, ("ColorJitter", {"hue": 0.6})], "ColorJitter: hue: expected a number from 0 to 0.5, or [least, most]"),
                ([crop, ("Grayscale", {"num_output_channels": 1})], "Grayscale: num_output_channels: expected 3"),
                ([crop, "RandomErasing", "RandomInvert"], "RandomInvert cannot follow RandomErasing: that comes last"),
                ([crop, ("RandomChoice", {"transforms": ["RandomErasing"]})], "RandomErasing cannot be within RandomChoice"),
                ([("RandomResizedCrop", {"size": (32, 0)})], "size: expected a whole number"),
                ([("Resize", {"size": 32})], "images would differ in size"),
                ([crop, "GaussianBlur"], 'kernel_size is missing; expected an odd number of pixels, as in {"GaussianBlur": '
                 '{"kernel_size": 23}}')):
            with self.subTest(sentence=sentence), self.assertRaises(penstock.ArgumentError) as caught:
                penstock.Loader(support.dataset(), batch_size=4, framework="numpy", transforms=steps)
            self.assertIn(sentence, str(caught.exception))


if __name__ == "__main__":
    support.main()

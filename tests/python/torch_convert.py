"""penstock's conversion against torchvision's own, on the CPU: every value, bit for bit."""

from __future__ import annotations

import random
import unittest
from typing import Any

import support

support.require("torch", "torchvision")

import numpy as np
import torch
from PIL import Image
from penstock import _penstock
from torchvision import transforms

SIDE = 16  # 256 pixels; each channel has every value
USUAL = [
    ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
]


def every_value() -> Any:
    return np.repeat(np.arange(256, dtype=np.uint8), 3).reshape(SIDE, SIDE, 3)


def statistics() -> Any:
    generator = random.Random(7)
    yield from USUAL
    for _ in range(40):
        yield tuple(generator.random() for _ in range(3)), tuple(0.01 + generator.random() for _ in range(3))


class Conversion(unittest.TestCase):
    """The images come from a stream, in plain colors: every value is tested."""

    @classmethod
    def setUpClass(cls) -> None:
        source = support.folder / "values/all"
        source.mkdir(parents=True)
        Image.fromarray(every_value()).save(source / "all.png")
        cls.stream = _penstock.Stream({"source": str(source.parent), "batch_size": 1, "image_size": SIDE, "train": 0,
                                       "transforms": '[{"Resize": {"size": 16}}, {"CenterCrop": {"size": 16}}]'})
        batch = cls.stream.next(20000)
        assert batch is not None
        cls.batch = batch

    @classmethod
    def tearDownClass(cls) -> None:
        cls.batch.release()
        cls.stream.close()

    def converted(self, dtype: str, channels_last: bool, mean: Any, std: Any) -> Any:
        converter = _penstock.Converter(dtype, channels_last, mean, std)
        block = _penstock.Pool(converter.row_bytes(SIDE, SIDE)).take()
        converter.images(self.batch, block)
        flat = torch.frombuffer(block, dtype=getattr(torch, dtype))
        return flat.view(SIDE, SIDE, 3).permute(2, 0, 1) if channels_last else flat.view(3, SIDE, SIDE)

    def test_all_values_are_there(self) -> None:
        pixels = np.frombuffer(self.batch.view("images"), np.uint8)
        self.assertEqual(pixels.tolist(), every_value().ravel().tolist())

    def test_torchvision(self) -> None:
        image = Image.fromarray(every_value())
        for mean, std in statistics():
            wanted = transforms.Normalize(mean, std)(transforms.ToTensor()(image))
            for channels_last in (True, False):
                for dtype in ("float32", "float16", "bfloat16"):
                    got = self.converted(dtype, channels_last, mean, std)
                    self.assertTrue(torch.equal(got, wanted.to(got.dtype)), (mean, std, dtype, channels_last))


if __name__ == "__main__":
    support.main()

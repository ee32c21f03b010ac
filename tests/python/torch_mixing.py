"""Mixing against torchvision and torch: MixUp and CutMix with the same lambda and rectangle make
the same tensors and labels, bit for bit; smoothed labels give the loss of torch; views are parts of
one tensor."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import mock

import support
from support import penstock

support.require("torch", "torchvision")

import numpy as np  # noqa: E402
import torch  # noqa: E402
from penstock import _penstock, cuda  # noqa: E402
from penstock.mixing import Mix, Mixing  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

SIDE, CLASSES = 32, 3

# struct penstock_mix_row.
ROW = np.dtype({"names": ["flags", "cut", "partner", "blend", "weight", "partner_weight"],
                "formats": ["<u4", "(4,)<u2", "<u4", "<f4", "<f4", "<f4"],
                "offsets": [8, 24, 32, 36, 44, 48], "itemsize": 64})


def loader(**keys: Any) -> Any:
    base = {"batch_size": 8, "image_size": SIDE, "seed": 5, "framework": "torch", "device": "cpu"}
    return penstock.Loader(support.dataset(), **{**base, **keys})


def planned(count: int, **drawn: float) -> "list[Any]":
    """The mixer's plan for the first batches of that loader."""
    mixer = _penstock.Mixer(**drawn)
    with loader() as made:
        made.close()
        stream = _penstock.Stream({**made._opening.options, "image_size": SIDE})
        rows = [np.frombuffer(mixer.plan(stream.next(-1)), ROW) for _ in range(count)]
        stream.close()
    return rows


def torchvisions(transform: Any, row: Any, images: Any, labels: Any) -> Any:
    """The result of v2.MixUp or v2.CutMix with the lambda and the rectangle of a row."""
    lam = float(row["weight"]) if row["flags"] & 4 else 1.0
    x, y, w, h = (int(side) for side in row["cut"])
    params = {"lam": lam} if isinstance(transform, v2.MixUp) else {"box": (x, y, x + w, y + h), "lam_adjusted": lam}
    with mock.patch.object(transform, "make_params", lambda _: params):
        return transform(images, labels)


class Torchvision(unittest.TestCase):
    def check(self, transform: Any, **drawn: float) -> None:
        rows, mixed = planned(7, **drawn), 0
        with loader() as plain, loader(**drawn) as made:
            for row, (images, labels), (got, targets) in zip(rows, plain, made):
                want, soft = torchvisions(transform, row[0], images, labels)
                # torchvision's share of the partner is 1 - lambda, with lambda rounded to float32.
                torch.testing.assert_close(got, want, rtol=0, atol=1e-6)
                torch.testing.assert_close(targets, soft.to(torch.float32), rtol=0, atol=1e-6)
                mixed += bool(row[0]["flags"] & 4)
        self.assertGreater(mixed, 4)

    def test_mixup(self) -> None:
        self.check(v2.MixUp(alpha=0.8, num_classes=CLASSES), mixup=0.8)

    def test_cutmix(self) -> None:
        self.check(v2.CutMix(alpha=1.0, num_classes=CLASSES), cutmix=1.0)

    def test_bit_for_bit(self) -> None:
        """With the exact shares, and with torch's rounding of each operation."""
        with loader() as plain, loader(mixup=0.8) as made:
            for row, (images, labels), (got, targets) in zip(planned(7, mixup=0.8), plain, made):
                own, rest = torch.tensor(row[0]["weight"]), torch.tensor(row[0]["partner_weight"])
                self.assertTrue(torch.equal(got, images.roll(1, 0).mul(rest).add_(images.mul(own))))
                hot = torch.nn.functional.one_hot(labels, CLASSES).to(torch.float32)
                self.assertTrue(torch.equal(targets, hot.roll(1, 0).mul(rest).add_(hot.mul(own))))

    def test_cut_bit_for_bit(self) -> None:
        with loader() as plain, loader(cutmix=1.0) as made:
            for row, (images, _), (got, _) in zip(planned(7, cutmix=1.0), plain, made):
                x, y, w, h = (int(side) for side in row[0]["cut"])
                want = images.clone()
                want[..., y:y + h, x:x + w] = images.roll(1, 0)[..., y:y + h, x:x + w]
                self.assertTrue(torch.equal(got, want))


class Listed(unittest.TestCase):
    """Torchvision's own objects, at the end of a list of transforms."""

    FLOATS = (v2.RandomResizedCrop(SIDE), v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.25] * 3))

    def test_erasing(self) -> None:
        """The row's rectangle, which is where torchvision would put it:
        tests/cuda/torchvision_mix.py."""
        value, erased = torch.tensor([1.0, -2.0, 3.0]), 0
        with loader(transforms=self.FLOATS) as plain, \
                loader(transforms=[*self.FLOATS, v2.RandomErasing(0.8, value=value.tolist())]) as made:
            for (images, _), (got, labels) in zip(plain, made):
                self.assertEqual(labels.dtype, torch.int64)
                differs = (got != images).any(1)
                for image, mask in zip(got, differs):
                    self.assertTrue((image[:, mask] == value[:, None]).all())
                    ys, xs = torch.where(mask)
                    erased += len(ys) > 0
                    if len(ys):
                        self.assertEqual(len(ys), int((ys.max() - ys.min() + 1) * (xs.max() - xs.min() + 1)))
        self.assertGreater(erased, 30)

    def test_noise(self) -> None:
        keys = {"transforms": [*self.FLOATS, v2.RandomErasing(1.0, value="random")]}
        with loader(transforms=self.FLOATS) as plain, loader(**keys) as made, loader(**keys) as again, loader(views=2, **keys) as two:
            noise = []
            for (images, _), (got, _), (same, _), (views, _) in zip(plain, made, again, two):
                self.assertTrue(torch.equal(got, same))
                self.assertTrue(torch.equal(got, views[0]))
                noise.append(got[(got != images).any(1, keepdim=True).expand_as(got)])
            drawn = torch.cat(noise)
        self.assertLess(abs(float(drawn.mean())), 0.05)
        self.assertLess(abs(float(drawn.std()) - 1), 0.05)

    def test_mixes(self) -> None:
        both = v2.RandomChoice([v2.MixUp(num_classes=CLASSES), v2.CutMix(num_classes=CLASSES)])
        for last, drawn in ((v2.MixUp(alpha=0.4, num_classes=CLASSES), {"mixup": 0.4}), (v2.CutMix(num_classes=CLASSES), {"cutmix": 1.0}),
                            (both, {"mixup": 1.0, "cutmix": 1.0})):
            with loader(transforms=[*self.FLOATS, last]) as listed, loader(transforms=self.FLOATS, **drawn) as said:
                for (images, labels), (want, targets) in zip(listed, said):
                    self.assertTrue(torch.equal(images, want) and torch.equal(labels, targets))

    def test_said_twice(self) -> None:
        listed = [*self.FLOATS, v2.MixUp(num_classes=CLASSES)]
        with self.assertRaisesRegex(penstock.ArgumentError, "mixup, cutmix: transforms already contains MixUp or CutMix"):
            loader(transforms=listed, cutmix=1.0)
        with self.assertRaisesRegex(penstock.ArgumentError, "num_classes is 5, but num_classes in transforms is 3"):
            loader(transforms=listed, num_classes=5)
        with self.assertRaisesRegex(penstock.ArgumentError, "cannot be combined with zero_copy=True"):
            loader(transforms=listed, zero_copy=True, framework="numpy")


class Loss(unittest.TestCase):
    def test_smoothing(self) -> None:
        output = torch.randn(8, CLASSES, generator=torch.Generator().manual_seed(3))
        with loader() as plain, loader(label_smoothing=0.2) as made:
            for (_, labels), (_, targets) in zip(plain, made):
                want = torch.nn.functional.cross_entropy(output, labels, label_smoothing=0.2)
                torch.testing.assert_close(torch.nn.functional.cross_entropy(output, targets), want)


class Views(unittest.TestCase):
    def test_one_tensor(self) -> None:
        with loader(views=2, mixup=1.0) as made:
            for images, labels in made:
                self.assertEqual([tuple(view.shape) for view in images], [(8, 3, SIDE, SIDE)] * 2)
                self.assertEqual(images[0].untyped_storage().data_ptr(), images[1].untyped_storage().data_ptr())
                self.assertEqual(tuple(labels.shape), (8, CLASSES))
                images[0].zero_()
                self.assertTrue(images[1].any())


class WithoutStreams:
    """Stands in for cuda._Copies: a CPU has no CUDA streams (torch_cuda.py has the order of copies)."""

    def __init__(self, device: Any) -> None:
        self._device = device

    def move(self, tensors: Any, done: Any, non_blocking: bool) -> "list[Any]":
        return [tensor.to(self._device) for tensor in tensors]


class Moved(unittest.TestCase):
    """Batches that go to a device through the CPU; the CPU stands in for the device."""

    def setUp(self) -> None:
        for where, name, value in ((cuda, "_Copies", WithoutStreams), (torch.cuda, "Event", mock.Mock)):
            patch = mock.patch.object(where, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def reader(self, **keys: Any) -> Any:
        with loader(**keys) as made:
            options, output = made._opening.options, made._opening.output
            one_size = "image_sizes" not in options
        with mock.patch.object(cuda, "_torch_device", lambda _: torch.device("cpu")):
            made = cuda.CudaReader(_penstock.Stream(options), "cuda", output.dtype, output.mean, output.std, True, output.mixing,
                                   one_size, output.functions)
        self.addCleanup(made.close)
        return made

    FUNCTIONS: "list[Any]" = [{"RandomResizedCrop": {"size": 32}}, lambda row, generator: row + generator.integers(0, 9, dtype="uint8")]

    def test_as_on_the_cpu(self) -> None:
        for keys in ({"views": 2}, {"views": 2, "mixup": 1.0, "dtype": "float16"}, {"image_size": {0: 32, 1: 48}},
                     {"image_size": {0: 32, 1: 48}, "cutmix": 1.0}, {"transforms": self.FUNCTIONS},
                     {"transforms": self.FUNCTIONS, "mixup": {0: 0, 1: 1.0}, "label_smoothing": {0: 0.1, 1: 0}}):
            reader = self.reader(**keys)
            self.assertIsInstance(reader._reader, cuda._Moved)
            with self.subTest(keys), loader(**keys) as made:
                for batch in [*made.batches(), *made.batches()]:
                    images, labels, told = reader.next(-1)
                    for got, want in zip(images if "views" in keys else [images], batch.images if "views" in keys else [batch.images]):
                        self.assertTrue(torch.equal(got, want))
                    self.assertTrue(torch.equal(labels, batch.labels))
                    self.assertEqual((told.epoch, told.batch), (batch.epoch, batch.batch))

    def test_mixed_without_the_kernels(self) -> None:
        reader = cuda._through_torch(_penstock.Stream(self.options()), cuda.Tensors(torch.device("cpu"), "float32", True), (0, 0, 0),
                                     (1, 1, 1), Mixing(Mix(mixup=1.0), None, 0.0))
        self.addCleanup(reader.close)
        with loader(mixup=1.0, mean=(0, 0, 0), std=(1, 1, 1)) as made:
            for want in made.batches():
                images, labels, _ = reader.next(-1)
                self.assertTrue(torch.equal(images, want.images) and torch.equal(labels, want.labels))

    @staticmethod
    def options() -> "dict[str, Any]":
        with loader() as made:
            return dict(made._opening.options)


if __name__ == "__main__":
    support.main()

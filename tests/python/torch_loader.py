"""The loader with torch: its tensors, that they stay valid, and arrays of NumPy, and of JAX if it
is installed."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import unittest
from typing import Any
from unittest import mock

import support

support.require("torch")

import numpy as np  # noqa: E402
import torch  # noqa: E402

from support import penstock  # noqa: E402

CUDA = torch.cuda.is_available()


def loader(**arguments: Any) -> Any:
    base = {"batch_size": 8, "image_size": 40, "seed": 4, "device": "cpu"}
    return penstock.Loader(support.dataset(), **{**base, **arguments})


def first(**arguments: Any) -> Any:
    with loader(**arguments) as source:
        return next(source.batches())


class Tensors(unittest.TestCase):
    def test_default(self) -> None:
        with loader(device="auto") as source:
            images, labels = next(iter(source))
        self.assertEqual(
            (images.dtype, tuple(images.shape), labels.dtype), (torch.float32, (8, 3, 40, 40), torch.int64)
        )
        self.assertTrue(images.is_contiguous(memory_format=torch.channels_last))
        self.assertEqual(images.device.type, "cuda" if CUDA else "cpu")
        self.assertEqual(tuple(labels.shape), (8,))
        images.add_(1)
        torch.nn.functional.conv2d(images, torch.ones(4, 3, 3, 3, device=images.device))

    def test_dtypes(self) -> None:
        pixels = first(dtype="uint8").images
        floats = first().images
        mean, std = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1), torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
        self.assertTrue(torch.equal(floats, (pixels.to(torch.float32) / 255 - mean) / std))
        for dtype in (torch.float16, torch.bfloat16, torch.float32):
            made = first(dtype=dtype).images
            self.assertEqual(made.dtype, dtype)
            self.assertTrue(torch.equal(made, floats.to(dtype)))
            self.assertTrue(torch.equal(first(dtype=str(dtype)).images, made))
        planes = first(channels_last=False).images
        self.assertTrue(planes.is_contiguous() and torch.equal(planes, floats))

    def test_same_as_torchvision(self) -> None:
        """Pixels in evaluation, after ToTensor and Normalize."""
        if importlib.util.find_spec("torchvision") is None:
            self.skipTest("no torchvision")
        from PIL import Image
        from torchvision import transforms as v1

        steps = [
            v1.Resize(46),
            v1.CenterCrop(40),
            v1.ToTensor(),
            v1.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
        whole = v1.Compose(steps)
        with loader(train=False, transforms=whole) as source:
            for batch in source.batches():
                for row, sample in enumerate(batch.samples):
                    wanted = whole(Image.open(source.path(sample["index"])).convert("RGB"))
                    self.assertTrue(torch.equal(batch.images[row], wanted), source.path(sample["index"]))

    def test_kept(self) -> None:
        with loader(dtype="uint8") as source:
            kept = [images for _ in range(8) for images, _ in source]
            copies = [images.clone() for images in kept]
            for _ in source:
                pass
        self.assertGreaterEqual(len(kept), 50)
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(kept, copies)))
        part = kept[0][2, 1]
        value = part.clone()
        kept.clear()
        self.assertTrue(torch.equal(part, value))

    def test_short_batch_and_records(self) -> None:
        with loader(train=False) as source:
            batches = list(source.batches())
        self.assertEqual([tuple(b.images.shape) for b in batches][-1], (4, 3, 40, 40))
        self.assertIsInstance(batches[0].samples, np.ndarray)
        self.assertEqual(
            [int(label) for b in batches for label in b.labels], [int(s["label"]) for b in batches for s in b.samples]
        )

    def test_indices(self) -> None:
        self.assertEqual(list(first(indices=torch.tensor([5, 2]), batch_size=2, train=False).samples["index"]), [5, 2])

    def test_numpy_all_the_same(self) -> None:
        array, tensor = first(framework="numpy").images, first().images
        self.assertIsInstance(array, np.ndarray)
        np.testing.assert_array_equal(array, tensor.numpy())
        view = first(zero_copy=True).images
        self.assertIsInstance(view, np.ndarray)
        self.assertTrue(torch.equal(torch.tensor(view), first(dtype="uint8").images))

    def test_trains(self) -> None:
        """A user's loop, with gradients through the batch."""
        net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(4, 3)
        )
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with loader() as source:
            for _ in range(2):
                for images, labels in source:
                    loss = torch.nn.functional.cross_entropy(net(images.requires_grad_()), labels)
                    loss.backward()
                    optimizer.step()
                    self.assertTrue(torch.isfinite(loss))
            torch.testing.assert_close(len(source.dataset), 60)


class Devices(unittest.TestCase):
    def test_without_cuda(self) -> None:
        if CUDA:
            self.skipTest("there is a CUDA device")
        for device in ("cuda", "cuda:0", torch.device("cuda", 1)):
            with self.assertRaisesRegex(penstock.DeviceError, "torch finds no CUDA device"):
                loader(device=device)
        self.assertEqual(first(device=torch.device("cpu")).images.device.type, "cpu")

    def test_which(self) -> None:
        """Each rank of a node uses its own device; a rank that sees a single device uses that
        one."""
        from penstock import devices

        def which(name: str, count: int, chosen: "int | None" = None, **environment: str) -> Any:
            answers = {"is_available": True, "device_count": count, "is_initialized": chosen is not None, "current_device": chosen}
            with mock.patch.dict(os.environ, environment), contextlib.ExitStack() as patches:
                for asked, answer in answers.items():
                    patches.enter_context(mock.patch.object(torch.cuda, asked, functools.partial(lambda it: it, answer)))
                return devices.torch_cuda(name)

        self.assertEqual(which("auto", 4), "cuda")
        self.assertEqual(which("auto", 4, LOCAL_RANK="3"), "cuda:3")
        self.assertEqual(which("auto", 1, LOCAL_RANK="3"), "cuda")
        self.assertEqual(which("cuda", 4, LOCAL_RANK="3"), "cuda:3")
        self.assertEqual(which("cuda", 4, 0, LOCAL_RANK="3"), "cuda:3")
        self.assertEqual(which("cuda", 4, 2, LOCAL_RANK="3"), "cuda", "torch's current one, which is 2")
        self.assertEqual(which("cuda", 4, 2), "cuda")
        self.assertEqual(which("cuda", 1, LOCAL_RANK="3"), "cuda")
        self.assertEqual(which("cuda", 4), "cuda")
        self.assertEqual(which("cuda:2", 4, LOCAL_RANK="3"), "cuda:2")
        self.assertIsNone(which("cpu", 4))
        with self.assertRaisesRegex(penstock.DeviceError, "expected cuda:0 to cuda:3"):
            which("cuda:4", 4)
        with self.assertRaisesRegex(penstock.ArgumentError, "LOCAL_RANK is 'x'"):
            which("auto", 4, LOCAL_RANK="x")


@unittest.skipUnless(importlib.util.find_spec("jax"), "no JAX")
class Jax(unittest.TestCase):
    def test_arrays(self) -> None:
        import jax

        wanted = first(framework="numpy")
        for device in ("auto", "cpu"):
            batch = first(framework="jax", device=device)
            self.assertIsInstance(batch.images, jax.Array)
            self.assertEqual(batch.images.shape, (8, 3, 40, 40))
            np.testing.assert_array_equal(np.asarray(batch.images), wanted.images)
            np.testing.assert_array_equal(np.asarray(batch.labels), wanted.labels)
        half = first(framework="jax", dtype="bfloat16")
        self.assertEqual(str(half.images.dtype), "bfloat16")
        np.testing.assert_array_equal(np.asarray(half.images), wanted.images.astype(half.images.dtype))
        with self.assertRaisesRegex(penstock.DeviceError, "JAX has no such device"):
            first(framework="jax", device="cuda")

    def test_kept(self) -> None:
        with loader(framework="jax", dtype="uint8") as source, loader(framework="numpy", dtype="uint8") as copies:
            kept = [images for _ in range(3) for images, _ in source]
            wanted = [images for _ in range(3) for images, _ in copies]
        for got, right in zip(kept, wanted):
            np.testing.assert_array_equal(np.asarray(got), right)


if __name__ == "__main__":
    support.main()

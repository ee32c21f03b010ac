"""The part of penstock.cuda that torch computes, on the CPU, and the errors without a CUDA
device."""

from __future__ import annotations

import dataclasses
import unittest
from typing import Any

import support

support.require("torch")

import numpy as np
import torch
from penstock import _penstock, cuda, errors

SIDE, BATCH = 32, 8
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
DTYPES = ("float32", "float16", "bfloat16", "uint8")


def stream(**options: Any) -> _penstock.Stream:
    return _penstock.Stream({"source": support.dataset(), "batch_size": BATCH, "image_size": SIDE, **options})


class Host:
    """Replaces pinned memory, which needs a device."""

    def fill(self, batch: Any) -> None:
        self.pixels = torch.from_numpy(np.array(batch.view("images")))
        self.labels = torch.from_numpy(np.array(batch.view("labels")))

    def copy(self, count: int) -> Any:
        assert len(self.pixels) == count
        return self.pixels, self.labels


class ThroughTorch(unittest.TestCase):
    def check(self, dtype: str, channels_last: bool) -> None:
        tensors = cuda.Tensors("cpu", dtype, channels_last)
        reader = cuda._Copied(stream(train=0, epochs=1), cuda.Normalizer(tensors, MEAN, STD), [Host(), Host()])
        on_host = stream(train=0, epochs=1)
        converter = _penstock.Converter(dtype, channels_last, MEAN, STD)
        pool = _penstock.Pool(BATCH * converter.row_bytes(SIDE, SIDE))
        shape = (SIDE, SIDE, 3) if channels_last else (3, SIDE, SIDE)
        seen = 0
        while True:
            given, wanted = reader.next(20000), on_host.next(20000)
            self.assertEqual(reader.state(), on_host.state())
            if given is None or wanted is None:
                break
            images, labels, told = given
            block = pool.take()
            converter.images(wanted, block)
            values = torch.frombuffer(block, dtype=getattr(torch, dtype)).view(BATCH, *shape)[: told.count]
            self.assertTrue(torch.equal(images, values.permute(0, 3, 1, 2) if channels_last else values))
            self.assertEqual(images.dtype, values.dtype)
            self.assertTrue(images.is_contiguous(memory_format=torch.channels_last if channels_last else torch.contiguous_format))
            self.assertEqual(labels.tolist(), np.frombuffer(wanted.view("labels"), np.int64).tolist())
            self.assertEqual(dataclasses.astuple(told),
                             (wanted.count, wanted.last, wanted.epoch, wanted.batch, bytes(wanted.view("samples"))))
            wanted.release()
            seen += told.count
        self.assertIs(given, wanted)
        self.assertEqual(seen, 60)
        reader.close()
        on_host.close()

    def test_as_on_the_host(self) -> None:
        for dtype in DTYPES:
            for channels_last in (True, False):
                with self.subTest(dtype=dtype, channels_last=channels_last):
                    self.check(dtype, channels_last)


class Devices(unittest.TestCase):
    def test_tensors(self) -> None:
        for channels_last in (True, False):
            tensors = cuda.Tensors("cpu", "float16", channels_last)
            images, address = tensors.images(2, 5, 7)
            self.assertEqual((images.shape, images.dtype, images.data_ptr()), ((2, 3, 5, 7), torch.float16, address))
            self.assertEqual(images.stride()[1] == 1, channels_last)

    @unittest.skipIf(torch.cuda.is_available(), "torch has a CUDA device here")
    def test_none(self) -> None:
        source = stream()
        for device in ("cuda", "cuda:3", torch.device("cuda", 0)):
            with self.assertRaisesRegex(errors.DeviceError, 'finds no CUDA device .*: use device="cpu"'):
                cuda.CudaReader(source, device, "float32", MEAN, STD, True)
        batch = source.next(20000)  # unchanged
        assert batch is not None
        batch.release()
        source.close()


if __name__ == "__main__":
    support.main()

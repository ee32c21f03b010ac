"""The part of penstock.cuda that torch computes, on the CPU, and the errors without a CUDA
device."""

from __future__ import annotations

import dataclasses
import unittest
import unittest.mock
from typing import Any

import support

support.require("torch")

import numpy as np
import torch
from penstock import _penstock, cuda, errors
from torch.overrides import TorchFunctionMode

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
                             (wanted.count, wanted.last, wanted.epoch, wanted.batch, bytes(wanted.view("samples")), None))
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


class Recorded(TorchFunctionMode):
    """A stand-in for torch's CUDA device: tensors stay on the CPU, and the order of the calls is
    noted. There is no GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: "list[tuple[Any, ...]]" = []
        self.current = "compute"

    def note(self, *call: Any) -> None:
        self.calls.append(call)

    def taken(self) -> "list[tuple[Any, ...]]":
        calls, self.calls = self.calls, []
        return calls

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        named = dict(named or {})
        named.pop("pin_memory", None)
        if function is torch.Tensor.to and str(arguments[1]).startswith("cuda"):
            self.note("copy", self.current, named["non_blocking"])
            return arguments[0].clone()
        return function(*arguments, **named)

    def patches(self) -> "dict[str, Any]":
        recorded = self

        class Stream:
            def __init__(self, device: Any = None, name: str = "copies") -> None:
                self.name = name

            def wait_event(self, event: Any) -> None:
                recorded.note("wait_event", self.name, event)

        class Event:
            def record(self, queue: Any) -> None:
                recorded.note("record", queue.name, self)

            def synchronize(self) -> None:
                recorded.note("synchronize", self)

        class Within:
            def __init__(self, queue: Any) -> None:
                self.queue = queue

            def __enter__(self) -> None:
                recorded.current = self.queue.name

            def __exit__(self, *_: Any) -> None:
                recorded.current = "compute"

        return {"Stream": Stream, "Event": Event, "stream": Within, "current_stream": lambda _: Stream(name=self.current)}


class CopiesOfTheirOwn(unittest.TestCase):
    """The copies do not wait for the trainer's kernels, and the kernels wait for the copies."""

    def setUp(self) -> None:
        self.recorded = Recorded()
        patches = [(torch.cuda, *patch) for patch in self.recorded.patches().items()]
        # Before it asks the mode, torch checks that the stream is a real one.
        patches.append((torch.Tensor, "record_stream", lambda tensor, queue: self.recorded.note("record_stream", queue.name)))
        for where, name, value in patches:
            patch = unittest.mock.patch.object(where, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        self.tensors = cuda.Tensors("cuda:0", "uint8", True)

    def batches(self, reader: Any, count: int) -> "list[list[tuple[Any, ...]]]":
        self.addCleanup(reader.close)
        found = []
        with self.recorded:
            for _ in range(count):
                given = reader.next(20000)
                assert given is not None
                found.append(self.recorded.taken())
        return found

    def through_torch(self) -> Any:
        with self.recorded, unittest.mock.patch.object(cuda, "Normalizer", lambda tensors, *_: tensors.planes):
            return cuda._through_torch(stream(train=0, epochs=1), self.tensors, MEAN, STD)

    def test_pinned(self) -> None:
        events = []
        for calls in self.batches(self.through_torch(), 4):
            event = calls[0][1]
            self.assertEqual(calls, [
                ("synchronize", event),  # before the host writes to the pinned memory again
                ("copy", "copies", True), ("copy", "copies", True), ("record", "copies", event),
                ("wait_event", "compute", event), ("record_stream", "compute"), ("record_stream", "compute"),
            ])
            events.append(event)
        self.assertIs(events[0], events[2])
        self.assertIsNot(events[0], events[1], "of two buffers, one is filled while the other is copied")

    def test_made_on_the_cpu(self) -> None:
        for views in (1, 2):
            with self.subTest(views=views):
                reader = cuda._Moved(stream(train=1, epochs=1, views=views), self.tensors, MEAN, STD, None)
                for calls in self.batches(reader, 3):
                    event = calls[-2 - views][2]
                    self.assertEqual(calls, [("copy", "copies", False)] * (views + 1) + [("record", "copies", event)] +
                                     [("wait_event", "compute", event)] + [("record_stream", "compute")] * (views + 1))

    def test_groups_of_views(self) -> None:
        """Each tensor of a dict of groups is copied, and the dict has the same form."""
        groups = '[{"name": "large", "count": 2}, {"name": "small", "image_size": 16}]'
        reader = cuda._Moved(stream(train=1, epochs=1, view_groups=groups), self.tensors, MEAN, STD, None)
        self.addCleanup(reader.close)
        with self.recorded:
            images, labels, told = reader.next(20000)
        self.assertEqual([call[0] for call in self.recorded.taken()].count("copy"), 4)
        self.assertEqual([tuple(view.shape) for view in images["large"]], [(BATCH, 3, SIDE, SIDE)] * 2)
        self.assertEqual((tuple(images["small"].shape), len(labels), told.count), ((BATCH, 3, 16, 16), BATCH, BATCH))


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

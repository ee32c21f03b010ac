"""Batches on a device, with the FAKE driver of tests/cuda: every value, both layouts, states,
Ctrl-C, forks, failures.

The fake keeps "device memory" in the host's memory, where only its own calls can read it, and
detects accesses that are not ordered: then this program exits with 86. A stand-in for torch makes
tensors in the fake's memory; torch_cuda.py tests the part that needs torch."""

from __future__ import annotations

import dataclasses
import errno
import gc
import json
import os
import signal
import sys
import threading
import unittest
import unittest.mock
from typing import Any

import support

import fake_device
import numpy as np
from fake_device import Device, driver
from penstock import _penstock, cuda, errors, frameworks, readers
from penstock.mixing import Change, Erase, Mix, Mixing

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIDE, BATCH = 32, 8
DTYPES = ("float32", "float16", "bfloat16", "uint8")

if driver is None:
    support._skip_program(fake_device.LACK)


def stream(**options: Any) -> _penstock.Stream:
    return _penstock.Stream({"source": support.dataset(), "batch_size": BATCH, "image_size": SIDE, "pin_memory": 1, **options})


def content(images: Any, dtype: str, channels_last: bool) -> bytes:
    if dtype != "uint8":
        return bytes(images.bytes())
    return np.ascontiguousarray(images.transpose(0, 2, 3, 1) if channels_last else images).tobytes()


class OnDevice(unittest.TestCase):
    """Each test has its own device, stream and attachment, and leaves nothing on the device."""

    def begin(self, dtype: str = "float32", channels_last: bool = True, mixing: "Mixing | None" = None,
              **options: Any) -> cuda._Attached:
        self.device = Device(dtype, channels_last)
        self.addCleanup(self.device.close)
        self.source = stream(**options)
        self.addCleanup(self.source.close)
        reader = cuda._Attached(self.source, self.device, MEAN, STD, mixing)
        self.addCleanup(reader.close)
        return reader

    def tearDown(self) -> None:
        self.doCleanups()
        self.assertEqual(driver.faults(), 0)


class Values(OnDevice):
    def check(self, dtype: str, channels_last: bool) -> None:
        options = {"train": 0, "epochs": 2}
        reader = self.begin(dtype, channels_last, **options)
        on_host = stream(**options)
        converter = _penstock.Converter(dtype, channels_last, MEAN, STD)
        pool = _penstock.Pool(BATCH * converter.row_bytes(SIDE, SIDE))
        counts = set()
        while True:
            given, wanted = reader.next(-1), on_host.next(-1)
            self.assertEqual(reader.state(), on_host.state())
            if given is None or wanted is None:
                break
            images, labels, told = given
            block = pool.take()
            converter.images(wanted, block)
            nbytes = wanted.count * converter.row_bytes(SIDE, SIDE)
            self.assertEqual(content(images, dtype, channels_last), bytes(memoryview(block)[:nbytes]))
            self.assertEqual(labels.tolist(), np.frombuffer(wanted.view("labels"), np.int64).tolist())
            self.assertEqual(dataclasses.astuple(told), (wanted.count, wanted.last, wanted.epoch, wanted.batch, bytes(wanted.view("samples")), None))
            wanted.release()
            counts.add(told.count)
        self.assertIs(given, wanted)
        self.assertEqual(counts, {BATCH, 4})  # 60 samples
        on_host.close()

    def test_as_on_the_host(self) -> None:
        for dtype in DTYPES:
            for channels_last in (True, False):
                with self.subTest(dtype=dtype, channels_last=channels_last):
                    self.check(dtype, channels_last)
                    self.doCleanups()


class Shapes(OnDevice):
    """Streams whose batches are not of one plain shape."""

    def test_buckets(self) -> None:
        """The buffers of libpenstock_cuda have one size; Loader copies batches of several. The refusal loses no batch."""
        options = {"buckets": "[[32, 16], [24, 24], [16, 32]]", "image_size": 0, "drop_last": 0, "epochs": 1, "seed": 4}
        source = stream(**options)
        self.addCleanup(source.close)
        state = source.state()
        self.assertIn("cuts", json.loads(state))
        attachment = _penstock.Cuda(source, 0, "float32", True, MEAN, STD)
        with self.assertRaisesRegex(errors.Error, "batches of one size, .* whose image_size is one number, without buckets"):
            attachment.next(20000)
        reached = json.loads(attachment.state())
        attachment.detach()
        on_host = stream(**options, state=json.dumps(reached))
        self.addCleanup(on_host.close)
        left = 0
        while (batch := on_host.next(20000)) is not None:
            left += batch.count
            batch.release()
        self.assertEqual((left, reached["epoch"], reached["position"]), (60, 0, 0))

    def test_reader(self) -> None:
        """A group of one view has a name, so its images are a dict, which only batches made on the CPU have."""
        fakes = {"_torch_device": lambda device: device, "Tensors": lambda *_: None, "_make_reader": lambda *_: "usual",
                 "_Moved": lambda *_: "moved"}
        group = '[{"image_size": 16, "name": "a"}]'
        for options, one_size, way in (({}, True, "usual"), ({}, False, "moved"), ({"views": 2}, True, "moved"),
                                       ({"view_groups": group, "image_size": 0}, True, "moved")):
            with self.subTest(options=options), unittest.mock.patch.multiple(cuda, **fakes):
                source = stream(**options)
                self.addCleanup(source.close)
                reader = cuda.CudaReader(source, "cuda:0", "float32", MEAN, STD, True, one_size=one_size)
                self.assertEqual(reader._reader, way)

    def test_refused(self) -> None:
        """What the kernels do not take is an answer that Python reads as: copy the batches."""
        for options, part in (({"views": 2}, "one view"), ({"dtype": "float32", "layout": "NCHW"}, "of uint8 in layout NHWC"),
                              ({"dtype": "float32"}, "of uint8 in layout NHWC"),
                              ({"view_groups": '[{"image_size": 16, "count": 2}, {"image_size": 24}]', "image_size": 0}, "one view")):
            with self.subTest(part=part, options=options):
                source = stream(**options)
                with self.assertRaisesRegex(errors.Error, part) as caught:
                    _penstock.Cuda(source, 0, "float32", True, MEAN, STD)
                self.assertEqual(abs(caught.exception.code), errno.ENOTSUP)
                source.close()


class Mixed(OnDevice):
    """MixUp, CutMix, erasing and soft labels are those of the CPU, bit for bit."""

    def check(self, mixing: Mixing, channels_last: bool) -> None:
        reader = self.begin("float32", channels_last, mixing, train=0, epochs=2)
        arrays = frameworks.NumpyArrays("float32", channels_last)
        converter = _penstock.Converter("float32", channels_last, MEAN, STD)
        on_host = readers.OwnedReader(stream(train=0, epochs=2), arrays, converter, "float32", mixing)
        for _ in range(16):
            given, wanted = reader.next(-1), on_host.next(-1)
            assert given is not None and wanted is not None
            images = wanted[0].transpose(0, 2, 3, 1) if channels_last else wanted[0]
            self.assertEqual(given[0].bytes(), np.ascontiguousarray(images).tobytes())
            self.assertEqual(given[1].bytes(), wanted[1].tobytes())
            self.assertEqual(wanted[1].shape[1], 3)
        on_host.close()

    def test_as_on_the_host(self) -> None:
        for mix, smoothing in ((Mix(mixup=0.8), 0.0), (Mix(cutmix=1.0), 0.1), (Mix(mixup=1.0, cutmix=1.0, prob=0.7), 0.1)):
            for channels_last in (True, False):
                mixing = Mixing(mix, Erase(p=0.6, value=(0.5, -1.0, 2.0)), smoothing)
                with self.subTest(mixing=mixing, channels_last=channels_last):
                    self.check(mixing, channels_last)
                    self.doCleanups()
        later = (Change(1, 0.0, 0.5, 1.0, 0.5, 0.3),)  # of two epochs, the second
        self.check(Mixing(Mix(mixup=0.8), None, 0.1, later), True)


    def test_label_beyond(self) -> None:
        reader = self.begin(mixing=Mixing(Mix(mixup=1.0, classes=2), None, 0.0))
        with self.assertRaisesRegex(errors.ArgumentError, r"labels\[\d\] is 2, and num_classes is 2"):
            for _ in range(7):
                reader.next(-1)


class Loop(OnDevice):
    def number(self, reader: Any) -> "tuple[int, int]":
        given = reader.next(20000)
        assert given is not None
        return given[2].epoch, given[2].batch

    def test_state_goes_on(self) -> None:
        reader = self.begin()
        begun = reader.state()
        self.assertEqual([self.number(reader) for _ in range(3)], [(0, 0), (0, 1), (0, 2)])
        state = reader.state()
        reader.close()
        self.assertEqual(reader.state(), state)
        self.doCleanups()
        self.assertEqual(self.number(self.begin(state=state)), (0, 3))
        self.doCleanups()
        self.assertEqual(self.number(self.begin(state=begun)), (0, 0))

    def test_answers(self) -> None:
        reader = self.begin()
        self.number(reader)
        self.assertTrue(reader.path(0).startswith(support.dataset()))
        stats = json.loads(reader.stats())
        self.assertIn("verdict", stats)
        self.assertEqual((stats["device"]["batches"], stats["device"]["verdict"]), (1, "not measured yet"))
        self.assertGreaterEqual(stats["device"]["waited_daemon_ns"] + stats["device"]["waited_device_ns"], 0)
        info = reader._cuda.info
        self.assertEqual((info["device"], info["buffers"], info["output_bytes"]), (0, 3, BATCH * SIDE * SIDE * 3 * 4))
        self.assertIn(info["memory"], ("registered", "ring"))
        with self.assertRaises(errors.ArgumentError):
            reader.path(1 << 40)

    def test_held_batch_is_given_again(self) -> None:
        reader = self.begin()
        attachment = reader._cuda
        first = attachment.next(20000)
        with self.assertRaisesRegex(errors.ArgumentError, "out"):
            attachment.transform(0, self.device.queue())
        self.assertEqual(attachment.next(20000), first)
        attachment.release(self.device.queue())
        with self.assertRaisesRegex(errors.ArgumentError, "held"):
            attachment.release(self.device.queue())
        self.assertEqual(self.number(reader), (0, 1))

    def test_no_memory_for_the_tensor(self) -> None:
        reader = self.begin()
        images = self.device.images

        def full(*_: Any) -> Any:
            raise MemoryError

        self.device.images = full  # type: ignore[method-assign]
        state = reader.state()
        with self.assertRaises(MemoryError):
            reader.next(20000)
        self.assertEqual(reader.state(), state)
        self.device.images = images  # type: ignore[method-assign]
        self.assertEqual(self.number(reader), (0, 0))

    def test_dropped_without_close(self) -> None:
        reader = self.begin()
        self.number(reader)
        self.doCleanups()
        self.device, source = Device("float32"), stream()
        self.addCleanup(self.device.close)
        attachment = _penstock.Cuda(source, 0, "float32", True, MEAN, STD)
        attachment.next(20000)
        del attachment
        gc.collect()
        batch = source.next(20000)  # the stream can be called again; it is ahead by the prefetched batches
        assert batch is not None
        self.assertGreater(batch.batch, 0)
        batch.release()
        source.close()

    def test_timeout(self) -> None:
        reader = self.begin()
        self.number(reader)
        os.kill(self.source_pid, signal.SIGSTOP)
        try:
            with self.assertRaisesRegex(errors.WaitTimeoutError, "no batch within 0.1 s"):
                for _ in range(50):
                    reader.next(100)
        finally:
            os.kill(self.source_pid, signal.SIGCONT)
        self.number(reader)

    def begin(self, *arguments: Any, **options: Any) -> cuda._Attached:
        # Before it is attached, because an attached stream cannot be asked.
        with_pid = stream()
        self.source_pid = with_pid.daemon_pid
        with_pid.close()
        return super().begin(*arguments, **options)

    def test_interrupted(self) -> None:
        reader = self.begin()
        taken = [self.number(reader)]
        os.kill(self.source_pid, signal.SIGSTOP)
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            with self.assertRaises(KeyboardInterrupt):
                while True:
                    given = reader.next(-2)
                    assert given is not None
                    taken.append((given[2].epoch, given[2].batch))
        finally:
            os.kill(self.source_pid, signal.SIGCONT)
            timer.join()
        taken += [self.number(reader) for _ in range(3)]
        self.assertEqual([epoch * 7 + batch for epoch, batch in taken], list(range(len(taken))))

    def test_closed_by_another_thread(self) -> None:
        reader = self.begin()
        os.kill(self.source_pid, signal.SIGSTOP)
        closer = threading.Timer(0.3, reader.close)
        closer.start()
        try:
            with self.assertRaises(errors.ClosedError):
                while True:
                    reader.next(-2)
        finally:
            os.kill(self.source_pid, signal.SIGCONT)
            closer.join()

    def test_used_by_another_thread(self) -> None:
        reader = self.begin()
        os.kill(self.source_pid, signal.SIGSTOP)
        refused: "list[str]" = []

        def ask() -> None:
            try:
                reader.stats()
            except errors.Error as error:
                refused.append(str(error))
            os.kill(self.source_pid, signal.SIGCONT)

        asker = threading.Timer(0.5, ask)
        asker.start()
        for _ in range(20):
            reader.next(20000)
        asker.join()
        self.assertTrue(refused, "the loop never waited")
        self.assertRegex(refused[0], "another thread")

    def test_forked(self) -> None:
        reader = self.begin()
        self.number(reader)

        def child() -> "tuple[str, bool]":
            message = ""
            try:
                reader.next(1000)
            except errors.ForkError as error:
                message = str(error)
            reader.close()
            return message, self.source.closed

        message, closed = support.forked(child)
        self.assertIn(f"pid {os.getpid()}", message)
        self.assertTrue(closed)
        self.assertEqual(self.number(reader), (0, 1))

    def test_closed(self) -> None:
        reader = self.begin()
        self.number(reader)
        reader.close()
        reader.close()
        self.assertTrue(self.source.closed)
        for call in (lambda: reader.next(0), reader.stats, lambda: reader._cuda.info):
            with self.assertRaises(errors.ClosedError):
                call()

    def test_nothing_is_left(self) -> None:
        self.begin()
        self.doCleanups()
        with support.nothing_left():
            for _ in range(5):
                self.number(self.begin())
                self.doCleanups()


class Exit(unittest.TestCase):
    """The end of a process that has not closed its loader, and in which Python never drops it."""

    CODE = """
import atexit, ctypes, sys, time
import support, fake_device
from penstock import _penstock, cuda

hold = ctypes.CFUNCTYPE(None, ctypes.c_uint)(fake_device.driver.table[4])
device = fake_device.Device("float32")
cuda._LEAVE_S = 0.5
stream = _penstock.Stream({"source": sys.argv[1], "batch_size": 8, "image_size": 32, "pin_memory": 1})
reader = cuda._Attached(stream, device, (0, 0, 0), (1, 1, 1))
ctypes.pythonapi.Py_IncRef(ctypes.py_object(reader))
given = reader.next(20000)

def last():
    took = time.monotonic() - begun
    hold(0)
    while reader._left and fake_device.driver.threads_that_leave():
        time.sleep(0.01)
    device.close()
    print(f"took {took:.1f} s")

def first():
    global begun
    begun = time.monotonic()

atexit.unregister(cuda._leave)
atexit.register(last)
atexit.register(cuda._leave)
atexit.register(first)
"""

    def end(self, more: str = "") -> Any:
        return support.python(self.CODE + more, support.dataset(), check=False, PYTHONPATH=os.pathsep.join(sys.path))

    def test_detaches(self) -> None:
        done = self.end()
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_stream_that_is_blocked(self) -> None:
        blocked = ('hold(2)\nattached = reader._cuda\nattached.next(20000)\n'
                   'attached.transform(device.images(8, 32, 32)[1], device.queue())\nattached.release(device.queue())\n')
        done = self.end(blocked)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, "penstock: device 0 has not finished .* within 0.5 s: .* left to the end of the process")
        self.assertGreaterEqual(float(done.stdout.split()[1]), 0.5)


class Refusals(OnDevice):
    def setUp(self) -> None:
        self.source = stream()
        self.addCleanup(self.source.close)

    def refuse(self, kind: "type[Exception]", text: str, *arguments: Any) -> None:
        with self.assertRaisesRegex(kind, text):
            _penstock.Cuda(*arguments)

    def test_arguments(self) -> None:
        self.refuse(errors.DeviceError, "9", self.source, 9, "float32", True, MEAN, STD)
        self.refuse(ValueError, "expected 'float32', .*, got 'float64'", self.source, 0, "float64", True, MEAN, STD)
        self.refuse(errors.ArgumentError, "prefetch", self.source, 0, "float32", True, MEAN, STD, 65)
        self.refuse(errors.ArgumentError, "std", self.source, 0, "float32", True, MEAN, (1, 0, 1))
        self.refuse(TypeError, "", self.source, 0, "float32", True, MEAN[:2], STD)
        self.refuse(TypeError, "expected a Stream", 7, 0, "float32", True, MEAN, STD)
        batch = self.source.next(20000)  # it still belongs to the caller
        assert batch is not None
        batch.release()

    def test_closed_stream(self) -> None:
        self.source.close()
        self.refuse(errors.ClosedError, "", self.source, 0, "float32", True, MEAN, STD)

    def test_attached_stream(self) -> None:
        attachment = _penstock.Cuda(self.source, 0, "float32", True, MEAN, STD)
        self.refuse(errors.Error, "attached", self.source, 0, "float32", True, MEAN, STD)
        with self.assertRaises(errors.Error):
            self.source.next(0)
        attachment.detach()

    def test_no_driver(self) -> None:
        code = ("import ctypes, sys\n"
                "from penstock import _penstock, errors\n"
                "try: ctypes.CDLL('libcuda.so.1')\n"
                "except OSError: pass\n"
                "else: sys.exit('has a driver')\n"
                "source = _penstock.Stream({'source': sys.argv[1], 'batch_size': 8, 'image_size': 32})\n"
                "try: _penstock.Cuda(source, 0, 'float32', True, (0, 0, 0), (1, 1, 1))\n"
                "except errors.DeviceError as error: assert 'libcuda' in str(error), error\n"
                "else: raise AssertionError('attached to nothing')\n"
                "source.next(20000).release()\n")
        answer = support.python(code, support.dataset(), check=False)
        if "has a driver" in answer.stderr:
            self.skipTest("this machine has a driver")
        self.assertEqual(answer.returncode, 0, answer.stderr)


class Ways(OnDevice):
    """Which kind of reader is chosen."""

    def way(self, attached: Any) -> Any:
        chosen, through = cuda._Attached, cuda._through_torch
        cuda._Attached, cuda._through_torch = attached, lambda *_: "torch"  # type: ignore
        try:
            return cuda._make_reader(None, None, MEAN, STD)  # type: ignore[arg-type]
        finally:
            cuda._Attached, cuda._through_torch = chosen, through  # type: ignore

    @staticmethod
    def failing(code: int) -> Any:
        def fail(*_: Any) -> Any:
            raise errors.from_code(-code, "because")

        return fail

    def test_kernels_that_do_not_fit(self) -> None:
        with self.assertWarnsRegex(RuntimeWarning, "because"):
            self.assertEqual(self.way(self.failing(errno.ENOTSUP)), "torch")

    def test_failures(self) -> None:
        with self.assertRaises(errors.DeviceError):
            self.way(self.failing(errno.ENODEV))

    def test_built_without(self) -> None:
        kept = _penstock.Cuda
        del _penstock.Cuda
        try:
            self.assertEqual(self.way(self.failing(errno.EIO)), "torch")
        finally:
            _penstock.Cuda = kept  # type: ignore[misc]


if __name__ == "__main__":
    support.main()

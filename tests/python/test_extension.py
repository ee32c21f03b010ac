"""The extension: streams, batches, views, pools, conversion; threads, signals, forks; leaks."""

from __future__ import annotations

import ctypes
import errno
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest
import weakref
from typing import Any

import support

import numpy as np
from penstock import _penstock, errors

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIDE, BATCH = 32, 8
RECORD = np.dtype([("index", "<u8"), ("label", "<i8"), ("crop", "<u4", 4), ("src", "<u4", 2), ("flags", "<u4"),
                   ("view", "<u4"), ("position", "<u8"), ("reserved1", "<u8")])
# NumPy 2.1 and later accept read-only memory by DLPack.
NEW_NUMPY = tuple(int(part) for part in np.__version__.split(".")[:2]) >= (2, 1)


def stream(**options: Any) -> Any:
    return _penstock.Stream({"source": support.dataset(), "batch_size": BATCH, "image_size": SIDE, **options})


def array(view: _penstock.View, dtype: Any = np.uint8) -> Any:
    return np.frombuffer(view, dtype=dtype).reshape(view.shape)


def images(batch: _penstock.Batch) -> Any:
    return array(batch.view("images"))


def hold_all(source: _penstock.Stream) -> "list[Any]":
    return [source.next(-1) for _ in range(source.info["slots"])]


class Interrupted(Exception):
    pass


class Module(unittest.TestCase):
    def test_names(self) -> None:
        self.assertRegex(_penstock.VERSION, r"^\d+\.\d+\.\d+$")
        self.assertTrue(os.path.samefile(_penstock.LIBRARY, _penstock.__file__))

    def test_types_that_only_penstock_makes(self) -> None:
        for kind in (_penstock.Batch, _penstock.View, _penstock.Block):
            with self.assertRaisesRegex(TypeError, "only penstock creates"):
                kind()

    def test_imported_again(self) -> None:
        support.python("import sys, penstock._penstock as a\n"
                       "del sys.modules['penstock._penstock']\n"
                       "import importlib; b = importlib.import_module('penstock._penstock')\n"
                       "assert a is not b and a.Pool is not b.Pool\n"
                       "a.Pool(64).take(), b.Pool(64).take()")

    def test_another_interpreter(self) -> None:
        support.python(INTERPRETERS)

    def test_not_copied(self) -> None:
        import copy
        import pickle
        pool = _penstock.Pool(64)
        for thing in (pool, pool.take(), _penstock.Converter("uint8", True, MEAN, STD)):
            for way in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaises(TypeError):
                    way(thing)

    def test_symbols_that_old_pythons_have(self) -> None:
        """The headers allow the functions of 3.11; the oldest supported Python has fewer."""
        if shutil.which("nm") is None:
            self.skipTest("there is no nm")
        listing = subprocess.check_output(["nm", "-D", "--undefined-only", _penstock.LIBRARY], text=True)
        used = {line.split()[-1].split("@")[0] for line in listing.splitlines()}
        used = {name for name in used if name.startswith(("Py", "_Py"))}
        self.assertIn("PyModuleDef_Init", used)
        self.assertEqual(sorted(used - set(PYTHON_3_9)), [])


class Options(unittest.TestCase):
    def test_unknown(self) -> None:
        for name in ("batchsize", "size", "interrupt", "interrupt_data", ""):
            with self.assertRaisesRegex(TypeError, "there is no option"):
                stream(**{name: 1})
        with self.assertRaises(TypeError):
            _penstock.Stream({1: 2})
        with self.assertRaises(TypeError):
            _penstock.Stream([])

    def test_types(self) -> None:
        for options in ({"batch_size": "8"}, {"batch_size": 1.5}, {"source": 5}, {"max_broken": "x"}, {"seed": []}):
            with self.assertRaises(TypeError, msg=str(options)):
                stream(**options)

    def test_ranges(self) -> None:
        for name, value in (("batch_size", 1 << 32), ("batch_size", -1), ("train", 1 << 31), ("seed", 1 << 64),
                            ("seed", -1)):
            with self.assertRaisesRegex(errors.ArgumentError, f"{name}: expected a whole number.*, got {value}") as caught:
                stream(**{name: value})
            self.assertEqual(caught.exception.code, errno.EINVAL)

    def test_keys_that_equal_nothing(self) -> None:
        """A dict may have any number of keys with the same text."""

        class Name(str):
            __hash__ = object.__hash__

            def __eq__(self, other: object) -> bool:
                return self is other

        with self.assertRaisesRegex(TypeError, "group is given more than once"):
            _penstock.Stream({Name("group"): "a" for _ in range(400)})

    def test_dict_that_changes_meanwhile(self) -> None:
        class Path:
            def __fspath__(self) -> str:
                del options["group"]
                options["group"] = Path()
                return "nobody's"

        options: "dict[str, Any]" = {"group": Path()}
        with self.assertRaises(errors.Error):
            _penstock.Stream(options)

    def test_zero_byte(self) -> None:
        with self.assertRaisesRegex(errors.ArgumentError, "source contains a zero byte"):
            stream(source="a\0b")

    def test_none_is_absent(self) -> None:
        source = stream(labels=None, prefetch=None, max_broken=None, group=None, seed=None)
        self.assertEqual(source.info["slots"], 4)
        source.close()

    def test_numbers_of_numpy(self) -> None:
        source = stream(batch_size=np.int64(4), seed=np.uint64(1 << 63))
        self.assertEqual((source.info["batch_size"], source.info["seed"]), (4, 1 << 63))
        source.close()

    def test_paths(self) -> None:
        import pathlib
        for kind in (pathlib.Path, os.fsencode, str):
            source = stream(source=kind(support.dataset()))
            source.close()

    def test_no_such_source(self) -> None:
        with support.nothing_left(), self.assertRaisesRegex(errors.SourceNotFoundError, "/nowhere/ä") as caught:
            stream(source="/nowhere/ä")
        self.assertEqual(caught.exception.code, errno.ENOENT)

    def test_name_that_is_no_utf8(self) -> None:
        """The sentence can still be printed."""
        with self.assertRaisesRegex(errors.ArgumentError, r"/nowhere/\\xff.* is not UTF-8") as caught:
            stream(source=os.fsdecode(b"/nowhere/\xff"))
        str(caught.exception).encode()


class Streams(unittest.TestCase):
    def setUp(self) -> None:
        self.stream = stream(epochs=1, train=0)

    def tearDown(self) -> None:
        self.stream.close()

    def test_attributes(self) -> None:
        info = self.stream.info
        names = ("samples", "batch_size", "height", "width", "channels", "classes")
        self.assertEqual([info[name] for name in names], [60, BATCH, SIDE, SIDE, 3, 3])
        self.assertIn(self.stream.daemon_pid, support.daemons())
        self.assertEqual(self.stream.classes(), ["beach", "bricks", "forest"])
        self.assertEqual(self.stream.path(0), os.path.join(support.dataset(), "beach/beach_00000.jpg"))
        self.assertIn("fingerprint", json.loads(self.stream.state()))
        self.assertIsInstance(json.loads(self.stream.stats()), dict)
        self.assertIsInstance(json.loads(self.stream.config()), dict)
        self.assertFalse(self.stream.closed)
        self.assertIn(str(self.stream.daemon_pid), _penstock.daemon_status(None))

    def test_one_epoch(self) -> None:
        counts, indices = [], []
        while (batch := self.stream.next(-1)) is not None:
            counts.append(batch.count)
            records = np.frombuffer(batch.view("samples"), dtype=RECORD)
            labels = np.asarray(batch.view("labels"))
            self.assertTrue((records["label"] == labels).all())
            self.assertEqual((batch.epoch, batch.batch), (0, len(counts) - 1))
            self.assertEqual(batch.last, len(counts) == 8)
            indices += list(records["index"])
        self.assertEqual(counts, [8] * 7 + [4])
        self.assertEqual(indices, list(range(60)))
        self.assertIsNone(self.stream.next(-1))

    def test_path_that_is_not_there(self) -> None:
        with self.assertRaises(errors.Error):
            self.stream.path(60)
        for wrong, kind in ((-1, OverflowError), (1.0, TypeError), ("x", TypeError)):
            with self.assertRaises(kind):
                self.stream.path(wrong)
        self.assertEqual(self.stream.next(-1).count, BATCH)

    def test_name_that_is_no_utf8(self) -> None:
        folder = os.path.join(support.folder, "odd")
        odd = os.path.join(os.fsencode(folder), b"cl\xffss")
        os.makedirs(odd)
        os.link(self.stream.path(0), os.path.join(odd, b"a\xfe.jpg"))
        odd_stream = stream(source=folder, batch_size=1, train=0)
        self.assertEqual(os.fsencode(odd_stream.path(0)), os.path.join(odd, b"a\xfe.jpg"))
        self.assertEqual([os.fsencode(name) for name in odd_stream.classes()], [b"cl\xffss"])
        odd_stream.close()

    def test_timeouts_that_are_none(self) -> None:
        for wrong, kind in ((-3, ValueError), (1 << 31, ValueError), ("1", TypeError), (None, TypeError)):
            with self.assertRaises(kind):
                self.stream.next(wrong)

    def test_state_goes_on(self) -> None:
        first, second = self.stream.next(-1), self.stream.next(-1)
        state = self.stream.state()
        third = images(self.stream.next(-1)).copy()
        again = stream(epochs=1, train=0, state=state)
        self.assertTrue((images(again.next(-1)) == third).all())
        again.close()
        with self.assertRaises(errors.StateError):
            stream(epochs=1, train=0, seed=5, state=state)
        del first, second

    def test_closed(self) -> None:
        self.stream.close()
        self.stream.close()
        self.assertTrue(self.stream.closed)
        calls = [lambda: self.stream.next(-1), self.stream.state, self.stream.classes, lambda: self.stream.path(0),
                 self.stream.stats, self.stream.config, lambda: self.stream.info, lambda: self.stream.daemon_pid]
        for call in calls:
            with self.assertRaisesRegex(errors.ClosedError, "closed"):
                call()

    def test_daemon_is_gone(self) -> None:
        socket = os.path.join(support.folder, "gone/s.sock")
        lost = stream(socket=socket)
        os.kill(lost.daemon_pid, signal.SIGKILL)
        with self.assertRaises(errors.DaemonError):
            while lost.next(-1):
                pass
        with self.assertRaises(errors.DaemonError):
            _penstock.daemon_status(socket)
        lost.close()

    def test_another_daemon(self) -> None:
        """Batches held from the daemon that is gone take no slots of the new one, and do not
        change."""
        again = stream(socket=os.path.join(support.folder, "again/s.sock"), reconnect_ms=60000)
        held = [images(batch) for batch in hold_all(again)]
        before, pid = [view.copy() for view in held], again.daemon_pid
        os.kill(pid, signal.SIGKILL)
        seen = [again.next(-1).batch for _ in range(3)]
        self.assertEqual(seen, [4, 5, 6])
        self.assertNotEqual(again.daemon_pid, pid)
        self.assertTrue(all((one == other).all() for one, other in zip(held, before)))
        again.close()
        self.assertTrue(all((one == other).all() for one, other in zip(held, before)))


class Views(unittest.TestCase):
    def setUp(self) -> None:
        self.stream = stream()
        self.batch = self.stream.next(-1)

    def tearDown(self) -> None:
        del self.batch
        self.stream.close()

    def test_shapes(self) -> None:
        for name, shape, kind in (("images", (BATCH, SIDE, SIDE, 3), "B"), ("labels", (BATCH,), "q"),
                                  ("samples", (BATCH, 64), "B")):
            view = self.batch.view(name)
            memory = memoryview(view)
            self.assertEqual((view.shape, memory.shape, memory.format, memory.readonly, memory.c_contiguous),
                             (shape, shape, kind, True, True))
        with self.assertRaisesRegex(ValueError, "there is no view 'pixels'"):
            self.batch.view("pixels")
        with self.assertRaises(TypeError):
            self.batch.view(1)

    def test_buffers_of_each_kind(self) -> None:
        """Requested fields are set, and the others are NULL."""
        view = self.batch.view("labels")
        buffer = PyBuffer()
        for flags, has in ((0, "   "), (4, "f  "), (8, " n "), (0x18, " ns"), (0x1c, "fns"), (0x38, " ns"),
                           (0x58, " ns"), (0x98, " ns")):
            get_buffer(view, buffer, flags)
            got = "".join(letter if pointer else " " for letter, pointer in
                          zip("fns", (buffer.format, buffer.shape, buffer.strides)))
            self.assertEqual((got, buffer.len, buffer.itemsize, buffer.readonly), (has, 8 * BATCH, 8, 1), hex(flags))
            release_buffer(buffer)
        with self.assertRaises(BufferError):
            get_buffer(self.batch.view("images"), buffer, 0x58)

    def test_writing(self) -> None:
        view = self.batch.view("images")
        with self.assertRaisesRegex(errors.ReadOnlyError, "cannot be written to.*Copy it"):
            get_buffer(view, PyBuffer(), 1)
        pixels = images(self.batch)
        with self.assertRaises(ValueError):
            pixels[0] = 0
        with self.assertRaises(TypeError):
            memoryview(view)[0, 0, 0, 0] = 1

    def test_lease_ends_with_the_last_view(self) -> None:
        source = stream(prefetch=2)
        kept = images(source.next(-1))
        before = kept.copy()
        for _ in range(6):
            source.next(-1)
        self.assertTrue((kept == before).all())
        source.close()
        self.assertTrue((kept == before).all())

    def test_released(self) -> None:
        view = self.batch.view("images")
        with self.assertRaisesRegex(errors.HeldError, "1 of this batch's views"):
            self.batch.release()
        del view
        self.batch.release()
        self.batch.release()
        with self.assertRaisesRegex(errors.ClosedError, "was released"):
            self.batch.view("images")
        self.assertEqual(self.batch.count, BATCH)

    def test_released_after_close(self) -> None:
        self.stream.close()
        self.batch.release()

    def test_all_held(self) -> None:
        held = [self.batch, *(self.stream.next(-1) for _ in range(3))]
        self.batch = None
        begin = time.monotonic()
        with self.assertRaisesRegex(errors.HeldError, "all 4 batches.*copy the data that you want to keep.*prefetch") as caught:
            self.stream.next(-2)
        self.assertLess(time.monotonic() - begin, support.LIMIT)
        self.assertEqual(caught.exception.code, errno.EDEADLK)
        held.pop()
        self.assertEqual(self.stream.next(-1).count, BATCH)

    def test_garbage_holds_slots(self) -> None:
        before = gc.get_threshold()
        gc.set_threshold(1 << 30)
        try:
            for _ in range(12):
                cycle = [self.stream.next(-1)]
                cycle.append(cycle)
                del cycle
        finally:
            gc.set_threshold(*before)

    def test_end_while_all_is_held(self) -> None:
        short = stream(epochs=1, source=support.dataset(per_class=10), batch_size=10, prefetch=3)
        held = hold_all(short)
        self.assertTrue(held[-1].last)
        self.assertIsNone(short.next(-1))
        short.close()


class DLPack(unittest.TestCase):
    def setUp(self) -> None:
        self.stream = stream()
        self.batch = self.stream.next(-1)

    def tearDown(self) -> None:
        self.stream.close()

    @unittest.skipUnless(NEW_NUMPY, "NumPy is older than 2.1")
    def test_numpy(self) -> None:
        for name, dtype in (("images", np.uint8), ("labels", np.int64), ("samples", np.uint8)):
            view = self.batch.view(name)
            got = np.from_dlpack(view)
            self.assertEqual((got.dtype, got.shape, got.flags.writeable), (dtype, view.shape, False))
            self.assertTrue((got == array(view, dtype)).all())

    @unittest.skipUnless(NEW_NUMPY, "NumPy is older than 2.1")
    def test_view_is_kept(self) -> None:
        got = np.from_dlpack(self.batch.view("images"))
        with self.assertRaises(errors.HeldError):
            self.batch.release()
        before = got.copy()
        self.batch = None
        for _ in range(8):
            self.stream.next(-1)
        self.stream.close()
        self.assertTrue((got == before).all())

    def test_device(self) -> None:
        self.assertEqual(self.batch.view("images").__dlpack_device__(), (1, 0))

    def test_refusals(self) -> None:
        view = self.batch.view("images")
        for kwargs, word in (({}, "read-only"), ({"max_version": (0, 8)}, "read-only"),
                             ({"max_version": (1, 0), "stream": 1}, "stream"),
                             ({"max_version": (1, 0), "dl_device": (2, 0)}, "CPU"),
                             ({"max_version": (1, 0), "dl_device": "cpu"}, "CPU")):
            with self.assertRaisesRegex(BufferError, word):
                view.__dlpack__(**kwargs)
        for kwargs in ({"max_version": 1}, {"max_version": ("1", 0)}, {"other": 1}):
            with self.assertRaises(TypeError):
                view.__dlpack__(**kwargs)
        del view
        self.batch.release()

    def test_capsules(self) -> None:
        view = self.batch.view("images")
        self.assertIn("dltensor_versioned", repr(view.__dlpack__(max_version=(1, 0))))
        self.assertIn("dltensor_versioned", repr(view.__dlpack__(max_version=(2, 7), dl_device=(1, 0), copy=False)))
        self.assertIn('"dltensor"', repr(view.__dlpack__(copy=True)))
        capsule = view.__dlpack__(max_version=(1, 0))
        del view
        with self.assertRaises(errors.HeldError):
            self.batch.release()
        del capsule
        self.batch.release()

    @unittest.skipUnless(NEW_NUMPY, "NumPy is older than 2.1")
    def test_copies(self) -> None:
        view = self.batch.view("images")
        before = array(view).copy()
        copy = np.from_dlpack(view, copy=True)
        del view
        self.batch.release()
        self.assertTrue((copy == before).all())
        copy[:] = 0

    def test_deleter_without_gil(self) -> None:
        """Like torch: from a thread that Python does not know."""
        view = self.batch.view("images")
        capsule = view.__dlpack__(max_version=(1, 0))
        del view
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        managed = pointer(capsule, b"dltensor_versioned")
        rename = ctypes.pythonapi.PyCapsule_SetName
        rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
        rename(capsule, b"used_dltensor_versioned")
        del capsule
        deleter = ctypes.c_void_p.from_address(managed + 16).value
        thread = ctypes.c_ulong()
        libc = ctypes.CDLL(None)
        start, join = libc.pthread_create, libc.pthread_join
        self.assertEqual(start(ctypes.byref(thread), None, ctypes.c_void_p(deleter), ctypes.c_void_p(managed)), 0)
        self.assertEqual(join(thread, None), 0)
        self.batch.release()


class Pools(unittest.TestCase):
    def test_blocks(self) -> None:
        pool = _penstock.Pool(1000, keep=2)
        block = pool.take()
        self.assertEqual((block.nbytes, block.address % 4096), (1000, 0))
        first, second = np.frombuffer(block, dtype=np.uint8), memoryview(block)
        first[:] = 7
        self.assertEqual((second[999], second.nbytes, second.readonly), (7, 1000, False))
        address = block.address
        del block, first
        self.assertNotEqual(pool.take().address, address)
        del second
        self.assertEqual(pool.take().address, address)

    def test_keeps_so_many(self) -> None:
        size = 4 << 20
        pool = _penstock.Pool(size, keep=2)
        blocks = [pool.take() for _ in range(5)]
        self.assertEqual([block.address % (2 << 20) for block in blocks], [0] * 5)
        addresses = {block.address for block in blocks}
        self.assertEqual(len(addresses), 5)
        for block in blocks:
            np.frombuffer(block, dtype=np.uint8)[:] = 1
        del blocks, block
        mapped = [address for address in addresses if is_mapped(address)]
        self.assertEqual(len(mapped), 2)
        self.assertEqual({pool.take().address for _ in range(1)} - addresses, set())
        block = pool.take()
        np.frombuffer(block, dtype=np.uint8)[-1] = 1
        del pool
        self.assertEqual([address for address in addresses if is_mapped(address)], [block.address])
        address = block.address
        del block
        self.assertFalse(is_mapped(address))

    def test_none_kept(self) -> None:
        pool = _penstock.Pool(4 << 20, keep=0)
        block = pool.take()
        address = block.address
        self.assertTrue(is_mapped(address))
        del block
        self.assertFalse(is_mapped(address))

    def test_refusals(self) -> None:
        for arguments in ((0,), (-1,), (1, -1), (1, 1 << 20), (sys.maxsize,)):
            with self.assertRaises(ValueError):
                _penstock.Pool(*arguments)
        for arguments in ((), ("1",), (1, 2, 3)):
            with self.assertRaises(TypeError):
                _penstock.Pool(*arguments)
        with self.assertRaises(MemoryError):
            _penstock.Pool(1 << 60).take()

    def test_from_any_thread(self) -> None:
        pool = _penstock.Pool(1 << 16, keep=4)

        def work() -> None:
            for _ in range(300):
                blocks = [pool.take() for _ in range(3)]
                for block in blocks:
                    np.frombuffer(block, dtype=np.uint8)[:] = 5

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


class Converters(unittest.TestCase):
    def setUp(self) -> None:
        self.stream = stream(train=0)
        self.batch = self.stream.next(-1)

    def tearDown(self) -> None:
        self.stream.close()

    def test_values(self) -> None:
        pixels = images(self.batch)
        expected = (pixels.astype(np.float32) / np.float32(255) - np.float32(MEAN)) / np.float32(STD)
        for dtype, kind, wanted in (("uint8", np.uint8, pixels), ("float32", np.float32, expected),
                                    ("float16", np.float16, expected.astype(np.float16)),
                                    ("bfloat16", np.uint16, bfloat16(expected))):
            for channels_last in (True, False):
                convert = _penstock.Converter(dtype, channels_last, MEAN, STD)
                size = BATCH * SIDE * SIDE * 3 * np.dtype(kind).itemsize
                self.assertEqual(convert.row_bytes(SIDE, SIDE), size // BATCH)
                block = _penstock.Pool(size + 64).take()
                np.frombuffer(block, dtype=np.uint8)[:] = 0xa5
                convert.images(self.batch, block)
                got = np.frombuffer(block, dtype=kind, count=size // np.dtype(kind).itemsize)
                rows = wanted if channels_last else wanted.transpose(0, 3, 1, 2)
                self.assertTrue((got.reshape(rows.shape) == rows).all(), f"{dtype} {channels_last}")
                self.assertTrue((np.frombuffer(block, dtype=np.uint8)[size:] == 0xa5).all())

    def test_labels(self) -> None:
        block = _penstock.Pool(BATCH * 8).take()
        _penstock.fill_labels(self.batch, block)
        self.assertEqual(list(np.frombuffer(block, dtype=np.int64)), list(np.asarray(self.batch.view("labels"))))

    def test_valid_rows_alone(self) -> None:
        """The last batch is short: the memory after its rows does not change."""
        self.batch.release()
        while not self.batch.last:
            self.batch = self.stream.next(-1)
        self.assertEqual(self.batch.count, 4)
        convert = _penstock.Converter("uint8", True, MEAN, STD)
        block = _penstock.Pool(4 * SIDE * SIDE * 3).take()
        convert.images(self.batch, block)
        self.assertTrue((np.frombuffer(block, dtype=np.uint8) == images(self.batch).ravel()).all())
        _penstock.fill_labels(self.batch, _penstock.Pool(32).take())

    def test_mistakes(self) -> None:
        convert = _penstock.Converter("float32", True, MEAN, STD)
        small = _penstock.Pool(BATCH * SIDE * SIDE * 3 * 4 - 1).take()
        with self.assertRaisesRegex(ValueError, "the block has 98303 bytes: expected at least 98304"):
            convert.images(self.batch, small)
        with self.assertRaisesRegex(ValueError, "expected at least 64"):
            _penstock.fill_labels(self.batch, _penstock.Pool(63).take())
        for arguments in ((self.batch, b"x"), (small, small), (self.batch,), (None, None)):
            with self.assertRaises(TypeError):
                convert.images(*arguments)
        with self.assertRaises(TypeError):
            _penstock.fill_labels(small, small)
        self.batch.release()
        with self.assertRaises(errors.ClosedError):
            convert.images(self.batch, small)

    def test_options(self) -> None:
        with self.assertRaisesRegex(ValueError, "dtype: expected .*, got 'float64'"):
            _penstock.Converter("float64", True, MEAN, STD)
        with self.assertRaisesRegex(ValueError, "std: expected three numbers.*, got 2"):
            _penstock.Converter("float32", True, MEAN, STD[:2])
        for mean, std in ((MEAN, (0, 1, 1)), ((float("nan"), 0, 0), STD), (MEAN, (float("inf"), 1, 1))):
            with self.assertRaises(errors.ArgumentError):
                _penstock.Converter("float32", True, mean, std)
        for mean, std in ((1, STD), (MEAN, ("a", "b", "c"))):
            with self.assertRaises(TypeError):
                _penstock.Converter("float32", True, mean, std)



class Converted(unittest.TestCase):
    """Streams whose images are floats, in planes, or have several views; float labels."""

    KINDS = {"uint8": np.uint8, "float32": np.float32, "float16": np.float16, "bfloat16": np.uint16}

    def test_views_and_copies(self) -> None:
        plain = stream(train=0)
        pixels = images(plain.next(-1))
        plain.close()
        expected = (pixels.astype(np.float32) / np.float32(255) - np.float32(0.5)) / np.float32(0.25)
        wanted = {"uint8": pixels, "float32": expected, "float16": expected.astype(np.float16), "bfloat16": bfloat16(expected)}
        for dtype, kind in self.KINDS.items():
            for layout in ("NHWC", "NCHW"):
                floats = {} if dtype == "uint8" else {"mean": [0.5] * 3, "std": [0.25] * 3}
                source = stream(train=0, dtype=dtype, layout=layout, views=2, **floats)
                batch = source.next(-1)
                rows = np.repeat(wanted[dtype], 2, 0)
                rows = rows if layout == "NHWC" else rows.transpose(0, 3, 1, 2)
                got = np.asarray(batch.view("images"))
                self.assertEqual((got.dtype, got.shape, batch.count), (np.dtype(kind), rows.shape, BATCH))
                self.assertTrue((got == rows).all(), f"{dtype} {layout}")
                block = _penstock.Pool(got.nbytes).take()
                _penstock.fill_images(batch, block)
                self.assertEqual(bytes(memoryview(block)[:got.nbytes]), rows.tobytes())
                self.assertEqual(batch.view("samples").shape, (2 * BATCH, 64))
                self.assertEqual(batch.view("labels").shape, (BATCH,))
                if (dtype, layout) != ("uint8", "NHWC"):
                    with self.assertRaisesRegex(ValueError, "already converted"):
                        _penstock.Converter("uint8", True, MEAN, STD).images(batch, block)
                with self.assertRaisesRegex(ValueError, "the block has"):
                    _penstock.fill_images(batch, _penstock.Pool(got.nbytes - 1).take())
                del got
                source.close()

    def test_channels(self) -> None:
        for value, error in ((3, TypeError), ([1, 2], ValueError), ("abc", TypeError), ([1, 2, "x"], TypeError)):
            with self.assertRaises(error):
                stream(dtype="float32", mean=value)


class Mixers(unittest.TestCase):
    def setUp(self) -> None:
        self.stream = stream(train=0)
        self.addCleanup(self.stream.close)
        self.batch = self.stream.next(-1)
        self.addCleanup(self.batch.release)
        self.images = _penstock.Pool(BATCH * SIDE * SIDE * 3 * 4).take()
        self.labels = _penstock.Pool(BATCH * 3 * 4).take()

    def test_mixes(self) -> None:
        mixer = _penstock.Mixer(mixup=1.0, classes=3)
        _penstock.Converter("float32", True, MEAN, STD).images(self.batch, self.images)
        before = np.frombuffer(self.images, np.float32).reshape(BATCH, -1).copy()
        rows = mixer.plan(self.batch)
        self.assertEqual(len(rows), BATCH * 64)
        self.assertEqual(rows, mixer.plan(self.batch))
        mixer.images(rows, self.images, "float32", True, SIDE, SIDE)
        blend, partner_blend = np.frombuffer(rows, np.float32)[9:11]
        want = before * blend + np.roll(before, 1, 0) * partner_blend
        self.assertTrue((np.frombuffer(self.images, np.float32).reshape(BATCH, -1) == want).all())
        mixer.labels(rows, self.batch, self.labels)
        self.assertTrue(np.allclose(np.frombuffer(self.labels, np.float32).reshape(BATCH, 3).sum(1), 1))

    def test_options(self) -> None:
        for keys, sentence in (({"mixup": -1}, "mixup is -1"), ({"erase": 2}, "erase is 2"), ({"smoothing": 3}, "smoothing is 3"),
                               ({"erase_scale": (1, 0)}, "erase_scale is 1 to 0")):
            with self.assertRaisesRegex(errors.ArgumentError, sentence):
                _penstock.Mixer(**keys)
        with self.assertRaises(TypeError):
            _penstock.Mixer(1.0)

    def test_mistakes(self) -> None:
        mixer = _penstock.Mixer(mixup=1.0, classes=3)
        rows = mixer.plan(self.batch)
        with self.assertRaisesRegex(ValueError, "the block has"):
            mixer.images(rows, self.labels, "float32", True, SIDE, SIDE)
        with self.assertRaisesRegex(ValueError, "the block has"):
            _penstock.Mixer(classes=1000).labels(rows, self.batch, self.labels)
        with self.assertRaisesRegex(ValueError, "expected the bytes that Mixer.plan"):
            mixer.images(rows[:-1], self.images, "float32", True, SIDE, SIDE)
        with self.assertRaisesRegex(ValueError, "planned for another batch"):
            mixer.labels(rows[64:], self.batch, self.labels)
        with self.assertRaisesRegex(errors.ArgumentError, "not mixed as"):
            mixer.images(rows[64:], self.images, "float32", True, SIDE, SIDE)
        with self.assertRaisesRegex(errors.ArgumentError, "images.dtype is 0"):
            mixer.images(rows, self.images, "uint8", True, SIDE, SIDE)
        for arguments in ((None, self.batch, self.labels), (rows, None, self.labels), (rows, self.batch, None)):
            with self.assertRaises(TypeError):
                mixer.labels(*arguments)
        with self.assertRaisesRegex(errors.ArgumentError, "^num_classes is not set"):
            _penstock.Mixer().labels(rows, self.batch, self.labels)


class Signals(unittest.TestCase):
    """A stream without batches: its group waits for a second trainer."""

    def setUp(self) -> None:
        self.stream = stream(group="signals", wait_for=2)

    def tearDown(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        self.stream.close()

    def arm(self, handler: Any = None, again: float = 0) -> None:
        def stop(_number: int, _frame: Any) -> None:
            raise Interrupted()

        signal.signal(signal.SIGALRM, handler or stop)
        signal.setitimer(signal.ITIMER_REAL, 0.15, again)

    def other(self) -> _penstock.Stream:
        return stream(group="signals", wait_for=2)

    def test_time_is_up(self) -> None:
        with self.assertRaisesRegex(errors.WaitTimeoutError, r"no batch within 0\.2 s: .*wait") as caught:
            self.stream.next(200)
        self.assertEqual(caught.exception.code, errno.ETIMEDOUT)
        with self.assertRaisesRegex(errors.WaitTimeoutError, "the call was made without waiting"):
            self.stream.next(0)
        other = self.other()
        self.assertEqual(self.stream.next(-1).count, BATCH)
        other.close()

    def test_interrupted(self) -> None:
        with self.assertRaises(Interrupted):
            self.arm()
            self.stream.next(-2)
        other = self.other()
        self.assertEqual(self.stream.next(-1).batch, 0)
        other.close()

    def test_keyboard(self) -> None:
        with self.assertRaises(KeyboardInterrupt):
            self.arm(lambda _number, _frame: os.kill(os.getpid(), signal.SIGINT))
            self.stream.next(-2)

    def test_handler_asks(self) -> None:
        """The handler may use the stream, and the wait continues."""
        seen = []

        def ask(_number: int, _frame: Any) -> None:
            seen.extend([self.stream.state(), self.stream.classes()])

        self.arm(ask)
        with self.assertRaises(errors.WaitTimeoutError):
            self.stream.next(600)
        self.assertEqual(len(seen), 2)

    def test_handler_closes(self) -> None:
        self.arm(lambda _number, _frame: self.stream.close())
        with self.assertRaises(errors.ClosedError):
            self.stream.next(-2)

    def test_closed_by_another_thread(self) -> None:
        timer = threading.Timer(0.2, self.stream.close)
        timer.start()
        with self.assertRaises(errors.ClosedError):
            self.stream.next(-2)
        timer.join()

    def test_opening(self) -> None:
        """The daemon is stopped, so that it opens nothing until it continues."""
        pid = self.stream.daemon_pid
        os.kill(pid, signal.SIGSTOP)
        try:
            with support.nothing_left(), self.assertRaises(Interrupted):
                self.arm()
                stream()
        finally:
            os.kill(pid, signal.SIGCONT)

    def test_asking(self) -> None:
        pid = self.stream.daemon_pid
        os.kill(pid, signal.SIGSTOP)
        try:
            with self.assertRaises(Interrupted):
                self.arm()
                self.stream.classes()
            seen = []

            def within(_number: int, _frame: Any) -> None:
                self.assertFalse(self.stream.closed)
                try:
                    self.stream.state()
                except errors.Error as error:
                    self.assertIn("handler", str(error))
                    seen.append(error.code)
                    raise Interrupted()

            with self.assertRaises(Interrupted):
                # Again, in case the first signal comes before the question.
                self.arm(within, 0.15)
                self.stream.stats()
            signal.setitimer(signal.ITIMER_REAL, 0)
            self.assertEqual(seen, [errno.EINPROGRESS])
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertEqual(self.stream.classes(), ["beach", "bricks", "forest"])

    def test_stopped_daemon_says_nothing(self) -> None:
        pid = self.stream.daemon_pid
        os.kill(pid, signal.SIGSTOP)
        try:
            with self.assertRaisesRegex(errors.WaitTimeoutError, "no batch within 0.1 s: .*stopped"):
                self.stream.next(100)
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertEqual(len(self.stream.classes()), 3)


class Threads(unittest.TestCase):
    def run_all(self, *works: Any) -> None:
        failures: "list[BaseException]" = []

        def guarded(work: Any) -> None:
            try:
                work()
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    def test_two_read(self) -> None:
        source = stream(epochs=8, prefetch=6)
        seen = []

        def read() -> None:
            while (batch := source.next(-1)) is not None:
                seen.append((batch.epoch, batch.batch, int(images(batch)[0, 0, 0, 0])))

        self.run_all(read, read, source.classes, lambda: [source.state() for _ in range(50)])
        names = [(epoch, batch) for epoch in range(8) for batch in range(7)]
        self.assertEqual(sorted(name[:2] for name in seen), names)
        source.close()

    def test_dropped_elsewhere(self) -> None:
        """One thread reads, another drops; each batch stays unchanged until it is dropped."""
        import queue
        source, line = stream(epochs=10, prefetch=6), queue.Queue(maxsize=3)

        def read() -> None:
            while (batch := source.next(-1)) is not None:
                view = images(batch)
                line.put((view, int(view.astype(np.int64).sum())))
                del batch, view
            line.put(None)

        def drop() -> None:
            while (item := line.get()) is not None:
                view, total = item
                self.assertEqual(int(view.astype(np.int64).sum()), total)
                del item, view

        self.run_all(read, drop, lambda: [source.stats() for _ in range(20)])
        source.close()

    def test_dropped_while_another_asks(self) -> None:
        """The daemon is stopped, so that the question takes long: dropping does not wait, and the
        batch is returned later."""
        source = stream()
        held = hold_all(source)
        pid = source.daemon_pid
        os.kill(pid, signal.SIGSTOP)
        try:
            asking = threading.Thread(target=source.classes)
            asking.start()
            time.sleep(0.2)
            del held[:]
            self.assertTrue(asking.is_alive())
        finally:
            os.kill(pid, signal.SIGCONT)
        asking.join()
        self.assertEqual([source.next(-1).count for _ in range(8)], [BATCH] * 8)
        source.close()

    def test_closed_while_another_reads(self) -> None:
        for _ in range(10):
            source = stream()

            def read() -> None:
                try:
                    while source.next(-1):
                        pass
                except errors.ClosedError:
                    pass

            self.run_all(read, read, lambda: (time.sleep(0.01), source.close()))


class Forks(unittest.TestCase):
    def test_everything_raises(self) -> None:
        source = stream()
        batch = source.next(-1)
        view = batch.view("images")
        convert, block = _penstock.Converter("uint8", True, MEAN, STD), _penstock.Pool(BATCH * SIDE * SIDE * 3).take()

        def child() -> "list[str]":
            calls = [lambda: source.next(-1), source.state, source.classes, lambda: source.path(0), source.stats,
                     source.config, lambda: source.info, lambda: source.daemon_pid, lambda: batch.view("labels"),
                     batch.release, lambda: memoryview(view), lambda: view.__dlpack__(max_version=(1, 0)),
                     lambda: convert.images(batch, block), lambda: _penstock.fill_labels(batch, block)]
            said = []
            for call in calls:
                try:
                    call()
                    said.append("nothing")
                except errors.ForkError as error:
                    assert f"pid {os.getppid()}" in str(error), error
                    said.append("ForkError")
            return said

        self.assertEqual(support.forked(child), ["ForkError"] * 14)
        del view
        batch.release()
        source.close()

    def test_dropping_gives_nothing_back(self) -> None:
        source = stream(prefetch=2)
        held = hold_all(source)
        before = images(held[0]).copy()

        def child() -> int:
            del held[:]
            source.close()
            fresh = stream()
            count = fresh.next(-1).count
            fresh.close()
            return count

        self.assertEqual(support.forked(child), BATCH)
        with self.assertRaises(errors.HeldError):
            source.next(-1)
        self.assertTrue((images(held[0]) == before).all())
        del held[:]
        self.assertEqual(source.next(-1).count, BATCH)
        source.close()

    def test_while_a_thread_calls(self) -> None:
        source = stream()
        stop = threading.Event()

        def read() -> None:
            while not stop.is_set():
                source.next(-1)
                source.classes()

        thread = threading.Thread(target=read)
        thread.start()
        try:
            for _ in range(20):
                self.assertEqual(support.forked(lambda: source.close() or gc.collect() and 0 or 5), 5)
        finally:
            stop.set()
            thread.join()
        self.assertEqual(source.next(-1).count, BATCH)
        source.close()

    def test_child_ends_as_python_does(self) -> None:
        code = """if True:
            import os, sys
            from penstock import _penstock
            stream = _penstock.Stream({"source": sys.argv[1], "image_size": 32, "batch_size": 8})
            batch = stream.next(-1); view = memoryview(batch.view("images"))
            pid = os.fork()
            if pid:
                status = os.waitpid(pid, 0)[1]
                assert status == 0, status
                print(stream.next(-1).count)
        """
        answer = support.python(code, support.dataset())
        self.assertEqual((answer.stdout, answer.stderr), ("8\n", ""))


class Ends(unittest.TestCase):
    CODE = """if True:
        import sys, threading, numpy
        from penstock import _penstock
        stream = _penstock.Stream({"source": sys.argv[1], "image_size": 32, "batch_size": 8})
        batch = stream.next(-1)
        view = batch.view("images")
        kept = numpy.frombuffer(view, dtype=numpy.uint8)
        capsule = view.__dlpack__(max_version=(1, 0))
        sys.kept = [stream, batch, view, kept, capsule]
        """

    def run_code(self, more: str) -> str:
        return support.python(self.CODE + more, support.dataset()).stderr

    def test_with_all_alive(self) -> None:
        self.assertEqual(self.run_code("pass"), "")

    def test_while_a_thread_waits(self) -> None:
        self.assertEqual(self.run_code("""
        waits = _penstock.Stream({"source": sys.argv[1], "batch_size": 8, "group": "ends", "wait_for": 2})
        threading.Thread(target=waits.next, args=(-2,), daemon=True).start()
        import time; time.sleep(0.2)"""), "")

    def test_after_close(self) -> None:
        self.assertEqual(self.run_code("stream.close()"), "")

    def test_cycles_at_the_end(self) -> None:
        self.assertEqual(self.run_code("""
        class Node: pass
        node = Node(); node.self = node; node.kept = sys.kept; del sys.kept
        del stream, batch, view, kept, capsule, node"""), "")


class Leaks(unittest.TestCase):
    def use(self) -> None:
        source = stream()
        convert = _penstock.Converter("float32", False, MEAN, STD)
        pool = _penstock.Pool(BATCH * SIDE * SIDE * 12)
        for _ in range(3):
            batch = source.next(-1)
            convert.images(batch, pool.take())
            kept = images(batch), NEW_NUMPY and np.from_dlpack(batch.view("labels")), memoryview(batch.view("samples"))
            batch.view("images").__dlpack__(max_version=(1, 0))
        source.info, source.state(), source.classes(), source.path(1), source.stats(), source.config()
        with self.assertRaises(ValueError):
            batch.view("x")
        with self.assertRaises(errors.HeldError):
            batch.release()
        source.close()
        del kept

    def refused(self) -> None:
        for options in ({"source": "/nowhere"}, {"batch_size": -1}, {"x": 1}, {"source": b"a\0"},
                        {"image_size": 1 << 30}):
            with self.assertRaises((errors.Error, TypeError)):
                stream(**options)

    def test_descriptors_and_mappings(self) -> None:
        self.use()
        with support.nothing_left("streams"):
            for _ in range(5):
                self.use()
                self.refused()
                gc.collect()

    def test_references(self) -> None:
        def count() -> "list[int]":
            gc.collect()
            things = (_penstock.Stream, _penstock.Batch, _penstock.View, _penstock.Pool, _penstock.Block,
                      _penstock.Converter, errors.from_code, errors.HeldError)
            return [sys.getrefcount(thing) for thing in things]

        self.use()
        self.refused()
        before = count()
        for _ in range(5):
            self.use()
            self.refused()
        self.assertEqual(count(), before)

    def test_options_are_let_go(self) -> None:
        class Text(str):
            pass

        text = Text(support.dataset())
        gone = weakref.ref(text)
        source = _penstock.Stream({"source": text, "batch_size": BATCH})
        del text
        self.assertIsNone(gone())
        source.close()

    @unittest.skipIf(support.SANITIZED, "a sanitizer keeps what was freed")
    def test_memory(self) -> None:
        def resident() -> int:
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4096

        for _ in range(3):
            self.use()
        before = resident()
        for _ in range(30):
            self.use()
            self.refused()
        self.assertLess(resident() - before, 8 << 20)

    def test_held_after_close_then_gone(self) -> None:
        with support.nothing_left("views"):
            source = stream()
            kept = images(source.next(-1))
            total = int(kept.sum())
            source.close()
            del source
            self.assertGreater(support.mappings(), 0)
            self.assertEqual(int(kept.sum()), total)
            del kept


INTERPRETERS = """if True:
    import importlib, penstock._penstock
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            interpreters = importlib.import_module(name)
        except ImportError:
            continue
        other = interpreters.create()
        code = "try:\\n import penstock._penstock\\nexcept ImportError: pass\\nelse: raise AssertionError"
        failure = interpreters.run_string(other, code)
        assert failure is None, failure
        interpreters.destroy(other)
        break
    """


class PyBuffer(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


def get_buffer(source: Any, buffer: PyBuffer, flags: int) -> None:
    function = ctypes.pythonapi.PyObject_GetBuffer
    function.argtypes = [ctypes.py_object, ctypes.POINTER(PyBuffer), ctypes.c_int]
    function(source, ctypes.byref(buffer), flags)


def release_buffer(buffer: PyBuffer) -> None:
    function = ctypes.pythonapi.PyBuffer_Release
    function.argtypes = [ctypes.POINTER(PyBuffer)]
    function.restype = None
    function(ctypes.byref(buffer))


def is_mapped(address: int) -> bool:
    with open("/proc/self/maps") as file:
        ranges = [[int(end, 16) for end in line.split()[0].split("-")] for line in file]
    return any(low <= address < high for low, high in ranges)


def bfloat16(values: Any) -> Any:
    """Rounds to nearest, ties to even."""
    bits = values.view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


# The functions that _penstock uses. Python 3.9 has all of them.
PYTHON_3_9 = """
    PyArg_ParseTuple PyArg_ParseTupleAndKeywords PyBool_FromLong PyBuffer_FillInfo PyBytes_AsString
    PyBytes_AsStringAndSize
    PyBytes_FromStringAndSize PyCapsule_GetPointer PyCapsule_IsValid PyCapsule_New PyDict_Copy PyDict_New
    PyDict_Next PyDict_SetItemString PyDict_Type PyErr_CheckSignals PyErr_Clear PyErr_ExceptionMatches PyErr_Format
    PyErr_NoMemory PyErr_Occurred PyErr_SetObject PyErr_SetString PyEval_RestoreThread PyEval_SaveThread
    PyExc_BufferError PyExc_ImportError PyExc_IndexError PyExc_OverflowError PyExc_TypeError PyExc_UnicodeError PyExc_ValueError
    PyFloat_AsDouble PyGC_Collect PyImport_ImportModule PyInterpreterState_Get PyInterpreterState_GetID
    PyList_Append PyList_New PyLong_AsLongLongAndOverflow PyLong_AsUnsignedLongLong PyLong_FromLong
    PyLong_FromSize_t PyLong_FromSsize_t PyLong_FromUnsignedLongLong PyLong_FromVoidPtr PyMemoryView_FromObject PyModuleDef_Init
    PyMem_Free PyMem_Malloc PyModule_AddObject PyModule_GetState PyNumber_Index PyObject_CallFunction PyObject_Free PyObject_GetAttrString
    PyObject_Str PySequence_GetItem PySequence_Size PyTuple_New PyTuple_SetItem PyType_FromModuleAndSpec
    PyType_GenericAlloc PyType_GetFlags PyType_GetModuleState PyType_IsSubtype PyUnicode_AsUTF8AndSize
    PyUnicode_CompareWithASCIIString PyUnicode_DecodeFSDefault PyUnicode_DecodeUTF8 PyUnicode_FSConverter
    PyUnicode_FromString Py_BuildValue _Py_Dealloc _Py_NoneStruct _Py_TrueStruct
""".split()

if __name__ == "__main__":
    support.main()

"""libpenstock and libpenstock_cuda from Python, by ctypes: batches as torch tensors.

    with Stream(source, batch_size=256) as stream:                     # uint8 arrays in shared memory
        for batch in stream: ...
    with Stream(source, batch_size=256) as stream, Feed(stream, dtype=torch.float16) as feed:
        for images, labels in feed: ...                                # normalised, on the device

torch is imported by what needs it alone. A Feed writes into memory of torch's allocator, in torch's current stream: what is done with
the tensors in that stream needs no further waiting.

The structs are those of include/penstock/*.h. `penstock_ctypes.py --assertions` prints a C file that compiles only while they are
(tests/gpu/layout.py, a ctest).

Libraries are looked for in PENSTOCK_LIB, else in build/release/lib of this tree. Standard library only, besides torch."""
import ctypes
import errno
import os
import sys
from ctypes import POINTER, byref, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint16, c_uint32, c_uint64, c_void_p
from pathlib import Path

LIB = Path(os.environ.get("PENSTOCK_LIB", Path(__file__).resolve().parents[2] / "build/release/lib"))
END = 1
FLOAT32, FLOAT16, BFLOAT16 = range(3)
NHWC, NCHW = range(2)
AUTO, REGISTERED, RING = range(3)


class Struct(ctypes.Structure):
    """The class is named as the C struct is."""

    def take(self, values):
        """Sets fields by name; ctypes itself would take a name that is none without a word."""
        names = [name for name, _ in self._fields_]
        for name, value in values.items():
            if name not in names:
                raise TypeError(f"{name} is no field of {type(self).__name__}: expected some of {', '.join(names[1:])}")
            setattr(self, name, value.encode() if isinstance(value, str) else value)

    def as_dict(self):
        return {name: getattr(self, name) for name, _ in self._fields_}


class penstock_options(Struct):
    _fields_ = [("size", c_size_t), ("source", c_char_p), ("socket", c_char_p), ("batch_size", c_uint32), ("image_size", c_uint32),
                ("train", c_int32), ("shuffle", c_int32), ("drop_last", c_int32), ("seed", c_uint64), ("epochs", c_uint64),
                ("prefetch", c_uint32), ("labels", c_char_p), ("on_broken", c_char_p), ("max_broken", c_double), ("group", c_char_p),
                ("wait_for", c_uint32), ("state", c_char_p), ("timeout_ms", c_int32), ("private_daemon", c_int32),
                ("daemon_memory", c_char_p), ("daemon_threads", c_uint32), ("decode", c_char_p), ("interpolation", c_char_p),
                ("share", c_char_p), ("rank", c_uint32), ("world_size", c_uint32), ("laggard", c_char_p), ("laggard_timeout_s", c_uint32),
                ("reconnect_ms", c_int32), ("pin_memory", c_int32), ("transforms", c_char_p), ("indices", c_char_p), ("restarts", c_uint32),
                ("interrupt", c_void_p), ("interrupt_data", c_void_p), ("image_sizes", c_char_p), ("sources", c_char_p),
                ("split", c_char_p), ("weights", c_char_p), ("epoch_length", c_uint64), ("repeats", c_uint32), ("views", c_uint32),
                ("dtype", c_char_p), ("layout", c_char_p), ("mean", POINTER(c_float)), ("std", POINTER(c_float)),
                ("salt", c_char_p), ("max_image_pixels", c_uint64), ("max_file_bytes", c_uint64)]


class penstock_stream_info(Struct):
    _fields_ = [("samples", c_uint64), ("batches", c_uint64), ("fingerprint", c_uint64), ("seed", c_uint64), ("epoch", c_uint64),
                ("batch", c_uint64), ("batch_size", c_uint32), ("height", c_uint32), ("width", c_uint32), ("channels", c_uint32),
                ("classes", c_uint32), ("slots", c_uint32), ("rank", c_uint32), ("world_size", c_uint32), ("shuffle", c_uint32),
                ("train", c_uint32), ("views", c_uint32), ("dtype", c_uint32), ("layout", c_uint32), ("label_type", c_uint32),
                ("label_width", c_uint32)]


class penstock_sample(Struct):
    _fields_ = [("index", c_uint64), ("label", c_int64), ("crop_x", c_uint32), ("crop_y", c_uint32), ("crop_w", c_uint32),
                ("crop_h", c_uint32), ("src_w", c_uint32), ("src_h", c_uint32), ("flags", c_uint32), ("view", c_uint32),
                ("position", c_uint64), ("reserved1", c_uint64)]


class penstock_batch(Struct):
    _fields_ = [("images", c_void_p), ("labels", POINTER(c_int64)), ("samples", POINTER(penstock_sample)), ("count", c_uint32),
                ("flags", c_uint32), ("epoch", c_uint64), ("batch", c_uint64), ("image_bytes", c_size_t), ("height", c_uint32),
                ("width", c_uint32), ("label_values", POINTER(c_float)), ("extent", c_uint32), ("slot", c_uint32), ("serial", c_uint64)]


class penstock_cuda_options(Struct):
    _fields_ = [("size", c_size_t), ("device", c_int32), ("prefetch", c_uint32), ("memory", c_uint32), ("dtype", c_uint32),
                ("layout", c_uint32), ("mean", c_float * 3), ("std", c_float * 3), ("flip", c_double), ("erase", c_double),
                ("erase_scale", c_double * 2), ("erase_ratio", c_double * 2), ("erase_value", c_float * 3), ("erase_random", c_int32),
                ("mixup", c_double), ("cutmix", c_double), ("mix", c_double), ("mix_switch", c_double), ("allocate", c_void_p),
                ("release", c_void_p), ("allocate_context", c_void_p), ("interrupt", c_void_p), ("interrupt_data", c_void_p)]


class penstock_cuda_row(Struct):
    _fields_ = [("position", c_uint64), ("flags", c_uint32), ("epoch", c_uint32), ("erase_x", c_uint16), ("erase_y", c_uint16),
                ("erase_w", c_uint16), ("erase_h", c_uint16), ("cut_x", c_uint16), ("cut_y", c_uint16), ("cut_w", c_uint16),
                ("cut_h", c_uint16), ("partner", c_uint32), ("blend", c_float), ("partner_blend", c_float), ("weight", c_float),
                ("partner_weight", c_float), ("reserved", c_uint32 * 3)]


class penstock_cuda_batch(Struct):
    _fields_ = [("images", c_void_p), ("labels", c_void_p), ("rows", c_void_p), ("ready", c_void_p), ("host_labels", POINTER(c_int64)),
                ("samples", POINTER(penstock_sample)), ("host_rows", POINTER(penstock_cuda_row)), ("payload", c_uint32),
                ("count", c_uint32), ("flags", c_uint32), ("epoch", c_uint64), ("batch", c_uint64), ("buffer", c_uint32),
                ("reserved", c_uint32), ("serial", c_uint64)]


class penstock_cuda_info(Struct):
    _fields_ = [("size", c_size_t), ("device", c_int32), ("driver", c_int32), ("capability", c_uint32), ("memory", c_uint32),
                ("buffers", c_uint32), ("reserved", c_uint32), ("device_bytes", c_uint64), ("pinned_bytes", c_uint64),
                ("output_bytes", c_uint64), ("name", c_char * 128), ("why", c_char * 256)]


class penstock_cuda_counters(Struct):
    _fields_ = [("size", c_size_t), ("batches", c_uint64), ("images", c_uint64), ("bytes", c_uint64), ("waited_ns", c_uint64),
                ("stalled_ns", c_uint64), ("waited_daemon_ns", c_uint64), ("waited_device_ns", c_uint64)]


STRUCTS = (penstock_options, penstock_stream_info, penstock_sample, penstock_batch, penstock_cuda_options, penstock_cuda_row,
           penstock_cuda_batch, penstock_cuda_info, penstock_cuda_counters)


def assertions():
    """C that compiles where the headers' structs are laid out as these."""
    lines = ['#include "penstock/cuda.h"', "#include <stddef.h>"]
    for struct in STRUCTS:
        name = f"struct {struct.__name__}"
        lines.append(f'_Static_assert(sizeof({name}) == {ctypes.sizeof(struct)}, "{struct.__name__}");')
        for field, _ in struct._fields_:
            place = getattr(struct, field)
            same = f"offsetof({name}, {field}) == {place.offset} && sizeof((({name} *)0)->{field}) == {place.size}"
            lines.append(f'_Static_assert({same}, "{struct.__name__}.{field}");')
    return "\n".join(lines) + "\n"


# ---- the functions ----

FUNCTIONS = {
    "penstock": {
        "penstock_error": (c_char_p,),
        "penstock_options_init_size": (None, POINTER(penstock_options), c_size_t),
        "penstock_stream_open": (c_int, POINTER(penstock_options), POINTER(c_void_p)),
        "penstock_stream_close": (None, c_void_p),
        "penstock_stream_info": (None, c_void_p, POINTER(penstock_stream_info)),
        "penstock_stream_next": (c_int, c_void_p, POINTER(penstock_batch), c_int32),
        "penstock_batch_release": (c_int, c_void_p, POINTER(penstock_batch)),
    },
    "penstock_cuda": {
        "penstock_cuda_options_init_size": (None, POINTER(penstock_cuda_options), c_size_t),
        "penstock_cuda_attach": (c_int, c_void_p, POINTER(penstock_cuda_options), POINTER(c_void_p)),
        "penstock_cuda_detach": (None, c_void_p),
        "penstock_cuda_next": (c_int, c_void_p, POINTER(penstock_cuda_batch), c_int32),
        "penstock_cuda_transform": (c_int, c_void_p, POINTER(penstock_cuda_batch), c_void_p, c_void_p),
        "penstock_cuda_targets": (c_int, c_void_p, POINTER(penstock_cuda_batch), c_uint32, c_float, c_void_p, c_void_p),
        "penstock_cuda_release": (c_int, c_void_p, POINTER(penstock_cuda_batch), c_void_p),
        "penstock_cuda_info": (c_int, c_void_p, POINTER(penstock_cuda_info)),
        "penstock_cuda_counters": (c_int, c_void_p, POINTER(penstock_cuda_counters)),
    },
}


class PenstockError(OSError):
    pass


class Library:
    """A library with its functions' types; `call` raises what they say went wrong."""

    def __init__(self, name):
        try:
            self.library = ctypes.CDLL(str(LIB / f"lib{name}.so.0"))
        except OSError as error:
            raise OSError(f"{error}: build penstock (cmake --preset release && cmake --build --preset release; libpenstock_cuda needs nvcc), "
                          "or name the folder of its libraries in PENSTOCK_LIB") from None
        for function, (result, *arguments) in FUNCTIONS[name].items():
            getattr(self.library, function).restype = result
            getattr(self.library, function).argtypes = arguments

    def __getattr__(self, name):
        return getattr(self.library, name)


_loaded = {}


def library(name="penstock"):
    if name not in _loaded:
        _loaded[name] = Library(name)
    return _loaded[name]


def check(result):
    if result < 0:
        sentence = library().penstock_error().decode(errors="replace")
        raise PenstockError(-result, f"{sentence} ({errno.errorcode.get(-result, result)})")
    return result


class Stream:
    """Batches in shared memory: (images, labels) as torch tensors that are valid until the next one is asked for."""

    def __init__(self, source, **options):
        self.library = library()
        self.options = penstock_options()
        self.library.penstock_options_init_size(byref(self.options), ctypes.sizeof(self.options))
        self.options.take({"source": str(source), **options})
        self.handle = c_void_p()
        check(self.library.penstock_stream_open(byref(self.options), byref(self.handle)))
        self.info = penstock_stream_info()
        self.library.penstock_stream_info(self.handle, byref(self.info))
        self.batch = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.library.penstock_stream_close(self.handle)
        self.handle = c_void_p()

    def __iter__(self):
        return self

    def release(self):
        if self.batch is not None:
            check(self.library.penstock_batch_release(self.handle, byref(self.batch)))
            self.batch = None

    def __next__(self):
        import torch
        self.release()
        batch = penstock_batch()
        if check(self.library.penstock_stream_next(self.handle, byref(batch), -1)) == END:
            raise StopIteration
        self.batch = batch
        shape = (batch.count, self.info.height, self.info.width, 3)
        raw = (ctypes.c_uint8 * (batch.count * batch.image_bytes)).from_address(batch.images)
        labels = (c_int64 * batch.count).from_address(ctypes.addressof(batch.labels.contents))
        images = torch.frombuffer(raw, dtype=torch.uint8).view(shape).permute(0, 3, 1, 2)
        return images, torch.frombuffer(labels, dtype=torch.int64)


class Feed:
    """A stream's batches on the device: (images, labels) as tensors of torch's own memory."""

    def __init__(self, stream, dtype=None, channels_last=True, device=0, **options):
        import torch
        self.torch, self.stream = torch, stream
        self.library = library("penstock_cuda")
        self.dtype = dtype or torch.float32
        self.format = torch.channels_last if channels_last else torch.contiguous_format
        self.device = torch.device("cuda", device)
        self.options = penstock_cuda_options()
        self.library.penstock_cuda_options_init_size(byref(self.options), ctypes.sizeof(self.options))
        self.options.device = device
        self.options.dtype = {torch.float32: FLOAT32, torch.float16: FLOAT16, torch.bfloat16: BFLOAT16}[self.dtype]
        self.options.layout = NHWC if channels_last else NCHW
        self.options.take(options)
        self.handle = c_void_p()
        check(self.library.penstock_cuda_attach(stream.handle, byref(self.options), byref(self.handle)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.library.penstock_cuda_detach(self.handle)
        self.handle = c_void_p()

    def __iter__(self):
        return self

    def info(self):
        info = penstock_cuda_info(size=ctypes.sizeof(penstock_cuda_info))
        check(self.library.penstock_cuda_info(self.handle, byref(info)))
        return info

    def counters(self):
        counters = penstock_cuda_counters(size=ctypes.sizeof(penstock_cuda_counters))
        check(self.library.penstock_cuda_counters(self.handle, byref(counters)))
        return counters

    def _labels(self, batch):
        """A copy of the batch's labels, made on the device in the current stream."""
        interface = {"shape": (batch.count,), "typestr": "<i8", "data": (batch.labels, False), "version": 3, "strides": None}
        lent = type("Lent", (), {"__cuda_array_interface__": interface})()
        return self.torch.as_tensor(lent, device=self.device).clone()

    def __next__(self):
        batch = penstock_cuda_batch()
        if check(self.library.penstock_cuda_next(self.handle, byref(batch), -1)) == END:
            raise StopIteration
        info = self.stream.info
        queue = c_void_p(self.torch.cuda.current_stream(self.device).cuda_stream)
        images = self.torch.empty((info.batch_size, 3, info.height, info.width), dtype=self.dtype, device=self.device,
                                  memory_format=self.format)
        # transform has the queue wait for the copy, so the labels may be read in it as well.
        check(self.library.penstock_cuda_transform(self.handle, byref(batch), images.data_ptr(), queue))
        labels = self._labels(batch)
        count = batch.count
        check(self.library.penstock_cuda_release(self.handle, byref(batch), queue))
        return images[:count], labels


if __name__ == "__main__":
    if sys.argv[1:] != ["--assertions"]:
        sys.exit("usage: penstock_ctypes.py --assertions")
    sys.stdout.write(assertions())

#!/usr/bin/env python3
"""penstock_ctypes.Feed against the fake driver of tests/cuda, with as much of torch as it uses: made-up, for this test alone.

    fake_torch.py SOURCE BATCHES        PENSTOCK_SOCKET, PENSTOCK_LIB; LD_LIBRARY_PATH: the fake libcuda.so.1

Images and labels must be those of a second stream on the host."""
import array
import ctypes
import sys
import types
from ctypes import byref, c_size_t, c_uint64, c_void_p

import penstock_ctypes as penstock

cuda = ctypes.CDLL("libcuda.so.1")
cuda.cuMemAlloc_v2.argtypes = [ctypes.POINTER(c_uint64), c_size_t]
cuda.cuMemFree_v2.argtypes = [c_uint64]
cuda.cuMemcpyDtoH_v2.argtypes = [c_void_p, c_uint64, c_size_t]
FLOAT32 = "float32"


def must(result):
    assert result == 0, f"the driver returned {result}"


def copy_back(address, kind, count):
    values = array.array(kind, bytes(count * array.array(kind).itemsize))
    must(cuda.cuMemcpyDtoH_v2(values.buffer_info()[0], address, count * values.itemsize))
    return values


class Images:
    """What torch.empty gives, and its first rows."""

    def __init__(self, shape, **_):
        self.count = shape[0] * shape[1] * shape[2] * shape[3]
        address = c_uint64()
        must(cuda.cuMemAlloc_v2(byref(address), 4 * self.count))
        self.address = address.value

    def data_ptr(self):
        return self.address

    def __getitem__(self, rows):
        return self

    def free(self):
        values = copy_back(self.address, "f", self.count)
        must(cuda.cuMemFree_v2(self.address))
        return values


class Lent:
    """What torch.as_tensor gives of the labels."""

    def __init__(self, lent, device):
        self.interface = lent.__cuda_array_interface__
        assert self.interface["typestr"] == "<i8"

    def clone(self):
        return copy_back(self.interface["data"][0], "q", self.interface["shape"][0])


def make_torch():
    queue = types.SimpleNamespace(cuda_stream=0)
    return types.SimpleNamespace(float32=FLOAT32, float16="float16", bfloat16="bfloat16", channels_last="nhwc", contiguous_format="nchw",
                                 device=lambda *name: name, empty=Images, as_tensor=Lent,
                                 cuda=types.SimpleNamespace(current_stream=lambda device: queue))


def host_batch(stream):
    """Bytes and labels of the host's next batch, and how many rows it has."""
    batch = penstock.penstock_batch()
    penstock.check(stream.library.penstock_stream_next(stream.handle, byref(batch), -1))
    images = ctypes.string_at(batch.images, batch.count * batch.image_bytes)
    labels = batch.labels[:batch.count]
    penstock.check(stream.library.penstock_batch_release(stream.handle, byref(batch)))
    return images, labels


def compare(images, labels, host):
    expected, expected_labels = host
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    assert list(labels) == expected_labels, "labels differ"
    values = images.free()
    for at in range(0, len(expected), 997):
        wanted = (expected[at] / 255 - mean[at % 3]) / std[at % 3]
        assert abs(values[at] - wanted) < 1e-5, f"value {at} is {values[at]}, not {wanted}"


def refuses_other_names(source):
    try:
        penstock.Stream(source, batch_sise=16)
    except TypeError as error:
        assert "batch_sise is no field" in str(error) and "batch_size" in str(error), error
    else:
        raise AssertionError("an option that does not exist was taken")


def main():
    source, batches = sys.argv[1], int(sys.argv[2])
    context = c_void_p()
    must(cuda.cuInit(0))
    must(cuda.cuDevicePrimaryCtxRetain(byref(context), 0))
    must(cuda.cuCtxPushCurrent_v2(context))
    sys.modules["torch"] = make_torch()
    options = {"batch_size": 16, "image_size": 96, "private_daemon": 0, "epochs": 2}
    refuses_other_names(source)
    with penstock.Stream(source, pin_memory=1, **options) as stream, penstock.Stream(source, **options) as host:
        with penstock.Feed(stream, prefetch=3) as feed:
            for _, (images, labels) in zip(range(batches), feed):
                compare(images, labels, host_batch(host))
            info, counters = feed.info(), feed.counters()
            assert info.buffers == 4 and info.output_bytes == 16 * 96 * 96 * 3 * 4 and info.memory in (1, 2), info.as_dict()
            assert counters.batches >= batches and counters.images >= 16 * batches, counters.as_dict()
            for images, _ in feed:
                images.free()
        try:
            penstock.Stream(source + "/nothing", **options)
        except penstock.PenstockError as error:
            assert "nothing" in str(error) and "ENOENT" in str(error), error
        else:
            raise AssertionError("a source that is not there was opened")
    must(cuda.cuCtxPopCurrent_v2(byref(context)))
    must(cuda.cuDevicePrimaryCtxRelease_v2(0))
    print(f"{batches} batches as the host's; then to the end of the epochs")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The Python package's batches on a GPU, bit for bit those that it makes on the CPU.

    reader.py SOURCE     PYTHONPATH: BUILD/python; PENSTOCK_SOCKET: the daemon

Both ways that penstock.cuda knows, through libpenstock_cuda and through torch; each type and layout; an evaluation whose last batch is
short, twice. In a CUDA stream of its own, behind work that keeps it busy, so that whatever is not ordered comes too early; all tensors are
kept, and looked at when the last one is there."""
import sys
import time

import numpy as np
import torch
from penstock import _penstock, cuda

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIDE, BATCH, EPOCHS = 96, 64, 2
BUSY = 2048  # side of the matrices that are multiplied in front of each batch


def stream(source):
    return _penstock.Stream({"source": source, "batch_size": BATCH, "image_size": SIDE, "train": 0, "epochs": EPOCHS, "pin_memory": 1})


def of_the_cpu(source, dtype, channels_last):
    """Images, in the order of memory, and labels."""
    converter = _penstock.Converter(dtype, channels_last, MEAN, STD)
    pool = _penstock.Pool(BATCH * converter.row_bytes(SIDE, SIDE))
    shape = (SIDE, SIDE, 3) if channels_last else (3, SIDE, SIDE)
    opened = stream(source)
    while True:
        batch = opened.next(60000)
        if batch is None:
            break
        block = pool.take()
        converter.images(batch, block)
        images = torch.frombuffer(block, dtype=getattr(torch, dtype)).view(BATCH, *shape)[:batch.count]
        yield images.permute(0, 3, 1, 2) if channels_last else images, np.array(np.asarray(batch.view("labels"))).tolist()
        batch.release()
    opened.close()


def of_the_gpu(reader, queue):
    given = []
    left = torch.rand(BUSY, BUSY, device="cuda")
    queue.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(queue):
        while True:
            for _ in range(4):
                left = left @ left
            batch = reader.next(60000)
            if batch is None:
                break
            given.append(batch[:2])
    queue.synchronize()
    return given


def main():
    source = sys.argv[1]
    queue, begun, batches = torch.cuda.Stream(), time.monotonic(), 0
    ways = {"torch": cuda._through_torch}
    if hasattr(_penstock, "Cuda"):
        ways["libpenstock_cuda"] = cuda._Attached
    for dtype in ("float32", "float16", "bfloat16", "uint8"):
        for channels_last in (True, False):
            wanted = list(of_the_cpu(source, dtype, channels_last))
            order = torch.channels_last if channels_last else torch.contiguous_format
            for name, way in ways.items():
                reader = way(stream(source), cuda.Tensors(torch.device("cuda", 0), dtype, channels_last), MEAN, STD)
                given = of_the_gpu(reader, queue)
                reader.close()
                where = f"{name}, {dtype}, {'channels_last' if channels_last else 'channels first'}"
                if len(given) != len(wanted):
                    sys.exit(f"{where}: {len(given)} batches, expected {len(wanted)}")
                for i, ((images, labels), (expected, expected_labels)) in enumerate(zip(given, wanted)):
                    if not images.is_contiguous(memory_format=order):
                        sys.exit(f"{where}: batch {i}: strides {images.stride()}")
                    if not torch.equal(images.cpu(), expected) or labels.tolist() != expected_labels:
                        sys.exit(f"{where}: batch {i} differs from the CPU's")
                batches += len(given)
    print(f"{batches} batches, by {' and by '.join(ways)}, as on the CPU, in {time.monotonic() - begun:.1f} s")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes idx files as the sites of MNIST and EMNIST ship them, and what torchvision finds in them.

Run by hand, with a Python that has torchvision.
"""

import gzip
import json
import struct
import sys
import zlib
from pathlib import Path

import numpy
from torchvision import datasets

HERE = Path(__file__).parent


def images(count, rows, columns, seed):
    return numpy.array([[[(seed + n * 50 + y * 9 + x * 3) % 256 for x in range(columns)] for y in range(rows)]
                        for n in range(count)], dtype=numpy.uint8)


def write(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes())


def samples_of(found):
    result = []
    for number, (picture, label) in enumerate(found):
        pixels = numpy.asarray(picture)
        data = b"P5 %5d %5d  255\n" % (pixels.shape[1], pixels.shape[0]) + pixels.tobytes()
        result.append({"key": str(number), "size": len(data), "crc32": zlib.crc32(data), "label": None if label is None else int(label)})
    return result


def main():
    raw = HERE / "MNIST" / "raw"
    train, test = images(4, 28, 28, 1), images(2, 28, 28, 7)
    write(raw / "train-images-idx3-ubyte", train)
    write(raw / "train-labels-idx1-ubyte", numpy.array([5, 0, 4, 9], dtype=numpy.uint8))
    write(raw / "t10k-images-idx3-ubyte", test)
    write(raw / "t10k-labels-idx1-ubyte", numpy.array([7, 2], dtype=numpy.uint8))
    letters = HERE / "EMNIST" / "raw"
    for split, part, count in (("train", "train", 3), ("test", "test", 1)):
        write(letters / f"emnist-letters-{part}-images-idx3-ubyte", images(count, 28, 28, 90))
        write(letters / f"emnist-letters-{part}-labels-idx1-ubyte", numpy.arange(1, count + 1, dtype=numpy.uint8))
    other = HERE / "other"
    write(other / "train-images.idx3-ubyte", images(3, 5, 9, 3))
    write(other / "train-labels.idx1-ubyte", numpy.array([255, 0, 1], dtype=numpy.uint8))
    bad = HERE / "bad"
    write(bad / "alone-images-idx3-ubyte", images(1, 4, 4, 0))
    write(bad / "fewer-images-idx3-ubyte", images(3, 4, 4, 0))
    write(bad / "fewer-labels-idx1-ubyte", numpy.array([1, 2], dtype=numpy.uint8))
    write(bad / "volumes-images-idx4-ubyte", numpy.zeros((1, 2, 2, 2), dtype=numpy.uint8))
    write(bad / "cut-images-idx3-ubyte", images(3, 4, 4, 0))
    (bad / "cut-images-idx3-ubyte").write_bytes((bad / "cut-images-idx3-ubyte").read_bytes()[:-1])
    (bad / "flat-images-idx3-ubyte").write_bytes(struct.pack(">HBBIII", 0, 8, 3, 7, 0, 28))
    (bad / "packed").mkdir(exist_ok=True)
    (bad / "packed" / "train-images-idx3-ubyte.gz").write_bytes(
        gzip.compress((raw / "train-images-idx3-ubyte").read_bytes()[:64], mtime=0))

    datasets.MNIST._check_exists = datasets.EMNIST._check_exists = lambda self: True
    mnist = {part: list(datasets.MNIST(str(HERE), train=part == "train")) for part in ("train", "test")}
    emnist = list(datasets.EMNIST(str(HERE), split="letters", train=True))
    expected = {
        "MNIST/raw": {"samples": samples_of(mnist["train"])},
        "MNIST/raw/t10k-images-idx3-ubyte": {"samples": samples_of(mnist["test"])},
        "MNIST/raw/{train,t10k}-images-idx3-ubyte": {"samples": samples_of(mnist["train"]) + samples_of(mnist["test"])},
        "EMNIST/raw/emnist-letters-train-images-idx3-ubyte": {"samples": samples_of(emnist)},
        "other": {"samples": samples_of(zip(images(3, 5, 9, 3), (255, 0, 1)))},
        "bad/alone-images-idx3-ubyte #none": {"options": {"labels": "none"}, "samples": samples_of(zip(images(1, 4, 4, 0), [None]))},
        "bad/alone-images-idx3-ubyte": {"fault": "alone-labels-idx1-ubyte, which does not exist: copy that file there"},
        "bad/fewer-images-idx3-ubyte": {"fault": "byte 4: the header says 2 labels, and the file has 10 bytes"},
        "bad/volumes-images-idx4-ubyte": {"fault": "byte 0: found type 8 and 4 dimensions, expected those of images"},
        "bad/cut-images-idx3-ubyte": {"fault": "byte 4: the header says 3 images of 4 times 4, which have 48 bytes, but 47 follow"},
        "bad/flat-images-idx3-ubyte": {"fault": "byte 8: found images of 0 rows and 28 columns"},
        "bad/packed": {"fault": "(gunzip -k train-images-idx3-ubyte.gz)"},
        "MNIST/raw/train-labels-idx1-ubyte": {"fault": "an idx file of one dimension, which holds labels"},
        "MNIST/raw #column": {"options": {"label_column": "label"}, "fault": "it has no columns: leave out label_column"},
    }
    for one in expected.values():
        if "samples" in one:
            one["classes"] = None
    (HERE / "expected.json").write_text(json.dumps(expected, separators=(",", ":")).replace('},{"key"', '},\n{"key"').replace('},"', '},\n"') + "\n")


if __name__ == "__main__":
    sys.exit(main())

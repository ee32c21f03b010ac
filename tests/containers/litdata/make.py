#!/usr/bin/env python3
"""Writes the fixtures of LitData with its own writer, and what its StreamingDataset reads from them.

    make.py      by hand, with litdata
"""

import io
import json
import os
import shutil
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import torch
from litdata import StreamingDataset
from litdata.streaming import item_loader
from litdata.streaming.writer import BinaryWriter
from litdata.types import Jpeg
from litdata.types import Image as AnyImage
from litdata.utilities.encryption import FernetEncryption
from PIL import Image

HERE = Path(__file__).parent


def pixels(seed, shape=(6, 8, 3)):
    return np.random.default_rng(seed).integers(0, 255, shape, np.uint8)


def encoded(seed, kind="JPEG"):
    out = io.BytesIO()
    Image.fromarray(pixels(seed)).resize((16, 12)).save(out, kind)
    return out.getvalue()


def pnm(array):
    """The file that penstock makes of pixels without a header: daemon/unpack/unpack_pixels.c."""
    array = np.asarray(array)
    gray = array.ndim == 2 or array.shape[2] == 1
    return b"P%c %5d %5d  255\n" % (b"5" if gray else b"6", array.shape[1], array.shape[0]) + array.tobytes()


def write(name, rows, **options):
    shutil.rmtree(HERE / name, ignore_errors=True)
    (HERE / name).mkdir()
    writer = BinaryWriter(str(HERE / name), **{"chunk_size": 2, **options})
    for number, row in enumerate(rows):
        writer[number] = row
    writer.done()
    writer.merge()


class PyTreeLoader(item_loader.PyTreeLoader):
    """Returns the leaves as they are stored. The name is that in index.json."""

    def deserialize(self, raw_item_data):
        raw = bytes(raw_item_data)
        count = len(self._config["data_format"])
        sizes = struct.unpack_from(f"<{count}I", raw)
        at, leaves = 4 * count, []
        for size in sizes:
            leaves.append(raw[at:at + size])
            at += size
        return leaves


def read(name, image, label=None, chunk=2):
    """Samples in the order of StreamingDataset(shuffle=False); `image` and `label` are numbers of leaves."""
    shutil.rmtree("/tmp/penstock-make-litdata", ignore_errors=True)
    shutil.copytree(HERE / name, "/tmp/penstock-make-litdata")
    stored = list(StreamingDataset("/tmp/penstock-make-litdata", shuffle=False, item_loader=PyTreeLoader(batch_decode=False)))
    values = list(StreamingDataset("/tmp/penstock-make-litdata", shuffle=False))
    formats = json.loads((HERE / name / "index.json").read_text())["config"]["data_format"]
    samples = []
    for number, (leaves, row) in enumerate(zip(stored, values, strict=True)):
        flat = torch.utils._pytree.tree_leaves(row)
        data = leaves[image]
        if formats[image] in ("pil", "tensor", "numpy"):
            array = np.asarray(flat[image])
            if array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3):
                array = array.transpose(1, 2, 0)
            data = pnm(array)
        sample = {"key": str(number % chunk), "size": len(data), "crc32": zlib.crc32(data), "label": None}
        if label is not None:
            value = flat[label]
            whole = isinstance(value, (bool, int))
            sample["label"] = int(value) if whole else [float(f"{v:.9g}") for v in np.float32(value).reshape(-1)]
        samples.append(sample)
    return samples


def main():
    expected = {}
    write("dict", [{"image": Jpeg(bytes=encoded(i)), "class": i * 3, "meta": {"id": i, "weight": i / 4, "flag": i == 1}} for i in range(5)])
    samples = read("dict", 0, 1)
    expected["dict"] = {"classes": None, "samples": samples, "type": "class"}
    expected["dict/chunk-0-1.bin"] = {"classes": None, "samples": samples[2:4], "type": "class"}
    for number, name in enumerate(("id", "weight", "flag")):
        expected[f"dict #{name}"] = {"classes": None, "samples": read("dict", 0, 2 + number), "options": {"label_column": f"meta/{name}"}}
    expected["dict #none"] = {"classes": None, "samples": [{**s, "label": None} for s in samples], "options": {"labels": "none"}}
    expected["dict #missing"] = {"options": {"label_column": "id"},
                                 "fault": "has no column id (label_column): its columns are image (jpeg), class (int), meta/id (int)"}

    write("tuple", [(encoded(10 + i, "PNG"), i, {"note": "n", "list": [0.5, 1.5]}) for i in range(3)])
    expected["tuple"] = {"classes": None, "samples": read("tuple", 0)}
    expected["tuple #1"] = {"classes": None, "samples": read("tuple", 0, 1), "options": {"label_column": "1"}, "type": "class"}
    write("pair", [(Image.fromarray(pixels(20 + i)), 7 - i) for i in range(3)])
    expected["pair"] = {"classes": None, "samples": read("pair", 0, 1), "type": "class"}
    write("leaf", [AnyImage(bytes=encoded(30 + i), path="x.jpg") for i in range(3)])
    expected["leaf"] = {"classes": None, "samples": read("leaf", 0)}

    write("arrays", [{"chw": torch.from_numpy(pixels(40 + i, (3, 5, 4))), "hwc": pixels(50 + i), "gray": Image.fromarray(pixels(60 + i)[:, :, 0]),
                      "scores": torch.tensor([0.25, i]), "matrix": np.array([[1, i]], np.int32), "flat": np.array([3, i], np.uint8)}
                     for i in range(2)])
    for number, name in enumerate(("chw", "hwc", "gray")):
        for of, label in enumerate(("scores", "matrix", "flat")):
            expected[f"arrays #{name}-{label}"] = {
                "classes": None, "samples": read("arrays", number, 3 + of), "type": "float",
                "options": {"image_column": name, "label_column": label}}
    expected["arrays #flat"] = {"options": {"image_column": "flat"}, "fault": "is an array of another type or shape"}

    write("arrow", [{"image": encoded(70 + i), "class": i} for i in range(2)])
    expected["arrow"] = {"fault": "its rows are stored as Arrow"}
    row = [{"image": Jpeg(bytes=encoded(80)), "class": 1}]
    for level, fault in (("chunk", "chunk-0-0.zstd.bin is compressed as a whole (zstd)"), ("batch", "(compression_level batch)"),
                         ("sample", "(compression_level sample)")):
        write(f"zstd-{level}", row, compression="zstd", compression_level=level)
        expected[f"zstd-{level}"] = {"fault": fault}
    expected["zstd-batch/chunk-0-0.bin"] = {"fault": "compression_level batch"}
    write("both", row, compression="zstd", compression_level="chunk")
    write("plain", row)
    shutil.copy(HERE / "plain/chunk-0-0.bin", HERE / "both/chunk-0-0.bin")
    expected["both"] = {"classes": None, "samples": read("plain", 0, 1), "type": "class"}
    write("secret", row, encryption=FernetEncryption(password="x", level="chunk"))
    expected["secret"] = {"fault": "its chunks are encrypted"}

    chunk = (HERE / "pair/chunk-0-0.bin").read_bytes()
    text = (HERE / "pair/index.json").read_text()
    changes = {
        "cut": (chunk[:-1], text, "but index.json beside it says"),
        "count": (b"\1" + chunk[1:], text, "byte 0: it has 1 samples, but index.json beside it says 2"),
        "json": (chunk, text[:-99], "index.json: line 1, column"),
        "escape": (chunk, text.replace("chunk-0-0.bin", "../pair/chunk-0-0.bin"), "expected the name of a file in this folder"),
        "gone": (chunk, text.replace("chunk-0-0.bin", "chunk-9-0.bin"), "names chunk-9-0.bin, which does not exist"),
        "tokens": (chunk, text.replace("PyTreeLoader", "TokensLoader"), "its items are those of TokensLoader"),
        "spec": (chunk, text.replace('["pil", "int"]', '["pil"]'), "expected data_format and data_spec of the same number of leaves"),
        "kinds": (chunk, text.replace('["pil", "int"]', '["int", "int"]'), "no column of images"),
        "order": (chunk[:8] + b"\xff\xff\xff\x7f" + chunk[12:], text, "row 0 ends at byte"),
        "size": (chunk[:16] + b"\xff" + chunk[17:], text, "row 0: its bytes, and those of its columns"),
        "begin": (chunk[:4] + b"\x11" + chunk[5:], text, "its first item begins at byte 17, expected 16"),
    }
    for name, (data, index, fault) in changes.items():
        assert data != chunk or index != text, name
        shutil.rmtree(HERE / name, ignore_errors=True)
        (HERE / name).mkdir()
        (HERE / name / "chunk-0-0.bin").write_bytes(data)
        (HERE / name / "chunk-0-1.bin").write_bytes((HERE / "pair/chunk-0-1.bin").read_bytes())
        (HERE / name / "index.json").write_text(index)
        expected[name] = {"fault": fault}
    (HERE / "alone").mkdir(exist_ok=True)
    (HERE / "alone/chunk-0-0.bin").write_bytes(chunk)
    expected["alone/chunk-0-0.bin"] = {"fault": "index.json, which says what its items hold, is not beside it"}
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    os.sync()


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Writes the fixtures of LitData with its own writer, and what its StreamingDataset reads from them.

    make.py      by hand, with litdata
"""

import functools
import io
import json
import operator
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


def read_arrow(name, image, label=None, chunk=2):
    """The same of rows that are stored as Arrow: `image` and `label` are the keys that lead to them."""
    shutil.rmtree("/tmp/penstock-make-litdata", ignore_errors=True)
    shutil.copytree(HERE / name, "/tmp/penstock-make-litdata")
    samples = []
    for number, row in enumerate(StreamingDataset("/tmp/penstock-make-litdata", shuffle=False)):
        data = functools.reduce(operator.getitem, image.split("/"), row)
        value = row[label] if label else None
        if isinstance(value, (float, list)):
            value = [float(f"{v:.9g}") for v in np.float32(value).reshape(-1)]
        samples.append({"key": str(number % chunk), "size": len(data), "crc32": zlib.crc32(data),
                        "label": int(value) if isinstance(value, bool) else value})
    return samples


def gray(seed):
    out = io.BytesIO()
    Image.fromarray(pixels(seed, (8, 8))).save(out, "JPEG", quality=1)
    return out.getvalue()


def small(seed):
    out = io.BytesIO()
    Image.fromarray(pixels(seed, (3, 4))).save(out, "PNG")
    return out.getvalue()


def arrow():
    """Rows of bytes, texts and numbers, which LitData stores as Arrow."""
    expected = {}
    write("arrow", [{"image": small(70 + i), "class": i, "even": i % 2 == 0, "weight": i / 4, "scores": [0.5, i + 0.25], "note": "x" * i,
                     "maybe": None if i == 1 else "y", "late": None if i == 0 else 1} for i in range(3)], chunk_size=3)
    expected["arrow"] = {"classes": None, "samples": read_arrow("arrow", "image", "class", 3), "type": "class"}
    for name in ("even", "weight", "scores"):
        expected[f"arrow #{name}"] = {"classes": None, "samples": read_arrow("arrow", "image", name, 3), "options": {"label_column": name}}
    expected["arrow #none"] = {"classes": None, "samples": read_arrow("arrow", "image", chunk=3), "options": {"labels": "none"}}
    expected["arrow #late"] = {"options": {"label_column": "late"}, "fault": "has a label, but the samples before it have none"}
    expected["arrow #note"] = {"options": {"label_column": "note"}, "fault": "holds values of type string, expected a number"}
    expected["arrow #null"] = {"options": {"image_column": "note"}, "fault": "holds values of type string, expected an image"}
    write("arrow-nest", [{"image": {"bytes": small(75 + i), "path": "x.jpg"}, "label": i, "tags": [{"a": i}]} for i in range(2)])
    expected["arrow-nest"] = {"classes": None, "samples": read_arrow("arrow-nest", "image/bytes", "label"), "type": "class"}
    expected["arrow-nest #asked"] = {**expected["arrow-nest"], "options": {"image_column": "image/bytes", "label_column": "label"}}
    expected["arrow-nest #tags"] = {"options": {"label_column": "tags"}, "fault": "its columns are image/bytes (binary), image/path (string)"}
    # Several batches, which LitData makes of 256 rows each.
    item_loader._DEFAULT_BATCH_ROWS = 2
    rows = [{"image": small(80 + i), "label": i * 7} for i in range(5)]
    write("arrow-batches", rows, chunk_size=5)
    expected["arrow-batches"] = {"classes": None, "samples": read_arrow("arrow-batches", "image", "label", 5), "type": "class"}
    # LitData compresses the buffers where images are a small part of the first row.
    write("arrow-zstd", [{**row, "text": "once upon a time " * 99, "scores": [1.5] * 9 + [row["label"] + 0.5]} for row in rows], chunk_size=5, compression="zstd")
    samples = read_arrow("arrow-zstd", "image", "label", 5)
    expected["arrow-zstd"] = {"classes": None, "samples": samples, "type": "class"}
    expected["arrow-zstd #scores"] = {"classes": None, "samples": read_arrow("arrow-zstd", "image", "scores", 5), "options": {"label_column": "scores"}}
    item_loader._DEFAULT_BATCH_ROWS = 256
    write("arrow-null", [{"image": small(79) if i == 0 else None, "label": i} for i in range(2)])
    expected["arrow-null"] = {"fault": "row 1 has no image (null in column image)"}
    return expected


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

    expected |= arrow()
    row = [{"image": Jpeg(bytes=encoded(80)), "class": 1}]
    write("zstd-chunk", row, compression="zstd", compression_level="chunk")
    expected["zstd-chunk"] = {"fault": "chunk-0-0.zstd.bin is compressed as a whole (zstd)"}
    rows = [{"image": Jpeg(bytes=gray(i)), "class": i, "scores": np.array([i, 0.5])} for i in range(3)]
    write("zstd-plain", rows, chunk_size=3)
    samples = read("zstd-plain", 0, 1, 3)
    scores = read("zstd-plain", 0, 2, 3)
    shutil.rmtree(HERE / "zstd-plain")
    # What LitData itself returns has no bytes of leaves: its own rows are compared with those of the chunk that is not compressed.
    for level in ("batch", "sample"):
        write(f"zstd-{level}", rows, chunk_size=3, compression="zstd", compression_level=level, **({"compression_batch_size": 2} if level == "batch" else {}))
        shutil.rmtree("/tmp/penstock-make-litdata", ignore_errors=True)
        shutil.copytree(HERE / f"zstd-{level}", "/tmp/penstock-make-litdata")
        assert [int(row["class"]) for row in StreamingDataset("/tmp/penstock-make-litdata", shuffle=False)] == list(range(3))
        expected[f"zstd-{level}"] = {"classes": None, "samples": samples, "type": "class"}
        expected[f"zstd-{level} #scores"] = {"classes": None, "samples": scores, "options": {"label_column": "scores"}}
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
    framed, text = (HERE / "zstd-batch/chunk-0-0.bin").read_bytes(), (HERE / "zstd-batch/index.json").read_text()
    listed = 24 + 4 * 4
    changes = {
        "chunk-version": (framed[:8] + b"\2" + framed[9:], "compressed in version 2 with flags 0"),
        "chunk-first": (framed[:listed] + b"\1" + framed[listed + 1:], "row 0: its frame begins with another item"),
        "chunk-place": (framed[:listed + 11] + b"\1" + framed[listed + 12:], "compressed bytes are not in the file"),
        "chunk-whole": (framed[:listed + 22] + b"\1" + framed[listed + 23:], "its frame has another size than its items"),
        "chunk-bytes": (framed[:-20] + b"\xff" * 20, "compressed items"),
        "chunk-items": (framed[:15] + b"\x7f" + framed[16:], "cannot hold"),
    }
    (HERE / "frames").mkdir(exist_ok=True)
    (HERE / "frames/index.json").write_text(text)
    for name, (data, fault) in changes.items():
        (HERE / f"frames/{name}.bin").write_bytes(data)
        expected[f"frames/{name}.bin"] = {"fault": fault}
    (HERE / "alone").mkdir(exist_ok=True)
    (HERE / "alone/chunk-0-0.bin").write_bytes(chunk)
    expected["alone/chunk-0-0.bin"] = {"fault": "index.json, which says what its items hold, is not beside it"}
    entries = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in expected.items()]
    (HERE / "expected.json").write_text("{" + ",\n".join(entries) + "}\n")
    os.sync()


if __name__ == "__main__":
    sys.exit(main())

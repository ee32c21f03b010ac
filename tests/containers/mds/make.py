#!/usr/bin/env python3
"""Writes the fixtures of MDS with mosaicml-streaming's MDSWriter, and what its StreamingDataset reads from them.

    make.py      by hand, with mosaicml-streaming
"""

import io
import json
import shutil
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
from PIL import Image
from streaming import MDSWriter, StreamingDataset
from streaming.base.util import merge_index

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


def write(name, columns, rows, **options):
    shutil.rmtree(HERE / name, ignore_errors=True)
    with MDSWriter(out=str(HERE / name), columns=columns, **options) as writer:
        for row in rows:
            writer.write(row)


def read(name, image, label=None, offset=0, of=lambda row: row):
    """What StreamingDataset finds in its own order. The bytes are those that decoding begins with."""
    dataset = StreamingDataset(local=str(HERE / name), shuffle=False, batch_size=1, allow_unsafe_types=True)
    samples = []
    numbers = [dataset.spanner[i] for i in range(dataset.num_samples)]
    # With one worker and without shuffling, the order is that of the shards.
    for (shard, within), row in zip(numbers, dataset, strict=True):
        column = dataset.shards[shard]
        raw = column.get_sample_data(within)
        value = row[image]
        if isinstance(value, bytes):
            data = value
        elif getattr(value, "format", None):
            data = raw_column(column, raw, image)
        else:
            array = np.asarray(value)
            if array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3):
                array = array.transpose(1, 2, 0)
            data = pnm(array)
        sample = {"key": str(within), "size": len(data), "crc32": zlib.crc32(data), "label": None}
        if label:
            value = row[label]
            whole = isinstance(value, (int, np.integer))
            sample["label"] = int(value) + offset if whole else [float(f"{v:.9g}") for v in np.float32(value).reshape(-1)]
        samples.append(sample)
    return samples


def raw_column(shard, raw, name):
    sizes, at = [], 0
    for size in shard.column_sizes:
        if not size:
            size, = struct.unpack_from("<I", raw, at)
            at += 4
        sizes.append(size)
    for column, size in zip(shard.column_names, sizes):
        if column == name:
            return raw[at:at + size]
        at += size
    raise KeyError(name)


def main():
    expected = {}
    rows = [{"image": Image.open(io.BytesIO(encoded(i))), "class": i % 3, "note": "n" * i, "extra": {"a": i}} for i in range(7)]
    write("jpeg", {"image": "jpeg", "class": "int", "note": "str", "extra": "pkl"}, rows, size_limit=1800)
    assert len(list((HERE / "jpeg").glob("*.mds"))) > 2
    samples = read("jpeg", "image", "class")
    expected["jpeg"] = {"classes": None, "samples": samples, "type": "class"}
    expected["jpeg/shard.00000.mds"] = {"classes": None, "type": "class",
                                        "samples": samples[:next(i for i, s in enumerate(samples[1:], 1) if s["key"] == "0")]}
    expected["jpeg #offset"] = {"classes": None, "samples": read("jpeg", "image", "class", 4), "options": {"label_offset": 4}}
    expected["jpeg #none"] = {"classes": None, "samples": [{**s, "label": None} for s in samples], "options": {"labels": "none"}}
    expected["jpeg #missing"] = {"options": {"image_column": "img"},
                                 "fault": "has no column img (image_column): its columns are class (int), extra (pkl), image (jpeg)"}
    expected["jpeg #type"] = {"options": {"image_column": "extra"}, "fault": "holds values of type pkl, expected an image"}
    expected["jpeg #text"] = {"options": {"label_column": "note"}, "fault": "holds values of type str, expected a number"}
    expected["jpeg #negative"] = {"options": {"label_offset": -1}, "fault": "correct label_offset"}

    types = {"u8": "uint8", "i32": "int32", "f16": "float16", "f32": "float32", "f64": "float64", "s": "str_int",
             "any": "ndarray", "typed": "ndarray:float32", "fixed": "ndarray:int16:3"}
    rows = [{"b": encoded(20 + i, "PNG"), "u8": i, "i32": i + 70000, "f16": np.float16(i / 4), "f32": np.float32(i / 3), "f64": i / 7,
             "s": i * 11, "any": np.array([[i, 2], [3, 4]], np.int64), "typed": np.array([0.5, i], np.float32),
             "fixed": np.array([i, -1, 300], np.int16)} for i in range(2)]
    write("types", {"b": "bytes", **types}, rows)
    for name in types:
        options = {"label_column": name}
        expected[f"types #{name}"] = {"classes": None, "samples": read("types", "b", name), "options": options}
    expected["types #none"] = {"classes": None, "samples": read("types", "b")}

    rows = [{"p": Image.fromarray(pixels(40 + i)), "g": Image.fromarray(pixels(50 + i)[:, :, 0]), "hwc": pixels(60 + i), "hw": pixels(70 + i)[:, :, 0].copy(),
             "chw": pixels(80 + i, (3, 5, 4)), "a": Image.fromarray(pixels(90, (4, 4, 4)), "RGBA")} for i in range(2)]
    write("pixels", {"p": "pil", "g": "pil", "hwc": "ndarray", "hw": "ndarray:uint8", "chw": "ndarray:uint8:3,5,4", "a": "pil"}, rows)
    for name in ("p", "g", "hwc", "hw", "chw"):
        expected[f"pixels #{name}"] = {"classes": None, "samples": read("pixels", name), "options": {"image_column": name}}
    expected["pixels #a"] = {"options": {"image_column": "a"}, "fault": "has the mode RGBA: expected RGB or gray pixels"}
    expected["pixels"] = {"fault": "has several columns of images: say which column is the image"}

    for i in range(2):
        write(f"merged/{i}", {"image": "png", "y": "uint16"},
              [{"image": Image.fromarray(pixels(100 + 2 * i + k)), "y": 2 * i + k} for k in range(2)])
    merge_index(str(HERE / "merged"))
    expected["merged"] = {"classes": None, "samples": read("merged", "image", "y"), "type": "class"}

    write("zstd", {"image": "jpeg", "label": "int"}, [{"image": Image.fromarray(pixels(110)), "label": 1}], compression="zstd:7")
    expected["zstd"] = {"fault": "shard.00000.mds.zstd is compressed as a whole (zstd:7)"}
    shutil.rmtree(HERE / "both", ignore_errors=True)
    shutil.copytree(HERE / "zstd", HERE / "both")
    dataset = StreamingDataset(local=str(HERE / "both"), shuffle=False, batch_size=1, keep_zip=True)
    assert len(list(dataset)) == 1 and (HERE / "both/shard.00000.mds").exists()
    expected["both"] = {"classes": None, "samples": read("both", "image", "label"), "type": "class"}

    shard = (HERE / "merged/0/shard.00000.mds").read_bytes()
    index = (HERE / "merged/0/index.json").read_text()
    changes = {
        "cut": (shard[:-1], index, "has %d bytes, but index.json beside it says %d" % (len(shard) - 1, len(shard))),
        "count": (b"\1" + shard[1:], index, "byte 0: it has 1 samples, but index.json beside it says 2"),
        "json": (shard, index[:-9], "index.json: line 1, column"),
        "escape": (shard, index.replace("shard.00000.mds", "../merged/0/shard.00000.mds"), "expected the name of a file in this folder"),
        "gone": (shard, index.replace("shard.00000.mds", "shard.00001.mds"), "names shard.00001.mds, which does not exist"),
        "format": (shard, index.replace('"mds"', '"json"'), "only mds of version 2 is read"),
    }
    for name, (data, text, fault) in changes.items():
        shutil.rmtree(HERE / name, ignore_errors=True)
        (HERE / name).mkdir()
        (HERE / name / "shard.00000.mds").write_bytes(data)
        (HERE / name / "index.json").write_text(text)
        expected[name] = {"fault": fault}
    count, first, second, last = struct.unpack_from("<4I", shard)
    files = {
        "alone-cut.mds": (shard[:-1], "its last item ends at byte"),
        "order.mds": (struct.pack("<4I", count, first, last + 1, last) + shard[16:], "row 0 ends at byte"),
        "back.mds": (struct.pack("<4I", count, first, first - 1, last) + shard[16:], "the end of its bytes, which must follow"),
        "begin.mds": (struct.pack("<4I", count, 3, second, last) + shard[16:], "its first item begins within its table of offsets"),
        "size.mds": (shard[:first] + b"\xff\xff\xff\x7f" + shard[first + 4:], "row 0: its bytes, and those of its columns"),
        "columns.mds": (shard.replace(b'"column_sizes": [null, 2]', b'"column_sizes": [null, 4]'), "its description of columns"),
        "text.mds": (shard.replace(b'{"column', b'["column'), "expected a description of its columns in JSON"),
        "huge.mds": (struct.pack("<I", 0xffffffff) + shard[4:], "its first item begins within its table of offsets"),
        "tiny.mds": (b"\1\0\0", "the head of a shard needs 8 bytes"),
    }
    for name, (data, fault) in files.items():
        assert data != shard, name
        (HERE / name).write_bytes(data)
        expected[name] = {"fault": fault}
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
